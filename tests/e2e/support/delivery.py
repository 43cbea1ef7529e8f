"""Shared parts of the tests of delivery: settings, counts, and checks of delivered jobs."""

import base64
import json
from collections import Counter

from server import eventually

RESULT_LIMIT = 64 * 1024


def settle(client, topic, **settings):
    client.good("PUT", f"/v1/topics/{topic}", json.dumps(settings).encode(), {"Content-Type": "application/json"})


def totals(client, topic):
    return client.topic(topic)["totals"]


def counts(client, topic):
    return client.topic(topic)["counts"]


def deliver_test(client, topic):
    """The result of a sample, as text."""
    return json.dumps(client.good("POST", f"/v1/topics/{topic}/deliver-test"))


def acked(client, topic, count, seconds=30.0):
    eventually(lambda: totals(client, topic)["acked"] >= count, seconds)
    assert totals(client, topic)["acked"] == count


def check_copies(messages, ids):
    """Checks that each job arrived; a second arrival must be another attempt. Returns the number of repeated jobs."""
    seen = Counter(message.id for message in messages)
    assert set(seen) == set(ids)
    copies = Counter((message.id, message.headers["tarry-attempt"]) for message in messages)
    assert all(count == 1 for count in copies.values()), [copy for copy in copies.items() if copy[1] > 1]
    return sum(seen.values()) - len(seen)


def frozen_broker_gets_everything(client, url, frozen, receive, timeout="500ms"):
    """A broker that freezes gets each job when it wakes. `frozen` is a context in which it stands still."""
    settle(client, "frozen", deliver={"to": url, "timeout": timeout}, backoff="fixed:100ms")
    client.push("frozen", "0", b"x")
    acked(client, "frozen", 1)
    with frozen():
        for at in range(1, 20):
            client.push("frozen", str(at), b"x")
        eventually(lambda: totals(client, "frozen")["nacked"] > 0)
    acked(client, "frozen", 20, 60)
    check_copies(receive("frozen", 20), [str(at) for at in range(20)])


# ---- answers of callbacks as results ----


def answers(endpoint, body, content_type="application/json", status=200):
    endpoint.answer = lambda call: (status, {"Content-Type": content_type}, body)


def result_settings(endpoint, **more):
    return {"deliver": {"to": endpoint.url, "result": True, **more}, "keep_finished": "1h"}


def finished(client, topic, ident):
    """The kept job, once it has finished."""
    eventually(lambda: client.call("GET", f"/v1/topics/{topic}/jobs/{ident}").json().get("state") == "finished")
    return client.get(topic, ident)


def answers_become_results(client, endpoint):
    """Answers of several kinds, up to the largest, are the results of their jobs, byte for byte."""
    every_byte = bytes(range(256)) * 3
    settle(client, "sums", **result_settings(endpoint))
    answers(endpoint, b'{"sum": 7}')
    client.push("sums", "json")
    job = finished(client, "sums", "json")
    assert (job["outcome"], job["attempt"], job["result"], job["result_type"]) == ("acked", 1, {"sum": 7}, "application/json")
    answers(endpoint, every_byte, "image/x")
    client.push("sums", "bytes")
    job = finished(client, "sums", "bytes")
    assert base64.b64decode(job["result_base64"]) == every_byte and job["result_type"] == "image/x"
    answers(endpoint, b"x" * RESULT_LIMIT, "text/plain")
    client.push("sums", "largest")
    assert finished(client, "sums", "largest")["result"] == "x" * RESULT_LIMIT
    reply = client.call("PUT", "/v1/topics/sums/jobs/waited?wait=10s", b"1")
    assert reply.status == 201 and reply.json()["result"] == "x" * RESULT_LIMIT
