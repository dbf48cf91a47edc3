#!/usr/bin/env python3
"""Draws how the time per token grows with context, model size and threads, and the minimum that the machine's
limits allow: build/peers/venv/bin/python bench/growth.py [--krafla PROGRAM] [--out FILE.svg]

Uses `krafla bench --json` to measure the decode of one sequence: SmolLM2-135M at several depths and numbers
of threads, and random weights of growing shapes. The limit is the one of `krafla bench`: the bytes that must
be read, divided by the measured read bandwidth.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/smollm2-135m-instruct.mlb"
DEPTHS = [0, 512, 1024, 2048, 4096, 8000]
SHAPES = ["smollm2-135m", "smollm2-360m", "qwen2.5-0.5b", "llama3.2-1b", "smollm2-1.7b"]
KINDS = {"q8_0": "tab:blue", "q4_0": "tab:orange"}


def bench(krafla, *arguments):
    command = [krafla, "bench", *map(str, arguments), "--prefill", "0", "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def milliseconds(rows, x):
    """[(x, milliseconds per token, minimum that the limits allow)]"""
    return [(row[x], 1000 / row["tok_s"], 1000 / row["limit_tok_s"]) for row in rows]


def main():
    parser = argparse.ArgumentParser(description="The time of a token over context, model size and threads.")
    parser.add_argument("--krafla", type=pathlib.Path, default=ROOT / "build/release/krafla")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/growth.svg")
    options = parser.parse_args()
    threads = list(range(1, len(os.sched_getaffinity(0)) + 1))

    panels = {"positions before": {}, "model size, GB": {}, "threads": {}}
    for kind in KINDS:
        model = ["--shape", "smollm2-135m", "--type", kind]
        decode = ["-n", 32, "-t", threads[-1]]
        panels["positions before"][kind] = milliseconds(
            bench(options.krafla, *model, *decode, "--depth", ",".join(map(str, DEPTHS)))["decode"], "depth"
        )
        panels["threads"][kind] = milliseconds(
            bench(options.krafla, *model, "-n", 64, "-t", ",".join(map(str, threads)))["decode"], "threads"
        )
        sizes = []
        for shape in SHAPES:
            print(f"{kind} {shape}", file=sys.stderr, flush=True)
            report = bench(options.krafla, "--shape", shape, "--type", kind, "-n", 16, "-t", threads[-1])
            sizes += [
                (report["bytes"] / 1e9, time, limit)
                for _, time, limit in milliseconds(report["decode"], "depth")
            ]
        panels["model size, GB"][kind] = sizes

    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
    for axis, (label, kinds) in zip(axes, panels.items()):
        for kind, points in kinds.items():
            x, times, limits = zip(*points)
            axis.plot(x, times, "o-", color=KINDS[kind], label=kind.upper())
            axis.plot(x, limits, "--", color=KINDS[kind], label=f"{kind.upper()}, limit")
        axis.set_xlabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms a token")
    axes[0].legend(fontsize=8)
    axes[2].set_xticks(threads)
    figure.tight_layout()
    figure.savefig(options.out, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    for label, kinds in panels.items():
        print(
            f"\n| {label} | "
            + " | ".join(f"{kind.upper()} ms | limit" for kind in kinds)
            + " |\n|"
            + "---|" * (1 + 2 * len(kinds))
        )
        for rows in zip(*kinds.values()):
            print(
                f"| {rows[0][0]:.4g} | "
                + " | ".join(f"{time:.2f} | {limit:.2f}" for _, time, limit in rows)
                + " |"
            )


if __name__ == "__main__":
    main()
