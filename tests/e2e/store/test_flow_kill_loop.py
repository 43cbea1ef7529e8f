"""An embedded server with limits that is killed again and again: at no time does a group, or the topic, have more leases than its limit."""

import collections
import os
import random
import threading
import time

from client import Client, Lost, Refused
from server import Server, free_port
from spans import most_at_once

GROUPS, JOBS, LIMITS, TOPIC_LIMIT, WORKERS = 60, 60, (1, 3, 50), 150, 6
LEASE_SECONDS = 1.5
KILLS = int(os.environ.get("TARRY_TEST_FLOW_KILLS", 10))
SETTINGS = {"limit": TOPIC_LIMIT, "group_limit": 3, "backoff": "fixed:50ms", "max_attempts": 1000}


class Worker(threading.Thread):
    """Takes jobs, keeps some of them for a while, and answers in each way or not at all. It writes down each lease: (group, begin, end), where the begin is the latest and
    the end the earliest that it can have been, so that a limit that seems to be exceeded was exceeded."""

    def __init__(self, port, seed, stop):
        super().__init__()
        self.client, self.pick, self.stop = Client(port, timeout=20), random.Random(seed), stop
        self.leases, self.held, self.acked = [], [], []  # acked: (sent, answered) of each ack

    def take(self):
        sent = time.monotonic()
        for job in self.client.take("mail", max=self.pick.choice((1, 5, 30)), lease_for=int(LEASE_SECONDS * 1000), wait=100):
            self.leases.append([job["group"], time.monotonic(), sent + LEASE_SECONDS])
            self.held.append((job["lease"], self.leases[-1]))

    def answer(self):
        some = self.pick.sample(self.held, self.pick.randrange(len(self.held) + 1))
        self.held = [held for held in self.held if held not in some]
        verb = self.pick.choice(("ack", "ack", "nack", "return", "nothing"))
        if not some or verb == "nothing":
            return
        for _, lease in some:
            lease[2] = min(lease[2], time.monotonic())
        sent = time.monotonic()
        self.client.answer(verb, [lease for lease, _ in some])
        if verb == "ack":
            self.acked.append((sent, time.monotonic()))

    def run(self):
        while not self.stop.is_set():
            try:
                self.take()
                self.answer()
            except (Lost, OSError):  # it was killed
                time.sleep(0.02)
            except Refused as fault:
                assert fault.status == 503, fault


def ends_at_kills(leases, acks, kills):
    """Ends the leases at a kill that the crash may have lost: a take does not wait for the disk. An ack does, and the log is in order, so a lease from before an answered ack was
    on the disk. kills: (killed, started again)."""
    for killed, started in kills:
        synced = max((sent for sent, answered in acks if answered <= killed), default=0)
        for lease in leases:
            if synced < lease[1] <= started:
                lease[2] = min(lease[2], killed)


def drain(client):
    """Takes and acks all jobs, after the leases of the workers have ended."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        counts = client.topic("mail")["counts"]
        if not counts["ready"] + counts["leased"] + counts["retrying"] + counts["delayed"]:
            return
        leases = [job["lease"] for job in client.take("mail", max=100, wait=100)]
        if leases:
            client.ack(*leases)
    raise AssertionError(f"jobs are left: {client.topic('mail')['counts']}")


def test_no_limit_is_exceeded_while_the_server_is_killed(tmp_path):
    server, port = Server(tmp_path), free_port()
    server.start(port)
    client = Client(port)
    client.put_topic("mail", **SETTINGS)
    limits = {f"g{number:02}": LIMITS[number % len(LIMITS)] for number in range(GROUPS)}
    for group, limit in limits.items():
        client.good("PUT", f"/v1/topics/mail/groups/{group}?limit={limit}")
    stop, pick, kills = threading.Event(), random.Random(KILLS), []
    workers = [Worker(port, seed, stop) for seed in range(WORKERS)]
    for worker in workers:
        worker.start()
    for _ in range(KILLS):
        for group in limits:
            client.push_batch([{"topic": "mail", "group": group, "body": "x"} for _ in range(JOBS // KILLS + 1)])
        begun = sum(len(worker.leases) for worker in workers)
        until = time.monotonic() + 20
        while sum(len(worker.leases) for worker in workers) < begun + 50 and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(pick.uniform(0, 0.3))
        killed = time.monotonic()
        server.kill()
        server.start(port)
        kills.append((killed, time.monotonic()))
        client.close()
    stop.set()
    for worker in workers:
        worker.join()
    leases = [lease for worker in workers for lease in worker.leases]
    ends_at_kills(leases, [ack for worker in workers for ack in worker.acked], kills)
    spans = collections.defaultdict(list)
    for group, begin, end in leases:
        spans[group].append((begin, max(begin, end)))
    most = {group: most_at_once(spans[group]) for group in limits}
    by_limit = {limit: max(most[group] for group in limits if limits[group] == limit) for limit in LIMITS}
    print(f"{len(leases)} leases, {KILLS} kills, at once by limit {by_limit}, of the topic {most_at_once(sum(spans.values(), []))}")
    assert {group: at_once for group, at_once in most.items() if at_once > limits[group]} == {}
    assert most_at_once(sum(spans.values(), [])) <= TOPIC_LIMIT
    assert by_limit[1] == 1 and by_limit[3] == 3, "the limits were not reached, so nothing was tested"
    time.sleep(LEASE_SECONDS)
    drain(client)
    assert [group for group in client.good("GET", "/v1/topics/mail/groups?limit=1000")["groups"] if group["leased"]] == []
    server.kill()
    assert server.fsck().returncode == 0
    assert not server.sanitizer_report()
