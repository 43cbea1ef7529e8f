"""Shared parts of the tests of export and import: two servers, their content, a gate between a client and a server."""

import base64
import contextlib
import datetime
import json
import socket
import subprocess
import threading
import time

import pytest
from server import BINARY, eventually


OK, REFUSED, USAGE, UNREACHABLE, NOTHING = range(5)
YEAR_MS = 365 * 24 * 3600 * 1000
APART_MS = 100  # what a due time may be off by where it was counted from another clock: that of a server started again


@pytest.fixture
def source(start_server):
    return start_server("--sync", "never", "--shards", "1", "--wal-file", "8MiB")


@pytest.fixture
def target(start_server):
    return start_server()


@pytest.fixture(params=["embedded", "redis"])
def any_target(request, start_server):
    if request.param == "embedded":
        return start_server()
    return start_server("--store", request.getfixturevalue("start_redis")().url)


def tarry(server, *arguments, code=OK, stdin=b""):
    ended = server.cli(*arguments, input=stdin)
    err = ended.stderr.decode()
    assert ended.returncode == code, (arguments, ended.returncode, ended.stdout[-2000:], err[-4000:])
    assert "Sanitizer" not in err and "runtime error" not in err, err
    return ended.stdout, err


def export(server, *arguments, code=OK):
    return tarry(server, "export", *arguments, code=code)[0]


def load(server, dump, *arguments, code=OK):
    return tarry(server, "import", *arguments, code=code, stdin=dump)[1]


def lines_of(dump):
    return [json.loads(line) for line in dump.splitlines()]


def jobs_in(dump):
    return [line for line in lines_of(dump) if "id" in line]


def everything(server):
    """Returns each topic's settings, pause and jobs with bodies, without data that belongs to one store only."""
    client, found = server.client(), {}
    for topic in client.topics():
        jobs, cursor = {}, None
        while True:
            page = client.list(topic["topic"], limit=1000, body="base64", cursor=cursor)
            for job in page["jobs"]:
                assert job["id"] not in jobs
                job.pop("delivery")
                jobs[job["id"]] = job
            cursor = page["cursor"]
            if not cursor:
                break
        found[topic["topic"]] = {"settings": topic["settings"], "paused": topic["paused"], "jobs": jobs}
    return found


def ms_of(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000 + 0.5)


def assert_same(before, after):
    """Topic by topic, job by job, field by field."""
    assert {name: {**topic, "jobs": sorted(topic["jobs"])} for name, topic in after.items()} == \
        {name: {**topic, "jobs": sorted(topic["jobs"])} for name, topic in before.items()}
    for name, topic in before.items():
        for ident, old in topic["jobs"].items():
            old, new = dict(old), dict(after[name]["jobs"][ident])
            assert abs(ms_of(new.pop("due_at")) - ms_of(old.pop("due_at"))) <= APART_MS, (old, new)
            assert new == old


def moved(before, after):
    """Returns the expected copy of `before`: overdue jobs are due now; a leased job is due when its lease ends, for the same attempt; histories
    stay behind."""
    out = {name: {**topic, "jobs": {ident: dict(job) for ident, job in topic["jobs"].items()}} for name, topic in before.items()}
    for name, topic in out.items():
        for ident, job in topic["jobs"].items():
            job.pop("history", None)
            if job["state"] == "leased":
                job.update(state="delayed", due_at=job.pop("lease_until"), attempt=job["attempt"] - 1)
            if job["state"] in ("ready", "dead"):
                new = after[name]["jobs"][ident]["due_at"]
                assert ms_of(new) >= ms_of(job["due_at"]) - APART_MS
                job["due_at"] = new
    return out


def assert_sums_add_up(server):
    for topic in server.client().topics():
        counts, totals = topic["counts"], topic["totals"]
        assert totals["pushed"] == sum(counts.values()) + totals["acked"] + totals["cancelled"] + totals["expired"], topic


def take_by_id(client, topic, ident, **options):
    (job,) = client.take(topic, **options)
    assert job["id"] == ident
    return job


def fill(server):
    """Every kind of job there is."""
    client = server.client()
    client.put_topic("orders", max_attempts=3, backoff="fixed:1h", lease_for="2h", dedup_window="1h", on_conflict="reject", priority=7,
                     dead_letter_expired=True, ttl="1d")
    client.push("orders", "dead", b"gives up", max_attempts=1)
    client.nack(take_by_id(client, "orders", "dead")["lease"], error="no \u20ac left")
    client.push("orders", "retrying", b"again", meta={"trace": "4bf92f", "empty": ""})
    client.nack(take_by_id(client, "orders", "retrying")["lease"], error="busy")
    client.push("orders", "leased", b"out", lease_for="3h")
    take_by_id(client, "orders", "leased")
    client.push("orders", "ready", b"now", ttl="2d", priority=3)
    client.push("orders", "far", b"later", at=int(time.time() * 1000) + 9 * YEAR_MS, backoff="exp:2s..1m", max_attempts=99)
    client.push("bodies", "bytes", bytes(range(256)), content_type="image/png", delay="1h")
    client.push("bodies", "untyped", b"plain", content_type=None, delay="1h")
    client.push("bodies", "empty", b"", content_type="application/json", delay="1h")
    client.push("bodies", "json", b'{"b":1.0,"a":12345678901234567890,"b":2}', content_type="application/json", delay="1h")
    client.push("bodies", "json-spaced", b' {\n "a": 1\n}\n', content_type="application/json; charset=utf-8", delay="1h")
    client.push("bodies", "json-text", b'"quoted"', content_type="application/problem+json", delay="1h")
    client.push("bodies", "json-not", b'{"a":', content_type="application/json", delay="1h")
    client.push("bodies", "json-deep", b"[" * 64 + b"]" * 64, content_type="application/json", delay="1h")
    client.push("bodies", "text-json", b'{"a":1}', content_type="text/plain", delay="1h")
    client.push("bodies", "text", "line\n\u2028 \u00fc \"q\" \\ \0 end".encode(), content_type="text/plain; charset=utf-8", delay="1h")
    client.push("bodies", "text-quoted", b'"a"', content_type="text/plain", delay="1h")
    client.push("bodies", "bytes-quoted", b'"a"', content_type="application/octet-stream", delay="1h")
    client.push("bodies", "bytes-json", b'[1]', content_type="application/octet-stream", delay="1h")
    client.push("bodies", "text-odd", b'"a"', content_type="text/x+json", delay="1h")
    client.push("bodies", "id/with?odd#chars%", b"x", delay="1h")
    client.push("bodies", "".join(map(chr, range(33, 127))) + "~" * 34, b"the longest id", delay="1h")
    client.push("paused", "due", b"waits")
    client.topic_verb("paused", "pause")
    client.put_topic("bare", max_attempts=5)


def begin(server, *arguments, stderr=subprocess.PIPE, **more):
    """`server`: or a gate to it."""
    return subprocess.Popen([str(BINARY), *arguments, "--url", server.url], stderr=stderr, **more)


class Gate:
    """Passes connections on to a server until it has carried so many bytes up or down; what comes then waits for open() or cut()."""

    def __init__(self, server, up=1 << 40, down=1 << 40):
        self.server, self.left = server, {"up": up, "down": down}
        self.held, self.opened = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = server.url.replace(f":{server.port}", f":{self.listener.getsockname()[1]}")
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            self.sockets.append(near)
            try:
                far = socket.create_connection(("127.0.0.1", int(self.server.port)))
            except OSError:
                self._close(near)
                continue
            self.sockets.append(far)
            threading.Thread(target=self._carry, args=(near, far, "up"), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, "down"), daemon=True).start()

    def _carry(self, a, b, way):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                self.left[way] -= len(data)
                if self.left[way] < 0 and not self.opened.is_set():
                    self.held.set()
                    self.opened.wait(60)
                b.sendall(data)
        self._close(a, b)

    @staticmethod
    def _close(*sockets):
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def wait(self, running):
        """Waits until it holds; the process must still run."""
        assert self.held.wait(60) and running.poll() is None
        return self

    def open(self):
        self.opened.set()

    def cut(self):
        """Sends nothing more, and makes no further connection."""
        self._close(*self.sockets)
        self.opened.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()


def pushed(server):
    return sum(topic["totals"]["pushed"] for topic in server.client().topics())


def settled(server):
    """The jobs pushed, after the server has carried out the last batch of a client that left."""
    count, before = pushed(server), -1
    while count != before:
        time.sleep(0.5)
        count, before = pushed(server), count
    return count


def push_many(server, count, spread_ms=0, **options):
    client = server.client()
    for start in range(0, count, 1000):
        client.push_batch([{"topic": f"t{i % 3}", "id": f"job-{i}", "delay": f"{3_600_000 + i % 500 + spread_ms * i}ms", "body": f"body of {i}", **options}
                           for i in range(start, min(count, start + 1000))])


def take_all(client, topic, count):
    return [job["lease"] for _ in range(0, count, 1000) for job in client.take(topic, max=1000)]


def nack_all(client, leases, **more):
    for start in range(0, len(leases), 1000):
        body = json.dumps({"leases": leases[start:start + 1000], **more}).encode()
        results = client.good("POST", "/v1/nack", body, {"Content-Type": "application/json"})["results"]
        assert {row["result"] for row in results} == {"ok"}


def push_numbered(client, topic, numbers, **more):
    for start in range(0, len(numbers), 1000):
        rows = client.push_batch([{"topic": topic, "id": f"number-{i}", "body_base64": base64.b64encode(i.to_bytes(4, "big") * 16).decode(),
                                   "content_type": "application/octet-stream", "meta": {"number": str(i)}, "priority": i % 5, **more}
                                  for i in numbers[start:start + 1000]])
        assert {row["result"] for row in rows} == {"created"}


def fill_with_twenty_thousand(server):
    """Thousands of every state."""
    client = server.client()
    push_numbered(client, "retried", range(3000), lease_for="1h")
    nack_all(client, take_all(client, "retried", 3000), delay="2h", error="not now")
    push_numbered(client, "dead", range(3000), max_attempts=1)
    nack_all(client, take_all(client, "dead", 3000), error="never")
    push_numbered(client, "leased", range(2000), lease_for="3h")
    assert len(take_all(client, "leased", 2000)) == 2000
    client.put_topic("ready", lease_for="90s")
    client.topic_verb("ready", "pause")
    push_numbered(client, "ready", range(3000), ttl="2d")
    for hour in range(1, 10):
        push_numbered(client, "delayed", range(1000 * hour, 1000 * (hour + 1)), delay=f"{hour}h", backoff="fixed:7s")


def states(server):
    out = dict.fromkeys(("delayed", "retrying", "ready", "leased", "dead"), 0)
    for topic in server.client().topics():
        for state, count in topic["counts"].items():
            out[state] += count
    return out


# ---- finished jobs ----

RESULT = bytes(range(256))


def finish(client, topic, ident, result=b"", content_type="text/plain", **push):
    client.push(topic, ident, **push)
    (job,) = client.take(topic, consumer="worker", wait="5s")
    assert client.call("POST", f"/v1/ack?lease={job['lease']}", result, {"Content-Type": content_type}).status == 200


def settle_finished(client):
    client.put_topic("sums", keep_finished="1h", keep_body=True)
    finish(client, "sums", "bytes", RESULT, "image/x", meta={"order": "7"}, body=b"\xff")
    finish(client, "sums", "none")
    client.push("sums", "cancelled", delay="1h")
    client.cancel("sums", "cancelled")
    client.push("sums", "live", delay="1h")
    client.push("other", "plain", delay="1h")
    eventually(lambda: client.topic("sums")["counts"]["finished"] == 3)


def finished_in(dump):
    return {line["id"]: line for line in lines_of(dump) if line.get("outcome")}


def finished_jobs_are_exported(source):
    client = source.client()
    settle_finished(client)
    dump = export(source, "--finished")
    lines = lines_of(dump)
    jobs = finished_in(dump)
    assert set(jobs) == {"bytes", "none", "cancelled"} and all(job["state"] == "finished" for job in jobs.values())
    job, shown = jobs["bytes"], client.get("sums", "bytes")
    assert base64.b64decode(job["result_base64"]) == RESULT and job["result_type"] == "image/x"
    assert base64.b64decode(job["body_base64"]) == b"\xff"
    for member in ("outcome", "finished_at", "attempt", "meta", "consumer"):
        assert job.get(member) == shown.get(member), member
    assert "result_base64" not in jobs["none"] and jobs["cancelled"]["outcome"] == "cancelled"
    assert lines[0]["finished"] is True and lines[-1] == {"tarry_export_end": 1, "topics": 2, "jobs": 2, "finished": 3}
    assert [line["id"] for line in lines if "at" in line and "id" in line and "outcome" not in line] == ["plain", "live"]
