// A model's answer back into its parts, as it streams in: reasoning, text, tool calls. How the text is cut
// into chunks changes nothing. What is no valid call is handed back as text, markers and all: the parts'
// texts, joined, are the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace krafla {

enum class ToolFormat {
  kNone,
  kHermes,   // <tool_call>{"name", "arguments"}</tool_call>: Qwen 2.5 and 3, SmolLM3, Hermes
  kXml,      // <tool_call><function=NAME><parameter=NAME>value</parameter></function></tool_call>: Qwen 3.5,
             // Qwen3-Coder
  kLlama3,   // an answer that is {"name", "parameters"}, perhaps after <|python_tag|>: it waits for the
             // answer's end
  kMistral,  // [TOOL_CALLS] and an array of {"name", "arguments"}, or [TOOL_CALLS]NAME[ARGS]{arguments},
             // again and again
  kGemma,    // ```tool_code or ```json and {"name", "parameters"}, ```
};
/// Of the JSON's "tools": "hermes", "xml", "llama3", "mistral", "gemma", or "" for none. ML_E_FORMAT for
/// another.
ToolFormat tool_format(std::string_view name);

struct AnswerStyle {
  std::string reasoning_open, reasoning_close;  // empty: the model does not show its reasoning
  bool reasoning_opened = false;                // the prompt ended within the reasoning
  ToolFormat tools = ToolFormat::kNone;
};

/// The texts by which the parser knows reasoning and calls. A model may write them as control tokens: then
/// they must be in the text that the parser is fed (Request::visible_control_tokens).
std::vector<std::string> answer_markers(const AnswerStyle& style);

struct AnswerPart {
  /// kMarker: the markers around reasoning, and the white space between parts that belongs to none of them.
  enum class Kind { kText, kReasoning, kMarker, kToolCall };
  Kind kind;
  std::string text;            // what the model wrote; of several calls in one array, the first has it all
  std::string name = {};       // of a call
  std::string arguments = {};  // of a call: a JSON object
};

class AnswerParser {
 public:
  explicit AnswerParser(AnswerStyle style);
  /// What is certain so far. Text that may yet turn out to be a marker, and a call that is not complete,
  /// wait.
  std::vector<AnswerPart> feed(std::string_view text);
  /// The rest; the answer is over.
  std::vector<AnswerPart> finish();

 private:
  using Parts = std::vector<AnswerPart>;
  enum class State { kText, kReasoning, kSpace, kCall };  // kSpace: behind a marker, before what comes next
  struct Marker {
    std::size_t first, size;  // in waiting_; size 0: no whole marker
    bool call;
  };
  bool step(bool last, Parts& parts);
  void space_step(Parts& parts);
  void reasoning_step(bool last, Parts& parts);
  void text_step(bool last, Parts& parts);
  void call_step(bool last, Parts& parts);
  Marker next_marker(bool last) const;
  bool read_calls(std::string_view inside, Parts& calls) const;
  std::size_t text_of_no_call(bool closed, std::string_view inside, std::size_t size) const;
  void emit(AnswerPart::Kind kind, std::size_t size, Parts& parts);

  AnswerStyle style_;
  std::vector<std::string> openings_;  // of calls
  std::string closing_;                // of a call; empty: the answer's end
  State state_;
  State after_ = State::kText;  // kSpace
  std::size_t space_ = 0;       // of a call that waits: bytes of white space before it
  std::size_t opening_ = 0;     // of a call that waits: bytes of white space and opening marker
  std::size_t seen_ = 0;        // of a call that waits: no closing marker begins before
  bool started_ = false;        // there was text beside white space, or a call
  std::string waiting_;
};

}  // namespace krafla
