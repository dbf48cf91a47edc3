#include "model/blocks/ffn.h"

#include <algorithm>

namespace krafla {

void feed_forward(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const std::size_t dim = model.header().dim, hidden = model.header().hidden_dim, n = batch.n;
  const auto act = model.header().act == kActGelu ? context.kernels.gelu_mul : context.kernels.silu_mul;
  float* gate = batch.gate.data();
  float* up = batch.up.data();

  // Gate, up and their product in one loop: a work item makes the same rows of both.
  observe(batch, context, layer_index, MliSlot::up, batch.h.data(), n);
  const Activations in = quantize_rows(batch, context, batch.h.data(), dim, n);
  const std::size_t rows = rows_per_item(layer.w1, n, static_cast<std::size_t>(context.threads.size()));
  context.threads.run((hidden + rows - 1) / rows, [&](std::size_t item, int thread) {
    const std::size_t r0 = item * rows, r1 = std::min(hidden, r0 + rows);
    multiply_rows(context, thread, {&layer.w1, nullptr, gate, hidden}, r0, r1, in, n);
    multiply_rows(context, thread, {&layer.w3, nullptr, up, hidden}, r0, r1, in, n);
    for (std::size_t i = 0; i < n; ++i) act(gate + i * hidden + r0, up + i * hidden + r0, r1 - r0);
  });

  observe(batch, context, layer_index, MliSlot::down, gate, n);
  const Activations mid = quantize_rows(batch, context, gate, hidden, n);
  const Product down{&layer.w2, nullptr, batch.h.data(), dim};
  multiply(context, {&down, 1}, mid, n);
}

}  // namespace krafla
