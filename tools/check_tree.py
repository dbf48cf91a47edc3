#!/usr/bin/env python3
"""Holds the tree's text files to what a reader and another machine need: no file too long, no path or host of one machine.

Long files are where readers get lost; kernels, one algorithm after another, may be longer. Generated tables (.inc) are exempt.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST, LONGEST_KERNEL = 800, 1200
CODE = {".h", ".hpp", ".c", ".cpp", ".py", ".sh"}
# Homes and mounts, wherever they are; not the likes of a URL's or a repository's path.
MACHINE_PATH = re.compile(r"(?<![\w./:<>~-])/(?:home|root|Users|mnt|media|scratch|workspace|work)/\w")
LINK = re.compile(r"https?://([\w.-]+)")
HOSTS = {
    "github.com",
    "huggingface.co",
    "keepachangelog.com",
    "semver.org",
    "spdx.org",
    "www.unicode.org",
    "arxiv.org",
    "json-schema.org",
    "localhost",
    "127.0.0.1",
    "example.com",
    "llvm.org",
    "en.wikipedia.org",
    "schema.org",
    "www.w3.org",
}


def files():
    """What git tracks or would track; in a tree without git, everything but the two ignored folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    if listed.returncode == 0 and names:
        return [path for path in (ROOT / name for name in names) if path.is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and path.relative_to(ROOT).parts[0] not in {"build", "models", ".git"}
    ]


def check(path):
    name = path.relative_to(ROOT)
    if name.parts[:2] == ("tests", "data") or name.parts[:2] == ("fuzz", "corpus"):
        return []
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return []
    lines, found = text.splitlines(), []
    limit = LONGEST_KERNEL if name.parts[:2] == ("src", "kernels") else LONGEST
    if path.suffix in CODE and len(lines) > limit:
        found.append(f"{name}: {len(lines)} lines, at most {limit}")
    for number, line in enumerate(lines, 1):
        machine = MACHINE_PATH.search(line)
        if machine or str(ROOT) in line:
            found.append(f"{name}:{number}: a path of one machine: {line.strip()[:100]}")
        found += [
            f"{name}:{number}: a link to {host}: add it to HOSTS of tools/check_tree.py if the text needs it"
            for host in LINK.findall(line)
            if host not in HOSTS
        ]
    return found


def main():
    found = [line for path in files() if path != pathlib.Path(__file__).resolve() for line in check(path)]
    print("\n".join(found) if found else "tree: no file too long, no path of one machine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
