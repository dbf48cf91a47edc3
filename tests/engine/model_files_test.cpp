#include "engine/model_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

class ModelFilesTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  /// The message of the error that reading `json` gives.
  std::string error_of(const std::string& json) {
    try {
      read_model_info(write("m.json", json));
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), ML_E_FORMAT);
      return e.what();
    }
    ADD_FAILURE() << json;
    return {};
  }
  fs::path folder_ = fs::temp_directory_path() / ("krafla-model-files-" + std::to_string(::getpid()));
};

TEST_F(ModelFilesTest, AnyOfTheThreePathsOrTheNameNamesTheModel) {
  const std::string mlb = write("a.b.mlb", "x"), stem = mlb.substr(0, mlb.size() - 4);
  for (const char* suffix : {"", ".mlb", ".mlt", ".json"})
    EXPECT_EQ(find_model_files(stem + suffix).mlb, mlb);
  EXPECT_EQ(find_model_files(stem).mlt, stem + ".mlt");
}

TEST_F(ModelFilesTest, WhatIsNotAModelIsNamed) {
  for (const std::string& name :
       {(folder_ / "none").string(), folder_.string(), write("x.gguf", "GGUF"), write("x.txt", "two")}) {
    try {
      find_model_files(name);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), name.ends_with(".gguf") || name.ends_with(".txt") ? ML_E_FORMAT : ML_E_IO);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos);
    }
  }
}

TEST_F(ModelFilesTest, ReadsWhatIsThere) {
  const ModelInfo info = read_model_info(write(
      "m.json",
      R"({"format": 1, "name": "N", "chat_template": {"default": "T", "tool_use": "U"}, "end_ids": [2, 0],
    "control_ids": [1], "sampling": {"temperature": 0.2, "top_k": 5}, "future": {"x": 1}})"));
  EXPECT_EQ(info.name, "N");
  EXPECT_EQ(info.chat_template, "T");
  EXPECT_EQ(info.end_ids, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(info.control_ids.value(), std::vector<std::int32_t>{1});
  EXPECT_FLOAT_EQ(info.sampling.temperature.value(), 0.2f);
  EXPECT_EQ(info.sampling.top_k.value(), 5);
  EXPECT_FALSE(info.sampling.top_p.has_value());
  EXPECT_FALSE(info.bos.has_value());
  EXPECT_TRUE(read_model_info((folder_ / "absent.json").string()).end_ids.empty());
}

TEST_F(ModelFilesTest, WrongTypesAreNamed) {
  EXPECT_NE(error_of("{").find("JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("object"), std::string::npos);
  EXPECT_NE(error_of(R"({"end_ids": "two"})").find("end_ids"), std::string::npos);
  EXPECT_NE(error_of(R"({"sampling": 3})").find("sampling"), std::string::npos);
  EXPECT_NE(error_of(R"({"sampling": {"top_k": "x"}})").find("top_k"), std::string::npos);
  EXPECT_NE(error_of(R"({"chat_template": 5})").find("chat_template"), std::string::npos);
}

}  // namespace
}  // namespace krafla
