"""Delivery to a real Kafka where its jars are to be had; else librdkafka's mock cluster has to do (tests/unit/targets/test_target_kafka.c)."""

import os
import signal
import socket
import time

import kafka
import pytest
from delivery import acked, check_copies, deliver_test, frozen_broker_gets_everything, settle, totals
from endpoint import write_policy
from server import eventually

ALL_BYTES = bytes(range(256)) * 3
JOB_BYTES_MAX = 1 << 20


@pytest.fixture(scope="module")
def broker():
    jars, why = kafka.find_jars()
    if jars is None:
        pytest.skip(f"no real Kafka ({why}); librdkafka's mock cluster is what runs, in unit.test_target_kafka")
    print(f"a real Kafka {kafka.VERSION}")
    with kafka.Kafka() as broker:
        broker.launch_reader()
        yield broker


def test_a_job_arrives_to_the_byte_with_key_and_headers_when_it_is_due(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "orders", deliver={"to": broker.url})
    client.push("orders", "4:2\\x", ALL_BYTES, content_type="text/x-odd", meta={"kind": "a:b", "content-type": "mine"}, delay="300ms")
    time.sleep(0.2)
    assert totals(client, "orders")["acked"] == 0
    acked(client, "orders", 1)
    (record,) = broker.receive("orders", 1)
    assert (record.key, record.body) == (b"4:2\\x", ALL_BYTES)
    answer = record.headers
    assert (answer["tarry-topic"], answer["tarry-id"], answer["tarry-attempt"]) == ("orders", "4:2\\x", "1")
    assert (answer["kind"], answer["meta-content-type"], answer["content-type"]) == ("a:b", "mine", "text/x-odd")
    assert answer["tarry-due-at"].startswith("20") and answer["tarry-due-at"].endswith("Z")


def test_a_record_can_be_a_cloud_event(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "events", deliver={"to": broker.url, "cloudevents": {"type": "shop.{meta.kind}", "source": "/{meta.kind}"}})
    client.push("events", "1", b'{"a":1}', content_type="application/json", meta={"kind": "grüße"})
    acked(client, "events", 1)
    (record,) = broker.receive("events", 1)
    answer = record.headers
    assert (answer["ce_type"], answer["ce_source"], answer["ce_subject"], answer["ce_specversion"]) == ("shop.grüße", "/gr%C3%BC%C3%9Fe", "1", "1.0")
    assert answer["ce_id"].startswith("msg_") and answer["ce_time"].endswith("Z") and answer["content-type"] == "application/json"


def test_topic_and_key_are_filled_in_and_a_name_that_cannot_be_is_refused(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "odd", deliver={"to": broker.url, "topic": "odd.{meta.kind}", "key": "{meta.kind}/{id}"})
    client.push("odd", "1", b"x", meta={"kind": "new_1-a"})
    for ident, kind in (("2", "two words"), ("3", "grüße"), ("4", "a/b"), ("5", "x" * 250)):
        client.push("odd", ident, b"x", meta={"kind": kind})
    eventually(lambda: client.topic("odd")["counts"]["dead"] == 4)
    assert "topic's name is" in client.get("odd", "2")["last_error"]
    acked(client, "odd", 1)
    assert [(record.key, record.id) for record in broker.receive("odd.new_1-a", 1)] == [(b"new_1-a/1", "1")]


def test_a_body_of_a_mebibyte_arrives_or_dies_by_the_limit_of_the_topic(broker, start_delivering):
    client = start_delivering().client()
    body = os.urandom(JOB_BYTES_MAX)
    broker.create("big", 2 * JOB_BYTES_MAX)
    for topic in ("big", "narrow"):
        settle(client, topic, deliver={"to": broker.url})
        client.push(topic, "1", body)
    acked(client, "big", 1)
    assert [record.body for record in broker.receive("big", 1)] == [body]
    eventually(lambda: client.get("narrow", "1")["state"] == "dead")
    assert "too large" in client.get("narrow", "1")["last_error"]


def test_kill_9_of_the_broker_loses_nothing_and_doubles_nothing_by_itself(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "kill", deliver={"to": broker.url, "timeout": "20s"}, backoff="fixed:200ms")
    ids = [str(at) for at in range(600)]
    client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[:400]])
    eventually(lambda: totals(client, "kill")["acked"] > 20)
    broker.kill()
    already = totals(client, "kill")["acked"]
    client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[400:]])
    broker.start()
    acked(client, "kill", len(ids), 40)
    twice = check_copies(broker.receive("kill", len(ids)), ids)
    print(f"killed after {already} of {len(ids)}, {twice} arrived twice, {totals(client, 'kill')['nacked']} attempts failed")
    assert twice <= totals(client, "kill")["nacked"]


def test_a_frozen_broker_gets_everything_when_it_wakes(broker, start_delivering):
    frozen_broker_gets_everything(start_delivering().client(), broker.url, broker.frozen, broker.receive)


def test_a_login_comes_from_the_policy_file_and_rights_are_kept(broker, start_delivering):
    broker.create("forbidden", 1000)
    broker.deny("forbidden", kafka.USER)
    client = start_delivering(policy=[f"credential = {broker.login_url} {kafka.USER} {broker.password}"]).client()
    settle(client, "login", deliver={"to": broker.login_url}, max_attempts=1)
    settle(client, "forbidden", deliver={"to": broker.login_url}, max_attempts=1)
    client.push("login", "1", b"x")
    client.push("forbidden", "1", b"x")
    acked(client, "login", 1)
    assert [record.id for record in broker.receive("login", 1)] == ["1"]
    eventually(lambda: client.get("forbidden", "1")["state"] == "dead")
    assert "not allowed to write" in client.get("forbidden", "1")["last_error"]


def test_a_login_that_changes_is_read_again_with_the_policy_file(broker, start_delivering, tmp_path):
    """The producer that delivered has the old one, and the broker takes it no more."""
    login = f"credential = {broker.login_url} {kafka.USER} "
    server = start_delivering(policy=[login + broker.password])
    client = server.client()
    settle(client, "rotated", deliver={"to": broker.login_url, "timeout": "2s"})
    client.push("rotated", "1", b"x")
    acked(client, "rotated", 1)
    broker.kill()
    broker.set_password("another")
    write_policy(tmp_path / "policy", login + "another")
    server.proc.send_signal(signal.SIGHUP)
    client.push("rotated", "2", b"x")
    broker.start()
    acked(client, "rotated", 2)
    assert sorted(record.id for record in broker.receive("rotated", 2)) == ["1", "2"]


def test_a_wrong_login_is_reported_and_no_job_is_lost(broker, start_delivering):
    server = start_delivering(policy=[f"credential = {broker.login_url} {kafka.USER} wrong-password"])
    client = server.client()
    settle(client, "nologin", deliver={"to": broker.login_url}, max_attempts=1)
    client.push("nologin", "1", b"x")
    assert "password refused" in deliver_test(client, "nologin")
    assert client.get("nologin", "1")["state"] != "dead"
    assert "wrong-password" not in server.log()


def test_by_tls_a_job_arrives_and_a_stranger_is_sent_nothing(broker, start_delivering):
    login = f"credential = {broker.tls_url} {kafka.USER} {broker.password}"
    client = start_delivering(policy=[login, f"ca-file = {broker.certificate}"]).client()
    settle(client, "secret", deliver={"to": broker.tls_url})
    client.push("secret", "1", ALL_BYTES)
    acked(client, "secret", 1)
    assert [record.body for record in broker.receive("secret", 1)] == [ALL_BYTES]
    trusting_nobody = start_delivering(policy=[login]).client()
    settle(trusting_nobody, "secret", deliver={"to": broker.tls_url})
    assert "tls failed" in deliver_test(trusting_nobody, "secret")
    assert len(broker.receive("secret", 1)) == 1


def test_the_guard_also_checks_brokers_named_by_the_cluster(broker, start_delivering):
    """The name in the URL is allowed; the address that the cluster gives for its broker is not."""
    client = start_delivering(only=["allow-host = localhost", "allow-network = 127.0.0.0/8"]).client()
    settle(client, "named", deliver={"to": f"kafka://localhost:{broker.port}", "timeout": "3s"})
    answer = deliver_test(client, "named")
    assert '"done"' not in answer and "not allowed" in answer, answer
    client.push("named", "1", b"x")
    time.sleep(0.3)
    assert totals(client, "named")["acked"] == 0


def test_nothing_connects_if_the_guard_rejects(start_delivering):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        client = start_delivering(only=["allow-host = localhost"]).client()
        settle(client, "inner", deliver={"to": f"kafka://localhost:{listener.getsockname()[1]}"})
        assert "not public" in deliver_test(client, "inner")
        with pytest.raises(TimeoutError):
            listener.accept()
