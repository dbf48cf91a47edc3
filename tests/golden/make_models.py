#!/usr/bin/env python3
"""Writes tests/data/models: small .mlb files and oracle.json, the bits the engine must produce on them.

    make_models.py --checkpoints DIR [--out DIR] [--only NAME ...]

Two kinds of models: quantized copies of tiny checkpoints (with the golden logits of their 7-token prompt
beside them), and random models for header features and odd shapes no checkpoint has. oracle.json maps each
file to {"verify": digest of `krafla verify`, "prompts": [{"ids", "kv", "fnv1a64"}, ...], "nan"?: true when
some logits are NaN}; all digests are those of `tools/ref_forward.py --contract`. With --only, other files and
their entries stay as they are.
"""
import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tools"), str(HERE)]
import hf
import mlb
import ref_forward as ref

Q8, Q4 = dict(wtype=1), dict(wtype=2)
F16 = dict(scale_f16=1)

# file name -> (checkpoint, header fields of the quantization, KV types of the oracle's prompts)
CHECKPOINTS = {
    "llama2-q4": ("llama2", Q4 | F16, ["f16"]),
    "llama3-q8": ("llama3", Q8 | F16, ["f16", "f32", "q8_0"]),
    "llama3-q4": ("llama3", Q4, ["f16"]),
    "llama_linear-q8": ("llama_linear", Q8, ["f16"]),
    "llama_linear-q4": ("llama_linear", Q4, ["f32"]),
    "llama_yarn-q8": ("llama_yarn", Q8, ["f16"]),
    "llama_yarn-q4": ("llama_yarn", Q4 | F16, ["f16"]),
    "llama_yarn_af-q4": (
        "llama_yarn_af",
        Q4 | F16 | dict(q8_mask=2 | 8 | 64),
        ["f16"],
    ),  # wcls, wv and w2 in Q8_0
    "mistral_nemo-q4": ("mistral_nemo", Q4 | F16, ["f16"]),
    "mistral_swa-q8": ("mistral_swa", Q8 | F16, ["f16"]),
    "mistral_swa-q4": ("mistral_swa", Q4, ["f32", "q8_0"]),
    "qwen3_5-q8": ("qwen3_5", Q8 | F16, ["f16", "q8_0"]),
    "qwen3_5_v8-q4": ("qwen3_5_v8", Q4, ["f16"]),
}

YARN = dict(
    rope_type=3,
    rope_factor=4,
    rope_low_freq_factor=32,
    rope_high_freq_factor=1,
    rope_orig_max_seq=64,
    rope_attn_factor=1.25,
)
LIN = dict(lin_k_heads=2, lin_v_heads=4, lin_k_dim=16, lin_v_dim=16, lin_conv=4)
TIED = dict(shared_classifier=1)


def shape(dim, layers, heads, kv_heads, head_dim, hidden, vocab, **more):
    return (
        dict(
            dim=dim,
            n_layers=layers,
            n_heads=heads,
            n_kv_heads=kv_heads,
            head_dim=head_dim,
            hidden_dim=hidden,
            vocab=vocab,
        )
        | more
    )


# file name -> (header fields, layer flags, seed)
RANDOM = {
    # one block per row, one head, the smallest vocabulary; Q4_0 with f32 scales
    "tiny-q4": (shape(32, 1, 1, 1, 32, 32, 3, max_seq=100) | Q4, None, 1),
    # head_dim 6 (q_dim 96), one kv head, 3 blocks per row, a vocabulary that is no multiple of 8, a context
    # of 70
    "head6-q8": (shape(32, 2, 16, 1, 6, 96, 77, max_seq=70) | TIED | Q8, None, 2),
    # head_dim 20 and biases, 9 blocks per row in w2: the ninth goes to lane 0 again
    "head20-bias-q4": (shape(32, 2, 8, 2, 20, 288, 50, qkv_bias=1) | Q4 | F16, None, 3),
    # Gemma 2: window on even layers, softcaps, GELU, four norms, scaled embedding, own score factor
    "gemma2-like-q4": (
        shape(
            32,
            3,
            4,
            2,
            24,
            96,
            61,
            sliding_window=10,
            act=1,
            post_norms=1,
            embed_scale=5.656854,
            attn_scale=0.125,
            attn_softcap=2.0,
            final_softcap=3.0,
        )
        | TIED
        | Q4,
        [1, 0, 1],
        4,
    ),
    # Gemma 3: q/k norms, local base without scaling, linear scaling on the full layer; a window longer than a
    # page
    "gemma3-like-q8": (
        shape(
            32,
            3,
            2,
            1,
            32,
            64,
            100,
            sliding_window=70,
            act=1,
            post_norms=1,
            qk_norm=1,
            embed_scale=5.656854,
            rope_theta=1e6,
            rope_local_theta=1e4,
            rope_type=2,
            rope_factor=8,
        )
        | TIED
        | Q8
        | F16,
        [3, 0, 3],
        5,
    ),
    # SmolLM3: layers without RoPE, one of them windowed; window of exactly a page
    "norope-q8": (
        shape(32, 3, 4, 1, 16, 96, 40, sliding_window=64, rope_theta=2e6) | TIED | Q8,
        [0, 4, 5],
        6,
    ),
    # Qwen3.5's attention layers alone: gate, partial rotation, q/k norms; yarn; a window of one position;
    # mixed classes
    "gate-yarn-q4": (
        shape(64, 2, 2, 1, 32, 32, 33, rot_dim=12, attn_gate=1, qk_norm=1, sliding_window=1)
        | YARN
        | Q4
        | F16
        | dict(q8_mask=1 | 4 | 16 | 32),
        [0, 1],
        7,
    ),
    # everything at once that may stand together
    "all-q4": (
        shape(
            32,
            2,
            4,
            2,
            24,
            64,
            90,
            rot_dim=10,
            qkv_bias=1,
            qk_norm=1,
            post_norms=1,
            act=1,
            attn_gate=1,
            embed_scale=5.5,
            attn_scale=0.3,
            attn_softcap=1.5,
            final_softcap=2.5,
            sliding_window=20,
            rope_local_theta=500.0,
        )
        | YARN
        | Q4,
        [0, 3],
        8,
    ),
    "linear-q8": (
        shape(32, 3, 2, 1, 16, 64, 60, rot_dim=8, attn_gate=1, qk_norm=1) | LIN | TIED | Q8,
        [8, 0, 8],
        9,
    ),
    "linear-q4": (
        shape(32, 2, 2, 2, 16, 32, 48, lin_k_heads=4, lin_v_heads=8, lin_k_dim=6, lin_v_dim=20, lin_conv=3)
        | Q4
        | F16,
        [8, 8],
        10,
    ),
    # no other layers; one value head a key head, dk below dv, no history: a convolution of one tap; values
    # not q_dim
    "linear-only-q8": (
        shape(32, 3, 1, 1, 32, 32, 37, lin_k_heads=4, lin_v_heads=4, lin_k_dim=5, lin_v_dim=24, lin_conv=1)
        | TIED
        | Q8
        | F16,
        [8, 8, 8],
        12,
    ),
    # one key head for four value heads of 72: three slices, the last of one vector; channels not a multiple
    # of 8
    "linear-wide-q4": (
        shape(
            32,
            2,
            2,
            1,
            16,
            32,
            41,
            rot_dim=6,
            qk_norm=1,
            attn_gate=1,
            lin_k_heads=1,
            lin_v_heads=4,
            lin_k_dim=33,
            lin_v_dim=72,
            lin_conv=2,
        )
        | TIED
        | Q4,
        [8, 0],
        13,
    ),
    # five taps, and beside the linear layer a windowed and a full one; four norms, biases
    "linear-window-q4": (
        shape(
            32,
            3,
            2,
            1,
            16,
            64,
            45,
            sliding_window=33,
            post_norms=1,
            qkv_bias=1,
            rope_theta=1e5,
            lin_k_heads=2,
            lin_v_heads=4,
            lin_k_dim=8,
            lin_v_dim=8,
            lin_conv=5,
        )
        | TIED
        | Q4
        | F16,
        [1, 8, 0],
        14,
    ),
    # an infinite scale in the embedding of token 5: NaN logits while the windows still see it, finite before
    # and after
    "nan-q4": (shape(32, 2, 2, 1, 16, 32, 97, sliding_window=4) | Q4, None, 11),
}


def quantized_copy(source, out, name):
    """Writes a checkpoint as a .mlb, with the golden logits of its prompt 1. Returns the prompts of the
    oracle."""
    checkpoint, changes, _ = CHECKPOINTS[name]
    model = hf.load(source / checkpoint)
    mlb.write(out / f"{name}.mlb", replace(model.header, **changes), model.layer_flags, model.tensors)
    with np.load(source / checkpoint / "golden.npz") as golden:
        prompts = [golden[key].tolist() for key in sorted(golden.files) if key.startswith("prompt")]
        np.savez(out / f"golden_{checkpoint}.npz", prompt1=golden["prompt1"], logits1=golden["logits1"])
    return prompts


def random_model(out, name):
    fields, flags, seed = RANDOM[name]
    header = replace(mlb.Header(max_seq=256, rope_theta=10000.0, norm_eps=1e-5), **fields)
    header, flags = mlb.canonical(header, flags)
    tensors = mlb.random_tensors(header, flags, seed)
    if name == "nan-q4":
        tensors["tok_emb"] = mlb.quantize_q4(tensors["tok_emb"], scale_f16=False)
        tensors["tok_emb"].d[5, 0] = np.inf
    mlb.write(out / f"{name}.mlb", header, flags, tensors)
    rng = np.random.RandomState(seed + 1000)
    prompts = [rng.randint(0, header.vocab, n).tolist() for n in (1, min(header.max_seq, 131))]
    return [[1, 2, 3, 4, 5, 6] + list(range(10, 40))] if name == "nan-q4" else prompts


def oracle_entry(path, prompts, kv_types):
    """The expected results for one file; prompt i is evaluated with each KV type."""
    model = mlb.read(path)
    entry = {"verify": ref.verify_digest(model), "prompts": []}
    for kv in kv_types:
        for ids in prompts:
            logits = ref.Forward(model, ref.Contract(kv)).logits(ids)
            entry["prompts"].append({"ids": ids, "kv": kv, "fnv1a64": ref.logits_digest(logits)})
            if np.isnan(logits).any():
                entry["nan"] = True
    return entry


def write_oracle(path, oracle):
    """Writes one line per file, so that diffs are readable."""
    lines = [f"{json.dumps(name)}: {json.dumps(oracle[name])}" for name in sorted(oracle)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoints", required=True, help="folder of the tiny checkpoints, one folder each"
    )
    parser.add_argument("--out", default=str(HERE.parent / "data" / "models"))
    parser.add_argument("--only", nargs="*", help="names of models")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    table = out / "oracle.json"
    oracle = json.loads(table.read_text()) if args.only and table.exists() else {}
    for name in args.only or [*CHECKPOINTS, *RANDOM]:
        if name in CHECKPOINTS:
            prompts, kv_types = quantized_copy(Path(args.checkpoints), out, name), CHECKPOINTS[name][2]
        else:
            prompts, kv_types = random_model(out, name), ["f16", "f32", "q8_0"]
        path = out / f"{name}.mlb"
        oracle[path.name] = oracle_entry(path, prompts, kv_types)
        print(f"{path.name}: {path.stat().st_size} bytes, verify {oracle[path.name]['verify']}", flush=True)
        write_oracle(table, oracle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
