"""Random tiny Hugging Face checkpoints of every family: shapes, patterns of layers, RoPE scalings and
spellings drawn from a seed.

For the tests: `krafla convert` must give the same bytes as hf.py and mlb.py, and the engine the same bits as
the oracle.
"""
import json
import math
import random

import numpy as np

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma2", "gemma3_text", "qwen3_5_text")
FULL, SLIDE, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def scaling(r):
    """A rope_scaling or None; numbers as integers where they are whole, too."""
    kind, factor = r.choice((None, "default", "llama3", "linear", "yarn", "yarn", "yarn")), r.choice(
        (2, 4, 8.0, 2.5, 16.0, 40, 1)
    )
    if kind in (None, "default"):
        return kind and {"rope_type": kind}
    s = {"rope_type": kind, "factor": factor}
    if kind == "llama3":
        s.update(
            low_freq_factor=r.choice((1, 0.5)),
            high_freq_factor=r.choice((4, 2.5)),
            original_max_position_embeddings=r.choice((32, 100, 8192)),
        )
    if kind == "yarn":
        s.update(
            r.choice(
                (
                    {},
                    {},
                    {"attention_factor": r.choice((1, 0.8, 1.3))},
                    {"mscale": 1, "mscale_all_dim": r.choice((0.5, 1.0, 0))},
                    {"mscale": 0.7},
                    {"mscale_all_dim": 0.8},
                    {"mscale": 1.2, "mscale_all_dim": 0.6, "attention_factor": 0.9},
                )
            )
        )
        s.update(r.choice(({}, {"beta_fast": 16, "beta_slow": 2}, {"beta_fast": 64}, {"beta_slow": 0.5})))
        s.update(
            r.choice(({}, {"original_max_position_embeddings": r.choice((16, 64, 4096))})),
            **r.choice(({}, {"truncate": True})),
        )
    return s


def sizes(r, family):
    while True:
        head, kv, group = (
            r.choice((2, 4, 6, 10, 12, 16, 20, 24, 32, 40, 56, 64, 80, 96)),
            r.choice((1, 2, 3, 4, 5)),
            r.choice((1, 2, 3, 5, 7, 8)),
        )
        heads = kv * group
        dims = [
            d
            for d in range(32, 289, 32)
            if d % heads == 0 or family not in ("llama", "gemma2", "gemma3_text")
        ]  # what transformers takes
        if head * heads % 32 == 0 and head * heads <= 480 and dims:
            break
    dim = r.choice(dims)
    c = dict(
        model_type=family,
        hidden_size=dim,
        intermediate_size=r.choice((32, 96, 352)),
        num_hidden_layers=r.choice((1, 2, 3, 5)),
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=head,
        vocab_size=r.choice((67, 96, 101, 257)),
        max_position_embeddings=r.choice((70, 128, 333, 131072)),
        rms_norm_eps=r.choice((1e-5, 1e-3, 1e-8)),
        tie_word_embeddings=r.random() < 0.5,
    )
    if (
        family in ("llama", "mistral", "qwen2", "smollm3") and r.random() < 0.5
    ):  # the head's size follows from the others
        c["num_attention_heads"] = r.choice([n for n in (1, 2, 4, 8, 16) if dim % (2 * n) == 0])
        c["num_key_value_heads"] = r.choice([n for n in (1, 2, 4) if c["num_attention_heads"] % n == 0])
        del c["head_dim"]
    if (
        family in ("llama", "smollm3", "qwen2")
        and c["num_attention_heads"] == c["num_key_value_heads"]
        and r.random() < 0.5
    ):
        c["num_key_value_heads"] = None
    for key in ("rms_norm_eps", "tie_word_embeddings"):
        if r.random() < 0.1:
            del c[key]
    return c


def window_settings(r, c):
    family, n, window = c["model_type"], c["num_hidden_layers"], r.choice((1, 7, 33, 64, 65))
    types = {"layer_types": [r.choice((FULL, SLIDE)) for _ in range(n)]}
    if family == "mistral":
        return r.choice(({"sliding_window": window}, {"sliding_window": None}, {}))
    if family in ("qwen2", "qwen3"):
        used = {"use_sliding_window": True, "sliding_window": window}
        return r.choice(
            (
                used,
                used | {"max_window_layers": r.choice((0, 1, 2))},
                used | types,
                {"use_sliding_window": False, "sliding_window": window},
                {"sliding_window": window},
                {},
            )
        )
    if family == "smollm3":
        rope = r.choice(
            (
                {},
                {"no_rope_layers": [r.randrange(2) for _ in range(n + r.randrange(2))]},
                {"no_rope_layer_interval": r.choice((1, 2, 3))},
            )
        )
        used = {"use_sliding_window": True, "sliding_window": window}
        return (
            {"pad_token_id": None}
            | rope
            | r.choice((used, used | types, {"use_sliding_window": False, "sliding_window": window}, {}))
        )
    if family == "gemma2":
        return r.choice(({"sliding_window": window}, {"sliding_window": window} | types, {}))
    if family == "gemma3_text":
        return r.choice(
            (
                {"sliding_window": window},
                {"sliding_window": window} | types,
                {},
                {"sliding_window": window, "sliding_window_pattern": r.choice((1, 2, 3))},
            )
        )
    return {}


def own_settings(r, c):
    family = c["model_type"]
    if family.startswith("gemma"):
        caps = r.choice(({}, {"final_logit_softcapping": r.choice((None, 5.0))})) | (
            r.choice(({}, {"attn_logit_softcapping": r.choice((None, 2.0))})) if family == "gemma2" else {}
        )
        return (
            caps
            | r.choice(({}, {"query_pre_attn_scalar": r.choice((256, c["head_dim"], 24, 1))}))
            | r.choice(({}, {"hidden_activation": "gelu_pytorch_tanh"}, {"hidden_act": "gelu_pytorch_tanh"}))
        )
    if family != "qwen3_5_text":
        return {"hidden_act": r.choice(("silu", "silu", "swish", "gelu_pytorch_tanh"))}
    keys, ratio = r.choice(((1, 4), (2, 2), (4, 1), (2, 4), (3, 4), (1, 8), (6, 2), (12, 1)))
    key, value = r.choice(((8, 8), (16, 8), (6, 16), (5, 40), (20, 8), (32, 24), (1, 32)))
    types = {"layer_types": [r.choice((FULL, LINEAR)) for _ in range(c["num_hidden_layers"])]}
    return dict(
        linear_num_key_heads=keys,
        linear_num_value_heads=keys * ratio,
        linear_key_head_dim=key,
        linear_value_head_dim=value,
        linear_conv_kernel_dim=r.choice((1, 2, 3, 4, 5)),
    ) | r.choice(
        (types, types | {"full_attention_interval": 2}, {"full_attention_interval": r.choice((1, 2))}, {})
    )


def rope_settings(r, c):
    """rope_theta and scaling in the old spelling (type or rope_type) or in transformers 5's (flat or per
    layer type)."""
    theta, s, old = r.choice((10000, 500000.0, 100)), scaling(r), r.random() < 0.5
    more = {}
    if c["model_type"] == "qwen3_5_text":
        parts = [p for p in (0.25, 0.5, 0.75, 1.0) if c["head_dim"] * p % 2 == 0]
        more = {} if 0.25 in parts and r.random() < 0.3 else {"partial_rotary_factor": r.choice(parts)}
    if c["model_type"] == "gemma3_text":
        if not old:
            return {
                "rope_parameters": {
                    FULL: dict(s or {"rope_type": "default"}, rope_theta=theta),
                    SLIDE: r.choice(({"rope_type": "default", "rope_theta": 777}, {"rope_type": "default"})),
                }
            }
        more = r.choice(({"rope_local_base_freq": 777}, {}))
    if not old:
        p = dict(s or {"rope_type": "default"}, rope_theta=theta, **more)
        outside = [key for key in ("rope_theta", "partial_rotary_factor") if key in p and r.random() < 0.2]
        return {key: p.pop(key) for key in outside} | {"rope_parameters": p}
    if s and r.random() < 0.5 and c["model_type"] != "gemma3_text":  # where transformers 5 would not see it
        s["type"] = s.pop("rope_type")
    return r.choice(({"rope_theta": theta}, {"rope_theta": theta}, {})) | {"rope_scaling": s, **more}


def config(seed):
    """(config.json's keys, the generator to go on with)."""
    r = random.Random(seed)
    c = sizes(r, FAMILIES[seed % len(FAMILIES)])
    return c | window_settings(r, c) | own_settings(r, c) | rope_settings(r, c), r


def is_tied(c):
    return c.get("tie_word_embeddings", c["model_type"] in ("gemma2", "gemma3_text", "smollm3"))


def is_linear(c, i):
    if c["model_type"] != "qwen3_5_text":
        return False
    return (
        c["layer_types"][i] == LINEAR
        if "layer_types" in c
        else (i + 1) % c.get("full_attention_interval", 4) != 0
    )


def layer_shapes(c, i):
    """(name below layers.N., shape); vectors are norms or biases."""
    family, dim, ffn = c["model_type"], c["hidden_size"], c["intermediate_size"]
    heads = c["num_attention_heads"]
    kv = c["num_key_value_heads"] or heads
    head = c.get("head_dim") or dim // heads
    yield from (("input_layernorm.weight", (dim,)), ("post_attention_layernorm.weight", (dim,)))
    if family.startswith("gemma"):
        yield from (
            ("pre_feedforward_layernorm.weight", (dim,)),
            ("post_feedforward_layernorm.weight", (dim,)),
        )
    if is_linear(c, i):
        values, taps = c["linear_num_value_heads"], c["linear_conv_kernel_dim"]
        wide = values * c["linear_value_head_dim"]
        channels = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + wide
        for name, shape in (
            ("in_proj_qkv.weight", (channels, dim)),
            ("in_proj_z.weight", (wide, dim)),
            ("in_proj_b.weight", (values, dim)),
            ("in_proj_a.weight", (values, dim)),
            ("conv1d.weight", (channels, 1, taps)),
            ("dt_bias", (values,)),
            ("A_log", (values,)),
            ("norm.weight", (c["linear_value_head_dim"],)),
            ("out_proj.weight", (dim, wide)),
        ):
            yield "linear_attn." + name, shape
    else:
        rows = {"q": heads * head, "k": kv * head, "v": kv * head}
        for name, n in rows.items():
            yield f"self_attn.{name}_proj.weight", (
                n * (2 if name == "q" and family == "qwen3_5_text" else 1),
                dim,
            )
            if family == "qwen2":
                yield f"self_attn.{name}_proj.bias", (n,)
        yield "self_attn.o_proj.weight", (dim, heads * head)
        if family in ("qwen3", "gemma3_text", "qwen3_5_text"):
            yield from (("self_attn.q_norm.weight", (head,)), ("self_attn.k_norm.weight", (head,)))
    yield from (
        ("mlp.gate_proj.weight", (ffn, dim)),
        ("mlp.up_proj.weight", (ffn, dim)),
        ("mlp.down_proj.weight", (dim, ffn)),
    )


def tensors(c, seed):
    """All tensors as float32, by name."""
    rng = np.random.RandomState(seed)

    def draw(name, shape):
        if len(shape) == 1:
            plus_one = c["model_type"].startswith(("gemma", "qwen3_5")) and "linear_attn" not in name
            mean = 1 if name.endswith("norm.weight") and not plus_one else 0
            return (mean + 0.3 * rng.standard_normal(shape)).astype(np.float32)
        return (rng.standard_normal(shape) * (1.3 / math.sqrt(shape[-1]))).astype(np.float32)

    names = [
        ("model.embed_tokens.weight", (c["vocab_size"], c["hidden_size"])),
        ("model.norm.weight", (c["hidden_size"],)),
    ]
    names += [
        (f"model.layers.{i}.{name}", shape)
        for i in range(c["num_hidden_layers"])
        for name, shape in layer_shapes(c, i)
    ]
    if not is_tied(c):
        names.append(("lm_head.weight", (c["vocab_size"], c["hidden_size"])))
    return {name: draw(name, shape) for name, shape in names}


def stored(x, dtype):
    if dtype == "BF16":
        return (x.view("<u4") >> 16).astype("<u2").tobytes()
    return x.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def write_file(path, entries):
    header, at = {}, 0
    for name, (dtype, shape, data) in entries.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(
        len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in entries.values())
    )


def write(folder, seed):
    """Writes the checkpoint of a seed to an empty folder: one to three files of one or mixed types; half of
    the configs are nested. Returns the config."""
    c, r = config(seed)
    types, parts, nested = (
        r.choice((("F32",), ("BF16",), ("F16",), ("F32", "BF16", "F16"))),
        r.choice((1, 2, 3)),
        r.random() < 0.5,
    )
    outer, prefix = c, "model."
    if nested:
        outer = {
            "model_type": {"gemma3_text": "gemma3", "qwen3_5_text": "qwen3_5"}.get(c["model_type"], "llava"),
            "text_config": c,
        }
        prefix = r.choice(("model.language_model.", "language_model.model."))
    entries = {}
    for name, x in tensors(c, seed).items():
        dtype = r.choice(types)
        entries[prefix + name[6:] if name.startswith("model.") else name] = (dtype, x.shape, stored(x, dtype))
    (folder / "config.json").write_text(json.dumps(outer))
    names, where = list(entries), {}
    for i in range(parts):
        file = "model.safetensors" if parts == 1 else f"model-{i + 1:05}-of-{parts:05}.safetensors"
        write_file(folder / file, {name: entries[name] for name in names[i::parts]})
        where.update(dict.fromkeys(names[i::parts], file))
    if parts > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return c
