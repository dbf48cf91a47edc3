#include "formats/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/round_up.h"

namespace krafla {
namespace {

constexpr std::uint32_t kMaxArrayType = static_cast<std::uint32_t>(GgufType::f64);
constexpr const char* kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::size_t kTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static_assert(std::size(kTypeNames) == kMaxArrayType + 1 && std::size(kTypeBytes) == kMaxArrayType + 1);

std::size_t type_bytes(GgufType type) { return kTypeBytes[static_cast<std::uint32_t>(type)]; }
bool is_integer(GgufType t) {
  return t != GgufType::f32 && t != GgufType::f64 && t != GgufType::boolean && type_bytes(t) > 0;
}
bool is_number(GgufType t) { return is_integer(t) || t == GgufType::f32 || t == GgufType::f64; }

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
};

template <class T>
T load(Bytes raw, std::size_t i) {
  T value;
  std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// Indices of `items` sorted by text(item); fails with the text of the first two that are equal.
template <class Items, class Text>
std::vector<std::uint32_t> sorted_unique(const Items& items, Text text, std::string_view name,
                                         const char* what) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return text(items[a]) < text(items[b]); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (text(items[order[i - 1]]) == text(items[order[i]]))
      fail(ML_E_FORMAT, "{}: the {} {} stands twice; each may stand once", name, what,
           printable(text(items[order[i]])));
  return order;
}

template <class Items, class Text>
std::size_t find_sorted(const Items& items, const std::vector<std::uint32_t>& order, Text text,
                        std::string_view wanted) {
  const auto it = std::lower_bound(order.begin(), order.end(), wanted,
                                   [&](std::uint32_t i, std::string_view w) { return text(items[i]) < w; });
  return it != order.end() && text(items[*it]) == wanted ? *it : items.size();
}

constexpr auto kKeyOf = [](const GgufEntry& e) { return e.key; };
constexpr auto kNameOf = [](const GgufTensor& t) { return t.name; };

}  // namespace

/// Reads the parts of a file in order. Every count is held against the bytes that are left before memory is
/// reserved for it.
class GgufParser {
 public:
  GgufParser(Bytes file, std::string_view name) : file_(file), in_(file, name) { g_.name = name; }

  Gguf parse() {
    header();
    metadata();
    read_alignment();
    for (std::uint64_t i = 0; i < n_tensors_; ++i) tensor_info();
    g_.by_name_ = sorted_unique(g_.tensors, kNameOf, g_.name, "tensor");
    place_tensors();
    return std::move(g_);
  }

 private:
  void header() {
    const Bytes magic = in_.take(4, "the magic");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0)
      fail(ML_E_FORMAT, "{}: the magic is {:02x} {:02x} {:02x} {:02x}; allowed: \"GGUF\"{}", g_.name,
           magic[0], magic[1], magic[2], magic[3],
           std::memcmp(magic.data(), "MLB1", 4) == 0 ? "; this is a .mlb, which has been converted already"
                                                     : "");
    g_.version = in_.read<std::uint32_t>("version");
    if (g_.version == 1)
      fail(ML_E_UNSUPPORTED, "{}: GGUF version 1; allowed: 2 or 3; convert the file with a current llama.cpp",
           g_.name);
    if (g_.version == 0x03000000u || g_.version == 0x02000000u)
      fail(ML_E_UNSUPPORTED, "{}: the file is big-endian; only little-endian GGUF is read", g_.name);
    if (g_.version < 2 || g_.version > 3)
      fail(ML_E_FORMAT, "{}: GGUF version {}; allowed: 2 or 3", g_.name, g_.version);
    n_tensors_ = in_.read<std::uint64_t>("tensor count");
    n_keys_ = in_.read<std::uint64_t>("metadata count");
    check_count(n_tensors_, 32, "tensor count");
    check_count(n_keys_, 13, "metadata count");
  }

  /// A count of things that take at least `least` bytes each.
  void check_count(std::uint64_t count, std::size_t least, std::string_view what) const {
    if (count > in_.remaining() / least || count > std::numeric_limits<std::uint32_t>::max())
      fail(ML_E_FORMAT,
           "{}: {} is {}, more than the {} bytes left can hold; the file is cut short or damaged", g_.name,
           what, count, in_.remaining());
  }

  std::string_view string(std::string_view what) {
    const auto length = in_.read<std::uint64_t>(what);
    const Bytes bytes = in_.take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  GgufType type(std::string_view key) {
    const auto id = in_.read<std::uint32_t>("a metadata type");
    if (id > kMaxArrayType)
      fail(ML_E_FORMAT, "{}: key {} has value type {}; allowed: 0 to {}", g_.name, printable(key), id,
           kMaxArrayType);
    return static_cast<GgufType>(id);
  }

  void metadata() {
    g_.metadata.reserve(static_cast<std::size_t>(n_keys_));
    for (std::uint64_t i = 0; i < n_keys_; ++i) {
      GgufEntry& e = g_.metadata.emplace_back();
      e.key = string("a metadata key");
      if (e.key.empty())
        fail(ML_E_FORMAT, "{}: metadata key {} is empty; allowed: at least one character", g_.name, i);
      e.value.type = type(e.key);
      value(e);
    }
    g_.by_key_ = sorted_unique(g_.metadata, kKeyOf, g_.name, "key");
  }

  void value(GgufEntry& e) {
    GgufValue& v = e.value;
    const std::string what = "the value of key " + printable(e.key);
    if (v.is_array()) {
      v.element = type(e.key);
      if (v.element == GgufType::array)
        fail(ML_E_UNSUPPORTED, "{}: key {} is an array of arrays, which is not read", g_.name,
             printable(e.key));
      const auto count = in_.read<std::uint64_t>(what);
      check_count(count, v.element == GgufType::string ? 8 : type_bytes(v.element),
                  "the length of key " + printable(e.key));
      v.count = static_cast<std::size_t>(count);
    }
    if (v.scalar_type() == GgufType::string) {
      v.strings.reserve(v.count);
      for (std::size_t i = 0; i < v.count; ++i) v.strings.push_back(string(what));
      return;
    }
    v.raw = in_.take(v.count * type_bytes(v.scalar_type()), what);
    if (v.scalar_type() == GgufType::boolean)
      for (const std::uint8_t b : v.raw)
        if (b > 1)
          fail(ML_E_FORMAT, "{}: key {} has the bool {}; allowed: 0 or 1", g_.name, printable(e.key), b);
  }

  void read_alignment() {
    const GgufValue* v = g_.find("general.alignment");
    if (v == nullptr) return;
    const auto alignment = v->type == GgufType::u32 ? v->integer() : std::nullopt;
    if (!alignment || *alignment < 1 || !std::has_single_bit(static_cast<std::uint64_t>(*alignment)))
      fail(ML_E_FORMAT, "{}: general.alignment is {}; allowed: a u32 that is a power of two", g_.name,
           alignment ? std::to_string(*alignment) : gguf_type_name(v->type));
    g_.alignment = static_cast<std::uint64_t>(*alignment);
  }

  void tensor_info() {
    GgufTensor& t = g_.tensors.emplace_back();
    t.name = string("a tensor's name");
    t.n_dims = in_.read<std::uint32_t>("a tensor's dimensions");
    if (t.n_dims < 1 || t.n_dims > 4)
      fail(ML_E_FORMAT, "{}: tensor {} has {} dimensions; allowed: 1 to 4", g_.name, printable(t.name),
           t.n_dims);
    for (std::uint32_t i = 0; i < t.n_dims; ++i) t.dims[i] = in_.read<std::uint64_t>("a tensor's dimensions");
    const auto id = in_.read<std::uint32_t>("a tensor's type");
    t.type = ggml_type(id);
    if (t.type == nullptr)
      fail(ML_E_UNSUPPORTED, "{}: tensor {} has the unknown type {}", g_.name, printable(t.name), id);
    t.offset = in_.read<std::uint64_t>("a tensor's offset");
  }

  /// Bytes of the tensor; fails where sizes overflow or do not fit the type.
  std::uint64_t size_of(const GgufTensor& t) const {
    std::optional<std::uint64_t> n = 1;
    for (const std::uint64_t d : t.dims) {
      if (d == 0)
        fail(ML_E_FORMAT, "{}: tensor {} has a dimension of 0; allowed: at least 1", g_.name,
             printable(t.name));
      n = n ? checked_mul(*n, d) : n;
    }
    if (t.dims[0] % t.type->block != 0)
      fail(ML_E_FORMAT, "{}: tensor {} has rows of {} elements; allowed for {}: a multiple of {}", g_.name,
           printable(t.name), t.dims[0], t.type->name, t.type->block);
    const auto bytes = n ? checked_mul<std::uint64_t>(*n / t.type->block, t.type->bytes) : n;
    if (!bytes)
      fail(ML_E_FORMAT, "{}: tensor {} of {} × {} × {} × {} is larger than 2^64", g_.name, printable(t.name),
           t.dims[0], t.dims[1], t.dims[2], t.dims[3]);
    return *bytes;
  }

  void place_tensors() {
    if (g_.tensors.empty()) return;
    // Both are far below 2^63.
    const auto start = round_up<std::uint64_t>(in_.position(), g_.alignment);
    for (GgufTensor& t : g_.tensors) {
      if (t.offset % g_.alignment != 0)
        fail(ML_E_FORMAT, "{}: tensor {} has offset {}; allowed: multiples of {}", g_.name, printable(t.name),
             t.offset, g_.alignment);
      const std::uint64_t bytes = size_of(t);
      const auto first = checked_add(start, t.offset);
      const auto end = first ? checked_add(*first, bytes) : first;
      if (!end || *end > file_.size())
        fail(ML_E_FORMAT,
             "{}: tensor {} of {} bytes at offset {} ends beyond the file's {} bytes; the file is cut short "
             "or damaged",
             g_.name, printable(t.name), bytes, t.offset, file_.size());
      t.offset = *first;
      t.data = file_.subspan(static_cast<std::size_t>(t.offset), static_cast<std::size_t>(bytes));
    }
    check_overlaps();
  }

  void check_overlaps() const {
    std::vector<const GgufTensor*> order;
    order.reserve(g_.tensors.size());
    for (const GgufTensor& t : g_.tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i - 1]->offset + order[i - 1]->data.size() > order[i]->offset)
        fail(ML_E_FORMAT, "{}: tensors {} and {} overlap at byte {}", g_.name, printable(order[i - 1]->name),
             printable(order[i]->name), order[i]->offset);
  }

  Bytes file_;
  Gguf g_;
  ByteReader in_;
  std::uint64_t n_tensors_ = 0;
  std::uint64_t n_keys_ = 0;
};

Gguf parse_gguf(Bytes file, std::string_view name) { return GgufParser(file, name).parse(); }

const char* gguf_type_name(GgufType type) { return kTypeNames[static_cast<std::uint32_t>(type)]; }

const GgmlType* ggml_type(std::uint32_t id) {
  for (const GgmlType& type : kGgmlTypes)
    if (type.id == id) return &type;
  return nullptr;
}

std::optional<std::int64_t> GgufValue::integer(std::size_t i) const {
  if (i >= count) return std::nullopt;
  switch (scalar_type()) {
    case GgufType::u8: return load<std::uint8_t>(raw, i);
    case GgufType::i8: return load<std::int8_t>(raw, i);
    case GgufType::u16: return load<std::uint16_t>(raw, i);
    case GgufType::i16: return load<std::int16_t>(raw, i);
    case GgufType::u32: return load<std::uint32_t>(raw, i);
    case GgufType::i32: return load<std::int32_t>(raw, i);
    case GgufType::i64: return load<std::int64_t>(raw, i);
    case GgufType::u64: {
      const auto value = load<std::uint64_t>(raw, i);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> GgufValue::number(std::size_t i) const {
  if (i >= count) return std::nullopt;
  if (scalar_type() == GgufType::f32) return load<float>(raw, i);
  if (scalar_type() == GgufType::f64) return load<double>(raw, i);
  const auto value = integer(i);
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

const GgufEntry* Gguf::entry(std::string_view key) const {
  const std::size_t i = find_sorted(metadata, by_key_, kKeyOf, key);
  return i < metadata.size() ? &metadata[i] : nullptr;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const GgufEntry* e = entry(key);
  return e != nullptr ? &e->value : nullptr;
}

const GgufTensor* Gguf::tensor(std::string_view tensor_name) const {
  const std::size_t i = find_sorted(tensors, by_name_, kNameOf, tensor_name);
  return i < tensors.size() ? &tensors[i] : nullptr;
}

const GgufValue& Gguf::typed(const GgufEntry& e, bool good, const char* wanted) const {
  if (!good)
    fail(ML_E_FORMAT, "{}: key {} is {}{}; allowed: {}", name, e.key,
         e.value.is_array() ? "an array of " : "of type ", gguf_type_name(e.value.scalar_type()), wanted);
  return e.value;
}

std::optional<std::int64_t> Gguf::integer(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  return typed(*e, !e->value.is_array() && e->value.integer().has_value(), "an integer below 2^63").integer();
}

std::optional<double> Gguf::number(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  return typed(*e, !e->value.is_array() && e->value.number().has_value(), "a number").number();
}

std::optional<bool> Gguf::boolean(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  return typed(*e, e->value.type == GgufType::boolean, "a bool").raw[0] != 0;
}

std::optional<std::string_view> Gguf::text(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  return typed(*e, e->value.type == GgufType::string, "a string").strings[0];
}

std::optional<std::span<const std::string_view>> Gguf::texts(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  return typed(*e, e->value.is_array() && e->value.element == GgufType::string, "an array of strings")
      .strings;
}

std::optional<std::vector<std::int64_t>> Gguf::integers(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  const GgufValue& v = typed(*e, e->value.is_array() && is_integer(e->value.element), "an array of integers");
  std::vector<std::int64_t> result(v.count);
  for (std::size_t i = 0; i < v.count; ++i) {
    const auto value = v.integer(i);
    if (!value) fail(ML_E_FORMAT, "{}: key {}[{}] is above 2^63", name, key, i);
    result[i] = *value;
  }
  return result;
}

std::optional<std::vector<float>> Gguf::numbers(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  const GgufValue& v = typed(*e, e->value.is_array() && is_number(e->value.element), "an array of numbers");
  std::vector<float> result(v.count);
  for (std::size_t i = 0; i < v.count; ++i) result[i] = static_cast<float>(v.number(i).value_or(0));
  return result;
}

std::optional<std::vector<bool>> Gguf::booleans(std::string_view key) const {
  const GgufEntry* e = entry(key);
  if (e == nullptr) return std::nullopt;
  const GgufType type = e->value.element;
  const GgufValue& v =
      typed(*e, e->value.is_array() && (type == GgufType::boolean || is_integer(type)), "an array of bools");
  std::vector<bool> result(v.count);
  for (std::size_t i = 0; i < v.count; ++i) {
    const std::int64_t value = type == GgufType::boolean ? v.raw[i] : v.integer(i).value_or(2);
    if (value < 0 || value > 1)
      fail(ML_E_FORMAT, "{}: key {}[{}] is {}; allowed: 0 or 1", name, key, i, value);
    result[i] = value != 0;
  }
  return result;
}

void Gguf::add_part(const Gguf& part) {
  tensors.insert(tensors.end(), part.tensors.begin(), part.tensors.end());
  by_name_ = sorted_unique(tensors, kNameOf, part.name, "tensor");
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  if (text.size() > kMost) out += "...";
  return out;
}

}  // namespace krafla
