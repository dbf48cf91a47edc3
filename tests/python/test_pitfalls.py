"""Known pitfalls of inference engines: RoPE settings whose effect shows only at late positions or in some
layers, and attention scores of 1e5. The results are compared with the oracle's bits and with formulas in
plain Python.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]
import mlb  # noqa: E402
import ref_forward as ref  # noqa: E402

KRAFLA = os.environ["KRAFLA"]
LLAMA3 = dict(
    rope_type=1,
    rope_factor=8,
    rope_low_freq_factor=1,
    rope_high_freq_factor=4,
    rope_orig_max_seq=8192,
    rope_theta=500000.0,
)
YARN = dict(
    rope_type=3,
    rope_factor=4,
    rope_low_freq_factor=32,
    rope_high_freq_factor=1,
    rope_orig_max_seq=1024,
    rope_attn_factor=1.25,
)


def same_bits(a, b):
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def model(self, flags=None, **fields):
        """A small random model and its path."""
        header = mlb.Header(
            **(
                dict(
                    dim=32,
                    n_layers=1,
                    n_heads=1,
                    n_kv_heads=1,
                    head_dim=32,
                    hidden_dim=32,
                    vocab=48,
                    max_seq=4096,
                    rope_theta=10000.0,
                    norm_eps=1e-5,
                    wtype=1,
                    shared_classifier=1,
                    scale_f16=1,
                )
                | fields
            )
        )
        header, flags = mlb.canonical(header, flags)
        path = self.folder / "m.mlb"
        mlb.write(path, header, flags, mlb.random_tensors(header, flags, 3))
        return mlb.read(path), path

    def logits(self, path, ids, *options):
        (self.folder / "ids.json").write_text(json.dumps(ids))
        result = subprocess.run(
            [
                KRAFLA,
                "logits",
                str(path),
                "--ids",
                str(self.folder / "ids.json"),
                "--out",
                str(self.folder / "x.npy"),
                *map(str, options),
            ],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return np.load(self.folder / "x.npy")


def llama3_frequency(i, head_dim, s):
    """transformers' rule, one number at a time, with Python's own functions."""
    inv = s["rope_theta"] ** (-2 * i / head_dim)
    wavelength = 2 * math.pi / inv
    if wavelength < s["rope_orig_max_seq"] / s["rope_high_freq_factor"]:
        return inv
    if wavelength > s["rope_orig_max_seq"] / s["rope_low_freq_factor"]:
        return inv / s["rope_factor"]
    smooth = (s["rope_orig_max_seq"] / wavelength - s["rope_low_freq_factor"]) / (
        s["rope_high_freq_factor"] - s["rope_low_freq_factor"]
    )
    return (1 - smooth) * inv / s["rope_factor"] + smooth * inv


class FarPositions(Case):
    def test_the_oracles_llama3_angles_at_position_3000(self):
        """Some frequencies are unchanged, some are divided, some lie between. At position 3000 all three
        kinds matter."""
        model, _ = self.model(**LLAMA3)
        c, s = ref.rope_table(ref.Contract(), model.header, 3001, False)
        factors = []
        for i in range(16):
            inv = llama3_frequency(i, 32, LLAMA3)
            factors.append(LLAMA3["rope_theta"] ** (-2 * i / 32) / inv)
            self.assertAlmostEqual(float(c[3000, i]), math.cos(3000 * inv), delta=1e-7)
            self.assertAlmostEqual(float(s[3000, i]), math.sin(3000 * inv), delta=1e-7)
        self.assertEqual((round(min(factors), 6), round(max(factors), 6)), (1, 8))
        self.assertTrue(any(1.001 < f < 7.999 for f in factors))

    def test_the_engine_equals_the_oracle_through_position_3000(self):
        all_ids = np.random.RandomState(1).randint(0, 48, 3001).tolist()
        for scaling, n in ((LLAMA3, 3001), (YARN, 1100), (dict(rope_type=2, rope_factor=8), 700)):
            model, path = self.model(**scaling)
            ids, want = all_ids[:n], ref.Forward(model, ref.Contract("f16")).logits(all_ids[:n])
            self.assertTrue(same_bits(self.logits(path, ids, "--chunk", 512, "-t", 2), want), scaling)
            unscaled = self.logits(self.model(rope_theta=model.header.rope_theta)[1], ids, "--chunk", 512)
            self.assertFalse(same_bits(unscaled[-1], want[-1]), scaling)

    def test_gemma_3_scales_its_full_layers_only(self):
        """Scaling changes full layers, but not layers with the local base."""
        fields = dict(
            head_dim=32,
            sliding_window=50,
            rope_theta=1e6,
            rope_local_theta=1e4,
            qk_norm=1,
            post_norms=1,
            act=1,
        )
        ids, local = np.random.RandomState(2).randint(0, 48, 120).tolist(), ref.WINDOW | ref.LOCAL_ROPE
        for scaling in (dict(rope_type=2, rope_factor=8), YARN, dict(LLAMA3, rope_orig_max_seq=64)):
            scaling = {k: v for k, v in scaling.items() if k != "rope_theta"}
            for flags in ([local, local], [local, 0]):
                got = []
                for more in ({}, scaling):
                    model, path = self.model(flags, n_layers=2, **fields, **more)
                    got.append(self.logits(path, ids))
                    self.assertTrue(same_bits(got[-1], ref.Forward(model, ref.Contract("f16")).logits(ids)))
                self.assertEqual(same_bits(*got), flags == [local, local], (scaling, flags))


class HugeScores(Case):
    def test_softmax_and_softcap_of_scores_of_1e5(self):
        ids = np.random.RandomState(4).randint(0, 48, 150).tolist()
        for attn_scale in (3e4, 3e8, 1e30):
            for caps in (
                {},
                dict(attn_softcap=50.0, final_softcap=30.0),
                dict(attn_softcap=1e5),
                dict(attn_softcap=1e-3),
            ):
                model, path = self.model(attn_scale=attn_scale, **caps)
                kept = {}
                forward = ref.Forward(model, ref.Contract("f16"), kept.__setitem__)
                want = forward.logits(ids)
                scores = (
                    attn_scale
                    * np.abs(np.einsum("thd,phd->thp", kept["layers.0.q"], kept["layers.0.k"])).max()
                )
                self.assertGreater(scores, 1e5)
                for options in ((), ("--chunk", 1, "-t", 1)):
                    got = self.logits(path, ids, *options)
                    self.assertTrue(
                        np.isfinite(got).all() and same_bits(got, want), (attn_scale, caps, options)
                    )


if __name__ == "__main__":
    unittest.main()
