"""A job that is acked and pushed again in one step, and a push that happens once."""

import json

import pytest


@pytest.fixture(params=["embedded", "redis"])
def client(request, start_server):
    if request.param == "redis":
        return start_server("--store", request.getfixturevalue("start_redis")().url, "--shards", "3").client()
    return start_server("--sync", "never", "--shards", "3").client()


def again(client, lease, query="", body=b"", kind=None):
    headers = {"Content-Type": kind} if kind else {}
    return client.call("POST", f"/v1/again?lease={lease}{query}", body, headers)


def take_one(client):
    (job,) = client.take("t", max=1, wait="5s")
    return job


def code(answer):
    return answer.status, answer.json()["code"]


def test_again_pushes_the_job_with_the_given_values(client):
    client.push("t", "a", b'{"step":1}', priority=7, max_attempts=3)
    answer = again(client, take_one(client)["lease"], "&delay=1h", b'{"step":2}', "application/json")
    (result,) = answer.json()["results"]
    assert (answer.status, result["id"], result["result"], result["state"]) == (200, "a", "created", "delayed")
    job = client.good("GET", "/v1/topics/t/jobs/a")
    assert (job["body"], job["attempt"], job["priority"], job["max_attempts"]) == ({"step": 2}, 0, 7, 3)
    client.good("POST", "/v1/topics/t/jobs/a/run")
    assert again(client, take_one(client)["lease"], "&priority=2").status == 200
    job = client.good("GET", "/v1/topics/t/jobs/a")
    assert (job["body"], job["priority"], job["state"]) == ({"step": 2}, 2, "ready")


def test_again_with_an_ended_lease_changes_nothing(client):
    client.push("t", "a", b"old")
    lease = take_one(client)["lease"]
    client.answer("nack", [lease], delay="1h")
    assert code(again(client, lease, body=b"new")) == (409, "lease_ended")
    assert client.good("GET", "/v1/topics/t/jobs/a")["body"] == "old" or client.good("GET", "/v1/topics/t/jobs/a")["state"] == "delayed"


def test_again_ends_a_job_whose_cancel_was_requested(client):
    client.push("t", "a", b"x")
    lease = take_one(client)["lease"]
    assert client.call("DELETE", "/v1/topics/t/jobs/a?request=true").status == 202
    assert again(client, lease).json()["results"][0]["result"] == "cancelled"
    assert client.call("GET", "/v1/topics/t/jobs/a").status == 404


@pytest.mark.parametrize("query, expected", [
    ("", (400, "option_missing")), ("?lease=a&lease=b", (400, "option_clash")), ("?lease=a&delay=1s&at=2040-01-01T00:00:00Z", (400, "option_clash")),
    ("?lease=a&ttl=1s", (400, "unknown_option")), ("?lease=a&delay=11y", (400, "bad_option")), ("?lease=a", (409, "lease_ended"))])
def test_a_call_of_again_with_a_mistake_is_rejected_by_name(client, query, expected):
    assert code(client.call("POST", f"/v1/again{query}", b"x")) == expected


def test_the_form_that_curl_sends_by_default_keeps_the_old_content_type(client):
    client.call("PUT", "/v1/topics/t/jobs/a?delay=0", b"old", {"Content-Type": "text/plain"})
    assert again(client, take_one(client)["lease"], body=b"new", kind="application/x-www-form-urlencoded").status == 200
    job = client.good("GET", "/v1/topics/t/jobs/a")
    assert (job["content_type"], job["body"]) == ("text/plain", "new")


def test_once_prevents_a_second_push_after_the_ack(client):
    push = lambda query: client.call("POST", f"/v1/topics/t/jobs?{query}", b"x")
    first = push("once=order-1&once_for=1h")
    assert (first.status, first.json()["result"]) == (201, "created")
    client.answer("ack", [take_one(client)["lease"]])
    for _ in range(5):
        second = push("once=order-1")
        assert (second.status, second.json()["result"]) == (200, "existed")
        assert "state" not in second.json()  # there may be no job
    assert push("once=order-2").status == 201
    assert client.call("POST", "/v1/topics/u/jobs?once=order-1", b"x").status == 201


def test_items_of_a_batch_may_have_a_once(client):
    items = [{"topic": "t", "id": "a", "body": n, "once": "x", "once_for": "1h"} for n in range(3)]
    answer = client.call("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"})
    assert [result["result"] for result in answer.json()["results"]] == ["created", "existed", "existed"]


@pytest.mark.parametrize("query, expected", [
    ("once=", "bad_option"), ("once=a%20b", "bad_option"), ("once=" + "x" * 129, "bad_option"), ("once=%C3%A9", "bad_option"), ("once_for=1s", "option_missing"),
    ("once=a&once_for=0", "bad_option"), ("once=a&once_for=11y", "bad_option")])
def test_a_bad_once_is_rejected_by_name(client, query, expected):
    assert code(client.call("POST", f"/v1/topics/t/jobs?{query}", b"x")) == (400, expected)
    assert not client.topics()
