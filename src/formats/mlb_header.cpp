#include "formats/mlb_header.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/file_start.h"

namespace krafla {
namespace {

constexpr MlbField kFields[] = {
    {"dim", 8, false, "model width"},
    {"n_layers", 12, false, "layers"},
    {"n_heads", 16, false, "query heads"},
    {"n_kv_heads", 20, false, "key and value heads"},
    {"hidden_dim", 24, false, "width of the FFN"},
    {"vocab", 28, false, "tokens"},
    {"max_seq", 32, false, "longest context"},
    {"rope_theta", 36, true, "RoPE base"},
    {"norm_eps", 40, true, "epsilon of every RMSNorm"},
    {"wtype", 44, false, "matrices: 1 = Q8_0, 2 = Q4_0"},
    {"shared_classifier", 48, false, "non-zero: tok_emb is also the classifier"},
    {"rope_type", 52, false, "0 = plain, 1 = llama3, 2 = linear, 3 = yarn"},
    {"rope_factor", 56, true, "context extension factor"},
    {"rope_low_freq_factor", 60, true, "llama3: low; yarn: beta_fast"},
    {"rope_high_freq_factor", 64, true, "llama3: high; yarn: beta_slow"},
    {"rope_orig_max_seq", 68, false, "context before the extension"},
    {"q8_mask", 72, false, "classes of matrices kept as Q8_0"},
    {"qkv_bias", 76, false, "1: q, k and v have biases"},
    {"head_dim", 80, false, "size of a head; 0 = dim / n_heads"},
    {"qk_norm", 84, false, "1: RMSNorm of every query and key head"},
    {"rope_attn_factor", 88, true, "yarn: factor on cos and sin"},
    {"sliding_window", 92, false, "positions a windowed layer sees; 0 = all"},
    {"layer_flags", 96, false, "1: a byte of flags per layer"},
    {"rope_local_theta", 100, true, "RoPE base of layers with flag bit 1"},
    {"act", 104, false, "0 = SiLU, 1 = GELU (tanh)"},
    {"post_norms", 108, false, "1: RMSNorm of attention and FFN outputs"},
    {"embed_scale", 112, true, "factor on embeddings; 0 = 1"},
    {"attn_scale", 116, true, "factor on scores; 0 = 1/sqrt(head_dim)"},
    {"scale_f16", 120, false, "1: block scales are f16"},
    {"attn_softcap", 124, true, "soft cap of attention scores; 0 = none"},
    {"final_softcap", 128, true, "soft cap of logits; 0 = none"},
    {"rot_dim", 132, false, "dimensions RoPE rotates; 0 = all"},
    {"attn_gate", 136, false, "1: attention output is gated by wg"},
    {"lin_k_heads", 140, false, "linear attention: key heads"},
    {"lin_v_heads", 144, false, "linear attention: value heads"},
    {"lin_k_dim", 148, false, "linear attention: size of a key head"},
    {"lin_v_dim", 152, false, "linear attention: size of a value head"},
    {"lin_conv", 156, false, "linear attention: taps of the convolution"},
};
static_assert(std::size(kFields) * 4 == sizeof(MlbHeader));

constexpr const char* kLinFields[] = {"lin_k_heads", "lin_v_heads", "lin_k_dim", "lin_v_dim", "lin_conv"};

std::uint32_t raw_field(const MlbHeader& header, const MlbField& field) {
  std::uint32_t raw = 0;
  std::memcpy(&raw, reinterpret_cast<const char*>(&header) + (field.offset - 8), 4);
  return raw;
}

const MlbField& find_field(std::string_view name) {
  return *std::find_if(std::begin(kFields), std::end(kFields),
                       [&](const MlbField& f) { return name == f.name; });
}

bool positive(float x) { return std::isfinite(x) && x > 0; }
bool not_negative(float x) { return std::isfinite(x) && x >= 0; }

/// The rules read as a list: require(is it good?, field, what is allowed).
class Rules {
 public:
  Rules(const MlbHeader& header, std::string_view name, ml_status status)
      : h_(header), name_(name), status_(status) {}

  void require(bool good, const char* field, std::string_view allowed) const {
    if (good) return;
    const MlbField& found = find_field(field);
    fail(status_, "{}: {} ({}) is {}; allowed: {}", name_, field, found.meaning, mlb_field_text(h_, found),
         allowed);
  }
  void flag(std::uint32_t value, const char* field) const { require(value <= 1, field, "0 or 1"); }
  void within(std::uint32_t value, const char* field, std::uint32_t least, std::uint32_t most) const {
    if (value < least || value > most) require(false, field, fmt::format("{} to {}", least, most));
  }

 private:
  const MlbHeader& h_;
  std::string_view name_;
  ml_status status_;
};

void check_rope(const MlbHeader& h, const Rules& rules) {
  const bool llama3 = h.rope_type == kRopeLlama3;
  const bool yarn = h.rope_type == kRopeYarn;
  const float low = h.rope_low_freq_factor;
  const float high = h.rope_high_freq_factor;
  rules.require(h.rope_type <= kRopeYarn, "rope_type", "0 (plain), 1 (llama3), 2 (linear) or 3 (yarn)");
  rules.require(h.rope_type == kRopePlain || positive(h.rope_factor), "rope_factor",
                "finite and > 0 with llama3, linear and yarn");
  rules.require(!(llama3 || yarn) || positive(low), "rope_low_freq_factor",
                "finite and > 0 with llama3 and yarn");
  rules.require(!llama3 || (std::isfinite(high) && high > low), "rope_high_freq_factor",
                "finite and > rope_low_freq_factor with llama3");
  rules.require(!yarn || (positive(high) && high < low), "rope_high_freq_factor",
                "> 0 and < rope_low_freq_factor with yarn");
  rules.require(!(llama3 || yarn) || h.rope_orig_max_seq > 0, "rope_orig_max_seq",
                "> 0 with llama3 and yarn");
}

void check_formats(const MlbHeader& h, std::string_view name) {
  const Rules rules(h, name, ML_E_FORMAT);
  const bool yarn = h.rope_type == kRopeYarn;
  const bool q4 = h.weight_type() == WeightType::q4_0;
  rules.require(positive(h.rope_theta), "rope_theta", "finite and > 0");
  rules.require(not_negative(h.norm_eps), "norm_eps", "finite and >= 0");
  rules.require(h.wtype == 1 || h.wtype == 2, "wtype", "1 (Q8_0) or 2 (Q4_0)");
  check_rope(h, rules);
  rules.require(h.q8_mask <= 127 && (q4 || h.q8_mask == 0), "q8_mask", "0 to 127 with Q4_0, 0 with Q8_0");
  rules.flag(h.qkv_bias, "qkv_bias");
  rules.flag(h.qk_norm, "qk_norm");
  rules.require(yarn ? positive(h.rope_attn_factor) : h.rope_attn_factor == 0, "rope_attn_factor",
                "finite and > 0 with yarn, 0 without");
  rules.require(h.sliding_window <= kMlbMaxCount, "sliding_window", "0 to 16777216");
  rules.flag(h.layer_flags, "layer_flags");
  rules.require(not_negative(h.rope_local_theta), "rope_local_theta", "finite and >= 0");
  rules.require(h.act <= kActGelu, "act", "0 (SiLU) or 1 (GELU tanh)");
  rules.flag(h.post_norms, "post_norms");
  rules.require(not_negative(h.embed_scale), "embed_scale", "finite and >= 0");
  rules.require(not_negative(h.attn_scale), "attn_scale", "finite and >= 0");
  rules.flag(h.scale_f16, "scale_f16");
  rules.require(not_negative(h.attn_softcap), "attn_softcap", "finite and >= 0");
  rules.require(not_negative(h.final_softcap), "final_softcap", "finite and >= 0");
  rules.flag(h.attn_gate, "attn_gate");
}

void check_shapes(const MlbHeader& h, std::string_view name) {
  const Rules rules(h, name, ML_E_SHAPE);
  rules.within(h.dim, "dim", 1, kMlbMaxDim);
  rules.within(h.n_layers, "n_layers", 1, kMlbMaxDim);
  rules.within(h.n_heads, "n_heads", 1, kMlbMaxDim);
  rules.within(h.n_kv_heads, "n_kv_heads", 1, kMlbMaxDim);
  rules.within(h.hidden_dim, "hidden_dim", 1, kMlbMaxDim);
  rules.within(h.vocab, "vocab", 3, kMlbMaxCount);
  rules.within(h.max_seq, "max_seq", 1, kMlbMaxCount);
  rules.require(h.dim % 32 == 0, "dim", "a multiple of 32");
  rules.require(h.hidden_dim % 32 == 0, "hidden_dim", "a multiple of 32");
  rules.require(h.head_dim != 0 || h.dim % h.n_heads == 0, "n_heads",
                "a divisor of dim, unless head_dim is given");
  rules.require(h.n_heads % h.n_kv_heads == 0, "n_kv_heads",
                fmt::format("a divisor of n_heads ({})", h.n_heads));
  rules.require(h.head_size() % 2 == 0, "head_dim", fmt::format("even (the head size is {})", h.head_size()));
  if (h.q_dim() % 32 != 0 || h.q_dim() > kMlbMaxDim)
    fail(ML_E_SHAPE, "{}: q_dim (head_dim × n_heads) is {}; allowed: a multiple of 32, at most {}", name,
         h.q_dim(), kMlbMaxDim);
  rules.require(h.rot_dim % 2 == 0 && h.rot_dim <= h.head_size(), "rot_dim",
                fmt::format("even, at most head_dim ({})", h.head_size()));
}

void check_flag(const MlbHeader& h, std::size_t layer, std::uint8_t f, bool linear_sizes,
                std::string_view name) {
  const auto require = [&](bool good, std::string_view allowed) {
    if (!good) fail(ML_E_FORMAT, "{}: layer_flags[{}] is {}; allowed: {}", name, layer, f, allowed);
  };
  require(f <= 15, "bits 0 to 3");
  require((f & kLayerLinear) == 0 || f == kLayerLinear, "bit 3 (linear attention) alone");
  require((f & kLayerLocalRope) == 0 || (f & kLayerNoRope) == 0,
          "not both bit 1 (local RoPE base) and bit 2 (no RoPE)");
  require((f & kLayerWindow) == 0 || h.sliding_window != 0, "bit 0 only with a sliding_window");
  require((f & kLayerLocalRope) == 0 || h.rope_local_theta != 0, "bit 1 only with a rope_local_theta");
  require((f & kLayerLinear) == 0 || linear_sizes,
          "bit 3 only with lin_k_heads, lin_v_heads, lin_k_dim, lin_v_dim and lin_conv");
}

void check_linear(const MlbHeader& h, bool used, std::string_view name) {
  const std::uint32_t values[] = {h.lin_k_heads, h.lin_v_heads, h.lin_k_dim, h.lin_v_dim, h.lin_conv};
  const Rules zero_rules(h, name, used ? ML_E_SHAPE : ML_E_FORMAT);
  const Rules rules(h, name, ML_E_SHAPE);
  for (std::size_t i = 0; i < std::size(values); ++i)
    zero_rules.require(values[i] != 0, kLinFields[i], "1 to 65536, or 0 in all of lin_k_heads to lin_conv");
  for (std::size_t i = 0; i < std::size(values); ++i) rules.within(values[i], kLinFields[i], 1, kMlbMaxDim);
  rules.require(h.lin_v_heads % h.lin_k_heads == 0 && h.lin_v_heads % 4 == 0, "lin_v_heads",
                fmt::format("a multiple of lin_k_heads ({}) and of 4", h.lin_k_heads));
  rules.require(h.lin_values() % 32 == 0, "lin_v_dim",
                fmt::format("lin_v_heads × lin_v_dim a multiple of 32 (it is {})", h.lin_values()));
}

bool any_linear_field(const MlbHeader& h) {
  return (h.lin_k_heads | h.lin_v_heads | h.lin_k_dim | h.lin_v_dim | h.lin_conv) != 0;
}

/// Zeroes what no layer uses, and what says only what zero says.
void zero_unused(MlbHeader& h, std::uint8_t used_flags) {
  h.shared_classifier = h.shared_classifier != 0;
  if (h.shared_classifier != 0 && (h.q8_mask & (kClassEmb | kClassCls)) != 0)
    h.q8_mask = (h.q8_mask & ~std::uint32_t{kClassCls}) | kClassEmb;  // one matrix, so one bit: its own
  if (h.rope_type == kRopePlain) h.rope_factor = 0;
  if (h.rope_type == kRopePlain || h.rope_type == kRopeLinear) {
    h.rope_low_freq_factor = h.rope_high_freq_factor = 0;
    h.rope_orig_max_seq = 0;
  }
  if (h.rot_dim == h.head_size()) h.rot_dim = 0;
  if (h.attn_scale == static_cast<float>(1.0 / std::sqrt(static_cast<double>(h.head_size()))))
    h.attn_scale = 0;
  if (h.embed_scale == 1) h.embed_scale = 0;
  if (std::uint64_t{h.head_dim} * h.n_heads == h.dim) h.head_dim = 0;
  if ((used_flags & kLayerWindow) == 0) h.sliding_window = 0;
  if ((used_flags & kLayerLocalRope) == 0) h.rope_local_theta = 0;
  if ((used_flags & kLayerLinear) == 0)
    h.lin_k_heads = h.lin_v_heads = h.lin_k_dim = h.lin_v_dim = h.lin_conv = 0;
  for (float* f :
       {&h.norm_eps, &h.rope_factor, &h.rope_low_freq_factor, &h.rope_high_freq_factor, &h.rope_attn_factor,
        &h.rope_local_theta, &h.embed_scale, &h.attn_scale, &h.attn_softcap, &h.final_softcap})
    if (*f == 0) *f = 0;  // -0
}

}  // namespace

std::span<const MlbField> mlb_fields() { return kFields; }

std::string mlb_field_text(const MlbHeader& header, const MlbField& field) {
  const std::uint32_t raw = raw_field(header, field);
  return field.is_float ? fmt::format("{}", std::bit_cast<float>(raw)) : fmt::format("{}", raw);
}

MlbHeader parse_mlb_header(Bytes file, std::string_view name) {
  check_file_start(file, "MLB1", kMlbHeaderBytes, name);
  MlbHeader header;
  std::memcpy(static_cast<void*>(&header), &file[kFileStartBytes], sizeof header);
  check_formats(header, name);
  for (std::size_t i = kFileStartBytes + sizeof header; i < kMlbHeaderBytes; ++i)
    if (file[i] != 0) fail(ML_E_FORMAT, "{}: the padding at offset {} is {}; allowed: 0", name, i, file[i]);
  check_shapes(header, name);
  return header;
}

void check_mlb_header(const MlbHeader& header, std::string_view name) {
  check_formats(header, name);
  check_shapes(header, name);
}

void check_mlb_layers(const MlbHeader& header, std::span<const std::uint8_t> flags, std::string_view name) {
  const bool sizes = any_linear_field(header);
  std::uint8_t used = 0;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    check_flag(header, i, flags[i], sizes, name);
    used |= flags[i];
  }
  if (sizes) check_linear(header, (used & kLayerLinear) != 0, name);
}

std::vector<std::uint8_t> effective_flags(const MlbHeader& header, std::span<const std::uint8_t> stored) {
  if (!stored.empty()) return {stored.begin(), stored.end()};
  return std::vector<std::uint8_t>(header.n_layers, header.sliding_window != 0 ? kLayerWindow : 0);
}

MlbCanonical canonical_mlb(const MlbHeader& header, std::span<const std::uint8_t> flags,
                           std::string_view name) {
  check_mlb_header(header, name);
  if (!flags.empty() && flags.size() != header.n_layers)
    fail(ML_E_SHAPE, "{}: {} layer flags; allowed: one per layer ({})", name, flags.size(), header.n_layers);
  check_mlb_layers(header, flags, name);
  const bool given = header.layer_flags != 0 ||
                     std::any_of(flags.begin(), flags.end(), [](std::uint8_t f) { return f != 0; });
  if (header.layer_flags != 0 && flags.empty())
    fail(ML_E_FORMAT, "{}: layer_flags is 1, but there are no flags", name);
  MlbCanonical result{header, effective_flags(header, given ? flags : std::span<const std::uint8_t>{})};
  std::uint8_t used = 0;
  bool differ = false;
  for (const std::uint8_t f : result.flags) {
    used |= f;
    differ |= f != result.flags[0];
  }
  const bool written = differ || result.flags[0] > kLayerWindow;  // else the field sliding_window says it all
  zero_unused(result.header, used);
  result.header.layer_flags = written;
  if (!written) result.flags.clear();
  return result;
}

}  // namespace krafla
