"""Push delivery to a real RabbitMQ: what it confirms is done, and nothing else is; and what becomes of jobs while it is ill."""

import collections
import re
import socket
import subprocess
import threading
import time

import pika
import pytest
import rabbitmq
from child import certificate
from conftest import FLAGS
from delivery import totals
from events import read_event
from server import eventually, free_port


@pytest.fixture(scope="module")
def broker():
    return rabbitmq.shared()


def settle(client, broker, topic, backoff="fixed:200ms", **deliver):
    client.put_topic(topic, backoff=backoff, deliver={"to": broker.url, "timeout": "2s", **deliver})


def error_of(client, topic, ident):
    return client.get(topic, ident).get("last_error") or ""


def bodies(messages):
    return collections.Counter(body.decode() for _, _, body, _ in messages)


# ---- what arrives ----


def test_a_message_can_be_a_cloud_event(broker, start_delivering):
    client = start_delivering().client()
    queue = broker.queue("events")
    settle(client, broker, "events", cloudevents={"type": "shop.{meta.kind}", "source": "/shop"})
    client.push("events", "1", b'{"a":1}', "application/json", {"kind": "grüße", "ce-id": "forged"})
    ((_, properties, body, _),) = broker.messages(queue, 1)
    attributes, data = read_event("rabbitmq", {name: str(value) for name, value in properties.headers.items()}, body, properties.content_type)
    assert (attributes["type"], attributes["source"], attributes["subject"], data) == ("shop.grüße", "/shop", "1", {"a": 1})
    assert attributes["id"].startswith("msg_")


def test_a_due_job_arrives_persistent_with_its_meta_as_headers(broker, start_delivering):
    client = start_delivering().client()
    queue = broker.queue("arrives")
    settle(client, broker, "orders", routing_key="{meta.to}")
    began = time.time()
    client.push("orders", "42", b'{"total": 12}', "application/json", {"to": queue, "shop": "Köln"}, delay="300ms")
    ((method, properties, body, when),) = broker.messages(queue, 1)
    assert body == b'{"total": 12}' and method.exchange == "" and when - began >= 0.3
    assert (properties.content_type, properties.delivery_mode, properties.message_id) == ("application/json", 2, "42")
    assert properties.headers["shop"] == "Köln" and properties.headers["to"] == queue
    assert (properties.headers["tarry-topic"], properties.headers["tarry-id"], properties.headers["tarry-attempt"]) == ("orders", "42", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", properties.headers["tarry-due-at"])
    assert abs(properties.timestamp - time.time()) < 10
    eventually(lambda: totals(client, "orders")["acked"] == 1)


def test_exchange_and_routing_key_are_templates(broker, start_delivering):
    client = start_delivering().client()
    with broker.channel() as channel:
        channel.exchange_declare("shop.eu", "topic", durable=True)
        channel.queue_bind(broker.queue("templates"), "shop.eu", "orders.late.*")
    settle(client, broker, "orders", exchange="shop.{meta.region}", routing_key="{topic}.late.{id}")
    client.push("orders", "7", meta={"region": "eu"})
    ((method, _, _, _),) = broker.messages("templates", 1)
    assert (method.exchange, method.routing_key) == ("shop.eu", "orders.late.7")


def test_many_are_confirmed_by_few_frames(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, broker.queue("many"), max_in_flight=500)
    items = [{"topic": "many", "id": f"{n}", "delay": "500ms", "body": f"{n}"} for n in range(3000)]
    for at in range(0, len(items), 1000):
        client.push_batch(items[at:at + 1000])
    got = bodies(broker.messages("many", 3000))
    assert got == collections.Counter(str(n) for n in range(3000))
    eventually(lambda: totals(client, "many")["acked"] == 3000)


def test_over_tls_the_certificate_is_good_for_the_name(broker, start_delivering):
    server = start_delivering(policy=["allow-host = localhost", f"ca-file = {broker.ca_file}"])
    client, port = server.client(), broker.tls_port
    settle(client, broker, broker.queue("tls"), to=f"amqps://localhost:{port}/")
    client.push("tls", "1")
    assert len(broker.messages("tls", 1)) == 1
    settle(client, broker, "elsewhere", to=f"amqps://127.0.0.1:{port}/")  # the certificate does not name the address
    client.push("elsewhere", "1")
    explained = client.good("POST", "/v1/topics/elsewhere/deliver-test")
    assert explained["outcome"] == "unsent" and "certificate" in str(explained)
    assert client.get("elsewhere", "1")["attempt"] == 0


def test_a_certificate_for_another_name_is_refused(start_delivering, tmp_path):
    ca, key, port = certificate(tmp_path, "DNS:elsewhere"), tmp_path / "key.pem", free_port()
    client = start_delivering(policy=["allow-host = localhost", f"ca-file = {ca}"]).client()
    peer = subprocess.Popen(["openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{port}", "-cert", ca, "-key", key],
                            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: not is_free(port))
        client.put_topic("named", deliver={"to": f"amqps://localhost:{port}/", "timeout": "3s"})
        explained = client.good("POST", "/v1/topics/named/deliver-test")
        assert explained["outcome"] == "unsent" and "certificate" in str(explained)
    finally:
        peer.kill()
        peer.wait()


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


# ---- what cannot arrive ----


def test_an_unroutable_message_fails_until_there_is_a_queue_without_delaying_others(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, broker.queue("routed"))
    settle(client, broker, "unrouted", routing_key="not-there-yet")
    client.push("unrouted", "1", b"late", backoff="fixed:300ms", max_attempts=1000)
    client.push_batch([{"topic": "routed", "id": f"{n}", "body": f"{n}"} for n in range(50)])
    assert sum(bodies(broker.messages("routed", 50)).values()) == 50
    eventually(lambda: "unroutable" in error_of(client, "unrouted", "1"))
    broker.queue("not-there-yet")
    assert bodies(broker.messages("not-there-yet", 1)) == {"late": 1}


def test_a_missing_exchange_fails_only_its_own_messages(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, "lost", exchange="no-such-exchange")
    settle(client, broker, broker.queue("found"))
    for n in range(40):
        client.push_batch([{"topic": topic, "id": f"{n}", "body": f"{n}"} for topic in ("lost", "found")])
    assert bodies(broker.messages("found", 40)) == collections.Counter(str(n) for n in range(40)), "no duplicates by another's fault"
    eventually(lambda: "404" in error_of(client, "lost", "3"))
    assert "no exchange 'no-such-exchange'" in error_of(client, "lost", "3")
    assert totals(client, "found")["nacked"] == 0
    with broker.channel() as channel:
        channel.exchange_declare("no-such-exchange", "fanout", durable=True)
        channel.queue_bind("found", "no-such-exchange")
    assert set(bodies(broker.messages("found", 40))) == {str(n) for n in range(40)}
    with broker.channel() as channel:
        channel.exchange_delete("no-such-exchange")


def test_a_message_rejected_by_the_broker_dies_separately(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, broker.queue("poison"))
    client.topic_verb("poison", "pause")
    for n in range(30):
        client.push("poison", f"{n}", b"x" * (rabbitmq.SIZE_MAX + 1) if n == 11 else b"%d" % n)
    client.topic_verb("poison", "resume")
    eventually(lambda: client.topic("poison")["counts"]["dead"] == 1)
    eventually(lambda: totals(client, "poison")["acked"] == 29)
    dead = client.get("poison", "11")
    assert dead["state"] == "dead" and dead["attempt"] == 1 and "406" in dead["last_error"]
    assert totals(client, "poison")["nacked"] == 1, "the others' attempts do not count"
    assert set(bodies(broker.messages("poison", 29))) == {str(n) for n in range(30) if n != 11}


def test_a_wrong_password_sends_nothing_and_costs_no_attempt(broker, start_delivering):
    origin = f"amqp://127.0.0.1:{broker.port}"
    client = start_delivering(policy=[f"credential = {origin} guest wrong"]).client()
    settle(client, broker, broker.queue("locked"))
    explained = client.good("POST", "/v1/topics/locked/deliver-test")
    assert explained["outcome"] == "unsent" and "ACCESS_REFUSED" in str(explained) and "wrong" not in str(explained)


# ---- a broker that is ill ----


def test_a_frozen_broker_costs_time_and_no_job(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, broker.queue("frozen"), timeout="300ms")
    client.push("frozen", "before")
    assert len(broker.messages("frozen", 1)) == 1
    with broker.frozen():
        for n in range(20):
            client.push("frozen", f"{n}", b"%d" % n)
        eventually(lambda: "timed out" in " ".join(error_of(client, "frozen", str(n)) for n in range(20)))
    assert set(bodies(broker.messages("frozen", 20))) == {str(n) for n in range(20)}
    eventually(lambda: totals(client, "frozen")["acked"] == 21)


def test_an_alarm_is_respected(broker, start_delivering):
    client = start_delivering().client()
    settle(client, broker, broker.queue("alarm"), timeout="500ms")
    broker.ctl("set_vm_memory_high_watermark", "0.00001")
    try:
        # The broker reports it once a message was published: the first one is not confirmed.
        client.push("alarm", "first")
        explained = eventually(lambda: (lambda answer: answer if "blocked" in str(answer) else None)(
            client.good("POST", "/v1/topics/alarm/deliver-test")), seconds=15)
        assert explained["outcome"] == "unsent"
        client.push("alarm", "second")
        eventually(lambda: client.get("alarm", "second")["state"] == "leased")
        eventually(lambda: client.get("alarm", "second")["state"] != "leased")
        assert not client.get("alarm", "second").get("history"), "what is not sent is no attempt"
    finally:
        broker.ctl("set_vm_memory_high_watermark", "0.6")
    eventually(lambda: totals(client, "alarm")["acked"] == 2, seconds=20)
    assert {properties.message_id for _, properties, _, _ in broker.messages("alarm", 2)} >= {"first", "second"}


def test_a_broker_that_is_killed_loses_nothing_that_was_taken_over(broker, start_delivering):
    """Tests both directions: jobs on their way to the broker, and messages that tarry takes from it."""
    for queue in ("sink", "killed-in"):
        broker.queue(queue)
    server = start_delivering(*FLAGS, "--amqp-in", f"{broker.url}?queue=killed-in")
    client = server.client()
    settle(client, broker, "sink")
    client.push_batch([{"topic": "sink", "id": f"job-{n}", "delay": f"{n * 10}ms", "body": f"job-{n}"} for n in range(400)])
    published = publish_until_cut(broker, 400)
    time.sleep(1.0)
    broker.kill()
    published.join()
    broker.start()
    wanted = {f"job-{n}" for n in range(400)} | set(published.confirmed)
    assert len(published.confirmed) >= 20, "too little to mean something"
    arrived = []
    eventually(lambda: arrived.extend(broker.messages("sink", 1, seconds=1)) or wanted <= set(bodies(arrived)), seconds=40)
    eventually(lambda: totals(client, "sink")["acked"] == 400 and client.topic("amqp-in")["counts"]["delayed"] == 0)
    arrived += broker.messages("sink", 0, seconds=0.3)
    for body, copies in bodies(arrived).items():
        attempts = sorted(properties.headers["tarry-attempt"] for _, properties, one, _ in arrived if one.decode() == body)
        assert copies == len(set(attempts)), f"{body} came {copies} times, in attempts {attempts}: a duplicate without a cause"


class publish_until_cut(threading.Thread):
    """Publishes into killed-in, each confirmed before the next; `confirmed` are those the broker has."""

    def __init__(self, broker, count):
        super().__init__(daemon=True)
        self.broker, self.count, self.confirmed = broker, count, []
        self.start()

    def run(self):
        try:
            with self.broker.channel() as channel:
                channel.confirm_delivery()
                for n in range(self.count):
                    properties = pika.BasicProperties(delivery_mode=2, message_id=f"m{n}", headers={"x-delay": 500 + n * 5, "x-routing-key": "sink"})
                    channel.basic_publish("", "killed-in", b"message-%d" % n, properties)
                    self.confirmed.append(f"message-{n}")
        except (pika.exceptions.AMQPError, OSError):
            pass
