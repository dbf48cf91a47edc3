// How a text is cut up to be measured: windows that are each fed to an empty context, and the positions of
// them that are scored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace krafla {

inline constexpr std::size_t kMinWindow = 4, kMaxWindow = std::size_t{1} << 24;

/// Tokens [begin, begin + count) of the text. The rows of positions [first, count - 1) are scored, each by
/// the token that follows it.
struct Window {
  std::size_t begin, count, first;
  std::size_t rows() const { return count - 1 - first; }
};

/// All windows of a text. stride 0: one after the other, the later half scored, as llama.cpp does. Else they
/// slide by `stride` (below ctx), and every token but the text's first is scored once, with at least ctx -
/// stride tokens before it beyond the first window.
struct Windows {
  std::size_t ctx = 512;
  std::size_t stride = 0;
  std::size_t count = 0;  // windows
  std::size_t n_ids = 0;  // tokens they cover

  Window operator[](std::size_t i) const;
  /// Scored positions of all windows.
  std::uint64_t rows() const;
  bool operator==(const Windows&) const = default;
};

/// The windows of a text of n_ids tokens, at most `limit` of them (0: all). ML_E_ARG if ctx or stride is out
/// of range, or the text too short: two windows are needed where they do not slide, as llama.cpp has it, and
/// two tokens where they do.
Windows cut_text(std::size_t n_ids, std::size_t ctx, std::size_t stride, std::size_t limit);

/// Whether n_ids is what these windows cover.
bool covers(const Windows& windows);

/// The ids of a window as they are fed: the first is `bos`, unless that is -1.
void window_ids(std::span<const std::int32_t> text, const Window& window, std::int32_t bos,
                std::vector<std::int32_t>& out);

}  // namespace krafla
