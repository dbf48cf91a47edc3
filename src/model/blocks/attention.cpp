#include "model/blocks/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace krafla {
namespace {

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
        scale(model.header().attn_scale != 0
                  ? model.header().attn_scale
                  : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))),
        softcap(model.header().attn_softcap),
        pages(layout.group(index)) {}

  std::size_t first_visible(std::size_t position) const {
    return window != 0 && position >= window ? position + 1 - window : 0;
  }
  std::size_t first_page(std::size_t position) const { return first_visible(position) / kPage; }
};

void project(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const std::size_t q_dim = model.header().q_dim(), kv_dim = model.header().kv_dim();
  observe(batch, context, layer_index, MliSlot::qkv, batch.h.data(), batch.n);
  const Activations in = quantize_rows(batch, context, batch.h.data(), model.header().dim, batch.n);
  const auto bias = [](FloatView view) { return view.empty() ? nullptr : view.data(); };
  const Product products[] = {{&layer.wq, bias(layer.bq), batch.q.data(), q_dim},
                              {&layer.wk, bias(layer.bk), batch.k.data(), kv_dim},
                              {&layer.wv, bias(layer.bv), batch.v.data(), kv_dim},
                              {&layer.wg, nullptr, batch.gate.data(), q_dim}};
  multiply(context, {products, layer.wg.empty() ? std::size_t{3} : std::size_t{4}}, in, batch.n);
}

/// The per-head norms and the rotation of one row's queries and keys.
void rotate_row(const Model& model, const MlbLayer& layer, const Shape& shape, Context& context, Batch& batch,
                std::size_t row) {
  const std::size_t pairs = model.rope().pairs();
  const std::size_t at = ((layer.flags & kLayerLocalRope ? batch.n : 0) + row) * pairs;
  const auto each_head = [&](float* heads, std::size_t count, FloatView norm) {
    for (std::size_t head = 0; head < count; ++head) {
      float* x = heads + head * shape.head_dim;
      if (!norm.empty()) context.kernels.rms_norm(x, norm.data(), model.header().norm_eps, shape.head_dim, x);
      if (!(layer.flags & kLayerNoRope))
        context.kernels.rope(x, batch.cos.data() + at, batch.sin.data() + at, pairs);
    }
  };
  each_head(batch.q.data() + row * shape.heads * shape.head_dim, shape.heads, layer.q_norm);
  each_head(batch.k.data() + row * shape.kv_heads * shape.head_dim, shape.kv_heads, layer.k_norm);
}

/// Writes one kv head's keys (transposed) and values of a run to their pages.
template <class Element, class Convert>
void store_head(const Shape& shape, const KvLayout& layout, const Batch& batch, const Batch::Run& run,
                std::size_t head, Convert convert) {
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

/// The same in q8_0: int8 and, behind a head's int8, f16 scales.
void store_head_q8(const Shape& shape, const KvLayout& layout, Context& context, const Batch& batch,
                   const Batch::Run& run, std::size_t head) {
  constexpr std::size_t kDims = 1024;  // at a time, whole blocks
  const std::size_t dim = shape.head_dim, kv_dim = shape.kv_heads * dim,
                    blocks = (dim + kKvBlock - 1) / kKvBlock;
  std::int8_t keys[kDims];
  std::uint16_t scales[kDims / kKvBlock];
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::size_t position = run.start + i, slot = position % kPage,
                      from = (run.row + i) * kv_dim + head * dim;
    std::byte* page = run.sequence->page(shape.pages, position / kPage);
    auto* k = reinterpret_cast<std::int8_t*>(page + layout.k_offset(shape.layer, head));
    auto* v = reinterpret_cast<std::int8_t*>(page + layout.v_offset(shape.layer, head));
    auto* k_scales = reinterpret_cast<std::uint16_t*>(k + dim * kPage);
    auto* v_scales = reinterpret_cast<std::uint16_t*>(v + dim * kPage);
    for (std::size_t d0 = 0; d0 < dim; d0 += kDims) {
      const std::size_t count = std::min(dim - d0, kDims);
      context.kernels.quantize_kv(batch.k.data() + from + d0, count, keys, scales);
      for (std::size_t d = 0; d < count; ++d) k[(d0 + d) * kPage + slot] = keys[d];
      for (std::size_t b = 0; b * kKvBlock < count; ++b)
        k_scales[(d0 / kKvBlock + b) * kPage + slot] = scales[b];
    }
    context.kernels.quantize_kv(batch.v.data() + from, dim, v + slot * dim, v_scales + slot * blocks);
  }
}

void store_keys_and_values(const Shape& shape, const KvLayout& layout, Context& context, const Batch& batch) {
  const auto store_one = [&](std::size_t item, int) {
    const Batch::Run& run = batch.runs[item / shape.kv_heads];
    if (layout.type() == KvType::q8_0)
      store_head_q8(shape, layout, context, batch, run, item % shape.kv_heads);
    else if (layout.type() == KvType::f16)
      store_head<std::uint16_t>(shape, layout, batch, run, item % shape.kv_heads, context.kernels.to_f16);
    else
      store_head<float>(
          shape, layout, batch, run, item % shape.kv_heads,
          [](const float* from, std::size_t n, float* to) { std::memcpy(to, from, n * sizeof(float)); });
  };
  const std::size_t items = batch.runs.size() * shape.kv_heads;
  if (batch.n < 8) {
    for (std::size_t item = 0; item < items; ++item) store_one(item, 0);
  } else {
    context.threads.run(items, store_one);
  }
}

/// Hands out pieces of a thread's scratch memory, each on a 64-byte boundary.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t n) {
    T* piece = reinterpret_cast<T*>(memory_ + used_);
    used_ += (n * sizeof(T) + 63) / 64 * 64;
    return piece;
  }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// The queries of a tile of tokens against one kv head, with working memory for one page.
struct Queries {
  Queries(const Shape& shape, Context& context, int thread, const Batch& batch, const Batch::Tile& at,
          std::size_t head)
      : tile(at), run(batch.runs[at.run]), kv_head(head), count(at.tokens * shape.group) {
    const std::size_t page_scratch = attend_scratch(shape.head_dim, count), wide = count * shape.padded;
    const std::size_t bytes = (page_scratch + 2 * wide + 4 * count) * sizeof(float) +
                              count * (sizeof(float*) + 2 * sizeof(int)) + 16 * 64;
    Carver carver(context.scratch(thread, bytes));
    kernel = carver.take<float>(page_scratch);
    o = carver.take<float>(wide);
    sum = carver.take<float>(wide);
    for (float** row : {&m, &l, &top, &denominator}) *row = carver.take<float>(count);
    q = carver.take<const float*>(count);
    first = carver.take<int>(count);
    last = carver.take<int>(count);
    for (std::size_t i = 0; i < count; ++i) q[i] = batch.q.data() + place(shape, i);
  }

  /// Where query i's head begins in a row of heads, q_dim a row.
  std::size_t place(const Shape& shape, std::size_t i) const {
    return (run.row + tile.token + i / shape.group) * shape.heads * shape.head_dim +
           (kv_head * shape.group + i % shape.group) * shape.head_dim;
  }
  std::size_t position(std::size_t token) const { return run.start + tile.token + token; }
  std::size_t first_page(const Shape& shape) const { return shape.first_page(position(0)); }
  std::size_t last_page() const { return position(tile.tokens - 1) / kPage; }

  const Batch::Tile& tile;
  const Batch::Run& run;
  std::size_t kv_head, count;
  float *kernel, *o, *sum, *m, *l, *top, *denominator;
  const float** q;
  int *first, *last;
};

/// The keys of a kv head in a page.
const std::byte* keys_of(const Shape& shape, const KvLayout& layout, const Batch::Run& run,
                         std::size_t kv_head, std::size_t page) {
  return run.sequence->page(shape.pages, page) + layout.k_offset(shape.layer, kv_head);
}

/// One page for the queries that see any of it: `count` of them from `from` on, results in page_m, page_l
/// [count] and page_o. next_k: the keys that the thread takes next, or null.
struct Seen {
  std::size_t from, count;
};
Seen attend_page(const Shape& shape, const KvLayout& layout, Context& context, const Queries& queries,
                 std::size_t page, const std::byte* next_k, float* page_m, float* page_l, float* page_o) {
  Seen seen{0, 0};
  for (std::size_t t = 0; t < queries.tile.tokens; ++t) {
    const std::size_t position = queries.position(t), base = page * kPage;
    const std::size_t low = std::max(shape.first_visible(position), base),
                      high = std::min(position + 1, base + kPage);
    if (low >= high) {  // early tokens lie before the page, late ones have its end behind their window
      if (seen.count == 0) seen.from = (t + 1) * shape.group;
      continue;
    }
    for (std::size_t g = 0; g < shape.group; ++g, ++seen.count) {
      queries.first[seen.count] = static_cast<int>(low - base);
      queries.last[seen.count] = static_cast<int>(high - base);
    }
  }
  if (seen.count == 0) return seen;
  const std::byte* memory = queries.run.sequence->page(shape.pages, page);
  context.kernels.attend_page(
      {queries.q + seen.from, queries.first, queries.last, static_cast<int>(seen.count),
       static_cast<int>(shape.head_dim), memory + layout.k_offset(shape.layer, queries.kv_head),
       memory + layout.v_offset(shape.layer, queries.kv_head), next_k, layout.type(), shape.scale,
       shape.softcap, queries.kernel, page_m, page_l, page_o, shape.padded});
  return seen;
}

/// Merges the next page of `count` queries from `from` on into their sums; of those from `started` on it is
/// the first and starts them.
void merge(const Shape& shape, Context& context, const Queries& queries, std::size_t from, std::size_t count,
           std::size_t started, const float* m, const float* l, const float* o) {
  const std::size_t old = std::clamp(started, from, from + count) - from, fresh = count - old;
  float* const sum = queries.sum + from * shape.padded;
  context.kernels.attend_merge(
      {old, shape.head_dim, queries.top + from, queries.denominator + from, sum, m, l, o, shape.padded});
  std::copy_n(m + old, fresh, queries.top + from + old);
  std::copy_n(l + old, fresh, queries.denominator + from + old);
  std::copy_n(o + old * shape.padded, fresh * shape.padded, sum + old * shape.padded);
}

/// Writes the merged queries to batch.mixed.
void finish(const Shape& shape, Context& context, const Queries& queries, Batch& batch) {
  for (std::size_t i = 0; i < queries.count; ++i) {
    float* out = batch.mixed.data() + queries.place(shape, i);
    std::memcpy(out, queries.sum + i * shape.padded, shape.head_dim * sizeof(float));
    context.kernels.divide(out, queries.denominator[i], shape.head_dim);
  }
}

/// Every tile and kv head on one thread, its pages in ascending order.
void attend_by_tiles(const Shape& shape, const KvLayout& layout, Context& context, Batch& batch) {
  context.threads.run(batch.tiles.size() * shape.kv_heads, [&](std::size_t item, int thread) {
    const Queries queries(shape, context, thread, batch, batch.tiles[item / shape.kv_heads],
                          item % shape.kv_heads);
    std::size_t started = 0;  // queries below have met a page: they are in order of position
    for (std::size_t page = queries.first_page(shape); page <= queries.last_page(); ++page) {
      const std::byte* next = page < queries.last_page()
                                  ? keys_of(shape, layout, queries.run, queries.kv_head, page + 1)
                                  : nullptr;
      const Seen seen =
          attend_page(shape, layout, context, queries, page, next, queries.m, queries.l, queries.o);
      merge(shape, context, queries, seen.from, seen.count, started, queries.m, queries.l, queries.o);
      started = std::max(started, seen.from + seen.count);
    }
    finish(shape, context, queries, batch);
  });
}

/// Single tokens with long pasts: a few pages are an item, so that few heads still occupy all threads.
void attend_by_pages(const Shape& shape, const KvLayout& layout, Context& context, Batch& batch,
                     std::size_t most_pages) {
  constexpr std::size_t kPages = 4;                           // of an item
  const std::size_t slot = shape.group * (shape.padded + 2);  // a page's m, l and o
  const std::size_t items = (most_pages + kPages - 1) / kPages;
  const std::size_t units = batch.tiles.size() * shape.kv_heads;
  batch.partials.grow(units * most_pages * slot);
  const auto first_keys = [&](std::size_t item) -> const std::byte* {
    if (item >= units * items) return nullptr;
    const Batch::Tile& tile = batch.tiles[item / items / shape.kv_heads];
    const Batch::Run& run = batch.runs[tile.run];
    const std::size_t position = run.start + tile.token,
                      page = shape.first_page(position) + item % items * kPages;
    return page <= position / kPage ? keys_of(shape, layout, run, item / items % shape.kv_heads, page)
                                    : nullptr;
  };
  const auto threads = static_cast<std::size_t>(context.threads.size());
  context.threads.run(units * items, [&](std::size_t item, int thread) {
    const std::size_t unit = item / items;
    const Queries queries(shape, context, thread, batch, batch.tiles[unit / shape.kv_heads],
                          unit % shape.kv_heads);
    const std::size_t first = queries.first_page(shape), from = first + item % items * kPages;
    const std::size_t end = std::min(from + kPages, queries.last_page() + 1);
    for (std::size_t page = from; page < end; ++page) {
      float* partial = batch.partials.data() + (unit * most_pages + page - first) * slot;
      const std::byte* next =  // after the last the thread goes on there if all take turns
          page + 1 < end ? keys_of(shape, layout, queries.run, queries.kv_head, page + 1)
                         : first_keys(item + threads);
      attend_page(shape, layout, context, queries, page, next, partial, partial + shape.group,
                  partial + 2 * shape.group);
    }
  });
  context.threads.run(units, [&](std::size_t unit, int thread) {
    const Queries queries(shape, context, thread, batch, batch.tiles[unit / shape.kv_heads],
                          unit % shape.kv_heads);
    const std::size_t pages = queries.last_page() - queries.first_page(shape) + 1;
    for (std::size_t page = 0; page < pages; ++page) {
      const float* partial = batch.partials.data() + (unit * most_pages + page) * slot;
      merge(shape, context, queries, 0, shape.group, page == 0 ? 0 : shape.group, partial,
            partial + shape.group, partial + 2 * shape.group);
    }
    finish(shape, context, queries, batch);
  });
}

void attend(const Shape& shape, const KvLayout& layout, Context& context, Batch& batch) {
  constexpr std::size_t kManyPages = 2, kMaxPartials = 4096;
  std::size_t most_pages = 0;
  bool single = true;
  for (const Batch::Tile& tile : batch.tiles) {
    const std::size_t position = batch.runs[tile.run].start + tile.token;
    single = single && tile.tokens == 1;
    most_pages = std::max(most_pages, position / kPage - shape.first_page(position) + 1);
  }
  const std::size_t units = batch.tiles.size() * shape.kv_heads;
  const bool split = single && context.threads.size() > 1 && most_pages >= kManyPages &&
                     units < 4 * static_cast<std::size_t>(context.threads.size()) &&
                     units * most_pages <= kMaxPartials;
  split ? attend_by_pages(shape, layout, context, batch, most_pages)
        : attend_by_tiles(shape, layout, context, batch);
}

}  // namespace

void attention(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const KvLayout& layout = batch.runs.front().sequence->pool().layout();
  const Shape shape(model, layer_index, layout);
  const std::size_t q_dim = model.header().q_dim();

  project(model, layer_index, context, batch);
  for_rows(context, batch.n,
           [&](std::size_t row, int) { rotate_row(model, layer, shape, context, batch, row); });
  store_keys_and_values(shape, layout, context, batch);
  attend(shape, layout, context, batch);
  if (!layer.wg.empty())
    for_rows(context, batch.n, [&](std::size_t row, int) {
      context.kernels.sigmoid_mul(batch.mixed.data() + row * q_dim, batch.gate.data() + row * q_dim, q_dim);
    });
  observe(batch, context, layer_index, MliSlot::o, batch.mixed.data(), batch.n);
  const Activations in = quantize_rows(batch, context, batch.mixed.data(), q_dim, batch.n);
  const Product out{&layer.wo, nullptr, batch.h.data(), model.header().dim};
  multiply(context, {&out, 1}, in, batch.n);
}

}  // namespace krafla
