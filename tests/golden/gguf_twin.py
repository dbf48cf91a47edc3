"""Writes a Hugging Face checkpoint as a GGUF file, as llama.cpp's converter would, with weights as F32, F16
or BF16.

For the tests: `krafla convert` of the twin must give the .mlb that hf.py and mlb.py make of the checkpoint
itself, except for what a GGUF does not store (see expected()). The names of keys and tensors and the order of
rows are those of llama.cpp's conversion scripts and loaders. No code is shared with them or with the engine.
The file has no tokenizer. Needs only numpy.
"""
import math
from pathlib import Path

import numpy as np

import hf
import make_gguf
from make_gguf import F32

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_5": "qwen35",
    "smollm3": "smollm3",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
}
NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}
NAMES |= {
    f"self_attn.{a}_proj.{kind}": f"attn_{b}.{kind}"
    for a, b in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output"))
    for kind in ("weight", "bias")
}
NAMES |= {f"mlp.{name}_proj.bias": f"ffn_{name}.bias" for name in ("gate", "up", "down")}
TOP = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
MTP = {
    "fc.weight": "nextn.eh_proj.weight",
    "pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "norm.weight": "nextn.shared_head_norm.weight",
}
ROOTS = ("model.language_model.", "language_model.model.", "model.")


# ---------------------------------------------------------------- metadata


def rope_scaling(c):
    """(keys, llama3's parameters or None)."""
    s, _ = hf.rope_settings(c)
    kind = s["rope_type"]
    if kind == "linear":
        return [("rope.scaling.type", "linear"), ("rope.scaling.factor", float(s["factor"]))], None
    if kind == "yarn":
        keys = [
            ("rope.scaling.type", "yarn"),
            ("rope.scaling.factor", float(s["factor"])),
            ("rope.scaling.original_context_length", s["original_max_position_embeddings"]),
        ]
        for key, name in (
            ("attention_factor", "yarn_attn_factor"),
            ("beta_fast", "yarn_beta_fast"),
            ("beta_slow", "yarn_beta_slow"),
        ):
            if s.get(key) is not None:
                keys.append((f"rope.scaling.{name}", float(s[key])))
        return keys, None
    return [], s if kind == "llama3" else None


def linear_keys(c, head_dim, blocks, mtp):
    """Qwen3.5's own keys."""
    s, _ = hf.rope_settings(c)
    types = c.get("layer_types")
    values = c.need("linear_value_head_dim") * c.need("linear_num_value_heads")
    keys = [
        ("ssm.conv_kernel", c.need("linear_conv_kernel_dim")),
        ("ssm.state_size", c.need("linear_key_head_dim")),
        ("ssm.group_count", c.need("linear_num_key_heads")),
        ("ssm.time_step_rank", c.need("linear_num_value_heads")),
        ("ssm.inner_size", values),
        ("full_attention_interval", c.need("full_attention_interval")),
        ("rope.dimension_count", int(head_dim * s["partial_rotary_factor"])),
        ("rope.dimension_sections", list(s.get("mrope_section", (1, 1, 0))) + [0]),
    ]
    if types:
        keys.append(("attention.recurrent_layers", [t == "linear_attention" for t in types] + [False] * mtp))
    return keys + ([("nextn_predict_layers", mtp)] if mtp else [])


def metadata(c, vocab, mtp):
    dim, heads, n = c.need("hidden_size"), c.need("num_attention_heads"), c.need("num_hidden_layers")
    head_dim = c.get("head_dim") or dim // heads
    keys = [
        ("block_count", n + mtp),
        ("context_length", c.need("max_position_embeddings")),
        ("embedding_length", dim),
        ("feed_forward_length", c.need("intermediate_size")),
        ("attention.head_count", heads),
        ("attention.head_count_kv", c.get("num_key_value_heads") or heads),
        ("attention.layer_norm_rms_epsilon", float(c.get("rms_norm_eps", 1e-6))),
        ("vocab_size", vocab),
    ]
    if c.get("head_dim"):
        keys += [("attention.key_length", head_dim), ("attention.value_length", head_dim)]
    full, local = hf.rope_settings(c)
    if c.family != "gemma2":
        keys.append(("rope.freq_base", float(full["rope_theta"])))
    if c.family in ("llama", "mistral", "smollm3"):
        keys.append(("rope.dimension_count", head_dim))
    if c.family in ("gemma2", "gemma3"):
        keys.append(("attention.sliding_window", c.need("sliding_window")))
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            if c.get(key):
                keys.append((key, float(c.get(key))))
        windowed = [kind == "sliding_attention" for kind in hf.layer_types(c)[0]]
        every = 2 if c.family == "gemma2" else 6
        if windowed != [(i + 1) % every != 0 for i in range(n)]:
            keys.append(("attention.sliding_window_pattern", windowed + [False] * mtp))
    if c.family == "gemma3" and local["rope_theta"] != 1e4:
        keys.append(("rope.freq_base_swa", float(local["rope_theta"])))
    if c.family == "qwen3_5":
        keys += linear_keys(c, head_dim, n + mtp, mtp)
    scaling, llama3 = rope_scaling(c)
    arch = ARCHITECTURES[c.family]
    return [
        ("general.architecture", arch),
        ("general.type", "model"),
        ("general.name", "twin"),
        ("tokenizer.ggml.model", "none"),
    ] + [(f"{arch}.{key}", value) for key, value in keys + scaling], llama3


# ---------------------------------------------------------------- tensors


def interleaved(w, heads):
    """q or k rows from halves to pairs."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def tiled(w, axis, keys, values, each):
    """Value heads from grouped by key head to tiled."""
    shape = w.shape
    w = w.reshape(*shape[:axis], keys, values // keys, each, *shape[axis + 1 :])
    return w.swapaxes(axis, axis + 1).reshape(shape)


def linear_tensor(c, name, w):
    """A tensor of a linear-attention layer."""
    keys, values = c.need("linear_num_key_heads"), c.need("linear_num_value_heads")
    first, each = 2 * keys * c.need("linear_key_head_dim"), c.need("linear_value_head_dim")
    if name == "linear_attn.conv1d.weight":
        w = w.reshape(w.shape[0], -1)
    if name == "linear_attn.A_log":
        w = -np.exp(w)
    if name in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        return np.concatenate([w[:first], tiled(w[first:], 0, keys, values, each)])
    if name == "linear_attn.in_proj_z.weight":
        return tiled(w, 0, keys, values, each)
    if name == "linear_attn.out_proj.weight":
        return tiled(w, 1, keys, values, each)
    return w if name == "linear_attn.norm.weight" else tiled(w, 0, keys, values, 1)


def renamed(c, name):
    """(GGUF name, name below the layer) of a tensor, or None for one of another modality."""
    n = c.need("num_hidden_layers")
    if name.startswith("mtp."):
        name = name.removeprefix("mtp.")
        if name in MTP:
            return f"blk.{n}.{MTP[name]}", name
        _, i, rest = name.split(".", 2)
        return f"blk.{n + int(i)}.{layer_name(c, rest)}", rest
    name = next((name.removeprefix(root) for root in ROOTS if name.startswith(root)), name)
    if name in TOP:
        return TOP[name], name
    if not name.startswith("layers."):
        return None
    _, i, rest = name.split(".", 2)
    return f"blk.{i}.{layer_name(c, rest)}", rest


def layer_name(c, name):
    if name == "post_attention_layernorm.weight" and c.family in ("gemma2", "gemma3", "qwen3_5"):
        return "post_attention_norm.weight"
    return NAMES[name]


def transformed(c, name, w):
    heads = c.need("num_attention_heads")
    if c.family in ("llama", "mistral", "smollm3"):
        if "q_proj" in name:
            return interleaved(w, heads)
        if "k_proj" in name:
            return interleaved(w, c.get("num_key_value_heads") or heads)
    if name.startswith("linear_attn."):
        return linear_tensor(c, name, w)
    if name.endswith("norm.weight") and c.family in hf.PLUS_ONE:
        return w + np.float32(1)
    return w


def twin(folder, kind=F32):
    """(keys, tensors) for make_gguf.gguf."""
    c, checkpoint = hf.Config(folder), hf.Checkpoint(folder)
    mtp = max(
        (int(name.split(".")[2]) + 1 for name in checkpoint.where if name.startswith("mtp.layers.")),
        default=0,
    )
    tensors, vocab = [], None
    for name in checkpoint.where:
        new = renamed(c, name)
        if new is None or (new[0] == "output.weight" and c.get("tie_word_embeddings", False)):
            continue
        w = transformed(c, new[1], checkpoint.read(name))
        if new[0] == "token_embd.weight":
            vocab = len(w)
        own = kind if w.ndim == 2 and "conv1d" not in name else F32
        tensors.append((new[0], list(reversed(w.shape)), own, make_gguf.encode(own, w)[0]))
    keys, llama3 = metadata(c, vocab, mtp)
    if llama3:
        h = hf.load(folder).header
        factors = make_gguf.llama3_factors(
            h,
            *(
                llama3[k]
                for k in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
            ),
        )
        tensors.append(("rope_freqs.weight", [len(factors)], F32, factors.tobytes()))
    return keys, tensors


def write(folder, path, kind=F32):
    keys, tensors = twin(folder, kind)
    Path(path).write_bytes(make_gguf.gguf(keys, tensors))


def write_split(folder, prefix, count):
    """The same in `count` parts; returns their paths. Only the first has the model's keys."""
    keys, tensors = twin(folder)
    size = -(-len(tensors) // count)
    paths = []
    for i in range(count):
        own = [
            ("split.no", make_gguf.u16(i)),
            ("split.count", make_gguf.u16(count)),
            ("split.tensors.count", make_gguf.i32(len(tensors))),
        ]
        paths.append(Path(f"{prefix}-{i + 1:05}-of-{count:05}.gguf"))
        paths[-1].write_bytes(
            make_gguf.gguf((keys if i == 0 else []) + own, tensors[i * size : (i + 1) * size])
        )
    return paths


def expected(folder):
    """hf.load, without what the twin lacks: a GGUF does not store the windows of Mistral, Qwen and SmolLM3,
    yarn's mscale, Gemma's attention scale and the list of SmolLM3's layers without RoPE."""
    c, model = hf.Config(folder), hf.load(folder)
    h = model.header
    if c.family in ("mistral", "qwen2", "qwen3"):
        h.sliding_window, h.layer_flags = 0, 0
        model.layer_flags[:] = 0
    if c.family in ("gemma2", "gemma3"):
        h.attn_scale = 0.0
    if c.family == "smollm3":
        model.layer_flags[:] = [hf.NO_ROPE if (i + 1) % 4 == 0 else 0 for i in range(h.n_layers)]
        h.layer_flags, h.sliding_window = 1, 0
    if h.rope_type == 3 and hf.rope_settings(c)[0].get("attention_factor") is None:
        h.rope_attn_factor = 0.1 * math.log(h.rope_factor) + 1
    return model
