"""The table of figures: what was reached, and what was to be reached."""

import statistics


def ratio(results, piece, name, other):
    row = results.get(piece, {})
    if name not in row or other not in row or not row[other]["median"]:
        return None
    return row[name]["median"] / row[other]["median"]


def value(results, piece, name="tarry"):
    return results.get(piece, {}).get(name, {}).get("median")


def median_of(piece, *keys, of="tarry"):
    """The median over the runs of what lies under these keys."""
    def get(results):
        found = results.get(piece, {}).get(of, {}).get("runs", [])
        for key in keys:
            found = [run[key] for run in found if key in run]
        return statistics.median(found) if found else None
    return get


def against(get, other):
    """Makes a row with the ratio of two figures."""
    def found(results):
        ours, theirs = get(results), other(results)
        return ours / theirs if ours is not None and theirs else None
    return found


def late_against(percentile, other):
    """Compares lateness by each queue's own due time, because the others have no finer one."""
    return against(median_of("redis_one_by_one", "late_by_due_ms", percentile), median_of("redis_one_by_one", "late_ms", percentile, of=other))


def best_script(results):
    """Returns the rate of the bare script, driven at the better of both depths."""
    row = results.get("redis_push", {})
    return max((row[name]["median"] for name in ("script-16", "script-64") if name in row), default=None)


def against_script(results, name):
    script, found = best_script(results), value(results, "redis_push", name)
    return found / script if script and found else None


def cpu_ratio(results, piece, name, other):
    """Compares jobs per second of the servers' processor time."""
    rates = [median_of(piece, "jobs_per_cpu_s", of=of)(results) for of in (name, other)]
    return rates[0] / rates[1] if all(rates) else None


def early(results, piece):
    row = results.get(piece, {})
    runs = [run for name, found in row.items() if name.startswith("tarry") for run in found["runs"]]
    return sum(run["early"] for run in runs) if runs else None


def lives_of_two_masters(results):
    row = results.get("redis_masters", {})
    if not {"tarry-1", "tarry-2"} <= row.keys() or not row["tarry-1"]["apart"]:
        return None
    return row["tarry-2"]["lives_per_s"] / row["tarry-1"]["lives_per_s"]


def of_run(piece, *keys):
    """Returns the value under these keys, of the worst run of a piece."""
    def get(results):
        found = [run for row in (results.get(piece, {}).get("tarry"),) if row for run in row["runs"]]
        for key in keys:
            found = [run[key] for run in found if run and run.get(key) is not None]
        return max(found, default=None)
    return get


def mib(get):
    def found(results):
        value_bytes = get(results)
        return None if value_bytes is None else value_bytes / 2**20
    return found


# piece, what, target in words, how to get the figure, how to judge it, how to write it
AIMS = (
    ("push", "push, 8 connections 64 deep", "≥ 2.5 × beanstalkd without log",
     lambda r: ratio(r, "push", "tarry", "beanstalkd"), lambda x: x >= 2.5, "{:.2f} ×"),
    ("push", "", "≥ 50 × beanstalkd with a sync per put",
     lambda r: ratio(r, "push", "tarry", "beanstalkd-sync"), lambda x: x >= 50, "{:.1f} ×"),
    ("single", "push, 64 connections 1 deep", "≥ 1 × beanstalkd without log",
     lambda r: ratio(r, "single", "tarry", "beanstalkd"), lambda x: x >= 1, "{:.2f} ×"),
    ("single", "the same by the server's CPU", "≥ 1 × beanstalkd without log",
     lambda r: cpu_ratio(r, "single", "tarry", "beanstalkd"), lambda x: x >= 1, "{:.2f} ×"),
    ("batch", "push in batches of 100", "≥ 500,000/s", lambda r: value(r, "batch"), lambda x: x >= 500_000,
     "{:,.0f}/s"),
    ("life", "whole life, take by 100", "≥ 3 × beanstalkd without log",
     lambda r: ratio(r, "life", "tarry", "beanstalkd"), lambda x: x >= 3, "{:.2f} ×"),
    ("late", "lateness p99, 10,000/s, 1 M pending", "≤ 2 ms", lambda r: value(r, "late"), lambda x: x <= 2,
     "{:.2f} ms"),
    ("late", "", "≤ 1 × Redis without log", lambda r: ratio(r, "late", "tarry", "redis"), lambda x: x <= 1, "{:.2f} ×"),
    ("late", "", "never early", lambda r: sum(run["early"] for run in r["late"]["tarry"]["runs"])
     if "tarry" in r.get("late", {}) else None, lambda x: x == 0, "{} early"),
    ("ram", "memory, 10 M pending", "≤ 100 bytes a job", lambda r: value(r, "ram"), lambda x: x <= 100,
     "{:.1f} bytes"),
    ("idle", "idle server, 10 s", "no wake-ups", lambda r: value(r, "idle"), lambda x: x == 0, "{} switches"),
    ("redis_push", "on Redis: push, 8 × 64 deep", "≥ 0.8 × the bare script", lambda r: against_script(r, "tarry"),
     lambda x: x >= 0.8, "{:.2f} ×"),
    ("redis_push", "on Redis: push in batches of 100", "≥ 0.8 × the bare script", lambda r: against_script(r, "tarry-batch"),
     lambda x: x >= 0.8, "{:.2f} ×"),
    ("redis_life_now", "on Redis: whole life, due immediately", "≥ 5 × BullMQ", lambda r: ratio(r, "redis_life_now", "tarry", "bullmq"),
     lambda x: x >= 5, "{:.2f} ×"),
    ("redis_one_by_one", "on Redis: lateness p50, 2,000/s, one server", "≤ 1.5 ms", median_of("redis_one_by_one", "late_ms", "p50"),
     lambda x: x <= 1.5, "{:.2f} ms"),
    ("redis_one_by_one", "the same, p99", "≤ 5 ms", median_of("redis_one_by_one", "late_ms", "p99"), lambda x: x <= 5, "{:.2f} ms"),
    *(("redis_one_by_one", f"the same by the returned due time, {percentile}", f"≤ 1 × {title}", late_against(percentile, other), lambda x: x <= 1, "{:.2f} ×")
      for other, title in (("redisson", "Redisson"), ("bullmq", "BullMQ")) for percentile in ("p50", "p99")),
    ("redis_one_by_one", "", "never early", lambda r: early(r, "redis_one_by_one"), lambda x: x == 0, "{} early"),
    ("redis_one_by_one", "on Redis: its time a job, one by one, CPU", "≤ 60 us", median_of("redis_one_by_one", "redis_us_per_job"), lambda x: x <= 60,
     "{:.1f} us"),
    ("redis_one_by_one", "the same, in scripts", "≤ 60 us", median_of("redis_one_by_one", "script_us_per_job"), lambda x: x <= 60, "{:.1f} us"),
    ("redis_late", "on Redis: lateness p99, 5,000/s, two servers", "≤ 5 ms", lambda r: value(r, "redis_late"), lambda x: x <= 5, "{:.2f} ms"),
    ("redis_late_full", "the same with 1 M pending", "≤ 5 ms", lambda r: value(r, "redis_late_full"), lambda x: x <= 5, "{:.2f} ms"),
    ("redis_late", "", "never early", lambda r: early(r, "redis_late"), lambda x: x == 0, "{} early"),
    ("redis_burst", "on Redis: p99 of 500 due at the same time, two servers", "≤ 10 ms", lambda r: value(r, "redis_burst"), lambda x: x <= 10, "{:.2f} ms"),
    ("redis_burst", "", "never early", lambda r: early(r, "redis_burst"), lambda x: x == 0, "{} early"),
    ("redis_life", "on Redis: whole life, due after 1 s", "≥ 6 × BullMQ", lambda r: ratio(r, "redis_life", "tarry", "bullmq"),
     lambda x: x >= 6, "{:.2f} ×"),
    ("redis_life", "", "≥ 10 × Redisson", lambda r: ratio(r, "redis_life", "tarry", "redisson"), lambda x: x >= 10, "{:.2f} ×"),
    ("redis_masters", "on Redis: two masters instead of one", "≥ 1.6 × by the busiest master's time",
     lambda r: ratio(r, "redis_masters", "tarry-1", "tarry-2"), lambda x: x >= 1.6, "{:.2f} ×"),
    ("redis_masters", "", "≥ 1.6 × whole lives", lives_of_two_masters, lambda x: x >= 1.6, "{:.2f} ×"),
    ("redis_ram", "on Redis: memory, ids by the server", "≤ 340 bytes a job", lambda r: value(r, "redis_ram"), lambda x: x <= 340,
     "{:.1f} bytes"),
    ("redis_ram", "on Redis: memory, ids of 26 characters", "≤ 340 bytes a job", lambda r: value(r, "redis_ram", "tarry-own-ids"),
     lambda x: x <= 340, "{:.1f} bytes"),
    ("rabbitmq_confirms", "to RabbitMQ: due jobs confirmed", "≥ 0.7 × its own load tool", lambda r: ratio(r, "rabbitmq_confirms", "tarry", "perftest"),
     lambda x: x >= 0.7, "{:.2f} ×"),
    ("beanstalk_put", "beanstalk puts, 64 deep, synced", "≥ 2 × beanstalkd without log", lambda r: ratio(r, "beanstalk_put", "tarry-beanstalk", "beanstalkd"),
     lambda x: x >= 2, "{:.2f} ×"),
    ("beanstalk_reserve", "beanstalk reserve and delete", "≥ 2 × beanstalkd without log", lambda r: ratio(r, "beanstalk_reserve", "tarry-beanstalk", "beanstalkd"),
     lambda x: x >= 2, "{:.2f} ×"),
    ("sqs_send", "SQS sends of 10, synced", "≥ 5 × ElasticMQ", lambda r: ratio(r, "sqs_send", "tarry-sqs", "elasticmq"), lambda x: x >= 5, "{:.2f} ×"),
    ("sqs_receive", "SQS receives and deletes of 10", "≥ 5 × ElasticMQ", lambda r: ratio(r, "sqs_receive", "tarry-sqs", "elasticmq"), lambda x: x >= 5, "{:.2f} ×"),
    ("deliver_rate", "callbacks to nginx, keep-alive, signed", "≥ 50,000/s", lambda r: value(r, "deliver_rate"), lambda x: x >= 50_000, "{:,.0f}/s"),
    ("two_shards", "two shards on two cores: CPU per job", "≤ 1.1 × one shard on one", lambda r: cpu_ratio(r, "two_shards", "tarry", "tarry-2-shards"),
     lambda x: x <= 1.1, "{:.2f} ×"),
    ("directory_batch", "libtarry in a directory, pushes by 256, CPU", "≥ 800,000 per second of CPU", median_of("directory_batch", "per_cpu_s"),
     lambda x: x >= 800_000, "{:,.0f}"),
    *(("directory_cycle", f"libtarry: push, take, ack{by}", "≥ 2 × SQLite",
       against(median_of("directory_cycle", key), median_of("directory_cycle", key, of="sqlite")), lambda x: x >= 2, "{:.2f} ×")
      for by, key in (("", "per_s"), (", by CPU", "per_cpu_s"))),
    ("deliver_late", "lateness p99 of callbacks, 2,000/s", "≤ 5 ms", lambda r: value(r, "deliver_late"), lambda x: x <= 5, "{:g} ms"),
    ("backlog", "backlog: resident, loaded", "≤ 512 MiB (100 M)", mib(of_run("backlog", "loading", "memory", "rss")), lambda x: x <= 512, "{:.0f} MiB"),
    ("backlog", "backlog: resident, at most while loading", "≤ 512 MiB (100 M)", mib(of_run("backlog", "loading", "memory", "most")), lambda x: x <= 512,
     "{:.0f} MiB"),
    ("backlog", "backlog: slowest 10 s of loading", "≥ 300,000/s", of_run("backlog", "loading", "pushing", "slowest_10s_per_s"), lambda x: x >= 300_000,
     "{:,.0f}/s"),
    ("backlog", "backlog: longest answer", "≤ 100 ms", of_run("backlog", "loading", "pushing", "answer_ms", "max"), lambda x: x <= 100, "{:.1f} ms"),
    ("backlog", "restart after kill -9: ready", "≤ 1 s", of_run("backlog", "restart", "ready_s"), lambda x: x <= 1, "{:.3f} s"),
    ("backlog", "the same: a push acknowledged", "≤ 1 s", of_run("backlog", "restart", "push_s"), lambda x: x <= 1, "{:.3f} s"),
    ("backlog", "the same: jobs lost", "none", of_run("backlog", "restart", "lost"), lambda x: x == 0, "{}"),
    ("backlog", "cancels of far jobs right after it, p99", "≤ 20 ms", of_run("backlog", "restart", "cancels", "ms", "p99"), lambda x: x <= 20, "{:.2f} ms"),
    ("backlog", "the same: refused", "none", of_run("backlog", "restart", "cancels", "refused"), lambda x: x == 0, "{}"),
    ("backlog", "restart, caches dropped: ready", "≤ 1 s", of_run("backlog", "restart_cold", "ready_s"), lambda x: x <= 1, "{:.3f} s"),
    ("backlog", "cancels after that, p99", "≤ 20 ms", of_run("backlog", "restart_cold", "cancels", "ms", "p99"), lambda x: x <= 20, "{:.2f} ms"),
    ("backlog", "lateness p99, 10,000/s, backlog pending", "≤ 2 ms", of_run("backlog", "lateness", "late_ms", "p99"), lambda x: x <= 2, "{:.2f} ms"),
    ("backlog", "", "never early", of_run("backlog", "lateness", "early"), lambda x: x == 0, "{} early"),
    ("burst", "burst: the last delivered after due", "≤ 3 s", of_run("burst", "delivered_s"), lambda x: x <= 3, "{:.2f} s"),
    ("burst", "burst: pushes of others, p99", "≤ 20 ms", of_run("burst", "push_ms", "p99"), lambda x: x <= 20, "{:.1f} ms"),
    ("burst", "", "never early", of_run("burst", "early"), lambda x: x == 0, "{} early"),
    ("late_flush", "lateness p99 while flushing", "≤ 1 × idle", lambda r: value(r, "late_flush"), lambda x: x <= 1.05, "{:.2f} ×"),
    ("shard", "engine and store: durable pushes", "≥ 1 million/s", of_run("shard", "slowest_pushed_per_s"), lambda x: x >= 1e6, "{:,.0f}/s"),
    ("shard", "engine and store: fired and acked", "≥ 1.5 million/s", of_run("shard", "slowest_fired_per_s"), lambda x: x >= 1.5e6, "{:,.0f}/s"),
    ("shard", "bytes written a job that outlives the log", "≤ 2.4 × the job", of_run("shard", "outlives_ratio"), lambda x: x <= 2.4, "{:.2f} ×"),
    ("shard", "bytes written a job that does not", "≤ 1.2 × the job", of_run("shard", "short_ratio"), lambda x: x <= 1.2, "{:.2f} ×"),
    ("rabbitmq_delays", "from RabbitMQ: 30 delays", "never early", lambda r: early(r, "rabbitmq_delays"), lambda x: x == 0, "{} early"),
)


def medians(results, pieces):
    """Prints one line a piece, with the median of each server."""
    for name, row in results.items():
        yield f"{name}: {pieces[name].__doc__}"
        for server, figure in row.items():
            median = figure["median"]
            if median is None:
                yield f"    {server:18}{'-':>14}"
                continue
            yield f"    {server:18}{median:>14,.0f}" if median >= 1000 else f"    {server:18}{median:>14.4g}"


def aims(results):
    """The aims that could be judged: what, target, reached, yes or no."""
    for piece, what, target, get, judge, form in AIMS:
        figure = get(results) if piece in results else None
        if figure is not None:
            yield {"what": what or piece, "target": target, "reached": form.format(figure), "holds": judge(figure)}


def print_limits(machine):
    """Prints what the machine allows any server: the figures above cannot exceed these."""
    rows = (("fdatasync of 4 KiB, one after the other", "fdatasync_per_s"), ("loopback: a byte there and back, one connection", "loopback_per_s"),
            ("Redis PING, 64 connections with one request each", "redis_ping_per_s"))
    print(f"\n{'limit':48}{'':40}{'measured':>16}")
    for what, name in rows:
        print(f"{what:88}{machine[name]:>14,}/s" if machine[name] else f"{what:88}{'not installed':>16}")


def print_table(results, pieces):
    print()
    for line in medians(results, pieces):
        print(line)
    rows = list(aims(results))
    if rows:
        print(f"\n{'figure':48}{'to reach':40}{'reached':>16}")
    for row in rows:
        print(f"{row['what']:48}{row['target']:40}{row['reached']:>16}  {'yes' if row['holds'] else 'NO'}")
