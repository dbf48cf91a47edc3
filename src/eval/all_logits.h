// The logits at every position of a text, row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/forward.h"

namespace krafla {

/// Runs `ids` from an empty context, `chunk` positions per forward call, and calls sink(row) with the logits
/// of each position in turn: vocab floats, valid during the call. Holds 16 rows at a time. `chunk` changes no
/// bit.
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

}  // namespace krafla
