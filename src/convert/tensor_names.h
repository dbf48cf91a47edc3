// What the tensors of a .mlb are called in the two kinds of sources.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krafla {

/// The .mlb's name of a tensor, Hugging Face's (below the prefix, "model." for most) and GGUF's; "{}" stands
/// for the layer.
struct TensorName {
  const char* target;
  const char* hf;
  const char* gguf;
};

/// The row of `target` ("wq"): one of the family's own, else one that nearly every family uses; nullptr if
/// there is none.
const TensorName* find_tensor_name(std::span<const TensorName> own, std::string_view target);

/// "blk.{}.attn_q.weight" for layer 3: "blk.3.attn_q.weight".
std::string with_layer(std::string_view pattern, int layer);

/// " a; b; c" for a message: all of them, up to a limit.
std::string listed(const std::vector<std::string>& entries);

}  // namespace krafla
