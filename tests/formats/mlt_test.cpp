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
    for (const std::string mention : entry["mentions"])
      EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
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

// Every byte of a merge's parts counts, at every length; and the rule that is named is the first bad one, of
// both threads' halves.
TEST(Mlt, MergesAreComparedByteByByte) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
  for (std::size_t left = 0; left <= 20; ++left)
    for (const std::size_t right : {std::size_t{0}, std::size_t{1}, std::size_t{9}, 20 - left}) {
      const std::string_view whole = std::string_view(letters).substr(0, left + right);
      Mlt mlt;
      mlt.tokens = {{whole.substr(0, left), 0}, {whole.substr(left), 0}, {whole, 0}};
      mlt.merges = {{0, 1, 2}};
      EXPECT_NO_THROW(mlt_bytes("good.mlt", mlt)) << left << "+" << right;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        std::string other(whole);
        other[i] ^= 1;
        mlt.tokens[2].bytes = other;
        EXPECT_EQ(outcome([&] { mlt_bytes("bad.mlt", mlt); }).first, "ML_E_FORMAT")
            << left << "+" << right << " at " << i;
      }
    }
  Mlt many;
  many.tokens = {{"a", 0}, {"b", 0}, {"ab", 0}};
  many.merges.assign(100000, {0, 1, 2});
  EXPECT_NO_THROW(mlt_bytes("many.mlt", many));
  for (const std::size_t first : {99999u, 50000u, 49999u, 0u}) {
    many.merges[first] = {1, 0, 2};
    EXPECT_NE(
        outcome([&] { mlt_bytes("many.mlt", many); }).second.find("merge " + std::to_string(first) + ":"),
        std::string::npos)
        << first;
  }
}

}  // namespace
}  // namespace krafla
