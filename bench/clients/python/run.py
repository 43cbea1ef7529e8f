#!/usr/bin/env python3
"""
tarry's Python worker beside Celery, RQ and Dramatiq on Redis, in one run: bench/clients/python/run.py [--jobs N] [--rounds N]

A round: every queue in turn gets its jobs one by one (pushes a second), then its worker starts and runs them (jobs a second, from the tenth
that is done to the last, so without its start). A job does nothing but be counted. Ratios are of medians. tarry is at its defaults: embedded
store, synced before each answer; Redis at its own, which syncs nothing at all.
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
REPO = HERE.parents[2]
VENV = REPO / "build-bench" / "python"
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

os.environ.setdefault("TARRY_BIN", str(REPO / "build" / "tarry"))

from redis_servers import RedisServer  # noqa: E402
from server import Server  # noqa: E402

PEERS = ["celery==5.7.0", "packaging==25.0", "redis==8.1.0", "rq==3.0.0", "dramatiq==2.2.1"]
# Each as its own page advises for short jobs: Celery with as many processes as there are cores, Dramatiq with its threads, RQ without a fork a job.
WORKERS = {
    "tarry": ["python", "with_tarry.py", "100"],
    "celery": ["celery", "-A", "with_celery", "worker", "--loglevel", "ERROR", "--concurrency", str(os.cpu_count())],
    "celery, threads": ["celery", "-A", "with_celery", "worker", "--loglevel", "ERROR", "--pool", "threads", "--concurrency", "100"],
    "rq": ["rq", "worker", "--worker-class", "rq.worker.SimpleWorker", "--quiet", "--url", "{redis}"],
    "dramatiq": ["dramatiq", "with_dramatiq", "--processes", str(os.cpu_count()), "--threads", "8"],
}


def install():
    if not (VENV / "bin" / "celery").exists():
        print("bench: installing the peers ...", file=sys.stderr)
        subprocess.run(["python3", "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "-q", "--disable-pip-version-check", *PEERS], check=True)


def pushes(name, jobs, env):
    module = "with_" + name.split(",")[0]
    code = f"import time, {module}; {module}.push(10); t = time.perf_counter(); {module}.push({jobs - 10}); print(time.perf_counter() - t)"
    done = subprocess.run([VENV / "bin/python", "-c", code], cwd=HERE, env=env, check=True, capture_output=True, text=True)
    return (jobs - 10) / float(done.stdout)


def work(name, jobs, env, limit_s=600):
    done = pathlib.Path(env["BENCH_DONE"])
    done.write_bytes(b"")
    command = [part.replace("{redis}", env["BENCH_REDIS"]) for part in WORKERS[name]]
    worker = subprocess.Popen([VENV / "bin" / command[0], *command[1:]], cwd=HERE, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = first = time.perf_counter()
    try:
        count = first_count = 0
        while count < jobs:
            time.sleep(0.002)
            count, now = done.stat().st_size, time.perf_counter()
            if not first_count and count >= jobs // 10:
                first, first_count = now, count
            if now - began > limit_s or worker.poll() is not None:
                sys.exit(f"bench: '{name}' has done {count} of {jobs} jobs")
        return (count - first_count) / (time.perf_counter() - first)
    finally:
        worker.terminate()
        worker.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(WORKERS))
    chosen = parser.parse_args()
    install()
    names = chosen.only or list(WORKERS)
    found = {name: {"push": [], "work": []} for name in names}
    with tempfile.TemporaryDirectory() as place:
        server = Server(pathlib.Path(place) / "tarry").start()
        redis = RedisServer().start()
        env = {**os.environ, "TARRY_URL": server.url, "BENCH_REDIS": redis.url, "BENCH_DONE": f"{place}/done", "PYTHONPATH": f"{HERE}:{REPO}/clients/python"}
        try:
            for number in range(chosen.rounds):
                for name in names:
                    found[name]["push"].append(pushes(name, chosen.jobs, env))
                    found[name]["work"].append(work(name, chosen.jobs, env))
                    print(f"round {number + 1}: {name:16} {found[name]['push'][-1]:9.0f} pushes/s {found[name]['work'][-1]:9.0f} jobs/s", flush=True)
        finally:
            redis.terminate()
            server.terminate()
    print(f"\n{'median':16} {'pushes/s':>9} {'jobs/s':>9}   tarry is")
    for name in names:
        push, rate = (statistics.median(found[name][what]) for what in ("push", "work"))
        ratios = [statistics.median(found["tarry"][what]) / mine for what, mine in (("push", push), ("work", rate))] if "tarry" in names else []
        print(f"{name:16} {push:9.0f} {rate:9.0f}   " + ", ".join(f"{ratio:.1f} x" for ratio in ratios))


if __name__ == "__main__":
    main()
