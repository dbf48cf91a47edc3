// One prompt to one answer: model.forward → sample → tokenizer.decode, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "model/forward.h"
#include "sample/sampler.h"
#include "tokenizer/tokenizer.h"

namespace krafla {

struct GenerateOptions {
  SamplingOptions sampling;
  std::size_t max_tokens = static_cast<std::size_t>(-1);  ///< tokens of the answer at most
  std::size_t context = 0;                                ///< positions of prompt and answer at most; 0: the model's max_seq
  std::size_t chunk = 256;                                ///< prompt tokens a forward call; changes no bit of the answer
  KvType kv = KvType::f16;
  Mli* importance = nullptr;                      ///< where the inputs of the matrices are added up, if anywhere (formats/mli.h)
  std::vector<std::int32_t> end_ids;              ///< ids that end the answer; not part of it
  std::function<void(std::string_view)> on_text;  ///< pieces of the answer as they come, whole UTF-8 characters
  std::function<bool()> cancelled;                ///< asked before each forward call; true ends the answer
};

enum class Finish {
  stop,    ///< an end id
  length,  ///< max_tokens or the context is reached
  cancelled,
};

struct Generation {
  std::vector<std::int32_t> ids;  ///< the answer, without the end id
  Finish finish = Finish::stop;
  double prompt_seconds = 0;  ///< until the first token's logits
  double answer_seconds = 0;  ///< from there
  std::size_t kv_bytes = 0;   ///< memory of the pages
};

/// Answers `prompt`. The ids depend on model, prompt, sampling options and KV type alone: not on threads, chunks or machine.
/// ML_E_ARG if the prompt is empty or does not leave room for one token in the context; ML_E_NUMERIC for NaN logits.
Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options);

}  // namespace krafla
