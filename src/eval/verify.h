// A digest of a model's logits. It is the same on every machine, thread count and instruction set, so anyone
// can check an installation with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/forward.h"

namespace krafla {

/// FNV-1a (64 bit) over the little-endian bytes of floats; every NaN counts as 0x7fc00000.
class Digest {
 public:
  void add(std::span<const float> values);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Whether one of the values is NaN.
bool has_nan(std::span<const float> values);

struct Verification {
  std::uint64_t digest;
  std::optional<std::size_t> first_nan;  ///< the first position whose logits have a NaN
  std::int32_t nan_token = 0;            ///< the token at that position
};
/// The digest of all logits of the ids (i*7919 + 1) mod vocab for i < min(max_seq, 150), with an f16 KV
/// cache.
Verification verify(const Model& model, Context& context);

}  // namespace krafla
