"""tarry serve on a Redis that goes and comes back, or has no time or no room."""

import json
import random
import signal
import threading
import time

import pytest
from client import job_path, request_bytes
from redis_servers import RedisServer
from redis_serving import info, metric, push_answer, ready, works
from server import eventually, slack, together


def test_a_redis_out_of_reach_is_503_after_the_timeout_and_heals_by_itself(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--store-timeout", "1s")
        works(started)
        started.client().push("kept", "a", body=b"x", delay="1s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        answer = push_answer(started, "kept", "b")
        took = time.monotonic() - began
        assert answer.status == 503 and answer.code == "unavailable" and 0.5 < took < 5 * slack(), (answer.status, answer.body, took)
        assert metric(started, "tarry_redis_shards_up") == 0 and metric(started, "tarry_store_healthy") == 0
        assert started.client().call("GET", "/healthz").status == 200
        assert info(started)["healthy"] is False
        server.start()
        eventually(lambda: ready(started) == 200, 20)
        assert started.client().take("kept", wait="10s")[0]["id"] == "a"
        works(started)
        reconnects = metric(started, r'tarry_redis_reconnects_total\{shard="0"\}')
        assert reconnects >= 1 and info(started)["healthy"] is True
        assert started.terminate() == 0


def test_a_call_that_waits_for_redis_is_answered_once_it_is_back(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--store-timeout", "30s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        threading.Timer(1.0, server.start).start()
        assert push_answer(started, "patient", "a").status == 201


def test_takes_that_travel_together_hold_up_redis_for_no_more_than_two_thousand_jobs(start_server):
    with RedisServer("--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000") as server:
        started = start_server("--store", server.url, "--shards", "1")
        client = started.client()
        client.push_batch([{"topic": "many", "body": "x"} for _ in range(900)])
        server.call("CLIENT", "PAUSE", 500, "ALL")
        clients = [started.client() for _ in range(20)]
        taken = together(*[lambda one=one: len(one.take("many", max=1000)) for one in clients])
        assert sum(taken) == 900
        commands = (entry["command"] for entry in server.client().slowlog_get(10000))
        steps = [command for command in commands if b"_step 1 {" in command and command[-20:-15] == b"many "]
        wanted = [int.from_bytes(step[-15:-11], "big") for step in steps]
        assert sum(wanted) == 20 * 1000 and max(wanted) < 2000, wanted


BULK_JOBS, STEP_MAX = 6000, 1000
BULK_CALLS = {  # call -> state of the jobs before, method, path
    "purge": ("delayed", "POST", "/purge"),
    "delete": ("delayed", "DELETE", ""),
    "cancel": ("delayed", "POST", "/cancel?id_prefix=j"),
    "reschedule": ("delayed", "POST", "/reschedule?id_prefix=j&delay=3h"),
    "run": ("delayed", "POST", "/run?id_prefix=j"),
    "redrive": ("dead", "POST", "/redrive"),
    "redrive_by_filter": ("dead", "POST", "/redrive?id_prefix=j"),
}


class Bulk:
    """A topic, and a call that changes all its jobs."""

    def __init__(self, client, name):
        self.client, (self.state, self.method, path) = client, BULK_CALLS[name]
        self.path = f"/v1/topics/bulk{path}"

    def fill(self):
        self.client.call("DELETE", "/v1/topics/bulk")
        self.client.put_topic("bulk", max_attempts=1)
        delay = {"delay": "1h"} if self.state == "delayed" else {}
        for first in range(0, BULK_JOBS, 1000):
            self.client.push_batch([{"topic": "bulk", "id": f"j{first + number}", **delay} for number in range(1000)])
            if self.state == "dead":
                leases = [job["lease"] for job in self.client.take("bulk", max=1000)]
                self.client.good("POST", "/v1/nack", json.dumps({"leases": leases}).encode(), {"Content-Type": "application/json"})
        assert self.counts()[self.state] == BULK_JOBS

    def counts(self):
        return self.client.topic("bulk")["counts"]

    def changed(self):
        if "reschedule" in self.path:
            later = int((time.time() + 2 * 3600) * 1000)
            return self.client.good("POST", f"/v1/topics/bulk/reschedule?due_after={later}&delay=3h&dry_run=true")["jobs"]
        return BULK_JOBS - self.counts()[self.state]

    def call(self):
        return self.client.call(self.method, self.path, b"")

    def stop_in_the_middle(self, redis):
        """Calls again and again and stops Redis meanwhile, until the answer counts some of the jobs."""
        self.fill()
        began = time.monotonic()
        assert self.call().json()["jobs"] == BULK_JOBS
        takes, pick, answers = time.monotonic() - began, random.Random(1), []
        for _ in range(40):
            self.fill()
            calling = threading.Thread(target=lambda: answers.append(self.call()))
            calling.start()
            time.sleep(takes * pick.uniform(0.1, 0.9))
            redis.proc.send_signal(signal.SIGSTOP)
            calling.join()
            redis.proc.send_signal(signal.SIGCONT)
            eventually(lambda: self.client.call("GET", "/v1/topics").ok, 60)
            if not answers[-1].ok and answers[-1].json().get("jobs", BULK_JOBS) + STEP_MAX < BULK_JOBS:
                return answers[-1]
        raise AssertionError(f"no stop came in the middle: {[answer.body for answer in answers]}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", BULK_CALLS)
def test_a_bulk_call_that_redis_does_not_answer_reports_the_changed_jobs(start_server, name):
    """The step under way is not reported. Redis may have carried it out."""
    with RedisServer() as redis:
        bulk = Bulk(start_server("--store", redis.url, "--store-timeout", "1s", "--shards", "1").client(120), name)
        answer = bulk.stop_in_the_middle(redis)
        assert (answer.status, answer.code) == (503, "unavailable"), answer.body
        assert 0 < answer.json()["jobs"] <= bulk.changed() <= answer.json()["jobs"] + STEP_MAX and bulk.changed() < BULK_JOBS
        assert "the rest is unchanged" not in answer.json()["detail"]


@pytest.mark.parametrize("name", BULK_CALLS)
def test_a_full_redis_carries_out_bulk_calls(start_server, name):
    with RedisServer() as redis:
        server = start_server("--store", redis.url, "--shards", "1")
        bulk = Bulk(server.client(120), name)
        bulk.fill()
        redis.config("maxmemory", 1)
        answer = bulk.call()
        assert answer.ok and answer.json()["jobs"] == BULK_JOBS, answer.body
        assert server.terminate() == 0


def test_a_take_does_not_wait_for_each_shard_of_a_redis_that_is_gone(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--store-timeout", "5s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        answer = started.client().call("POST", "/v1/topics/gone/take")
        assert (answer.status, answer.code) == (503, "unavailable") and time.monotonic() - began < 4 * slack()


def test_a_server_without_redis_stops_cleanly(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--store-timeout", "2s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        assert started.terminate() == 0 and time.monotonic() - began < 10 * slack()


def test_a_stop_does_not_take_as_long_as_the_timeout_with_a_redis_that_is_gone(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--store-timeout", "60s", "--grace", "8s")
        works(started)
        server.kill()
        pushing = started.connection()
        pushing.send(request_bytes("PUT", job_path("patient", "a"), b"x"))
        assert ready(started) in (200, 503)  # so it has also read the push
        began = time.monotonic()
        assert started.terminate() == 0 and time.monotonic() - began < 15 * slack()
        pushing.close()


def test_a_full_redis_refuses_pushes_and_lets_acks_and_cancels_through(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url)
        client = started.client()
        client.push("full", "held", body=b"x")
        lease = client.take("full", wait="5s")[0]["lease"]
        for number in range(20):
            client.push("full", f"waits-{number}", body=b"x" * 5000, delay="1h")
        server.config("maxmemory", "1mb")
        answer = push_answer(started, "full", "one-more")
        assert (answer.status, answer.code) == (507, "no_space")
        assert ready(started) == 503
        assert [one["result"] for one in client.ack(lease)] == ["ok"] and client.cancel("full", "waits-3")["result"] == "cancelled"
        server.config("maxmemory", "0")
        eventually(lambda: ready(started) == 200)  # without pushes, since it was not ready
        assert push_answer(started, "full", "one-more").status == 201
