"""A tokenizer.json that may be committed: Qwen3.5's, with NFC, combining marks as letters and single digits.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import gzip
import json
import lzma
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "tokenizers"
KRAFLA = os.environ["KRAFLA"]


class Qwen35(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        (folder / "tokenizer.json").write_bytes(lzma.decompress((DATA / "qwen3_5.tokenizer.json.xz").read_bytes()))
        cls.mlt = folder / "q.mlt"
        subprocess.run([KRAFLA, "convert-tokenizer", "--quiet", folder, cls.mlt], check=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def tokenize(self, values, *options):
        text = "".join(json.dumps(value) + "\n" for value in values)
        done = subprocess.run([KRAFLA, "tokenize", self.mlt, "--jsonl", *options], input=text.encode(), capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.decode().removesuffix("\n").split("\n")]

    def test_golden_ids_and_texts(self):
        corpus = [json.loads(line)["text"] for line in (DATA / "corpus.jsonl").read_text().removesuffix("\n").split("\n")]
        with gzip.open(DATA / "qwen3_5.jsonl.gz", "rt", encoding="utf-8") as file:
            golden = [json.loads(line) for line in file]
        ids = [entry["ids"] for entry in golden]
        self.assertEqual(self.tokenize(corpus), ids)
        self.assertEqual(self.tokenize(corpus, "--special"), [e["ids_special"] or e["ids"] for e in golden])
        texts = [text if e["dec"] is None else e["dec"] for text, e in zip(corpus, golden)]
        self.assertEqual(self.tokenize(ids, "--decode"), texts)
        skipped = [text if e["dec_skip"] is None else e["dec_skip"] for text, e in zip(texts, golden)]
        self.assertEqual(self.tokenize(ids, "--decode", "--skip-special"), skipped)

    def test_offsets_see_through_nfc(self):
        text = "cafe\u0301 \u1112\u1161\u11ab!"  # composed before encoding
        tokens = self.tokenize([text], "--offsets", "--pieces")[0]
        utf8 = text.encode()
        self.assertEqual(tokens[0]["begin"], 0)
        self.assertEqual(tokens[-1]["end"], len(utf8))
        for a, b in zip(tokens, tokens[1:]):
            self.assertLessEqual(b["begin"], a["end"])  # no hole
            self.assertLessEqual(a["begin"], b["begin"])
        self.assertEqual(utf8[tokens[-1]["begin"]:].decode(), "!")
        self.assertIn(utf8.find("e\u0301".encode()) + 3, [token["end"] for token in tokens])


if __name__ == "__main__":
    unittest.main()
