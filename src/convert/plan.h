// What a conversion will do, settled completely before any work: the header, and for every array of the .mlb where its rows come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/mlb_header.h"

namespace krafla {

/// A tensor of a checkpoint, whatever its container: rows of floats on demand. read_row may be called from any thread; `out` has
/// `cols` elements. It must not outlive the checkpoint.
struct SourceTensor {
  std::string name;  // the checkpoint's own
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::function<void(std::size_t row, std::span<float> out)> read_row;
};

struct ModelPlan {
  MlbHeader header;
  std::vector<std::uint8_t> flags;              // per layer, or empty
  std::map<std::string, SourceTensor> tensors;  // by the .mlb's names
  std::vector<std::string> notes;               // what was skipped or assumed, a line each
};

/// How the matrices will be stored; the families' files copy it into the header before anything is laid out.
struct StorageChoice {
  MatrixType type = MatrixType::q8_0;
  bool scale_f16 = true;
  std::uint32_t q8_mask = 0;  // MlbClass bits kept as Q8_0 in a Q4_0 model
};

}  // namespace krafla
