"""Batches as large as the limits allow, on log files that are as small as may be: no batch of the log has room for them."""

import json

import pytest

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
