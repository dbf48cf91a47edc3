// A model's answer back into its parts, as it streams in: reasoning, text, tool calls. How the text is cut into chunks changes
// nothing. What is no valid call is handed back as text, markers and all: nothing is lost.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace krafla {

enum class ToolFormat {
  kNone,
  kHermes,   // <tool_call>{"name", "arguments"}</tool_call>: Qwen 2.5 and 3, SmolLM3, Hermes
  kXml,      // <tool_call><function=NAME><parameter=NAME>value</parameter></function></tool_call>: Qwen 3.5, Qwen3-Coder
  kLlama3,   // an answer that is {"name", "parameters"}, perhaps after <|python_tag|>
  kMistral,  // [TOOL_CALLS] and an array of {"name", "arguments"}
  kGemma,    // ```tool_code or ```json and {"name", "parameters"}, ```
};
/// Of the JSON's "tools": "hermes", "xml", "llama3", "mistral", "gemma", or "" for none. ML_E_FORMAT for another.
ToolFormat tool_format(std::string_view name);

struct AnswerStyle {
  std::string reasoning_open, reasoning_close;  // empty: the model does not show its reasoning
  bool reasoning_opened = false;                // the prompt ended within the reasoning
  ToolFormat tools = ToolFormat::kNone;
};

struct AnswerPart {
  enum class Kind { kText, kReasoning, kToolCall };
  Kind kind;
  std::string text;       // of a call: its arguments, a JSON object
  std::string name = {};  // of a call
  std::string raw = {};   // of a call: what the model wrote, markers and all
};

class AnswerParser {
 public:
  explicit AnswerParser(AnswerStyle style);
  /// What is certain so far. Text that may yet turn out to be a marker, and a call that is not complete, wait.
  std::vector<AnswerPart> feed(std::string_view text);
  /// The rest; the answer is over.
  std::vector<AnswerPart> finish();

 private:
  enum class State { kText, kReasoning, kCall };
  bool step(bool last, std::vector<AnswerPart>& parts);
  void text_step(bool last, std::vector<AnswerPart>& parts);
  bool call_step(bool last, std::vector<AnswerPart>& parts);
  void emit(AnswerPart::Kind kind, std::size_t size, std::vector<AnswerPart>& parts);

  AnswerStyle style_;
  std::vector<std::string> openings_;  // of calls
  std::string closing_;                // of a call; empty: the answer's end
  State state_;
  std::size_t opening_ = 0;  // bytes of the call's opening marker
  bool started_ = false;     // there was text beside white space
  std::string waiting_;
};

}  // namespace krafla
