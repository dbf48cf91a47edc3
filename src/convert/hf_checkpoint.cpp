#include "convert/hf_checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/pluralized.h"
#include "convert/tensor_names.h"
#include "formats/gguf.h"  // printable

namespace krafla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Json read_json(const std::string& path) {
  const MappedFile file(path);
  return parse_json_file(file.bytes(), path);
}

HfConfig read_config(const std::string& folder) {
  const std::string path = in(folder, "config.json");
  if (!is_file(path))
    fail(ML_E_IO, "{}: has no config.json; a folder of a Hugging Face checkpoint is needed", folder);
  const Json file = read_json(path);
  if (!file.is_object()) fail(ML_E_FORMAT, "{}: must be an object", path);
  return {file, path};
}

/// The index: which file each tensor is in.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json index = read_json(path);
  std::map<std::string, std::string> where;
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    fail(ML_E_FORMAT, "{}: \"weight_map\" must be an object of tensors and files", path);
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) fail(ML_E_FORMAT, "{}: the file of {} is no text", path, printable(tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name.find_first_of("/\\") != name.npos || name.find('\0') != name.npos ||
        name.find("..") != name.npos)
      fail(ML_E_FORMAT, "{}: the file of {} is \"{}\"; allowed: names of files in this folder", path,
           printable(tensor), printable(name));
    where.emplace(tensor, name);
  }
  return where;
}

/// "model-00002-of-00003.safetensors": all three names; otherwise just this one.
std::vector<std::string> siblings(const std::string& name) {
  unsigned part = 0, parts = 0;
  int end = 0;
  const std::size_t at = name.rfind("-of-");
  if (at == name.npos || at < 6 || name[at - 6] != '-' ||
      std::sscanf(name.c_str() + at - 5, "%5u-of-%5u.safetensors%n", &part, &parts, &end) != 2 ||
      at - 5 + static_cast<std::size_t>(end) != name.size())
    return {name};
  std::vector<std::string> all;
  for (unsigned i = 1; i <= parts; ++i)
    all.push_back(fmt::format("{}-{:05}-of-{:05}.safetensors", name.substr(0, at - 6), i, parts));
  return all;
}

/// The files of weights where there is neither the single one nor an index.
std::vector<std::string> loose_files(const std::string& folder) {
  std::set<std::string> names, others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf" ||
        name == "adapter_model.safetensors")
      others.insert(name);
    else if (extension == ".safetensors" && !name.starts_with("consolidated"))
      for (const std::string& sibling : siblings(name)) names.insert(sibling);
  }
  if (!names.empty()) return {names.begin(), names.end()};
  if (others.empty()) fail(ML_E_FORMAT, "{}: has no .safetensors file", folder);
  if (others.contains("adapter_model.safetensors"))
    fail(ML_E_UNSUPPORTED,
         "{}: has only an adapter (adapter_model.safetensors); merge it into its base model and save that",
         folder);
  const std::string& first = *others.begin();
  if (first.ends_with(".gguf"))
    fail(ML_E_UNSUPPORTED, "{}: has no .safetensors file, but {}; give that file's path", folder,
         printable(first));
  fail(ML_E_UNSUPPORTED,
       "{}: has no .safetensors file, only {}; .safetensors is needed (save_pretrained of transformers "
       "writes it)",
       folder, printable(first));
}

constexpr const char* kQuantized[] = {
    ".qweight",       ".qzeros", ".g_idx",        ".absmax",        ".quant_map",        ".SCB",
    ".weight_format", ".scales", ".weight_scale", ".weight_packed", ".weight_scale_inv", ".input_scale"};

}  // namespace

HfCheckpoint::HfCheckpoint(const std::string& folder) : folder_(folder), config_(read_config(folder)) {
  for (const char* key : {"quantization_config", "quantization", "compression_config"})
    for (const HfKeys& keys : {config_.outer(), HfKeys(config_)})
      if (keys.has(key) && !keys.is_null(key))
        fail(ML_E_UNSUPPORTED, "{}: {} is there: the checkpoint is quantized already; its original is needed",
             config_.name(), key);
  open_files();
  refuse_quantized();
  find_names();
}

const SafeTensor* HfCheckpoint::tensor(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

void HfCheckpoint::open_files() {
  std::map<std::string, std::string> where;
  std::set<std::string> names;
  bool indexed = false;
  if (is_file(in(folder_, kSingle))) {
    names.insert(kSingle);
  } else if (is_file(in(folder_, kIndex))) {
    indexed = true;
    where = read_index(in(folder_, kIndex));
    for (const auto& [tensor, file] : where) names.insert(file);
  } else {
    for (const std::string& name : loose_files(folder_)) names.insert(name);
  }
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (!is_file(in(folder_, name))) missing.push_back(printable(name));
  if (!missing.empty())
    fail(ML_E_IO, "{}: {} of {} files are missing:{}", folder_, missing.size(), names.size(),
         listed(missing));
  for (const std::string& name : names) add_tensors(in(folder_, name), indexed ? &where : nullptr);
  for (const auto& [tensor, file] : where)
    if (!tensors_.contains(tensor))
      missing.push_back(fmt::format("{} ({})", printable(tensor), printable(file)));
  if (!missing.empty())
    fail(ML_E_FORMAT, "{}: the index names {} that the files do not have:{}", folder_,
         pluralized(missing.size(), "tensor"), listed(missing));
}

/// With an index, it says which file's tensor of a name counts.
void HfCheckpoint::add_tensors(const std::string& file, const std::map<std::string, std::string>* where) {
  files_.emplace_back(file);
  for (SafeTensor& t : parse_safetensors(files_.back().bytes(), file)) {
    if (where != nullptr) {
      const auto it = where->find(t.name);
      if (it != where->end() && in(folder_, it->second) != file) continue;
    }
    const std::string name = t.name;
    if (!tensors_.emplace(name, std::move(t)).second)
      fail(ML_E_FORMAT, "{}: the tensor {} is in another file of the folder too", file, printable(name));
  }
}

void HfCheckpoint::refuse_quantized() const {
  for (const auto& [name, t] : tensors_)
    for (const char* ending : kQuantized)
      if (name.ends_with(ending) || name.find(".quant_state.") != name.npos)
        fail(ML_E_UNSUPPORTED,
             "{}: the tensor {} says that the checkpoint is quantized already (GPTQ, AWQ, bitsandbytes ...); "
             "its original is needed",
             folder_, printable(name));
}

void HfCheckpoint::find_names() {
  const char* const prefixes[] = {
      "model.language_model.", "language_model.model.", "model.text_model.", "model.", "language_model.", ""};
  const auto* found = std::find_if(std::begin(prefixes), std::end(prefixes), [&](const char* p) {
    return tensors_.contains(std::string(p) + "embed_tokens.weight");
  });
  prefix_ = found != std::end(prefixes) ? *found : "model.";
  for (const char* name : {"lm_head.weight", "language_model.lm_head.weight", "model.lm_head.weight",
                           "model.language_model.lm_head.weight"})
    if (lm_head_.empty() && tensors_.contains(name)) lm_head_ = name;
}

SourceTensor HfCheckpoint::source(const SafeTensor& tensor) const {
  const SafeTensor* t = &tensor;
  const std::size_t row_bytes = t->cols() * (t->dtype->bits / 8);
  SourceTensor s{.name = t->name, .rows = t->rows(), .cols = t->cols(), .read_row = {}};
  s.read_row = [t, row_bytes](std::size_t row, std::span<float> out) {
    decode_floats(*t->dtype, t->data.subspan(row * row_bytes, row_bytes), out);
  };
  s.release = [t] { release_pages(t->data); };
  return s;
}

}  // namespace krafla
