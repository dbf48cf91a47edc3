// The importance matrix of a model, measured on a text (formats/mli.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "formats/mli.h"
#include "model/forward.h"

namespace krafla {

struct ImportanceOptions {
  std::size_t ctx = 512;    ///< tokens of a window; each is fed to an empty context
  std::size_t windows = 0;  ///< at most so many; 0: all
  std::size_t batch = 256;  ///< tokens a forward call; changes no bit of the result
  std::int32_t bos = -1;    ///< put in the place of the first token of every window, unless -1
  KvType kv = KvType::f16;
  std::function<void(std::size_t done, std::size_t windows)> progress;  ///< called after each window
};

/// Adds what a batch's matrices are multiplied with to an importance matrix: sums[c] += x[row][c]² in
/// float64, channel by channel in the order of the rows. So the sums do not depend on threads, nor on how a
/// text is cut into batches.
class ImportanceObserver : public BatchObserver {
 public:
  explicit ImportanceObserver(Mli& sums) : sums_(sums) {}
  void layer_input(Context& context, std::size_t layer, MliSlot slot, const float* x, std::size_t rows,
                   std::size_t channels) override;
  void classifier_input(Context& context, const float* x, std::size_t rows, std::size_t channels) override;
  void end_of_layers(std::size_t rows) override { sums_.layer_tokens += rows; }

 private:
  Mli& sums_;
};

/// Sums to start from for `model`: ML_E_SHAPE if it has a linear-attention layer that the file has no place
/// for.
Mli start_importance(const Model& model);

/// Adds the inputs of every matrix at every position of `ids`, the classifier's too (its logits are not
/// computed). The last window may be shorter than ctx. ML_E_ARG if there are no ids, or ctx is 0 or beyond
/// the model's max_seq; ML_E_NUMERIC for an input that is NaN or infinite, after the window it is in.
void measure_importance(const Model& model, Context& context, std::span<const std::int32_t> ids,
                        const ImportanceOptions& options, Mli& sums);

}  // namespace krafla
