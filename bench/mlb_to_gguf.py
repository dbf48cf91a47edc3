#!/usr/bin/env python3
"""Converts a .mlb to a GGUF with the same values and without a tokenizer, so that other engines can run the
files of `krafla bench --shape --save`.

    build/peers/venv/bin/python bench/mlb_to_gguf.py IN.mlb OUT.gguf

Only plain Llama, Qwen2 and Qwen3 shapes in pure Q8_0 or Q4_0 with f16 scales; others are refused. The blocks
of both formats hold the same bytes, a scale and its quants, in another order. numpy only; reads with
tools/mlb.py.
"""
import math
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import mlb  # noqa: E402

NAMES = {
    "tok_emb": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "wcls": "output.weight",
    "attn_norm": "attn_norm.weight",
    "wq": "attn_q.weight",
    "wk": "attn_k.weight",
    "wv": "attn_v.weight",
    "wo": "attn_output.weight",
    "bq": "attn_q.bias",
    "bk": "attn_k.bias",
    "bv": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "w1": "ffn_gate.weight",
    "w2": "ffn_down.weight",
    "w3": "ffn_up.weight",
}
F32, Q4_0, Q8_0 = 0, 2, 8
ALIGN = 32


def architecture(h, flags):
    plain = (
        h.rope_type in (mlb.PLAIN, mlb.LLAMA3)
        and h.scale_f16
        and not (
            h.q8_mask
            or flags.any()
            or h.sliding_window
            or h.act
            or h.post_norms
            or h.embed_scale
            or h.attn_scale
            or h.attn_softcap
            or h.final_softcap
            or h.rot_dim
            or h.attn_gate
        )
    )
    if not plain or (h.qk_norm and h.qkv_bias):
        sys.exit("mlb_to_gguf: only plain Llama, Qwen2 and Qwen3 shapes with f16 scales")
    return "qwen2" if h.qkv_bias else "qwen3" if h.qk_norm else "llama"


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)


def metadata(h, arch):
    keys = {
        "block_count": h.n_layers,
        "context_length": h.max_seq,
        "embedding_length": h.dim,
        "feed_forward_length": h.hidden_dim,
        "attention.head_count": h.n_heads,
        "attention.head_count_kv": h.n_kv_heads,
        "attention.layer_norm_rms_epsilon": float(h.norm_eps),
        "rope.freq_base": float(h.rope_theta),
        "rope.dimension_count": h.hd,
        "attention.key_length": h.hd,
        "attention.value_length": h.hd,
        "vocab_size": h.vocab,
    }
    return {"general.architecture": arch, "tokenizer.ggml.model": "none"} | {
        f"{arch}.{key}": v for key, v in keys.items()
    }


def llama3_factors(h):
    """The values of rope_freqs.weight, by which the frequencies are divided."""
    wavelength = 2 * math.pi * np.float64(h.rope_theta) ** (np.arange(0, h.hd, 2) / h.hd)
    smooth = (h.rope_orig_max_seq / wavelength - h.rope_low_freq_factor) / (
        h.rope_high_freq_factor - h.rope_low_freq_factor
    )
    return (1 / (np.clip(smooth, 0, 1) * (1 - 1 / h.rope_factor) + 1 / h.rope_factor)).astype("<f4")


def halves(x, head):
    """Permutes the rows of queries or keys from interleaved pairs to the halves that Qwen's RoPE expects."""
    return x.reshape(-1, head // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def kind_and_dims(tensor):
    return (
        (F32, [tensor.size])
        if isinstance(tensor, np.ndarray)
        else (Q8_0 if tensor.kind == "q8" else Q4_0, [tensor.cols, tensor.rows])
    )


def payload(name, tensor, h, arch):
    """The tensor's bytes in GGUF's order."""
    turned = arch != "llama" and name.split(".")[-1] in ("wq", "wk", "bq", "bk", "q_norm", "k_norm")
    order = (lambda x: halves(x, h.hd)) if turned else (lambda x: x)
    if isinstance(tensor, np.ndarray):
        return order(tensor).astype("<f4").view(np.uint8)
    q, d = order(tensor.q), order(tensor.d)
    blocks = tensor.cols // 32
    parts = [
        np.ascontiguousarray(d).view(np.uint8).reshape(tensor.rows, blocks, 2),
        np.ascontiguousarray(q).view(np.uint8).reshape(tensor.rows, blocks, -1),
    ]
    return np.concatenate(parts, axis=2).reshape(-1)


def gguf_name(name):
    *layer, tensor = name.split(".")
    return (f"blk.{layer[1]}." if layer else "") + NAMES[tensor]


def bytes_of(tensor):
    return tensor.size * 4 if isinstance(tensor, np.ndarray) else tensor.q.nbytes + tensor.d.nbytes


def convert(path, out):
    model = mlb.read(path, check_quants=False)
    h, arch = model.header, architecture(model.header, model.layer_flags)
    tensors = {gguf_name(name): (name, tensor) for name, tensor in model.tensors.items()}
    if h.rope_type == mlb.LLAMA3:
        tensors["rope_freqs.weight"] = ("rope_freqs", llama3_factors(h))
    keys = metadata(h, arch)
    head = (
        b"GGUF"
        + struct.pack("<IQQ", 3, len(tensors), len(keys))
        + b"".join(text(k) + value(v) for k, v in keys.items())
    )
    offset = 0
    for new, (_, tensor) in tensors.items():
        kind, dims = kind_and_dims(tensor)
        head += text(new) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        offset += -(-bytes_of(tensor) // ALIGN) * ALIGN
    with open(out, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGN))
        for name, tensor in tensors.values():
            data = payload(name, tensor, h, arch)
            file.write(data)
            file.write(b"\0" * (-data.size % ALIGN))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: mlb_to_gguf.py IN.mlb OUT.gguf")
    convert(*sys.argv[1:])
