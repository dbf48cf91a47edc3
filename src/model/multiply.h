// Matrix products over the rows of a batch, split over the threads by rows of the matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/mlb.h"
#include "kernels/context.h"

namespace krafla {

/// Quantized activation rows.
struct Activations {
  std::byte* data = nullptr;
  std::size_t stride = 0;  // bytes
};

/// y[row * y_stride + r] = bias[r] + W[r] · row.
struct Product {
  const Matrix* w;
  const float* bias;  // or null
  float* y;
  std::size_t y_stride;
};

/// y[i * y_stride + r - r0] = W[r] · row i for rows [r0, r1) of w and all n activation rows, on the calling
/// thread. next: the weights that it multiplies then, which are fetched meanwhile, or null.
void multiply_rows(Context& context, int thread, const Matrix& w, std::size_t r0, std::size_t r1,
                   Activations in, std::size_t n, float* y, std::size_t y_stride, const std::uint8_t* next);

/// Scratch bytes that multiply_rows() needs of each thread for matrices of up to `cols` columns.
std::size_t multiply_scratch(const Context& context, std::size_t cols);

/// Where row `row` of w begins in the file.
inline const std::uint8_t* weights_at(const Matrix& w, std::size_t row) {
  return w.q + row * (w.q_bytes() / w.rows);
}

/// How a matrix's rows are handed out to threads for n activation rows, in multiples of a tile. Several
/// activation rows are multiplied tile by tile: ranges are large first, since tiles that meet an activation
/// row together fetch it once, and become smaller towards the end, so that the threads end together.
class RowRanges {
 public:
  RowRanges(const Matrix& w, std::size_t n, std::size_t threads);

  struct Range {
    std::size_t begin, end;
  };
  std::size_t count() const { return count_; }
  std::size_t most() const { return (*this)[0].end; }  ///< rows of the largest range
  Range operator[](std::size_t i) const;

 private:
  std::size_t ranges_of(std::size_t size,
                        std::size_t begin) const;  // how many of that size follow from row `begin` on

  std::size_t rows_, shares_;
  std::size_t first_, last_;  // rows of the first ranges and of the last, halved in between
  std::size_t count_ = 0;
};

/// All products in one parallel loop; they share the activations.
void multiply(Context& context, std::span<const Product> products, Activations in, std::size_t n);

/// task(row, thread) for n rows: in parallel when there are several.
template <class Task>
void for_rows(Context& context, std::size_t n, Task&& task) {
  constexpr std::size_t kRows = 8;
  if (n < kRows) {
    for (std::size_t row = 0; row < n; ++row) task(row, 0);
    return;
  }
  context.threads.run((n + kRows - 1) / kRows, [&](std::size_t item, int thread) {
    for (std::size_t row = item * kRows; row < n && row < (item + 1) * kRows; ++row) task(row, thread);
  });
}

}  // namespace krafla
