#include "eval/random_model.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/float16.h"
#include "base/round_up.h"
#include "formats/mlb_writer.h"

namespace krafla {
namespace {

/// A random number for each counter (the mixing of splitmix64).
std::uint64_t random_word(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// What a piece of the file is filled with: random words, `keep` of their bits and `set` on top.
struct Filling {
  std::uint64_t offset, size;
  std::uint64_t keep, set;
};

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

std::uint64_t repeated(std::uint16_t half) { return 0x0001000100010001u * half; }

Filling quants(const MlbArray& a) {
  return {a.offset, a.size, kAll, a.type == WeightType::q8_0 ? 0x0101010101010101u : 0};  // odd: never -128
}

/// Scales that give weights a deviation of some 0.02: odd int8 have one of 74, nibbles of 4.6. The lowest six
/// bits vary.
Filling scales(const MlbArray& a) {
  const std::uint16_t base = float_to_f16(a.type == WeightType::q8_0 ? 0.02F / 74 : 0.02F / 4.6F) & 0xffc0;
  return {a.d_offset, a.d_size, repeated(0x003f), repeated(base)};
}

/// Floats: the taps of a convolution are 1/4, biases and the parameters of the decay 0, norms 1.
Filling floats(const MlbArray& a) {
  const std::string_view name = a.tensor->name;
  const bool zero = name == "bq" || name == "bk" || name == "bv" || name == "dt_bias" || name == "A_log";
  return {a.offset, a.size, 0,
          0x0000000100000001u * (zero              ? 0u
                                 : name == "lconv" ? 0x3e800000u
                                                   : 0x3f800000u)};
}

void fill_piece(const Filling& f, std::uint64_t from, std::uint64_t to, std::span<std::uint8_t> file) {
  for (std::uint64_t at = from; at < to; at += 8) {
    const std::uint64_t word = f.keep == 0 ? f.set : (random_word(f.offset + at) & f.keep) | f.set;
    std::memcpy(&file[f.offset + at], &word, std::min<std::uint64_t>(8, to - at));
  }
}

/// Writes all fillings, in pieces on all threads.
void fill_all(const std::vector<Filling>& fillings, ThreadPool& threads, std::span<std::uint8_t> file) {
  constexpr std::uint64_t kPiece = 1 << 20;
  struct Piece {
    const Filling* filling;
    std::uint64_t from;
  };
  std::vector<Piece> pieces;
  for (const Filling& f : fillings)
    for (std::uint64_t from = 0; from < f.size; from += kPiece) pieces.push_back({&f, from});
  threads.run(pieces.size(), [&](std::size_t i, int) {
    const Piece& piece = pieces[i];
    fill_piece(*piece.filling, piece.from, std::min(piece.filling->size, piece.from + kPiece), file);
  });
}

/// The bytes of the whole file, padding included.
std::uint64_t file_bytes(const std::vector<MlbArray>& arrays) {
  return round_up<std::uint64_t>(arrays.back().end(), kMlbAlign);
}

std::vector<MlbArray> arrays_of(const MlbCanonical& canonical, const std::string& name) {
  return mlb_layout(canonical.header, canonical.flags, std::numeric_limits<std::int64_t>::max(), name);
}

}  // namespace

ModelSize model_size(const MlbHeader& header, std::span<const std::uint8_t> flags, const std::string& name) {
  const std::vector<MlbArray> arrays = arrays_of(canonical_mlb(header, flags, name), name);
  ModelSize size{0, file_bytes(arrays)};
  for (const MlbArray& a : arrays)
    if (a.kind != MlbKind::flags) size.parameters += a.rows * a.cols;
  return size;
}

Model random_model(const MlbHeader& header, std::span<const std::uint8_t> flags, const std::string& name,
                   ThreadPool& threads) {
  const MlbCanonical canonical = canonical_mlb(header, flags, name);
  const std::vector<MlbArray> arrays = arrays_of(canonical, name);
  const std::uint64_t size = file_bytes(arrays);
  if (size > std::numeric_limits<std::size_t>::max())
    fail(ML_E_MEMORY, "{}: {} bytes do not fit into this machine's address space", name, size);
  std::vector<Filling> fillings;
  for (const MlbArray& a : arrays) {
    if (a.quantized()) fillings.insert(fillings.end(), {quants(a), scales(a)});
    if (a.kind == MlbKind::f32) fillings.push_back(floats(a));
  }
  MappedFile file =
      MappedFile::in_memory(name, static_cast<std::size_t>(size), [&](std::span<std::uint8_t> bytes) {
        const std::vector<std::uint8_t> head = mlb_header_bytes(canonical.header);
        std::memcpy(bytes.data(), head.data(), head.size());
        if (!canonical.flags.empty())
          std::memcpy(&bytes[arrays[0].offset], canonical.flags.data(), canonical.flags.size());
        fill_all(fillings, threads, bytes);
      });
  return Model(std::move(file), name, threads, {.check_quants = false});
}

}  // namespace krafla
