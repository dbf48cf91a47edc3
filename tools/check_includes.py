#!/usr/bin/env python3
"""Holds the includes of src/ against the folders' rules, and keeps include/krafla/ free of anyone else's headers.

The rules are the table of docs/architecture.md ("May include"). A folder's krafla_library(NAME folders...) line may
list no more than its row, and its files include no more than that line; nothing is allowed by way of another folder,
except base/, which is everyone's. A folder without such a line (a program's) goes by its row.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
C_HEADERS = {"stddef.h", "stdint.h", "stdbool.h"}


def rules():
    """{folder: the folders it may include}, from the rows `| kernels | base |` of the page's table."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    return {folder: set(re.findall(r"\w+", allowed)) | {"base"} for folder, allowed in rows}


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in {".h", ".hpp", ".cpp", ".inc", ".c"})


def check_folder(folder, allowed):
    found = []
    line = re.search(r"krafla_library\(([^)]*)\)", (folder / "CMakeLists.txt").read_text()) if (folder / "CMakeLists.txt").exists() else None
    if line:
        name, *listed = line[1].split()
        if name != folder.name:
            found.append(f"src/{folder.name}/CMakeLists.txt: the library is called {name}")
        found += [f"src/{folder.name}/CMakeLists.txt: lists {other}, which docs/architecture.md does not allow" for other in sorted(set(listed) - allowed)]
        allowed = set(listed) | {"base"}
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    for path in sources(folder):
        for _, header in INCLUDE.findall(path.read_text()):
            first = header.split("/")[0]
            if first in folders and first not in allowed | {folder.name}:
                found.append(f"{path.relative_to(ROOT)}: includes {header}; {folder.name} may include: {', '.join(sorted(allowed))}")
            if header.startswith("../") or "/../" in header:
                found.append(f"{path.relative_to(ROOT)}: includes {header}; write the path from src/")
    return found


def check_public(path):
    """A public header includes its own kind and the language's headers; the C one only C's."""
    found = []
    for quote, header in INCLUDE.findall(path.read_text()):
        own = quote == '"' and header.startswith("krafla/")
        standard = quote == "<" and (header in C_HEADERS or (path.suffix == ".hpp" and re.fullmatch(r"[a-z_]+", header)))
        if not own and not standard:
            found.append(f"{path.relative_to(ROOT)}: includes {header}; public headers include only krafla/ and the language's own")
    return found


def main():
    allowed, found = rules(), []
    for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir() and sources(path)):
        if folder.name not in allowed:
            found.append(f"src/{folder.name}: has no row in the table of docs/architecture.md")
        else:
            found += check_folder(folder, allowed[folder.name])
    for path in sources(ROOT / "include/krafla"):
        found += check_public(path)
    print("\n".join(found) if found else f"includes: {len(allowed)} folders keep their rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
