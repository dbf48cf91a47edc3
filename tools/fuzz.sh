#!/usr/bin/env bash
# Runs every libFuzzer target of a build for some seconds: tools/fuzz.sh BUILD_FOLDER SECONDS
# The target fuzz_NAME starts from fuzz/corpus/NAME. New inputs and findings go to the build folder.
set -euo pipefail
folder=$1 seconds=$2

mapfile -t targets < <(find "$folder" -maxdepth 1 -type f -executable -name 'fuzz_*' | sort)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets in $folder" >&2; exit 1; }
failed=0
for target in "${targets[@]}"; do
  name=$(basename "$target" | sed 's/^fuzz_//')
  echo "==== $name"
  mkdir -p "$folder/corpus/$name" "$folder/findings"
  corpus=("$folder/corpus/$name")
  [ ! -d "fuzz/corpus/$name" ] || corpus+=("fuzz/corpus/$name")
  if ! "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$folder/findings/$name-" "${corpus[@]}"; then
    echo "fuzz: $name FAILED, see $folder/findings" >&2
    failed=1
  fi
done
exit $failed
