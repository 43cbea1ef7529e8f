"""Delivery to a real Mosquitto by MQTT 5."""

import json
import os
import time

import mosquitto
import pytest
from delivery import acked, deliver_test, settle, totals
from mosquitto import Mosquitto
from server import eventually

ALL_BYTES = bytes(range(256)) * 3

pytestmark = pytest.mark.skipif(not mosquitto.is_here(), reason="no Mosquitto on this machine")


@pytest.fixture(scope="module")
def shared():
    with Mosquitto() as broker:
        yield broker


def test_a_job_arrives_with_its_properties_when_it_is_due(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "orders", deliver={"to": shared.url, "topic": "shop/{topic}/{meta.kind}", "expiry": "{meta.ttl}"})
    with shared.reader("shop/#") as reader:
        began = time.time()
        client.push("orders", "4:2\\x", b"hello", content_type="text/x-odd", meta={"kind": "größe", "ttl": "90m"}, delay="300ms")
        (message,) = reader.messages(1)
    assert time.time() - began >= 0.299
    assert (message.topic, message.body, message.content_type) == ("shop/orders/größe", "hello", "text/x-odd")
    assert 5390 <= message.expiry <= 5400
    assert (message.headers["tarry-topic"], message.headers["tarry-id"], message.headers["tarry-attempt"]) == ("orders", "4:2\\x", "1")
    assert message.headers["kind"] == "größe" and message.headers["tarry-due-at"].endswith("Z")
    acked(client, "orders", 1)


def test_every_byte_of_a_large_body_arrives(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "big", deliver={"to": shared.url})
    body = os.urandom(1 << 20)
    with shared.reader("big", "%x") as reader:
        client.push("big", "1", ALL_BYTES)
        client.push("big", "2", body)
        assert sorted(reader.messages(2), key=len) == [ALL_BYTES.hex(), body.hex()]
    acked(client, "big", 2)


def test_many_jobs_are_in_flight_together_up_to_the_window_of_the_broker(start_delivering):
    with Mosquitto(more="max_inflight_messages 7") as broker, broker.reader("many") as reader:
        client = start_delivering().client()
        settle(client, "many", deliver={"to": broker.url, "max_in_flight": 500})
        ids = [str(at) for at in range(2000)]
        for at in range(0, len(ids), 500):
            client.push_batch([{"topic": "many", "id": ident, "body": "x"} for ident in ids[at:at + 500]])
        acked(client, "many", len(ids))
        assert sorted(message.id for message in reader.messages(len(ids))) == sorted(ids)


def test_fields_cannot_choose_patterns_or_topics_of_the_broker(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "inner", deliver={"to": shared.url, "topic": "{meta.to}"})
    bad = ["$SYS/broker", "a/+/b", "#", ""]
    for at, topic in enumerate(bad):
        client.push("inner", str(at), b"x", meta={"to": topic})
    client.push("inner", "good", b"x", meta={"to": "fine/$x"})
    acked(client, "inner", 1)
    eventually(lambda: client.topic("inner")["counts"]["dead"] == len(bad))


@pytest.mark.parametrize("to,member,name,why", [
    ("mqtt://127.0.0.1", "topic", "shops/+/{id}", "the topic contains '+' or '#'"),
    ("nats://127.0.0.1", "subject", "orders.*", "the subject contains '*' or '>'"),
    ("nats://127.0.0.1", "subject", "orders..{id}", "the subject has an empty part between dots"),
])
def test_a_name_that_can_never_be_valid_is_rejected_with_the_settings(start_delivering, to, member, name, why):
    client = start_delivering().client()
    answer = client.call("PUT", "/v1/topics/never", json.dumps({"deliver": {"to": to, member: name}}).encode(), {"Content-Type": "application/json"})
    assert answer.status == 400 and f"bad '{member}', {why}" in answer.json()["detail"]


def test_a_packet_above_the_limit_is_refused_and_others_continue(start_delivering):
    for more, why in (("max_packet_size 50000", "maximum packet size"), ("message_size_limit 50000", "packet too large")):
        with Mosquitto(more=more) as broker:
            client = start_delivering().client()
            settle(client, "limit", deliver={"to": broker.url})
            client.push("limit", "large", b"x" * 60000)
            client.push("limit", "small", b"x" * 40000)
            acked(client, "limit", 1)
            eventually(lambda: client.topic("limit")["counts"]["dead"] == 1)
            assert why in client.get("limit", "large")["last_error"]
            assert client.get("limit", "large")["attempt"] == 1


def test_a_login_and_its_rights_come_from_the_broker(start_delivering):
    with Mosquitto(login=True) as broker:
        tarry = start_delivering(policy=[f"credential = {broker.url} {mosquitto.USER} {mosquitto.PASSWORD}"])
        client = tarry.client()
        settle(client, "login", deliver={"to": broker.url, "topic": "{meta.to}"}, max_attempts=2, backoff="fixed:100ms")
        client.push("login", "1", b"x", meta={"to": "allowed/a"})
        client.push("login", "2", b"x", meta={"to": "forbidden/a"})
        acked(client, "login", 1)
        eventually(lambda: client.topic("login")["counts"]["dead"] == 1)
        assert "0x87, not authorized" in client.get("login", "2")["last_error"]
        other = start_delivering(policy=[f"credential = {broker.url} {mosquitto.USER} wrong-password"])
        settle(other.client(), "login", deliver={"to": broker.url})
        shown = json.loads(deliver_test(other.client(), "login"))
        assert shown["outcome"] == "unsent" and "login refused" in shown["error"]
        assert mosquitto.PASSWORD not in tarry.log() and "wrong-password" not in other.log()


def test_tls_is_verified(start_delivering):
    with Mosquitto(tls=True) as broker:
        client = start_delivering(policy=[f"ca-file = {broker.directory}/cert.pem"]).client()
        settle(client, "tls", deliver={"to": broker.url})
        client.push("tls", "1", b"x" * 100000)
        acked(client, "tls", 1)
        client = start_delivering().client()
        settle(client, "tls", deliver={"to": broker.url})
        assert "certificate" in deliver_test(client, "tls")


def test_a_kill_of_the_broker_ends_messages_and_all_arrive_later(start_delivering):
    with Mosquitto() as broker:
        client = start_delivering().client()
        settle(client, "kill", deliver={"to": broker.url, "timeout": "5s"}, backoff="fixed:200ms", max_attempts=1000)
        client.push_batch([{"topic": "kill", "id": str(at), "body": "x" * 300} for at in range(1000)])
        eventually(lambda: totals(client, "kill")["acked"] > 20)
        broker.kill()
        client.push("kill", "last", b"x")
        broker.start()
        acked(client, "kill", 1001, 40)


def test_the_next_broker_is_used_if_one_is_killed(shared, start_delivering):
    with Mosquitto() as first:
        client = start_delivering().client()
        settle(client, "next", deliver={"to": f"mqtt://127.0.0.1:{first.port},127.0.0.1:{shared.port}"}, backoff="fixed:100ms", max_attempts=100)
        with first.reader("next") as reader:
            client.push("next", "1", b"x")
            assert [message.id for message in reader.messages(1)] == ["1"]
        acked(client, "next", 1)
        first.kill()
        with shared.reader("next") as reader:
            client.push("next", "2", b"x")
            assert [message.id for message in reader.messages(1)] == ["2"]
        acked(client, "next", 2)


def test_a_frozen_broker_costs_the_timeout(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "frozen", deliver={"to": shared.url, "timeout": "500ms"}, backoff="fixed:100ms", max_attempts=1000)
    client.push("frozen", "0", b"x")
    acked(client, "frozen", 1)
    with shared.frozen():
        client.push("frozen", "1", b"x")
        eventually(lambda: totals(client, "frozen")["nacked"] > 0)
    acked(client, "frozen", 2)


def test_a_message_can_be_a_cloud_event(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "events", deliver={"to": shared.url, "cloudevents": {"type": "shop.{meta.kind}"}})
    with shared.reader("events") as reader:
        client.push("events", "1", b'{"a":1}', content_type="application/json", meta={"kind": "grüße", "id": "forged"})
        (message,) = reader.messages(1)
    assert (message.headers["specversion"], message.headers["type"], message.headers["subject"]) == ("1.0", "shop.grüße", "1")
    assert message.headers["id"].startswith("msg_") and message.headers["meta-id"] == "forged" and message.content_type == "application/json"


def test_an_invalid_expiry_is_rejected(shared, start_delivering):
    client = start_delivering().client()
    reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": {"to": shared.url, "expiry": "soon"}}).encode())
    assert reply.status == 400 and "bad 'expiry'" in reply.json()["detail"]
    settle(client, "t", deliver={"to": shared.url, "expiry": "{meta.ttl}"})
    client.push("t", "1", b"x", meta={"ttl": "soon"})
    eventually(lambda: client.topic("t")["counts"]["dead"] == 1)
