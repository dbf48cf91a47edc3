#include "convert/rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace krafla {

SourceTensor pick_rows(SourceTensor t, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> rows(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rows[i] = t.source_row(order[i]);
  t.rows = rows.size();
  t.order = std::move(rows);
  return t;
}

SourceTensor pick_cols(SourceTensor t, std::vector<std::size_t> order) {
  const std::size_t cols = t.cols;
  t.cols = order.size();
  t.read_row = [read = std::move(t.read_row), order = std::move(order), cols](std::size_t row,
                                                                              std::span<float> out) {
    std::vector<float> whole(cols);  // of its own: `read` may be another such function
    read(row, whole);
    for (std::size_t i = 0; i < order.size(); ++i) out[i] = whole[order[i]];
  };
  return t;
}

SourceTensor interleave_heads(SourceTensor t, std::size_t head, std::size_t rotated) {
  const bool vector = t.rows == 1;
  std::vector<std::size_t> order(vector ? t.cols : t.rows);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t in_head = i % head;
    order[i] = in_head < rotated ? i - in_head + in_head / 2 + in_head % 2 * (rotated / 2) : i;
  }
  return vector ? pick_cols(std::move(t), std::move(order)) : pick_rows(std::move(t), order);
}

bool holds_query_and_gate(const MlbHeader& h, const MlbTensor& target) {
  return h.attn_gate != 0 && (target.name == "wq" || target.name == "wg");
}

SourceTensor from_halves(SourceTensor t, const MlbHeader& h, const MlbTensor& target) {
  const std::size_t head = h.head_size();
  if (holds_query_and_gate(h, target)) {
    std::vector<std::size_t> order(t.rows / 2);
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i / head * 2 * head + i % head + (target.name == "wg" ? head : 0);
    t = pick_rows(std::move(t), order);
  }
  return target.rotated ? interleave_heads(std::move(t), head, h.rotated()) : t;
}

SourceTensor as_they_are(SourceTensor t, const MlbHeader&, const MlbTensor&) { return t; }

SourceTensor from_halves_norms_plus_one(SourceTensor t, const MlbHeader& h, const MlbTensor& target) {
  t = from_halves(std::move(t), h, target);
  if (!target.name.ends_with("_norm")) return t;
  t.read_row = [read = std::move(t.read_row)](std::size_t row, std::span<float> out) {
    read(row, out);
    for (float& x : out) x += 1;
  };
  return t;
}

SourceTensor log_of_negated(SourceTensor t) {
  t.read_row = [read = std::move(t.read_row), name = t.name](std::size_t row, std::span<float> out) {
    read(row, out);
    for (float& x : out) {
      if (!(x < 0)) fail(ML_E_FORMAT, "tensor {} has the value {}; allowed: below 0", name, x);
      x = math::log(-x);
    }
  };
  return t;
}

}  // namespace krafla
