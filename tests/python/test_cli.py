"""Tests the program as a whole: exit codes, one-line errors, files that appear only when complete, and
results that do not depend on options.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import errno
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
KRAFLA = os.environ["KRAFLA"]
ASAN = b"__asan_init" in Path(KRAFLA).read_bytes()
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14  # of linux/prctl.h and linux/capability.h
EXIT = {"ML_E_IO": 4, "ML_E_FORMAT": 5, "ML_E_SHAPE": 6}


def krafla(*args, name=None, env=None, **kwargs):
    """Runs the program, under another name if `name` is given."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kwargs:
        kwargs.pop("stdin")
    return subprocess.run(
        [name or "krafla", *map(str, args)],
        executable=KRAFLA,
        capture_output=True,
        timeout=120,
        env={**os.environ, **(env or {})},
        **kwargs,
    )


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_fails(self, result, code, *mentions):
        """One line on stderr with the reason, nothing on stdout, this exit code."""
        text = result.stderr.decode()
        self.assertEqual(result.returncode, code, text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertTrue(text.startswith("krafla: ML_E_"), text)
        self.assertEqual(result.stdout, b"")
        for mention in mentions:
            self.assertIn(str(mention), text)


class Errors(Case):
    def test_every_bad_file_ends_with_its_status(self):
        for entry in json.loads((DATA / "bad/manifest.json").read_text()):
            if not entry["file"].endswith(".mlb"):
                continue
            path = DATA / "bad" / entry["file"]
            with self.subTest(entry["file"]):
                self.assert_fails(krafla("verify", path), EXIT[entry["status"]], entry["status"])

    def test_the_program_adds_what_helps(self):
        model, text = DATA / "models/mistral_swa-q8.mlb", self.folder / "text"
        text.write_text("x")
        gguf = self.folder / "x.gguf"
        gguf.write_bytes(b"GGUF")
        self.assert_fails(krafla("verify", gguf), 5, "`krafla convert` makes a .mlb")
        self.assert_fails(krafla("perplexity", model, text), 4, "`krafla convert-tokenizer` makes one")
        stem = self.folder / "m"
        shutil.copy(model, f"{stem}.mlb")
        shutil.copy(DATA / "good/no_merges.mlt", f"{stem}.mlt")
        self.assert_fails(
            krafla("run", stem, "-p", "x", "--chat-template", "none"), 1, "--raw takes the prompt"
        )
        self.assert_fails(krafla("perplexity", stem, text), 2, "--ctx")

    def test_bad_files_write_nothing(self):
        ids, out = self.folder / "ids.json", self.folder / "out.npy"
        ids.write_text("[1, 2]")
        self.assert_fails(krafla("logits", DATA / "bad/missing.mlb", "--ids", ids, "--out", out), 4)
        model = DATA / "models/tiny-q4.mlb"
        ids.write_text("[1, 99999]")
        self.assert_fails(krafla("logits", model, "--ids", ids, "--out", out), 2, "99999")
        ids.write_text("[1, ")
        self.assert_fails(krafla("logits", model, "--ids", ids, "--out", out), 5, ids)
        self.assert_fails(
            krafla("logits", model, "--ids", self.folder / "none.json", "--out", out), 4, "none.json"
        )
        ids.write_text("[1]")
        self.assert_fails(
            krafla("logits", model, "--ids", ids, "--out", self.folder / "no/out.npy"), 4, "no/out.npy"
        )
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["ids.json"])

    def test_what_is_no_model(self):
        self.assert_fails(krafla("verify", self.folder), 4, "directory")
        text = self.folder / "some.gguf"
        text.write_bytes(b"GGUF")
        self.assert_fails(krafla("verify", text), 5, "ML_E_FORMAT", "convert")
        other = self.folder / "two.txt"
        other.write_text("two")
        self.assert_fails(krafla("verify", other), 5, "ML_E_FORMAT", "not a .mlb file")
        other.unlink()
        self.assert_fails(krafla("convert", self.folder / "none.gguf", self.folder / "x"), 4, "none.gguf")
        self.assert_fails(krafla("convert", DATA / "models/tiny-q4.mlb", self.folder / "x"), 5)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["some.gguf"])

    def test_ids_that_are_none_are_refused(self):
        ids, model = self.folder / "ids.json", DATA / "models/tiny-q4.mlb"
        for value in (
            "4294967297",
            "-1",
            "1.5",
            "true",
            "1e300",
            '"1"',
            "[1]",
            "null",
            "99999999999999999999",
        ):
            ids.write_text(f"[1, {value}]")
            self.assert_fails(krafla("logits", model, "--ids", ids, "--out", self.folder / "out.npy"), 5, ids)
        for root in ('{"a": 1}', "3", ""):
            ids.write_text(root)
            self.assert_fails(krafla("logits", model, "--ids", ids, "--out", self.folder / "out.npy"), 5, ids)

    def test_inputs_are_not_written_over(self):
        ids, model = self.folder / "ids.json", self.folder / "m.mlb"
        ids.write_text("[1]")
        model.write_bytes((DATA / "models/tiny-q4.mlb").read_bytes())
        for out in (ids, model):
            before = out.read_bytes()
            self.assert_fails(krafla("logits", model, "--ids", ids, "--out", out), 2, out)
            self.assertEqual(out.read_bytes(), before)

    def test_a_failed_convert_leaves_old_files_alone(self):
        gguf = DATA / "gguf/llama_f32.gguf"
        for blocked in (".mlb", ".mlt", ".json"):
            for suffix in (".mlb", ".mlt", ".json"):
                path = self.folder / f"m_{blocked[1:]}{suffix}"
                path.mkdir() if suffix == blocked else path.write_text("OLD")
            result = krafla("convert", gguf, self.folder / f"m_{blocked[1:]}", "-t", 1)
            self.assert_fails(result, 4, "directory")
            for suffix in {".mlb", ".mlt", ".json"} - {blocked}:
                self.assertEqual((self.folder / f"m_{blocked[1:]}{suffix}").read_text(), "OLD")

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for args in (
                ["verify", DATA / "models/tiny-q4.mlb"],
                ["inspect", DATA / "models/tiny-q4.mlb"],
                ["--help"],
            ):
                result = subprocess.run(
                    [KRAFLA, *map(str, args)], stdout=full, stderr=subprocess.PIPE, timeout=60
                )
                self.assertEqual(result.returncode, 4, (args, result.stderr))

    def test_threads_that_cannot_be_had(self):
        def huge_stacks():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 46, 1 << 46))

        self.assert_fails(
            krafla("verify", DATA / "models/tiny-q4.mlb", "-t", 4, preexec_fn=huge_stacks),
            1,
            "ML_E_MEMORY",
            "threads",
        )

    def test_a_fifo_is_no_model(self):
        os.mkfifo(self.folder / "f.mlb")
        self.assert_fails(krafla("verify", self.folder / "f.mlb"), 4, "regular file")

    def test_control_characters_do_not_reach_the_terminal(self):
        self.assert_fails(krafla("verify", "a\nb\x1b[31m"), 4, "a\\x0ab\\x1b[31m")

    def test_usage_is_2(self):
        for args in (
            [],
            ["nonsense"],
            ["verify"],
            ["verify", "x", "--threads", "0"],
            ["run", "x", "--kv", "f8"],
            ["logits", "x"],
            ["run", "x", "--nonsense"],
            ["run", "x", "-n", "0"],
            ["run", "x", "-n", "-1"],
            ["run", "x", "--seed", "-1"],
            ["run", "x", "--seed", "18446744073709551616"],
            ["run", "x", "--ctx", "0"],
        ):
            self.assert_fails(krafla(*args), 2, "ML_E_ARG")
        self.assertEqual(krafla("--help").returncode, 0)
        self.assertEqual(krafla("run", "--help").returncode, 0)
        self.assertIn(b"krafla", krafla("--version").stdout)

    def test_a_missing_instruction_set_is_3(self):
        model = DATA / "models/tiny-q4.mlb"
        self.assert_fails(krafla("verify", model, "--isa", "mmx"), 3, "mmx", "scalar")
        self.assert_fails(krafla("verify", model, env={"KRAFLA_ISA": "neon64"}), 3, "neon64")

    def test_verify_warns_of_nan(self):
        result = krafla("verify", DATA / "models/nan-q4.mlb")
        self.assertEqual((result.returncode, len(result.stdout.split())), (0, 1))
        warning = result.stderr.decode()
        self.assertEqual(len(warning.splitlines()), 1, warning)
        self.assertIn("position 47 (token 5)", warning)
        self.assertEqual(krafla("verify", DATA / "models/tiny-q4.mlb").stderr, b"")

    def test_logits_warns_of_nan(self):
        ids, out = self.folder / "ids.json", self.folder / "out.npy"
        ids.write_text("[7, 7, 5, 5]")
        result = krafla("logits", DATA / "models/nan-q4.mlb", "--ids", ids, "--out", out)
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr)
        warning = result.stderr.decode()
        self.assertEqual(len(warning.splitlines()), 1, warning)
        self.assertIn("position 2 (token 5)", warning)
        self.assertEqual(np.isnan(np.load(out)).any(axis=1).tolist(), [False, False, True, True])

    def test_nan_weights_end_with_an_error(self):
        # The model's logits are NaN after token 5. No tokenizer has its size, so a minimal one is made.
        import mlt

        mlt.write_mlt(
            self.folder / "m.mlt",
            mlt.Tokenizer(
                kind=2, flags=32, bos=-1, eos=-1, tokens=[(0, bytes([i + 32])) for i in range(97)], merges=[]
            ),
        )
        (self.folder / "m.mlb").write_bytes((DATA / "models/nan-q4.mlb").read_bytes())
        self.assert_fails_after_text(
            krafla("run", self.folder / "m", "--raw", "-p", chr(32 + 5), "--temp", "0", "-n", "3")
        )

    def assert_fails_after_text(self, result):
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("ML_E_NUMERIC", result.stderr.decode())


class Logits(Case):
    def test_equal_to_the_oracle_for_all_chunks_threads_and_sets(self):
        import ref_forward

        oracle = json.loads((DATA / "models/oracle.json").read_text())
        for file in ("llama3-q8.mlb", "all-q4.mlb", "linear-wide-q4.mlb"):
            prompt = oracle[file]["prompts"][-1]
            ids, out = self.folder / "ids.json", self.folder / "out.npy"
            ids.write_text(json.dumps(prompt["ids"]))
            for options in (
                [],
                ["--chunk", 1],
                ["--chunk", 7, "-t", 1],
                ["-t", 4, "--isa", "scalar"],
                ["--huge-pages"],
            ):
                result = krafla(
                    "logits",
                    DATA / "models" / file,
                    "--ids",
                    ids,
                    "--out",
                    out,
                    "--kv",
                    prompt["kv"],
                    *options,
                )
                self.assertEqual(result.returncode, 0, result.stderr)
                logits = np.load(out)
                self.assertEqual(
                    (logits.dtype, logits.ndim, logits.shape[0]), (np.float32, 2, len(prompt["ids"]))
                )
                digest = ref_forward.logits_digest(logits)
                self.assertEqual(digest, prompt["fnv1a64"], (file, options))

    def test_memory_options_change_no_bits(self):
        model = DATA / "models/llama2-q4.mlb"
        for options in (["--huge-pages"], ["--mlock"], ["--huge-pages", "--mlock"]):
            result = krafla("verify", model, *options)
            self.assertEqual(
                (result.returncode, result.stdout.strip()), (0, b"88153a2b4dcab8c4"), result.stderr
            )
        result = krafla(
            "verify", model, "--numa-interleave"
        )  # a kernel without NUMA, or a sandbox, may have no policies
        if result.returncode:
            self.assert_fails(result, 1, "ML_E_UNSUPPORTED", "NUMA")
        else:
            self.assertEqual(result.stdout.strip(), b"88153a2b4dcab8c4")
        empty = self.folder / "empty.mlb"
        empty.touch()
        for options in ([], ["--huge-pages"], ["--mlock"]):
            self.assert_fails(krafla("verify", empty, *options), 5, "empty.mlb: the file has 0 bytes")

    @unittest.skipIf(ASAN, "AddressSanitizer makes mlock() do nothing")
    def test_memory_that_may_not_be_locked(self):
        import resource

        model = self.folder / "m.mlb"
        model.write_bytes((DATA / "models/llama2-q4.mlb").read_bytes())

        def limit():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))
            if os.geteuid() == 0:
                ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)

        self.assert_fails(
            krafla("verify", model, "--mlock", preexec_fn=limit), 1, "ML_E_MEMORY", "m.mlb", "4096"
        )

    def test_verify_prints_the_oracles_digest(self):
        oracle = json.loads((DATA / "models/oracle.json").read_text())
        result = krafla("verify", DATA / "models/llama2-q4.mlb")
        self.assertEqual(result.stdout.decode().strip(), oracle["llama2-q4.mlb"]["verify"])
        # A constant from the oracle: if it ever changes, the arithmetic contract has changed.
        self.assertEqual(result.stdout.decode().strip(), "88153a2b4dcab8c4")

    def test_no_ids_give_no_rows(self):
        ids, out = self.folder / "ids.json", self.folder / "out.npy"
        ids.write_text("[]")
        self.assertEqual(
            krafla("logits", DATA / "models/tiny-q4.mlb", "--ids", ids, "--out", out).returncode, 0
        )
        self.assertEqual(np.load(out).shape[0], 0)


class Run(Case):
    """Tests of `run` as a program. The text of a random model is meaningless."""

    def make_model(self, vocab=97, max_seq=256):
        import mlb
        import mlt

        header = mlb.Header(
            dim=32,
            n_layers=1,
            n_heads=2,
            n_kv_heads=1,
            hidden_dim=32,
            vocab=vocab,
            max_seq=max_seq,
            rope_theta=10000.0,
            norm_eps=1e-5,
            wtype=1,
            shared_classifier=1,
            scale_f16=1,
        )
        mlb.write(self.folder / "m.mlb", header, None, mlb.random_tensors(header, None, 3))
        mlt.write_mlt(
            self.folder / "m.mlt",
            mlt.Tokenizer(
                kind=2, flags=32, bos=-1, eos=-1, tokens=[(0, bytes([i + 32])) for i in range(97)], merges=[]
            ),
        )
        return self.folder / "m"

    def answer(self, *args, **kwargs):
        result = krafla("run", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_prompt_option_file_and_pipe_agree(self):
        model, file = self.make_model(), self.folder / "prompt.txt"
        file.write_text("Hello")
        options = ("--raw", "-n", 20, "--seed", 7)
        want = self.answer(model, "-p", "Hello", *options)
        self.assertEqual(len(want), 21)
        self.assertEqual(self.answer(model, "-f", file, *options), want)
        self.assertEqual(self.answer(model, *options, input=b"Hello"), want)
        self.assertEqual(
            self.answer(str(model) + ".mlb", "-z", str(model) + ".mlt", "-p", "Hello", *options), want
        )

    def test_seeds_repeat_and_differ(self):
        model = self.make_model()
        texts = [
            self.answer(model, "--raw", "-p", "abc", "-n", 40, "--seed", seed, "-t", threads)
            for seed, threads in ((1, 1), (1, 2), (2, 1))
        ]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_guesses_change_no_byte(self):
        model = self.make_model()
        for temperature in (0, 1):
            options = ("--raw", "-p", "abcabcabc", "-n", 60, "--temp", temperature, "-v")
            want = self.answer(model, *options)
            for speculation in (("--lookup",), ("--draft-model", model)):
                result = krafla("run", model, *options, *speculation)
                self.assertEqual((result.returncode, result.stdout), (0, want), result.stderr)
                self.assertRegex(result.stderr.decode(), r"guessed +\d+ +\d+ of them right")
        self.assert_fails(krafla("run", model, "-p", "x", "--draft-model", self.folder / "none"), 4, "none")
        windowed = DATA / "models/mistral_swa-q8.mlb"
        self.assert_fails(krafla("run", model, "--raw", "-p", "x", "--draft-model", windowed), 6, "vocab")

    def test_raw_text_goes_on_with_its_space(self):
        """SentencePiece removes a space from the beginning of a text. An answer to a raw prompt is not a
        beginning, so its space is kept."""
        import mlt

        model = self.make_model()
        tokens = [
            (0, "\u2581".encode() + (b"x%d" % i if i else b"")) for i in range(97)
        ]  # every answer begins with a space
        mlt.write_mlt(self.folder / "m.mlt", mlt.Tokenizer(kind=mlt.SENTENCEPIECE, tokens=tokens))
        self.assertTrue(self.answer(model, "--raw", "-p", " ", "-n", 2).startswith(b" "))
        self.assertFalse(
            self.answer(model, "--chat-template", "chatml", "-p", " ", "-n", 2).startswith(b" x")
        )

    def test_names_of_the_page(self):
        model = self.make_model()
        want = self.answer(model, "--raw", "-p", "x", "-n", 5)
        result = krafla(
            str(model) + ".mlb", "-z", str(model) + ".mlt", "--raw", "-p", "x", "-n", 5, name="ml_run"
        )
        self.assertEqual((result.returncode, result.stdout), (0, want), result.stderr)

    def test_context_is_a_hard_limit(self):
        model = self.make_model()
        self.assertEqual(len(self.answer(model, "--raw", "-p", "abc", "--ctx", 10)), 8)
        self.assert_fails(
            krafla("run", model, "--raw", "-p", "a" * 10, "--ctx", 10), 2, "10 tokens", "context of 10"
        )
        self.assert_fails(krafla("run", model, "--raw", "-p", "a", "--ctx", 10000), 2, "10000", "256")
        for args in (["--raw", "-p", ""], ["-p", ""], ["-f", "/dev/null"]):
            self.assert_fails(krafla("run", model, *args, "-n", 3), 2, "empty")

    def test_a_prompt_that_cannot_be_read(self):
        model = self.make_model()
        self.assert_fails(
            krafla("run", model, "-f", self.folder, "-n", 3), 4, self.folder, os.strerror(errno.EISDIR)
        )
        self.assert_fails(
            krafla("run", model, "-f", self.folder / "none", "-n", 3), 4, "none", os.strerror(errno.ENOENT)
        )

    def test_the_json_is_checked(self):
        model = self.make_model()
        json_file = self.folder / "m.json"
        for text, mention in (
            ('{"end_ids": [97]}', "97"),
            ('{"end_ids": [1.5]}', "1.5"),
            ('{"end_ids": [-1]}', "-1"),
            ('{"format": 2}', "format"),
            ('{"sampling": {"top_k": true}}', "true"),
            ("{", "JSON"),
        ):
            json_file.write_text(text)
            self.assert_fails(krafla("run", model, "-p", "x", "-n", 3), 5, json_file, mention)
        json_file.unlink()
        json_file.mkdir()
        self.assert_fails(krafla("run", model, "-p", "x", "-n", 3), 4, json_file)

    def test_options_out_of_range(self):
        model = self.make_model()
        for option, value in (
            ("--temp", "-1"),
            ("--top-p", "1.5"),
            ("--min-p", "2"),
            ("--top-k", "-3"),
            ("--repetition-penalty", "0"),
        ):
            self.assert_fails(krafla("run", model, "--raw", "-p", "x", option, value), 2, value.lstrip("-"))

    def test_a_tokenizer_larger_than_the_model(self):
        model = self.make_model(vocab=64)
        self.assert_fails(krafla("run", model, "--raw", "-p", "x"), 6, "97", "64")

    def test_interrupt_stops_the_answer(self):
        # no end id, and a context that takes hours: only the interrupt ends it
        model = self.make_model(max_seq=1 << 20)
        with subprocess.Popen(
            ["krafla", "run", str(model), "--raw", "-p", "x", "--threads", "1"],
            executable=KRAFLA,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (130, b""))
            self.assertTrue(out.endswith(b"\n"))

    def test_interrupt_stops_the_prompt(self):
        model = self.make_model(max_seq=1 << 20)
        (self.folder / "prompt").write_text("x" * ((1 << 20) - 1))
        with subprocess.Popen(
            ["krafla", "run", str(model), "--raw", "-f", str(self.folder / "prompt"), "--threads", "1"],
            executable=KRAFLA,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            caught = 0
            # Wait until it handles SIGINT: from then on it is generating.
            while not caught >> (signal.SIGINT - 1) & 1:
                status = Path(f"/proc/{process.pid}/status").read_text()
                caught = int(
                    next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16
                )
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=60), (b"\n", b""))
            self.assertEqual(process.returncode, 130)


class Tokenize(Case):
    MLT = DATA / "tokenizers/smollm2.mlt"

    def out(self, *args, name=None, **kwargs):
        result = krafla(*(() if name else ("tokenize",)), self.MLT, *args, name=name, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode()

    def test_forms_of_output(self):
        text = "Hi \u65e5<|im_end|>"
        ids = json.loads(self.out("--json", "--text", text))
        self.assertEqual(self.out("--text", text), " ".join(map(str, ids)) + "\n")
        self.assertEqual(self.out("--text", text, name="ml_tok"), " ".join(map(str, ids)) + "\n")
        self.assertEqual(self.out(input=text.encode()), " ".join(map(str, ids)) + "\n")
        self.assertEqual(self.out("--count", "--text", text), f"{len(ids)}\n")
        tokens = json.loads(self.out("--json", "--offsets", "--pieces", "--text", text))
        self.assertEqual([token["id"] for token in tokens], ids)
        self.assertEqual(tokens[0], {"id": ids[0], "begin": 0, "end": 2, "piece": "Hi"})
        self.assertEqual((tokens[-1]["begin"], tokens[-1]["end"], tokens[-1]["piece"]), (6, 16, "<|im_end|>"))
        table = [line.split("\t") for line in self.out("--offsets", "--pieces", "--text", text).splitlines()]
        self.assertEqual(
            [[int(a), int(b), int(c), json.loads(d)] for a, b, c, d in table],
            [list(token.values()) for token in tokens],
        )
        self.assertEqual(json.loads(self.out("--decode", "--json", "--text", str(ids))), text)
        self.assertEqual(self.out("--decode", "--skip-special", "--text", str(ids)), "Hi \u65e5")

    def test_lines_of_json(self):
        ids = [[int(i) for i in self.out(input=text).split()] for text in (b"a", b"b\n")]
        self.assertEqual(
            [json.loads(line) for line in self.out("--jsonl", input=b'"a"\n"b\\n"').splitlines()], ids
        )
        self.assertEqual(self.out("--jsonl", "--count", input=b'"a"\n""\n'), "1\n0\n")

    def test_special(self):
        import mlt

        mlt.write_mlt(
            self.folder / "b.mlt", mlt.Tokenizer(kind=2, flags=1, bos=0, tokens=[(1, b"<s>"), (0, b"a")])
        )
        for options, want in (((), b"1\n"), (("--no-special",), b"1\n"), (("--special",), b"0 1\n")):
            self.assertEqual(krafla("tokenize", self.folder / "b.mlt", "--text", "a", *options).stdout, want)

    def test_bench(self):
        file = self.folder / "text"
        file.write_text("Hello there. " * 100)
        figures = json.loads(self.out("--bench", file, "--json"))
        self.assertEqual(figures["bytes"], 1300)
        self.assertGreater(figures["mb_per_s"], 0)
        self.assertIn("MB/s", self.out("--bench", file))

    def test_input_that_cannot_be_read(self):
        folder = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, folder)
        for options in ((), ("--jsonl",), ("--decode",)):
            self.assert_fails(
                krafla("tokenize", self.MLT, *options, stdin=folder), 4, "ML_E_IO", "standard input"
            )
        for options in (
            (self.folder / "none",),
            ("--bench", self.folder / "none"),
            ("--jsonl", self.folder / "none"),
        ):
            self.assert_fails(krafla("tokenize", self.MLT, *options), 4, "ML_E_IO", "none")

    def test_json_that_is_none(self):
        """Invalid JSON is refused. Deep nesting must not overflow the stack."""
        deep = b"[" * 100_000 + b"]" * 100_000
        for line in (b"[[[", deep, b"{", b"3"):
            for options in ((), ("--decode",)):
                done = krafla("tokenize", self.MLT, "--jsonl", *options, input=line)
                self.assert_fails(done, 5, "line 1")
        for text in (b"foo", b"[[[", b"1 ] 2", b"[1", b"]", b"[[1]]"):
            self.assert_fails(krafla("tokenize", self.MLT, "--decode", input=text), 5, "is not a token id")
        for text in (b"[ ]", b" ", b"", b"[]\n"):
            self.assertEqual(self.out("--decode", input=text), "")
        for text in (b"1,2", b"1 2", b" [1,\n2]\n"):
            self.assertEqual(self.out("--decode", input=text), self.out("--decode", "--text", "1 2"))
        ids = self.folder / "ids.json"
        ids.write_bytes(deep)
        self.assert_fails(
            krafla("logits", DATA / "models/tiny-q4.mlb", "--ids", ids, "--out", self.folder / "x.npy"),
            5,
            "ids.json",
        )

    def test_options_that_exclude_each_other(self):
        for options in (
            ("--count", "--decode"),
            ("--pieces", "--decode"),
            ("--text", "a", "--jsonl"),
            ("x", "--text", "a"),
            ("--skip-special",),
        ):
            self.assert_fails(krafla("tokenize", self.MLT, *options), 2, "--")


if __name__ == "__main__":
    unittest.main()
