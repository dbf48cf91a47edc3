"""Tokenizers whose licenses allow committing them: Qwen3.5's tokenizer.json (NFC, combining marks as letters,
single digits), and made-up ones.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import gzip
import json
import lzma
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import mlt

DATA = Path(__file__).resolve().parents[1] / "data" / "tokenizers"
CHECKPOINTS = DATA.parent / "checkpoints"
KRAFLA = os.environ["KRAFLA"]


class Qwen35(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        (folder / "tokenizer.json").write_bytes(
            lzma.decompress((DATA / "qwen3_5.tokenizer.json.xz").read_bytes())
        )
        cls.mlt = folder / "q.mlt"
        subprocess.run([KRAFLA, "convert-tokenizer", "--quiet", folder, cls.mlt], check=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def tokenize(self, values, *options):
        text = "".join(json.dumps(value) + "\n" for value in values)
        done = subprocess.run(
            [KRAFLA, "tokenize", self.mlt, "--jsonl", *options],
            input=text.encode(),
            capture_output=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.decode().removesuffix("\n").split("\n")]

    def test_golden_ids_and_texts(self):
        corpus = [
            json.loads(line)["text"]
            for line in (DATA / "corpus.jsonl").read_text().removesuffix("\n").split("\n")
        ]
        with gzip.open(DATA / "qwen3_5.jsonl.gz", "rt", encoding="utf-8") as file:
            golden = [json.loads(line) for line in file]
        ids = [entry["ids"] for entry in golden]
        self.assertEqual(self.tokenize(corpus), ids)
        self.assertEqual(self.tokenize(corpus, "--special"), [e["ids_special"] or e["ids"] for e in golden])
        texts = [text if e["dec"] is None else e["dec"] for text, e in zip(corpus, golden)]
        self.assertEqual(self.tokenize(ids, "--decode"), texts)
        skipped = [text if e["dec_skip"] is None else e["dec_skip"] for text, e in zip(texts, golden)]
        self.assertEqual(self.tokenize(ids, "--decode", "--skip-special"), skipped)

    def test_the_writer_in_python_gives_the_same_bytes(self):
        mlt.write_mlt(Path(self.folder.name) / "python.mlt", mlt.read_mlt(self.mlt))
        self.assertEqual((Path(self.folder.name) / "python.mlt").read_bytes(), self.mlt.read_bytes())

    def test_offsets_see_through_nfc(self):
        text = "cafe\u0301 \u1112\u1161\u11ab!"  # composed before encoding
        tokens = self.tokenize([text], "--offsets", "--pieces")[0]
        utf8 = text.encode()
        self.assertEqual(tokens[0]["begin"], 0)
        self.assertEqual(tokens[-1]["end"], len(utf8))
        for a, b in zip(tokens, tokens[1:]):
            self.assertLessEqual(b["begin"], a["end"])  # no hole
            self.assertLessEqual(a["begin"], b["begin"])
        self.assertEqual(utf8[tokens[-1]["begin"] :].decode(), "!")
        self.assertIn(utf8.find("e\u0301".encode()) + 3, [token["end"] for token in tokens])


def small_tokenizer():
    """A byte-level tokenizer.json of 259 tokens, so that it fits the checkpoints."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = [chr(b) for b in itself] + [chr(0x100 + i) for i in range(256 - len(itself))]
    vocabulary = {text: i for i, text in enumerate([*characters, "ab", "\u0120a"])}
    return {
        "added_tokens": [{"id": 258, "content": "<|end|>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", "\u0120 a"]},
    }


class Conversions(unittest.TestCase):
    def test_with_the_model_or_alone(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            shutil.copytree(CHECKPOINTS / "llama3", folder)
            (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
            (folder / "tokenizer_config.json").write_text(
                json.dumps({"eos_token": "<|end|>", "chat_template": "{{ x }}"})
            )
            (folder / "generation_config.json").write_text(
                json.dumps({"eos_token_id": [7, 258], "temperature": 0.5})
            )
            out = Path(temporary) / "out"
            out.mkdir()
            for command, name in (("convert", "with"), ("convert-tokenizer", "alone")):
                subprocess.run([KRAFLA, command, "--quiet", folder, out / name], check=True, timeout=120)
            subprocess.run(
                [KRAFLA, "convert-tokenizer", "--quiet", folder / "tokenizer.json", out / "file.mlt"],
                check=True,
                timeout=120,
            )
            tokenizer = mlt.read_mlt(out / "with.mlt")
            self.assertEqual((len(tokenizer.tokens), tokenizer.eos), (259, 258))
            for name in ("alone", "file"):
                self.assertEqual((out / f"{name}.mlt").read_bytes(), (out / "with.mlt").read_bytes(), name)
                self.assertEqual(
                    json.loads((out / f"{name}.json").read_text()),
                    json.loads((out / "with.json").read_text()),
                    name,
                )
            self.assertEqual(
                json.loads((out / "with.json").read_text())["end_ids"], [7, 257, 258]
            )  # config.json says 257

    def test_deep_nesting(self):
        """Deep nesting is refused anywhere, because the JSON library copies recursively."""
        deep = "[" * 100_000 + "]" * 100_000
        with tempfile.TemporaryDirectory() as folder:
            for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"):
                source = Path(folder, file + ".d")
                source.mkdir()
                (source / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
                (source / file).write_text('{"eos_token_id": ' + deep + "}")
                result = subprocess.run(
                    [KRAFLA, "convert-tokenizer", source, Path(folder, "out")], capture_output=True
                )
                self.assertEqual(result.returncode, 5, result.stderr)
                self.assertIn(file.encode(), result.stderr)

    def test_there_is_no_such_tokenizer(self):
        with tempfile.TemporaryDirectory() as temporary:
            Path(temporary, "model.json").write_text("{}")
            for name in ("nothere", "nothere.mlt", "model.json", ""):
                done = subprocess.run(
                    [KRAFLA, "tokenize", os.path.join(temporary, name), "--text", "a"],
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertEqual(done.returncode, 4, name)
                self.assertIn(".mlt: there is no such file", done.stderr)
                self.assertIn("convert-tokenizer", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
