#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace sse41 {
#include "kernels/isa/sse41.h"
#include "kernels/target.inl.h"
}  // namespace sse41
}  // namespace

extern const Kernels kernels_sse41;
constexpr Kernels kernels_sse41 = sse41::table("sse41");

}  // namespace krafla
