// Every operation is one float32 operation, rounded by itself, in the order written here. The comments give a
// block's bytes in file order and an element's value. d and m are half floats unless another type is named.
// Non-goal: the types IQ1, IQ2 and IQ3, whose values come from large tables.
#include "quant/gguf_dequantize.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/float16.h"

namespace krafla {
namespace {

constexpr std::size_t kBlock = 32;
constexpr std::size_t kSuper = 256;  // elements of a block of the K and most later types

std::uint16_t load_u16(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return bits;
}
float load_f16(const std::uint8_t* p) { return f16_to_float(load_u16(p)); }
float signed_byte(std::uint8_t b) { return static_cast<float>(static_cast<std::int8_t>(b)); }

void from_f32(const std::uint8_t* in, std::size_t n, float* out) { std::memcpy(out, in, n * sizeof(float)); }

void from_f64(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    double value = 0;
    std::memcpy(&value, in + 8 * i, 8);
    out[i] = static_cast<float>(value);
  }
}

void from_f16(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = load_f16(in + 2 * i);
}

void from_bf16(const std::uint8_t* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = bf16_to_float(load_u16(in + 2 * i));
}

// --- blocks of 32 ---

/// q·d, q int8. Q8_0: d, 32 q. Q8_1: d, a half float sum that is not needed, 32 q.
template <std::size_t Header>
void from_q8(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += Header + kBlock, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock; ++j) out[j] = signed_byte(in[Header + j]) * d;
  }
}

/// Of 16 bytes: element j is the low nibble of byte j, element j + 16 the high one.
int nibble(const std::uint8_t* bytes, std::size_t j) { return j < 16 ? bytes[j] & 15 : bytes[j - 16] >> 4; }

/// d, 16 bytes of nibbles q: (q - 8)·d.
void from_q4_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 18, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock; ++j) out[j] = static_cast<float>(nibble(in + 2, j) - 8) * d;
  }
}

/// d, m, 16 bytes of nibbles q: q·d + m.
void from_q4_1(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 20, out += kBlock) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    for (std::size_t j = 0; j < kBlock; ++j) out[j] = static_cast<float>(nibble(in + 4, j)) * d + m;
  }
}

/// Of 4 bytes and 16 of nibbles: bit j of the former is bit 4 of element j.
int five_bits(const std::uint8_t* high, const std::uint8_t* low, std::size_t j) {
  return nibble(low, j) | ((high[j / 8] >> (j % 8)) & 1) << 4;
}

/// d, 4 bytes of fifth bits, 16 of nibbles: (q - 16)·d.
void from_q5_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 22, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock; ++j)
      out[j] = static_cast<float>(five_bits(in + 2, in + 6, j) - 16) * d;
  }
}

/// d, m, 4 bytes of fifth bits, 16 of nibbles: q·d + m.
void from_q5_1(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 24, out += kBlock) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    for (std::size_t j = 0; j < kBlock; ++j)
      out[j] = static_cast<float>(five_bits(in + 4, in + 8, j)) * d + m;
  }
}

/// The levels of IQ4_NL and IQ4_XS.
constexpr std::array<float, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

/// d, 16 bytes of nibbles q: level(q)·d.
void from_iq4_nl(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 18, out += kBlock) {
    const float d = load_f16(in);
    for (std::size_t j = 0; j < kBlock; ++j)
      out[j] = kNonLinear[static_cast<std::size_t>(nibble(in + 2, j))] * d;
  }
}

/// Twice the values of a 4-bit float with 2 bits of exponent and 1 of mantissa.
constexpr std::array<float, 16> kFp4Twice = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// An exponent byte e, 16 bytes of nibbles q: fp4twice(q)·2^(e - 128).
void from_mxfp4(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kBlock, in += 17, out += kBlock) {
    const std::uint32_t e = in[0];  // as the bits of a float: 2^-128 and 2^-127 are denormal
    const float d = __builtin_bit_cast(float, e < 2 ? 0x00200000u << e : (e - 1) << 23);
    for (std::size_t j = 0; j < kBlock; ++j)
      out[j] = kFp4Twice[static_cast<std::size_t>(nibble(in + 1, j))] * d;
  }
}

// --- blocks of 256 ---

/// The 2-bit fields of 64 bytes: bytes 0 to 31 hold elements 0 to 127, 32 at each shift from the lowest on;
/// then bytes 32 to 63.
int two_bits(const std::uint8_t* bytes, std::size_t i) {
  return (bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

/// 16 bytes, one for 16 elements: low nibble s, high nibble t; 64 bytes of 2-bit q; d, m: (d·s)·q - m·t.
void from_q2_k(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 84, out += kSuper) {
    const float d = load_f16(in + 80);
    const float m = load_f16(in + 82);
    for (std::size_t i = 0; i < kSuper; i += 16) {
      const float scale = d * static_cast<float>(in[i / 16] & 15);
      const float low = m * static_cast<float>(in[i / 16] >> 4);
      for (std::size_t j = i; j < i + 16; ++j)
        out[j] = scale * static_cast<float>(two_bits(in + 16, j)) - low;
    }
  }
}

/// Scale g of Q3_K's 16: its low 4 bits are nibble g of bytes 0 to 7, its high 2 bits lie in bytes 8 to 11.
int scale_q3_k(const std::uint8_t* bytes, std::size_t g) {
  const int low = g < 8 ? bytes[g] & 15 : bytes[g - 8] >> 4;
  return (low | ((bytes[8 + g % 4] >> (g / 4 * 2)) & 3) << 4) - 32;
}

/// 32 bytes of third bits, element i in bit i / 32 of byte i % 32; 64 bytes of 2-bit q; 12 bytes of scales s;
/// d: (d·s)·(q - 4), or (d·s)·q where the third bit is set.
void from_q3_k(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 110, out += kSuper) {
    const float d = load_f16(in + 108);
    for (std::size_t i = 0; i < kSuper; i += 16) {
      const float scale = d * static_cast<float>(scale_q3_k(in + 96, i / 16));
      for (std::size_t j = i; j < i + 16; ++j) {
        const int third = (in[j % 32] >> (j / 32)) & 1;
        out[j] = scale * static_cast<float>(two_bits(in + 32, j) - (third != 0 ? 0 : 4));
      }
    }
  }
}

/// The 6-bit scales s and t of 32 elements, of which Q4_K and Q5_K have eight pairs in 12 bytes.
struct ScalePair {
  float s, t;
};
ScalePair scale_pair(const std::uint8_t* bytes, std::size_t g) {
  int s = bytes[g % 4] & 63;
  int t = bytes[g % 4 + 4] & 63;
  if (g >= 4) {
    s = (bytes[g + 4] & 15) | (bytes[g - 4] >> 6) << 4;
    t = (bytes[g + 4] >> 4) | (bytes[g] >> 6) << 4;
  }
  return {static_cast<float>(s), static_cast<float>(t)};
}

/// Of 128 bytes: 32 of them hold 64 elements, the first 32 in the low nibbles.
int wide_nibble(const std::uint8_t* bytes, std::size_t i) {
  return (bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
}

/// d, m, 12 bytes of scales s and t, (Q5_K: 32 bytes of fifth bits, element i in bit i / 32 of byte i % 32,)
/// 128 bytes of nibbles: (d·s)·q - m·t.
template <bool Fifth>
void from_q4_k_or_q5_k(const std::uint8_t* in, std::size_t n, float* out) {
  constexpr std::size_t kLow = Fifth ? 48 : 16;
  for (; n > 0; n -= kSuper, in += kLow + 128, out += kSuper) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    for (std::size_t i = 0; i < kSuper; i += 32) {
      const ScalePair pair = scale_pair(in + 4, i / 32);
      const float scale = d * pair.s;
      const float low = m * pair.t;
      for (std::size_t j = i; j < i + 32; ++j) {
        int q = wide_nibble(in + kLow, j);
        if constexpr (Fifth) q |= ((in[16 + j % 32] >> (j / 32)) & 1) << 4;
        out[j] = scale * static_cast<float>(q) - low;
      }
    }
  }
}

/// 128 bytes of nibbles: 64 hold 128 elements, the first 64 in the low nibbles; 64 bytes of bits 4 and 5,
/// laid out as Q2_K's q; 16 int8 scales s; d: (d·s)·(q - 32).
void from_q6_k(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 210, out += kSuper) {
    const float d = load_f16(in + 208);
    for (std::size_t i = 0; i < kSuper; i += 16) {
      const float scale = d * signed_byte(in[192 + i / 16]);
      for (std::size_t j = i; j < i + 16; ++j) {
        const int low = (in[j / 128 * 64 + j % 64] >> (j % 128 / 64 * 4)) & 15;
        out[j] = scale * static_cast<float>((low | two_bits(in + 128, j) << 4) - 32);
      }
    }
  }
}

/// A float32 d, 256 int8 q, 16 sums that are not needed: d·q.
void from_q8_k(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 292, out += kSuper) {
    float d = 0;
    std::memcpy(&d, in, 4);
    for (std::size_t j = 0; j < kSuper; ++j) out[j] = d * signed_byte(in[4 + j]);
  }
}

/// d, 16 bits and 4 bytes of 6-bit scales s for 32 elements each (high 2 bits, low 4 bits), 128 bytes of
/// nibbles q as in Q4_0: (d·(s - 32))·level(q).
void from_iq4_xs(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 136, out += kSuper) {
    const float d = load_f16(in);
    const int high = load_u16(in + 2);
    for (std::size_t g = 0; g < kSuper / kBlock; ++g) {
      const int s = ((in[4 + g / 2] >> (g % 2 * 4)) & 15) | ((high >> (2 * g)) & 3) << 4;
      const float scale = d * static_cast<float>(s - 32);
      for (std::size_t j = 0; j < kBlock; ++j)
        out[g * kBlock + j] = scale * kNonLinear[static_cast<std::size_t>(nibble(in + 8 + 16 * g, j))];
    }
  }
}

/// `count` bytes with `digits` ternary digits each, the first digits of all bytes first. A byte is its
/// fraction in base 3, rounded up, times 256: multiplied by 3 the next digit is what leaves at the top.
float* ternary_digits(const std::uint8_t* in, std::size_t count, int digits, float d, float* out) {
  std::uint32_t power = 1;
  for (int k = 0; k < digits; ++k, power *= 3)
    for (std::size_t j = 0; j < count; ++j) {
      const std::uint32_t rest = in[j] * power & 255;
      *out++ = d * static_cast<float>(static_cast<int>(rest * 3 >> 8) - 1);
    }
  return out;
}

/// 32 and 16 bytes of five ternary digits each, 4 bytes of four, d: d·(q - 1).
void from_tq1_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 54) {
    const float d = load_f16(in + 52);
    out = ternary_digits(in, 32, 5, d, out);
    out = ternary_digits(in + 32, 16, 5, d, out);
    out = ternary_digits(in + 48, 4, 4, d, out);
  }
}

/// 64 bytes of 2-bit q as in Q2_K, d: d·(q - 1).
void from_tq2_0(const std::uint8_t* in, std::size_t n, float* out) {
  for (; n > 0; n -= kSuper, in += 66, out += kSuper) {
    const float d = load_f16(in + 64);
    for (std::size_t j = 0; j < kSuper; ++j) out[j] = d * static_cast<float>(two_bits(in, j) - 1);
  }
}

struct Reader {
  std::uint32_t type;
  void (*read)(const std::uint8_t* in, std::size_t n, float* out);
};
constexpr Reader kReaders[] = {
    {0, from_f32},
    {1, from_f16},
    {30, from_bf16},
    {28, from_f64},
    {8, from_q8<2>},
    {9, from_q8<4>},
    {2, from_q4_0},
    {3, from_q4_1},
    {6, from_q5_0},
    {7, from_q5_1},
    {10, from_q2_k},
    {11, from_q3_k},
    {12, from_q4_k_or_q5_k<false>},
    {13, from_q4_k_or_q5_k<true>},
    {14, from_q6_k},
    {15, from_q8_k},
    {20, from_iq4_nl},
    {23, from_iq4_xs},
    {34, from_tq1_0},
    {35, from_tq2_0},
    {39, from_mxfp4},
};

const Reader* reader_of(std::uint32_t type) {
  for (const Reader& reader : kReaders)
    if (reader.type == type) return &reader;
  return nullptr;
}

}  // namespace

bool can_dequantize(const GgmlType& type) { return reader_of(type.id) != nullptr; }

std::string readable_types() {
  std::vector<const char*> names;
  for (const Reader& reader : kReaders) names.push_back(ggml_type(reader.type)->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void dequantize_row(const GgmlType& type, Bytes bytes, std::span<float> out, std::string_view tensor) {
  const Reader* reader = reader_of(type.id);
  if (reader == nullptr)
    fail(ML_E_UNSUPPORTED, "tensor {} has type {}, which is not read; readable: {}", printable(tensor),
         type.name, readable_types());
  if (out.size() % type.block != 0 || bytes.size() != out.size() / type.block * type.bytes)
    fail(ML_E_ARG, "tensor {}: a row of {} {} elements does not take {} bytes", printable(tensor), out.size(),
         type.name, bytes.size());
  reader->read(bytes.data(), out.size(), out.data());
}

}  // namespace krafla
