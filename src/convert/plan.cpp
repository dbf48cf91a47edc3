#include "convert/plan.h"

#include <algorithm>

namespace krafla {

std::vector<RowItem> row_items(std::span<const MlbArray> arrays) {
  constexpr std::uint64_t kWeights = 1 << 18;
  std::vector<RowItem> items;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const MlbArray& a = arrays[i];
    if (a.kind == MlbKind::flags) continue;
    const std::uint64_t step = a.quantized() ? std::max<std::uint64_t>(1, kWeights / a.cols) : a.rows;
    for (std::uint64_t row = 0; row < a.rows; row += step)
      items.push_back({i, row, std::min(step, a.rows - row)});
  }
  return items;
}

}  // namespace krafla
