#include "eval/rows.h"

namespace krafla {

ModelRows::ModelRows(const Model& model, Context& context, KvType kv)
    : model_(model), context_(context), pool_(KvLayout(model.mlb(), kv)), sequence_(pool_) {}

void ModelRows::begin_window() { sequence_ = Sequence(pool_); }

void ModelRows::feed(std::span<const std::int32_t> ids, std::size_t scored) {
  fed_.clear();
  for (std::size_t i = 0; i < ids.size(); ++i) fed_.push_back({&sequence_, ids[i], i + scored >= ids.size()});
  forward(model_, context_, batch_, fed_);
}

const float* ModelRows::rows(std::size_t first, std::size_t count) {
  if (logits_.size() < count * stride()) logits_.resize(count * stride());
  classify(model_, context_, batch_, first, count, logits_.data());
  return logits_.data();
}

}  // namespace krafla
