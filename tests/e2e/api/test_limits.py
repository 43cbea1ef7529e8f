"""Limits: each at the limit and one above, and the refusal names it."""

import json
import re
import socket
import subprocess
import time

import pytest
from client import Client, Connection, Refused, request_bytes
from conftest import FLAGS
from server import BINARY, IS_SANITIZED, REPO, eventually
from tokens import Token, TokenFile


def refusal(call, *args, **options):
    with pytest.raises(Refused) as refused:
        call(*args, **options)
    return refused.value


def test_a_full_topic_rejects_the_next_job_with_a_reason(client):
    client.put_topic("full", max_jobs=3)
    for n in range(3):
        client.push("full", f"job{n}")
    answer = refusal(client.push, "full", "one-more")
    assert (answer.status, answer.code, answer.reply.json()["limit"]) == (507, "topic_full", "max_jobs")
    assert client.push("full", "job0", b"again")["result"] == "replaced"
    client.ack(client.take("full")[0]["lease"])
    assert client.push("full", "one-more")["result"] == "created"


def test_a_batch_is_let_in_item_by_item(client):
    client.put_topic("full", max_jobs=2)
    items = [{"topic": topic, "id": str(n)} for n in range(3) for topic in ("full", "other")]
    results = client.push_batch(items)
    assert [result["result"] for result in results] == ["created"] * 4 + ["topic_full", "created"]
    assert results[4]["limit"] == "max_jobs" and "max_jobs" in results[4]["detail"]


def test_existing_jobs_are_never_rejected(client):
    client.put_topic("full", max_jobs=3, max_attempts=1)
    for n in range(3):
        client.push("full", f"job{n}")
    client.nack(client.take("full")[0]["lease"])
    client.put_topic("full", max_jobs=1, max_attempts=1)
    assert client.call("POST", "/v1/topics/full/redrive").json()["jobs"] == 1
    assert client.topic("full")["counts"]["ready"] == 3


def test_limits_are_settings_that_are_shown_patched_and_taken_away(client):
    client.put_topic("s", max_jobs=5, push_rate="90/m")
    assert {"max_jobs": 5, "push_rate": "90/m"}.items() <= client.topic("s")["settings"].items()
    client.call("PATCH", "/v1/topics/s", json.dumps({"max_jobs": None, "push_rate": 7}).encode())
    settings = client.topic("s")["settings"]
    assert "max_jobs" not in settings and settings["push_rate"] == "7/s"


@pytest.mark.parametrize("option", [{"max_jobs": 0}, {"max_jobs": 2**40 + 1}, {"push_rate": "0/s"}, {"push_rate": "1/d"}, {"push_rate": "1000000001/h"}])
def test_a_limit_that_cannot_be_is_refused(client, option):
    answer = refusal(client.put_topic, "s", **option)
    assert (answer.status, answer.code) == (400, "bad_option") and next(iter(option)) in answer.reply.json()["detail"]
    client.put_topic("s", max_jobs=2**40, push_rate="1000000000/h")


# ---- rates ----


def refused_by(reply, status, code, limit):
    problem = reply.json()
    assert (reply.status, problem["code"], problem["limit"]) == (status, code, limit)
    if status == 429:
        assert int(reply.headers["retry-after"]) >= 1
    return problem


def test_a_push_rate_admits_its_number_and_returns_the_next_time(client):
    client.put_topic("slow", push_rate="4/h")
    client.put_topic("other")

    codes = [client.call("POST", "/v1/topics/slow/jobs", b"x") for _ in range(40)]
    refused = next(reply for reply in codes if reply.status == 429)
    refused_by(refused, 429, "too_many_requests", "push_rate")
    assert 1 <= int(refused.headers["retry-after"]) <= 900
    assert client.push("other", "free")["result"] == "created"
    results = client.push_batch([{"topic": "slow"}, {"topic": "other"}])
    assert [result["result"] for result in results] == ["too_many_requests", "created"] and results[0]["limit"] == "push_rate"
    client.call("PATCH", "/v1/topics/slow", b'{"push_rate":null}')
    eventually(lambda: client.call("POST", "/v1/topics/slow/jobs", b"x").status == 201, 5)


def test_the_limit_survives_a_restart(start_server):
    server = start_server()
    client = Client(server.port)
    client.put_topic("slow", push_rate="1/h")
    client.close()
    server.restart()
    client = Client(server.port)
    eventually(lambda: client.call("POST", "/v1/topics/slow/jobs", b"x").status == 429, 5)


def test_an_address_without_a_token_has_a_rate(start_server):
    client = Client(start_server("--address-rate", "5/h").port)
    replies = [client.call("GET", "/v1/topics") for _ in range(6)]
    assert [reply.status for reply in replies] == [200] * 5 + [429]
    refused_by(replies[5], 429, "too_many_requests", "address-rate")
    assert client.call("GET", "/healthz").status == 200


def test_an_address_has_so_many_connections(start_server):
    server = start_server("--address-connections", "3")
    clients = [Connection(server.port, source="127.0.0.3") for _ in range(3)]
    assert all(client.call("GET", "/healthz").status == 200 for client in clients)
    assert Connection(server.port, source="127.0.0.4").call("GET", "/healthz").status == 200
    one_more = Connection(server.port, source="127.0.0.3")
    refused_by(one_more.call("GET", "/healthz"), 429, "too_many_requests", "address-connections")
    clients[0].close()
    eventually(lambda: Connection(server.port, source="127.0.0.3").call("GET", "/healthz").status == 200, 5)


def test_an_address_has_so_many_takes_that_wait(start_server):
    server = start_server("--address-waiting", "2")
    waiting = [Connection(server.port) for _ in range(2)]
    for one in waiting:
        one.send(request_bytes("POST", "/v1/topics/t/take?wait=1m"))
    other = Connection(server.port)
    eventually(lambda: other.call("POST", "/v1/topics/t/take?wait=1ms").status == 429, 5)
    refused_by(other.call("POST", "/v1/topics/t/take?wait=1m"), 429, "too_many_requests", "address-waiting")
    assert other.call("POST", "/v1/topics/t/take").status in (200, 204)
    waiting[0].close()
    eventually(lambda: other.call("POST", "/v1/topics/t/take?wait=1ms").status in (200, 204), 5)


def test_refusals_are_counted_by_limit(client):
    client.put_topic("slow", push_rate="1/h")
    eventually(lambda: client.call("POST", "/v1/topics/slow/jobs", b"x").status == 429, 5)
    assert 'tarry_limits_met_total{limit="push_rate"} 1' in client.call("GET", "/metrics").body.decode()


# ---- callers ----


def caller(tmp_path, start_server, *flags):
    """A server and a client with a token of these limits."""
    tokens = tmp_path / "tokens"
    made = subprocess.run([BINARY, "token", "new", "limited", "--scope", "push,consume,read,admin", "--topics", "*", "--tokens", tokens, *flags],
                          capture_output=True, text=True, check=True)
    secret = re.search(r"tarry_[0-9A-Za-z]{36}", made.stdout)[0]
    server = start_server("--tokens", str(tokens))
    return server, {"Authorization": f"Bearer {secret}"}


def test_a_caller_pushes_by_its_rate(tmp_path, start_server):
    server, who = caller(tmp_path, start_server, "--rate", "3/h")
    client = Client(server.port)
    assert [client.call("POST", "/v1/topics/t/jobs", b"x", who).status for _ in range(4)] == [201] * 3 + [429]
    refused_by(client.call("POST", "/v1/topics/t/jobs", b"x", who), 429, "too_many_requests", "rate")
    assert client.call("GET", "/v1/topics", headers=who).status == 200


def test_a_batch_is_charged_by_its_jobs(tmp_path, start_server):
    server, who = caller(tmp_path, start_server, "--rate", "3/h")
    body = json.dumps([{"topic": "t"}] * 5).encode()
    results = Client(server.port).call("POST", "/v1/jobs", body, who | {"Content-Type": "application/json"}).json()["results"]
    assert [result["result"] for result in results] == ["created"] * 3 + ["too_many_requests"] * 2


def test_the_job_limit_of_a_caller_covers_all_its_topics(tmp_path, start_server):
    server, who = caller(tmp_path, start_server, "--max-jobs", "3")
    client = Client(server.port)
    assert [client.call("POST", f"/v1/topics/t{n}/jobs", b"x", who).status for n in range(4)] == [201] * 3 + [507]
    refused_by(client.call("POST", "/v1/topics/t/jobs", b"x", who), 507, "caller_full", "max-jobs")
    lease = client.call("POST", "/v1/topics/t0/take", headers=who).json()["jobs"][0]["lease"]
    assert client.call("POST", "/v1/ack?lease=" + lease, headers=who).status == 200
    eventually(lambda: client.call("POST", "/v1/topics/t/jobs", b"x", who).status == 201, 5)


# ---- the command line ----


def test_the_command_line_waits_for_the_retry_time(tmp_path, start_server):
    server = start_server("--address-rate", "10/s")
    source = Client(start_server().port)
    for n in range(30):
        source.put_topic(f"t{n}", max_jobs=n + 1, push_rate="5/s")
    exported = subprocess.run([BINARY, "export", "--url", f"http://127.0.0.1:{source.port}"], capture_output=True, text=True, check=True).stdout
    assert '"max_jobs":30' in exported
    began = time.monotonic()
    subprocess.run([BINARY, "import", "--url", f"http://127.0.0.1:{server.port}"], input=exported, capture_output=True, text=True, check=True, timeout=60)
    assert time.monotonic() - began > 1
    assert b'"max_jobs":30' in eventually(lambda: (lambda reply: reply.status == 200 and reply)(Client(server.port).call("GET", "/v1/topics/t29"))).body


# ---- memory ----


def fill(client, batches, body):
    """The number of batches accepted before a rejection; None: all."""
    for at in range(batches):
        items = json.dumps([{"topic": "m", "body": body, "meta": {"n": "x" * 200}} for _ in range(1000)]).encode()
        results = client.call("POST", "/v1/jobs", items, {"Content-Type": "application/json"}).json()["results"]
        if any(result["result"] == "memory" for result in results):
            return at, next(result for result in results if result["result"] == "memory")
    return None


def test_a_server_out_of_memory_rejects_only_pushes(start_server):
    """The limit of 40 MB is small: an index of some hundred thousand ready jobs."""
    server = start_server("--max-memory", "40MiB", "--sync", "never")
    client = Client(server.port)
    found = fill(client, 1000, "x")
    assert found and found[1]["limit"] == "max-memory"
    answer = refused_by(client.call("POST", "/v1/topics/m/jobs", b"x"), 507, "memory", "max-memory")
    assert "take and ack still work" in answer["detail"]
    assert client.call("GET", "/v1/info").json()["accepting"] is False
    assert "tarry_memory_spent 1" in client.call("GET", "/metrics").body.decode()
    while jobs := client.take("m", max=1000):
        leases = json.dumps({"leases": [job["lease"] for job in jobs]}).encode()
        results = client.call("POST", "/v1/ack", leases, {"Content-Type": "application/json"}).json()["results"]
        assert all(result["result"] == "ok" for result in results)
    if not IS_SANITIZED:
        eventually(lambda: client.call("POST", "/v1/topics/m/jobs", b"x").status == 201, 20, 0.1)
        assert "memory is available again" in server.log()


# ---- the page ----


def table_of_limits():
    """(status, code, name or '') of each row of the table in docs/operations/configure.md."""
    page = (REPO / "docs" / "operations" / "configure.md").read_text(encoding="utf-8").split("\n## Limits\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .* \| (\d+) `(\w+)`[^|]* \| ([^|]*)\|$", page, re.M)
    return [(int(status), code, limit.strip(" `")) for status, code, limit in rows]


def test_the_list_of_problems_has_each_problem_once(client):
    problems = client.good("GET", "/problems")["problems"]
    codes = [problem["code"] for problem in problems]
    assert len(codes) == len(set(codes)) and {"leased", "not_found", "unknown_option", "no_memory"} <= set(codes)
    for problem in problems:
        assert client.good("GET", f"/problems/{problem['code']}") == problem
    assert "/problems lists them" in client.call("GET", "/problems/nope").json()["detail"]


def test_the_table_of_limits_matches_the_server(client):
    rows = table_of_limits()
    assert len(rows) > 25
    for status, code, _ in rows:
        problem = client.call("GET", f"/problems/{code}").json()
        assert (problem["status"], problem["code"]) == (status, code)
    counted = set(re.findall(r'tarry_limits_met_total\{limit="([^"]*)"\}', client.call("GET", "/metrics").body.decode()))
    named = {limit for _, _, limit in rows if limit and limit != "a number"}
    page = (REPO / "docs" / "operations" / "configure.md").read_text(encoding="utf-8").split("\n## Limits\n")[1].split("\n| limit |")[0]
    counted_as = re.findall(r"^\| ([^|]*) \|", page.split("| counted as |")[1], re.M)
    assert counted == named | set(re.findall(r"`([a-z-]+)`", " ".join(counted_as)))


@pytest.mark.parametrize("call, status, code", [
    (lambda client: client.push("x" * 201, "a"), 400, "bad_topic"), (lambda client: client.push("t", "i" * 129), 400, "bad_id"),
    (lambda client: client.push("t", "a", delay="3654d"), 400, "bad_option"), (lambda client: client.take("t", max=1001), 400, "bad_option"),
    (lambda client: client.take("t", wait="241s"), 400, "bad_option"), (lambda client: client.take("t", lease_for="99ms"), 400, "bad_option"),
    (lambda client: client.push("t", "a", b"x" * (1 << 20 | 1)), 413, "body_too_big"), (lambda client: client.push_batch([{"topic": "t"}] * 1001), 413, "too_many_items")])
def test_each_fixed_limit_is_enforced_as_documented(client, call, status, code):
    answer = refusal(call, client)
    assert (answer.status, answer.code) == (status, code) and (status, code) in {row[:2] for row in table_of_limits()}


@pytest.mark.parametrize("call", [
    lambda client: client.push("x" * 200, "a"), lambda client: client.push("t", "i" * 128), lambda client: client.push("t", "a", delay="3653d"),
    lambda client: client.take("t", max=1000), lambda client: client.take("t", lease_for="100ms"), lambda client: client.push("t", "a", b"x" * (1 << 20)),
    lambda client: client.push_batch([{"topic": "t"}] * 1000)])
def test_each_fixed_limit_itself_is_let_in(client, call):
    call(client)


def test_a_reader_of_one_topic_keeps_no_operator_from_the_streams(start_server, tmp_path):
    """A caller has a share of the streams, and some are kept for callers of all topics."""
    readers = [Token(f"reader-{n}", scopes=("read",), topics=("orders",)) for n in range(5)]
    operator = Token("operator")
    tokens = TokenFile(tmp_path / "tokens", operator, *readers)
    server = start_server(*FLAGS, "--tokens", str(tokens.path))
    server.client().call("PUT", "/v1/topics/orders", headers=operator.headers)
    held = []

    def opens(token, path="/v1/events?topic=orders"):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\n\r\n".encode())
        status = int(connection.recv(1000).split()[1])
        held.append(connection)
        return status

    assert [opens(readers[0]) for _ in range(17)] == [200] * 16 + [503]
    assert [opens(reader) for reader in readers[1:4] for _ in range(16)] == [200] * 40 + [503] * 8
    assert opens(readers[4]) == 503, "the others are for callers of all topics"
    assert [opens(operator, "/v1/events") for _ in range(8)] == [200] * 8
    for connection in held:
        connection.close()
