// Rows of ggml's tensor types as floats.
#include <cstring>

#include "base/float16.h"
#include "formats/gguf.h"

namespace krafla {
namespace {

constexpr std::size_t kBlock = 32;

float load_f16(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return f16_to_float(bits);
}

void from_f32(const std::uint8_t* in, std::size_t n, float* out) { std::memcpy(out, in, n * sizeof(float)); }

void from_f16(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = load_f16(in + 2 * i);
}

void from_bf16(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = bf16_to_float(bits);
  }
}

/// f16 d, 32 int8.
void from_q8_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 34, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock; ++j) out[j] = static_cast<float>(static_cast<std::int8_t>(in[2 + j])) * d;
  }
}

/// f16 d, 16 bytes: element j in the low nibble of byte j, element j + 16 in the high one.
void from_q4_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 18, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock / 2; ++j) {
      out[j] = static_cast<float>((in[2 + j] & 15) - 8) * d;
      out[j + kBlock / 2] = static_cast<float>((in[2 + j] >> 4) - 8) * d;
    }
  }
}

/// f16 d, f16 minimum, nibbles as in Q4_0.
void from_q4_1(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 20, out += kBlock) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    for (std::size_t j = 0; j < kBlock / 2; ++j) {
      out[j] = static_cast<float>(in[4 + j] & 15) * d + m;
      out[j + kBlock / 2] = static_cast<float>(in[4 + j] >> 4) * d + m;
    }
  }
}

using Dequantize = void (*)(const std::uint8_t* in, std::size_t n, float* out);

Dequantize reader_of(std::uint32_t type) {
  switch (type) {
    case 0: return from_f32;
    case 1: return from_f16;
    case 2: return from_q4_0;
    case 3: return from_q4_1;
    case 8: return from_q8_0;
    case 30: return from_bf16;
    default: return nullptr;
  }
}

}  // namespace

bool can_dequantize(const GgmlType& type) { return reader_of(type.id) != nullptr; }

void dequantize_row(const GgmlType& type, Bytes bytes, std::span<float> out, std::string_view tensor) {
  const Dequantize read = reader_of(type.id);
  if (read == nullptr)
    fail(ML_E_UNSUPPORTED, "tensor {} has type {}, which is not read yet; readable: F32, F16, BF16, Q8_0, Q4_0, Q4_1", printable(tensor),
         type.name);
  if (out.size() % type.block != 0 || bytes.size() != out.size() / type.block * type.bytes)
    fail(ML_E_ARG, "tensor {}: a row of {} {} elements does not take {} bytes", printable(tensor), out.size(), type.name, bytes.size());
  read(bytes.data(), out.size(), out.data());
}

}  // namespace krafla
