"""The speed of the disk itself, without a server: the control for stalls attributed to a server."""

import os
import tempfile
import threading
import time

from .trace import percentiles
from .watch import MIB

LOG_FILES, LOG_FILE_BYTES, OTHER_FILE_BYTES, OTHER_FILES = 8, 64 * MIB, 64 * MIB, 8
OTHER_WRITE_BYTES, OTHER_SYNC_BYTES = MIB // 2, 2 * MIB


def written_bytes(directory):
    """Returns the bytes written to the directory's device by all processes since it was attached; 0 if the system does not report it. /proc/PID/io counts
    whole folios of the page cache."""
    device = os.stat(directory).st_dev
    try:
        with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat") as file:
            return int(file.read().split()[6]) * 512
    except OSError:
        return 0


class Paced:
    """A writer of so many bytes a second."""

    def __init__(self, bytes_per_s):
        self.bytes_per_s, self.begun, self.written = bytes_per_s, time.monotonic(), 0

    def wrote(self, count):
        self.written += count
        ahead_s = self.written / self.bytes_per_s - (time.monotonic() - self.begun)
        if ahead_s > 0:
            time.sleep(ahead_s)


class Writer:
    """A log in files that are used again, each write synced; beside it new files, the oldest removed: what a store writes, and nothing else."""

    def __init__(self, directory, seconds):
        self.directory, self.syncs_us = directory, []
        self.files = [self._file(f"log-{number}") for number in range(LOG_FILES)]
        for file in self.files:
            for at in range(0, LOG_FILE_BYTES, MIB):
                os.pwrite(file, bytes(MIB), at)
            os.fsync(file)
        self.ends = time.monotonic() + seconds

    def _file(self, name):
        return os.open(os.path.join(self.directory, name), os.O_CREAT | os.O_RDWR, 0o600)

    def log(self, bytes_per_s):
        at, begun = 0, time.monotonic()
        while time.monotonic() < self.ends:
            due = int((time.monotonic() - begun) * bytes_per_s) - at  # what came since the last sync: the slower that was, the more
            count = min(max(due, 4096), MIB, LOG_FILE_BYTES - at % LOG_FILE_BYTES)
            file, before = self.files[at // LOG_FILE_BYTES % LOG_FILES], time.monotonic()
            os.pwrite(file, bytes(count), at % LOG_FILE_BYTES)
            os.fdatasync(file)
            self.syncs_us.append((time.monotonic() - before) * 1e6)
            at += count
            if due < 4096:
                time.sleep(0.0005)
        for file in self.files:
            os.close(file)

    def others(self, bytes_per_s):
        paced, number = Paced(bytes_per_s), 0
        while time.monotonic() < self.ends:
            file, unsynced = self._file(f"other-{number}"), 0
            for at in range(0, OTHER_FILE_BYTES, OTHER_WRITE_BYTES):
                os.pwrite(file, bytes(OTHER_WRITE_BYTES), at)
                unsynced += OTHER_WRITE_BYTES
                if unsynced >= OTHER_SYNC_BYTES:
                    os.fdatasync(file)
                    unsynced = 0
                paced.wrote(OTHER_WRITE_BYTES)
                if time.monotonic() >= self.ends:
                    break
            os.close(file)
            number += 1
            if number >= OTHER_FILES:
                os.unlink(os.path.join(self.directory, f"other-{number - OTHER_FILES}"))


def alone(base_dir, log_per_s, others_per_s, seconds):
    """Percentiles of a write and its sync, in milliseconds, while so many bytes a second are written."""
    with tempfile.TemporaryDirectory(prefix="tarry-bench-disk-", dir=base_dir) as directory:
        writer = Writer(directory, seconds)
        beside = threading.Thread(target=writer.others, args=(others_per_s,)) if others_per_s else None
        if beside:
            beside.start()
        writer.log(log_per_s)
        if beside:
            beside.join()
    return percentiles(writer.syncs_us)
