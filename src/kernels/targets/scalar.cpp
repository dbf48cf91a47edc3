#include "kernels/target.h"

namespace krafla {
namespace {
namespace scalar {
#include "kernels/isa/scalar.h"
#include "kernels/target.inl.h"
}  // namespace scalar
}  // namespace

extern const Kernels kernels_scalar;
constexpr Kernels kernels_scalar = scalar::table("scalar");

}  // namespace krafla
