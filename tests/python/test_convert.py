"""`krafla convert` of Hugging Face folders: the bytes of an independent reader and writer in numpy (tests/golden/hf.py, tools/mlb.py),
every spelling of config.json, broken and unsupported checkpoints.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import lzma
import math
import os
import shutil
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
import mli  # noqa: E402

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
        """A checkpoint with another config.json and one file of other tensors (functions that change a dict in place)."""
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
        """By file and sum; the checkpoint's last tensor is NaN, and work would find it."""
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
    """The settings in text_config, with others around it."""

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
SPELLINGS = [
    ("llama3", rope_parameters),
    ("llama3", old_type),
    ("llama3", as_floats),
    ("llama3", lambda c: c["rope_scaling"].update(factor=8, low_freq_factor=1, high_freq_factor=4)),
    ("llama3", put(rope_theta=500000)),
    ("llama3", put(head_dim=None)),
    ("llama3", drop("head_dim", "attention_bias", "mlp_bias")),
    ("llama3", put(quantization_config=None)),
    ("llama3", put(use_sliding_window=None, layer_types=None)),
    ("llama3", lambda c: c["rope_scaling"].update(type="ignored")),
    ("llama3", put(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5.0})),
    ("llama3", both(drop("torch_dtype"), put(dtype="bfloat16"))),
    ("llama2", put(num_key_value_heads=4)),
    ("llama2", put(num_key_value_heads=None)),
    ("llama2", put(rope_scaling={})),
    ("llama2", rope_parameters),
    ("llama2", drop("rope_scaling", "hidden_act", "max_position_embeddings", "tie_word_embeddings")),
    ("llama2", put(rope_theta=None)),
    ("llama2", put(hidden_act="swish")),
    ("llama2", put(rope_scaling={"type": "default"})),
    ("llama2", both(rope_parameters, lambda c: c["rope_parameters"].pop("rope_type"))),
    ("llama_linear", rope_parameters),
    (
        "llama3",
        both(
            lambda c: c["rope_scaling"].pop("original_max_position_embeddings"),
            put(original_max_position_embeddings=64),
        ),
    ),
    (
        "llama_yarn",
        both(
            lambda c: c["rope_scaling"].update(original_max_position_embeddings=7),
            put(original_max_position_embeddings=256),
        ),
    ),
    (
        "qwen2_swa",
        put(
            rope_parameters={"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e6}}
        ),
    ),
    ("smollm3", put(no_rope_layers=[1, 0, 1, 1, 0, 0, 1])),
    (
        "llama_yarn",
        lambda c: c["rope_scaling"].update(beta_fast=32, beta_slow=1, attention_factor=None, truncate=True),
    ),
    ("llama_yarn", lambda c: c["rope_scaling"].update(factor=8)),
    ("llama_yarn_mscale", rope_parameters),
    ("llama_yarn_af", rope_parameters),
    ("mistral_swa", types("s", "s")),
    ("mistral_swa", nest("mistral3")),
    ("mistral_nemo", types("f", "f")),
    ("qwen2", put(sliding_window=None)),
    ("qwen2", drop("use_sliding_window", "max_window_layers", "sliding_window")),
    ("qwen2_swa", types("f", "s", "s")),
    ("qwen2_swa", put(layer_types=None)),
    ("qwen2_yarn", rope_parameters),
    ("qwen3", both(put(rope_theta=1000000.0), drop("attention_bias", "rope_scaling"))),
    ("smollm3", drop("layer_types")),
    ("smollm3", put(no_rope_layers=[True, False, True, True, False])),
    ("smollm3", put(no_rope_layer_interval=3)),
    ("smollm3", rope_parameters),
    ("smollm3", put(tie_word_embeddings=True)),
    ("gemma2", types("s", "f", "s")),
    ("gemma2", drop("hidden_activation", "hidden_act", "rms_norm_eps", "rope_theta")),
    ("gemma2", put(hidden_act="gelu")),
    ("gemma3", types("s", "s", "s", "s", "s", "f", "s")),
    ("gemma3", drop("sliding_window_pattern")),
    ("gemma3", both(drop("sliding_window_pattern"), put(_sliding_window_pattern=6))),
    ("gemma3", rope_per_layer_type),
    ("gemma3", drop("rope_local_base_freq", "rope_theta", "hidden_activation", "rms_norm_eps")),
    ("gemma3", put(attn_logit_softcapping=50.0)),
    ("gemma3", nest("gemma3")),
    ("qwen3_5", drop("layer_types")),
    ("qwen3_5", drop("full_attention_interval", "attn_output_gate", "linear_conv_kernel_dim")),
    ("qwen3_5", lambda c: c["rope_parameters"].pop("partial_rotary_factor")),
    ("qwen3_5", both(lambda c: c.update(rope_theta=c["rope_parameters"].pop("rope_theta")))),
    ("qwen3_5", nest("qwen3_5", tie_word_embeddings=True)),
    ("qwen3_5", both(drop("tie_word_embeddings"), nest("qwen3_5", tie_word_embeddings=True))),
]


class Spellings(Case):
    def test_the_same_model_in_other_words(self):
        want = {name: self.convert(CHECKPOINTS / name) for name in {name for name, _ in SPELLINGS}}
        for i, (name, change) in enumerate(SPELLINGS):
            with self.subTest(f"{i} {name}"):
                self.assertEqual(self.convert(self.copy(name, change)), want[name])

    def test_other_settings_are_the_oracles(self):
        """Not the same model, but still what the independent reader makes of it."""
        for i, (name, change) in enumerate(
            [
                ("llama3", put(rope_theta=1e6)),
                ("llama3", put(max_position_embeddings=1 << 25)),
                ("llama2", put(rms_norm_eps=1e-3)),
                ("mistral_swa", drop("sliding_window")),
                ("mistral_swa", types("s", "f")),
                ("mistral_swa", put(sliding_window=None)),
                ("qwen2_swa", put(max_window_layers=2)),
                ("qwen2_swa", put(max_window_layers=9)),
                ("qwen2_swa", types("s", "f", "s")),
                ("qwen2_swa", put(max_window_layers=0)),
                ("qwen3", put(use_sliding_window=True, sliding_window=9, max_window_layers=1)),
                ("smollm3", drop("no_rope_layers")),
                ("smollm3", both(drop("no_rope_layers"), put(no_rope_layer_interval=2))),
                ("smollm3", both(drop("layer_types"), put(use_sliding_window=True, sliding_window=8))),
                (
                    "smollm3",
                    both(types("f", "s", "s", "f", "f"), put(use_sliding_window=True, sliding_window=8)),
                ),
                ("smollm3", drop("rope_theta")),
                ("gemma2", types("f", "f", "f")),
                ("gemma2", put(attn_logit_softcapping=None)),
                (
                    "gemma2",
                    drop(
                        "attn_logit_softcapping",
                        "final_logit_softcapping",
                        "query_pre_attn_scalar",
                        "sliding_window",
                    ),
                ),
                ("gemma2", put(query_pre_attn_scalar=32)),
                ("gemma3", put(sliding_window_pattern=3)),
                ("gemma3", put(sliding_window_pattern=1)),
                ("gemma3", put(final_logit_softcapping=12.5)),
                ("gemma3", put(rope_local_base_freq=777)),
                ("gemma3", put(rope_scaling=None)),
                ("gemma3", put(hidden_activation="silu")),
                ("gemma3_nested", lambda c: c["text_config"].update(query_pre_attn_scalar=168)),
                ("llama_yarn", lambda c: c["rope_scaling"].pop("original_max_position_embeddings")),
                ("llama3", lambda c: c["rope_scaling"].pop("original_max_position_embeddings")),
                ("llama_yarn", lambda c: c["rope_scaling"].update(mscale=2.0)),
                ("llama_yarn", lambda c: c["rope_scaling"].update(factor=0.5)),
                ("qwen3_5", lambda c: c["rope_parameters"].update(partial_rotary_factor=0.5)),
                ("qwen3_5", lambda c: c["rope_parameters"].update(partial_rotary_factor=1.0)),
                ("qwen3_5", lambda c: c["rope_parameters"].update(rope_type="yarn", factor=4.0)),
            ]
        ):
            with self.subTest(f"{i} {name}"):
                folder = self.copy(name, change)
                self.assertEqual(self.convert(folder), self.oracle(folder))

    def test_prefixes(self):
        for name, old, new in (
            ("llama2", "model.", "language_model.model."),
            ("llama2", "model.", "model.language_model."),
            ("llama2", "model.", ""),
            ("llama2", "model.", "model.text_model."),
            ("gemma3_nested", "language_model.model.", "model.language_model."),
            ("gemma3_nested", "language_model.model.", "model."),
            ("qwen3_5_nested_v4", "model.language_model.", "language_model.model."),
        ):
            with self.subTest(name, new=new):
                self.assertEqual(
                    self.convert(self.copy(name, tensors=renamed(old, new))), self.convert(CHECKPOINTS / name)
                )
        self.assertEqual(
            self.convert(self.copy("llama2", tensors=renamed("lm_head", "language_model.lm_head"))),
            self.convert(CHECKPOINTS / "llama2"),
        )

    def test_files(self):
        """One file, several without an index, another name: the same."""
        want = self.convert(CHECKPOINTS / "qwen2_swa")
        one = self.copy("qwen2_swa", tensors=lambda t: None)
        self.assertEqual(self.convert(one), want)
        (one / "model.safetensors").rename(one / "weights.safetensors")
        self.assertEqual(self.convert(one), want)
        parts = self.copy("qwen2_swa")
        (parts / "model.safetensors.index.json").unlink()
        (parts / "consolidated.safetensors").write_bytes(b"another format")
        self.assertEqual(self.convert(parts), want)
        (parts / "model-00002-of-00003.safetensors").unlink()
        (self.out / "model.mlb").unlink()
        self.assert_refused(parts, "ML_E_IO", "model-00002-of-00003.safetensors")

    def test_types_of_the_source(self):
        """F32, F16 and BF16 of values that all of them hold."""

        def rounded(dtype):
            def change(tensors):
                for name, entry in tensors.items():
                    x = (floats(entry) * 64).round().clip(-100, 100) / 64
                    raw = {
                        "F32": x.astype("<f4"),
                        "F16": x.astype("<f2"),
                        "BF16": (x.astype("<f4").view("<u4") >> 16).astype("<u2"),
                    }[dtype]
                    tensors[name] = (dtype, entry[1], raw.tobytes())

            return change

        want = self.convert(self.copy("qwen2", tensors=rounded("F32")))
        for dtype in ("F16", "BF16"):
            self.assertEqual(self.convert(self.copy("qwen2", tensors=rounded(dtype))), want)
        self.assert_is_oracle(self.copy("qwen2", tensors=rounded("F16")))

    def assert_is_oracle(self, folder):
        self.assertEqual(self.convert(folder), self.oracle(folder))

    def test_classifier(self):
        def head(change):
            def apply(tensors):
                dtype, shape, raw = tensors["model.embed_tokens.weight"]
                tensors["lm_head.weight"] = change(dtype, shape, raw)

            return apply

        same = self.copy("llama3", tensors=head(lambda d, s, r: (d, s, r)))
        self.assertEqual(self.convert(same), self.convert(CHECKPOINTS / "llama3"))
        other = self.copy("llama3", tensors=head(lambda d, s, r: (d, s, r[2:] + r[:2])))
        self.assertEqual(mlb.read(self.convert(other)).header.shared_classifier, 0)
        self.assert_is_oracle(other)
        as_f32 = self.copy(
            "llama3", tensors=head(lambda d, s, r: ("F32", s, hf._decode(r, d, "x").tobytes()))
        )
        self.assertEqual(self.convert(as_f32), self.convert(CHECKPOINTS / "llama3"))
        untied = self.copy("llama3", put(tie_word_embeddings=False), head(lambda d, s, r: (d, s, r)))
        self.assertEqual(
            self.convert(untied), self.convert(CHECKPOINTS / "llama3")
        )  # as from a GGUF, which has no such key

    def test_other_modalities_are_named(self):
        others = (
            "model.vision_model.x",
            "model.connector.modality_projection.proj.weight",
            "connector.x",
            "image_newline",
            "model.image_newline",
            "audio_tower.x",
            "model.mtp.x",
        )

        def more(tensors):
            tensors.update({name: ("F32", [2], bytes(8)) for name in others})

        self.assertEqual(
            self.convert(self.copy("llama2", tensors=more)), self.convert(CHECKPOINTS / "llama2")
        )
        self.convert(self.copy("llama2", tensors=more))
        for name in others:
            parts = name.split(".")
            group = ".".join(parts[:2] if parts[0] == "model" else parts[:1])
            self.assertIn(f"not converted: {group}", self.stderr)
        self.convert(CHECKPOINTS / "gemma3_nested")
        self.assertIn("vision_tower.*", self.stderr)
        self.convert(CHECKPOINTS / "qwen3_5_nested_v4")
        self.assertIn("model.visual.*", self.stderr)
        self.assertIn("mtp.*", self.stderr)


class Refusals(Case):
    def test_what_no_mlb_holds(self):
        for name, word in REFUSED.items():
            self.assert_refused(
                CHECKPOINTS / name, "ML_E_SHAPE" if word == "lin_v_heads" else "ML_E_UNSUPPORTED", word
            )
        for name, change, words in [
            ("llama2", put(model_type="mixtral"), ["model_type", "mixtral", "qwen3_5"]),
            ("llama2", put(attention_bias=True), ["attention_bias"]),
            ("llama2", put(mlp_bias=True), ["mlp_bias"]),
            ("qwen3", put(attention_bias=True), ["attention_bias"]),
            ("llama2", put(rope_scaling={"type": "dynamic", "factor": 2.0}), ["dynamic"]),
            ("llama2", put(rope_scaling={"rope_type": "longrope", "short_factor": []}), ["longrope"]),
            ("llama2", put(rope_scaling={"type": "su"}), ['"su"']),
            ("llama2", put(partial_rotary_factor=0.5), ["partial_rotary_factor"]),
            ("llama_yarn", lambda c: c["rope_scaling"].update(truncate=False), ["truncate"]),
            ("llama2", put(hidden_act="relu"), ["relu"]),
            ("llama2", put(hidden_act="gelu"), ["gelu"]),
            ("gemma3", put(use_bidirectional_attention=True), ["use_bidirectional_attention"]),
            (
                "gemma3",
                both(
                    rope_per_layer_type,
                    lambda c: c["rope_parameters"]["sliding_attention"].update(
                        rope_type="linear", factor=2.0
                    ),
                ),
                ["sliding", "linear"],
            ),
            ("llama2", put(quantization_config={"quant_method": "gptq"}), ["quantized already"]),
            ("llama2", nest("llava", quantization_config={"quant_method": "awq"}), ["quantized already"]),
            ("qwen3_5", put(hidden_act="gelu_pytorch_tanh"), ["hidden_act", "gelu_pytorch_tanh"]),
            (
                "qwen2_swa",
                put(
                    rope_parameters={
                        "full_attention": {"rope_theta": 1e6},
                        "sliding_attention": {"rope_theta": 1e4},
                    }
                ),
                ["sliding_attention", "qwen2"],
            ),
            ("qwen3_5", types("l", "l", "l", "s"), ["sliding_attention"]),
            ("llama2", types("f", "l"), ["linear_attention"]),
            ("llama2", put(num_local_experts=8), ["num_local_experts"]),
        ]:
            with self.subTest(name, words=words):
                self.assert_refused(self.copy(name, change), "ML_E_UNSUPPORTED", *words)

    def test_broken_settings(self):
        for status, name, change, words in [
            ("ML_E_FORMAT", "llama2", put(hidden_size="128"), ["hidden_size"]),
            ("ML_E_FORMAT", "llama2", put(hidden_size=128.5), ["128.5"]),
            ("ML_E_FORMAT", "llama2", put(hidden_size=-128), ["-128"]),
            ("ML_E_FORMAT", "llama2", put(vocab_size=1 << 40), ["vocab_size"]),
            ("ML_E_FORMAT", "llama2", put(num_hidden_layers=1 << 31), ["num_hidden_layers"]),
            ("ML_E_FORMAT", "llama2", drop("model_type"), ["model_type"]),
            ("ML_E_FORMAT", "llama2", put(rope_theta=0), ["rope_theta"]),
            (
                "ML_E_FORMAT",
                "llama3",
                lambda c: c["rope_scaling"].pop("low_freq_factor"),
                ["low_freq_factor"],
            ),
            ("ML_E_FORMAT", "llama_linear", lambda c: c["rope_scaling"].pop("factor"), ["factor"]),
            ("ML_E_FORMAT", "llama2", put(rope_scaling="linear"), ["rope_scaling"]),
            ("ML_E_FORMAT", "qwen2_swa", types("f"), ["layer_types"]),
            ("ML_E_FORMAT", "smollm3", put(no_rope_layers=[1]), ["no_rope_layers"]),
            ("ML_E_FORMAT", "gemma3", put(sliding_window_pattern=0), ["sliding_window_pattern"]),
            ("ML_E_FORMAT", "gemma3", put(sliding_window=None), ["sliding_window is 0 or null"]),
            ("ML_E_FORMAT", "gemma3", put(rope_local_base_freq=0), ["RoPE base of sliding layers"]),
            ("ML_E_FORMAT", "gemma2", put(query_pre_attn_scalar=0), ["query_pre_attn_scalar"]),
            ("ML_E_SHAPE", "llama2", put(num_attention_heads=0), ["n_heads"]),
            ("ML_E_SHAPE", "llama2", put(num_attention_heads=7), ["128", "7"]),
            (
                "ML_E_SHAPE",
                "llama2",
                put(vocab_size=321),
                ["embed_tokens.weight", "[320, 128]", "[321, 128]"],
            ),
            ("ML_E_SHAPE", "llama2", put(intermediate_size=384), ["gate_proj", "up_proj", "down_proj"]),
            ("ML_E_SHAPE", "llama2", put(head_dim=16), ["q_proj"]),
        ]:
            with self.subTest(name, words=words):
                self.assert_refused(self.copy(name, change), status, *words)

    def test_numbers_beyond_floats(self):
        """What underflows to 0 would mean something else: no cap, the default scale."""
        for key in (
            "query_pre_attn_scalar",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "rms_norm_eps",
            "rope_theta",
        ):
            for value in (1e-50, 1e308):
                with self.subTest(key, value=value):
                    self.assert_refused(
                        self.copy("gemma2", put(**{key: value})), "ML_E_FORMAT", key, "32-bit floats"
                    )

    def test_older_files_beside_the_output_are_named(self):
        for name in ("model.mlt", "model.json"):
            (self.out / name).write_bytes(b"")
            result = krafla("convert", CHECKPOINTS / "llama3", self.out / "model", "--no-tokenizer")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"{name} is an older file".encode(), result.stderr)

    def test_compare_with_a_source_that_is_no_numbers(self):
        krafla("convert", CHECKPOINTS / "llama2", self.out / "model")
        name = "model.layers.1.self_attn.q_proj.weight"

        def poison(tensors):
            x = floats(tensors[name]).copy()
            x.reshape(-1)[7] = math.nan
            tensors[name] = ("F32", tensors[name][1], x.astype("<f4").tobytes())

        result = krafla("compare", self.out / "model", self.copy("llama2", tensors=poison))
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn(name.encode(), result.stderr)

    def test_broken_json(self):
        folder = self.copy("llama2")
        for text, words in (
            (b"{", "no JSON"),
            (b"[]", "object"),
            (b"[" * 100000, "nested"),
            (b'{"a":' * 1000, "nested"),
            (b"\xff", "no JSON"),
            (b"", "no JSON"),
        ):
            with self.subTest(text[:10]):
                (folder / "config.json").write_bytes(text)
                self.assert_refused(folder, "ML_E_FORMAT", "config.json", words)
        (folder / "config.json").unlink()
        self.assert_refused(folder, "ML_E_IO", "config.json")

    def test_tensors(self):
        def without(*names):
            return lambda t: {k: v for k, v in t.items() if k not in names}

        def extra(name, entry=("F32", [2], bytes(8))):
            return lambda t: t.update({name: entry})

        q, up = "model.layers.1.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"
        self.assert_refused(
            self.copy("llama2", tensors=without(q, up)), "ML_E_FORMAT", "missing: 2 tensors", q, up
        )
        self.assert_refused(
            self.copy("llama2", tensors=without("lm_head.weight")), "ML_E_FORMAT", "lm_head.weight"
        )
        self.assert_refused(
            self.copy("llama2", tensors=without("model.embed_tokens.weight")),
            "ML_E_FORMAT",
            "model.embed_tokens.weight",
        )
        self.assert_refused(
            self.copy("llama2", tensors=extra("model.layers.0.mlp.up_proj.bias")),
            "ML_E_UNSUPPORTED",
            "up_proj.bias",
        )
        self.assert_refused(
            self.copy("llama2", tensors=extra("model.layers.2.mlp.up_proj.weight")),
            "ML_E_UNSUPPORTED",
            "layers.2",
        )
        self.assert_refused(
            self.copy("llama2", tensors=extra(q[:-6] + "qweight")), "ML_E_UNSUPPORTED", "quantized already"
        )
        self.assert_refused(
            self.copy("llama2", tensors=extra(q + ".absmax")), "ML_E_UNSUPPORTED", "quantized already"
        )
        self.assert_refused(
            self.copy(
                "llama2", tensors=lambda t: t.update({up: ("I8", t[up][1], bytes(len(t[up][2]) // 2))})
            ),
            "ML_E_UNSUPPORTED",
            up,
            "I8",
        )
        self.assert_refused(
            self.copy("llama2", tensors=lambda t: t.update({up: (t[up][0], t[up][1][::-1], t[up][2])})),
            "ML_E_SHAPE",
            up,
        )
        self.convert(self.copy("llama2", tensors=extra("model.layers.0.self_attn.rotary_emb.inv_freq")))

    def test_weights_that_are_no_numbers_name_tensor_and_row(self):
        """The row is the checkpoint's, not the one it becomes."""

        def poisoned(name, row, value):
            def change(tensors):
                x = floats(tensors[name]).copy()
                x.reshape(x.shape[0], -1)[row, 0] = value
                tensors[name] = ("F32", tensors[name][1], x.astype("<f4").tobytes())

            return change

        for checkpoint, name, row in (
            ("llama2", "model.layers.1.self_attn.q_proj.weight", 37),
            ("llama2", "lm_head.weight", 319),
            ("qwen3_5", "model.layers.3.self_attn.q_proj.weight", 70),
            ("qwen3_5", "model.layers.0.linear_attn.conv1d.weight", 11),
        ):
            for value in (math.nan, math.inf):
                with self.subTest(name, value=value):
                    self.assert_refused(
                        self.copy(checkpoint, tensors=poisoned(name, row, value)),
                        "ML_E_FORMAT",
                        f"{name} (",
                        f" row {row}:",
                    )
        self.assert_refused(
            self.copy("llama2", tensors=poisoned("model.norm.weight", 5, math.nan)),
            "ML_E_FORMAT",
            "model.norm.weight",
            "column 5",
        )
        self.assert_refused(
            self.copy("llama2", tensors=poisoned("lm_head.weight", 5, 1e7)),
            "ML_E_FORMAT",
            "lm_head.weight",
            "row 5:",
            "65504",
        )

    def test_shards(self):
        folder = self.copy("qwen2_swa")
        for number in (1, 3):
            (folder / f"model-0000{number}-of-00003.safetensors").unlink()
        self.assert_refused(
            folder,
            "ML_E_IO",
            "2 of 3",
            "model-00001-of-00003.safetensors",
            "model-00003-of-00003.safetensors",
        )
        folder = self.copy("qwen2_swa")
        shard = folder / "model-00002-of-00003.safetensors"
        size = shard.stat().st_size
        shard.write_bytes(shard.read_bytes()[:-100])
        self.assert_refused(folder, "ML_E_FORMAT", shard.name, str(size), str(size - 100))
        index = folder / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        for name in ("../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""):
            index.write_text(
                json.dumps({"weight_map": dict(good["weight_map"], **{"model.norm.weight": name})})
            )
            self.assert_refused(folder, "ML_E_FORMAT", "model.norm.weight", "files in this folder")
        for broken in ("{}", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "{"):
            index.write_text(broken)
            self.assert_refused(folder, "ML_E_FORMAT", index.name)
        folder = self.copy("qwen2_swa")
        index = folder / "model.safetensors.index.json"
        index.write_text(
            json.dumps({"weight_map": dict(good["weight_map"], more="model-00001-of-00003.safetensors")})
        )
        self.assert_refused(folder, "ML_E_FORMAT", "more (model-00001-of-00003.safetensors)")
        index.unlink()
        shutil.copyfile(folder / "model-00001-of-00003.safetensors", folder / "again.safetensors")
        self.assert_refused(folder, "ML_E_FORMAT", "in another file")

    def test_other_kinds_of_folders(self):
        folder = self.copy("llama2")
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        self.assert_refused(folder, "ML_E_UNSUPPORTED", "pytorch_model.bin", ".safetensors is needed")
        (folder / "pytorch_model.bin").rename(folder / "x.gguf")
        self.assert_refused(folder, "ML_E_UNSUPPORTED", "x.gguf")
        (folder / "x.gguf").rename(folder / "adapter_model.safetensors")
        self.assert_refused(folder, "ML_E_UNSUPPORTED", "adapter")
        (folder / "adapter_model.safetensors").unlink()
        self.assert_refused(folder, "ML_E_FORMAT", "no .safetensors file")
        self.assert_refused(CHECKPOINTS / "llama2" / "model.safetensors", "ML_E_FORMAT", "give the folder")

    def test_usage(self):
        source = CHECKPOINTS / "llama2"
        self.assert_refused(source, "ML_E_ARG", "--q8", options=["--q8", "w2"])
        self.assert_refused(source, "ML_E_ARG", "w9", "tok_emb", options=["--type", "q4_0", "--q8", "w2,w9"])
        self.assert_refused(
            source, "ML_E_ARG", "--imatrix", "empty", options=["--type", "q4_0", "--imatrix", ""]
        )
        self.assert_refused("", "ML_E_ARG", "SOURCE", "empty")
        done = self.folder / "done.mlb"
        done.write_bytes(self.convert(source))
        self.assertNotIn("not used", self.stderr)
        self.assertEqual(self.convert(source, "--q4-rule", "search"), done.read_bytes())
        self.assertIn("not used: --q4-rule", self.stderr)
        for path in self.out.iterdir():
            path.unlink()
        self.assert_refused(done, "ML_E_FORMAT", "already")
        result = krafla(
            "convert", "--type", "q4_0", "--q8", "wv", source, self.out / "model"
        )  # --q8 takes one value
        self.assertEqual(result.returncode, 0, result.stderr.decode())

    def test_what_is_read_is_not_written_over(self):
        folder = self.copy("llama2")
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        (folder / "link.mlb").symlink_to("model.safetensors")
        for out in ("config", "link"):
            result = krafla("convert", folder, folder / out)
            self.assertEqual(result.returncode, EXIT["ML_E_ARG"], out)
            self.assertIn("it is read", result.stderr.decode())
        tokenizer = folder / "tokenizer.json"
        tokenizer.write_bytes(
            lzma.decompress((ROOT / "tests/data/tokenizers/qwen3_5.tokenizer.json.xz").read_bytes())
        )
        before["tokenizer.json"] = tokenizer.read_bytes()
        for arguments in ((tokenizer, folder / "tokenizer"), (folder, folder / "config.mlt")):
            result = krafla("convert-tokenizer", *arguments)
            self.assertEqual(result.returncode, EXIT["ML_E_ARG"], arguments)
        (folder / "link.mlb").unlink()
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)

    def test_an_older_tokenizer_is_pointed_at(self):
        self.convert(CHECKPOINTS / "llama2")
        self.assertNotIn("older file", self.stderr)
        (self.out / "model.mlt").write_bytes(b"")
        self.convert(CHECKPOINTS / "llama2")
        self.assertIn("model.mlt is an older file", self.stderr)


if __name__ == "__main__":
    unittest.main()
