// Helpers of the format tests: whole files, the manifests beside the test data, and expecting one status.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace krafla {

inline std::string data_path(const std::string& relative) {
  return std::string(KRAFLA_TEST_DATA) + "/" + relative;
}

inline std::vector<std::uint8_t> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline nlohmann::json manifest(const std::string& folder) {
  std::ifstream in(data_path(folder + "/manifest.json"));
  return nlohmann::json::parse(in);
}

/// Exactly these bytes in memory of exactly that size, so that AddressSanitizer sees every read beyond the
/// end.
class Exact {
 public:
  explicit Exact(std::span<const std::uint8_t> bytes)
      : size_(bytes.size()), data_(new std::uint8_t[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), data_.get());
  }
  std::span<const std::uint8_t> span() const { return {data_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::uint8_t[]> data_;
};

/// The status name `run` fails with, and its message; ML_OK if it does not fail.
template <class F>
std::pair<std::string, std::string> outcome(F&& run) {
  try {
    run();
  } catch (const Error& e) {
    return {ml_status_name(e.status()), e.what()};
  }
  return {"ML_OK", ""};
}

/// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "krafla_test.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace krafla
