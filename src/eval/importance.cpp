#include "eval/importance.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "eval/windows.h"

namespace krafla {

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

  PagePool pool(KvLayout(model.mlb(), options.kv));
  Batch batch;
  batch.importance = &sums;
  std::vector<std::int32_t> window;
  std::vector<BatchRow> rows;
  for (std::size_t w = 0; w < count; ++w) {
    const std::size_t begin = w * options.ctx;
    window_ids(ids, {begin, std::min(options.ctx, ids.size() - begin), 0}, options.bos, window);
    Sequence sequence(pool);
    for (std::size_t i = 0; i < window.size(); i += rows.size()) {
      rows.clear();
      for (std::size_t j = i; j < std::min(window.size(), i + options.batch); ++j)
        rows.push_back({&sequence, window[j], true});
      forward(model, context, batch, rows);
      classifier_input(model, context, batch, 0, rows.size());
    }
    check_mli_measured(sums, model.path());
    if (options.progress) options.progress(w + 1, count);
  }
}

}  // namespace krafla
