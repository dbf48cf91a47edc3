#include <arm_neon.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace dotprod {
#include "kernels/isa/dotprod.h"
#include "kernels/target.inl.h"
}  // namespace dotprod
}  // namespace

extern const Kernels kernels_dotprod;
constexpr Kernels kernels_dotprod = dotprod::table("dotprod");

}  // namespace krafla
