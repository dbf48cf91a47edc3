#include "model/model.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "base/error.h"

namespace krafla {
namespace {

constexpr std::size_t kScanBytes = std::size_t{1} << 20;

/// Finds the first quant that is -128, on all threads.
void scan_quants(const Mlb& mlb, ThreadPool& threads, const std::string& path) {
  struct Piece {
    const Q8Span* span;
    std::size_t offset;
  };
  const std::vector<Q8Span> spans = q8_spans(mlb);
  std::vector<Piece> pieces;
  for (const Q8Span& span : spans)
    for (std::size_t offset = 0; offset < span.q.size(); offset += kScanBytes)
      pieces.push_back({&span, offset});
  std::atomic<std::size_t> bad{pieces.size()};
  threads.run(pieces.size(), [&](std::size_t i, int) {
    const auto bytes = pieces[i].span->q.subspan(pieces[i].offset);
    const auto piece = bytes.first(std::min(bytes.size(), kScanBytes));
    if (find_minus_128(piece) == piece.size()) return;
    std::size_t first = bad.load();
    while (i < first && !bad.compare_exchange_weak(first, i)) {
    }
  });
  if (bad == pieces.size()) return;
  const Piece& piece = pieces[bad];
  fail_minus_128(*piece.span, piece.offset + find_minus_128(piece.span->q.subspan(piece.offset)), path);
}

}  // namespace

Model::Model(const std::string& path, ThreadPool& threads, const ModelOptions& options)
    : Model(MappedFile(path, options.memory), path, threads, options) {}

Model::Model(MappedFile file, const std::string& name, ThreadPool& threads, const ModelOptions& options)
    : path_(name),
      file_(std::move(file)),
      mlb_(parse_mlb(file_.bytes(), name, {.check_quants = false})),
      config_(mlb_),
      rope_(mlb_.header) {
  if (options.lock) file_.lock(name);
  if (options.check_quants) scan_quants(mlb_, threads, name);
}

}  // namespace krafla
