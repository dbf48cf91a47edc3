// How fast a model runs, beside what the machine allows: the work of a forward call by count, and the limits
// by measurement. Non-goal: the quality of what comes out; the tokens fed are any.
#pragma once

#include <cstddef>
#include <vector>

#include "model/forward.h"

namespace krafla {

/// What forward calls must do at least.
struct Work {
  double bytes = 0;  ///< to read: each matrix once a call, keys and values (or a linear layer's state) once
                     ///< for each sequence of a call
  double multiply_adds =
      0;  ///< of int8: the quantized matrices'; attention computes in floats and is not among them

  Work& operator+=(const Work& other) {
    bytes += other.bytes;
    multiply_adds += other.multiply_adds;
    return *this;
  }
};

/// One forward call: `rows` new positions for each of `sequences` that hold `length` each, and the logits of
/// `logits` rows in all.
Work call_work(const Mlb& mlb, const KvLayout& layout, std::size_t length, std::size_t rows,
               std::size_t sequences, std::size_t logits);

/// What the machine gives to the threads and kernels of a context.
struct Limits {
  double bytes_s =
      0;  ///< reading the model's own bytes, in order, over and over: out of a cache if they fit there
  double multiply_adds_s =
      0;  ///< the inner products of the instruction set's tiles, from the first cache level

  /// Seconds that the work takes at least.
  double seconds(const Work& work) const;
};

/// Measures both, some tenths of a second each; the best of several runs, for it is a limit.
Limits measure_limits(const Model& model, Context& context);

/// One measurement: `tokens` in `seconds`, the median of the repeats.
struct Speed {
  double tokens = 0;
  double seconds = 0;
  Work work;
};

/// Feeds a model and takes the time. Sequences start with a history of `depth` positions, each in memory of
/// its own; its first page is computed and stands for all others, which costs no time and changes none.
class SpeedTest {
 public:
  SpeedTest(const Model& model, Context& context, KvType kv)
      : model_(model), context_(context), pool_(KvLayout(model.config(), kv)) {}

  /// n positions into one sequence, `chunk` a forward call, and the logits of the last.
  Speed prefill(std::size_t n, std::size_t depth, std::size_t chunk, int repeats);
  /// n steps of `batch` sequences at once, with the logits of every row: n * batch tokens.
  Speed decode(std::size_t n, std::size_t depth, std::size_t batch, int repeats);

 private:
  Sequence history(std::size_t depth);
  static void unshare(Sequence& sequence);
  void step(std::vector<Sequence>& sequences, std::size_t rows, bool logits);
  template <class Run>
  Speed repeat(std::size_t depth, std::size_t batch, int repeats, Run run);

  const Model& model_;
  Context& context_;
  PagePool pool_;
  Batch batch_;
  std::vector<std::int32_t> tokens_;
  std::vector<Feed> feeds_;
  std::vector<float> logits_;
};

}  // namespace krafla
