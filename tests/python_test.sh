#!/usr/bin/env bash
# Runs one Python test file under ctest: tests/python_test.sh test_NAME.py numpy comes from build/venv, which
# `make test` creates. Without it the test is skipped (exit code 77), with a message.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/build/venv/bin/python
if ! "$python" -c 'import numpy' 2>/dev/null; then
  echo "SKIPPED $1: no numpy in build/venv. make test installs it; was the package index out of reach?" >&2
  exit 77
fi
cd "$root/tests/python"
PYTHONPATH="$root/tools" exec "$python" -B -W error -m unittest -v "$1"
