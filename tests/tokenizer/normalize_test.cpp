#include "tokenizer/normalize.h"

#include <gtest/gtest.h>

#include <string>

namespace krafla {
namespace {

std::string nfc(std::string_view text) {
  std::string buffer;
  return std::string(to_nfc(text, buffer));
}

TEST(Nfc, ComposesDecomposesAndReorders) {
  EXPECT_EQ(nfc("e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(nfc("\xE2\x84\xAB"), "\xC3\x85");                              // Angstrom sign
  EXPECT_EQ(nfc("q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");                // the dot below comes first
  EXPECT_EQ(nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "\xED\x95\x9C");  // Hangul
  EXPECT_EQ(nfc("\xE0\xA5\x98"), "\xE0\xA4\x95\xE0\xA4\xBC");              // an excluded composition
  EXPECT_EQ(nfc("\xC3\xA9\xCC\xA7"), "\xC8\xA9\xCC\x81");                  // the base is taken apart first
  EXPECT_EQ(nfc("abcdefgh\xCC\x81ijklmnop"), "abcdefgh\xCC\x81ijklmnop");
  EXPECT_EQ(nfc("abcdefge\xCC\x81ijklmnop"), "abcdefg\xC3\xA9ijklmnop");
}

TEST(Nfc, KnowsNothingAfterUnicode9) {
  const std::string dives = "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0";  // U+11935 U+11930, U+11938 since Unicode 13
  EXPECT_EQ(nfc(dives), dives);
  const std::string marks =
      "q\xE1\xAA\xBF\xCC\xB4";  // U+1ABF has no class yet, so U+0334 does not move before it
  EXPECT_EQ(nfc(marks), marks);
}

TEST(Nfc, BytesThatAreNotUtf8Stay) {
  EXPECT_EQ(nfc("e\xFF\xCC\x81"), "e\xFF\xCC\x81");
  EXPECT_EQ(nfc("\xCC\x81\xE5"), "\xCC\x81\xE5");
}

TEST(Nfc, TextWithoutChangesIsNotCopied) {
  std::string buffer;
  const std::string text = "plain, \xC3\xA9, \xE5\xA5\xBD";
  EXPECT_EQ(to_nfc(text, buffer).data(), text.data());
}

}  // namespace
}  // namespace krafla
