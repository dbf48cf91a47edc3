"""GGUF and Hugging Face give the same models. The twin of a checkpoint is a GGUF as llama.cpp's converter
would write it; from it, krafla must make the same .mlb as hf.py and mlb.py.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
sys.path.append(str(ROOT / "tests" / "golden"))
import gguf_twin
import make_gguf
import mlb
import random_checkpoint

KRAFLA = os.environ["KRAFLA"]
CHECKPOINTS = DATA / "checkpoints"
REFUSED = {"llama_bias": ("ML_E_UNSUPPORTED", ".bias"), "qwen3_5_nested": ("ML_E_SHAPE", "lin_v_heads")}


def krafla(*args):
    return subprocess.run(
        [KRAFLA, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, timeout=120
    )


class Twins(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, source, *options):
        result = krafla("convert", "--no-tokenizer", "--quiet", *options, source, self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return (self.folder / "out.mlb").read_bytes()

    def assert_converted(self, data, checkpoint, q4=None):
        """Checks that data is the .mlb of the checkpoint. A_log must be close, everything else equal."""
        model, got = gguf_twin.expected(checkpoint), mlb.read(data)
        h = model.header
        h.wtype, h.scale_f16 = (2 if q4 else 1), 1
        for name, tensor in model.tensors.items():
            if name.endswith(".A_log"):
                np.testing.assert_allclose(got.tensors[name], tensor, rtol=3e-7, atol=3e-7, err_msg=name)
                model.tensors[name] = np.array(got.tensors[name])
        mlb.write(self.folder / "want.mlb", h, model.layer_flags, model.tensors, q4_rule=q4 or "search")
        want = mlb.read((self.folder / "want.mlb").read_bytes())
        self.assertEqual(got.header, want.header)
        self.assertEqual(data == (self.folder / "want.mlb").read_bytes(), True, checkpoint.name)

    def test_every_checkpoint(self):
        seen = 0
        for checkpoint in sorted(CHECKPOINTS.iterdir()):
            with self.subTest(checkpoint.name):
                source = self.folder / "twin.gguf"
                gguf_twin.write(checkpoint, source)
                if checkpoint.name in REFUSED:
                    result = krafla("convert", "--no-tokenizer", source, self.folder / "out")
                    for part in REFUSED[checkpoint.name]:
                        self.assertIn(part, result.stderr.decode())
                    continue
                self.assert_converted(self.convert(source), checkpoint)
                seen += 1
        self.assertEqual(seen, 20)

    def with_what_a_gguf_says(self, checkpoint):
        """A copy of the checkpoint whose config.json lacks what a GGUF leaves out."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for path in checkpoint.glob("*.safetensors*"):
            (folder / path.name).symlink_to(path)
        outer = json.loads((checkpoint / "config.json").read_text())
        c = outer.get("text_config", outer)
        if c["model_type"] in ("mistral", "qwen2", "qwen3", "smollm3"):
            c.update(sliding_window=None, use_sliding_window=False, layer_types=None)
        if c["model_type"].startswith("gemma"):
            c["query_pre_attn_scalar"] = c["head_dim"]
        # llama.cpp's converter writes no base; it writes a missing cap as none.
        if c["model_type"] == "gemma2":
            for key in ("rope_theta", "rope_parameters", "attn_logit_softcapping", "final_logit_softcapping"):
                c.pop(key, None)
        for key in ("no_rope_layers", "no_rope_layer_interval"):
            c.pop(key, None)
        for s in (
            c.get("rope_scaling"),
            c.get("rope_parameters"),
            (c.get("rope_parameters") or {}).get("full_attention"),
        ):
            for key in ("mscale", "mscale_all_dim"):
                (s or {}).pop(key, None)
        (folder / "config.json").write_text(json.dumps(outer))
        return folder

    def assert_folder_and_gguf_agree(self, checkpoint):
        """The program gives the same bytes for both, except for A_log, which a GGUF stores as −exp(A_log)."""
        folder = self.with_what_a_gguf_says(checkpoint)
        gguf_twin.write(folder, self.folder / "twin.gguf")
        for kind in ("q8_0", "q4_0"):
            here, there = self.convert(folder, "--type", kind), self.convert(
                self.folder / "twin.gguf", "--type", kind
            )
            if mlb.read(here).header.lin_conv:
                here, there = self.without_a_log(here), self.without_a_log(there)
            self.assertEqual(mlb.read(here).header, mlb.read(there).header)
            self.assertEqual(here == there, True, kind)

    def test_folder_and_gguf_agree_for_random_checkpoints(self):
        """All families, with random shapes, patterns of layers and scalings of RoPE. llama3 scaling is left
        out, because a table of few factors does not determine its parameters."""
        seen = 0
        for seed in range(100, 148):
            source = Path(tempfile.mkdtemp(dir=self.folder))
            c = random_checkpoint.write(source, seed)
            if "llama3" in json.dumps(c) or (
                c.get("hidden_act") == "gelu_pytorch_tanh" and not c["model_type"].startswith("gemma")
            ):
                continue
            with self.subTest(seed=seed):
                self.assert_folder_and_gguf_agree(source)
                seen += 1
        self.assertGreater(seen, 30)

    def test_folder_and_gguf_agree(self):
        seen = 0
        for checkpoint in sorted(CHECKPOINTS.iterdir()):
            if checkpoint.name in REFUSED:
                continue
            with self.subTest(checkpoint.name):
                self.assert_folder_and_gguf_agree(checkpoint)
                seen += 1
        self.assertEqual(seen, 20)

    def without_a_log(self, data):
        data = bytearray(data)
        model = mlb.read(bytes(data))
        for a in mlb.layout(model.header, model.layer_flags):
            if a.name.endswith(".A_log"):
                data[a.offset : a.offset + a.nbytes] = bytes(a.nbytes)
        return data

    def test_bf16_weights_are_the_same(self):
        for name in ("gemma3", "qwen3_5_v8"):
            gguf_twin.write(CHECKPOINTS / name, self.folder / "f32.gguf")
            gguf_twin.write(CHECKPOINTS / name, self.folder / "bf16.gguf", make_gguf.BF16)
            with self.subTest(name):
                self.assertEqual(
                    self.convert(self.folder / "f32.gguf") == self.convert(self.folder / "bf16.gguf"), True
                )

    def test_q4_rule_of_the_family(self):
        for name, rule in (("gemma3", "round"), ("qwen3", "search")):
            gguf_twin.write(CHECKPOINTS / name, self.folder / "twin.gguf")
            with self.subTest(name):
                self.assert_converted(
                    self.convert(self.folder / "twin.gguf", "--type", "q4_0"), CHECKPOINTS / name, rule
                )

    def test_split_models(self):
        parts = gguf_twin.write_split(CHECKPOINTS / "qwen3", self.folder / "m", 3)
        for part in parts:
            self.assert_converted(self.convert(part), CHECKPOINTS / "qwen3")
        result = subprocess.run(
            [KRAFLA, "convert", "--no-tokenizer", parts[0].name],
            cwd=self.folder,
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertTrue((self.folder / "m.mlb").exists())
        other = gguf_twin.write_split(CHECKPOINTS / "qwen3", self.folder / "o", 4)[1].read_bytes()
        cases = {
            "missing": (
                lambda: (parts[0].unlink(), parts[1].unlink()),
                4,
                [parts[0].name, parts[1].name, "2 of the model's 3 parts"],
            ),
            "of another": (lambda: parts[1].write_bytes(other), 5, ["split.count 4"]),
            "twice the same": (lambda: parts[1].write_bytes(parts[2].read_bytes()), 5, ["split.no is 2"]),
        }
        for name, (spoil, code, mentions) in cases.items():
            with self.subTest(name):
                gguf_twin.write_split(CHECKPOINTS / "qwen3", self.folder / "m", 3)
                spoil()
                result = krafla("convert", "--no-tokenizer", parts[2], self.folder / "bad")
                self.assertEqual(result.returncode, code, result.stderr.decode())
                for mention in mentions:
                    self.assertIn(mention, result.stderr.decode())
                self.assertFalse((self.folder / "bad.mlb").exists())
        parts[0].rename(self.folder / "renamed.gguf")
        result = krafla("convert", "--no-tokenizer", self.folder / "renamed.gguf", self.folder / "bad")
        self.assertEqual(result.returncode, 5)
        self.assertIn("NAME-00001-of-00003.gguf", result.stderr.decode())

    def test_the_27b_models_are_known_by_their_layers(self):
        for name in make_gguf.gguf_families.BIG:
            keys, tensors, h, flags, read = make_gguf.family_model(*make_gguf.gguf_families.FAMILIES[name])
            (self.folder / "big.gguf").write_bytes(make_gguf.gguf(keys, tensors))
            h.scale_f16 = 1
            mlb.write(self.folder / "want.mlb", h, flags, read)
            with self.subTest(name):
                data = self.convert(self.folder / "big.gguf")
                self.assertEqual(
                    mlb.read(data).header, mlb.read((self.folder / "want.mlb").read_bytes()).header
                )
                self.assertEqual(data == (self.folder / "want.mlb").read_bytes(), True)

    def test_what_a_family_cannot_be(self):
        codes = {"ML_E_FORMAT": 5, "ML_E_SHAPE": 6, "ML_E_UNSUPPORTED": 1}
        for name, (data, status, mentions) in make_gguf.bad_families().items():
            with self.subTest(name):
                (self.folder / "bad.gguf").write_bytes(data)
                result = krafla("convert", "--no-tokenizer", self.folder / "bad.gguf", self.folder / "out")
                text = result.stderr.decode()
                self.assertEqual(result.returncode, codes[status], text)
                self.assertIn(status, text)
                for mention in mentions:
                    self.assertIn(mention, text)
                self.assertFalse((self.folder / "out.mlb").exists())

    def test_notes_name_what_was_not_used(self):
        keys, tensors, *_ = make_gguf.family_model(*make_gguf.gguf_families.FAMILIES["qwen35_list_mtp"])
        keys += [("qwen35.pooling_type", 3), ("qwen35.some.new.key", "x")]
        tensors.append(("v.patch_embd.weight", [32], make_gguf.F32, bytes(128)))
        (self.folder / "noted.gguf").write_bytes(make_gguf.gguf(keys, tensors))
        result = krafla("convert", "--no-tokenizer", self.folder / "noted.gguf", self.folder / "out")
        for mention in (
            "not used: qwen35.some.new.key",
            "not used: qwen35.pooling_type",
            "further tokens (1 tensor)",
            "images (1 tensor)",
        ):
            self.assertIn(mention, result.stderr.decode())
        self.assertNotIn("dimension_sections", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
