// A request to the engine, and the events by which it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "chat/parse_answer.h"
#include "krafla/krafla.h"
#include "sample/log_softmax.h"
#include "sample/sampler.h"

namespace krafla {

/// How tokens are guessed ahead, to be checked several at a time. It changes no bit of an answer, only its
/// speed.
enum class Speculation {
  none,
  lookup,  // what followed the last tokens the last time they occurred in the text
  draft,   // what the engine's draft model finds likeliest
};

struct Request {
  std::vector<std::int32_t> prompt;
  SamplingOptions sampling;
  std::size_t max_tokens = static_cast<std::size_t>(-1);  ///< tokens of an answer at most; at least 1
  std::size_t context = 0;            ///< positions of prompt and answer at most; 0: the model's max_seq
  std::size_t choices = 1;            ///< answers to the prompt: choice i draws with DrawCounter::choice i
  std::vector<std::int32_t> end_ids;  ///< ids that end an answer; not part of it
  std::vector<std::string> stop;      ///< texts that end an answer; not part of its text
  std::vector<std::string>
      visible_control_tokens;        ///< control tokens in the answer's text; it lacks the others
  bool is_continuation = false;      ///< the answer's text goes on from the prompt's: its first space stays
  std::optional<AnswerStyle> style;  ///< set: the text comes as parts (reasoning, text, calls)
  std::optional<std::size_t>
      logprobs;                  ///< set: each token's log-probability, and those of so many likeliest ones
  bool prompt_logprobs = false;  ///< the same for the prompt's tokens but the first; needs `logprobs`
  bool report_progress = false;  ///< events of the kind `progress`
  bool use_cache =
      true;  ///< take the prompt's beginning from earlier requests, and leave this text for later ones
  Speculation speculation = Speculation::none;
  std::size_t draft_tokens = 8;               ///< tokens guessed ahead at most, 0 to 64
  std::optional<Clock::time_point> deadline;  ///< when it is given up
  std::function<bool()> cancelled;  ///< asked often, on the engine's thread; true gives it up. Must not throw
  /// Makes the mask of a choice, or null; called by submit().
  std::function<std::unique_ptr<TokenMask>(std::size_t choice)> make_mask;
};

enum class Finish {
  stop,       ///< an end id or a stop string
  length,     ///< max_tokens or the context is reached
  cancelled,  ///< the caller gave it up
  deadline,   ///< its time is over
  error,      ///< Event::status and Event::message say which
};

/// What a request took.
struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;    ///< of the prompt, computed by earlier requests
  std::size_t answer_tokens = 0;    ///< of all choices, end ids not counted
  std::size_t drafted_tokens = 0;   ///< guessed ahead
  std::size_t accepted_tokens = 0;  ///< of these, right
  double queue_seconds = 0;         ///< until its first forward call
  double prompt_seconds = 0;        ///< from there to the first token
  double answer_seconds = 0;        ///< from there to the end
};

struct Event {
  enum class Kind {
    progress,  ///< positions
    prompt,    ///< logprobs of the prompt's tokens but the first, some at a time
    tokens,    ///< choice, ids, text or parts, logprobs
    finished,  ///< choice, finish, status, message: nothing more comes of this choice
    done,      ///< usage: nothing more comes
  };

  Event() = default;
  explicit Event(Kind k, std::size_t c = 0) : kind(k), choice(c) {}

  Kind kind = Kind::tokens;
  std::size_t choice = 0;
  std::vector<std::int32_t> ids;
  std::string text;  ///< whole UTF-8 characters, where the tokens' bytes are UTF-8; may lag behind the ids
  std::vector<AnswerPart> parts;  ///< in place of the text, where the request has a style
  std::vector<TokenLogprobs> logprobs;
  std::size_t positions = 0;  ///< of the prompt that are computed
  Finish finish = Finish::stop;
  ml_status status = ML_OK;
  std::string message;
  Usage usage;
};

}  // namespace krafla
