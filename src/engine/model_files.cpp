#include "engine/model_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_ids.h"
#include "base/mapped_file.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Reads single keys of one JSON object; a key that is not there or null gives nothing, one of the wrong type
/// ML_E_FORMAT.
class Keys {
 public:
  Keys(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::string text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) wrong(key, *value, "a text");
    return value->get<std::string>();
  }
  std::optional<float> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) wrong(key, *value, "a number");
    return value->get<float>();
  }
  std::optional<std::int32_t> id(const char* key) const {
    const Json* value = find(key);
    return value == nullptr ? std::nullopt : std::optional(json_id(*value, name(key)));
  }
  std::optional<std::vector<std::int32_t>> ids(const char* key) const {
    const Json* value = find(key);
    return value == nullptr ? std::nullopt : std::optional(json_ids(*value, name(key)));
  }
  [[noreturn]] void wrong(const char* key, const Json& value, const char* allowed) const {
    fail(ML_E_FORMAT, "{}: \"{}\" is {}; it must be {}", path_, key,
         value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60), allowed);
  }

 private:
  std::string name(const char* key) const { return fmt::format("{}: \"{}\"", path_, key); }
  const Json& object_;
  std::string path_;
};

void read_templates(const Keys& keys, const std::string& path, ModelInfo& info) {
  const Json* value = keys.find("chat_template");
  if (value == nullptr || !value->is_object()) {
    info.chat_template = keys.text("chat_template");
    return;
  }
  info.chat_template = Keys(*value, path).text("default");
  info.tool_template = Keys(*value, path).text("tool_use");
}

void read_reasoning(const Keys& keys, const std::string& path, ModelInfo& info) {
  const Json* value = keys.find("reasoning");
  if (value == nullptr) return;
  if (!value->is_object()) keys.wrong("reasoning", *value, "an object");
  info.reasoning_open = Keys(*value, path).text("open");
  info.reasoning_close = Keys(*value, path).text("close");
}

SamplingSettings read_sampling(const Keys& keys, const std::string& path) {
  SamplingSettings out;
  const Json* value = keys.find("sampling");
  if (value == nullptr) return out;
  if (!value->is_object()) keys.wrong("sampling", *value, "an object");
  const Keys sampling(*value, path);
  out.temperature = sampling.number("temperature");
  out.top_p = sampling.number("top_p");
  out.min_p = sampling.number("min_p");
  out.repetition_penalty = sampling.number("repetition_penalty");
  out.top_k = sampling.id("top_k");
  return out;
}

}  // namespace

std::string model_stem(const std::string& path) {
  for (const std::string_view extension : {".mlb", ".mlt", ".json"})
    if (path.ends_with(extension)) return path.substr(0, path.size() - extension.size());
  return path;
}

ModelFiles find_model_files(const std::string& name) {
  const std::string stem = model_stem(name);
  ModelFiles files{stem + ".mlb", stem + ".mlt", stem + ".json"};
  std::error_code ignored;
  if (fs::exists(files.mlb, ignored)) return files;
  if (fs::is_directory(name, ignored)) fail(ML_E_IO, "{}: is a directory, not a .mlb file", name);
  if (name == stem && fs::exists(name, ignored)) {
    const MappedFile file(name);
    fail(ML_E_FORMAT, "{}: is {}", name,
         starts_with(file.bytes(), "GGUF") ? "a GGUF file, not a .mlb file" : "not a .mlb file");
  }
  fail(ML_E_IO, "{}: there is no such file", files.mlb);
}

ModelInfo read_model_info(const std::string& path) {
  ModelInfo info;
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) return info;
  const MappedFile file(path);
  const auto root = parse_json<Json>(as_text(file.bytes()));
  if (root.is_discarded())
    fail(ML_E_FORMAT, "{}: is not valid JSON, or nests deeper than {}", path, kMostNested);
  if (!root.is_object()) fail(ML_E_FORMAT, "{}: must hold a JSON object", path);
  const Keys keys(root, path);
  if (const Json* format = keys.find("format"); format != nullptr && *format != 1)
    keys.wrong("format", *format, "1");
  info.name = keys.text("name");
  info.source = keys.text("source");
  info.license = keys.text("license");
  read_templates(keys, path, info);
  read_reasoning(keys, path, info);
  info.tools = keys.text("tools");
  info.bos = keys.id("bos");
  info.end_ids = keys.ids("end_ids").value_or(std::vector<std::int32_t>{});
  info.control_ids = keys.ids("control_ids");
  info.sampling = read_sampling(keys, path);
  return info;
}

}  // namespace krafla
