#include "convert/gguf_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "convert/tensor_names.h"

namespace krafla {
namespace {

constexpr std::int64_t kMostParts = 99999;  // five digits

/// What stands before "-00002-of-00003.gguf", and the 3.
struct SplitName {
  std::string prefix;
  std::int64_t count;
};

std::optional<SplitName> split_name(std::string_view path) {
  constexpr std::string_view kForm = "-ddddd-of-ddddd.gguf";
  if (path.size() <= kForm.size()) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kForm.size());
  const auto fits = [](char c, char form) { return form == 'd' ? c >= '0' && c <= '9' : c == form; };
  if (!std::equal(end.begin(), end.end(), kForm.begin(), fits)) return std::nullopt;
  std::int64_t count = 0;
  for (const char c : end.substr(10, 5)) count = 10 * count + (c - '0');
  return SplitName{std::string(path.substr(0, path.size() - kForm.size())), count};
}

std::string part_path(const SplitName& name, std::int64_t number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, number, name.count);
}

/// The paths of all parts. ML_E_IO listing those that do not exist.
std::vector<std::string> all_parts(const SplitName& name) {
  std::vector<std::string> paths, missing;
  for (std::int64_t i = 1; i <= name.count; ++i) {
    std::error_code ignored;
    paths.push_back(part_path(name, i));
    if (!std::filesystem::exists(paths.back(), ignored)) missing.push_back(paths.back());
  }
  if (!missing.empty())
    fail(ML_E_IO, "{} of the model's {} parts are missing:{}", missing.size(), name.count, listed(missing));
  return paths;
}

void check_part(const Gguf& part, std::int64_t number, std::int64_t count) {
  const std::int64_t no = part.integer("split.no").value_or(-1);
  const std::int64_t of = part.integer("split.count").value_or(-1);
  if (no != number || of != count)
    fail(ML_E_FORMAT, "{}: split.no is {} and split.count {}; by the file's name {} and {}", part.name, no,
         of, number, count);
}

}  // namespace

GgufFiles::GgufFiles(const std::string& path, Bytes bytes) : paths_{path}, gguf_(parse_gguf(bytes, path)) {
  gguf_.mapped = true;
  const std::int64_t count = gguf_.integer("split.count").value_or(1);
  if (count <= 1) return;
  const auto name = split_name(path);
  if (!name || name->count != count || count > kMostParts)
    fail(ML_E_FORMAT, "{}: is one of {} parts; to find the others it must be called NAME-00001-of-{:05}.gguf",
         path, count, count);
  Gguf whole;
  paths_ = all_parts(*name);
  for (const std::string& part : paths_) {
    const auto number = static_cast<std::int64_t>(parts_.size());
    Gguf gguf = parse_gguf(parts_.emplace_back(part).bytes(), part);
    check_part(gguf, number, count);
    if (number == 0)
      whole = std::move(gguf);
    else
      whole.add_part(gguf);
  }
  const auto tensors = whole.integer("split.tensors.count");
  if (tensors && *tensors != static_cast<std::int64_t>(whole.tensors.size()))
    fail(ML_E_FORMAT, "{}: split.tensors.count is {}, but the parts have {} tensors", whole.name, *tensors,
         whole.tensors.size());
  gguf_ = std::move(whole);
  gguf_.mapped = true;
}

std::string gguf_model_name(std::string_view file) {
  if (const auto split = split_name(file)) return split->prefix;
  if (file.ends_with(".gguf") && file.size() > 5) file.remove_suffix(5);
  return std::string(file);
}

}  // namespace krafla
