"""Tests of the oracle itself: tools/ref_math.py and tools/ref_forward.py, and of tests/golden/hf.py.

    python3 -m unittest tests.python.test_ref_forward      (or run this file)

tests/data/checkpoints holds tiny checkpoints with golden logits made by transformers (config.json,
*.safetensors, golden.npz).
"""
import json
import shutil
import sys
import tempfile
import unittest
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "golden")]
import hf
import make_models
import mlb
import ref_forward as ref
import ref_math as rm

DATA = ROOT / "tests" / "data" / "models"
CONFORMANCE = ROOT / "tests" / "data" / "checkpoints"
f32 = np.float32
getcontext().prec = 70
PI = Decimal(
    "3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117"
)


# ---------------------------------------------------------------- high-precision truth


def dec_sincos(x):
    """(sin, cos) of a Decimal by Taylor after reduction by multiples of 2 pi."""
    x = x % (2 * PI)
    sin = cos = Decimal(0)
    term, k = Decimal(1), 0
    while abs(term) > Decimal(10) ** -60 or k < 8:
        if k % 2:
            sin += term if k % 4 == 1 else -term
        else:
            cos += term if k % 4 == 0 else -term
        k += 1
        term = term * x / k
    return sin, cos


def dec_tanh(x):
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def worst_ulp(got, exact):
    """Largest error of got (float array) against Decimals, in units of the last place of the rounded exact
    value."""
    worst = 0.0
    for g, e in zip(got, exact):
        unit = Decimal(float(np.spacing(np.abs(got.dtype.type(float(e))))))
        worst = max(worst, float(abs(Decimal(float(g)) - e) / unit))
    return worst


class Functions(unittest.TestCase):
    rng = np.random.RandomState(1)

    def check(self, name, function, truth, x, bound):
        worst = worst_ulp(np.asarray(function(x)), [truth(Decimal(float(v))) for v in x])
        self.assertLess(worst, bound, name)

    def test_exp(self):
        x = [
            self.rng.uniform(-87.3, 88.7, 3000),
            self.rng.uniform(-0.4, 0.4, 1000),
            self.rng.normal(0, 1e-4, 200),
        ]
        self.check("exp32", rm.exp32, lambda v: v.exp(), np.concatenate(x).astype(f32), 1.5)
        x = np.concatenate([self.rng.uniform(-700, 708, 500), self.rng.uniform(-1, 1, 500)])
        self.check("exp64", rm.exp64, lambda v: v.exp(), x, 1.5)

    def test_tanh(self):
        x = [self.rng.uniform(-1, 1, 2000), self.rng.uniform(-12, 12, 1000), self.rng.normal(0, 1e-4, 200)]
        self.check("tanh32", rm.tanh32, dec_tanh, np.concatenate(x).astype(f32), 1.5)

    def test_log(self):
        x = np.exp(self.rng.uniform(-700, 700, 500))
        self.check("log64", rm.log64, lambda v: v.ln(), x, 1.5)
        self.check("log64 near 1", rm.log64, lambda v: v.ln(), self.rng.uniform(0.6, 1.6, 500), 2.0)
        x = np.exp(self.rng.uniform(-80, 80, 500)).astype(f32)
        self.check("log32", rm.log32, lambda v: v.ln(), x, 0.5001)
        x = np.exp(self.rng.uniform(-40, 20, 1000)).astype(f32)
        self.check("log1p32", rm.log1p32, lambda v: (1 + v).ln(), x, 0.5001)

    def test_sincos(self):
        x = np.concatenate([self.rng.uniform(-10, 10, 300), self.rng.uniform(0, 2.0**24, 300)])
        sin, cos = rm.sincos64(x)
        exact = [dec_sincos(Decimal(float(v))) for v in x]
        for got, want in ((sin, [e[0] for e in exact]), (cos, [e[1] for e in exact])):
            error = max(float(abs(Decimal(float(g)) - w)) for g, w in zip(got, want))
            self.assertLess(error, 2.0**-52)  # absolute, which is what RoPE's rounding to float needs

    def test_pow(self):
        y = -np.arange(0, 128, 2) / 128
        exact = [(Decimal(500000).ln() * Decimal(float(v))).exp() for v in y]
        self.assertLess(worst_ulp(rm.pow64(np.float64(500000), y), exact), 16)

    def test_edges(self):
        inf, nan = np.inf, np.nan
        self.assertEqual(rm.exp32(f32([0, -0.0])).tolist(), [1, 1])
        self.assertEqual(rm.exp32(f32([-inf, -87.34, 88.73, inf])).tolist(), [0, 0, inf, inf])
        self.assertGreater(rm.exp32(f32([-87.33]))[0], np.finfo(f32).tiny)
        self.assertTrue(np.isfinite(rm.exp32(f32([float.fromhex("0x1.62e42ep+6")]))[0]))
        self.assertEqual(rm.tanh32(f32([0, -inf, inf, 50])).tolist(), [0, -1, 1, 1])
        self.assertEqual(rm.log64(np.array([0, 1, inf])).tolist(), [-inf, 0, inf])
        self.assertEqual(rm.log64(np.array([5e-324]))[0], -744.4400719213812)
        self.assertEqual(rm.exp64(np.array([-709.0, 0, 709.1])).tolist(), [0, 1, inf])
        self.assertEqual(rm.log1p32(f32([0, 1e-30])).tolist(), [0, float(f32(1e-30))])
        self.assertTrue(
            np.isnan(rm.log1p32(f32([inf])))[0]
        )  # inf/(inf - 1), as the page has it; softplus never asks
        for bad in (
            rm.exp32(f32([nan])),
            rm.tanh32(f32([nan])),
            rm.log32(f32([nan, -1])),
            rm.exp64(np.array([nan])),
            rm.log1p32(f32([nan])),
            *rm.sincos64(np.array([nan, inf, 2.0**51])),
        ):
            self.assertTrue(np.isnan(bad).all())
        self.assertEqual(rm.TWO_PI, 2 * np.pi)


# ---------------------------------------------------------------- sums and matrix products against loops over
# scalars


def scalar_fold8(a):
    return f32(f32(f32(a[0] + a[4]) + f32(a[2] + a[6])) + f32(f32(a[1] + a[5]) + f32(a[3] + a[7])))


def scalar_sum8(values):
    lanes = [f32(0)] * 8
    for i, v in enumerate(values):
        lanes[i % 8] = f32(lanes[i % 8] + v)
    return scalar_fold8(lanes)


def scalar_quantize(block):
    """A3 for one block of 32, in scalars: (list of int, scale)."""
    amax = max(int(np.asarray(abs(v), f32).view(np.uint32)) for v in block)
    amax = np.uint32(amax).view(f32)
    if not np.isfinite(amax):
        return [0] * 32, f32(np.nan)
    if amax < f32(1e-30):
        return [0] * 32, f32(0)
    t, quants = f32(127) / amax, []
    for v in block:
        y = f32(v * t)
        quants.append(min(127, max(-127, int(np.trunc(f32(y + np.copysign(f32(0.5), y)))))))
    return quants, f32(amax / f32(127))


def scalar_dot(x, levels, d):
    lanes = [f32(0)] * 8
    for b in range(len(d)):
        q, dx = scalar_quantize(x[32 * b : 32 * b + 32])
        isum = sum(a * int(w) for a, w in zip(q, levels[32 * b : 32 * b + 32]))
        lanes[b % 8] = f32(lanes[b % 8] + f32(f32(isum) * f32(f32(d[b]) * dx)))
    return scalar_fold8(lanes)


def same_bits(a, b):
    a, b = np.asarray(a, f32), np.asarray(b, f32)
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


class Sums(unittest.TestCase):
    def test_fold_order(self):
        big = f32(2.0**24)
        self.assertEqual(rm.fold8(f32([big, 1, 0, 0, -big, 1, 0, 0])), 2)  # a0+a4 first, then the ones
        self.assertEqual(
            rm.fold8(f32([big, -big, 1, 0, 0, 0, 0, 0])), 0
        )  # the even half first: it loses the 1
        x = np.random.RandomState(2).normal(0, 1, (3, 45)).astype(f32)
        self.assertTrue(same_bits(rm.sum8(x), [scalar_sum8(row) for row in x]))

    def test_zero_padding(self):
        rng = np.random.RandomState(3)
        x, d = rng.normal(0, 1, (2, 96)).astype(f32), rng.normal(0, 1, (5, 3)).astype(f32)
        levels = rng.randint(-127, 128, (5, 96))
        wide = np.pad(x, ((0, 0), (0, 160)))
        self.assertTrue(same_bits(rm.sum8(x), rm.sum8(wide)))
        padded = rm.quant_matmul(wide, np.pad(levels, ((0, 0), (0, 160))), np.pad(d, ((0, 0), (0, 5))))
        self.assertTrue(same_bits(rm.quant_matmul(x, levels, d), padded))

    def test_quantized_product(self):
        rng = np.random.RandomState(4)
        with np.errstate(all="ignore"):
            for blocks, kind in (
                (1, "plain"),
                (3, "plain"),
                (11, "plain"),
                (9, "extremes"),
                (2, "nan"),
                (2, "inf"),
                (2, "tiny"),
                (2, "huge d"),
            ):
                x = rng.normal(0, 1, (2, 32 * blocks)).astype(f32)
                levels, d = rng.randint(-128, 128, (3, 32 * blocks)), rng.normal(0, 1, (3, blocks)).astype(
                    f32
                )
                if kind == "extremes":
                    x, levels, d[0] = np.sign(x).astype(f32), np.where(levels < 0, -128, 127), 0
                elif kind in ("nan", "inf"):
                    x[0, 5] = f32(kind)
                elif kind == "tiny":
                    x[0, :32], x[1, :32] = f32(9e-31), f32(1e-42)
                elif kind == "huge d":
                    d[1, 0] = np.inf
                want = [[scalar_dot(row, levels[r], d[r]) for r in range(3)] for row in x]
                self.assertTrue(same_bits(rm.quant_matmul(x, levels, d), want), (blocks, kind))

    def test_keys_and_values_in_q8(self):
        """Compares the oracle's q8_0 cache with a scalar implementation. A value that is not finite or too
        large affects only its own block."""
        rng = np.random.RandomState(12)
        with np.errstate(all="ignore"):
            for n in (2, 20, 32, 34, 64, 72):
                for sigma in (1, 1e-6, 3e-8, 1e-31, 1e6, 1e7):
                    x = rng.normal(0, sigma, (4, n)).astype(f32)
                    x[1, 0], x[2, n - 1] = f32(127 * 65519), np.inf
                    for row, got in zip(x, rm.kv_q8(x)):
                        want = []
                        for b in range(0, n, 32):
                            block = row[b : b + 32]
                            d = f32(np.float16(f32(max(abs(v) for v in block) / f32(127))))
                            inverse = f32(f32(1) / d) if d else f32(0)
                            for v in block:
                                y = f32(v * inverse)
                                level = np.clip(np.trunc(f32(y + np.copysign(f32(0.5), y))), -127, 127)
                                want.append(f32(int(level)) * d if np.isfinite(d) else f32(np.nan))
                        self.assertTrue(same_bits(got, want), (n, sigma))
        self.assertTrue(np.isnan(rm.kv_q8(f32([[127 * 65520.0] + [1] * 31])[:, :32])).all())

    def test_halves_round_away(self):
        x = np.zeros((1, 32), f32)
        x[0, :4] = 127, 0.5, -0.5, 2.5
        self.assertEqual(rm.quantize_rows(x)[0][0, :4].tolist(), [127, 1, -1, 3])


# ---------------------------------------------------------------- attention and delta rule against loops over
# scalars


def scalar_attention(A, q, k, v, visible, scale, cap):
    """A6 for one query head: q [d], k and v [n, d], visible: list of key positions. exp, tanh: the oracle's
    own."""
    exp, merged = (lambda s: A.exp(f32([s]))[0]), None
    for first in range(0, len(k), 64):
        keys = [p for p in visible if first <= p < first + 64]
        if not keys:
            continue
        scores = []
        for p in keys:
            s = f32(0)
            for i in range(len(q)):
                s = f32(s + f32(q[i] * k[p, i]))
            s = f32(s * scale)
            scores.append(f32(cap * A.tanh(f32([s / cap]))[0]) if cap else s)
        m = max(scores)
        page = [f32(0)] * 64
        for p, s in zip(keys, scores):
            page[p - first] = exp(f32(s - m))
        o = np.zeros(v.shape[1], f32)
        for p in keys:
            o = o + page[p - first] * v[p]
        l = scalar_sum8(page)
        if merged is None:
            merged = m, l, o
        else:
            M, L, O = merged
            top = max(M, m)
            a, b = exp(f32(M - top)), exp(f32(m - top))
            merged = top, f32(f32(L * a) + f32(l * b)), O * a + o * b
    return merged[2] / merged[1]


class Mixers(unittest.TestCase):
    def test_attention(self):
        rng, A = np.random.RandomState(5), ref.Contract("f32")
        T, H, G, d = 140, 4, 2, 6
        q, k, v = (rng.normal(0, 1.5, (T, heads, d)).astype(f32) for heads in (H, G, G))
        for window, cap in ((T, 0), (70, f32(2)), (1, 0), (64, 0)):
            age = np.arange(T)[:, None] - np.arange(T)[None]
            visible = (age >= 0) & (age < window)
            got = A.attention(q, k, v, visible, f32(0.4), cap)
            for t in (0, 1, 63, 64, 65, 127, 128, 139):
                for head in range(H):
                    g = head // (H // G)
                    keys = np.flatnonzero(visible[t]).tolist()
                    want = scalar_attention(A, q[t, head], k[:, g], v[:, g], keys, f32(0.4), cap)
                    self.assertTrue(same_bits(got[t, head], want), (window, t, head))

    def test_hidden_keys_are_not_multiplied(self):
        """NaN and inf in hidden keys and values do not affect a query."""
        A, T = ref.Contract("f32"), 70
        x = np.random.RandomState(6).normal(0, 1, (T, 1, 4)).astype(f32)
        visible = np.tril(np.ones((T, T), bool))
        clean = A.attention(x, x, x, visible, f32(0.5), 0)
        dirty = x.copy()
        dirty[50], dirty[66] = np.nan, np.inf
        with np.errstate(all="ignore"):
            got = A.attention(x, dirty, dirty, visible, f32(0.5), 0)
        self.assertTrue(same_bits(got[:50], clean[:50]) and np.isnan(got[50:]).all())

    def test_delta_rule(self):
        """Compares with a scalar implementation of the recurrence, head by head."""
        rng, model = np.random.RandomState(7), mlb.read(DATA / "linear-q8.mlb")
        T, V, dk, dv = 5, 2, 3, 4
        q, k = rng.normal(0, 1, (2, T, V, dk)).astype(f32)
        v = rng.normal(0, 1, (T, V, dv)).astype(f32)
        beta, g = rng.uniform(0, 1, (2, T, V)).astype(f32)
        got = ref.Forward(model, ref.Contract()).delta_rule(q, k, v, beta, g)
        for h in range(V):
            for j in range(dv):
                S = [f32(0)] * dk
                for p in range(T):
                    S = [f32(s * g[p, h]) for s in S]
                    kv = o = f32(0)
                    for i in range(dk):
                        kv = f32(kv + f32(S[i] * k[p, h, i]))
                    delta = f32(beta[p, h] * f32(v[p, h, j] - kv))
                    S = [f32(S[i] + f32(k[p, h, i] * delta)) for i in range(dk)]
                    for i in range(dk):
                        o = f32(o + f32(S[i] * q[p, h, i]))
                    self.assertTrue(same_bits(got[p, h, j], o))


# ---------------------------------------------------------------- whole models


class Oracle(unittest.TestCase):
    oracle = json.loads((DATA / "oracle.json").read_text())

    def test_every_file_has_an_entry(self):
        self.assertEqual(sorted(self.oracle), sorted(p.name for p in DATA.glob("*.mlb")))

    def test_reproducible(self):
        for name in ("tiny-q4", "all-q4", "nan-q4", "linear-q4"):
            entry, model = self.oracle[name + ".mlb"], mlb.read(DATA / (name + ".mlb"))
            self.assertEqual(ref.verify_digest(model), entry["verify"], name)
            for prompt in entry["prompts"]:
                got = ref.logits_digest(ref.Forward(model, ref.Contract(prompt["kv"])).logits(prompt["ids"]))
                self.assertEqual(got, prompt["fnv1a64"], name)

    def test_random_models_are_reproducible(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in make_models.RANDOM:
                make_models.random_model(Path(folder), name)
                self.assertEqual(
                    (Path(folder) / f"{name}.mlb").read_bytes(), (DATA / f"{name}.mlb").read_bytes(), name
                )

    def test_a_position_does_not_see_the_future(self):
        for name in ("all-q4", "gemma3-like-q8", "linear-q8"):
            forward = ref.Forward(mlb.read(DATA / (name + ".mlb")), ref.Contract())
            ids = ref.verify_ids(forward.h)[:80]
            whole = forward.logits(ids)
            for n in (1, 64, 65, 77):
                self.assertTrue(same_bits(forward.logits(ids[:n]), whole[:n]), (name, n))

    def test_contract_is_near_the_truth(self):
        """Compares float32 with float64 on the same weights. The difference comes from quantizing activations
        to 8 bits."""
        for name in ("all-q4", "gemma2-like-q4", "norope-q8", "head6-q8", "gate-yarn-q4"):
            model = mlb.read(DATA / (name + ".mlb"))
            ids = ref.verify_ids(model.header)
            truth, got = ref.Forward(model, ref.Truth()).logits(ids), ref.Forward(
                model, ref.Contract()
            ).logits(ids)
            self.assertLess(np.abs(got - truth).mean(), 0.03 * truth.std(), name)

    def test_contract_without_quantized_activations_is_the_truth(self):
        """With exact matrix products, only the roundings of float32 remain."""

        class Exact(ref.Contract):
            truth = ref.Truth()

            def matmul(self, x, w):
                return (x.astype(np.float64) @ self.truth.weights(w).T).astype(f32)

        for name in self.oracle:
            if name != "nan-q4.mlb":
                model = mlb.read(DATA / name)
                ids = ref.verify_ids(model.header)[:70]
                got, truth = (ref.Forward(model, A).logits(ids) for A in (Exact("f32"), ref.Truth()))
                self.assertLess(np.abs(got - truth).max(), 1e-3 if name.startswith("linear") else 3e-5, name)

    def test_digest(self):
        self.assertEqual(f"{ref.fnv1a64(b'foobar'):016x}", "85944171f73967e8")  # from the FNV reference
        quiet = np.array([[1, np.nan]], f32)
        other = np.array([0x3F800000, 0xFFC00001], np.uint32).view(f32).reshape(1, 2)
        self.assertEqual(ref.logits_digest(quiet), ref.logits_digest(other))


class Conformance(unittest.TestCase):
    refused = {"llama_bias": "attention_bias", "qwen3_5_nested": "linear_num_value_heads"}

    def test_truth_equals_transformers(self):
        for folder in sorted(p for p in CONFORMANCE.iterdir() if p.name not in self.refused):
            forward = ref.Forward(hf.load(folder), ref.Truth())
            with np.load(folder / "golden.npz") as golden:
                for key in (k for k in golden.files if k.startswith("prompt")):
                    error = np.abs(forward.logits(golden[key]) - golden["logits" + key[6:]]).max()
                    self.assertLess(error, 1e-3, (folder.name, key))

    def test_refused_by_name(self):
        for name, reason in self.refused.items():
            with self.assertRaisesRegex(hf.Refused, reason):
                hf.load(CONFORMANCE / name)

    def altered(self, name, change):
        """A copy of a checkpoint whose config.json went through change(config)."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for path in (CONFORMANCE / name).glob("*.safetensors*"):
            (folder / path.name).symlink_to(path)
        config = json.loads((CONFORMANCE / name / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def test_what_the_format_cannot_hold(self):
        for name, change, reason in (
            ("llama_yarn", lambda c: c["rope_scaling"].update(truncate=False), "truncate"),
            ("llama_yarn", lambda c: c["rope_scaling"].update(rope_type="longrope"), "longrope"),
            ("llama3", lambda c: c["rope_scaling"].pop("low_freq_factor"), "low_freq_factor"),
            ("llama2", lambda c: c.update(hidden_act="relu"), "relu"),
            ("llama2", lambda c: c.update(model_type="phi3"), "phi3"),
            ("llama2", lambda c: c.update(num_hidden_layers=1), "layers.1"),
            ("llama2", lambda c: c.update(hidden_size=64), "shape"),
            ("llama3", lambda c: c.update(tie_word_embeddings=False), "lm_head"),
            ("gemma2", lambda c: c.update(quantization_config={}), "quantization_config"),
        ):
            with self.assertRaisesRegex(hf.Refused, reason):
                hf.load(self.altered(name, change))

    def test_spellings(self):
        """Other spellings of the same settings give the same header."""

        def nested(c):
            c["rope_parameters"] = dict(c.pop("rope_scaling"), rope_theta=c.pop("rope_theta"))

        def per_type(c):
            full, slide = "full_attention", "sliding_attention"
            c["rope_parameters"] = {
                full: dict(c.pop("rope_scaling"), rope_theta=c.pop("rope_theta")),
                slide: {"rope_type": "default", "rope_theta": c.pop("rope_local_base_freq")},
            }
            pattern, n = c.pop("sliding_window_pattern"), c["num_hidden_layers"]
            c["layer_types"] = [slide if (i + 1) % pattern else full for i in range(n)]

        for name, change in (("llama3", nested), ("llama_yarn_af", nested), ("gemma3", per_type)):
            plain, other = hf.load(CONFORMANCE / name), hf.load(self.altered(name, change))
            self.assertEqual(plain.header, other.header, name)
            self.assertEqual(plain.layer_flags.tolist(), other.layer_flags.tolist(), name)

    def test_headers_are_canonical(self):
        """The header is canonical: the writer changes nothing."""
        for folder in (p for p in CONFORMANCE.iterdir() if p.name not in self.refused):
            model = hf.load(folder)
            model.header.wtype = mlb.Q8_0
            header, flags = mlb.canonical(model.header, model.layer_flags)
            self.assertEqual(header.pack(), model.header.pack(), folder.name)
            self.assertEqual(flags.tolist(), model.layer_flags.tolist(), folder.name)

    def test_a_different_lm_head_wins_over_tie(self):
        model = hf.load(self.altered("llama2", lambda c: c.update(tie_word_embeddings=True)))
        self.assertEqual((model.header.shared_classifier, "wcls" in model.tensors), (0, True))
        self.assertEqual(
            hf.load(CONFORMANCE / "qwen3").header.shared_classifier, 1
        )  # an identical one does not


if __name__ == "__main__":
    unittest.main()
