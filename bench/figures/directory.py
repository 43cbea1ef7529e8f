"""libtarry in a directory next to a table of SQLite (bench/directory.c): both synced, in turns."""

import os
import re
import shutil
import subprocess
import tempfile

LINE = re.compile(r"queue +(\d+), SQLite +(\d+) a second (\(wall\)|of CPU),")


def one(bench, what, jobs):
    """Runs bench_directory once, which has five rounds. Returns the medians: {server: {"per_s", "per_cpu_s"}}."""
    program = os.path.join(os.path.dirname(bench.generator), "bench_directory")
    if not os.path.exists(program):
        bench.print_line("  skipped: built without libsqlite3")
        return {}
    top = tempfile.mkdtemp(prefix="tarry-bench-directory-", dir=bench.base_dir)
    try:
        done = subprocess.run([program, what, top, str(jobs)], stdout=subprocess.PIPE, check=True, text=True, timeout=3600)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    bench.print_line("".join(f"  {line}\n" for line in done.stdout.splitlines()).rstrip("\n"))
    found = {by: pair for *pair, by in LINE.findall(done.stdout)}
    runs = {name: {"per_s": int(found["(wall)"][at]), "per_cpu_s": int(found["of CPU"][at])} for at, name in enumerate(("tarry", "sqlite"))}
    return {name: {"median": run["per_s"], "runs": [run]} for name, run in runs.items()}


def directory_batch(bench):
    """libtarry in a directory: durable pushes by 256, next to SQLite"""
    return one(bench, "batch", 25_600 if bench.quick else 256_000)


def directory_cycle(bench):
    """libtarry in a directory: push by 256, take and ack by 100, next to SQLite"""
    return one(bench, "cycle", 12_800 if bench.quick else 102_400)


PIECES = {piece.__name__: piece for piece in (directory_batch, directory_cycle)}
