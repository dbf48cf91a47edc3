"""`krafla convert` of Hugging Face folders gives the bytes of an independent reader and writer in numpy
(tests/golden/hf.py, tools/mlb.py), in every type.
"""
import json
import math
import subprocess
import sys
import unittest

import numpy as np

from convert_case import CHECKPOINTS, GOOD, ROOT, Case, krafla
import hf
import mlb
import mli


def rule_of(name):
    return "round" if name.startswith("gemma3") else "search"


class Bytes(Case):
    def test_every_checkpoint_in_every_type(self):
        self.assertGreater(len(GOOD), 15)
        for i, name in enumerate(GOOD):
            for q4, f16 in ((False, True), (False, False), (True, True), (True, False)):
                with self.subTest(name, q4=q4, f16=f16):
                    options = [
                        "--type",
                        "q4_0" if q4 else "q8_0",
                        "--scales",
                        "f16" if f16 else "f32",
                        "-t",
                        1 + i % 3,
                    ]
                    got = self.convert(CHECKPOINTS / name, *options)
                    self.assertEqual(got, self.oracle(CHECKPOINTS / name, q4, f16, q4_rule=rule_of(name)))

    def test_threads_do_not_change_a_byte(self):
        for name in ("qwen3_5_v8", "llama3"):
            want = self.convert(CHECKPOINTS / name, "--type", "q4_0", "-t", 1)
            for threads in (2, 5):
                self.assertEqual(self.convert(CHECKPOINTS / name, "--type", "q4_0", "-t", threads), want)

    def test_mixed_types(self):
        for words, mask in (("tok_emb,w2", 65), ("wcls", 2), ("q,v", 12), ("wo,gate", 48)):
            for name in ("llama2", "qwen2", "qwen3_5"):
                with self.subTest(words, name=name):
                    self.assertEqual(
                        self.convert(CHECKPOINTS / name, "--type", "q4_0", "--q8", words),
                        self.oracle(CHECKPOINTS / name, True, mask=mask),
                    )

    def test_q4_rules(self):
        for name in ("llama2", "gemma3"):
            for rule in ("search", "round"):
                self.assertEqual(
                    self.convert(CHECKPOINTS / name, "--type", "q4_0", "--q4-rule", rule),
                    self.oracle(CHECKPOINTS / name, True, q4_rule=rule),
                )

    def importance(self, name):
        h = hf.load(CHECKPOINTS / name).header
        rng = np.random.RandomState(5)
        sizes = [h.dim, h.q_dim, h.dim, h.hidden_dim]
        layers = [[rng.gamma(0.3, 2.0, n) for n in sizes] for _ in range(h.n_layers)]
        m = mli.Importance(h.dim, h.hidden_dim, h.q_dim, 1000, 12, layers, rng.gamma(0.3, 2.0, h.dim))
        path = self.folder / f"{name}.mli"
        mli.write_mli(path, m)
        return path, m

    def test_importance_matrix(self):
        for name in ("llama2", "qwen2", "gemma3", "qwen3_5"):
            with self.subTest(name):
                path, m = self.importance(name)
                self.assertEqual(
                    self.convert(CHECKPOINTS / name, "--type", "q4_0", "--imatrix", path, "--q8", "wv"),
                    self.oracle(CHECKPOINTS / name, True, mask=8, importance=m),
                )
        path, _ = self.importance("llama2")
        (self.out / "model.mlb").unlink()
        q4 = ["--type", "q4_0", "--imatrix", path]
        self.assert_refused(CHECKPOINTS / "llama2", "ML_E_ARG", "round", options=q4 + ["--q4-rule", "round"])
        self.assert_refused(CHECKPOINTS / "qwen3", "ML_E_SHAPE", "dim", options=q4)
        self.assert_refused(
            CHECKPOINTS / "llama2",
            "ML_E_IO",
            "none.mli",
            options=["--type", "q4_0", "--imatrix", self.folder / "none.mli"],
        )

    def test_a_bad_importance_matrix_is_refused_before_any_work(self):
        """The error names the file and the sum. The checkpoint's last tensor contains NaN, so an error about
        it would show that the conversion had begun."""
        path, m = self.importance("llama2")
        good, bad = path.read_bytes(), self.folder / "bad.mli"

        def nan_norm(tensors):
            tensors["model.norm.weight"] = ("F32", [m.dim], np.full(m.dim, np.nan, "<f4").tobytes())

        source = self.copy("llama2", tensors=nan_norm)
        options = ["--type", "q4_0", "--imatrix", bad]
        for value, word in ((math.nan, "nan"), (-1.0, "-1"), (math.inf, "inf")):
            bad.write_bytes(good[: 40 + 8 * m.dim] + np.float64(value).tobytes() + good[48 + 8 * m.dim :])
            self.assert_refused(source, "ML_E_FORMAT", "bad.mli", word, options=options)
        bad.write_bytes(good[:40] + bytes(len(good) - 40))
        self.assert_refused(source, "ML_E_FORMAT", "bad.mli", options=options)
        for content in (good[:-8], good + bytes(8), b"", good[:39]):
            bad.write_bytes(content)
            self.assert_refused(source, "ML_E_FORMAT", "bad.mli", str(len(content)), options=options)
        bad.write_bytes(good)
        self.assert_refused(source, "ML_E_FORMAT", "model.norm.weight", options=options)

    def test_an_importance_matrix_has_no_place_for_a_wide_lout(self):
        path, _ = self.importance("qwen3_5_v8")
        self.assert_refused(
            CHECKPOINTS / "qwen3_5_v8", "ML_E_SHAPE", "lout", options=["--type", "q4_0", "--imatrix", path]
        )

    def test_the_script_gives_the_same(self):
        out = self.out / "s.mlb"
        result = subprocess.run(
            [
                sys.executable,
                ROOT / "tools/convert.py",
                CHECKPOINTS / "llama2",
                out,
                "--wtype",
                "q4",
                "--scales",
                "f32",
                "--q8",
                "w2,wo",
                "--no-tokenizer",
                "-t",
                "1",
            ],
            capture_output=True,
            check=False,
        )
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertEqual(out.read_bytes(), self.oracle(CHECKPOINTS / "llama2", True, False, mask=64 | 16))

    def test_names(self):
        folder = self.copy("llama2")
        for source in (".", "../llama2/", "../llama2"):
            result = krafla("convert", source, "--quiet", cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr.decode())
            (folder / "llama2.mlb").unlink()
        krafla("convert", folder, str(self.out) + "/", "--quiet")
        self.assertEqual([p.name for p in self.out.iterdir()], ["llama2.mlb"])

    def test_logits_are_the_oracles(self):
        import ref_forward as ref

        for name in ("llama3", "smollm3"):
            self.convert(CHECKPOINTS / name)
            ids = [1, 5, 9, 2, 7]
            (self.folder / "ids.json").write_text(json.dumps(ids))
            result = krafla(
                "logits",
                self.out / "model.mlb",
                "--ids",
                self.folder / "ids.json",
                "--out",
                self.folder / "x.npy",
            )
            self.assertEqual(result.returncode, 0, result.stderr.decode())
            want = ref.Forward(mlb.read(self.out / "model.mlb"), ref.Contract("f16")).logits(ids)
            self.assertTrue(np.array_equal(np.load(self.folder / "x.npy"), want), name)


if __name__ == "__main__":
    unittest.main()
