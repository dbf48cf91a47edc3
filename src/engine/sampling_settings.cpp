#include "engine/sampling_settings.h"

namespace krafla {

SamplingOptions with_settings(SamplingOptions options, const SamplingSettings& request,
                              const SamplingSettings& model) {
  const auto pick = [&](auto SamplingSettings::* setting) {
    return *(request.*setting ? request.*setting
             : model.*setting ? model.*setting
                              : kDefaultSampling.*setting);
  };
  options.temperature = pick(&SamplingSettings::temperature);
  options.top_k = pick(&SamplingSettings::top_k);
  options.top_p = pick(&SamplingSettings::top_p);
  options.min_p = pick(&SamplingSettings::min_p);
  options.repetition_penalty = pick(&SamplingSettings::repetition_penalty);
  return options;
}

}  // namespace krafla
