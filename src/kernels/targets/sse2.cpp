#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace sse2 {
#include "kernels/isa/sse2.h"
#include "kernels/target.inl.h"
}  // namespace sse2
}  // namespace

extern const Kernels kernels_sse2;
constexpr Kernels kernels_sse2 = sse2::table("sse2");

}  // namespace krafla
