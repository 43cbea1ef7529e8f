"""The rows of docs/performance.md, for the pieces that measure what the store promises."""

import statistics

from .watch import MIB


def ms(found, *names):
    return " / ".join(f"{found[name]:.2f}" for name in names) + " ms"


def mib(amount):
    return f"{amount / MIB:,.0f} MiB"


def backlog(results):
    for run in results["tarry"]["runs"]:
        loaded, pushing, crash, late = run["loading"], run["loading"]["pushing"], run["restart"], run["lateness"]
        memory, cancels, cold = loaded["memory"], crash["cancels"], run.get("restart_cold")
        yield f"| | {run['jobs']:,} |"
        yield "|---|---|"
        yield f"| loaded, pushes/s | {pushing['per_s']:,}/s |"
        yield f"| the same, slowest 10 s | {pushing['slowest_10s_per_s']:,}/s |"
        yield f"| longest time an answer took while loading; p99 | {pushing['answer_ms']['max']:.0f} ms; {pushing['answer_ms']['p99']:.0f} ms |"
        yield f"| resident memory when loaded; its own, of files | {mib(memory['rss'])}; {mib(memory['anon'])}, {mib(memory['file'])} |"
        yield f"| most while loading | {mib(memory['most'])} |"
        yield f"| disk a job | {loaded['disk_per_job']:.0f} bytes |"
        yield f"| after `kill -9`: ready; first push acknowledged | {crash['ready_s']:.2f} s; {crash['push_s']:.2f} s |"
        yield f"| jobs lost | {crash['lost']} |"
        yield f"| {cancels['ms']['count']:,} cancels of random far jobs right after it: p50, p99, max | {ms(cancels['ms'], 'p50', 'p99', 'max')} |"
        if cold:
            yield f"| the same, page cache dropped before the start: ready; p99 of cancels | {cold['ready_s']:.2f} s; {ms(cold['cancels']['ms'], 'p99')} |"
        yield f"| lateness at 10,000 jobs/s, checkpoints going on: p50, p99, p99.9, max | {ms(late['late_ms'], 'p50', 'p99', 'p99.9', 'max')} |"
        yield f"| checkpoints meanwhile; came early | {late['checkpoints']}; {late['early']} |"
        for name, alone in (("loading", run["disk_alone"]), ("lateness", run["disk_alone_late"])):
            yield (f"| the disk by itself, as many bytes a second as for {name}, written by no server: a write and its sync, p50, p99, max | "
                   f"{ms(alone['ms'], 'p50', 'p99', 'max')} |")


def burst(results):
    runs = results["tarry"]["runs"]
    yield "| to reach | reached |"
    yield "|---|---|"
    yield "| all delivered ≤ 3 s after due | " + ", ".join(f"{run['delivered_s']:.2f} s" for run in runs) + " |"
    yield "| pushes of other jobs meanwhile, p99 ≤ 20 ms | " + ", ".join(ms(run["push_ms"], "p99") for run in runs) + " |"


def peers(results):
    columns = [(name, run) for at in range(max(len(found["runs"]) for found in results.values())) for name, found in results.items()
               for run in found["runs"][at:at + 1]]
    yield "| | " + " | ".join(f"{name}, {run['jobs']:,}" for name, run in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    yield "| resident memory | " + " | ".join(mib(run["rss"]) for _, run in columns) + " |"
    yield "| disk | " + " | ".join(mib(run["disk"]) for _, run in columns) + " |"
    yield "| first command answered | " + " | ".join(f"{run['answered_s']:.2f} s" for _, run in columns) + " |"
    yield "| all jobs there | " + " | ".join(f"{run['all_s']:.2f} s" if run["all_s"] is not None else f"{run['there']:,} only" for _, run in columns) + " |"


def shard(results):
    runs = results["tarry"]["runs"][0]["sizes"]
    long, short = [run for run in runs if run["outlives"]], [run for run in runs if not run["outlives"]]
    yield "| to reach | " + " | ".join(f"{run['jobs']:,}" for run in long) + " |"
    yield "|---" * (len(long) + 1) + "|"
    yield "| ≥ 1 million durable pushes/s | " + " | ".join(f"{run['pushed_per_s']:,}/s" for run in long) + " |"
    yield "| ≥ 1.5 million fired, taken and acked/s | " + " | ".join(f"{run['fired_per_s']:,}/s" for run in long) + " |"
    yield "| ≤ 2.4 × the job's record written, where it outlives the log | " + " | ".join(f"{run['ratio']:.2f} ×" for run in long) + " |"
    yield "| ≤ 1.2 × where it does not | " + " | ".join(f"{run['ratio']:.2f} ×" for run in short) + " |"


def late_flush(results):
    runs = results["tarry"]["runs"]
    yield ("| lateness p99 while runs are written and tables merged, against idle: 1 × | "
           + ", ".join("-" if run["ratio"] is None else f"{run['ratio']:.2f} × ({run['at_work_ms']['p99']:.2f} and {run['idle_ms']['p99']:.2f} ms)" for run in runs)
           + " |")


def beside(runs, form):
    """The median over the runs of what `form` makes of them, and what lay around it."""
    found, bare = sorted(runs), form[:form.index("}") + 1]  # without the unit
    return form.format(statistics.median(found)) + (f" ({bare.format(found[0])} to {bare.format(found[-1])})" if len(found) > 1 else "")


def redis_rows(results):
    """Rows of the table of queues on Redis: piece, row, figure of a run, form."""
    def late(percentile, name="late_ms"):
        return lambda run: run[name][percentile]

    one = "2,000/s, due one by one, one server: lateness"
    rows = [("redis_one_by_one", f"{one} {percentile}", late(percentile), "{:.2f} ms") for percentile in ("p50", "p99")]
    rows += [("redis_one_by_one", f"by the returned due time, {percentile}", late(percentile, "late_by_due_ms"), "{:.2f} ms") for percentile in ("p50", "p99")]
    rows += [("redis_one_by_one", "Redis' CPU a job, whole life", lambda run: run["redis_us_per_job"], "{:.0f} µs"),
             ("redis_one_by_one", "of it in scripts", lambda run: run["script_us_per_job"], "{:.0f} µs"),
             ("redis_one_by_one", "calls a job", lambda run: run["calls_per_job"], "{:.2f}"),
             ("redis_one_by_one", "commands a job, including those in scripts", lambda run: run["commands_per_job"], "{:.1f}")]
    rows += [(piece, f"{what}, lateness {percentile}", late(percentile), "{:.2f} ms") for percentile in ("p50", "p99")
             for piece, what in (("redis_late", "5,000/s, two servers"), ("redis_burst", "500 due at one moment, two servers"))]
    rows += [("redis_life", "whole lives a second, due after 1 s", lambda run: run["lives_per_s"], "{:,.0f}/s"),
             ("redis_ram", "memory a pending job", lambda run: run["bytes_per_job"], "{:.0f} bytes")]
    return [row for row in rows if row[0] in results]


def redis(results):
    """Writes all pieces that compare tarry with the other queues on Redis as one table: the median, and from the least to the most."""
    names = ("tarry", "redisson", "bullmq")
    rows = redis_rows(results)
    if not rows:
        return
    yield ""
    yield "| | tarry | Redisson | BullMQ |"
    yield "|---|---|---|---|"
    for piece, what, figure, form in rows:
        cells = []
        for name in names:
            runs = results[piece].get(name, {}).get("runs", [])
            try:
                cells.append(beside([figure(run) for run in runs], form) if runs else "")
            except KeyError:  # no figure
                cells.append("")
        yield f"| {what} | " + " | ".join(cells) + " |"


TABLES = {table.__name__: table for table in (backlog, burst, peers, shard, late_flush)}


def lines(results):
    """Writes the tables of the pieces that were run."""
    yield from redis(results)
    for piece, found in results.items():
        if piece in TABLES and found:
            yield ""
            yield from TABLES[piece](found)
