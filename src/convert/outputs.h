// Where a conversion writes: names by one rule, and nothing that is read is written over.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krafla {

/// The last name of a path, also of "." and "folder/"; empty for the root.
std::string last_name(const std::string& path);

/// The path of what is written, without its ending: `out`, less the ending of one of a model's files if it
/// has it (.mlb, .mlt, .json); `name` in the folder `out`; `name` itself if `out` is empty.
std::string output_stem(const std::string& name, std::string_view out);

/// The files of a checkpoint's folder that a conversion reads, whatever of them is there.
std::vector<std::string> checkpoint_files(const std::string& folder);

/// ML_E_ARG if one of `outputs` is one of `inputs`, also through links. Empty inputs are none.
void refuse_overwriting(std::span<const std::string> outputs, std::span<const std::string> inputs);

}  // namespace krafla
