#include <arm_neon.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace i8mm {
#include "kernels/isa/i8mm.h"
#include "kernels/target.inl.h"
}  // namespace i8mm
}  // namespace

extern const Kernels kernels_i8mm;
constexpr Kernels kernels_i8mm = i8mm::table("i8mm");

}  // namespace krafla
