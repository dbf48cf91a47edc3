#include "model/blocks/attention.h"

#include <algorithm>
#include <cstring>

#include "base/round_up.h"

namespace krafla {
namespace {

/// Floats between the weighted sums of two queries: whole vectors.
std::size_t padded_head(const ModelConfig& config) { return round_up<std::size_t>(config.head_dim, 8); }

/// The first page with a position that a query at `position` sees; window 0: it sees all before it.
std::size_t first_visible(std::size_t window, std::size_t position) {
  return window != 0 && position >= window ? position + 1 - window : 0;
}

/// What one attention layer needs to know.
struct Layer {
  const ModelConfig& config;
  const KvLayout& layout;
  std::size_t index;
  std::size_t window;  // 0: full attention
  KvLayout::Group pages;
  std::size_t padded;

  Layer(const Model& model, std::size_t layer_index, const KvLayout& kv_layout)
      : config(model.config()),
        layout(kv_layout),
        index(layer_index),
        window(config.layers[index].window),
        pages(layout.group(index)),
        padded(padded_head(config)) {}
};

void project(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const std::size_t q_dim = model.config().q_dim(), kv_dim = model.config().kv_dim();
  const Activations in =
      quantize_input(batch, context, layer_index, MliSlot::qkv, batch.h.data(), model.config().dim);
  const auto bias = [](FloatView view) { return view.empty() ? nullptr : view.data(); };
  const Product products[] = {{&layer.wq, bias(layer.bq), batch.q.data(), q_dim},
                              {&layer.wk, bias(layer.bk), batch.k.data(), kv_dim},
                              {&layer.wv, bias(layer.bv), batch.v.data(), kv_dim},
                              {&layer.wg, nullptr, batch.gate.data(), q_dim}};
  multiply(context, {products, layer.wg.empty() ? std::size_t{3} : std::size_t{4}}, in, batch.n);
}

/// The per-head norms and the rotation of one row's queries and keys.
void rotate_row(const Model& model, std::size_t layer_index, Context& context, Batch& batch,
                std::size_t row) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const ModelConfig& config = model.config();
  const Rope rope = config.layers[layer_index].rope;
  const std::size_t pairs = model.rope().pairs();
  const std::size_t at = ((rope == Rope::local ? batch.n : 0) + row) * pairs;
  const auto each_head = [&](float* heads, std::size_t count, FloatView norm) {
    for (std::size_t head = 0; head < count; ++head) {
      float* x = heads + head * config.head_dim;
      if (!norm.empty()) context.kernels.rms_norm(x, norm.data(), config.norm_eps, config.head_dim, x);
      if (rope != Rope::none) context.kernels.rope(x, batch.cos.data() + at, batch.sin.data() + at, pairs);
    }
  };
  each_head(batch.q.data() + row * config.q_dim(), config.heads, layer.q_norm);
  each_head(batch.k.data() + row * config.kv_dim(), config.kv_heads, layer.k_norm);
}

/// Writes one kv head's keys (transposed) and values of a run to their pages.
template <class Element, class Convert>
void store_head(const Layer& layer, const Batch& batch, const Run& run, std::size_t head, Convert convert) {
  const std::size_t dim = layer.config.head_dim, kv_dim = layer.config.kv_dim();
  Element keys[1024];
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::size_t position = run.start + i, slot = position % kPage;
    std::byte* page = run.sequence->page(layer.pages, position / kPage);
    auto* k = reinterpret_cast<Element*>(page + layer.layout.k_offset(layer.index, head));
    auto* v = reinterpret_cast<Element*>(page + layer.layout.v_offset(layer.index, head));
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
void store_head_q8(const Layer& layer, Context& context, const Batch& batch, const Run& run,
                   std::size_t head) {
  constexpr std::size_t kDims = 1024;  // at a time, whole blocks
  const std::size_t dim = layer.config.head_dim, kv_dim = layer.config.kv_dim(),
                    blocks = (dim + kKvBlock - 1) / kKvBlock;
  std::int8_t keys[kDims];
  std::uint16_t scales[kDims / kKvBlock];
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::size_t position = run.start + i, slot = position % kPage,
                      from = (run.row + i) * kv_dim + head * dim;
    std::byte* page = run.sequence->page(layer.pages, position / kPage);
    auto* k = reinterpret_cast<std::int8_t*>(page + layer.layout.k_offset(layer.index, head));
    auto* v = reinterpret_cast<std::int8_t*>(page + layer.layout.v_offset(layer.index, head));
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

void store_keys_and_values(const Layer& layer, Context& context, const Batch& batch) {
  const auto store_one = [&](std::size_t item, int) {
    const Run& run = batch.runs[item / layer.config.kv_heads];
    if (layer.layout.type() == KvType::q8_0)
      store_head_q8(layer, context, batch, run, item % layer.config.kv_heads);
    else if (layer.layout.type() == KvType::f16)
      store_head<std::uint16_t>(layer, batch, run, item % layer.config.kv_heads, context.kernels.to_f16);
    else
      store_head<float>(
          layer, batch, run, item % layer.config.kv_heads,
          [](const float* from, std::size_t n, float* to) { std::memcpy(to, from, n * sizeof(float)); });
  };
  const std::size_t items = batch.runs.size() * layer.config.kv_heads;
  if (batch.n < 8) {
    for (std::size_t item = 0; item < items; ++item) store_one(item, 0);
  } else {
    context.threads.run(items, store_one);
  }
}

/// Hands out pieces of a thread's scratch memory, each on a 64-byte boundary. Without memory it only counts.
class ScratchArena {
 public:
  explicit ScratchArena(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t n) {
    T* piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += round_up<std::size_t>(n * sizeof(T), 64);
    return piece;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// Working memory for `count` queries of one kv head and one page.
struct QueryScratch {
  QueryScratch(const ModelConfig& config, ScratchArena& arena, std::size_t count) {
    kernel = arena.take<float>(attend_scratch(config.head_dim, count));
    o = arena.take<float>(count * padded_head(config));
    sum = arena.take<float>(count * padded_head(config));
    for (float** row : {&m, &l, &top, &denominator}) *row = arena.take<float>(count);
    q = arena.take<const float*>(count);
    first = arena.take<int>(count);
    last = arena.take<int>(count);
  }

  float* kernel;
  float *m, *l, *o;                // of one page
  float *top, *denominator, *sum;  // of the pages so far
  const float** q;
  int *first, *last;  // visible keys of the page
};

/// The queries of a tile of tokens against one kv head.
struct Queries : QueryScratch {
  Queries(const Layer& layer, ScratchArena arena, const Batch& batch, const AttentionItem& item)
      : QueryScratch(layer.config, arena, batch.tiles[item.tile].tokens * layer.config.group()),
        tile(batch.tiles[item.tile]),
        run(batch.runs[tile.run]),
        kv_head(item.kv_head),
        count(tile.tokens * layer.config.group()) {
    for (std::size_t i = 0; i < count; ++i) q[i] = batch.q.data() + place(layer, i);
  }

  /// Where query i's head begins in a row of heads, q_dim a row.
  std::size_t place(const Layer& layer, std::size_t i) const {
    const std::size_t group = layer.config.group();
    return (run.row + tile.token + i / group) * layer.config.q_dim() +
           (kv_head * group + i % group) * layer.config.head_dim;
  }
  std::size_t position(std::size_t token) const { return run.start + tile.token + token; }

  const Tile& tile;
  const Run& run;
  std::size_t kv_head, count;
};

/// The keys of an item's first page.
const std::byte* first_keys(const Layer& layer, const Batch& batch, const AttentionItem& item) {
  const Run& run = batch.runs[batch.tiles[item.tile].run];
  return run.sequence->page(layer.pages, item.first_page) + layer.layout.k_offset(layer.index, item.kv_head);
}

/// Queries [from, from + count): those that see some key of a page.
struct Seen {
  std::size_t from, count;
};

/// Which of the queries see keys of the page, and which keys.
Seen find_visible(const Layer& layer, const Queries& queries, std::size_t page) {
  Seen seen{0, 0};
  for (std::size_t t = 0; t < queries.tile.tokens; ++t) {
    const std::size_t position = queries.position(t), base = page * kPage;
    const std::size_t low = std::max(first_visible(layer.window, position), base);
    const std::size_t high = std::min(position + 1, base + kPage);
    if (low >= high) {  // early tokens lie before the page, late ones have its end behind their window
      if (seen.count == 0) seen.from = (t + 1) * layer.config.group();
      continue;
    }
    for (std::size_t g = 0; g < layer.config.group(); ++g, ++seen.count) {
      queries.first[seen.count] = static_cast<int>(low - base);
      queries.last[seen.count] = static_cast<int>(high - base);
    }
  }
  return seen;
}

/// One page for the queries that see any of it. Their results go to m, l [count] and o. next_k: the keys that
/// the thread takes next, or null.
Seen attend_page(const Layer& layer, Context& context, const Queries& queries, std::size_t page,
                 const std::byte* next_k, float* m, float* l, float* o) {
  const Seen seen = find_visible(layer, queries, page);
  if (seen.count == 0) return seen;
  const std::byte* memory = queries.run.sequence->page(layer.pages, page);
  context.kernels.attend_page(
      {queries.q + seen.from, queries.first, queries.last, static_cast<int>(seen.count),
       static_cast<int>(layer.config.head_dim), memory + layer.layout.k_offset(layer.index, queries.kv_head),
       memory + layer.layout.v_offset(layer.index, queries.kv_head), next_k, layer.layout.type(),
       layer.config.attn_scale, layer.config.attn_softcap, queries.kernel, m, l, o, layer.padded});
  return seen;
}

/// Merges a page's results of the queries `seen` into their sums; for those from `started` on it is the first
/// page.
void merge(const Layer& layer, Context& context, const Queries& queries, Seen seen, std::size_t started,
           const float* m, const float* l, const float* o) {
  const std::size_t from = seen.from, count = seen.count;
  const std::size_t old = std::clamp(started, from, from + count) - from, fresh = count - old;
  float* const sum = queries.sum + from * layer.padded;
  context.kernels.attend_merge({old, layer.config.head_dim, queries.top + from, queries.denominator + from,
                                sum, m, l, o, layer.padded});
  std::copy_n(m + old, fresh, queries.top + from + old);
  std::copy_n(l + old, fresh, queries.denominator + from + old);
  std::copy_n(o + old * layer.padded, fresh * layer.padded, sum + old * layer.padded);
}

/// Writes the merged queries to batch.mixed.
void finish(const Layer& layer, Context& context, const Queries& queries, Batch& batch) {
  for (std::size_t i = 0; i < queries.count; ++i) {
    float* out = batch.mixed.data() + queries.place(layer, i);
    std::memcpy(out, queries.sum + i * layer.padded, layer.config.head_dim * sizeof(float));
    context.kernels.divide(out, queries.denominator[i], layer.config.head_dim);
  }
}

/// m, l and o of a single page in batch.partials.
struct Partial {
  float *m, *l, *o;
  Partial(const Layer& layer, Batch& batch, std::size_t index)
      : m(batch.partials.data() + index * floats(layer.config)),
        l(m + layer.config.group()),
        o(l + layer.config.group()) {}
  static std::size_t floats(const ModelConfig& config) { return config.group() * (padded_head(config) + 2); }
};

/// All pages of a tile, merged in ascending order as they come.
void attend_whole(const Layer& layer, Context& context, Batch& batch, const Queries& queries,
                  const AttentionItem& item, const std::byte* next_item) {
  const std::size_t offset = layer.layout.k_offset(layer.index, item.kv_head);
  std::size_t started = 0;  // queries before it have met a page: they are in order of position
  for (std::size_t page = item.first_page; page < item.end_page; ++page) {
    const std::byte* next =
        page + 1 < item.end_page ? queries.run.sequence->page(layer.pages, page + 1) + offset : next_item;
    const Seen seen = attend_page(layer, context, queries, page, next, queries.m, queries.l, queries.o);
    merge(layer, context, queries, seen, started, queries.m, queries.l, queries.o);
    started = std::max(started, seen.from + seen.count);
  }
  finish(layer, context, queries, batch);
}

/// Some pages of a single token; their results wait in batch.partials.
void attend_part(const Layer& layer, Context& context, Batch& batch, const Queries& queries,
                 const AttentionItem& item, const std::byte* next_item) {
  const std::size_t offset = layer.layout.k_offset(layer.index, item.kv_head);
  for (std::size_t page = item.first_page; page < item.end_page; ++page) {
    const Partial partial(layer, batch, item.partial + page - item.first_page);
    const std::byte* next =
        page + 1 < item.end_page ? queries.run.sequence->page(layer.pages, page + 1) + offset : next_item;
    attend_page(layer, context, queries, page, next, partial.m, partial.l, partial.o);
  }
}

void merge_parts(const Layer& layer, Context& context, Batch& batch, const Queries& queries,
                 const AttentionItem& item) {
  const std::size_t group = layer.config.group();
  for (std::size_t page = item.first_page; page < item.end_page; ++page) {
    const Partial partial(layer, batch, item.partial + page - item.first_page);
    merge(layer, context, queries, {0, group}, page == item.first_page ? 0 : group, partial.m, partial.l,
          partial.o);
  }
  finish(layer, context, queries, batch);
}

void attend(const Layer& layer, Context& context, Batch& batch) {
  const AttentionPlan& plan = batch.plans[layer.pages];
  const auto threads = static_cast<std::size_t>(context.threads.size());
  const auto arena = [&](int thread) { return ScratchArena(context.scratch(thread)); };
  context.threads.run(plan.items.size(), [&](std::size_t i, int thread) {
    const AttentionItem& item = plan.items[i];
    const Queries queries(layer, arena(thread), batch, item);
    const std::byte* next =  // where the thread goes on if all take turns
        i + threads < plan.items.size() ? first_keys(layer, batch, plan.items[i + threads]) : nullptr;
    if (item.partial == AttentionItem::kWhole)
      attend_whole(layer, context, batch, queries, item, next);
    else
      attend_part(layer, context, batch, queries, item, next);
  });
  context.threads.run(plan.merges.size(), [&](std::size_t i, int thread) {
    const Queries queries(layer, arena(thread), batch, plan.merges[i]);
    merge_parts(layer, context, batch, queries, plan.merges[i]);
  });
}

/// Plans the tiles of a batch for layers with one window.
class Planner {
 public:
  Planner(const Batch& batch, const ModelConfig& config, std::size_t window, std::size_t threads)
      : batch_(batch), kv_heads_(config.kv_heads), window_(window), threads_(threads) {
    for (const Tile& tile : batch.tiles) singles_ += tile.tokens == 1 ? kv_heads_ : 0;
  }

  /// Tiles of several tokens first: they take longest. Returns how many partials are needed.
  std::size_t plan(AttentionPlan& out) {
    out.items.clear();
    out.merges.clear();
    std::size_t partials = 0;
    for (const bool split : {false, true})
      for (std::size_t tile = 0; tile < batch_.tiles.size(); ++tile)
        if (is_split(tile) == split)
          for (std::size_t head = 0; head < kv_heads_; ++head) add(out, item_of(tile, head), split, partials);
    return partials;
  }

 private:
  AttentionItem item_of(std::size_t index, std::size_t head) const {
    const Tile& tile = batch_.tiles[index];
    const std::size_t position = batch_.runs[tile.run].start + tile.token;
    return {index, head, first_visible(window_, position) / kPage, (position + tile.tokens - 1) / kPage + 1,
            AttentionItem::kWhole};
  }

  /// A single token with a long past is split by page, unless there are so many of them that each thread has
  /// enough.
  bool is_split(std::size_t index) const {
    constexpr std::size_t kManyPages = 2, kMostPages = 4096;
    const AttentionItem item = item_of(index, 0);
    const std::size_t pages = item.end_page - item.first_page;
    return threads_ > 1 && batch_.tiles[index].tokens == 1 && pages >= kManyPages &&
           singles_ < 4 * threads_ && pages * singles_ <= kMostPages;
  }

  static void add(AttentionPlan& out, const AttentionItem& item, bool split, std::size_t& partials) {
    constexpr std::size_t kPages = 4;  // of an item
    if (!split) return out.items.push_back(item);
    out.merges.push_back(item);
    out.merges.back().partial = partials;
    for (std::size_t page = item.first_page; page < item.end_page; page += kPages) {
      const std::size_t end = std::min(page + kPages, item.end_page);
      out.items.push_back({item.tile, item.kv_head, page, end, partials});
      partials += end - page;
    }
  }

  const Batch& batch_;
  std::size_t kv_heads_, window_, threads_;
  std::size_t singles_ = 0;  // kv heads of all single tokens
};

}  // namespace

std::size_t attention_scratch(const ModelConfig& config, std::size_t queries) {
  ScratchArena arena(nullptr);
  const QueryScratch scratch(config, arena, queries);
  return arena.used();
}

void plan_attention(const Model& model, const Context& context, Batch& batch) {
  const KvLayout& layout = batch.runs.front().sequence->pool().layout();
  std::size_t partials = 0;
  for (const auto group : {KvLayout::full, KvLayout::windowed}) {
    if (!layout.has(group)) continue;
    const std::size_t window = group == KvLayout::windowed ? layout.window() : 0;
    Planner planner(batch, model.config(), window, static_cast<std::size_t>(context.threads.size()));
    partials = std::max(partials, planner.plan(batch.plans[group]));
  }
  batch.partials.grow(partials * Partial::floats(model.config()));
}

void attention(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const ModelConfig& config = model.config();
  const Layer layer(model, layer_index, batch.runs.front().sequence->pool().layout());
  const MlbLayer& weights = model.mlb().layers[layer_index];
  const std::size_t q_dim = config.q_dim();

  project(model, layer_index, context, batch);
  for_rows(context, batch.n,
           [&](std::size_t row, int) { rotate_row(model, layer_index, context, batch, row); });
  store_keys_and_values(layer, context, batch);
  attend(layer, context, batch);
  if (!weights.wg.empty())
    for_rows(context, batch.n, [&](std::size_t row, int) {
      context.kernels.sigmoid_mul(batch.mixed.data() + row * q_dim, batch.gate.data() + row * q_dim, q_dim);
    });
  const Activations in = quantize_input(batch, context, layer_index, MliSlot::o, batch.mixed.data(), q_dim);
  const Product out{&weights.wo, nullptr, batch.h.data(), config.dim};
  multiply(context, {&out, 1}, in, batch.n);
}

}  // namespace krafla
