#!/usr/bin/env python3
"""Compares transformers itself with the project's readers, oracle and program, on random tiny checkpoints of
every family.

    KRAFLA=build/release/krafla VENV/bin/python tests/golden/sweep_transformers.py FIRST LAST [--write FOLDER]

For each seed of random_checkpoint.py: transformers' logits in float64 must be those of `ref_forward.py` on
the unquantized weights (1e-3); `krafla convert` must give hf.py's and mlb.py's bytes, from the folder and
from its GGUF twin; `krafla logits` the oracle's bits. --write keeps each checkpoint with golden.npz (prompt0,
logits0) and twin.gguf. Needs `pip install torch transformers`; no test does.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import gguf_twin
import hf
import mlb
import random_checkpoint
import ref_forward as ref

KRAFLA = os.environ.get("KRAFLA", "build/release/krafla")
BOUND = 1e-3
# (chunk, threads) of `krafla logits`
CUTS = ((1, 1), (13, 3), (64, 2), (4096, 2))


def krafla(*args):
    result = subprocess.run(
        [KRAFLA, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, timeout=600
    )
    if result.returncode:
        raise AssertionError(result.stderr.decode().strip())


def golden(folder, ids):
    """transformers' logits [T, vocab] of the text model in `folder`, in float64."""
    outer = json.loads((folder / "config.json").read_text())
    with tempfile.TemporaryDirectory() as inner:
        (Path(inner) / "config.json").write_text(json.dumps(outer.get("text_config", outer)))
        config = AutoConfig.from_pretrained(inner)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    checkpoint = hf.Checkpoint(folder)
    weights = {}
    for name in checkpoint.where:
        root = next(
            (r for r in ("model.language_model.", "language_model.model.") if name.startswith(r)), None
        )
        weights["model." + name[len(root) :] if root else name] = torch.tensor(checkpoint.read(name)).double()
    if config.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def check_program(folder, work, model, ids, seed):
    """Checks the program's bytes and bits, in both types."""
    family, kv = hf.Config(folder).family, ("f16", "f32", "q8_0")[seed % 3]
    (work / "ids.json").write_text(json.dumps(ids))
    for q4, kind in enumerate(("q8_0", "q4_0")):
        krafla(
            "convert", folder, work / "m.mlb", "--no-tokenizer", "--quiet", "--type", kind, "-t", 1 + seed % 3
        )
        mlb.write(
            work / "want.mlb",
            replace(model.header, wtype=1 + q4, scale_f16=1),
            model.layer_flags,
            model.tensors,
            q4_rule="round" if family == "gemma3" else "search",
        )
        assert (work / "m.mlb").read_bytes() == (work / "want.mlb").read_bytes(), f"bytes of {kind}"
        want = ref.Forward(mlb.read(work / "m.mlb"), ref.Contract(kv)).logits(ids)
        for chunk, threads in CUTS:
            krafla(
                "logits",
                work / "m.mlb",
                "--ids",
                work / "ids.json",
                "--out",
                work / "x.npy",
                "--chunk",
                chunk,
                "-t",
                threads,
                "--kv",
                kv,
            )
            assert np.array_equal(
                np.load(work / "x.npy").view(np.uint32), want.view(np.uint32)
            ), f"bits of {kind}, {kv}, chunks of {chunk}"


def check_twin(folder, work):
    """Checks header and layer flags from the twin (test_gguf.py compares all bytes). What a GGUF does not
    store is skipped."""
    model = gguf_twin.expected(folder)
    h, family = model.header, hf.Config(folder).family
    if (
        (h.act and not family.startswith("gemma"))
        or (family == "gemma2" and not (h.rope_theta == 1e4 and h.attn_softcap and h.final_softcap))
        or (h.rope_type == 1 and h.rope_high_freq_factor / h.rope_low_freq_factor != 4)
    ):
        return
    gguf_twin.write(folder, work / "twin.gguf")
    krafla("convert", work / "twin.gguf", work / "t.mlb", "--no-tokenizer", "--quiet")
    got, (want, flags) = mlb.read(work / "t.mlb"), mlb.canonical(
        replace(h, wtype=1, scale_f16=1), model.layer_flags
    )
    if (
        h.rope_type == 1
    ):  # a table of factors: other parameters may give the same one; one of ones is plain RoPE
        for field in ("rope_low_freq_factor", "rope_high_freq_factor", "rope_orig_max_seq") + (
            ("rope_type", "rope_factor") if got.header.rope_type == 0 else ()
        ):
            setattr(want, field, getattr(got.header, field))
    assert got.header == want and list(got.layer_flags) == list(
        flags
    ), f"twin: {got.header} instead of {want}"


def sweep(seed, keep):
    """The largest difference to transformers."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = keep / f"seed{seed}" if keep else work / "source"
        folder.mkdir(parents=True)
        c = random_checkpoint.write(folder, seed)
        rng = np.random.RandomState(seed)
        ids = rng.randint(
            0, c["vocab_size"], min(c["max_position_embeddings"], (20, 70, 150, 200)[seed // 8 % 4])
        ).tolist()
        logits, model = golden(folder, ids), hf.load(folder)
        error = float(np.abs(ref.Forward(model, ref.Truth()).logits(ids) - logits).max())
        assert error < BOUND, f"differs from transformers by {error}"
        check_program(folder, work, model, ids, seed)
        check_twin(folder, work)
        if keep:
            np.savez(folder / "golden.npz", prompt0=np.int32(ids), logits0=logits.astype(np.float32))
            gguf_twin.write(folder, folder / "twin.gguf")
        return c["model_type"], error


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    torch.set_num_threads(1)
    bad = 0
    for seed in range(args.first, args.last):
        try:
            print(seed, *sweep(seed, args.write), flush=True)
        except Exception as e:  # report any error and continue with the other seeds
            bad += 1
            print(seed, "FAILED", random_checkpoint.config(seed)[0], f"{type(e).__name__}: {e}", flush=True)
    print(f"{args.last - args.first} checkpoints, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
