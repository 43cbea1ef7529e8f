"""The coming load: when the jobs that wait fall due, against what was pushed."""

import contextlib
import random
import re
import time
from datetime import datetime, timezone

import pytest
from fake_clock import FakeClock, fake_time_library
from redis_servers import RedisServer
from server import Server, eventually

MINUTE, HOUR = 60, 3600


def seconds(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()


def stamp(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def load(client, topic=None):
    reply = client.call("GET", "/v1/load" + (f"?topic={topic}" if topic else ""))
    assert reply.status == 200, reply.body
    return reply.json()


def expected(answer, dues):
    minutes, hours, later = [0] * 60, [0] * 168, 0
    for due in dues:
        minute = int((due - seconds(answer["minutes_from"])) // MINUTE)
        hour = int((due - seconds(answer["hours_from"])) // HOUR)
        if minute < 60:
            minutes[minute] += 1
        if hour < 168:
            hours[hour] += 1
        else:
            later += 1
    return minutes, hours, later


def check_exact(answer, dues):
    assert (answer["minutes"], answer["hours"], answer["later"]) == expected(answer, dues)
    assert answer["estimated"] is False


def exact(client, topic=None):
    """The machine may correct its wall clock at any time. Then the counts are estimates until all jobs have been counted again."""
    return eventually(lambda: answer if not (answer := load(client, topic))["estimated"] else None)


def check_near(answer, dues, share):
    """Estimates add up, and no running sum is off by more than this share of all."""
    minutes, hours, later = expected(answer, dues)
    assert sum(answer["hours"]) + answer["later"] == len(dues)
    for is_now, should in ((answer["minutes"], minutes), (answer["hours"], hours)):
        off = max(abs(sum(is_now[:i]) - sum(should[:i])) for i in range(len(should) + 1))
        assert off <= share * len(dues), (off, len(dues))


@pytest.fixture(scope="module", params=["embedded", "sharded", "redis"])
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("load")
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        flags = {"redis": lambda: ["--store", redis.url, "--shards", "2"], "sharded": lambda: ["--shards", "3"], "embedded": lambda: []}[request.param]()
        server = Server(directory, flags).start()
        yield server
        assert server.terminate() == 0


def push_dues(client, topic, count, seed, spread, body="x"):
    """Jobs due at whole seconds within the spread, from two minutes on, so that no job becomes due during the test."""
    draw, now, dues = random.Random(seed), int(time.time()), []
    for first in range(0, count, 1000):
        items = []
        for n in range(first, min(count, first + 1000)):
            dues.append(now + 120 + int(spread * draw.random() ** 2))
            items.append(b'{"topic":"%s","id":"%d","at":"%s","body":"%s"}' % (topic.encode(), n, stamp(dues[-1]).encode(), body.encode()))
        reply = client.call("POST", "/v1/jobs", b"[" + b",".join(items) + b"]")
        assert reply.status == 200, reply.body
    return dues


def test_the_forecast_matches_the_pushed_jobs(server):
    client = server.client()
    near, far = push_dues(client, "near", 2000, 1, HOUR), push_dues(client, "far", 2000, 2, 9 * 24 * HOUR)
    check_exact(exact(client, "near"), near)
    check_exact(exact(client, "far"), far)
    check_exact(exact(client), near + far)
    client.push("due", "a")
    answer = load(client, "due")
    assert answer["overdue"] == 1 and sum(answer["hours"]) + answer["later"] == 0
    for n in range(0, 2000, 2):
        client.call("DELETE", f"/v1/topics/near/jobs/{n}")
    check_exact(exact(client, "near"), near[1::2])
    for topic in ("near", "far", "due"):
        client.call("DELETE", f"/v1/topics/{topic}")
    check_exact(exact(client), [])


def test_a_failed_job_is_counted_by_its_next_try(server):
    client = server.client()
    client.push("tried", "a")
    lease = client.call("POST", "/v1/topics/tried/take").json()["jobs"][0]["lease"]
    client.call("POST", f"/v1/nack?lease={lease}&delay=2h10m")
    answer = exact(client, "tried")
    due = seconds(client.get("tried", "a")["due_at"])
    check_exact(answer, [due])
    client.call("DELETE", "/v1/topics/tried")


def test_the_forecast_is_exact_again_after_steps_of_the_wall_clock(tmp_path):
    clock = FakeClock(tmp_path / "clock")
    server = Server(tmp_path / "data", ["--shards", "3"], env=clock.env(fake_time_library(tmp_path / "library"))).start()
    client = server.client()
    dues = push_dues(client, "t", 8000, 4, HOUR)
    for step_ms in (5, -8, 40, -3_600_000, 1_800_000):
        clock.step(step_ms)
        check_exact(exact(client, "t"), dues)
    assert server.terminate() == 0


def test_invalid_values_are_rejected(server):
    client = server.client()
    assert client.call("GET", "/v1/load?topic=nobody").status == 404
    assert client.call("GET", "/v1/load?topic=.a").code == "bad_topic"
    assert client.call("GET", "/v1/load?topic=a&topic=b").code == "bad_option"
    assert client.call("GET", "/v1/load?limit=1").code == "unknown_option"


# ---- jobs due soon ----


NOON = 1893499200  # 2030-01-01T12:00:00Z, a full minute


def soon_of(dues, now):
    """Counts those of the rest of this minute, and a share of those of the next one."""
    this, passed = now - now % MINUTE, now % MINUTE
    upcoming = [due for due in dues if due > now]
    return sum(due < this + MINUTE for due in upcoming) + -(-sum(this + MINUTE <= due < this + 2 * MINUTE for due in upcoming) * passed // MINUTE)


def metric(client, topic):
    found = re.findall(rf'^tarry_soon\{{topic="{topic}"\}} (\d+)$', client.call("GET", "/metrics").body.decode(), re.M)
    return [int(figure) for figure in found]


@pytest.fixture(params=["embedded", "sharded", "redis"])
def held(request, tmp_path):
    """A server whose clock the test moves."""
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        flags = {"redis": lambda: ["--store", redis.url, "--shards", "2"], "sharded": lambda: ["--shards", "3"], "embedded": lambda: []}[request.param]()
        server = Server(tmp_path, [*flags, f"--test-clock={stamp(NOON)}"]).start()
        yield server
        assert server.terminate() == 0


def test_a_topic_shows_the_jobs_that_are_due_soon(held):
    client, dues = held.client(), [NOON + after for after in (30, 50, 59, 60, 90, 100, 119, 120, 180, 86400)]
    for n, due in enumerate(dues):
        assert client.call("PUT", f"/v1/topics/t/jobs/{n}?at={stamp(due)}", b"x").status == 201
        client.call("PUT", f"/v1/topics/other/jobs/{n}?at={stamp(NOON + 10)}", b"x")
    for now in (NOON, NOON + 15, NOON + 45, NOON + 60, NOON + 125, NOON + 200):
        assert client.call("POST", f"/v1/clock/advance?to={stamp(now)}").status == 200
        assert (now, client.topic("t")["soon"], metric(client, "t")) == (now, soon_of(dues, now), [soon_of(dues, now)])
        assert load(client, "t")["soon"] == soon_of(dues, now)
    assert client.topic("other")["soon"] == 0 and metric(client, "other") == [0]
    (lease,) = [job["lease"] for job in client.call("POST", "/v1/topics/t/take").json()["jobs"]]
    client.call("POST", f"/v1/nack?lease={lease}&delay=20s")
    assert client.topic("t")["soon"] == 1
    assert client.call("GET", "/v1/topics/missing").status == 404


def test_ten_thousand_jobs_are_counted_by_topic(held):
    """On Redis they are packed into leaves: those that begin later are not read."""
    client, draw = held.client(), random.Random(7)
    dues = {topic: [NOON + draw.choice((100, 3600, 100000)) * draw.random() for _ in range(5000)] for topic in ("a", "b")}
    for topic, times in dues.items():
        times[:] = [int(due) for due in times]
        for first in range(0, len(times), 1000):
            items = ",".join(f'{{"topic":"{topic}","id":"{n}","at":"{stamp(times[n])}","body":"x"}}' for n in range(first, first + 1000))
            assert client.call("POST", "/v1/jobs", f"[{items}]".encode()).status == 200
    for topic, times in dues.items():
        assert client.topic(topic)["soon"] == soon_of(times, NOON) > 1000
    client.call("POST", f"/v1/clock/advance?to={stamp(NOON + 30)}")
    for topic, times in dues.items():
        assert client.topic(topic)["soon"] == soon_of(times, NOON + 30) > 500


def test_cold_jobs_are_counted_among_those_due_soon(tmp_path):
    server = Server(tmp_path, ["--wal-file", "4MiB", "--sync", "never", f"--test-clock={stamp(NOON)}"]).start()
    client = server.client()
    dues = {topic: [NOON + 20 + n // 20 for n in range(10000)] for topic in ("a", "b")}
    for topic, times in dues.items():
        for first in range(0, 10000, 1000):
            items = ",".join(f'{{"topic":"{topic}","id":"{n}","at":"{stamp(times[n])}","body":"{"x" * 800}"}}' for n in range(first, first + 1000))
            assert client.call("POST", "/v1/jobs", f"[{items}]".encode()).status == 200
    eventually(lambda: cold_jobs(client) > 10000)
    for now in (NOON, NOON + 45, NOON + 230):
        assert client.call("POST", f"/v1/clock/advance?to={stamp(now)}").status == 200
        for topic, times in dues.items():
            eventually(lambda topic=topic, times=times, now=now: client.topic(topic)["soon"] == soon_of(times, now))  # while a checkpoint is under way a job may be seen twice
    assert server.terminate() == 0


# ---- cold jobs, and packed ones ----


def cold_jobs(client):
    page = client.call("GET", "/metrics").body.decode()
    return sum(int(count) for count in re.findall(r"^tarry_store_run_jobs(?:\{.*\})? (\d+)", page, re.M))


def test_cold_jobs_count_even_after_a_restart(tmp_path):
    flags = ["--wal-file", "4MiB", "--sync", "never"]
    server = Server(tmp_path, flags).start()
    client = server.client()
    a, b = (push_dues(client, topic, 12000, 3, spread, "x" * 800) for topic, spread in (("a", 5 * HOUR), ("b", 6 * 24 * HOUR)))
    until = time.time() + 20
    while (cold := cold_jobs(client)) < 10000 and time.time() < until:
        time.sleep(0.05)
    assert cold >= 10000
    # Some come to memory again, and change.
    for n in range(0, 12000, 500):
        due = int(time.time()) + 100000 + n
        assert client.call("PATCH", f"/v1/topics/a/jobs/{n}?at={stamp(due)}").status == 200
        a[n] = due
        client.get("b", str(n))
    for _ in range(2):
        for dues, topic in ((a, "a"), (b, "b"), (a + b, None)):
            check_near(load(client, topic), dues, 0.01)
            # While a checkpoint is under way a job may be seen twice.
            while (answer := load(client, topic))["estimated"] and time.time() < until:
                time.sleep(0.05)
            check_exact(answer, dues)
        assert server.terminate() == 0
        client = server.start().client()
    assert server.terminate() == 0
