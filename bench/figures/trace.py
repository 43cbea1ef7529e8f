"""The generator's trace (--trace): each answer and each delivery (src/program/load/tally.h)."""

import os
import struct
import tempfile

ENTRY = struct.Struct("<qIHBx")
PUSHED, DELIVERED, ACKED = 1, 2, 3
MEMORY = "/dev/shm"  # a slow disk must not hold up the generator


def percentile(values, share):
    """Returns the value of the sorted list at or below which this share of them is."""
    return values[min(len(values) - 1, max(0, int(len(values) * share + 0.999999) - 1))] if values else 0


def percentiles(values_us):
    """Returns percentiles in milliseconds, as the generator prints them."""
    values_us = sorted(values_us)
    out = {name: round(percentile(values_us, share) / 1000, 3) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1))}
    return {"count": len(values_us), **out}


def slowest_per_s(moments, window_s):
    """Returns the rate of the slowest period of this length in a list of (microsecond, jobs); None if the list is shorter."""
    begun, ended = moments[0][0], moments[-1][0]
    seconds = [0] * int((ended - begun) // 1_000_000)
    for at_us, jobs in moments:
        second = (at_us - begun) // 1_000_000
        if second < len(seconds):
            seconds[second] += jobs
    if len(seconds) < window_s:
        return None
    return min(sum(seconds[at:at + window_s]) for at in range(len(seconds) - window_s + 1)) / window_s


class Trace:
    """Use as a context manager: `path` is for the generator, the rest for afterwards."""

    def __init__(self, base_dir):
        handle, self.path = tempfile.mkstemp(prefix="tarry-bench-trace-", dir=MEMORY if os.access(MEMORY, os.W_OK) else base_dir)
        os.close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.unlink(self.path)

    def entries(self, kind):
        """(when since boot, how long it took, jobs), in microseconds."""
        with open(self.path, "rb") as file:
            data = file.read()
        return [(at_us, took_us, jobs) for at_us, took_us, jobs, found in ENTRY.iter_unpack(data) if found == kind]

    def pushing(self):
        """Returns mean and slowest rate, answers, and the longest time without any."""
        entries = self.entries(PUSHED)
        moments = [(at_us, jobs) for at_us, _, jobs in entries]
        elapsed_s = (moments[-1][0] - moments[0][0]) / 1e6
        mean = sum(jobs for _, jobs in moments) / elapsed_s if elapsed_s else 0
        gaps = (later[0] - earlier[0] for earlier, later in zip(moments, moments[1:]))
        return {"per_s": round(mean), "slowest_10s_per_s": round(slowest_per_s(moments, 10) or mean), "silence_max_ms": max(gaps, default=0) / 1000,
                "answer_ms": percentiles(took_us for _, took_us, _ in entries)}
