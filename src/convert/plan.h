// What a conversion will do, settled completely before any work: the header, and for every array of the .mlb
// where its rows come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/mlb.h"
#include "quant/quant.h"

namespace krafla {

/// A tensor of a checkpoint, whatever its container: rows of floats on demand. read_row may be called from
/// any thread; `out` has `cols` elements. It must not outlive the checkpoint. rows.h has what is done to rows
/// on the way.
struct SourceTensor {
  std::string name;  // the checkpoint's own
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::function<void(std::size_t row, std::span<float> out)> read_row;  // by the checkpoint's rows
  std::vector<std::size_t> order{};  // the checkpoint's row of each row; empty: the same
  std::function<void()> release{};   // the pages behind it are not needed any more; may be empty

  std::size_t source_row(std::size_t row) const { return order.empty() ? row : order[row]; }
  void read(std::size_t row, std::span<float> out) const { read_row(source_row(row), out); }
};

struct ModelPlan {
  std::string source;  // the path that was given, for messages
  MlbHeader header;
  std::vector<std::uint8_t> flags;              // per layer, or empty
  std::map<std::string, SourceTensor> tensors;  // by the .mlb's names
  std::vector<std::string> notes;               // what was skipped or assumed, a line each
  Q4Rule q4_rule = Q4Rule::search;              // for Q4_0 if nobody asks for another
};

/// Rows [row, row + rows) of an array: what a thread works on at a time, a megabyte of floats, which a core's
/// cache holds. Of an F32 array all rows.
struct RowItem {
  std::size_t array;
  std::uint64_t row;
  std::uint64_t rows;
};
/// All rows of all arrays but the layer flags, in file order.
std::vector<RowItem> row_items(std::span<const MlbArray> arrays);

/// How the matrices will be stored; the families' files copy it into the header before anything is laid out.
struct StorageChoice {
  WeightType type = WeightType::q8_0;
  bool scale_f16 = true;
  std::uint32_t q8_mask = 0;  // MlbClass bits kept as Q8_0 in a Q4_0 model

  void apply(MlbHeader& header) const {
    header.wtype = static_cast<std::uint32_t>(type);
    header.scale_f16 = scale_f16;
    header.q8_mask = q8_mask;
  }
};

}  // namespace krafla
