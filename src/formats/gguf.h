// Reading GGUF files, versions 2 and 3, from bytes nobody vouches for. Goal: whatever the bytes, an error
// that names key or tensor, or a Gguf whose every view lies inside the file; time and memory are bounded by
// the file's size, not by the numbers in it. Non-goals: writing, big-endian files, knowing what a key means
// (src/convert).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace krafla {

/// The types of metadata values, numbered as in the file.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
/// "u32", "string" ...
const char* gguf_type_name(GgufType type);

/// A metadata value: a view into the file.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;        // of an array; never array itself (nested arrays are refused)
  std::size_t count = 1;                  // elements of an array; else 1
  Bytes raw;                              // the numbers, unaligned; empty for strings
  std::vector<std::string_view> strings;  // the string or strings

  bool is_array() const { return type == GgufType::array; }
  /// The type of the value or of the array's elements.
  GgufType scalar_type() const { return is_array() ? element : type; }
  /// Element i (0 for a scalar) as an integer or a number; nothing if the type is another or the value does
  /// not fit.
  std::optional<std::int64_t> integer(std::size_t i = 0) const;
  std::optional<double> number(std::size_t i = 0) const;
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

/// A ggml tensor type: blocks of `block` elements in `bytes` bytes.
struct GgmlType {
  std::uint32_t id;
  const char* name;
  std::uint32_t block;
  std::uint32_t bytes;
};
/// The type of a number; nullptr if it is unknown. quant/gguf_dequantize.h reads most of them.
const GgmlType* ggml_type(std::uint32_t id);

/// A tensor: row by row, dims[0] (the contiguous one) first.
struct GgufTensor {
  std::string_view name;
  const GgmlType* type = nullptr;
  std::uint32_t n_dims = 0;
  std::uint64_t dims[4] = {1, 1, 1, 1};
  std::uint64_t offset = 0;  // in the file
  Bytes data;

  std::size_t cols() const { return static_cast<std::size_t>(dims[0]); }
  std::size_t rows() const { return static_cast<std::size_t>(dims[1] * dims[2] * dims[3]); }
  std::size_t row_bytes() const { return cols() / type->block * type->bytes; }
  Bytes row(std::size_t r) const { return data.subspan(r * row_bytes(), row_bytes()); }
};

/// A parsed file: views into its bytes, which must outlive it.
class Gguf {
 public:
  std::string name;  // the file's name, for messages
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<GgufEntry> metadata;  // in file order
  std::vector<GgufTensor> tensors;  // in file order
  bool mapped = false;  // the owner's word: the bytes are those of MappedFiles, whose pages may be given back

  /// The value of a key or the tensor of a name; nullptr if there is none.
  const GgufValue* find(std::string_view key) const;
  const GgufTensor* tensor(std::string_view tensor_name) const;

  /// Typed values of optional keys: nothing if the key is missing; ML_E_FORMAT naming the key if the value is
  /// of another type (integers of any width are one type; a number may also be an integer).
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  /// An array of strings, or of integers or numbers (copied); nothing if the key is missing.
  std::optional<std::span<const std::string_view>> texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> numbers(std::string_view key) const;
  /// An array of bools, or of integers that are 0 and 1.
  std::optional<std::vector<bool>> booleans(std::string_view key) const;

  /// Adds the tensors of another part of a split model; its bytes must outlive this. ML_E_FORMAT if a name
  /// stands in both.
  void add_part(const Gguf& part);

 private:
  friend class GgufParser;
  const GgufValue& typed(const GgufEntry& entry, bool good, const char* wanted) const;
  const GgufEntry* entry(std::string_view key) const;
  std::vector<std::uint32_t> by_key_;   // indices sorted by key: no hash table to be attacked
  std::vector<std::uint32_t> by_name_;  // the same for tensors
};

/// Parses and checks a whole file: ML_E_FORMAT for everything that breaks the format, ML_E_UNSUPPORTED for
/// version 1, big-endian files, nested arrays and tensor types whose number is unknown.
Gguf parse_gguf(Bytes file, std::string_view name);

/// A text from a file, made fit for a message: at most 80 bytes, control and non-ASCII bytes escaped.
std::string printable(std::string_view text);

}  // namespace krafla
