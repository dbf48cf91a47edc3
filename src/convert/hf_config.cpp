#include "convert/hf_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "formats/gguf.h"  // printable

namespace krafla {
namespace {

using Json = nlohmann::json;

std::string value_text(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

/// The object that describes the text model.
const Json& text_part(const Json& file) {
  const auto it = file.find("text_config");
  return it != file.end() && it->is_object() ? *it : file;
}

std::string type_of(const HfKeys& keys) { return keys.text("model_type").value_or(""); }

}  // namespace

Json parse_json_file(Bytes bytes, std::string_view name) {
  if (nests_too_deep(as_text(bytes))) fail(ML_E_FORMAT, "{}: JSON nested deeper than {}", name, kMostNested);
  try {
    return Json::parse(bytes.begin(), bytes.end());
  } catch (const Json::parse_error& e) {
    fail(ML_E_FORMAT, "{}: is no JSON: error at byte {} of {}", name, e.byte, bytes.size());
  }
}

const Json* HfKeys::find(std::string_view key) const {
  const auto it = object_->find(key);
  return it == object_->end() ? nullptr : &*it;
}

bool HfKeys::is_null(std::string_view key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_null();
}

bool HfKeys::empty() const { return object_->empty(); }

bool HfKeys::same(const HfKeys& other) const { return *object_ == *other.object_; }

void HfKeys::wrong(std::string_view key, const Json& value, std::string_view allowed) const {
  fail(ML_E_FORMAT, "{}: \"{}\" is {}; it must be {}", path_, key, value_text(value), allowed);
}

std::optional<std::uint32_t> HfKeys::count(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const double x = value->is_number() ? value->get<double>() : -1;
  if (!(x >= 0 && x <= 4294967295.0 && x == std::floor(x)))
    wrong(key, *value, "an integer from 0 to 4294967295");
  return static_cast<std::uint32_t>(x);
}

std::optional<double> HfKeys::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const double x = value->is_number() ? value->get<double>() : NAN;
  const float f =
      static_cast<float>(x);  // what a .mlb would hold: an underflow to 0 would mean something else
  if (!std::isfinite(f) || (f == 0) != (x == 0))
    wrong(key, *value, "a number within the range of 32-bit floats");
  return x;
}

std::optional<bool> HfKeys::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_boolean()) wrong(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> HfKeys::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_string()) wrong(key, *value, "a text");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> HfKeys::texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_array()) wrong(key, *value, "a list of texts");
  std::vector<std::string> all;
  for (const Json& entry : *value) {
    if (!entry.is_string()) wrong(key, *value, "a list of texts");
    all.push_back(entry.get<std::string>());
  }
  return all;
}

std::optional<std::vector<std::uint8_t>> HfKeys::booleans(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_array()) wrong(key, *value, "a list of 0 and 1");
  std::vector<std::uint8_t> all;
  for (const Json& entry : *value) {
    if (!entry.is_boolean() && !(entry.is_number() && (entry == 0 || entry == 1)))
      wrong(key, *value, "a list of 0 and 1");
    all.push_back(entry.is_boolean() ? entry.get<bool>() : entry == 1);
  }
  return all;
}

HfKeys HfKeys::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null())
    return {std::make_shared<const Json>(Json::object()), fmt::format("{}: {}", path_, key)};
  if (!value->is_object()) wrong(key, *value, "an object");
  return {std::make_shared<const Json>(*value), fmt::format("{}: {}", path_, key)};
}

HfConfig::HfConfig(const Json& file, const std::string& path)
    : HfKeys(std::make_shared<const Json>(text_part(file)), path),
      outer_(std::make_shared<const Json>(file), path) {
  model_type_ = type_of(*this);
  if (model_type_.empty()) model_type_ = type_of(outer_);
  if (model_type_.empty()) fail(ML_E_FORMAT, "{}: the key model_type is missing", path);
}

void HfConfig::refuse_unless(std::string_view key, double neutral, std::string_view reason) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return;
  const double found = value->is_boolean()  ? (value->get<bool>() ? 1 : 0)
                       : value->is_number() ? value->get<double>()
                                            : NAN;
  if (found != neutral) fail(ML_E_UNSUPPORTED, "{}: {} is {}: {}", path(), key, value_text(*value), reason);
}

}  // namespace krafla
