#!/usr/bin/env python3
"""Draws what `krafla bench --json` measured:
krafla bench MODEL --depth 0,512,2048 --json | bench/plot.py OUT.svg

Tokens per second over what was varied (depth, else threads, else the number of sequences), a line for each
combination of the rest, with the limit of the machine as a dashed line. Needs matplotlib.
"""

import argparse
import json
import sys

AXES = {"depth": "depth", "threads": "threads", "batch": "sequences at once"}


def series(report):
    """(the varied key, {label: rows}), each row a measured cell."""
    rows = [dict(row, kind=kind) for kind in ("prefill", "decode") for row in report[kind]]
    varied = next((key for key in AXES if len({row[key] for row in rows}) > 1), "depth")
    rest = [key for key in ("kind", "n", "depth", "threads", "batch") if key != varied]
    lines = {}
    for row in rows:
        lines.setdefault(", ".join(f"{key} {row[key]}" for key in rest), []).append(row)
    return varied, lines


def main():
    parser = argparse.ArgumentParser(description="Draws the output of krafla bench --json.")
    parser.add_argument("out", help="the picture to write; its ending says the format")
    options = parser.parse_args()
    report = json.load(sys.stdin)

    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    varied, lines = series(report)
    figure, axis = plt.subplots(figsize=(7, 4))
    for label, rows in lines.items():
        x = [row[varied] for row in rows]
        (line,) = axis.plot(x, [row["tok_s"] for row in rows], "o-", label=label)
        axis.plot(x, [row["limit_tok_s"] for row in rows], "--", color=line.get_color())
    axis.set_xlabel(AXES[varied])
    axis.set_ylabel("tokens per second")
    axis.set_ylim(bottom=0)
    axis.set_title(report["model"], fontsize=9)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(options.out)


if __name__ == "__main__":
    main()
