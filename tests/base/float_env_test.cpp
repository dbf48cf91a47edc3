#include "base/float_env.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace krafla {
namespace {

#if defined(__SSE__) || defined(__x86_64__)
using State = unsigned;
constexpr State kOdd = 0x1f80 | 0x8040 | 0x2000;  // denormals flushed on both sides, rounding down
State get_state() { return _mm_getcsr(); }
void set_state(State state) { _mm_setcsr(state); }
#elif defined(__aarch64__)
using State = std::uint64_t;
constexpr State kOdd = 1u << 24 | 2u << 22;  // denormals flushed, rounding down
State get_state() {
  State state = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
void set_state(State state) { __asm__ volatile("msr fpcr, %0" : : "r"(state)); }
#elif defined(__arm__)
using State = std::uint32_t;
constexpr State kOdd = 1u << 24 | 2u << 22;  // denormals flushed, rounding down
State get_state() {
  State state = 0;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(state));
  return state;
}
void set_state(State state) { __asm__ volatile("vmsr fpscr, %0" : : "r"(state)); }
#endif

/// What float arithmetic does now; volatile keeps it between the changes of state.
struct Seen {
  volatile float denormal = 1e-40f, one = 1, three = 3;
  volatile float sum = 0, third = 0;
  Seen() {
    sum = denormal + denormal;
    third = one / three;
  }
  bool as_the_contract_says() const { return sum == 0x1.16c2p-132f && third == 0x1.555556p-2f; }
};

TEST(FloatEnvironment, IsTheContractsWhateverTheCallersIs) {
  const State before = get_state();
  set_state(kOdd);
  const Seen odd;
  bool inside = false;
  {
    const FloatEnvironment environment;
    inside = Seen().as_the_contract_says();
  }
  const Seen again;
  set_state(before);
  const Seen usual;
  EXPECT_TRUE(inside);
  EXPECT_TRUE(usual.as_the_contract_says());
  for (const Seen* seen : {&odd, &again}) {
    EXPECT_EQ(seen->sum, 0);
    EXPECT_EQ(seen->third, 0x1.555554p-2f);
  }
}

}  // namespace
}  // namespace krafla
