"""The same calls over HTTP/1.1 and HTTP/2, at random, have the same answers."""

import json
import os
import random
import re

import pytest
from client import Connection
from frames import Peer, request

pytestmark = pytest.mark.plain("the frames are written to a plain socket")
CALLS = int(os.environ.get("TARRY_TEST_CALLS", "400"))
SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
# What differs between two servers or two moments.
MOMENT = re.compile(r'"(\w+_at|lease_until|now|uptime_ms|started_at|lease|delivery|since|until|retry_s|limit_until|cursor|duration_ms|age_ms|late_ms)":("[^"]*"|-?\d+)')
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS_LEFT_OUT = {"date", "connection", ":status", "tarry-lease", "tarry-due-at", "tarry-lease-until", "tarry-delivery", "keep-alive"}


def random_call(rng, leases):
    """A call of the API: most are right, some are not. Ids and topics are few, so that calls meet."""
    topic, ident = f"t{rng.randrange(4)}", f"j{rng.randrange(12)}"
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
        ("POST", rng.choice(["/v1/ack", "/v1/nack", "/v1/extend"]) + f"?lease={lease}", None, []),
        ("POST", "/v1/jobs", json.dumps([{"topic": topic, "id": ident, "body": "x"}, {"topic": "", "id": "y"}]).encode(), [("content-type", "application/json")]),
        ("POST", "/v1/jobs", body, []),
        ("GET", f"/v1/topics/{topic}/jobs" + rng.choice(["", "?limit=2", "?state=ready", "?state=odd"]), None, []),
        ("GET", rng.choice(["/v1/topics", f"/v1/topics/{topic}", "/readyz", "/healthz", "/nowhere", "/v1//", "/v1/topics/a%2Fb/jobs/c", "/problems", "/openapi.yaml"]), None, []),
        ("POST", f"/v1/topics/{topic}/" + rng.choice(["pause", "resume", "purge?state=dead", "redrive", "odd"]), None, []),
        ("PUT", f"/v1/topics/{topic}" + rng.choice(["?max_attempts=3", "?history=2", "?lease_for=x"]), None, []),
        (rng.choice(["OPTIONS", "PATCH", "BREW", "TRACE"]), rng.choice(["/v1/topics", job, "/readyz"]), None, []),
        ("GET", "/v1/topics", None, [("authorization", "Bearer x")] * rng.randrange(3)),
        ("GET", "/v1/topics", None, [("origin", "https://evil.example")]),
        ("PUT", job, body, [("content-encoding", "gzip")]),
        ("GET", "/v1/topics", None, [("x-" + "a" * rng.randrange(1, 9000), "b" * rng.randrange(9000))]),
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

    def call(self, method, path, body, fields):
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{lines}" + (f"content-length: {len(body)}\r\n" if body is not None else "")
        self.connection.send(head.encode() + b"\r\n" + (body or b""))
        reply = self.connection.read(method)
        if reply.closes:
            self.connection = Connection(self.port)
        return reply.status, dict(reply.headers), reply.body


def test_random_calls_have_the_same_answers(start_server):
    print(f"seed {SEED}, {CALLS} calls")
    rng, servers = random.Random(SEED), [start_server("--shards", "1", "--test-clock=2026-01-01T00:00:00Z") for _ in range(2)]
    old, leases = Old(servers[0].port), ([], [])
    with Peer(servers[1].port) as peer:
        for n in range(CALLS):
            state = rng.getstate()
            first = random_call(rng, leases[0])
            rng.setstate(state)
            second = random_call(rng, leases[1])
            method, path, body, fields = second
            peer.answers.clear()
            answer = peer.wait(peer.open(request(method, path, fields), body))
            one = old.call(*first)
            assert answer.reset is None, (n, second)
            two = answer.status, answer.headers, answer.body
            assert plain(*one) == plain(*two), (n, first)
            for kept, found in zip(leases, (leases_of(one[2]), leases_of(two[2])), strict=True):
                kept.extend(found)
                del kept[:-20]
