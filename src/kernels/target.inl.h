// All algorithms on the instruction set whose primitives were included before. Included inside the target's anonymous namespace,
// in this order: each file uses those above it.
// clang-format off
#include "base/float_math.inl.h"
#include "kernels/elementwise.inl.h"
#include "kernels/attention.inl.h"
#include "kernels/matmul.inl.h"
#include "kernels/quantize.inl.h"
// clang-format on
