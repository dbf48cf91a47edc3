#include "eval/windows.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"

namespace krafla {

Window Windows::operator[](std::size_t i) const {
  if (stride == 0) return {i * ctx, ctx, ctx / 2};
  const std::size_t begin = i * stride;
  return {begin, std::min(ctx, n_ids - begin), i == 0 ? 0 : ctx - stride - 1};
}

std::uint64_t Windows::rows() const {
  return stride == 0 ? std::uint64_t{count} * (ctx - 1 - ctx / 2) : std::uint64_t{n_ids} - 1;
}

bool covers(const Windows& w) {
  if (w.stride == 0) return w.n_ids % w.ctx == 0 && w.n_ids / w.ctx == w.count;
  if (w.count == 1) return 2 <= w.n_ids && w.n_ids <= w.ctx;
  // The last window is needed, and reaches the end. Widths: count and ctx are below 2^32 and 2^25.
  const std::uint64_t last = std::uint64_t{w.count - 1} * w.stride;
  return last - w.stride + w.ctx < w.n_ids && w.n_ids <= last + w.ctx;
}

Windows cut_text(std::size_t n_ids, std::size_t ctx, std::size_t stride, std::size_t limit) {
  if (ctx < kMinWindow || ctx > kMaxWindow)
    fail(ML_E_ARG, "a window of {} tokens was asked for; allowed: {} to {}", ctx, kMinWindow, kMaxWindow);
  if (stride >= ctx) fail(ML_E_ARG, "the stride is {}; allowed: below the window's {} tokens", stride, ctx);
  Windows w{.ctx = ctx, .stride = stride};
  if (stride == 0) {
    if (n_ids < 2 * ctx)
      fail(ML_E_ARG, "the text has {}; needed: at least {}, two windows of {}", counted(n_ids, "token"),
           2 * ctx, ctx);
    w.count = n_ids / ctx;
    if (limit != 0) w.count = std::min(w.count, limit);
    w.n_ids = w.count * ctx;
  } else {
    if (n_ids < 2) fail(ML_E_ARG, "the text has {}; needed: at least 2", counted(n_ids, "token"));
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
