#!/usr/bin/env python3
"""Holds the objects of src/kernels/targets to one exported symbol each, and none weak: check_symbols.py OBJECT...

A file built with -mavx2 must not share code with the rest: an inline function from it would be a weak symbol, and the
linker might take that copy, AVX2 instructions and all, for everybody. So helpers live in anonymous namespaces.
"""

import subprocess
import sys

WEAK = "WVu"  # as nm prints them: weak, weak object, unique; upper case otherwise is exported


def complaints(path):
    lines = subprocess.run(
        ["nm", "--demangle", "--defined-only", path], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    symbols = [line.split(maxsplit=2)[1:] for line in lines]
    exported = [name for kind, name in symbols if kind.isupper() and kind not in WEAK]
    found = [f"weak symbol {name}" for kind, name in symbols if kind in WEAK]
    if len(exported) != 1:
        found.append(f"{len(exported)} exported symbols, one is allowed: {', '.join(exported)}")
    return [f"{path.rsplit('/', 1)[-1]}: {text}" for text in found]


def main():
    found = [line for path in sys.argv[1:] for line in complaints(path)]
    print("\n".join(found) or f"{len(sys.argv) - 1} objects, one exported symbol each")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
