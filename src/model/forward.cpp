#include "model/forward.h"

#include "base/float_env.h"
#include "model/blocks/attention.h"
#include "model/blocks/ffn.h"
#include "model/blocks/gated_delta.h"

namespace krafla {
namespace {

void embed(const Model& model, Context& context, Batch& batch) {
  const std::size_t dim = model.config().dim;
  for_rows(context, batch.n, [&](std::size_t row, int) {
    context.kernels.dequantize_row(model.mlb().tok_emb, static_cast<std::size_t>(batch.tokens[row]),
                                   model.config().embed_scale, batch.x.data() + row * dim);
  });
}

/// batch.h = RMSNorm(from, weight), row by row.
void normalize(const Model& model, Context& context, Batch& batch, const float* from, FloatView weight) {
  const std::size_t dim = model.config().dim;
  for_rows(context, batch.n, [&](std::size_t row, int) {
    context.kernels.rms_norm(from + row * dim, weight.data(), model.config().norm_eps, dim,
                             batch.h.data() + row * dim);
  });
}

/// x = x + h, h normalized before if the model has post norms.
void add_residual(const Model& model, Context& context, Batch& batch, FloatView post_norm) {
  const std::size_t dim = model.config().dim;
  if (!post_norm.empty()) normalize(model, context, batch, batch.h.data(), post_norm);
  for_rows(context, batch.n, [&](std::size_t row, int) {
    context.kernels.add(batch.x.data() + row * dim, batch.h.data() + row * dim, dim);
  });
}

void run_layer(const Model& model, std::size_t index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[index];
  normalize(model, context, batch, batch.x.data(), layer.attn_norm);
  const auto mix = model.config().layers[index].linear ? gated_delta : attention;
  mix(model, index, context, batch);
  add_residual(model, context, batch, layer.post_attn_norm);
  normalize(model, context, batch, batch.x.data(), layer.ffn_norm);
  feed_forward(model, index, context, batch);
  add_residual(model, context, batch, layer.post_ffn_norm);
}

}  // namespace

bool forward(const Model& model, Context& context, Batch& batch, std::span<const Feed> feeds) {
  if (feeds.empty()) {
    batch.wanted.clear();
    return true;
  }
  const FloatEnvironment environment;
  batch.begin(model, context, feeds);
  embed(model, context, batch);
  for (std::size_t layer = 0; layer < model.config().layers.size(); ++layer) {
    if (batch.cancelled && batch.cancelled()) {
      for (const Run& run : batch.runs) run.sequence->rollback();
      return false;
    }
    run_layer(model, layer, context, batch);
  }
  for (const Run& run : batch.runs) run.sequence->commit(run.count);
  if (batch.observer != nullptr) batch.observer->end_of_layers(batch.n);
  return true;
}

const float* hidden_states(const Model& model, Context& context, Batch& batch, std::size_t first,
                           std::size_t count) {
  const FloatEnvironment environment;
  const std::size_t dim = model.config().dim;
  for_rows(context, count, [&](std::size_t i, int) {
    context.kernels.rms_norm(batch.x.data() + batch.wanted[first + i] * dim, model.mlb().final_norm.data(),
                             model.config().norm_eps, dim, batch.h.data() + i * dim);
  });
  if (batch.observer != nullptr) batch.observer->classifier_input(context, batch.h.data(), count, dim);
  return batch.h.data();
}

void classify(const Model& model, Context& context, Batch& batch, std::size_t first, std::size_t count,
              float* logits) {
  const FloatEnvironment environment;
  const ModelConfig& config = model.config();
  const float* const hidden = hidden_states(model, context, batch, first, count);
  const Activations in = quantize_rows(batch, context, hidden, config.dim, count);
  const Product product{&model.mlb().wcls, nullptr, logits, config.vocab};
  multiply(context, {&product, 1}, in, count);
  if (config.final_softcap != 0) context.kernels.softcap(logits, config.final_softcap, count * config.vocab);
}

}  // namespace krafla
