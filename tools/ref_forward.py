#!/usr/bin/env python3
"""The oracle: a forward pass over every header feature of the .mlb format, in numpy, twice.

    ref_forward.py MODEL --ids FILE.json --out FILE.npy   float64: the truth (a .mlb or a Hugging Face folder)
    ref_forward.py MODEL.mlb --contract [--kv f16|f32|q8_0] ...    float32: docs/arithmetic.md bit for bit
    ref_forward.py MODEL.mlb --digest    what `krafla verify MODEL.mlb` must print

The formulas are written once. An arithmetic (class Truth or class Contract) supplies the number type, the
functions, the sums and the matrix product. All positions of a sequence are computed together. The contract
allows this, because the result of a position does not depend on how the sequence is divided. Shapes: T
positions, D = dim, H query heads, G key/value heads, d = head_dim.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ref_math as rm

WINDOW, LOCAL_ROPE, NO_ROPE, LINEAR = 1, 2, 4, 8  # layer flags (values)
PAGE = 64  # positions in a KV page


# ---------------------------------------------------------------- the two arithmetics


class Truth:
    """float64 and numpy's own functions; quantized weights are the exact products level * d."""

    num = np.float64
    exp, tanh, log1p = staticmethod(np.exp), staticmethod(np.tanh), staticmethod(np.log1p)
    log64, pow64 = staticmethod(np.log), staticmethod(np.power)
    gelu_c, gelu_cube = np.float64(np.sqrt(2 / np.pi)), np.float64(0.044715)

    def __init__(self, kv=None):
        self.cache = {}

    def weights(self, w):
        """A tensor (float array or mlb.Quant) as float64, kept for the next use."""
        if id(w) not in self.cache:
            wide = (
                np.asarray(w, np.float64)
                if isinstance(w, np.ndarray)
                else w.levels().astype(np.float64) * np.repeat(w.d.astype(np.float64), 32, axis=1)
            )
            self.cache[id(w)] = (wide, w)
        return self.cache[id(w)][0]

    def sincos(self, angle):
        return np.sin(angle), np.cos(angle)

    def sum(self, x):
        return np.sum(x, axis=-1)

    def rows(self, w, ids):
        return self.weights(w)[ids]

    def matmul(self, x, w):
        return x @ self.weights(w).T

    def store(self, x):
        return x

    def attention(self, q, k, v, visible, scale, cap):
        """q [T, H, d], k and v [T, G, d], visible [T, T] -> [T, H, d]: softmax attention."""
        group = q.shape[1] // k.shape[1]
        s = np.einsum("thd,phd->thp", q, np.repeat(k, group, axis=1)) * scale
        if cap:
            s = cap * np.tanh(s / cap)
        s = np.where(visible[:, None, :], s, -np.inf)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return np.einsum("thp,phd->thd", e / e.sum(axis=-1, keepdims=True), np.repeat(v, group, axis=1))


class Contract:
    """float32 and the functions and orders of docs/arithmetic.md."""

    num = np.float32
    exp, tanh, log1p = staticmethod(rm.exp32), staticmethod(rm.tanh32), staticmethod(rm.log1p32)
    log64, pow64 = staticmethod(rm.log64), staticmethod(rm.pow64)
    gelu_c, gelu_cube = rm.GELU_C, rm.GELU_CUBE

    def __init__(self, kv="f16"):
        self.keep = {
            "f16": lambda x: x.astype(np.float16).astype(np.float32),
            "f32": lambda x: x,
            "q8_0": rm.kv_q8,
        }[kv]

    def sincos(self, angle):
        """Computed in double, rounded to float once."""
        s, c = rm.sincos64(angle)
        return s.astype(np.float32), c.astype(np.float32)

    def sum(self, x):
        return rm.sum8(x)

    def rows(self, w, ids):
        """Embedding rows: float(q) * d."""
        scales = np.repeat(np.asarray(w.d)[ids].astype(np.float32), 32, axis=1)
        return w.levels()[ids].astype(np.float32) * scales

    def matmul(self, x, w):
        return rm.quant_matmul(x, w.levels(), w.d)

    def store(self, x):
        """The values that a KV page returns for the values stored in it."""
        return self.keep(x)

    def attention(self, q, k, v, visible, scale, cap):
        """A6. Shapes as in Truth.attention; pages of 64 positions are reduced alone, then merged in ascending
        order."""
        T, H, d = q.shape
        k, v = np.repeat(k, H // k.shape[1], axis=1), np.repeat(v, H // v.shape[1], axis=1)
        s = np.zeros((T, H, T), np.float32)
        for i in range(d):
            s += q[:, :, i, None] * k[:, :, i].T[None]
        s = s * scale
        if cap:
            s = cap * self.tanh(s / cap)
        started = np.zeros(T, bool)
        M, L, O = np.zeros((T, H), np.float32), np.zeros((T, H), np.float32), np.zeros((T, H, d), np.float32)
        for first in range(0, T, PAGE):
            keys = slice(first, min(first + PAGE, T))
            seen = visible[:, keys]
            m, l, o = self.page(s[:, :, keys], v[keys], seen)
            M1 = np.maximum(M, m)  # NaN goes through
            a, b = self.exp(M - M1), self.exp(m - M1)
            merge, start = (started & seen.any(axis=1))[:, None], (~started & seen.any(axis=1))[:, None]
            L = np.where(merge, L * a + l * b, np.where(start, l, L))
            O = np.where(
                merge[..., None], O * a[..., None] + o * b[..., None], np.where(start[..., None], o, O)
            )
            M = np.where(merge, M1, np.where(start, m, M))
            started |= seen.any(axis=1)
        return O / L[..., None]

    def page(self, s, v, seen):
        """One page: scores s [T, H, n], v [n, H, d], seen [T, n] -> max m and sum l [T, H], output o [T, H,
        d]."""
        mask = seen[:, None, :]
        m = np.max(np.where(mask, s, np.float32(-np.inf)), axis=-1)
        e = np.where(mask, self.exp(s - m[..., None]), np.float32(0))
        o = np.zeros(s.shape[:2] + v.shape[-1:], np.float32)
        for j in range(v.shape[0]):
            o += np.where(mask[..., j, None], e[..., j, None] * v[None, j], np.float32(0))
        return m, rm.sum8(e), o


# ---------------------------------------------------------------- A4: elementwise


def rms_norm(A, x, weight, eps):
    """x [..., n], weight [n]: (x * inv) * w with inv = 1 / sqrt(ss / n + eps)."""
    n = A.num(x.shape[-1])
    inv = A.num(1) / np.sqrt(A.sum(x * x) / n + A.num(eps))
    return (x * inv[..., None]) * weight.astype(A.num)


def sigmoid(A, x):
    return A.num(1) / (A.num(1) + A.exp(-x))


def silu(A, x):
    return x * sigmoid(A, x)


def gelu(A, x):
    return (A.num(0.5) * x) * (A.num(1) + A.tanh(A.gelu_c * (x + A.gelu_cube * ((x * x) * x))))


def softplus(A, x):
    return np.maximum(x, A.num(0)) + A.log1p(A.exp(-np.abs(x)))


def softcap(A, x, cap):
    """cap * tanh(x / cap); no cap when 0."""
    return A.num(cap) * A.tanh(x / A.num(cap)) if cap else x


# ---------------------------------------------------------------- A5: RoPE


def scale_frequencies(A, h, inv, R):
    """The header's RoPE scaling of inverse frequencies inv [R/2], all in double."""
    f64 = np.float64
    factor, orig = f64(h.rope_factor), f64(h.rope_orig_max_seq)
    lo, hi = f64(h.rope_low_freq_factor), f64(h.rope_high_freq_factor)
    if h.rope_type == 1:  # llama3: lo and hi are frequency factors
        wavelen = rm.TWO_PI / inv
        s = (orig / wavelen - lo) / (hi - lo)
        middle = ((1 - s) * inv) / factor + s * inv
        return np.where(wavelen < orig / hi, inv, np.where(wavelen > orig / lo, inv / factor, middle))
    if h.rope_type == 2:  # linear
        return inv / factor
    if h.rope_type == 3:  # yarn: lo is beta_fast, hi is beta_slow

        def dimension(r):
            return (f64(R) * A.log64(orig / (rm.TWO_PI * r))) / (f64(2) * A.log64(f64(h.rope_theta)))

        low = max(np.floor(dimension(lo)), f64(0))
        high = min(np.ceil(dimension(hi)), f64(R - 1))
        if low == high:
            high = low + f64(0.001)
        ramp = np.clip((np.arange(R // 2, dtype=f64) - low) / (high - low), f64(0), f64(1))
        return (inv / factor) * ramp + inv * (1 - ramp)
    return inv


def rope_table(A, h, T, local):
    """(cos, sin), each [T, R/2] of A's type, for positions 0..T-1."""
    R = h.rd
    theta = np.float64(h.rope_local_theta if local else h.rope_theta)
    inv = A.pow64(theta, -(np.arange(0, R, 2, dtype=np.float64) / np.float64(R)))
    if not local:
        inv = scale_frequencies(A, h, inv, R)
    s, c = A.sincos(np.arange(T, dtype=np.float64)[:, None] * inv[None])
    if h.rope_type == 3 and not local:
        c, s = c * A.num(h.rope_attn_factor), s * A.num(h.rope_attn_factor)
    return c, s


def rotate(x, table):
    """x [T, heads, d]: rotates the pairs (2i, 2i+1) below R by their angle; the rest is unchanged."""
    c, s = table[0][:, None], table[1][:, None]
    R = 2 * c.shape[-1]
    y = x.copy()
    x0, x1 = x[..., 0:R:2], x[..., 1:R:2]
    y[..., 0:R:2] = x0 * c - x1 * s
    y[..., 1:R:2] = x0 * s + x1 * c
    return y


# ---------------------------------------------------------------- the model


class Forward:
    """One model, one arithmetic. `trace`, if given, is called as trace(name, array) with every intermediate
    result."""

    def __init__(self, model, arithmetic, trace=None):
        self.h, self.t, self.A = model.header, model.tensors, arithmetic
        everywhere = WINDOW if self.h.sliding_window else 0
        self.flags = (
            [int(b) for b in model.layer_flags] if self.h.layer_flags else [everywhere] * self.h.n_layers
        )
        self.trace = trace or (lambda name, array: None)

    def logits(self, ids):
        """ids: T token ids -> [T, vocab], the logits at every position."""
        h, A, t = self.h, self.A, self.t
        ids = np.asarray(ids, np.int64)
        if len(ids) == 0 or len(ids) > h.max_seq or ids.min() < 0 or ids.max() >= h.vocab:
            raise ValueError(f"{len(ids)} ids: need 1..{h.max_seq} ids, each in 0..{h.vocab - 1}")
        with np.errstate(all="ignore"):
            x = A.rows(t["tok_emb"], ids)
            if h.embed_scale:
                x = x * A.num(h.embed_scale)
            self.trace("embedding", x)
            for i in range(h.n_layers):
                x = self.layer(i, x)
            x = rms_norm(A, x, t["final_norm"], h.norm_eps)
            self.trace("final_norm", x)
            y = A.matmul(x, t["tok_emb"] if h.shared_classifier else t["wcls"])
            return softcap(A, y, h.final_softcap)

    def layer(self, i, x):
        """x [T, D] -> [T, D]: mixer and FFN, each with a norm before it, perhaps one after it, and added to
        the residual."""
        h, A = self.h, self.A
        w = {
            name.split(".", 2)[2]: tensor
            for name, tensor in self.t.items()
            if name.startswith(f"layers.{i}.")
        }
        mixer = self.linear_attention if self.flags[i] & LINEAR else self.attention
        y = mixer(i, rms_norm(A, x, w["attn_norm"], h.norm_eps), w)
        if h.post_norms:
            y = rms_norm(A, y, w["post_attn_norm"], h.norm_eps)
        x = x + y
        self.trace(f"layers.{i}.mixed", x)
        y = self.ffn(rms_norm(A, x, w["ffn_norm"], h.norm_eps), w)
        if h.post_norms:
            y = rms_norm(A, y, w["post_ffn_norm"], h.norm_eps)
        x = x + y
        self.trace(f"layers.{i}.out", x)
        return x

    def ffn(self, x, w):
        act = gelu if self.h.act == 1 else silu
        A = self.A
        return A.matmul(act(A, A.matmul(x, w["w1"])) * A.matmul(x, w["w3"]), w["w2"])

    def attention(self, i, x, w):
        """x [T, D], normalized -> [T, D]."""
        h, A, flags, T = self.h, self.A, self.flags[i], len(x)
        q, k, v = A.matmul(x, w["wq"]), A.matmul(x, w["wk"]), A.matmul(x, w["wv"])
        if h.qkv_bias:
            q, k, v = q + w["bq"].astype(A.num), k + w["bk"].astype(A.num), v + w["bv"].astype(A.num)
        q, k, v = (
            q.reshape(T, h.n_heads, h.hd),
            k.reshape(T, h.n_kv_heads, h.hd),
            v.reshape(T, h.n_kv_heads, h.hd),
        )
        if h.qk_norm:
            q, k = rms_norm(A, q, w["q_norm"], h.norm_eps), rms_norm(A, k, w["k_norm"], h.norm_eps)
        if not flags & NO_ROPE:
            table = rope_table(A, h, T, bool(flags & LOCAL_ROPE))
            q, k = rotate(q, table), rotate(k, table)
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            self.trace(f"layers.{i}.{name}", tensor)
        scale = A.num(h.attn_scale) if h.attn_scale else A.num(1 / np.sqrt(np.float64(h.hd)))
        o = A.attention(q, A.store(k), A.store(v), self.visible(T, flags), scale, A.num(h.attn_softcap))
        o = o.reshape(T, h.q_dim)
        if h.attn_gate:
            o = o * sigmoid(A, A.matmul(x, w["wg"]))
        self.trace(f"layers.{i}.heads", o)
        return A.matmul(o, w["wo"])

    def visible(self, T, flags):
        """[T queries, T keys]: the key is not later than the query and, with a window, inside it."""
        age = np.arange(T)[:, None] - np.arange(T)[None, :]
        return (age >= 0) & (age < self.h.sliding_window) if flags & WINDOW else age >= 0

    def linear_attention(self, i, x, w):
        """The gated delta rule. x [T, D], normalized -> [T, D]. K key heads of size dk, V value heads of size
        dv."""
        h, A, T = self.h, self.A, len(x)
        K, V, dk, dv = h.lin_k_heads, h.lin_v_heads, h.lin_k_dim, h.lin_v_dim
        qkv = silu(A, self.convolution(A.matmul(x, w["lqkv"]), w["lconv"].astype(A.num)))
        z = A.matmul(x, w["lz"]).reshape(T, V, dv)
        beta = sigmoid(A, A.matmul(x, w["lb"]))
        decay = -A.exp(w["A_log"].astype(A.num))
        g = A.exp(decay * softplus(A, A.matmul(x, w["la"]) + w["dt_bias"].astype(A.num)))
        q, k, v = np.split(qkv, [K * dk, 2 * K * dk], axis=1)
        q = self.unit(q.reshape(T, K, dk)) * A.num(1 / np.sqrt(np.float64(dk)))
        k = self.unit(k.reshape(T, K, dk))
        for name, tensor in (("lq", q), ("lk", k), ("lv", v), ("beta", beta), ("g", g)):
            self.trace(f"layers.{i}.{name}", tensor)
        o = self.delta_rule(
            np.repeat(q, V // K, axis=1), np.repeat(k, V // K, axis=1), v.reshape(T, V, dv), beta, g
        )
        y = rms_norm(A, o, w["lnorm"], h.norm_eps) * silu(A, z)
        self.trace(f"layers.{i}.heads", y)
        return A.matmul(y.reshape(T, V * dv), w["lout"])

    def convolution(self, x, taps):
        """Causal, per channel: x [T, C], taps [C, n], the last tap on the current position -> [T, C]."""
        n = taps.shape[1]
        padded = np.concatenate([np.zeros((n - 1, x.shape[1]), x.dtype), x])
        y = np.zeros_like(x)
        for t in range(n):
            y += taps[:, t] * padded[t : t + len(x)]
        return y

    def unit(self, x):
        """x [T, heads, d] divided by its L2 norm."""
        A = self.A
        return x * (A.num(1) / np.sqrt(A.sum(x * x) + A.num(1e-6)))[..., None]

    def delta_rule(self, q, k, v, beta, g):
        """q, k [T, V, dk], v [T, V, dv], beta, g [T, V] -> o [T, V, dv]. State S [V, dk, dv], first zero."""
        T, V, dk = q.shape
        S, o = np.zeros((V, dk, v.shape[2]), q.dtype), np.zeros_like(v)
        for p in range(T):
            S = S * g[p, :, None, None]
            kv = np.zeros_like(v[p])
            for i in range(dk):
                kv += S[:, i] * k[p, :, i, None]
            delta = beta[p, :, None] * (v[p] - kv)
            S = S + k[p, :, :, None] * delta[:, None, :]
            for i in range(dk):
                o[p] += S[:, i] * q[p, :, i, None]
        return o


# ---------------------------------------------------------------- digest and command line


def fnv1a64(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def logits_digest(logits):
    """FNV-1a 64 over the rows' float32 bytes, every NaN as 0x7fc00000: 16 hex digits."""
    bits = np.ascontiguousarray(logits, "<f4").view("<u4").copy()
    bits[np.isnan(logits)] = 0x7FC00000
    return f"{fnv1a64(bits.tobytes()):016x}"


def verify_ids(header):
    return [(i * 7919 + 1) % header.vocab for i in range(min(header.max_seq, 150))]


def verify_digest(model):
    return logits_digest(Forward(model, Contract("f16")).logits(verify_ids(model.header)))


def load(path):
    """A .mlb file or a Hugging Face folder as an object with header, layer_flags and tensors."""
    if Path(path).is_dir():
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))
        import hf

        return hf.load(path)
    import mlb

    return mlb.read(path)


def main():
    parser = argparse.ArgumentParser(description="numpy oracle for .mlb models: float64 or bit-exact float32")
    parser.add_argument("model", help=".mlb file, or a Hugging Face folder (float64 only)")
    parser.add_argument("--ids", help="JSON file: a list of token ids")
    parser.add_argument("--out", help=".npy file for the logits, float32 [n, vocab]")
    parser.add_argument("--contract", action="store_true", help="float32, bit-exact")
    parser.add_argument(
        "--kv", choices=["f16", "f32", "q8_0"], default="f16", help="type of the KV cache (contract only)"
    )
    parser.add_argument("--digest", action="store_true", help="print the digest that `krafla verify` prints")
    parser.add_argument("--trace", metavar="FILE.npz", help="also save every intermediate result")
    args = parser.parse_args()
    if Path(args.model).is_dir() and (args.contract or args.digest):
        parser.error("the contract needs quantized matrices: give a .mlb file")
    model = load(args.model)
    if args.digest:
        print(verify_digest(model))
    if not args.ids:
        return 0 if args.digest else parser.error("--ids or --digest is needed")
    kept = {}
    forward = Forward(
        model, Contract(args.kv) if args.contract else Truth(), kept.__setitem__ if args.trace else None
    )
    logits = forward.logits(json.loads(Path(args.ids).read_text())).astype(np.float32)
    if args.trace:
        np.savez(args.trace, logits=logits, **kept)
    if args.out:
        np.save(args.out, logits)
    else:
        print(logits_digest(logits))
    return 0


if __name__ == "__main__":
    sys.exit(main())
