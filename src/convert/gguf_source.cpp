#include "convert/gguf_source.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "formats/mlb.h"

namespace krafla {
namespace {

constexpr std::size_t kMostListed = 1000;  // tensors that an error lists

std::string listed(const std::vector<std::string>& entries) {
  std::string text;
  for (std::size_t i = 0; i < std::min(entries.size(), kMostListed); ++i) text += (i == 0 ? " " : "; ") + entries[i];
  if (entries.size() > kMostListed) text += fmt::format("; and {} more", entries.size() - kMostListed);
  return text;
}

/// "blk.{}.attn_q.weight" for layer 3: "blk.3.attn_q.weight".
std::string with_layer(std::string_view pattern, int layer) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + 2));
}

std::string shape_text(const GgufTensor& t) {
  std::string text = std::to_string(t.dims[0]);
  for (std::uint32_t i = 1; i < t.n_dims; ++i) text += fmt::format(" × {}", t.dims[i]);
  return text;
}

SourceTensor source_of(const GgufTensor& t) {
  const GgufTensor* tensor = &t;
  return {std::string(t.name), t.rows(), t.cols(),
          [tensor](std::size_t row, std::span<float> out) { dequantize_row(*tensor->type, tensor->row(row), out, tensor->name); }};
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

}  // namespace

std::string GgufKeys::full(std::string_view key) {
  std::string name = prefix_ + std::string(key);
  read_.insert(name);
  return name;
}

std::optional<std::uint32_t> GgufKeys::optional(std::string_view key) {
  const std::string name = full(key);
  const GgufValue* v = gguf_.find(name);
  if (v != nullptr && v->is_array())  // one value per layer: a plain value if all are equal
  {
    const std::vector<std::int64_t> all = gguf_.integers(name).value();
    if (all.empty() || std::any_of(all.begin(), all.end(), [&](std::int64_t x) { return x != all[0] || x < 0 || x > 0xffffffff; }))
      fail(ML_E_UNSUPPORTED, "{}: {} differs between layers, which this format does not hold", gguf_.name, name);
    return static_cast<std::uint32_t>(all[0]);
  }
  const auto value = gguf_.integer(name);
  if (!value) return std::nullopt;
  if (*value < 0 || *value > std::numeric_limits<std::uint32_t>::max())
    fail(ML_E_FORMAT, "{}: {} is {}; allowed: 0 to 4294967295", gguf_.name, name, *value);
  return static_cast<std::uint32_t>(*value);
}

std::uint32_t GgufKeys::required(std::string_view key) {
  const auto value = optional(key);
  if (!value) fail(ML_E_FORMAT, "{}: the key {}{} is missing", gguf_.name, prefix_, key);
  return *value;
}

std::optional<float> GgufKeys::number(std::string_view key) {
  const auto value = gguf_.number(full(key));
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

std::optional<std::string_view> GgufKeys::text(std::string_view key) { return gguf_.text(full(key)); }

std::optional<bool> GgufKeys::boolean(std::string_view key) { return gguf_.boolean(full(key)); }

void GgufKeys::refuse_unless(std::string_view key, double neutral, std::string_view reason) {
  const std::string name = full(key);
  const GgufValue* v = gguf_.find(name);
  if (v == nullptr) return;
  const auto value = v->type == GgufType::boolean ? std::optional<double>(*gguf_.boolean(name) ? 1 : 0) : gguf_.number(name);
  if (*value != neutral) fail(ML_E_UNSUPPORTED, "{}: {} is {}: {}", gguf_.name, name, *value, reason);
}

std::vector<std::string> GgufKeys::unread() const {
  std::vector<std::string> result;
  for (const GgufEntry& e : gguf_.metadata)
    if (e.key.starts_with(prefix_) && !read_.contains(e.key)) result.emplace_back(e.key);
  return result;
}

MlbHeader gguf_base_header(GgufKeys& keys) {
  const Gguf& gguf = keys.gguf();
  MlbHeader h;
  h.dim = keys.required("embedding_length");
  h.n_layers = keys.required("block_count");
  h.n_heads = keys.required("attention.head_count");
  h.n_kv_heads = keys.optional("attention.head_count_kv").value_or(h.n_heads);
  h.hidden_dim = keys.required("feed_forward_length");
  h.max_seq = keys.required("context_length");
  h.rope_theta = keys.number("rope.freq_base").value_or(10000.0f);
  const auto eps = keys.number("attention.layer_norm_rms_epsilon");
  if (!eps) fail(ML_E_FORMAT, "{}: the key attention.layer_norm_rms_epsilon is missing", gguf.name);
  h.norm_eps = *eps;
  h.head_dim = keys.optional("attention.key_length").value_or(0);
  const std::uint32_t value_length = keys.optional("attention.value_length").value_or(h.head_dim);
  if (value_length != h.head_dim)
    fail(ML_E_UNSUPPORTED, "{}: attention.key_length is {} and value_length {}; they must be equal", gguf.name, h.head_dim, value_length);
  h.rot_dim = keys.optional("rope.dimension_count").value_or(0);
  keys.optional("vocab_size");
  const GgufTensor* embedding = gguf.tensor("token_embd.weight");
  if (embedding == nullptr) fail(ML_E_FORMAT, "{}: the tensor token_embd.weight is missing", gguf.name);
  const std::size_t rows = embedding->rows();
  h.vocab = static_cast<std::uint32_t>(std::min<std::size_t>(rows, std::numeric_limits<std::uint32_t>::max()));
  if (h.n_layers > gguf.tensors.size())
    fail(ML_E_FORMAT, "{}: block_count is {}, but the file has only {} tensors; is a part of it missing?", gguf.name, h.n_layers,
         gguf.tensors.size());
  return h;
}

bool gguf_shares_classifier(const Gguf& gguf) {
  const GgufTensor* embedding = gguf.tensor("token_embd.weight");
  const GgufTensor* output = gguf.tensor("output.weight");
  if (output == nullptr) return true;
  return embedding != nullptr && output->type == embedding->type && std::equal(output->dims, output->dims + 4, embedding->dims) &&
         std::memcmp(output->data.data(), embedding->data.data(), output->data.size()) == 0;
}

void map_gguf_tensors(const Gguf& gguf, std::span<const GgufName> names, std::span<const std::string_view> ignored, ModelPlan& plan) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::vector<MlbArray> arrays = mlb_layout(plan.header, plan.flags, kMost, gguf.name);
  std::vector<std::string> missing, wrong, unread;
  std::set<std::string, std::less<>> used;
  for (const MlbArray& a : arrays) {
    if (a.kind == MlbKind::flags) continue;
    const auto* row =
        std::find_if(names.data(), names.data() + names.size(), [&](const GgufName& n) { return std::string_view(n.target) == a.tensor; });
    if (row == names.data() + names.size()) fail(ML_E_UNSUPPORTED, "{}: this architecture has no tensor for {}", gguf.name, a.name());
    const std::string source = with_layer(row->source, a.layer);
    used.insert(source);
    const GgufTensor* t = gguf.tensor(source);
    if (t == nullptr) {
      missing.push_back(source);
    } else if (t->rows() != a.rows || t->cols() != a.cols || t->n_dims > 2) {
      wrong.push_back(
          fmt::format("{} is {}; needed: {}{}", source, shape_text(*t), a.cols, a.rows > 1 ? fmt::format(" × {}", a.rows) : ""));
    } else if (!can_dequantize(*t->type)) {
      unread.push_back(fmt::format("tensor {} has type {}, which is not read yet", source, t->type->name));
    } else {
      plan.tensors.emplace(a.name(), source_of(*t));
    }
  }
  if (!missing.empty()) fail(ML_E_FORMAT, "{}: {} tensors are missing:{}", gguf.name, missing.size(), listed(missing));
  if (!wrong.empty()) fail(ML_E_SHAPE, "{}: tensors have a wrong shape:{}", gguf.name, listed(wrong));
  if (!unread.empty()) fail(ML_E_UNSUPPORTED, "{}: readable are F32, F16, BF16, Q8_0, Q4_0 and Q4_1, but:{}", gguf.name, listed(unread));
  std::vector<std::string> extra;
  for (const GgufTensor& t : gguf.tensors)
    if (!used.contains(t.name) && !ends_with_any(t.name, ignored)) extra.push_back(printable(t.name));
  if (!extra.empty()) fail(ML_E_UNSUPPORTED, "{}: tensors that this architecture does not use here:{}", gguf.name, listed(extra));
}

}  // namespace krafla
