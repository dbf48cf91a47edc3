// A folder as Hugging Face keeps models: config.json and the tensors of one or many .safetensors files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "convert/hf_config.h"
#include "convert/plan.h"
#include "formats/safetensors.h"

namespace krafla {

/// Maps all files of a folder and checks them; reads no weights.
class HfCheckpoint {
 public:
  /// ML_E_IO and ML_E_FORMAT for files that are missing (all are listed), cut short or broken;
  /// ML_E_UNSUPPORTED for quantized checkpoints and other formats of weights.
  explicit HfCheckpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const HfConfig& config() const { return config_; }
  /// The tensors by name, over all files. nullptr if there is none of this name.
  const std::map<std::string, SafeTensor, std::less<>>& tensors() const { return tensors_; }
  const SafeTensor* tensor(std::string_view name) const;
  /// What stands before "embed_tokens.weight": "model.", "model.language_model.", "language_model.model.",
  /// "model.text_model." or nothing.
  const std::string& prefix() const { return prefix_; }
  /// The name of the classifier's tensor; empty if there is none.
  const std::string& lm_head() const { return lm_head_; }

  /// A tensor as rows: [n] is one row of n, [a, ..., z] rows of z. It must not outlive the checkpoint.
  SourceTensor source(const SafeTensor& tensor) const;

 private:
  void open_files();
  void add_tensors(const std::string& file, const std::map<std::string, std::string>* where);
  void refuse_quantized() const;
  void find_names();

  std::string folder_;
  HfConfig config_;
  std::vector<MappedFile> files_;
  std::map<std::string, SafeTensor, std::less<>> tensors_;
  std::string prefix_, lm_head_;
};

}  // namespace krafla
