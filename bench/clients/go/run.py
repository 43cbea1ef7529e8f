#!/usr/bin/env python3
"""
tarry's Go client and worker compared with asynq on Redis, in one run: bench/clients/go/run.py [--jobs N] [--rounds N]

A round: each in turn gets its jobs by single calls from 100 goroutines (pushes a second), then its worker runs them, 100 in parallel (jobs a
second, from the tenth of them to the last, so without its start). A job is only counted. tarry's client also pushes as many
by its call for many; asynq has no such call. Ratios are of medians. tarry is at its defaults: embedded store, synced before each answer; Redis
saves nothing at all.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[2]
DRIVER = REPO / "build-bench" / "go" / "drive"
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

os.environ.setdefault("TARRY_BIN", str(REPO / "build" / "tarry"))

from redis_servers import RedisServer  # noqa: E402
from server import Server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    subprocess.run(["go", "build", "-o", DRIVER, "."], cwd=HERE, check=True)
    found = {}
    with tempfile.TemporaryDirectory() as place:
        server = Server(pathlib.Path(place) / "tarry").start()
        redis = RedisServer().start()
        env = {**os.environ, "TARRY_URL": server.url, "BENCH_REDIS": redis.url.split("//")[-1].split("/")[0]}
        try:
            for number in range(chosen.rounds):
                for name, what in (("tarry", "push"), ("tarry", "work"), ("asynq", "push"), ("asynq", "work"), ("tarry", "many"), ("tarry", "work")):
                    done = subprocess.run([DRIVER, name, what, str(chosen.jobs)], env=env, check=True, capture_output=True, text=True, timeout=600)
                    found.setdefault((name, what), []).append(float(done.stdout))
                    print(f"round {number + 1}: {name} {what} {float(done.stdout):9.0f} a second", flush=True)
        finally:
            redis.terminate()
            server.terminate()
    median = {key: statistics.median(rates) for key, rates in found.items()}
    print()
    for name, what, peer in (("tarry", "push", "push"), ("tarry", "many", "push"), ("tarry", "work", "work")):
        other = median["asynq", peer]
        print(f"median: {name} {what} {median[name, what]:9.0f} a second, asynq {peer} {other:9.0f}: {median[name, what] / other:.2f} x")


if __name__ == "__main__":
    main()
