// The tensors of a checkpoint found, checked and prepared for every array of a plan's .mlb, whatever the
// container.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "convert/plan.h"
#include "convert/rows.h"

namespace krafla {

/// A tensor as a container describes it; empty texts are good.
struct FoundTensor {
  std::string wrong_shape;  // "[3, 4]; needed: [4, 4]"
  std::string unreadable;   // the name of its type
  SourceTensor rows{};      // if both are empty
};

/// A container of tensors: a GGUF, or a folder of .safetensors files.
struct TensorContainer {
  std::string name;            // of the file or folder, for messages
  std::string settings;        // of the file that has its settings, for messages
  std::string readable_types;  // "F32, F16 and BF16"
  std::function<std::string(const MlbArray&)> name_of;
  /// The tensor of a name, which is to become an array; nothing if it is missing.
  std::function<std::optional<FoundTensor>(const std::string& name, const MlbArray& a)> find;
};

/// Brings the plan's header and flags into canonical form and fills in its tensors. Gives the names used.
/// Lists all tensors that are missing (ML_E_FORMAT), else all whose shape is wrong (ML_E_SHAPE), else all
/// whose type cannot be read (ML_E_UNSUPPORTED).
std::set<std::string, std::less<>> find_tensors(const TensorContainer& container, PrepareRows prepare,
                                                ModelPlan& plan);

}  // namespace krafla
