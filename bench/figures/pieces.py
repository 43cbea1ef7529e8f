"""The pieces: each measures one row of the table, round by round, one server after the other."""

import json
import mmap
import os
import resource
import shutil
import socket
import statistics
import subprocess
import threading
import time

from . import servers

GENERATOR_CORE = "1"


class Bench:
    """The shared state of all pieces: places, duration and number of runs."""

    def __init__(self, tarry, generator, base_dir, rounds, seconds, quick, only, print_line, jobs=None, cold=False, pin=False):
        self.tarry, self.generator, self.base_dir = tarry, generator, base_dir
        self.rounds, self.seconds, self.quick, self.only, self.print_line = rounds, seconds, quick, only, print_line
        self.jobs, self.cold, self.pin = jobs, cold, pin

    def server(self, name, core=servers.SERVER_CORE, **words):
        return servers.Server(servers.KINDS[name], self.tarry, self.base_dir, core, **words)

    def wanted(self, names):
        return [name for name in names if not self.only or name in self.only]

    def load(self, server, second=None, core=GENERATOR_CORE, **flags):
        """Runs the generator against the server (and a second one of the same queue); returns its output, and how
        busy both were."""
        pinned = ["taskset", "-c", core] if core else []
        ports = f"{server.port},{second.port}" if second else str(server.port)
        command = [*pinned, self.generator, server.kind.protocol, "127.0.0.1", ports]
        for name, value in flags.items():
            command.append("--" + name.replace("_", "-"))
            if value is not True:
                command.append(str(value))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu, begun = server.cpu_s(), time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        elapsed, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise RuntimeError(f"generator against '{server.kind.name}': {done.stderr.strip()}; "
                               f"the server printed: {server.last_words()}")
        result = json.loads(done.stdout)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result["generator_busy"] = round(used / elapsed, 3)
        cpu = server.cpu_s() - cpu
        result["server_busy"] = round(cpu / elapsed, 3)
        result["jobs_per_cpu_s"] = round(max(result["pushed"], result["acked"]) / cpu)
        for fault in ("push_failed", "ack_failed", "early", "duplicates", "missing"):
            if result[fault]:
                self.print_line(f"    {server.kind.name}: {fault} {result[fault]}  {result.get('problem', '')}")
        return result


def print_run(bench, number, name, figure, result):
    bench.print_line(f"  round {number + 1}  {name:16} {result[figure]:>10,}/s   server busy {result['server_busy']:.0%}"
                     f"  generator busy {result['generator_busy']:.0%}"
                     f"  {result['jobs_per_cpu_s']:>9,} jobs per second of the server's CPU")


def medians_of(runs, figure):
    return {name: {"median": statistics.median(run[figure] for run in all_runs), "runs": all_runs}
            for name, all_runs in runs.items() if all_runs}


def rounds_of(bench, names, figure, **flags):
    """Every server in turn, round after round, each time fresh. {name: {figure, runs}}."""
    runs = {name: [] for name in bench.wanted(names)}
    for number in range(bench.rounds):
        for name in runs:
            with bench.server(name) as server:
                result = bench.load(server, **flags)
            runs[name].append(result)
            print_run(bench, number, name, figure, result)
    return medians_of(runs, figure)


def push(bench):
    """durable push, one job a request, 8 connections, 64 deep"""
    return rounds_of(bench, ["tarry", "beanstalkd", "beanstalkd-log", "beanstalkd-sync", "redis", "redis-always"],
                     "pushes_per_s", duration=f"{bench.seconds}s", delay="1h..2h", consumers=0, connections=8,
                     pipeline=64)


def single(bench):
    """durable push, one request at a time, 64 connections"""
    return rounds_of(bench, ["tarry", "beanstalkd", "beanstalkd-sync", "redis", "redis-always"], "pushes_per_s",
                     duration=f"{bench.seconds}s", delay="1h..2h", consumers=0, connections=64, pipeline=1)


def batch(bench):
    """durable push, batches of 100"""
    return rounds_of(bench, ["tarry", "redis", "redis-always"], "pushes_per_s", duration=f"{bench.seconds}s",
                     delay="1h..2h", consumers=0, connections=8, pipeline=8, batch=100)


def life(bench):
    """whole life: push, due after 1 s, take by up to 100, ack"""
    return rounds_of(bench, ["tarry", "beanstalkd", "redis", "redis-always"], "lives_per_s",
                     duration=f"{2 * bench.seconds}s", delay="1s", consumers=4, take=100, timeout="120s")


def late(bench):
    """lateness at 10,000 jobs/s with 1 million pending"""
    pending = 100_000 if bench.quick else 1_000_000
    out = {}
    for name in bench.wanted(["tarry", "beanstalkd", "redis"]):
        runs = []
        for number in range(bench.rounds):
            with bench.server(name) as server:
                size = {} if server.kind.protocol == "beanstalk" else {"batch": 100, "pipeline": 8}
                bench.load(server, jobs=pending, delay="2h..3h", consumers=0, topic="late", **size)
                result = bench.load(server, topic="late", rate=10_000, duration=f"{(2 if bench.quick else 4) * bench.seconds}s",
                                    delay="1s..5s", consumers=4, take=100)
            result["pending"] = pending
            late_ms = result["late_ms"]
            bench.print_line(f"  round {number + 1}  {name:16} p50 {late_ms['p50']:.2f}  p99 {late_ms['p99']:.2f}  "
                      f"p99.9 {late_ms['p99.9']:.2f}  max {late_ms['max']:.2f} ms  early {result['early']}")
            runs.append(result)
        out[name] = {"median": statistics.median(run["late_ms"]["p99"] for run in runs), "runs": runs}
    return out


def two_shards(bench):
    """durable push, 64 deep: one shard on one core, two shards on two; the generator on both"""
    places = {"tarry": servers.SERVER_CORE, "tarry-2-shards": None}
    runs = {name: [] for name in bench.wanted(places)}
    for number in range(bench.rounds):
        for name in runs:
            with bench.server(name, places[name]) as server:
                result = bench.load(server, core=None, duration=f"{bench.seconds}s", delay="1h..2h", consumers=0, connections=8, pipeline=64)
            runs[name].append(result)
            print_run(bench, number, name, "pushes_per_s", result)
    return medians_of(runs, "pushes_per_s")


def ram(bench):
    """memory a job, and restart, with 10 million pending (peers: 1 million)"""
    out = {}
    for name in bench.wanted(["tarry", "beanstalkd-log", "redis-always"]):
        jobs = 10_000_000 if name == "tarry" else 1_000_000
        if bench.quick:
            jobs //= 10
        with bench.server(name) as server:
            empty_bytes = server.memory_bytes()[0]
            size = {} if server.kind.protocol == "beanstalk" else {"batch": 100, "pipeline": 8}
            loaded = bench.load(server, jobs=jobs, delay="10h..20h", consumers=0, topic="ram", **size)
            after_load = server.memory_bytes()
            disk_bytes = server.disk_bytes()
            server.stop()
            restart_s = server.start()
            after_restart = server.memory_bytes()
        run = {"jobs": jobs, "loaded_per_s": loaded["pushes_per_s"], "empty_bytes": empty_bytes,
               "bytes": after_load[0], "anon_bytes": after_load[1], "restart_bytes": after_restart[0],
               "restart_anon_bytes": after_restart[1], "restart_s": round(restart_s, 3), "disk_bytes": disk_bytes,
               "restart_s_per_million": round(restart_s * 1e6 / jobs, 3)}
        bench.print_line(f"  {name:16} {jobs:,} jobs: {run['bytes'] / jobs:.1f} bytes a job resident "
                  f"({run['anon_bytes'] / jobs:.1f} without files), after restart {run['restart_bytes'] / jobs:.1f} "
                  f"({run['restart_anon_bytes'] / jobs:.1f}); restart {restart_s:.2f} s; "
                  f"{disk_bytes / jobs:.0f} bytes a job on disk")
        out[name] = {"median": round(max(run["bytes"], run["restart_bytes"]) / jobs, 1), "runs": [run]}
    return out


def idle(bench):
    """wake-ups of an idle server in 10 s, jobs pending"""
    out = {}
    for name in bench.wanted(["tarry", "beanstalkd", "redis"]):
        with bench.server(name) as server:
            bench.load(server, jobs=10_000, delay="1h..2h", consumers=0, topic="idle")
            time.sleep(1 if bench.quick else 3)
            before, cpu = server.switches(), server.cpu_s()
            time.sleep(2 if bench.quick else 10)
            run = {"switches": server.switches() - before, "cpu_s": round(server.cpu_s() - cpu, 3)}
        bench.print_line(f"  {name:16} {run['switches']} context switches, {run['cpu_s']} s of CPU")
        out[name] = {"median": run["switches"], "runs": [run]}
    return out


PIECES = {piece.__name__: piece for piece in (push, single, batch, life, late, ram, idle, two_shards)}


def touch_memory(gib):
    """Uses memory once and gives it back. In a virtual machine the first use of a page is many times slower than the
    second, and that would be measured instead of the servers."""
    with mmap.mmap(-1, gib << 30) as memory:
        for at in range(0, gib << 30, mmap.PAGESIZE):
            memory[at] = 1


def loopback_per_s():
    """How often a byte goes there and back between two threads a second, over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one, listener.accept()[0] as other:
        for end in (one, other):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def echo():
            while byte := other.recv(1):
                other.sendall(byte)

        thread = threading.Thread(target=echo)
        thread.start()
        begun, count = time.monotonic(), 0
        while time.monotonic() - begun < 1:
            one.sendall(b"x")
            one.recv(1)
            count += 1
        one.shutdown(socket.SHUT_WR)
        thread.join()
    return count


def redis_ping_per_s(base_dir):
    """The rate of PING by Redis' own tool, server and tool on a core each; None if it is not installed."""
    if not (shutil.which("redis-server") and shutil.which("redis-benchmark")):
        return None
    with servers.Server(servers.KINDS["redis"], None, base_dir) as server:
        done = subprocess.run(["taskset", "-c", GENERATOR_CORE, "redis-benchmark", "-p", str(server.port), "-c", "64", "-n", "50000", "-t", "ping_mbulk", "--csv"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return round(float(done.stdout.splitlines()[-1].split(",")[1].strip('"')))


def machine(base_dir):
    """Describes the machine: processor, cores, kernel, memory, the disk's fdatasync, loopback, Redis' PING."""
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    with open("/proc/meminfo") as info:
        memory_kib = int(info.readline().split()[1])
    path = os.path.join(base_dir, "fdatasync.probe")
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(file, bytes(4096 * 1000))
    os.fsync(file)
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < 1:
        os.pwrite(file, bytes(4096), 4096 * (count % 1000))
        os.fdatasync(file)
        count += 1
    os.close(file)
    os.unlink(path)
    return {"processor": model, "cores": os.cpu_count(), "kernel": os.uname().release,
            "memory_gib": round(memory_kib / 2**20, 1), "fdatasync_per_s": count, "loopback_per_s": loopback_per_s(),
            "redis_ping_per_s": redis_ping_per_s(base_dir)}
