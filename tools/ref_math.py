"""The primitives of docs/arithmetic.md in numpy: A10 (functions), A1/A2 (sums), A3 (quantized matrix x
vector).

numpy does one elementwise operation at a time, so each multiply and add rounds by itself, as the page asks.
Sums over an axis are explicit loops, never np.sum. No libm: np.exp, np.sin and their kin do not occur in this
file; trunc, frexp, ldexp, sqrt and / are exact or correctly rounded everywhere.
"""
import math

import numpy as np

F32, F64, U32 = np.float32, np.float64, np.uint32


def f(hexa):
    """float32 constant from a hexadecimal float that must be exact in float32."""
    value = float.fromhex(hexa)
    assert float(F32(value)) == value, hexa
    return F32(value)


def d(hexa):
    return F64(float.fromhex(hexa))


# ---------------------------------------------------------------- A10, float

LOG2E_F, MAGIC_F = f("0x1.715476p+0"), f("0x1.8p23")
LN2_HI_F, LN2_LO_F = f("0x1.63p-1"), f("0x1.bd0106p-13")
EXP_LOW_F, EXP_HIGH_F = F32(-87.33), f("0x1.62e42ep+6")
EXP_C = [f(c) for c in ("0x1.fffffcp-2", "0x1.555492p-3", "0x1.5558f2p-5", "0x1.1239e2p-7", "0x1.6a2434p-10")]
TANH_T = [
    f(t) for t in ("-0x1.555534p-2", "0x1.110768p-3", "-0x1.b84448p-5", "0x1.5256d8p-6", "-0x1.76ac1ap-8")
]
GELU_C, GELU_CUBE = f("0x1.988454p-1"), f("0x1.6e4e26p-5")


def _horner(coefficients, x):
    """((c[n]*x + c[n-1])*x + ...)*x + c[0], each operation rounded to x's type."""
    p = coefficients[-1]
    for c in coefficients[-2::-1]:
        p = p * x + c
    return p


def exp32(x):
    """exp of a float32 array, bit for bit as A10."""
    x = np.asarray(x, F32)
    with np.errstate(all="ignore"):
        t = x * LOG2E_F + MAGIC_F
        n = t - MAGIC_F
        r = (x - n * LN2_HI_F) + n * LN2_LO_F
        y = F32(1) + (r + (r * r) * _horner(EXP_C, r))
        y = np.asarray(y.view(U32) + (t.view(U32) << U32(23))).view(F32)
        y = np.where(x > EXP_HIGH_F, F32(np.inf), y)
        y = np.where(x < EXP_LOW_F, F32(0), y)
        return np.where(np.isnan(x), F32(np.nan), y)


def tanh32(x):
    x = np.asarray(x, F32)
    with np.errstate(all="ignore"):
        a = np.abs(x)
        z = x * x
        small = x + (x * z) * _horner(TANH_T, z)
        large = np.copysign(F32(1) - F32(2) / (exp32(a + a) + F32(1)), x)
        return np.where(a < F32(0.625), small, large)


def log32(x):
    with np.errstate(all="ignore"):
        return log64(np.asarray(x, F32).astype(F64)).astype(F32)


def log1p32(x):
    """log(1 + x) of a float32 array, x >= 0."""
    x = np.asarray(x, F32)
    with np.errstate(all="ignore"):
        wide = x.astype(F64)
        u = F64(1) + wide
        y = (log64(u) * (wide / (u - F64(1)))).astype(F32)
        return np.where(u == F64(1), x, y)


# ---------------------------------------------------------------- A10, double

LN2_HI, LN2_LO, LOG2E = d("0x1.62e42fefap-1"), d("0x1.cf79abc9e3b3ap-40"), d("0x1.71547652b82fep+0")
MAGIC, SQRT_HALF = d("0x1.8p52"), d("0x1.6a09e667f3bcdp-1")
TWO_PI, TWO_OVER_PI = d("0x1.921fb54442d18p+2"), d("0x1.45f306dc9c883p-1")
PIO2_1, PIO2_2, PIO2_3 = d("0x1.921fb54p+0"), d("0x1.10b461p-30"), d("0x1.a62633145c06ep-58")


def log64(x):
    x = np.asarray(x, F64)
    with np.errstate(all="ignore"):
        m, e = np.frexp(x)
        low = m < SQRT_HALF
        m = np.where(low, m + m, m)
        e = np.where(low, e - 1, e).astype(F64)
        s = (m - F64(1)) / (m + F64(1))
        z = s * s
        p = F64(1) / F64(19)
        for k in range(17, 2, -2):
            p = p * z + F64(1) / F64(k)
        u = s + s
        y = e * LN2_HI + ((u + (u * z) * p) + e * LN2_LO)
        y = np.where(x == 0, F64(-np.inf), y)
        y = np.where(x == np.inf, F64(np.inf), y)
        return np.where((x < 0) | np.isnan(x), F64(np.nan), y)


def exp64(x):
    x = np.asarray(x, F64)
    with np.errstate(all="ignore"):
        inside = (x >= -708) & (x <= 709)
        xs = np.where(inside, x, F64(0))
        n = (xs * LOG2E + MAGIC) - MAGIC
        r = (xs - n * LN2_HI) - n * LN2_LO
        p = F64(1) / F64(math.factorial(13))
        for k in range(12, 1, -1):
            p = p * r + F64(1) / F64(math.factorial(k))
        y = np.ldexp(F64(1) + (r + (r * r) * p), n.astype(np.int32))
        y = np.where(x < -708, F64(0), y)
        y = np.where(x > 709, F64(np.inf), y)
        return np.where(np.isnan(x), F64(np.nan), y)


def pow64(b, y):
    return exp64(y * log64(b))


def sincos64(x):
    """(sin x, cos x) of a float64 array."""
    x = np.asarray(x, F64)
    with np.errstate(all="ignore"):
        legal = np.abs(x) < F64(2.0**51)
        xs = np.where(legal, x, F64(0))
        n = (xs * TWO_OVER_PI + MAGIC) - MAGIC
        r = ((xs - n * PIO2_1) - n * PIO2_2) - n * PIO2_3
        z = r * r
        p = F64(-1) / F64(math.factorial(15))
        for k in range(13, 2, -2):
            p = p * z + F64(1 if k % 4 == 1 else -1) / F64(math.factorial(k))
        sn = r + (r * z) * p
        p = F64(1) / F64(math.factorial(16))
        for k in range(14, 3, -2):
            p = p * z + F64(1 if k % 4 == 0 else -1) / F64(math.factorial(k))
        cs = (F64(1) - F64(0.5) * z) + (z * z) * p
        q = n.astype(np.int64) & 3
        nan = F64(np.nan)
        sin = np.where(legal, np.choose(q, [sn, cs, -sn, -cs]), nan)
        cos = np.where(legal, np.choose(q, [cs, -sn, -cs, sn]), nan)
        return sin, cos


# ---------------------------------------------------------------- A1, A2: sums


def fold8(a):
    """Sum of 8 lanes: a [8, ...] -> [...]."""
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))


def sum8(x):
    """A2 over the last axis of a float32 array: [..., n] -> [...]."""
    lanes = np.zeros((8,) + x.shape[:-1], F32)
    for i in range(x.shape[-1]):
        lanes[i % 8] += x[..., i]
    return fold8(lanes)


# ---------------------------------------------------------------- A3: quantized matrix x vector


def quantize_rows(x):
    """Activations [T, n] float32 -> quants [T, n] int32 in -127..127, scales [T, n/32] float32."""
    blocks = np.ascontiguousarray(x, F32).reshape(x.shape[0], -1, 32)
    with np.errstate(all="ignore"):
        amax = (blocks.view(U32) & U32(0x7FFFFFFF)).max(axis=-1).view(F32)  # by its bits: NaN > inf > finite
        finite, tiny = np.isfinite(amax), amax < F32(1e-30)
        scale = np.where(tiny, F32(0), amax / F32(127))
        scale = np.where(finite, scale, F32(np.nan))
        v = blocks * (F32(127) / amax)[..., None]
        q = np.trunc(v + np.copysign(F32(0.5), v))
        q = np.where((finite & ~tiny)[..., None], q, F32(0))
        q = np.clip(q, F32(-127), F32(127))
    return q.astype(np.int32).reshape(x.shape), scale


def quant_matmul(x, levels, scales):
    """A3: x [T, cols] float32, levels [rows, cols] int8, scales [rows, cols/32] -> [T, rows] float32.

    isum comes from a float32 matrix product: its terms and all partial sums are integers below 2^24 (at most
    32*127*128), hence exact in any order.
    """
    xq, dx = quantize_rows(x)
    dw = np.asarray(scales).astype(F32)
    xf, wf = xq.astype(F32), np.asarray(levels).astype(F32)
    lanes = np.zeros((8, x.shape[0], wf.shape[0]), F32)
    with np.errstate(all="ignore"):
        for b in range(dw.shape[1]):
            isum = xf[:, 32 * b : 32 * b + 32] @ wf[:, 32 * b : 32 * b + 32].T
            lanes[b % 8] += isum * (dw[None, :, b] * dx[:, b, None])
        return fold8(lanes)


# ---------------------------------------------------------------- A6: the KV cache in q8_0


def kv_q8(x):
    """x [..., d] float32 quantized in blocks of 32 along d, the last may be shorter, and back: q * d."""
    x = np.asarray(x, F32)
    wide = -(-x.shape[-1] // 32) * 32
    blocks = np.zeros(x.shape[:-1] + (wide,), F32)
    blocks[..., : x.shape[-1]] = x
    blocks = blocks.reshape(x.shape[:-1] + (wide // 32, 32))
    with np.errstate(all="ignore"):
        amax = (blocks.view(U32) & U32(0x7FFFFFFF)).max(axis=-1).view(F32)  # by its bits: NaN > inf > finite
        scale = (amax / F32(127)).astype(np.float16).astype(F32)
        finite = np.isfinite(scale)
        y = blocks * (F32(1) / scale)[..., None]
        q = np.clip(np.trunc(y + np.copysign(F32(0.5), y)), F32(-127), F32(127))
        q = np.where((finite & (scale > 0))[..., None], q, F32(0))
        decoded = (q + F32(0)) * np.where(finite, scale, F32(np.nan))[..., None]  # an int8 has no -0
    return decoded.reshape(x.shape[:-1] + (wide,))[..., : x.shape[-1]]
