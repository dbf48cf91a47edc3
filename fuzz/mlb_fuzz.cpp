// Any bytes as a .mlb: an Error, or a model whose every view lies inside the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "formats/mlb.h"
#include "formats/mlb_writer.h"

namespace {

void require(bool good) {
  if (!good) std::abort();
}

void check_views(const krafla::Mlb& mlb, krafla::Bytes file) {
  const auto inside = [&](const void* p, std::size_t n) {
    const auto* at = static_cast<const std::uint8_t*>(p);
    require(at >= file.data() && n <= file.size() &&
            static_cast<std::size_t>(at - file.data()) <= file.size() - n);
  };
  const auto matrix = [&](const krafla::Matrix& m) {
    require(!m.empty());
    inside(m.q, m.q_bytes());
    inside(m.d, m.d_bytes());
  };
  matrix(mlb.tok_emb);
  matrix(mlb.wcls);
  inside(mlb.final_norm.data(), mlb.final_norm.size_bytes());
  for (const krafla::MlbLayer& layer : mlb.layers) {
    matrix((layer.flags & krafla::kLayerLinear) != 0 ? layer.lout : layer.wo);
    matrix(layer.w3);
    inside(layer.ffn_norm.data(), layer.ffn_norm.size_bytes());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<float> aligned(size / 4 + 1);  // a mapping is aligned too
  std::memcpy(aligned.data(), data, size);
  const krafla::Bytes file{reinterpret_cast<const std::uint8_t*>(aligned.data()), size};
  try {
    const krafla::Mlb mlb = krafla::parse_mlb(file, "fuzz.mlb");
    check_views(mlb, file);
    const auto flags = krafla::mlb_stored_flags(mlb.header, file, "fuzz.mlb");
    const krafla::MlbCanonical once = krafla::canonical_mlb(mlb.header, flags, "fuzz.mlb");
    const krafla::MlbCanonical twice = krafla::canonical_mlb(once.header, once.flags, "fuzz.mlb");
    // By bytes: a float that zero_unused left alone may be NaN, which a canonical header never has.
    require(krafla::mlb_header_bytes(once.header) == krafla::mlb_header_bytes(twice.header) &&
            once.flags == twice.flags);
  } catch (const krafla::Error& e) {
    require(e.status() == ML_E_FORMAT || e.status() == ML_E_SHAPE);
  }
  return 0;
}
