#!/usr/bin/env python3
"""Writes tests/data/good and tests/data/bad: small .mlb, .mlt and .mli files, each with one feature or one fault.

Bad files start from a good one and have a few bytes changed, so that the fault is the only one. Running it twice gives
the same bytes.

bad/manifest.json:  [{"file", "status", "mentions": [texts the message contains], "model": a good .mlb that a .mli is
                    checked against (optional)}]; "missing.mlb" does not exist on purpose.
good/manifest.json: [{"file", "note", "trailing"}], for .mlb also "canonical" (writing what was read gives the same bytes),
                    "header" (fields that are not zero), "layer_flags", "arrays": [[name, kind, rows, cols, offset, d_offset]].
good/quant.json:    blocks of 32 float32 (as uint32 bits) and what each rule makes of them (make_quant below).
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

GOOD, BAD = ROOT / "tests/data/good", ROOT / "tests/data/bad"
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


# --- good -------------------------------------------------------------------------------------------------------------


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


# --- quantization vectors ---------------------------------------------------------------------------------------------


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
    """good/quant.json: {"blocks": [{"x": 32 uint32 bits, RULE: null if refused, or {"d": bits of the scale, "q": bytes as
    hex}}], "importance": {"x", "sums", "tokens", "imp", "q", "d"}} with RULE in q8_f32, q8_f16, q4_search_f32,
    q4_search_f16, q4_round_f32, q4_round_f16. The importance case is a matrix of 2 rows of 64; sums are float64.
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


# --- bad models -------------------------------------------------------------------------------------------------------

FLOAT_ABOVE_ZERO = {"zero": 0.0, "negative": -1.0, "nan": NAN, "inf": INF}
FLOAT_NOT_NEGATIVE = {"negative": -1.0, "nan": NAN, "inf": INF}
TOO_LARGE_FLAG = {"two": 2, "max": MAX}


def bad_fields():
    """(case, status, field, base, changes) of single header fields with ML_E_FORMAT."""
    base = model()
    ropes = {name: model(**rope) for name, rope in ROPES.items()}
    single = {
        "rope_theta": FLOAT_ABOVE_ZERO,
        "norm_eps": FLOAT_NOT_NEGATIVE,
        "wtype": {"zero": 0, "three": 3, "max": MAX},
        "rope_type": {"four": 4, "max": MAX},
        "q8_mask": {"bit128": 128, "max": MAX},
        "qkv_bias": TOO_LARGE_FLAG,
        "qk_norm": TOO_LARGE_FLAG,
        "rope_attn_factor": {"one": 1.0, "nan": NAN, "negative": -1.0},
        "sliding_window": {"over": (1 << 24) + 1, "max": MAX},
        "rope_local_theta": FLOAT_NOT_NEGATIVE,
        "act": TOO_LARGE_FLAG,
        "post_norms": TOO_LARGE_FLAG,
        "embed_scale": FLOAT_NOT_NEGATIVE,
        "attn_scale": FLOAT_NOT_NEGATIVE,
        "scale_f16": TOO_LARGE_FLAG,
        "attn_softcap": FLOAT_NOT_NEGATIVE,
        "final_softcap": FLOAT_NOT_NEGATIVE,
        "attn_gate": TOO_LARGE_FLAG,
    }
    for field, cases in single.items():
        for case, value in cases.items():
            yield f"{field}_{case}", field, patch(base, **{field: value})
    flagged = model([2], rope_local_theta=100.0)
    for case, value in TOO_LARGE_FLAG.items():
        yield f"layer_flags_field_{case}", "layer_flags", patch(flagged, layer_flags=value)
    yield "q8_mask_in_q8", "q8_mask", patch(model(wtype=1), q8_mask=1)
    scaled = {
        "llama3": {
            "rope_factor": FLOAT_ABOVE_ZERO,
            "rope_low_freq_factor": FLOAT_ABOVE_ZERO,
            "rope_high_freq_factor": {"equal": 1.0, "below": 0.5, "nan": NAN, "inf": INF},
            "rope_orig_max_seq": {"zero": 0},
            "rope_attn_factor": {"one": 1.0},
        },
        "linear": {"rope_factor": FLOAT_ABOVE_ZERO, "rope_attn_factor": {"one": 1.0}},
        "yarn": {
            "rope_factor": FLOAT_ABOVE_ZERO,
            "rope_low_freq_factor": FLOAT_ABOVE_ZERO,
            "rope_high_freq_factor": dict(FLOAT_ABOVE_ZERO, equal=32.0, above=33.0),
            "rope_orig_max_seq": {"zero": 0},
            "rope_attn_factor": FLOAT_ABOVE_ZERO,
        },
    }
    for rope, by_field in scaled.items():
        for field, cases in by_field.items():
            for case, value in cases.items():
                yield f"{rope}_{field}_{case}", field, patch(ropes[rope], **{field: value})
    for rope in (1, 2, 3):
        yield f"rope_type_{rope}_without_parameters", "rope_factor", patch(base, rope_type=rope)
    for offset in (160, 200, 255):
        yield f"padding_{offset}", "padding", poke(base, offset, b"\1")


def bad_shapes():
    """(case, field, bytes) with ML_E_SHAPE."""
    base, lin = model(), model([8], **LIN)
    for field in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim"):
        for case, value in {
            "zero": 0,
            "over": 65537,
            "over32": 65536 + 32,
            "max": MAX,
            "max32": 0xFFFFFFE0,
        }.items():
            yield f"{field}_{case}", field, patch(base, **{field: value})
    for case, value in {"zero": 0, "one": 1, "two": 2, "over": (1 << 24) + 1, "max": MAX}.items():
        yield f"vocab_{case}", "vocab", patch(base, vocab=value)
    for case, value in {"zero": 0, "over": (1 << 24) + 1, "max": MAX}.items():
        yield f"max_seq_{case}", "max_seq", patch(base, max_seq=value)
    for case, field, changes in [
        ("dim_not_32", "dim", dict(dim=48, head_dim=2)),
        ("hidden_dim_not_32", "hidden_dim", dict(hidden_dim=33)),
        ("n_heads_no_divisor", "n_heads", dict(n_heads=15)),
        ("n_heads_above_dim", "n_heads", dict(n_heads=64)),
        ("n_kv_heads_no_divisor", "n_kv_heads", dict(n_kv_heads=3)),
        ("n_kv_heads_above_n_heads", "n_kv_heads", dict(n_kv_heads=32)),
        ("head_dim_odd", "head_dim", dict(head_dim=3)),
        ("head_dim_max", "head_dim", dict(head_dim=MAX)),
        ("head_dim_derived_odd", "head_dim", dict(n_heads=32)),
        ("q_dim_not_32", "q_dim", dict(head_dim=2, n_heads=8)),
        ("q_dim_over", "q_dim", dict(head_dim=4098)),
        ("q_dim_wraps_32_bits", "q_dim", dict(head_dim=0x10000002)),
        ("q_dim_huge", "q_dim", dict(head_dim=0xFFFFFFFE)),
        ("rot_dim_odd", "rot_dim", dict(rot_dim=1)),
        ("rot_dim_over", "rot_dim", dict(rot_dim=4)),
        ("rot_dim_max", "rot_dim", dict(rot_dim=0xFFFFFFFE)),
    ]:
        yield case, field, patch(base, **changes)
    for field in mlb.LIN_FIELDS:
        for case, value in {"zero": 0, "over": 65537, "max": MAX}.items():
            yield f"{field}_{case}", field, patch(lin, **{field: value})
    yield "lin_v_heads_not_4", "lin_v_heads", patch(lin, lin_v_heads=6)
    yield "lin_v_heads_not_k", "lin_v_heads", patch(lin, lin_k_heads=3)
    yield "lin_v_heads_below_k", "lin_v_heads", patch(lin, lin_k_heads=8)
    yield "lin_values_not_32", "lin_v_dim", patch(lin, lin_v_dim=4)


def bad_layers():
    """(case, mentioned, bytes) of layer flags and lin_* with ML_E_FORMAT."""
    base, lin = model(), model([8], **LIN)
    local = model([3], sliding_window=4, rope_local_theta=100.0)
    for bits_ in (16, 128, 255, 9, 10, 12, 15, 6, 7):
        yield f"layer_flags_{bits_}", "layer_flags", poke(local, 256, bytes([bits_]))
    yield "layer_flags_window_without_size", "sliding_window", patch(
        poke(local, 256, b"\1"), sliding_window=0
    )
    yield "layer_flags_local_without_theta", "rope_local_theta", patch(local, rope_local_theta=0.0)
    yield "layer_flags_linear_without_sizes", "layer_flags", patch(lin, **dict.fromkeys(LIN, 0))
    for name in mlb.LIN_FIELDS:
        yield f"lin_only_{name}", "lin_", patch(base, **{name: LIN[name]})
    last = model([0, 2], n_layers=2, rope_local_theta=100.0)
    yield "layer_flags_last_layer", "layer_flags", poke(last, 257, b"\x20")


def bad_cuts():
    """(case, mentioned, bytes): files that end early, in every array of four models."""
    base = model()
    yield "empty", "empty", b""
    for n in (1, 4, 8, 100, 255):
        yield f"header_{n}_bytes", "header", base[:n]
    yield "header_only", "tok_emb", base[:256]
    bases = {
        "plain": base,
        "full": model(shared_classifier=0, qkv_bias=1, qk_norm=1, post_norms=1, attn_gate=1),
        "lin": model([8], **LIN),
        "flags": model([2], rope_local_theta=100.0),
    }
    for which, data in bases.items():
        seen = arrays(bases["plain"]) if which != "plain" else {}
        for a in arrays(data).values():
            if a.name in seen and a.name != "final_norm":
                continue
            yield f"cut_{which}_{a.name}_end", a.name, data[: a.end - 1]
            if which == "plain":
                yield f"cut_{which}_{a.name}_start", a.name, data[: a.offset]
            if a.d_offset is not None:
                yield f"cut_{which}_{a.name}_quants", a.name, data[: a.offset + a.nbytes - 1]


def bad_sizes():
    """(case, mentioned, bytes): legal dimensions far beyond the file; every size must be computed without overflow."""
    base, lin = model(), model([8], **LIN)
    yield "huge_vocab", "tok_emb", patch(base, vocab=1 << 24)
    yield "huge_layers", "layers.1", patch(base, n_layers=65536)
    yield "huge_flags", "layer_flags", patch(model([2], rope_local_theta=100.0), n_layers=65536)
    yield "huge_hidden", "layers.0.w1", patch(base, hidden_dim=65536)
    yield "huge_heads", "layers.0.wq", patch(base, n_heads=32768, n_kv_heads=32768, head_dim=2)
    yield "huge_all", "tok_emb", patch(
        base,
        dim=65536,
        n_layers=65536,
        n_heads=32768,
        n_kv_heads=32768,
        hidden_dim=65536,
        vocab=1 << 24,
        max_seq=1 << 24,
    )
    yield "huge_lin_conv", "layers.0.lconv", patch(lin, lin_conv=65536)
    yield "lin_channels_wrap_32_bits", "layers.0.lqkv", patch(
        lin, lin_k_heads=32768, lin_k_dim=65536, lin_v_heads=32768
    )
    yield "huge_lin", "layers.0.lqkv", patch(lin, **dict.fromkeys(LIN, 65536))
    yield "total_wraps_32_bits", "tok_emb", wraps_32_bits()
    yield "total_wraps_64_bits", "tok_emb", wraps_64_bits()


def total(h, flags):
    """Bytes of a model, as Python computes them: one layer's size times the number of layers, all alike."""
    one = {a.name: a for a in mlb.layout(replace(h, n_layers=1), flags)}
    start = 256 + mlb.aligned(h.n_layers) * h.layer_flags
    emb = one["layers.0.attn_norm"].offset - one["tok_emb"].offset
    layer = one["final_norm"].offset - one["layers.0.attn_norm"].offset
    rest = mlb.aligned(list(one.values())[-1].end) - one["final_norm"].offset
    return start + emb + layer * h.n_layers + rest


def wraps_32_bits():
    """A file that is long enough if its size is computed modulo 2^32."""
    h = mlb.Header.unpack(patch(model(), n_layers=1200, hidden_dim=65536, vocab=3))
    missing = (1 << 32) - total(h, [0])
    h.vocab = missing // 18 + 64  # 16 bytes of quants and 2 of scale a row
    data = h.pack().ljust(4096, b"\0")
    assert 0 < total(h, [0]) - (1 << 32) <= len(data) and h.vocab <= 1 << 24
    return data


def wraps_64_bits():
    """A file that is long enough if its size is computed modulo 2^64: only lin_* reach that far."""
    h = replace(
        TINY,
        wtype=1,
        dim=65536,
        n_heads=32768,
        n_kv_heads=32768,
        layer_flags=1,
        lin_k_heads=1024,
        lin_v_heads=65536,
        lin_v_dim=65536,
    )
    coarse_to_fine = {"lin_conv": 1, "lin_k_dim": 1, "hidden_dim": 32, "vocab": 1}
    for h.n_layers in range(9900, 10100):  # until what is left over fits into the file
        flags = bytes([8]) * h.n_layers
        h.lin_conv, h.lin_k_dim, h.hidden_dim, h.vocab = 1, 1, 32, 3
        for name, step in coarse_to_fine.items():
            start, size = getattr(h, name), total(h, [8])
            setattr(h, name, start + step)
            steps = ((1 << 64) - size) // (total(h, [8]) - size)
            setattr(h, name, start + step * (steps + (name == "vocab")))
        legal = max(h.lin_conv, h.lin_k_dim, h.hidden_dim) <= 65536 and h.vocab <= 1 << 24
        if legal and total(h, [8]) - (1 << 64) <= len(flags) + 2048:
            return (h.pack() + flags).ljust(len(flags) + 2048, b"\0")
    raise AssertionError("no header found")


def bad_quants():
    """(case, mentioned, bytes): a Q8_0 quant of -128 in every matrix that can be Q8_0."""
    q8 = model(wtype=1, shared_classifier=0, attn_gate=1)
    for a in arrays(q8).values():
        if a.kind == "q8":
            yield f"q8_{a.name}", a.name, poke(q8, a.offset + a.nbytes - 1, b"\x80")
    yield "q8_first_quant", "tok_emb", poke(q8, arrays(q8)["tok_emb"].offset, b"\x80")
    lin = model([8], **LIN)
    for name in ("layers.0.lb", "layers.0.la"):
        yield f"q4_{name}", name, poke(lin, arrays(lin)[name].offset + 33, b"\x80")
    mixed = model([8], **LIN, q8_mask=28)
    for name in ("layers.0.lqkv", "layers.0.lz", "layers.0.lout"):
        yield f"mixed_{name}", name, poke(mixed, arrays(mixed)[name].offset + 7, b"\x80")
    for bit, name in {
        1: "tok_emb",
        2: "wcls",
        4: "layers.0.wk",
        8: "layers.0.wv",
        16: "layers.0.wo",
        32: "layers.0.w3",
        64: "layers.0.w2",
    }.items():
        data = model(q8_mask=bit, shared_classifier=0)
        yield f"mixed_{name}", name, poke(data, arrays(data)[name].offset, b"\x80")


def bad_models(out):
    base = model()
    out.add("missing.mlb", None, status="ML_E_IO", mentions=["missing.mlb"])
    for case, mentioned, data in [
        ("magic", "magic", poke(base, 0, b"MLB2")),
        ("magic_gguf", "magic", poke(base, 0, b"GGUF")),
        ("magic_mlt", "magic", poke(base, 0, b"MLT1")),
        ("version_0", "version", poke(base, 4, b"\0")),
        ("version_2", "version", poke(base, 4, b"\2")),
        ("version_max", "version", poke(base, 4, b"\xff" * 4)),
    ]:
        out.add(case + ".mlb", data, status="ML_E_FORMAT", mentions=[mentioned])
    for group, status in [
        (bad_fields, "ML_E_FORMAT"),
        (bad_shapes, "ML_E_SHAPE"),
        (bad_layers, "ML_E_FORMAT"),
        (bad_cuts, "ML_E_FORMAT"),
        (bad_sizes, "ML_E_FORMAT"),
        (bad_quants, "ML_E_FORMAT"),
    ]:
        for case, mentioned, data in group():
            out.add(case + ".mlb", data, status=status, mentions=[mentioned])


# --- bad tokenizers and importance matrices ---------------------------------------------------------------------------


def bad_tokenizers():
    """(case, mentioned, bytes), all ML_E_FORMAT."""
    sp, bl = tokenizer(SP), tokenizer(BL)
    u32 = struct.Struct("<I").pack
    token3 = 32 + 3 * 5 + 5 + 3 + 4  # the byte token "A": attr, len, byte
    merges = len(sp) - 24
    yield "empty", "empty", b""
    for n in (1, 8, 31):
        yield f"header_{n}_bytes", "header", sp[:n]
    for case, field, offset, new in [
        ("magic", "magic", 0, b"MLT2"),
        ("magic_mlb", "magic", 0, b"MLB1"),
        ("version_0", "version", 4, u32(0)),
        ("version_2", "version", 4, u32(2)),
        ("kind_0", "kind", 8, u32(0)),
        ("kind_3", "kind", 8, u32(3)),
        ("kind_max", "kind", 8, u32(MAX)),
        ("bos_minus2", "bos", 20, u32(MAX - 1)),
        ("bos_over", "bos", 20, u32(10)),
        ("bos_min", "bos", 20, u32(1 << 31)),
        ("eos_minus2", "eos", 24, u32(MAX - 1)),
        ("eos_over", "eos", 24, u32(10)),
        ("eos_max", "eos", 24, u32(0x7FFFFFFF)),
        ("flags_512", "flags", 28, u32(512)),
        ("flags_max", "flags", 28, u32(MAX)),
        ("n_vocab_max", "n_vocab", 12, u32(MAX)),
        ("n_vocab_wraps_32_bits", "n_vocab", 12, u32(0x33333334)),
        ("n_merges_over", "n_merges", 16, u32(3)),
        ("n_merges_max", "n_merges", 16, u32(MAX)),
        ("n_merges_wraps_32_bits", "n_merges", 16, u32(0x15555556)),
        ("attr_3", "token 3", token3, b"\3"),
        ("attr_4", "token 3", token3, b"\4"),
        ("attr_255", "token 3", token3, b"\xff"),
        ("len_max", "token 5", token3 + 12 + 1, u32(MAX)),
        ("len_wraps_32_bits", "token 5", token3 + 12 + 1, u32(MAX - token3 - 16)),
        ("len_past_end", "token 5", token3 + 12 + 1, u32(len(sp) - (token3 + 17) + 1)),
        ("byte_token_len_max", "token 3", token3 + 1, u32(MAX)),
        ("merge_left_over", "merge 0", merges, u32(10)),
        ("merge_right_over", "merge 0", merges + 4, u32(10)),
        ("merge_merged_over", "merge 0", merges + 8, u32(10)),
        ("merge_left_max", "merge 1", merges + 12, u32(MAX)),
        ("merge_other_bytes", "merge 0", merges + 8, u32(9)),
        ("merge_swapped", "merge 1", merges + 12, u32(8) + u32(5)),
        ("merge_shorter", "merge 0", merges + 8, u32(6)),
    ]:
        yield case, field, poke(sp, offset, new)
    longer = sp[: token3 + 1] + u32(2) + b"AB" + sp[token3 + 6 :]
    yield "byte_token_len_2", "token 3", longer
    yield "byte_token_len_0", "token 3", sp[: token3 + 1] + u32(0) + sp[token3 + 6 :]
    yield "no_vocab_but_bos", "bos", poke(tokenizer(BL, tokens=[], merges=[], eos=-1), 20, u32(0))
    yield "header_only", "n_vocab", sp[:32]
    yield "cut_token_head", "token 3", poke(bl, 12, u32(4))[: 32 + 6 + 6 + 7 + 4]
    yield "cut_token_bytes", "token 3", bl[: 32 + 6 + 6 + 7 + 5 + 6]
    yield "cut_before_merges", "n_merges", bl[:-12]
    yield "cut_merge", "n_merges", bl[:-1]


def bad_importances():
    """(case, status, mentioned, bytes, model or None)."""
    base = importance()
    u32, f64 = struct.Struct("<I").pack, struct.Struct("<d").pack
    fmt, shape = "ML_E_FORMAT", "ML_E_SHAPE"
    yield "empty", fmt, "empty", b"", None
    for n in (1, 8, 39):
        yield f"header_{n}_bytes", fmt, "header", base[:n], None
    for case, field, offset, new in [
        ("magic", "magic", 0, b"MLI2"),
        ("magic_mlb", "magic", 0, b"MLB1"),
        ("version_0", "version", 4, u32(0)),
        ("version_2", "version", 4, u32(2)),
        ("layer_tokens_zero", "tokens", 24, bytes(8)),
        ("classifier_tokens_zero", "tokens", 32, bytes(8)),
    ]:
        yield case, fmt, field, poke(base, offset, new), None
    for case, data in [
        ("cut_1", base[:-1]),
        ("cut_8", base[:-8]),
        ("header_only", base[:40]),
        ("one_byte_more", base + b"\0"),
        ("eight_bytes_more", base + bytes(8)),
        ("n_layers_2", poke(base, 8, u32(2))),
        ("n_layers_0", poke(base, 8, u32(0))),
        ("n_layers_max", poke(base, 8, u32(MAX))),
        ("dim_max", poke(base, 12, u32(MAX))),
        ("dim_0", poke(base, 12, u32(0))),
        ("hidden_dim_max", poke(base, 16, u32(MAX))),
        ("q_dim_max", poke(base, 20, u32(MAX))),
        ("wraps_32_bits", poke(base, 8, u32(1 << 16) + u32(32) + u32(32) + u32((1 << 13) - 96))[:296]),
        ("wraps_64_bits", poke(base, 8, u32(1 << 31) + u32(32) + u32(32) + u32((1 << 30) - 96))[:296]),
    ]:
        yield f"size_{case}", fmt, "size", data, None
    for slot, name in enumerate(
        ["layers.0.wq/wk/wv", "layers.0.wo", "layers.0.w1/w3", "layers.0.w2", "classifier"]
    ):
        where = 40 + 256 * slot
        for case, value in {"nan": NAN, "inf": INF, "negative": -1.0}.items():
            yield f"sum_{slot}_{case}", fmt, name, poke(base, where + 8 * (slot * 7 % 32), f64(value)), None
        yield f"sum_{slot}_all_zero", fmt, name, poke(base, where, bytes(256)), None
    yield "sum_minus_inf", fmt, "classifier", poke(base, len(base) - 8, f64(-INF)), None
    yield "sum_total_overflows", fmt, "classifier", poke(base, len(base) - 256, f64(1.7e308) * 32), None
    yield "zero_layers", shape, "n_layers", poke(base, 8, u32(0))[: 40 + 256], None
    yield "zero_hidden_dim", shape, "hidden_dim", poke(base, 16, u32(0))[:-256], None
    yield "all_dims_zero", shape, "n_layers", poke(base, 8, bytes(16))[:40], None
    yield "other_n_layers", shape, "n_layers", importance(2), "q4_f16_shared.mlb"
    yield "other_q_dim", shape, "q_dim", importance(1, 96), "q4_f16_shared.mlb"
    yield "other_dim", shape, "dim", other_dims(64, 32), "q4_f16_shared.mlb"
    yield "other_hidden_dim", shape, "hidden_dim", other_dims(32, 64), "q4_f16_shared.mlb"
    yield "lout_has_no_slot", shape, "lout", base, "linear_wide.mlb"


def other_dims(dim, hidden):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.mli")
        mlb.write_mli(
            path,
            mlb.Importance(
                dim, hidden, 32, 1, 1, [[np.ones(n) for n in (dim, 32, dim, hidden)]], np.ones(dim)
            ),
        )
        return path.read_bytes()


def make_bad():
    out = Folder(BAD)
    bad_models(out)
    for case, mentioned, data in bad_tokenizers():
        out.add(case + ".mlt", data, status="ML_E_FORMAT", mentions=[mentioned])
    for case, status, mentioned, data, against in bad_importances():
        extra = {"model": "../good/" + against} if against else {}
        out.add(case + ".mli", data, status=status, mentions=[mentioned], **extra)
    out.write()


if __name__ == "__main__":
    make_good()
    make_quant()
    make_bad()
