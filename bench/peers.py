#!/usr/bin/env python3
"""Measures krafla, llama.cpp and ik_llama.cpp side by side, in one run, on the same weights: `make bench`, or
build/peers/venv/bin/python bench/peers.py [--quick] [--shape NAME] [--isa NAME].

The weights are SmolLM2-135M-Instruct, quantized to pure Q8_0 and Q4_0 by llama.cpp and converted to .mlb.
With --shape they are random weights with the sizes of a published model, saved by `krafla bench` and
converted to GGUF by bench/mlb_to_gguf.py. Both peers read the same file.

Each figure comes from its own process. The engines take turns (A B C A B C ...), and medians are compared. In
the first round a peer runs in all its settings (flash attention on and off, weights repacked or not), later
only in those that were its best in some cell; the best median counts. A setting that crashes is named and
left out.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import engines
from engines import ROOT, WORK

SOURCE = ROOT / "models/cache/SmolLM2-135M-Instruct.Q4_1.gguf"
BUSY_LIMIT = 0.10  # share of the CPU used by other programs, above which the figures are unreliable
PROMPT = (
    "The harbour of the town lies open to the north, and in winter the boats are drawn up on the shingle "
    "beside the old salt house where"
)
# name: (kind, ...), the arguments of bench/peer.cpp. Of "first" the figure is the seconds of a whole process,
# of "beside" the milliseconds of the largest gap; else tokens per second.
CELLS = {
    "prefill 512": ("prefill", 512, 0, 1),
    "decode 128": ("decode", 128, 0, 1),
    "decode at 2048": ("decode", 32, 2048, 1),
    "decode at 7900": ("decode", 32, 7900, 1),
    "decode of 8": ("decode", 32, 0, 8),
    "decode of 32": ("decode", 32, 0, 32),
    "first token": ("first", PROMPT),
    "1 request": ("joining", 1, 64, 64, 256),
    "8 requests joining": ("joining", 8, 64, 64, 256),
    "32 requests joining": ("joining", 32, 64, 64, 256),
    "64 requests joining": ("joining", 64, 64, 64, 256),
    "gap of 8 beside a prompt": ("beside", 8, 7936, 64),
}
UNITS = {"first": " s", "beside": " ms"}  # in which less is better
QUICK = ["prefill 512", "decode 128", "decode at 2048", "decode of 8", "first token"]


def note(text):
    print(text, file=sys.stderr, flush=True)


class Crash(Exception):
    pass


def process(command):
    """(output, seconds, peak MB of resident memory) of a process."""
    start = time.perf_counter()
    child = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise Crash(f"{' '.join(map(str, command))} ended with {child.returncode}")
    return output, time.perf_counter() - start, usage.ru_maxrss / 1024


# ---- the engines: each measures a cell and returns (figure, peak MB) ----


class Krafla:
    def __init__(self, name, program, isa):
        self.name, self.program, self.isa = name, program, [] if isa == "native" else ["--isa", isa]

    def measure(self, weights, threads, cell):
        kind, *numbers = cell
        options = ["-t", threads, *self.isa]
        if kind == "first":
            command = [self.program, "run", weights.model, "--raw", "-p", PROMPT, "-n", 1, "--temp", 0]
            _, seconds, peak = process([*command, *options])
            return seconds, peak
        command = [self.program, "bench", weights.model, "--json", *options]
        if kind in ("joining", "beside"):
            option = "--requests" if kind == "joining" else "--beside"
            output, _, peak = process([*command, "--prefill", 0, "--decode", 0, option, numbers[0]])
            return json.loads(output)["engine"][0]["tok_s" if kind == "joining" else "largest_gap_ms"], peak
        n, depth, batch = numbers
        other = "--decode" if kind == "prefill" else "--prefill"
        output, _, peak = process([*command, f"--{kind}", n, other, 0, "--depth", depth, "--batch", batch])
        return json.loads(output)[kind][0]["tok_s"], peak


class Peer:
    def __init__(self, engine, isa, flash, repack):
        self.program, self.flags = engines.peer(engine, isa), (int(flash), int(repack))
        self.name = engine + (" flash" if flash else "") + (" repack" if repack else "")

    def measure(self, weights, threads, cell):
        output, seconds, peak = process([self.program, weights.gguf, threads, *self.flags, *cell])
        return (seconds if cell[0] == "first" else float(output.split()[0])), peak


# ---- weights ----


class Weights:
    """The same values as a GGUF and as a .mlb."""

    def __init__(self, krafla, shape, kind):
        name = f"{shape or 'smollm2-135m'}-{kind}"
        self.gguf, self.model, self.kind = (
            WORK / f"{name}{'-random' if shape else ''}.gguf",
            WORK / f"{name}{'-random' if shape else ''}.mlb",
            kind,
        )
        if shape:
            self.make(
                self.model,
                lambda part: self.call(
                    krafla,
                    "bench",
                    "--shape",
                    shape,
                    "--type",
                    kind,
                    "--prefill",
                    0,
                    "--decode",
                    0,
                    "--save",
                    part,
                ),
            )
            self.make(
                self.gguf,
                lambda part: self.call(sys.executable, ROOT / "bench/mlb_to_gguf.py", self.model, part),
            )
        else:
            self.make(
                self.gguf, lambda part: self.call(engines.peer("llama.cpp"), "quantize", SOURCE, part, kind)
            )
            if not self.model.exists():
                self.call(krafla, "convert", self.gguf, self.model.with_suffix(""), "--type", kind)

    @staticmethod
    def call(*command):
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)

    @staticmethod
    def make(path, maker):
        if not path.exists():
            note(f"making {path.relative_to(ROOT)}")
            part = path.with_name("partial-" + path.name)
            maker(part)
            part.rename(path)


# ---- the run ----


def busy_share(seconds):
    """The share of all CPUs that others use while this process sleeps."""

    def read():
        fields = [
            int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ]
        return sum(fields), fields[3] + fields[4]  # idle and waiting for a disk

    before = read()
    time.sleep(seconds)
    after = read()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


class Cell:
    """The samples of all engines in one cell."""

    def __init__(self, name, weights, threads):
        self.name, self.weights, self.threads = name, weights, threads
        self.samples, self.peaks, self.crashed = {}, {}, []
        self.unit = UNITS.get(CELLS[name][0], "")

    def measure(self, engine):
        if engine.name in self.crashed:
            return
        try:
            figure, peak = engine.measure(self.weights, self.threads, CELLS[self.name])
        except Crash as crash:
            note(f"  {engine.name}: {crash}")
            self.crashed.append(engine.name)
            return
        self.samples.setdefault(engine.name, []).append(figure)
        self.peaks.setdefault(engine.name, []).append(peak)

    def best(self, engine):
        """(setting, median) of an engine's best setting, or None."""
        better = min if self.unit else max
        medians = {
            name: statistics.median(values)
            for name, values in self.samples.items()
            if name.split()[0] == engine
        }
        return better(medians.items(), key=lambda item: item[1], default=None)

    def ratio(self, engine):
        """How many times faster krafla is."""
        own, peer = self.best("krafla"), self.best(engine)
        if not own or not peer:
            return None
        return peer[1] / own[1] if self.unit else own[1] / peer[1]


def measure(cells, settings, rounds):
    """Takes all samples in turns. Returns the largest share of the CPU that other programs used."""
    worst = 0
    for number in range(rounds):
        busy = busy_share(0.5)
        worst = max(worst, busy)
        for cell in cells:
            chosen = settings
            if number > 0:  # the settings that were an engine's best in some cell of these weights
                best = {
                    found[0]
                    for other in cells
                    for name in {setting.name.split()[0] for setting in settings}
                    if other.weights is cell.weights
                    and other.threads == cell.threads
                    and (found := other.best(name))
                }
                chosen = [setting for setting in settings if setting.name in best]
            for setting in chosen:
                cell.measure(setting)
            shown = ", ".join(f"{name} {values[-1]:.3g}" for name, values in cell.samples.items())
            note(
                f"round {number + 1}, {cell.weights.kind}, {cell.threads} threads, {cell.name}: "
                f"{shown}{'  (others are busy)' if busy > BUSY_LIMIT else ''}"
            )
    return worst


def table(cells, peers):
    lines = [
        "| weights | threads | what | krafla | "
        + " | ".join(f"{peer} | ratio" for peer in peers)
        + " | peak MB |",
        "|---|---|---|---|" + "---|---|" * len(peers) + "---|",
    ]
    for cell in cells:
        row, memory = [], []
        for engine in ("krafla", *peers):
            found = cell.best(engine)
            row.append(f"{found[1]:{'.3f' if cell.unit == ' s' else '.1f'}}{cell.unit}" if found else "–")
            memory.append(f"{statistics.median(cell.peaks[found[0]]):.0f}" if found else "–")
            if engine != "krafla":
                ratio = cell.ratio(engine)
                row.append(f"**{ratio:.2f}**" if ratio else "–")
        lines.append(
            f"| {cell.weights.kind.upper()} | {cell.threads} | {cell.name} | {' | '.join(row)} | "
            f"{' / '.join(memory)} |"
        )
    return "\n".join(lines)


def plot(cells, peers, path, title):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    labels = [f"{cell.name}\n{cell.weights.kind.upper()}, {cell.threads}" for cell in cells]
    figure, axes = plt.subplots(figsize=(max(6, 0.55 * len(cells)), 4))
    for i, (peer, color) in enumerate(zip(peers, ("tab:orange", "tab:green", "tab:blue"))):
        axes.bar(
            [x + 0.25 * i - 0.25 for x in range(len(cells))],
            [cell.ratio(peer) or 0 for cell in cells],
            0.24,
            label=f"over {peer}",
            color=color,
        )
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(cells)), labels, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("times as fast")
    axes.set_title(title, fontsize=9)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


def cpu_name():
    names = [
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else 'unknown CPU'}, {os.cpu_count()} logical"


def main():
    parser = argparse.ArgumentParser(description="krafla, llama.cpp and ik_llama.cpp, side by side.")
    parser.add_argument("--quick", action="store_true", help="few cells, two rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kinds", nargs="+", choices=["q8_0", "q4_0"], default=["q8_0", "q4_0"])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS))
    parser.add_argument("--peers", nargs="+", choices=list(engines.PACKAGES), default=list(engines.PACKAGES))
    parser.add_argument(
        "--shape", help="random weights of this shape (krafla bench --help) in place of SmolLM2-135M"
    )
    parser.add_argument(
        "--isa", choices=list(engines.ISAS), default="native", help="all engines with this instruction set"
    )
    parser.add_argument("--krafla", type=pathlib.Path, default=ROOT / "build/release/krafla")
    parser.add_argument(
        "--before", type=pathlib.Path, help="an earlier krafla program, measured as one more peer"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=WORK / "results.json", help="every sample; the plot beside it"
    )
    options = parser.parse_args()
    if not options.krafla.exists() or not (options.shape or SOURCE.exists()):
        sys.exit("peers: no krafla or no model; run make and tools/fetch_model.py first")
    rounds = options.rounds or (2 if options.quick else 5)
    names = [
        name
        for name in options.cells or (QUICK if options.quick else CELLS)
        if CELLS[name][0] != "first" or not options.shape
    ]  # a shape has no tokenizer

    WORK.mkdir(parents=True, exist_ok=True)
    peers = [engine for engine in options.peers if not (options.isa == "sse2" and engine == "ik_llama.cpp")]
    krafla = [Krafla("krafla", options.krafla, options.isa)]
    if options.before:
        krafla.append(Krafla("before", options.before, options.isa))
    settings = krafla + [
        Peer(engine, options.isa, flash, repack)
        for engine in peers
        for flash in (True, False)
        for repack in (True, False)
    ]
    weights = [Weights(options.krafla, options.shape, kind) for kind in options.kinds]
    cells = [Cell(name, w, threads) for w in weights for threads in options.threads for name in names]
    load = [os.getloadavg()[0]]
    worst = measure(cells, settings, rounds)
    load.append(os.getloadavg()[0])

    title = (
        f"{options.shape or 'SmolLM2-135M'}, {cpu_name()}, {options.isa}, {time.strftime('%Y-%m-%d')}; "
        f"medians of {rounds}; load average {load[0]:.2f} before, {load[1]:.2f} after"
    )
    report = {
        "title": title,
        "load": load,
        "busy": worst,
        "rounds": rounds,
        "cells": [
            {
                "kind": c.weights.kind,
                "threads": c.threads,
                "name": c.name,
                "samples": c.samples,
                "peak_mb": c.peaks,
                "crashed": c.crashed,
            }
            for c in cells
        ],
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    names = peers + ["before"] * bool(options.before)
    plot(cells, names, options.out.with_suffix(".svg"), title)
    print(f"{title}; tokens/s where no unit is given; peak memory krafla / {' / '.join(names)}\n")
    print(table(cells, names))
    best = {name: sorted({found[0] for c in cells if (found := c.best(name))}) for name in engines.PACKAGES}
    print("\nBest settings: " + "; ".join(f"{name}: {', '.join(found)}" for name, found in best.items()))
    crashed = sorted({(c.weights.kind, name) for c in cells for name in c.crashed})
    if crashed:
        print("Crashed: " + ", ".join(f"{name} with {kind}" for kind, name in crashed))
    if worst > BUSY_LIMIT:
        print(
            f"\nWARNING: other programs used up to {100 * worst:.0f} % of the CPU during this run: do not "
            f"quote these figures."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
