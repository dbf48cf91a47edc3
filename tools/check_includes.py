#!/usr/bin/env python3
"""Checks the includes of src/ against the folders' rules, and that include/krafla/ includes nothing foreign.

The rules are the table of docs/architecture.md ("May include"). A folder's krafla_library(NAME folders...)
line may list no more than its row, and its files may include no more than that line. No folder is allowed
indirectly, except base/, which all may use. The row applies directly to a folder without such a line (a
program).

Only the program knows its options: no string outside src/cli/ names one, nor a command of it. The library
states facts.

No file of src/ may call functions of libm, because their last bit differs between libraries, and so would
headers and logits; base/math.h has the project's own. Square roots, rounding to integers, frexp, ldexp and
fmod are exact everywhere, and allowed. """

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
LIBM = re.compile(
    r"(\bstd::|(?<![\w>])::|__builtin_|(?<![\w.:>]))"
    r"(?:exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|hypot|sin|cos|tan|asin|acos|atan|"
    r"atan2|sinh|cosh|tanh|asinh|acosh|atanh|erf|erfc|lgamma|tgamma|fma)[fl]?\("
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*|krafla [a-z-]+|convert-tokenizer")
# The functions of base/math.h itself, and ** and round of chat templates, which are not part of the
# arithmetic. The kernels call A10's exp and tanh without a prefix.
OWN_MATH = {
    "src/base/math.h",
    "src/base/math.cpp",
    "src/base/float_math.inl.h",
    "src/jinja/operators.cpp",
    "src/jinja/text_filters.cpp",
}
C_HEADERS = {"stddef.h", "stdint.h", "stdbool.h"}


def rules():
    """{folder: the folders it may include}, from the rows `| kernels | base |` of the page's table."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    return {folder: set(re.findall(r"\w+", allowed)) | {"base"} for folder, allowed in rows}


def blank(comment):
    """The comment's line ends, so that line numbers stay."""
    return "\n" * comment[0].count("\n")


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in {".h", ".hpp", ".cpp", ".inc", ".c"})


def check_folder(folder, allowed):
    found = []
    line = (
        re.search(r"krafla_library\(([^)]*)\)", (folder / "CMakeLists.txt").read_text())
        if (folder / "CMakeLists.txt").exists()
        else None
    )
    if line:
        name, *listed = line[1].split()
        if name != folder.name:
            found.append(f"src/{folder.name}/CMakeLists.txt: the library is called {name}")
        found += [
            f"src/{folder.name}/CMakeLists.txt: lists {other}, which docs/architecture.md does not allow"
            for other in sorted(set(listed) - allowed)
        ]
        allowed = set(listed) | {"base"}
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    for path in sources(folder):
        for _, header in INCLUDE.findall(path.read_text()):
            first = header.split("/")[0]
            if first in folders and first not in allowed | {folder.name}:
                found.append(
                    f"{path.relative_to(ROOT)}: includes {header}; {folder.name} may include: "
                    f"{', '.join(sorted(allowed))}"
                )
            if header.startswith("../") or "/../" in header:
                found.append(f"{path.relative_to(ROOT)}: includes {header}; write the path from src/")
    return found


def check_options(path):
    """Options and commands of the program in the strings of the library."""
    name = str(path.relative_to(ROOT))
    if name.startswith("src/cli/"):
        return []
    return [
        f"{name}:{number}: a message names {option[0]}; src/cli/ adds such hints (cli/hint.h)"
        for number, line in enumerate(COMMENT.sub(blank, path.read_text()).splitlines(), 1)
        for string in STRING.findall(line)
        for option in OPTION.finditer(string)
    ]


def check_libm(path):
    name = str(path.relative_to(ROOT))
    if name in OWN_MATH:
        return []
    text = COMMENT.sub(blank, path.read_text())
    calls = [call for call in LIBM.finditer(text) if call[1] or not name.startswith("src/kernels/")]
    return [
        f"{name}:{text.count(chr(10), 0, call.start()) + 1}: calls {call[0]}...) of libm; base/math.h has "
        f"the project's own"
        for call in calls
    ]


def check_public(path):
    """A public header includes its own kind and the language's headers; the C one only C's."""
    found = []
    for quote, header in INCLUDE.findall(path.read_text()):
        own = quote == '"' and header.startswith("krafla/")
        standard = quote == "<" and (
            header in C_HEADERS or (path.suffix == ".hpp" and re.fullmatch(r"[a-z_]+", header))
        )
        if not own and not standard:
            found.append(
                f"{path.relative_to(ROOT)}: includes {header}; public headers include only krafla/ and the "
                f"language's own"
            )
    return found


def main():
    allowed, found = rules(), []
    for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir() and sources(path)):
        if folder.name not in allowed:
            found.append(f"src/{folder.name}: has no row in the table of docs/architecture.md")
        else:
            found += check_folder(folder, allowed[folder.name])
        for path in sources(folder):
            found += check_libm(path) + check_options(path)
    for path in sources(ROOT / "include/krafla"):
        found += check_public(path)
    print("\n".join(found) if found else f"includes: {len(allowed)} folders keep their rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
