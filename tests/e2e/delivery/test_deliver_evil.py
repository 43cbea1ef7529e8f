"""Endpoints that misbehave do not affect others; TLS and HTTP/2 with real servers."""

import datetime
import os
import subprocess

import pytest
from delivery import counts, settle, totals
from evil import Evil
from nginx import Nginx
from old_http import OldHttp
from server import IS_SANITIZED, eventually

GOOD, JOBS, SPREAD_MS = 99, 8, 1500


@pytest.fixture(autouse=True)
def no_bundle(monkeypatch):
    """A bundle of all authorities would be read for every connection."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


@pytest.fixture
def nginx(tmp_path):
    started = []

    def start(**options):
        started.append(Nginx(tmp_path / f"nginx-{len(started)}", **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def evil():
    evil = Evil()
    yield evil
    evil.stop()


# ---- one among a hundred ----


def late_ms(line):
    """Computes the lateness in whole milliseconds from a log line "1795000000.123 2026-11-18T11:06:40.120Z", by both clocks."""
    due = datetime.datetime.fromisoformat(line[1].replace("Z", "+00:00"))
    return round((float(line[0]) - due.timestamp()) * 1000)


def run_phase(client, good, number):
    """Jobs for all good endpoints, spread over a while; the lateness of each, in order."""
    before = len(good.came())
    items = [{"topic": f"good-{n}", "id": f"{number}-{i}", "delay": f"{200 + (n * JOBS + i) * SPREAD_MS // (GOOD * JOBS)}ms", "body": "x" * 200}
             for n in range(GOOD) for i in range(JOBS)]
    client.push_batch(items)
    eventually(lambda: len(good.came()) - before >= len(items), 30, 0.05)
    return sorted(late_ms(line) for line in good.came()[before:])


def p99(values):
    return values[len(values) * 99 // 100]


def test_a_bad_endpoint_does_not_delay_ninety_nine_good_ones(start_delivering, nginx, evil):
    good = nginx(fields="$msec $http_tarry_due_at")
    server = start_delivering(policy=["allow-host = *"])
    client = server.client()
    baseline = server.descriptors()
    for n in range(GOOD):
        settle(client, f"good-{n}", deliver={"to": f"http://127.0.0.{n + 2}:{good.port}/"})
    settle(client, "bad", deliver={"to": evil.url, "timeout": "300ms"}, backoff="fixed:20ms")
    run_phase(client, good, 0)  # connections, memory
    alone = run_phase(client, good, 1)
    resident = server.resident_bytes()
    client.push_batch([{"topic": "bad", "id": f"b{i}", "body": "x"} for i in range(200)])
    beside = run_phase(client, good, 2)
    print(f"lateness p99 of {GOOD} good endpoints: alone {p99(alone):.1f} ms, beside a bad one {p99(beside):.1f} ms, "
          f"ratio {p99(beside) / max(p99(alone), 0.1):.2f}")
    assert min(alone) >= -1 and min(beside) >= -1  # two clocks, each cut to its millisecond
    assert p99(beside) <= 3 * p99(alone) + 250
    assert evil.connections > 3 and totals(client, "bad")["acked"] == 0
    assert all(totals(client, f"good-{n}")["acked"] == 3 * JOBS for n in range(0, GOOD, 14))
    client.delete_topic("bad")
    eventually(lambda: server.descriptors() <= baseline + 4, 25, 0.2)
    assert IS_SANITIZED or server.resident_bytes() < resident + (16 << 20)


# ---- TLS ----


def make_certificates(directory):
    """An authority of the test's own, and a certificate of it for localhost."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=a test's authority", "-days", "2")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names",
            "-out", "cert.pem", "-days", "2")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


def tls(certificates):
    return f"ssl_certificate {certificates}/cert.pem; ssl_certificate_key {certificates}/key.pem;"


@pytest.mark.parametrize("listen, protocol", [("ssl http2", "HTTP/2.0"), ("ssl", "HTTP/1.1")])
def test_http2_is_used_if_the_peer_supports_it(start_delivering, nginx, certificates, listen, protocol):
    peer = nginx(fields="$server_protocol $connection $http_webhook_signature", listen=listen, more=tls(certificates))
    client = start_delivering(policy=[f"ca-file = {certificates}/ca.pem"]).client()
    settle(client, "orders", deliver={"to": f"https://localhost:{peer.port}/{{id}}", "max_in_flight": 10})
    client.push_batch([{"topic": "orders", "id": str(i), "body": "x" * 2000} for i in range(290)])
    client.push_batch([{"topic": "orders", "id": f"long-{i}", "body": "x" * 200000} for i in range(10)])
    eventually(lambda: totals(client, "orders")["acked"] == 300)
    came = eventually(lambda: len(peer.came()) >= 300 and peer.came())
    assert {line[0] for line in came} == {protocol}
    assert len({line[1] for line in came}) <= 20, "connections are used again"
    assert all(line[2].startswith("v1,") for line in came)


def test_an_endpoint_that_withdraws_http2_is_called_by_http1(start_delivering, certificates):
    """Requests that it rejects by HTTP/2 it accepts by HTTP/1.1, in the same attempt; later ones use that immediately."""
    peer = OldHttp(certificates)
    client = start_delivering(policy=[f"ca-file = {certificates}/ca.pem"]).client()
    settle(client, "orders", deliver={"to": f"https://localhost:{peer.port}/", "max_in_flight": 1}, max_attempts=1)
    client.push_batch([{"topic": "orders", "id": str(i), "body": "x" * 3000} for i in range(10)])
    eventually(lambda: totals(client, "orders")["acked"] + counts(client, "orders")["dead"] == 10)
    peer.stop()
    assert totals(client, "orders")["acked"] == 10, client.get("orders", "0")["last_error"]
    assert [came for came in peer.came if came[0] == "http/1.1"] == [("http/1.1", 3000)] * 10
    assert len(peer.came) == 11, "after one request the client remembers that the peer speaks HTTP/2"


@pytest.mark.parametrize("host, trusts, error", [
    ("localhost", False, "certificate not trusted"),
    ("127.0.0.1", True, "certificate is for another host"),
])
def test_a_certificate_that_proves_nothing_gets_nothing(start_delivering, nginx, certificates, host, trusts, error):
    peer = nginx(fields="$server_protocol", listen="ssl http2", more=tls(certificates))
    client = start_delivering(policy=[f"ca-file = {certificates}/ca.pem"] if trusts else []).client()
    settle(client, "orders", deliver={"to": f"https://{host}:{peer.port}/"}, max_attempts=1)
    client.push_batch([{"topic": "orders", "id": "1", "body": "x"}])
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    assert client.get("orders", "1")["last_error"] == error
    assert peer.came() == []


def test_proxies_of_the_environment_are_not_used(start_delivering, nginx, evil):
    peer = nginx(fields="$request_uri")
    environment = {name: evil.url for name in ("http_proxy", "https_proxy", "ALL_PROXY", "HTTPS_PROXY")}
    client = start_delivering(env={**os.environ, **environment}).client()
    settle(client, "orders", deliver={"to": f"http://127.0.0.1:{peer.port}/here"})
    client.push_batch([{"topic": "orders", "body": "x"}])
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    assert peer.came() == [["/here"]] and evil.connections == 0
