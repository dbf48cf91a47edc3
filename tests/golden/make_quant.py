#!/usr/bin/env python3
"""Writes tests/data/quant: rows of floats and the blocks that tools/quantize.py makes of them. The C++ code
must match them bit for bit.

inputs.bin: [rows, cols] float32; importance.bin: [cols] float32; expected.bin: for each entry of cases.json,
in order, the quants of all rows and then their scales.
"""
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tools")]
from quantize import quantize_q4, quantize_q8

OUT = HERE.parent / "data" / "quant"
COLS = 288  # nine blocks: one beyond a vector of eight


def rows():
    """Difficult rows: ordinary weights, sizes from denormal to huge, ties, halves, spikes, blocks of
    different sizes."""
    rng = np.random.RandomState(5)
    normal = rng.standard_normal((16, COLS)).astype(np.float32)
    out = [
        *normal[:6] * np.float32(0.02),
        normal[6] * np.float32(1e-7),
        normal[7] * np.float32(1e-20),
        normal[8] * np.float32(1e-36),
        normal[9] * np.float32(1e-40),
        normal[10] * np.float32(1e10),
        normal[11] * np.float32(5e5),
    ]
    out.append(np.zeros(COLS, np.float32))
    spike = np.zeros(COLS, np.float32)
    spike[::32] = rng.standard_normal(9)
    out.append(spike)
    ties = rng.choice(
        np.array([-1, 1, 0.5, -0.5, 0], np.float32), COLS
    )  # the first of equal magnitudes decides the sign
    out.append(ties)
    out.append((np.arange(COLS) % 17 - 8).astype(np.float32) / 2)  # halves between levels
    half = ((np.arange(COLS) % 255 - 127) / np.float32(2)).astype(np.float32)
    out.append(half)
    out.append(np.nextafter(half, np.float32(0)))
    sizes = np.repeat(np.float32(10) ** np.arange(-40, 5, 5, dtype=np.float32)[:9], 32)
    out.append(normal[12] * sizes)
    out.append(-np.abs(normal[13]))
    out.append(np.where(rng.rand(COLS) < 0.5, np.float32(-0.0), np.float32(1e-30)).astype(np.float32))
    out.append(np.full(COLS, 0.37, np.float32))
    out.append((rng.standard_t(2, COLS) * 0.01).astype(np.float32))  # heavy tails
    return np.stack(out)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    x = rows()
    x16 = x.copy()
    x16[np.abs(x16) > 3e5] = 3e5  # what f16 scales can hold
    importance = np.maximum(np.random.RandomState(6).gamma(0.5, 2, COLS), 0.001).astype(np.float32)
    cases, data = [], b""
    for f16 in (False, True):
        for kind, rule, weighted in (
            ("q8", "", False),
            ("q4", "search", False),
            ("q4", "search", True),
            ("q4", "round", False),
        ):
            source = x16 if f16 else x
            if kind == "q8":
                quant = quantize_q8(source, f16)
            else:
                quant = quantize_q4(source, f16, rule, importance if weighted else None)
            q, d = quant.q.tobytes(), quant.d.tobytes()
            cases.append(
                {
                    "kind": kind,
                    "rule": rule,
                    "f16": f16,
                    "importance": weighted,
                    "q_bytes": len(q),
                    "d_bytes": len(d),
                }
            )
            data += q + d
    (OUT / "inputs_f32.bin").write_bytes(x.tobytes())
    (OUT / "inputs_f16.bin").write_bytes(x16.tobytes())
    (OUT / "importance.bin").write_bytes(importance.tobytes())
    (OUT / "expected.bin").write_bytes(data)
    (OUT / "cases.json").write_text(
        json.dumps({"rows": len(x), "cols": COLS, "cases": cases}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
