"""The coming load: when the jobs that wait fall due, against what was pushed."""

import contextlib
import random
import re
import time
from datetime import datetime, timezone

import pytest
from redis_servers import RedisServer
from server import Server

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
    check_exact(load(client, "near"), near)
    check_exact(load(client, "far"), far)
    check_exact(load(client), near + far)
    client.push("due", "a")
    answer = load(client, "due")
    assert answer["overdue"] == 1 and sum(answer["hours"]) + answer["later"] == 0
    for n in range(0, 2000, 2):
        client.call("DELETE", f"/v1/topics/near/jobs/{n}")
    check_exact(load(client, "near"), near[1::2])
    for topic in ("near", "far", "due"):
        client.call("DELETE", f"/v1/topics/{topic}")
    check_exact(load(client), [])


def test_a_failed_job_is_counted_by_its_next_try(server):
    client = server.client()
    client.push("tried", "a")
    lease = client.call("POST", "/v1/topics/tried/take").json()["jobs"][0]["lease"]
    client.call("POST", f"/v1/nack?lease={lease}&delay=2h10m")
    answer = load(client, "tried")
    due = seconds(client.get("tried", "a")["due_at"])
    check_exact(answer, [due])
    client.call("DELETE", "/v1/topics/tried")


def test_invalid_values_are_rejected(server):
    client = server.client()
    assert client.call("GET", "/v1/load?topic=nobody").status == 404
    assert client.call("GET", "/v1/load?topic=.a").code == "bad_topic"
    assert client.call("GET", "/v1/load?topic=a&topic=b").code == "bad_option"
    assert client.call("GET", "/v1/load?limit=1").code == "unknown_option"


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
