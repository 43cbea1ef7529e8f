"""
Measures a worker of tarry beside the worker of another queue, for the languages whose scripts use this module.

A round: each queue in turn gets its jobs, then its worker starts and runs them. A job does nothing but be counted: it appends a byte to the file
BENCH_DONE. The rate is from the tenth of the jobs to the last, so without the start of the worker; the processor time is that of the worker and its
children, whole. Ratios are medians of the ratios of the rounds. tarry is at its defaults: embedded store, synced before each answer; Redis at its own, which
syncs nothing at all.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]
os.environ.setdefault("TARRY_BIN", str(REPO / "build" / "tarry"))

from redis_servers import RedisServer  # noqa: E402
from server import Server  # noqa: E402

LIMIT_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


def _used(pid):
    """Seconds of all threads of the process, and of its children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def _work(command, jobs, env, folder):
    """Returns (jobs a second, microseconds of processor time for a job)."""
    done = pathlib.Path(env["BENCH_DONE"])
    done.write_bytes(b"")
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        try:
            began = first = time.perf_counter()
            first_used = count = first_count = 0
            while count < jobs:
                time.sleep(0.002)
                count, now = done.stat().st_size, time.perf_counter()
                if not first_count and count >= jobs // 10:
                    first, first_count, first_used = now, count, _used(worker.pid)
                if now - began > LIMIT_S or worker.poll() is not None:
                    sys.exit(f"bench: {command} has done {count} of {jobs} jobs")
            return (count - first_count) / (time.perf_counter() - first), (_used(worker.pid) - first_used) / (count - first_count) * 1e6
        finally:
            worker.terminate()
            worker.wait(60)


def compare(queues, folder, environment=None):
    """`queues`: name → (command that pushes, with {jobs}; command of the worker). Those whose name begins with tarry are compared with each other one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    ours, others = ([name for name in queues if name.startswith("tarry") is wanted] for wanted in (True, False))
    found = {name: [] for name in queues}
    with tempfile.TemporaryDirectory() as place:
        server, redis = Server(pathlib.Path(place) / "tarry").start(), RedisServer().start()
        env = {**os.environ, "TARRY_URL": server.url, "BENCH_REDIS": redis.url, "REDIS_URL": redis.url, "BENCH_DONE": f"{place}/done", **(environment or {})}
        try:
            for number in range(chosen.rounds):
                for name, (push, work) in queues.items():
                    subprocess.run([str(word).replace("{jobs}", str(chosen.jobs)) for word in push], cwd=folder, env=env, check=True)
                    found[name].append(_work([str(word) for word in work], chosen.jobs, env, folder))
                    print(f"round {number + 1}: {name:20} {found[name][-1][0]:9.0f} jobs/s {found[name][-1][1]:8.0f} us a job", flush=True)
        finally:
            redis.terminate()
            server.terminate()
    for tarry, name in ((tarry, name) for tarry in ours for name in others):
        rates = [mine[0] / theirs[0] for mine, theirs in zip(found[tarry], found[name])]
        costs = [mine[1] / theirs[1] for mine, theirs in zip(found[tarry], found[name])]
        print(f"{tarry} beside {name}: {statistics.median(rates):.2f} x the jobs a second ({min(rates):.2f} to {max(rates):.2f}), "
              f"{statistics.median(costs):.2f} x the processor time of a worker for a job ({min(costs):.2f} to {max(costs):.2f})")
