// What all model families need of a GGUF: its keys under the family's prefix, the fields every family shares,
// and its tensors found, checked and named. A family's file in arch/ is a table of names and the few lines
// that are its own.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/plan.h"
#include "convert/rows.h"
#include "convert/tensor_names.h"
#include "formats/gguf.h"

namespace krafla {

/// The metadata of one family: keys are given without the prefix ("block_count"). Remembers which were asked
/// for.
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
  /// An array of one bool (or 0 and 1) for each layer, of which the first n are given. ML_E_FORMAT if it is
  /// shorter or another type.
  std::optional<std::vector<bool>> per_layer(std::string_view key, std::uint32_t n);
  bool is_array(std::string_view key);
  /// ML_E_UNSUPPORTED naming the key if it is there with another value than `neutral`.
  void refuse_unless(std::string_view key, double neutral, std::string_view reason);
  /// The keys of the prefix that nothing above asked for, but for some that say nothing about the result.
  std::vector<std::string> unread() const;
  bool was_read(std::string_view key) const { return read_.contains(prefix_ + std::string(key)); }

 private:
  std::string full(std::string_view key);
  const Gguf& gguf_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

/// The header fields that every family spells alike: dimensions, heads, epsilon, the RoPE base, scales;
/// biases and an own classifier as the tensors say. MTP blocks (nextn_predict_layers) are not counted among
/// the layers. Refuses per-layer arrays and general.type other than "model". The result has passed
/// check_mlb_header.
MlbHeader gguf_base_header(GgufKeys& keys, const StorageChoice& storage);

/// RoPE scaling: rope.scaling.* keys (none, linear, yarn) and the tensor rope_freqs.weight (llama3's factors,
/// from which its parameters are recovered and verified). ML_E_UNSUPPORTED for any other scaling.
void gguf_rope_scaling(GgufKeys& keys, MlbHeader& header);

/// llama3's factor, low, high and original length from the factors (one per pair) by which each inverse
/// frequency is divided; only their ratios are in the data, so low = 1 is assumed. Nothing if no parameters
/// give these factors.
struct Llama3Scaling {
  float factor, low, high;
  std::uint32_t original;
};
std::optional<Llama3Scaling> recover_llama3(std::span<const float> factors, double theta,
                                            std::uint32_t rotated);

/// What every family's plan ends with. Refuses settings that nobody read and that would change the result;
/// settles RoPE scaling; finds the tensor of every array (find_tensors), under the family's names first
/// (`own`), and has its rows prepared; refuses tensors that nobody uses; notes what was skipped.
void gguf_finish(GgufKeys& keys, std::span<const TensorName> own, PrepareRows prepare, ModelPlan& plan);

}  // namespace krafla
