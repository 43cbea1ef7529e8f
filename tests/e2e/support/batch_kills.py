"""Batches of jobs while the servers of one store are killed: each waiting job completes once, after its last member, with the outcomes of the history."""

import collections
import json
import random
import threading
import time

from client import Lost, Refused
from server import eventually

LEASE_MS, WORKERS, CANCELLED = 3000, 4, "cancelled"


class End:
    """An answer that ends a member. `applied`: None while it has no reply."""

    def __init__(self, taken, outcome):
        self.taken, self.sent, self.outcome, self.applied = taken, time.monotonic(), outcome, None


class Story:
    """What happened to the batches."""

    def __init__(self, servers, batches, members_max, seed):
        luck = random.Random(seed)
        self.servers, self.lock, self.stop = servers, threading.Lock(), threading.Event()
        self.members = {f"b{n}": [f"b{n}-{i}" for i in range(luck.randint(1, members_max))] for n in range(batches)}
        self.ends, self.deliveries, self.acked = collections.defaultdict(list), collections.defaultdict(list), set()

    def end(self, ident, taken, outcome):
        end = End(taken, outcome)
        with self.lock:
            self.ends[ident].append(end)
        return end


class Actor(threading.Thread):
    """Does its work at one server after the other, until all batches have completed."""

    def __init__(self, story, seed):
        super().__init__()
        self.story, self.luck = story, random.Random(seed)

    def client(self):
        return self.luck.choice(self.story.servers).client(timeout=5)

    def run(self):
        while not self.story.stop.is_set():
            try:
                self.work(self.client())
            except (OSError, Lost, Refused):  # the server was killed
                time.sleep(0.02)


class Worker(Actor):
    """Takes members and acks, nacks or kills them, or leaves them to the end of their lease."""

    def work(self, client):
        jobs, taken = client.take("m", max=20, lease_for=f"{LEASE_MS}ms", wait="100ms"), time.monotonic()
        for job in jobs:
            verb = self.luck.choices(("ack", "final", "nack", "nothing"), (12, 2, 2, 1))[0]
            if verb in ("ack", "final"):
                end = self.story.end(job["id"], taken, "acked" if verb == "ack" else "dead")
                try:
                    end.applied = client.answer("ack" if verb == "ack" else "nack", job["lease"], **({"final": "true"} if verb == "final" else {}))[0]["result"] == "ok"
                except Refused as refused:
                    end.applied = None if refused.status >= 500 else False
            elif verb == "nack":
                client.nack(job["lease"])


class Completer(Actor):
    """Takes and acks the waiting jobs that are due."""

    def work(self, client):
        for job in client.take("t", max=10, lease_for=f"{LEASE_MS}ms", wait="100ms"):
            delivery = [time.monotonic(), job["meta"]["tarry-batch"], False]
            with self.story.lock:
                self.story.deliveries[job["id"]].append(delivery)
            client.ack(job["lease"])
            delivery[2] = True
            with self.story.lock:
                self.story.acked.add(job["id"])


class Pusher(Actor):
    """Pushes batches over HTTP, and repeats what was not answered. `pushes_alone` is called with the name and members of every other batch, and pushes
    it in its own way."""

    def __init__(self, story, seed, names, pushes_alone):
        super().__init__(story, seed)
        self.names, self.pushes_alone = names, pushes_alone

    def certainly(self, call):
        while True:
            try:
                return call(self.client())
            except Refused as refused:
                assert refused.status == 503, refused
            except (OSError, Lost):
                pass
            time.sleep(0.02)

    def push(self, name, members):
        expects = self.luck.randrange(2)
        self.certainly(lambda client: client.push("t", name, waits="true", on_conflict="keep", close_within="10m", **({"members": len(members)} if expects else {})))
        items = [{"topic": "m", "id": member, "on_conflict": "keep", "delay": self.luck.choice(("0s", "0s", "300ms")), "batch": {"topic": "t", "id": name}}
                 for member in members]
        for at in range(0, len(items), 7):
            body = json.dumps(items[at:at + 7]).encode()
            while any("result" not in result for result in self.certainly(
                    lambda client, body=body: client.good("POST", "/v1/jobs", body, {"Content-Type": "application/json"}))["results"]):
                time.sleep(0.02)
        if not expects:
            self.certainly(lambda client: client.good("POST", f"/v1/topics/t/jobs/{name}/close"))

    def run(self):
        for number, name in enumerate(self.names):
            (self.pushes_alone if number % 2 and self.pushes_alone else self.push)(name, self.story.members[name])


def outcome_of(ends):
    """The answer that ended a member: one that was applied, else the one of the last delivery without a reply."""
    applied = [end for end in ends if end.applied]
    assert len(applied) <= 1, f"ended {len(applied)} times"
    return (applied[0] if applied else max((end for end in ends if end.applied is None), key=lambda end: end.taken)).outcome


def judge(story):
    for name, members in story.members.items():
        deliveries = story.deliveries[name]
        assert deliveries, f"{name} did not complete"
        assert sum(acked for _, _, acked in deliveries) <= 1, f"{name} completed twice: {deliveries}"
        for at, outcome, _ in deliveries:
            before = {member: [end for end in story.ends[member] if end.sent < at and end.applied is not False] for member in members}
            missing = [member for member in members if not before[member]]
            assert not missing, f"{name} completed before {missing}"
            counts = collections.Counter(outcome_of(ends) for ends in before.values())
            assert outcome == f"acked={counts['acked']} dead={counts['dead']} cancelled={counts[CANCELLED]} expired=0 missing=0", (name, outcome, counts)


def complete_while_killed(servers, batches, members_max, kills, pushes_alone=None, others=(), seed=1):
    """Runs batches over the servers, with these other actors (classes), while servers are killed. Returns the story, which has been judged."""
    story = Story(servers, batches, members_max, seed)
    servers[0].client().put_topic("m", dedup_window="1h", backoff="fixed:50ms", max_attempts=1000)
    servers[0].client().put_topic("t", dedup_window="1h", backoff="fixed:50ms", max_attempts=1000)
    names, luck = list(story.members), random.Random(seed)
    pushers = [Pusher(story, seed + n, names[n::3], pushes_alone) for n in range(3)]
    threads = [*pushers, *(Worker(story, seed + n) for n in range(WORKERS)), Completer(story, seed), Completer(story, seed + 1), *(other(story, seed) for other in others)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            time.sleep(luck.uniform(0.5, 1.5))
            server = luck.choice(servers)
            server.kill()
            server.start()
        for pusher in pushers:
            pusher.join()
        eventually(lambda: len(story.acked) == len(names) or all(story.deliveries[name] for name in names), seconds=60)
        time.sleep(0.5)
    finally:
        story.stop.set()
        for thread in threads:
            thread.join()
    print(f"{batches} batches, {sum(map(len, story.members.values()))} members, {kills} kills, {sum(map(len, story.deliveries.values()))} deliveries of waiting jobs")
    judge(story)
    return story
