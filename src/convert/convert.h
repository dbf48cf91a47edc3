// A checkpoint to NAME.mlb, NAME.mlt and NAME.json. Goal: everything is checked before any work, memory does
// not grow with the model, and the files appear together and complete or not at all. Sources: GGUF files,
// Hugging Face folders. Model families: src/convert/arch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "convert/plan.h"
#include "quant/quant.h"

namespace krafla {

struct ConvertProgress {
  std::uint64_t done = 0;  // weights
  std::uint64_t total = 0;
};

struct ConvertOptions {
  StorageChoice storage;
  std::optional<Q4Rule> q4_rule;     // empty: the family's, and with an importance matrix the search
  std::string imatrix;               // an MLI1 file that weights the search of Q4_0 matrices; empty: none
  bool tokenizer = true;             // also write NAME.mlt and NAME.json
  int threads = 1;                   // 1 to 1024
  const Kernels* kernels = nullptr;  // null: the fastest this CPU has
  std::function<void(const ConvertProgress&)> progress;  // called now and then, by one thread at a time
  std::function<bool()> cancelled;  // asked now and then, from any thread: true ends with ML_E_CANCELLED
};

/// Where a conversion writes.
struct ModelPaths {
  std::string mlb, mlt, json;
};
/// `out` is NAME, NAME with the ending of one of the three, a folder (the name is then the source's), or
/// empty (the source's name in the current folder). A folder's name is its last part, wherever it is seen
/// from.
ModelPaths output_paths(std::string_view source, std::string_view out);

/// How far the stored weights of one class of matrices are from the source's.
struct ClassError {
  std::string name;  // its tensors that the model has: "w1 w3"
  WeightType type = WeightType::q8_0;
  std::uint64_t weights = 0;
  double relative_rms = 0;  // sqrt(Σ(x - y)² / Σx²)
};

struct ConvertSummary {
  ModelPaths paths;
  MlbHeader header;
  std::uint64_t bytes = 0;    // of the .mlb
  std::uint64_t weights = 0;  // elements of all tensors
  double seconds = 0;
  std::vector<ClassError> errors;
  std::vector<std::string> notes;
};

/// Converts. ML_E_IO for files, ML_E_FORMAT and ML_E_SHAPE for a broken source (a NaN or infinite weight is
/// named by tensor and row), ML_E_UNSUPPORTED for what .mlb does not hold, ML_E_ARG for an importance matrix
/// with Q4Rule::round, ML_E_CANCELLED. On any error no output file has appeared.
ConvertSummary convert_model(const std::string& source, const std::string& out,
                             const ConvertOptions& options);

/// The plan of a parsed source and its .mlb written to `path`: the part of convert_model without tokenizer
/// and paths. Fills in all of the summary but paths and seconds. Reads options.imatrix. `companions`, written
/// completely, appear together with the .mlb or not at all.
ConvertSummary convert_weights(const ModelPlan& plan, const std::string& path, const ConvertOptions& options,
                               std::span<OutputFile* const> companions = {});

}  // namespace krafla
