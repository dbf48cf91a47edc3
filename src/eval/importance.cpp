#include "eval/importance.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "eval/windows.h"

namespace krafla {
namespace {

void add_squares(Context& context, std::span<double> sums, const float* x, std::size_t rows) {
  constexpr std::size_t kChannels = 64;  // of an item
  const std::size_t channels = sums.size();
  context.threads.run((channels + kChannels - 1) / kChannels, [&](std::size_t item, int) {
    const std::size_t c0 = item * kChannels, c1 = std::min(channels, c0 + kChannels);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t c = c0; c < c1; ++c) {
        const auto value = static_cast<double>(x[row * channels + c]);
        sums[c] += value * value;
      }
  });
}

}  // namespace

void ImportanceObserver::layer_input(Context& context, std::size_t layer, MliSlot slot, const float* x,
                                     std::size_t rows, std::size_t) {
  add_squares(context, sums_.layer(layer, slot), x, rows);
}

void ImportanceObserver::classifier_input(Context& context, const float* x, std::size_t rows, std::size_t) {
  add_squares(context, sums_.classifier(), x, rows);
  sums_.classifier_tokens += rows;
}

Mli start_importance(const Model& model) {
  Mli sums = empty_mli(model.header());
  std::vector<std::uint8_t> flags;
  for (const MlbLayer& layer : model.mlb().layers) flags.push_back(layer.flags);
  check_mli_model(sums, model.header(), flags, model.path());
  return sums;
}

void measure_importance(const Model& model, Context& context, std::span<const std::int32_t> ids,
                        const ImportanceOptions& options, Mli& sums) {
  if (ids.empty() || (ids.size() == 1 && ids[0] == options.bos)) fail(ML_E_ARG, "the text has no tokens");
  if (options.ctx < 1 || options.ctx > model.header().max_seq)
    fail(ML_E_ARG, "a window of {} tokens was asked for; allowed: 1 to the model's max_seq of {}",
         options.ctx, model.header().max_seq);
  std::size_t count = (ids.size() + options.ctx - 1) / options.ctx;
  if (options.windows != 0) count = std::min(count, options.windows);

  PagePool pool(KvLayout(model.config(), options.kv));
  Batch batch;
  ImportanceObserver observer(sums);
  batch.observer = &observer;
  std::vector<std::int32_t> window;
  for (std::size_t w = 0; w < count; ++w) {
    const std::size_t begin = w * options.ctx;
    window_ids(ids, {begin, std::min(options.ctx, ids.size() - begin), 0}, options.bos, window);
    Sequence sequence(pool);
    for (std::size_t i = 0; i < window.size(); i += options.batch) {
      const auto tokens =
          std::span<const std::int32_t>(window).subspan(i, std::min(options.batch, window.size() - i));
      const Feed feed{&sequence, tokens, Wants::all};
      forward(model, context, batch, {&feed, 1});
      hidden_states(model, context, batch, 0, tokens.size());
    }
    check_mli_measured(sums, model.path());
    if (options.progress) options.progress(w + 1, count);
  }
}

}  // namespace krafla
