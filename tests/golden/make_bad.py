#!/usr/bin/env python3
"""Writes tests/data/bad: small invalid .mlb, .mlt and .mli files. Each is a valid file of make_good.py with a
few bytes changed, so that it has exactly one fault. Running it twice gives the same bytes.

manifest.json is a list of {"file", "status", "mentions"}; mentions are texts that the message must contain.
An .mli may also have "model", a valid .mlb that it is checked against. "missing.mlb" does not exist on
purpose.
"""
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from make_good import BL, INF, LIN, MAX, NAN, ROOT, ROPES, SP, TINY, Folder
from make_good import arrays, importance, mlb, model, patch, poke, tokenizer

BAD = ROOT / "tests/data/bad"

# --- bad models ---------------------------------------------------------------------------------------------

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
    """(case, mentioned, bytes): legal dimensions far beyond the file; every size must be computed without
    overflow."""
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


# --- bad tokenizers and importance matrices -----------------------------------------------------------------


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
    make_bad()
