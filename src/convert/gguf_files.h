// A GGUF model on disk: one file, or a split model's parts, NAME-00001-of-00003.gguf and so on beside each
// other. Goal: the rest of the converter sees one Gguf either way.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "formats/gguf.h"

namespace krafla {

class GgufFiles {
 public:
  /// Parses `bytes`, a MappedFile of `path`, which must outlive this; if they are a part of a split model
  /// (split.count), whichever part, maps and parses all of them. ML_E_IO listing the parts that are missing;
  /// ML_E_FORMAT where the parts do not fit together.
  GgufFiles(const std::string& path, Bytes bytes);

  /// The metadata of the first part, the tensors of all.
  const Gguf& gguf() const { return gguf_; }
  /// All files that are read.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::deque<MappedFile> parts_;
  Gguf gguf_;
};

/// A file's name without ".gguf" and without "-00001-of-00003".
std::string gguf_model_name(std::string_view file);

}  // namespace krafla
