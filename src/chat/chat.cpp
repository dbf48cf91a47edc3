#include "chat/chat.h"

#include "base/error.h"

namespace krafla {
namespace {

constexpr std::string_view kSmollm =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful AI "
    "assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// kSmollm, done by hand.
Prompt render_smollm(std::span<const Message> messages, bool add_generation_prompt) {
  Prompt prompt;
  const auto literal = [&](std::string_view text) {
    if (!text.empty()) prompt.literal.emplace_back(prompt.text.size(), prompt.text.size() + text.size());
    prompt.text += text;
  };
  if (!messages.empty() && messages[0].role != "system")
    prompt.text += "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
  for (const Message& message : messages) {
    prompt.text += "<|im_start|>";
    literal(message.role);
    prompt.text += "\n";
    literal(message.content);
    prompt.text += "<|im_end|>\n";
  }
  if (add_generation_prompt) prompt.text += "<|im_start|>assistant\n";
  return prompt;
}

/// `text` with \n written out where a JSON or GGUF holds real line ends inside the template's strings, and without one at its end.
std::string with_escaped_newlines(std::string_view text) {
  std::string result;
  while (text.ends_with('\n')) text.remove_suffix(1);
  for (const char c : text) result += c == '\n' ? std::string("\\n") : std::string(1, c);
  return result;
}

}  // namespace

Prompt render_chat(std::string_view chat_template, std::span<const Message> messages, bool add_generation_prompt) {
  if (chat_template == "smollm" || with_escaped_newlines(chat_template) == kSmollm) return render_smollm(messages, add_generation_prompt);
  if (chat_template.size() < 32 && chat_template.find('{') == std::string_view::npos)
    fail(ML_E_UNSUPPORTED, "chat template \"{}\": the built-in ones are \"smollm\"; --raw takes the text as it is", chat_template);
  fail(ML_E_UNSUPPORTED, "the model's chat template is one this build cannot render; --raw takes the text as it is");
}

}  // namespace krafla
