#include "model/batch.h"

#include <algorithm>

#include "base/error.h"
#include "model/blocks/attention.h"
#include "model/blocks/ffn.h"

namespace krafla {
namespace {

/// Tokens of an attention tile: their heads' scores stay in the first cache levels.
constexpr std::size_t kTileTokens = 16;

/// All sequences of a batch have their keys and values in one type.
void check_types(std::span<const Feed> feeds) {
  const KvType type = feeds.front().sequence->pool().layout().type();
  for (const Feed& feed : feeds)
    if (feed.sequence->pool().layout().type() != type)
      fail(ML_E_ARG, "the KV caches of a batch are of the types {} and {}; they must be of one",
           kv_type_name(type), kv_type_name(feed.sequence->pool().layout().type()));
}

}  // namespace

void check_feed(const Model& model, const Feed& feed) {
  const ModelConfig& config = model.config();
  if (feed.tokens.empty()) fail(ML_E_ARG, "there are no tokens to feed");
  for (const std::int32_t token : feed.tokens)
    if (token < 0 || static_cast<std::size_t>(token) >= config.vocab)
      fail(ML_E_ARG, "token id {} is not in the model's vocabulary, 0 to {}", token, config.vocab - 1);
  const std::size_t length = feed.sequence->length();
  if (feed.tokens.size() > config.max_seq || length > config.max_seq - feed.tokens.size())
    fail(ML_E_ARG, "position {} is beyond the model's max_seq of {}", length + feed.tokens.size() - 1,
         config.max_seq);
  if (feed.sequence->pool().layout().config() != config)
    fail(ML_E_ARG, "the sequence was made for a model of another shape than {}", model.path());
}

void Batch::begin(const Model& model, Context& context, std::span<const Feed> feeds) {
  for (const Feed& feed : feeds) check_feed(model, feed);
  check_types(feeds);
  runs.clear();
  tokens.clear();
  wanted.clear();
  tiles.clear();
  for (const Feed& feed : feeds) {
    const std::size_t row = tokens.size(), count = feed.tokens.size();
    tokens.insert(tokens.end(), feed.tokens.begin(), feed.tokens.end());
    if (feed.wants == Wants::last) wanted.push_back(row + count - 1);
    if (feed.wants == Wants::all)
      for (std::size_t i = 0; i < count; ++i) wanted.push_back(row + i);
    for (std::size_t token = 0; token < count; token += kTileTokens)
      tiles.push_back({runs.size(), token, std::min(kTileTokens, count - token)});
    runs.push_back({feed.sequence, row, count, feed.sequence->length()});
  }
  n = tokens.size();
  size_buffers(model, context);
  plan_attention(model, context, *this);
  begin_sequences(context);
  compute_rope(model, context);
}

/// All or none.
void Batch::begin_sequences(Context& context) {
  const auto fill = [&] {
    context.threads.run(fills_.size(), [&](std::size_t i, int) { fills_[i].run(); });
    fills_.clear();
  };
  std::size_t begun = 0;
  try {
    while (begun < runs.size()) {
      const Run& run = runs[begun++];
      run.sequence->begin(run.count, static_cast<bool>(cancelled), fills_);
    }
  } catch (...) {
    fill();
    for (std::size_t i = 0; i < begun; ++i) runs[i].sequence->rollback();
    throw;
  }
  fill();
}

void Batch::size_buffers(const Model& model, Context& context) {
  const ModelConfig& config = model.config();
  const KvLayout& layout = runs.front().sequence->pool().layout();
  const std::size_t values = config.linear.values();
  x.grow(n * config.dim);
  h.grow(n * config.dim);
  q.grow(n * config.q_dim());
  k.grow(n * config.kv_dim());
  v.grow(n * config.kv_dim());
  gate.grow(n * std::max({config.q_dim(), config.hidden_dim, values}));
  pieces.grow(ffn_pieces(model, context, n));
  mixed.grow(n * std::max(config.q_dim(), values));
  if (layout.has(KvLayout::linear)) {
    lin.grow(n * layout.recurrent().stride());
    conv.grow(n * layout.recurrent().stride());
    beta.grow(n * config.linear.v_heads);
    decay.grow(n * config.linear.v_heads);
  }
  quants.grow(n * context.kernels.activation_bytes(config.widest_input()));
  cos.grow(2 * n * model.rope().pairs());
  sin.grow(2 * n * model.rope().pairs());
  const std::size_t queries = std::min(n, kTileTokens) * config.group();
  context.reserve_scratch(
      std::max(multiply_scratch(context, config.widest_input()), attention_scratch(config, queries)));
}

void Batch::compute_rope(const Model& model, Context& context) {
  const RopeFrequencies& rope = model.rope();
  const std::size_t pairs = rope.pairs();
  for (const Run& run : runs)
    for_rows(context, run.count, [&](std::size_t i, int) {
      const std::size_t at = (run.row + i) * pairs, local = n * pairs + at;
      const auto position = static_cast<std::uint32_t>(run.start + i);
      rope.row(position, false, cos.data() + at, sin.data() + at);
      if (rope.has_local()) rope.row(position, true, cos.data() + local, sin.data() + local);
    });
}

Activations quantize_rows(Batch& batch, Context& context, const float* x, std::size_t cols, std::size_t n) {
  const Activations out{batch.quants.data(), context.kernels.activation_bytes(cols)};
  for_rows(context, n, [&](std::size_t row, int) {
    context.kernels.quantize_activation(x + row * cols, cols, out.data + row * out.stride);
  });
  return out;
}

Activations quantize_input(Batch& batch, Context& context, std::size_t layer, MliSlot slot, const float* x,
                           std::size_t cols) {
  if (batch.observer != nullptr) batch.observer->layer_input(context, layer, slot, x, batch.n, cols);
  return quantize_rows(batch, context, x, cols, batch.n);
}

}  // namespace krafla
