#include "eval/rows.h"

namespace krafla {

ModelRows::ModelRows(const Model& model, Context& context, KvType kv)
    : model_(model), context_(context), pool_(KvLayout(model.config(), kv)), sequence_(pool_) {}

void ModelRows::begin_window() { sequence_ = Sequence(pool_); }

void ModelRows::feed(std::span<const std::int32_t> ids, std::size_t scored) {
  const Feed feed{&sequence_, ids, Wants::all};
  forward(model_, context_, batch_, {&feed, 1});
  unscored_ = ids.size() - scored;
}

const float* ModelRows::rows(std::size_t first, std::size_t count) {
  if (logits_.size() < count * stride()) logits_.resize(count * stride());
  classify(model_, context_, batch_, unscored_ + first, count, logits_.data());
  return logits_.data();
}

}  // namespace krafla
