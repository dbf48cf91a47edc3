"""Shared by the three file formats: the error, reading a whole file, and writing a file that appears only
when complete.

Every reader fails with a status of the format page and one line that names the field or tensor, the value
found and the values allowed. Nothing is recovered from an invalid file.
"""
import os
import tempfile

IO, FORMAT, SHAPE = "ML_E_IO", "ML_E_FORMAT", "ML_E_SHAPE"
EXIT_CODES = {IO: 4, FORMAT: 5, SHAPE: 6}  # of the programs; any other error is 1


class FormatError(Exception):
    """A file (or a value to be written) that the formats do not allow.

    status: "ML_E_IO" | "ML_E_FORMAT" | "ML_E_SHAPE"; message: one line.
    """

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def bad(status, what, found, allowed):
    """The error for field or tensor `what` whose value `found` is not one of `allowed` (a text)."""
    return FormatError(status, f"{what}: found {found}, allowed {allowed}")


def read_bytes(path_or_bytes):
    """The bytes of a file, or the argument itself if it is bytes. Raises ML_E_IO if the file cannot
    be read."""
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes)
    try:
        with open(path_or_bytes, "rb") as f:
            return f.read()
    except OSError as e:
        raise FormatError(IO, f"{path_or_bytes}: cannot be read: {e.strerror}") from None


def write_chunks(path, chunks):
    """Writes the byte strings of the iterable `chunks` to a temporary name beside `path`, then renames.

    If making a chunk raises (a NaN weight, say), nothing is left behind and an old file at `path` is
    untouched.
    """
    path = os.fspath(path)
    try:
        handle, temporary = tempfile.mkstemp(
            dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + "."
        )
    except OSError as e:
        raise FormatError(IO, f"{path}: cannot be written: {e.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as f:
            for chunk in chunks:
                f.write(chunk)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes files private
        os.replace(temporary, path)
    except BaseException as e:
        os.unlink(temporary)
        if isinstance(e, OSError):
            raise FormatError(IO, f"{path}: cannot be written: {e.strerror}") from None
        raise
