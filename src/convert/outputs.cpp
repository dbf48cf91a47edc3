#include "convert/outputs.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace krafla {

namespace fs = std::filesystem;

std::string last_name(const std::string& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string output_stem(const std::string& name, std::string_view out) {
  if (out.empty()) return name;
  std::error_code ignored;
  fs::path base = out;
  if (out.ends_with('/') || fs::is_directory(base, ignored)) return (base / name).string();
  const fs::path ending = base.extension();
  return (ending == ".mlb" || ending == ".mlt" || ending == ".json" ? base.replace_extension() : base)
      .string();
}

std::vector<std::string> checkpoint_files(const std::string& folder) {
  constexpr std::string_view kNames[] = {"config.json",
                                         "model.safetensors.index.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "generation_config.json",
                                         "chat_template.json",
                                         "special_tokens_map.json"};
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    const std::string name = path.filename().string();
    if (path.extension() == ".safetensors" || path.extension() == ".jinja" ||
        std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames))
      files.push_back(path.string());
  }
  return files;
}

void refuse_overwriting(std::span<const std::string> outputs, std::span<const std::string> inputs) {
  std::error_code ignored;
  for (const std::string& out : outputs)
    for (const std::string& in : inputs)
      if (fs::equivalent(out, in, ignored))
        fail(ML_E_ARG, "{}: would be written over, but it is read{}; name another OUT", out,
             in == out ? "" : " as " + in);
}

}  // namespace krafla
