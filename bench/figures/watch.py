"""Looks at a tarry server while something else keeps it busy."""

import os
import threading
import time

from . import wirehttp

MIB = 1 << 20


def free_bytes(directory):
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def need_space(bench, jobs, bytes_each):
    """Refuses where the disk has not got room for so many, and as much again for a checkpoint and the log."""
    need, free = jobs * bytes_each + (2 << 30), free_bytes(bench.base_dir)
    if free < need:
        raise RuntimeError(f"{jobs:,} jobs need about {need >> 30} GiB where the servers keep their data, and {free >> 30} GiB are free: "
                           f"name another place with --dir, or give fewer --jobs")


class Watch(threading.Thread):
    """A line every few seconds: pushes, memory, disk, runs. Use as a context manager."""

    def __init__(self, bench, server, every_s=5):
        super().__init__(daemon=True)
        self.bench, self.server, self.every_s, self.ending = bench, server, every_s, threading.Event()
        self.rows, self.most_bytes = [], 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.join()

    def run(self):
        begun = reported = time.monotonic()
        while not self.ending.wait(0.5):
            memory = self.server.memory()
            self.most_bytes = max(self.most_bytes, memory["rss"])
            now = time.monotonic()
            if now - reported >= self.every_s:
                reported = now
                self._say(now - begun, memory)

    def _say(self, elapsed_s, memory):
        try:
            found = wirehttp.metrics(self.server.port)
        except OSError:
            return
        row = {"s": round(elapsed_s, 1), "pushed": int(found["tarry_jobs_pushed_total"]), "rss": memory["rss"], "anon": memory["anon"], "most": memory["most"],
               "disk": self.server.disk_bytes(), "runs": int(found["tarry_store_runs"]), "far": int(found["tarry_store_run_jobs"]),
               "checkpoints": int(found["tarry_store_checkpoints_total"])}
        self.rows.append(row)
        self.bench.print_line(f"    {elapsed_s:6.1f} s  {row['pushed']:>12,} pushed, {row['pushed'] / elapsed_s:>9,.0f}/s so far  RSS {memory['rss'] / MIB:.0f} "
                       f"(most {memory['most'] / MIB:.0f}) MiB  disk {row['disk'] / MIB:,.0f} MiB  {row['runs']} runs with {row['far']:,}, "
                       f"{row['checkpoints']} checkpoints")


def tasks_named(server, *names):
    """Returns the server's threads whose names begin so."""
    found, top = [], f"/proc/{server.process.pid}/task"
    for task in os.listdir(top):
        with open(f"{top}/{task}/comm") as file:
            if file.read().startswith(names):
                found.append(f"{top}/{task}")
    return found


def used_ns(tasks):
    """Time on a core so far."""
    total_ns = 0
    for task in tasks:
        with open(task + "/schedstat") as file:
            total_ns += int(file.read().split()[0])
    return total_ns


class Helpers(threading.Thread):
    """Notes when the threads that write runs and merge tables are at work: by the time they have had of a core."""

    NAMES, EVERY_S, AROUND_US = ("archivist",), 0.02, 200_000

    def __init__(self, server):
        super().__init__(daemon=True)
        self.tasks = tasks_named(server, *self.NAMES)
        self.ending, self.busy = threading.Event(), []

    def __enter__(self):
        if not self.tasks:
            raise RuntimeError("the server has no thread named 'archivist'")
        self.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.join()

    def run(self):
        before = used_ns(self.tasks)
        while not self.ending.wait(self.EVERY_S):
            used, now_us = used_ns(self.tasks), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
            if used > before:
                self._note(now_us)
            before = used

    def _note(self, now_us):
        since = now_us - int(self.EVERY_S * 1e6) - self.AROUND_US
        if self.busy and self.busy[-1][1] >= since:
            self.busy[-1][1] = now_us + self.AROUND_US
        else:
            self.busy.append([since, now_us + self.AROUND_US])

    def split(self, entries):
        """Splits (when, …) into those during work and the others; both in order."""
        at_work, idle, stretch = [], [], 0
        for entry in sorted(entries):
            while stretch < len(self.busy) and self.busy[stretch][1] < entry[0]:
                stretch += 1
            inside = stretch < len(self.busy) and self.busy[stretch][0] <= entry[0]
            (at_work if inside else idle).append(entry)
        return at_work, idle

    def busy_s(self):
        return sum(until - since for since, until in self.busy) / 1e6


def quiet(server, timeout_s=120):
    """Waits until no checkpoint has run for three seconds. Returns the metrics at that time."""
    begun, archivist = time.monotonic(), tasks_named(server, *Helpers.NAMES)
    last, since = None, begun
    while True:
        found = wirehttp.metrics(server.port)
        now = found["tarry_store_checkpoints_total"], found["tarry_store_run_jobs"], found["tarry_store_runs"], used_ns(archivist)
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since >= 3 or time.monotonic() - begun > timeout_s:
            return found
        time.sleep(0.25)


def drop_caches():
    """Empties the page cache, so that a start reads from the disk. False: not allowed."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
    except OSError:
        return False
    return True

