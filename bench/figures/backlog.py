"""Many jobs pending, due over a month: loading them, the memory they take, a crash, and how late others come meanwhile.

Server and generator have both cores, placed by the system, unless bench/run has --pin.
"""

import random
import threading
import time

from . import disk, watch, wirehttp
from .trace import ACKED, DELIVERED, PUSHED, Trace, percentiles
from .watch import MIB

TOPIC, BYTES_EACH, LOG_BYTES_EACH, CANCELS = "backlog", 350, 231, 2000
MONTH = {"delay": "1h..30d", "consumers": 0, "own_ids": True, "batch": 100, "topic": TOPIC, "timeout": "600s"}


def place(bench):
    """Cores of server and generator: given to the system, or one each."""
    return ("0", "1") if bench.pin else (None, None)


def in_background(work, results):
    def run():
        try:
            results.append(work())
        except Exception as error:  # reported by the thread that joins
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def result_of(thread, results):
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def per_job(amount, jobs):
    return round(amount / jobs, 1)


def memory_words(memory):
    return f"RSS {memory['rss'] / MIB:.0f} MiB ({memory['anon'] / MIB:.0f} its own, {memory['file'] / MIB:.0f} of files)"


# ---- the parts of it ----


def loading(bench, server, jobs):
    empty, written = server.memory(), disk.written_bytes(bench.base_dir)
    with Trace(bench.base_dir) as trace, watch.Watch(bench, server) as watched:
        loaded = bench.load(server, core=place(bench)[1], jobs=jobs, connections=8, pipeline=8, trace=trace.path, **MONTH)
        at_end = server.memory()
        found = {"pushing": trace.pushing(), "run": loaded["run"], "refused": loaded["push_failed"], "progress": watched.rows}
    watch.quiet(server)
    found.update(empty=empty, memory_at_end=at_end, memory=server.memory(), disk=server.disk_bytes(), disk_per_job=per_job(server.disk_bytes(), jobs),
                 metrics={name: int(value) for name, value in wirehttp.metrics(server.port).items() if name.startswith("tarry_store_")})
    pushing = found["pushing"]
    found["written_per_s"] = round((disk.written_bytes(bench.base_dir) - written) / jobs * pushing["per_s"])
    bench.print_line(f"  loaded     {pushing['per_s']:,}/s, slowest 10 s {pushing['slowest_10s_per_s']:,}/s; answers p99 {pushing['answer_ms']['p99']:.1f} ms, "
              f"longest {pushing['answer_ms']['max']:.1f} ms; longest silence {pushing['silence_max_ms']:.1f} ms; refused {found['refused']}")
    bench.print_line(f"  memory     {memory_words(found['memory'])}, most while loading {found['memory']['most'] / MIB:.0f} MiB; "
              f"{per_job(found['memory']['rss'], jobs)} bytes a job")
    bench.print_line(f"  disk       {found['disk'] / MIB:,.0f} MiB, {found['disk_per_job']} bytes a job")
    return found


def restarting(bench, server, cold):
    """Measures the restart after a kill -9."""
    server.kill()
    if cold and not watch.drop_caches():
        raise RuntimeError("the page cache cannot be dropped: --cold needs the right to write /proc/sys/vm/drop_caches")
    begun = time.monotonic()
    ready_s = server.start()
    with wirehttp.Connection(server.port) as connection:
        status, answer, _ = connection.call("PUT", f"/v1/topics/restart/jobs/{random.getrandbits(64):x}?delay=1h", b"x" * 200)
        acked_s = time.monotonic() - begun
        if status not in (200, 201):
            raise RuntimeError(f"the first push after the restart was answered {status} {answer[:200]}")
        counts = connection.topic(TOPIC)
    return {"ready_s": round(ready_s, 3), "push_s": round(acked_s, 3), "delayed": counts.get("delayed", 0)}


def ids_of(run, indices):
    return [f"r{run}i{index:016x}" for index in indices]


def cancelling(server, ids):
    """Pushes one after the other over one connection."""
    took_us, refused = [], []
    with wirehttp.Connection(server.port) as connection:
        for name in ids:
            status, answer, seconds = connection.call("DELETE", f"/v1/topics/{TOPIC}/jobs/{name}")
            took_us.append(seconds * 1e6)
            if status != 200:
                refused.append((status, answer[:200].decode(errors="replace")))
    return {"ms": percentiles(took_us), "refused": len(refused), "first_refusal": refused[:1]}


def crash(bench, server, run, indices, expected, cold=False):
    found = restarting(bench, server, cold)
    found["cancels"] = cancelling(server, ids_of(run, indices))
    found["memory"] = server.memory()
    found["lost"] = expected - found["delayed"]
    cancels = found["cancels"]
    bench.print_line(f"  restart    after kill -9{', caches dropped' if cold else ''}: ready in {found['ready_s']:.3f} s, first push acknowledged after "
              f"{found['push_s']:.3f} s; lost {found['lost']}")
    bench.print_line(f"  cancels    {len(indices):,} of random far jobs: p50 {cancels['ms']['p50']:.2f}  p99 {cancels['ms']['p99']:.2f}  max {cancels['ms']['max']:.2f} ms; "
              f"refused {cancels['refused']} {cancels['first_refusal'] or ''}")
    bench.print_line(f"  memory     {memory_words(found['memory'])} after the restart")
    return found


def late_beside(bench, server, seconds, beside_per_s):
    """Takes and acks 10,000 jobs/s while far jobs are pushed, so that there is something to write and to merge."""
    core = place(bench)[1]
    before, written = wirehttp.metrics(server.port), disk.written_bytes(bench.base_dir)
    with Trace(bench.base_dir) as trace, watch.Helpers(server) as helpers:
        beside = []
        far = in_background(lambda: bench.load(server, core=core, rate=beside_per_s, duration=f"{seconds + 5}s", connections=1, pipeline=64, **MONTH), beside)
        result = bench.load(server, core=core, topic="late", rate=10_000, duration=f"{seconds}s", delay="1s..5s", consumers=4, take=100, trace=trace.path)
        result_of(far, beside)
        deliveries, pushes = trace.entries(DELIVERED), trace.entries(PUSHED)
        acked = sum(jobs for _, _, jobs in trace.entries(ACKED))
    after = wirehttp.metrics(server.port)
    at_work, idle = helpers.split(deliveries)
    found = {"late_ms": result["late_ms"], "early": result["early"], "missing": result["missing"], "duplicates": result["duplicates"], "acked": acked,
             "push_ms": percentiles(took for _, took, _ in pushes), "at_work_s": round(helpers.busy_s(), 1),
             "at_work_ms": percentiles(took for _, took, _ in at_work), "idle_ms": percentiles(took for _, took, _ in idle),
             "checkpoints": int(after["tarry_store_checkpoints_total"] - before["tarry_store_checkpoints_total"]), "memory": server.memory()}
    found["written_per_s"] = round((disk.written_bytes(bench.base_dir) - written) / (seconds + 5))
    late = found["late_ms"]
    bench.print_line(f"  lateness   10,000 jobs/s for {seconds} s, {beside_per_s:,} far ones/s beside: p50 {late['p50']:.2f}  p99 {late['p99']:.2f}  "
              f"p99.9 {late['p99.9']:.2f}  max {late['max']:.2f} ms; early {found['early']}, missing {found['missing']}; {found['checkpoints']} checkpoints")
    return found


def disk_alone(bench, log_per_s, all_per_s):
    """The control: as many bytes a second, and no server."""
    others_per_s = max(all_per_s - log_per_s, 0)
    found = {"log_per_s": log_per_s, "others_per_s": others_per_s, "ms": disk.alone(bench.base_dir, log_per_s, others_per_s, 5 if bench.quick else 30)}
    bench.print_line(f"  disk alone {log_per_s / MIB:.0f} MiB/s of log, {others_per_s / MIB:.0f} MiB/s beside it, no server: a write with its sync "
              f"p50 {found['ms']['p50']:.2f}  p99 {found['ms']['p99']:.2f}  max {found['ms']['max']:.2f} ms")
    return found


# ---- the pieces ----


def backlog(bench):
    """jobs pending, due over 1 h to 30 d (--jobs; 10 million): loading, memory, kill -9 and restart, cancels, lateness"""
    jobs = bench.jobs or (200_000 if bench.quick else 10_000_000)
    watch.need_space(bench, jobs, BYTES_EACH)
    with bench.server("tarry", place(bench)[0]) as server:
        found = {"jobs": jobs, "loading": loading(bench, server, jobs)}
        chosen = random.sample(range(jobs * 9 // 10), CANCELS * (2 if bench.cold else 1))  # the last ones may not be far yet
        run = found["loading"]["run"]
        expected = jobs - found["loading"]["refused"]
        found["restart"] = crash(bench, server, run, chosen[:CANCELS], expected)
        if bench.cold:
            found["restart_cold"] = crash(bench, server, run, chosen[CANCELS:], expected - CANCELS, cold=True)
        found["lateness"] = late_beside(bench, server, 8 if bench.quick else 60, 20_000)
        server.kill()
        per_s = found["loading"]["pushing"]["per_s"]
        found["disk_alone"] = disk_alone(bench, per_s * LOG_BYTES_EACH, found["loading"]["written_per_s"])
        found["disk_alone_late"] = disk_alone(bench, 10 * MIB, found["lateness"]["written_per_s"])
    return {"tarry": {"median": found["loading"]["pushing"]["per_s"], "runs": [found]}}


def late_flush(bench):
    """lateness p99 while runs are written and tables merged, against the rest of the same run (--jobs pending before; 2 million)"""
    jobs = bench.jobs or (200_000 if bench.quick else 2_000_000)
    watch.need_space(bench, jobs, BYTES_EACH)
    runs = []
    for number in range(bench.rounds):
        with bench.server("tarry", place(bench)[0]) as server:
            bench.load(server, core=place(bench)[1], jobs=jobs, connections=8, pipeline=8, **MONTH)
            watch.quiet(server)
            found = late_beside(bench, server, 10 if bench.quick else 90, 10_000)
        at_work, idle = found["at_work_ms"], found["idle_ms"]
        found["ratio"] = round(at_work["p99"] / idle["p99"], 3) if at_work["count"] and idle["count"] and idle["p99"] else None
        bench.print_line(f"  round {number + 1}  at work {found['at_work_s']} s: p99 {at_work['p99']:.2f} ms of {at_work['count']:,}; idle: p99 {idle['p99']:.2f} ms of "
                  f"{idle['count']:,}; ratio {found['ratio']}")
        runs.append(found)
    ratios = sorted(run["ratio"] for run in runs if run["ratio"] is not None)
    return {"tarry": {"median": ratios[len(ratios) // 2] if ratios else None, "runs": runs}}


PIECES = {piece.__name__: piece for piece in (backlog, late_flush)}
