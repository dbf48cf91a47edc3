#include "model/multiply.h"

#include <algorithm>

#include "model/model.h"

namespace krafla {
namespace {

/// From this many activation rows on, packing tiles of the matrix is worth it.
constexpr std::size_t kGemmRows = 4;

}  // namespace

std::size_t multiply_scratch(const Context& context, std::size_t cols) {
  return std::max(context.kernels.gemm_scratch(cols), context.l2_budget);
}

void multiply_rows(Context& context, int thread, const Matrix& w, std::size_t r0, std::size_t r1,
                   Activations in, std::size_t n, float* y, std::size_t y_stride, const std::uint8_t* next) {
  const Kernels& kernels = context.kernels;
  if (n >= kGemmRows) {
    kernels.gemm(w, r0, r1, in.data, n, y, y_stride, context.scratch(thread),
                 multiply_scratch(context, w.cols), next);
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
