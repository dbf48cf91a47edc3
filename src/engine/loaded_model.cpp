#include "engine/loaded_model.h"

#include <filesystem>

#include "base/error.h"

namespace krafla {

LoadedModel::LoadedModel(const std::string& name, ThreadPool& threads, const ModelOptions& options)
    : files(find_model_files(name)), info(read_model_info(files.json)), model(files.mlb, threads, options) {}

void LoadedModel::load_tokenizer(const std::string& name) {
  tokenizer_file = find_tokenizer(name.empty() ? files.mlt : name);
  tokenizer.emplace(open_tokenizer(tokenizer_file));
  const std::size_t n_vocab = tokenizer->vocab_size();
  if (n_vocab > model.header().vocab)
    fail(ML_E_SHAPE, "{}: n_vocab is {}, but {} has a vocab of {}; they do not belong together",
         tokenizer_file, n_vocab, model.path(), model.header().vocab);
  for (const std::int32_t id : info.end_ids)
    if (static_cast<std::size_t>(id) >= n_vocab)
      fail(ML_E_FORMAT, "{}: \"end_ids\" has {}; the tokenizer's ids are 0 to {}", files.json, id,
           n_vocab - 1);
  end_ids = info.end_ids;
  if (tokenizer->eos() >= 0) end_ids.push_back(tokenizer->eos());
}

std::string find_tokenizer(const std::string& name) {
  std::string mlt = model_stem(name) + ".mlt";
  std::error_code ignored;
  if (std::filesystem::exists(mlt, ignored)) return mlt;
  if (!name.ends_with(".mlb") && !name.ends_with(".json") && std::filesystem::is_regular_file(name, ignored))
    return name;
  fail(ML_E_IO, "{}: there is no such file", mlt);
}

Tokenizer open_tokenizer(const std::string& name) {
  const std::string mlt = find_tokenizer(name);
  return Tokenizer::open(mlt, read_model_info(model_stem(mlt) + ".json").control_ids);
}

}  // namespace krafla
