"""A million jobs that are due at one moment, and pushes of others while they go out."""

import threading
import time

from . import watch, wirehttp
from .backlog import in_background, place, result_of
from .trace import ACKED, DELIVERED, Trace, percentiles

PROBES, PROBE_PER_S = 8, 50


class Probes:
    """Pushes of other jobs, at times fixed beforehand, each answer's time counted from when it should have been sent."""

    def __init__(self, port):
        self.port, self.ending, self.seen, self.failed = port, threading.Event(), [], []
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(PROBES)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def _run(self, number):
        try:
            with wirehttp.Connection(self.port) as connection:
                self._push(connection, time.clock_gettime(time.CLOCK_BOOTTIME) + number / PROBES / PROBE_PER_S)
        except OSError as error:
            self.failed.append(str(error))

    def _push(self, connection, next_s):
        while not self.ending.is_set():
            time.sleep(max(0, next_s - time.clock_gettime(time.CLOCK_BOOTTIME)))
            status, answer, _ = connection.call("POST", "/v1/topics/others/jobs?delay=1h", b"x" * 200)
            if status != 201:
                self.failed.append(f"{status} {answer[:200]}")
            self.seen.append((int(next_s * 1e6), int((time.clock_gettime(time.CLOCK_BOOTTIME) - next_s) * 1e6)))
            next_s += 1 / PROBE_PER_S

    def between(self, since_us, until_us):
        return [took_us for at_us, took_us in self.seen if since_us <= at_us <= until_us]


def one_burst(bench, jobs, lead_s):
    core = place(bench)[1]
    with bench.server("tarry", place(bench)[0]) as server, Trace(bench.base_dir) as trace:
        results = []
        burst_run = in_background(lambda: bench.load(server, core=core, jobs=jobs, due_in=f"{lead_s}s", batch=100, connections=8, pipeline=8, own_ids=True,
                                                     consumers=8, take=1000, topic="burst", trace=trace.path, patience="120s"), results)
        time.sleep(lead_s * 0.75)
        before = wirehttp.metrics(server.port)
        with Probes(server.port) as probes:
            result = result_of(burst_run, results)
        due_us = result["began_us"] + lead_s * 1_000_000
        delivered, acked = trace.entries(DELIVERED), trace.entries(ACKED)
        last_us, last_ack_us = max(at for at, _, _ in delivered), max(at for at, _, _ in acked)
        return {"jobs": jobs, "delivered": result["delivered"], "early": result["early"], "missing": result["missing"], "duplicates": result["duplicates"],
                "pushed_before_due": before["tarry_jobs_pushed_total"] >= jobs, "far_before": int(before["tarry_store_run_jobs"]),
                "pushes_per_s": result["pushes_per_s"], "delivered_s": round((last_us - due_us) / 1e6, 3), "acked_s": round((last_ack_us - due_us) / 1e6, 3),
                "late_ms": result["late_ms"], "push_ms": percentiles(probes.between(due_us, last_ack_us)),
                "push_before_ms": percentiles(probes.between(0, due_us)), "push_failed": probes.failed[:3], "memory": server.memory()}


def burst(bench):
    """jobs pushed beforehand, all due at one moment (--jobs; 1 million): until the last is delivered; pushes of others meanwhile"""
    jobs = bench.jobs or (50_000 if bench.quick else 1_000_000)
    watch.need_space(bench, jobs, 700)
    lead_s = max(10, jobs // (20_000 if bench.quick else 33_000))
    runs = []
    for number in range(bench.rounds):
        found = one_burst(bench, jobs, lead_s)
        push = found["push_ms"]
        bench.say(f"  round {number + 1}  {found['delivered']:,} jobs: the last delivered {found['delivered_s']:.2f} s after due, acked {found['acked_s']:.2f} s; "
                  f"{found['far_before']:,} lay in runs before; early {found['early']}, missing {found['missing']}, twice {found['duplicates']}"
                  + ("" if found["pushed_before_due"] else "; NOT ALL WERE PUSHED IN TIME"))
        bench.say(f"           pushes of others meanwhile: p50 {push['p50']:.1f}  p99 {push['p99']:.1f}  max {push['max']:.1f} ms of {push['count']}; before: "
                  f"p99 {found['push_before_ms']['p99']:.1f} ms; failed {found['push_failed'] or 0}")
        runs.append(found)
    middle = sorted(run["delivered_s"] for run in runs)[len(runs) // 2]
    return {"tarry": {"median": middle, "runs": runs}}


PIECES = {piece.__name__: piece for piece in (burst,)}
