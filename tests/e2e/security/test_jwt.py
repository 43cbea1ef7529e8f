"""JWTs of a company's own issuer: whom the server believes, and whom not."""

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import FLAGS
from issuer import Issuer, b64, openssl
from server import BINARY, eventually, slack


@pytest.fixture
def issuer(tmp_path):
    return Issuer(tmp_path / "issuer")


def flags_of(issuer, keys, *more):
    return (*FLAGS, "--jwt-issuer", issuer.name, "--jwt-audience", issuer.audience, "--jwt-keys", str(keys), *more)


def push(server, token, topic="orders-eu"):
    return server.client().call("PUT", f"/v1/topics/{topic}/jobs/{time.monotonic_ns()}", b"x", headers={"Authorization": f"Bearer {token}"})


def push_until(server, token, status, seconds=15):
    """Keys come a moment after the server listens."""
    end = time.monotonic() + seconds
    while (reply := push(server, token)).status != status and time.monotonic() < end:
        time.sleep(0.05)
    assert reply.status == status, reply.body
    return reply


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_of_the_issuer_lets_in(start_server, issuer, tmp_path, algorithm):
    issuer.key(algorithm)
    (tmp_path / "keys.json").write_text(issuer.jwks())
    server = start_server(*flags_of(issuer, tmp_path / "keys.json"))
    assert push(server, issuer.token()).status == 201
    assert push(server, issuer.token(), "mail").status == 403
    assert push(server, issuer.token(scope="read")).status == 403
    assert push(server, issuer.token(topics=None)).status == 403
    assert push(server, issuer.token(aud=["a", "tarry"], scope=["tarry:push"], topics="*"), "mail").status == 201
    assert "admitted" not in server.log() and issuer.token()[:40] not in server.log()


def test_keys_from_pem_and_other_names_of_claims(start_server, issuer, tmp_path):
    key = issuer.key("EdDSA")
    (tmp_path / "keys.pem").write_bytes(key.pem)
    server = start_server(*flags_of(issuer, tmp_path / "keys.pem", "--jwt-scope-claim", "roles", "--jwt-topics-claim", "https://tarry/topics"))
    assert push(server, issuer.token(scope=None, topics=None, roles=["push"], **{"https://tarry/topics": "orders-*,mail"}), "mail").status == 201
    assert push(server, issuer.token()).status == 403


def attacks(issuer, one, other):
    good, now = issuer.token(one), int(time.time())
    header, payload, signature = good.split(".")
    message = b64(json.dumps({"alg": "HS256", "kid": one.kid}).encode()) + "." + payload
    yield "alg none", b64(b'{"alg":"none"}') + "." + payload + "."
    yield "alg none, signature kept", b64(b'{"alg":"none"}') + "." + payload + "." + signature
    yield "HS256 by the public key", message + "." + b64(hmac.new(one.pem, message.encode(), hashlib.sha256).digest())
    yield "HS256 by the public key's bytes", message + "." + b64(hmac.new(one.der, message.encode(), hashlib.sha256).digest())
    yield "kid of another key", issuer.token(one, {"alg": one.algorithm, "kid": other.kid})
    yield "algorithm of another key", issuer.token(one, {"alg": other.algorithm, "kid": one.kid})
    yield "kid unknown", issuer.token(one, {"alg": one.algorithm, "kid": "nobody's"})
    yield "key in the header", issuer.token(other, {"alg": other.algorithm, "kid": one.kid, "jwk": other.jwk()})
    yield "critical", issuer.token(one, {"alg": one.algorithm, "kid": one.kid, "crit": ["x"], "x": 1})
    yield "expired", issuer.token(one, exp=now - 61)
    yield "not yet valid", issuer.token(one, nbf=now + 120)
    yield "another issuer", issuer.token(one, iss="https://id.example.evil")
    yield "another audience", issuer.token(one, aud="other")
    for claim in ("iss", "aud", "sub", "exp"):
        yield f"without {claim}", issuer.token(one, **{claim: None})
    yield "cut off", good[:-1]
    yield "longer", good + "A"
    yield "padded", good + "="
    yield "payload of another", ".".join((header, issuer.token(one, sub="root").split(".")[1], signature))
    twice = b64(json.dumps(issuer.claims()).encode()[:-1] + b',"sub":"root"}')
    yield "a claim twice", f"{header}.{twice}." + b64(one.sign(f"{header}.{twice}".encode()))
    yield "giant", issuer.token(one, topics=["orders-" + "x" * 150] * 60)
    yield "beyond all bounds", good + "A" * 20000
    yield "two dots and nothing else", ".."


def test_attacks_are_refused(start_server, issuer, tmp_path):
    one, stranger = issuer.key("RS256", "one"), Issuer(tmp_path / "stranger").key("ES256", "two")
    (tmp_path / "keys.json").write_text(issuer.jwks())
    server = start_server(*flags_of(issuer, tmp_path / "keys.json"))
    assert push(server, issuer.token(one)).status == 201
    output = set()
    for name, token in attacks(issuer, one, stranger):
        reply = push(server, token)
        assert reply.status in (401, 431), f"{name}: {reply.status} {reply.body}"
        if reply.status == 401:
            output.add((reply.json()["detail"], reply.headers["www-authenticate"]))
    assert len(output) == 1, "the answers differ by which part was wrong"
    assert push(server, issuer.token(one)).status == 201


def test_basic_takes_a_token_as_its_password(start_server, issuer, tmp_path):
    issuer.key()
    (tmp_path / "keys.json").write_text(issuer.jwks())
    server = start_server(*flags_of(issuer, tmp_path / "keys.json"))
    pair = base64.b64encode(b"any:" + issuer.token().encode()).decode()
    assert server.client().call("PUT", "/v1/topics/orders-eu/jobs/1", b"x", headers={"Authorization": f"Basic {pair}"}).status == 201


def test_a_new_key_at_the_issuer_is_followed(start_server, issuer):
    old = issuer.key("ES256", "old")
    with issuer.serve() as url:
        server = start_server(*flags_of(issuer, url))
        push_until(server, issuer.token(old), 201)
        new = issuer.key("ES256", "new")
        push_until(server, issuer.token(new), 201, 4)
        issuer.keys.remove(old)
        os.kill(server.proc.pid, 1)
        push_until(server, issuer.token(old), 401, 4)
        assert push(server, issuer.token(new)).status == 201


def test_unknown_keys_are_fetched_once_a_minute(start_server, issuer, tmp_path):
    key, stranger = issuer.key(), Issuer(tmp_path / "stranger").key("ES256", "no")
    with issuer.serve() as url:
        server = start_server(*flags_of(issuer, url))
        push_until(server, issuer.token(key), 201)
        for _ in range(30):
            assert push(server, issuer.token(stranger)).status == 401
            time.sleep(0.1)
        assert issuer.fetched == 2


def test_an_issuer_that_misbehaves_changes_nothing(start_server, issuer):
    key = issuer.key()

    def too_much(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65536)
        except OSError:
            pass

    def elsewhere(handler):
        handler.send_response(302)
        handler.send_header("Location", "/jwks.json")
        handler.end_headers()

    def nonsense(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"{\"keys\":[]}")

    with issuer.serve() as url:
        server = start_server(*flags_of(issuer, url))
        push_until(server, issuer.token(key), 201)
        for answer in (too_much, elsewhere, nonsense):
            issuer.answer, before = answer, server.log().count("issuer keys not read")
            os.kill(server.proc.pid, 1)
            end = time.monotonic() + 12
            while server.log().count("issuer keys not read") == before and time.monotonic() < end:
                time.sleep(0.05)
            assert server.log().count("issuer keys not read") == before + 1, answer.__name__
            assert push(server, issuer.token(key)).status == 201


def test_without_keys_yet_it_is_503_and_a_stop_is_quick(start_server, issuer):
    issuer.key()
    issuer.answer = lambda handler: time.sleep(8)
    with issuer.serve() as url:
        server = start_server(*flags_of(issuer, url))
        assert push(server, issuer.token()).status == 503
        began = time.monotonic()
        server.terminate()
        assert time.monotonic() - began < 4 * slack()


def test_the_keys_stay_in_force_while_their_file_cannot_be_read(start_server, issuer, tmp_path):
    issuer.key()
    keys = tmp_path / "keys.json"
    keys.write_text(issuer.jwks())
    server = start_server(*flags_of(issuer, keys))
    keys.write_text('{"keys":')
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: 'event="tokens not read"' in server.log())
    assert "issuer keys not read" not in server.log()
    assert push(server, issuer.token()).status == 201


def test_keys_are_fetched_by_https_with_a_valid_certificate(start_server, issuer, tmp_path):
    issuer.key()
    certificate, key = tmp_path / "cert.pem", tmp_path / "cert.key"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key), "-out", str(certificate),
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    with issuer.serve((str(certificate), str(key))) as url:
        server = start_server(*flags_of(issuer, url, "--jwt-ca", str(certificate)))
        push_until(server, issuer.token(), 201)
        server = start_server(*flags_of(issuer, url))
        eventually(lambda: "cannot fetch the keys of" in server.log(), 30)
        assert push(server, issuer.token()).status == 503


@pytest.mark.parametrize("given, output", [
    (["--jwt-issuer", "a"], "'--jwt-issuer' without '--jwt-audience'"),
    (["--jwt-issuer", "a", "--jwt-audience", "b"], "'--jwt-issuer' without '--jwt-keys'"),
    (["--jwt-keys", "k"], "'--jwt-keys' is for JWTs, also give --jwt-issuer"),
    (["--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", "http://id.example/jwks"], "keys without https://"),
    (["--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", "http://localhost.evil/jwks"], "keys without https://"),
    (["--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", "ftp://localhost/jwks"], "keys without https://"),
    (["--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", "/no/such"], "cannot read the keys in '/no/such', No such file or directory"),
])
def test_options_that_do_not_fit_are_refused(tmp_path, given, output):
    done = subprocess.run([str(BINARY), "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *given], capture_output=True, text=True, timeout=20)
    assert done.returncode in (1, 2)
    assert output in done.stderr
