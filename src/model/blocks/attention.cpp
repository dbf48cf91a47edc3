#include "model/blocks/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace krafla {
namespace {

/// Query tokens that share one pass over the pages: their heads' scores stay in the first cache levels.
constexpr std::size_t kTileTokens = 16;

/// What one attention layer needs to know of the model.
struct Shape {
  std::size_t layer;
  std::size_t head_dim, heads, kv_heads, group;  // group: query heads of one kv head
  std::size_t padded;                            // head_dim rounded up to whole vectors
  std::size_t window;                            // 0: full attention
  float scale, softcap;
  KvLayout::Group pages;

  Shape(const Model& model, std::size_t index, const KvLayout& layout)
      : layer(index),
        head_dim(model.header().head_size()),
        heads(model.header().n_heads),
        kv_heads(model.header().n_kv_heads),
        group(heads / kv_heads),
        padded((head_dim + 7) / 8 * 8),
        window(model.mlb().layers[index].flags & kLayerWindow ? model.header().sliding_window : 0),
        scale(model.header().attn_scale != 0 ? model.header().attn_scale
                                             : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))),
        softcap(model.header().attn_softcap),
        pages(layout.group(index)) {}

  std::size_t first_visible(std::size_t position) const { return window != 0 && position >= window ? position + 1 - window : 0; }
};

void project(const Model& model, const MlbLayer& layer, Context& context, Batch& batch) {
  const std::size_t q_dim = model.header().q_dim(), kv_dim = model.header().kv_dim();
  const Activations in = quantize_rows(batch, context, batch.h.data(), model.header().dim, batch.n);
  const auto bias = [](FloatView view) { return view.empty() ? nullptr : view.data(); };
  const Product products[] = {{&layer.wq, bias(layer.bq), batch.q.data(), q_dim},
                              {&layer.wk, bias(layer.bk), batch.k.data(), kv_dim},
                              {&layer.wv, bias(layer.bv), batch.v.data(), kv_dim},
                              {&layer.wg, nullptr, batch.gate.data(), q_dim}};
  multiply(context, {products, layer.wg.empty() ? std::size_t{3} : std::size_t{4}}, in, batch.n);
}

/// The per-head norms and the rotation of one row's queries and keys.
void rotate_row(const Model& model, const MlbLayer& layer, const Shape& shape, Context& context, Batch& batch, std::size_t row) {
  const std::size_t pairs = model.rope().pairs();
  const std::size_t at = ((layer.flags & kLayerLocalRope ? batch.n : 0) + row) * pairs;
  const auto each_head = [&](float* heads, std::size_t count, FloatView norm) {
    for (std::size_t head = 0; head < count; ++head) {
      float* x = heads + head * shape.head_dim;
      if (!norm.empty()) context.kernels.rms_norm(x, norm.data(), model.header().norm_eps, shape.head_dim, x);
      if (!(layer.flags & kLayerNoRope)) context.kernels.rope(x, batch.cos.data() + at, batch.sin.data() + at, pairs);
    }
  };
  each_head(batch.q.data() + row * shape.heads * shape.head_dim, shape.heads, layer.q_norm);
  each_head(batch.k.data() + row * shape.kv_heads * shape.head_dim, shape.kv_heads, layer.k_norm);
}

/// Writes one kv head's keys (transposed) and values of a run to their pages.
template <class Element, class Convert>
void store_head(const Shape& shape, const KvLayout& layout, const Batch& batch, const Batch::Run& run, std::size_t head, Convert convert) {
  const std::size_t dim = shape.head_dim, kv_dim = shape.kv_heads * dim;
  Element keys[1024];
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::size_t position = run.start + i, slot = position % kPage;
    std::byte* page = run.sequence->page(shape.pages, position / kPage);
    auto* k = reinterpret_cast<Element*>(page + layout.k_offset(shape.layer, head));
    auto* v = reinterpret_cast<Element*>(page + layout.v_offset(shape.layer, head));
    const float* from = batch.k.data() + (run.row + i) * kv_dim + head * dim;
    for (std::size_t d0 = 0; d0 < dim; d0 += std::size(keys)) {
      const std::size_t count = std::min(dim - d0, std::size(keys));
      convert(from + d0, count, keys);
      for (std::size_t d = 0; d < count; ++d) k[(d0 + d) * kPage + slot] = keys[d];
    }
    convert(batch.v.data() + (run.row + i) * kv_dim + head * dim, dim, v + slot * dim);
  }
}

void store_keys_and_values(const Shape& shape, const KvLayout& layout, Context& context, const Batch& batch) {
  const auto store_one = [&](std::size_t item, int) {
    const Batch::Run& run = batch.runs[item / shape.kv_heads];
    if (layout.type() == KvType::f16)
      store_head<std::uint16_t>(shape, layout, batch, run, item % shape.kv_heads, context.kernels.to_f16);
    else
      store_head<float>(shape, layout, batch, run, item % shape.kv_heads,
                        [](const float* from, std::size_t n, float* to) { std::memcpy(to, from, n * sizeof(float)); });
  };
  const std::size_t items = batch.runs.size() * shape.kv_heads;
  if (batch.n < 8) {
    for (std::size_t item = 0; item < items; ++item) store_one(item, 0);
  } else {
    context.threads.run(items, store_one);
  }
}

/// Up to kTileTokens tokens of a run and one kv head: their queries, and which keys of a page each sees.
class Tile {
 public:
  Tile(const Shape& shape, const Batch& batch, const Batch::Run& run, std::size_t token, std::size_t tokens, std::size_t kv_head)
      : shape_(shape), run_(run), start_(run.start + token), tokens_(tokens), kv_head_(kv_head) {
    for (std::size_t i = 0; i < queries(); ++i)
      q_.push_back(batch.q.data() + (run.row + token + i / shape.group) * shape.heads * shape.head_dim +
                   (kv_head * shape.group + i % shape.group) * shape.head_dim);
  }

  std::size_t queries() const { return tokens_ * shape_.group; }
  std::size_t first_page() const { return shape_.first_visible(start_) / kPage; }
  std::size_t last_page() const { return (start_ + tokens_ - 1) / kPage; }

  /// Runs the kernel on one page for the queries that see any of it: [*from, *from + count) of queries(). Results as AttendPage says.
  std::size_t attend(Context& context, const KvLayout& layout, std::size_t page, float* scratch, float* m, float* l, float* o,
                     std::size_t* from) {
    first_.clear();
    last_.clear();
    std::size_t begin = 0;
    for (std::size_t t = 0; t < tokens_; ++t) {
      const std::size_t position = start_ + t, base = page * kPage;
      const std::size_t low = std::max(shape_.first_visible(position), base), high = std::min(position + 1, base + kPage);
      if (low >= high) {  // early tokens lie before the page, late ones have its end behind their window
        if (first_.empty()) begin = t + 1;
        continue;
      }
      for (std::size_t g = 0; g < shape_.group; ++g) {
        first_.push_back(static_cast<int>(low - base));
        last_.push_back(static_cast<int>(high - base));
      }
    }
    *from = begin * shape_.group;
    if (first_.empty()) return 0;
    const std::byte* memory = run_.sequence->page(shape_.pages, page);
    context.kernels.attend_page({q_.data() + *from, first_.data(), last_.data(), static_cast<int>(first_.size()),
                                 static_cast<int>(shape_.head_dim), memory + layout.k_offset(shape_.layer, kv_head_),
                                 memory + layout.v_offset(shape_.layer, kv_head_), layout.type(), shape_.scale, shape_.softcap, scratch, m, l, o,
                                 shape_.padded});
    return first_.size();
  }

 private:
  const Shape& shape_;
  const Batch::Run& run_;
  std::size_t start_;
  std::size_t tokens_;
  std::size_t kv_head_;
  std::vector<const float*> q_;
  std::vector<int> first_, last_;
};

/// All pages of a tile, merged in ascending order; writes batch.mixed.
void attend_tile(const Shape& shape, const KvLayout& layout, Context& context, int thread, Batch& batch, const Batch::Run& run,
                 std::size_t token, std::size_t tokens, std::size_t kv_head) {
  Tile tile(shape, batch, run, token, tokens, kv_head);
  const std::size_t nq = tile.queries(), wide = nq * shape.padded;
  const std::size_t floats = attend_scratch(shape.head_dim, nq) + 2 * wide + 4 * nq;
  float* kernel_scratch = reinterpret_cast<float*>(context.scratch(thread, floats * sizeof(float)));
  float* o = kernel_scratch + attend_scratch(shape.head_dim, nq);
  float* sum = o + wide;
  float *m = sum + wide, *l = m + nq, *top = l + nq, *denominator = top + nq;
  std::vector<bool> started(nq, false);
  for (std::size_t page = tile.first_page(); page <= tile.last_page(); ++page) {
    std::size_t from = 0;
    const std::size_t count = tile.attend(context, layout, page, kernel_scratch, m, l, o, &from);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t query = from + i;
      if (started[query]) {
        context.kernels.attend_merge(top + query, denominator + query, sum + query * shape.padded, m[i], l[i], o + i * shape.padded,
                                     shape.head_dim);
      } else {
        started[query] = true;
        top[query] = m[i];
        denominator[query] = l[i];
        std::memcpy(sum + query * shape.padded, o + i * shape.padded, shape.head_dim * sizeof(float));
      }
    }
  }
  for (std::size_t i = 0; i < nq; ++i) {
    float* out = batch.mixed.data() + (run.row + token + i / shape.group) * shape.heads * shape.head_dim +
                 (kv_head * shape.group + i % shape.group) * shape.head_dim;
    std::memcpy(out, sum + i * shape.padded, shape.head_dim * sizeof(float));
    context.kernels.divide(out, denominator[i], shape.head_dim);
  }
}

}  // namespace

void attention(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const KvLayout& layout = batch.runs.front().sequence->pool().layout();
  const Shape shape(model, layer_index, layout);
  const std::size_t q_dim = model.header().q_dim();

  project(model, layer, context, batch);
  for_rows(context, batch.n, [&](std::size_t row, int) { rotate_row(model, layer, shape, context, batch, row); });
  store_keys_and_values(shape, layout, context, batch);

  struct Item {
    const Batch::Run* run;
    std::size_t token;
  };
  std::vector<Item> items;
  for (const Batch::Run& run : batch.runs)
    for (std::size_t token = 0; token < run.count; token += kTileTokens) items.push_back({&run, token});
  context.threads.run(items.size() * shape.kv_heads, [&](std::size_t i, int thread) {
    const Item& item = items[i / shape.kv_heads];
    attend_tile(shape, layout, context, thread, batch, *item.run, item.token, std::min(kTileTokens, item.run->count - item.token),
                i % shape.kv_heads);
  });

  if (!layer.wg.empty())
    for_rows(context, batch.n, [&](std::size_t row, int) {
      context.kernels.sigmoid_mul(batch.mixed.data() + row * q_dim, batch.gate.data() + row * q_dim, q_dim);
    });
  const Activations in = quantize_rows(batch, context, batch.mixed.data(), q_dim, batch.n);
  const Product out{&layer.wo, nullptr, batch.h.data(), model.header().dim};
  multiply(context, {&out, 1}, in, batch.n);
}

}  // namespace krafla
