"""Q8_0 and Q4_0: blocks of 32 weights of a row, their scales d, and the exact rules by which the writer makes
them.

Everything is float32, one operation at a time: numpy's elementwise operations round as IEEE and never fuse. A
sum over the 32 weights of a block is written out (`sum32`), because np.sum adds in an order of its own. x is
always [n, 32]: n blocks; the vectorization is over blocks, never inside the order of a sum.
"""
from dataclasses import dataclass

import numpy as np

from format_error import FORMAT, SHAPE, bad

BLOCK = 32
F16_MAX = 65504.0
CHUNK_WEIGHTS = 1 << 20  # weights quantized at a time: bounds the temporaries, changes no result
F32 = np.float32


@dataclass
class Quant:
    """A quantized matrix, as the file holds it.

    kind "q8": q int8 [rows, cols]; kind "q4": q uint8 [rows, cols/2], byte j of a block of 16 holds element j
    in its low nibble and element j+16 in its high nibble. d: float32 or float16 [rows, cols/32].
    """

    kind: str
    rows: int
    cols: int
    q: np.ndarray
    d: np.ndarray

    def levels(self):
        """The integers that d multiplies: int8 [rows, cols], -128..127 for q8 and -8..7 for q4."""
        if self.kind == "q8":
            return np.asarray(self.q, np.int8)
        packed = np.asarray(self.q, np.uint8).reshape(self.rows, -1, BLOCK // 2)
        nibbles = np.concatenate([packed & 15, packed >> 4], axis=2)
        return (nibbles.astype(np.int8) - np.int8(8)).reshape(self.rows, self.cols)

    def dequantize(self):
        """The weights, float(level) * float(d) in float32: float32 [rows, cols]."""
        x = self.levels().astype(F32).reshape(self.rows, -1, BLOCK)
        with np.errstate(invalid="ignore"):  # 0 * inf is NaN: any d is legal
            return (x * self.d.astype(F32)[:, :, None]).reshape(self.rows, self.cols)


def fold8(a):
    """A1 of the arithmetic contract: the sum of 8 lanes, [..., 8] -> [...]."""
    return ((a[..., 0] + a[..., 4]) + (a[..., 2] + a[..., 6])) + (
        (a[..., 1] + a[..., 5]) + (a[..., 3] + a[..., 7])
    )


def sum32(v):
    """A2 of the arithmetic contract over a block: lane i mod 8 adds ascending i from +0, then fold8. [n, 32]
    -> [n]."""
    lanes = np.zeros((len(v), 8), F32)
    for i in range(0, BLOCK, 8):
        lanes = lanes + v[:, i : i + 8]
    return fold8(lanes)


def round_half_away(y):
    """trunc(y + copysign(0.5, y)), float32: the page's rounding (the addition itself may round up just below
    a half)."""
    return np.trunc(y + np.copysign(F32(0.5), y))


def matrix(w, name):
    """w as float32 [rows, cols]; refuses shapes that have no blocks (ML_E_SHAPE) and NaN or infinite weights
    (ML_E_FORMAT)."""
    w = np.asarray(w)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused by row below
        w = w.astype(F32, copy=False)
    if w.ndim != 2 or w.shape[1] % BLOCK or 0 in w.shape:
        raise bad(SHAPE, name, f"shape {w.shape}", "[rows, cols] with cols a multiple of 32")
    refuse_not_finite(w, name)
    return w


def refuse_not_finite(w, name):
    """Raises ML_E_FORMAT naming the first row of w [rows, cols] with a NaN or infinite weight."""
    for first in range(0, len(w), 4096):
        rows_ok = np.isfinite(w[first : first + 4096]).all(axis=1)
        if not rows_ok.all():
            row = first + int(np.argmin(rows_ok))
            values = w[row]
            raise bad(
                FORMAT, f"{name} row {row}", f"weight {values[~np.isfinite(values)][0]}", "finite weights"
            )


def store_scales(d, blocks_per_row, scale_f16, name, first_row):
    """d [n] float32 as the file stores it: itself, or the nearest f16. Refuses NaN, inf and, for f16, |d| >
    65504.

    The f16 limit is on d before rounding: 65505 is refused although it would round to 65504.
    """
    limit = F16_MAX if scale_f16 else np.finfo(F32).max
    storable = np.abs(d) <= limit
    if not storable.all():
        i = int(np.argmin(storable))
        allowed = f"finite and at most {'65504 for f16 scales' if scale_f16 else 'the largest float32'}"
        raise bad(
            FORMAT,
            f"{name} row {first_row + i // blocks_per_row}",
            f"weights that need the scale {d[i]}",
            allowed,
        )
    return d.astype(np.float16) if scale_f16 else d


# --- Q8_0 ---------------------------------------------------------------------------------------------------


def quantize_q8(w, scale_f16, name="matrix"):
    """Q8_0 of w [rows, cols] by the page's rule -> Quant.

    f32 scales: amax < 1e-30 gives d = 0, q = 0; else d = amax/127, q = trunc(x*(127/amax) + copysign(0.5, x))
    within +-127. f16 scales: the same d rounded to the nearest f16, and q from x*(1/d) with that d. Where d
    rounds to f16 zero (amax/127 <= 2^-25) or amax < 1e-30: d = 0, q = 0, since 1/d has no value and every
    product would be 0 anyway.
    """
    w = matrix(w, name)
    rows, cols = w.shape
    parts = [_q8_blocks(x, scale_f16, cols // BLOCK, name, row) for x, row in _chunks(w)]
    q, d = (np.concatenate(p) for p in zip(*parts))
    return Quant("q8", rows, cols, q.reshape(rows, cols), d.reshape(rows, -1))


def _q8_blocks(x, scale_f16, blocks_per_row, name, first_row):
    """x [n, 32] -> (q int8 [n, 32], d [n])."""
    amax = np.abs(x).max(axis=1)
    empty = amax < F32(1e-30)
    with np.errstate(all="ignore"):  # empty blocks divide by zero and are replaced below
        d = store_scales(np.where(empty, F32(0), amax / F32(127)), blocks_per_row, scale_f16, name, first_row)
        if scale_f16:
            empty = d == 0
            factor = F32(1) / d.astype(F32)
        else:
            factor = F32(127) / amax
        y = x * factor[:, None]
        q = np.clip(np.trunc(y + np.copysign(F32(0.5), x)), F32(-127), F32(127))
    q[empty] = 0
    return q.astype(np.int8), d


# --- Q4_0 ---------------------------------------------------------------------------------------------------


def quantize_q4(w, scale_f16, rule="search", importance=None, name="matrix"):
    """Q4_0 of w [rows, cols] -> Quant.

    rule "search": the best of 13 candidates per block (notes, "Q4_0 search, exactly"); "round": llama.cpp's
    rounding. importance: None (weights x*x) or float32 [cols], the relative importance of each input channel
    (mli.relative). Blocks whose d is stored as zero have nibbles 8 and d = +0. So do blocks too small to
    scale: with "search" those whose 1/magnitude is infinite (magnitude <= 2^-128), with "round" those whose
    1/d is.
    """
    if rule not in ("search", "round"):
        raise ValueError(f"rule {rule!r}: must be 'search' or 'round'")
    if rule == "round" and importance is not None:
        raise ValueError("rule 'round' has no use for an importance")
    w = matrix(w, name)
    rows, cols = w.shape
    if importance is not None:
        importance = np.asarray(importance, F32)
        if importance.shape != (cols,):
            raise bad(SHAPE, name, f"importance of shape {importance.shape}", f"[{cols}]")
    parts = []
    for x, row in _chunks(w):
        if rule == "round":
            levels, d = _q4_round(x)
        else:
            levels, d = _q4_search(x, None if importance is None else _weights(x, importance))
        stored = store_scales(d, cols // BLOCK, scale_f16, name, row)
        levels[stored == 0] = 0
        stored[stored == 0] = 0  # also turns -0 into +0
        parts.append((pack_q4(levels), stored))
    q, d = (np.concatenate(p) for p in zip(*parts))
    return Quant("q4", rows, cols, q.reshape(rows, cols // 2), d.reshape(rows, -1))


def pack_q4(levels):
    """Levels -8..7 [n, 32] -> bytes uint8 [n, 16]: element j low, element j+16 high."""
    nibbles = (levels + 8).astype(np.uint8)
    return nibbles[:, :16] | (nibbles[:, 16:] << 4)


def _largest(x):
    """The signed element of largest magnitude of each block, the first on ties: [n, 32] -> [n]."""
    return x[np.arange(len(x)), np.argmax(np.abs(x), axis=1)]


def _q4_round(x):
    """d = largest / -8, level = min(trunc(x*(1/d) + 8.5), 15) - 8. The levels use d as it is before any f16
    rounding, as llama.cpp does. -> (levels float32 [n, 32], d [n])."""
    with np.errstate(all="ignore"):
        d = _largest(x) / F32(-8)
        inverse = F32(1) / d
        d = np.where(np.isfinite(inverse), d, F32(0))
        nibbles = np.trunc(x * inverse[:, None] + F32(8.5))
    levels = np.minimum(nibbles, F32(15)) - F32(8)
    levels[d == 0] = 0
    return levels, d


def _q4_search(x, weights):
    """The search: x [n, 32], weights [n, 32] or None for x*x of the scaled block -> (levels float32 [n, 32],
    d [n])."""
    with np.errstate(
        all="ignore"
    ):  # zero blocks make NaN and are replaced at the end; overflow is refused by its d
        largest = _largest(x)
        magnitude = np.abs(largest)
        scale = np.where(magnitude < F32(1e-6), F32(1) / magnitude, F32(1))
        empty = ~np.isfinite(scale)  # zero, or so small that the inverse overflows
        scale = np.where(empty, F32(1), scale)
        x, largest = x * scale[:, None], largest * scale
        if weights is None:
            weights = x * x
        else:
            lost = (weights == 0).all(axis=1)  # s2 + x*x underflowed in the whole block: fall back to x*x
            weights = np.where(lost[:, None], x * x, weights)
        best_d, best_levels, best_error = _candidate(x, weights, largest, 0)
        for k in range(1, 13):
            d, levels, error = _candidate(x, weights, largest, k)
            better = error < best_error  # false for NaN: the earlier candidate stays
            best_d = np.where(better, d, best_d)
            best_levels = np.where(better[:, None], levels, best_levels)
            best_error = np.where(better, error, best_error)
        best_d = best_d / scale
    best_d[empty] = 0
    best_levels[empty] = 0
    return best_levels, best_d


def _candidate(x, w, largest, k):
    """Candidate k: the largest element (its value: largest [n]) mapped to -6 - 0.2 k, d fitted by weighted
    least squares.

    -> (d [n], levels [n, 32], error [n]). A square is one factor: w*(level*level), w*(e*e).
    """
    inverse = F32(-6 - 0.2 * k) / largest
    levels = np.clip(round_half_away(x * inverse[:, None]), F32(-8), F32(7))
    d = sum32((w * x) * levels) / sum32(w * (levels * levels))
    e = x - d[:, None] * levels
    return d, levels, sum32(w * (e * e))


def _weights(x, importance):
    """The imatrix weights imp * sqrt(s2 + x*x) of whole rows, given as blocks x [rows * cols/32, 32] -> the
    same shape.

    s2, the mean square of the row, is a float64 sum in ascending order, rounded once; x is not scaled here.
    """
    rows = x.reshape(-1, len(importance))
    wide = rows.astype(np.float64)
    s2 = np.cumsum(wide * wide, axis=1)[:, -1] / len(importance)  # cumsum adds one by one, in order
    with np.errstate(all="ignore"):
        w = importance * np.sqrt(s2.astype(F32)[:, None] + rows * rows)
    return w.reshape(-1, BLOCK)


def _chunks(w):
    """Groups of whole rows of w as (blocks [n, 32], first row)."""
    step = max(1, CHUNK_WEIGHTS // w.shape[1])
    for row in range(0, len(w), step):
        yield w[row : row + step].reshape(-1, BLOCK), row
