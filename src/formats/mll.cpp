#include "formats/mll.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/round_up.h"
#include "formats/file_start.h"

namespace krafla {
namespace {

constexpr std::size_t kHeaderBytes = 32, kAlign = 64;
constexpr std::uint32_t kMaxVocab = 1u << 24;

/// Where the rows begin.
constexpr std::uint64_t rows_offset(std::uint64_t n_ids) {
  return round_up<std::uint64_t>(kHeaderBytes + 4 * n_ids, kAlign);
}

void check_range(std::string_view name, const char* field, std::uint64_t value, std::uint64_t low,
                 std::uint64_t high) {
  if (value < low || value > high)
    fail(ML_E_FORMAT, "{}: {} is {}; allowed: {} to {}", name, field, value, low, high);
}

void check_ids(std::string_view name, const ScoredText& text) {
  for (std::size_t i = 0; i < text.ids.size(); ++i)
    if (text.ids[i] < 0 || static_cast<std::size_t>(text.ids[i]) >= text.vocab)
      fail(ML_E_FORMAT, "{}: token {} is {}; allowed: 0 to {}", name, i, text.ids[i], text.vocab - 1);
}

void check_field(std::string_view name, const char* field, std::int64_t found, std::int64_t wanted) {
  if (found != wanted)
    fail(ML_E_SHAPE, "{}: {} is {}; allowed: {}, as for the text it is compared on", name, field, found,
         wanted);
}

}  // namespace

Window Windows::operator[](std::size_t i) const {
  if (stride == 0) return {i * ctx, ctx, ctx / 2};
  const std::size_t begin = i * stride;
  return {begin, std::min(ctx, n_ids - begin), i == 0 ? 0 : ctx - stride - 1};
}

std::uint64_t Windows::rows() const {
  return stride == 0 ? std::uint64_t{count} * (ctx - 1 - ctx / 2) : std::uint64_t{n_ids} - 1;
}

bool covers(const Windows& w) {
  if (w.stride == 0) return w.n_ids % w.ctx == 0 && w.n_ids / w.ctx == w.count;
  if (w.count == 1) return 2 <= w.n_ids && w.n_ids <= w.ctx;
  // The last window is needed, and reaches the end. Widths: count and ctx are below 2^32 and 2^25.
  const std::uint64_t last = std::uint64_t{w.count - 1} * w.stride;
  return last - w.stride + w.ctx < w.n_ids && w.n_ids <= last + w.ctx;
}

Mll parse_mll(Bytes file, std::string_view name) {
  check_file_start(file, "MLL1", kHeaderBytes, name);
  ByteReader in(file, name);
  in.take(kFileStartBytes, "magic and version");
  Mll out;
  ScoredText& text = out.text;
  text.vocab = in.read<std::uint32_t>("vocab");
  text.windows.ctx = in.read<std::uint32_t>("ctx");
  text.windows.stride = in.read<std::uint32_t>("stride");
  text.windows.count = in.read<std::uint32_t>("windows");
  text.windows.n_ids = in.read<std::uint32_t>("n_ids");
  text.bos = in.read<std::int32_t>("bos");
  check_range(name, "vocab", text.vocab, 1, kMaxVocab);
  check_range(name, "ctx", text.windows.ctx, kMinWindow, kMaxWindow);
  check_range(name, "stride", text.windows.stride, 0, text.windows.ctx - 1);
  check_range(name, "windows", text.windows.count, 1, UINT32_MAX);
  if (text.bos < -1 || text.bos >= static_cast<std::int64_t>(text.vocab))
    fail(ML_E_FORMAT, "{}: bos is {}; allowed: -1 to {}", name, text.bos, text.vocab - 1);
  if (!covers(text.windows))
    fail(ML_E_FORMAT, "{}: n_ids is {}; that is not what {} windows of {} tokens with stride {} cover", name,
         text.windows.n_ids, text.windows.count, text.windows.ctx, text.windows.stride);

  const Bytes ids = in.take(4 * std::uint64_t{text.windows.n_ids}, "ids");
  text.ids = {reinterpret_cast<const std::int32_t*>(ids.data()), text.windows.n_ids};
  check_ids(name, text);
  for (const std::uint8_t byte : in.take(rows_offset(text.windows.n_ids) - in.position(), "padding"))
    if (byte != 0) fail(ML_E_FORMAT, "{}: the padding after the ids holds {:02x}; allowed: 00", name, byte);
  // rows is below 2^32 (n_ids is) and vocab at most 2^24.
  const std::uint64_t size = rows_offset(text.windows.n_ids) + 4 * (text.windows.rows() * text.vocab);
  if (file.size() != size)
    fail(ML_E_FORMAT, "{}: the size is {} bytes; allowed: {} for {} rows of {} logits", name, file.size(),
         size, text.windows.rows(), text.vocab);
  out.rows = {reinterpret_cast<const float*>(file.data() + in.position()), in.remaining() / sizeof(float)};
  return out;
}

void check_same_text(const ScoredText& saved, const ScoredText& wanted, std::string_view name) {
  const auto number = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  check_field(name, "vocab", number(saved.vocab), number(wanted.vocab));
  check_field(name, "ctx", number(saved.windows.ctx), number(wanted.windows.ctx));
  check_field(name, "stride", number(saved.windows.stride), number(wanted.windows.stride));
  check_field(name, "windows", number(saved.windows.count), number(wanted.windows.count));
  check_field(name, "n_ids", number(saved.windows.n_ids), number(wanted.windows.n_ids));
  check_field(name, "bos", saved.bos, wanted.bos);
  for (std::size_t i = 0; i < saved.ids.size(); ++i)
    if (saved.ids[i] != wanted.ids[i])
      fail(ML_E_SHAPE, "{}: token {} is {}; allowed: {}, as for the text it is compared on", name, i,
           saved.ids[i], wanted.ids[i]);
}

MllWriter::MllWriter(const std::string& path, const ScoredText& text)
    : file_(path), vocab_(text.vocab), missing_(text.windows.rows()) {
  if (text.windows.n_ids > UINT32_MAX)
    fail(ML_E_ARG, "{}: the text has {} tokens; allowed: 0 to {}", path, text.windows.n_ids, UINT32_MAX);
  const auto word = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  const std::uint32_t head[] = {1,
                                word(text.vocab),
                                word(text.windows.ctx),
                                word(text.windows.stride),
                                word(text.windows.count),
                                word(text.windows.n_ids),
                                static_cast<std::uint32_t>(text.bos)};
  file_.write("MLL1", 4);
  file_.write(head, sizeof head);
  file_.write(text.ids.data(), text.ids.size_bytes());
  constexpr std::uint8_t kZeros[kAlign] = {};
  file_.write(kZeros, static_cast<std::size_t>(rows_offset(text.windows.n_ids) - file_.size()));
}

void MllWriter::add(std::span<const float> row) {
  if (row.size() != vocab_ || missing_ == 0)
    fail(ML_E_ARG, "a row of {} logits does not belong to the file", row.size());
  file_.write(row.data(), row.size_bytes());
  --missing_;
}

void MllWriter::commit() {
  if (missing_ != 0) fail(ML_E_ARG, "{} rows of logits are missing", missing_);
  file_.commit();
}

}  // namespace krafla
