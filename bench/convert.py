#!/usr/bin/env python3
"""Measures `krafla convert` on one thread: GB of BF16 weights per minute, of elapsed and of CPU time, and
peak memory.

    python3 bench/convert.py [build/release/krafla]

Makes a checkpoint of 309 million random weights in a temporary folder and converts it five times in each
type; the fastest run counts. Needs numpy.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/golden"))
import random_checkpoint

CONFIG = dict(
    model_type="llama",
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=4,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=32000,
    max_position_embeddings=4096,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
)
CASES = (
    ("Q8_0", []),
    ("Q4_0 search", ["--type", "q4_0"]),
    ("Q4_0 round", ["--type", "q4_0", "--q4-rule", "round"]),
)


def write_checkpoint(folder):
    """Writes the checkpoint, and returns the number of its weights."""
    rng = np.random.RandomState(1)
    values = random_checkpoint.stored((0.02 * rng.standard_normal(1 << 24)).astype(np.float32), "BF16")
    shapes = [
        ("model.embed_tokens.weight", (CONFIG["vocab_size"], CONFIG["hidden_size"])),
        ("model.norm.weight", (CONFIG["hidden_size"],)),
    ]
    shapes += [
        (f"model.layers.{i}.{name}", shape)
        for i in range(CONFIG["num_hidden_layers"])
        for name, shape in random_checkpoint.layer_shapes(CONFIG, i)
    ]
    entries = {name: ("BF16", shape, (values * 4)[: 2 * int(np.prod(shape))]) for name, shape in shapes}
    (folder / "config.json").write_text(json.dumps(CONFIG))
    random_checkpoint.write_file(folder / "model.safetensors", entries)
    return sum(int(np.prod(shape)) for _, shape in shapes)


def memory(pid):
    """Resident anonymous and file pages in MB."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return [int(fields[name].split()[0]) / 1e3 for name in ("RssAnon", "RssFile")]
    except (OSError, KeyError):  # it has ended
        return [0, 0]


def measure(command):
    """(seconds, CPU seconds, peak anonymous MB, peak file MB)."""

    def cpu():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, start, peak = cpu(), time.monotonic(), [0, 0]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = [max(pair) for pair in zip(peak, memory(process.pid))]
            time.sleep(0.02)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with code {process.returncode}")
    return time.monotonic() - start, cpu() - before, *peak


def main():
    krafla = sys.argv[1] if len(sys.argv) > 1 else "build/release/krafla"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        source.mkdir()
        size = 2e-9 * write_checkpoint(source)
        print(
            f"| {size:.2f} GB of BF16, one thread | GB a minute | by CPU time | peak MB of its own | of the "
            f"source |\n|---|---|---|---|---|"
        )
        for case, options in CASES:
            runs = [
                measure(
                    [
                        krafla,
                        "convert",
                        str(source),
                        os.path.join(name, "out.mlb"),
                        "--quiet",
                        "-t",
                        "1",
                        *options,
                    ]
                )
                for _ in range(5)
            ]
            wall, cpu = min(r[0] for r in runs), min(r[1] for r in runs)
            print(
                f"| {case} | {60 * size / wall:.1f} | {60 * size / cpu:.1f} | {max(r[2] for r in runs):.0f} "
                f"| {max(r[3] for r in runs):.0f} |"
            )


if __name__ == "__main__":
    main()
