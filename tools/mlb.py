#!/usr/bin/env python3
"""The .mlb model file: reader, canonical writer, checker, random models. The tests' oracle for the C++ code.

Written from the format page alone; shares no code with the engine. Needs only numpy. The quantization rules
are in quantize.py, the tokenizer file in mlt.py, the importance matrix in mli.py; their public names are
re-exported here.

    mlb.py inspect FILE             header fields and arrays (.mlb), or a summary (.mlt, .mli)
    mlb.py check FILE...            one line per file: ok, or the status and the reason
    mlb.py random OUT.mlb --set dim=64 --set n_layers=2 --seed 1 [--flags 0,8]
"""
import argparse
import math
import os
import struct
import sys
from dataclasses import dataclass, fields, replace

import numpy as np

from format_error import EXIT_CODES, FORMAT, IO, SHAPE, FormatError, bad, read_bytes, write_chunks
from mli import Importance, read_mli, write_mli
from mlt import Tokenizer, read_mlt, write_mlt
from quantize import Quant, quantize_q4, quantize_q8, refuse_not_finite

__all__ = [
    "Array",
    "FormatError",
    "Header",
    "Importance",
    "Model",
    "Quant",
    "Tokenizer",
    "canonical",
    "layout",
    "quantize_q4",
    "quantize_q8",
    "random_tensors",
    "read",
    "read_mli",
    "read_mlt",
    "write",
    "write_mli",
    "write_mlt",
]

HEADER_BYTES = 256
ALIGN = 64
MAX_DIM = 65536  # dim, n_layers, n_heads, n_kv_heads, hidden_dim, q_dim, lin_*
MAX_COUNT = 1 << 24  # vocab, max_seq, sliding_window
Q8_0, Q4_0 = 1, 2  # wtype
PLAIN, LLAMA3, LINEAR, YARN = range(4)  # rope_type
WINDOW, LOCAL, NO_ROPE, LINEAR_ATTENTION = 1, 2, 4, 8  # layer flags
LIN_FIELDS = ("lin_k_heads", "lin_v_heads", "lin_k_dim", "lin_v_dim", "lin_conv")
# bits of q8_mask; a class of 0 is "always Q8_0"
C_EMB, C_CLS, C_QK, C_V, C_O, C_UP, C_DOWN, C_ALWAYS_Q8 = 1, 2, 4, 8, 16, 32, 64, 0


@dataclass
class Header:
    """The fixed header, field by field from offset 8 on, 4 bytes each: int is u32, float is f32. Magic,
    version and the zeros from offset 160 to 256 are implicit. Zero is every field's default."""

    dim: int = 0
    n_layers: int = 0
    n_heads: int = 0
    n_kv_heads: int = 0
    hidden_dim: int = 0
    vocab: int = 0
    max_seq: int = 0
    rope_theta: float = 0.0
    norm_eps: float = 0.0
    wtype: int = 0
    shared_classifier: int = 0
    rope_type: int = 0
    rope_factor: float = 0.0
    rope_low_freq_factor: float = 0.0
    rope_high_freq_factor: float = 0.0
    rope_orig_max_seq: int = 0
    q8_mask: int = 0
    qkv_bias: int = 0
    head_dim: int = 0
    qk_norm: int = 0
    rope_attn_factor: float = 0.0
    sliding_window: int = 0
    layer_flags: int = 0
    rope_local_theta: float = 0.0
    act: int = 0
    post_norms: int = 0
    embed_scale: float = 0.0
    attn_scale: float = 0.0
    scale_f16: int = 0
    attn_softcap: float = 0.0
    final_softcap: float = 0.0
    rot_dim: int = 0
    attn_gate: int = 0
    lin_k_heads: int = 0
    lin_v_heads: int = 0
    lin_k_dim: int = 0
    lin_v_dim: int = 0
    lin_conv: int = 0

    @property
    def hd(self):
        """Size of a head."""
        return self.head_dim or self.dim // self.n_heads

    @property
    def q_dim(self):
        return self.hd * self.n_heads

    @property
    def kv_dim(self):
        return self.hd * self.n_kv_heads

    @property
    def rd(self):
        """Dimensions of a head that RoPE rotates."""
        return self.rot_dim or self.hd

    @property
    def lin_channels(self):
        """Channels of a linear-attention layer's convolution: queries, keys, values."""
        return 2 * self.lin_k_heads * self.lin_k_dim + self.lin_values

    @property
    def lin_values(self):
        return self.lin_v_heads * self.lin_v_dim

    def pack(self):
        """The 256 bytes. Raises ML_E_FORMAT for a value its field cannot hold (negative, above 2^32-1, beyond
        float32)."""
        out = b"MLB1" + struct.pack("<I", 1)
        for f in fields(self):
            value = getattr(self, f.name)
            try:
                out += struct.pack("<I", value) if f.type is int else struct.pack("<f", value)
            except (struct.error, OverflowError):
                raise bad(FORMAT, f.name, value, "a 32-bit value") from None
        return out.ljust(HEADER_BYTES, b"\0")

    @staticmethod
    def unpack(data):
        """The fields of a header of at least 256 bytes; checks only magic and version (see check_header)."""
        if len(data) == 0:
            raise FormatError(FORMAT, "empty file")
        if len(data) < HEADER_BYTES:
            raise bad(FORMAT, "header", f"a file of {len(data)} bytes", f"at least {HEADER_BYTES}")
        if data[:4] != b"MLB1":
            raise bad(FORMAT, "magic", repr(bytes(data[:4])), "MLB1")
        version = struct.unpack_from("<I", data, 4)[0]
        if version != 1:
            raise bad(FORMAT, "version", version, "1")
        layout_of_fields = "<" + "".join("I" if f.type is int else "f" for f in fields(Header))
        return Header(*struct.unpack_from(layout_of_fields, data, 8))


# --- validation ---------------------------------------------------------------------------------------------
# Order: everything of status ML_E_FORMAT in the header by offset, then ML_E_SHAPE, then layer flags, linear
# attention, sizes, quants. The first problem is reported.


def _positive(x):
    return math.isfinite(x) and x > 0


def _not_negative(x):
    return math.isfinite(x) and x >= 0


_FLAG = "0 or 1"
_FORMAT_RULES = [  # (field, is it good?, what is allowed)
    ("rope_theta", lambda h: _positive(h.rope_theta), "finite and > 0"),
    ("norm_eps", lambda h: _not_negative(h.norm_eps), "finite and >= 0"),
    ("wtype", lambda h: h.wtype in (Q8_0, Q4_0), "1 (Q8_0) or 2 (Q4_0)"),
    ("rope_type", lambda h: h.rope_type <= YARN, "0 to 3"),
    (
        "rope_factor",
        lambda h: h.rope_type == PLAIN or _positive(h.rope_factor),
        "finite and > 0 with llama3, linear and yarn",
    ),
    (
        "rope_low_freq_factor",
        lambda h: h.rope_type not in (LLAMA3, YARN) or _positive(h.rope_low_freq_factor),
        "finite and > 0 with llama3 and yarn",
    ),
    (
        "rope_high_freq_factor",
        lambda h: _good_high_freq(h),
        "llama3: finite and > rope_low_freq_factor; yarn: > 0 and < rope_low_freq_factor",
    ),
    (
        "rope_orig_max_seq",
        lambda h: h.rope_type not in (LLAMA3, YARN) or h.rope_orig_max_seq > 0,
        "> 0 with llama3 and yarn",
    ),
    (
        "q8_mask",
        lambda h: h.q8_mask <= 127 and (h.wtype == Q4_0 or h.q8_mask == 0),
        "0 to 127 with Q4_0, 0 with Q8_0",
    ),
    ("qkv_bias", lambda h: h.qkv_bias <= 1, _FLAG),
    ("qk_norm", lambda h: h.qk_norm <= 1, _FLAG),
    (
        "rope_attn_factor",
        lambda h: _positive(h.rope_attn_factor) if h.rope_type == YARN else h.rope_attn_factor == 0,
        "finite and > 0 with yarn, 0 without",
    ),
    ("sliding_window", lambda h: h.sliding_window <= MAX_COUNT, f"0 to {MAX_COUNT}"),
    ("layer_flags", lambda h: h.layer_flags <= 1, _FLAG),
    ("rope_local_theta", lambda h: _not_negative(h.rope_local_theta), "finite and >= 0"),
    ("act", lambda h: h.act <= 1, "0 (SiLU) or 1 (GELU tanh)"),
    ("post_norms", lambda h: h.post_norms <= 1, _FLAG),
    ("embed_scale", lambda h: _not_negative(h.embed_scale), "finite and >= 0"),
    ("attn_scale", lambda h: _not_negative(h.attn_scale), "finite and >= 0"),
    ("scale_f16", lambda h: h.scale_f16 <= 1, _FLAG),
    ("attn_softcap", lambda h: _not_negative(h.attn_softcap), "finite and >= 0"),
    ("final_softcap", lambda h: _not_negative(h.final_softcap), "finite and >= 0"),
    ("attn_gate", lambda h: h.attn_gate <= 1, _FLAG),
]
_SHAPE_RULES = [
    (name, lambda h, name=name: 1 <= getattr(h, name) <= MAX_DIM, f"1 to {MAX_DIM}")
    for name in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim")
] + [
    ("vocab", lambda h: 3 <= h.vocab <= MAX_COUNT, f"3 to {MAX_COUNT}"),
    ("max_seq", lambda h: 1 <= h.max_seq <= MAX_COUNT, f"1 to {MAX_COUNT}"),
    ("dim", lambda h: h.dim % 32 == 0, "a multiple of 32"),
    ("hidden_dim", lambda h: h.hidden_dim % 32 == 0, "a multiple of 32"),
    ("n_heads", lambda h: h.head_dim or h.dim % h.n_heads == 0, "a divisor of dim, unless head_dim is given"),
    ("n_kv_heads", lambda h: h.n_heads % h.n_kv_heads == 0, "a divisor of n_heads"),
    ("head_dim", lambda h: h.hd % 2 == 0, "even (if 0: dim / n_heads even)"),
    ("q_dim", lambda h: h.q_dim % 32 == 0 and h.q_dim <= MAX_DIM, f"a multiple of 32, at most {MAX_DIM}"),
    ("rot_dim", lambda h: h.rot_dim % 2 == 0 and h.rot_dim <= h.hd, "even, at most head_dim"),
]


def _good_high_freq(h):
    high = h.rope_high_freq_factor
    if h.rope_type == LLAMA3:
        return math.isfinite(high) and high > h.rope_low_freq_factor
    return h.rope_type != YARN or (_positive(high) and high < h.rope_low_freq_factor)


def check_header(h, reserved=b""):
    """Raises FormatError for the first field that is not allowed. reserved: the bytes from offset 160 on."""
    for name, good, allowed in _FORMAT_RULES:
        if not good(h):
            raise bad(FORMAT, name, getattr(h, name), allowed)
    if any(reserved):
        at = next(i for i, byte in enumerate(reserved) if byte)
        raise bad(FORMAT, f"padding at offset {160 + at}", reserved[at], "0")
    for name, good, allowed in _SHAPE_RULES:
        if not good(h):
            raise bad(SHAPE, name, getattr(h, name), allowed)


def check_layers(h, flags):
    """Raises FormatError for the first layer flag, then the first lin_* field, that is not allowed.

    flags: one byte per layer, or all zero when the header has no layer_flags. A lin_* field that is zero
    while another is not has status ML_E_SHAPE where a layer uses linear attention ("zero where used") and
    ML_E_FORMAT where none does ("partly set").
    """
    zero = [name for name in LIN_FIELDS if getattr(h, name) == 0]
    for i in np.flatnonzero(flags):
        f, what = int(flags[i]), f"layer_flags[{i}]"
        if f > 15:
            raise bad(FORMAT, what, f, "bits 0 to 3")
        if f & LINEAR_ATTENTION and f != LINEAR_ATTENTION:
            raise bad(FORMAT, what, f, "bit 3 (linear attention) alone")
        if f & LOCAL and f & NO_ROPE:
            raise bad(FORMAT, what, f, "not both bit 1 (local RoPE base) and bit 2 (no RoPE)")
        if f & WINDOW and h.sliding_window == 0:
            raise bad(FORMAT, what, f, "bit 0 only with a sliding_window")
        if f & LOCAL and h.rope_local_theta == 0:
            raise bad(FORMAT, what, f, "bit 1 only with a rope_local_theta")
        if f & LINEAR_ATTENTION and len(zero) == len(LIN_FIELDS):
            raise bad(FORMAT, what, f, "bit 3 only with lin_k_heads ... lin_conv")
    if len(zero) == len(LIN_FIELDS):
        return
    if zero:
        used = bool((np.asarray(flags) & LINEAR_ATTENTION).any())
        raise bad(
            SHAPE if used else FORMAT, zero[0], 0, f"1 to {MAX_DIM}, or all of {', '.join(LIN_FIELDS)} 0"
        )
    for name in LIN_FIELDS:
        if getattr(h, name) > MAX_DIM:
            raise bad(SHAPE, name, getattr(h, name), f"1 to {MAX_DIM}")
    if h.lin_v_heads % h.lin_k_heads or h.lin_v_heads % 4:
        raise bad(
            SHAPE, "lin_v_heads", h.lin_v_heads, f"a multiple of lin_k_heads ({h.lin_k_heads}) and of 4"
        )
    if h.lin_values % 32:
        raise bad(
            SHAPE, "lin_v_dim", h.lin_v_dim, f"lin_v_heads * lin_v_dim ({h.lin_values}) a multiple of 32"
        )


# --- layout -------------------------------------------------------------------------------------------------


@dataclass
class Array:
    """One tensor's place in the file. kind: "u8", "f32", "q8" or "q4". A vector has rows = 1.

    offset, nbytes: of the values or quants; d_offset, d_nbytes: of the scales (None and 0 unless quantized),
    bytes.
    """

    name: str
    kind: str
    rows: int
    cols: int
    offset: int
    nbytes: int
    d_offset: int | None = None
    d_nbytes: int = 0

    @property
    def end(self):
        """Offset of the first byte after the tensor, padding not counted."""
        return self.offset + self.nbytes if self.d_offset is None else self.d_offset + self.d_nbytes


def aligned(n):
    return -(-n // ALIGN) * ALIGN


def _layer_tensors(h, linear):
    """(name, rows, cols, class) of a layer's tensors in file order; class None: floats, else the q8_mask
    bit."""
    q, kv, hd, dim, hidden = h.q_dim, h.kv_dim, h.hd, h.dim, h.hidden_dim
    yield "attn_norm", 1, dim, None
    if linear:
        yield "lqkv", h.lin_channels, dim, C_QK
        yield "lz", h.lin_values, dim, C_V
        yield "lb", h.lin_v_heads, dim, C_ALWAYS_Q8
        yield "la", h.lin_v_heads, dim, C_ALWAYS_Q8
        yield "lconv", h.lin_channels, h.lin_conv, None
        yield "dt_bias", 1, h.lin_v_heads, None
        yield "A_log", 1, h.lin_v_heads, None
        yield "lnorm", 1, h.lin_v_dim, None
        yield "lout", dim, h.lin_values, C_O
    else:
        yield "wq", q, dim, C_QK
        yield "wk", kv, dim, C_QK
        yield "wv", kv, dim, C_V
        yield "wo", dim, q, C_O
        if h.attn_gate:
            yield "wg", q, dim, C_QK
        if h.qkv_bias:
            yield "bq", 1, q, None
            yield "bk", 1, kv, None
            yield "bv", 1, kv, None
        if h.qk_norm:
            yield "q_norm", 1, hd, None
            yield "k_norm", 1, hd, None
    yield "ffn_norm", 1, dim, None
    yield "w1", hidden, dim, C_UP
    yield "w2", dim, hidden, C_DOWN
    yield "w3", hidden, dim, C_UP
    if h.post_norms:
        yield "post_attn_norm", 1, dim, None
        yield "post_ffn_norm", 1, dim, None


def _all_tensors(h, flags):
    """(name, rows, cols, class) of all tensors after the layer flags, in file order."""
    yield "tok_emb", h.vocab, h.dim, C_EMB | C_CLS if h.shared_classifier else C_EMB
    for i in range(h.n_layers):
        for name, rows, cols, cls in _layer_tensors(h, bool(flags[i] & LINEAR_ATTENTION)):
            yield f"layers.{i}.{name}", rows, cols, cls
    yield "final_norm", 1, h.dim, None
    if not h.shared_classifier:
        yield "wcls", h.vocab, h.dim, C_CLS


def _kind(h, cls):
    if cls is None:
        return "f32"
    return "q8" if h.wtype == Q8_0 or cls == C_ALWAYS_Q8 or h.q8_mask & cls else "q4"


def iter_layout(h, flags):
    """The Arrays in file order, one at a time: a reader stops at the first that does not fit, whatever the
    header says. Python's integers do not overflow; a reader in C must check every product and sum (lin_*
    reach beyond 2^64).
    """
    offset = HEADER_BYTES
    if h.layer_flags:
        yield Array("layer_flags", "u8", 1, h.n_layers, offset, h.n_layers)
        offset = aligned(offset + h.n_layers)
    for name, rows, cols, cls in _all_tensors(h, flags):
        kind = _kind(h, cls)
        if kind == "f32":
            array = Array(name, kind, rows, cols, offset, 4 * rows * cols)
        else:
            nbytes = rows * cols if kind == "q8" else rows * cols // 2
            d_nbytes = rows * cols // 32 * (2 if h.scale_f16 else 4)
            array = Array(name, kind, rows, cols, offset, nbytes, aligned(offset + nbytes), d_nbytes)
        yield array
        offset = aligned(array.end)


def layout(header, layer_flags=None):
    """All Arrays of a valid header, in file order. layer_flags: one byte per layer, or None for no flags."""
    return list(iter_layout(header, _no_flags(header) if layer_flags is None else layer_flags))


def _no_flags(h):
    return np.zeros(h.n_layers, np.uint8)


# --- reader -------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """A file's content. layer_flags: uint8 [n_layers], zeros when the file has none. tensors: name -> float32
    array ([n] for vectors, [rows, cols] for lconv) or Quant. trailing: bytes after the last array and its
    padding.
    """

    header: Header
    layer_flags: np.ndarray
    tensors: dict
    trailing: int


def read(path_or_bytes, check_quants=True):
    """Reads and validates a model. check_quants=False leaves out the scan for Q8_0 quants of -128, nothing
    else."""
    data = read_bytes(path_or_bytes)
    h = Header.unpack(data)
    check_header(h, data[160:HEADER_BYTES])
    flags = _read_flags(h, data)
    check_layers(h, flags)
    arrays = []
    for array in iter_layout(h, flags):
        _check_fits(array, data)
        arrays.append(array)
    tensors = {a.name: _view(a, h, data) for a in arrays if a.name != "layer_flags"}
    if check_quants:
        for name, tensor in tensors.items():
            check_quant(tensor, name)
    return Model(h, flags, tensors, max(0, len(data) - aligned(arrays[-1].end)))


def _check_fits(array, data):
    if array.end > len(data):
        raise bad(FORMAT, array.name, f"a file of {len(data)} bytes", f"at least {array.end}")


def _read_flags(h, data):
    if not h.layer_flags:
        return _no_flags(h)
    array = next(iter_layout(h, None))
    _check_fits(array, data)
    return np.frombuffer(data, np.uint8, h.n_layers, array.offset)


def _view(a, h, data):
    """The tensor at `a`, a read-only view of the file's bytes."""
    if a.kind == "f32":
        x = np.frombuffer(data, "<f4", a.rows * a.cols, a.offset)
        return x if a.rows == 1 else x.reshape(a.rows, a.cols)
    q = np.frombuffer(data, np.int8 if a.kind == "q8" else np.uint8, a.nbytes, a.offset)
    d = np.frombuffer(data, "<f2" if h.scale_f16 else "<f4", a.rows * a.cols // 32, a.d_offset)
    return Quant(a.kind, a.rows, a.cols, q.reshape(a.rows, -1), d.reshape(a.rows, -1))


def check_quant(tensor, name):
    """Raises ML_E_FORMAT if a Q8_0 tensor holds a quant of -128; any scale and any nibble are legal."""
    if isinstance(tensor, Quant) and tensor.kind == "q8":
        rows = (tensor.q == -128).any(axis=1)
        if rows.any():
            raise bad(FORMAT, f"{name} row {int(np.argmax(rows))}", "a quant of -128", "-127 to 127")


# --- canonical writer ---------------------------------------------------------------------------------------


def canonical(header, layer_flags=None):
    """The same header and flags (uint8 [n_layers]), with zero wherever zero has the same meaning. Validates
    both.

    Flags that are None or all zero, with header.layer_flags 0: no flags, so a sliding_window applies to every
    layer. Otherwise the array decides. header.layer_flags of the result says whether the flags have to be
    written.
    """
    h = Header.unpack(header.pack())  # a copy whose floats are float32 values
    check_header(h)
    given = _no_flags(h) if layer_flags is None else np.asarray(layer_flags, np.uint8)
    if given.shape != (h.n_layers,):
        raise bad(SHAPE, "layer_flags", f"shape {given.shape}", f"one per layer, [{h.n_layers}]")
    check_layers(h, given)
    explicit = h.layer_flags == 1 or given.any()
    flags = given if explicit else np.full(h.n_layers, WINDOW if h.sliding_window else 0, np.uint8)
    written = bool((flags != flags[0]).any() or flags[0] > WINDOW)
    _zero_unused(h, flags)
    h.layer_flags = int(written)
    return h, (flags if written else _no_flags(h))


def _zero_unused(h, flags):
    """Zeroes the fields of h for which zero means the same, given each layer's effective flags."""
    used = int(np.bitwise_or.reduce(flags))
    h.shared_classifier = int(h.shared_classifier != 0)
    if h.shared_classifier and h.q8_mask & (C_EMB | C_CLS):
        h.q8_mask = h.q8_mask & ~C_CLS | C_EMB  # one matrix, so one bit: its own
    if h.rope_type == PLAIN:
        h.rope_factor = 0.0
    if h.rope_type in (PLAIN, LINEAR):
        h.rope_low_freq_factor = h.rope_high_freq_factor = 0.0
        h.rope_orig_max_seq = 0
    if h.rot_dim == h.hd:
        h.rot_dim = 0
    if h.attn_scale == np.float32(1 / math.sqrt(h.hd)):
        h.attn_scale = 0.0
    if h.embed_scale == 1:
        h.embed_scale = 0.0
    if h.dim == h.head_dim * h.n_heads:
        h.head_dim = 0
    if not used & WINDOW:
        h.sliding_window = 0
    if not used & LOCAL:
        h.rope_local_theta = 0.0
    if not used & LINEAR_ATTENTION:
        for name in LIN_FIELDS:
            setattr(h, name, 0)
    for f in fields(h):
        if f.type is float and getattr(h, f.name) == 0:
            setattr(h, f.name, 0.0)  # -0


def write(path, header, layer_flags, tensors, q4_rule="search", importance=None):
    """Writes the canonical file; it appears at `path` only when complete.

    tensors: name -> float array or Quant, exactly the names of the layout. Float matrices are quantized with
    q4_rule and the Importance (or None). Raises ML_E_FORMAT for missing or unknown names, Quants of another
    kind or scale type, and weights that are NaN or infinite; ML_E_SHAPE for shapes.
    """
    h, flags = canonical(header, layer_flags)
    arrays = layout(h, flags)
    if importance is not None:
        importance.check(h, flags)
    known = {a.name for a in arrays} - {"layer_flags"}
    for name in sorted(known ^ set(tensors)):
        raise FormatError(
            FORMAT, f"{name}: " + ("missing" if name in known else "no such tensor in this model")
        )

    def chunks():
        yield h.pack()
        for a in arrays:
            if a.name == "layer_flags":
                yield _padded(flags)
            else:
                yield from _tensor_chunks(a, h, tensors[a.name], q4_rule, importance)

    write_chunks(path, chunks())


def _padded(array):
    data = array.tobytes()
    return data.ljust(aligned(len(data)), b"\0")


def _tensor_chunks(a, h, tensor, q4_rule, importance):
    """The tensor's padded arrays: one of floats, or quants and scales."""
    if a.kind == "f32":
        yield _padded(_floats(a, tensor))
        return
    if not isinstance(tensor, Quant):
        _check_shape(a, np.shape(tensor))
        if a.kind == "q8":
            tensor = quantize_q8(tensor, h.scale_f16, a.name)
        else:
            relative = None if importance is None else importance.relative(a.name, h.shared_classifier)
            tensor = quantize_q4(tensor, h.scale_f16, q4_rule, relative, a.name)
    _check_shape(a, (tensor.rows, tensor.cols))
    d_type = np.float16 if h.scale_f16 else np.float32
    if tensor.kind != a.kind or tensor.d.dtype != d_type:
        raise bad(
            FORMAT, a.name, f"{tensor.kind} with {tensor.d.dtype} scales", f"{a.kind} with {np.dtype(d_type)}"
        )
    if tensor.q.nbytes != a.nbytes or tensor.d.nbytes != a.d_nbytes:
        raise bad(
            SHAPE, a.name, f"{tensor.q.nbytes} and {tensor.d.nbytes} bytes", f"{a.nbytes} and {a.d_nbytes}"
        )
    check_quant(tensor, a.name)
    yield _padded(tensor.q)
    yield _padded(tensor.d.astype("<f2" if h.scale_f16 else "<f4"))


def _check_shape(a, shape):
    if tuple(shape) not in ((a.rows, a.cols), (a.cols,) if a.rows == 1 else None):
        raise bad(SHAPE, a.name, f"shape {tuple(shape)}", f"[{a.rows}, {a.cols}]")


def _floats(a, tensor):
    if isinstance(tensor, Quant):
        raise bad(FORMAT, a.name, f"a {tensor.kind} matrix", "floats")
    _check_shape(a, np.shape(tensor))
    with np.errstate(over="ignore"):
        x = np.asarray(tensor).astype("<f4")
    refuse_not_finite(x.reshape(a.rows, a.cols), a.name)
    return x


# --- random models ------------------------------------------------------------------------------------------

SMALL = Header(
    dim=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    hidden_dim=128,
    vocab=96,
    max_seq=256,
    rope_theta=10000.0,
    norm_eps=1e-5,
    wtype=Q8_0,
)


def random_tensors(header, layer_flags=None, seed=0):
    """Random float32 tensors by name for a valid header: matrices normal / sqrt(cols), norms near 1, small
    biases, decays as Qwen3.5's are (A_log in log 1..16). The stream is numpy's frozen MT19937, equal in every
    numpy."""
    rng = np.random.RandomState(seed)
    out = {}
    for a in layout(header, layer_flags):
        if a.name == "layer_flags":
            continue
        shape = (a.cols,) if a.rows == 1 else (a.rows, a.cols)
        x = rng.standard_normal(shape)
        last = a.name.rsplit(".", 1)[-1]
        if last.endswith("norm"):
            x = 1 + 0.1 * x
        elif last == "A_log":
            x = np.log(rng.uniform(1, 16, shape))
        elif a.rows == 1:
            x = 0.1 * x
        else:
            x = x / math.sqrt(a.cols)
        out[a.name] = x.astype(np.float32)
    return out


def parse_setting(header, setting):
    """Sets "field=value" in the header; raises ValueError for an unknown field or a value of the wrong
    type."""
    name, _, value = setting.partition("=")
    types = {f.name: f.type for f in fields(Header)}
    if name not in types:
        raise ValueError(f"--set {setting}: no field {name!r}; fields: {', '.join(types)}")
    setattr(header, name, int(value, 0) if types[name] is int else float(value))


# --- command line -------------------------------------------------------------------------------------------


def file_type(path):
    """ "mlb", "mlt" or "mli" by magic, else by name, else "mlb"."""
    magics = {b"MLB1": "mlb", b"MLT1": "mlt", b"MLI1": "mli"}
    try:
        with open(path, "rb") as f:
            magic = f.read(4)
    except OSError as e:
        raise FormatError(IO, f"{path}: cannot be read: {e.strerror}") from None
    extension = os.path.splitext(path)[1][1:]
    return magics.get(magic) or (extension if extension in magics.values() else "mlb")


READERS = {"mlb": read, "mlt": read_mlt, "mli": read_mli}


def inspect(path):
    """Prints the contents of the file, one fact per line."""
    kind = file_type(path)
    content = READERS[kind](path)
    if kind != "mlb":
        print("\n".join(content.describe()))
        return
    h = content.header
    for f in fields(h):
        if getattr(h, f.name):
            print(f"{f.name} {getattr(h, f.name):g}" if f.type is float else f"{f.name} {getattr(h, f.name)}")
    print(f"(derived) head_dim {h.hd}, q_dim {h.q_dim}, kv_dim {h.kv_dim}, rot_dim {h.rd}")
    if h.layer_flags:
        print("flags", " ".join(map(str, content.layer_flags)))
    for a in layout(h, content.layer_flags):
        scales = "" if a.d_offset is None else f" d@{a.d_offset}"
        print(f"{a.name} {a.kind} [{a.rows}, {a.cols}] @{a.offset}{scales}")
    print(f"bytes after the last array: {content.trailing}")


def check(paths):
    """Prints one line per file; returns the exit code of the first bad file, or 0."""
    code = 0
    for path in paths:
        try:
            READERS[file_type(path)](path)
            print(f"{path}: ok")
        except FormatError as e:
            print(f"{path}: {e}")
            code = code or EXIT_CODES.get(e.status, 1)
    return code


def random_model(args):
    header = replace(SMALL)
    for setting in args.set:
        parse_setting(header, setting)
    flags = None if args.flags is None else np.array([int(f, 0) for f in args.flags.split(",")], np.uint8)
    header, flags = canonical(header, flags)
    write(args.out, header, flags, random_tensors(header, flags, args.seed), args.q4_rule)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("inspect").add_argument("file")
    commands.add_parser("check").add_argument("files", nargs="+")
    make = commands.add_parser("random")
    make.add_argument("out")
    make.add_argument("--seed", type=int, default=0)
    make.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    make.add_argument("--flags", metavar="F,F,...", help="layer flags, one number per layer")
    make.add_argument("--q4-rule", choices=("search", "round"), default="search")
    args = parser.parse_args(argv)
    try:
        if args.command == "check":
            return check(args.files)
        if args.command == "inspect":
            inspect(args.file)
        else:
            random_model(args)
    except FormatError as e:
        print(e, file=sys.stderr)
        return EXIT_CODES.get(e.status, 1)
    except ValueError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
