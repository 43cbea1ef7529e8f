"""The pieces on Redis: tarry on a Redis of its own, beside BullMQ, Redisson and the bare script on the same Redis.

Redis has core 0; tarry, the generator, redis-benchmark, node and java share core 1, so that each way has the same machine. Where lateness is
measured nothing is full, and the system places all as it likes. Redis and tarry have their default settings, but that Redis writes no files.
"""

import csv
import os
import statistics
import subprocess
import time

from . import redis_peers, servers, wire

CLIENT_CORE = "1"
BODY = "abcdefghijklmnopqrstuvwxyz" * 7 + "abcdefghijklmnopqr"
TARRY = servers.Kind("tarry", "http", "{tarry} serve --store {store} --listen 127.0.0.1:{port}", "on Redis, one Redis, no log")
TARRY_IN_SHARDS = servers.Kind("tarry", "http", "{tarry} serve --store {store} --shards {shards} --listen 127.0.0.1:{port}", "the same, in so many shards")
CLUSTER = servers.Kind("redis-cluster", "redis", "redis-server --port {port} --bind 127.0.0.1 --dir {dir} --save '' --appendonly no "
                       "--cluster-enabled yes --cluster-port {bus}", "one master of a cluster")
BARE_PUSH = ("redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) "
             "return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])")
SCRIPTS = ("fcall", "evalsha", "eval")
NOT_IN_SCRIPTS = ("blpop", "bzpopmin", "multi", "exec")  # what a client alone can call, besides scripts
SLOTS = 16384


class Store:
    """A Redis and the tarry servers on it, all fresh. `shards` None: as many as tarry takes by itself."""

    def __init__(self, bench, tarries=1, pinned=True, shards=None):
        self.bench, self.shards = bench, shards
        self.redis = servers.Server(servers.KINDS["redis"], None, bench.base_dir, core="0" if pinned else None)
        self.core = CLIENT_CORE if pinned else None
        self.count, self.tarries = tarries, []

    def __enter__(self):
        self.redis.start()
        try:
            for _ in range(self.count):
                self.tarries.append(tarry_on(self.bench, f"redis://127.0.0.1:{self.redis.port}", self.core, self.shards))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in [*self.tarries, self.redis]:
            server.__exit__()

    def watched(self, run):
        """Returns the result of `run`, with its cost for Redis."""
        with wire.Connection(self.redis.port) as connection:
            connection.ask("CONFIG", "RESETSTAT")
            cpu, begun = self.redis.cpu_s(), time.monotonic()
            result = run()
            cpu, elapsed = self.redis.cpu_s() - cpu, time.monotonic() - begun
            commands = connection.commands()
        jobs = max(1, result.get("acked") or 0, result["pushed"])
        result["redis_busy"] = round(cpu / elapsed, 3)
        result["redis_us_per_job"] = round(cpu * 1e6 / jobs, 2)
        result.update({name: round(amount / jobs, 3) for name, amount in cost(commands).items()})
        return result

    def load(self, **flags):
        """Runs the generator through tarry, or directly on Redis without tarry."""
        first, second = (*self.tarries, None, None)[:2]
        return self.watched(lambda: self.bench.load(first or self.redis, second=second, core=self.core, **flags))

    def bullmq(self, mode, *numbers):
        return self.watched(lambda: redis_peers.bullmq(self.bench, self.redis.port, self.core, mode, *numbers))

    def redisson(self, mode, *numbers):
        return self.watched(lambda: redis_peers.redisson(self.bench, self.redis.port, self.core, mode, *numbers))


def cost(commands):
    """Reads the counters of commands: client calls, time in scripts, and all commands carried out, also those inside scripts."""
    def calls(names):
        return sum(commands[name][0] for name in names if name in commands)

    return {"calls_per_job": calls(SCRIPTS + NOT_IN_SCRIPTS), "script_us_per_job": sum(commands[name][1] for name in SCRIPTS if name in commands),
            "commands_per_job": calls(name for name in commands if name not in SCRIPTS)}


def tarry_on(bench, store, core, shards=None):
    kind, words = (TARRY_IN_SHARDS, {"shards": shards}) if shards else (TARRY, {})
    server = servers.Server(kind, bench.tarry, bench.base_dir, core=core, store=store, **words)
    try:
        server.start()
    except BaseException:
        server.__exit__()
        raise
    return server


def in_turn(bench, ways, figure, form="{:>10,.0f}/s"):
    """Every way in turn, round after round: {name: {median, runs}}. A way is a function without arguments."""
    runs = {name: [] for name in ways if not bench.only or name.split("-")[0] in bench.only}
    for number in range(bench.rounds):
        for name in runs:
            result = ways[name]()
            result["load"] = os.getloadavg()[0]
            runs[name].append(result)
            tarry = f"  tarry busy {result['server_busy']:.0%}" if "server_busy" in result and name.startswith("tarry") else ""
            bench.print_line(f"  round {number + 1}  {name:22} {form.format(figure(result))}{shown_cost(result)}{tarry}{shown_lateness(result)}")
    return {name: {"median": statistics.median(figure(run) for run in all_runs), "runs": all_runs} for name, all_runs in runs.items() if all_runs}


def shown_cost(result):
    if "redis_busy" not in result:
        return ""
    inside = (f" ({result['script_us_per_job']:.1f} in scripts, {result['calls_per_job']:.2f} calls, {result['commands_per_job']:.1f} commands)"
              if result.get("calls_per_job") else "")
    return f"  Redis {result['redis_busy']:.0%}, {result['redis_us_per_job']:.1f} us a job{inside}"


def shown_lateness(result):
    late, due = result.get("late_ms"), result.get("late_by_due_ms")
    if not late or not late["max"]:
        return ""
    by_due = f", by the returned due time p50 {due['p50']:.2f} p99 {due['p99']:.2f}" if due else ""
    return f"  late p50 {late['p50']:.2f} p99 {late['p99']:.2f} max {late['max']:.2f} ms{by_due}, early {result['early']}"


def with_store(bench, act, **options):
    with Store(bench, **options) as store:
        return act(store)


# ---- enqueue ----

def redis_benchmark(bench, depth):
    """The bare script, one job a call, 8 connections `depth` deep."""
    def act(store):
        jobs = 120_000 * bench.seconds
        with wire.Connection(store.redis.port) as connection:
            sha = connection.ask("SCRIPT", "LOAD", BARE_PUSH).decode()

        def run():
            done = subprocess.run(["taskset", "-c", CLIENT_CORE, "redis-benchmark", "-p", str(store.redis.port), "-c", "8", "-P", str(depth), "-n", str(jobs),
                                   "-r", "3600000", "--csv", "EVALSHA", sha, "2", "{plain}:delayed", "{plain}:bodies",
                                   "__rand_int____rand_int__", "1__rand_int__", BODY], check=True, text=True, stdout=subprocess.PIPE)
            rate = float(list(csv.DictReader(done.stdout.splitlines()))[0]["rps"])
            return {"pushes_per_s": round(rate), "pushed": jobs}

        result = store.watched(run)
        with wire.Connection(store.redis.port) as connection:
            result["stored"] = connection.ask("HLEN", "{plain}:bodies")
        if result["stored"] < 0.99 * jobs:
            raise RuntimeError(f"redis-benchmark stored {result['stored']} of {jobs} jobs")
        return result
    return lambda: with_store(bench, act, tarries=0)


def redis_push(bench):
    """enqueue on Redis: through tarry, and the bare script (ZADD + HSET) by redis-benchmark, 8 connections 16 and 64 deep"""
    pushing = {"duration": f"{bench.seconds}s", "delay": "1h..2h", "consumers": 0, "connections": 8}
    ways = {
        "tarry": lambda: with_store(bench, lambda store: store.load(pipeline=64, **pushing)),
        "script-16": redis_benchmark(bench, 16),
        "script-64": redis_benchmark(bench, 64),
        "tarry-batch": lambda: with_store(bench, lambda store: store.load(pipeline=8, batch=100, **pushing)),
        "plain": lambda: with_store(bench, lambda store: store.load(pipeline=64, **pushing), tarries=0),
        "plain-batch": lambda: with_store(bench, lambda store: store.load(pipeline=8, batch=100, **pushing), tarries=0),
    }
    return in_turn(bench, ways, lambda run: run["pushes_per_s"])


# ---- beside other queues on Redis ----

def beside(bench, ways, act, **options):
    """The ways, and those of the other queues that are here: act(store, run) with the function that runs it."""
    for name, has in (("bullmq", redis_peers.has_bullmq), ("redisson", redis_peers.has_redisson)):
        if has(bench):
            ways[name] = lambda name=name: with_store(bench, lambda store: act(name, getattr(store, name)), tarries=0, **options)
    return ways


def redis_one_by_one(bench):
    """jobs pushed one by one at 2,000/s, due one by one after 1 to 2 s, taken and acked one by one, one server: lateness, and Redis' time a job"""
    seconds = 2 * bench.seconds
    ways = {"tarry": lambda: with_store(bench, lambda store: store.load(rate=2000, duration=f"{seconds}s", delay="1s..2s", consumers=16, take=1), pinned=False)}
    beside(bench, ways, lambda name, run: run("one" if name == "bullmq" else "late", 2000, seconds, 1000, 2000), pinned=False)
    return in_turn(bench, ways, lambda run: run["late_ms"]["p99"], "p99 {:>9.2f} ms")


def late(bench):
    return {"rate": 5000, "duration": f"{2 * bench.seconds}s", "delay": "1s..2s", "consumers": 4, "take": 100}


def redis_late(bench):
    """lateness on Redis at 5,000 jobs/s: two tarry servers; BullMQ and Redisson"""
    ways = {"tarry": lambda: with_store(bench, lambda store: store.load(**late(bench)), tarries=2, pinned=False)}
    beside(bench, ways, lambda _, run: run("late", 5000, 2 * bench.seconds, 1000, 2000), pinned=False)
    return in_turn(bench, ways, lambda run: run["late_ms"]["p99"], "p99 {:>9.2f} ms")


def redis_burst(bench):
    """lateness on Redis of 500 jobs due at the same moment, again and again: two tarry servers; BullMQ and Redisson"""
    times = 2 * bench.seconds

    def bursts(store):
        runs = [store.load(jobs=500, batch=500, connections=1, pipeline=1, delay="1s", consumers=4, take=100) for _ in range(times + 1)][1:]
        late = {name: statistics.median(run["late_ms"][name] for run in runs) for name in ("p50", "p99", "p99.9")}
        late["max"] = max(run["late_ms"]["max"] for run in runs)
        return {"late_ms": late, "early": sum(run["early"] for run in runs), "pushed": 500 * times, "runs": runs}

    ways = {"tarry": lambda: with_store(bench, bursts, tarries=2, pinned=False)}
    beside(bench, ways, lambda _, run: run("burst", 500, 1000, times), pinned=False)
    return in_turn(bench, ways, lambda run: run["late_ms"]["p99"], "p99 {:>9.2f} ms")


def redis_life(bench):
    """whole life on Redis: pushed, due after 1 s, taken by 100 and acked; BullMQ with addBulk and a worker of 200 parallel jobs; Redisson"""
    ways = {"tarry": lambda: with_store(bench, lambda store: store.load(delay="1s", **living(bench)))}
    beside(bench, ways, lambda name, run: run("life", (20_000 if name == "bullmq" else 10_000) * bench.seconds, 1000))
    return in_turn(bench, ways, lambda run: run["lives_per_s"])


def living(bench):
    return {"duration": f"{2 * bench.seconds}s", "consumers": 4, "take": 100, "timeout": "120s"}


# ---- more of tarry ----

def redis_life_now(bench):
    """the same due immediately, one by one and in batches of 100; the plain queue, due after 1 s; BullMQ, due immediately"""
    ways = {
        "tarry": lambda: with_store(bench, lambda store: store.load(delay="0s", **living(bench))),
        "tarry-batch": lambda: with_store(bench, lambda store: store.load(delay="0s", pipeline=8, batch=100, **living(bench))),
        "plain-1s": lambda: with_store(bench, lambda store: store.load(delay="1s", **living(bench)), tarries=0),
    }
    if redis_peers.has_bullmq(bench):
        ways["bullmq"] = lambda: with_store(bench, lambda store: store.bullmq("life", 20_000 * bench.seconds, 0), tarries=0)
    return in_turn(bench, ways, lambda run: run["lives_per_s"])


def redis_late_full(bench):
    """lateness on Redis at 5,000 jobs/s, two servers, with 1 million others pending"""
    def full(store):
        bench.load(store.tarries[0], core=None, topic="late", jobs=100_000 if bench.quick else 1_000_000, delay="2h..3h", consumers=0, pipeline=8, batch=100)
        return store.load(topic="late", **late(bench))

    ways = {"tarry": lambda: with_store(bench, full, tarries=2, pinned=False)}
    return in_turn(bench, ways, lambda run: run["late_ms"]["p99"], "p99 {:>9.2f} ms")


def redis_shards(bench):
    """lateness on Redis by the number of shards: one server at 2,000 jobs/s, two at 5,000"""
    ways = {}
    for shards in (1, 2, 8):
        for tarries, rate in ((1, 2000), (2, 5000)):
            flags, options = {**late(bench), "rate": rate}, {"tarries": tarries, "shards": shards}
            ways[f"tarry-{shards}-at-{rate}"] = lambda flags=flags, options=options: with_store(bench, lambda store: store.load(**flags), pinned=False, **options)
    return in_turn(bench, ways, lambda run: run["late_ms"]["p99"], "p99 {:>9.2f} ms")


# ---- masters ----

class Cluster:
    """A cluster of so many masters, each with its share of the slots; redis-cli would require three."""

    def __init__(self, bench, masters, cores):
        self.masters = []
        try:
            for number in range(masters):
                server = servers.Server(CLUSTER, None, bench.base_dir, core=cores[number % len(cores)], bus=servers.free_port())
                self.masters.append(server)
                server.start()
            self._share()
        except BaseException:
            self.__exit__()
            raise
        self.url = "redis-cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.masters)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.masters:
            server.__exit__()

    def _share(self):
        links = [wire.Connection(server.port) for server in self.masters]
        share = SLOTS // len(links)
        for number, link in enumerate(links):
            last = SLOTS - 1 if number == len(links) - 1 else (number + 1) * share - 1
            link.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            link.ask("CLUSTER", "ADDSLOTSRANGE", number * share, last)
            if number:
                first = self.masters[0]
                link.ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.words["bus"])
        limit = time.monotonic() + 30
        while not all(f"cluster_known_nodes:{len(links)}" in text and "cluster_state:ok" in text and f"cluster_slots_ok:{SLOTS}" in text
                      for text in (link.ask("CLUSTER", "INFO").decode() for link in links)):
            if time.monotonic() > limit:
                raise RuntimeError("the cluster does not come together")
            time.sleep(0.05)
        for link in links:
            link.close()

    def counters(self):
        """Per master: CPU seconds, and commands carried out (also those called by scripts)."""
        out = []
        for server in self.masters:
            with wire.Connection(server.port) as link:
                out.append((server.cpu_s(), sum(calls for calls, _ in link.commands().values())))
        return out


def masters_run(bench, count, cores, tarry_core, generator_core):
    with Cluster(bench, count, cores) as cluster:
        tarry = tarry_on(bench, cluster.url, tarry_core)
        try:
            before = cluster.counters()
            result = bench.load(tarry, core=generator_core, duration=f"{bench.seconds}s", delay="1s", consumers=4, take=100, timeout="60s")
            after = cluster.counters()
        finally:
            tarry.__exit__()
    jobs = result["acked"]
    result["masters"] = [{"us_per_job": round((later[0] - sooner[0]) * 1e6 / jobs, 3), "commands_per_job": round((later[1] - sooner[1]) / jobs, 3)}
                         for sooner, later in zip(before, after)]
    result["us_per_job"] = max(master["us_per_job"] for master in result["masters"])
    return result


def redis_masters(bench):
    """two masters instead of one: the busiest master's time a whole life, and with 5 cores or more, whole lives a second"""
    cores = sorted(os.sched_getaffinity(0))
    apart = len(cores) >= 5
    places = ([str(cores[0]), str(cores[1])], ",".join(map(str, cores[3:])), str(cores[2])) if apart else (["0"], CLIENT_CORE, CLIENT_CORE)
    ways = {f"tarry-{count}": lambda count=count: masters_run(bench, count, *places) for count in (1, 2)}
    out = in_turn(bench, ways, lambda run: run["us_per_job"], "{:>10.2f} us of the busiest master a job")
    for name, row in out.items():
        last = row["runs"][-1]
        row["lives_per_s"] = statistics.median(run["lives_per_s"] for run in row["runs"])
        row["apart"] = apart
        bench.print_line(f"  {name}: {row['lives_per_s']:,.0f} lives/s{'' if apart else ' (all on two cores: no measure)'}; "
                  + ", ".join(f"{master['us_per_job']} us and {master['commands_per_job']} commands a job" for master in last["masters"]))
    return out


# ---- memory ----

def settled_memory(port):
    """used_memory when Redis is done with what it does in between (its hashes grow step by step)."""
    with wire.Connection(port) as connection:
        last, since = connection.used_memory(), time.monotonic()
        limit = since + 60
        while time.monotonic() - since < 1 and time.monotonic() < limit:
            time.sleep(0.1)
            found = connection.used_memory()
            if abs(found - last) > 100_000:
                last, since = found, time.monotonic()
        return connection.used_memory()


def redis_ram(bench):
    """memory in Redis a pending 200-byte job, 1 million: ids by the server, ids of 26 characters by the caller; ZSET + HASH"""
    jobs = 100_000 if bench.quick else 1_000_000

    def filled(store, fill, count):
        empty = settled_memory(store.redis.port)
        result = fill()
        result["bytes"] = settled_memory(store.redis.port) - empty
        result["bytes_per_job"] = round(result["bytes"] / count, 1)
        return result

    def generated(store, **flags):
        return filled(store, lambda: store.load(jobs=jobs, delay="10h..20h", consumers=0, batch=100, pipeline=8, **flags), jobs)

    ways = {
        "tarry": lambda: with_store(bench, generated),
        "tarry-own-ids": lambda: with_store(bench, lambda store: generated(store, own_ids=True)),
        "plain": lambda: with_store(bench, lambda store: generated(store, own_ids=True), tarries=0),
    }
    for name, has in (("bullmq", redis_peers.has_bullmq), ("redisson", redis_peers.has_redisson)):
        if has(bench):
            ways[name] = lambda name=name: with_store(
                bench, lambda store: filled(store, lambda: getattr(store, name)("fill", jobs // 10, 36_000_000), jobs // 10), tarries=0)
    bench_rounds, bench.rounds = bench.rounds, 1
    try:
        return in_turn(bench, ways, lambda run: run["bytes_per_job"], "{:>10.1f} bytes a job")
    finally:
        bench.rounds = bench_rounds


PIECES = {piece.__name__: piece for piece in (redis_one_by_one, redis_late, redis_burst, redis_life, redis_ram)}
MORE = {piece.__name__: piece for piece in (redis_push, redis_life_now, redis_late_full, redis_shards, redis_masters)}
