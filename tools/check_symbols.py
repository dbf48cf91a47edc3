#!/usr/bin/env python3
"""Checks that each object of src/kernels/targets exports one symbol and no weak one: check_symbols.py
OBJECT...

An inline function that is not inlined becomes a weak symbol. The linker keeps one copy of it for the whole
program. If that copy came from a file built with -mavx2, the program would crash on CPUs without AVX2. So
helpers of these files are in anonymous namespaces. """

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
