#include "model/batch.h"

#include <algorithm>

#include "base/error.h"

namespace krafla {
namespace {

/// From this many rows on, packing tiles is worth it.
constexpr std::size_t kGemmRows = 4;

/// Tokens of an attention tile: their heads' scores stay in the first cache levels.
constexpr std::size_t kTileTokens = 16;

void group_runs(const Model& model, std::span<const BatchRow> rows, std::vector<Batch::Run>& runs) {
  const MlbHeader& header = model.header();
  runs.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BatchRow& row = rows[i];
    if (row.token < 0 || static_cast<std::uint32_t>(row.token) >= header.vocab)
      fail(ML_E_ARG, "token id {} is not in the model's vocabulary, 0 to {}", row.token, header.vocab - 1);
    if (runs.empty() || runs.back().sequence != row.sequence) {
      for (const Batch::Run& run : runs)
        if (run.sequence == row.sequence)
          fail(ML_E_ARG, "a batch's rows of one sequence must stand together");
      runs.push_back({row.sequence, i, 0, row.sequence->length()});
    }
    Batch::Run& run = runs.back();
    ++run.count;
    if (run.start + run.count > header.max_seq)
      fail(ML_E_ARG, "position {} is beyond the model's max_seq of {}", run.start + run.count - 1,
           header.max_seq);
  }
}

}  // namespace

void Batch::begin(const Model& model, Context& context, std::span<const BatchRow> batch_rows) {
  group_runs(model, batch_rows, runs);
  rows = batch_rows;
  n = rows.size();
  for (Run& run : runs) run.sequence->prepare(run.count, static_cast<bool>(cancelled));
  tiles.clear();
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (std::size_t token = 0; token < runs[run].count; token += kTileTokens)
      tiles.push_back({run, token, std::min(kTileTokens, runs[run].count - token)});
  wanted.clear();
  for (std::size_t i = 0; i < n; ++i)
    if (rows[i].wants_logits) wanted.push_back(i);

  const MlbHeader& header = model.header();
  const std::size_t q_dim = header.q_dim(), kv_dim = header.kv_dim();
  x.grow(n * header.dim);
  h.grow(n * header.dim);
  q.grow(n * q_dim);
  k.grow(n * kv_dim);
  v.grow(n * kv_dim);
  const KvLayout& layout = runs.front().sequence->pool().layout();
  const bool linear = layout.page_bytes(KvLayout::linear) > 0;
  const std::size_t values = linear ? header.lin_values() : 0;
  gate.grow(n * std::max({q_dim, std::size_t{header.hidden_dim}, values}));
  mixed.grow(n * std::max(q_dim, values));
  if (linear) {
    lin.grow(n * layout.recurrent().stride());
    conv.grow(n * layout.recurrent().stride());
    beta.grow(n * header.lin_v_heads);
    decay.grow(n * header.lin_v_heads);
  }
  const std::size_t widest =
      std::max({std::size_t{header.dim}, q_dim, std::size_t{header.hidden_dim}, values});
  quants.grow(n * context.kernels.activation_bytes(widest));

  const std::size_t pairs = model.rope().pairs();
  cos.grow(2 * n * pairs);
  sin.grow(2 * n * pairs);
  for (const Run& run : runs)
    for_rows(context, run.count, [&](std::size_t i, int) {
      const std::size_t at = (run.row + i) * pairs;
      const auto position = static_cast<std::uint32_t>(run.start + i);
      model.rope().row(position, false, cos.data() + at, sin.data() + at);
      if (model.rope().has_local())
        model.rope().row(position, true, cos.data() + n * pairs + at, sin.data() + n * pairs + at);
    });
}

Activations quantize_rows(Batch& batch, Context& context, const float* x, std::size_t cols, std::size_t n) {
  const Activations out{batch.quants.data(), context.kernels.activation_bytes(cols)};
  for_rows(context, n, [&](std::size_t row, int) {
    context.kernels.quantize_activation(x + row * cols, cols, out.data + row * out.stride);
  });
  return out;
}

void observe(const Batch& batch, Context& context, std::size_t layer, MliSlot slot, const float* x,
             std::size_t n) {
  if (batch.importance != nullptr) add_squares(context, batch.importance->layer(layer, slot), x, n);
}

void add_squares(Context& context, std::span<double> sums, const float* x, std::size_t n) {
  constexpr std::size_t kChannels = 64;
  const std::size_t cols = sums.size();
  context.threads.run((cols + kChannels - 1) / kChannels, [&](std::size_t item, int) {
    const std::size_t c0 = item * kChannels, c1 = std::min(cols, c0 + kChannels);
    for (std::size_t row = 0; row < n; ++row)
      for (std::size_t c = c0; c < c1; ++c) {
        const auto value = static_cast<double>(x[row * cols + c]);
        sums[c] += value * value;
      }
  });
}

void multiply_rows(Context& context, int thread, const Matrix& w, std::size_t r0, std::size_t r1,
                   Activations in, std::size_t n, float* y, std::size_t y_stride, const std::uint8_t* next) {
  const Kernels& kernels = context.kernels;
  if (n >= kGemmRows) {
    const std::size_t bytes = std::max(kernels.gemm_scratch(w.cols), context.near_bytes);
    kernels.gemm(w, r0, r1, in.data, n, y, y_stride, context.scratch(thread, bytes), bytes, next);
  } else {
    for (std::size_t i = 0; i < n; ++i)
      kernels.gemv(w, r0, r1, in.data + i * in.stride, y + i * y_stride,
                   i + 1 == n ? next : weights_at(w, r0));
  }
}

RowRanges::RowRanges(const Matrix& w, std::size_t n, std::size_t threads)
    : rows_(w.rows), shares_(2 * threads) {
  if (n >= kGemmRows) {
    first_ = 8 * kTileRows;
    last_ = kTileRows;
  } else {
    constexpr std::size_t kBytes = 24 << 10;
    first_ = last_ = std::max<std::size_t>(1, kBytes / (w.q_bytes() / rows_) / kTileRows) * kTileRows;
  }
  std::size_t begin = 0;
  for (std::size_t size = first_; size >= last_; size /= 2) {
    const std::size_t ranges = ranges_of(size, begin);
    count_ += ranges;
    begin += ranges * size;
  }
}

std::size_t RowRanges::ranges_of(std::size_t size, std::size_t begin) const {
  const std::size_t left = rows_ - std::min(rows_, begin);
  if (size == last_) return (left + size - 1) / size;
  return left < shares_ * size ? 0 : (left - shares_ * size) / size + 1;
}

RowRanges::Range RowRanges::operator[](std::size_t i) const {
  std::size_t begin = 0, size = first_;
  for (std::size_t ranges = ranges_of(size, begin); i >= ranges && size > last_;
       ranges = ranges_of(size, begin)) {
    i -= ranges;
    begin += ranges * size;
    size /= 2;
  }
  begin += i * size;
  return {begin, std::min(rows_, begin + size)};
}

void multiply(Context& context, std::span<const Product> products, Activations in, std::size_t n) {
  const auto threads = static_cast<std::size_t>(context.threads.size());
  std::size_t items = 0;
  for (const Product& product : products) items += RowRanges(*product.w, n, threads).count();
  struct Place {
    const Product* product;
    RowRanges::Range rows;
  };
  const auto place = [&](std::size_t item) {
    const Product* product = products.data();
    RowRanges ranges(*product->w, n, threads);
    while (item >= ranges.count()) {
      item -= ranges.count();
      ranges = RowRanges(*(++product)->w, n, threads);
    }
    return Place{product, ranges[item]};
  };
  context.threads.run(items, [&](std::size_t item, int thread) {
    const auto [product, rows] = place(item);
    const std::uint8_t* next = nullptr;  // where the thread goes on if all take turns
    if (item + threads < items) {
      const Place then = place(item + threads);
      next = weights_at(*then.product->w, then.rows.begin);
    }
    multiply_rows(context, thread, *product->w, rows.begin, rows.end, in, n, product->y + rows.begin,
                  product->y_stride, next);
    if (product->bias != nullptr)
      for (std::size_t i = 0; i < n; ++i)
        context.kernels.add(product->y + i * product->y_stride + rows.begin, product->bias + rows.begin,
                            rows.end - rows.begin);
  });
}

}  // namespace krafla
