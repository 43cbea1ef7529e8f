"""Export and import between two servers: nothing is lost, nothing is made up, and what was cut short can be gone on with."""

import base64
import contextlib
import datetime
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest
from client import Refused
from server import BINARY, eventually, free_port

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
    """Each topic's settings, pause and jobs, bodies and all, without what belongs to one store alone."""
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
    """What should have come of `before` over there: due long since is due now; a leased job is due when its lease ends, for the same attempt; histories stay behind."""
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


# ---- all of it ----


def test_every_kind_of_job_comes_over_as_it_was(source, any_target):
    target = any_target
    fill(source)
    before = everything(source)
    load(target, export(source))
    after = everything(target)
    assert set(after) == {"orders", "bodies", "paused", "bare"}
    assert_same(moved(before, after), after)
    assert_sums_add_up(target)
    assert target.client().topic("orders")["counts"] == {"delayed": 2, "retrying": 1, "ready": 1, "leased": 0, "dead": 1}


def test_what_came_over_outlives_a_restart(source, target):
    fill(source)
    load(target, export(source))
    before = everything(target)
    target.restart("kill")
    assert_same(before, everything(target))
    assert_sums_add_up(target)


def test_there_and_back_is_where_it_began(source, any_target, start_server):
    fill(source)
    load(any_target, export(source))
    third = start_server("--sync", "never", "--shards", "3")
    dump = export(any_target)
    load(third, dump)
    now_ms = time.time() * 1000

    def comparable(lines):  # what was due is due at once over there
        return sorted(json.dumps({**job, "at": job["at"] if job["at"] > now_ms else "due"}) for job in jobs_in(lines))

    assert comparable(export(third)) == comparable(dump)


def test_attempts_go_on_counting(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=2)
    client.nack(client.take("t")[0]["lease"], delay="1ms")
    load(any_target, export(source))
    client = any_target.client()
    job = take_by_id(client, "t", "j", wait="5s")
    assert job["attempt"] == 2
    (result,) = client.nack(job["lease"])
    assert result["state"] == "dead"


def test_a_job_leased_for_its_last_attempt_gets_it_again(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=2)
    client.nack(client.take("t")[0]["lease"], delay="1ms")
    lease = take_by_id(client, "t", "j", wait="5s", lease_for="1s")
    load(any_target, export(source))
    there = any_target.client().get("t", "j")
    assert (there["state"], there["attempt"]) == ("delayed", 1)
    assert abs(ms_of(there["due_at"]) - ms_of(lease["lease_until"])) <= APART_MS
    job = take_by_id(any_target.client(), "t", "j", wait="5s")
    assert job["attempt"] == 2
    assert any_target.client().nack(job["lease"])[0]["state"] == "dead"


def test_a_dead_job_can_be_redriven_over_there(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=1)
    client.nack(client.take("t")[0]["lease"], error="boom")
    load(any_target, export(source))
    client = any_target.client()
    assert client.get("t", "j")["state"] == "dead" and client.get("t", "j")["last_error"] == "boom"
    assert client.take("t") == []
    assert client.topic_verb("t", "redrive")["jobs"] == 1
    assert take_by_id(client, "t", "j")["attempt"] == 1


def test_a_job_of_the_largest_size_comes_over(source, any_target, target):
    body = os.urandom(1 << 20)
    client = source.client()
    for i in range(3):
        client.push("big", f"random-{i}", body, content_type="application/octet-stream", delay="1h", meta={"k" * 60: "v" * 1000})
    client.push("big", "escaped", b"\1" * (1 << 20), delay="1h")
    load(any_target, export(source))
    load(target, export(any_target))
    assert_same(everything(source), everything(target))


def test_the_largest_job_comes_over_where_jobs_may_be_as_large_as_a_batch(start_server):
    flags = ("--max-body", "13MiB", "--wal-file", "64MiB", "--sync", "never", "--shards", "1")
    source, target = start_server(*flags), start_server(*flags)
    body = os.urandom(13 << 20)
    source.client().push("big", "j", body, content_type="application/octet-stream", delay="1h")
    load(target, export(source))
    assert base64.b64decode(target.client().get("big", "j")["body_base64"]) == body


def begin(server, *arguments, stderr=subprocess.PIPE, **more):
    """`server`: or a gate to it."""
    return subprocess.Popen([str(BINARY), *arguments, "--url", server.url], stderr=stderr, **more)


class Gate:
    """Passes connections on to a server until it has carried so many bytes up or down; what comes then waits for open() or cut()."""

    def __init__(self, server, up=1 << 40, down=1 << 40):
        self.server, self.left = server, {"up": up, "down": down}
        self.held, self.opened = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
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
                far = socket.create_connection(("127.0.0.1", self.server.port))
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
        """Until it holds; the process must not be over."""
        assert self.held.wait(60) and running.poll() is None
        return self

    def open(self):
        self.opened.set()

    def cut(self):
        """Nothing more, and nobody in any more."""
        self._close(*self.sockets)
        self.opened.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()


def pushed(server):
    return sum(topic["totals"]["pushed"] for topic in server.client().topics())


def push_many(server, count, spread_ms=0, **options):
    client = server.client()
    for start in range(0, count, 1000):
        client.push_batch([{"topic": f"t{i % 3}", "id": f"job-{i}", "delay": 3_600_000 + i % 500 + spread_ms * i, "body": f"body of {i}", **options}
                           for i in range(start, min(count, start + 1000))])


def test_jobs_of_several_shards_come_over(start_server):
    source, target = start_server("--shards", "3", "--sync", "never"), start_server("--shards", "2", "--sync", "never")
    push_many(source, 3300)
    dump = export(source)
    assert len({(job["topic"], job["id"]) for job in jobs_in(dump)}) == len(jobs_in(dump)) == 3300
    err = load(target, dump)
    assert "imported 3300 jobs: 3300 created, 0 replaced, 0 existed; 0 refused" in err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


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


def test_twenty_thousand_jobs_of_all_states_go_to_redis_and_come_back(start_server, start_redis, tmp_path):
    redis = start_redis()
    source, third = start_server("--sync", "never", "--shards", "2"), start_server("--sync", "never", "--shards", "1")
    between = start_server("--store", redis.url)
    fill_with_twenty_thousand(source)
    assert states(source) == {"delayed": 9000, "retrying": 3000, "ready": 3000, "leased": 2000, "dead": 3000}
    before = everything(source)
    assert "20000 created, 0 replaced, 0 existed; 0 refused" in load(between, export(source))
    middle = everything(between)
    assert_same(moved(before, middle), middle)
    assert states(between) == {"delayed": 11000, "retrying": 3000, "ready": 3000, "leased": 0, "dead": 3000}
    assert_sums_add_up(between)
    assert "20000 created, 0 replaced, 0 existed; 0 refused" in load(third, export(between))
    after = everything(third)
    assert_same(moved(middle, after), after)
    assert states(third) == states(between)
    assert_sums_add_up(third)


# ---- again, and in pieces ----


def test_importing_twice_changes_nothing(source, any_target):
    target = any_target
    fill(source)
    dump = export(source)
    load(target, dump)
    before = everything(target)
    count = len(jobs_in(dump))
    assert f"0 created, 0 replaced, {count} existed; 0 refused" in load(target, dump)
    assert everything(target) == before
    assert_sums_add_up(target)


def test_replace_brings_the_exported_job_back(source, any_target):
    target = any_target
    source.client().push("t", "j", b"exported", delay="1h")
    dump = export(source)
    target.client().push("t", "j", b"other", delay="2h")
    assert "1 existed" in load(target, dump)
    assert target.client().get("t", "j")["body"] == "other"
    assert "1 replaced" in load(target, dump, "--on-conflict", "replace")
    assert target.client().get("t", "j")["body"] == "exported"
    target.client().run("t", "j")
    take_by_id(target.client(), "t", "j")
    assert "1 existed" in load(target, dump)
    assert "line 3 refused: leased" in load(target, dump, "--on-conflict", "replace", code=REFUSED)


@pytest.mark.parametrize("spread_ms", [0, 20])  # due all at once; over 100 s
def test_an_export_cut_short_is_gone_on_with(source, target, tmp_path, spread_ms):
    push_many(source, 3300, spread_ms)
    path = tmp_path / "dump"
    export(source, "--output", str(path))
    whole = path.read_bytes()
    want = sorted((job["topic"], job["id"]) for job in jobs_in(whole))
    assert len(want) == 3300
    newline = whole.index(b"\n") + 1
    for length in (newline, newline + 7, len(whole) // 3, len(whole) // 2, len(whole) - 40, len(whole)):
        path.write_bytes(whole[:length])
        export(source, "--output", str(path), "--resume")
        again = path.read_bytes()
        assert sorted((job["topic"], job["id"]) for job in jobs_in(again)) == want, length
        assert lines_of(again)[-1] == {"tarry_export_end": 1, "topics": 3, "jobs": 3300}
        assert [line["topic"] for line in lines_of(again) if "settings" in line] == ["t0", "t1", "t2"]
    assert "3300 created" in load(target, path.read_bytes())


def test_nothing_is_left_of_what_is_gone_when_it_is_gone_on_with(source, tmp_path):
    push_many(source, 5000, spread_ms=20)
    path = tmp_path / "dump"
    export(source, "--output", str(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    for topic in ("t0", "t1", "t2"):
        source.client().topic_verb(topic, "purge")
    export(source, "--output", str(path), "--resume")
    again = path.read_bytes()
    assert len(again) < len(whole) and lines_of(again)[-1]["jobs"] == len(jobs_in(again)) < 5000


def test_an_export_whose_server_dies_is_gone_on_with_after_its_restart(source, tmp_path):
    push_many(source, 5000, spread_ms=50, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), "--patience", "0")
        gate.wait(running)
        source.kill()
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == UNREACHABLE and "go on with it by --resume" in err, err
    source.start()
    export(source, "--output", str(path), "--resume")
    dump = path.read_bytes()
    assert {job["id"] for job in jobs_in(dump)} == {f"job-{i}" for i in range(5000)}
    assert len(jobs_in(dump)) == lines_of(dump)[-1]["jobs"] < 6000  # a few may be there twice, none is missing


def test_nothing_is_written_over(source, tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(b"mine\n")
    assert "exists" in tarry(source, "export", "--output", str(path), code=REFUSED)[1]
    assert "not the beginning of an export" in tarry(source, "export", "--output", str(path), "--resume", code=REFUSED)[1]
    assert path.read_bytes() == b"mine\n"


def test_an_incomplete_export_is_not_taken_for_a_whole_one(source, target):
    push_many(source, 10)
    for letter in "abcdef":
        source.client().put_topic(letter * 150)
    dump = export(source)
    cut = b"".join(dump.splitlines(keepends=True)[:-1])
    assert "ends before the export did" in load(target, cut, code=REFUSED)
    assert "ends before the export did" in load(target, cut, "--skip", "5", code=REFUSED)
    load(target, dump)
    load(target, dump, "--skip", "5")
    torn = load(target, dump[:len(dump) // 2], code=REFUSED)  # in the middle of a line
    assert "ends before the export did" in torn and "refused: bad_json, the line is not a JSON object" in torn


def test_an_import_cut_short_is_gone_on_with_by_skip(source, target, tmp_path):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path), "--patience", "500ms")
        gate.wait(running).cut()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == UNREACHABLE, err
    skip = err.split("--skip ")[1].split()[0]
    assert 0 < int(skip) < 8000
    err = load(target, path.read_bytes(), "--skip", skip)
    assert "0 refused" in err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_an_import_that_is_interrupted_says_where_to_go_on(source, target, tmp_path):
    push_many(source, 3000)
    lines = export(source).splitlines(keepends=True)
    running = subprocess.Popen([str(BINARY), "import", "--url", target.url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdin.write(b"".join(lines[:2500]))
    running.stdin.flush()
    eventually(lambda: sum(topic["totals"]["pushed"] for topic in target.client().topics()) >= 2000)
    running.send_signal(signal.SIGINT)
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED
    skip = int(err.split("--skip ")[1].split()[0])
    assert sum(topic["totals"]["pushed"] for topic in target.client().topics()) == len(jobs_in(b"".join(lines[:skip])))
    load(target, b"".join(lines), "--skip", str(skip))
    assert_same(everything(source), everything(target))


def test_lines_from_a_pipe_go_in_as_they_come(target):
    running = subprocess.Popen([str(BINARY), "import", "--url", target.url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for i in range(3):
        running.stdin.write(b'{"topic":"t","id":"%d"}\n{"topic":"t"' % i)
        running.stdin.flush()
        eventually(lambda: target.client().topics() and target.client().topic("t")["totals"]["pushed"] == 2 * i + 1)
        running.stdin.write(b',"delay":"1h"}\n')
        running.stdin.flush()
        eventually(lambda: target.client().topic("t")["totals"]["pushed"] == 2 * i + 2)
    assert b"6 created" in running.communicate(timeout=60)[1]
    assert running.returncode == OK


def test_a_server_that_restarts_during_an_import_costs_only_time(source, target, tmp_path):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path))
        gate.wait(running)
        target.kill()
        gate.open()
        target.start()
        err = running.communicate(timeout=120)[1].decode()
    assert running.returncode == OK and "imported 8000 jobs" in err, err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_a_redis_that_restarts_during_an_import_costs_only_time(source, start_server, start_redis, tmp_path):
    redis = start_redis(aof="always")
    target = start_server("--store", redis.url)
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path))
        gate.wait(running)
        redis.kill()
        gate.open()
        time.sleep(0.3)
        redis.start()
        err = running.communicate(timeout=120)[1].decode()
    assert running.returncode == OK and "imported 8000 jobs" in err, err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_a_server_that_restarts_during_an_export_costs_only_time(source, tmp_path):
    push_many(source, 5000, spread_ms=50, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), "--progress")
        gate.wait(running)
        source.kill()
        gate.open()
        time.sleep(0.3)
        source.start()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == OK and "jobs, waiting for the server\n" in err, err
    dump = path.read_bytes()
    assert {job["id"] for job in jobs_in(dump)} == {f"job-{i}" for i in range(5000)}
    assert len(jobs_in(dump)) == lines_of(dump)[-1]["jobs"] == 5000


def test_an_export_to_standard_output_ends_with_the_server(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    with Gate(source, down=2_500_000) as gate, open(tmp_path / "out", "wb") as out:
        running = begin(gate, "export", stdout=out)
        gate.wait(running).cut()
        err = running.communicate(timeout=60)[1]
    assert running.returncode == UNREACHABLE and b"cannot reach" in err
    assert jobs_in((tmp_path / "out").read_bytes()) and b"tarry_export_end" not in (tmp_path / "out").read_bytes()


def test_an_interrupted_export_is_gone_on_with(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path))
        gate.wait(running)
        running.send_signal(signal.SIGINT)
        gate.open()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED and "interrupted" in err and "go on with it by --resume" in err, err
    assert b"tarry_export_end" not in path.read_bytes()
    export(source, "--output", str(path), "--resume")
    assert len({job["id"] for job in jobs_in(path.read_bytes())}) == lines_of(path.read_bytes())[-1]["jobs"] == 5000


def test_a_full_disk_is_said_and_gone_on_from(source, tmp_path):
    push_many(source, 5000)
    path = tmp_path / "dump"

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    running = begin(source, "export", "--output", str(path), preexec_fn=small_disk, restore_signals=False)
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED and "cannot write" in err and "go on with it by --resume" in err, err
    assert path.stat().st_size == 400_000
    export(source, "--output", str(path), "--resume")
    assert len({job["id"] for job in jobs_in(path.read_bytes())}) == lines_of(path.read_bytes())[-1]["jobs"] == 5000
    source.client().push("little", "j", delay="1h")
    for more in ([], ["--topic", "little"]):
        with open("/dev/full", "wb") as full:
            running = begin(source, "export", *more, stdout=full)
            assert b"cannot write 'standard output'" in running.communicate(timeout=60)[1] and running.returncode == REFUSED


@pytest.mark.parametrize("with_state", [False, True])
def test_an_import_that_is_killed_and_started_again_brings_each_job_once(source, any_target, tmp_path, with_state):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    arguments = ["import", str(path)] + (["--state", str(tmp_path / "state")] if with_state else [])
    with Gate(any_target, up=600_000) as gate:
        running = begin(gate, *arguments)
        gate.wait(running)
        eventually(lambda: pushed(any_target) >= 2000)
        if with_state:
            eventually(lambda: (tmp_path / "state").exists())
        running.kill()
        running.communicate()
    in_already = pushed(any_target)
    assert 2000 <= in_already < 8000
    if with_state:
        state = json.loads((tmp_path / "state").read_text())
        (tmp_path / "state").write_text(json.dumps({**state, "url": any_target.url}))  # it was that of the gate
    err = tarry(any_target, *arguments)[1]
    existed = int(re.search(r"(\d+) existed; 0 refused", err)[1])
    assert existed <= in_already if with_state else existed == in_already
    assert_same(everything(source), everything(any_target))
    assert_sums_add_up(any_target)
    assert pushed(any_target) == 8000 and not (tmp_path / "state").exists()


def test_what_was_finished_meanwhile_does_not_come_again_with_a_state(source, target, tmp_path):
    push_many(source, 3000)
    lines, state = export(source).splitlines(keepends=True), tmp_path / "state"
    running = begin(target, "import", "--state", str(state), stdin=subprocess.PIPE)
    running.stdin.write(b"".join(lines[:2500]))
    running.stdin.flush()
    eventually(lambda: state.exists() and json.loads(state.read_text())["line"] > 1000)
    running.kill()
    running.communicate()
    done = json.loads(state.read_text())["line"]
    (first,) = jobs_in(b"".join(lines[:done]))[:1]
    target.client().cancel(first["topic"], first["id"])
    other = b"".join(lines).replace(first["id"].encode(), b"other")
    assert "something else" in load(target, other, "--state", str(state), code=REFUSED)
    assert "into" in load(source, b"".join(lines), "--state", str(state), code=REFUSED)
    assert "ends before line" in load(target, b"".join(lines[:500]), "--state", str(state), code=REFUSED)
    load(target, b"".join(lines), "--state", str(state))
    assert not state.exists() and pushed(target) == 3000
    with pytest.raises(Refused):
        target.client().get(first["topic"], first["id"])


def test_a_state_does_not_run_ahead_of_the_server(source, target, tmp_path):
    push_many(source, 3000)
    lines, state = export(source).splitlines(keepends=True), tmp_path / "state"
    with Gate(target, up=150_000) as gate:
        running = begin(gate, "import", "--state", str(state), stdin=subprocess.PIPE)
        running.stdin.write(b"".join(lines[:-1]))
        running.stdin.flush()
        gate.wait(running)
        time.sleep(1.3)  # longer than it waits before it writes again
        running.kill()
        running.communicate()
    done = jobs_in(b"".join(lines[:json.loads(state.read_text())["line"]]))
    there = everything(target)
    assert all(job["id"] in there[job["topic"]]["jobs"] for job in done)


def test_progress_is_shown_on_a_terminal_alone(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    path, (near, far) = tmp_path / "dump", os.openpty()
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), stderr=far)
        os.close(far)
        gate.wait(running)
        time.sleep(1.1)
        gate.open()
        shown = os.read(near, 65536)
        assert running.wait() == OK
    with contextlib.suppress(OSError):  # the other side is closed
        while more := os.read(near, 65536):
            shown += more
    os.close(near)
    assert re.search(rb"\r\x1b\[Kexported \d+ of 5000 jobs, \d+/s, \d+ %, \d+s left", shown), shown
    assert shown.endswith(b"\r\x1b[Kexported 5000 jobs of 3 topics\r\n"), shown
    quiet = begin(source, "export", "--output", str(tmp_path / "other"))
    assert quiet.communicate(timeout=60)[1] == b"exported 5000 jobs of 3 topics\n"


# ---- what does not get in ----


def test_refused_lines_are_named_and_kept(target, tmp_path):
    rejects = tmp_path / "rejects"
    good = b'{"topic":"t","id":"good","delay":"1h","body":"x"}\n'
    bad = [b"no json", b'{"topic":".t","id":"a"}', b'{"topic":"t","id":"b","attempt":-1}', b'{"topic":"t","id":"c","state":"ready"}',
           b'{"topic":"t","id":"d","on_conflict":"sometimes"}', b"[1]"]
    err = load(target, good + b"\n" + b"\n".join(bad) + b"\n", "--rejects", str(rejects), code=REFUSED)
    assert "1 created" in err and "6 refused" in err
    assert sorted(rejects.read_bytes().splitlines()) == sorted(bad)
    for line, code in ((3, "bad_json"), (4, "bad_topic"), (5, "bad_option"), (6, "bad_option"), (7, "bad_option"), (8, "bad_json")):
        assert f"line {line} refused: {code}" in err, err
    assert target.client().topic("t")["totals"]["pushed"] == 1


def test_a_body_the_target_does_not_take_is_refused_alone(source, start_server):
    small = start_server("--max-body", "1KiB")
    source.client().push("t", "big", b"x" * 2000, delay="1h")
    source.client().push("t", "small", b"x", delay="1h")
    err = load(small, export(source), code=REFUSED)
    assert "1 created" in err and "refused: body_too_big" in err


def test_batch_items_of_ones_own_can_be_imported(target):
    load(target, b'{"topic":"t","id":"a","delay":"1h"}\r\n{"topic":"t","delay":"1h","on_conflict":"replace"}')
    assert target.client().topic("t")["counts"]["delayed"] == 2


def test_only_named_topics_are_exported(source, target):
    fill(source)
    dump = export(source, "--topic", "bare", "--topic", "paused")
    assert {line["topic"] for line in lines_of(dump) if "topic" in line} == {"bare", "paused"}
    assert "there is no topic 'nobody'" in tarry(source, "export", "--topic", "nobody", code=NOTHING)[1]


def test_an_empty_server_exports_and_imports(source, target):
    assert "imported 0 jobs" in load(target, export(source))
    assert target.client().topics() == []


def test_exit_codes(source, tmp_path):
    away = f"http://127.0.0.1:{free_port()}"
    tarry(source, "export", "--url", away, code=UNREACHABLE)
    tarry(source, "import", "--url", away, code=UNREACHABLE)
    tarry(source, "export", "--resume", code=USAGE)
    tarry(source, "import", "--on-conflict", "reject", code=USAGE)
    tarry(source, "import", str(tmp_path / "none"), code=REFUSED)


# ---- the API they speak ----


def test_a_list_shows_bodies_where_it_is_asked_to(source):
    client = source.client()
    client.push("t", "j", b'{"a": 1}', content_type="application/json", delay="1h")
    assert "body" not in client.list("t")["jobs"][0] and "body" not in client.list("t", body="false")["jobs"][0]
    assert client.list("t", body="true")["jobs"][0]["body"] == {"a": 1}
    assert base64.b64decode(client.list("t", body="base64")["jobs"][0]["body_base64"]) == b'{"a": 1}'
    with pytest.raises(Refused) as refused:
        client.list("t", body="yes")
    assert refused.value.code == "bad_option"


def test_a_page_with_large_bodies_is_cut_and_the_next_goes_on(start_server):
    for shards in ("1", "3"):
        server = start_server("--shards", shards, "--sync", "never")
        client = server.client()
        for i in range(12):
            client.push("t", f"j{i}", b"x" * (1 << 20), delay="1h")
        page = client.list("t", limit=1000, body="true")
        assert 6 <= len(page["jobs"]) < 12 and page["cursor"]
        seen, cursor = [], None
        while True:
            page = client.list("t", limit=1000, body="true", cursor=cursor)
            seen += [job["id"] for job in page["jobs"]]
            cursor = page["cursor"]
            if not cursor:
                break
        assert sorted(seen) == sorted(f"j{i}" for i in range(12))


def test_a_pushed_past_has_its_limits(source):
    client = source.client()
    rows = client.push_batch([
        {"topic": "t", "id": "a", "attempt": 10000, "delay": "1h"},
        {"topic": "t", "id": "b", "attempt": 10001},
        {"topic": "t", "id": "c", "state": "leased"},
        {"topic": "t", "id": "d", "state": "dead", "error": "\u20ac" * 200},
    ])
    assert [row["result"] for row in rows] == ["created", "bad_option", "bad_option", "created"]
    assert rows[3]["state"] == "dead"
    assert client.get("t", "d")["last_error"] == "\u20ac" * 85  # 256 bytes, and no half character
    with pytest.raises(Refused) as refused:
        client.push("t", "e", attempt=1)
    assert refused.value.code == "unknown_option"
    assert_sums_add_up(source)


def test_an_export_says_what_is_to_come_and_that_nothing_is_missing(source):
    push_many(source, 3)
    head, *_, end = lines_of(export(source))
    assert head["tarry_export"] == 1 and head["topics"] == ["t0", "t1", "t2"]
    assert end == {"tarry_export_end": 1, "topics": 3, "jobs": 3}
