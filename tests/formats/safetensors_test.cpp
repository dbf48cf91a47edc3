#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "../formats/test_files.h"
#include "base/float16.h"

namespace krafla {
namespace {

std::vector<std::uint8_t> file_of(const std::string& header, std::size_t data_bytes) {
  std::vector<std::uint8_t> bytes(8 + header.size() + data_bytes);
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = static_cast<std::uint8_t>(i);
  return bytes;
}

std::pair<std::string, std::string> parsed(const std::string& header, std::size_t data_bytes) {
  const Exact file(file_of(header, data_bytes));
  return outcome([&] { parse_safetensors(file.span(), "x.safetensors"); });
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";

TEST(Safetensors, GivesViewsIntoTheFile) {
  const Exact file(file_of(kTwo, 16));
  const std::vector<SafeTensor> tensors = parse_safetensors(file.span(), "x");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].rows(), 2u);
  EXPECT_EQ(tensors[0].cols(), 3u);
  EXPECT_EQ(tensors[0].shape_text(), "[2, 3]");
  EXPECT_EQ(tensors[0].data.data(), file.span().data() + file.span().size() - 12);
  EXPECT_EQ(tensors[0].data.size(), 12u);
  EXPECT_EQ(tensors[1].rows() * tensors[1].cols(), 1u);
}

TEST(Safetensors, ReadsTheCheckpointsOfTheTests) {
  const auto bytes = file_bytes(data_path("checkpoints/llama2/model.safetensors"));
  EXPECT_GT(parse_safetensors(bytes, "llama2").size(), 15u);
}

TEST(Safetensors, RefusesEveryBreach) {
  const auto one = [](const std::string& entry) { return R"({"a":)" + entry + "}"; };
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_EQ(parsed(one(good), 8).first, "ML_OK");
  const std::tuple<std::string, std::size_t, const char*> cases[] = {
      {one(good), 7, "bytes, but its tensors need"},
      {one(good), 9, "the bytes there: 1"},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), 8, "[3] needs 12"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), 8, "begins at byte 8"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[1,9]})"), 9, "begins at byte 1"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), 0, "needed: [begin, end]"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), 8, "2^64"},
      {one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]})"), 8,
       "need 18446744073709551615"},
      {one(R"({"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]})"), 8, "the number"},
      {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), 8, "-2"},
      {one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), 8, "2.0"},
      {one(R"({"dtype":"X32","shape":[2],"data_offsets":[0,8]})"), 8, "X32"},
      {one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"), 1, "no whole bytes"},
      {one(R"({"dtype":"F32","shape":[2]})"), 8, "without dtype, shape and data_offsets"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})"), 8, "more"},
      {one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 8, "twice"},
      {one(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})"), 8, "list"},
      {one(R"({"dtype":{},"shape":[2],"data_offsets":[0,8]})"), 8, "object"},
      {one(R"({"dtype":null,"shape":[2],"data_offsets":[0,8]})"), 8, "null"},
      {one("8"), 8, "number"},
      {R"({"a":)" + good + R"(,"a":)" + good + "}", 8, "is there twice"},
      {R"({"a":)" + good + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
       "begins at byte 4"},
      {R"({"a":)" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16,
       "begins at byte 12"},
      {R"({"__metadata__":{"n":3},"a":)" + good + "}", 8, "number"},
      {R"({"__metadata__":"pt","a":)" + good + "}", 8, "text"},
      {R"({"a":)" + good, 8, "no JSON"},
      {R"({"a":)" + good + "} x", 8, "no JSON"},
      {"[]", 0, "does not begin"},
      {"", 0, "does not begin"},
      {std::string(R"({"a)") + "\xff" + R"(":)" + good + "}", 8, "no JSON"},
      {R"({"a":)" + std::string(100000, '{'), 0, "no JSON"},
      {R"({"a":{"shape":)" + std::string(100000, '['), 0, "list"},
  };
  for (const auto& [header, data, words] : cases) {
    SCOPED_TRACE(header.substr(0, 120));
    const auto [status, message] = parsed(header, data);
    EXPECT_EQ(status, "ML_E_FORMAT") << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
  }
}

TEST(Safetensors, RefusesHugeHeaders) {
  for (const std::uint64_t size : {kSafetensorsMaxHeader + 1, ~std::uint64_t{0}, std::uint64_t{1000}}) {
    std::vector<std::uint8_t> bytes(16, '{');
    std::memcpy(bytes.data(), &size, 8);
    const Exact file(bytes);
    const auto [status, message] = outcome([&] { parse_safetensors(file.span(), "x"); });
    EXPECT_EQ(status, "ML_E_FORMAT");
    EXPECT_NE(message.find(std::to_string(size)), std::string::npos) << message;
  }
  const Exact tiny(std::vector<std::uint8_t>(7));
  EXPECT_EQ(outcome([&] { parse_safetensors(tiny.span(), "x"); }).first, "ML_E_FORMAT");
  EXPECT_EQ(outcome([&] { parse_safetensors({}, "x"); }).first, "ML_E_FORMAT");
}

TEST(Safetensors, DecodesEveryHalf) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint8_t> unaligned(1 + 2 * all.size());
  std::memcpy(unaligned.data() + 1, all.data(), 2 * all.size());
  std::vector<float> out(all.size());
  for (const bool bf16 : {false, true}) {
    const SafeDtype type{bf16 ? "BF16" : "F16", 16};
    decode_floats(type, Bytes(unaligned).subspan(1), out);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float want = bf16 ? bf16_to_float(all[i]) : f16_to_float(all[i]);
      ASSERT_EQ(std::memcmp(&out[i], &want, 4), 0) << i;
    }
  }
  EXPECT_EQ(outcome([&] { decode_floats({"F16", 16}, Bytes(unaligned), out); }).first, "ML_E_ARG");
  EXPECT_EQ(outcome([&] { decode_floats({"I8", 8}, Bytes(unaligned).first(65536), out); }).first, "ML_E_ARG");
}

}  // namespace
}  // namespace krafla
