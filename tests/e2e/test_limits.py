"""Limits: each at the limit and one above, and the refusal names it."""

import json

import pytest
from client import Refused


def refusal(call, *args, **options):
    with pytest.raises(Refused) as refused:
        call(*args, **options)
    return refused.value


def test_a_full_topic_refuses_the_next_job_and_says_why(client):
    client.put_topic("full", max_jobs=3)
    for n in range(3):
        client.push("full", f"job{n}")
    said = refusal(client.push, "full", "one-more")
    assert (said.status, said.code, said.reply.json()["limit"]) == (507, "topic_full", "max_jobs")
    assert client.push("full", "job0", b"again")["result"] == "replaced"
    client.ack(client.take("full")[0]["lease"])
    assert client.push("full", "one-more")["result"] == "created"


def test_a_batch_is_let_in_item_by_item(client):
    client.put_topic("full", max_jobs=2)
    items = [{"topic": topic, "id": str(n)} for n in range(3) for topic in ("full", "other")]
    results = client.push_batch(items)
    assert [result["result"] for result in results] == ["created"] * 4 + ["topic_full", "created"]
    assert results[4]["limit"] == "max_jobs" and "max_jobs" in results[4]["detail"]


def test_what_is_there_is_never_refused(client):
    client.put_topic("full", max_jobs=3, max_attempts=1)
    for n in range(3):
        client.push("full", f"job{n}")
    client.nack(client.take("full")[0]["lease"])
    client.put_topic("full", max_jobs=1, max_attempts=1)
    assert client.call("POST", "/v1/topics/full/redrive").json()["jobs"] == 1
    assert client.topic("full")["counts"]["ready"] == 3


def test_limits_are_settings_that_are_shown_patched_and_taken_away(client):
    client.put_topic("s", max_jobs=5, push_rate="90/m")
    assert {"max_jobs": 5, "push_rate": "90/m"}.items() <= client.topic("s")["settings"].items()
    client.call("PATCH", "/v1/topics/s", json.dumps({"max_jobs": None, "push_rate": 7}).encode())
    settings = client.topic("s")["settings"]
    assert "max_jobs" not in settings and settings["push_rate"] == "7/s"


@pytest.mark.parametrize("option", [{"max_jobs": 0}, {"max_jobs": 2**40 + 1}, {"push_rate": "0/s"}, {"push_rate": "1/d"}, {"push_rate": "1000000001/h"}])
def test_a_limit_that_cannot_be_is_refused(client, option):
    said = refusal(client.put_topic, "s", **option)
    assert (said.status, said.code) == (400, "bad_option") and next(iter(option)) in said.reply.json()["detail"]
    client.put_topic("s", max_jobs=2**40, push_rate="1000000000/h")
