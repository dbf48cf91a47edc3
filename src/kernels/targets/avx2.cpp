#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace avx2 {
#include "kernels/isa/avx2.h"
#include "kernels/target.inl.h"
}  // namespace avx2
}  // namespace

extern const Kernels kernels_avx2;
const Kernels kernels_avx2 = {
    .name = "avx2",
    .activation_bytes = avx2::activation_bytes,
    .quantize_activation = avx2::quantize_activation,
    .gemv = avx2::gemv,
    .gemm = avx2::gemm,
    .gemm_scratch = avx2::gemm_scratch,
    .dequantize_row = avx2::dequantize_row,
    .quantize_q8 = avx2::quantize_q8,
    .quantize_q4_search = avx2::quantize_q4_search,
    .quantize_q4_round = avx2::quantize_q4_round,
    .rms_norm = avx2::rms_norm,
    .add = avx2::add,
    .silu_mul = avx2::silu_mul,
    .gelu_mul = avx2::gelu_mul,
    .sigmoid_mul = avx2::sigmoid_mul,
    .softcap = avx2::softcap,
    .rope = avx2::rope,
    .to_f16 = avx2::to_f16,
    .attend_page = avx2::attend_page,
    .attend_merge = avx2::attend_merge,
    .divide = avx2::divide,
};

}  // namespace krafla
