#include "model/digest.h"

#include <algorithm>
#include <bit>

namespace krafla {

void Digest::add(std::span<const float> values) {
  for (const float value : values) {
    const std::uint32_t bits = value != value ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) value_ = (value_ ^ ((bits >> shift) & 0xff)) * 0x100000001b3u;
  }
}

std::uint64_t verify_digest(const Model& model, Context& context) {
  const MlbHeader& header = model.header();
  std::vector<std::int32_t> ids(std::min<std::size_t>(header.max_seq, 150));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((i * 7919 + 1) % header.vocab);
  Digest digest;
  all_logits(model, context, KvType::f16, ids, 32, [&](std::span<const float> row) { digest.add(row); });
  return digest.value();
}

}  // namespace krafla
