"""Shared by the tests of `krafla convert` with Hugging Face folders: runs the program, reads and writes
safetensors files, and makes changes of a config.json.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/golden")]
import hf  # noqa: E402
import mlb  # noqa: E402

KRAFLA = os.environ["KRAFLA"]
CHECKPOINTS = ROOT / "tests/data/checkpoints"
REFUSED = {"llama_bias": "attention_bias", "qwen3_5_nested": "lin_v_heads"}
GOOD = sorted(p.name for p in CHECKPOINTS.iterdir() if p.name not in REFUSED)
EXIT = {"ML_E_ARG": 2, "ML_E_IO": 4, "ML_E_FORMAT": 5, "ML_E_SHAPE": 6, "ML_E_UNSUPPORTED": 1}


def krafla(*args, **kwargs):
    return subprocess.run(
        [KRAFLA, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, timeout=120, **kwargs
    )


def read_safetensors(path):
    """(entries in file order: name -> (dtype, shape, bytes))."""
    data = Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return {
        name: (
            e["dtype"],
            e["shape"],
            data[8 + size + e["data_offsets"][0] : 8 + size + e["data_offsets"][1]],
        )
        for name, e in entries
    }


def safetensors_bytes(tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(raw for _, _, raw in tensors.values())


def all_tensors(folder):
    return {k: v for path in sorted(folder.glob("*.safetensors")) for k, v in read_safetensors(path).items()}


def floats(entry):
    return hf._decode(entry[2], entry[0], "x").reshape(entry[1])


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.out.mkdir()

    def copy(self, name, config=None, tensors=None):
        """A copy of a checkpoint with changed settings and tensors. `config` and `tensors` are functions that
        change a dict in place."""
        target = Path(tempfile.mkdtemp(dir=self.folder)) / name
        target.mkdir()
        settings = json.loads((CHECKPOINTS / name / "config.json").read_text())
        if config:
            config(settings)
        (target / "config.json").write_text(json.dumps(settings))
        if tensors is None:
            for path in CHECKPOINTS.joinpath(name).glob("*.safetensors*"):
                shutil.copyfile(path, target / path.name)
        else:
            content = all_tensors(CHECKPOINTS / name)
            content = tensors(content) or content
            (target / "model.safetensors").write_bytes(safetensors_bytes(content))
        return target

    def convert(self, source, *options):
        out = self.out / "model.mlb"
        result = krafla("convert", source, out, *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.stderr = result.stderr.decode()
        return out.read_bytes()

    def oracle(self, source, q4=False, f16=True, mask=0, **options):
        model = hf.load(source)
        header = replace(model.header, wtype=2 if q4 else 1, scale_f16=int(f16), q8_mask=mask)
        path = self.folder / "oracle.mlb"
        mlb.write(path, header, model.layer_flags, model.tensors, **options)
        return path.read_bytes()

    def assert_refused(self, source, status, *mentions, options=()):
        result = krafla("convert", source, self.out / "model.mlb", *options)
        text = result.stderr.decode()
        self.assertEqual(result.returncode, EXIT[status], text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertIn(status, text)
        for mention in mentions:
            self.assertIn(mention, text)
        self.assertEqual(list(self.out.iterdir()), [])


# --- changes of a config.json ------------------------------------------------------------------------------


def drop(*keys):
    def change(c):
        for key in keys:
            c.pop(key, None)

    return change


def put(**values):
    return lambda c: c.update(values)


def both(*changes):
    def change(c):
        for f in changes:
            f(c)

    return change


def nest(outer_type, **outer):
    """Moves the settings to text_config, with other keys around it."""

    def change(c):
        inner = dict(c)
        c.clear()
        c.update(
            {"model_type": outer_type, "text_config": inner, "vision_config": {"hidden_size": 7}}, **outer
        )

    return change


def renamed(old, new):
    return lambda tensors: {(new + k[len(old) :] if k.startswith(old) else k): v for k, v in tensors.items()}


def as_floats(c):
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"):
        c[key] = float(c[key])


def rope_parameters(c, **more):
    """transformers 5's spelling of rope_theta and rope_scaling."""
    scaling = dict(c.pop("rope_scaling", None) or {"rope_type": "default"})
    scaling.update(rope_theta=c.pop("rope_theta", 10000.0), **more)
    c["rope_parameters"] = scaling


def rope_per_layer_type(c):
    full = dict(c.pop("rope_scaling", None) or {}, rope_theta=c.pop("rope_theta"))
    c["rope_parameters"] = {
        "full_attention": full,
        "sliding_attention": {"rope_type": "default", "rope_theta": c.pop("rope_local_base_freq")},
    }


def types(*names):
    return put(
        layer_types=[
            {"f": "full_attention", "s": "sliding_attention", "l": "linear_attention"}[n] for n in names
        ]
    )


def old_type(c):
    c["rope_scaling"]["type"] = c["rope_scaling"].pop("rope_type")


# The same model in other words: (checkpoint, what changes)
