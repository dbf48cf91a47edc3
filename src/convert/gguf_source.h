// What all model families need of a GGUF: its keys under the family's prefix, the fields every family shares, and its tensors found,
// checked and named. A family's file in arch/ is a table of names and the few lines that are its own.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "convert/plan.h"
#include "formats/gguf.h"

namespace krafla {

/// The metadata of one family: keys are given without the prefix ("block_count"). Remembers which were asked for.
class GgufKeys {
 public:
  GgufKeys(const Gguf& gguf, std::string_view prefix) : gguf_(gguf), prefix_(std::string(prefix) + ".") {}

  const Gguf& gguf() const { return gguf_; }
  /// A count or size: ML_E_FORMAT naming the key if it is missing (or: nothing), negative or above 2^32 - 1.
  std::uint32_t required(std::string_view key);
  std::optional<std::uint32_t> optional(std::string_view key);
  /// A number that float32 holds.
  std::optional<float> number(std::string_view key);
  std::optional<std::string_view> text(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  /// ML_E_UNSUPPORTED naming the key if it is there with another value than `neutral`.
  void refuse_unless(std::string_view key, double neutral, std::string_view reason);
  /// The keys of the prefix that nothing above asked for.
  std::vector<std::string> unread() const;

 private:
  std::string full(std::string_view key);
  const Gguf& gguf_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

/// The .mlb's name of a tensor and the GGUF's, "{}" standing for the layer.
struct GgufName {
  const char* target;
  const char* source;
};

/// Dimensions, norms' epsilon, heads and the RoPE base: the header fields that every family spells alike. Refuses per-layer arrays.
MlbHeader gguf_base_header(GgufKeys& keys);

/// RoPE scaling: rope.scaling.* keys (none, linear, yarn) and the tensor rope_freqs.weight (llama3's factors, from which its
/// parameters are recovered and verified). ML_E_UNSUPPORTED for any other scaling.
void gguf_rope_scaling(GgufKeys& keys, MlbHeader& header);

/// llama3's factor, low, high and original length from the factors (one per pair) by which each inverse frequency is divided; only their
/// ratios are in the data, so low = 1 is assumed. Nothing if no parameters give these factors.
struct Llama3Scaling {
  float factor, low, high;
  std::uint32_t original;
};
std::optional<Llama3Scaling> recover_llama3(std::span<const float> factors, double theta, std::uint32_t rotated);

/// Finds the tensor of every array of the layout. Lists all that are missing, then all whose shape is wrong (ML_E_SHAPE), then
/// those whose type cannot be read; then refuses tensors of the file that the plan would not use, but for `ignored` (name endings).
void map_gguf_tensors(const Gguf& gguf, std::span<const GgufName> names, std::span<const std::string_view> ignored, ModelPlan& plan);

/// Whether wcls is tok_emb: there is no output tensor, or it is the embedding byte for byte.
bool gguf_shares_classifier(const Gguf& gguf);

}  // namespace krafla
