#include "convert/gguf_source.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/mapped_file.h"
#include "base/pluralized.h"
#include "convert/find_tensors.h"
#include "formats/mlb.h"
#include "quant/gguf_dequantize.h"

namespace krafla {
namespace {

std::string shape_text(const GgufTensor& t) {
  std::string text = std::to_string(t.dims[0]);
  for (std::uint32_t i = 1; i < t.n_dims; ++i) text += fmt::format(" × {}", t.dims[i]);
  return text;
}

SourceTensor source_of(const Gguf& gguf, const GgufTensor& t) {
  const GgufTensor* tensor = &t;
  SourceTensor source{std::string(t.name), t.rows(), t.cols(),
                      [tensor](std::size_t row, std::span<float> out) {
                        dequantize_row(*tensor->type, tensor->row(row), out, tensor->name);
                      }};
  if (gguf.mapped) source.release = [tensor] { release_pages(tensor->data); };
  return source;
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

// Tables of RoPE that old converters wrote along; rope_freqs.weight is read by gguf_rope_scaling.
constexpr std::string_view kRopeTables[] = {"rope_freqs.weight", ".attn_rot_embd.weight",
                                            ".rotary_emb.inv_freq"};

// Settings of other architectures, or of files made by others, and the value that changes nothing. A family
// that reads one allows it.
struct Neutral {
  const char* key;
  double value;
  const char* reason;
};
constexpr Neutral kNeutral[] = {
    {"expert_count", 0, "mixtures of experts are not supported"},
    {"expert_used_count", 0, "mixtures of experts are not supported"},
    {"attention.causal", 1, "only causal models are supported"},
    {"attention.max_alibi_bias", 0, "ALiBi is not supported"},
    {"attention.clamp_kqv", 0, "clamped q, k and v are not supported"},
    {"attention.sliding_window", 0, "a sliding window is not known of this architecture"},
    {"attention.temperature_scale", 0, "a temperature that depends on the position is not supported"},
    {"attention.output_scale", 1, "scaled attention is not supported"},
    {"attention.value_scale", 1, "scaled values are not supported"},
    {"attention.shared_kv_layers", 0, "layers that share keys and values are not supported"},
    {"attn_logit_softcapping", 0, "capped scores are not known of this architecture"},
    {"final_logit_softcapping", 0, "capped logits are not known of this architecture"},
    {"logit_scale", 1, "scaled logits are not supported"},
    {"residual_scale", 1, "scaled residuals are not supported"},
    {"use_parallel_residual", 0, "parallel residuals are not supported"},
    {"num_loops", 1, "layers that run more than once are not supported"},
    {"rope.scaling.alpha", 0, "this scaling of RoPE is not supported"},
};

// Keys that say nothing about the result: sections of RoPE matter to images only, where positions have three
// parts.
constexpr std::string_view kHarmless[] = {"vocab_size", "rope.dimension_sections", "rope.scaling.finetuned",
                                          "tensor_data_layout"};

/// The tensors of a GGUF as find_tensors() wants them.
TensorContainer container_of(const Gguf& gguf, std::span<const TensorName> own, const MlbHeader& h) {
  const auto name_of = [&gguf, own](const MlbArray& a) {
    const TensorName* row = find_tensor_name(own, a.tensor->name);
    if (row == nullptr || row->gguf == nullptr)
      fail(ML_E_UNSUPPORTED, "{}: this architecture has no tensor for {}", gguf.name, a.name());
    return with_layer(row->gguf, a.layer);
  };
  const auto find = [&gguf, &h](const std::string& name, const MlbArray& a) {
    std::optional<FoundTensor> found;
    const GgufTensor* t = gguf.tensor(name);
    if (t == nullptr) return found;
    found.emplace();
    const std::uint64_t rows = holds_query_and_gate(h, *a.tensor) ? 2 * a.rows : a.rows;
    if (t->rows() != rows || t->cols() != a.cols || t->n_dims > 2)
      found->wrong_shape =
          fmt::format("{}; needed: {}{}", shape_text(*t), a.cols, rows > 1 ? fmt::format(" × {}", rows) : "");
    else if (!can_dequantize(*t->type))
      found->unreadable = t->type->name;
    else
      found->rows = source_of(gguf, *t);
    return found;
  };
  return {gguf.name, gguf.name, readable_types(), name_of, find};
}

/// Tensors that no array uses: skipped with a note, or refused.
void check_rest(GgufKeys& keys, const std::set<std::string, std::less<>>& used, ModelPlan& plan) {
  const Gguf& gguf = keys.gguf();
  std::vector<std::string> mtp_blocks, extra;
  for (std::uint32_t i = 0; i < keys.optional("nextn_predict_layers").value_or(0); ++i)
    mtp_blocks.push_back(fmt::format("blk.{}.", plan.header.n_layers + i));
  std::size_t mtp = 0, vision = 0;
  for (const GgufTensor& t : gguf.tensors) {
    if (used.contains(t.name) || ends_with_any(t.name, kRopeTables)) continue;
    if (t.name == "output.weight" && plan.header.shared_classifier != 0) continue;
    if (std::any_of(mtp_blocks.begin(), mtp_blocks.end(),
                    [&](const std::string& block) { return t.name.starts_with(block); }))
      ++mtp;
    else if (t.name.starts_with("v.") || t.name.starts_with("mm."))
      ++vision;
    else
      extra.push_back(printable(t.name));
  }
  if (!extra.empty())
    fail(ML_E_UNSUPPORTED, "{}: tensors that this architecture does not use here:{}", gguf.name,
         listed(extra));
  if (mtp > 0)
    plan.notes.push_back(
        fmt::format("not converted: the blocks that predict further tokens ({})", pluralized(mtp, "tensor")));
  if (vision > 0)
    plan.notes.push_back(
        fmt::format("not converted: v.* and mm.*, which read images ({})", pluralized(vision, "tensor")));
}

/// Whether wcls is tok_emb: there is no output tensor, or it is the embedding byte for byte.
bool shares_classifier(const Gguf& gguf) {
  const GgufTensor* embedding = gguf.tensor("token_embd.weight");
  const GgufTensor* output = gguf.tensor("output.weight");
  if (output == nullptr) return true;
  return embedding != nullptr && output->type == embedding->type &&
         std::equal(output->dims, output->dims + 4, embedding->dims) &&
         std::memcmp(output->data.data(), embedding->data.data(), output->data.size()) == 0;
}

/// block_count without the blocks that predict further tokens.
std::uint32_t layer_count(GgufKeys& keys) {
  const std::uint32_t blocks = keys.required("block_count");
  const std::uint32_t mtp = keys.optional("nextn_predict_layers").value_or(0);
  if (mtp != 0 && mtp >= blocks)
    fail(ML_E_FORMAT, "{}: nextn_predict_layers is {}; allowed: less than block_count ({})", keys.gguf().name,
         mtp, blocks);
  const std::size_t tensors = keys.gguf().tensors.size();
  if (blocks > tensors)
    fail(ML_E_FORMAT, "{}: block_count is {}, but the file has only {} tensors; is a part of it missing?",
         keys.gguf().name, blocks, tensors);
  return blocks - mtp;
}

/// key_length, which must be value_length's too; 0: not given.
std::uint32_t head_size(GgufKeys& keys, const MlbHeader& h) {
  const auto key = keys.optional("attention.key_length");
  const std::uint32_t size = key.value_or(h.n_heads != 0 ? h.dim / h.n_heads : 0);
  const std::uint32_t value = keys.optional("attention.value_length").value_or(size);
  if (value != size)
    fail(ML_E_UNSUPPORTED, "{}: attention.key_length is {} and value_length {}; they must be equal",
         keys.gguf().name, size, value);
  return key.value_or(0);
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
  if (v != nullptr && v->is_array()) {  // one value per layer: a plain value if all are equal
    const std::vector<std::int64_t> all = gguf_.integers(name).value();
    if (all.empty() || std::any_of(all.begin(), all.end(),
                                   [&](std::int64_t x) { return x != all[0] || x < 0 || x > 0xffffffff; }))
      fail(ML_E_UNSUPPORTED, "{}: {} differs between layers, which this format does not hold", gguf_.name,
           name);
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

bool GgufKeys::is_array(std::string_view key) {
  const GgufValue* v = gguf_.find(full(key));
  return v != nullptr && v->is_array();
}

std::optional<std::vector<bool>> GgufKeys::per_layer(std::string_view key, std::uint32_t n) {
  const std::string name = full(key);
  auto all = gguf_.booleans(name);
  if (all && all->size() < n)
    fail(ML_E_FORMAT, "{}: {} has {} elements; needed: one per layer ({})", gguf_.name, name, all->size(), n);
  if (all) all->resize(n);
  return all;
}

void GgufKeys::refuse_unless(std::string_view key, double neutral, std::string_view reason) {
  const std::string name = full(key);
  const GgufValue* v = gguf_.find(name);
  if (v == nullptr) return;
  const auto value =
      v->type == GgufType::boolean ? std::optional<double>(*gguf_.boolean(name) ? 1 : 0) : gguf_.number(name);
  if (*value != neutral) fail(ML_E_UNSUPPORTED, "{}: {} is {}: {}", gguf_.name, name, *value, reason);
}

std::vector<std::string> GgufKeys::unread() const {
  std::vector<std::string> result;
  for (const GgufEntry& e : gguf_.metadata)
    if (e.key.starts_with(prefix_) && !read_.contains(e.key) &&
        std::find(std::begin(kHarmless), std::end(kHarmless), e.key.substr(prefix_.size())) ==
            std::end(kHarmless))
      result.emplace_back(e.key);
  return result;
}

MlbHeader gguf_base_header(GgufKeys& keys, const StorageChoice& storage) {
  const Gguf& gguf = keys.gguf();
  if (const auto type = gguf.text("general.type"); type && *type != "model")
    fail(ML_E_UNSUPPORTED, "{}: general.type is \"{}\"; only a \"model\" can be converted", gguf.name,
         printable(*type));
  MlbHeader h;
  storage.apply(h);
  h.dim = keys.required("embedding_length");
  h.n_layers = layer_count(keys);
  h.n_heads = keys.required("attention.head_count");
  h.n_kv_heads = keys.optional("attention.head_count_kv").value_or(h.n_heads);
  h.hidden_dim = keys.required("feed_forward_length");
  h.max_seq = std::min(keys.required("context_length"), kMlbMaxCount);
  h.rope_theta = keys.number("rope.freq_base").value_or(10000.0f);
  const auto eps = keys.number("attention.layer_norm_rms_epsilon");
  if (!eps) fail(ML_E_FORMAT, "{}: the key attention.layer_norm_rms_epsilon is missing", gguf.name);
  h.norm_eps = *eps;
  h.head_dim = head_size(keys, h);
  h.rot_dim = keys.optional("rope.dimension_count").value_or(0);
  h.attn_scale = keys.number("attention.scale").value_or(0);
  h.embed_scale = keys.number("embedding_scale").value_or(0);
  const GgufTensor* embedding = gguf.tensor("token_embd.weight");
  if (embedding == nullptr) fail(ML_E_FORMAT, "{}: the tensor token_embd.weight is missing", gguf.name);
  h.vocab = static_cast<std::uint32_t>(
      std::min<std::size_t>(embedding->rows(), std::numeric_limits<std::uint32_t>::max()));
  h.shared_classifier = shares_classifier(gguf);
  h.qkv_bias = gguf.tensor("blk.0.attn_q.bias") != nullptr;
  check_mlb_header(h, gguf.name);
  return h;
}

void gguf_finish(GgufKeys& keys, std::span<const TensorName> own, PrepareRows prepare, ModelPlan& plan) {
  const Gguf& gguf = keys.gguf();
  for (const Neutral& n : kNeutral)
    if (!keys.was_read(n.key)) keys.refuse_unless(n.key, n.value, n.reason);
  gguf_rope_scaling(keys, plan.header);
  check_rest(keys, find_tensors(container_of(gguf, own, plan.header), prepare, plan), plan);
  for (const std::string& key : keys.unread()) plan.notes.push_back("not used: " + printable(key));
}

}  // namespace krafla
