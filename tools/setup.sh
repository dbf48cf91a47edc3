#!/usr/bin/env bash
# Installs the Debian packages of a group: tools/setup.sh GROUP...
# If nothing is missing, it prints nothing and uses neither apt nor the network.
set -euo pipefail

fail() {
  echo "setup: $*" >&2
  exit 1
}

packages_of() {
  case "$1" in
    run)
      echo g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libedit-dev
      echo python3 python3-venv ca-certificates
      ;;
    test) packages_of run && echo libgtest-dev ;;
    sanitize | fuzz) packages_of test && echo clang-19 libclang-rt-19-dev lld-19 ;;
    format) echo clang-format-19 black ;;
    lint) packages_of test && packages_of format && echo clang-tidy-19 pyflakes3 shellcheck ;;
    foreign-aarch64) echo g++-aarch64-linux-gnu qemu-user googletest ;;
    foreign-arm) echo g++-arm-linux-gnueabihf qemu-user googletest ;;
    foreign-programs) packages_of foreign-aarch64 && packages_of foreign-arm ;;
    foreign-wasm)
      echo clang-19 lld-19 libclang-rt-19-dev-wasm32 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32
      echo wasi-libc nodejs
      ;;
    foreign-simde) echo libsimde-dev ;;
    peers) packages_of run ;;
    *)
      fail "unknown group '$1'; known: run, test, sanitize, fuzz, format, lint, peers," \
        "foreign-{aarch64,arm,programs,wasm,simde}"
      ;;
  esac
}

[ $# -gt 0 ] || fail "usage: tools/setup.sh GROUP..."
wanted=$(for group in "$@"; do packages_of "$group"; done | tr ' ' '\n' | sort -u)
mapfile -t wanted <<<"$wanted"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "needs Debian's apt. On other systems, install the equivalents of: ${wanted[*]}; then use SETUP=no"
fi
# dpkg-query exits with 1 if it does not know a package. This is an answer, not a failure.
installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${wanted[@]}" 2>/dev/null |
  sed -n 's/^ii *//p' | sort -u) || true
mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") <(echo "$installed"))
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "neither root nor sudo here; as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
[ ${#as_root[@]} -eq 0 ] || echo "setup: sudo may ask for your password" >&2

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >&2; }
update() { apt update || fail "apt-get update failed: is there a network?"; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }

# The package lists are updated if one of the packages is not in them (a fresh machine has no lists), or if
# the files that they name no longer exist.
known=$(apt-cache --no-all-versions show "${missing[@]}" 2>/dev/null | grep -c '^Package:') || true
[ "$known" -eq ${#missing[@]} ] || update
install || { update && install; } || fail "could not install ${missing[*]}"
