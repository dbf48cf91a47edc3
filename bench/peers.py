#!/usr/bin/env python3
"""Measures krafla and llama.cpp side by side, in one run, on the same weights: `make bench`, or build/peers/venv/bin/python bench/peers.py.

llama.cpp comes as llama-cpp-python, built for this CPU, and is driven through its C API in a process of its own: no Python
between the steps but one call each. Its quantizer makes the pure Q8_0 and Q4_0 GGUFs, `krafla convert` the .mlb files from
those. Prefill is 512 tokens into an empty context, decode 128 single steps into an empty context, both on given ids, with the
classifier where a generation needs it and without sampling; each the median of three in a process.
The engines take turns, so that a change of the machine's mood meets both; medians are compared. llama.cpp is measured with
flash attention on and off, and the better median of the two counts.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "models/cache/SmolLM2-135M-Instruct.Q4_1.gguf"
WORK = ROOT / "build/peers"
PREFILL, DECODE, REPEATS = 512, 128, 3
FTYPES = {"q8_0": 7, "q4_0": 2}  # llama.cpp's LLAMA_FTYPE_MOSTLY_*
BUSY_LIMIT = 0.10  # of the CPU in others' hands: more than this and figures mean little


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---- llama.cpp's side, each in a process of its own ----


def quiet_llama():
    import llama_cpp.llama_cpp as llama

    @llama.llama_log_callback
    def ignore(_level, _text, _data):
        pass

    quiet_llama.kept = ignore  # the C side holds the pointer
    llama.llama_log_set(ignore, ctypes.c_void_p(0))
    llama.llama_backend_init()
    return llama


def llama_quantize(source, target, kind):
    """A GGUF whose every matrix, the embedding too, is of one kind; dequantizes what the source holds."""
    llama = quiet_llama()
    params = llama.llama_model_quantize_default_params()
    params.ftype = FTYPES[kind]
    params.pure = True
    params.quantize_output_tensor = True
    params.allow_requantize = True
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        sys.exit(f"llama.cpp could not quantize {source}")


def llama_measure(path, threads, flash):
    llama = quiet_llama()
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, PREFILL, PREFILL
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = 1 if flash else 0
    context = llama.llama_init_from_model(model, params)
    if not model or not context:
        sys.exit(f"llama.cpp could not load {path}")
    memory = llama.llama_get_memory(context)

    def step(first, count):
        ids = (llama.llama_token * count)(*(1000 + (first + i) * 37 % 40000 for i in range(count)))
        if llama.llama_decode(context, llama.llama_batch_get_one(ids, count)) != 0:
            sys.exit("llama_decode failed")
        llama.llama_synchronize(context)

    def rate(count, size):
        """Tokens per second of feeding `count` tokens into an empty context, `size` at once."""
        llama.llama_memory_clear(memory, True)
        start = time.perf_counter()
        for first in range(0, count, size):
            step(first, size)
        return count / (time.perf_counter() - start)

    rate(32, 16)  # warm: pages, threads, buffers
    prefill = statistics.median(rate(PREFILL, PREFILL) for _ in range(REPEATS))
    decode = statistics.median(rate(DECODE, 1) for _ in range(REPEATS))
    return {"prefill": prefill, "decode": decode, "system": llama.llama_print_system_info().decode()}


# ---- the run ----


def krafla_measure(program, model, threads):
    command = [program, "bench", model, "--prefill", PREFILL, "--decode", DECODE, "-t", threads, "--repeats", REPEATS, "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"peers: {' '.join(map(str, command))} failed: {done.stderr.strip().splitlines()[-1:]}")
    result = json.loads(done.stdout)
    return {"prefill": result["prefill"][0]["tok_s"], "decode": result["decode"][0]["tok_s"], "system": result.get("isa", "")}


def llama_process(*arguments):
    done = subprocess.run([sys.executable, __file__, "--side", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"peers: llama.cpp's side failed: {done.stderr.strip()}")
    return json.loads(done.stdout or "null")


def busy_share(seconds=1.0):
    """The share of all CPUs that others use while this process sleeps."""

    def read():
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(fields), fields[3] + fields[4]  # idle and waiting for a disk

    before = read()
    time.sleep(seconds)
    after = read()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


def prepare(kind, krafla):
    gguf = WORK / f"smollm2-135m-{kind}.gguf"
    if not gguf.exists():
        note(f"making {gguf.relative_to(ROOT)}")
        part = gguf.with_suffix(".part")
        llama_process("quantize", SOURCE, part, kind)
        part.rename(gguf)
    model = WORK / f"smollm2-135m-{kind}"
    mlb = model.with_name(model.name + ".mlb")
    if krafla and (not mlb.exists() or mlb.stat().st_mtime < max(gguf.stat().st_mtime, krafla.stat().st_mtime)):
        note(f"making {mlb.relative_to(ROOT)}")
        subprocess.run([krafla, "convert", gguf, model, "--type", kind], check=True, stdout=subprocess.DEVNULL)
    return gguf, model


def measure(kind, threads, rounds, krafla):
    """The samples of each engine, taken in turns: {engine: {"prefill": [...], "decode": [...]}}."""
    gguf, model = prepare(kind, krafla)
    turns = {"llama.cpp, flash": lambda: llama_process("measure", gguf, threads, 1),
             "llama.cpp": lambda: llama_process("measure", gguf, threads, 0)}
    if krafla:
        turns = {"krafla": lambda: krafla_measure(krafla, model, threads), **turns}
    samples = {engine: {"prefill": [], "decode": []} for engine in turns}
    busy, systems = [], {}
    for number in range(rounds):
        busy.append(busy_share(0.5))
        for engine, turn in turns.items():
            result = turn()
            systems[engine] = result["system"]
            for name, values in samples[engine].items():
                values.append(result[name])
        shown = ", ".join(f"{engine} {values['prefill'][-1]:.0f}/{values['decode'][-1]:.1f}" for engine, values in samples.items())
        note(f"{kind}, {threads} threads, round {number + 1}: {shown} tokens/s{'  (others are busy)' if busy[-1] > BUSY_LIMIT else ''}")
    return {"kind": kind, "threads": threads, "samples": samples, "systems": systems, "busy": busy}


def table(results):
    lines = ["| weights | threads | what | krafla | llama.cpp | ratio |", "|---|---|---|---|---|---|"]
    for result in results:
        for name, label in (("prefill", f"prefill {PREFILL}"), ("decode", f"decode {DECODE}")):
            medians = {engine: statistics.median(values[name]) for engine, values in result["samples"].items()}
            peer = max(value for engine, value in medians.items() if engine != "krafla")
            own = medians.get("krafla")
            figures = f"{own:.1f} | {peer:.1f} | **{own / peer:.2f}**" if own else f"– | {peer:.1f} | –"
            lines.append(f"| {result['kind'].upper()} | {result['threads']} | {label} | {figures} |")
    return "\n".join(lines)


def cpu_name():
    names = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {os.cpu_count()} logical"


def side(arguments):
    if arguments[0] == "quantize":
        llama_quantize(*arguments[1:])
    else:
        print(json.dumps(llama_measure(arguments[1], int(arguments[2]), arguments[3] == "1")))


def main():
    if sys.argv[1:2] == ["--side"]:
        return side(sys.argv[2:])
    parser = argparse.ArgumentParser(description="krafla and llama.cpp, side by side.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kinds", nargs="+", choices=sorted(FTYPES), default=["q8_0", "q4_0"])
    parser.add_argument("--krafla", type=pathlib.Path, default=ROOT / "build/release/krafla")
    parser.add_argument("--peer-only", action="store_true", help="measure llama.cpp alone")
    parser.add_argument("--out", type=pathlib.Path, default=WORK / "results.json")
    options = parser.parse_args()
    if not SOURCE.exists():
        sys.exit("peers: no model; run tools/fetch_model.py first")
    krafla = None if options.peer_only else options.krafla
    if krafla and not krafla.exists():
        sys.exit(f"peers: no {krafla}; run make first")

    WORK.mkdir(parents=True, exist_ok=True)
    load = [os.getloadavg()]
    busy = busy_share(2.0)
    results = [measure(kind, threads, options.rounds, krafla) for kind in options.kinds for threads in options.threads]
    load.append(os.getloadavg())
    report = {"cpu": cpu_name(), "date": time.strftime("%Y-%m-%d"), "load": load, "busy_before": busy, "rounds": options.rounds, "results": results}
    options.out.write_text(json.dumps(report, indent=1) + "\n")

    worst = max([busy] + [value for result in results for value in result["busy"]])
    print(f"{report['cpu']}, {report['date']}; tokens/s, medians of {options.rounds}; load average {load[0][0]:.2f} before, {load[1][0]:.2f} after\n")
    print(table(results))
    if worst > BUSY_LIMIT:
        print(f"\nWARNING: other programs used up to {100 * worst:.0f} % of the CPU during this run: do not quote these figures.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
