"""Tests `krafla bench` as a program: what it measures, the form of its output, and what it refuses. The
speeds are not checked, because machines differ.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import resource
import sys
import unittest

import mlb
from test_cli import ASAN, DATA, ROOT, Case, krafla

sys.path.insert(0, str(ROOT / "bench"))
import mlb_to_gguf  # noqa: E402

MODEL = DATA / "models/tiny-q4.mlb"
QUICK = ("--prefill", "5", "--decode", "3", "--repeats", "1")


class Bench(Case):
    def json_of(self, *args, **kwargs):
        done = krafla("bench", *args, "--json", **kwargs)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stderr)
        return json.loads(done.stdout)

    def test_every_combination_is_measured(self):
        report = self.json_of(
            MODEL,
            "--prefill",
            "4,5",
            "--decode",
            "2,3",
            "--depth",
            "0,70",
            "--batch",
            "1,3",
            "-t",
            "1,2",
            "-r",
            "1",
        )
        self.assertEqual(
            [(c["threads"], c["depth"], c["n"], c["batch"]) for c in report["prefill"]],
            [(t, d, n, 1) for t in (1, 2) for d in (0, 70) for n in (4, 5)],
        )
        self.assertEqual(
            [(c["threads"], c["depth"], c["batch"], c["n"]) for c in report["decode"]],
            [(t, d, b, n) for t in (1, 2) for d in (0, 70) for b in (1, 3) for n in (2, 3)],
        )
        self.assertEqual([limit["threads"] for limit in report["limits"]], [1, 2])
        limits = {limit["threads"]: limit for limit in report["limits"]}
        for cell in report["prefill"] + report["decode"]:
            for key in ("tok_s", "limit_tok_s", "gb_s", "gmac_s", "gb_share", "gmac_share"):
                self.assertGreater(cell[key], 0, key)
            self.assertAlmostEqual(cell["gb_share"], cell["gb_s"] / limits[cell["threads"]]["gb_s"])
            self.assertAlmostEqual(cell["gmac_share"], cell["gmac_s"] / limits[cell["threads"]]["gmac_s"])
            self.assertAlmostEqual(
                cell["tok_s"] / cell["limit_tok_s"], max(cell["gb_share"], cell["gmac_share"])
            )

    def test_the_work_of_a_token(self):
        """A step multiplies every matrix element once, a batch of three sequences three times, as an
        independent reader counts."""
        model = mlb.read(MODEL)
        self.assertFalse(model.header.shared_classifier)
        weights = sum(
            a.rows * a.cols
            for a in mlb.layout(model.header)
            if a.kind in ("q8", "q4") and a.name != "tok_emb"
        )
        for cell in self.json_of(MODEL, *QUICK, "--batch", "1,3")["decode"]:
            self.assertAlmostEqual(cell["gmac_s"] / cell["tok_s"], weights * 1e-9, places=12)

    def test_table(self):
        done = krafla("bench", MODEL, *QUICK, "--batch", "2")
        lines = done.stdout.decode().splitlines()
        self.assertEqual(done.returncode, 0)
        self.assertTrue(lines[0].startswith(f"{MODEL}: Q4_0, "), lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:]], ["threads", "limit", "prefill", "decode"])
        self.assertEqual(lines[4].split()[2:5], ["0", "2", "3"])

    def test_called_by_the_pages_name(self):
        report = json.loads(
            krafla(MODEL, "-n", "2", "-r", "1", "--prefill", "0", "-t", "1", "--json", name="ml_bench").stdout
        )
        self.assertEqual((len(report["prefill"]), [c["n"] for c in report["decode"]]), (0, [2]))

    def test_a_list_takes_one_argument(self):
        """So that MODEL may follow."""
        self.assertEqual(len(self.json_of("--depth", "0,3", MODEL, *QUICK)["decode"]), 2)

    def test_the_engine_serves_requests(self):
        report = self.json_of("--requests", "1,3", "--beside", "2", MODEL, "--prefill", "0", "--decode", "0")
        rows = report["engine"]
        self.assertEqual(
            [(row["kind"], row["requests"]) for row in rows], [("joining", 1), ("joining", 3), ("beside", 2)]
        )
        for row in rows:
            self.assertGreater(row["tok_s"], 0)
            self.assertGreater(row["largest_gap_ms"], 0)

    def test_random_weights_by_shape(self):
        path = self.folder / "shape.mlb"
        report = self.json_of("--shape", "smollm2-135m", "--type", "q4_0", *QUICK, "--save", path)
        self.assertEqual(report["model"], "smollm2-135m")
        model = mlb.read(path)  # an independent reader accepts the file
        self.assertEqual(
            (model.header.dim, model.header.n_layers, model.header.vocab, model.header.wtype),
            (576, 30, 49152, 2),
        )
        self.assertEqual(report["bytes"], path.stat().st_size)
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_memory_that_does_not_suffice_is_refused(self):
        done = krafla("bench", "--shape", "llama3.1-8b", "--depth", "100000", "--batch", "1024")
        self.assert_fails(
            done, 1, "ML_E_MEMORY", "--shape llama3.1-8b", "8.5 GB of weights", "1024 sequences", "available"
        )

    @unittest.skipIf(ASAN, "AddressSanitizer needs more address space than the limit")
    def test_address_space_that_does_not_suffice_is_refused(self):
        done = krafla(
            "bench",
            "--shape",
            "qwen2.5-1.5b",
            *QUICK,
            "-t",
            "1",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
        )
        self.assert_fails(done, 1, "ML_E_MEMORY", "bytes of memory cannot be had")

    def test_bad_values(self):
        for options, words in (
            ((), ("MODEL", "--shape")),
            ((MODEL, "--shape", "qwen2.5-0.5b"), ("MODEL", "--shape")),
            (("--shape", "gpt2"), ("gpt2", "qwen2.5-0.5b")),
            ((MODEL, "--type", "q4_0"), ("--shape",)),
            ((MODEL, "--save", "x"), ("--shape",)),
            (("--shape", "smollm2-135m", "--type", "q5"), ("q5",)),
            ((MODEL, "--depth", "x"), ("x",)),
            ((MODEL, "--depth", "-1"), ("-1",)),
            ((MODEL, "--depth", "1,,2"), ("depth",)),
            ((MODEL, "--batch", "0"), ("batch",)),
            ((MODEL, "-t", "1,0"), ("threads",)),
            ((MODEL, "-r", "0"), ("repeats",)),
            ((MODEL, "--depth", "1000000"), ("max_seq", "1000512")),
            ((MODEL, "--requests", "65"), ("requests",)),
        ):
            with self.subTest(options):
                self.assert_fails(krafla("bench", *options), 2, *words)
        self.assert_fails(krafla("bench", MODEL, *QUICK, "--isa", "none"), 3, "none")


class Gguf(Case):
    """bench/mlb_to_gguf.py: the GGUF for other engines holds the same values, as krafla's own reader of GGUF
    finds."""

    def test_values_are_the_same(self):
        sizes = dict(
            dim=64,
            n_layers=2,
            n_heads=4,
            n_kv_heads=2,
            hidden_dim=96,
            vocab=99,
            max_seq=100,
            rope_theta=1e4,
            norm_eps=1e-5,
            scale_f16=1,
        )
        llama3 = dict(
            rope_type=mlb.LLAMA3,
            rope_factor=8,
            rope_low_freq_factor=1,
            rope_high_freq_factor=4,
            rope_orig_max_seq=64,
        )
        for own in ({}, {"shared_classifier": 1} | llama3, {"qkv_bias": 1}, {"qk_norm": 1, "head_dim": 32}):
            for wtype in (mlb.Q8_0, mlb.Q4_0):
                with self.subTest(own, wtype=wtype):
                    header = mlb.Header(**sizes | own, wtype=wtype)
                    model, gguf = self.folder / "m.mlb", self.folder / "m.gguf"
                    mlb.write(model, header, None, mlb.random_tensors(header, None, seed=5))
                    mlb_to_gguf.convert(model, gguf)
                    done = krafla("compare", model, gguf, "--json")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    report = json.loads(done.stdout)
                    self.assertEqual(report["header"], [])
                    errors = [tensor["max_error"] for tensor in report["tensors"]]
                    self.assertGreater(len(errors), 10)
                    self.assertEqual(set(errors), {0}, done.stdout)

    def test_other_shapes_are_refused(self):
        with self.assertRaises(SystemExit):
            mlb_to_gguf.convert(DATA / "models/gemma3-like-q8.mlb", self.folder / "x.gguf")


if __name__ == "__main__":
    unittest.main()
