#include <wasm_simd128.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace simd128 {
#include "kernels/isa/simd128.h"
#include "kernels/target.inl.h"
}  // namespace simd128
}  // namespace

extern const Kernels kernels_simd128;
constexpr Kernels kernels_simd128 = simd128::table("simd128");

}  // namespace krafla
