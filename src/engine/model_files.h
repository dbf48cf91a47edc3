// The three files of a model, NAME.mlb, NAME.mlt and NAME.json, and what the JSON says
// (docs/formats/json.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling_settings.h"

namespace krafla {

/// Paths of one model's files. The .mlt and the .json need not exist.
struct ModelFiles {
  std::string mlb, mlt, json;
};

/// A path without the ending .mlb, .mlt or .json, if it has one.
std::string model_stem(const std::string& path);

/// `name` is any of the three paths, or their common part NAME. When there is no NAME.mlb: ML_E_FORMAT if
/// `name` is a file of another kind, else ML_E_IO; the message says what is there instead, a folder or a
/// GGUF for instance.
ModelFiles find_model_files(const std::string& name);

/// What the JSON beside a model says; empty where it says nothing.
struct ModelInfo {
  std::string name, source, license;
  std::string chat_template;
  std::string tool_template;  // for conversations with tools; empty: chat_template
  std::string reasoning_open, reasoning_close, tools;
  std::optional<std::int32_t> bos;
  std::vector<std::int32_t> end_ids;
  std::optional<std::vector<std::int32_t>> control_ids;
  SamplingSettings sampling;
};

/// Reads the JSON; a missing file gives an empty ModelInfo. ML_E_IO for one that cannot be read, ML_E_FORMAT
/// for broken JSON, another "format" than 1 or a key of the wrong type, named. Unknown keys are ignored.
ModelInfo read_model_info(const std::string& path);

}  // namespace krafla
