"""tools/mlb.py against the format page: offsets, golden files, canonical writer, quantization worked out by
hand.

Run: python3 -m unittest tests/python/test_mlb.py   (needs numpy; also runs under pytest)
"""
import contextlib
import io
import json
import math
import struct
import sys
import tempfile
import tracemalloc
import unittest
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import mlb  # noqa: E402
import mli  # noqa: E402

DATA = ROOT / "tests/data"
READERS = {".mlb": mlb.read, ".mlt": mlb.read_mlt, ".mli": mlb.read_mli}

# The page's table, typed in by hand.
OFFSETS = {
    "dim": 8,
    "n_layers": 12,
    "n_heads": 16,
    "n_kv_heads": 20,
    "hidden_dim": 24,
    "vocab": 28,
    "max_seq": 32,
    "rope_theta": 36,
    "norm_eps": 40,
    "wtype": 44,
    "shared_classifier": 48,
    "rope_type": 52,
    "rope_factor": 56,
    "rope_low_freq_factor": 60,
    "rope_high_freq_factor": 64,
    "rope_orig_max_seq": 68,
    "q8_mask": 72,
    "qkv_bias": 76,
    "head_dim": 80,
    "qk_norm": 84,
    "rope_attn_factor": 88,
    "sliding_window": 92,
    "layer_flags": 96,
    "rope_local_theta": 100,
    "act": 104,
    "post_norms": 108,
    "embed_scale": 112,
    "attn_scale": 116,
    "scale_f16": 120,
    "attn_softcap": 124,
    "final_softcap": 128,
    "rot_dim": 132,
    "attn_gate": 136,
    "lin_k_heads": 140,
    "lin_v_heads": 144,
    "lin_k_dim": 148,
    "lin_v_dim": 152,
    "lin_conv": 156,
}
FLOATS = {
    "rope_theta",
    "norm_eps",
    "rope_factor",
    "rope_low_freq_factor",
    "rope_high_freq_factor",
    "rope_attn_factor",
    "rope_local_theta",
    "embed_scale",
    "attn_scale",
    "attn_softcap",
    "final_softcap",
}
SMALL = mlb.Header(
    dim=32,
    n_layers=2,
    n_heads=2,
    n_kv_heads=1,
    hidden_dim=64,
    vocab=5,
    max_seq=16,
    rope_theta=10000.0,
    norm_eps=1e-5,
    wtype=1,
)
LIN = dict(lin_k_heads=2, lin_v_heads=4, lin_k_dim=4, lin_v_dim=8, lin_conv=3)


def manifest(folder):
    return json.loads((DATA / folder / "manifest.json").read_text())


def written(header, flags=None, tensors=None, **options):
    """The bytes mlb.write makes; random tensors unless given."""
    h, f = mlb.canonical(header, flags)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.mlb")
        mlb.write(path, header, flags, mlb.random_tensors(h, f) if tensors is None else tensors, **options)
        return path.read_bytes()


def block(**elements):
    """A float32 block [1, 32]: block(x0=1.0, x17=-2.0)."""
    x = np.zeros((1, 32), np.float32)
    for name, value in elements.items():
        x[0, int(name[1:])] = value
    return x


class HeaderTest(unittest.TestCase):
    def test_fields_lie_where_the_page_says(self):
        self.assertEqual([f.name for f in fields(mlb.Header)], list(OFFSETS))
        for i, (name, offset) in enumerate(OFFSETS.items()):
            value = 1.5 + i if name in FLOATS else 1000 + i
            data = mlb.Header(**{name: value}).pack()
            self.assertEqual(len(data), 256)
            self.assertEqual(data[:8], b"MLB1\1\0\0\0")
            self.assertEqual(
                struct.unpack_from("<f" if name in FLOATS else "<I", data, offset)[0], value, name
            )
            rest = data[8:offset] + data[offset + 4 :]
            self.assertFalse(any(rest), name)
            self.assertEqual(getattr(mlb.Header.unpack(data), name), value)

    def test_values_that_do_not_fit_are_refused(self):
        for changes in ({"dim": -1}, {"dim": 1 << 32}, {"rope_theta": 1e39}):
            with self.assertRaises(mlb.FormatError) as caught:
                replace(SMALL, **changes).pack()
            self.assertIn(next(iter(changes)), caught.exception.message)

    def test_derived_values(self):
        h = replace(SMALL, dim=64, n_heads=4, n_kv_heads=2)
        self.assertEqual((h.hd, h.q_dim, h.kv_dim, h.rd), (16, 64, 32, 16))
        h = replace(h, head_dim=24, rot_dim=6)
        self.assertEqual((h.hd, h.q_dim, h.kv_dim, h.rd), (24, 96, 48, 6))


class LayoutTest(unittest.TestCase):
    def test_offsets_by_hand(self):
        # dim 32, one layer, one head pair, f32 scales, Q8_0: every array padded to 64.
        h = replace(SMALL, n_layers=1, hidden_dim=32, vocab=3)
        got = [(a.name, a.offset, a.d_offset) for a in mlb.layout(h)]
        self.assertEqual(
            got,
            [
                ("tok_emb", 256, 384),  # 96 bytes -> 128; 3 scales, 12 -> 64
                ("layers.0.attn_norm", 448, None),  # 128
                ("layers.0.wq", 576, 1600),  # 1024; 128
                ("layers.0.wk", 1728, 2240),  # 512; 64
                ("layers.0.wv", 2304, 2816),
                ("layers.0.wo", 2880, 3904),
                ("layers.0.ffn_norm", 4032, None),
                ("layers.0.w1", 4160, 5184),
                ("layers.0.w2", 5312, 6336),
                ("layers.0.w3", 6464, 7488),
                ("final_norm", 7616, None),
                ("wcls", 7744, 7872),
            ],
        )
        self.assertEqual(len(written(h)), 7936)

    def test_order_of_everything(self):
        h = replace(SMALL, qkv_bias=1, qk_norm=1, post_norms=1, attn_gate=1, layer_flags=1, **LIN)
        names = [a.name for a in mlb.layout(h, [0, 8])]
        ffn = "ffn_norm w1 w2 w3 post_attn_norm post_ffn_norm".split()
        attention = "attn_norm wq wk wv wo wg bq bk bv q_norm k_norm".split() + ffn
        linear = "attn_norm lqkv lz lb la lconv dt_bias A_log lnorm lout".split() + ffn
        self.assertEqual(
            names,
            ["layer_flags", "tok_emb"]
            + ["layers.0." + n for n in attention]
            + ["layers.1." + n for n in linear]
            + ["final_norm", "wcls"],
        )

    def test_classes(self):
        q8_by_bit = {
            1: {"tok_emb"},
            2: {"wcls"},
            4: {"wq", "wk", "wg", "lqkv"},
            8: {"wv", "lz"},
            16: {"wo", "lout"},
            32: {"w1", "w3"},
            64: {"w2"},
        }
        for bit, names in q8_by_bit.items():
            h = replace(SMALL, wtype=2, q8_mask=bit, attn_gate=1, layer_flags=1, **LIN)
            q8 = {a.name.split(".")[-1] for a in mlb.layout(h, [0, 8]) if a.kind == "q8"}
            self.assertEqual(q8, names | {"lb", "la"}, bit)
            h.shared_classifier = 1
            kinds = {a.name: a.kind for a in mlb.layout(h, [0, 8])}
            self.assertEqual(kinds["tok_emb"], "q8" if bit in (1, 2) else "q4")
            self.assertNotIn("wcls", kinds)


class GoldenTest(unittest.TestCase):
    def test_good_files(self):
        for entry in manifest("good"):
            with self.subTest(entry["file"]):
                path = DATA / "good" / entry["file"]
                content = READERS[path.suffix](path)
                if path.suffix != ".mli":
                    self.assertEqual(content.trailing, entry["trailing"])
                if path.suffix == ".mlb":
                    self.check_model(content, entry, path)
                elif not entry["trailing"] and entry["file"] != "q_dim_written_out.mli":
                    self.assert_rewritten(content, path)

    def check_model(self, m, entry, path):
        for f in fields(m.header):
            wanted, found = entry["header"].get(f.name, 0), getattr(m.header, f.name)
            self.assertTrue(found == wanted or (wanted == "nan" and math.isnan(found)), f.name)
        self.assertEqual(m.layer_flags.tolist(), entry["layer_flags"])
        self.assertEqual(list(m.tensors), [a[0] for a in entry["arrays"] if a[0] != "layer_flags"])
        with tempfile.TemporaryDirectory() as folder:
            again = Path(folder, "again.mlb")
            mlb.write(again, m.header, m.layer_flags, m.tensors)
            self.assertEqual(again.read_bytes() == path.read_bytes(), entry["canonical"])
            once = again.read_bytes()
            m2 = mlb.read(again)
            mlb.write(again, m2.header, m2.layer_flags, m2.tensors)
            self.assertEqual(again.read_bytes(), once)  # writing a canonical file again changes nothing

    def assert_rewritten(self, content, path):
        with tempfile.TemporaryDirectory() as folder:
            again = Path(folder, path.name)
            {".mlt": mlb.write_mlt, ".mli": mlb.write_mli}[path.suffix](again, content)
            self.assertEqual(again.read_bytes(), path.read_bytes())

    def test_bad_files(self):
        folder = DATA / "bad"
        for entry in manifest("bad"):
            with self.subTest(entry["file"]):
                path, model = folder / entry["file"], ()
                if "model" in entry:
                    m = mlb.read(folder / entry["model"])
                    model = (m.header, m.layer_flags)
                with self.assertRaises(mlb.FormatError) as caught:
                    READERS[path.suffix](path, *model)
                self.assertEqual(caught.exception.status, entry["status"], caught.exception.message)
                for text in entry["mentions"]:
                    self.assertIn(text, caught.exception.message)

    def test_every_file_has_an_entry(self):
        for folder in ("good", "bad"):
            files = {p.name for p in (DATA / folder).glob("*.ml?")}
            self.assertEqual(files | {"missing.mlb"}, {e["file"] for e in manifest(folder)} | {"missing.mlb"})

    def test_quant_vectors(self):
        data = json.loads((DATA / "good/quant.json").read_text())
        for entry in data["blocks"]:
            x = np.array(entry["x"], "<u4").view("<f4")[None]
            for f16 in (0, 1):
                suffix = f"f{16 if f16 else 32}"
                self.compare(entry[f"q8_{suffix}"], reference_q8(x[0].tolist(), f16))
                self.compare(entry[f"q4_round_{suffix}"], reference_q4_round(x[0].tolist(), f16))
                self.compare(entry[f"q4_search_{suffix}"], reference_q4_search(x[0].tolist(), f16))

    def compare(self, golden, reference):
        """golden: {"d": bits, "q": hex} or None; reference: (d, bytes) or None."""
        if golden is None or reference is None:
            self.assertEqual(golden, reference)
            return
        d, q, f16 = reference
        self.assertEqual(golden["q"], q.hex())
        self.assertEqual(golden["d"], int.from_bytes(struct.pack("<e" if f16 else "<f", d), "little"))


# --- a second implementation of the rules: one number at a time, every result of a double operation rounded
# to float ----


def f(x):
    """x rounded to float32. +, -, *, / and sqrt of floats done in double and then rounded are IEEE float
    operations."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def half_away(y, sign):
    return math.trunc(f(y + math.copysign(0.5, sign)))


def stored(d, f16):
    """d as stored, or None if it cannot be."""
    if not math.isfinite(d) or (f16 and abs(d) > 65504):
        return None
    return struct.unpack("<e", struct.pack("<e", d))[0] if f16 else d


def reference_q8(x, f16):
    amax = max(map(abs, x))
    if amax < f(1e-30):
        return 0.0, bytes(32), f16
    d = stored(f(amax / 127), f16)
    if d is None:
        return None
    if d == 0:
        return 0.0, bytes(32), f16
    factor = f(1 / d) if f16 else f(127 / amax)
    q = [max(-127, min(127, half_away(f(v * factor), v))) for v in x]
    return d, struct.pack("32b", *q), f16


def packed(levels):
    return bytes(levels[j] + 8 | (levels[j + 16] + 8) << 4 for j in range(16))


def reference_q4_round(x, f16):
    largest = max(x, key=abs)  # the first on ties
    d = f(largest / -8)
    if d == 0 or f(1 / d) in (math.inf, -math.inf):
        return 0.0, packed([0] * 32), f16
    levels = [min(15, math.trunc(f(f(v * f(1 / d)) + 8.5))) - 8 for v in x]
    d = stored(d, f16)
    return None if d is None else (d, packed(levels), f16) if d else (0.0, packed([0] * 32), f16)


def sum32(values):
    lanes = [0.0] * 8
    for i, v in enumerate(values):
        lanes[i % 8] = f(lanes[i % 8] + v)
    a = lanes
    return f(f(f(a[0] + a[4]) + f(a[2] + a[6])) + f(f(a[1] + a[5]) + f(a[3] + a[7])))


def reference_q4_search(x, f16, weights=None):
    at = max(range(32), key=lambda i: abs(x[i]))
    magnitude = abs(x[at])
    scale = 1.0
    if magnitude < f(1e-6):
        if magnitude == 0 or math.isinf(scale := f(1 / magnitude)):
            return 0.0, packed([0] * 32), f16
        x = [f(v * scale) for v in x]
    w = weights or [f(v * v) for v in x]
    best = None
    for k in range(13):
        inverse = f(f(-6 - 0.2 * k) / x[at])
        levels = [max(-8, min(7, half_away(f(v * inverse), f(v * inverse)))) for v in x]
        d = f(
            sum32([f(f(wi * v) * n) for wi, v, n in zip(w, x, levels)])
            / sum32([f(wi * (n * n)) for wi, n in zip(w, levels)])
        )
        errors = [f(v - f(d * n)) for v, n in zip(x, levels)]
        error = sum32([f(wi * f(e * e)) for wi, e in zip(w, errors)])
        if best is None or error < best[0]:
            best = error, d, levels
    d = stored(f(best[1] / scale), f16)
    return None if d is None else (d, packed(best[2]), f16) if d else (0.0, packed([0] * 32), f16)


class Q8Test(unittest.TestCase):
    def test_by_hand(self):
        # amax 127 gives d = 1, so the quants are the values rounded half away from zero.
        x = block(x0=127, x1=-126.5, x2=0.5, x3=-2.5, x4=1.4999, x5=-0.0, x6=0.49999997, x31=126.49)
        quant = mlb.quantize_q8(x, 0)
        self.assertEqual(quant.d.tolist(), [[1.0]])
        # 0.49999997 + 0.5 rounds to 1 in float32, so it becomes 1: part of the rule.
        self.assertEqual(quant.q[0, :7].tolist(), [127, -127, 1, -3, 1, 0, 1])
        self.assertEqual(quant.q[0, 31], 126)
        self.assertEqual(quant.d.dtype, np.float32)

    def test_small_blocks(self):
        for f16 in (0, 1):
            for v in (0.0, 1e-45, 9.99e-31):
                quant = mlb.quantize_q8(block(x3=v), f16)
                self.assertEqual((quant.d[0, 0], quant.q.any()), (0, False))
        quant = mlb.quantize_q8(block(x3=-1e-30), 0)
        self.assertEqual(quant.q[0, 3], -127)
        self.assertGreater(quant.d[0, 0], 0)

    def test_f16_scale_that_rounds_to_zero(self):
        quant = mlb.quantize_q8(block(x0=127 * 2.0**-25, x1=-1e-9), 1)  # a tie, to even: 0
        self.assertEqual((float(quant.d[0, 0]), quant.q.any()), (0.0, False))
        quant = mlb.quantize_q8(block(x0=127 * 1.5 * 2.0**-25), 1)  # d = 2^-24, x/d = 95.25
        self.assertEqual((float(quant.d[0, 0]), quant.q[0, 0]), (2.0**-24, 95))

    def test_f16_quants_are_against_the_rounded_scale(self):
        # d = 1 + 2^-11 is a tie and rounds to 1; x/d = 127.06 is clamped to 127. The next f16 up: 1 + 3*2^-11
        # -> 1 + 2^-9.
        quant = mlb.quantize_q8(block(x0=127 * (1 + 2.0**-11)), 1)
        self.assertEqual((float(quant.d[0, 0]), quant.q[0, 0]), (1.0, 127))
        quant = mlb.quantize_q8(block(x0=127 * (1 + 3 * 2.0**-11), x1=100.05), 1)
        self.assertEqual((float(quant.d[0, 0]), quant.q[0, 0], quant.q[0, 1]), (1 + 2.0**-9, 127, 100))

    def test_limit_of_f16_scales(self):
        self.assertEqual(float(mlb.quantize_q8(block(x0=65504 * 127), 1).d[0, 0]), 65504)
        w = np.concatenate([block(x0=1.0), block(x0=65504 * 127 + 1)])
        with self.assertRaises(mlb.FormatError) as caught:
            mlb.quantize_q8(w, 1, "layers.0.wq")
        self.assertIn("layers.0.wq row 1", caught.exception.message)
        mlb.quantize_q8(w, 0)

    def test_bad_weights_are_named(self):
        for value in (math.nan, math.inf, -math.inf, 1e39):
            w = np.zeros((7, 64))
            w[5, 40] = value
            for quantize in (mlb.quantize_q8, mlb.quantize_q4):
                with self.assertRaises(mlb.FormatError) as caught:
                    quantize(w, 0, name="layers.3.w2")
                self.assertEqual(caught.exception.status, "ML_E_FORMAT")
                self.assertIn("layers.3.w2 row 5", caught.exception.message)


class Q4Test(unittest.TestCase):
    def test_packing(self):
        quant = mlb.quantize_q4(block(x0=-8, x16=7, x1=3, x17=-2), 0, "round")
        self.assertEqual(float(quant.d[0, 0]), 1.0)
        # element 0: nibble 0, element 16: nibble 15; element 1: 11, element 17: 6; all others 8.
        self.assertEqual(quant.q.tobytes(), bytes([0xF0, 0x6B] + [0x88] * 14))
        self.assertEqual(quant.levels()[0, [0, 16, 1, 17, 2]].tolist(), [-8, 7, 3, -2, 0])
        self.assertEqual(quant.dequantize()[0, [0, 16, 1, 17]].tolist(), [-8, 7, 3, -2])

    def test_round_rule(self):
        # The largest is +16, the first of a tie: d = -2; 16 -> level -8, -16 -> 16 capped to 15, that is 7.
        quant = mlb.quantize_q4(block(x0=16, x1=-16, x2=1, x3=-1, x4=3), 0, "round")
        self.assertEqual(float(quant.d[0, 0]), -2.0)
        # 1/-2 = -0.5 + 8.5 = 8 -> 0; +0.5 + 8.5 = 9 -> 1; -1.5 + 8.5 = 7 -> -1: halves go up.
        self.assertEqual(quant.levels()[0, :6].tolist(), [-8, 7, 0, 1, -1, 0])

    def test_round_rule_uses_the_unrounded_scale(self):
        d = 1 + 3 * 2.0**-12  # stored as 1 + 2^-10 in f16
        x = block(x0=-8 * d, x1=5.5 * d)
        quant = mlb.quantize_q4(x, 1, "round")
        self.assertEqual((float(quant.d[0, 0]), quant.levels()[0, 1]), (1 + 2.0**-10, 6))
        self.assertLess(5.5 * d / (1 + 2.0**-10), 5.5)  # against the stored one it would be 5

    def test_zero_and_tiny_blocks(self):
        for rule in ("search", "round"):
            for v in (0.0, -0.0, 1e-45, 1e-39):
                quant = mlb.quantize_q4(block(x2=v), 0, rule)
                # 1/1e-39 overflows (1e-39 < 2^-128): treated as zero
                self.assertEqual(quant.d.tobytes(), bytes(4), (rule, v))
                self.assertEqual(quant.q.tobytes(), b"\x88" * 16)
            for v in (
                1e-38 if rule == "search" else 1e-37,
                1e-30,
                9e-7,
            ):  # "round" loses 1e-38: 1/(1e-38/8) overflows
                x = block(x2=v, x3=-v / 2)
                quant = mlb.quantize_q4(x, 0, rule)
                self.assertTrue(np.isfinite(quant.d).all())
                np.testing.assert_allclose(quant.dequantize(), x, atol=v * 0.07)
            quant = mlb.quantize_q4(block(x2=1e-8), 1, rule)  # d is below half of the least f16
            self.assertEqual((quant.d.tobytes(), quant.q.tobytes()), (b"\0\0", b"\x88" * 16))

    def test_search_single_element(self):
        # Every candidate fits one element; the first, level -6, is exact: d = -6/36, and float(1/6)*6 = 1.
        quant = mlb.quantize_q4(block(x20=1.0), 0)
        self.assertEqual(quant.levels()[0, 20], -6)
        self.assertEqual(quant.d[0, 0], np.float32(-1 / 6))

    def test_search_finds_a_grid(self):
        levels = np.concatenate([np.arange(-8, 8), np.arange(7, -9, -1)])
        for step in (2.0, -0.25):
            quant = mlb.quantize_q4((levels * step).astype(np.float32)[None], 1)
            self.assertEqual(quant.levels()[0].tolist(), levels.tolist())
            self.assertEqual(float(quant.d[0, 0]), step)

    def test_search_is_not_worse_than_round(self):
        x = (np.random.RandomState(0).standard_normal((50, 64)) * 0.03).astype(np.float32)
        w = x.astype(float) ** 2
        errors = [
            (w * (x - mlb.quantize_q4(x, 0, rule).dequantize()) ** 2).sum() for rule in ("search", "round")
        ]
        self.assertLess(errors[0], 0.8 * errors[1])

    def test_scale_limits(self):
        with self.assertRaises(mlb.FormatError):
            mlb.quantize_q4(block(x0=65504 * 8 + 1), 1, "round")
        mlb.quantize_q4(block(x0=65504 * 8), 1, "round")
        with self.assertRaises(mlb.FormatError):
            mlb.quantize_q4(block(x0=6e5), 1, "search")
        with self.assertRaises(mlb.FormatError) as caught:
            mlb.quantize_q4(block(x0=1e30), 0, "search", name="w")  # cubes overflow: no finite d
        self.assertIn("w row 0", caught.exception.message)

    def test_chunks_change_nothing(self):
        import quantize

        x = np.random.RandomState(1).standard_normal((9, 64)).astype(np.float32)
        whole = mlb.quantize_q4(x, 0, importance=np.ones(64))
        step, quantize.CHUNK_WEIGHTS = quantize.CHUNK_WEIGHTS, 128
        try:
            parts = mlb.quantize_q4(x, 0, importance=np.ones(64))
        finally:
            quantize.CHUNK_WEIGHTS = step
        self.assertEqual((whole.q.tobytes(), whole.d.tobytes()), (parts.q.tobytes(), parts.d.tobytes()))


class ImportanceTest(unittest.TestCase):
    def test_relative_by_hand(self):
        # mean squares 1, 3, 0, 4 over 2 tokens; their mean is 2; the floor is 0.001.
        self.assertEqual(
            mli.relative(np.array([2.0, 6.0, 0.0, 8.0]), 2).tolist(), [0.5, 1.5, np.float32(0.001), 2.0]
        )

    def test_weights_against_scalar_code(self):
        rng = np.random.RandomState(2)
        x = (rng.standard_normal((3, 64)) * 0.1).astype(np.float32)
        x[1, :32] *= np.float32(1e-6)  # a tiny block in a row of ordinary size
        imp = rng.uniform(0.001, 4, 64).astype(np.float32)
        quant = mlb.quantize_q4(x, 0, "search", imp)
        for row in range(3):
            values = [float(v) for v in x[row]]
            total = 0.0
            for v in values:
                total += v * v
            s2 = f(total / 64)
            weights = [f(float(i) * f(math.sqrt(f(s2 + f(v * v))))) for i, v in zip(imp, values)]
            for b in (0, 1):
                d, q, _ = reference_q4_search(values[32 * b : 32 * b + 32], 0, weights[32 * b : 32 * b + 32])
                self.assertEqual(quant.q[row, 16 * b : 16 * b + 16].tobytes(), q)
                self.assertEqual(float(quant.d[row, b]), d)

    def test_weights_that_underflow(self):
        x = np.full((1, 32), 1e-30, np.float32)
        x[0, ::2] = -5e-31
        plain, weighted = mlb.quantize_q4(x, 0), mlb.quantize_q4(x, 0, importance=np.ones(32))
        self.assertEqual((plain.q.tobytes(), plain.d.tobytes()), (weighted.q.tobytes(), weighted.d.tobytes()))

    def test_slots(self):
        h = replace(SMALL, wtype=2, head_dim=32)  # q_dim 64
        layers = [
            [np.full(n, 1.0 + i) + np.arange(n) for i, n in enumerate((32, 64, 32, 64))] for _ in range(2)
        ]
        m = mlb.Importance(32, 64, 64, 10, 5, layers, np.arange(1.0, 33))
        tensors = mlb.random_tensors(h)
        got = mlb.read(written(h, None, tensors, importance=m)).tensors
        for name, sums in {
            "layers.1.wq": layers[1][0],
            "layers.0.wv": layers[0][0],
            "layers.0.wo": layers[0][1],
            "layers.1.w3": layers[1][2],
            "layers.1.w2": layers[1][3],
            "wcls": m.classifier,
        }.items():
            wanted = mlb.quantize_q4(
                tensors[name], 0, "search", mli.relative(sums, 5 if name == "wcls" else 10)
            )
            self.assertEqual(got[name].q.tobytes(), wanted.q.tobytes(), name)
        self.assertEqual(got["tok_emb"].q.tobytes(), mlb.quantize_q4(tensors["tok_emb"], 0).q.tobytes())
        self.assertIsNotNone(m.relative("tok_emb", 1))
        with self.assertRaises(mlb.FormatError) as caught:
            written(replace(h, hidden_dim=96), importance=m)
        self.assertEqual(caught.exception.status, "ML_E_SHAPE")


class WriterTest(unittest.TestCase):
    def test_zero_where_zero_means_the_same(self):
        plain = written(SMALL)
        same = dict(
            head_dim=16,
            rot_dim=16,
            attn_scale=0.25,
            embed_scale=1.0,
            rope_factor=3.0,
            rope_low_freq_factor=1.0,
            rope_high_freq_factor=2.0,
            rope_orig_max_seq=7,
            rope_local_theta=5.0,
            attn_softcap=-0.0,
            layer_flags=1,
            **LIN,
        )
        for changes in [same] + [{k: v} for k, v in same.items() if not k.startswith("lin_")]:
            self.assertEqual(written(replace(SMALL, **changes)), plain, changes)
        self.assertNotEqual(written(replace(SMALL, attn_scale=0.26)), plain)

    def test_shared_classifier_and_its_mask(self):
        h = replace(SMALL, wtype=2, shared_classifier=1, q8_mask=1)
        for changes in ({"shared_classifier": 9}, {"q8_mask": 2}, {"q8_mask": 3}):
            self.assertEqual(written(replace(h, **changes)), written(h), changes)

    def test_layer_flags_only_where_needed(self):
        window = replace(SMALL, sliding_window=4)
        for flags in (None, [1, 1], [0, 0]):
            h, f_ = mlb.canonical(window, flags)
            self.assertEqual((h.sliding_window, h.layer_flags, f_.tolist()), (4, 0, [0, 0]))
        h, f_ = mlb.canonical(
            replace(window, layer_flags=1), [0, 0]
        )  # the file says that no layer uses the window
        self.assertEqual((h.sliding_window, h.layer_flags), (0, 0))
        h, f_ = mlb.canonical(window, [1, 0])
        self.assertEqual((h.sliding_window, h.layer_flags, f_.tolist()), (4, 1, [1, 0]))
        h, f_ = mlb.canonical(window, [4, 4])
        self.assertEqual((h.sliding_window, h.layer_flags, f_.tolist()), (0, 1, [4, 4]))

    def test_padding(self):
        data = written(SMALL)
        m = mlb.read(data)
        self.assertEqual((len(data) % 64, m.trailing), (0, 0))
        end = 256
        for a in mlb.layout(m.header, m.layer_flags):
            self.assertEqual((a.offset - end, a.offset % 64), (mlb.aligned(end) - end, 0))
            self.assertFalse(any(data[end : a.offset]))
            if a.d_offset is not None:
                self.assertFalse(any(data[a.offset + a.nbytes : a.d_offset]))
            end = a.end
        self.assertFalse(any(data[end:]))

    def test_values_arrive(self):
        h = replace(SMALL, wtype=2, q8_mask=64, scale_f16=1, attn_gate=1, qkv_bias=1, **LIN)
        tensors = mlb.random_tensors(h, [8, 0])
        m = mlb.read(written(h, [8, 0], tensors))
        self.assertEqual(m.layer_flags.tolist(), [8, 0])
        for name, tensor in m.tensors.items():
            if isinstance(tensor, mlb.Quant):
                step = np.repeat(np.abs(tensor.d.astype(np.float32)), 32, axis=1)
                self.assertTrue((np.abs(tensor.dequantize() - tensors[name]) <= step * 1.31).all(), name)
            else:
                self.assertEqual(tensor.tobytes(), tensors[name].tobytes(), name)

    def test_refusals_leave_no_file(self):
        good = mlb.random_tensors(SMALL)
        bad_norm, bad_row = good["final_norm"].copy(), good["layers.1.w2"].copy()
        bad_norm[3], bad_row[9, 2] = math.nan, math.inf
        wrong = mlb.quantize_q4(good["wcls"], 0)
        low = mlb.quantize_q8(good["wcls"], 0)
        low.q[2, 2] = -128
        for name, tensor, status, mention in [
            ("final_norm", bad_norm, "ML_E_FORMAT", "final_norm"),
            ("layers.1.w2", bad_row, "ML_E_FORMAT", "layers.1.w2 row 9"),
            ("wcls", wrong, "ML_E_FORMAT", "wcls"),
            ("wcls", low, "ML_E_FORMAT", "-128"),
            ("wcls", mlb.quantize_q8(good["wcls"], 1), "ML_E_FORMAT", "wcls"),
            ("wcls", good["wcls"][:2], "ML_E_SHAPE", "wcls"),
            ("extra", good["wcls"], "ML_E_FORMAT", "extra"),
            ("wcls", None, "ML_E_FORMAT", "wcls"),
        ]:
            tensors = {**good, name: tensor}
            if tensor is None:
                del tensors[name]
            with tempfile.TemporaryDirectory() as folder:
                with self.assertRaises(mlb.FormatError) as caught:
                    mlb.write(Path(folder, "m.mlb"), SMALL, None, tensors)
                self.assertEqual(caught.exception.status, status)
                self.assertIn(mention, caught.exception.message)
                self.assertEqual(list(Path(folder).iterdir()), [])


class HostileTest(unittest.TestCase):
    def test_huge_headers_cost_nothing(self):
        for name in (
            "total_wraps_32_bits.mlb",
            "total_wraps_64_bits.mlb",
            "huge_all.mlb",
            "n_vocab_max.mlt",
            "n_merges_max.mlt",
            "len_max.mlt",
            "size_wraps_64_bits.mli",
            "size_n_layers_max.mli",
        ):
            path = DATA / "bad" / name
            tracemalloc.start()
            with self.assertRaises(mlb.FormatError):
                READERS[path.suffix](path)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 1 << 20, name)

    def test_wrapping_headers_do_wrap(self):
        for bits in (32, 64):
            data = (DATA / f"bad/total_wraps_{bits}_bits.mlb").read_bytes()
            h = mlb.Header.unpack(data)
            one = mlb.layout(replace(h, n_layers=1), [data[256] if h.layer_flags else 0])
            layer = one[-1].offset - next(a.offset for a in one if a.name.endswith("attn_norm"))
            self.assertEqual(one[-1].name, "final_norm")
            first = 0 if not h.layer_flags else mlb.aligned(h.n_layers) - 64
            total = one[-1].end + first + layer * (h.n_layers - 1)
            self.assertLessEqual(total % (1 << bits), len(data))
            self.assertGreater(total, 1 << bits)

    def test_random_bytes_and_every_cut(self):
        base = (DATA / "good/qwen35.mlb").read_bytes()
        needed = mlb.layout(*(lambda m: (m.header, m.layer_flags))(mlb.read(base)))[-1].end
        for n in list(range(0, 400, 7)) + list(range(400, needed, 499)) + [needed - 1]:
            with self.assertRaises(mlb.FormatError):
                mlb.read(base[:n])
        mlb.read(base[:needed])
        rng = np.random.RandomState(4)
        for reader, good in (
            (mlb.read, base),
            (mlb.read_mlt, (DATA / "good/sp.mlt").read_bytes()),
            (mlb.read_mli, (DATA / "good/same_q_dim.mli").read_bytes()),
        ):
            for _ in range(300):
                data = bytearray(good)
                for _ in range(rng.randint(1, 4)):
                    data[rng.randint(min(len(data), 300))] = rng.randint(256)
                with contextlib.suppress(mlb.FormatError):
                    reader(bytes(data))

    def test_scan_can_be_left_out(self):
        path = DATA / "bad/q8_first_quant.mlb"
        self.assertEqual(mlb.read(path, check_quants=False).tensors["tok_emb"].levels()[0, 0], -128)


class CommandTest(unittest.TestCase):
    def run_main(self, *args):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = mlb.main([str(a) for a in args])
        return code, out.getvalue()

    def test_check(self):
        good, bad = DATA / "good", DATA / "bad"
        self.assertEqual(
            self.run_main("check", good / "sp.mlt", good / "same_q_dim.mli", good / "gemma3.mlb")[0], 0
        )
        for name, code in (("missing.mlb", 4), ("magic.mlb", 5), ("vocab_two.mlb", 6)):
            got, text = self.run_main("check", good / "sp.mlt", bad / name, bad / "flags_max.mlt")
            self.assertEqual(got, code)
            self.assertEqual(len(text.splitlines()), 3)
        self.assertEqual(self.run_main("check", DATA)[0], 4)

    def test_inspect(self):
        code, text = self.run_main("inspect", DATA / "good/trailing.mlb")
        self.assertEqual(code, 0)
        self.assertIn("dim 32\n", text)
        self.assertIn("tok_emb q4 [3, 32] @256 d@320\n", text)
        self.assertIn("bytes after the last array: 100\n", text)
        for name, part in (("sp.mlt", "tokens 10 (3 added, 2 bytes)"), ("own_q_dim.mli", "q_dim 96")):
            self.assertIn(part, self.run_main("inspect", DATA / "good" / name)[1])

    def test_random(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "r.mlb")
            args = [
                "--seed",
                3,
                "--set",
                "dim=32",
                "--set",
                "wtype=2",
                "--set",
                "lin_k_heads=2",
                "--set",
                "lin_v_heads=4",
                "--set",
                "lin_k_dim=8",
                "--set",
                "lin_v_dim=8",
                "--set",
                "lin_conv=4",
                "--flags",
                "8,0",
            ]
            self.assertEqual(self.run_main("random", path, *args)[0], 0)
            first = path.read_bytes()
            self.assertEqual(mlb.read(first).layer_flags.tolist(), [8, 0])
            self.run_main("random", path, *args)
            self.assertEqual(path.read_bytes(), first)
            self.assertEqual(self.run_main("random", path, "--set", "dim=33")[0], 6)
            self.assertEqual(self.run_main("random", path, "--set", "diem=32")[0], 2)
            self.assertEqual(self.run_main("random", Path(folder, "no/where.mlb"))[0], 4)


if __name__ == "__main__":
    unittest.main()
