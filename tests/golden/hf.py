"""Reads a Hugging Face checkpoint (config.json + safetensors) into the contents of a .mlb: header, layer
flags, tensors.

An independent reference for `krafla convert`: it shares no code with it and needs only numpy. Whatever the
format cannot express is refused by name, never dropped. That includes keys of config.json that change the
result, and unused tensors of the text model.
"""
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))

WINDOW, LOCAL_ROPE, NO_ROPE, LINEAR = 1, 2, 4, 8
IGNORED_PREFIXES = (
    "model.visual.",
    "visual.",
    "vision_tower.",
    "model.vision_tower.",
    "multi_modal_projector.",
    "model.multi_modal_projector.",
    "mtp.",
)
FAMILIES = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "smollm3": "smollm3",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
}
ORIGINAL = "original_max_position_embeddings"
PLUS_ONE = ("gemma2", "gemma3", "qwen3_5")  # families whose norms are stored as (1 + w)
# What transformers assumes when config.json says nothing.
DEFAULTS = {
    "llama": dict(max_position_embeddings=2048),
    "mistral": dict(max_position_embeddings=131072, sliding_window=4096),
    "qwen2": dict(max_position_embeddings=32768, sliding_window=4096, max_window_layers=28),
    "qwen3": dict(max_position_embeddings=32768, sliding_window=4096, max_window_layers=28, head_dim=128),
    "smollm3": dict(
        max_position_embeddings=32768, rope_theta=2e6, tie_word_embeddings=True, no_rope_layer_interval=4
    ),
    "gemma2": dict(
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=4096,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    ),
    "gemma3": dict(
        max_position_embeddings=131072,
        tie_word_embeddings=True,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=4096,
        sliding_window_pattern=6,
        rope_theta=1e6,
        rope_local_base_freq=1e4,
    ),
    "qwen3_5": dict(
        max_position_embeddings=32768, head_dim=256, full_attention_interval=4, attn_output_gate=True
    ),
}


class Refused(ValueError):
    """The .mlb format cannot hold this checkpoint; the message names why."""


# ---------------------------------------------------------------- safetensors


class Checkpoint:
    """The tensors of one or many .safetensors files, read on demand as float32; remembers which were read."""

    def __init__(self, folder):
        folder = Path(folder)
        index = folder / "model.safetensors.index.json"
        files = ["model.safetensors"]
        if index.exists():
            files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        self.where, self.used = {}, set()
        for name in files:
            with open(folder / name, "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(size))
            for tensor, entry in header.items():
                if tensor != "__metadata__":
                    self.where[tensor] = (folder / name, 8 + size, entry)

    def __contains__(self, name):
        return name in self.where

    def read(self, name, shape=None):
        if name not in self.where:
            raise Refused(f"tensor {name} is missing")
        path, base, entry = self.where[name]
        begin, end = entry["data_offsets"]
        with open(path, "rb") as file:
            file.seek(base + begin)
            raw = file.read(end - begin)
        self.used.add(name)
        array = _decode(raw, entry["dtype"], name).reshape(entry["shape"])
        if shape is not None and tuple(array.shape) != tuple(shape):
            raise Refused(f"tensor {name} has shape {list(array.shape)}, config.json implies {list(shape)}")
        return array

    def refuse_leftovers(self):
        """Raises Refused for an unread tensor, unless it belongs to another modality or is RoPE's table of
        frequencies."""
        left = [name for name in self.where if name not in self.used]
        left = [
            name for name in left if not name.startswith(IGNORED_PREFIXES) and not name.endswith(".inv_freq")
        ]
        if left:
            more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
            raise Refused(f"tensor {left[0]} has no place in the format{more}")


def _decode(raw, dtype, name):
    if dtype == "F32":
        return np.frombuffer(raw, "<f4").copy()
    if dtype == "F16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    if dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    raise Refused(f"tensor {name} is stored as {dtype}; F32, F16 and BF16 are supported")


# ---------------------------------------------------------------- config.json


class Config:
    """Looks up keys of config.json: in its text_config if there is one, else in the whole; a missing key has
    the family's default. A null is not missing."""

    def __init__(self, folder):
        outer = json.loads((Path(folder) / "config.json").read_text())
        self.text = outer.get("text_config", outer)
        kind = self.text.get("model_type") or outer.get("model_type")
        if kind not in FAMILIES:
            raise Refused(f"model_type {kind!r} is not supported")
        if "quantization_config" in outer or "quantization_config" in self.text:
            raise Refused("quantization_config: already quantized checkpoints are not supported")
        self.outer, self.family = outer, FAMILIES[kind]

    def get(self, key, default=None):
        for level in (self.text, self.outer, DEFAULTS[self.family]):
            if key in level:
                return level[key]
        return default

    def need(self, key):
        value = self.get(key)
        if value is None:
            raise Refused(f"config.json has no {key}")
        return value


def rope_settings(c):
    """(global dict, local dict): every spelling of RoPE's settings, each with rope_theta and rope_type filled
    in."""
    given = c.get("rope_scaling") or c.get("rope_parameters") or {}  # both: as transformers 5 has it
    full, local = dict(given), {}
    if "full_attention" in given or "sliding_attention" in given:  # transformers 5: one dict per layer type
        full, local = dict(given.get("full_attention") or {}), dict(given.get("sliding_attention") or {})
        if c.family != "gemma3" and local and local != full:
            raise Refused("rope_parameters of sliding_attention")
    full.setdefault("rope_theta", c.get("rope_theta", 1e4))
    local.setdefault("rope_theta", c.get("rope_local_base_freq", 1e4))
    for settings in (full, local):
        settings["rope_type"] = settings.get("rope_type") or settings.get("type") or "default"
    if full["rope_type"] in ("llama3", "yarn"):
        full[ORIGINAL] = c.get(ORIGINAL) or full.get(ORIGINAL) or c.need("max_position_embeddings")
    full.setdefault(
        "partial_rotary_factor", c.get("partial_rotary_factor", 0.25 if c.family == "qwen3_5" else 1.0)
    )
    if c.family == "gemma3" and local["rope_type"] != "default":
        raise Refused(f"rope_type {local['rope_type']!r} on sliding layers")
    return full, local


def yarn_attention_factor(s):
    """attention_factor as transformers finds it."""

    def mscale(m):
        return 0.1 * m * math.log(s["factor"]) + 1 if s["factor"] > 1 else 1.0

    if s.get("attention_factor") is not None:
        return s["attention_factor"]
    if s.get("mscale") and s.get("mscale_all_dim"):
        return mscale(s["mscale"]) / mscale(s["mscale_all_dim"])
    return mscale(1.0)


def rope_fields(c, head_dim):
    """The header's RoPE fields."""
    s, local = rope_settings(c)
    fields = dict(rope_theta=float(s["rope_theta"]))
    partial = s["partial_rotary_factor"]
    if partial != 1.0:
        if c.family != "qwen3_5":
            raise Refused(f"partial_rotary_factor {partial} in a {c.family} model")
        fields["rot_dim"] = int(head_dim * partial)
    kind = s["rope_type"]
    needed = {
        "llama3": ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL),
        "linear": ("factor",),
        "yarn": ("factor",),
        "default": (),
    }
    for key in needed.get(kind, ()):
        if s.get(key) is None:
            raise Refused(f"rope scaling {kind!r} without {key}")
    if kind == "llama3":
        factor, low, high, orig = (s[key] for key in needed[kind])
        fields.update(
            rope_type=1,
            rope_factor=factor,
            rope_low_freq_factor=low,
            rope_high_freq_factor=high,
            rope_orig_max_seq=orig,
        )
    elif kind == "linear":
        fields.update(rope_type=2, rope_factor=s["factor"])
    elif kind == "yarn":
        if s.get("truncate") is False:
            raise Refused("yarn with truncate false")
        fields.update(
            rope_type=3,
            rope_factor=s["factor"],
            rope_low_freq_factor=s.get("beta_fast") or 32,
            rope_high_freq_factor=s.get("beta_slow") or 1,
            rope_orig_max_seq=s[ORIGINAL],
            rope_attn_factor=yarn_attention_factor(s),
        )
    elif kind != "default":
        raise Refused(f"rope_type {kind!r}")
    if c.family == "gemma3":
        fields["rope_local_theta"] = float(local["rope_theta"])
    return fields


def layer_types(c):
    """Per layer: 'full_attention', 'sliding_attention' or 'linear_attention'."""
    n, window = c.need("num_hidden_layers"), c.get("sliding_window")
    if c.family in ("qwen2", "qwen3", "smollm3") and not c.get("use_sliding_window", False):
        window = None
    full, slide = "full_attention", "sliding_attention"
    given = c.get("layer_types")
    if given is not None:
        types = list(given)
        if len(types) != n or not set(types) <= {full, slide, "linear_attention"}:
            raise Refused(f"layer_types {given}")
    elif c.family == "mistral":
        types = [slide] * n
    elif c.family in ("qwen2", "qwen3"):
        types = [slide if i >= c.need("max_window_layers") else full for i in range(n)]
    elif c.family == "smollm3":
        types = [full if rope else slide for rope in rope_layers(c)]
    elif c.family == "gemma2":
        types = [full if i % 2 else slide for i in range(n)]
    elif c.family == "gemma3":
        pattern = c.get("sliding_window_pattern") or c.get("_sliding_window_pattern")
        types = [full if (i + 1) % pattern == 0 else slide for i in range(n)]
    elif c.family == "qwen3_5":
        types = [
            "linear_attention" if (i + 1) % c.need("full_attention_interval") else full for i in range(n)
        ]
    else:
        types = [full] * n
    if c.family == "gemma3":  # a sliding layer is also a layer with the local base
        if window is None and slide in types:
            raise Refused("sliding layers without sliding_window")
        return types, window
    return [full if t == slide and window is None else t for t in types], window


def rope_layers(c):
    """SmolLM3: per layer, whether queries and keys are rotated."""
    n = c.need("num_hidden_layers")
    given = c.get("no_rope_layers")
    if given is not None:
        return [bool(v) for v in given[:n]]
    return [(i + 1) % c.need("no_rope_layer_interval") != 0 for i in range(n)]


def flags_of(c):
    """(layer flags or [] when no layer needs a byte, sliding_window)."""
    types, window = layer_types(c)
    flags = [{"full_attention": 0, "sliding_attention": WINDOW, "linear_attention": LINEAR}[t] for t in types]
    if c.family == "gemma3":
        flags = [f | LOCAL_ROPE if f & WINDOW else f for f in flags]
    if c.family == "smollm3":
        flags = [f if rope else f | NO_ROPE for f, rope in zip(flags, rope_layers(c))]
    if not any(f & WINDOW for f in flags):
        window = 0
    if all(f == flags[0] for f in flags) and flags[0] in (0, WINDOW):
        flags = []
    return flags, int(window or 0)


def refuse_config(c):
    """Refuses by name what the header cannot express."""
    if c.family != "qwen2" and c.get("attention_bias", False):
        raise Refused("attention_bias: the format has no bias on o_proj")
    if c.get("mlp_bias", False):
        raise Refused("mlp_bias: the format has no biases in the FFN")
    if c.get("use_bidirectional_attention", False):
        raise Refused("use_bidirectional_attention")
    if c.family == "qwen3_5":
        heads, key_heads = c.need("linear_num_value_heads"), c.need("linear_num_key_heads")
        if heads % 4 or heads % key_heads:
            raise Refused(
                f"linear_num_value_heads {heads}: no multiple of 4 and of linear_num_key_heads {key_heads}"
            )


def activation(c):
    gemma = c.family in ("gemma2", "gemma3")
    name = c.get("hidden_activation") or "gelu_pytorch_tanh" if gemma else c.get("hidden_act", "silu")
    if name not in ("silu", "swish", "gelu_pytorch_tanh") or (
        c.family == "qwen3_5" and name == "gelu_pytorch_tanh"
    ):
        raise Refused(f"activation {name!r}")
    return int(name == "gelu_pytorch_tanh")


def header_fields(c):
    """(fields of the header that are not zero, layer flags)."""
    refuse_config(c)
    dim, heads = c.need("hidden_size"), c.need("num_attention_heads")
    head_dim = c.get("head_dim") or dim // heads
    flags, window = flags_of(c)
    fields = dict(
        dim=dim,
        n_layers=c.need("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=c.get("num_key_value_heads") or heads,
        hidden_dim=c.need("intermediate_size"),
        vocab=c.need("vocab_size"),
        max_seq=min(c.need("max_position_embeddings"), 1 << 24),
        norm_eps=float(c.get("rms_norm_eps", 1e-6)),
        act=activation(c),
        sliding_window=window,
        layer_flags=int(len(flags) > 0),
    )
    fields["head_dim"] = 0 if dim % heads == 0 and head_dim == dim // heads else head_dim
    fields.update(rope_fields(c, head_dim))
    fields["qkv_bias"] = int(c.family == "qwen2")
    fields["qk_norm"] = int(c.family in ("qwen3", "gemma3", "qwen3_5"))
    if c.family in ("gemma2", "gemma3"):
        scale = c.need("query_pre_attn_scalar") ** -0.5
        same = np.float32(scale) == np.float32(1 / math.sqrt(head_dim))
        fields.update(
            post_norms=1,
            embed_scale=math.sqrt(dim),
            attn_scale=0.0 if same else scale,
            final_softcap=float(c.get("final_logit_softcapping") or 0),
        )
    if c.family == "gemma2":
        fields["attn_softcap"] = float(c.get("attn_logit_softcapping") or 0)
    if c.family == "qwen3_5":
        fields["attn_gate"] = int(c.get("attn_output_gate"))
        if any(f & LINEAR for f in flags):
            fields.update(
                lin_k_heads=c.need("linear_num_key_heads"),
                lin_v_heads=c.need("linear_num_value_heads"),
                lin_k_dim=c.need("linear_key_head_dim"),
                lin_v_dim=c.need("linear_value_head_dim"),
                lin_conv=c.need("linear_conv_kernel_dim"),
            )
    return fields, flags


# ---------------------------------------------------------------- tensors


def interleave(x, head_dim, rot):
    """Rows of heads from rotate-half order to interleaved pairs: of each head's first rot rows, new row 2i is
    old row i and new row 2i+1 is old row i + rot/2."""
    order = np.arange(head_dim)
    order[0:rot:2], order[1:rot:2] = np.arange(rot // 2), np.arange(rot // 2) + rot // 2
    heads = x.reshape(-1, head_dim, *x.shape[1:])
    return np.ascontiguousarray(heads[:, order].reshape(x.shape))


def attention_tensors(read, h, c, prefix):
    """A full or sliding layer's projections, biases and q/k norms; read(name, shape) gives a float32
    array."""
    q_rows = h.q_dim * (2 if h.attn_gate else 1)
    q, out = read(prefix + "q_proj.weight", (q_rows, h.dim)), {}
    if h.attn_gate:  # per head: head_dim rows of query, then head_dim rows of gate
        halves = q.reshape(h.n_heads, 2, h.hd, h.dim)
        q, out["wg"] = halves[:, 0].reshape(h.q_dim, h.dim), np.ascontiguousarray(
            halves[:, 1].reshape(h.q_dim, h.dim)
        )
    out["wq"] = interleave(q, h.hd, h.rd)
    out["wk"] = interleave(read(prefix + "k_proj.weight", (h.kv_dim, h.dim)), h.hd, h.rd)
    out["wv"] = read(prefix + "v_proj.weight", (h.kv_dim, h.dim))
    out["wo"] = read(prefix + "o_proj.weight", (h.dim, h.q_dim))
    if h.qkv_bias:
        out["bq"] = interleave(read(prefix + "q_proj.bias", (h.q_dim,)), h.hd, h.rd)
        out["bk"] = interleave(read(prefix + "k_proj.bias", (h.kv_dim,)), h.hd, h.rd)
        out["bv"] = read(prefix + "v_proj.bias", (h.kv_dim,))
    if h.qk_norm:
        one = np.float32(c.family in PLUS_ONE)
        out["q_norm"] = interleave(read(prefix + "q_norm.weight", (h.hd,)) + one, h.hd, h.rd)
        out["k_norm"] = interleave(read(prefix + "k_norm.weight", (h.hd,)) + one, h.hd, h.rd)
    return out


def linear_tensors(read, h, prefix):
    """A gated-delta-rule layer of Qwen3.5."""
    values = h.lin_v_heads * h.lin_v_dim
    channels = 2 * h.lin_k_heads * h.lin_k_dim + values
    return {
        "lqkv": read(prefix + "in_proj_qkv.weight", (channels, h.dim)),
        "lz": read(prefix + "in_proj_z.weight", (values, h.dim)),
        "lb": read(prefix + "in_proj_b.weight", (h.lin_v_heads, h.dim)),
        "la": read(prefix + "in_proj_a.weight", (h.lin_v_heads, h.dim)),
        "lconv": read(prefix + "conv1d.weight", (channels, 1, h.lin_conv)).reshape(channels, h.lin_conv),
        "dt_bias": read(prefix + "dt_bias", (h.lin_v_heads,)),
        "A_log": read(prefix + "A_log", (h.lin_v_heads,)),
        "lnorm": read(prefix + "norm.weight", (h.lin_v_dim,)),
        "lout": read(prefix + "out_proj.weight", (h.dim, values)),
    }


def layer_tensors(ckpt, h, c, prefix, linear):
    plus_one = np.float32(c.family in PLUS_ONE)
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    if h.post_norms:
        names = {
            "attn_norm": "input_layernorm",
            "post_attn_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffn_norm": "post_feedforward_layernorm",
        }
    out = {ours: ckpt.read(f"{prefix}{theirs}.weight", (h.dim,)) + plus_one for ours, theirs in names.items()}
    if linear:
        out.update(linear_tensors(ckpt.read, h, prefix + "linear_attn."))
    else:
        out.update(attention_tensors(ckpt.read, h, c, prefix + "self_attn."))
    out["w1"] = ckpt.read(prefix + "mlp.gate_proj.weight", (h.hidden_dim, h.dim))
    out["w2"] = ckpt.read(prefix + "mlp.down_proj.weight", (h.dim, h.hidden_dim))
    out["w3"] = ckpt.read(prefix + "mlp.up_proj.weight", (h.hidden_dim, h.dim))
    return out


def classifier(ckpt, c, embedding):
    """The lm_head, or None if the embedding is the classifier. The tensors take precedence over the config:
    an lm_head that equals the embedding bit for bit is not stored again, whatever the config says."""
    names = ("lm_head.weight", "language_model.lm_head.weight", "model.lm_head.weight")
    heads = [name for name in names if name in ckpt]
    if not heads:
        if not c.get("tie_word_embeddings", False):
            raise Refused("tie_word_embeddings is false and the file has no lm_head.weight")
        return None
    head = ckpt.read(heads[0], embedding.shape)
    return None if np.array_equal(head.view(np.uint32), embedding.view(np.uint32)) else head


def load(folder):
    """HF folder -> object with header (mlb.Header, wtype 0), layer_flags (uint8 [n_layers], zeros when not
    needed) and tensors (float32, by .mlb name)."""
    import mlb

    c, ckpt = Config(folder), Checkpoint(folder)
    fields, flags = header_fields(c)
    h = mlb.Header(**fields)
    roots = ("model.language_model.", "language_model.model.", "model.")
    root = next((r for r in roots if r + "embed_tokens.weight" in ckpt), None)
    if root is None:
        raise Refused("tensor embed_tokens.weight is missing")
    plus_one = np.float32(c.family in PLUS_ONE)
    tensors = {"tok_emb": ckpt.read(root + "embed_tokens.weight", (h.vocab, h.dim))}
    for i in range(h.n_layers):
        layer = layer_tensors(ckpt, h, c, f"{root}layers.{i}.", bool(flags and flags[i] & LINEAR))
        tensors.update({f"layers.{i}.{name}": array for name, array in layer.items()})
    tensors["final_norm"] = ckpt.read(root + "norm.weight", (h.dim,)) + plus_one
    head = classifier(ckpt, c, tensors["tok_emb"])
    h.shared_classifier = int(head is None)
    if head is not None:
        tensors["wcls"] = head
    ckpt.refuse_leftovers()
    return SimpleNamespace(
        header=h, layer_flags=np.array(flags or [0] * h.n_layers, np.uint8), tensors=tensors
    )
