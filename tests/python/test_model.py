"""SmolLM2-135M-Instruct, converted from the packaged GGUF: pinned greedy text, digests, memory. Skipped, with
a warning, if the model has not been downloaded (`make check-model` does so, with tools/fetch_model.py).

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KRAFLA = os.environ["KRAFLA"]
GGUF = ROOT / "models/cache/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "What is a volcano?"

# Engine and formats of this repository; they change only with the arithmetic contract, the quantization rules
# or the template.
PINNED = {
    "q8_0": (
        "85de0b6863d43a9b",
        "A volcano is a natural phenomenon that occurs when magma, which is molten rock and ash, rises to "
        "the "
        "surface of the Earth. It is a geological feature that can be found in many parts of the world, "
        'including the Pacific Islands, the Caribbean, and the United States. The name "volcano" comes from',
    ),
    "q4_0": (
        "a0bd0838f80affa5",
        "A volcano is a natural phenomenon characterized by the eruption of molten rock, often referred to "
        "as "
        "the 'exploding earth.' It is formed when the Earth's crust is subjected to heat, causing the "
        "release "
        "of gas, molten rock, and ash, resulting in the eruption of a volcano. Volcanoes are volcanos, "
        "volcan",
    ),
}


def setUpModule():
    if not GGUF.exists():
        print(
            f"\nSKIPPED: {GGUF} is not there (tools/fetch_model.py gets it): the real model is NOT tested",
            file=sys.stderr,
        )
        raise unittest.SkipTest("no model")


def krafla(*args, env=None):
    result = subprocess.run(
        [KRAFLA, *map(str, args)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        env={**os.environ, **(env or {})},
    )
    assert result.returncode == 0, result.stderr.decode()
    return result


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.models = {}
        for kind in PINNED:
            cls.models[kind] = Path(cls.folder.name) / kind
            krafla("convert", GGUF, cls.models[kind], "--type", kind)

    def test_digest(self):
        for kind, (digest, _) in PINNED.items():
            for options in (["-t", 1], ["-t", 3], ["--isa", "scalar"]):
                self.assertEqual(
                    krafla("verify", self.models[kind], *options).stdout.decode().strip(),
                    digest,
                    (kind, options),
                )

    def test_the_oracle_computes_the_same_digest(self):
        """Computes each digest in numpy, which takes about a minute."""
        import ref_forward

        for kind, (digest, _) in PINNED.items():
            model = ref_forward.load(self.models[kind].with_suffix(".mlb"))
            self.assertEqual(ref_forward.verify_digest(model), digest, kind)

    def test_greedy_text(self):
        for kind, (_, text) in PINNED.items():
            got = krafla("run", self.models[kind], "-p", PROMPT, "--temp", 0, "-n", 64).stdout.decode()
            self.assertEqual(got, text + "\n", kind)

    def test_memory_is_the_file_the_pages_and_little_else(self):
        for kind, model in self.models.items():
            report = krafla("run", model, "-p", PROMPT, "--temp", 0, "-n", 64, "-v").stderr.decode()
            resident, pages = map(
                float, re.search(r"memory\s+([\d.]+) MB.*KV pages ([\d.]+) MB", report).groups()
            )
            size = model.with_suffix(".mlb").stat().st_size * 1e-6
            self.assertLess(resident, size + pages + 40, report)

    def test_converting_twice_gives_the_same_bytes(self):
        for kind, model in self.models.items():
            again = Path(self.folder.name) / f"{kind}-again"
            krafla("convert", GGUF, again, "--type", kind, "-t", 1)
            for suffix in (".mlb", ".mlt", ".json"):
                self.assertEqual(
                    again.with_suffix(suffix).read_bytes(),
                    model.with_suffix(suffix).read_bytes(),
                    (kind, suffix),
                )


if __name__ == "__main__":
    unittest.main()
