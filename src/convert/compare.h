// A .mlb against the checkpoint it was made from: how far each tensor is from its source. Reads both by rows,
// on all threads; the source is seen as the converter sees it (plan.h), so permuted rows and norms' + 1 are
// no differences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/mlb.h"
#include "quant/quant.h"

namespace krafla {

/// Differences of stored values y from the source's x.
struct TensorError {
  std::string name;            // "layers.3.wq", or in a summary "wq"
  std::string source;          // the checkpoint's own name; empty in a summary
  const char* type = nullptr;  // "F32", "Q8_0" or "Q4_0"
  std::uint64_t weights = 0;
  double relative_rms = 0;  // sqrt(Σ(x - y)² / Σx²); 0 where there is no error
  double max_error = 0;     // max |x - y|
  double cosine = 1;        // Σxy / sqrt(Σx² · Σy²); 1 where one of them is zero
};

struct Comparison {
  std::vector<std::string> header;  // fields that differ, a line each
  std::vector<std::string>
      shapes;  // tensors missing on a side or of other shapes, a line each; then nothing below
  std::vector<TensorError> tensors;  // in file order
  std::vector<TensorError> classes;  // the same over all layers
  std::vector<std::string> unequal;  // names of F32 tensors that are not the source's, bit for bit

  bool same_model() const { return shapes.empty() && unequal.empty(); }
};

/// `source` is a GGUF file or a Hugging Face folder. Errors as convert_model's and parse_mlb's.
Comparison compare_model(const std::string& model, const std::string& source, int threads,
                         const Kernels& kernels);

}  // namespace krafla
