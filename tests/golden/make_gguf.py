#!/usr/bin/env python3
"""Writes tests/data/gguf: tiny GGUF files, with the expected results in manifest.json.

Good files hold one small Llama in each readable tensor type and in variants of RoPE, heads and biases; the
manifest has the FNV-1a hash of the .mlb that tools/mlb.py makes of the same values. Bad files break the
format ("parse") or ask for something that .mlb does not hold ("plan"); the manifest has the status and parts
of the message. The GGUF writer and the block readers here follow the format's description and share no code
with the engine.
"""
import json
import math
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tools")]
import mlb
import ref_math

import gguf_families

OUT = HERE.parent / "data" / "gguf"
F32, F16, Q4_0, Q4_1, Q8_0, BF16, Q4_K = 0, 1, 2, 3, 8, 30, 12
U8, U16, I32, U32, F32_V, BOOL, STRING, ARRAY, U64 = 0, 2, 5, 4, 6, 7, 8, 9, 10
FORMAT, SHAPE, UNSUPPORTED = "ML_E_FORMAT", "ML_E_SHAPE", "ML_E_UNSUPPORTED"


# --- writing GGUF -------------------------------------------------------------------------------------------


def text(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(data)) + data


def value(v):
    """A typed value: (type, payload) as bytes. Python's int is u32, float f32; lists are arrays."""
    if isinstance(v, tuple):
        return struct.pack("<I", v[0]) + v[1]
    if isinstance(v, bool):
        return struct.pack("<IB", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, float):
        return struct.pack("<If", F32_V, v)
    if isinstance(v, str):
        return struct.pack("<I", STRING) + text(v)
    if v and isinstance(v[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(v)) + b"".join(map(text, v))
    if v and isinstance(v[0], bool):
        return struct.pack("<IIQ", ARRAY, BOOL, len(v)) + bytes(v)
    return struct.pack("<IIQ", ARRAY, I32, len(v)) + struct.pack(f"<{len(v)}i", *v)


def u16(v):
    return (U16, struct.pack("<H", v))


def i32(v):
    return (I32, struct.pack("<i", v))


def tensor_info(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(keys, tensors, version=3, alignment=32, n_tensors=None, n_keys=None, infos=None):
    """keys: (key, value) pairs; tensors: (name, dims, type, bytes). infos overrides the tensor infos
    (bytes)."""
    head = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if n_tensors is None else n_tensors,
        len(keys) if n_keys is None else n_keys,
    )
    head += b"".join(text(k) + value(v) for k, v in keys)
    body, listed = b"", b""
    for name, dims, kind, data in tensors:
        listed += tensor_info(name, dims, kind, len(body))
        body += data + b"\0" * (-len(data) % alignment)
    head += listed if infos is None else infos
    return head + b"\0" * (-len(head) % alignment) + body


# --- tensor types: float32 -> bytes, and the values those bytes mean ----------------------------------------


def encode(kind, w):
    """(bytes, float32 values read back) of a float32 matrix or vector."""
    w = np.asarray(w, np.float32)
    if kind == F32:
        return w.tobytes(), w
    if kind == F16:
        half = w.astype("<f2")
        return half.tobytes(), half.astype(np.float32)
    if kind == BF16:
        bits = ((w.view(np.uint32) + 0x8000) >> 16).astype("<u2")
        return bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32)
    x = w.reshape(-1, 32)
    if kind == Q8_0:
        d = (np.abs(x).max(1) / 127).astype("<f2")
        d32 = d.astype(np.float32)[:, None]
        q = np.clip(np.rint(x / d32), -127, 127).astype(np.int8)
        data = b"".join(d[i].tobytes() + q[i].tobytes() for i in range(len(x)))
        return data, (q.astype(np.float32) * d32).reshape(w.shape)
    low, high = x.min(1), x.max(1)
    if kind == Q4_0:
        d = (np.where(-low > high, low / -8, high / -8)).astype("<f2")
        d32 = d.astype(np.float32)[:, None]
        q = np.clip(np.rint(x / d32) + 8, 0, 15).astype(np.uint8)
        values = (q.astype(np.float32) - np.float32(8)) * d32
        scales = [d[i].tobytes() for i in range(len(x))]
    else:
        d, m = ((high - low) / 15).astype("<f2"), low.astype("<f2")
        d32, m32 = d.astype(np.float32)[:, None], m.astype(np.float32)[:, None]
        q = np.clip(np.rint((x - m32) / d32), 0, 15).astype(np.uint8)
        values = q.astype(np.float32) * d32 + m32
        scales = [d[i].tobytes() + m[i].tobytes() for i in range(len(x))]
    packed = q[:, :16] | (q[:, 16:] << 4)
    return b"".join(s + p.tobytes() for s, p in zip(scales, packed)), values.reshape(w.shape)


# --- good files ---------------------------------------------------------------------------------------------

NAMES = {
    "tok_emb": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "wcls": "output.weight",
    "attn_norm": "attn_norm.weight",
    "wq": "attn_q.weight",
    "wk": "attn_k.weight",
    "wv": "attn_v.weight",
    "wo": "attn_output.weight",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "bq": "attn_q.bias",
    "bk": "attn_k.bias",
    "bv": "attn_v.bias",
    "ffn_norm": "ffn_norm.weight",
    "w1": "ffn_gate.weight",
    "w2": "ffn_down.weight",
    "w3": "ffn_up.weight",
}


def gguf_name(name, own={}):
    if name.startswith("layers."):
        _, layer, tensor = name.split(".")
        return f"blk.{layer}.{own.get(tensor) or NAMES[tensor]}"
    return NAMES[name]


BASE = dict(
    dim=32,
    n_layers=1,
    n_heads=2,
    n_kv_heads=1,
    hidden_dim=64,
    vocab=40,
    max_seq=128,
    rope_theta=10000.0,
    norm_eps=1e-5,
    wtype=1,
    shared_classifier=1,
)


def base_keys(h, arch="llama"):
    keys = [
        ("block_count", h.n_layers),
        ("context_length", h.max_seq),
        ("embedding_length", h.dim),
        ("feed_forward_length", h.hidden_dim),
        ("attention.head_count", h.n_heads),
        ("attention.head_count_kv", h.n_kv_heads),
        ("attention.layer_norm_rms_epsilon", float(h.norm_eps)),
        ("rope.freq_base", float(h.rope_theta)),
    ]
    if arch in ("llama", "smollm3"):
        keys.append(("rope.dimension_count", h.hd))
    keys.append(("vocab_size", h.vocab))
    if h.head_dim:
        keys += [("attention.key_length", h.head_dim), ("attention.value_length", h.head_dim)]
    return [("general.architecture", arch), ("general.name", "tiny")] + [
        (f"{arch}.{key}", value) for key, value in keys
    ]


def tokenizer_keys(n):
    letters = [chr(33 + i) for i in range(n - 3)]
    tokens = ["<|end|>"] + letters + ["!!", '""']
    return [
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "smollm"),
        ("tokenizer.ggml.tokens", tokens),
        ("tokenizer.ggml.token_type", [3] + [1] * (n - 1)),
        ("tokenizer.ggml.merges", ["! !", '" "']),
        ("tokenizer.ggml.bos_token_id", 0),
        ("tokenizer.ggml.eos_token_id", 0),
        ("tokenizer.ggml.add_bos_token", False),
    ]


def llama3_factors(h, f, lo, hi, orig):
    inv = np.float64(h.rope_theta) ** (-np.arange(0, h.rd, 2) / h.rd)
    wavelen = 2 * math.pi / inv
    s = (orig / wavelen - lo) / (hi - lo)
    mixed = 1 / ((1 - s) / f + s)
    return np.where(wavelen < orig / hi, 1, np.where(wavelen > orig / lo, f, mixed)).astype(np.float32)


def model(fields, kind, more_keys=(), more_tensors=(), scale=1.0):
    """(GGUF bytes, header, tensors as read back). Vectors are always F32."""
    h = mlb.Header(**(BASE | fields))
    values = mlb.random_tensors(h, None, seed=7)
    tensors, read = [], {}
    for name, w in values.items():
        data, read[name] = encode(kind if w.ndim == 2 else F32, w * np.float32(scale) if w.ndim == 2 else w)
        tensors.append((gguf_name(name), list(reversed(w.shape)), kind if w.ndim == 2 else F32, data))
    tensors += list(more_tensors)
    return gguf(base_keys(h) + list(more_keys), tensors), h, read


def family_model(arch, fields, flags, more_keys, kind=Q4_0):
    """The same for any family, its flags, and last the tensors as a list. Blocks of 32 stay whole in every
    reordering."""
    h = mlb.Header(**(BASE | fields | {"layer_flags": int(flags is not None)}))
    values = mlb.random_tensors(h, flags, seed=7)
    tensors, read = [], {}
    for name, w in values.items():
        layer, _, tensor = name.rpartition(".")
        own = kind if w.ndim == 2 and tensor != "lconv" else F32
        read[name] = encode(own, w)[1]
        if tensor == "wg":
            continue
        w = gguf_families.reordered(arch, h, tensor, w)
        if tensor == "A_log":
            w = -np.exp(w)
            read[name] = gguf_families.untiled(h, ref_math.log32(-w))
        if tensor == "wq" and h.attn_gate:
            w = gguf_families.query_and_gate(h, w, values[f"{layer}.wg"])
        new = gguf_name(name, gguf_families.OWN_NAMES.get(arch, {}))
        tensors.append((new, list(reversed(w.shape)), own, encode(own, w)[0]))
    keys = [
        (k, v + 1 if k.endswith("block_count") and dict(more_keys).get("nextn_predict_layers") else v)
        for k, v in base_keys(h, arch)
    ]
    if "nextn_predict_layers" in dict(more_keys):
        tensors.append((f"blk.{h.n_layers}.nextn.eh_proj.weight", [64, 32], F32, b"\0" * 8192))
    return keys + [(f"{arch}.{key}", value) for key, value in more_keys], tensors, h, flags, read


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


OUTPUTS = [
    ("q8_0", "f16", "search"),
    ("q8_0", "f32", "search"),
    ("q4_0", "f16", "search"),
    ("q4_0", "f32", "round"),
]


def expected(h, tensors, folder, flags=None):
    out = []
    for kind, scales, rule in OUTPUTS:
        header = mlb.Header(
            **{**h.__dict__, "wtype": 1 if kind == "q8_0" else 2, "scale_f16": int(scales == "f16")}
        )
        path = Path(folder) / "x.mlb"
        mlb.write(path, header, flags, tensors, q4_rule=rule)
        data = path.read_bytes()
        out.append(
            {"type": kind, "scales": scales, "rule": rule, "size": len(data), "fnv1a64": fnv1a64(data)}
        )
    return out


def good_files(folder):
    types = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0, "q4_0": Q4_0, "q4_1": Q4_1}
    made = {f"llama_{name}": model({}, kind, tokenizer_keys(40)) for name, kind in types.items()}
    made["two_layers_own_head"] = model(
        dict(n_layers=2, shared_classifier=0, head_dim=32, n_heads=4, n_kv_heads=2), Q4_0
    )
    made["biases"] = model(dict(qkv_bias=1), Q8_0)
    made["linear"] = model(
        dict(rope_type=2, rope_factor=4.0),
        Q4_0,
        [("llama.rope.scaling.type", "linear"), ("llama.rope.scaling.factor", 4.0)],
    )
    made["linear_untyped"] = model(
        dict(rope_type=2, rope_factor=4.0), Q4_0, [("llama.rope.scaling.factor", 4.0)]
    )
    made["yarn"] = model(
        dict(
            rope_type=3,
            rope_factor=8.0,
            rope_low_freq_factor=32.0,
            rope_high_freq_factor=1.0,
            rope_orig_max_seq=64,
            rope_attn_factor=float(np.float32(0.1 * math.log(8.0) + 1)),
        ),
        Q4_0,
        [
            ("llama.rope.scaling.type", "yarn"),
            ("llama.rope.scaling.factor", 8.0),
            ("llama.rope.scaling.original_context_length", 64),
        ],
    )
    made["yarn_own_factor"] = model(
        dict(
            rope_type=3,
            rope_factor=8.0,
            rope_low_freq_factor=24.0,
            rope_high_freq_factor=1.5,
            rope_orig_max_seq=64,
            rope_attn_factor=0.75,
        ),
        Q4_0,
        [
            ("llama.rope.scaling.type", "yarn"),
            ("llama.rope.scaling.factor", 8.0),
            ("llama.rope.scaling.original_context_length", 64),
            ("llama.rope.scaling.yarn_attn_factor", 0.75),
            ("llama.rope.scaling.yarn_beta_fast", 24.0),
            ("llama.rope.scaling.yarn_beta_slow", 1.5),
        ],
    )
    for name, (f, lo, hi, orig, theta) in {
        "llama3": (32.0, 1.0, 4.0, 8192, 500000.0),
        "llama3_other": (8.0, 1.0, 3.0, 1000, 10000.0),
    }.items():
        fields = dict(
            rope_type=1,
            rope_factor=f,
            rope_low_freq_factor=lo,
            rope_high_freq_factor=hi,
            rope_orig_max_seq=orig,
            rope_theta=theta,
            head_dim=64,
        )
        h = mlb.Header(**(BASE | fields))
        factors = llama3_factors(h, f, lo, hi, orig)
        made[name] = model(fields, Q4_0, [], [("rope_freqs.weight", [len(factors)], F32, factors.tobytes())])
    entries = []
    for name, (data, h, tensors) in made.items():
        (OUT / f"{name}.gguf").write_bytes(data)
        entries.append(
            {
                "file": f"{name}.gguf",
                "status": "ML_OK",
                "tokenizer": name.startswith("llama_"),
                "mlb": expected(h, tensors, folder),
            }
        )
    for name, family in gguf_families.FAMILIES.items():
        if name in gguf_families.BIG:  # written when they are tested
            continue
        keys, tensors, h, flags, read = family_model(*family)
        (OUT / f"{name}.gguf").write_bytes(gguf(keys, tensors))
        entries.append(
            {
                "file": f"{name}.gguf",
                "status": "ML_OK",
                "tokenizer": False,
                "mlb": expected(h, read, folder, flags),
            }
        )
    return entries


# --- bad files ----------------------------------------------------------------------------------------------


def bad_parse():
    """name -> (bytes, status, mentions) of files parse_gguf refuses."""
    key = [("general.architecture", "llama")]
    one = ("t", [4], F32, b"\0" * 16)
    good = gguf(key, [one])
    huge = 1 << 63

    def info(name="t", dims=(4,), kind=F32, offset=0, n_dims=None):
        return (
            text(name)
            + struct.pack("<I", len(dims) if n_dims is None else n_dims)
            + struct.pack(f"<{len(dims)}Q", *dims)
            + struct.pack("<IQ", kind, offset)
        )

    def with_info(*infos, keys=key):
        return gguf(keys, [one] * len(infos), infos=b"".join(infos))

    def with_value(raw):
        return gguf([("k", raw)], [])

    return {
        "empty": (b"", FORMAT, ["magic"]),
        "magic": (b"GGML" + good[4:], FORMAT, ["magic"]),
        "version_0": (good[:4] + struct.pack("<I", 0) + good[8:], FORMAT, ["version"]),
        "version_1": (good[:4] + struct.pack("<I", 1) + good[8:], UNSUPPORTED, ["version 1"]),
        "version_4": (good[:4] + struct.pack("<I", 4) + good[8:], FORMAT, ["version 4"]),
        "big_endian": (b"GGUF" + struct.pack(">I", 3) + good[8:], UNSUPPORTED, ["big-endian"]),
        "cut_header": (good[:15], FORMAT, ["tensor count"]),
        "cut_key": (gguf(key, [])[:40], FORMAT, ["metadata"]),
        "cut_data": (good[:-17], FORMAT, ["tensor t", "beyond"]),
        "n_tensors_max": (gguf(key, [one], n_tensors=2**64 - 1), FORMAT, ["tensor count"]),
        "n_tensors_2_40": (gguf(key, [one], n_tensors=2**40), FORMAT, ["tensor count"]),
        "n_keys_max": (gguf(key, [one], n_keys=2**64 - 1), FORMAT, ["metadata count"]),
        "n_keys_one_more": (gguf(key, [], n_keys=2), FORMAT, ["metadata"]),
        "key_length_2_63": (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, huge) + b"abcdefghijklmnop",
            FORMAT,
            ["metadata key"],
        ),
        "string_length_2_63": (with_value((STRING, struct.pack("<Q", huge))), FORMAT, ["key k"]),
        "string_length_max": (with_value((STRING, struct.pack("<Q", 2**64 - 1))), FORMAT, ["key k"]),
        "array_length_2_61": (with_value((ARRAY, struct.pack("<IQ", U64, 2**61))), FORMAT, ["key k"]),
        "array_of_strings_2_48": (
            with_value((ARRAY, struct.pack("<IQ", STRING, 2**48))),
            FORMAT,
            ["key k"],
        ),
        "array_of_arrays": (
            with_value((ARRAY, struct.pack("<IQIQ", ARRAY, 1, U8, 0))),
            UNSUPPORTED,
            ["key k", "array of arrays"],
        ),
        "value_type_13": (with_value((13, b"\0" * 8)), FORMAT, ["key k", "13"]),
        "array_type_99": (with_value((ARRAY, struct.pack("<IQ", 99, 0))), FORMAT, ["key k", "99"]),
        "bool_2": (with_value((BOOL, b"\2")), FORMAT, ["key k", "bool"]),
        "duplicate_key": (gguf([("k", 1), ("k", 2)], []), FORMAT, ["key k", "twice"]),
        "duplicate_tensor": (with_info(info("a"), info("a", offset=32)), FORMAT, ["tensor a", "twice"]),
        "alignment_0": (gguf([("general.alignment", 0)], [one]), FORMAT, ["general.alignment"]),
        "alignment_33": (gguf([("general.alignment", 33)], [one]), FORMAT, ["general.alignment"]),
        "alignment_text": (gguf([("general.alignment", "32")], [one]), FORMAT, ["general.alignment"]),
        "n_dims_0": (with_info(info(dims=(), n_dims=0)), FORMAT, ["tensor t", "0 dimensions"]),
        "n_dims_5": (with_info(info(dims=(1,) * 5)), FORMAT, ["tensor t", "5 dimensions"]),
        "n_dims_max": (with_info(info(n_dims=2**32 - 1)), FORMAT, ["tensor t", "dimensions"]),
        "dim_0": (with_info(info(dims=(0, 4))), FORMAT, ["tensor t", "dimension of 0"]),
        "dims_overflow": (with_info(info(dims=(2**32, 2**32))), FORMAT, ["tensor t", "2^64"]),
        "dims_overflow_to_4": (with_info(info(dims=(4, 2**62 + 1))), FORMAT, ["tensor t", "2^64"]),
        "bytes_overflow": (with_info(info(dims=(2**62,))), FORMAT, ["tensor t", "2^64"]),
        "type_4": (with_info(info(kind=4)), UNSUPPORTED, ["tensor t", "type 4"]),
        "type_max": (with_info(info(kind=2**32 - 1)), UNSUPPORTED, ["tensor t", "4294967295"]),
        "row_not_block": (with_info(info(dims=(33,), kind=Q8_0)), FORMAT, ["tensor t", "multiple of 32"]),
        "offset_unaligned": (with_info(info(offset=4)), FORMAT, ["tensor t", "offset 4"]),
        "offset_beyond": (with_info(info(offset=32)), FORMAT, ["tensor t", "beyond"]),
        "offset_max": (with_info(info(offset=2**64 - 32)), FORMAT, ["tensor t", "beyond"]),
        "overlap": (with_info(info("a", dims=(12,)), info("b", offset=32)), FORMAT, ["overlap", "a", "b"]),
        "same_place": (with_info(info("a"), info("b")), FORMAT, ["overlap"]),
    }


def bad_plan():
    """name -> (bytes, status, mentions) of well-formed files that cannot become a .mlb."""
    h = mlb.Header(**BASE)
    keys = base_keys(h)
    values = mlb.random_tensors(h, None, 7)
    tensors = []
    for name, w in values.items():
        kind = Q4_0 if w.ndim == 2 else F32
        tensors.append((gguf_name(name), list(reversed(w.shape)), kind, encode(kind, w)[0]))

    def key(name, new):
        return gguf(
            [(k, new if k == name else v) for k, v in keys] + ([] if name in dict(keys) else [(name, new)]),
            tensors,
        )

    def without_key(name):
        return gguf([kv for kv in keys if kv[0] != name], tensors)

    def tensor(name, dims, kind, data):
        return gguf(keys, [(n, dims, kind, data) if n == name else (n, d, k, x) for n, d, k, x in tensors])

    nan = values["layers.0.w3"].copy()
    nan[3, 5] = np.nan
    return {
        "no_architecture": (without_key("general.architecture"), FORMAT, ["general.architecture"]),
        "other_architecture": (key("general.architecture", "mamba"), UNSUPPORTED, ["mamba", "llama"]),
        "architecture_number": (key("general.architecture", 5), FORMAT, ["general.architecture", "string"]),
        "no_block_count": (without_key("llama.block_count"), FORMAT, ["llama.block_count"]),
        "block_count_text": (key("llama.block_count", "1"), FORMAT, ["llama.block_count"]),
        "block_count_max": (key("llama.block_count", 2**32 - 1), FORMAT, ["block_count", "4294967295"]),
        "negative_length": (
            key("llama.embedding_length", (I32, struct.pack("<i", -32))),
            FORMAT,
            ["embedding_length", "-32"],
        ),
        "dim_not_32": (key("llama.embedding_length", 36), SHAPE, ["dim", "36"]),
        "heads_0": (key("llama.attention.head_count", 0), SHAPE, ["n_heads"]),
        "heads_per_layer": (key("llama.attention.head_count", [2, 4]), UNSUPPORTED, ["head_count", "layers"]),
        "no_eps": (without_key("llama.attention.layer_norm_rms_epsilon"), FORMAT, ["epsilon"]),
        "experts": (key("llama.expert_count", 8), UNSUPPORTED, ["expert_count", "8"]),
        "value_length": (key("llama.attention.value_length", 8), UNSUPPORTED, ["value_length", "8"]),
        "rope_longrope": (key("llama.rope.scaling.type", "longrope"), UNSUPPORTED, ["longrope"]),
        "yarn_without_length": (key("llama.rope.scaling.type", "yarn"), FORMAT, ["original_context_length"]),
        "odd_rope_freqs": (
            gguf(
                keys,
                tensors
                + [("rope_freqs.weight", [8], F32, np.array([1, 3, 2, 5, 1, 9, 4, 2], "<f4").tobytes())],
            ),
            UNSUPPORTED,
            ["rope_freqs.weight"],
        ),
        "rope_freqs_length": (
            gguf(keys, tensors + [("rope_freqs.weight", [4], F32, b"\0" * 16)]),
            SHAPE,
            ["rope_freqs.weight"],
        ),
        "missing_two": (
            gguf(keys, [t for t in tensors if "ffn_up" not in t[0] and "attn_q" not in t[0]]),
            FORMAT,
            ["missing: 2 tensors", "blk.0.attn_q.weight", "blk.0.ffn_up.weight"],
        ),
        "no_embedding": (gguf(keys, tensors[1:]), FORMAT, ["token_embd.weight"]),
        "wrong_shape": (
            tensor("blk.0.ffn_up.weight", [32, 32], F32, b"\0" * 4096),
            SHAPE,
            ["blk.0.ffn_up.weight", "32 × 64"],
        ),
        "q4_k": (
            tensor("blk.0.ffn_down.weight", [256, 8], Q4_K, b"\0" * 1152),
            SHAPE,
            ["blk.0.ffn_down.weight"],
        ),
        "extra_tensor": (
            gguf(keys, tensors + [("blk.0.attn_output.bias", [32], F32, b"\0" * 128)]),
            UNSUPPORTED,
            ["blk.0.attn_output.bias"],
        ),
        "nan_weight": (
            tensor("blk.0.ffn_up.weight", [32, 64], F32, nan.tobytes()),
            FORMAT,
            ["blk.0.ffn_up.weight", "row 3", "nan"],
        ),
    }


def bad_families():
    """The same for features of single families; tests/python/test_gguf.py writes these files when it needs
    them."""
    out = {}

    def case(name, family, status, mentions, changes=(), drop=(), tensor=None):
        keys, tensors, *_ = family_model(*gguf_families.FAMILIES[family])
        changes = dict(changes)
        keys = [(k, changes.pop(k, v)) for k, v in keys if k not in drop] + list(changes.items())
        tensors = [(n, d, k, tensor.get(n, x) if tensor else x) for n, d, k, x in tensors]
        out[name] = (gguf(keys, tensors), status, mentions)

    case("adapter", "qwen3", UNSUPPORTED, ["general.type", "adapter"], {"general.type": "adapter"})
    case(
        "qwen2_window", "qwen2", UNSUPPORTED, ["sliding_window", "16"], {"qwen2.attention.sliding_window": 16}
    )
    case("qwen3_experts", "qwen3", UNSUPPORTED, ["expert_count", "mixtures"], {"qwen3.expert_count": 8})
    case(
        "qwen3_softcap",
        "qwen3",
        UNSUPPORTED,
        ["attn_logit_softcapping"],
        {"qwen3.attn_logit_softcapping": 50.0},
    )
    case(
        "qwen3moe",
        "qwen3",
        UNSUPPORTED,
        ["qwen3moe", "qwen35", "gemma3"],
        {"general.architecture": "qwen3moe"},
    )
    case("qwen35_no_ssm", "qwen35", FORMAT, ["qwen35.ssm.state_size"], drop=["qwen35.ssm.state_size"])
    case("qwen35_inner", "qwen35", SHAPE, ["ssm.inner_size", "130"], {"qwen35.ssm.inner_size": 130})
    case("qwen35_no_heads", "qwen35", SHAPE, ["ssm.time_step_rank"], {"qwen35.ssm.time_step_rank": 0})
    case(
        "qwen35_interval_0",
        "qwen35",
        FORMAT,
        ["full_attention_interval"],
        {"qwen35.full_attention_interval": 0},
    )
    case(
        "qwen35_short_list",
        "qwen35",
        FORMAT,
        ["recurrent_layers", "1 elements"],
        {"qwen35.attention.recurrent_layers": [True]},
    )
    case(
        "qwen35_list_of_2",
        "qwen35",
        FORMAT,
        ["recurrent_layers[1]", "2"],
        {"qwen35.attention.recurrent_layers": [0, 2]},
    )
    case(
        "qwen35_all_mtp",
        "qwen35_list_mtp",
        FORMAT,
        ["nextn_predict_layers"],
        {"qwen35.nextn_predict_layers": 4},
    )
    case(
        "qwen35_ssm_a",
        "qwen35",
        FORMAT,
        ["blk.0.ssm_a", "below 0"],
        tensor={"blk.0.ssm_a": struct.pack("<4f", -1, -2, 0, -1)},
    )
    case(
        "qwen35_conv", "qwen35", SHAPE, ["blk.0.ssm_conv1d.weight", "4 × 192"], {"qwen35.ssm.conv_kernel": 3}
    )
    case(
        "gemma2_local_base",
        "gemma2",
        UNSUPPORTED,
        ["rope.freq_base_swa"],
        {"gemma2.rope.freq_base_swa": 5000.0},
    )
    case(
        "gemma3_pattern_text",
        "gemma3",
        FORMAT,
        ["sliding_window_pattern", "string"],
        {"gemma3.attention.sliding_window_pattern": "6"},
    )
    case("gemma3n", "gemma3", UNSUPPORTED, ["gemma3n"], {"general.architecture": "gemma3n"})
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        entries = good_files(folder)
    for stage, cases in (("parse", bad_parse()), ("plan", bad_plan())):
        for name, (data, status, mentions) in cases.items():
            (OUT / f"bad_{name}.gguf").write_bytes(data)
            entries.append(
                {"file": f"bad_{name}.gguf", "stage": stage, "status": status, "mentions": mentions}
            )
    (OUT / "manifest.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
