"""Delivery to a real RocketMQ, 4 and 5, if its jars can be fetched; otherwise tests/targets/rig_rocketmq.c is used. Its own client reads the delivered messages."""

import json
import os
import socket
import time

import pytest
import rocketmq
from delivery import acked, check_copies, deliver_test, frozen_broker_gets_everything, settle, totals
from rocketmq import ACCESS_KEY, NEW, OLD, SECRET_KEY, RocketMQ
from server import eventually

ALL_BYTES = bytes(range(256)) * 3
CLUSTERS = {"4": OLD, "5": NEW}  # 4 with an access list, 5 with users


@pytest.fixture(scope="module")
def clusters():
    """Started side by side, when the first is asked for."""
    for version in (OLD, NEW):
        jars, why = rocketmq.find_jars(version)
        if jars is None:
            pytest.skip(f"no real RocketMQ ({why}); the rig of targets.rocketmq is what runs")
    running = {}
    try:
        for name, version in CLUSTERS.items():
            running[name] = RocketMQ(version).launch().launch_reader()
        yield running
    finally:
        for cluster in running.values():
            cluster.stop()


@pytest.fixture(params=list(CLUSTERS))
def mq(clusters, request):
    return clusters[request.param].wait_ready()


@pytest.fixture
def start(start_delivering):
    """A server that may log in."""
    return lambda mq, secret=SECRET_KEY, more=(): start_delivering(policy=[f"credential = {mq.url} {ACCESS_KEY} {secret}", *more])


def test_a_job_arrives_to_the_byte_with_tags_keys_and_properties_when_it_is_due(mq, start):
    client = start(mq).client()
    settle(client, "orders", deliver={"to": mq.url, "tags": "{meta.subtopic}", "keys": "{meta.bizkey} {id}"})
    began = time.time()
    meta = {"subtopic": "paid", "bizkey": "o:17", "content-type": "mine"}
    client.push("orders", "4:2\\x", ALL_BYTES, content_type="text/x-odd", meta=meta, delay="300ms")
    acked(client, "orders", 1)
    assert time.time() - began >= 0.299
    (message,) = mq.receive("orders", 1)
    assert (message.tags, message.keys, message.body) == ("paid", "o:17 4:2\\x", ALL_BYTES)
    output = message.headers
    assert (output["tarry-topic"], output["tarry-id"], output["tarry-attempt"]) == ("orders", "4:2\\x", "1")
    assert (output["subtopic"], output["meta-content-type"], output["content-type"]) == ("paid", "mine", "text/x-odd")
    assert output["tarry-due-at"].startswith("20") and output["tarry-due-at"].endswith("Z")


def test_topics_are_filled_in_and_invalid_messages_are_rejected(mq, start):
    client = start(mq).client()
    settle(client, "odd", deliver={"to": mq.url, "topic": "odd-{meta.kind}"})
    client.push("odd", "1", b"x", meta={"kind": "new_1-a"})
    faults = {"2": ("two words", b"x"), "3": ("%RETRY%g", b"x"), "4": ("x" * 127, b"x"), "5": ("empty", b"")}
    for ident, (kind, body) in faults.items():
        client.push("odd", ident, body, meta={"kind": kind})
    eventually(lambda: client.topic("odd")["counts"]["dead"] == 4)
    assert "topic's name is" in client.get("odd", "2")["last_error"]
    assert "'%'" in client.get("odd", "3")["last_error"]
    assert "without a body" in client.get("odd", "5")["last_error"]
    acked(client, "odd", 1)
    assert [(message.keys, message.id) for message in mq.receive("odd-new_1-a", 1)] == [("1", "1")]


def test_a_body_of_a_mebibyte_arrives_and_a_rejected_one_is_dead(mq, start_delivering):
    client = start_delivering("--max-body", "4MiB", policy=[f"credential = {mq.url} {ACCESS_KEY} {SECRET_KEY}"]).client()
    body = os.urandom(1 << 20)
    settle(client, "big", deliver={"to": mq.url})
    for at in range(4):
        client.push("big", str(at), body)
    client.push("big", "more", body * 3)
    acked(client, "big", 4)
    eventually(lambda: client.get("big", "more")["state"] == "dead")
    assert "error of the broker: 13" in client.get("big", "more")["last_error"]
    assert [message.body == body for message in mq.receive("big", 4)] == [True] * 4


def test_kill_9_of_broker_and_name_server_loses_nothing(mq, start):
    client = start(mq).client()
    settle(client, "kill", deliver={"to": mq.url, "timeout": "5s"}, backoff="fixed:200ms")
    ids = [str(at) for at in range(600)]
    client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[:500]])
    eventually(lambda: totals(client, "kill")["acked"] > 20)
    mq.broker.kill()
    already = totals(client, "kill")["acked"]
    mq.names.kill()
    client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[500:]])
    mq.launch().wait_ready()
    acked(client, "kill", len(ids), 60)
    messages = mq.receive("kill", len(ids))
    twice = check_copies(messages, ids)
    print(f"killed after {already} of {len(ids)}, {twice} arrived twice")
    assert twice <= 64, "no more than were under way"


def test_a_frozen_broker_gets_everything_when_it_wakes(mq, start):
    frozen_broker_gets_everything(start(mq).client(), mq.url, mq.broker.frozen, mq.receive, timeout="1s")


def test_a_login_comes_from_the_policy_file_and_a_wrong_one_is_reported(mq, start):
    client = start(mq).client()
    settle(client, "login", deliver={"to": mq.url})
    client.push("login", "1", b"x")
    acked(client, "login", 1)
    assert [message.id for message in mq.receive("login", 1)] == ["1"]
    assert SECRET_KEY not in client.call("GET", "/v1/topics/login").body.decode()
    server = start(mq, "wrong-secret")
    settle(server.client(), "login", deliver={"to": mq.url})
    output = deliver_test(server.client(), "login")
    assert '"done"' not in output and ("signature" in output.lower() or "not allowed" in output), output
    assert "wrong-secret" not in server.log()


def test_rights_are_kept(clusters, start):
    mq = clusters["4"].wait_ready()
    client = start(mq).client()
    settle(client, "forbidden", deliver={"to": mq.url}, max_attempts=1)
    client.push("forbidden", "1", b"x")
    eventually(lambda: client.get("forbidden", "1")["state"] == "dead")
    assert "not allowed" in client.get("forbidden", "1")["last_error"]


def test_by_tls_a_job_arrives_and_a_stranger_is_sent_nothing(clusters, start_delivering):
    mq = clusters["4"].wait_ready()
    login = f"credential = {mq.tls_url} {ACCESS_KEY} {SECRET_KEY}"
    client = start_delivering(policy=[login, f"ca-file = {mq.certificate}"]).client()
    settle(client, "secret", deliver={"to": mq.tls_url})
    client.push("secret", "1", ALL_BYTES)
    acked(client, "secret", 1)
    assert [message.body for message in mq.receive("secret", 1)] == [ALL_BYTES]
    trusting_nobody = start_delivering().client()
    settle(trusting_nobody, "secret", deliver={"to": mq.tls_url})
    assert "tls failed" in deliver_test(trusting_nobody, "secret")


def test_unreachable_name_servers_are_skipped(clusters, start_delivering):
    mq = clusters["4"].wait_ready()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        first = f"rocketmq://127.0.0.1:{silent.getsockname()[1]}"
        away = f"{first},127.0.0.1:1,127.0.0.1:{mq.names.port}"
        client = start_delivering(policy=[f"credential = {first} {ACCESS_KEY} {SECRET_KEY}"]).client()
        settle(client, "second", deliver={"to": away})
        client.push("second", "1", b"x")
        acked(client, "second", 1)


def test_the_guard_also_checks_brokers_named_by_the_cluster(clusters, start_delivering):
    """The name in the URL is allowed; the address that the name server gives for its broker is not."""
    mq = clusters["4"].wait_ready()
    client = start_delivering(only=["allow-host = localhost", "allow-network = 127.0.0.0/8"]).client()
    settle(client, "named", deliver={"to": f"rocketmq://localhost:{mq.names.port}", "timeout": "3s"})
    output = deliver_test(client, "named")
    assert '"done"' not in output and "not allowed" in output, output


def test_nothing_connects_if_the_guard_rejects(start_delivering):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        client = start_delivering(only=["allow-host = localhost"]).client()
        settle(client, "inner", deliver={"to": f"rocketmq://localhost:{listener.getsockname()[1]}"})
        assert "not public" in deliver_test(client, "inner")
        with pytest.raises(TimeoutError):
            listener.accept()


def test_an_invalid_destination_is_reported(start_delivering):
    client = start_delivering().client()
    for deliver, part in (({"to": "rocketmq://mq/orders"}, "no path"), ({"to": "rocketmq://mq", "exchange": "x"}, "amqp"),
                          ({"to": "kafka://mq", "tags": "x"}, "rocketmq"), ({"to": "rocketmq://mq", "tags": "{kind}"}, "{kind}")):
        answer = client.call("PUT", "/v1/topics/bad", json.dumps({"deliver": deliver}).encode(), {"Content-Type": "application/json"})
        assert answer.status == 400 and part in answer.body.decode(), (deliver, answer.body)
