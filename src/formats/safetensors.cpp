#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/float16.h"
#include "formats/gguf.h"  // printable

namespace krafla {
namespace {

using Json = nlohmann::json;

constexpr SafeDtype kDtypes[] = {
    {"F32", 32},    {"F16", 16},    {"BF16", 16}, {"F64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},    {"BOOL", 8}, {"U8", 8},      {"I8", 8},      {"U16", 16},
    {"I16", 16},    {"U32", 32},    {"I32", 32},  {"U64", 64}, {"I64", 64},    {"C64", 64}};

/// A tensor as the header says it, before anything is checked against the file.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  unsigned keys = 0;  // seen: 1 dtype, 2 shape, 4 data_offsets
};

/// The header as events: it has exactly three levels, so everything else is refused where it begins, and
/// nothing is built for it.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(std::string_view file, std::vector<Entry>& entries) : file_(file), entries_(entries) {}

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ > 2 || in_array_) refuse("an object where none belongs");
    if (depth_ == 2 && !metadata_)
      entries_.push_back({.name = tensor_, .dtype = {}, .shape = {}, .offsets = {}});
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !metadata_ && entries_.back().keys != 7)
      refuse("without dtype, shape and data_offsets");
    --depth_;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      tensor_ = text;
      metadata_ = text == "__metadata__";
      if (!names_.insert(text).second) refuse("is there twice");
    } else {
      field_ = text;
      if (!metadata_) mark(text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0);
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || metadata_ || in_array_ || field_ == "dtype") refuse("a list where none belongs");
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) refuse("a number where none belongs");
    (field_ == "shape" ? entries_.back().shape : entries_.back().offsets).push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || in_array_ || field_ != "dtype") refuse("a text where none belongs");
    entries_.back().dtype = value;
    return true;
  }
  bool null() override { refuse("a null"); }
  bool boolean(bool) override { refuse("true or false"); }
  bool number_integer(number_integer_t value) override { refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    refuse("the number " + printable(text));
  }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ML_E_FORMAT, "{}: the header is no JSON at byte {}", file_, position + 7);
  }

 private:
  void mark(unsigned bit) {
    if (bit == 0) refuse("the unknown key " + printable(field_));
    if ((entries_.back().keys & bit) != 0) refuse(fmt::format("has {} twice", field_));
    entries_.back().keys |= bit;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    if (tensor_.empty())
      fail(ML_E_FORMAT, "{}: the header has {}; it must be an object of tensors", file_, what);
    fail(ML_E_FORMAT, "{}: {} in the header: {}", file_, printable(tensor_), what);
  }

  std::string_view file_;
  std::vector<Entry>& entries_;
  std::set<std::string> names_;
  std::string tensor_, field_;
  int depth_ = 0;
  bool metadata_ = false;  // within "__metadata__"
  bool in_array_ = false;
};

const SafeDtype* find_dtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const SafeDtype& d) { return d.name == name; });
  return found == std::end(kDtypes) ? nullptr : found;
}

/// The bytes that a tensor of this shape has; nothing if they do not fit 64 bits or are no whole number.
std::optional<std::uint64_t> size_of(const SafeDtype& dtype, std::span<const std::uint64_t> shape) {
  std::optional<std::uint64_t> bits = dtype.bits;
  for (const std::uint64_t n : shape) {
    bits = checked_mul(*bits, n);
    if (!bits) return std::nullopt;
  }
  return *bits % 8 == 0 ? std::optional(*bits / 8) : std::nullopt;
}

SafeTensor checked(const Entry& e, Bytes data, std::string_view file) {
  const std::string name = printable(e.name);
  SafeTensor t{.name = e.name, .dtype = find_dtype(e.dtype), .shape = e.shape, .data = {}};
  if (t.dtype == nullptr)
    fail(ML_E_FORMAT, "{}: {} has the dtype \"{}\", which is unknown", file, name, printable(e.dtype));
  if (e.offsets.size() != 2 || e.offsets[0] > e.offsets[1])
    fail(ML_E_FORMAT, "{}: {} has invalid data_offsets; needed: [begin, end], two byte offsets", file, name);
  const auto size = size_of(*t.dtype, t.shape);
  if (!size || *size != e.offsets[1] - e.offsets[0])
    fail(ML_E_FORMAT, "{}: {} has {} bytes (data_offsets {} to {}), but {} {} needs {}", file, name,
         e.offsets[1] - e.offsets[0], e.offsets[0], e.offsets[1], e.dtype, t.shape_text(),
         size ? std::to_string(*size) : "more than 2^64 bits or no whole bytes");
  t.data = data.subspan(static_cast<std::size_t>(e.offsets[0]), static_cast<std::size_t>(*size));
  return t;
}

/// The tensors must cover the data from its first byte to its last, one after the other.
void check_order(const std::vector<Entry>& entries, std::uint64_t header_end, std::uint64_t data_size,
                 std::string_view file) {
  std::vector<const Entry*> order;
  for (const Entry& e : entries)
    if (e.offsets.size() == 2) order.push_back(&e);  // others are refused one by one
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  std::uint64_t end = 0, most = 0;
  for (const Entry* e : order) most = std::max({most, e->offsets[0], e->offsets[1]});
  if (most > data_size)
    fail(ML_E_FORMAT, "{}: the file has {} bytes, but its tensors need {}; it is cut short or damaged", file,
         header_end + data_size,
         checked_add(header_end, most).value_or(std::numeric_limits<std::uint64_t>::max()));
  for (const Entry* e : order) {
    if (e->offsets[0] != end)
      fail(ML_E_FORMAT, "{}: {} begins at byte {} of the data, but the tensor before it ends at {}", file,
           printable(e->name), e->offsets[0], end);
    end = e->offsets[1];
  }
  if (end != data_size)
    fail(ML_E_FORMAT, "{}: after the last tensor there may be nothing; the bytes there: {}", file,
         data_size - end);
}

}  // namespace

std::size_t SafeTensor::rows() const {
  std::size_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) product *= static_cast<std::size_t>(shape[i]);
  return product;
}

std::string SafeTensor::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::vector<SafeTensor> parse_safetensors(Bytes file, std::string_view name) {
  ByteReader reader(file, name);
  const auto size = reader.read<std::uint64_t>("the header's size");
  if (size > kSafetensorsMaxHeader)
    fail(ML_E_FORMAT, "{}: the header's size is {}; allowed: at most {}; is it a .safetensors file?", name,
         size, kSafetensorsMaxHeader);
  const Bytes header = reader.take(size, "the header");
  std::vector<Entry> entries;
  HeaderReader events(name, entries);
  if (header.empty() || header[0] != '{')
    fail(ML_E_FORMAT, "{}: the header does not begin with {{; is it a .safetensors file?", name);
  Json::sax_parse(header.begin(), header.end(), &events);
  const Bytes data = file.subspan(reader.position());
  check_order(entries, reader.position(), data.size(), name);
  std::vector<SafeTensor> tensors;
  tensors.reserve(entries.size());
  for (const Entry& e : entries) tensors.push_back(checked(e, data, name));
  return tensors;
}

bool can_decode(const SafeDtype& dtype) {
  const std::string_view name = dtype.name;
  return name == "F32" || name == "F16" || name == "BF16";
}

void decode_floats(const SafeDtype& dtype, Bytes bytes, std::span<float> out) {
  const std::size_t n = out.size();
  if (!can_decode(dtype) || bytes.size() != n * (dtype.bits / 8))
    fail(ML_E_ARG, "{} bytes of {} do not make {} floats", bytes.size(), dtype.name, n);
  if (dtype.bits == 32) {
    if (n > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  // The data may be unaligned; a copy of a few elements at a time keeps the loops below simple enough to
  // become vector code.
  constexpr std::size_t kStep = 256;
  std::uint16_t h[kStep];
  const bool bf16 = std::string_view(dtype.name) == "BF16";
  for (std::size_t i = 0; i < n; i += kStep) {
    const std::size_t count = std::min(kStep, n - i);
    std::memcpy(h, bytes.data() + 2 * i, 2 * count);
    float* to = out.data() + i;
    if (bf16)
      for (std::size_t j = 0; j < count; ++j) to[j] = bf16_to_float(h[j]);
    else
      for (std::size_t j = 0; j < count; ++j) to[j] = f16_to_float(h[j]);
  }
}

}  // namespace krafla
