#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace krafla {
namespace {

constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
constexpr std::size_t kPiece = std::size_t{1} << 20, kLanes = 8;

std::uint64_t mix(std::uint64_t h, std::uint64_t word) { return std::rotl((h ^ word) * kFactor, 29); }

/// A piece that ends within its last row of lanes is hashed as if zeros followed.
std::uint64_t hash_piece(std::span<const std::uint8_t> piece) {
  std::uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8}, words[kLanes];
  for (std::size_t i = 0; i < piece.size(); i += sizeof(words)) {
    const std::size_t size = std::min(sizeof(words), piece.size() - i);
    if (size < sizeof(words)) std::memset(words, 0, sizeof(words));
    std::memcpy(words, piece.data() + i, size);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  std::uint64_t h = 0;
  for (const std::uint64_t lane : lanes) h = mix(h, lane);
  return h;
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::uint8_t> bytes, ThreadPool& threads) {
  std::vector<std::uint64_t> pieces((bytes.size() + kPiece - 1) / kPiece);
  threads.run(pieces.size(), [&](std::size_t i, int) {
    pieces[i] = hash_piece(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
  });
  std::uint64_t h = mix(0, bytes.size());
  for (const std::uint64_t piece : pieces) h = mix(h, piece);
  return h;
}

}  // namespace krafla
