#!/usr/bin/env bash
# One Python test file under ctest: tests/python_test.sh test_NAME.py. Its numpy lives in build/venv (`make test` makes it);
# without it the test is skipped (exit code 77), loudly.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/build/venv/bin/python
if ! "$python" -c 'import numpy' 2>/dev/null; then
  echo "SKIPPED $1: no numpy in build/venv. It is fetched by make test; was the package index out of reach?" >&2
  exit 77
fi
cd "$root/tests/python"
PYTHONPATH="$root/tools" exec "$python" -B -W error -m unittest -v "$1"
