"""Batches as large as the limits allow, on log files that are as small as may be: no batch of the log has room for them."""

import contextlib
import json
import signal
import time

import pytest
from client import request_bytes
from server import eventually

MIB = 1 << 20


@pytest.fixture(params=["1", "3"])
def server(request, start_server):
    return start_server("--sync", "always", "--shards", request.param, "--wal-file", "4MiB")


def batch_of(size, count):
    """A body of exactly `size` bytes with so many items of about equal length; and the items."""
    items = [{"topic": "large", "id": f"job-{n}", "delay": "1h", "body": ""} for n in range(count)]
    left = size - len(json.dumps(items).encode())
    for n, item in enumerate(items):
        item["body"] = chr(97 + n % 26) * (left // (count - n))
        left -= len(item["body"])
    body = json.dumps(items).encode()
    assert len(body) == size
    return body, items


def push(client, body):
    return client.good("POST", "/v1/jobs", body, {"Content-Type": "application/json"})["results"]


@pytest.mark.parametrize("count", [17, 1000])
def test_a_batch_at_the_limit_is_taken_by_small_log_files_and_survives_a_crash(server, count):
    client = server.client(timeout=120)
    limit = client.good("GET", "/v1/info")["limits"]["batch_bytes"]
    body, items = batch_of(limit, count)
    for expected in ("created", "replaced"):
        results = push(client, body)
        assert [(result["id"], result["result"]) for result in results] == [(item["id"], expected) for item in items]
    reply = client.call("POST", "/v1/jobs", body + b" ", {"Content-Type": "application/json"})
    assert reply.status == 413 and reply.json()["limit"] == limit
    server.kill()
    server.start()
    client = server.client(timeout=120)
    assert client.topic("large")["counts"]["delayed"] == count
    for item in items:
        assert client.get("large", item["id"])["body"] == item["body"]


def test_items_for_one_job_are_executed_in_order_and_bad_ones_rejected_separately(server):
    client = server.client(timeout=120)
    items = [{"topic": "large", "id": "same", "body": str(n) * 900_000} for n in range(10)]
    items.insert(5, {"topic": "large", "id": "much", "body": "x" * (MIB + 1)})
    items.insert(3, {"topic": "large", "id": "a b", "body": ""})
    results = push(client, json.dumps(items).encode())
    assert [result["result"] for result in results] == (
        ["created"] + ["replaced"] * 2 + ["bad_id"] + ["replaced"] * 2 + ["body_too_big"] + ["replaced"] * 5)
    assert client.get("large", "same")["body"] == "9" * 900_000


def raw_batch(items, content_type="application/json"):
    body = json.dumps(items).encode() if content_type == "application/json" else b"".join(json.dumps(item).encode() + b"\n" for item in items)
    return request_bytes("POST", "/v1/jobs", body, {"Content-Type": content_type})


def large_items(count=400):
    return [{"topic": "large", "id": f"job-{n}", "delay": "1h", "body": chr(97 + n % 26) * 20_000} for n in range(count)]


def test_a_batch_that_is_malformed_at_its_end_stores_nothing(server):
    client = server.client(timeout=120)
    body = json.dumps(large_items()).encode()
    for wrong in (body[:-1], body + b"]", body[:-1] + b",]", body[:-1] + b"," + b"1," * 700 + b"1]"):
        reply = client.call("POST", "/v1/jobs", wrong, {"Content-Type": "application/json"})
        assert reply.code in ("bad_json", "too_many_items"), reply.body[:300]
    assert client.call("GET", "/v1/topics/large").status == 404


def test_lines_with_one_too_many_store_nothing(server):
    client = server.client(timeout=120)
    lines = b"".join(json.dumps({"topic": "large", "body": "b" * 9_000}).encode() + b"\n" for _ in range(1001))
    reply = client.call("POST", "/v1/jobs", lines, {"Content-Type": "application/x-ndjson"})
    assert reply.code == "too_many_items"
    assert client.call("GET", "/v1/topics/large").status == 404


def test_bad_lines_of_a_large_batch_are_rejected_separately(server):
    client = server.client(timeout=120)
    lines = [json.dumps(item).encode() for item in large_items()]
    for at in (0, 57, 399):
        lines[at] = b'{"topic":'
    reply = client.call("POST", "/v1/jobs", b"\n".join(lines), {"Content-Type": "application/x-ndjson", "Accept": "application/x-ndjson"})
    results = [json.loads(line) for line in reply.body.splitlines()]
    assert [result["result"] for result in results] == ["bad_json" if at in (0, 57, 399) else "created" for at in range(400)]
    assert [result.get("id") for result in results] == [None if at in (0, 57, 399) else f"job-{at}" for at in range(400)]


@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_a_request_behind_a_large_batch_does_not_overtake_it(server, content_type):
    with contextlib.closing(server.connection(timeout=120)) as connection:
        behind = request_bytes("PUT", "/v1/topics/large/jobs/job-399", b"behind")
        connection.send(raw_batch(large_items(), content_type) + behind + request_bytes("GET", "/v1/topics/large"))
        results = connection.read().json()["results"]
        assert [result["result"] for result in results] == ["created"] * 400
        assert connection.read("PUT").json()["result"] == "replaced"
        counts = connection.read("GET").json()["counts"]
        assert (counts["delayed"], counts["ready"]) == (399, 1)


def test_a_large_batch_is_stored_completely_when_its_client_leaves(server):
    connection = server.connection(timeout=120)
    connection.send(raw_batch(large_items()))
    connection.close()
    client = server.client(timeout=120)
    eventually(lambda: client.call("GET", "/v1/topics/large").status == 200)
    eventually(lambda: client.topic("large")["counts"]["delayed"] == 400)


def test_a_large_batch_is_answered_before_the_server_ends(server):
    with contextlib.closing(server.connection(timeout=120)) as connection:
        connection.send(raw_batch(large_items()))
        time.sleep(0.02)
        server.proc.send_signal(signal.SIGTERM)
        assert [result["result"] for result in connection.read().json()["results"]] == ["created"] * 400
    server.proc.wait(60)


@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_members_may_follow_their_waiting_job_in_a_large_batch(server, content_type):
    waiting = [{"topic": "report", "id": "all", "waits": True}, {"topic": "report", "id": "part", "waits": True, "batch_topic": "report", "batch_id": "all"}]
    items = waiting + [{"topic": "large", "id": f"job-{n}", "body": "x" * 2_000, "batch_topic": "report", "batch_id": "part"} for n in range(900)]
    with contextlib.closing(server.connection(timeout=120)) as connection:
        connection.send(raw_batch(items, content_type))
        results = connection.read().json()["results"]
    assert [result["result"] for result in results] == ["created"] * len(items)
