// A model's files, opened: the weights, what the JSON beside them says, and the tokenizer where it is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_files.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace krafla {

struct LoadedModel {
  /// Opens NAME.mlb and NAME.json; `name` as in find_model_files(). Errors: those of find_model_files(),
  /// read_model_info() and Model. A model without a tokenizer can be run on token ids.
  LoadedModel(const std::string& name, ThreadPool& threads, const ModelOptions& options = {});

  /// Opens the tokenizer that `name` means (find_tokenizer()); the one beside the model where it is empty.
  /// Also sets end_ids. ML_E_SHAPE if it has more tokens than the model's vocab, ML_E_FORMAT if an end id of
  /// the JSON is not one of its tokens; else as open_tokenizer().
  void load_tokenizer(const std::string& name = "");

  ModelFiles files;
  ModelInfo info;
  Model model;
  std::optional<Tokenizer> tokenizer;  ///< set by load_tokenizer()
  std::string tokenizer_file;          ///< its .mlt
  std::vector<std::int32_t> end_ids;   ///< ids that end an answer: the JSON's, and the tokenizer's EOS
};

/// The path of the .mlt that `name` means: NAME.mlt for NAME, NAME.mlt, NAME.mlb or NAME.json, or else the
/// file `name` itself. ML_E_IO if neither exists.
std::string find_tokenizer(const std::string& name);

/// Opens a tokenizer without a model; `name` as in find_tokenizer(). Its control ids are those of the JSON
/// beside it. Errors: as find_tokenizer(), read_model_info() and Tokenizer::open().
Tokenizer open_tokenizer(const std::string& name);

}  // namespace krafla
