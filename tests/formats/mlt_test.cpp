#include "formats/mlt.h"

#include <gtest/gtest.h>

#include "test_files.h"

namespace krafla {
namespace {

std::vector<nlohmann::json> tokenizers(const std::string& folder) {
  std::vector<nlohmann::json> entries;
  for (auto& entry : manifest(folder))
    if (entry["file"].get<std::string>().ends_with(".mlt")) entries.push_back(entry);
  EXPECT_FALSE(entries.empty());
  return entries;
}

TEST(Mlt, GoodFilesAreReadAndWrittenBackTheSame) {
  const TemporaryFolder folder;
  for (const auto& entry : tokenizers("good")) {
    const std::string file = entry["file"];
    SCOPED_TRACE(file);
    auto bytes = file_bytes(data_path("good/" + file));
    const Exact exact(bytes);
    const Mlt mlt = parse_mlt(exact.span(), file);
    EXPECT_EQ(mlt.trailing, entry["trailing"].get<std::size_t>());
    write_mlt(folder.file(file), mlt);
    bytes.resize(bytes.size() - mlt.trailing);
    EXPECT_EQ(file_bytes(folder.file(file)), bytes);
  }
}

TEST(Mlt, BadFilesGiveTheirStatusAndSayWhy) {
  for (const auto& entry : tokenizers("bad")) {
    const std::string file = entry["file"];
    SCOPED_TRACE(file);
    const Exact exact(file_bytes(data_path("bad/" + file)));
    const auto [status, message] = outcome([&] { parse_mlt(exact.span(), file); });
    EXPECT_EQ(status, entry["status"].get<std::string>()) << message;
    EXPECT_NE(message.find(file), std::string::npos) << message;
    for (const std::string mention : entry["mentions"]) EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
  }
}

TEST(Mlt, EveryShorterFileIsRefused) {
  const auto bytes = file_bytes(data_path("good/bl.mlt"));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Exact exact(Bytes(bytes).first(n));
    EXPECT_EQ(outcome([&] { parse_mlt(exact.span(), "short.mlt"); }).first, "ML_E_FORMAT") << n;
  }
}

TEST(Mlt, WriterRefusesWhatTheReaderWould) {
  const TemporaryFolder folder;
  Mlt good;
  good.tokens = {{"a", 0}, {"b", 0}, {"ab", 0}};
  good.merges = {{0, 1, 2}};
  const auto refused = [&](auto&& change) {
    Mlt bad = good;
    change(bad);
    EXPECT_EQ(outcome([&] { write_mlt(folder.file("bad.mlt"), bad); }).first, "ML_E_FORMAT");
  };
  refused([](Mlt& m) { m.merges[0] = {1, 0, 2}; });
  refused([](Mlt& m) { m.merges[0] = {0, 3, 2}; });
  refused([](Mlt& m) { m.eos = 3; });
  refused([](Mlt& m) { m.bos = -2; });
  refused([](Mlt& m) { m.tokens[2].attr = kMltByte; });
  refused([](Mlt& m) { m.tokens[2].attr = 3; });
  refused([](Mlt& m) { m.flags = 512; });
  EXPECT_TRUE(folder.is_empty());
}

}  // namespace
}  // namespace krafla
