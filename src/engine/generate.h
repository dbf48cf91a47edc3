// One prompt to one answer: model.forward → sample → tokenizer.decode, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/forward.h"
#include "sample/sampler.h"
#include "tokenizer/tokenizer.h"

namespace krafla {

struct GenerateOptions {
  SamplingOptions sampling;
  std::size_t max_tokens = static_cast<std::size_t>(-1);  ///< tokens of the answer at most
  std::size_t context = 0;  ///< positions of prompt and answer at most; 0: the model's max_seq
  std::size_t chunk = 256;  ///< prompt tokens a forward call; changes no bit of the answer
  KvType kv = KvType::f16;
  bool is_continuation = false;       ///< the answer's text goes on from the prompt's: its first space stays
  BatchObserver* observer = nullptr;  ///< sees the inputs of all matrices
  std::vector<std::int32_t> end_ids;  ///< ids that end the answer; not part of it
  std::vector<std::string>
      visible_control_tokens;  ///< control tokens that the answer's text has; it lacks all others
  std::function<void(std::string_view)>
      on_text;  ///< pieces of the answer as they come, whole UTF-8 characters
  std::function<bool()>
      cancelled;  ///< asked before each token of the answer and, in the prompt, each layer; true ends it
};

enum class Finish {
  stop,    ///< an end id
  length,  ///< max_tokens or the context is reached
  cancelled,
};

struct Generation {
  std::vector<std::int32_t> ids;  ///< the answer, without the end id
  Finish finish = Finish::stop;
  std::size_t reused = 0;     ///< tokens of the prompt that the session held
  double prompt_seconds = 0;  ///< until the first token's logits
  double answer_seconds = 0;  ///< from there
  std::size_t kv_bytes = 0;   ///< memory of the pages
};

/// A text that is computed once and continued: its keys, values and linear layers' state stay between calls
/// of generate(). Of a prompt, the beginning it shares with what is held is not computed anew; no bit of the
/// answer depends on it.
class Session {
 public:
  /// The model must outlive it.
  Session(const Model& model, KvType kv)
      : pool_(std::make_unique<PagePool>(KvLayout(model.config(), kv))), now_{Sequence(*pool_), {}} {}

  /// Goes back to the longest known beginning of `prompt` but its last token, whose logits are needed. The
  /// positions that are held.
  std::size_t reuse(std::span<const std::int32_t> prompt);
  /// Runs the rows' tokens, `last_wanted`: the last one's logits are wanted. False if batch.cancelled gave it
  /// up: then the session is what it was before. After an error it is empty.
  bool feed(const Model& model, Context& context, Batch& batch, std::span<const std::int32_t> tokens,
            bool last_wanted);
  /// Remembers this place. Models whose layers keep no past (linear ones, sliding windows) can only go back
  /// to such places; the last few stay.
  void keep();
  std::size_t length() const { return now_.ids.size(); }
  std::size_t kv_bytes() const { return pool_->bytes(); }

 private:
  struct State {
    Sequence sequence;
    std::vector<std::int32_t> ids;  // at its positions
  };
  bool rewinds() const;

  std::unique_ptr<PagePool> pool_;  // sequences point to it
  State now_;
  std::vector<State> kept_;  // the oldest first
};

/// Answers `prompt`. The ids depend on model, prompt, sampling options and KV type alone: not on threads,
/// chunks or machine. ML_E_ARG if the prompt is empty or does not leave room for one token in the context;
/// ML_E_NUMERIC for NaN logits.
Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context,
                    std::span<const std::int32_t> prompt, const GenerateOptions& options);

/// The same, going on from what `session` holds (of the KV type it was made with); it then holds the prompt
/// and the answer.
Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context, Session& session,
                    std::span<const std::int32_t> prompt, const GenerateOptions& options);

}  // namespace krafla
