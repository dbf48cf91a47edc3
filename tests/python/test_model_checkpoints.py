"""Every tiny checkpoint of every family, converted and run: `krafla logits` gives the oracle's bits at every
position, for any type of matrices and of KV cache, any cut of the prompt into forward calls and any number of
threads. A minute or two.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import hf  # noqa: E402
import mlb  # noqa: E402
import random_checkpoint  # noqa: E402
import ref_forward as ref  # noqa: E402

KRAFLA = os.environ["KRAFLA"]
CHECKPOINTS = ROOT / "tests/data/checkpoints"
REFUSED = {"llama_bias", "qwen3_5_nested"}
KV = ("f16", "f32", "q8_0")
Q8, Q4 = ["--type", "q8_0"], ["--type", "q4_0"]
MORE = {
    "qwen3_5": [Q8 + ["--scales", "f32"], Q4 + ["--q8", "wq,w2,tok_emb"]],
    "gemma2": [Q4 + ["--scales", "f32"]],
    "llama2": [Q4 + ["--q8", "wv,wcls,wo"]],
}  # beside Q8_0 and Q4_0 with f16 scales


def krafla(*args):
    result = subprocess.run(
        [KRAFLA, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, timeout=300
    )
    assert result.returncode == 0, result.stderr.decode()
    return result


def prompts_of(name):
    with np.load(CHECKPOINTS / name / "golden.npz") as golden:
        return [golden[key].tolist() for key in sorted(golden.files) if key.startswith("prompt")]


def oracle(model, prompts, kv):
    forward = ref.Forward(model, ref.Contract(kv))
    return [forward.logits(ids) for ids in prompts]


def same_bits(a, b):
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


class Checkpoints(unittest.TestCase):
    def check(self, name, options):
        prompts = prompts_of(name)
        with tempfile.TemporaryDirectory() as folder:
            path, ids, out = (Path(folder) / n for n in ("m.mlb", "ids.json", "x.npy"))
            krafla("convert", CHECKPOINTS / name, path, "--no-tokenizer", "--quiet", *options)
            model = mlb.read(path)
            for kv in KV:
                for prompt, want in zip(prompts, oracle(model, prompts, kv)):
                    ids.write_text(json.dumps(prompt))
                    for chunk, threads in ((1, 1), (7, 3), (64, 1), (4096, 3)):
                        krafla(
                            "logits",
                            path,
                            "--ids",
                            ids,
                            "--out",
                            out,
                            "--chunk",
                            chunk,
                            "-t",
                            threads,
                            "--kv",
                            kv,
                        )
                        with self.subTest(
                            name, options=options, kv=kv, length=len(prompt), chunk=chunk, threads=threads
                        ):
                            self.assertTrue(same_bits(np.load(out), want))

    def test_every_position_is_the_oracles(self):
        names = sorted(p.name for p in CHECKPOINTS.iterdir() if p.name not in REFUSED)
        self.assertEqual(len(names), 20)
        for name in names:
            for options in [Q8, Q4] + MORE.get(name, []):
                self.check(name, options)

    def test_shapes_of_all_kinds(self):
        """Random checkpoints, five of each family: the bytes of the independent reader and writer, and the
        oracle's logits."""
        for seed in range(40):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as name:
                folder, kv, q4 = Path(name), KV[seed % 3], seed // 8 % 2
                (folder / "source").mkdir()
                c = random_checkpoint.write(folder / "source", seed)
                krafla(
                    "convert",
                    folder / "source",
                    folder / "m.mlb",
                    "--no-tokenizer",
                    "--quiet",
                    *(Q4 if q4 else Q8)
                )
                model = hf.load(folder / "source")
                mlb.write(
                    folder / "want.mlb",
                    replace(model.header, wtype=1 + q4, scale_f16=1),
                    model.layer_flags,
                    model.tensors,
                    q4_rule="round" if c["model_type"].startswith("gemma3") else "search",
                )
                self.assertTrue((folder / "m.mlb").read_bytes() == (folder / "want.mlb").read_bytes(), c)
                ids = np.random.RandomState(seed).randint(0, c["vocab_size"], 70).tolist()
                (folder / "ids.json").write_text(json.dumps(ids))
                want = ref.Forward(mlb.read(folder / "m.mlb"), ref.Contract(kv)).logits(ids)
                for chunk, threads in ((1, 1), (13, 3), (4096, 2)):
                    krafla(
                        "logits",
                        folder / "m.mlb",
                        "--ids",
                        folder / "ids.json",
                        "--out",
                        folder / "x.npy",
                        "--chunk",
                        chunk,
                        "-t",
                        threads,
                        "--kv",
                        kv,
                    )
                    self.assertTrue(same_bits(np.load(folder / "x.npy"), want), (c, chunk))


if __name__ == "__main__":
    unittest.main()
