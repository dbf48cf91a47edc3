// Templates for models whose files bring none, written from the families' published formats.
#include "chat/chat_template.h"

namespace krafla {
namespace {

constexpr std::string_view kChatml = R"({%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})";

constexpr std::string_view kSmollm =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\\nYou are a helpful AI "
    "assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

constexpr std::string_view kLlama2 = R"({%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' -%}
{%- elif message.role == 'user' -%}
{{ (bos_token or '<s>') + '[INST] ' + ns.system + message.content.strip() + ' [/INST]' }}
{%- set ns.system = '' -%}
{%- else -%}
{{ ' ' + (message.content or '').strip() + ' ' + (eos_token or '</s>') }}
{%- endif -%}
{%- endfor -%})";

constexpr std::string_view kLlama3 = R"({{- bos_token or '<|begin_of_text|>' -}}
{%- if tools -%}
{{ '<|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n' }}
{%- if messages and messages[0].role == 'system' -%}{{ messages[0].content.strip() + '\n' }}{%- endif -%}
{{ 'Answer with a JSON object {"name": function name, "parameters": dictionary of arguments} to call one of these functions:\n' }}
{%- for tool in tools -%}{{ '\n' + tool | tojson(indent=4) + '\n' }}{%- endfor -%}
{{ '<|eot_id|>' }}
{%- endif -%}
{%- for message in messages -%}
{%- if not (tools and loop.first and message.role == 'system') -%}
{{ '<|start_header_id|>' + ('ipython' if message.role == 'tool' else message.role) + '<|end_header_id|>\n\n' }}
{%- for call in message.tool_calls or [] -%}
{{ '{"name": "' + call.function.name + '", "parameters": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}{{ '}' }}
{%- endfor -%}
{{ (message.content or '').strip() + '<|eot_id|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%})";

constexpr std::string_view kMistral = R"({{- bos_token or '<s>' -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content + '\n\n' -%}
{%- elif message.role == 'user' -%}
{%- if tools and loop.last -%}{{ '[AVAILABLE_TOOLS] ' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{%- endif -%}
{{ '[INST] ' + ns.system + message.content + '[/INST]' }}
{%- set ns.system = '' -%}
{%- elif message.role == 'tool' -%}
{{ '[TOOL_RESULTS] {"content": ' + message.content | tojson + '}[/TOOL_RESULTS]' }}
{%- elif message.tool_calls -%}
{{ '[TOOL_CALLS] [' }}
{%- for call in message.tool_calls -%}
{{ '{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}{{ '}' + ('' if loop.last else ', ') }}
{%- endfor -%}
{{ ']' + (eos_token or '</s>') }}
{%- else -%}
{{ ' ' + (message.content or '').strip() + (eos_token or '</s>') }}
{%- endif -%}
{%- endfor -%})";

constexpr std::string_view kGemma = R"({{- bos_token or '<bos>' -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content.strip() + '\n\n' -%}
{%- else -%}
{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\n' + ns.system + (message.content or '').strip() + '<end_of_turn>\n' }}
{%- set ns.system = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%})";

// Qwen 2.5 and 3: ChatML with calls as JSON between <tool_call> and </tool_call>.
constexpr std::string_view kQwen =
    R"({%- set system = messages[0].content if messages and messages[0].role == 'system' else none -%}
{%- if tools -%}
{{ '<|im_start|>system\n' + (system + '\n\n' if system else '') }}
{{- '# Tools\n\nYou may call one or more functions. Their signatures, within <tools></tools>:\n<tools>' }}
{%- for tool in tools -%}{{ '\n' + tool | tojson }}{%- endfor -%}
{{ '\n</tools>\n\nFor each call, return a JSON object within <tool_call></tool_call>:\n' }}
{{- '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- elif system is not none -%}
{{ '<|im_start|>system\n' + system + '<|im_end|>\n' }}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ ('' if loop.previtem and loop.previtem.role == 'tool' else '<|im_start|>user') + '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
{{- '' if loop.nextitem and loop.nextitem.role == 'tool' else '<|im_end|>\n' }}
{%- elif not (loop.first and message.role == 'system') -%}
{{ '<|im_start|>' + message.role + '\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] -%}
{{ ('' if loop.first and not message.content else '\n') + '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}{{ '}\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' + ('<think>\n\n</think>\n\n' if enable_thinking is defined and enable_thinking is false else '') }}
{%- endif -%})";

// Qwen 3.5: calls as XML, the answer begins inside or behind the thinking.
constexpr std::string_view kQwen35 =
    R"({%- set system = messages[0].content.strip() if messages and messages[0].role == 'system' else '' -%}
{%- if tools -%}
{{ '<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>' }}
{%- for tool in tools -%}{{ '\n' + tool | tojson }}{%- endfor -%}
{{ '\n</tools>\n\nTo call a function, reply in this form:\n\n<tool_call>\n<function=NAME>\n<parameter=NAME>\nvalue\n</parameter>\n</function>\n</tool_call>' }}
{{- ('\n\n' + system if system else '') + '<|im_end|>\n' }}
{%- elif system -%}
{{ '<|im_start|>system\n' + system + '<|im_end|>\n' }}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ ('' if loop.previtem and loop.previtem.role == 'tool' else '<|im_start|>user') + '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
{{- '' if loop.nextitem and loop.nextitem.role == 'tool' else '<|im_end|>\n' }}
{%- elif not (loop.first and message.role == 'system') -%}
{{ '<|im_start|>' + message.role + '\n' + (message.content or '').strip() }}
{%- for call in message.tool_calls or [] -%}
{{ ('' if loop.first and not message.content else '\n\n' if loop.first else '\n') + '<tool_call>\n<function=' + call.function.name + '>\n' }}
{%- for name, value in (call.function.arguments | items if call.function.arguments is mapping else []) -%}
{{ '<parameter=' + name + '>\n' + (value if value is string else value | tojson) + '\n</parameter>\n' }}
{%- endfor -%}
{{ '</function>\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n<think>\n' + ('' if enable_thinking | default(thinks) else '\n</think>\n\n') }}{%- endif -%})";

constexpr std::string_view kSmollm3 =
    R"({%- set thinks = enable_thinking is not defined or enable_thinking -%}
{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' -%}
{{ '<|im_start|>system\n## Metadata\n\nReasoning Mode: ' + ('/think' if thinks else '/no_think') + '\n\n## Custom Instructions\n\n' }}
{{- system or 'You are a helpful AI assistant named SmolLM, trained by Hugging Face.' }}
{%- if tools -%}
{{ '\n\n### Tools\n\nYou may call one or more functions. Their signatures, within <tools></tools>:\n\n<tools>\n' }}
{%- for tool in tools -%}{{ tool | tojson + '\n' }}{%- endfor -%}
{{ '</tools>\n\nFor each call, return a JSON object within <tool_call></tool_call>:\n' }}
{{- '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>' }}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{ '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
{%- elif not (loop.first and message.role == 'system') -%}
{{ '<|im_start|>' + message.role + '\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}{{ '}\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' + ('' if thinks else '<think>\n\n</think>\n') }}{%- endif -%})";

constexpr BuiltinTemplate kTemplates[] = {
    {"chatml", "", kChatml},
    {"llama2", "", kLlama2},
    {"llama3", "", kLlama3},
    {"mistral", "", kMistral},
    {"gemma", "", kGemma},
    {"qwen", "", kQwen},
    {"qwen3.5", "{%- set thinks = true -%}", kQwen35},
    {"qwen3.5-nothink", "{%- set thinks = false -%}", kQwen35},
    {"smollm", "", kSmollm},
    {"smollm3", "", kSmollm3},
};

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() { return kTemplates; }

}  // namespace krafla
