// What one forward call works on: spans of tokens of many sequences, and the buffers that their rows pass
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
#include "model/multiply.h"
#include "model/state/sequence.h"

namespace krafla {

/// Which of a feed's tokens have their logits computed.
enum class Wants : std::uint8_t { none, last, all };

/// The next tokens of one sequence: the first is at position sequence->length().
struct Feed {
  Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;
  Wants wants = Wants::none;
};

/// Whether forward() takes the feed, memory aside: ML_E_ARG for no tokens, a token outside the vocabulary, a
/// position beyond max_seq, or a sequence whose pages are of another model.
void check_feed(const Model& model, const Feed& feed);

/// Sees what the matrices of a model are multiplied with: how an importance matrix is collected. x:
/// [rows][channels].
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  /// The input of a layer's matrices of one slot.
  virtual void layer_input(Context& context, std::size_t layer, MliSlot slot, const float* x,
                           std::size_t rows, std::size_t channels) = 0;
  /// The input of the classifier.
  virtual void classifier_input(Context& context, const float* x, std::size_t rows, std::size_t channels) = 0;
  /// All layers have seen so many rows.
  virtual void end_of_layers(std::size_t rows) = 0;
};

/// A feed as the layers see it.
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

/// A tile's queries of one kv head against pages [first_page, end_page).
struct AttentionItem {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);
  std::size_t tile, kv_head;
  std::size_t first_page, end_page;
  std::size_t partial;  // where the results of its pages go in Batch::partials, in pages; kWhole: these are
                        // all its pages
};

/// How the attention of layers with the same window is cut into work for the threads.
struct AttentionPlan {
  std::vector<AttentionItem> items;
  std::vector<AttentionItem>
      merges;  // of what is cut by page: all pages of a tile and kv head, and their first partial
};

/// The rows of a forward call and the buffers of its layers, kept between calls: nothing is allocated per
/// token. [n] rows each.
class Batch {
 public:
  /// Checks the feeds, makes their pages, sizes all buffers and computes the rows' sines and cosines. After
  /// it nothing fails. When it throws, no sequence has changed its length.
  void begin(const Model& model, Context& context, std::span<const Feed> feeds);

  std::vector<Run> runs;
  std::vector<Tile> tiles;
  AttentionPlan plans[2];            // of KvLayout's groups full and windowed
  std::vector<std::int32_t> tokens;  // [n]
  std::vector<std::size_t> wanted;   // rows whose logits are wanted
  std::size_t n = 0;

  AlignedArray<float> x;        // [n][dim]: the residual stream
  AlignedArray<float> h;        // [n][dim]: normalized, or a block's output
  AlignedArray<float> q, k, v;  // [n][q_dim], [n][kv_dim], [n][kv_dim]
  AlignedArray<float> gate;     // [n][max(q_dim, hidden_dim, linear values)]
  AlignedArray<float> pieces;   // of each thread: rows of gate and up, [2][n][rows of a range]
  AlignedArray<float> mixed;    // [n][max(q_dim, linear values)]: attention's output
  AlignedArray<float> lin,
      conv;  // [n][channels, padded]: linear attention's q, k, v before and after the convolution
  AlignedArray<float> beta, decay;  // [n][linear value heads] each
  AlignedArray<std::byte> quants;   // [n] activation rows
  AlignedArray<float> cos, sin;     // [2][n][pairs]: from rope_theta, from rope_local_theta
  AlignedArray<float> partials;     // results of single pages (AttentionPlan)

  /// If not null: sees the inputs of all matrices.
  BatchObserver* observer = nullptr;
  /// If set: asked before each layer; true makes forward() give up. It must not throw. A recurrent state is
  /// then copied once a call, so set it for prompts, not for single tokens; and not together with an
  /// observer, which would see half a call.
  std::function<bool()> cancelled;

 private:
  void begin_sequences(Context& context);
  void size_buffers(const Model& model, Context& context);
  void compute_rope(const Model& model, Context& context);

  std::vector<PageFill> fills_;
};

/// Quantizes n rows of `cols` floats, `cols` apart, into batch.quants.
Activations quantize_rows(Batch& batch, Context& context, const float* x, std::size_t cols, std::size_t n);

/// The same for the input of a layer's matrices of one slot, [batch.n][cols], which the observer sees.
Activations quantize_input(Batch& batch, Context& context, std::size_t layer, MliSlot slot, const float* x,
                           std::size_t cols);

}  // namespace krafla
