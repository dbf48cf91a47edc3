#!/usr/bin/env python3
"""Writes a .mlt from a byte-level BPE tokenizer.json: how tests/data/tokenizers/*.mlt were made.

    python3 tests/golden/make_mlt.py tokenizer.json OUT.mlt [--bos ID] [--eos ID] [--flags SUM]

Independent of the engine's converters: the caller states the pre-tokenizer (--flags, see docs/formats), and
only ignore_merges is derived from the file. Needs no packages (tools/mlt.py writes the file).
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from mlt import ADDED, BYTE_LEVEL, Tokenizer, write_mlt  # noqa: E402


def printable_to_byte():
    """GPT-2's table: the printable Latin-1 characters stand for themselves, the other bytes for U+0100,
    U+0101, ..."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in own]
    return {**{chr(b): b for b in own}, **{chr(0x100 + i): b for i, b in enumerate(rest)}}


def convert(data, bos, eos, flags):
    table = printable_to_byte()
    vocab = data["model"]["vocab"]
    added = {t["id"]: t["content"] for t in data["added_tokens"]}
    tokens = [(0, b"")] * (max([*vocab.values(), *added]) + 1)
    for text, i in vocab.items():
        tokens[i] = (0, bytes(table[c] for c in text)) if i not in added else None
    for i, text in added.items():
        tokens[i] = (ADDED, text.encode())
    merges = []
    for merge in data["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges.append((vocab[left], vocab[right], vocab[left + right]))
    ignore_merges = 2 if data["model"].get("ignore_merges") else 0
    return Tokenizer(BYTE_LEVEL, flags | ignore_merges, bos, eos, tokens, merges)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("json")
    p.add_argument("out")
    p.add_argument("--bos", type=int, default=-1)
    p.add_argument("--eos", type=int, default=-1)
    p.add_argument("--flags", type=int, default=96)
    args = p.parse_args()
    with open(args.json, encoding="utf-8") as f:
        write_mlt(args.out, convert(json.load(f), args.bos, args.eos, args.flags))


if __name__ == "__main__":
    main()
