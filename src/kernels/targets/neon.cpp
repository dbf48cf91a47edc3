#include <arm_neon.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace neon {
#include "kernels/isa/neon.h"
#include "kernels/target.inl.h"
}  // namespace neon
}  // namespace

extern const Kernels kernels_neon;
constexpr Kernels kernels_neon = neon::table("neon");

}  // namespace krafla
