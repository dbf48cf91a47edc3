#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace avxvnni {
#include "kernels/isa/avxvnni.h"
#include "kernels/target.inl.h"
}  // namespace avxvnni
}  // namespace

extern const Kernels kernels_avxvnni;
constexpr Kernels kernels_avxvnni = avxvnni::table("avxvnni");

}  // namespace krafla
