#include "base/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static ml_status status_of_open(const std::string& path) {
    try {
      OutputFile file(path);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos);
      return e.status();
    }
    return ML_OK;
  }
  fs::path folder_ = fs::temp_directory_path() / ("krafla-output-" + std::to_string(::getpid()));
};

TEST_F(OutputFileTest, AppearsOnCommitAndReplaces) {
  std::ofstream(path("a")) << "old";
  {
    OutputFile file(path("a"));
    file.write("new", 3);
    file.write_at(5, "!", 1);
    EXPECT_EQ(text(path("a")), "old");
    file.commit();
  }
  EXPECT_EQ(text(path("a")), std::string("new\0\0!", 6));
  EXPECT_EQ(entries(), 1u);
  struct stat made{}, plain{};
  std::ofstream(path("plain")) << "x";
  ASSERT_EQ(::stat(path("a").c_str(), &made) | ::stat(path("plain").c_str(), &plain), 0);
  EXPECT_EQ(made.st_mode, plain.st_mode);
}

// Large files begin as zeros, part by part, while other threads write.
TEST_F(OutputFileTest, SizesThatAreKnownChangeNoBytes) {
  constexpr std::size_t kPiece = 100000, kSize = 7'654'321;
  std::string want(kSize, '\0');
  OutputFile file(path("a"));
  file.set_size(kSize);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t at = t * kPiece; at < kSize - kPiece; at += 4 * kPiece) {
        if (at / kPiece % 7 == 3) continue;  // a gap
        std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(at), kPiece,
                    static_cast<char>('a' + at / kPiece % 26));
        file.write_at(at, &want[at], kPiece);
      }
    });
  for (std::thread& thread : threads) thread.join();
  file.commit();
  EXPECT_TRUE(text(path("a")) == want);
  OutputFile small(path("b"));
  small.set_size(10);
  small.write("x", 1);
  small.commit();
  EXPECT_EQ(text(path("b")), std::string("x") + std::string(9, '\0'));
}

TEST_F(OutputFileTest, NothingIsLeftWithoutCommit) {
  {
    OutputFile file(path("a"));
    file.write("half", 4);
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(OutputFileTest, FollowsALinkToAFile) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  OutputFile file(path("link"));
  file.write("new", 3);
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text(path("target")), "new");
}

TEST_F(OutputFileTest, WhatIsNoRegularFileIsLeftAlone) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(status_of_open(path("fifo")), ML_E_IO);
  EXPECT_EQ(status_of_open("/dev/null"), ML_E_IO);
  EXPECT_EQ(status_of_open(folder_.string()), ML_E_IO);
  EXPECT_EQ(status_of_open(path("no/such/folder/file")), ML_E_IO);
  EXPECT_TRUE(fs::is_fifo(path("fifo")));
}

TEST_F(OutputFileTest, MappedFileDoesNotWaitForAFifo) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile(path("fifo")), Error);
}

TEST_F(OutputFileTest, FilesThatBelongTogetherAppearTogether) {
  {
    OutputFile a(path("a")), b(path("b"));
    a.write("1", 1);
    b.write("2", 1);
    OutputFile* const both[] = {&a, &b};
    OutputFile::commit_together(both);
  }
  EXPECT_EQ(text(path("a")), "1");
  EXPECT_EQ(text(path("b")), "2");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(OutputFileTest, IfOneCannotAppearNoneStays) {
  OutputFile a(path("a")), b(path("b"));
  fs::create_directory(path("b"));  // came in between
  OutputFile* const both[] = {&a, &b};
  EXPECT_THROW(OutputFile::commit_together(both), Error);
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(OutputFileTest, AsLongANameAsTheSystemTakes) {
  const std::string name(255, 'n');
  OutputFile(path(name.c_str())).commit();
  EXPECT_TRUE(fs::exists(path(name.c_str())));
}

}  // namespace
}  // namespace krafla
