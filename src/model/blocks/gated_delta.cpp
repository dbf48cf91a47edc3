#include "model/blocks/gated_delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace krafla {
namespace {

/// What one linear-attention layer needs to know of the model.
struct Shape : LinearSpec {
  std::size_t layer;
  const RecurrentLayout& state;
  std::size_t group;  // value heads of one key head

  Shape(const LinearSpec& linear, std::size_t index, const RecurrentLayout& layout)
      : LinearSpec(linear), layer(index), state(layout), group(linear.v_heads / linear.k_heads) {}
};

void project(const Model& model, const MlbLayer& layer, const Shape& shape, Context& context, Batch& batch) {
  const Activations in =
      quantize_input(batch, context, shape.layer, MliSlot::qkv, batch.h.data(), model.config().dim);
  const Product products[] = {{&layer.lqkv, nullptr, batch.lin.data(), shape.state.stride()},
                              {&layer.lz, nullptr, batch.gate.data(), shape.values()},
                              {&layer.lb, nullptr, batch.beta.data(), shape.v_heads},
                              {&layer.la, nullptr, batch.decay.data(), shape.v_heads}};
  multiply(context, products, in, batch.n);
}

/// After a run's convolution: its last inputs become the past of the next.
void keep_inputs(const Shape& shape, float* history, const float* x, std::size_t count, std::size_t c0,
                 std::size_t c1) {
  const std::size_t stride = shape.state.stride(), past = shape.state.past();
  for (std::size_t i = 0; i < past; ++i) {
    const float* from = i + count < past ? history + (i + count) * stride : x + (i + count - past) * stride;
    std::memcpy(history + i * stride + c0, from + c0, (c1 - c0) * sizeof(float));
  }
}

/// batch.lin to batch.conv, split by run and channels.
void convolve(const MlbLayer& layer, const Shape& shape, Context& context, Batch& batch) {
  constexpr std::size_t kChannels = 256;  // of an item
  const std::size_t items = (shape.channels() + kChannels - 1) / kChannels, stride = shape.state.stride();
  context.threads.run(batch.runs.size() * items, [&](std::size_t item, int) {
    const Run& run = batch.runs[item / items];
    const std::size_t c0 = item % items * kChannels, c1 = std::min(shape.channels(), c0 + kChannels);
    auto* history = reinterpret_cast<float*>(run.sequence->recurrent(shape.layer));
    const float* x = batch.lin.data() + run.row * stride;
    context.kernels.causal_conv({c1 - c0, shape.taps, run.count, layer.lconv.data() + c0 * shape.taps,
                                 history + c0, x + c0, batch.conv.data() + run.row * stride + c0, stride});
    keep_inputs(shape, history, x, run.count, c0, c1);
  });
}

/// One row's unit queries and keys, and beta and g of its value heads.
void prepare_row(const MlbLayer& layer, const Shape& shape, Context& context, Batch& batch, std::size_t row) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.k_dim)));
  float* head = batch.conv.data() + row * shape.state.stride();
  for (std::size_t i = 0; i < 2 * shape.k_heads; ++i, head += shape.k_dim)
    context.kernels.l2_norm(head, i < shape.k_heads ? scale : 1.0f, shape.k_dim);
  context.kernels.delta_gates({shape.v_heads, batch.beta.data() + row * shape.v_heads,
                               batch.decay.data() + row * shape.v_heads, layer.A_log.data(),
                               layer.dt_bias.data()});
}

/// The recurrence into batch.mixed, split by run, value head and slice of its values.
void recur(const Shape& shape, Context& context, Batch& batch) {
  const std::size_t slices = shape.state.slices(), per_run = shape.v_heads * slices,
                    stride = shape.state.stride();
  context.threads.run(batch.runs.size() * per_run, [&](std::size_t item, int) {
    const Run& run = batch.runs[item / per_run];
    const std::size_t head = item % per_run / slices, slice = item % slices, key_head = head / shape.group;
    const std::size_t value = head * shape.v_dim + slice * kDeltaSlice,
                      gates = run.row * shape.v_heads + head;
    const float* q = batch.conv.data() + run.row * stride + key_head * shape.k_dim;
    auto* state = reinterpret_cast<float*>(run.sequence->recurrent(shape.layer));
    context.kernels.delta_rule(
        {run.count, shape.k_dim, shape.state.slice_width(slice), q, q + shape.k_heads * shape.k_dim,
         batch.conv.data() + run.row * stride + 2 * shape.k_heads * shape.k_dim + value, stride,
         batch.beta.data() + gates, batch.decay.data() + gates, shape.v_heads,
         state + shape.state.slice_offset(head, slice), batch.mixed.data() + run.row * shape.values() + value,
         shape.values()});
  });
}

}  // namespace

void gated_delta(const Model& model, std::size_t layer_index, Context& context, Batch& batch) {
  const MlbLayer& layer = model.mlb().layers[layer_index];
  const ModelConfig& config = model.config();
  const Shape shape(config.linear, layer_index, batch.runs.front().sequence->pool().layout().recurrent());
  const std::size_t values = shape.values();
  float* z = batch.gate.data();  // [n][values]

  project(model, layer, shape, context, batch);
  convolve(layer, shape, context, batch);
  for_rows(context, batch.n, [&](std::size_t row, int) { prepare_row(layer, shape, context, batch, row); });
  recur(shape, context, batch);
  for_rows(context, batch.n, [&](std::size_t row, int) {
    float* o = batch.mixed.data() + row * values;
    for (std::size_t h = 0; h < shape.v_heads; ++h)
      context.kernels.rms_norm(o + h * shape.v_dim, layer.lnorm.data(), config.norm_eps, shape.v_dim,
                               o + h * shape.v_dim);
    context.kernels.silu_mul(z + row * values, z + row * values, o, values);
  });
  const Activations in = quantize_input(batch, context, layer_index, MliSlot::o, z, values);
  const Product out{&layer.lout, nullptr, batch.h.data(), config.dim};
  multiply(context, {&out, 1}, in, batch.n);
}

}  // namespace krafla
