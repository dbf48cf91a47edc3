"""The .mlt tokenizer file: reader and writer.

Every problem listed on the format page is an error that names the token, merge or field. The size of a file
bounds the time and memory to read it, whatever numbers it contains.
"""
import struct
from dataclasses import dataclass, field

from format_error import FORMAT, FormatError, bad, read_bytes, write_chunks

SENTENCEPIECE, BYTE_LEVEL = 1, 2  # kind
ADDED, BYTE = 1, 2  # attr
FLAGS = {
    1: "prepend BOS",
    2: "ignore_merges",
    4: "prefix at the start only",
    8: "NFC",
    16: "single digits",
    32: "GPT-2 regex",
    64: "digits split first",
    128: "marks are letters",
    256: "no prefix",
}
KNOWN_FLAGS = sum(FLAGS)
_HEADER = struct.Struct("<4sIIIIiiI")


@dataclass
class Tokenizer:
    """kind 1 or 2; flags: sum of FLAGS; bos, eos: id or -1; tokens: (attr, bytes) by id; merges: (left,
    right, merged) ids in rank order. trailing: bytes after the last merge (read only)."""

    kind: int
    flags: int = 0
    bos: int = -1
    eos: int = -1
    tokens: list = field(default_factory=list)
    merges: list = field(default_factory=list)
    trailing: int = 0

    def describe(self):
        names = [text for bit, text in FLAGS.items() if self.flags & bit]
        return [
            f"kind {self.kind} ({'SentencePiece' if self.kind == SENTENCEPIECE else 'byte-level'} BPE)",
            f"flags {self.flags} ({', '.join(names) or 'none'})",
            f"bos {self.bos}",
            f"eos {self.eos}",
            f"tokens {len(self.tokens)} ({sum(a == ADDED for a, _ in self.tokens)} added, "
            f"{sum(a == BYTE for a, _ in self.tokens)} bytes)",
            f"merges {len(self.merges)}",
            f"bytes after the last merge: {self.trailing}",
        ]


def read_mlt(path_or_bytes):
    """Reads and validates a tokenizer. Checks in file order: header fields, tokens, then merges."""
    data = read_bytes(path_or_bytes)
    if len(data) == 0:
        raise FormatError(FORMAT, "empty file")
    if len(data) < _HEADER.size:
        raise bad(FORMAT, "header", f"a file of {len(data)} bytes", f"at least {_HEADER.size}")
    magic, version, kind, n_vocab, n_merges, bos, eos, flags = _HEADER.unpack_from(data)
    if magic != b"MLT1":
        raise bad(FORMAT, "magic", repr(magic), "MLT1")
    if version != 1:
        raise bad(FORMAT, "version", version, "1")
    _check_fields(kind, n_vocab, bos, eos, flags)
    tokens, at = _read_tokens(data, n_vocab)
    if len(data) - at < 12 * n_merges:
        raise bad(
            FORMAT,
            "n_merges",
            f"{n_merges} and {len(data) - at} bytes after the tokens",
            f"{12 * n_merges} bytes",
        )
    merges = list(struct.iter_unpack("<III", data[at : at + 12 * n_merges]))
    _check_merges(tokens, merges)
    return Tokenizer(kind, flags, bos, eos, tokens, merges, len(data) - at - 12 * n_merges)


def _check_fields(kind, n_vocab, bos, eos, flags):
    if kind not in (SENTENCEPIECE, BYTE_LEVEL):
        raise bad(FORMAT, "kind", kind, "1 (SentencePiece) or 2 (byte-level)")
    for name, value in (("bos", bos), ("eos", eos)):
        if not -1 <= value < n_vocab:
            raise bad(FORMAT, name, value, f"-1 to n_vocab - 1 ({n_vocab - 1})")
    if flags & ~KNOWN_FLAGS:
        raise bad(FORMAT, "flags", flags, f"bits of {KNOWN_FLAGS}")


def _read_tokens(data, n_vocab):
    """-> (list of (attr, bytes), offset of the first byte after them)."""
    at = _HEADER.size
    if len(data) - at < 5 * n_vocab:  # before any work: a token takes at least 5 bytes
        raise bad(FORMAT, "n_vocab", f"{n_vocab} and {len(data) - at} bytes", f"at least {5 * n_vocab} bytes")
    tokens = []
    for i in range(n_vocab):
        if len(data) - at < 5:
            raise bad(FORMAT, f"token {i}", f"{len(data) - at} bytes left", "at least 5")
        attr, length = struct.unpack_from("<BI", data, at)
        at += 5
        _check_token(i, attr, length)
        if length > len(data) - at:
            raise bad(
                FORMAT, f"token {i}", f"len {length} and {len(data) - at} bytes left", "a len within the file"
            )
        tokens.append((attr, data[at : at + length]))
        at += length
    return tokens, at


def _check_token(i, attr, length):
    if attr not in (0, ADDED, BYTE):
        raise bad(FORMAT, f"token {i}", f"attr {attr}", "0, 1 (added) or 2 (byte)")
    if attr == BYTE and length != 1:
        raise bad(FORMAT, f"token {i}", f"a byte token of len {length}", "len 1")


def _check_merges(tokens, merges):
    for rank, ids in enumerate(merges):
        for name, i in zip(("left", "right", "merged"), ids):
            if i >= len(tokens):
                raise bad(FORMAT, f"merge {rank}", f"{name} {i}", f"less than n_vocab ({len(tokens)})")
        left, right, merged = (tokens[i][1] for i in ids)
        if left + right != merged:
            raise bad(
                FORMAT,
                f"merge {rank}",
                f"merged token {ids[2]} = {merged!r}",
                f"left + right = {left + right!r}",
            )


def write_mlt(path, tokenizer):
    """Writes a tokenizer; refuses with ML_E_FORMAT what read_mlt would refuse."""
    t = tokenizer
    _check_fields(t.kind, len(t.tokens), t.bos, t.eos, t.flags)
    for i, (attr, text) in enumerate(t.tokens):
        _check_token(i, attr, len(text))
    _check_merges(t.tokens, t.merges)
    chunks = [_HEADER.pack(b"MLT1", 1, t.kind, len(t.tokens), len(t.merges), t.bos, t.eos, t.flags)]
    chunks += [struct.pack("<BI", attr, len(text)) + bytes(text) for attr, text in t.tokens]
    chunks += [struct.pack("<III", *merge) for merge in t.merges]
    write_chunks(path, chunks)
