#!/usr/bin/env bash
# Tests the instruction sets that this CPU lacks, against the scalar code and the oracle:
#   tests/foreign.sh [aarch64 | arm | wasm | simde]...  without arguments: all four
#   tests/foreign.sh programs                           the whole program and all C++ tests on AArch64 and ARM
# Needs build/release (`make build-tests`). A part whose tools cannot be installed is skipped with a warning.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
native=build/release/tests/kernel_sums
kernel_tests="test_base test_kernels test_model kernel_sums"
# Left out: tests of how the engine divides its work. They are slow in an emulator and the same on every CPU.
engine='-*DoNotMatter*:*AreExact*'

# The commands that each group of tools/setup.sh provides.
commands_of() {
  case "$1" in
    aarch64) echo aarch64-linux-gnu-g++ qemu-aarch64 ;;
    arm) echo arm-linux-gnueabihf-g++ qemu-arm ;;
    programs) commands_of aarch64 && commands_of arm ;;
    wasm) echo clang++-19 wasm-ld-19 node ;;
    simde) echo g++ ;;
  esac
}

has_all_of() {
  if [ "${SETUP:-}" != no ]; then tools/setup.sh "foreign-$1" || return 1; fi
  for command in $(commands_of "$1"); do command -v "$command" >/dev/null || return 1; done
}

# same_sums NAME COMMAND...: the command must print the same checksums as on this CPU. The command itself
# fails if two of its instruction sets differ.
same_sums() {
  local name=$1
  shift
  "$@" >"build/$name.sums" 2>"build/$name.agree" || { cat "build/$name.agree" >&2; return 1; }
  cat "build/$name.agree" >&2
  $native >build/native.sums 2>/dev/null
  cmp "build/$name.sums" build/native.sums
}

# build DIRECTORY TARGETS -- CMAKE'S OPTIONS. Only the kernels are fully optimized, because compiling takes
# longer than running.
build() {
  local directory=$1 targets=$2
  shift 3
  cmake -G Ninja -S . -B "$directory" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
    -DKRAFLA_TESTS=ON "$@" >&2
  # shellcheck disable=SC2086
  cmake --build "$directory" --target $targets >&2
}

# on NAME CPU EXPECTED: on that CPU the fastest set must be EXPECTED, and the checksums must be right.
on() {
  local used
  export QEMU_CPU=$2
  echo "==== $1, $QEMU_CPU: $3"
  same_sums "$1" "qemu-$1" "build/$1/tests/kernel_sums"
  used=$(sed -n '$s/^agrees: //p' "build/$1.agree")
  [ "$used" = "$3" ] || { echo "foreign: on $QEMU_CPU the fastest set is '$used', not $3" >&2; exit 1; }
}

tests_of() {
  ctest --test-dir "build/$1" -j"$jobs" --no-tests=error --output-on-failure "${@:2}"
}

aarch64() {
  build build/aarch64 "$kernel_tests" -- --toolchain cmake/foreign/aarch64.cmake
  on aarch64 cortex-a76 dotprod
  on aarch64 cortex-a53 neon
  GTEST_FILTER='ChooseKernels.*' tests_of aarch64 -R '^kernels$'  # this CPU lacks some of the sets
  on aarch64 max i8mm
  GTEST_FILTER=$engine tests_of aarch64 -R '^(base|kernels|model)$'
}

arm() {
  build build/arm "$kernel_tests" -- --toolchain cmake/foreign/arm.cmake
  on arm max neon
  GTEST_FILTER=$engine tests_of arm -R '^(base|kernels|model)$'
}

programs() {
  for cpu in aarch64:cortex-a53 arm:max; do
    local name=${cpu%:*}
    export QEMU_CPU=${cpu#*:}
    echo "==== $name, $QEMU_CPU: the program, all C++ tests"
    build "build/$name" "krafla cxx_tests" -- --toolchain "cmake/foreign/$name.cmake"
    GTEST_FILTER=$engine tests_of "$name" -L cxx
    tests_of "$name" -R '^python_cpu$'
  done
}

wasm() {
  echo "==== WASM: simd128"
  local to=build/wasm flags
  flags=(--target=wasm32-wasi -msimd128 -std=c++20 -O2 -ffp-contract=off -fno-math-errno -fno-exceptions
    -Wall -Wextra -Werror -Isrc -Iinclude)
  mkdir -p $to
  clang++-19 "${flags[@]}" src/kernels/targets/{scalar,simd128}.cpp src/base/math.cpp \
    tests/kernels/kernel_sums.cpp -o $to/kernel_sums.wasm
  same_sums wasm node --no-warnings tests/kernels/wasi.mjs $to/kernel_sums.wasm
}

simde() {
  if ! grep -qw avx2 /proc/cpuinfo; then
    echo "WARNING: this CPU has no AVX2: AVX-VNNI and AVX-512 through SIMDe are SKIPPED" >&2
    return
  fi
  build build/simde "test_kernels test_model kernel_sums" -- -DKRAFLA_SIMDE=ON
  echo "==== SIMDe: AVX-VNNI, AVX-512, AVX-512 VNNI"
  same_sums simde build/simde/tests/kernel_sums
  GTEST_FILTER='*avxvnni:*avx512*:*EveryPrompt*' tests_of simde -R '^(kernels|model)$'
}

[ $# -gt 0 ] || set -- aarch64 arm wasm simde
for part in "$@"; do
  start=$SECONDS
  if has_all_of "$part"; then
    "$part"
    echo "foreign: $part took $((SECONDS - start)) s"
  else
    echo "WARNING: no compiler or emulator for $part (tools/setup.sh foreign-$part failed):" \
      "its tests are SKIPPED" >&2
  fi
done
