// Mathematical functions exactly as docs/arithmetic.md A10 defines them, so that no result of the engine
// depends on libm.
#pragma once

namespace krafla::math {

float exp(float x);                 ///< +0 below -87.33, +inf above 88.7228, exactly 1 at 0; NaN stays NaN.
float tanh(float x);                ///< NaN stays NaN.
float log(float x);                 ///< -inf at 0, NaN below.
float log1p(float x);               ///< log(1 + x) for x >= 0.
double exp(double x);               ///< +0 below -708, +inf above 709.
double log(double x);               ///< -inf at 0, NaN below.
double pow(double base, double y);  ///< base > 0.

struct SinCos {
  double sin, cos;
};
SinCos sincos(double x);  ///< |x| < 2^51, else NaN; accurate to about 1e-16 for |x| up to 2^24.

}  // namespace krafla::math
