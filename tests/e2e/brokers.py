"""What the tests of delivery to brokers share: a server that delivers, settings, and the judgement of what arrived."""

import json
from collections import Counter

import pytest
from endpoint import write_policy
from server import eventually


@pytest.fixture
def start_delivering(start_server, tmp_path):
    """start_delivering(*lines): a server whose policy file allows this machine, with more lines; policy=[…]: these alone."""

    def start(*lines, policy=None):
        path = tmp_path / "policy"
        write_policy(path, *lines)
        if policy is not None:
            path.write_text("\n".join(policy) + "\n", encoding="utf-8")
        return start_server("--sync", "always", "--shards", "1", "--deliver", str(path))

    return start


def settle(client, topic, **settings):
    client.good("PUT", f"/v1/topics/{topic}", json.dumps(settings).encode(), {"Content-Type": "application/json"})


def totals(client, topic):
    return client.topic(topic)["totals"]


def deliver_test(client, topic):
    """What a sample came to, as text."""
    return json.dumps(client.good("POST", f"/v1/topics/{topic}/deliver-test"))


def acked(client, topic, count, seconds=30.0):
    eventually(lambda: totals(client, topic)["acked"] >= count, seconds)
    assert totals(client, topic)["acked"] == count


def check_copies(messages, ids):
    """Each job arrived; where one arrived twice, another attempt brought the second. How many came more than once."""
    seen = Counter(message.id for message in messages)
    assert set(seen) == set(ids)
    copies = Counter((message.id, message.headers["tarry-attempt"]) for message in messages)
    assert all(count == 1 for count in copies.values()), [copy for copy in copies.items() if copy[1] > 1]
    return sum(seen.values()) - len(seen)
