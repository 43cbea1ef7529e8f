"""Several shards, each with its thread: from outside one queue. Short and diverse: this is what the thread sanitizer runs."""

import random
import re
import threading
import time

import pytest
from client import Refused, request_bytes
from server import StartFailed, eventually, time_limit, together
from test_restart import counts_of, state_of

pytestmark = pytest.mark.shards
FLAGS = ("--sync", "always", "--shards", "2")
SECONDS = 2.0


@pytest.fixture
def server(start_server):
    return start_server(*FLAGS)


def test_every_job_is_found_from_any_connection(server):
    clients = [server.client() for _ in range(6)]
    for i in range(60):
        clients[i % 6].push("spread", f"j{i}", b"%d" % i, delay="1h")
    for i in range(60):
        assert clients[(i + 1) % 6].get("spread", f"j{i}")["body"] == str(i)
    for i in range(0, 60, 3):
        assert clients[(i + 2) % 6].cancel("spread", f"j{i}")["result"] == "cancelled"
    counts = counts_of(clients[0].topic("spread"))
    assert (counts["pushed"], counts["delayed"], counts["cancelled"]) == (60, 40, 20)


def test_a_list_is_in_order_of_due_over_all_shards(server):
    client = server.client()
    for i in random.Random(1).sample(range(100), 100):
        client.push("sorted", f"j{i:02}", at=f"2034-01-01T00:{i // 60:02}:{i % 60:02}Z")
    seen, cursor = [], None
    while True:
        page = client.list("sorted", limit=7, cursor=cursor)
        seen += [job["id"] for job in page["jobs"]]
        cursor = page.get("cursor")
        if not cursor:
            break
    assert seen == [f"j{i:02}" for i in range(100)]


def test_a_take_gathers_from_all_shards(server):
    client = server.client()
    client.push_batch([{"topic": "gather", "id": f"j{i}", "body": "x"} for i in range(50)])
    jobs = client.take("gather", max=1000)
    assert len({job["id"] for job in jobs}) == 50
    assert {result["result"] for result in client.ack(*[job["lease"] for job in jobs])} == {"ok"}


def test_a_long_poll_on_any_shard_is_woken(server):
    for i in range(12):
        consumer = server.connection()
        consumer.send(request_bytes("POST", "/v1/take?topic=other&topic=woken&wait=10s"))
        server.client().push("woken", f"j{i}")
        assert consumer.read().json()["jobs"][0]["id"] == f"j{i}"
        consumer.close()


def test_all_shards_work_in_parallel(server):
    """Many threads use the whole API; at the end the figures add up and each job was taken by one."""
    end, limit = (time.monotonic() + seconds for seconds in (SECONDS, time_limit(SECONDS)))
    taken, lock = [], threading.Lock()
    server.client().put_topic("busy", lease_for="60s", backoff="fixed:10ms", max_attempts=100)
    server.client().put_topic("side", lease_for="60s", backoff="fixed:10ms", max_attempts=2)

    def is_going_on():  # a slow machine gets more time for the same work
        return time.monotonic() < (end if len(taken) > 50 else limit)

    def push(number):
        client, at, chance = server.client(), 0, random.Random(number)
        while is_going_on():
            at += 1
            if at % 10 == 0:
                client.push_batch([{"topic": "busy", "id": f"{number}-{at}-{i}", "body": "x", "delay": f"{chance.randrange(50)}ms"} for i in range(20)])
            else:
                client.push("busy", f"{number}-{at}", delay=chance.choice((None, 5, 40)), on_conflict="keep")

    def take(number):
        client, chance = server.client(), random.Random(number)
        while is_going_on():
            for job in client.take("busy", max=20, wait="50ms"):
                if chance.random() < 0.2:
                    client.nack(job["lease"], delay=chance.choice((0, 20)))
                elif client.call("POST", "/v1/ack?lease=" + job["lease"]).ok:
                    with lock:
                        taken.append(job["id"])

    def change():
        client, at = server.client(), 0
        while is_going_on():
            at += 1
            ident = f"c{at % 30}"
            client.push("side", ident, delay=at % 3 * 20)
            for call in (lambda: client.reschedule("side", ident, delay="10ms"), lambda: client.run("side", ident),
                         lambda: client.get("side", ident), lambda: client.cancel("side", ident) if at % 2 else None):
                try:
                    call()
                except Refused as refused:
                    assert refused.status in (404, 409), refused

    def fail():
        client = server.client()
        while is_going_on():
            for job in client.take("side", max=5, wait="30ms"):
                client.extend(job["lease"], lease_for="30s")
                client.nack(job["lease"], delay=0)

    def look():
        client = server.client()
        while is_going_on():
            client.topics()
            client.list("busy", limit=20)
            assert client.call("GET", "/metrics").ok
            assert client.call("GET", "/v1/info").ok
            for verb in ("pause", "resume"):
                client.topic_verb("busy", verb)
            client.topic_verb("side", "redrive")
            client.topic_verb("side", "purge", state="dead")

    def come_and_go():
        while is_going_on():
            connection = server.connection()
            connection.send(request_bytes("POST", "/v1/topics/busy/take?wait=5s&lease_for=1s"))
            time.sleep(0.01)
            connection.close()

    def wrap_change():
        try:
            change()
        except Refused as refused:
            assert refused.code == "leased", refused

    together(lambda: push(1), lambda: push(2), lambda: take(3), lambda: take(4), wrap_change, fail, look, come_and_go)
    drain(server, taken)
    assert len(taken) == len(set(taken)), "no job was acked twice"
    counts = {name: counts_of(server.client().topic(name)) for name in ("busy", "side")}
    for name, figures in counts.items():
        assert figures["pushed"] == sum(figures[field] for field in figures if field != "pushed"), (name, figures)
    assert counts["busy"]["acked"] == len(taken) > 50
    assert counts["busy"]["pushed"] == len(taken)
    page = server.client().call("GET", "/metrics").body.decode()
    for label, name in (("shard", "tarry_log_sync_duration_seconds"), ("shard", "tarry_log_batch_bytes"), ("reactor", "tarry_loop_iteration_duration_seconds")):
        assert all(int(count) > 0 for count in re.findall(rf'^{name}_count{{{label}="\d+"}} (\d+)$', page, re.MULTILINE)), name
        assert len(re.findall(rf"^{name}_count", page, re.MULTILINE)) > 1, name


def drain(server, taken):
    client = server.client()

    def nothing_left():
        for job in client.take("busy", max=1000, wait="100ms"):
            if client.call("POST", "/v1/ack?lease=" + job["lease"]).ok:
                taken.append(job["id"])
        counts = counts_of(client.topic("busy"))
        return not any(counts[state] for state in ("delayed", "retrying", "ready", "leased"))

    eventually(nothing_left, seconds=75)


def test_purge_redrive_and_delete_reach_all_shards(server):
    client = server.client()
    client.put_topic("sweep", max_attempts=1)
    client.push_batch([{"topic": "sweep", "id": f"j{i}", "body": "x"} for i in range(40)])
    client.nack(*[job["lease"] for job in client.take("sweep", max=40)])
    assert counts_of(client.topic("sweep"))["dead"] == 40
    client.topic_verb("sweep", "redrive")
    assert counts_of(client.topic("sweep"))["ready"] == 40
    client.topic_verb("sweep", "purge")
    assert counts_of(client.topic("sweep"))["cancelled"] == 40
    client.delete_topic("sweep")
    assert client.call("GET", "/v1/topics/sweep").status == 404


def test_the_number_of_shards_is_fixed(server):
    server.client().push("fixed", "a", delay="1h")
    before = state_of(server.client())
    server.terminate()
    server.flags = ["--sync", "always", "--shards", "3"]
    with pytest.raises(StartFailed) as refused:
        server.start()
    assert "shards" in str(refused.value)
    server.flags = ["--sync", "always"]
    server.start()
    assert state_of(server.client()) == before
