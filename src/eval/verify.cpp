#include "eval/verify.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "eval/all_logits.h"

namespace krafla {

void Digest::add(std::span<const float> values) {
  for (const float value : values) {
    const std::uint32_t bits = value != value ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) value_ = (value_ ^ ((bits >> shift) & 0xff)) * 0x100000001b3u;
  }
}

bool has_nan(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return value != value; });
}

Verification verify(const Model& model, Context& context) {
  const MlbHeader& header = model.header();
  std::vector<std::int32_t> ids(std::min<std::size_t>(header.max_seq, 150));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>((i * 7919 + 1) % header.vocab);
  Digest digest;
  Verification result;
  std::size_t position = 0;
  all_logits(model, context, KvType::f16, ids, 32, [&](std::span<const float> row) {
    digest.add(row);
    if (!result.first_nan && has_nan(row)) {
      result.first_nan = position;
      result.nan_token = ids[position];
    }
    ++position;
  });
  result.digest = digest.value();
  return result;
}

}  // namespace krafla
