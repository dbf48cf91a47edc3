// A digest of logits: the same on every machine, thread count and instruction set, so that anyone can check
// an installation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/forward.h"

namespace krafla {

/// FNV-1a (64 bit) over the floats' little-endian bytes; every NaN counts as 0x7fc00000.
class Digest {
 public:
  void add(std::span<const float> values);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Whether one of these is a NaN.
bool has_nan(std::span<const float> values);

/// Logits at every position of `ids`, `chunk` positions a forward call, handed over row by row (vocab floats
/// each); only a few rows are held at a time.
template <class Sink>
void all_logits(const Model& model, Context& context, KvType kv, std::span<const std::int32_t> ids,
                std::size_t chunk, Sink&& sink) {
  constexpr std::size_t kRows = 16;
  const std::size_t vocab = model.header().vocab;
  PagePool pool(KvLayout(model.config(), kv));
  Sequence sequence(pool);
  Batch batch;
  std::vector<float> logits(std::min({kRows, chunk, ids.size()}) * vocab);
  for (std::size_t done = 0; done < ids.size(); done += std::min(chunk, ids.size() - done)) {
    const Feed feed{&sequence, ids.subspan(done, std::min(chunk, ids.size() - done)), Wants::all};
    forward(model, context, batch, {&feed, 1});
    for (std::size_t first = 0; first < feed.tokens.size(); first += kRows) {
      const std::size_t count = std::min(kRows, feed.tokens.size() - first);
      classify(model, context, batch, first, count, logits.data());
      for (std::size_t j = 0; j < count; ++j) sink(std::span<const float>(logits.data() + j * vocab, vocab));
    }
  }
}

/// What `krafla verify` says of a model.
struct Verification {
  std::uint64_t digest;
  std::optional<std::size_t> first_nan;  ///< the first position with a NaN among its logits
  std::int32_t nan_token = 0;            ///< the token at that position
};
/// ids (i*7919 + 1) mod vocab for i < min(max_seq, 150), all logits, KV cache in f16.
Verification verify(const Model& model, Context& context);

}  // namespace krafla
