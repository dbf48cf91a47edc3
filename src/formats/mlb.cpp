#include "formats/mlb.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/round_up.h"

namespace krafla {
namespace {

std::optional<std::uint64_t> align_up(std::uint64_t n) {
  if (!checked_add<std::uint64_t>(n, kMlbAlign - 1)) return std::nullopt;
  return round_up<std::uint64_t>(n, kMlbAlign);
}

/// Appends arrays one after the other and keeps the running offset.
class LayoutBuilder {
 public:
  LayoutBuilder(const MlbHeader& header, std::uint64_t available, std::string_view name)
      : h_(header), available_(available), name_(name) {}

  void add(const MlbTensor& tensor, int layer) {
    MlbArray a{
        .tensor = &tensor, .layer = layer, .kind = tensor.kind, .type = h_.weight_type(tensor.q8_class)};
    a.rows = tensor.rows(h_);
    a.cols = tensor.cols(h_);
    a.offset = next_;
    const std::optional<std::uint64_t> end = sizes(a);
    if (!end || *end > available_) refuse(a, end);
    arrays_.push_back(a);
    next_ = align_up(*end).value_or(std::numeric_limits<std::uint64_t>::max());
  }

  std::vector<MlbArray> take() { return std::move(arrays_); }

 private:
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

/// visit(tensor, layer) for every tensor of a model, in file order. flags(i): those of layer i.
template <class Flags, class Visit>
void each_tensor(const MlbHeader& header, Flags flags, Visit visit) {
  const std::span<const MlbTensor> all = mlb_tensors();
  const auto of_layer = [](const MlbTensor& t) { return t.in_layer(); };
  const auto first = std::find_if(all.begin(), all.end(), of_layer);
  const auto last = std::find_if_not(first, all.end(), of_layer);
  const auto part = [&](auto begin, auto end, int layer, std::uint8_t layer_flags) {
    for (auto t = begin; t != end; ++t)
      if (t->stored(header, layer_flags)) visit(*t, layer);
  };
  part(all.begin(), first, -1, std::uint8_t{0});
  for (std::uint32_t i = 0; i < header.n_layers; ++i) part(first, last, static_cast<int>(i), flags(i));
  part(last, all.end(), -1, std::uint8_t{0});
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

/// A tensor's view in a model, which is a View; null if its view is of another kind.
template <class View, class Model>
auto* view_in(Model& mlb, const MlbTensor& tensor, int layer) {
  if (const auto* of_model = std::get_if<View Mlb::*>(&tensor.view)) return &(mlb.**of_model);
  const auto* of_layer = std::get_if<View MlbLayer::*>(&tensor.view);
  return of_layer != nullptr ? &(mlb.layers[static_cast<std::size_t>(layer)].**of_layer) : nullptr;
}

/// Puts one array's view where it belongs.
void set_view(Mlb& mlb, Bytes file, const MlbArray& a) {
  if (a.kind == MlbKind::flags) return;
  mlb.parameters += a.rows * a.cols;
  if (a.kind == MlbKind::f32)
    *view_in<FloatView>(mlb, *a.tensor, a.layer) = float_view(file, a);
  else
    *view_in<Matrix>(mlb, *a.tensor, a.layer) = matrix_view(file, a, mlb.header.scale_f16 != 0);
}

std::string full_name(const MlbTensor& tensor, int layer) {
  return layer < 0 ? std::string(tensor.name) : fmt::format("layers.{}.{}", layer, tensor.name);
}

}  // namespace

std::string MlbArray::name() const { return full_name(*tensor, layer); }

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
  each_tensor(
      header, [&](std::size_t layer) { return flags.empty() ? std::uint8_t{0} : flags[layer]; },
      [&](const MlbTensor& tensor, int layer) { to.add(tensor, layer); });
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
  each_tensor(
      mlb.header, [&](std::size_t layer) { return mlb.layers[layer].flags; },
      [&](const MlbTensor& tensor, int layer) {
        const Matrix* m = view_in<Matrix>(mlb, tensor, layer);
        if (m != nullptr && m->type == WeightType::q8_0)
          spans.push_back({full_name(tensor, layer), m->cols, {m->q, m->q_bytes()}});
      });
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
