"""A million jobs that are due at one moment, and pushes of others while they go out."""

import time

from . import watch, wirehttp
from .backlog import in_background, place, result_of
from .trace import ACKED, DELIVERED, PUSHED, Trace, percentiles

AFTER_DUE_S = 10


def others(bench, server, core, seconds, trace):
    """Pushes other jobs at a fixed rate; each answer's time is counted from its planned send time, and no push waits for the previous one."""
    return bench.load(server, core=core, rate=400, duration=f"{seconds}s", delay="1h", consumers=0, connections=8, pipeline=1000, topic="others", trace=trace.path)


def between(pushes, since_us, until_us):
    """Returns the durations of pushes planned for this period."""
    return [took_us for at_us, took_us, _ in pushes if since_us <= at_us - took_us <= until_us]


def one_burst(bench, jobs, lead_s):
    core = place(bench)[1]
    with bench.server("tarry", place(bench)[0]) as server, Trace(bench.base_dir) as trace, Trace(bench.base_dir) as beside:
        results, result_beside = [], []
        burst_run = in_background(lambda: bench.load(server, core=core, jobs=jobs, due_in=f"{lead_s}s", batch=100, connections=8, pipeline=8, own_ids=True,
                                                     consumers=8, take=1000, topic="burst", trace=trace.path, timeout="120s"), results)
        time.sleep(lead_s * 0.75)
        before = wirehttp.metrics(server.port)
        others_run = in_background(lambda: others(bench, server, core, lead_s // 4 + AFTER_DUE_S, beside), result_beside)
        result, failed = result_of(burst_run, results), result_of(others_run, result_beside)["push_failed"]
        pushes = beside.entries(PUSHED)
        due_us = result["began_us"] + lead_s * 1_000_000
        delivered, acked = trace.entries(DELIVERED), trace.entries(ACKED)
        last_us, last_ack_us = max(at for at, _, _ in delivered), max(at for at, _, _ in acked)
        return {"jobs": jobs, "delivered": result["delivered"], "early": result["early"], "missing": result["missing"], "duplicates": result["duplicates"],
                "pushed_before_due": before["tarry_jobs_pushed_total"] >= jobs, "far_before": int(before["tarry_store_run_jobs"]),
                "pushes_per_s": result["pushes_per_s"], "delivered_s": round((last_us - due_us) / 1e6, 3), "acked_s": round((last_ack_us - due_us) / 1e6, 3),
                "late_ms": result["late_ms"], "push_ms": percentiles(between(pushes, due_us, last_ack_us)),
                "push_before_ms": percentiles(between(pushes, 0, due_us - 1)), "push_failed": failed, "memory": server.memory()}


def burst(bench):
    """jobs pushed beforehand, all due at one moment (--jobs; 1 million): until the last is delivered; pushes of others meanwhile"""
    jobs = bench.jobs or (50_000 if bench.quick else 1_000_000)
    watch.need_space(bench, jobs, 700)
    lead_s = max(10, jobs // (20_000 if bench.quick else 33_000))
    runs = []
    for number in range(bench.rounds):
        found = one_burst(bench, jobs, lead_s)
        push = found["push_ms"]
        bench.print_line(f"  round {number + 1}  {found['delivered']:,} jobs: the last delivered {found['delivered_s']:.2f} s after due, acked {found['acked_s']:.2f} s; "
                  f"{found['far_before']:,} were in runs before; early {found['early']}, missing {found['missing']}, twice {found['duplicates']}"
                  + ("" if found["pushed_before_due"] else "; NOT ALL WERE PUSHED IN TIME"))
        bench.print_line(f"           pushes of others meanwhile: p50 {push['p50']:.1f}  p99 {push['p99']:.1f}  max {push['max']:.1f} ms of {push['count']}; before: "
                  f"p99 {found['push_before_ms']['p99']:.1f} ms; failed {found['push_failed']}")
        runs.append(found)
    middle = sorted(run["delivered_s"] for run in runs)[len(runs) // 2]
    return {"tarry": {"median": middle, "runs": runs}}


PIECES = {piece.__name__: piece for piece in (burst,)}
