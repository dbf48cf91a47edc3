#include "base/math.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#ifdef __FAST_MATH__
#error "the arithmetic contract does not hold under -ffast-math"
#endif
static_assert(FLT_EVAL_METHOD == 0,
              "floats must not be kept in a wider type (32-bit x86: compile with -mfpmath=sse -msse2)");

namespace krafla::math {
namespace {

namespace scalar {
using F = float;
template <class>
F set(float x) {
  return x;
}
bool lt(F a, F b) { return a < b; }
bool gt(F a, F b) { return a > b; }
bool is_nan(F a) { return a != a; }
F select(bool m, F a, F b) { return m ? a : b; }
F abs(F a) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) & 0x7fffffffu); }
F copysign(F a, F s) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & 0x7fffffffu) |
                              (std::bit_cast<std::uint32_t>(s) & 0x80000000u));
}
bool all_within(F x, float limit) { return abs(x) <= limit; }
F scale_by_bits(F y, F t) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + (std::bit_cast<std::uint32_t>(t) << 23));
}
#include "base/float_math.inl.h"
}  // namespace scalar

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2Hi = 0x1.62e42fefap-1;
constexpr double kLn2Lo = 0x1.cf79abc9e3b3ap-40;

constexpr double inverse_factorial(int k) {
  double f = 1;
  for (int i = 2; i <= k; ++i) f *= i;  // exact up to 18!
  return 1.0 / f;
}

}  // namespace

float exp(float x) { return scalar::exp(x); }
float tanh(float x) { return scalar::tanh(x); }

double log(double x) {
  if (!(x > 0)) return x == 0 ? -kInf : kNaN;
  if (x == kInf) return kInf;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m = 2 * m;
    exponent -= 1;
  }
  const double e = exponent;
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double p = 1.0 / 19;
  for (int k = 17; k >= 3; k -= 2) p = p * z + 1.0 / k;
  const double u = s + s;
  return e * kLn2Hi + ((u + (u * z) * p) + e * kLn2Lo);
}

double exp(double x) {
  if (x != x) return x;
  if (x < -708) return 0;
  if (x > 709) return kInf;
  const double n = (x * 0x1.71547652b82fep+0 + 0x1.8p52) - 0x1.8p52;
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  double p = inverse_factorial(13);
  for (int k = 12; k >= 2; --k) p = p * r + inverse_factorial(k);
  return std::ldexp(1 + (r + (r * r) * p), static_cast<int>(n));
}

double pow(double base, double y) { return exp(y * log(base)); }

SinCos sincos(double x) {
  if (!(std::fabs(x) < 0x1p51)) return {kNaN, kNaN};
  const double n = (x * 0x1.45f306dc9c883p-1 + 0x1.8p52) - 0x1.8p52;
  const double r = ((x - n * 0x1.921fb54p+0) - n * 0x1.10b461p-30) - n * 0x1.a62633145c06ep-58;
  const double z = r * r;
  double p = -inverse_factorial(15);
  double sign = 1;
  for (int k = 13; k >= 3; k -= 2, sign = -sign) p = p * z + sign * inverse_factorial(k);
  const double sn = r + (r * z) * p;
  p = inverse_factorial(16);
  sign = -1;
  for (int k = 14; k >= 4; k -= 2, sign = -sign) p = p * z + sign * inverse_factorial(k);
  const double cs = (1 - 0.5 * z) + (z * z) * p;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0: return {sn, cs};
    case 1: return {cs, -sn};
    case 2: return {-sn, -cs};
    default: return {-cs, sn};
  }
}

float log(float x) { return static_cast<float>(log(static_cast<double>(x))); }

float log1p(float x) {
  const double u = 1 + static_cast<double>(x);
  if (u == 1) return x;
  return static_cast<float>(log(u) * (static_cast<double>(x) / (u - 1)));
}

}  // namespace krafla::math
