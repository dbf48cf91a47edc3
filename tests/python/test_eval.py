"""Compares `krafla perplexity`, `imatrix` and `run --imatrix` with the oracle in numpy: equal bits, for any
number of threads and any batch.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import hf
import mlb
import mli
import mlt
import ref_forward as ref
import ref_math as rm

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "data" / "models"
KRAFLA = os.environ["KRAFLA"]
F64 = np.float64
BOS = 1


def krafla(*args, **kwargs):
    kwargs.setdefault("stdin", None if "input" in kwargs else subprocess.DEVNULL)
    if "input" in kwargs:
        kwargs.pop("stdin")
    return subprocess.run(
        ["krafla", *map(str, args)], executable=KRAFLA, capture_output=True, timeout=120, **kwargs
    )


# ---------------------------------------------------------------- the oracle of the figures


def lane_sum(x):
    """A2 in float64."""
    lanes = np.zeros(8)
    for i in range(0, len(x), 8):
        lanes[: len(x[i : i + 8])] += x[i : i + 8]
    a = lanes
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))


def log_softmax(row):
    x = row.astype(F64) - F64(row.max())
    return x - rm.log64(lane_sum(rm.exp64(x)))


def kl_of(p, q):
    return lane_sum(rm.exp64(p) * (p - q))


def cumulated(x):
    return np.cumsum(x)[-1]  # one by one, in order


def estimate(x):
    x = np.asarray(x, F64)
    mean = cumulated(x) / len(x)
    return mean, np.sqrt(cumulated((x - mean) * (x - mean)) / len(x) / (len(x) - 1))


def windows(n, ctx, stride):
    """(begin, end, first scored position) of each window, counted in the text, as docs/formats/logits.md
    defines them."""
    if stride == 0:
        return [(w * ctx, (w + 1) * ctx, ctx // 2) for w in range(n // ctx)]
    out, begin = [], 0
    while True:
        out.append((begin, min(begin + ctx, n), 0 if begin == 0 else ctx - stride - 1))
        if begin + ctx >= n:
            return out
        begin += stride


class Oracle:
    """A model's rows at the scored positions of a text."""

    def __init__(self, path, kv="f16"):
        self.model = mlb.read(path)
        self.forward = ref.Forward(self.model, ref.Contract(kv))

    def rows(self, ids, ctx, stride, bos, vocab):
        """[(row [vocab], token that came)]"""
        out = []
        for begin, end, first in windows(len(ids), ctx, stride):
            fed = ([bos] if bos >= 0 else [ids[begin]]) + list(ids[begin + 1 : end])
            logits = self.forward.logits(fed)[:, :vocab].astype(np.float32)
            out += [(logits[p], fed[p + 1]) for p in range(first, len(fed) - 1)]
        return out


def squares(model, windows_of_ids):
    """The sums of an importance matrix: the float inputs of every matrix product of the oracle, squared and
    added in order."""
    inputs = {}
    names = {id(tensor): name for name, tensor in model.tensors.items()}

    class Recording(ref.Contract):
        def matmul(self, x, w):
            inputs.setdefault(names[id(w)], []).append(x.copy())
            return super().matmul(x, w)

    forward = ref.Forward(model, Recording())
    for ids in windows_of_ids:
        forward.logits(ids)

    def total(name):
        return np.cumsum(np.concatenate(inputs[name]).astype(F64) ** 2, axis=0)[-1]

    layers = []
    for i in range(model.header.n_layers):
        own = [n for n in ("wq", "lqkv") if f"layers.{i}.{n}" in inputs][0]
        out = {"wq": "wo", "lqkv": "lout"}[own]
        layers.append([total(f"layers.{i}.{n}") for n in (own, out, "w1", "w2")])
    return layers, total("tok_emb" if model.header.shared_classifier else "wcls")


# ---------------------------------------------------------------- the program


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def put(self, file, name="m", n_vocab=None, bos=-1):
        """Writes a model with a tokenizer of one character per token: character 32 + i is id i. Returns its
        NAME."""
        path = self.folder / f"{name}.mlb"
        path.write_bytes((MODELS / file).read_bytes())
        vocab = mlb.read(path).header.vocab
        n_vocab = min(n_vocab or vocab, vocab, 90)
        tokens = [(1 if i == bos else 0, bytes([i + 32])) for i in range(n_vocab)]
        mlt.write_mlt(
            self.folder / f"{name}.mlt",
            mlt.Tokenizer(
                kind=2, flags=32 | (1 if bos >= 0 else 0), bos=bos, eos=-1, tokens=tokens, merges=[]
            ),
        )
        self.vocab = n_vocab
        return self.folder / name

    def text(self, n, seed=1):
        """A file of n tokens, and their ids."""
        ids = np.random.RandomState(seed).randint(2, self.vocab, n)
        path = self.folder / f"text{n}"
        path.write_bytes(bytes(int(i) + 32 for i in ids))
        return path, [int(i) for i in ids]

    def good(self, *args, **kwargs):
        result = krafla(*args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def report(self, *args, **kwargs):
        return json.loads(self.good("perplexity", *args, "--json", **kwargs))

    def assert_fails(self, result, code, *mentions):
        text = result.stderr.decode()
        self.assertEqual(result.returncode, code, text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertEqual(result.stdout, b"")
        for mention in mentions:
            self.assertIn(str(mention), text)


class Perplexity(Case):
    def check(self, file, ctx, stride, bos, n):
        model = self.put(file, bos=bos)
        path, ids = self.text(n)
        if bos >= 0:
            ids = [bos] + ids
        rows = Oracle(f"{model}.mlb").rows(ids, ctx, stride, bos, self.vocab)
        mean, error = estimate([-log_softmax(row)[token] for row, token in rows])
        wanted = {"value": float(rm.exp64(mean)), "error": float(rm.exp64(mean) * error)}
        options = ["--ctx", ctx] + (["--stride", stride] if stride else [])
        for more in (
            [],
            ["-t", 1, "--batch", 1],
            ["-t", 5, "--batch", 7],
            ["-t", 2, "--batch", 17, "--isa", "scalar"],
        ):
            report = self.report(model, path, *options, *more)
            self.assertEqual(report["ppl"], wanted, (file, options, more))
            self.assertEqual(
                (report["tokens"], report["windows"]), (len(rows), len(windows(len(ids), ctx, stride)))
            )

    def test_chunks_equal_the_oracle(self):
        self.check("gemma2-like-q4.mlb", 21, 0, -1, 70)

    def test_chunks_with_bos_equal_the_oracle(self):
        self.check("head6-q8.mlb", 16, 0, BOS, 50)

    def test_sliding_equals_the_oracle(self):
        self.check("all-q4.mlb", 20, 7, -1, 45)

    def test_sliding_with_bos_scores_every_token_once(self):
        self.check("head6-q8.mlb", 12, 11, BOS, 40)

    def test_text_from_standard_input_and_a_limit(self):
        model = self.put("tiny-q4.mlb")
        path, ids = self.text(200)
        whole = self.report(model, path, "--ctx", 16, "--chunks", 3)
        self.assertEqual(self.report(model, "-", "--ctx", 16, "--chunks", 3, input=path.read_bytes()), whole)
        self.assertEqual((whole["windows"], whole["tokens"]), (3, 21))
        self.assertIn(
            "PPL = {:.4f} ± ".format(whole["ppl"]["value"]),
            self.good("perplexity", model, path, "--ctx", 16, "--chunks", 3).decode(),
        )

    def test_what_cannot_be_measured(self):
        model = self.put("tiny-q4.mlb")
        short, _ = self.text(31)
        self.assert_fails(krafla("perplexity", model, short, "--ctx", 16), 2, "31 tokens", "32")
        self.assert_fails(krafla("perplexity", model, short, "--ctx", 16, "--stride", 16), 2, "stride", "16")
        self.assert_fails(krafla("perplexity", model, short, "--ctx", 100000), 2, "max_seq")
        self.assert_fails(krafla("perplexity", model, self.folder / "none"), 4, "none")
        self.assert_fails(
            krafla("perplexity", model, "-", "--stride", 4, "--ctx", 8, input=b" "), 2, "1 token;"
        )
        big = self.put("all-q4.mlb", "big")
        self.put("tiny-q4.mlb")
        self.assert_fails(
            krafla("perplexity", model, short, "--ctx", 8, "-z", f"{big}.mlt"), 6, "big.mlt", "n_vocab"
        )
        Path(f"{model}.mlt").unlink()
        self.assert_fails(krafla("perplexity", model, short, "--ctx", 8), 4, "m.mlt")

    def test_the_default_window_fits_the_model(self):
        model = self.put("tiny-q4.mlb")
        max_seq = mlb.read(f"{model}.mlb").header.max_seq
        self.assertLess(max_seq, 512)
        path, _ = self.text(2 * max_seq)
        self.assertEqual(self.report(model, path, "--chunks", 1)["ctx"], max_seq)
        self.good("imatrix", model, path, "--chunks", 1)
        self.assertEqual(mli.read_mli(f"{model}.mli").layer_tokens, max_seq)

    def test_of_one_value_the_error_is_unknown(self):
        model = self.put("tiny-q4.mlb")
        path, _ = self.text(8)
        options = [model, path, "--ctx", 4, "--chunks", 1, "--kl", model]
        report = self.report(*options)
        self.assertEqual(
            (report["tokens"], report["ppl"]["error"], report["kl"]["error"], report["rms_dp"]["error"]),
            (1, None, None, None),
        )
        text = self.good("perplexity", *options).decode()
        self.assertEqual((text.count("± ?\n"), text.count("nan")), (6, 0), text)
        self.assertIn("± ?   (1 window of 4 tokens, 1 scored)", text)

    def test_nan_logits_are_named(self):
        model = self.put("nan-q4.mlb")  # NaN from token 5 on
        path = self.folder / "t"
        path.write_bytes(bytes(32 + i for i in [7] * 20 + [5] + [7] * 11))
        self.assert_fails(
            krafla("perplexity", model, path, "--ctx", 16, "--batch", 3),
            1,
            "ML_E_NUMERIC",
            "window 1",
            "position 8",
        )


class Divergence(Case):
    def setUp(self):
        super().setUp()
        self.base = self.put("llama3-q8.mlb", "base")
        self.model = self.put("llama3-q4.mlb")
        self.path, self.ids = self.text(70)

    def wanted(self, ctx):
        q = Oracle(f"{self.model}.mlb").rows(self.ids, ctx, 0, -1, self.vocab)
        p = Oracle(f"{self.base}.mlb").rows(self.ids, ctx, 0, -1, self.vocab)
        kl, dp, top, ratio = [], [], [], []
        for (row_q, token), (row_p, _) in zip(q, p):
            log_q, log_p = log_softmax(row_q), log_softmax(row_p)
            kl.append(kl_of(log_p, log_q))
            dp.append(rm.exp64(log_q[token]) - rm.exp64(log_p[token]))
            top.append(float(row_q.argmax() == row_p.argmax()))
            ratio.append(log_p[token] - log_q[token])
        return kl, np.array(dp), top, ratio

    def test_equals_the_oracle(self):
        kl, dp, top, ratio = self.wanted(32)
        report = self.report(self.model, self.path, "--ctx", 32, "--kl", self.base, "--batch", 5, "-t", 3)
        mean, error = estimate(kl)
        self.assertEqual(
            (report["kl"]["mean"], report["kl"]["error"], report["kl"]["max"]), (mean, error, max(kl))
        )
        for name, q in (("median", 0.5), ("q90", 0.9), ("q95", 0.95), ("q99", 0.99), ("q99.9", 0.999)):
            self.assertAlmostEqual(
                report["kl"][name], np.quantile(kl, q), delta=1e-14, msg=name
            )  # numpy may round the weights differently
        self.assertEqual(report["same_top"]["value"], np.mean(top))
        self.assertEqual(report["mean_dp"]["value"], estimate(dp)[0])
        square, square_error = estimate(dp * dp)
        self.assertEqual(
            report["rms_dp"], {"value": np.sqrt(square), "error": square_error / (2 * np.sqrt(square))}
        )
        mean, error = estimate(ratio)
        self.assertEqual(report["ppl_ratio"], {"value": rm.exp64(mean), "error": rm.exp64(mean) * error})
        self.assertEqual(report["base_ppl"], self.report(self.base, self.path, "--ctx", 32)["ppl"])

    def test_against_itself_there_is_none(self):
        report = self.report(self.base, self.path, "--ctx", 16, "--kl", self.base)
        self.assertEqual((report["kl"]["mean"], report["kl"]["max"], report["rms_dp"]["value"]), (0, 0, 0))
        self.assertEqual((report["same_top"]["value"], report["ppl_ratio"]), (1, {"value": 1, "error": 0}))

    def test_saved_logits_say_the_same_as_their_model(self):
        saved = self.folder / "base.mll"
        for options in (["--ctx", 16], ["--ctx", 16, "--stride", 5]):
            plain = self.report(self.base, self.path, *options)
            self.assertEqual(self.report(self.base, self.path, *options, "--save-logits", saved), plain)
            self.assertEqual(
                self.report(self.model, self.path, *options, "--kl", saved, "--batch", 3),
                self.report(self.model, self.path, *options, "--kl", self.base),
            )

    def test_a_file_from_a_script(self):
        """The writer that docs/formats/logits.md prints gives the same bytes."""
        rows = [row for row, _ in Oracle(f"{self.base}.mlb").rows(self.ids, 16, 0, -1, self.vocab)]
        written, saved = self.folder / "script.mll", self.folder / "saved.mll"
        write_mll(written, self.vocab, 16, self.ids[:64], rows)
        self.good("perplexity", self.base, self.path, "--ctx", 16, "--save-logits", saved)
        self.assertEqual(saved.read_bytes(), written.read_bytes())

    def test_inspect(self):
        saved = self.folder / "base.mll"
        self.good("perplexity", self.base, self.path, "--ctx", 16, "--save-logits", saved)
        shown = json.loads(self.good("inspect", saved, "--json"))
        self.assertEqual(
            {
                "format": "mll",
                "vocab": self.vocab,
                "ctx": 16,
                "stride": 0,
                "bos": -1,
                "bytes": saved.stat().st_size,
            },
            {key: shown[key] for key in ("format", "vocab", "ctx", "stride", "bos", "bytes")},
        )
        self.assertEqual(
            shown["bytes"], -(-(32 + 4 * shown["n_ids"]) // 64) * 64 + 4 * shown["rows"] * self.vocab
        )
        self.assertIn(b"scored positions", self.good("inspect", saved))
        saved.write_bytes(saved.read_bytes()[:-1])
        self.assert_fails(krafla("inspect", saved), 5, "base.mll")

    def test_other_texts_and_broken_files_are_refused(self):
        saved, args = self.folder / "s.mll", ["perplexity", self.model, self.path, "--ctx", 16, "--kl"]
        self.good("perplexity", self.base, self.path, "--ctx", 16, "--save-logits", saved)
        data = saved.read_bytes()

        def with_word(at, value):
            return data[:at] + struct.pack("<i", value) + data[at + 4 :]

        for change, code, mentions in (
            (data[:-4], 5, ["size"]),
            (data + b"\0", 5, ["size"]),
            (data[:31], 5, ["31"]),
            (data[:100], 5, ["ids"]),
            (with_word(4, 2), 5, ["version"]),
            (with_word(8, 0), 5, ["vocab"]),
            (with_word(12, -1), 5, ["ctx"]),
            (with_word(16, 16), 5, ["stride"]),
            (with_word(20, 0), 5, ["windows"]),
            (with_word(20, -1), 5, ["n_ids"]),
            (with_word(24, -1), 5, ["n_ids"]),
            (with_word(28, 9999), 5, ["bos"]),
            (with_word(36, -1), 5, ["token 1"]),
            (with_word(32 + 4 * 64, 1), 5, ["padding"]) if (32 + 4 * 64) % 64 else (data[:-4], 5, ["size"]),
            (with_word(28, 3), 6, ["bos", "-1"]),
            (with_word(36, 0), 6, ["token 1", self.ids[1]]),
            (with_word(len(data) - 4, 0x7FC00000), 1, ["ML_E_NUMERIC", "base", "window 3", "position 14"]),
        ):
            saved.write_bytes(change)
            self.assert_fails(krafla(*args, saved), code, *mentions)
        saved.write_bytes(data)
        self.assert_fails(
            krafla("perplexity", self.model, self.path, "--ctx", 32, "--kl", saved), 6, "ctx is 16"
        )
        self.assert_fails(
            krafla("perplexity", self.model, self.path, "--ctx", 16, "--chunks", 2, "--kl", saved),
            6,
            "windows is 4",
        )
        other = self.put("tiny-q4.mlb", "other")
        self.assert_fails(krafla("perplexity", self.model, self.path, "--ctx", 16, "--kl", other), 6, "vocab")
        twin = self.put("llama3-q8.mlb", "twin", n_vocab=60, bos=BOS)
        self.assert_fails(
            krafla("perplexity", self.model, self.path, "--ctx", 16, "--kl", twin), 6, "twin.mlt"
        )
        self.assert_fails(krafla(*args, self.folder / "none"), 4, "none")
        self.assert_fails(
            krafla("perplexity", self.model, self.path, "--ctx", 16, "--save-logits", f"{self.model}.mlb"),
            2,
            "m.mlb",
        )

    def test_failure_leaves_no_file(self):
        model = self.put("nan-q4.mlb", "nan")
        path = self.folder / "t"
        path.write_bytes(bytes(32 + i for i in [7] * 20 + [5] + [7] * 11))
        self.assertEqual(
            krafla("perplexity", model, path, "--ctx", 16, "--save-logits", self.folder / "x.mll").returncode,
            1,
        )
        self.assertFalse((self.folder / "x.mll").exists())


def printed_writer():
    """write_mll, as docs/formats/logits.md prints it."""
    page = (ROOT / "docs/formats/logits.md").read_text()
    names = {"np": np}
    exec(page.split("```python\n")[1].split("```")[0], names)
    return names["write_mll"]


write_mll = printed_writer()


class Importance(Case):
    def assert_sums(self, path, layers, classifier, layer_tokens, classifier_tokens):
        found = mli.read_mli(path)
        self.assertEqual((found.layer_tokens, found.classifier_tokens), (layer_tokens, classifier_tokens))
        for i, layer in enumerate(layers):
            for slot, (sums, wanted) in enumerate(zip(found.layers[i], layer)):
                self.assertTrue(np.array_equal(sums, wanted), (i, slot))
        self.assertTrue(np.array_equal(found.classifier, classifier))

    def check(self, file, bos=-1):
        name = self.put(file, bos=bos)
        path, ids = self.text(45)
        if bos >= 0:
            ids = [bos] + ids
        cut = [([bos] if bos >= 0 else ids[i : i + 1]) + ids[i + 1 : i + 20] for i in range(0, len(ids), 20)]
        layers, classifier = squares(mlb.read(f"{name}.mlb"), cut)
        out = self.folder / "out.mli"
        for more in (
            [],
            ["-t", 1, "--batch", 1],
            ["-t", 2, "--batch", 3],
            ["-t", 5, "--batch", 7, "--isa", "scalar"],
        ):
            self.good("imatrix", name, path, "--out", out, "--ctx", 20, *more)
            self.assert_sums(out, layers, classifier, len(ids), len(ids))
        self.good("imatrix", name, path, "--ctx", 20, "--chunks", 1)  # beside the model
        layers, classifier = squares(mlb.read(f"{name}.mlb"), cut[:1])
        self.assert_sums(f"{name}.mli", layers, classifier, 20, 20)

    def test_equals_the_oracle(self):
        for file, bos in (
            ("head6-q8.mlb", BOS),
            ("gemma3-like-q8.mlb", -1),
            ("gate-yarn-q4.mlb", -1),
            ("head20-bias-q4.mlb", -1),
            ("linear-window-q4.mlb", -1),
        ):
            with self.subTest(file):
                self.check(file, bos)

    def test_run_counts_the_prompt_without_the_classifier(self):
        name, out = self.put("head6-q8.mlb"), self.folder / "run.mli"
        prompt = "ABCDEFGHIJ"
        text = self.good("run", name, "--raw", "-p", prompt, "--temp", 0, "-n", 4, "--imatrix", out)[
            :-1
        ].decode()
        fed = [ord(c) - 32 for c in prompt + text][:-1]  # the last token is not fed
        self.assertEqual(len(fed), 13)
        model = mlb.read(f"{name}.mlb")
        layers, _ = squares(model, [fed])
        trace = {}
        ref.Forward(model, ref.Contract(), trace.__setitem__).logits(fed)
        classifier = np.cumsum(trace["final_norm"][9:].astype(F64) ** 2, axis=0)[-1]
        self.assert_sums(out, layers, classifier, 13, 4)

    def test_nan_is_the_models(self):
        name = self.put("nan-q4.mlb")  # NaN from token 5 on
        path = self.folder / "t"
        path.write_bytes(bytes(32 + i for i in [7] * 20 + [5] + [7] * 11))
        self.assert_fails(
            krafla("imatrix", name, path, "--ctx", 16),
            1,
            "ML_E_NUMERIC",
            f"{name}.mlb: ",
            "layers.0.wq/wk/wv",
        )
        self.assertEqual(list(self.folder.glob("*.mli")), [])

    def test_it_is_refused(self):
        name = self.put("tiny-q4.mlb")
        for args in (
            ["imatrix", name, self.folder / "none", "-o"],
            ["run", name, "--raw", "-p", "!", "-n", 1, "--imatrix"],
        ):
            for out in (
                self.folder,
                self.folder / "no/x.mli",
            ):  # before the text is read or a token is written
                self.assert_fails(krafla(*args, out), 4, out)
        path, _ = self.text(20)
        self.assert_fails(krafla("imatrix", name, path, "--out", f"{name}.mlb"), 2, "m.mlb")
        self.assert_fails(krafla("imatrix", name, path, "--ctx", 1 << 20), 2, "max_seq")
        self.assert_fails(krafla("imatrix", name, "-", "--ctx", 16), 2, "no tokens")
        self.assert_fails(
            krafla("imatrix", name, path, "--ctx", 16, "--out", self.folder / "no/x.mli"), 4, "no/x.mli"
        )
        self.assert_fails(
            krafla("run", name, "--raw", "-p", "!", "-n", 1, "--imatrix", f"{name}.mlt"), 2, "m.mlt"
        )
        name = self.put("linear-q8.mlb")  # V·dv is not q_dim: there is no slot for lout's inputs
        path, _ = self.text(20)
        self.assert_fails(krafla("imatrix", name, path, "--ctx", 16), 6, f"{name}.mlb: ", "lout", "q_dim")
        self.assert_fails(
            krafla("run", name, "--raw", "-p", "!", "-n", 1, "--imatrix", self.folder / "x.mli"),
            6,
            f"{name}.mlb: ",
            "lout",
            "q_dim",
        )
        self.assertEqual(list(self.folder.glob("*.mli")), [])


class Outputs(Case):
    def test_the_models_files_are_not_written_over(self):
        model, other = self.put("tiny-q4.mlb"), self.put("tiny-q4.mlb", "other")
        for name in (model, other):
            Path(f"{name}.json").write_text("{}")
        path, _ = self.text(20)
        ids = self.folder / "ids.json"
        ids.write_text("[1]")
        before = {p: p.read_bytes() for p in self.folder.iterdir()}
        kl = ["perplexity", model, path, "--ctx", 8, "--kl", other, "--save-logits"]
        commands = [
            ["perplexity", model, path, "--ctx", 8, "--save-logits"],
            ["imatrix", model, path, "-o"],
            ["logits", model, "--ids", ids, "--out"],
            ["run", model, "--raw", "-p", "!", "-n", 1, "--imatrix"],
        ]
        for suffix in (".mlb", ".mlt", ".json"):
            for command, out in [(c, f"{model}{suffix}") for c in commands] + [(kl, f"{other}{suffix}")]:
                self.assert_fails(krafla(*command, out), 2, out, "is the file that is read")
        for command in (
            commands[0][:-1] + ["-z", other, "--save-logits"],
            ["imatrix", model, path, "-z", other, "-o"],
        ):  # -z without .mlt
            self.assert_fails(krafla(*command, f"{other}.mlt"), 2, f"{other}.mlt", "is the file that is read")
        self.assertEqual({p: p.read_bytes() for p in self.folder.iterdir()}, before)

    def test_closed_descriptors_are_not_given_to_the_output(self):
        model = self.put("tiny-q4.mlb")
        path, _ = self.text(20)
        out = self.folder / "m.mli"
        self.good("imatrix", model, path, "--ctx", 16, "-o", out)
        want = out.read_bytes()
        for descriptor in (0, 1, 2):
            out.unlink()
            done = krafla(
                "imatrix", model, path, "--ctx", 16, "-o", out, preexec_fn=lambda: os.close(descriptor)
            )
            self.assertEqual((done.returncode, out.read_bytes()), (0, want))

    def test_an_empty_text_has_no_importance(self):
        path = self.folder / "empty"
        path.write_bytes(b"")
        for bos in (-1, BOS):
            self.assert_fails(
                krafla("imatrix", self.put("tiny-q4.mlb", bos=bos), path, "--ctx", 16), 2, "no tokens"
            )

    def test_empty_names_are_refused(self):
        model = self.put("tiny-q4.mlb")
        path, _ = self.text(20)
        for args in (
            ["perplexity", model, path, "--ctx", 8, "--kl"],
            ["perplexity", model, path, "--ctx", 8, "--save-logits"],
            ["perplexity", model, path, "--ctx", 8, "-z"],
            ["imatrix", model, path, "-o"],
            ["perplexity", model],
            ["run", model, "--raw", "-p", "!", "-n", 1, "--imatrix"],
            ["run", model, "-f"],
        ):
            self.assert_fails(krafla(*args, ""), 2, "ML_E_ARG", "empty")
        self.assertEqual(list(self.folder.glob("*.mli")), [])

    def test_another_formats_file_is_no_base(self):
        model = self.put("tiny-q4.mlb")
        path, _ = self.text(20)
        base = self.folder / "base.mli"
        base.write_bytes(b"MLI1")
        self.assert_fails(krafla("perplexity", model, path, "--ctx", 8, "--kl", base), 5, base)


class Compare(Case):
    def test_equals_numpy(self):
        for model, checkpoint in (("llama3-q4", "llama3"), ("mistral_swa-q8", "mistral_swa")):
            path, folder = MODELS / f"{model}.mlb", ROOT / "tests/data/checkpoints" / checkpoint
            stored, source = mlb.read(path).tensors, hf.load(folder).tensors
            report = json.loads(self.good("compare", path, folder, "--json", "-t", 3))
            self.assertEqual(report["unequal"] + report["shapes"] + report["header"], [])
            self.assertEqual([t["name"] for t in report["tensors"]], list(stored))
            for t in report["tensors"]:
                x = np.asarray(source[t["name"]], F64)
                w = stored[t["name"]]
                y = (
                    np.asarray(w, F64)
                    if isinstance(w, np.ndarray)
                    else (
                        w.levels().astype(np.float32) * np.repeat(w.d.astype(np.float32), 32, axis=1)
                    ).astype(F64)
                )
                y = y.reshape(x.shape)
                self.assertEqual((t["weights"], t["max_error"]), (x.size, np.abs(x - y).max()), t["name"])
                self.assertAlmostEqual(
                    t["relative_rms"],
                    np.sqrt(((x - y) ** 2).sum() / (x * x).sum()),
                    delta=1e-12,
                    msg=t["name"],
                )
                self.assertAlmostEqual(
                    t["cosine"],
                    (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()),
                    delta=1e-12,
                    msg=t["name"],
                )
                self.assertEqual(t["relative_rms"] == 0, t["type"] == "F32", t["name"])
            self.assertEqual(
                sum(t["weights"] for t in report["classes"]), sum(t["weights"] for t in report["tensors"])
            )
            self.assertEqual(
                self.good("compare", path, folder, "-t", 1), self.good("compare", path, folder, "-t", 5)
            )

    def test_a_gguf_and_what_is_not_made_of_it(self):
        gguf, model = ROOT / "tests/data/gguf/llama_f32.gguf", self.folder / "m.mlb"
        self.good("convert", gguf, model, "--no-tokenizer")
        report = json.loads(self.good("compare", model, gguf, "--json"))
        self.assertEqual([len(report[key]) for key in ("unequal", "shapes", "header")], [0, 0, 0])
        data = model.read_bytes()
        header = mlb.read(model).header
        at = data.rindex(np.float32(mlb.read(model).tensors["final_norm"].reshape(-1)[-1]).tobytes())
        changed = bytearray(data)
        changed[at] ^= 1
        changed[8 + 4 * 7 : 8 + 4 * 8] = struct.pack("<f", 2 * header.rope_theta)
        model.write_bytes(changed)
        result = krafla("compare", model, gguf)
        self.assertEqual(result.returncode, 1)
        self.assertIn("final_norm is F32", result.stdout.decode())
        self.assertIn("differs: rope_theta", result.stdout.decode())
        result = krafla("compare", MODELS / "tiny-q4.mlb", gguf)
        self.assertEqual(result.returncode, 1)
        self.assertIn("differs: tok_emb: 3 × 32; the source's token_embd.weight", result.stdout.decode())
        self.assert_fails(krafla("compare", model, self.folder / "none.gguf"), 4, "none.gguf")


if __name__ == "__main__":
    unittest.main()
