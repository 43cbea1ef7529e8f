"""Counts the script calls of a push that waits for its result, and those that leave together."""

import contextlib
import re
import signal
import socket
import threading
import time

import pytest
from client import Lost, Refused, request_bytes
from redis_servers import RedisServer
from server import freeze, slack

JOBS = 20
ASKING = request_bytes("GET", "/v1/topics/t/consumers")


class Recorder(threading.Thread):
    """Forwards everything between a server and Redis, and records what the server sends, in the parts in which it arrives."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.parts = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                ends = [self.listener.accept()[0], socket.create_connection(("127.0.0.1", self.to))]
                for one, other in (ends, reversed(ends)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self.hand_on, args=(one, other, one is ends[0]), daemon=True).start()

    def hand_on(self, one, other, is_server):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if is_server:
                    self.parts.append(re.findall(rb"tarry_[0-9a-f]+_([a-z]+)\r\n", data))
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def redis_server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def recorder(redis_server):
    recorder = Recorder(redis_server.port)
    yield recorder
    recorder.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    recorder.listener.close()


def worker(server, topic, jobs):
    """Takes so many jobs, and acks each while it already waits for the next one, as workers do."""
    def work():
        client, acks = server.client(timeout=60), []
        for _ in range(jobs):
            job = client.take(topic, wait="30s", max=10)[0]
            acks.append(threading.Thread(target=lambda lease=job["lease"]: server.client().ack(lease)))
            acks[-1].start()
        for ack in acks:
            ack.join()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.3)
    return thread


def test_a_push_that_waits_costs_three_scripts_and_its_take_leaves_with_it(recorder, start_server):
    server = start_server("--store", f"redis://127.0.0.1:{recorder.port}", "--shards", "1")
    client, thread = server.client(timeout=60), worker(server, "sums", JOBS + 1)
    client.push("sums", "first", wait="30s")
    time.sleep(0.3)
    recorder.parts.clear()
    began = time.monotonic()
    for number in range(JOBS):
        assert client.push("sums", f"job-{number}", wait="30s")["outcome"] == "acked"
    thread.join()
    parts = [part for part in recorder.parts if part]
    calls = sum(parts, [])
    print({name: calls.count(name) for name in set(calls)})
    assert calls.count(b"push") == JOBS
    seconds = time.monotonic() - began  # a shard looks once a second
    assert calls.count(b"step") <= 2.3 * JOBS + seconds and calls.count(b"look") <= 2 + 2 * seconds, parts
    together = [part for part in parts if part[:2] == [b"push", b"step"]]
    assert len(together) >= 0.5 * JOBS, parts


def test_rejected_pushes_wake_one_take_at_most(recorder, start_server):
    server = start_server("--store", f"redis://127.0.0.1:{recorder.port}", "--shards", "1")
    client = server.client()
    client.good("PUT", "/v1/topics/full?max_jobs=1")
    client.push("full", "later", delay="1h")
    taker = threading.Thread(target=lambda: server.client(timeout=60).take("full", wait="8s"), daemon=True)
    taker.start()
    time.sleep(1)
    recorder.parts.clear()
    for number in range(5):
        with pytest.raises(Refused):
            client.push("full", f"job-{number}")
    assert [name for part in recorder.parts for name in part].count(b"step") <= 1
    taker.join()


def test_no_job_is_lost_by_a_worker_that_waits_for_an_empty_topic(redis_server, start_server):
    """Jobs come through another server, while the worker is between two takes and while it waits."""
    own, other = (start_server("--store", redis_server.url, "--shards", "3") for _ in range(2))
    taker, pusher, came = own.client(timeout=60), other.client(), []
    pusher.push("far", "first")
    began = time.monotonic()
    for number in range(JOBS):
        came += taker.take("far", wait="10s", max=10)
        pusher.push("far", f"between-{number}")
        came += taker.take("far", wait="10s", max=10)
        timer = threading.Timer(0.02, lambda number=number: pusher.push("far", f"while-{number}"))
        timer.start()
        came += taker.take("far", wait="10s", max=10)
        timer.join()
        pusher.push("far", f"last-{number}")
    while len({job["id"] for job in came}) < 3 * JOBS + 1 and time.monotonic() - began < 60:
        came += taker.take("far", wait="1s", max=10)
    assert sorted(job["id"] for job in came) == sorted(["first", *(f"{when}-{number}" for when in ("between", "while", "last") for number in range(JOBS))])
    assert time.monotonic() - began < 20 * slack()


def test_a_push_that_waits_is_answered_once_when_its_client_sends_no_more(start_server):
    with RedisServer() as redis:
        server = start_server("--store", redis.url)
        server.client().push("t", "b", delay="1h")
        server.client().call("GET", "/v1/topics/t/consumers")
        freeze(redis.proc.pid)
        with contextlib.closing(server.connection()) as connection:
            connection.send(ASKING + request_bytes("PUT", "/v1/topics/t/jobs/b?wait=20s&on_conflict=reject", b"y"))
            time.sleep(0.3)
            connection.socket.shutdown(socket.SHUT_WR)
            time.sleep(0.3)
            redis.proc.send_signal(signal.SIGCONT)
            assert [connection.read().status, connection.read().status] == [200, 409]
            with pytest.raises(Lost):
                connection.read()
