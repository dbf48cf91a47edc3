"""`krafla cpu`, and the digests with every instruction set it names."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = os.environ["KRAFLA"]
DATA = pathlib.Path(os.environ["KRAFLA_TEST_DATA"])


def krafla(*args, isa=""):
    return subprocess.run(
        [PROGRAM, *map(str, args)], capture_output=True, text=True, env={**os.environ, "KRAFLA_ISA": isa}
    )


def cpu(*args, isa=""):
    return json.loads(krafla("cpu", "--json", *args, isa=isa).stdout)


class Cpu(unittest.TestCase):
    def test_the_fastest_is_used_unless_one_is_forced(self):
        facts = cpu()
        here = [isa["name"] for isa in facts["isas"] if isa["here"]]
        self.assertEqual(here[0], "scalar")
        self.assertEqual(facts["isa"], here[-1])
        for name in here:
            self.assertEqual((cpu(isa=name)["isa"], cpu("--isa", name)["isa"]), (name, name))

    def test_one_that_is_missing_fails_by_name(self):
        for name in [isa["name"] for isa in cpu()["isas"] if not isa["here"]] + ["mmx", "Scalar", "avx"]:
            for source, result in (
                ("KRAFLA_ISA", krafla("cpu", isa=name)),
                ("--isa", krafla("cpu", "--isa", name)),
            ):
                self.assertEqual((result.returncode, result.stdout), (3, ""))
                self.assertIn(f" {name}:", result.stderr)
                self.assertIn(f"; {source} asks for it", result.stderr)

    def test_agrees_with_linux(self):
        avx512 = {"avx2", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq"}
        x86 = {
            "scalar": set(),
            "sse2": {"sse2"},
            "sse41": {"ssse3", "sse4_1"},
            "avx2": {"avx2", "f16c"},
            "avxvnni": {"avx2", "f16c", "avx_vnni"},
            "avx512": avx512,
            "avx512vnni": avx512 | {"avx512_vnni"},
        }
        aarch64 = {"scalar": set(), "neon": {"asimd"}, "dotprod": {"asimddp"}, "i8mm": {"asimddp", "i8mm"}}
        arm = {"scalar": set(), "neon": {"neon"}}
        isas = cpu()["isas"]
        needs = {"x86_64": x86, "i686": x86, "aarch64": aarch64, "armv7l": arm}.get(os.uname().machine, {})
        names = {isa["name"] for isa in isas}
        try:
            flags = re.search(
                r"^(?:flags|Features)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE
            )
        except OSError:
            flags = None
        if flags is None or not names <= set(needs):
            self.skipTest(
                "LOUD: /proc/cpuinfo lists no features here, or those of another CPU than the emulated one"
            )
        for isa in isas:
            self.assertEqual(isa["here"], needs[isa["name"]] <= set(flags[1].split()), isa)

    def test_text_says_the_same(self):
        facts, text = cpu(), krafla("cpu").stdout
        for isa in facts["isas"]:
            self.assertIn(isa["name"], text)
        self.assertRegex(text, rf"(?m)^used +{facts['isa']}$")
        self.assertRegex(text, rf"(?m)^threads +{facts['threads']} ")
        self.assertEqual(facts["cpus"], len(os.sched_getaffinity(0)))
        self.assertTrue(1 <= facts["threads"] <= facts["cores"] <= facts["cpus"], facts)
        for cache in facts["caches"]:
            self.assertIn(cache["name"], text)
            self.assertTrue(cache["bytes"] > 0 and cache["shared_by"] > 0, cache)


class Digests(unittest.TestCase):
    def test_every_instruction_set_gives_the_oracles(self):
        oracle = json.loads((DATA / "models/oracle.json").read_text())
        for isa in cpu()["isas"]:
            if not isa["here"]:
                print(f"LOUD: SKIPPED: this CPU has no {isa['name']}", file=sys.stderr)
                continue
            for file, want in oracle.items():
                result = krafla("verify", DATA / "models" / file, "--isa", isa["name"])
                self.assertEqual(result.stdout.strip(), want["verify"], (isa["name"], file, result.stderr))


if __name__ == "__main__":
    unittest.main()
