"""The same pending jobs in tarry, in beanstalkd with its log and in Redis with its append-only file: memory, disk, a crash and the start after it."""

import socket
import time

from . import watch, wire, wirehttp
from .watch import MIB

TOPIC = "peers"
NAMES = ("tarry", "beanstalkd-log", "redis-everysec")


def beanstalk_delayed(port):
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        connection.sendall(b"stats\r\n")
        data = connection.recv(65536)
    found = [line.split(b":")[1] for line in data.split(b"\n") if line.startswith(b"current-jobs-delayed:")]
    return int(found[0])


def redis_delayed(port):
    with wire.Connection(port) as connection:
        return connection.ask("ZCARD", f"{{{TOPIC}}}:delayed")


def http_delayed(port):
    with wirehttp.Connection(port) as connection:
        return connection.topic(TOPIC).get("delayed", 0)


DELAYED = {"http": http_delayed, "beanstalk": beanstalk_delayed, "redis": redis_delayed}


def settled(server):
    """Waits until the background work of loading has ended: checkpoints, a rewrite of the append-only file, the log's last sync."""
    if server.kind.protocol == "http":
        watch.quiet(server)
        return
    time.sleep(2)
    if server.kind.protocol == "redis":
        with wire.Connection(server.port) as connection:
            while connection.info("persistence").get("aof_rewrite_in_progress") == "1":
                time.sleep(0.2)


def started(server, jobs):
    """Seconds until the first command is answered, and until all jobs are there."""
    begun = time.monotonic()
    answered_s = server.start()
    count, timeout_s = DELAYED[server.kind.protocol](server.port), 60
    while count < jobs and time.monotonic() - begun - answered_s < timeout_s:
        time.sleep(0.01)
        count = DELAYED[server.kind.protocol](server.port)
    return {"answered_s": round(answered_s, 3), "all_s": round(time.monotonic() - begun, 3) if count >= jobs else None, "there": count}


def one(bench, name, jobs):
    # Without batches a beanstalkd is slow to load; so it is given more at a time.
    size = {"pipeline": 64} if name.startswith("beanstalkd") else {"pipeline": 8, "batch": 100, "own_ids": True}
    with bench.server(name) as server:
        loaded = bench.load(server, jobs=jobs, delay="1h..30d", consumers=0, topic=TOPIC, timeout="600s", connections=8, **size)
        settled(server)
        memory, disk = server.memory(), server.disk_bytes()
        server.kill()
        found = {"jobs": jobs, "loaded_per_s": loaded["pushes_per_s"], "refused": loaded["push_failed"], "rss": memory["rss"], "anon": memory["anon"],
                 "most": memory["most"], "disk": disk, **started(server, jobs)}
        found["rss_after"] = server.memory()["rss"]
    everything = f"all there after {found['all_s']:.2f} s" if found["all_s"] is not None else f"ONLY {found['there']:,} THERE"
    bench.print_line(f"  {name:16} {jobs:>9,} jobs  {found['loaded_per_s']:>9,}/s  RSS {found['rss'] / MIB:>7,.0f} MiB ({found['rss'] / jobs:.0f} bytes a job)  "
              f"disk {found['disk'] / MIB:>7,.0f} MiB ({found['disk'] / jobs:.0f} a job)  after kill -9 answers in {found['answered_s']:.2f} s, {everything}, "
              f"RSS {found['rss_after'] / MIB:,.0f} MiB")
    return found


def print_ratios(bench, rows, jobs):
    tarry = rows.get("tarry")
    if not tarry:
        return
    bench.print_line(f"  {jobs:,} jobs     {'RSS':>10}{'disk':>10}{'answers':>10}{'all there':>10}   as multiples of tarry's")
    for name, row in rows.items():
        def times(key):
            return f"{row[key] / tarry[key]:.2f} x" if row[key] and tarry[key] else "-"

        bench.print_line(f"  {name:16}{times('rss'):>10}{times('disk'):>10}{times('answered_s'):>10}{times('all_s'):>10}")


def peers(bench):
    """the same pending jobs in tarry, beanstalkd (log, fsync 50 ms) and Redis (AOF, everysec): memory, disk, restart (--jobs; 1 and 5 million)"""
    sizes = [bench.jobs] if bench.jobs else [20_000] if bench.quick else [1_000_000, 5_000_000]
    watch.need_space(bench, max(sizes), 1000)
    runs = {name: [] for name in bench.wanted(NAMES)}
    for jobs in sizes:
        rows = {}
        for name in runs:
            rows[name] = one(bench, name, jobs)
            runs[name].append(rows[name])
        print_ratios(bench, rows, jobs)
    return {name: {"median": round(found[0]["rss"] / found[0]["jobs"], 1), "runs": found} for name, found in runs.items() if found}


PIECES = {piece.__name__: piece for piece in (peers,)}
