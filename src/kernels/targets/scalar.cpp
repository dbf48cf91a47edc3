#include "kernels/target.h"

namespace krafla {
namespace {
namespace scalar {
#include "kernels/isa/scalar.h"
#include "kernels/target.inl.h"
}  // namespace scalar
}  // namespace

extern const Kernels kernels_scalar;
const Kernels kernels_scalar = {
    .name = "scalar",
    .activation_bytes = scalar::activation_bytes,
    .quantize_activation = scalar::quantize_activation,
    .gemv = scalar::gemv,
    .gemm = scalar::gemm,
    .gemm_scratch = scalar::gemm_scratch,
    .dequantize_row = scalar::dequantize_row,
    .quantize_q8 = scalar::quantize_q8,
    .quantize_q4_search = scalar::quantize_q4_search,
    .quantize_q4_round = scalar::quantize_q4_round,
    .rms_norm = scalar::rms_norm,
    .add = scalar::add,
    .silu_mul = scalar::silu_mul,
    .gelu_mul = scalar::gelu_mul,
    .sigmoid_mul = scalar::sigmoid_mul,
    .softcap = scalar::softcap,
    .rope = scalar::rope,
    .to_f16 = scalar::to_f16,
    .attend_page = scalar::attend_page,
    .attend_merge = scalar::attend_merge,
    .divide = scalar::divide,
};

}  // namespace krafla
