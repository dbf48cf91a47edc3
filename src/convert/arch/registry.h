// The model families that can be converted. A new family is one file in this folder and one line in registry.cpp.
#pragma once

#include <string_view>

#include "convert/plan.h"
#include "formats/gguf.h"

namespace krafla {

/// A family as GGUF's general.architecture names it, and its plan: reads keys and tensor names, checks everything, touches no weights.
struct GgufFamily {
  const char* architecture;
  ModelPlan (*plan)(const Gguf& gguf, const StorageChoice& storage);
};

/// The family of general.architecture; ML_E_UNSUPPORTED naming it and the known ones, ML_E_FORMAT if the key is missing.
const GgufFamily& gguf_family(const Gguf& gguf);

ModelPlan plan_llama_gguf(const Gguf& gguf, const StorageChoice& storage);

}  // namespace krafla
