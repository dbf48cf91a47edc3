// What one forward call works on: rows of tokens, grouped in runs of one sequence, and the buffers they pass
// through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "formats/mli.h"
#include "kernels/context.h"
#include "model/model.h"
#include "model/state/pages.h"

namespace krafla {

/// One token of one sequence. Rows of a sequence stand together, in order; the first is at position
/// sequence->length().
struct BatchRow {
  Sequence* sequence = nullptr;
  std::int32_t token = 0;
  bool wants_logits = false;
};

/// Quantized activation rows.
struct Activations {
  std::byte* data = nullptr;
  std::size_t stride = 0;  // bytes
};

/// The buffers of a forward pass, kept between calls so that nothing is allocated per token. [n] rows each.
class Batch {
 public:
  struct Run {
    Sequence* sequence;
    std::size_t row;    // its first row
    std::size_t count;  // rows
    std::size_t start;  // position of the first row
  };
  /// Tokens of a run whose queries share one pass over the pages.
  struct Tile {
    std::size_t run;
    std::size_t token;  // the first, counted in the run
    std::size_t tokens;
  };

  /// Checks the rows, groups them, prepares pages, sizes the buffers and computes the rows' sines and
  /// cosines.
  void begin(const Model& model, Context& context, std::span<const BatchRow> rows);

  std::span<const BatchRow> rows;
  std::vector<Run> runs;
  std::vector<Tile> tiles;
  std::size_t n = 0;

  AlignedArray<float> x;        // [n][dim]: the residual stream
  AlignedArray<float> h;        // [n][dim]: normalized, or a block's output
  AlignedArray<float> q, k, v;  // [n][q_dim], [n][kv_dim], [n][kv_dim]
  AlignedArray<float> gate;     // [n][max(q_dim, hidden_dim, lin_values)]
  AlignedArray<float> pieces;   // of each thread: rows of gate and up, [2][n][rows of a range]
  AlignedArray<float> mixed;    // [n][max(q_dim, lin_values)]: attention's output
  AlignedArray<float> lin,
      conv;  // [n][channels, padded] each: linear attention's queries, keys and values, before and after
  AlignedArray<float> beta, decay;  // [n][lin_v_heads] each
  AlignedArray<std::byte> quants;   // [n] activation rows
  AlignedArray<float> cos, sin;     // [2][n][pairs]: from rope_theta, from rope_local_theta
  AlignedArray<float> partials;     // attention's pages, where single tokens are split by page
  std::vector<std::size_t> wanted;  // rows that want logits

  Mli* importance = nullptr;  // where forward() and classify() add the squares of what they quantize, if
                              // anywhere: see observe()
  /// Asked before each layer, if set; true makes forward() give up. Not together with `importance`, which
  /// would keep half a call's sums. Linear layers' state is then copied once a call: for prompts, not for
  /// single tokens.
  std::function<bool()> cancelled;
};

/// Quantizes n rows of `cols` floats, `cols` apart, into batch.quants.
Activations quantize_rows(Batch& batch, Context& context, const float* x, std::size_t cols, std::size_t n);

/// Where an importance matrix is collected: adds the squares of n rows, the input of the matrices of a slot
/// of `layer`, to its sums, channel by channel in the order of the rows. So the sums do not depend on
/// threads, nor on how a text is cut into batches.
void observe(const Batch& batch, Context& context, std::size_t layer, MliSlot slot, const float* x,
             std::size_t n);

/// The same for any sums: sums[c] += x[row][c]², in float64.
void add_squares(Context& context, std::span<double> sums, const float* x, std::size_t n);

/// y[row * y_stride + r] = bias[r] + W[r] · row.
struct Product {
  const Matrix* w;
  const float* bias;  // or null
  float* y;
  std::size_t y_stride;
};

/// y[i * y_stride + r - r0] = W[r] · row i for rows [r0, r1) of w and all n activation rows, on the calling
/// thread. next: the weights that it will multiply then, which are fetched meanwhile, or null.
void multiply_rows(Context& context, int thread, const Matrix& w, std::size_t r0, std::size_t r1,
                   Activations in, std::size_t n, float* y, std::size_t y_stride, const std::uint8_t* next);

/// Where row `row` of w begins in the file.
inline const std::uint8_t* weights_at(const Matrix& w, std::size_t row) {
  return w.q + row * (w.q_bytes() / w.rows);
}

/// How a matrix's rows are handed out to threads for n activation rows: in multiples of the tile, enough
/// bytes to outweigh handing them out. For several rows, which are multiplied tile by tile, many first, since
/// tiles that meet an activation row together fetch it once, and half as many while a thread's share is less
/// than two of them, so that the threads end together.
class RowRanges {
 public:
  RowRanges(const Matrix& w, std::size_t n, std::size_t threads);

  struct Range {
    std::size_t begin, end;
  };
  std::size_t count() const { return count_; }
  std::size_t most() const { return (*this)[0].end; }  ///< rows of any range
  Range operator[](std::size_t i) const;

 private:
  std::size_t ranges_of(std::size_t size,
                        std::size_t begin) const;  // how many of so many rows follow from row `begin` on

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
