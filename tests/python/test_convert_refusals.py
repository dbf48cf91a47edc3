"""`krafla convert` refuses broken and unsupported checkpoints, and names what is wrong."""
import json
import lzma
import math
import shutil
import unittest

from convert_case import (
    CHECKPOINTS,
    EXIT,
    REFUSED,
    ROOT,
    Case,
    both,
    drop,
    floats,
    krafla,
    nest,
    put,
    rope_per_layer_type,
    types,
)


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
        """A value that underflows to 0 is refused, because 0 would mean something else: no cap, or the
        default scale."""
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
        """The row is numbered as in the checkpoint, not as in the .mlb."""

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
