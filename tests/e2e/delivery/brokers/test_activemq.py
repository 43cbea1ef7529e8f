"""Delivery by STOMP: to a real ActiveMQ, and by TLS to a peer of the test's own."""

import os
import socket
import ssl
import threading
import time

import activemq
import pytest
from activemq import ActiveMQ
from child import certificate
from delivery import acked, check_copies, deliver_test, frozen_broker_gets_everything, settle, totals
from server import eventually, free_port

ALL_BYTES = bytes(range(256)) * 3

needs_broker = pytest.mark.skipif(not activemq.is_here(), reason="no ActiveMQ on this machine")


@pytest.fixture(scope="module")
def brokers():
    """A broker without a login, and one with a login; started together at the first use."""
    running = [ActiveMQ().launch(), ActiveMQ(login=True).launch()]
    yield running
    for broker in running:
        broker.stop()


@pytest.fixture
def broker(brokers):
    return brokers[0].wait_ready()


@pytest.fixture
def strict(brokers):
    return brokers[1].wait_ready()


# ---- a real broker ----


@needs_broker
def test_a_job_arrives_to_the_byte_with_its_headers_when_it_is_due(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "orders", deliver={"to": broker.url})
    began = time.time()
    client.push("orders", "4:2\\x", ALL_BYTES, content_type="text/x-odd", meta={"kind": "a:b\\c", "transaction": "t"}, delay="300ms")
    (message,) = broker.receive("orders", 1)
    assert message.at - began >= 0.299
    assert message.body == ALL_BYTES
    answer = message.headers
    assert (answer["tarry-topic"], answer["tarry-id"], answer["tarry-attempt"]) == ("orders", "4:2\\x", "1")
    assert (answer["kind"], answer["meta-transaction"], answer["content-type"], answer["persistent"]) == ("a:b\\c", "t", "text/x-odd", "true")
    assert answer["tarry-due-at"].startswith("20") and answer["tarry-due-at"].endswith("Z")
    acked(client, "orders", 1)


@needs_broker
def test_the_next_broker_is_used_if_one_is_gone(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "next", deliver={"to": broker.url.replace("stomp://", f"stomp://127.0.0.1:{free_port()},")})
    client.push("next", "1", b"x")
    acked(client, "next", 1)


@needs_broker
def test_a_body_of_a_mebibyte_arrives(broker, start_delivering):
    client = start_delivering().client()
    body = os.urandom(1 << 20)
    settle(client, "big", deliver={"to": broker.url})
    for at in range(4):
        client.push("big", str(at), body)
    messages = broker.receive("big", 4)
    assert sorted(message.id for message in messages) == ["0", "1", "2", "3"]
    assert all(message.body == body for message in messages)
    acked(client, "big", 4)


@needs_broker
def test_destinations_of_odd_letters_are_found_and_cannot_be_two(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "odd", deliver={"to": broker.url, "destination": "/queue/odd.{topic}/{meta.kind}"})
    kinds = ["plain", "a:b", "back\\slash", "50%25", "grüße", "two words", "{braces}"]
    for at, kind in enumerate(kinds):
        client.push("odd", str(at), b"x", meta={"kind": kind})
    client.push("odd", "split", b"x", meta={"kind": "a,queue://elsewhere"})
    acked(client, "odd", len(kinds))
    for at, kind in enumerate(kinds):
        assert [message.id for message in broker.receive("odd.odd/" + kind, 1, quiet=0.02)] == [str(at)], kind
    eventually(lambda: client.get("odd", "split")["state"] == "dead")
    assert "','" in client.get("odd", "split")["last_error"]


@needs_broker
def test_a_forbidden_destination_fails_without_delaying_others(broker, start_delivering):
    client = start_delivering().client()
    settle(client, "mixed", deliver={"to": broker.url, "destination": "/queue/{meta.where}"}, max_attempts=2, backoff="fixed:100ms")
    for at in range(40):
        client.push("mixed", str(at), b"x", meta={"where": "forbidden.q" if at % 20 == 10 else "allowed"})
    acked(client, "mixed", 38)
    eventually(lambda: client.topic("mixed")["counts"]["dead"] == 2)
    assert "not authorized" in client.get("mixed", "10")["last_error"]
    check_copies(broker.receive("allowed", 38), [str(at) for at in range(40) if at % 20 != 10])


@needs_broker
def test_kill_9_of_the_broker_loses_nothing(start_delivering):
    with ActiveMQ() as broker:
        client = start_delivering().client()
        settle(client, "kill", deliver={"to": broker.url, "timeout": "5s"}, backoff="fixed:200ms")
        ids = [str(at) for at in range(600)]
        client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[:500]])
        eventually(lambda: totals(client, "kill")["acked"] > 20)
        broker.kill()
        already = totals(client, "kill")["acked"]
        client.push_batch([{"topic": "kill", "id": ident, "body": "x" * 300} for ident in ids[500:]])
        broker.start()
        acked(client, "kill", len(ids), 40)
        messages = broker.receive("kill", len(ids))
        twice = check_copies(messages, ids)
        print(f"killed after {already} of {len(ids)}, {twice} arrived twice")
        assert twice <= 64, "no more than were under way"


@needs_broker
def test_a_frozen_broker_gets_everything_when_it_wakes(start_delivering, broker):
    frozen_broker_gets_everything(start_delivering().client(), broker.url, broker.frozen, broker.receive)


@needs_broker
def test_a_login_comes_from_the_policy_file(strict, start_delivering):
    client = start_delivering(policy=[f"credential = {strict.url} {activemq.USER} {activemq.PASSWORD}"]).client()
    settle(client, "login", deliver={"to": strict.url})
    client.push("login", "1", b"x")
    assert [message.id for message in strict.receive("login", 1)] == ["1"]
    acked(client, "login", 1)
    assert activemq.PASSWORD not in client.call("GET", "/v1/topics/login").body.decode()


@needs_broker
def test_a_missing_login_is_reported_with_a_reason(strict, start_delivering):
    server = start_delivering(policy=[f"credential = {strict.url} {activemq.USER} wrong-password"])
    client = server.client()
    settle(client, "login", deliver={"to": strict.url})
    assert "login refused" in deliver_test(client, "login")
    assert "wrong-password" not in server.log()


def test_nothing_connects_if_the_guard_rejects(start_delivering):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        client = start_delivering(only=["allow-host = localhost"]).client()
        settle(client, "inner", deliver={"to": f"stomp://localhost:{listener.getsockname()[1]}"})
        client.push("inner", "1", b"x")
        assert "not public" in deliver_test(client, "inner")
        with pytest.raises(TimeoutError):
            listener.accept()
        assert client.get("inner", "1")["attempt"] <= 1


# ---- TLS ----


class TlsPeer:
    """Speaks as much STOMP as one message needs."""

    def __init__(self, directory, name):
        self.certificate = certificate(directory, name)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, directory / "key.pem")
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        self.got = b""
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(plain, server_side=True) as peer:
                    self._talk(peer)
            except OSError:
                plain.close()

    def _talk(self, peer):
        seen = b""
        while data := peer.recv(1 << 16):
            seen += data
            self.got += data
            while b"\n\0" in seen or b"END\0" in seen:
                frame, _, seen = seen.partition(b"\0")
                if frame.startswith(b"CONNECT\n"):
                    peer.sendall(b"CONNECTED\nversion:1.2\n\n\0")
                elif b"SEND\n" in frame:
                    receipt = frame.split(b"\nreceipt:")[1].split(b"\n")[0]
                    peer.sendall(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()


@pytest.fixture
def tls_peer(tmp_path):
    peers = []

    def start(name):
        (tmp_path / "tls").mkdir()
        peers.append(TlsPeer(tmp_path / "tls", name))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


def test_by_tls_a_job_arrives_whole(tls_peer, start_delivering):
    peer = tls_peer("DNS:localhost,IP:127.0.0.1")
    client = start_delivering(policy=[f"ca-file = {peer.certificate}"]).client()
    body = b"b" * (1 << 19) + b"END"
    settle(client, "secret", deliver={"to": f"stomps://127.0.0.1:{peer.port}"})
    client.push("secret", "1", body)
    acked(client, "secret", 1)
    assert body in peer.got


@pytest.mark.parametrize("name, trusted", [("DNS:elsewhere.example", True), ("IP:127.0.0.1", False)])
def test_by_tls_a_stranger_is_sent_nothing(tls_peer, start_delivering, name, trusted):
    peer = tls_peer(name)
    client = start_delivering(policy=[f"ca-file = {peer.certificate}"] if trusted else []).client()
    settle(client, "secret", deliver={"to": f"stomps://127.0.0.1:{peer.port}"})
    assert "tls failed" in deliver_test(client, "secret")
    assert peer.got == b""
