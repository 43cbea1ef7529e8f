"""Drives Celery for bench/batches/run.py and prints one JSON object: chords.py PORT wait COUNT AT_ONCE, or PORT chords CHORDS MEMBERS. The worker has eight threads."""

import concurrent.futures
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import celery

PORT = os.environ.get("BENCH_REDIS") or sys.argv[1]
app = celery.Celery("chords", broker=f"redis://127.0.0.1:{PORT}/1", backend=f"redis://127.0.0.1:{PORT}/2")
app.conf.update(worker_prefetch_multiplier=16, task_ignore_result=False, result_expires=3600)


@app.task(name="chords.add")
def add(a, b):
    return a + b


@app.task(name="chords.total")
def total(found):
    return len(found)


def timed_get():
    start = time.perf_counter()
    assert add.delay(1, 2).get(timeout=60) == 3
    return (time.perf_counter() - start) * 1000


def wait(count, at_once):
    for _ in range(20):
        timed_get()
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        took = sorted(pool.map(lambda _: timed_get(), range(count)))
    return {"p50_ms": statistics.median(took), "p99_ms": took[int(count * 0.99)], "per_s": count / (time.perf_counter() - start)}


def chords(count, members):
    timed_get()
    start = time.perf_counter()
    waiting = [celery.chord([add.s(n, m) for m in range(members)])(total.s()) for n in range(count)]
    for one in waiting:
        assert one.get(timeout=600) == members
    return {"members_per_s": count * members / (time.perf_counter() - start)}


if __name__ == "__main__":
    mode, first, second = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "chords", "worker", "--pool=threads", "--concurrency=8", "--loglevel=ERROR"],
                              cwd=os.path.dirname(os.path.abspath(__file__)), env={**os.environ, "BENCH_REDIS": PORT}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = (chords if mode == "chords" else wait)(first, second)
    finally:
        worker.terminate()
        worker.wait()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({**found, "cpu_s": sum(one.ru_utime + one.ru_stime for one in used)}))
