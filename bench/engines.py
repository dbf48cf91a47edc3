"""Downloads and builds llama.cpp and ik_llama.cpp for the measurements, once, in build/peers/. The sources
are those of their Python bindings, in pinned versions. They are built for this CPU or for an older
instruction set. Python does not take part in the measured work: bench/peer.cpp calls their C API.
"""
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/peers"
PACKAGES = {"llama.cpp": "llama-cpp-python==0.3.36", "ik_llama.cpp": "ik-llama-cpp-python==0.1.5"}
CMAKE = [
    "-G",
    "Ninja",
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DGGML_IQK_FA_ALL_QUANTS=OFF",
]  # the last: only f16 keys and values are measured
# The instruction sets to build for, by krafla's names; ik_llama.cpp has no x86 code below AVX2.
ISAS = {
    "native": [],
    "avx512vnni": [
        "-DGGML_NATIVE=OFF",
        *(f"-DGGML_AVX512{name}=ON" for name in ("", "_VBMI", "_VNNI", "_BF16")),
        *(f"-DCMAKE_{language}_FLAGS=-mavx512vl -mavx512dq" for language in ("C", "CXX")),
    ],
    "avx2": ["-DGGML_NATIVE=OFF"],
    "sse2": [
        "-DGGML_NATIVE=OFF",
        *(f"-DGGML_{name}=OFF" for name in ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")),
    ],
}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, command))}\nended with "
            f"{done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def source(engine):
    """The engine's own source tree."""
    package, version = PACKAGES[engine].split("==")
    tree = WORK / engine
    if not tree.exists():
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                PACKAGES[engine],
                "-d",
                WORK,
            ]
        )
        part = WORK / f"partial-{engine}"
        with tarfile.open(WORK / f"{package.replace('-', '_')}-{version}.tar.gz") as archive:
            archive.extractall(part, filter="data")
        next(part.iterdir()).rename(tree)
        part.rmdir()
    return tree / "vendor" / engine


def build(engine, targets, made, isa="native"):
    """Builds `targets` for the instruction set, unless all files `made` exist. Returns the build folder."""
    tree = source(engine)
    folder = WORK / f"{engine}-{isa}"
    if not all((folder / path).exists() for path in made):
        print(
            f"building {engine} for {isa} ({' '.join(targets)}): 20 minutes the first time",
            file=sys.stderr,
            flush=True,
        )
        run(["cmake", "-S", tree, "-B", folder, *CMAKE, *ISAS[isa]])
        run(["cmake", "--build", folder, "--target", *targets])
    return folder


def peer(engine, isa="native"):
    """Builds bench/peer.cpp for the engine. Of ik_llama.cpp only the libraries are built, because its package
    lacks a file that its programs need."""
    program, code = WORK / f"peer-{engine}-{isa}", ROOT / "bench/peer.cpp"
    if not program.exists() or program.stat().st_mtime < code.stat().st_mtime:
        folder = build(engine, ["llama"], ["src/libllama.a"], isa)
        tree = source(engine)
        libraries = [folder / "src/libllama.a", *sorted((folder / "ggml/src").glob("libggml*.a"))]
        run(
            [
                "c++",
                "-std=c++20",
                "-O2",
                *(["-DIK_LLAMA"] if engine == "ik_llama.cpp" else []),
                "-I",
                tree / "include",
                "-I",
                tree / "ggml/include",
                code,
                "-Wl,--start-group",
                *libraries,
                "-Wl,--end-group",
                "-fopenmp",
                "-ldl",
                "-pthread",
                "-o",
                program,
            ]
        )
    return program
