"""The MLI1 importance matrix: sums of squared inputs per channel, measured by ml_run --imatrix, and the
relative importance that the Q4_0 search derives from them. All sums are float64, added in ascending order.
"""
import struct
from dataclasses import dataclass

import numpy as np

from format_error import FORMAT, SHAPE, FormatError, bad, read_bytes, write_chunks

_HEADER = struct.Struct("<4sIIIIIQQ")
_SLOTS = ("wq/wk/wv", "wo", "w1/w3", "w2")  # of a layer, in file order
_SLOT_OF = {
    "wq": 0,
    "wk": 0,
    "wv": 0,
    "wg": 0,
    "lqkv": 0,
    "lz": 0,
    "lb": 0,
    "la": 0,
    "wo": 1,
    "lout": 1,
    "w1": 2,
    "w3": 2,
    "w2": 3,
}


@dataclass
class Importance:
    """layers: per layer the 4 float64 sums [dim], [q_dim], [dim], [hidden_dim] of the inputs of wq/wk/wv, wo,
    w1/w3 and w2; classifier: float64 [dim]. q_dim is never 0 here. *_tokens: how many inputs were summed."""

    dim: int
    hidden_dim: int
    q_dim: int
    layer_tokens: int
    classifier_tokens: int
    layers: list
    classifier: np.ndarray

    def slots(self):
        """(name, sums, tokens) of every group of channels in file order."""
        for i, layer in enumerate(self.layers):
            for slot, sums in zip(_SLOTS, layer):
                yield f"layers.{i}.{slot}", sums, self.layer_tokens
        yield "classifier", self.classifier, self.classifier_tokens

    def check(self, header, layer_flags):
        """Raises ML_E_SHAPE if the matrix does not belong to such a model, or has no slot of the right size
        for a lout."""
        mine = (len(self.layers), self.dim, self.hidden_dim, self.q_dim)
        model = (header.n_layers, header.dim, header.hidden_dim, header.q_dim)
        for name, found, wanted in zip(("n_layers", "dim", "hidden_dim", "q_dim"), mine, model):
            if found != wanted:
                raise bad(SHAPE, name, found, f"the model's {wanted}")
        for i in np.flatnonzero(np.asarray(layer_flags) & 8):
            if header.lin_v_heads * header.lin_v_dim != header.q_dim:
                raise bad(
                    SHAPE,
                    f"layers.{i}.lout",
                    f"{header.lin_v_heads * header.lin_v_dim} input channels",
                    f"q_dim ({header.q_dim}): an importance matrix has no place for others",
                )

    def relative(self, tensor_name, shared_classifier):
        """float32 [cols] importance of the input channels of a matrix, or None for a tok_emb that is not the
        classifier."""
        parts = tensor_name.split(".")
        if tensor_name == "wcls" or (tensor_name == "tok_emb" and shared_classifier):
            return relative(self.classifier, self.classifier_tokens)
        if tensor_name == "tok_emb":
            return None
        return relative(self.layers[int(parts[1])][_SLOT_OF[parts[2]]], self.layer_tokens)

    def describe(self):
        return [
            f"n_layers {len(self.layers)}",
            f"dim {self.dim}",
            f"hidden_dim {self.hidden_dim}",
            f"q_dim {self.q_dim}",
            f"tokens summed into the layers {self.layer_tokens}",
            f"tokens summed into the classifier {self.classifier_tokens}",
        ]


def relative(sums, tokens):
    """Mean squared input over its mean over the channels, at least 0.001: float64 throughout, rounded once to
    float32."""
    return np.maximum(sums / np.float64(tokens) / _mean(sums, tokens), 0.001).astype(np.float32)


def _mean(sums, tokens):
    """The mean over the channels of their mean squared input."""
    return np.cumsum(sums / np.float64(tokens))[-1] / len(sums)  # cumsum adds one by one, in order


def read_mli(path_or_bytes, header=None, layer_flags=None):
    """Reads and validates an importance matrix. With a model's Header (and flags), also checks that it
    belongs to that model.

    Order of checks: magic, version, size, dimensions, token counts, sums.
    """
    data = read_bytes(path_or_bytes)
    if len(data) == 0:
        raise FormatError(FORMAT, "empty file")
    if len(data) < _HEADER.size:
        raise bad(FORMAT, "header", f"a file of {len(data)} bytes", f"at least {_HEADER.size}")
    magic, version, n_layers, dim, hidden, q_dim, layer_tokens, classifier_tokens = _HEADER.unpack_from(data)
    if magic != b"MLI1":
        raise bad(FORMAT, "magic", repr(magic), "MLI1")
    if version != 1:
        raise bad(FORMAT, "version", version, "1")
    q_dim = q_dim or dim
    size = _HEADER.size + 8 * (n_layers * (2 * dim + q_dim + hidden) + dim)
    if len(data) != size:
        raise bad(FORMAT, "size", f"a file of {len(data)} bytes", f"{size} for these dimensions")
    for name, value in (("n_layers", n_layers), ("dim", dim), ("hidden_dim", hidden)):
        if value == 0:
            raise bad(SHAPE, name, 0, "at least 1")
    sums = np.split(
        np.frombuffer(data, "<f8", offset=_HEADER.size), np.cumsum([dim, q_dim, dim, hidden] * n_layers)
    )
    layers = [sums[4 * i : 4 * i + 4] for i in range(n_layers)]
    result = Importance(dim, hidden, q_dim, layer_tokens, classifier_tokens, layers, sums[-1])
    if header is not None:
        result.check(header, np.zeros(header.n_layers, np.uint8) if layer_flags is None else layer_flags)
    _check_values(result)
    return result


def _check_values(m):
    for name, tokens in (("layer tokens", m.layer_tokens), ("classifier tokens", m.classifier_tokens)):
        if tokens == 0:
            raise bad(FORMAT, name, 0, "at least 1")
    for name, sums, tokens in m.slots():
        good = np.isfinite(sums) & (sums >= 0)
        if not good.all():
            i = int(np.argmin(good))
            raise bad(FORMAT, f"{name} channel {i}", sums[i], "finite sums >= 0")
        with np.errstate(over="ignore"):
            mean = _mean(sums, tokens)
        if not 0 < mean < np.inf:  # the importance is relative to the mean
            raise bad(FORMAT, name, f"a mean of {mean}", "finite and > 0")


def write_mli(path, importance):
    """Writes an importance matrix; refuses with ML_E_FORMAT or ML_E_SHAPE what read_mli would refuse."""
    m = importance
    for name, found, wanted in zip(
        _SLOTS * len(m.layers),
        [len(s) for layer in m.layers for s in layer],
        [m.dim, m.q_dim, m.dim, m.hidden_dim] * len(m.layers),
    ):
        if found != wanted:
            raise bad(SHAPE, name, f"{found} channels", wanted)
    _check_values(m)
    q_dim = 0 if m.q_dim == m.dim else m.q_dim
    header = _HEADER.pack(
        b"MLI1", 1, len(m.layers), m.dim, m.hidden_dim, q_dim, m.layer_tokens, m.classifier_tokens
    )
    write_chunks(path, [header] + [np.asarray(sums, "<f8").tobytes() for _, sums, _ in m.slots()])
