"""Pause, resume, settings and delete over several shards, with kill -9 during them: an answered change is in all shards, one without an answer is in all or in no shard."""

import json
import os
import random
import subprocess
import threading
import time

import pytest
from client import Lost
from server import BINARY

KILLS = 12
JOBS = 24
SEED = int(os.environ.get("TARRY_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
GONE = None


class Changes(threading.Thread):
    """A client that changes one topic until the server dies. `known` holds what can be true then: the state after the last answer, or after the
    change without an answer."""

    def __init__(self, server, topic, state, seed):
        super().__init__()
        self.client, self.topic, self.draw = server.client(), topic, random.Random(seed)
        self.known = [state]
        self.answered = 0

    def run(self):
        try:
            while True:
                self.change()
        except (Lost, OSError):
            pass

    def change(self):
        state = self.known[-1]
        what = self.draw.choice(["put", "put", "patch", "pause", "resume", "delete"]) if state is not GONE else "put"
        path, ms = f"/v1/topics/{self.topic}", self.draw.randrange(1000, 9000)
        after = {**(state or {"paused": False, "lease_for": 0})}
        body, method = b"", "POST"
        if what in ("put", "patch"):
            after["lease_for"], method = ms, what.upper()
            body = json.dumps({"lease_for": f"{ms}ms"}).encode()
        elif what == "delete":
            after, method = GONE, "DELETE"
        else:
            after["paused"], path = what == "pause", f"{path}/{what}"
        self.known = [state, after]
        self.client.good(method, path, body, {"Content-Type": "application/json"} if body else None)
        self.known = [after]
        self.answered += 1
        if what == "delete":  # as before it: jobs in every shard
            self.known = [GONE, {"paused": False, "lease_for": 0}]
            self.client.push_batch([{"topic": self.topic, "id": f"j{n}", "delay": "1h"} for n in range(JOBS)])
            self.known = [{"paused": False, "lease_for": 0}]


def fsck(server):
    ended = subprocess.run([str(BINARY), "fsck", str(server.data), "--json"], capture_output=True, text=True, check=False)
    report = json.loads(ended.stdout)
    assert ended.returncode == 0 and report["clean"], report
    return [note["text"] for note in report["notes"] if " is half " in note["text"]]


def duration_ms(text):
    for unit, ms in (("ms", 1), ("s", 1000)):
        if text.endswith(unit):
            return int(text[:-len(unit)]) * ms
    raise AssertionError(text)


def state_of(client, topic):
    reply = client.call("GET", f"/v1/topics/{topic}")
    if reply.status == 404:
        return GONE
    found = reply.json()
    lease = found["settings"].get("lease_for")
    return {"paused": found["paused"], "lease_for": duration_ms(lease) if lease else 0}


@pytest.mark.shards
def test_a_topic_is_changed_as_a_whole_whenever_the_server_is_killed(start_server):
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    server = start_server("--sync", "always", "--shards", "3", "--wal-file", "4MiB")
    states = {f"t{n}": GONE for n in range(3)}
    answered = halves = 0
    for _ in range(KILLS):
        workers = [Changes(server, topic, state, draw.randrange(1 << 32)) for topic, state in states.items()]
        for worker in workers:
            worker.start()
        time.sleep(draw.uniform(0.02, 0.12))  # a moment of chance, not one that is waited for
        server.kill()
        for worker in workers:
            worker.join()
            answered += worker.answered
        halves += len(fsck(server))
        server.start()
        client = server.client()
        for worker in workers:
            limit = time.monotonic() + 20
            # A delete that is gone on with takes its time after the start.
            while (found := state_of(client, worker.topic)) not in worker.known and GONE in worker.known and time.monotonic() < limit:
                time.sleep(0.01)
            assert found in worker.known, (worker.topic, found, worker.known)
        assert server.terminate() == 0
        assert fsck(server) == [], "something is half changed after a start and a stop"
        server.start()
        client = server.client()
        for worker in workers:  # a delete may have been gone on with since it was looked at
            states[worker.topic] = state_of(client, worker.topic)
            assert states[worker.topic] in worker.known, (worker.topic, states[worker.topic], worker.known)
    print(f"{answered} changes answered, {halves} topics half changed by {KILLS} kills")
    assert answered > KILLS
