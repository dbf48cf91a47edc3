"""Tiny models of every family but Llama for make_gguf.py: headers, keys, and the conversion of a .mlb's
tensors back to those of a GGUF."""
import numpy as np

HALVES = ("qwen2", "qwen3", "qwen35", "gemma2", "gemma3")  # q and k rows as Hugging Face has them
ROTATED = ("wq", "wk", "bq", "bk", "q_norm", "k_norm")
OWN_NAMES = {
    "qwen35": {
        "ffn_norm": "post_attention_norm.weight",
        "lqkv": "attn_qkv.weight",
        "lz": "attn_gate.weight",
        "lb": "ssm_beta.weight",
        "la": "ssm_alpha.weight",
        "lconv": "ssm_conv1d.weight",
        "dt_bias": "ssm_dt.bias",
        "A_log": "ssm_a",
        "lnorm": "ssm_norm.weight",
        "lout": "ssm_out.weight",
    },
    "gemma2": {"post_attn_norm": "post_attention_norm.weight", "post_ffn_norm": "post_ffw_norm.weight"},
    "gemma3": {"post_attn_norm": "post_attention_norm.weight", "post_ffn_norm": "post_ffw_norm.weight"},
}

# name: (architecture, header fields, layer flags, keys without the prefix)
GEMMA = dict(act=1, post_norms=1, embed_scale=float(np.sqrt(np.float64(32))), sliding_window=16)
LINEAR = dict(
    qk_norm=1,
    attn_gate=1,
    head_dim=32,
    rot_dim=8,
    lin_k_heads=2,
    lin_v_heads=4,
    lin_k_dim=16,
    lin_v_dim=32,
    lin_conv=4,
)
LINEAR_KEYS = [
    ("ssm.conv_kernel", 4),
    ("ssm.state_size", 16),
    ("ssm.group_count", 2),
    ("ssm.time_step_rank", 4),
    ("ssm.inner_size", 128),
    ("rope.dimension_count", 8),
    ("rope.dimension_sections", [2, 1, 1, 0]),
]
FAMILIES = {
    "qwen2": ("qwen2", dict(qkv_bias=1), None, []),
    "qwen3": ("qwen3", dict(qk_norm=1, head_dim=32, shared_classifier=0), None, []),
    "smollm3": ("smollm3", dict(n_layers=4), [0, 0, 0, 4], []),
    "qwen35": ("qwen35", LINEAR | dict(n_layers=2), [8, 0], LINEAR_KEYS + [("full_attention_interval", 2)]),
    "qwen35_list_mtp": (
        "qwen35",
        LINEAR | dict(n_layers=3),
        [0, 8, 0],
        LINEAR_KEYS
        + [("attention.recurrent_layers", [False, True, False, False]), ("nextn_predict_layers", 1)],
    ),
    "gemma2": (
        "gemma2",
        GEMMA | dict(n_layers=3, attn_softcap=6.0, final_softcap=30.0),
        [1, 0, 1],
        [("attention.sliding_window", 16), ("attn_logit_softcapping", 6.0)],
    ),
    "gemma3": (
        "gemma3",
        GEMMA | dict(n_layers=7, qk_norm=1, rope_local_theta=10000.0, rope_type=2, rope_factor=8.0),
        [3, 3, 3, 3, 3, 0, 3],
        [("attention.sliding_window", 16), ("rope.scaling.factor", 8.0)],
    ),
    "gemma3_list": (
        "gemma3",
        GEMMA | dict(n_layers=2, qk_norm=1, rope_local_theta=500.0, final_softcap=20.0),
        [0, 3],
        [
            ("attention.sliding_window", 16),
            ("attention.sliding_window_pattern", [False, True]),
            ("rope.freq_base_swa", 500.0),
            ("final_logit_softcapping", 20.0),
        ],
    ),
    "gemma3_every_2": (
        "gemma3",
        GEMMA | dict(n_layers=3, qk_norm=1, rope_local_theta=10000.0),
        [3, 0, 3],
        [("attention.sliding_window", 16), ("attention.sliding_window_pattern", 2)],
    ),
    "gemma3_full": ("gemma3", GEMMA | dict(n_layers=1, qk_norm=1, sliding_window=0), None, []),
}
# The attention scale of the 27B models follows from their number of layers.
BIG = {
    "gemma2_27b": ("gemma2", 46, [1, 0] * 23, dict(attn_softcap=50.0, final_softcap=30.0)),
    "gemma3_27b": ("gemma3", 62, [3, 3, 3, 3, 3, 0] * 10 + [3, 3], dict(qk_norm=1, rope_local_theta=10000.0)),
}
for _name, (_arch, _layers, _flags, _more) in BIG.items():
    FAMILIES[_name] = (
        _arch,
        GEMMA
        | _more
        | dict(n_layers=_layers, head_dim=16, n_heads=4, attn_scale=float(1 / np.sqrt(8.0)), hidden_dim=32),
        _flags,
        [("attention.sliding_window", 16)],
    )


def halves(w, head, rotated):
    """Rows of heads from interleaved pairs to halves."""
    order = np.arange(head)
    order[:rotated] = np.concatenate([np.arange(0, rotated, 2), np.arange(1, rotated, 2)])
    return w.reshape(-1, head, *w.shape[1:])[:, order].reshape(w.shape)


def tiled(h, w, first, each, axis=0):
    """Value heads from grouped by key head to tiled, after `first` places."""
    w = np.moveaxis(w, axis, 0)
    v = w[first:].reshape(h.lin_k_heads, h.lin_v_heads // h.lin_k_heads, each, *w.shape[1:])
    return np.moveaxis(np.concatenate([w[:first], v.swapaxes(0, 1).reshape(-1, *w.shape[1:])]), 0, axis)


def untiled(h, w):
    """One value for each value head, from tiled to grouped."""
    return w.reshape(h.lin_v_heads // h.lin_k_heads, h.lin_k_heads).swapaxes(0, 1).reshape(-1)


def reordered(arch, h, tensor, w):
    """A .mlb's tensor with its rows (and columns) as the GGUF has them."""
    if arch in HALVES and tensor in ROTATED:
        return halves(w, h.hd, h.rd)
    if tensor in ("lqkv", "lconv"):
        return tiled(h, w, 2 * h.lin_k_heads * h.lin_k_dim, h.lin_v_dim)
    if tensor in ("lz", "lb", "la", "dt_bias", "A_log"):
        return tiled(h, w, 0, h.lin_v_dim if tensor == "lz" else 1)
    return tiled(h, w, 0, h.lin_v_dim, axis=1) if tensor == "lout" else w


def query_and_gate(h, q, gate):
    """Head by head: query, gate."""
    return np.stack([q.reshape(h.n_heads, h.hd, -1), gate.reshape(h.n_heads, h.hd, -1)], 1).reshape(
        2 * h.q_dim, -1
    )
