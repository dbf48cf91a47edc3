#!/usr/bin/env python3
"""Writes tests/data/good: small valid .mlb, .mlt and .mli files, each with one feature. Running it twice
gives the same bytes.

manifest.json is a list of {"file", "note", "trailing"}; trailing is the number of bytes after the content. An
.mlb also has
    "canonical"    whether writing what was read gives the same bytes,
    "header"       the fields that are not zero,
    "layer_flags",
    "arrays"       [[name, kind, rows, cols, offset, d_offset]].
quant.json holds blocks of 32 float32 (as uint32 bits) and the result of each rule (make_quant below).
"""
import json
import struct
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import mlb  # noqa: E402

GOOD = ROOT / "tests/data/good"
MAX = 0xFFFFFFFF
NAN, INF = float("nan"), float("inf")
FIELDS = {f.name: (8 + 4 * i, "<I" if f.type is int else "<f") for i, f in enumerate(fields(mlb.Header))}

# The smallest legal model: head_dim 2, one key head.
TINY = mlb.Header(
    dim=32,
    n_layers=1,
    n_heads=16,
    n_kv_heads=1,
    hidden_dim=32,
    vocab=3,
    max_seq=8,
    rope_theta=10000.0,
    norm_eps=1e-5,
    wtype=2,
    scale_f16=1,
    shared_classifier=1,
)
LIN = dict(lin_k_heads=1, lin_v_heads=4, lin_k_dim=2, lin_v_dim=8, lin_conv=2)
ROPES = {
    "llama3": dict(
        rope_type=1,
        rope_factor=8.0,
        rope_low_freq_factor=1.0,
        rope_high_freq_factor=4.0,
        rope_orig_max_seq=64,
    ),
    "linear": dict(rope_type=2, rope_factor=2.0),
    "yarn": dict(
        rope_type=3,
        rope_factor=4.0,
        rope_low_freq_factor=32.0,
        rope_high_freq_factor=1.0,
        rope_orig_max_seq=64,
        rope_attn_factor=1.25,
    ),
}


def model(flags=None, seed=1, **changes):
    """The bytes of a canonical random model: TINY with changes."""
    header, flags = mlb.canonical(
        replace(TINY, **changes), None if flags is None else np.array(flags, np.uint8)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.mlb")
        mlb.write(path, header, flags, mlb.random_tensors(header, flags, seed))
        return path.read_bytes()


def patch(data, **values):
    """data with header fields replaced."""
    out = bytearray(data)
    for name, value in values.items():
        offset, kind = FIELDS[name]
        struct.pack_into(kind, out, offset, value)
    return bytes(out)


def poke(data, offset, new):
    """data with the bytes at offset replaced by `new`."""
    return data[:offset] + new + data[offset + len(new) :]


def arrays(data):
    """The Arrays of a good model by name."""
    m = mlb.read(data)
    return {a.name: a for a in mlb.layout(m.header, m.layer_flags)}


class Folder:
    """Collects files and manifest entries, and writes the folder anew."""

    def __init__(self, path):
        self.path, self.entries, self.files = path, [], {}

    def add(self, name, data, **entry):
        assert name not in self.files, name
        self.files[name] = data
        self.entries.append({"file": name, **entry})

    def write(self):
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.glob("*.ml?"):
            old.unlink()
        for name, data in self.files.items():
            if data is not None:
                (self.path / name).write_bytes(data)
        lines = ",\n".join(json.dumps(e) for e in self.entries)
        (self.path / "manifest.json").write_text(f"[\n{lines}\n]\n")


# --- good ---------------------------------------------------------------------------------------------------


def good_models():
    """(name, note, bytes) of models that must load; those of the first loop are canonical."""
    full = dict(shared_classifier=0, qkv_bias=1, qk_norm=1, post_norms=1, attn_gate=1)
    tall = dict(n_layers=3, n_heads=4, n_kv_heads=2)
    for name, note, flags, changes in [
        ("q8_f32", "Q8_0, f32 scales, own classifier", None, dict(wtype=1, scale_f16=0, shared_classifier=0)),
        ("q8_f16_shared", "Q8_0, f16 scales, shared classifier", None, dict(wtype=1)),
        ("q4_f32", "Q4_0, f32 scales, own classifier", None, dict(scale_f16=0, shared_classifier=0)),
        ("q4_f16_shared", "Q4_0, f16 scales, shared classifier", None, {}),
        ("mask_all", "Q4_0 with every class as Q8_0", None, dict(q8_mask=127, shared_classifier=0)),
        ("mask_shared_cls", "shared classifier as Q8_0, bit 1", None, dict(q8_mask=1)),
        (
            "mask_linear",
            "classes of a linear-attention layer, f32 scales",
            [8],
            dict(LIN, q8_mask=4 + 16, scale_f16=0),
        ),
        ("biases", "qkv_bias", None, dict(qkv_bias=1)),
        (
            "qk_norm_head_dim",
            "qk_norm, head_dim given, dim not a multiple of n_heads",
            None,
            dict(qk_norm=1, head_dim=32, n_heads=3, n_kv_heads=3),
        ),
        ("everything", "every optional array of an attention layer", None, full),
        (
            "gemma2",
            "post_norms, GELU, softcaps, embed_scale, attn_scale, window in every second layer",
            [1, 0, 1],
            dict(
                tall,
                post_norms=1,
                act=1,
                attn_softcap=50.0,
                final_softcap=30.0,
                embed_scale=32**0.5,
                attn_scale=0.25,
                sliding_window=4,
            ),
        ),
        (
            "gemma3",
            "local layers behind a window, linear scaling elsewhere",
            [3, 3, 0],
            dict(tall, **ROPES["linear"], qk_norm=1, sliding_window=4, rope_local_theta=1000.0),
        ),
        ("smollm3", "a layer without RoPE", [0, 4, 0], tall),
        ("window_all", "a window on every layer: no layer flags", None, dict(sliding_window=4)),
        (
            "qwen35",
            "linear attention, gate, rot_dim, Q4_0",
            [8, 8, 0],
            dict(LIN, n_layers=3, n_heads=2, n_kv_heads=1, attn_gate=1, qk_norm=1, rot_dim=4),
        ),
        ("qwen35_q8", "linear attention, Q8_0, f32 scales", [8], dict(LIN, wtype=1, scale_f16=0)),
        ("linear_wide", "lin_v_heads * lin_v_dim differs from q_dim", [8], dict(LIN, lin_v_dim=16)),
        *[(f"rope_{name}", f"RoPE scaling {name}", None, rope) for name, rope in ROPES.items()],
    ] + [
        (f"mask_{bit}", f"Q4_0 with class bit {bit} as Q8_0", None, dict(q8_mask=bit, shared_classifier=0))
        for bit in (1, 2, 4, 8, 16, 32, 64)
    ]:
        yield name, note, model(flags, **changes)
    yield from odd_models()


def odd_models():
    """Legal files that a canonical writer would not write."""
    base, q8 = model(), model(wtype=1, shared_classifier=0)
    end = arrays(base)["final_norm"].end
    q8_end = arrays(q8)["wcls"].end
    assert q8_end < len(q8)
    yield "no_last_padding", "ends with the last array", q8[:q8_end]
    yield "half_last_padding", "ends within the last padding", q8[: q8_end + 1]
    yield "trailing", "100 bytes after the last array", base + b"x" * 100
    tok_emb = arrays(base)["tok_emb"]
    assert tok_emb.d_offset + tok_emb.d_nbytes < arrays(base)["layers.0.attn_norm"].offset and end == len(
        base
    )
    yield "padding_not_zero", "padding between arrays is not checked", poke(base, tok_emb.end, b"\x7f")
    yield "unused_rope", "rope parameters the type does not use", patch(
        base, rope_factor=NAN, rope_orig_max_seq=9, rope_low_freq_factor=-1.0
    )
    yield "shared_seven", "shared_classifier is any non-zero value", patch(base, shared_classifier=7)
    yield "mask_shared_bit2", "shared classifier as Q8_0 by bit 2", patch(model(q8_mask=1), q8_mask=2)
    yield "explicit_defaults", "values that zero stands for", patch(
        base,
        head_dim=2,
        rot_dim=2,
        embed_scale=1.0,
        attn_scale=float(np.float32(1 / 2**0.5)),
        rope_local_theta=5.0,
    )
    yield "lin_unused", "lin_* sizes and no linear-attention layer", patch(base, **LIN)
    yield "negative_zeros", "-0.0 counts as 0", patch(
        base, norm_eps=-0.0, rope_attn_factor=-0.0, attn_softcap=-0.0
    )
    flagged = patch(base, layer_flags=1)
    flagged = flagged[:256] + bytes(64) + flagged[256:]
    yield "flags_all_zero", "layer flags that say nothing", flagged
    yield "flags_all_window", "flags that put every layer behind the window", poke(
        patch(flagged, sliding_window=4), 256, b"\1"
    )
    wq = arrays(base)["layers.0.wq"]
    scales = np.array([NAN, INF, -INF, -0.0, 6e-8, -65504.0], "<f2").tobytes()
    yield "any_scale", "NaN, infinite, -0, denormal and extreme scales", poke(base, wq.d_offset, scales)
    yield "any_nibble", "0x80, 0x00 and 0xff in Q4_0 quants", poke(base, wq.offset, b"\x80\x00\xff")
    yield "limits", "fields at their upper limits that cost no space", patch(
        base, max_seq=1 << 24, sliding_window=1 << 24, rope_orig_max_seq=MAX, rope_theta=3e38
    )


SP_TOKENS = [
    (1, b"<unk>"),
    (1, b"<s>"),
    (1, b"</s>"),
    (2, b"A"),
    (2, b"\xff"),
    (0, "\u2581".encode()),
    (0, b"a"),
    (0, b"b"),
    (0, b"ab"),
    (0, "\u2581ab".encode()),
]
SP = mlb.Tokenizer(1, 1, 1, 2, SP_TOKENS, [(6, 7, 8), (5, 8, 9)])
BL = mlb.Tokenizer(2, 0, -1, 3, [(0, b"a"), (0, b"\xc3"), (0, b"a\xc3"), (1, b"<|end|>")], [(0, 1, 2)])


def tokenizer(t, **changes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.mlt")
        mlb.write_mlt(path, replace(t, **changes))
        return path.read_bytes()


def good_tokenizers():
    yield "sp", "SentencePiece, BOS", tokenizer(SP)
    yield "sp_prefix_once", "prefix only at the start", tokenizer(SP, flags=5)
    yield "sp_no_prefix", "no prefix (flag 256)", tokenizer(SP, flags=257)
    yield "bl", "byte-level", tokenizer(BL)
    for flag in (1, 2, 8, 16, 32, 64, 128):
        yield f"bl_flag{flag}", f"byte-level, flag {flag}", tokenizer(BL, flags=flag)
    yield "bl_many", "byte-level, several flags", tokenizer(BL, flags=1 | 2 | 8 | 16 | 128)
    yield "no_merges", "no merges, no bos, no eos", tokenizer(BL, merges=[], eos=-1)
    yield "no_tokens", "an empty vocabulary", tokenizer(BL, tokens=[], merges=[], eos=-1)
    yield "empty_token", "a token of no bytes", tokenizer(BL, tokens=BL.tokens + [(0, b"")])
    yield "twins", "equal tokens and a repeated merge", tokenizer(
        SP, tokens=SP_TOKENS + [(0, b"A")], merges=SP.merges + [(6, 7, 8)]
    )
    yield "trailing", "5 bytes after the last merge", tokenizer(BL) + b"extra"


def importance(n_layers=1, q_dim=32, seed=3):
    rng = np.random.RandomState(seed)
    layers = [[rng.uniform(0, 9, n) for n in (32, q_dim, 32, 32)] for _ in range(n_layers)]
    layers[0][0][5] = 0.0  # a channel that never saw an input is legal
    m = mlb.Importance(32, 32, q_dim, 1000, 12, layers, rng.uniform(0, 9, 32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.mli")
        mlb.write_mli(path, m)
        return path.read_bytes()


def good_importances():
    yield "same_q_dim", "q_dim 0: equal to dim", importance()
    yield "own_q_dim", "q_dim differs from dim", importance(2, 96)
    yield "q_dim_written_out", "q_dim given although equal to dim", poke(
        importance(), 20, struct.pack("<I", 32)
    )


def make_good():
    out = Folder(GOOD)
    for name, note, data in good_models():
        m = mlb.read(data)
        h = m.header
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "again.mlb")
            mlb.write(path, h, m.layer_flags, m.tensors)
            same = path.read_bytes() == data
        out.add(
            name + ".mlb",
            data,
            note=note,
            trailing=m.trailing,
            canonical=same,
            header={f: (v if v == v else "nan") for f in FIELDS if (v := getattr(h, f)) != 0},
            layer_flags=m.layer_flags.tolist(),
            arrays=[
                [a.name, a.kind, a.rows, a.cols, a.offset, a.d_offset] for a in mlb.layout(h, m.layer_flags)
            ],
        )
    for name, note, data in good_tokenizers():
        out.add(name + ".mlt", data, note=note, trailing=mlb.read_mlt(data).trailing)
    for name, note, data in good_importances():
        mlb.read_mli(data)
        out.add(name + ".mli", data, note=note, trailing=0)
    out.write()


# --- quantization vectors -----------------------------------------------------------------------------------


def quant_blocks():
    """float32 [n, 32]: random blocks of several sizes, and those where a rule's edge lies."""
    rng = np.random.RandomState(5)
    rows = [
        rng.standard_normal(32) * s
        for s in (1, 0.02, 1e-3, 3e-6, 9e-7, 1e-7, 1e-20, 1e-30, 1e-38, 1e-39, 1e-42, 1e3, 5e5)
    ]
    rows += [rng.standard_t(2, 32) * 0.02 for _ in range(6)]  # heavy tails
    rows += [np.arange(-16, 16) * s for s in (1 / 16, 1e-30)]  # ties between +x and -x, halves
    rows += [
        np.zeros(32),
        -np.zeros(32),
        np.eye(32)[31],
        -np.eye(32)[0],
        np.full(32, -0.5),
        np.tile([1.0, -1.0], 16),
    ]
    rows += [
        np.eye(32)[7] * v
        for v in (
            1e-30,
            9.9e-31,
            1e-45,
            2.0**-128,
            2.0**-127,
            127 * 2.0**-25,
            127 * 2.0**-24,
            1e-6,
            65504.0 * 8,
            1e-7,
        )
    ]
    rows += [np.arange(32) * 4 + 1.5, np.arange(32) - 127.0]  # halves against d = 1
    return np.array(rows, np.float32)


def bits(a):
    return np.ascontiguousarray(a).view({2: "<u2", 4: "<u4"}[a.itemsize]).ravel().tolist()


def make_quant():
    """good/quant.json: {"blocks": [{"x": 32 uint32 bits, RULE: null if refused, or {"d": bits of the scale,
    "q": bytes as hex}}], "importance": {"x", "sums", "tokens", "imp", "q", "d"}} with RULE in q8_f32, q8_f16,
    q4_search_f32, q4_search_f16, q4_round_f32, q4_round_f16. The importance case is a matrix of 2 rows of 64;
    sums are float64.
    """
    rules = {
        "q8": lambda x, f16: mlb.quantize_q8(x, f16),
        "q4_search": lambda x, f16: mlb.quantize_q4(x, f16),
        "q4_round": lambda x, f16: mlb.quantize_q4(x, f16, "round"),
    }
    blocks = []
    for x in quant_blocks():
        entry = {"x": bits(x)}
        for rule, quantize in rules.items():
            for f16 in (0, 1):
                try:
                    quant = quantize(x[None], f16)
                    entry[f"{rule}_f{16 if f16 else 32}"] = {
                        "d": bits(quant.d)[0],
                        "q": quant.q.tobytes().hex(),
                    }
                except mlb.FormatError:
                    entry[f"{rule}_f{16 if f16 else 32}"] = None
        blocks.append(entry)
    rng = np.random.RandomState(6)
    x, sums, tokens = (
        (rng.standard_normal((2, 64)) * 0.05).astype(np.float32),
        rng.uniform(0, 30, 64) ** 2,
        77,
    )
    sums[3] = 0.0
    from mli import relative

    imp = relative(sums, tokens)
    quant = mlb.quantize_q4(x, 0, "search", imp)
    case = {
        "x": bits(x),
        "sums": sums.tolist(),
        "tokens": tokens,
        "imp": bits(imp),
        "q": quant.q.tobytes().hex(),
        "d": bits(quant.d),
    }
    lines = ",\n".join(json.dumps(b) for b in blocks)
    (GOOD / "quant.json").write_text(f'{{"blocks": [\n{lines}\n], "importance": {json.dumps(case)}}}\n')


if __name__ == "__main__":
    make_good()
    make_quant()
