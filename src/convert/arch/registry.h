// The model families that can be converted. A new family is one file in this folder and one line in
// registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "convert/hf_source.h"
#include "convert/plan.h"
#include "formats/gguf.h"

namespace krafla {

/// A family: what the two kinds of sources call it, and its plans, which read settings and tensor names,
/// check everything and touch no weights. What both plans share (factors, patterns of layers, names of
/// tensors) stands once in the family's file.
struct Family {
  std::span<const std::string_view> gguf;  // general.architecture
  std::span<const std::string_view> hf;    // model_type
  ModelPlan (*plan_gguf)(const Gguf& gguf, const StorageChoice& storage) = nullptr;
  ModelPlan (*plan_hf)(const HfCheckpoint& checkpoint, const StorageChoice& storage) = nullptr;
};

extern const Family kLlama;    // and Mistral as GGUF calls it
extern const Family kMistral;  // Hugging Face
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kQwen35;
extern const Family kSmolLm3;
extern const Family kGemma2;
extern const Family kGemma3;

/// The family of general.architecture or of model_type; ML_E_UNSUPPORTED naming it and the known ones,
/// ML_E_FORMAT if it is missing.
const Family& gguf_family(const Gguf& gguf);
const Family& hf_family(const HfCheckpoint& checkpoint);

}  // namespace krafla
