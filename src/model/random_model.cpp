#include "model/random_model.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/float16.h"
#include "formats/mlb_writer.h"

namespace krafla {
namespace {

constexpr std::uint32_t kContext = 32768;
constexpr std::uint8_t kLocal = kLayerWindow | kLayerLocalRope;

// From the models' own config.json files.
constexpr ModelShape kShapes[] = {
    {"gemma3-1b",
     {.dim = 1152,
      .n_layers = 26,
      .n_heads = 4,
      .n_kv_heads = 1,
      .hidden_dim = 6912,
      .vocab = 262144,
      .max_seq = kContext,
      .rope_theta = 1e6F,
      .norm_eps = 1e-6F,
      .shared_classifier = 1,
      .head_dim = 256,
      .qk_norm = 1,
      .sliding_window = 512,
      .layer_flags = 1,
      .rope_local_theta = 1e4F,
      .act = kActGelu,
      .post_norms = 1,
      .embed_scale = 33.941125F},
     6,
     kLocal},
    {"llama3.1-8b",
     {.dim = 4096,
      .n_layers = 32,
      .n_heads = 32,
      .n_kv_heads = 8,
      .hidden_dim = 14336,
      .vocab = 128256,
      .max_seq = 131072,
      .rope_theta = 5e5F,
      .norm_eps = 1e-5F,
      .rope_type = kRopeLlama3,
      .rope_factor = 8,
      .rope_low_freq_factor = 1,
      .rope_high_freq_factor = 4,
      .rope_orig_max_seq = 8192}},
    {"llama3.2-1b",
     {.dim = 2048,
      .n_layers = 16,
      .n_heads = 32,
      .n_kv_heads = 8,
      .hidden_dim = 8192,
      .vocab = 128256,
      .max_seq = 131072,
      .rope_theta = 5e5F,
      .norm_eps = 1e-5F,
      .shared_classifier = 1,
      .rope_type = kRopeLlama3,
      .rope_factor = 32,
      .rope_low_freq_factor = 1,
      .rope_high_freq_factor = 4,
      .rope_orig_max_seq = 8192}},
    {"llama3.2-3b",
     {.dim = 3072,
      .n_layers = 28,
      .n_heads = 24,
      .n_kv_heads = 8,
      .hidden_dim = 8192,
      .vocab = 128256,
      .max_seq = 131072,
      .rope_theta = 5e5F,
      .norm_eps = 1e-5F,
      .shared_classifier = 1,
      .rope_type = kRopeLlama3,
      .rope_factor = 32,
      .rope_low_freq_factor = 1,
      .rope_high_freq_factor = 4,
      .rope_orig_max_seq = 8192}},
    {"qwen2.5-0.5b",
     {.dim = 896,
      .n_layers = 24,
      .n_heads = 14,
      .n_kv_heads = 2,
      .hidden_dim = 4864,
      .vocab = 151936,
      .max_seq = kContext,
      .rope_theta = 1e6F,
      .norm_eps = 1e-6F,
      .shared_classifier = 1,
      .qkv_bias = 1}},
    {"qwen2.5-1.5b",
     {.dim = 1536,
      .n_layers = 28,
      .n_heads = 12,
      .n_kv_heads = 2,
      .hidden_dim = 8960,
      .vocab = 151936,
      .max_seq = kContext,
      .rope_theta = 1e6F,
      .norm_eps = 1e-6F,
      .shared_classifier = 1,
      .qkv_bias = 1}},
    {"qwen2.5-7b",
     {.dim = 3584,
      .n_layers = 28,
      .n_heads = 28,
      .n_kv_heads = 4,
      .hidden_dim = 18944,
      .vocab = 152064,
      .max_seq = kContext,
      .rope_theta = 1e6F,
      .norm_eps = 1e-6F,
      .qkv_bias = 1}},
    {"qwen3-0.6b",
     {.dim = 1024,
      .n_layers = 28,
      .n_heads = 16,
      .n_kv_heads = 8,
      .hidden_dim = 3072,
      .vocab = 151936,
      .max_seq = 40960,
      .rope_theta = 1e6F,
      .norm_eps = 1e-6F,
      .shared_classifier = 1,
      .head_dim = 128,
      .qk_norm = 1}},
    {"qwen3.5-0.8b",
     {.dim = 1024,
      .n_layers = 24,
      .n_heads = 8,
      .n_kv_heads = 2,
      .hidden_dim = 3584,
      .vocab = 248320,
      .max_seq = 262144,
      .rope_theta = 1e7F,
      .norm_eps = 1e-6F,
      .shared_classifier = 1,
      .head_dim = 256,
      .qk_norm = 1,
      .layer_flags = 1,
      .rot_dim = 64,
      .attn_gate = 1,
      .lin_k_heads = 16,
      .lin_v_heads = 16,
      .lin_k_dim = 128,
      .lin_v_dim = 128,
      .lin_conv = 4},
     4,
     kLayerLinear},
    {"smollm2-135m",
     {.dim = 576,
      .n_layers = 30,
      .n_heads = 9,
      .n_kv_heads = 3,
      .hidden_dim = 1536,
      .vocab = 49152,
      .max_seq = 8192,
      .rope_theta = 1e5F,
      .norm_eps = 1e-5F,
      .shared_classifier = 1}},
    {"smollm2-360m",
     {.dim = 960,
      .n_layers = 32,
      .n_heads = 15,
      .n_kv_heads = 5,
      .hidden_dim = 2560,
      .vocab = 49152,
      .max_seq = 8192,
      .rope_theta = 1e5F,
      .norm_eps = 1e-5F,
      .shared_classifier = 1}},
    {"smollm2-1.7b",
     {.dim = 2048,
      .n_layers = 24,
      .n_heads = 32,
      .n_kv_heads = 32,
      .hidden_dim = 8192,
      .vocab = 49152,
      .max_seq = 8192,
      .rope_theta = 130000,
      .norm_eps = 1e-5F,
      .shared_classifier = 1}},
};

/// A random number for each counter (the mixing of splitmix64).
std::uint64_t random_word(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// What a piece of the file is filled with: random words, `keep` of their bits and `set` on top.
struct Filling {
  std::uint64_t offset, size;
  std::uint64_t keep, set;
};

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

std::uint64_t repeated(std::uint16_t half) { return 0x0001000100010001u * half; }

Filling quants(const MlbArray& a) {
  return {a.offset, a.size, kAll, a.type == WeightType::q8_0 ? 0x0101010101010101u : 0};  // odd: never -128
}

/// Scales that give weights a deviation of some 0.02: odd int8 have one of 74, nibbles of 4.6. The lowest six
/// bits vary.
Filling scales(const MlbArray& a) {
  const std::uint16_t base = float_to_f16(a.type == WeightType::q8_0 ? 0.02F / 74 : 0.02F / 4.6F) & 0xffc0;
  return {a.d_offset, a.d_size, repeated(0x003f), repeated(base)};
}

/// Floats: the taps of a convolution are 1/4, biases and the parameters of the decay 0, norms 1.
Filling floats(const MlbArray& a) {
  const std::string_view name = a.tensor->name;
  const bool zero = name == "bq" || name == "bk" || name == "bv" || name == "dt_bias" || name == "A_log";
  return {a.offset, a.size, 0,
          0x0000000100000001u * (zero              ? 0u
                                 : name == "lconv" ? 0x3e800000u
                                                   : 0x3f800000u)};
}

void fill_piece(const Filling& f, std::uint64_t from, std::uint64_t to, std::span<std::uint8_t> file) {
  for (std::uint64_t at = from; at < to; at += 8) {
    const std::uint64_t word = f.keep == 0 ? f.set : (random_word(f.offset + at) & f.keep) | f.set;
    std::memcpy(&file[f.offset + at], &word, std::min<std::uint64_t>(8, to - at));
  }
}

/// Writes all fillings, in pieces on all threads.
void fill_all(const std::vector<Filling>& fillings, ThreadPool& threads, std::span<std::uint8_t> file) {
  constexpr std::uint64_t kPiece = 1 << 20;
  struct Piece {
    const Filling* filling;
    std::uint64_t from;
  };
  std::vector<Piece> pieces;
  for (const Filling& f : fillings)
    for (std::uint64_t from = 0; from < f.size; from += kPiece) pieces.push_back({&f, from});
  threads.run(pieces.size(), [&](std::size_t i, int) {
    const Piece& piece = pieces[i];
    fill_piece(*piece.filling, piece.from, std::min(piece.filling->size, piece.from + kPiece), file);
  });
}

/// The header and flags to write, and the arrays they imply.
struct Plan {
  MlbCanonical canonical;
  std::vector<MlbArray> arrays;
  std::uint64_t bytes;

  Plan(const ModelShape& shape, WeightType type) {
    MlbHeader header = shape.header;
    header.wtype = static_cast<std::uint32_t>(type);
    header.scale_f16 = 1;
    canonical = canonical_mlb(header, shape.flags(), shape.name);
    arrays =
        mlb_layout(canonical.header, canonical.flags, std::numeric_limits<std::int64_t>::max(), shape.name);
    bytes = (arrays.back().end() + kMlbAlign - 1) / kMlbAlign * kMlbAlign;
  }
};

}  // namespace

std::vector<std::uint8_t> ModelShape::flags() const {
  std::vector<std::uint8_t> flags(header.n_layers);
  for (std::size_t layer = 0; layer < flags.size(); ++layer)
    flags[layer] = (layer + 1) % full_every == 0 ? 0 : between;
  return flags;
}

std::span<const ModelShape> model_shapes() { return kShapes; }

const ModelShape& find_shape(std::string_view name) {
  std::string known;
  for (const ModelShape& shape : kShapes) {
    if (name == shape.name) return shape;
    known += (known.empty() ? "" : ", ") + std::string(shape.name);
  }
  fail(ML_E_ARG, "{}: there is no such shape; there are {}", name, known);
}

ShapeSize shape_size(const ModelShape& shape, WeightType type) {
  const Plan plan(shape, type);
  ShapeSize size{0, plan.bytes};
  for (const MlbArray& a : plan.arrays)
    if (a.kind != MlbKind::flags) size.parameters += a.rows * a.cols;
  return size;
}

Model random_model(const ModelShape& shape, WeightType type, ThreadPool& threads) {
  const Plan plan(shape, type);
  if (plan.bytes > std::numeric_limits<std::size_t>::max())
    fail(ML_E_MEMORY, "{}: {} bytes are too many here", shape.name, plan.bytes);
  std::vector<Filling> fillings;
  for (const MlbArray& a : plan.arrays) {
    if (a.quantized()) fillings.insert(fillings.end(), {quants(a), scales(a)});
    if (a.kind == MlbKind::f32) fillings.push_back(floats(a));
  }
  MappedFile file = MappedFile::in_memory(
      shape.name, static_cast<std::size_t>(plan.bytes), [&](std::span<std::uint8_t> bytes) {
        const std::vector<std::uint8_t> head = mlb_header_bytes(plan.canonical.header);
        std::memcpy(bytes.data(), head.data(), head.size());
        if (!plan.canonical.flags.empty())
          std::memcpy(&bytes[plan.arrays[0].offset], plan.canonical.flags.data(),
                      plan.canonical.flags.size());
        fill_all(fillings, threads, bytes);
      });
  return Model(std::move(file), shape.name, threads, {.check_quants = false});
}

}  // namespace krafla
