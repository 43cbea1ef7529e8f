"""An embedded server with batches that is killed again and again: each waiting job completes once, after its last member, with the outcomes of the history."""

import collections
import os
import random
import threading
import time

import pytest

from client import Client, Lost, Refused
from server import Server, free_port

BATCHES = int(os.environ.get("TARRY_TEST_BATCHES", 60))
KILLS = int(os.environ.get("TARRY_TEST_BATCH_KILLS", 6))
MEMBERS_MAX, WORKERS, LEASE_MS = 50, 4, 1500
HOUR = "1h"
FLAGS = ("--wal-file", "4MiB")  # as small as can be: checkpoints happen meanwhile
BODY = b"b" * 6000


class End:
    """An answer that ends a member. `applied`: None while the server has not answered."""

    def __init__(self, taken, outcome):
        self.taken, self.sent, self.outcome, self.applied = taken, time.monotonic(), outcome, None


class Worker(threading.Thread):
    """Takes members and answers each in some way or not at all. It writes down each ack and each final failure: id -> [End]."""

    def __init__(self, port, seed, stop):
        super().__init__()
        self.client, self.pick, self.stop = Client(port, timeout=20), random.Random(seed), stop
        self.ends = collections.defaultdict(list)

    def work(self):
        jobs = self.client.take("m", max=20, lease_for=LEASE_MS, wait=100)
        taken = time.monotonic()
        for verb in ("ack", "ack", "ack", "nack", "final", "nothing"):
            some = [job for job in jobs if self.pick.randrange(3) == 0]
            jobs = [job for job in jobs if job not in some]
            if not some or verb == "nothing":
                continue
            leases, ends = [job["lease"] for job in some], [End(taken, "acked" if verb == "ack" else "dead") for _ in some]
            for job, end in zip(some, ends):
                if verb != "nack":
                    self.ends[job["id"]].append(end)
            try:
                results = self.client.answer("ack" if verb == "ack" else "nack", leases, **({"final": "true"} if verb == "final" else {}))
            except Refused as fault:
                assert fault.status in (409, 503), fault
                results = [{"result": "refused"} for _ in some]
            for end, result in zip(ends, results):
                end.applied = result["result"] == "ok"

    def run(self):
        while not self.stop.is_set():
            try:
                self.work()
            except (Lost, OSError):  # it was killed
                time.sleep(0.02)
            except Refused as fault:
                assert fault.status in (409, 410, 503), fault


class Completer(threading.Thread):
    """Takes and acks waiting jobs that are due: id -> [(begun, received, outcome, acked)]."""

    def __init__(self, port, stop):
        super().__init__()
        self.client, self.stop, self.taken = Client(port, timeout=20), stop, collections.defaultdict(list)

    def run(self):
        while not self.stop.is_set():
            try:
                for job in self.client.take("t", max=10, lease_for=LEASE_MS, wait=100):
                    delivery = [time.monotonic(), job["meta"]["tarry-batch"], False]
                    self.taken[job["id"]].append(delivery)
                    self.client.ack(job["lease"])
                    delivery[2] = True
            except (Lost, OSError):
                time.sleep(0.02)
            except Refused as fault:
                assert fault.status in (409, 410, 503), fault


class Pusher(threading.Thread):
    """Pushes batches, and repeats what was not answered."""

    def __init__(self, port, members):
        super().__init__()
        self.client, self.members, self.pick = Client(port, timeout=20), members, random.Random(7)

    def certainly(self, *call, **more):
        while True:
            try:
                return self.client.good(*call, **more)
            except (Lost, OSError):
                time.sleep(0.02)
            except Refused as fault:
                assert fault.status == 503, fault

    def run(self):
        for name, members in self.members.items():
            closes_itself = self.pick.randrange(2)
            options = f"&members={len(members)}" if closes_itself else ""
            self.certainly("PUT", f"/v1/topics/t/jobs/{name}?waits=true&on_conflict=keep&close_within=10m{options}", body=b"x")
            for member in members:
                delay = self.pick.choice((0, 0, 0, 500, 2000))
                self.certainly("PUT", f"/v1/topics/m/jobs/{member}?batch_topic=t&batch_id={name}&on_conflict=keep&delay={delay}ms", body=BODY)
            if not closes_itself:
                self.certainly("POST", f"/v1/topics/t/jobs/{name}/close")


def last_of(ends):
    """Returns the answer that ended a member: one that was applied, else the one of the last delivery without an answer of the server."""
    applied = [end for end in ends if end.applied]
    assert len(applied) <= 1, "a member ended twice"
    return applied[0] if applied else max((end for end in ends if end.applied is None), key=lambda end: end.taken)


def outcome_of(members, ends):
    counts = collections.Counter(last_of(ends[member]).outcome for member in members)
    return f"acked={counts['acked']} dead={counts['dead']} cancelled=0 expired=0 missing=0"


def judge(batches, ends, taken):
    for name, members in batches.items():
        deliveries = taken[name]
        assert deliveries, f"{name} did not complete"
        assert not any(acked for _, _, acked in deliveries[:-1]), f"{name} completed twice: {deliveries}"
        for at, outcome, _ in deliveries:
            before = {member: [end for end in ends[member] if end.sent < at and end.applied is not False] for member in members}
            missing = [member for member in members if not before[member]]
            assert not missing, f"{name} completed before {missing}"
            assert outcome == outcome_of(members, before), (name, outcome)


@pytest.mark.parametrize(("shards", "count", "kills"), [(1, BATCHES, KILLS), (3, BATCHES // 2, KILLS // 2)])
def test_batches_complete_once_while_the_server_is_killed(tmp_path, shards, count, kills):
    server, port = Server(tmp_path, ("--shards", str(shards), *FLAGS)), free_port()
    server.start(port)
    client = Client(port)
    client.put_topic("m", dedup_window=HOUR, backoff="fixed:50ms", max_attempts=1000)
    client.put_topic("t", backoff="fixed:50ms", max_attempts=1000)
    pick, stop = random.Random(kills), threading.Event()
    batches = {f"b{number}": [f"b{number}-{i}" for i in range(pick.randint(1, MEMBERS_MAX))] for number in range(count)}
    pusher, completer = Pusher(port, batches), Completer(port, stop)
    workers = [Worker(port, seed, stop) for seed in range(WORKERS)]
    for thread in [pusher, completer, *workers]:
        thread.start()
    for _ in range(kills):
        time.sleep(pick.uniform(0.2, 1.0))
        server.kill()
        server.start(port)
    pusher.join()
    until = time.monotonic() + 60
    while any(not taken or not taken[-1][2] for taken in map(completer.taken.get, batches)) and time.monotonic() < until:
        time.sleep(0.1)
    stop.set()
    for thread in [completer, *workers]:
        thread.join()
    ends = collections.defaultdict(list)
    for worker in workers:
        for member, answers in worker.ends.items():
            ends[member] += answers
    print(f"{len(batches)} batches, {sum(map(len, batches.values()))} members, {kills} kills, {sum(map(len, completer.taken.values()))} deliveries of waiting jobs")
    judge(batches, ends, completer.taken)
    client.close()
    counts = client.topic("t")["counts"]
    assert not counts["delayed"] + counts["ready"] + counts["dead"], counts
    server.kill()
    assert server.fsck().returncode == 0
    assert not server.sanitizer_report()
