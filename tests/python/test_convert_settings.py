"""Every spelling of config.json, and every arrangement of a checkpoint's files and tensors, gives the bytes
of the oracle. """
import unittest

from convert_case import (
    CHECKPOINTS,
    Case,
    as_floats,
    both,
    drop,
    floats,
    nest,
    old_type,
    put,
    renamed,
    rope_parameters,
    rope_per_layer_type,
    types,
)
import hf
import mlb


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
        """These settings change the model; the result must still equal that of the independent reader."""
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
        """F32, F16 and BF16 of values that all three types can represent."""

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


if __name__ == "__main__":
    unittest.main()
