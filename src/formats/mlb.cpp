#include "formats/mlb.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace krafla {
namespace {

std::optional<std::uint64_t> align_up(std::uint64_t n) {
  const auto sum = checked_add<std::uint64_t>(n, kMlbAlign - 1);
  if (!sum) return std::nullopt;
  return *sum / kMlbAlign * kMlbAlign;
}

/// Appends arrays one after the other and keeps the running offset.
class LayoutBuilder {
 public:
  LayoutBuilder(const MlbHeader& header, std::uint64_t available, std::string_view name)
      : h_(header), available_(available), name_(name) {}

  void flags() {
    place(MlbArray{.tensor = "layer_flags", .kind = MlbKind::flags, .rows = 1, .cols = h_.n_layers});
  }

  void vector(const char* tensor, std::uint64_t n, FloatView MlbLayer::* to = nullptr,
              std::uint64_t rows = 1) {
    place(MlbArray{
        .tensor = tensor, .layer = layer, .kind = MlbKind::f32, .rows = rows, .cols = n, .vector = to});
  }
  void matrix(const char* tensor, std::uint64_t rows, std::uint64_t cols, WeightType type,
              Matrix MlbLayer::* to = nullptr) {
    place(MlbArray{.tensor = tensor,
                   .layer = layer,
                   .kind = MlbKind::quantized,
                   .type = type,
                   .rows = rows,
                   .cols = cols,
                   .matrix = to});
  }

  std::vector<MlbArray> take() { return std::move(arrays_); }

  int layer = -1;

 private:
  void place(MlbArray a) {
    a.offset = next_;
    const std::optional<std::uint64_t> end = sizes(a);
    if (!end || *end > available_) refuse(a, end);
    arrays_.push_back(a);
    next_ = align_up(*end).value_or(std::numeric_limits<std::uint64_t>::max());
  }

  /// Fills in sizes and the place of the scales; the end of the tensor, or nothing if it overflows.
  std::optional<std::uint64_t> sizes(MlbArray& a) const {
    const auto n = checked_mul(a.rows, a.cols);
    if (!n) return std::nullopt;
    switch (a.kind) {
      case MlbKind::flags: a.size = *n; break;
      case MlbKind::f32: {
        const auto bytes = checked_mul<std::uint64_t>(*n, 4);
        if (!bytes) return std::nullopt;
        a.size = *bytes;
        break;
      }
      case MlbKind::quantized: a.size = a.type == WeightType::q8_0 ? *n : *n / 2; break;
    }
    const auto end = checked_add(a.offset, a.size);
    if (!end || !a.quantized()) return end;
    const auto d_offset = align_up(*end);
    if (!d_offset) return std::nullopt;
    a.d_offset = *d_offset;
    a.d_size = *n / 32 * (h_.scale_f16 != 0 ? 2 : 4);
    return checked_add(a.d_offset, a.d_size);
  }

  [[noreturn]] void refuse(const MlbArray& a, std::optional<std::uint64_t> end) const {
    if (!end)
      fail(ML_E_FORMAT, "{}: {} of {} × {} at offset {} is larger than 2^64 bytes", name_, a.name(), a.rows,
           a.cols, a.offset);
    fail(ML_E_FORMAT,
         "{}: {} of {} × {} ends at byte {}, but there are {} bytes; the file is cut short or its header is "
         "wrong",
         name_, a.name(), a.rows, a.cols, *end, available_);
  }

  const MlbHeader& h_;
  std::uint64_t available_;
  std::string_view name_;
  std::uint64_t next_ = kMlbHeaderBytes;
  std::vector<MlbArray> arrays_;
};

void place_attention(const MlbHeader& h, LayoutBuilder& to) {
  using L = MlbLayer;
  const std::uint64_t q = h.q_dim();
  const std::uint64_t kv = h.kv_dim();
  to.matrix("wq", q, h.dim, h.weight_type(kClassQk), &L::wq);
  to.matrix("wk", kv, h.dim, h.weight_type(kClassQk), &L::wk);
  to.matrix("wv", kv, h.dim, h.weight_type(kClassV), &L::wv);
  to.matrix("wo", h.dim, q, h.weight_type(kClassO), &L::wo);
  if (h.attn_gate != 0) to.matrix("wg", q, h.dim, h.weight_type(kClassQk), &L::wg);
  if (h.qkv_bias != 0) {
    to.vector("bq", q, &L::bq);
    to.vector("bk", kv, &L::bk);
    to.vector("bv", kv, &L::bv);
  }
  if (h.qk_norm != 0) {
    to.vector("q_norm", h.head_size(), &L::q_norm);
    to.vector("k_norm", h.head_size(), &L::k_norm);
  }
}

void place_linear_attention(const MlbHeader& h, LayoutBuilder& to) {
  using L = MlbLayer;
  to.matrix("lqkv", h.lin_channels(), h.dim, h.weight_type(kClassQk), &L::lqkv);
  to.matrix("lz", h.lin_values(), h.dim, h.weight_type(kClassV), &L::lz);
  to.matrix("lb", h.lin_v_heads, h.dim, WeightType::q8_0, &L::lb);
  to.matrix("la", h.lin_v_heads, h.dim, WeightType::q8_0, &L::la);
  to.vector("lconv", h.lin_conv, &L::lconv, h.lin_channels());
  to.vector("dt_bias", h.lin_v_heads, &L::dt_bias);
  to.vector("A_log", h.lin_v_heads, &L::A_log);
  to.vector("lnorm", h.lin_v_dim, &L::lnorm);
  to.matrix("lout", h.dim, h.lin_values(), h.weight_type(kClassO), &L::lout);
}

void place_layer(const MlbHeader& h, bool linear, LayoutBuilder& to) {
  using L = MlbLayer;
  to.vector("attn_norm", h.dim, &L::attn_norm);
  if (linear)
    place_linear_attention(h, to);
  else
    place_attention(h, to);
  to.vector("ffn_norm", h.dim, &L::ffn_norm);
  to.matrix("w1", h.hidden_dim, h.dim, h.weight_type(kClassUp), &L::w1);
  to.matrix("w2", h.dim, h.hidden_dim, h.weight_type(kClassDown), &L::w2);
  to.matrix("w3", h.hidden_dim, h.dim, h.weight_type(kClassUp), &L::w3);
  if (h.post_norms != 0) {
    to.vector("post_attn_norm", h.dim, &L::post_attn_norm);
    to.vector("post_ffn_norm", h.dim, &L::post_ffn_norm);
  }
}

FloatView float_view(Bytes file, const MlbArray& a) {
  const auto* p = reinterpret_cast<const float*>(file.data() + static_cast<std::size_t>(a.offset));
  return {p, static_cast<std::size_t>(a.rows * a.cols)};
}

Matrix matrix_view(Bytes file, const MlbArray& a, bool d_f16) {
  Matrix m;
  m.type = a.type;
  m.rows = static_cast<std::size_t>(a.rows);
  m.cols = static_cast<std::size_t>(a.cols);
  m.q = file.data() + static_cast<std::size_t>(a.offset);
  m.d = file.data() + static_cast<std::size_t>(a.d_offset);
  m.d_f16 = d_f16;
  return m;
}

/// Puts one array's view where it belongs.
void set_view(Mlb& mlb, Bytes file, const MlbArray& a) {
  if (a.kind == MlbKind::flags) return;
  mlb.parameters += a.rows * a.cols;
  const std::string_view tensor = a.tensor;
  if (a.kind == MlbKind::f32) {
    FloatView& to = a.layer < 0 ? mlb.final_norm : mlb.layers[static_cast<std::size_t>(a.layer)].*a.vector;
    to = float_view(file, a);
    return;
  }
  Matrix& to = a.layer >= 0       ? mlb.layers[static_cast<std::size_t>(a.layer)].*a.matrix
               : tensor == "wcls" ? mlb.wcls
                                  : mlb.tok_emb;
  to = matrix_view(file, a, mlb.header.scale_f16 != 0);
}

}  // namespace

std::string MlbArray::name() const {
  return layer < 0 ? std::string(tensor) : fmt::format("layers.{}.{}", layer, tensor);
}

const char* MlbArray::type_name() const {
  switch (kind) {
    case MlbKind::flags: return "u8";
    case MlbKind::f32: return "F32";
    case MlbKind::quantized: return weight_type_name(type);
  }
  return "";
}

std::vector<MlbArray> mlb_layout(const MlbHeader& header, std::span<const std::uint8_t> flags,
                                 std::uint64_t available, std::string_view name) {
  LayoutBuilder to(header, available, name);
  if (header.layer_flags != 0) to.flags();
  to.matrix("tok_emb", header.vocab, header.dim,
            header.weight_type(kClassEmb | (header.shared_classifier != 0 ? kClassCls : 0u)));
  for (std::uint32_t i = 0; i < header.n_layers; ++i) {
    to.layer = static_cast<int>(i);
    place_layer(header, !flags.empty() && (flags[i] & kLayerLinear) != 0, to);
  }
  to.layer = -1;
  to.vector("final_norm", header.dim);
  if (header.shared_classifier == 0)
    to.matrix("wcls", header.vocab, header.dim, header.weight_type(kClassCls));
  return to.take();
}

std::span<const std::uint8_t> mlb_stored_flags(const MlbHeader& header, Bytes file, std::string_view name) {
  if (header.layer_flags == 0) return {};
  if (file.size() - kMlbHeaderBytes < header.n_layers)
    fail(ML_E_FORMAT, "{}: layer_flags ends at byte {}, but there are {} bytes; the file is cut short", name,
         kMlbHeaderBytes + header.n_layers, file.size());
  return file.subspan(kMlbHeaderBytes, header.n_layers);
}

Mlb parse_mlb(Bytes file, std::string_view name, const MlbOptions& options) {
  if (reinterpret_cast<std::uintptr_t>(file.data()) % alignof(float) != 0)
    fail(ML_E_ARG, "{}: the bytes of a model must start at a multiple of 4 in memory", name);
  Mlb mlb;
  mlb.header = parse_mlb_header(file, name);
  const std::span<const std::uint8_t> stored = mlb_stored_flags(mlb.header, file, name);
  check_mlb_layers(mlb.header, stored, name);
  const std::vector<MlbArray> arrays = mlb_layout(mlb.header, stored, file.size(), name);

  const std::vector<std::uint8_t> flags = effective_flags(mlb.header, stored);
  mlb.layers.resize(mlb.header.n_layers);
  for (std::size_t i = 0; i < flags.size(); ++i) mlb.layers[i].flags = flags[i];
  for (const MlbArray& array : arrays) set_view(mlb, file, array);
  if (mlb.header.shared_classifier != 0) mlb.wcls = mlb.tok_emb;
  const std::uint64_t end = align_up(arrays.back().end()).value_or(file.size());
  mlb.trailing = file.size() > end ? file.size() - end : 0;

  if (options.check_quants)
    for (const Q8Span& span : q8_spans(mlb)) {
      const std::size_t at = find_minus_128(span.q);
      if (at < span.q.size()) fail_minus_128(span, at, name);
    }
  return mlb;
}

std::vector<Q8Span> q8_spans(const Mlb& mlb) {
  std::vector<Q8Span> spans;
  const auto add = [&](const Matrix& m, int layer, const char* tensor) {
    if (!m.empty() && m.type == WeightType::q8_0)
      spans.push_back({MlbArray{.tensor = tensor, .layer = layer}.name(), m.cols, {m.q, m.q_bytes()}});
  };
  add(mlb.tok_emb, -1, "tok_emb");
  for (std::size_t i = 0; i < mlb.layers.size(); ++i) {
    const MlbLayer& l = mlb.layers[i];
    const std::pair<const Matrix*, const char*> matrices[] = {
        {&l.wq, "wq"},     {&l.wk, "wk"}, {&l.wv, "wv"}, {&l.wo, "wo"}, {&l.wg, "wg"},
        {&l.lqkv, "lqkv"}, {&l.lz, "lz"}, {&l.lb, "lb"}, {&l.la, "la"}, {&l.w1, "w1"},
        {&l.lout, "lout"}, {&l.w2, "w2"}, {&l.w3, "w3"},
    };
    for (const auto& [matrix, tensor] : matrices) add(*matrix, static_cast<int>(i), tensor);
  }
  if (mlb.header.shared_classifier == 0) add(mlb.wcls, -1, "wcls");
  return spans;
}

std::size_t find_minus_128(std::span<const std::uint8_t> quants) {
  constexpr std::size_t kStep = 4096;
  for (std::size_t at = 0; at < quants.size(); at += kStep) {
    const std::span<const std::uint8_t> part = quants.subspan(at, std::min(kStep, quants.size() - at));
    std::uint8_t found = 0;  // a byte, so that the loop vectorizes without widening
    for (const std::uint8_t q : part) found |= static_cast<std::uint8_t>(q == 0x80);
    if (found != 0)
      return at +
             static_cast<std::size_t>(std::find(part.begin(), part.end(), std::uint8_t{0x80}) - part.begin());
  }
  return quants.size();
}

void fail_minus_128(const Q8Span& span, std::size_t index, std::string_view name) {
  fail(ML_E_FORMAT, "{}: {} row {}, column {}: a Q8_0 quant is -128; allowed: -127 to 127", name, span.name,
       index / span.cols, index % span.cols);
}

}  // namespace krafla
