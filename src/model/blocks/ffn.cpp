#include "model/blocks/ffn.h"

namespace krafla {

std::size_t ffn_pieces(const Model& model, const Context& context, std::size_t n) {
  const auto threads = static_cast<std::size_t>(context.threads.size());
  return 2 * threads * n * RowRanges(model.mlb().layers.front().w1, n, threads).most();
}

void feed_forward(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const ModelConfig& config = model.config();
  const std::size_t dim = config.dim, hidden = config.hidden_dim, n = batch.n;
  const auto act = config.activation == kActGelu ? context.kernels.gelu_mul : context.kernels.silu_mul;
  float* const gated = batch.gate.data();  // [n][hidden]

  // Gate, up and their product in one loop: an item makes the same rows of both, which lie near each other
  // and are still in the caches at the end.
  const Activations in = quantize_input(batch, context, layer_index, MliSlot::up, batch.h.data(), dim);
  const auto threads = static_cast<std::size_t>(context.threads.size());
  const RowRanges ranges(layer.w1, n, threads);
  const std::size_t piece = n * ranges.most();
  context.threads.run(ranges.count(), [&](std::size_t item, int thread) {
    const auto [r0, r1] = ranges[item];
    const std::size_t stride = r1 - r0;
    float* const gate = batch.pieces.data() + 2 * static_cast<std::size_t>(thread) * piece;
    float* const up = gate + piece;
    const bool more = item + threads < ranges.count();
    multiply_rows(context, thread, layer.w1, r0, r1, in, n, gate, stride, weights_at(layer.w3, r0));
    multiply_rows(context, thread, layer.w3, r0, r1, in, n, up, stride,
                  more ? weights_at(layer.w1, ranges[item + threads].begin) : nullptr);
    for (std::size_t i = 0; i < n; ++i)
      act(gated + i * hidden + r0, gate + i * stride, up + i * stride, stride);
  });

  const Activations mid = quantize_input(batch, context, layer_index, MliSlot::down, gated, hidden);
  const Product down{&layer.w2, nullptr, batch.h.data(), dim};
  multiply(context, {&down, 1}, mid, n);
}

}  // namespace krafla
