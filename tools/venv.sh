#!/usr/bin/env bash
# Creates a Python environment with pinned packages: tools/venv.sh DIRECTORY REQUIREMENTS.txt
# Does nothing if the environment already holds exactly these requirements.
set -euo pipefail
directory=$1 requirements=$2

cmp -s "$requirements" "$directory/requirements.txt" && exit 0
echo "venv: making $directory with $(grep -v '^#' "$requirements" | tr '\n' ' ')" >&2
[ -x "$directory/bin/python" ] || python3 -m venv "$directory"
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
cp "$requirements" "$directory/requirements.txt"  # last, so that an incomplete environment is created again
