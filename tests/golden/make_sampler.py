#!/usr/bin/env python3
"""Writes tests/data/sampler.json: the tokens that src/sample must choose, computed in numpy from the
description in sampler.h, by sorting all candidates.

    python3 tests/golden/make_sampler.py        (needs numpy)
"""
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from ref_math import exp32  # noqa: E402

F = np.float32
M = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M, (a >> 32) ^ c[3] ^ k[1], a & M]
        k = [(k[0] + 0x9E3779B9) & M, (k[1] + 0xBB67AE85) & M]
    return c


def adjust(logits, o, history):
    l = logits.copy()
    for i, bias in o.get("logit_bias", []):
        l[i] = l[i] + F(bias)
    window = o.get("penalty_window", -1)
    seen = history if window < 0 else history[len(history) - min(window, len(history)) :]
    rp, fp, pp = (
        F(o.get(k, d))
        for k, d in (("repetition_penalty", 1), ("frequency_penalty", 0), ("presence_penalty", 0))
    )
    for i in sorted(set(seen)):
        if i < len(l):
            l[i] = l[i] / rp if l[i] > 0 else l[i] * rp
            l[i] = l[i] - (F(seen.count(i)) * fp + pp)
    return l


def sample(logits, o, history, counter):
    l = adjust(logits, o, history)
    order = sorted(range(len(l)), key=lambda i: (-float(l[i]), i))
    t = F(o.get("temperature", 1))
    if t == 0:
        return order[0]
    w = exp32((l - l.max()) / t)
    total = sum(float(x) for x in w)  # in the order of ids
    if o.get("top_k"):
        order = order[: o["top_k"]]
        total = sum(float(w[i]) for i in order)
    top_p, min_p = F(o.get("top_p", 1)), F(o.get("min_p", 0))
    if top_p < 1:
        running = 0.0
        for n, i in enumerate(order):
            running += float(w[i])
            if running >= float(top_p) * total:
                order = order[: n + 1]
                break
    order = [order[0]] + [i for i in order[1:] if w[i] >= min_p]
    if top_p < 1 or min_p > 0:
        total = sum(float(w[i]) for i in order)
    seed = o.get("seed", 0)
    x = philox([*counter, 0], [seed & M, seed >> 32])
    target = ((x[0] >> 5) * 2.0**-27 + (x[1] >> 6) * 2.0**-53) * total
    running = 0.0
    for i in order:
        running += float(w[i])
        if running > target:
            return i
    return max(order, key=lambda i: (-float(l[i]), i))


def main():
    random = np.random.default_rng(1)
    cases = []
    for n in range(400):
        size = int(random.choice([2, 5, 17, 300, 1500]))
        logits = (random.normal(0, random.choice([0.3, 2, 8]), size)).astype(F)
        if n % 3 == 0:
            logits = np.round(logits).astype(F)  # many ties
        o = {"seed": int(random.integers(0, 2**63))}
        for key, values in (
            ("temperature", [0, 0.2, 0.7, 1, 1.5]),
            ("top_k", [0, 0, 1, 3, 40]),
            ("top_p", [1, 1, 0.9, 0.5, 0.05]),
            ("min_p", [0, 0, 0.05, 0.5]),
            ("repetition_penalty", [1, 1, 1.1, 0.8]),
            ("presence_penalty", [0, 0, 0.5, -1]),
            ("frequency_penalty", [0, 0, 0.3]),
            ("penalty_window", [-1, -1, 0, 5]),
        ):
            value = random.choice(values)
            if value != values[0]:
                o[key] = int(value) if key in ("top_k", "penalty_window") else float(value)
        if n % 5 == 0:
            o["logit_bias"] = [[int(random.integers(0, size)), float(random.choice([-100, 3, 1.5]))]]
        history = random.integers(0, size + 1, int(random.integers(0, 30))).tolist()
        counter = [int(c) for c in random.integers(0, 1000, 3)]
        small = size <= 17
        case = {
            "options": o,
            "history": history,
            "counter": counter,
            "id": int(sample(logits, o, history, counter)),
        }
        case["bits"] = [int(b) for b in logits.view(np.uint32)] if small else None
        if not small:  # keep the file small: logits that both sides can make
            case["size"], case["bits"] = size, None
            made = np.array([F(philox([i, n, 0, 0], [0, 0])[0] >> 16) / F(4096) for i in range(size)], F)
            case["n"], case["id"] = n, int(sample(made, o, history, counter))
        cases.append({k: v for k, v in case.items() if v is not None})
    out = ROOT / "tests" / "data" / "sampler.json"
    out.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
