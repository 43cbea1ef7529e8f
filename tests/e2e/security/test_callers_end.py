"""Callers who end, or are changed, while they are connected: revoked, expired, rotated; and what reaches from one topic to another."""

import datetime
import json
import os
import subprocess
import time

import pytest
from client import request_bytes
from conftest import FLAGS
from server import BINARY, eventually, slack, together
from tokens import Token, TokenFile, sha256

ALL, WORKER = Token("all"), Token("worker", ["consume"], ["orders"])
LOOKS_S = 4.0  # within so long a change of the file has come to all: it is looked at each second, and so are takes that wait


@pytest.fixture
def doors(start_server, tmp_path):
    """doors(*tokens, …) is a server that knows these."""

    def start(*tokens, start=start_server, **options):
        file = TokenFile(tmp_path / "tokens", *tokens)
        server = start(*FLAGS, "--tokens", str(file.path), "--audit", str(tmp_path / "audit"), **options)
        server.tokens = file
        return server

    return start


def after(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def status_of(connection, token, method="POST", target="/v1/topics/orders/take"):
    return connection.call(method, target, headers=token.headers).status


def test_a_revoked_token_is_refused_at_the_next_request(doors):
    server = doors(ALL, WORKER)
    connection, other = server.connection(), server.connection()
    assert status_of(connection, WORKER) == 200
    server.tokens.write(ALL, Token("worker", ["consume"], ["orders"], revoked=after(-1)))
    eventually(lambda: status_of(connection, WORKER) == 401, LOOKS_S)
    assert status_of(other, ALL) == 200 and status_of(connection, ALL) == 200


def test_a_removed_token_ends_waiting_takes_and_changed_rights_apply(doors):
    server = doors(ALL, WORKER, Token("other", ["consume"], ["orders"]))
    connection, other = server.connection(), server.connection()
    assert status_of(connection, WORKER) == status_of(other, Token("other")) == 200
    server.tokens.write(ALL, Token("other", ["consume"], ["mail"]))
    eventually(lambda: status_of(connection, WORKER) == 401, LOOKS_S)
    assert status_of(other, Token("other")) == 403
    assert status_of(other, Token("other"), target="/v1/topics/mail/take") == 200


@pytest.mark.parametrize("how", ["revoked", "gone", "narrowed"])
def test_a_take_that_waits_for_a_revoked_caller_ends(doors, how):
    server = doors(ALL, WORKER)
    waiting, pipelined, kept = server.connection(), server.connection(), server.connection()
    wait = request_bytes("POST", "/v1/topics/orders/take?wait=60s", headers=WORKER.headers)
    waiting.send(wait)
    pipelined.send(request_bytes("POST", "/v1/topics/orders/take?wait=60s", headers=ALL.headers))
    kept.send(request_bytes("POST", "/v1/topics/orders/take?wait=60s", headers=ALL.headers))
    eventually(lambda: b"\ntarry_waiting_takes 3\n" in server.client().call("GET", "/metrics", headers=ALL.headers).body)
    began = time.monotonic()
    narrowed = {"revoked": [Token("worker", ["consume"], ["orders"], revoked=after(-1))], "gone": [], "narrowed": [Token("worker", ["consume"], ["mail"])]}[how]
    server.tokens.write(ALL, *narrowed)
    reply = waiting.read("POST")
    assert time.monotonic() - began < LOOKS_S * slack()
    assert (reply.status, reply.code) == (401, "unauthorized") and "www-authenticate" in reply.headers and not reply.closes
    # The others wait on, and get what comes.
    for ident in ("1", "2"):
        assert server.client().call("PUT", f"/v1/topics/orders/jobs/{ident}", b"x", ALL.headers).status == 201
    assert len(pipelined.read("POST").json()["jobs"]) == len(kept.read("POST").json()["jobs"]) == 1


def test_no_job_goes_to_a_caller_that_expires_while_waiting(doors):
    server = doors(ALL, Token("worker", ["consume"], ["orders"], expires=after(1.5)))
    connection = server.connection()
    connection.send(request_bytes("POST", "/v1/topics/orders/take?wait=60s", headers=WORKER.headers))
    began = time.monotonic()
    reply = connection.read("POST")
    assert reply.status == 401 and 1.0 < time.monotonic() - began < (1.5 + LOOKS_S) * slack()
    assert server.client().call("PUT", "/v1/topics/orders/jobs/1", b"x", ALL.headers).status == 201
    assert status_of(connection, WORKER) == 401
    job = server.client().call("GET", "/v1/topics/orders/jobs/1", headers=ALL.headers).json()
    assert job["state"] == "ready" and job["attempt"] == 0


def test_no_job_goes_to_an_expired_caller_before_the_check(doors):
    """Jobs come all the time: those pushed once the token has ended stay with the queue, and cost no attempt."""
    server = doors(ALL, Token("worker", ["consume"], ["orders"], expires=(end := after(1.2))))
    ends = datetime.datetime.fromisoformat(end.replace("Z", "+00:00")).timestamp()
    connection = server.connection()
    connection.send(request_bytes("POST", "/v1/topics/orders/take?wait=60s", headers=WORKER.headers))
    time.sleep(ends + 0.02 - time.time())
    assert server.client().call("PUT", "/v1/topics/orders/jobs/1", b"x", ALL.headers).status == 201
    assert connection.read("POST").status == 401
    job = eventually(lambda: (job := server.client().call("GET", "/v1/topics/orders/jobs/1", headers=ALL.headers).json())["state"] == "ready" and job)
    assert job["attempt"] == 0


def test_a_rotated_token_has_two_secrets_until_the_old_one_ends(doors):
    old, new = Token("worker", ["consume"], ["orders"]), Token("new")
    both = {"sha256": sha256(new.secret), "old-sha256": sha256(old.secret)}
    server = doors(ALL, Token("worker", ["consume"], ["orders"], **both, **{"old-until": after(3)}))
    by_old, by_new = server.connection(), server.connection()
    assert status_of(by_old, old) == status_of(by_new, new) == 200
    assert status_of(by_old, new) == status_of(by_new, old) == 200
    eventually(lambda: status_of(by_old, old) == 401, 3 + LOOKS_S)
    assert status_of(by_old, new) == 200


def test_a_request_with_a_slow_body_is_checked_again(doors):
    """Admitted with its head, revoked before its last byte."""
    server = doors(ALL, Token("pusher", ["push"], ["orders"]))
    connection = server.connection()
    head = request_bytes("PUT", "/v1/topics/orders/jobs/slow", b"", Token("pusher").headers).replace(b"Content-Length: 0", b"Content-Length: 100000")
    connection.send(head + b"x" * 50_000)
    time.sleep(0.1)
    server.tokens.write(ALL)
    eventually(lambda: status_of(server.connection(), Token("pusher"), "PUT", "/v1/topics/orders/jobs/x") == 401, LOOKS_S)
    connection.send(b"x" * 50_000)
    assert connection.read("PUT").status == 401
    assert server.client().call("GET", "/v1/topics/orders/jobs/slow", headers=ALL.headers).status == 404


def test_many_change_while_many_call(doors):
    """No request is ever answered for another one than who sent it."""
    tokens = [Token(f"t{n}", ["push"], [f"topic-{n}"]) for n in range(8)]
    server = doors(ALL, *tokens)
    ends = time.monotonic() + 2

    def call(n):
        connection, seen = server.connection(), set()
        while time.monotonic() < ends:
            order = [(n + step) % 8 for step in range(8)]
            connection.send(b"".join(request_bytes("PUT", f"/v1/topics/topic-{n}/jobs/1", b"x", tokens[by].headers) for by in order))
            for by in order:
                status = connection.read("PUT").status
                assert status in ((200, 201, 401) if by == n else (403, 401)), (n, by, status)
                seen.add(status)
        return seen

    def change():
        while time.monotonic() < ends:
            for gone in range(8):
                server.tokens.write(ALL, *(token for token in tokens if token is not tokens[gone]))
                time.sleep(0.3)
        server.tokens.write(ALL, *tokens)

    seen = together(change, *(lambda n=n: call(n) for n in range(6)))
    assert {401, 403} <= set().union(*seen[1:])


# ---- from one topic to another ----


def test_dead_letters_need_admin_rights_to_the_destination(doors, start_delivering):
    both, one = Token("both", ["admin"], ["orders", "graves"]), Token("one", ["admin"], ["orders"])
    server = doors(ALL, both, one, start=start_delivering)
    client = server.client()
    forward = json.dumps({"dead_letter": {"to": "graves"}}).encode()

    def settle(token, body=forward, method="PUT"):
        reply = client.call(method, "/v1/topics/orders", body, token.headers)
        return reply.status, reply.code

    client.call("PUT", "/v1/topics/graves", b"", ALL.headers)
    assert settle(one) == (403, "forbidden") and settle(one, method="PATCH") == (404, "not_found")
    assert settle(one, json.dumps({"dead_letter": {"to": "absent"}}).encode()) == (403, "forbidden")
    assert settle(both)[0] in (200, 201)
    # Existing settings of the topic may stay while another one is changed.
    assert settle(one, b'{"ttl":"1d"}', "PATCH") == (200, None)
    assert settle(one, b'{"dead_letter":{"keep":{"count":7}}}', "PATCH") == (200, None)
    assert settle(one, b'{"dead_letter":{"to":"mail"}}', "PATCH") == (403, "forbidden")
    assert settle(one, b'{"dead_letter":{"\\u0074o":"mail"}}', "PATCH") == (403, "forbidden")
    assert settle(one, b'{"dead_letter":{"to":"\\u006dail"}}') == (403, "forbidden")
    assert settle(one, b'{"dead_letter":null}', "PATCH") == (200, None)
    assert settle(one, forward, "PATCH") == (403, "forbidden")
    outcomes = [event["outcome"] for event in map(json.loads, (server.tokens.path.parent / "audit").read_text().splitlines()) if event.get("caller") == "one"]
    assert outcomes.count("forbidden") >= 5 and set(outcomes) <= {"forbidden", "ok", "not_found"}


# ---- the command line ----


def test_export_import_and_work_need_the_documented_scopes(doors, tmp_path):
    """docs/api.md, "Who may call"."""
    tokens = {scope: Token(f"only-{scope}", [scope], ["orders", "mail"]) for scope in ("read", "push", "consume", "admin")}
    both = Token("both", ["push", "admin"], ["orders", "mail"])
    server = doors(ALL, *tokens.values(), both)
    client, dump = server.client(), tmp_path / "dump"

    def tarry(token, *arguments):
        return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "TARRY_URL": server.url, "TARRY_TOKEN": token.secret})

    for topic in ("orders", "mail", "foreign"):
        client.call("PUT", f"/v1/topics/{topic}", b'{"max_attempts":3}', ALL.headers)
        client.call("PUT", f"/v1/topics/{topic}/jobs/1?delay=1h", b"x", ALL.headers)
    for scope in ("push", "consume", "admin"):
        ended = tarry(tokens[scope], "export", "--output", dump)
        assert ended.returncode != 0 and "lacks the scope 'read'" in ended.stderr, ended.stderr
        dump.unlink(missing_ok=True)
    ended = tarry(tokens["read"], "export", "--output", dump)
    assert ended.returncode == 0, ended.stderr
    text = dump.read_text()
    assert "orders" in text and "mail" in text and "foreign" not in text
    for topic in ("orders", "mail"):
        client.call("DELETE", f"/v1/topics/{topic}", b"", ALL.headers)
    for scope in ("read", "consume", "push", "admin"):
        ended = tarry(tokens[scope], "import", dump)
        assert ended.returncode != 0 and "lacks the scope" in ended.stdout + ended.stderr, ended.stdout + ended.stderr
    ended = tarry(both, "import", dump)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    client.call("POST", "/v1/topics/orders/jobs/1/run", b"", ALL.headers)
    for token, done in ((tokens["read"], False), (tokens["consume"], True)):
        assert (tarry(token, "take", "orders").returncode == 0) == done
