#!/usr/bin/env python3
"""Checks the text files of the tree: no file, line or C++ function too long, and no path or host of one
machine.

Readers get lost in long files; kernels, one algorithm after another, may be longer. Generated tables (.inc),
test data and the fuzzers' corpora are exempt. So are the lines of Markdown tables, and lines with a link or a
raw string literal, because they cannot be broken.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST, LONGEST_KERNEL = 800, 1200
WIDEST = 110
LONGEST_FUNCTION = 60
CXX = {".h", ".hpp", ".c", ".cpp"}
CODE = CXX | {".py", ".sh"}
UNWRAPPED = {".inc", ".svg"}
# Home folders and mounts, but not parts of a URL or of a repository's path.
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


NOT_CODE = re.compile(
    r"""//(?:[^\n\\]|\\.)* | /\*.*?\*/               # comments
    | R"(?P<end>[^(\n]*)\(.*?\)(?P=end)"           # raw string literals
    | "(?:[^"\\\n]|\\.)*"                          # string literals
    | (?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'          # characters; 1'000 is a number
    | (?m:^)[ \t]*\#(?:[^\n\\]|\\.)*               # directives of the preprocessor
    """,
    re.DOTALL | re.VERBOSE,
)
RAW_STRING = re.compile(r'R"(?P<end>[^(\n]*)\(.*?\)(?P=end)"', re.DOTALL)
TEMPLATE = re.compile(r"\btemplate\s*<[^{}]*?>\s*(?=\w)")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")
MEMBER_INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)")


def opens_function(head, outer):
    """Whether the brace behind `head` begins a function's body. `outer`: what the enclosing brace began."""
    head = TEMPLATE.sub("", head).strip()
    if outer != "scope" or SCOPE.search(head) or head.endswith("=") or "(" not in head:
        return False
    # Behind a constructor's member, as in `) : size_{1}`, a brace is an initializer.
    return not (MEMBER_INITIALIZERS.search(head) and re.search(r"[\w>]$", head))


def functions(text):
    """(first line, length in lines) of each C++ function. A lambda belongs to the function around it."""
    text = NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    stack, start = ["scope"], 0  # start: where the head of the next declaration begins
    for brace in re.finditer(r"[{};]", text):
        if brace[0] == "{":
            head = text[start : brace.start()]
            kind = "other"
            if opens_function(head, stack[-1]):
                kind = text.count("\n", 0, start + len(head) - len(head.lstrip()))
            elif (
                stack[-1] == "scope"
                and SCOPE.search(TEMPLATE.sub("", head))
                and not head.rstrip().endswith("=")
            ):
                kind = "scope"
            stack.append(kind)
            if kind == "scope":
                start = brace.end()
        elif brace[0] == "}":
            kind = stack.pop() if len(stack) > 1 else "other"
            if isinstance(kind, int):
                yield kind + 1, text.count("\n", 0, brace.end()) - kind + 1
            if kind != "other":
                start = brace.end()
        elif stack[-1] == "scope":
            start = brace.end()


def check_widths(name, path, text):
    raw = {
        number
        for literal in RAW_STRING.finditer(text)
        for number in range(text.count("\n", 0, literal.start()), text.count("\n", 0, literal.end()) + 1)
    }
    for number, line in enumerate(text.splitlines()):
        exempt = (
            (path.suffix == ".md" and line.lstrip().startswith("|")) or "https://" in line or number in raw
        )
        if len(line) > WIDEST and not exempt:
            yield f"{name}:{number + 1}: {len(line)} columns, at most {WIDEST}"


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
    if path.suffix not in UNWRAPPED:
        found += check_widths(name, path, text)
    if path.suffix in CXX:
        found += [
            f"{name}:{first}: a function of {length} lines, at most {LONGEST_FUNCTION}"
            for first, length in functions(text)
            if length > LONGEST_FUNCTION
        ]
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
    print("\n".join(found) if found else "tree: no file, line or function too long, no path of one machine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
