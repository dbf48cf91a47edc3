#include "eval/windows.h"

#include <algorithm>

#include "base/error.h"
#include "base/pluralized.h"

namespace krafla {

Windows cut_text(std::size_t n_ids, std::size_t ctx, std::size_t stride, std::size_t limit) {
  if (ctx < kMinWindow || ctx > kMaxWindow)
    fail(ML_E_ARG, "a window of {} tokens was asked for; allowed: {} to {}", ctx, kMinWindow, kMaxWindow);
  if (stride >= ctx) fail(ML_E_ARG, "the stride is {}; allowed: below the window's {} tokens", stride, ctx);
  Windows w{.ctx = ctx, .stride = stride};
  if (stride == 0) {
    if (n_ids < 2 * ctx)
      fail(ML_E_ARG, "the text has {}; needed: at least {}, two windows of {}", pluralized(n_ids, "token"),
           2 * ctx, ctx);
    w.count = n_ids / ctx;
    if (limit != 0) w.count = std::min(w.count, limit);
    w.n_ids = w.count * ctx;
  } else {
    if (n_ids < 2) fail(ML_E_ARG, "the text has {}; needed: at least 2", pluralized(n_ids, "token"));
    w.count = n_ids <= ctx ? 1 : 1 + (n_ids - ctx + stride - 1) / stride;
    if (limit != 0) w.count = std::min(w.count, limit);
    w.n_ids = std::min(n_ids, (w.count - 1) * stride + ctx);
  }
  return w;
}

void window_ids(std::span<const std::int32_t> text, const Window& window, std::int32_t bos,
                std::vector<std::int32_t>& out) {
  const auto ids = text.subspan(window.begin, window.count);
  out.assign(ids.begin(), ids.end());
  if (bos >= 0) out[0] = bos;
}

}  // namespace krafla
