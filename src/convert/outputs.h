// What a conversion writes beside what it reads: nothing that is read may be written over.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace krafla {

/// The files of a checkpoint's folder that a conversion reads, whatever of them is there.
std::vector<std::string> checkpoint_files(const std::string& folder);

/// ML_E_ARG if one of `outputs` is one of `inputs`, also through links. Empty inputs are none.
void refuse_overwriting(std::span<const std::string> outputs, std::span<const std::string> inputs);

}  // namespace krafla
