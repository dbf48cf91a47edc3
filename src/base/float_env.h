// The floating-point environment that the arithmetic contract needs: round to nearest, denormals kept,
// exceptions masked.
#pragma once

#include <cstdint>

#if defined(__SSE__) || defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace krafla {

/// Sets this environment for the calling thread, and restores the previous one when it goes out of scope. A
/// host process may use another one: flush-to-zero is common in audio programs.
class FloatEnvironment {
 public:
#if defined(__SSE__) || defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FloatEnvironment() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~FloatEnvironment() { __asm__ volatile("msr fpcr, %0" : : "r"(saved_)); }
#elif defined(__arm__)
  FloatEnvironment() {
    __asm__ volatile("vmrs %0, fpscr" : "=r"(saved_));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(0u));
  }
  ~FloatEnvironment() { __asm__ volatile("vmsr fpscr, %0" : : "r"(saved_)); }
#else
  FloatEnvironment() = default;
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__SSE__) || defined(__x86_64__) || defined(__arm__)
  unsigned saved_ = 0;
#else
  std::uint64_t saved_ = 0;
#endif
};

}  // namespace krafla
