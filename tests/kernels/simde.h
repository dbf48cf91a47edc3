// The intrinsics of AVX-512 and VNNI in terms of AVX2, for tests on CPUs without them (KRAFLA_SIMDE).
// Included before a target file.
#pragma once

#define KRAFLA_NO_PIN_TO_REGISTER  // a vector of 64 bytes is in no register
#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop

// What SIMDe 0.7.4 lacks.
#undef _mm512_madd_epi16  // an alias with four arguments
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#define _mm256_dpbusd_avx_epi32(sum, a, b) simde_mm256_dpbusd_epi32(sum, a, b)
#define _mm512_cvtepi32_ps(a) krafla_cvtepi32_ps(a)
static inline __attribute__((always_inline)) simde__m512 krafla_cvtepi32_ps(simde__m512i a) {
  typedef int Ints __attribute__((vector_size(64)));
  typedef float Floats __attribute__((vector_size(64)));
  return (simde__m512) __builtin_convertvector((Ints)a, Floats);
}
#define _mm512_cvtph_ps(a) krafla_cvtph_ps(a)
static inline __attribute__((always_inline)) simde__m512 krafla_cvtph_ps(simde__m256i a) {
  const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(a)),
               high = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
  return simde_mm512_insertf32x8(simde_mm512_castps256_ps512(low), high, 1);
}
#define _mm512_shuffle_epi32(a, order)                                                                 \
  simde_mm512_inserti64x4(                                                                             \
      simde_mm512_castsi256_si512(                                                                     \
          simde_mm256_shuffle_epi32(simde_mm512_extracti64x4_epi64((a), 0), static_cast<int>(order))), \
      simde_mm256_shuffle_epi32(simde_mm512_extracti64x4_epi64((a), 1), static_cast<int>(order)), 1)
#define _mm512_maskz_loadu_epi8(mask, p) krafla_maskz_loadu_epi8(mask, p)
static inline simde__m512i krafla_maskz_loadu_epi8(unsigned long long mask,
                                                   const void* p) {  // touches no byte that is masked away
  unsigned char bytes[64] = {};
  for (int i = 0; i < 64; ++i)
    if ((mask >> i & 1) != 0) bytes[i] = static_cast<const unsigned char*>(p)[i];
  return simde_mm512_loadu_si512(bytes);
}
