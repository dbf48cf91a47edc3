#include <cstdint>
#include <optional>

#include "formats/mlb.h"

namespace krafla {
namespace {

using H = MlbHeader;
using L = MlbLayer;

// Sizes.
constexpr MlbSize one = [](const H&) -> std::uint64_t { return 1; };
constexpr MlbSize layers = [](const H& h) -> std::uint64_t { return h.n_layers; };
constexpr MlbSize vocab = [](const H& h) -> std::uint64_t { return h.vocab; };
constexpr MlbSize dim = [](const H& h) -> std::uint64_t { return h.dim; };
constexpr MlbSize hidden = [](const H& h) -> std::uint64_t { return h.hidden_dim; };
constexpr MlbSize head = [](const H& h) -> std::uint64_t { return h.head_size(); };
constexpr MlbSize q_dim = [](const H& h) { return h.q_dim(); };
constexpr MlbSize kv_dim = [](const H& h) { return h.kv_dim(); };
constexpr MlbSize lin_heads = [](const H& h) -> std::uint64_t { return h.lin_v_heads; };
constexpr MlbSize lin_head = [](const H& h) -> std::uint64_t { return h.lin_v_dim; };
constexpr MlbSize lin_values = [](const H& h) { return h.lin_values(); };
constexpr MlbSize lin_channels = [](const H& h) { return h.lin_channels(); };
constexpr MlbSize lin_taps = [](const H& h) -> std::uint64_t { return h.lin_conv; };

// Conditions: of the model, or of a layer with these flags.
using Condition = bool (*)(const H&, std::uint8_t flags);
constexpr Condition always = [](const H&, std::uint8_t) { return true; };
constexpr Condition with_flags = [](const H& h, std::uint8_t) { return h.layer_flags != 0; };
constexpr Condition own_classifier = [](const H& h, std::uint8_t) { return h.shared_classifier == 0; };
constexpr Condition post_norms = [](const H& h, std::uint8_t) { return h.post_norms != 0; };
constexpr Condition linear = [](const H&, std::uint8_t flags) { return (flags & kLayerLinear) != 0; };
constexpr Condition attention = [](const H& h, std::uint8_t flags) { return !linear(h, flags); };
constexpr Condition gated = [](const H& h, std::uint8_t flags) {
  return attention(h, flags) && h.attn_gate != 0;
};
constexpr Condition biased = [](const H& h, std::uint8_t flags) {
  return attention(h, flags) && h.qkv_bias != 0;
};
constexpr Condition qk_norm = [](const H& h, std::uint8_t flags) {
  return attention(h, flags) && h.qk_norm != 0;
};

constexpr std::optional<MliSlot> kNoSlot;
constexpr bool kRotated = true;

template <class Owner>
constexpr MlbTensor matrix(const char* name, Matrix Owner::* place, MlbSize rows, MlbSize cols,
                           Condition stored, MlbClass q8_class, std::optional<MliSlot> slot,
                           bool rotated = false) {
  return {name, MlbKind::quantized, place, rows, cols, stored, q8_class, slot, rotated};
}
template <class Owner>
constexpr MlbTensor vector(const char* name, FloatView Owner::* place, MlbSize size, Condition stored,
                           bool rotated = false) {
  return {name, MlbKind::f32, place, one, size, stored, kClassNone, kNoSlot, rotated};
}
constexpr MlbTensor table(const char* name, FloatView L::* place, MlbSize rows, MlbSize cols,
                          Condition stored) {
  return {name, MlbKind::f32, place, rows, cols, stored, kClassNone, kNoSlot, false};
}

// clang-format off
constexpr MlbTensor kTensors[] = {
    {"layer_flags", MlbKind::flags, {}, one, layers, with_flags, kClassNone, kNoSlot, false},
    matrix("tok_emb", &Mlb::tok_emb, vocab, dim, always, kClassEmb, kNoSlot),
    vector("attn_norm", &L::attn_norm, dim, always),
    matrix("wq", &L::wq, q_dim, dim, attention, kClassQk, MliSlot::qkv, kRotated),
    matrix("wk", &L::wk, kv_dim, dim, attention, kClassQk, MliSlot::qkv, kRotated),
    matrix("wv", &L::wv, kv_dim, dim, attention, kClassV, MliSlot::qkv),
    matrix("wo", &L::wo, dim, q_dim, attention, kClassO, MliSlot::o),
    matrix("wg", &L::wg, q_dim, dim, gated, kClassQk, MliSlot::qkv),
    vector("bq", &L::bq, q_dim, biased, kRotated),
    vector("bk", &L::bk, kv_dim, biased, kRotated),
    vector("bv", &L::bv, kv_dim, biased),
    vector("q_norm", &L::q_norm, head, qk_norm, kRotated),
    vector("k_norm", &L::k_norm, head, qk_norm, kRotated),
    matrix("lqkv", &L::lqkv, lin_channels, dim, linear, kClassQk, MliSlot::qkv),
    matrix("lz", &L::lz, lin_values, dim, linear, kClassV, MliSlot::qkv),
    matrix("lb", &L::lb, lin_heads, dim, linear, kClassNone, MliSlot::qkv),
    matrix("la", &L::la, lin_heads, dim, linear, kClassNone, MliSlot::qkv),
    table("lconv", &L::lconv, lin_channels, lin_taps, linear),
    vector("dt_bias", &L::dt_bias, lin_heads, linear),
    vector("A_log", &L::A_log, lin_heads, linear),
    vector("lnorm", &L::lnorm, lin_head, linear),
    matrix("lout", &L::lout, dim, lin_values, linear, kClassO, MliSlot::o),
    vector("ffn_norm", &L::ffn_norm, dim, always),
    matrix("w1", &L::w1, hidden, dim, always, kClassUp, MliSlot::up),
    matrix("w2", &L::w2, dim, hidden, always, kClassDown, MliSlot::down),
    matrix("w3", &L::w3, hidden, dim, always, kClassUp, MliSlot::up),
    vector("post_attn_norm", &L::post_attn_norm, dim, post_norms),
    vector("post_ffn_norm", &L::post_ffn_norm, dim, post_norms),
    vector("final_norm", &Mlb::final_norm, dim, always),
    matrix("wcls", &Mlb::wcls, vocab, dim, own_classifier, kClassCls, kNoSlot),
};
// clang-format on

}  // namespace

std::span<const MlbTensor> mlb_tensors() { return kTensors; }

const MlbTensor* find_mlb_tensor(std::string_view name) {
  for (const MlbTensor& tensor : kTensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

}  // namespace krafla
