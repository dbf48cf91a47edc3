#include "engine/model_files.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The value of `key` as a T if it is there; ML_E_FORMAT if it has another type.
template <class T>
std::optional<T> optional_value(const Json& object, const char* key, const char* type, const std::string& path) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  try {
    return it->get<T>();
  } catch (const Json::exception&) {
    fail(ML_E_FORMAT, "{}: \"{}\" is {}; it must be {}", path, key, it->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60),
         type);
  }
}

std::string read_template(const Json& root, const std::string& path) {
  const auto it = root.find("chat_template");
  if (it == root.end() || it->is_null()) return {};
  if (it->is_object()) return optional_value<std::string>(*it, "default", "a text", path).value_or("");
  return optional_value<std::string>(root, "chat_template", "a text, or an object with a text \"default\"", path).value_or("");
}

SamplingDefaults read_sampling(const Json& root, const std::string& path) {
  SamplingDefaults out;
  const auto it = root.find("sampling");
  if (it == root.end() || it->is_null()) return out;
  if (!it->is_object()) fail(ML_E_FORMAT, "{}: \"sampling\" must be an object", path);
  out.temperature = optional_value<float>(*it, "temperature", "a number", path);
  out.top_p = optional_value<float>(*it, "top_p", "a number", path);
  out.min_p = optional_value<float>(*it, "min_p", "a number", path);
  out.repetition_penalty = optional_value<float>(*it, "repetition_penalty", "a number", path);
  out.top_k = optional_value<int>(*it, "top_k", "an integer", path);
  return out;
}

}  // namespace

ModelFiles find_model_files(const std::string& name) {
  std::string stem = name;
  for (const char* extension : {".mlb", ".mlt", ".json"})
    if (stem.ends_with(extension)) {
      stem.resize(stem.size() - std::string(extension).size());
      break;
    }
  ModelFiles files{stem + ".mlb", stem + ".mlt", stem + ".json"};
  std::error_code ignored;
  if (fs::exists(files.mlb, ignored)) return files;
  if (fs::is_directory(name, ignored))
    fail(ML_E_IO, "{}: is a directory; name a model's .mlb file, or make one with `krafla convert`", name);
  if (fs::exists(name, ignored) && name == stem) fail(ML_E_IO, "{}: is not a .mlb file; convert it first: krafla convert {}", name, name);
  fail(ML_E_IO, "{}: there is no such file", files.mlb);
}

ModelInfo read_model_info(const std::string& path) {
  ModelInfo info;
  std::ifstream in(path, std::ios::binary);
  if (!in) return info;
  Json root;
  try {
    root = Json::parse(in);
  } catch (const Json::exception& e) {
    fail(ML_E_FORMAT, "{}: is not valid JSON: {}", path, e.what());
  }
  if (!root.is_object()) fail(ML_E_FORMAT, "{}: must hold a JSON object", path);
  const auto text = [&](const char* key) { return optional_value<std::string>(root, key, "a text", path).value_or(""); };
  info.name = text("name");
  info.source = text("source");
  info.license = text("license");
  info.chat_template = read_template(root, path);
  info.bos = optional_value<std::int32_t>(root, "bos", "a token id", path);
  info.end_ids =
      optional_value<std::vector<std::int32_t>>(root, "end_ids", "a list of token ids", path).value_or(std::vector<std::int32_t>{});
  info.control_ids = optional_value<std::vector<std::int32_t>>(root, "control_ids", "a list of token ids", path);
  info.sampling = read_sampling(root, path);
  return info;
}

}  // namespace krafla
