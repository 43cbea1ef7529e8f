"""Shared parts of the tests of delivery: settings, counts, and checks of delivered jobs."""

import json
from collections import Counter

from server import eventually


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
