#!/usr/bin/env python3
"""Writes tests/data/gguf_blocks.json: random blocks of ggml's tensor types and their values, computed by the
PyPI package gguf.

An independent reference for dequantize_row. Needs `pip install gguf` (written with 0.19.0); the tests do not.
"""
import json
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

OUT = Path(__file__).resolve().parent.parent / "data" / "gguf_blocks.json"
# Per type: where in a block its half floats lie.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "TQ1_0": [52],
    "TQ2_0": [64],
    "MXFP4": [],
}
SCALES = [0.0123, -1.75, 6e-8, 60000.0, 0.0]  # also a denormal, a zero and one near the limit


def main():
    rng = np.random.default_rng(20)
    out = []
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (len(SCALES), size), dtype=np.uint8)
        for i, scale in enumerate(SCALES):
            for k, at in enumerate(halves):
                blocks[i, at : at + 2] = np.frombuffer(np.float16(scale / (1 + k)).tobytes(), np.uint8)
            if name == "MXFP4":
                blocks[i, 0] = (0, 1, 2, 127, 130)[i]
        if elements == 256:
            blocks = blocks[:3]
        values = dequantize(blocks.reshape(-1), kind).astype("<f4").reshape(-1)
        assert values.size == len(blocks) * elements and np.isfinite(values).all()
        out.append(
            {
                "type": int(kind),
                "name": name,
                "bytes": blocks.tobytes().hex(),
                "floats": values.tobytes().hex(),
            }
        )
    OUT.write_text(json.dumps(out, indent=0) + "\n")


if __name__ == "__main__":
    main()
