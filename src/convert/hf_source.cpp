#include "convert/hf_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/math.h"
#include "base/pluralized.h"
#include "convert/find_tensors.h"
#include "formats/gguf.h"  // printable
#include "formats/mlb.h"

namespace krafla {
namespace {

/// Tensors of other modalities, of draft heads and tables that are computed: skipped, and named in the notes.
constexpr std::string_view kSkippedPrefixes[] = {
    "model.visual.",
    "visual.",
    "vision_tower.",
    "model.vision_tower.",
    "vision_model.",
    "model.vision_model.",
    "multi_modal_projector.",
    "model.multi_modal_projector.",
    "connector.",
    "model.connector.",
    "image_newline",
    "model.image_newline",
    "audio_tower.",
    "model.audio_tower.",
    "mtp.",
    "model.mtp.",
};
constexpr std::string_view kSkippedEndings[] = {".rotary_emb.inv_freq"};

/// The classifier's tensor is the embedding's, bit for bit.
bool same_values(const HfCheckpoint& checkpoint, const SafeTensor& a, const SafeTensor& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype)
    return a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
  if (!can_decode(*a.dtype) || !can_decode(*b.dtype)) return false;
  const SourceTensor x = checkpoint.source(a), y = checkpoint.source(b);
  std::vector<float> p(x.cols), q(x.cols);
  for (std::size_t row = 0; row < x.rows; ++row) {
    x.read(row, p);
    y.read(row, q);
    if (std::memcmp(p.data(), q.data(), p.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Whether tok_emb is the classifier: what the files hold counts more than what config.json says, so that the
/// .mlb is that of a GGUF of the same values.
bool shares_classifier(const HfCheckpoint& checkpoint, bool fallback) {
  const HfConfig& config = checkpoint.config();
  const auto inner = config.boolean("tie_word_embeddings"),
             around = config.outer().boolean("tie_word_embeddings");
  if (checkpoint.lm_head().empty())
    return inner || around ? inner.value_or(false) || around.value_or(false) : fallback;
  const SafeTensor* embedding = checkpoint.tensor(checkpoint.prefix() + "embed_tokens.weight");
  return embedding != nullptr &&
         same_values(checkpoint, *checkpoint.tensor(checkpoint.lm_head()), *embedding);
}

/// Where num_key_value_heads is missing: what the first k_proj holds, else transformers' default.
std::uint32_t default_kv_heads(const HfCheckpoint& checkpoint, const MlbHeader& h, std::uint32_t fallback) {
  const std::string first = checkpoint.prefix() + "layers.0.self_attn.k_proj.weight";
  const SafeTensor* k = checkpoint.tensor(first);
  const std::uint32_t size = h.head_dim;
  if (k != nullptr && size != 0 && k->rows() % size == 0 && k->rows() / size <= h.n_heads)
    return static_cast<std::uint32_t>(k->rows() / size);
  return fallback != 0 ? fallback : h.n_heads;
}

// --- RoPE ---

/// The settings of RoPE on full layers, whatever they are called; rope_local holds those of sliding layers
/// where the file tells them apart.
struct RopeKeys {
  HfKeys full, sliding;
};

RopeKeys rope_keys(const HfConfig& config) {
  const HfKeys scaling = config.object("rope_scaling"), parameters = config.object("rope_parameters");
  const HfKeys& given = scaling.empty() ? parameters : scaling;  // both: as transformers 5 has it
  if (!given.has("full_attention") && !given.has("sliding_attention"))
    return {given, config.object("")};  // no such key: empty
  return {given.object("full_attention"), given.object("sliding_attention")};
}

std::string rope_type(const HfKeys& keys) {
  return keys.text("rope_type").value_or(keys.text("type").value_or("default"));
}

/// A number a scaling cannot do without.
double needed(const HfKeys& keys, const char* key, std::string_view type) {
  const auto value = keys.number(key);
  if (!value) fail(ML_E_FORMAT, "{}: {} is missing, which the RoPE type {} needs", keys.path(), key, type);
  return *value;
}

constexpr const char* kOriginal = "original_max_position_embeddings";

/// The context before scaling, as transformers finds it: beside the other settings of the model the key
/// counts more than among RoPE's.
std::optional<std::uint32_t> original_length(const HfConfig& config, const HfKeys& keys) {
  const auto outside = config.count(kOriginal);
  return outside ? outside : keys.count(kOriginal);
}

void llama3_scaling(const HfConfig& config, const HfKeys& keys, std::uint32_t max_positions, MlbHeader& h) {
  h.rope_type = kRopeLlama3;
  h.rope_factor = static_cast<float>(needed(keys, "factor", "llama3"));
  h.rope_low_freq_factor = static_cast<float>(needed(keys, "low_freq_factor", "llama3"));
  h.rope_high_freq_factor = static_cast<float>(needed(keys, "high_freq_factor", "llama3"));
  h.rope_orig_max_seq = original_length(config, keys).value_or(max_positions);
}

/// The factor on cos and sin, as transformers finds it.
double yarn_attention_factor(const HfKeys& keys, double factor) {
  const auto scale = [&](double m) { return factor > 1 ? 0.1 * m * math::log(factor) + 1 : 1.0; };
  if (const auto given = keys.number("attention_factor")) return *given;
  const double mscale = keys.number("mscale").value_or(0),
               all_dim = keys.number("mscale_all_dim").value_or(0);
  return mscale != 0 && all_dim != 0 ? scale(mscale) / scale(all_dim) : scale(1);
}

/// 0 counts as not given, as in transformers.
float beta(const HfKeys& keys, const char* key, float fallback) {
  const double given = keys.number(key).value_or(0);
  return given != 0 ? static_cast<float>(given) : fallback;
}

void yarn_scaling(const HfConfig& config, const HfKeys& keys, std::uint32_t max_positions, MlbHeader& h) {
  if (keys.has("truncate") && !keys.boolean("truncate").value_or(false))
    fail(ML_E_UNSUPPORTED, "{}: truncate is false: only yarn with whole bounds is supported", keys.path());
  const auto original = original_length(config, keys);
  if (!keys.number("factor") && !original) needed(keys, "factor", "yarn");
  h.rope_type = kRopeYarn;
  h.rope_orig_max_seq = original.value_or(0) != 0 ? *original : max_positions;
  const double factor =
      keys.number("factor").value_or(static_cast<double>(max_positions) / h.rope_orig_max_seq);
  h.rope_factor = static_cast<float>(factor);
  h.rope_low_freq_factor = beta(keys, "beta_fast", 32);
  h.rope_high_freq_factor = beta(keys, "beta_slow", 1);
  h.rope_attn_factor = static_cast<float>(yarn_attention_factor(keys, factor));
}

void rope(const HfConfig& config, const HfDefaults& defaults, std::uint32_t max_positions, MlbHeader& h) {
  const auto [keys, sliding] = rope_keys(config);
  if (!defaults.local_rope && !sliding.empty() && !sliding.same(keys))
    fail(ML_E_UNSUPPORTED, "{}: other settings than those of full_attention are not supported for {}",
         sliding.path(), config.model_type());
  const auto setting = [&](const char* key, double fallback) {
    return keys.number(key).value_or(config.number(key).value_or(fallback));
  };
  h.rope_theta = static_cast<float>(setting("rope_theta", defaults.rope_theta));
  const double partial = setting("partial_rotary_factor", defaults.rotary);
  if (partial != 1 && defaults.rotary == 1)
    fail(ML_E_UNSUPPORTED, "{}: partial_rotary_factor is {}; for {} only 1 is supported", config.name(),
         partial, config.model_type());
  if (!(partial > 0 && partial <= 1))
    fail(ML_E_FORMAT, "{}: partial_rotary_factor is {}; allowed: above 0, at most 1", config.name(), partial);
  h.rot_dim = static_cast<std::uint32_t>(h.head_dim * partial);
  if (h.rot_dim == 0 && h.head_dim != 0)
    fail(ML_E_SHAPE, "{}: partial_rotary_factor is {}: of {} dimensions none is left", config.name(), partial,
         h.head_dim);
  const std::string type = rope_type(keys);
  if (type == "linear") {
    h.rope_type = kRopeLinear;
    h.rope_factor = static_cast<float>(needed(keys, "factor", type));
  } else if (type == "llama3") {
    llama3_scaling(config, keys, max_positions, h);
  } else if (type == "yarn") {
    yarn_scaling(config, keys, max_positions, h);
  } else if (type != "default") {
    fail(ML_E_UNSUPPORTED, "{}: the RoPE type is \"{}\"; supported: default, linear, llama3, yarn",
         keys.path(), printable(type));
  }
}

// --- other settings ---

std::uint32_t activation(const HfConfig& config, const HfDefaults& defaults) {
  const std::string name = config.text(defaults.activation_key).value_or(defaults.activation);
  if (name == "silu" || name == "swish") return kActSilu;
  if (name == "gelu_pytorch_tanh") return kActGelu;
  fail(ML_E_UNSUPPORTED, "{}: the activation is \"{}\"; supported: silu, gelu_pytorch_tanh", config.name(),
       printable(name));
}

/// Settings that change what a model computes and that no .mlb holds.
void refuse_settings(const HfConfig& config) {
  config.refuse_unless("mlp_bias", 0, "biases in the FFN are not supported");
  config.refuse_unless("use_bidirectional_attention", 0, "only causal models are supported");
  config.refuse_unless("is_causal", 1, "only causal models are supported");
  config.refuse_unless("num_experts", 0, "mixtures of experts are not supported");
  config.refuse_unless("num_local_experts", 0, "mixtures of experts are not supported");
  config.refuse_unless("enable_moe_block", 0, "mixtures of experts are not supported");
  config.refuse_unless("clip_qkv", NAN, "clipped q, k and v are not supported");
  config.refuse_unless("logit_scale", 1, "scaled logits are not supported");
  config.refuse_unless("embedding_multiplier", 1, "scaled embeddings are not supported");
  config.refuse_unless("residual_multiplier", 1, "scaled residuals are not supported");
  config.refuse_unless("attention_multiplier", NAN, "scaled attention is not supported");
  config.refuse_unless("logits_scaling", 1, "scaled logits are not supported");
}

// --- tensors ---

/// The name of an array's tensor in the checkpoint.
std::string source_name(const HfCheckpoint& checkpoint, std::span<const TensorName> own, const MlbArray& a) {
  if (a.tensor->q8_class == kClassCls)
    return checkpoint.lm_head().empty() ? "lm_head.weight" : checkpoint.lm_head();
  const TensorName* row = find_tensor_name(own, a.tensor->name);
  if (row == nullptr)
    fail(ML_E_UNSUPPORTED, "{}: {} has no tensor for {}", checkpoint.folder(),
         checkpoint.config().model_type(), a.name());
  return checkpoint.prefix() + with_layer(row->hf, a.layer);
}

/// The shape that the tensor of an array has in the checkpoint.
std::vector<std::uint64_t> source_shape(const MlbHeader& h, const MlbArray& a) {
  if (a.tensor->name == "lconv") return {a.rows, 1, a.cols};
  if (holds_query_and_gate(h, *a.tensor)) return {2 * a.rows, a.cols};
  if (a.quantized()) return {a.rows, a.cols};
  return {a.cols};
}

/// The tensors of a folder as find_tensors() wants them.
TensorContainer container_of(const HfCheckpoint& checkpoint, std::span<const TensorName> own,
                             const MlbHeader& h) {
  const auto find = [&checkpoint, &h](const std::string& name, const MlbArray& a) {
    std::optional<FoundTensor> found;
    const SafeTensor* t = checkpoint.tensor(name);
    if (t == nullptr) return found;
    found.emplace();
    const std::vector<std::uint64_t> shape = source_shape(h, a);
    if (t->shape != shape)
      found->wrong_shape = fmt::format("{}; needed: [{}]", t->shape_text(), fmt::join(shape, ", "));
    else if (!can_decode(*t->dtype))
      found->unreadable = t->dtype->name;
    else
      found->rows = checkpoint.source(*t);
    return found;
  };
  return {checkpoint.folder(), checkpoint.config().name(), "F32, F16 and BF16",
          [&checkpoint, own](const MlbArray& a) { return source_name(checkpoint, own, a); }, find};
}

/// Tensors that no array uses: skipped with a note, or refused.
void check_rest(const HfCheckpoint& checkpoint, const std::set<std::string, std::less<>>& used,
                ModelPlan& plan) {
  std::map<std::string_view, std::size_t> skipped;
  std::vector<std::string> extra;
  for (const auto& [name, t] : checkpoint.tensors()) {
    if (used.contains(name) || (plan.header.shared_classifier != 0 && name == checkpoint.lm_head())) continue;
    const auto matches = [&](std::string_view part) { return name.starts_with(part); };
    const auto ends = [&](std::string_view part) { return name.ends_with(part); };
    const auto* prefix = std::find_if(std::begin(kSkippedPrefixes), std::end(kSkippedPrefixes), matches);
    const auto* ending = std::find_if(std::begin(kSkippedEndings), std::end(kSkippedEndings), ends);
    if (prefix != std::end(kSkippedPrefixes))
      ++skipped[*prefix];
    else if (ending != std::end(kSkippedEndings))
      ++skipped[*ending];
    else
      extra.push_back(printable(name));
  }
  if (!extra.empty())
    fail(ML_E_UNSUPPORTED, "{}: no place in a .mlb for {}:{}", checkpoint.folder(),
         pluralized(extra.size(), "tensor"), listed(extra));
  for (const auto& [group, count] : skipped)
    plan.notes.push_back(fmt::format("not converted: {}{} ({})", group, group.ends_with('.') ? "*" : "",
                                     pluralized(count, "tensor")));
}

}  // namespace

MlbHeader hf_base_header(const HfCheckpoint& checkpoint, const HfDefaults& defaults,
                         const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  refuse_settings(config);
  const auto count = [&](const char* key, std::uint32_t fallback) {
    return config.count(key).value_or(fallback);
  };
  MlbHeader h;
  storage.apply(h);
  h.dim = count("hidden_size", defaults.dim);
  h.n_layers = count("num_hidden_layers", defaults.layers);
  h.n_heads = count("num_attention_heads", defaults.heads);
  h.hidden_dim = count("intermediate_size", defaults.hidden);
  h.vocab = count("vocab_size", defaults.vocab);
  const std::uint32_t max_positions = count("max_position_embeddings", defaults.max_seq);
  h.max_seq = std::min(max_positions, kMlbMaxCount);
  if (h.n_layers > checkpoint.tensors().size())
    fail(ML_E_FORMAT, "{}: num_hidden_layers is {}, but the number of tensors in the files only {}",
         config.name(), h.n_layers, checkpoint.tensors().size());
  const bool null_head = config.is_null("head_dim");
  h.head_dim = count("head_dim", null_head ? 0 : defaults.head_dim);
  if (h.head_dim == 0 && h.n_heads != 0) {
    if (h.dim % h.n_heads != 0)
      fail(ML_E_SHAPE,
           "{}: hidden_size is {} and num_attention_heads {}; without a head_dim the first must be a "
           "multiple of the second",
           config.name(), h.dim, h.n_heads);
    h.head_dim = h.dim / h.n_heads;
  }
  const bool null_kv = config.is_null("num_key_value_heads");
  h.n_kv_heads =
      null_kv
          ? h.n_heads
          : config.count("num_key_value_heads").value_or(default_kv_heads(checkpoint, h, defaults.kv_heads));
  h.norm_eps = static_cast<float>(config.number("rms_norm_eps").value_or(1e-6));
  h.act = activation(config, defaults);
  h.shared_classifier = shares_classifier(checkpoint, defaults.tied);
  rope(config, defaults, max_positions, h);
  return h;
}

void hf_refuse_attention_bias(const HfConfig& config) {
  config.refuse_unless("attention_bias", 0, "a bias on o_proj is not supported");
}

std::optional<std::vector<std::uint8_t>> hf_layer_types(const HfConfig& config, std::uint32_t n_layers,
                                                        std::uint8_t allowed) {
  const auto names = config.texts("layer_types");
  if (!names) return std::nullopt;
  if (names->size() != n_layers)
    fail(ML_E_FORMAT, "{}: layer_types has {} entries; needed: one per layer ({})", config.name(),
         names->size(), n_layers);
  std::vector<std::uint8_t> flags;
  for (const std::string& name : *names) {
    const std::uint8_t flag = name == "full_attention"      ? 0
                              : name == "sliding_attention" ? kLayerWindow
                              : name == "linear_attention"  ? kLayerLinear
                                                            : 255;
    if ((flag & ~allowed) != 0)
      fail(ML_E_UNSUPPORTED, "{}: layer_types has \"{}\", which is not supported for {}", config.name(),
           printable(name), config.model_type());
    flags.push_back(flag);
  }
  return flags;
}

std::uint32_t hf_window(const HfConfig& config, std::uint32_t fallback) {
  return config.has("sliding_window") ? config.count("sliding_window").value_or(0) : fallback;
}

float hf_local_theta(const HfConfig& config, double fallback) {
  const HfKeys keys = rope_keys(config).sliding;
  if (rope_type(keys) != "default")
    fail(ML_E_UNSUPPORTED, "{}: the RoPE type of sliding layers is \"{}\"; supported: default", keys.path(),
         printable(rope_type(keys)));
  return static_cast<float>(
      keys.number("rope_theta").value_or(config.number("rope_local_base_freq").value_or(fallback)));
}

void hf_finish(const HfCheckpoint& checkpoint, std::span<const TensorName> own, PrepareRows prepare,
               ModelPlan& plan) {
  check_rest(checkpoint, find_tensors(container_of(checkpoint, own, plan.header), prepare, plan), plan);
}

}  // namespace krafla
