"""Promises about waiting for the end of a job, one test per promise, on the real server."""

import json
import re
import threading
import time

import pytest
from client import dial
from server import eventually
from tokens import Token, TokenFile


@pytest.fixture(params=["1", "3"])
def server(request, start_server):
    return start_server("--sync", "always", "--shards", request.param)


class Call(threading.Thread):
    """A call on its own connection, in the background."""

    def __init__(self, server, method, target, body=b"", headers=None):
        super().__init__(daemon=True)
        self.client, self.arguments = server.client(), (method, target, body, headers)
        self.start()

    def run(self):
        self.reply = self.client.call(*self.arguments)
        self.at = time.monotonic()

    def end(self):
        self.join(30)
        assert not self.is_alive(), "the call still waits"
        return self.reply



def leased(client, topic, ident, **options):
    client.push(topic, ident, **options)
    return client.take(topic)[0]["lease"]


def ack(client, lease, result=b"", kind="text/plain"):
    assert client.call("POST", f"/v1/ack?lease={lease}", result, {"Content-Type": kind}).status == 200


WAIT = "?wait=20s&until=finished"


def test_a_wait_returns_with_the_ack(server):
    client = server.client()
    lease = leased(client, "t", "a", meta={"order": "7"})
    call = Call(server, "GET", f"/v1/topics/t/jobs/a{WAIT}")
    time.sleep(0.2)
    assert call.is_alive()
    before = time.monotonic()
    ack(client, lease, b"42")
    job = call.end().json()
    assert call.at - before < 2
    assert (job["state"], job["outcome"], job["result"], job["meta"]) == ("finished", "acked", "42", {"order": "7"})
    assert client.call("GET", "/v1/topics/t/jobs/a").status == 404, "the topic keeps nothing"


def test_a_wait_for_a_kept_job_returns_immediately(server):
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    ack(client, leased(client, "t", "a"), b"done")
    job = client.good("GET", f"/v1/topics/t/jobs/a{WAIT}")
    assert (job["state"], job["result"]) == ("finished", "done")


def test_a_wait_for_an_unknown_job_is_rejected_immediately(server):
    reply = server.client().call("GET", f"/v1/topics/t/jobs/a{WAIT}")
    assert reply.status == 404
    assert reply.json()["detail"] == "there is no job 'a' in topic 't', or it has finished; check both"


def test_a_wait_ends_with_the_present_state(server):
    client = server.client()
    client.push("t", "a", delay="1h")
    job = client.good("GET", "/v1/topics/t/jobs/a?wait=200ms")
    assert job["state"] == "delayed"


def test_a_wait_returns_when_the_job_dies(server):
    client = server.client()
    lease = leased(client, "t", "a")
    call = Call(server, "GET", f"/v1/topics/t/jobs/a{WAIT}")
    time.sleep(0.2)
    client.nack(lease, final="true", error="no such order")
    job = call.end().json()
    assert (job["state"], job["last_error"]) == ("dead", "no such order")
    assert client.good("GET", f"/v1/topics/t/jobs/a{WAIT}")["state"] == "dead"


def test_the_result_of_a_final_nack_reaches_those_who_wait(server):
    client = server.client()
    lease = leased(client, "t", "a")
    call = Call(server, "GET", f"/v1/topics/t/jobs/a{WAIT}")
    time.sleep(0.2)
    client.call("POST", f"/v1/nack?lease={lease}&final=true&error=no&priority=5", b'{"code":7}', {"Content-Type": "application/json"})
    job = call.end().json()
    assert (job["state"], job["result"]) == ("dead", {"code": 7})
    shown = client.good("GET", "/v1/topics/t/jobs/a")
    assert shown["priority"] == 5
    for name in ("due_at", "attempt", "delivery", "priority", "last_error", "history"):
        assert job[name] == shown[name], name


@pytest.mark.parametrize("end", ["cancel", "purge", "delete", "expire"])
def test_a_wait_returns_when_the_job_is_removed(server, end):
    client = server.client()
    client.push("t", "a", **({"ttl": "500ms"} if end == "expire" else {"delay": "1h"}))
    call = Call(server, "GET", f"/v1/topics/t/jobs/a{WAIT}")
    time.sleep(0.2)
    if end == "cancel":
        client.cancel("t", "a")
    elif end == "purge":
        client.topic_verb("t", "purge")
    elif end == "delete":
        client.delete_topic("t")
    reply = call.end()
    expected = {"cancel": (200, "cancelled"), "expire": (200, "expired"), "purge": (404, None), "delete": (404, None)}[end]
    assert (reply.status, reply.json().get("outcome")) == expected


def test_a_push_waits_for_its_result(server):
    client = server.client()
    call = Call(server, "PUT", "/v1/topics/t/jobs/a?wait=20s", b"body")
    job = client.take("t", wait="10s")[0]
    ack(client, job["lease"], b'{"ok":true}', "application/json")
    reply = call.end()
    assert reply.status == 201
    assert (reply.json()["outcome"], reply.json()["result"]) == ("acked", {"ok": True})


def test_a_push_that_waits_in_vain_returns_its_state(server):
    client = server.client()
    reply = client.call("PUT", "/v1/topics/t/jobs/a?wait=200ms&delay=1h", b"body")
    assert (reply.status, reply.json()["state"]) == (202, "delayed")


def test_a_second_push_waits_for_the_existing_job(server):
    client = server.client()
    lease = leased(client, "t", "a")
    call = Call(server, "PUT", "/v1/topics/t/jobs/a?wait=20s&on_conflict=keep", b"other")
    time.sleep(0.3)
    ack(client, lease, b"first")
    assert (call.end().status, call.end().json()["result"]) == (201, "first")


def test_a_repeated_push_with_once_waits_for_its_job(server):
    """A client that lost the answer repeats the call."""
    client = server.client()
    first = Call(server, "PUT", "/v1/topics/t/jobs/a?once=x&wait=20s", b"body")
    lease = client.take("t", wait="10s")[0]["lease"]
    again = Call(server, "PUT", "/v1/topics/t/jobs/a?once=x&wait=20s", b"body")
    time.sleep(0.3)
    assert again.is_alive()
    ack(client, lease, b"first")
    assert [(call.end().status, call.end().json()["result"]) for call in (first, again)] == [(201, "first")] * 2
    later = client.call("PUT", "/v1/topics/t/jobs/a?once=x&wait=20s", b"body")
    assert (later.status, later.json()) == (200, {"topic": "t", "id": "a", "result": "existed"}), "the topic keeps nothing"
    other = client.call("PUT", "/v1/topics/t/jobs/b?once=x&wait=200ms", b"body")
    if client.good("GET", "/v1/info")["shards"] == 1:
        assert (other.status, other.json()) == (200, {"topic": "t", "id": "b", "result": "existed"})


@pytest.mark.parametrize("end", ["ack", "nack", "wait"])
def test_the_answer_of_a_push_that_waits_has_no_body(server, end):
    """A caller with only the scope 'push' could read the body of another producer's job with on_conflict=keep."""
    client = server.client()
    client.put_topic("t", keep_finished="1h", keep_body="true")
    lease = leased(client, "t", "a", body=b"first")
    wait = "300ms" if end == "wait" else "20s"
    call = Call(server, "PUT", f"/v1/topics/t/jobs/a?wait={wait}&on_conflict=keep", b"second")
    time.sleep(0.3)
    if end != "wait":
        client.call("POST", f"/v1/{end}?lease={lease}{'&final=true' if end == 'nack' else ''}", b"result", {"Content-Type": "text/plain"})
    answer = call.end().json()
    assert "body" not in answer and "body_base64" not in answer
    assert answer.get("result") == ("result" if end != "wait" else None)
    assert answer["state"] == {"ack": "finished", "nack": "dead", "wait": "leased"}[end]


OUTCOME = {"ack": ["finished", "acked"], "cancel": ["finished", "cancelled"], "nack": ["dead", None], "wait": ["leased", None], "before": ["finished", "acked"]}


@pytest.mark.parametrize("end", OUTCOME)
@pytest.mark.parametrize("scopes", ["push", "push,admin", "push,read", "push,consume"])
def test_a_producer_without_read_or_consume_receives_only_the_outcome(start_server, tmp_path, scopes, end):
    """The job of this id may be another producer's."""
    all_of_it, producer = Token("all"), Token("producer", scopes.split(","), ["t"])
    server = start_server("--sync", "always", "--tokens", str(TokenFile(tmp_path / "tokens", all_of_it, producer).path))
    client = server.connection()
    good = lambda *call, **headers: client.call(*call, headers={**all_of_it.headers, "Content-Type": "text/plain", **headers}).json()
    good("PUT", "/v1/topics/t?keep_finished=1h&dedup_window=1h&backoff=fixed:1ms")
    good("PUT", "/v1/topics/t/jobs/a", b"first", **{"Tarry-Meta-Of": "another"})
    good("POST", f"/v1/nack?lease={good('POST', '/v1/topics/t/take')['jobs'][0]['lease']}&error=secret")
    lease = good("POST", "/v1/topics/t/take?wait=10s")["jobs"][0]["lease"]
    if end == "before":
        good("POST", f"/v1/ack?lease={lease}", b"result")
    call = Call(server, "PUT", f"/v1/topics/t/jobs/a?wait={'300ms' if end == 'wait' else '20s'}&on_conflict=keep", b"second", producer.headers)
    time.sleep(0.3)
    if end == "ack":
        good("POST", f"/v1/ack?lease={lease}", b"result")
    elif end == "nack":
        good("POST", f"/v1/nack?lease={lease}&final=true&error=secret", b"result")
    elif end == "cancel":
        good("DELETE", "/v1/topics/t/jobs/a?request=true")
        good("POST", f"/v1/return?lease={lease}")
    answer = call.end().json()
    assert [answer["state"], answer.get("outcome")] == OUTCOME[end]
    if scopes in ("push", "push,admin"):
        assert set(answer) - {"outcome", "finished_at"} == {"topic", "id", "state"}
    else:
        assert (answer["meta"], "history" in answer) == ({"of": "another"}, True)
        assert answer.get("result") == ("result" if end in ("ack", "nack", "before") else None)


def test_a_rejected_push_does_not_wait(server):
    client = server.client()
    leased(client, "t", "a")
    before = time.monotonic()
    assert client.call("PUT", "/v1/topics/t/jobs/a?wait=20s&on_conflict=reject", b"other").status == 409
    assert time.monotonic() - before < 5


def test_many_pushes_wait_at_the_same_time(server):
    client = server.client()
    calls = [Call(server, "PUT", f"/v1/topics/t/jobs/{n}?wait=20s", str(n).encode()) for n in range(20)]
    done = 0
    while done < 20:
        for job in client.take("t", max=20, wait="5s"):
            ack(client, job["lease"], job["id"].encode())
            done += 1
    assert [call.end().json()["result"] for call in calls] == [str(n) for n in range(20)]


def wait_for(client, names, **options):
    body = {"jobs": [{"topic": "t", "id": name} for name in names], **options}
    return client.good("POST", "/v1/wait", json.dumps(body).encode())["jobs"]


def test_one_call_waits_for_all_or_any_of_many_jobs(server):
    client = server.client()
    leases = {name: leased(client, "t", name) for name in "abc"}
    body = json.dumps({"jobs": [{"topic": "t", "id": name} for name in "abc"], "for": "any", "wait": "20s"}).encode()
    call = Call(server, "POST", "/v1/wait", body)
    time.sleep(0.2)
    ack(client, leases["b"], b"B")
    states = {job["id"]: job["state"] for job in call.end().json()["jobs"]}
    assert states == {"a": "leased", "b": "finished", "c": "leased"}
    body = json.dumps({"jobs": [{"topic": "t", "id": name} for name in "ac"], "wait": "20s"}).encode()
    call = Call(server, "POST", "/v1/wait", body)
    time.sleep(0.2)
    ack(client, leases["a"], b"A")
    time.sleep(0.2)
    assert call.is_alive()
    ack(client, leases["c"], b"C")
    assert sorted((job["id"], job["result"]) for job in call.end().json()["jobs"]) == [("a", "A"), ("c", "C")]


def test_a_wait_for_any_job_does_not_end_with_an_unknown_one(server):
    client = server.client()
    client.good("PUT", "/v1/topics/t", json.dumps({"keep_finished": "1d"}).encode())
    for name in "ab":
        ack(client, leased(client, "t", name), name.encode())
    names = ["x", "a", "y", "b"]
    assert {job["id"]: job["state"] for job in wait_for(client, names, **{"for": "any", "wait": "20s"})} == {"a": "finished", "b": "finished", "x": "unknown", "y": "unknown"}
    assert {job["id"]: job["state"] for job in wait_for(client, ["x", "y"], **{"for": "any", "wait": "20s"})} == {"x": "unknown", "y": "unknown"}


def test_a_wait_for_many_jobs_names_unknown_ones(server):
    client = server.client()
    client.push("t", "a", delay="1h")
    states = {job["id"]: job["state"] for job in wait_for(client, ["a", "b"], wait="200ms")}
    assert states == {"a": "delayed", "b": "unknown"}


def test_an_answer_about_many_jobs_leaves_results_out_rather_than_fail(server):
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    ack(client, leased(client, "t", "a"), b"\1" * 65536)
    jobs = wait_for(client, ["a"] * 300, wait="20s")
    assert [job["result_bytes"] for job in jobs] == [65536] * 300
    shown = [job["result"] for job in jobs if "result" in job]
    assert 40 <= len(shown) < 300 and set(shown) == {"\1" * 65536}


def test_a_wait_for_many_jobs_returns_results_as_bytes_on_request(server):
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    ack(client, leased(client, "t", "a"), b'{"n" : 1.0}', "application/json")
    body = b'{"jobs":[{"topic":"t","id":"a"}]}'
    assert client.good("POST", "/v1/wait?body=base64", body)["jobs"][0]["result_base64"] == "eyJuIiA6IDEuMH0="
    job = client.good("POST", "/v1/wait?body=false", body)["jobs"][0]
    assert job["result_bytes"] == 11 and "result" not in job and "result_base64" not in job


def test_a_closed_connection_ends_its_wait(server):
    client = server.client()
    lease = leased(client, "t", "a")
    for _ in range(50):
        other = server.connection()
        other.send(b"GET /v1/topics/t/jobs/a?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        other.close()
    ack(client, lease, b"x")
    assert client.push("t", "b")["result"] == "created"


@pytest.mark.parametrize("end", ["close", "time"])
def test_a_push_whose_wait_ends_before_its_reply_does_no_harm(server, end):
    for n in range(100):
        wait = "20s" if end == "close" else "1ms"
        connection = dial(server.port, 20)
        with connection:
            for part in range(4):
                connection.sendall(f"PUT /v1/topics/t/jobs/{n}-{part}?delay=1h&wait={wait} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
            if end == "time":
                connection.recv(1)
    client = server.client()
    assert client.get("t", "0-0")["state"] == "delayed"
    client.cancel("t", "0-0")


def test_a_job_that_ends_with_its_push_ends_the_wait(server):
    for n in range(60):
        with dial(server.port, 20) as connection:
            push = f"PUT /v1/topics/t/jobs/{n}?delay=1h&wait=20s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            connection.sendall((push + f"DELETE /v1/topics/t/jobs/{n} HTTP/1.1\r\nHost: localhost\r\n\r\n").encode())
            answer = b""
            while b'"outcome":"cancelled"' not in answer:
                part = connection.recv(65536)
                assert part, "the server closed the connection"
                answer += part
            assert answer.startswith(b"HTTP/1.1 201 ")


def test_a_push_whose_wait_ends_before_its_reply_is_answered_once(server):
    for n in range(40):
        first = f"PUT /v1/topics/t/jobs/{n}?delay=1h&wait=1ms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        second = first.replace("wait=1ms", "wait=1ms&on_conflict=reject")
        last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with dial(server.port, 20) as connection:
            connection.sendall((first + second * 4 + last).encode())
            answers = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"202", *[b"409"] * 4, b"200"]


def test_a_stopping_server_ends_its_waits(server):
    client = server.client()
    client.push("t", "a", delay="1h")
    call = Call(server, "GET", f"/v1/topics/t/jobs/a{WAIT}")
    time.sleep(0.3)
    before = time.monotonic()
    server.terminate()
    assert time.monotonic() - before < 10
    call.join(5)
