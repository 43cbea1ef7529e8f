"""Delivery to JetStream of a real nats-server."""

import os
import time

import nats
import pytest
from delivery import acked, check_copies, deliver_test, settle, totals
from nats import NatsServer
from server import eventually

ALL_BYTES = bytes(range(256)) * 3

pytestmark = pytest.mark.skipif(not nats.is_here(), reason="no nats-server on this machine")


@pytest.fixture(scope="module")
def shared():
    with NatsServer() as server:
        yield server


@pytest.fixture
def start_nats():
    running = []

    def start(*args, **more):
        running.append(NatsServer(*args, **more))
        return running[-1].start()

    yield start
    for server in running:
        server.stop()


def test_a_job_arrives_to_the_byte_with_its_headers_when_it_is_due(shared, start_delivering):
    client = start_delivering().client()
    shared.stream("FIRST", ["first.>"])
    settle(client, "orders", deliver={"to": shared.url, "subject": "first.{topic}.{meta.kind}"})
    began = time.time()
    client.push("orders", "4:2\\x", ALL_BYTES, content_type="text/x-odd", meta={"kind": "paid", "nats-rollup": "all", "content-type": "x"}, delay="300ms")
    acked(client, "orders", 1)
    assert time.time() - began >= 0.299
    (message,) = shared.messages("FIRST")
    assert (message.subject, message.body) == ("first.orders.paid", ALL_BYTES)
    headers = message.headers
    assert (headers["tarry-topic"], headers["tarry-id"], headers["tarry-attempt"]) == ("orders", "4:2\\x", "1")
    assert (headers["content-type"], headers["meta-content-type"], headers["meta-nats-rollup"], headers["kind"]) == ("text/x-odd", "x", "all", "paid")
    assert headers["Nats-Msg-Id"].startswith("msg_") and headers["tarry-due-at"].endswith("Z")


def test_many_jobs_are_in_flight_together(shared, start_delivering):
    client = start_delivering().client()
    shared.stream("MANY", ["many"])
    settle(client, "many", deliver={"to": shared.url})
    ids = [str(at) for at in range(2000)]
    for at in range(0, len(ids), 500):
        client.push_batch([{"topic": "many", "id": ident, "body": "x" * 100} for ident in ids[at:at + 500]])
    acked(client, "many", len(ids))
    assert shared.count("MANY") == len(ids)


def test_a_repeated_attempt_is_stored_once_and_a_new_push_again(shared, start_delivering):
    """The first attempt is stored, but its answer does not arrive in time."""
    client = start_delivering().client()
    shared.stream("ONCE", ["once"])
    settle(client, "once", deliver={"to": shared.url, "timeout": "400ms"}, backoff="fixed:100ms")
    client.push("once", "0", b"x")
    acked(client, "once", 1)
    with shared.frozen():
        client.push("once", "1", b"x")
        eventually(lambda: totals(client, "once")["nacked"] > 0)
    acked(client, "once", 2)
    client.push("once", "1", b"again")
    acked(client, "once", 3)
    messages = shared.messages("ONCE")
    assert [(message.id, message.body) for message in messages] == [("0", b"x"), ("1", b"x"), ("1", b"again")]
    assert len({message.headers["Nats-Msg-Id"] for message in messages}) == 3


def test_a_subject_that_no_stream_takes_fails_until_it_exists(shared, start_delivering):
    client = start_delivering().client()
    settle(client, "late", deliver={"to": shared.url}, backoff="fixed:100ms", max_attempts=1000)
    client.push("late", "1", b"x")
    eventually(lambda: "no stream takes the subject 'late'" in (client.get("late", "1").get("last_error") or ""))
    shared.stream("LATE", ["late"])
    acked(client, "late", 1)
    assert [message.id for message in shared.messages("LATE")] == ["1"]


def test_messages_above_a_limit_are_refused_and_others_continue(start_nats, start_delivering):
    server = start_nats(more="max_payload: 100000")
    client = start_delivering().client()
    server.stream("BIG", ["big"], max_msg_size=50000)
    settle(client, "big", deliver={"to": server.url})
    for ident, size in (("a", 10), ("payload", 100000), ("stream", 60000), ("b", 40000)):
        client.push("big", ident, os.urandom(size))
    acked(client, "big", 2)
    eventually(lambda: client.topic("big")["counts"]["dead"] == 2)
    assert "max_payload" in client.get("big", "payload")["last_error"]
    assert "jetstream error 10054" in client.get("big", "stream")["last_error"]
    assert client.get("big", "stream")["attempt"] == client.get("big", "payload")["attempt"] == 1
    assert {message.id for message in server.messages("BIG")} == {"a", "b"}


def test_a_full_stream_fails_and_continues_when_there_is_room(shared, start_delivering):
    client = start_delivering().client()
    shared.stream("FULL", ["full"], max_msgs=2, discard="new")
    settle(client, "full", deliver={"to": shared.url}, backoff="fixed:100ms", max_attempts=1000)
    for at in range(3):
        client.push("full", str(at), b"x")
    eventually(lambda: totals(client, "full")["acked"] == 2 and totals(client, "full")["nacked"] > 0)
    shared.request("$JS.API.STREAM.PURGE.FULL", {})
    acked(client, "full", 3)


def test_fields_cannot_choose_a_subject_of_the_server(shared, start_delivering):
    client = start_delivering().client()
    shared.stream("SAFE", ["safe"])
    settle(client, "inner", deliver={"to": shared.url, "subject": "{meta.to}"})
    bad = ["$JS.API.STREAM.DELETE.SAFE", "_INBOX.test", "sa>fe", "*", "a..b", ".a", "a.", "two words", ""]
    for at, subject in enumerate(bad):
        client.push("inner", str(at), b"x", meta={"to": subject})
    client.push("inner", "good", b"x", meta={"to": "safe"})
    acked(client, "inner", 1)
    eventually(lambda: client.topic("inner")["counts"]["dead"] == len(bad))
    assert shared.count("SAFE") == 1


def test_a_kill_of_the_server_loses_nothing_and_stores_nothing_twice(start_nats, start_delivering):
    server = start_nats()
    client = start_delivering().client()
    server.stream("KILL", ["kill"])
    settle(client, "kill", deliver={"to": server.url, "timeout": "5s"}, backoff="fixed:200ms")
    ids = [str(at) for at in range(3000)]
    for at in range(0, 2500, 500):
        client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[at:at + 500]])
    eventually(lambda: totals(client, "kill")["acked"] > 20)
    server.kill()
    already = totals(client, "kill")["acked"]
    client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[2500:]])
    server.start()
    acked(client, "kill", len(ids), 40)
    messages = server.messages("KILL")
    print(f"killed after {already} of {len(ids)}, {check_copies(messages, ids)} stored twice")
    assert len({message.headers["Nats-Msg-Id"] for message in messages}) == len(ids)


def test_the_next_server_is_used_if_one_is_gone(shared, start_delivering, free_port_of_nobody):
    client = start_delivering().client()
    shared.stream("NEXT", ["next"])
    settle(client, "next", deliver={"to": f"nats://127.0.0.1:{free_port_of_nobody},127.0.0.1:{shared.port}"})
    client.push("next", "1", b"x")
    acked(client, "next", 1)
    assert client.call("GET", "/v1/topics/next").json()["totals"]["nacked"] == 0


@pytest.fixture
def free_port_of_nobody():
    from server import free_port
    return free_port()


USERS = """authorization {{ users: [
  {{ user: admin, password: admin }},
  {{ user: {user}, password: {password}, permissions: {{ publish: {{ deny: ["forbidden.>"] }} }} }}
] }}"""


def test_users_log_in_and_a_forbidden_subject_fails_alone(start_nats, start_delivering):
    server = start_nats(USERS.format(user=nats.USER, password='"pass\\"word\\\\x"'))
    tarry = start_delivering(policy=[f"credential = {server.url} {nats.USER} {nats.PASSWORD}"])
    client = tarry.client()
    server.stream("USERS", ["users", "forbidden.>"])
    settle(client, "users", deliver={"to": server.url, "subject": "{meta.to}"}, max_attempts=2, backoff="fixed:100ms")
    for at in range(20):
        client.push("users", str(at), b"x", meta={"to": "forbidden.x" if at % 10 == 5 else "users"})
    acked(client, "users", 18)
    eventually(lambda: client.topic("users")["counts"]["dead"] == 2)
    assert "Permissions Violation for Publish" in client.get("users", "5")["last_error"]
    assert server.count("USERS") == 18
    assert "pass" + '"' not in tarry.log()


def test_a_token_is_a_login_and_a_wrong_one_is_reported(start_nats, start_delivering):
    server = start_nats(f"authorization {{ token: {nats.TOKEN} }}")
    server.stream("TOKEN", ["token"])
    tarry = start_delivering(policy=[f"credential = {server.url} {nats.TOKEN}"])
    client = tarry.client()
    settle(client, "token", deliver={"to": server.url})
    client.push("token", "1", b"x")
    acked(client, "token", 1)
    assert nats.TOKEN not in tarry.log()
    other = start_delivering(policy=[f"credential = {server.url} wrong-token"])
    client = other.client()
    settle(client, "token", deliver={"to": server.url})
    assert "login refused: Authorization Violation" in deliver_test(client, "token")
    client.push("token", "2", b"x")
    time.sleep(0.5)
    assert client.get("token", "2")["attempt"] <= 1 and client.topic("token")["counts"]["dead"] == 0
    assert "wrong-token" not in other.log()


def test_tls_is_verified_and_never_left_out(start_nats, start_delivering):
    server = start_nats(tls=True)
    server.stream("TLS", ["tls"])
    client = start_delivering(policy=[f"ca-file = {server.directory}/cert.pem"]).client()
    settle(client, "tls", deliver={"to": server.url})
    client.push("tls", "1", b"x" * 200000)
    acked(client, "tls", 1)
    assert [len(message.body) for message in server.messages("TLS")] == [200000]
    settle(client, "plain", deliver={"to": server.url.replace("natss", "nats")})
    assert "requires TLS" in deliver_test(client, "plain")
    client = start_delivering().client()
    settle(client, "tls", deliver={"to": server.url})
    assert "certificate" in deliver_test(client, "tls")


def test_a_server_without_tls_gets_no_login(shared, start_delivering):
    client = start_delivering(policy=[f"credential = natss://127.0.0.1:{shared.port} {nats.TOKEN}"]).client()
    settle(client, "tls", deliver={"to": shared.url.replace("nats:", "natss:")})
    assert "does not offer TLS" in deliver_test(client, "tls")
