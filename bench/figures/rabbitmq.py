"""The pieces with RabbitMQ: how fast due jobs are confirmed, beside RabbitMQ's own load tool; how late messages come, beside TTL queues.

The broker has core 0; tarry or the load tool core 1, so that each has the same machine. Where lateness is measured nothing is full, and the system
places all as it likes.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from . import packages, redis, servers
from .delivery import acked, call, policy_file, target_alone

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERFTEST = os.path.join(ROOT, "bench", "perftest")
TARRY = servers.Kind("tarry", "http", "{tarry} serve --data {dir}/data --listen 127.0.0.1:{port} --deliver {policy} --amqp-in {source}",
                     "durable: every answer after fdatasync")
QUEUE, WINDOW, BODY_BYTES = "bench", 1000, 200
DELAYS = [1000 + 500 * n for n in range(30)]


@contextlib.contextmanager
def broker_on(core=None):
    """A RabbitMQ as the tests start it, with the queues that are measured."""
    sys.path.append(os.path.join(ROOT, "tests", "e2e", "support"))
    import rabbitmq  # needs pika

    broker = rabbitmq.RabbitMQ(prefix=["taskset", "-c", core] if core else [])
    with broker:
        for queue in (QUEUE, "tarry-in", "out"):
            broker.queue(queue)
        yield broker


def has_perftest(bench):
    if bench.only and "perftest" not in bench.only:
        return False
    missing = [program for program in ("java", "mvn") if not shutil.which(program)]
    if missing:
        bench.print_line(f"  '{missing[0]}' is not installed, 'perftest' is left out: see scripts/setup")
        return False
    try:
        perftest_jars(bench)
    except subprocess.CalledProcessError:
        bench.print_line("  PerfTest cannot be fetched, 'perftest' is left out")
        return False
    return True


def perftest_jars(bench):
    """Returns the folder of its jars, beside the build."""
    return str(packages.maven(os.path.join(os.path.dirname(bench.generator), "perftest"), os.path.join(PERFTEST, "pom.xml")))


# ---- throughput ----

def perftest(bench, broker, jobs):
    """Runs one producer of persistent messages, WINDOW of them unconfirmed at a time."""
    done = subprocess.run(["taskset", "-c", redis.CLIENT_CORE, "java", "-cp", perftest_jars(bench) + "/*", "com.rabbitmq.perf.PerfTest", "-h",
                           f"amqp://127.0.0.1:{broker.port}", "-x", "1", "-y", "0", "-c", str(WINDOW), "-f", "persistent", "-s", str(BODY_BYTES),
                           "-u", QUEUE, "-p", "-C", str(jobs)], capture_output=True, text=True, check=True, timeout=600)
    return {"per_s": float(re.search(r"sending rate avg: (\d+)", done.stdout)[1]), "jobs": jobs}


def through_target(bench, broker, jobs):
    setting = {"to": broker.url, "routing_key": QUEUE, "timeout": "1m"}
    return target_alone(bench, redis.CLIENT_CORE, policy_file(bench.base_dir), setting, jobs, WINDOW, BODY_BYTES)


def started(bench, broker, core):
    return servers.Server(TARRY, bench.tarry, bench.base_dir, core=core, policy=policy_file(bench.base_dir), source=f"{broker.url}?queue=tarry-in")


def end_to_end(bench, broker, jobs):
    """Jobs that were pushed beforehand and fall due at one moment, until the last is acked."""
    with started(bench, broker, redis.CLIENT_CORE) as tarry:
        call(tarry, "PUT", f"/v1/topics/{QUEUE}", {"deliver": {"to": broker.url, "max_in_flight": WINDOW, "timeout": "1m"}})
        due = int(time.time() * 1000) + 3000 + jobs // 10
        for at in range(0, jobs, 1000):
            call(tarry, "POST", "/v1/jobs", [{"topic": QUEUE, "at": due, "body": "x" * BODY_BYTES} for _ in range(at, min(at + 1000, jobs))])
        if time.time() * 1000 > due:
            raise RuntimeError("pushing took longer than the jobs' delay")
        time.sleep(max(0.0, due / 1000 - time.time()))
        while acked(tarry, QUEUE) < jobs:
            time.sleep(0.02)
        return {"per_s": jobs / (time.time() - due / 1000), "jobs": jobs}


def rabbitmq_confirms(bench):
    """persistent messages of 200 bytes that RabbitMQ has confirmed, 1,000 under way at a time"""
    jobs = 20_000 if bench.quick else 20_000 * bench.seconds
    ways = {"tarry": end_to_end, "tarry-target": through_target}
    if has_perftest(bench):
        ways["perftest"] = perftest

    def run(way):
        broker.queue(QUEUE)  # empties it
        return way(bench, broker, jobs)

    with broker_on(servers.SERVER_CORE) as broker:
        run(through_target)  # the first one finds a cold broker
        return redis.in_turn(bench, {name: lambda way=way: run(way) for name, way in ways.items()}, lambda result: result["per_s"])


# ---- lateness ----

class Receiver(threading.Thread):
    """Takes what comes out; how late each message is, in milliseconds, by the due time in its body."""

    def __init__(self, broker, count):
        super().__init__(daemon=True)
        self.broker, self.count, self.late = broker, count, []
        self.start()

    def run(self):
        with self.broker.channel() as channel:
            for method, _, body in channel.consume("out", auto_ack=True, inactivity_timeout=30):
                if method is None:
                    return
                self.late.append((time.time() - float(body)) * 1000)
                if len(self.late) == self.count:
                    return


def sent(broker, count, publish):
    """`count` messages at 500 a second, each by publish(channel, delay_ms, body); what the receiver found."""
    receiver = Receiver(broker, count)
    begun = time.monotonic()
    with broker.channel() as channel:
        for n in range(count):
            time.sleep(max(0.0, begun + n / 500 - time.monotonic()))
            delay = DELAYS[n % len(DELAYS)]
            publish(channel, delay, b"%.6f" % (time.time() + delay / 1000))
    receiver.join(120)
    late = sorted(receiver.late)
    if len(late) != count:
        raise RuntimeError(f"{count - len(late)} of {count} messages did not come")
    return {"late_ms": {"p50": late[count // 2], "p99": late[count * 99 // 100], "max": late[-1]}, "early": sum(each < 0 for each in late)}


def through_tarry(bench, broker, count):
    import pika

    def publish(channel, delay, body):
        channel.basic_publish("", "tarry-in", body, pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay, "x-routing-key": "out"}))

    with started(bench, broker, None):
        return sent(broker, count, publish)


def through_ttl(_, broker, count):
    import pika

    for delay in DELAYS:
        broker.queue(f"wait-{delay}", **{"x-message-ttl": delay, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "out"})

    def publish(channel, delay, body):
        channel.basic_publish("", f"wait-{delay}", body, pika.BasicProperties(delivery_mode=2))

    return sent(broker, count, publish)


def rabbitmq_delays(bench):
    """how late messages with 30 different delays come, 500 a second: through one queue and tarry, and through 30 queues with TTL"""
    count = 1500 if bench.quick else 6000
    ways = {"tarry": through_tarry, "ttl": through_ttl}
    with broker_on() as broker:
        return redis.in_turn(bench, {name: lambda way=way: way(bench, broker, count) for name, way in ways.items()},
                             lambda result: result["late_ms"]["p99"], "{:>10.2f} ms p99")


PIECES = {piece.__name__: piece for piece in (rabbitmq_confirms, rabbitmq_delays)}
