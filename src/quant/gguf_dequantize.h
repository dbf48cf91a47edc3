// Rows of ggml's tensor types as floats.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/gguf.h"

namespace krafla {

/// Whether dequantize_row reads the type.
bool can_dequantize(const GgmlType& type);
/// The names of the types that it reads, for messages: "F32, F16 ...".
std::string readable_types();
/// One row as floats, each operation rounded by itself. bytes: out.size() / block * bytes of them, else
/// ML_E_ARG. ML_E_UNSUPPORTED for a type that it does not read. `tensor` is the name for messages.
void dequantize_row(const GgmlType& type, Bytes bytes, std::span<float> out, std::string_view tensor);

}  // namespace krafla
