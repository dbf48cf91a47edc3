// config.json of a Hugging Face checkpoint: keys of the text model, typed, wherever the file keeps them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace krafla {

/// As parse_json(), but an ML_E_FORMAT naming file and place for what is no JSON or nests too deep.
nlohmann::json parse_json_file(Bytes bytes, std::string_view name);

/// An object of config.json. A key that is missing or null gives nothing; one of the wrong type ML_E_FORMAT
/// naming it.
class HfKeys {
 public:
  /// `path` is how messages name the object: "dir/config.json" or "dir/config.json: rope_scaling".
  HfKeys(std::shared_ptr<const nlohmann::json> object, std::string path)
      : object_(std::move(object)), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// The value, null included; nullptr if the key is missing.
  const nlohmann::json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_null(std::string_view key) const;
  bool empty() const;
  bool same(const HfKeys& other) const;

  /// An integer from 0 to 2^32 - 1, also written as 4096.0.
  std::optional<std::uint32_t> count(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// A list of 0 and 1 or of false and true, as 0 and 1.
  std::optional<std::vector<std::uint8_t>> booleans(std::string_view key) const;
  /// The object of a key; an empty one if there is none.
  HfKeys object(std::string_view key) const;

  [[noreturn]] void wrong(std::string_view key, const nlohmann::json& value, std::string_view allowed) const;

 private:
  std::shared_ptr<const nlohmann::json> object_;
  std::string path_;
};

/// The whole file: the keys of `text_config` if there is one, of the file itself otherwise.
class HfConfig : public HfKeys {
 public:
  HfConfig(const nlohmann::json& file, const std::string& path);

  const std::string& name() const { return path(); }
  /// model_type of the text model. ML_E_FORMAT if there is none.
  const std::string& model_type() const { return model_type_; }
  /// The keys around text_config; the same as this without one.
  const HfKeys& outer() const { return outer_; }
  /// ML_E_UNSUPPORTED naming the key if it is there, not null, and not `neutral` (false counts as 0, true as
  /// 1; NAN: any value).
  void refuse_unless(std::string_view key, double neutral, std::string_view reason) const;

 private:
  HfKeys outer_;
  std::string model_type_;
};

}  // namespace krafla
