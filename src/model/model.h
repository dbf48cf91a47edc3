// A model: the mapped file and its parsed views. Immutable, shared by any number of threads and sequences.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "formats/mlb.h"
#include "kernels/kernels.h"
#include "model/blocks/rope.h"
#include "model/config.h"

namespace krafla {

struct ModelOptions {
  bool check_quants = true;  ///< scan the Q8_0 quants for -128, on all threads; touches the whole file
  FileMemory memory = FileMemory::shared;
  bool lock = false;  ///< keep the file in memory
};

class Model {
 public:
  /// Maps and checks `path` (ML_E_IO, ML_E_FORMAT, ML_E_SHAPE as docs/formats/mlb.md lists them; ML_E_MEMORY
  /// as MappedFile's). The weights are used where they lie.
  Model(const std::string& path, ThreadPool& threads, const ModelOptions& options = {});
  /// The same for bytes that are mapped already; `name` stands for the path in messages.
  Model(MappedFile file, const std::string& name, ThreadPool& threads, const ModelOptions& options = {});

  const std::string& path() const { return path_; }
  const MlbHeader& header() const { return mlb_.header; }
  const ModelConfig& config() const { return config_; }
  const Mlb& mlb() const { return mlb_; }
  const RopeFrequencies& rope() const { return rope_; }
  Bytes bytes() const { return file_.bytes(); }

 private:
  std::string path_;
  MappedFile file_;
  Mlb mlb_;
  ModelConfig config_;
  RopeFrequencies rope_;
};

}  // namespace krafla
