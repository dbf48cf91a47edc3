// Reads little-endian values from untrusted bytes, and computes sizes without overflow.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"

namespace krafla {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian and used in place");

using Bytes = std::span<const std::uint8_t>;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether a file begins with these bytes; false if it is shorter.
inline bool starts_with(Bytes file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

/// a * b and a + b, or nothing if the result does not fit. Sizes use std::size_t, so a file that is too large
/// for a 32-bit system is refused there.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T r{};
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::unsigned_integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T r{};
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// A cursor over untrusted bytes. Every read is bounds-checked and throws ML_E_FORMAT naming `what` and the
/// position.
class ByteReader {
 public:
  /// `name` is the file's name for messages. It must outlive the reader.
  ByteReader(Bytes bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T read(std::string_view what) {
    T value;
    Bytes raw = take(sizeof(T), what);
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// The next n bytes, as a view.
  Bytes take(std::uint64_t n, std::string_view what) {
    if (n > remaining())
      fail(ML_E_FORMAT,
           "{}: {} at offset {} needs {} bytes, but only {} are left; the file is cut short or damaged",
           name_, what, position_, n, remaining());
    Bytes result = bytes_.subspan(position_, static_cast<std::size_t>(n));
    position_ += static_cast<std::size_t>(n);
    return result;
  }

 private:
  Bytes bytes_;
  std::string_view name_;
  std::size_t position_ = 0;
};

}  // namespace krafla
