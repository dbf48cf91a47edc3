#!/usr/bin/env python3
"""tools/convert_tokenizer.py SOURCE [OUT.mlt]: runs `krafla convert-tokenizer` (of KRAFLA, or
build/release/krafla)."""
import os
import pathlib
import sys

program = os.environ.get(
    "KRAFLA", str(pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "krafla")
)
try:
    os.execv(program, ["krafla", "convert-tokenizer", *sys.argv[1:]])
except OSError as error:
    sys.exit(f"{program}: {error.strerror}; build it with make, or name the program in KRAFLA")
