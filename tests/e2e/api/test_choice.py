"""Takes that choose, jobs located over topics, attempts without end, a drain: over HTTP and on the command line."""

import contextlib
import datetime
import signal
import threading
import time

import pytest
from client import Refused, job_path, query
from postgres import PostgresServer
from redis_servers import RedisServer
from server import Server, eventually
from test_cli import NOTHING, OK, REFUSED, USAGE


@pytest.fixture(scope="module", params=["embedded", pytest.param("sharded", marks=pytest.mark.thorough("contract.local_3 has several shards")), "redis", "postgres"])
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("choice")
    with {"redis": RedisServer, "postgres": lambda: PostgresServer("fsync=off")}.get(request.param, contextlib.nullcontext)() as store:
        flags = {
            "redis": lambda: ["--store", store.url, "--shards", "2"],
            "postgres": lambda: ["--store", store.url, "--migrate"],
            "sharded": lambda: ["--shards", "3"],
            "embedded": lambda: [],
        }[request.param]()
        server = Server(directory, flags).start()
        yield server
        assert server.terminate() == 0


def pick(client, topic, ident, **options):
    return client.good("POST", job_path(topic, ident) + "/take" + query(options))["jobs"]


def locate(client, ident, **options):
    return client.good("GET", f"/v1/jobs/{ident}" + query(options))


def cli(server, *arguments, code=OK):
    ended = server.cli(*arguments)
    assert ended.returncode == code, (arguments, ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout.decode() + ended.stderr.decode()


# ---- attempts without end ----


def test_a_list_of_waits_belongs_to_a_job_or_a_topic(server):
    client = server.client()
    client.push("listed", "a", b"x", backoff="list:10s,1m,PT1H,1.5s")
    assert client.get("listed", "a")["backoff"] == "list:10s,1m,1h,1500ms"
    cli(server, "topic", "set", "listed", "backoff=list:1h,2h")
    assert client.topic("listed")["settings"]["backoff"] == "list:1h,2h"
    cli(server, "push", "listed", "b", "--backoff", "list:10m", "--body", "x")
    assert client.get("listed", "b")["backoff"] == "list:10m"
    client.push_batch([{"topic": "listed", "id": "c", "body": "x"}, {"topic": "listed", "id": "d", "body": "x", "backoff": "list:3m"}])
    for ident, wait in (("a", 10), ("b", 600), ("c", 3600), ("d", 180)):
        (job,) = pick(client, "listed", ident)
        client.nack(job["lease"], error="no")
        shown = client.get("listed", ident)
        left = datetime.datetime.fromisoformat(shown["due_at"].replace("Z", "+00:00")).timestamp() - time.time()
        assert wait * 0.8 - 5 <= left <= wait * 1.2 + 1, (ident, left)


def test_without_a_limit_and_backoff_a_job_is_retried_immediately_without_end(server):
    client = server.client()
    client.push("tireless", "a", max_attempts="none", backoff="none")
    for attempt in range(1, 20):
        (job,) = client.take("tireless")
        assert job["attempt"] == attempt
        assert client.nack(job["lease"])[0]["state"] == "ready"
    shown = client.get("tireless", "a")
    assert (shown["max_attempts"], shown["backoff"]) == ("none", "none")
    settings = client.put_topic("tireless", max_attempts="none", backoff="none")["settings"]
    assert (settings["max_attempts"], settings["backoff"]) == ("none", "none")
    assert "max_attempts=none" in cli(server, "topic", "show", "tireless")
    cli(server, "topic", "set", "tireless", "max_attempts=3", "backoff=none")
    assert client.topic("tireless")["settings"]["max_attempts"] == 3


# ---- the best of several topics ----


def test_order_priority_takes_the_best_of_all_topics(server):
    client = server.client()
    for topic, ident, priority in (("best-a", "low", 900), ("best-b", "high", 1), ("best-a", "middle", 50), ("best-b", "last", 65535)):
        client.push(topic, ident, priority=priority)
    first = client.take("best-a", "best-b", order="priority")
    assert [job["id"] for job in first] == ["high"]
    rest = client.take("best-a", "best-b", order="priority", max=10)
    assert [(job["topic"], job["id"]) for job in rest] == [("best-a", "middle"), ("best-a", "low"), ("best-b", "last")]
    assert client.take("best-a", "best-b", order="priority") == []
    for job in first + rest:
        client.nack(job["lease"], delay="0ms")
    assert [job["topic"] for job in client.take("best-a", "best-b", order="named")] == ["best-a"]
    assert '"id":"high"' in cli(server, "take", "best-a", "best-b", "--order", "priority", "--json")


def test_a_take_by_priority_waits(server):
    client = server.client()
    taken = []
    waiter = threading.Thread(target=lambda: taken.extend(server.client().take("later-a", "later-b", order="priority", wait="20s")))
    waiter.start()
    client.push("later-b", "x", delay="50ms")
    waiter.join(20)
    assert [job["id"] for job in taken] == ["x"]


# ---- one job by its id ----


def test_one_job_is_taken_by_its_id_be_it_ready_delayed_or_dead(server):
    client = server.client()
    client.push("picked", "ready")
    client.push("picked", "delayed", delay="1h")
    client.push("picked", "dead", max_attempts=1)
    (job,) = pick(client, "picked", "dead", lease_for="30s", consumer="me")
    assert client.nack(job["lease"])[0]["state"] == "dead"
    for ident in ("ready", "delayed", "dead"):
        (job,) = pick(client, "picked", ident, lease_for="30s", consumer="me")
        assert job["id"] == ident and client.get("picked", ident)["consumer"] == "me"
        with pytest.raises(Refused) as refused:
            pick(client, "picked", ident)
        assert refused.value.reply.status == 409 and refused.value.reply.json()["state"] == "leased"
        client.ack(job["lease"])
    assert client.call("POST", job_path("picked", "ready") + "/take").status == 404
    assert client.call("POST", job_path("picked", "ready") + "/take?wait=1s").status == 400
    client.push("picked", "by-hand", delay="1h")
    assert "by-hand" in cli(server, "take", "picked", "--id", "by-hand")
    cli(server, "take", "picked", "--id", "by-hand", code=REFUSED)
    cli(server, "take", "picked", "--id", "nobody", code=NOTHING)
    cli(server, "take", "picked", "other", "--id", "by-hand", code=USAGE)


# ---- a nack with a priority ----


def test_a_nack_may_change_the_priority(server):
    client = server.client()
    client.push("moved", "a")
    (job,) = client.take("moved")
    client.nack(job["lease"], priority=7, delay="0ms")
    assert client.get("moved", "a")["priority"] == 7
    (job,) = client.take("moved")
    body = b'{"leases":[{"lease":"%s","priority":65535,"final":true}]}' % job["lease"].encode()
    client.good("POST", "/v1/nack", body)
    assert (client.get("moved", "a")["priority"], client.get("moved", "a")["state"]) == (65535, "dead")
    client.topic_verb("moved", "redrive")
    (job,) = client.take("moved")
    cli(server, "nack", job["lease"], "--priority", "3")
    assert client.get("moved", "a")["priority"] == 3
    assert client.call("POST", f"/v1/nack?lease={job['lease']}&priority=65536").status == 400


# ---- located over topics ----


def test_a_job_is_located_in_every_topic_that_has_one(server):
    client = server.client()
    for topic in ("there-1", "there-2", "there-3"):
        client.push(topic, "same", delay="1h", body=b"text")
    client.push("there-4", "other")
    found = locate(client, "same")
    assert [job["topic"] for job in found["jobs"]] == ["there-1", "there-2", "there-3"] and found["complete"] is True
    assert found["jobs"][0]["state"] == "delayed" and "body" not in found["jobs"][0]
    assert locate(client, "same", body="true")["jobs"][0]["body"] == "text"
    found = locate(client, "same", limit=2)
    assert len(found["jobs"]) == 2 and found["complete"] is False
    assert locate(client, "nobody") == {"jobs": [], "complete": True}
    assert client.call("GET", "/v1/jobs/a%20blank").status == 400
    assert "there-2" in cli(server, "locate", "same")
    cli(server, "locate", "nobody", code=NOTHING)


def test_a_finished_job_that_is_kept_is_located(server):
    client = server.client()
    client.good("PUT", "/v1/topics/kept-1?keep_finished=1h")
    for topic in ("kept-1", "kept-2", "kept-3"):
        client.push(topic, "ended")
    for topic in ("kept-1", "kept-2"):
        client.good("POST", f"/v1/ack?lease={client.take(topic, wait='10s')[0]['lease']}")
    found = locate(client, "ended")["jobs"]
    assert [(job["topic"], job["state"], job.get("outcome")) for job in found] == [("kept-1", "finished", "acked"), ("kept-3", "ready", None)]
    assert "finished" in cli(server, "locate", "ended")


def test_a_job_is_located_among_more_topics_than_a_page_has(server):
    client = server.client()
    items = [{"topic": f"page-{number:04}", "id": "filler", "delay": "1h", "body": ""} for number in range(1100)]
    assert {result["result"] for result in client.push_batch(items[:1000]) + client.push_batch(items[1000:])} == {"created"}
    client.push("page-1099", "needle", delay="1h")
    client.push("page-0001", "needle", delay="1h")
    assert [job["topic"] for job in locate(client, "needle")["jobs"]] == ["page-0001", "page-1099"]


# ---- names of topics ----


def test_names_of_topics_may_have_more_than_letters(server):
    client = server.client()
    for topic in ("a/b", "random$test", "x+y;z", "(deep)", "/"):
        client.push(topic, "j")
        assert client.topic(topic)["topic"] == topic
        (job,) = client.take(topic, wait="10s")
        assert job["topic"] == topic
        client.ack(job["lease"])
        cli(server, "push", topic, "k", "--body", "x")
        assert topic in cli(server, "topics")
    assert [job["topic"] for job in client.take("a/b", "x+y;z", max=5)] == ["a/b", "x+y;z"]
    assert client.call("PUT", "/v1/topics/.hidden/jobs/a").json()["code"] == "bad_topic"
    server.restart("kill")
    assert server.client().topic("random$test")["counts"]["ready"] == 1


# ---- a drain ----


def test_a_drained_server_refuses_new_jobs_and_nothing_else(server):
    client = server.client()
    client.push("drained", "kept", body=b"x")
    client.push("drained", "late", delay="1h")
    assert client.good("GET", "/v1/info")["draining"] is False
    assert client.good("POST", "/v1/drain") == {"draining": True}
    try:
        assert client.good("GET", "/v1/info")["draining"] is True
        for number in range(10):  # whichever reactor a connection is at
            other = server.client()
            reply = other.call("PUT", f"/v1/topics/drained/jobs/{number}", b"x")
            assert (reply.status, reply.json()["code"]) == (503, "draining") and "retry-after" in reply.headers
            other.close()
        results = client.push_batch([{"topic": "drained", "body": "x"}, {"topic": ".", "body": "x"}])
        assert [result["result"] for result in results] == ["draining", "bad_topic"]
        (job,) = client.take("drained")
        assert client.nack(job["lease"], delay="0ms")[0]["result"] == "ok"
        client.ack(client.take("drained", wait="10s")[0]["lease"])
        assert client.run("drained", "late")["state"] == "ready"
        assert client.cancel("drained", "late")["result"] == "cancelled"
        assert client.call("GET", "/readyz").status == 200
        assert client.topic("drained")["totals"]["pushed"] == 2
    finally:
        assert client.good("DELETE", "/v1/drain") == {"draining": False}
    client.push("drained", "again")


def test_a_signal_drains_and_a_restart_ends_the_drain(server):
    client = server.client()
    server.proc.send_signal(signal.SIGUSR1)
    eventually(lambda: client.good("GET", "/v1/info")["draining"])
    assert client.call("PUT", "/v1/topics/signal/jobs/a", b"x").json()["code"] == "draining"
    cli(server, "push", "signal", "x", "--body", "x", code=REFUSED)
    cli(server, "drain", "--off")
    client.push("signal", "a")
    cli(server, "drain")
    assert client.call("PUT", "/v1/topics/signal/jobs/b", b"x").status == 503
    server.restart("terminate")
    server.client().push("signal", "b")
