// Saved sequences: what is read back goes on bit-equal, and what does not fit is refused by name.
#include "model/state/saved_sequence.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "model/forward.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

class Saved : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { fs::remove(path_); }
  std::vector<float> feed(Sequence& sequence, std::span<const std::int32_t> ids) {
    std::vector<float> logits(model_.config().vocab);
    const Feed feed{&sequence, ids, Wants::last};
    forward(model_, context_, batch_, {&feed, 1});
    classify(model_, context_, batch_, 0, 1, logits.data());
    return logits;
  }
  void save(const Sequence& sequence, std::span<const std::int32_t> ids) {
    OutputFile file(path_);
    save_sequence(file, hash_, ids, sequence, context_.threads);
  }
  ml_status load_status(PagePool& pool, std::uint64_t hash, std::string* message) {
    try {
      load_sequence(path_, model_, hash, pool, context_.threads);
    } catch (const Error& e) {
      *message = e.what();
      EXPECT_EQ(pool.in_use(), 0u);
      return e.status();
    }
    return ML_OK;
  }
  Context context_{choose_kernels(nullptr), 2};
  Model model_{std::string(KRAFLA_TEST_DATA "/models/") + GetParam(), context_.threads};
  Batch batch_;
  std::uint64_t hash_ = hash_bytes(model_.bytes(), context_.threads);
  std::string path_ =
      (fs::temp_directory_path() / ("krafla-saved-" + std::to_string(::getpid()) + ".mls")).string();
};

TEST_P(Saved, GoesOnBitEqual) {
  for (const KvType kv : {KvType::f16, KvType::f32, KvType::q8_0})
    for (const std::size_t length : {1u, 63u, 64u, 90u}) {
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < length; ++i)
        ids.push_back(static_cast<std::int32_t>(i * 5 % model_.config().vocab));
      PagePool pool(KvLayout(model_.config(), kv)), other(pool.layout());
      Sequence sequence(pool);
      feed(sequence, ids);
      save(sequence, ids);
      SavedSequence loaded = load_sequence(path_, model_, hash_, other, context_.threads);
      EXPECT_EQ(loaded.ids, ids);
      EXPECT_EQ(loaded.sequence.bytes(), sequence.bytes());
      for (std::int32_t i = 0; i < 5; ++i) {
        const std::vector<std::int32_t> next = {i % 3};
        EXPECT_EQ(feed(sequence, next), feed(loaded.sequence, next));
      }
    }
}

TEST_P(Saved, WhatDoesNotFitIsRefused) {
  const std::vector<std::int32_t> ids(70, 1);
  const KvLayout f16(model_.config(), KvType::f16);
  PagePool pool(f16), f32(KvLayout(model_.config(), KvType::f32)), small(f16, 64);
  Sequence sequence(pool);
  feed(sequence, ids);
  EXPECT_THROW(save(sequence, std::span(ids).first(69)), Error);
  EXPECT_THROW(save(Sequence(pool), {}), Error);
  save(sequence, ids);
  sequence = Sequence(pool);
  std::string message;
  EXPECT_EQ(load_status(pool, hash_ + 1, &message), ML_E_SHAPE);
  EXPECT_NE(message.find("another model"), std::string::npos);
  EXPECT_EQ(load_status(f32, hash_, &message), ML_E_SHAPE);
  EXPECT_NE(message.find("f32"), std::string::npos);
  EXPECT_EQ(load_status(small, hash_, &message), ML_E_MEMORY);
  EXPECT_EQ(load_status(pool, hash_, &message), ML_OK);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put(1);
  file.close();
  EXPECT_EQ(load_status(pool, hash_, &message), ML_E_FORMAT);
  EXPECT_NE(message.find("damaged"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, Saved,
                         testing::Values("tiny-q4.mlb", "gemma3-like-q8.mlb", "gate-yarn-q4.mlb",
                                         "linear-window-q4.mlb", "linear-only-q8.mlb"),
                         [](const auto& file) {
                           std::string name = file.param.substr(0, file.param.find('.'));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Hash, TellsBytesApartForAnyThreads) {
  ThreadPool one(1), three(3);
  std::vector<std::uint8_t> bytes((std::size_t{2} << 20) + 77, 3);
  const std::uint64_t all = hash_bytes(bytes, one);
  EXPECT_EQ(hash_bytes(bytes, three), all);
  for (const std::size_t at : {std::size_t{0}, std::size_t{70}, std::size_t{1} << 20, bytes.size() - 1}) {
    bytes[at] ^= 1;
    EXPECT_NE(hash_bytes(bytes, one), all) << at;
    bytes[at] ^= 1;
  }
  EXPECT_NE(hash_bytes(std::span(bytes).first(bytes.size() - 1), one), all);
  EXPECT_NE(hash_bytes({}, one), hash_bytes(std::vector<std::uint8_t>(1, 0), one));
}

}  // namespace
}  // namespace krafla
