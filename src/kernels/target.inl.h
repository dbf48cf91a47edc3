// All algorithms on the instruction set whose primitives were included before; builds the one exported table.
// Included inside the target's anonymous namespace.
#include "base/float_math.inl.h"
#include "kernels/attention.inl.h"
#include "kernels/elementwise.inl.h"
#include "kernels/matmul.inl.h"
#include "kernels/quantize.inl.h"
