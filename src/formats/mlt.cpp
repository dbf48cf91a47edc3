#include "formats/mlt.h"

#include <cstring>
#include <future>

#include "base/output_file.h"
#include "formats/file_start.h"

namespace krafla {
namespace {

constexpr std::string_view kMagic = "MLT1";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kTokenHeader = 5;  // u8 attr, u32 len

struct Header {
  char magic[4];
  std::uint32_t version;
  std::uint32_t kind;
  std::uint32_t n_vocab;
  std::uint32_t n_merges;
  std::int32_t bos;
  std::int32_t eos;
  std::uint32_t flags;
};
static_assert(sizeof(Header) == 32);
static_assert(sizeof(MltMerge) == 12, "merges are copied from the file as they are");

void check_id(std::string_view name, std::string_view field, std::int32_t id, std::size_t n_vocab) {
  if (id < -1 || id >= static_cast<std::int64_t>(n_vocab))
    fail(ML_E_FORMAT, "{}: {} is {}, allowed is -1 (none) to n_vocab - 1 = {}", name, field, id,
         static_cast<std::int64_t>(n_vocab) - 1);
}

void check_header(std::string_view name, const Header& h) {
  if (h.kind != 1 && h.kind != 2)
    fail(ML_E_FORMAT, "{}: kind is {}, allowed is 1 (SentencePiece) or 2 (byte-level)", name, h.kind);
  check_id(name, "bos", h.bos, h.n_vocab);
  check_id(name, "eos", h.eos, h.n_vocab);
  if ((h.flags & ~kMltKnownFlags) != 0)
    fail(ML_E_FORMAT, "{}: flags is {}, which has bits beyond the known ones ({})", name, h.flags,
         kMltKnownFlags);
}

void check_token(std::string_view name, std::size_t id, std::uint8_t attr, std::size_t length) {
  if (attr != 0 && attr != kMltAdded && attr != kMltByte)
    fail(ML_E_FORMAT, "{}: token {}: attr is {}, allowed is 0, 1 (added) or 2 (byte)", name, id, attr);
  if (attr == kMltByte && length != 1)
    fail(ML_E_FORMAT, "{}: token {}: len of a byte token is {}, allowed is 1", name, id, length);
}

/// Whether two texts of one size are equal, without a call: most tokens are short, and there are half a
/// million rules.
bool same(std::string_view a, std::string_view b) {
  const std::size_t n = a.size();
  const auto differ = [&]<class T>(T, std::size_t at) {
    T x, y;
    std::memcpy(&x, &a[at], sizeof x);
    std::memcpy(&y, &b[at], sizeof y);
    return x ^ y;
  };
  if (n > 16) return a == b;
  if (n >= 8) return (differ(std::uint64_t{}, 0) | differ(std::uint64_t{}, n - 8)) == 0;
  if (n >= 4) return (differ(std::uint32_t{}, 0) | differ(std::uint32_t{}, n - 4)) == 0;
  if (n >= 2) return (differ(std::uint16_t{}, 0) | differ(std::uint16_t{}, n - 2)) == 0;
  return n == 0 || a[0] == b[0];
}

/// Ids in range, and the bytes of left and right joined are those of merged.
void check_merge(std::string_view name, std::size_t rank, const MltMerge& merge,
                 const AlignedVector<MltToken>& tokens) {
  for (const auto& [field, id] :
       {std::pair{"left", merge.left}, {"right", merge.right}, {"merged", merge.merged}})
    if (id >= tokens.size())
      fail(ML_E_FORMAT, "{}: merge {}: {} is {}, allowed is less than n_vocab = {}", name, rank, field, id,
           tokens.size());
  const std::string_view left = tokens[merge.left].bytes, right = tokens[merge.right].bytes,
                         merged = tokens[merge.merged].bytes;
  if (left.size() + right.size() != merged.size() || !same(merged.substr(0, left.size()), left) ||
      !same(merged.substr(left.size()), right))
    fail(ML_E_FORMAT,
         "{}: merge {}: the bytes of tokens {} and {} joined are not those of the merged token {}", name,
         rank, merge.left, merge.right, merge.merged);
}

/// Tokens stand anywhere in memory: what later merges need is fetched ahead.
void prefetch_merge(std::size_t rank, const AlignedVector<MltMerge>& merges,
                    const AlignedVector<MltToken>& tokens) {
  constexpr std::size_t kAhead = 16;
  const auto each = [&](std::size_t at, auto&& fetch) {
    if (at >= merges.size()) return;
    for (const std::uint32_t id : {merges[at].left, merges[at].right, merges[at].merged})
      if (id < tokens.size()) fetch(tokens[id]);
  };
  each(rank + 2 * kAhead, [](const MltToken& token) { __builtin_prefetch(&token); });
  each(rank + kAhead, [](const MltToken& token) { __builtin_prefetch(token.bytes.data()); });
}

/// The second half by a thread of its own, if one can be had: this is a third of the time that a large
/// tokenizer takes to load.
void check_merges(std::string_view name, const Mlt& mlt) {
  const auto check = [&](std::size_t from, std::size_t to) {
    for (std::size_t rank = from; rank < to; ++rank) {
      prefetch_merge(rank, mlt.merges, mlt.tokens);
      check_merge(name, rank, mlt.merges[rank], mlt.tokens);
    }
  };
  const std::size_t n = mlt.merges.size(), half = n < 50000 ? n : n / 2;
  auto second = std::async(half < n ? std::launch::async | std::launch::deferred : std::launch::deferred,
                           check, half, n);
  check(0, half);  // its error is the one of the lowest rank, and leaves when the other thread is done
  second.get();
}

AlignedVector<MltToken> read_tokens(ByteReader& reader, std::uint32_t n_vocab, std::string_view name) {
  if (reader.remaining() / kTokenHeader < n_vocab)  // before memory is taken for a count the file cannot hold
    fail(ML_E_FORMAT,
         "{}: n_vocab is {}, but the {} bytes after the header hold at most {} tokens; the file is cut short "
         "or damaged",
         name, n_vocab, reader.remaining(), reader.remaining() / kTokenHeader);
  AlignedVector<MltToken> tokens(n_vocab);
  for (std::uint32_t id = 0; id < n_vocab; ++id) {
    if (reader.remaining() < kTokenHeader)
      fail(ML_E_FORMAT, "{}: token {} needs at least {} bytes, but only {} are left; the file is cut short",
           name, id, kTokenHeader, reader.remaining());
    const auto attr = reader.read<std::uint8_t>("attr");
    const auto length = reader.read<std::uint32_t>("len");
    check_token(name, id, attr, length);
    if (length > reader.remaining())
      fail(ML_E_FORMAT,
           "{}: token {}: len is {}, but only {} bytes are left; the file is cut short or damaged", name, id,
           length, reader.remaining());
    const Bytes bytes = reader.take(length, "bytes");
    tokens[id] = {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, attr};
  }
  return tokens;
}

}  // namespace

Mlt parse_mlt(Bytes bytes, std::string_view name) {
  check_file_start(bytes, kMagic, sizeof(Header), name);
  ByteReader reader(bytes, name);
  const auto header = reader.read<Header>("the header");
  check_header(name, header);
  Mlt mlt;
  mlt.kind = static_cast<MltKind>(header.kind);
  mlt.flags = header.flags;
  mlt.bos = header.bos;
  mlt.eos = header.eos;
  mlt.tokens = read_tokens(reader, header.n_vocab, name);
  const Bytes merges =
      reader.take(std::uint64_t{header.n_merges} * sizeof(MltMerge), "the merges (n_merges)");
  mlt.merges.resize(header.n_merges);
  if (!merges.empty()) std::memcpy(mlt.merges.data(), merges.data(), merges.size());
  check_merges(name, mlt);
  mlt.trailing = reader.remaining();
  return mlt;
}

std::string mlt_bytes(const std::string& path, const Mlt& mlt) {
  const auto count = [&](std::string_view field, std::size_t n) {
    if (n > UINT32_MAX) fail(ML_E_FORMAT, "{}: {} is {}, allowed is at most {}", path, field, n, UINT32_MAX);
    return static_cast<std::uint32_t>(n);
  };
  Header header{.magic = {},
                .version = kVersion,
                .kind = static_cast<std::uint32_t>(mlt.kind),
                .n_vocab = count("n_vocab", mlt.tokens.size()),
                .n_merges = count("n_merges", mlt.merges.size()),
                .bos = mlt.bos,
                .eos = mlt.eos,
                .flags = mlt.flags};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  check_header(path, header);
  std::string body(reinterpret_cast<const char*>(&header), sizeof header);
  for (std::size_t id = 0; id < mlt.tokens.size(); ++id) {
    const MltToken& token = mlt.tokens[id];
    const std::uint32_t length = count("the len of a token", token.bytes.size());
    check_token(path, id, token.attr, length);
    body.push_back(static_cast<char>(token.attr));
    body.append(reinterpret_cast<const char*>(&length), sizeof length);
    body.append(token.bytes);
  }
  check_merges(path, mlt);
  body.append(reinterpret_cast<const char*>(mlt.merges.data()), mlt.merges.size() * sizeof(MltMerge));
  return body;
}

void write_mlt(const std::string& path, const Mlt& mlt) {
  const std::string bytes = mlt_bytes(path, mlt);
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace krafla
