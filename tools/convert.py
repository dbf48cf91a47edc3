#!/usr/bin/env python3
"""Converts a checkpoint: runs `krafla convert`, with option names of its own.

    convert.py HF_DIR OUT.mlb [--wtype q8|q4] [--scales f16|f32] [--q8 CLASS,...] [--q4-rule search|round]
               [--imatrix FILE] [--no-tokenizer] [-t N]

The program is $KRAFLA, build/release/krafla of this tree, or the krafla on the PATH.
"""
import argparse
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def find_krafla():
    """The program's path; None if there is none."""
    if os.environ.get("KRAFLA"):
        return os.environ["KRAFLA"]
    built = ROOT / "build/release/krafla"
    return str(built) if built.exists() else shutil.which("krafla")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source", metavar="HF_DIR", help="folder of a Hugging Face checkpoint, or a GGUF file"
    )
    parser.add_argument("out", metavar="OUT.mlb")
    parser.add_argument(
        "--wtype", choices=("q8", "q4"), default="q8", help="how matrices are stored (default: q8)"
    )
    parser.add_argument("--scales", choices=("f16", "f32"))
    parser.add_argument("--q8", metavar="CLASS,...", help="with q4: classes of matrices kept as Q8_0")
    parser.add_argument("--q4-rule", choices=("search", "round"))
    parser.add_argument("--imatrix", metavar="FILE")
    parser.add_argument("--no-tokenizer", action="store_true")
    parser.add_argument("-t", "--threads", type=int)
    args = parser.parse_args()
    krafla = find_krafla()
    if krafla is None:
        print("convert.py: there is no krafla: run `make`, or set KRAFLA to its path", file=sys.stderr)
        return 1
    command = [krafla, "convert", args.source, args.out, "--type", {"q8": "q8_0", "q4": "q4_0"}[args.wtype]]
    for option, value in (
        ("--scales", args.scales),
        ("--q8", args.q8),
        ("--q4-rule", args.q4_rule),
        ("--imatrix", args.imatrix),
        ("--threads", args.threads),
    ):
        if value is not None:
            command += [option, str(value)]
    if args.no_tokenizer:
        command.append("--no-tokenizer")
    try:
        os.execv(krafla, command)
    except OSError as e:
        print(f"convert.py: {krafla}: cannot be run: {e.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
