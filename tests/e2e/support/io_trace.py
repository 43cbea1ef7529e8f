"""A program's operations on the files of a directory and on its sockets, as recorded by tests/support/io_trace.c: building, preloading, reading."""

import mmap
import pathlib
import struct
import subprocess

from server import REPO, sanitizer_runtime

OPENED, WRITING, WRITTEN, SYNCING, SYNCED, SIZED, PUNCHED, RENAMED, UNLINKED, MADE_DIR, RECEIVED, SENDING, UNKNOWN = range(1, 14)
HEAD_BYTES = 64
RECORD = struct.Struct("<IHHIIqq")
O_CREAT, O_TRUNC = 0o100, 0o1000


def build_library(directory):
    library = pathlib.Path(directory) / "io_trace.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-o", str(library), str(REPO / "tests/support/io_trace.c")], check=True)
    return library


def environment(library, path, directory, drop=0):
    """Returns the environment of a server (behind the sanitizer's runtime, which has to be the first library) whose actions on `directory` are
    recorded in the file `path`. drop=n: every n-th sync is skipped and reported as done."""
    return {"LD_PRELOAD": ":".join([*sanitizer_runtime(), str(library)]), "TARRY_TEST_IO_TRACE": str(path), "TARRY_TEST_IO_TRACE_DIR": str(directory),
            **({"TARRY_TEST_IO_TRACE_DROP": str(drop)} if drop else {})}


class Record:
    """An event. `at` is its place in the trace, which is its time."""

    __slots__ = ("at", "kind", "id", "a", "b", "data")

    def __init__(self, at, kind, ident, a, b, data):
        self.at, self.kind, self.id, self.a, self.b, self.data = at, kind, ident, a, b, data

    @property
    def text(self):
        return bytes(self.data).decode()


def records(path):
    """Reads all events in order, up to the last whole one. A WRITING's data is None if all of its `b` bytes are zeros."""
    with open(path, "rb") as file:
        (end,) = struct.unpack("<q", file.read(8))
        whole = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ)
    view, at = memoryview(whole), HEAD_BYTES
    while at + RECORD.size <= end:
        size, kind, is_zero, ident, data_bytes, a, b = RECORD.unpack_from(view, at)
        if size == 0 or at + size > end:
            return
        start = at + RECORD.size
        if kind == UNKNOWN:
            raise AssertionError(f"the trace has a call that its reader cannot follow: {bytes(view[start:start + data_bytes])}")
        yield Record(at, kind, ident, a, b, None if is_zero else view[start:start + data_bytes])
        at += size
