#include "eval/model_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

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

}  // namespace

MlbHeader ModelShape::header(WeightType type) const {
  MlbHeader header = sizes;
  header.wtype = static_cast<std::uint32_t>(type);
  header.scale_f16 = 1;
  return header;
}

std::vector<std::uint8_t> ModelShape::flags() const {
  std::vector<std::uint8_t> flags(sizes.n_layers);
  for (std::size_t layer = 0; layer < flags.size(); ++layer)
    flags[layer] = (layer + 1) % full_every == 0 ? 0 : between;
  return flags;
}

std::span<const ModelShape> model_shapes() { return kShapes; }

const ModelShape& find_shape(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ModelShape& shape : kShapes) {
    if (name == shape.name) return shape;
    known.push_back(shape.name);
  }
  fail(ML_E_ARG, "{}: there is no such shape; the shapes are {}", name, fmt::join(known, ", "));
}

}  // namespace krafla
