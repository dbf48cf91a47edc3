// How fast the engine serves many requests at once. Non-goal: the quality of what comes out; the prompts are
// any tokens.
#pragma once

#include <cstddef>

#include "engine/engine.h"

namespace krafla {

/// What the streams of a run saw.
struct Served {
  std::size_t requests = 0;
  std::size_t prompt_tokens = 0, answer_tokens = 0;  // of all requests
  double seconds = 0;                                // from the first join to the last token
  double largest_gap = 0;                            // seconds between two tokens of one stream
};

/// `requests` requests with prompts of `prompt` tokens and answers of `answer`, each joining at a random step
/// among the first 2 * requests. Nothing is cached; tokens are drawn as by default (temperature 0.8, top_k
/// 40, top_p 0.95).
Served serve_joining(const Model& model, Context& context, const EngineOptions& options, std::size_t requests,
                     std::size_t prompt, std::size_t answer);

/// `streams` answers run; then a prompt of `prompt` tokens comes in. Measured until it is read: the answers'
/// tokens, and the largest gap between them.
Served serve_beside_prompt(const Model& model, Context& context, const EngineOptions& options,
                           std::size_t streams, std::size_t prompt);

}  // namespace krafla
