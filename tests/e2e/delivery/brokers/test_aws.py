"""Delivery to SQS and SNS of moto; each signature is checked by botocore."""

import base64
import json
import os
import time

import aws
import pytest
from aws import Aws
from conftest import FLAGS
from delivery import acked, deliver_test, settle, totals
from endpoint import write_policy
from server import eventually

ALL_BYTES = bytes(range(256)) * 3


@pytest.fixture(scope="module")
def peer():
    with Aws() as running:
        yield running


@pytest.fixture
def tarry(peer, start_delivering):
    return start_delivering(policy=peer.policy())


@pytest.fixture
def client(tarry):
    return tarry.client()


def send_to_sqs(client, topic, peer, queue, backoff="fixed:100ms", max_attempts=1000, **deliver):
    settle(client, topic, deliver={"to": peer.sqs(queue), "region": aws.REGION, **deliver}, backoff=backoff, max_attempts=max_attempts)


def bodies(messages):
    return sorted(message["body"] for message in messages)


# ---- SQS ----


def test_a_job_arrives_in_sqs_with_its_attributes_when_it_is_due(peer, tarry, client):
    peer.ask(do="queue", name="orders")
    send_to_sqs(client, "orders", peer, "{topic}")
    began = time.time()
    client.push("orders", "42", '{"größe": "\\u0007 \t"}'.encode(), content_type="application/json", meta={"kind": "grüße & <b>", "content-type": "mine"}, delay="300ms")
    acked(client, "orders", 1)
    assert time.time() - began >= 0.299
    (message,) = peer.receive("orders")
    assert message["body"] == '{"größe": "\\u0007 \t"}'
    assert message["attributes"] == {"tarry-topic": "orders", "tarry-id": "42", "tarry-attempt": "1", "content-type": "application/json",
                                     "kind": "grüße & <b>", "meta-content-type": "mine"}
    figures = peer.ask(do="figures")
    assert figures["refused"] == 0
    assert not {name.lower() for name in figures["headers"]} & {"tarry-id", "webhook-id", "tarry-meta-kind"}
    assert aws.SECRET not in tarry.log()


def test_binary_bytes_arrive_in_base64(peer, client):
    peer.ask(do="queue", name="bytes")
    send_to_sqs(client, "bytes", peer, "bytes")
    client.push("bytes", "1", ALL_BYTES, content_type="image/x")
    acked(client, "bytes", 1)
    (message,) = peer.receive("bytes")
    assert base64.b64decode(message["body"]) == ALL_BYTES
    assert (message["attributes"]["content-transfer-encoding"], message["attributes"]["content-type"]) == ("base64", "image/x")


def test_jobs_that_are_due_together_share_calls(peer, client):
    peer.ask(do="queue", name="many")
    before = len(peer.ask(do="figures")["entries"])
    send_to_sqs(client, "many", peer, "many", max_in_flight=100)
    client.push_batch([{"topic": "many", "id": str(at), "body": f"{at}", "delay": "500ms"} for at in range(200)])
    acked(client, "many", 200)
    assert bodies(peer.receive("many")) == sorted(str(at) for at in range(200))
    entries = peer.ask(do="figures")["entries"][before:]
    assert sum(entries) == 200 and max(entries) == 10 and len(entries) <= 60, entries


def test_a_fifo_queue_gets_groups_and_drops_repetitions(peer, client):
    peer.ask(do="queue", name="line.fifo")
    send_to_sqs(client, "line", peer, "line.fifo", message_group="{meta.shop}", timeout="1s")
    with peer.frozen():
        client.push("line", "1", b"a", meta={"shop": "s1"})
        eventually(lambda: totals(client, "line")["nacked"] > 0)
    acked(client, "line", 1)
    client.push("line", "1", b"b", meta={"shop": "s2"})
    acked(client, "line", 2)
    messages = peer.receive("line.fifo")
    assert [(message["body"], message["more"]["MessageGroupId"]) for message in messages] == [("a", "s1"), ("b", "s2")]
    assert all(message["more"]["MessageDeduplicationId"].startswith("msg_") for message in messages)
    client.push("line", "2", b"c")
    eventually(lambda: client.topic("line")["counts"]["dead"] == 1)
    assert "message group" in client.get("line", "2")["last_error"]


def test_what_cannot_be_a_message_is_refused_and_others_continue(peer, client):
    peer.ask(do="queue", name="odd")
    send_to_sqs(client, "odd", peer, "odd", max_attempts=3)
    client.push("odd", "empty", b"")
    client.push("odd", "metas", b"x", meta={f"m{at}": "x" for at in range(7)})
    client.push("odd", "large", os.urandom(1 << 20))  # a third more in base64
    for at in range(20):
        client.push("odd", f"good{at}", b"x", meta={f"m{at}": "x" for at in range(6)})
    acked(client, "odd", 20)
    eventually(lambda: client.topic("odd")["counts"]["dead"] == 3)
    assert "empty" in client.get("odd", "empty")["last_error"]
    assert "10 attributes" in client.get("odd", "metas")["last_error"]
    assert client.get("odd", "large")["attempt"] <= 2
    assert len(peer.receive("odd")) == 20


def test_a_missing_queue_fails_until_it_exists(peer, client):
    send_to_sqs(client, "late", peer, "late")
    client.push("late", "1", b"x")
    eventually(lambda: "QueueDoesNotExist" in (client.get("late", "1").get("last_error") or ""))
    peer.ask(do="queue", name="late")
    acked(client, "late", 1)


def test_throttling_and_faults_of_the_service_are_retried(peer, client):
    peer.ask(do="queue", name="busy")
    send_to_sqs(client, "busy", peer, "busy")
    peer.ask(do="faults", faults=[{"status": 400, "code": "RequestThrottled"}, {"status": 500, "code": "InternalFailure"}, {"status": 503, "code": "ServiceUnavailable"}])
    client.push("busy", "1", b"x")
    acked(client, "busy", 1)
    assert client.topic("busy")["totals"]["nacked"] == 3


def test_a_wrong_key_costs_no_attempt_and_is_reported(peer, start_delivering):
    peer.ask(do="queue", name="keys")
    for key, secret, why in ((aws.KEY, "wrong-secret", "SignatureDoesNotMatch"), ("AKIDNOBODY", "wrong-secret", "UnrecognizedClientException")):
        tarry = start_delivering(policy=peer.policy(key, secret))
        client = tarry.client()
        send_to_sqs(client, "keys", peer, "keys")
        client.push("keys", "1", b"x")
        shown = deliver_test(client, "keys")
        assert why in shown and "(from the policy file)" in shown and "Signature=" not in shown
        time.sleep(0.3)
        assert client.topic("keys")["counts"]["dead"] == 0 and client.get("keys", "1")["attempt"] <= 1
        assert "wrong-secret" not in tarry.log() and "wrong-secret" not in shown


def test_keys_come_from_the_environment_with_their_session(peer, start_server, tmp_path):
    peer.ask(do="queue", name="session")
    policy = write_policy(tmp_path / "policy", "allow-host = 127.0.0.1", "allow-network = 127.0.0.1")
    environment = {"AWS_ACCESS_KEY_ID": aws.SESSION_KEY, "AWS_SECRET_ACCESS_KEY": aws.SESSION_SECRET, "AWS_SESSION_TOKEN": aws.SESSION_TOKEN}
    tarry = start_server(*FLAGS, "--deliver", policy, env=environment)
    client = tarry.client()
    send_to_sqs(client, "session", peer, "session")
    client.push("session", "1", b"x")
    acked(client, "session", 1)
    assert aws.SESSION_SECRET not in tarry.log() and aws.SESSION_TOKEN not in tarry.log()


def test_without_keys_nothing_is_sent(peer, start_delivering):
    client = start_delivering().client()
    send_to_sqs(client, "none", peer, "none")
    before = peer.ask(do="figures")["calls"]
    assert "no access key" in deliver_test(client, "none")
    assert peer.ask(do="figures")["calls"] == before


def test_a_killed_service_is_used_again(start_delivering):
    with Aws() as peer:
        client = start_delivering(policy=peer.policy()).client()
        peer.ask(do="queue", name="kill")
        send_to_sqs(client, "kill", peer, "kill")
        client.push("kill", "1", b"x")
        acked(client, "kill", 1)
        peer.kill()
        client.push("kill", "2", b"x")
        eventually(lambda: client.get("kill", "2").get("last_error"))
        peer.start()  # moto has forgotten its queues
        peer.ask(do="queue", name="kill")
        acked(client, "kill", 2, 40)
        assert [message["attributes"]["tarry-id"] for message in peer.receive("kill")] == ["2"]


# ---- SNS ----


def test_a_job_is_published_to_a_topic_of_sns(peer, tarry, client):
    arn = peer.ask(do="queue", name="inbox")["arn"]
    peer.ask(do="topic", name="news", to=arn)
    settle(client, "news", deliver={"to": peer.sns("{topic}")})
    client.push("news", "1", "{\"a\": \"grüße & + % =\"}".encode(), content_type="application/json", meta={"kind": "a&b=c d"})
    acked(client, "news", 1)
    (message,) = peer.receive("inbox")
    assert json.loads(message["body"]) == {"a": "grüße & + % ="}
    assert message["attributes"]["kind"] == "a&b=c d" and message["attributes"]["tarry-id"] == "1"
    assert aws.SECRET not in tarry.log()


def test_a_fifo_topic_gets_group_and_deduplication(peer, client):
    arn = peer.ask(do="queue", name="news.fifo")["arn"]
    peer.ask(do="topic", name="news.fifo", to=arn)
    settle(client, "ordered", deliver={"to": peer.sns("news.fifo"), "deduplication": "{topic}-{id}"})
    client.push("ordered", "7", b"x")
    acked(client, "ordered", 1)
    (message,) = peer.receive("news.fifo")
    assert (message["more"]["MessageGroupId"], message["more"]["MessageDeduplicationId"]) == ("ordered", "ordered-7")


def test_a_missing_topic_of_sns_fails_and_a_wrong_key_is_reported(peer, client, start_delivering):
    settle(client, "gone", deliver={"to": peer.sns("gone")}, backoff="fixed:100ms", max_attempts=2)
    client.push("gone", "1", b"x")
    eventually(lambda: client.topic("gone")["counts"]["dead"] == 1)
    assert "NotFound" in client.get("gone", "1")["last_error"]
    other = start_delivering(policy=peer.policy("AKIDNOBODY")).client()
    settle(other, "gone", deliver={"to": peer.sns("gone")})
    assert "InvalidClientTokenId" in deliver_test(other, "gone")
