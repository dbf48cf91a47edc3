// Reading .safetensors files from bytes nobody vouches for. Goal: whatever the bytes, an error that names
// file and tensor, or tensors whose every view lies inside the file; time and memory are bounded by the
// header's size. Non-goals: writing, knowing what a name means.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace krafla {

inline constexpr std::uint64_t kSafetensorsMaxHeader =
    100'000'000;  // bytes of JSON, as the format's own reader allows

/// A type of elements.
struct SafeDtype {
  const char* name;  // "BF16"
  std::uint32_t bits;
};

/// A tensor, the last dimension contiguous. A scalar has no dimensions.
struct SafeTensor {
  std::string name;
  const SafeDtype* dtype = nullptr;
  std::vector<std::uint64_t> shape;
  Bytes data;  // exactly what dtype and shape need

  std::size_t cols() const { return shape.empty() ? 1 : static_cast<std::size_t>(shape.back()); }
  /// The product of all other dimensions.
  std::size_t rows() const;
  /// "[320, 64]".
  std::string shape_text() const;
};

/// Parses and checks a whole file: the header's size and JSON, known types, shape × type = length, tensors
/// that follow each other without gap or overlap up to the end of the file, no name twice, texts as metadata.
/// ML_E_FORMAT naming `name` and the tensor. The tensors come in the header's order and are views into
/// `file`.
std::vector<SafeTensor> parse_safetensors(Bytes file, std::string_view name);

/// Whether decode_floats reads the type: F32, F16, BF16.
bool can_decode(const SafeDtype& dtype);
/// out.size() elements as floats, exactly. `bytes` has exactly as many; ML_E_ARG if not or if the type cannot
/// be read.
void decode_floats(const SafeDtype& dtype, Bytes bytes, std::span<float> out);

}  // namespace krafla
