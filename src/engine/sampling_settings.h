// Sampling settings that may be left open, and which of them wins: the request's, the model's, the defaults.
#pragma once

#include <optional>

#include "sample/sampler.h"

namespace krafla {

/// The settings that a request or a model's JSON may give; ranges as in SamplingOptions.
struct SamplingSettings {
  std::optional<float> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
  std::optional<int> top_k = {};
};

/// What is used where neither the request nor the model says anything; users of llama.cpp know these values.
inline constexpr SamplingSettings kDefaultSampling{
    .temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .repetition_penalty = 1.0f, .top_k = 40};

/// `options` with each setting as the request gives it, else as the model does, else the default.
SamplingOptions with_settings(SamplingOptions options, const SamplingSettings& request,
                              const SamplingSettings& model);

}  // namespace krafla
