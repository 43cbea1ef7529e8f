"""The same calls over HTTP/1.1 and HTTP/2, at random, have the same answers."""

import json
import os
import random
import re

import pytest
from client import Connection
from frames import WINDOW_UPDATE, Peer, request

pytestmark = pytest.mark.plain("the frames are written to a plain socket")
CALLS = int(os.environ.get("TARRY_TEST_CALLS", "400"))
GAMES = 32  # in flight together
SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
# What differs between two servers or two moments.
MOMENT = re.compile(r'"(\w+_at|lease_until|now|uptime_ms|started_at|lease|delivery|since|until|retry_s|limit_until|cursor|duration_ms|age_ms|late_ms)":("[^"]*"|-?\d+)')
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS_LEFT_OUT = {"date", "connection", ":status", "tarry-lease", "tarry-due-at", "tarry-lease-until", "tarry-delivery", "keep-alive"}


def random_call(rng, leases, game):
    """A call of the API: most are right, some are not. Ids and topics are few, so that calls meet. A nack has its delay: that of the backoff is random."""
    topic, ident = f"g{game}t{rng.randrange(4)}", f"j{rng.randrange(12)}"
    job = f"/v1/topics/{topic}/jobs/{ident}"
    body = rng.choice([b"", b"{}", b"x" * rng.randrange(2000), b'{"body":"a"}', bytes(rng.randrange(256) for _ in range(20))])
    lease = rng.choice(leases) if leases else "none"
    option = rng.choice(["", "?delay=1h", "?delay=0", "?priority=3", "?delay=x", "?nonsense=1", "?on_conflict=keep", "?max_attempts=2&ttl=1d", "?priority=-1", "?%"])
    return rng.choice([
        ("PUT", job + option, body, [("content-type", rng.choice(["text/plain", "application/json", ""]))]),
        ("PUT", job, body, [("tarry-delay", "1h"), ("tarry-meta-color", "red")]),
        ("GET", job, None, []),
        ("HEAD", job, None, []),
        ("DELETE", job, None, []),
        ("PATCH", job + rng.choice(["?delay=2h", "?priority=7", ""]), None, []),
        ("POST", job + "/run", None, []),
        ("POST", f"/v1/topics/{topic}/take" + rng.choice(["", "?max=3", "?max=0", "?wait=1ms", "?lease_for=1h"]), None, rng.choice([[], [("accept", "application/octet-stream")]])),
        ("POST", rng.choice(["/v1/ack?", "/v1/nack?delay=1m&", "/v1/extend?"]) + f"lease={lease}", None, []),
        ("POST", "/v1/jobs", json.dumps([{"topic": topic, "id": ident, "body": "x"}, {"topic": "", "id": "y"}]).encode(), [("content-type", "application/json")]),
        ("POST", "/v1/jobs", body, []),
        ("GET", f"/v1/topics/{topic}/jobs" + rng.choice(["", "?limit=2", "?state=ready", "?state=odd"]), None, []),
        ("GET", rng.choice([f"/v1/topics/{topic}", "/readyz", "/healthz", "/nowhere", "/v1//", "/v1/topics/a%2Fb/jobs/c", "/problems", "/openapi.yaml"]), None, []),
        ("POST", f"/v1/topics/{topic}/" + rng.choice(["pause", "resume", "purge?state=dead", "redrive", "odd"]), None, []),
        ("PUT", f"/v1/topics/{topic}" + rng.choice(["?max_attempts=3", "?history=2", "?lease_for=x"]), None, []),
        (rng.choice(["OPTIONS", "PATCH", "BREW", "TRACE"]), rng.choice(["/v1/topics", job, "/readyz"]), None, []),
        ("GET", f"/v1/topics/{topic}", None, [("authorization", "Bearer x")] * rng.randrange(3)),
        ("GET", f"/v1/topics/{topic}", None, [("origin", "https://evil.example")]),
        ("PUT", job, body, [("content-encoding", "gzip")]),
        ("GET", f"/v1/topics/{topic}", None, [("x-" + "a" * rng.randrange(1, 9000), "b" * rng.randrange(9000))]),
    ])


def plain(status, fields, body):
    """The answer without what a moment decides."""
    text = TIMES.sub("T", MOMENT.sub(r'"\1":M', body.decode("latin-1")))
    return status, {name: TIMES.sub("T", value) for name, value in fields.items() if name not in FIELDS_LEFT_OUT and name != "content-length"}, text


def leases_of(body):
    return re.findall(r'"lease":"(\w+)"', body.decode("latin-1"))


class Old:
    """HTTP/1.1: a new connection after an answer that ends one."""

    def __init__(self, port):
        self.port, self.connection = port, Connection(port)

    def send(self, method, path, body, fields):
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{lines}" + (f"content-length: {len(body)}\r\n" if body is not None else "")
        self.connection.send(head.encode() + b"\r\n" + (body or b""))

    def read(self, method):
        reply = self.connection.read(method)
        if reply.closes:
            self.connection.close()
            self.connection = Connection(self.port)
        return reply.status, dict(reply.headers), reply.body


class New(Peer):
    """HTTP/2: updates of windows are sent before a wait, since each send may wait for its turn on a busy machine."""

    owed = b""

    def send_calls(self, calls):
        self.answers.clear()
        opened = [self.opened(request(method, path, fields), body) for method, path, body, fields in calls]
        self.socket.sendall(b"".join(frames for _, frames in opened))
        return [stream for stream, _ in opened]

    def read_answer(self, stream):
        answer = self.wait(stream)
        assert answer.reset is None
        return answer.status, answer.headers, answer.body

    def window(self, stream, more):
        self.owed += self.frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big"))

    def receive(self):
        if self.owed:
            self.socket.sendall(self.owed)
            self.owed = b""
        super().receive()


def test_random_calls_have_the_same_answers(start_server):
    """Games of calls one after the other, each with topics of its own. A call of each game is in flight: over HTTP/1.1 on a connection of the game, over HTTP/2 on one connection."""
    print(f"seed {SEED}, {CALLS} calls")
    servers = [start_server("--shards", "1", "--sync", "never", "--test-clock=2026-01-01T00:00:00Z") for _ in range(2)]
    rngs, leases = [random.Random(f"{SEED}-{game}") for game in range(GAMES)], [([], []) for _ in range(GAMES)]
    old = [Old(servers[0].port) for _ in range(GAMES)]
    with New(servers[1].port) as new:
        for n in range(0, CALLS, GAMES):
            calls = [], []
            for game, rng in enumerate(rngs):
                state = rng.getstate()
                for made, kept in zip(calls, leases[game], strict=True):
                    rng.setstate(state)
                    made.append(random_call(rng, kept, game))
            streams = new.send_calls(calls[1])
            for one, call in zip(old, calls[0], strict=True):
                one.send(*call)
            for game, call in enumerate(calls[0]):
                answers = old[game].read(call[0]), new.read_answer(streams[game])
                assert plain(*answers[0]) == plain(*answers[1]), (n, call)
                for kept, (_, _, body) in zip(leases[game], answers, strict=True):
                    kept.extend(leases_of(body))
                    del kept[:-20]
            old[0].send("GET", "/v1/topics", None, ())
            assert plain(*old[0].read("GET")) == plain(*new.read_answer(new.send_calls([("GET", "/v1/topics", None, ())])[0])), n
