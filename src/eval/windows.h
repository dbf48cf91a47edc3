// How a text is cut up to be measured: into windows (formats/mll.h), each of which is fed to an empty
// context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/mll.h"

namespace krafla {

/// The windows of a text of n_ids tokens, at most `limit` of them (0: all). ML_E_ARG if ctx or stride is out
/// of range, or the text is too short: windows that do not slide need two, as in llama.cpp, and windows that
/// slide need two tokens.
Windows cut_text(std::size_t n_ids, std::size_t ctx, std::size_t stride, std::size_t limit);

/// The ids of a window as the model gets them: the first is `bos`, unless that is -1.
void window_ids(std::span<const std::int32_t> text, const Window& window, std::int32_t bos,
                std::vector<std::int32_t>& out);

}  // namespace krafla
