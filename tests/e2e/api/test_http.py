"""HTTP itself, over raw sockets: framing, pipelining, keeping alive, and what a careful client may rely on."""

import json
import signal
import socket
import time

import pytest
from client import Lost, request_bytes
from server import IS_SANITIZED, slack

HOST = b"Host: localhost\r\n"


def put(ident, body=b"x", more=b""):
    return b"PUT /v1/topics/h/jobs/%s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s" % (ident, HOST, more, len(body), body)


@pytest.fixture
def connection(server):
    made = server.connection()
    yield made
    made.close()


def body_of(server, ident):
    return server.client().get("h", ident)["body"]


def chunks(*parts, trailer=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


CHUNKED = b"PUT /v1/topics/h/jobs/c HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("sent, body", [
    (chunks(b"hello"), "hello"), (chunks(b"he", b"l", b"lo"), "hello"), (chunks(), ""),
    (b"5;note=1\r\nhello\r\n0\r\n\r\n", "hello"), (b"A\r\n0123456789\r\n0\r\n\r\n", "0123456789"), (b"0005\r\nhello\r\n0\r\n\r\n", "hello"),
    (chunks(b"hello", trailer=b"X-Sum: 1\r\n"), "hello"),
], ids=["one", "three", "none", "extension", "capital", "zeros", "trailer"])
def test_chunked_bodies(server, connection, sent, body):
    connection.send(CHUNKED + sent)
    assert connection.read().status == 201
    assert body_of(server, "c") == body
    assert connection.call("GET", "/healthz").status == 200, "and the connection goes on"


def test_lease_and_leases_are_distinguished(client):
    for target, body, advice in [("/v1/ack?leases=x", b"", "did you mean 'lease'"), ("/v1/ack", b'{"lease":"x"}', "did you mean 'leases'"),
                                 ("/v1/nack", b'{"leases":"x"}', "'leases' must be an array"), ("/v1/extend", b"{}", "'leases' is missing"),
                                 ("/v1/ack", b'{"leases":[{"leases":"x"}]}', "did you mean 'lease'")]:
        reply = client.call("POST", target, body)
        assert reply.status == 400 and advice in reply.json()["detail"], (target, body, reply.body)


def test_json_ends_with_a_newline_and_bodies_are_unchanged(client):
    """The terminal's prompt begins a line of its own; a pushed body gets nothing added."""
    client.push("t", "a", body=b'{"a":1}', content_type="application/json")
    client.push("t", "b", delay="1h")
    calls = [("GET", "/"), ("GET", "/v1/info"), ("GET", "/v1/topics"), ("GET", "/v1/topics/t"), ("GET", "/v1/topics/t/jobs"), ("GET", "/v1/topics/t/jobs/b"),
             ("PUT", "/v1/topics/t/jobs/c"), ("POST", "/v1/topics/t/jobs/b/run"), ("DELETE", "/v1/topics/t/jobs/c"), ("POST", "/v1/topics/u/take"),
             ("POST", "/v1/topics/t/pause"), ("POST", "/v1/topics/t/resume"), ("POST", "/v1/topics/t/redrive"), ("POST", "/v1/ack?lease=x"), ("GET", "/nothing"),
             ("GET", "/v1/topics/u"), ("GET", "/problems/leased"), ("PATCH", "/v1/info"), ("POST", "/v1/topics/t/deliver-test")]
    for method, target in calls:
        reply = client.call(method, target)
        assert reply.body.endswith(b"}\n") and reply.body.count(b"\n") == 1, (method, target, reply.body)
    assert client.call("POST", "/v1/jobs", b'[{"topic":"t","body":"x"}]', {"Content-Type": "application/json"}).body.endswith(b"]}\n")
    lines = client.call("POST", "/v1/jobs", b'[{"topic":"t","body":"x"}]', {"Content-Type": "application/json", "Accept": "application/x-ndjson"}).body
    assert lines.endswith(b"}\n") and lines.count(b"\n") == 1
    assert client.call("POST", "/v1/topics/t/take", headers={"Accept": "application/octet-stream"}).body == b'{"a":1}'


def test_chunked_bodies_cut_anywhere(server, connection):
    whole = CHUNKED + chunks(b"he", b"l", b"lo", trailer=b"X-Sum: 1\r\n")
    for at in range(len(CHUNKED) - 2, len(whole)):
        connection.send(whole[:at])
        time.sleep(0.002)
        connection.send(whole[at:])
        assert connection.read().status == 201
    assert body_of(server, "c") == "hello"


def test_pipelined_requests_are_answered_in_order(server, connection):
    """A take that waits holds back the answers behind it, and nothing else."""
    connection.send(b"".join(put(b"p%d" % i) for i in range(100)) + request_bytes("GET", "/v1/topics/h/jobs/p42") + request_bytes("GET", "/nothing"))
    replies = [connection.read() for _ in range(102)]
    assert [reply.status for reply in replies] == [201] * 100 + [200, 404]
    assert [reply.json()["id"] for reply in replies[:101]] == [f"p{i}" for i in range(100)] + ["p42"]
    connection.send(request_bytes("POST", "/v1/topics/none/take?wait=300ms") + put(b"behind"))
    time.sleep(0.1)
    assert body_of(server, "behind") is not None, "it is done while the take still waits"
    assert connection.read().json() == {"jobs": []}
    assert connection.read().json()["id"] == "behind"


def test_more_requests_can_be_pipelined_than_the_server_buffers(connection):
    sent = b"".join(put(b"q%d" % i) for i in range(3000))
    connection.send(sent)
    assert [connection.read().json()["id"] for _ in range(3000)] == [f"q{i}" for i in range(3000)]


def test_the_server_stops_reading_from_a_client_that_does_not_read(server, connection):
    """Bounded: however much it asks for, the server keeps little for it, and others are served."""
    client = server.client()
    client.push("big", "a", b"b" * 500_000, delay="1h")
    resident = server.resident_bytes()
    connection.socket.settimeout(0.2)
    asked = request_bytes("GET", "/v1/topics/big/jobs/a")
    sent = 0
    try:
        while sent < 4000:
            connection.socket.sendall(asked * 20)
            sent += 20
    except (TimeoutError, socket.timeout):
        pass
    assert client.get("big", "a")["id"] == "a"
    grown = server.resident_bytes() - resident
    print(f"{sent} answers of 500 kB asked for and not read: {grown} bytes more resident")
    assert grown < 200 << 20 or IS_SANITIZED


def test_head_is_get_without_the_body(connection):
    connection.send(b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    reply = connection.read("HEAD")
    get = connection.call("GET", "/healthz")
    assert (reply.status, reply.headers["content-length"]) == (200, str(len(get.body)))
    connection.send(b"HEAD /nothing HTTP/1.1\r\n" + HOST + b"\r\n")
    assert connection.read("HEAD").status == 404
    assert connection.call("GET", "/healthz").status == 200


def test_expect_100_continue(server, connection):
    connection.send(b"PUT /v1/topics/h/jobs/e HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    connection.socket.settimeout(3)
    assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(b"hello")
    assert connection.read().status == 201
    # Too big: refused before the body is sent.
    connection.send(b"PUT /v1/topics/h/jobs/e HTTP/1.1\r\n" + HOST + b"Content-Length: 99000000\r\nExpect: 100-continue\r\n\r\n")
    assert connection.read().status == 413


def test_expect_with_the_body_already_sent_works(connection):
    connection.send(put(b"e", b"hello", b"Expect: 100-continue\r\n"))
    assert connection.read().status == 201


def test_a_connection_is_kept_by_default(connection):
    for _ in range(3):
        assert connection.call("GET", "/healthz").headers.get("connection") is None
    connection.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert connection.read().headers["connection"] == "close"
    assert connection.at_end()


def test_http_1_0(server):
    plain, kept = server.connection(), server.connection()
    plain.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    reply = plain.read()
    assert reply.status == 200 and reply.headers.get("connection") == "close" and plain.at_end()
    for _ in range(2):
        kept.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert kept.read().headers["connection"] == "keep-alive"


def test_header_names_in_any_case_and_blanks_around_values(connection):
    connection.send(b"PUT /v1/topics/h/jobs/case HTTP/1.1\r\nHOST:localhost\r\ncontent-LENGTH:  1  \r\nTARRY-DELAY: \t1h \r\n\r\nx")
    reply = connection.read()
    assert reply.status == 201 and reply.json()["state"] == "delayed"


def test_escapes_in_paths_and_queries(server):
    client = server.client()
    ident = "order/1?a=b&c%d+e"
    client.push("h", ident, delay="1h")
    assert client.get("h", ident)["id"] == ident
    reply = client.call("PUT", "/v1/topics/h/jobs/plus?at=2034-01-01T08:00:00+08:00")
    assert reply.json()["due_at"] == "2034-01-01T00:00:00.000Z", "a plus is a plus"
    assert client.call("GET", reply.headers["location"]).json()["id"] == "plus"
    assert client.call("PUT", "/v1/topics/%68/jobs/%61").json()["id"] == "a"


def test_an_absolute_target(connection):
    connection.send(b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert connection.read().status == 200


def test_empty_lines_before_a_request_are_skipped(connection):
    connection.send(b"\r\n\r\nGET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert connection.read().status == 200


def test_405_lists_the_methods_of_the_path(connection):
    reply = connection.call("POST", "/v1/topics/h/jobs/a")
    assert reply.status == 405
    assert {method.strip() for method in reply.headers["allow"].split(",")} == {"GET", "HEAD", "PUT", "PATCH", "DELETE"}


@pytest.mark.plain("who speaks TLS closes by close_notify, a bare end is a cut")
def test_a_client_may_close_its_sending_side(server):
    connection = server.connection()
    connection.send(put(b"half"))
    connection.socket.shutdown(socket.SHUT_WR)
    assert connection.read().status == 201
    assert connection.at_end()


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(start_server):
    server = start_server("--sync", "always", "--shards", "1", "--idle-timeout", "1s")
    idle, busy = server.connection(), server.connection()
    busy.send(request_bytes("POST", "/v1/topics/none/take?wait=2500ms"))
    begin = time.monotonic()
    assert idle.at_end(timeout=10)
    assert 0.9 < time.monotonic() - begin
    assert busy.read().json() == {"jobs": []}


def test_a_request_that_came_while_the_server_stood_still_is_answered(start_server):
    server = start_server("--sync", "always", "--shards", "1", "--idle-timeout", "1s")
    connections = [server.connection() for _ in range(8)]
    assert all(connection.call("GET", "/healthz").status == 200 for connection in connections)
    server.proc.send_signal(signal.SIGSTOP)
    try:
        time.sleep(2)
        for connection in connections:
            connection.send(request_bytes("GET", "/healthz"))
    finally:
        server.proc.send_signal(signal.SIGCONT)
    assert [connection.read().status for connection in connections] == [200] * len(connections)


def test_an_overlong_request_is_ended(start_server):
    server = start_server("--sync", "always", "--shards", "1", "--idle-timeout", "1s")
    slow = server.connection()
    begin = time.monotonic()
    slow.send(b"GET /healthz HTTP/1.1\r\n")
    try:
        while time.monotonic() - begin < 20:
            slow.send(b"X")
            slow.socket.settimeout(0.5)
            try:
                slow._more()
                break
            except (TimeoutError, socket.timeout):
                continue
        reply = slow.read()
        assert (reply.status, reply.code) == (408, "request_timeout")
    except Lost:
        pass
    took = time.monotonic() - begin
    print(f"a head that never ends is ended after {took:.1f} s")
    assert took < 13 * slack()


def test_connections_above_the_limit_are_refused(start_server):
    server = start_server("--sync", "always", "--shards", "1", "--max-connections", "5")
    kept = []
    for _ in range(5):
        connection = server.connection()
        assert connection.call("GET", "/healthz").status == 200
        kept.append(connection)
    try:
        above = server.connection(timeout=3)
        above.send(request_bytes("GET", "/healthz"))
        reply = above.read()
        assert (reply.status, reply.json()["code"]) == (503, "too_many_connections")
    except (Lost, ConnectionError):
        pass
    kept.pop().close()
    deadline = time.monotonic() + 5
    while True:
        try:
            again = server.connection()
            assert again.call("GET", "/healthz").status == 200
            break
        except (Lost, AssertionError):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_answers_are_json_that_any_parser_takes(server):
    client = server.client()
    client.push("h", "text", bytes(range(1, 128)), meta={"a": "\"\\/ü\u2028"})
    reply = client.call("GET", "/v1/topics/h/jobs/text")
    assert reply.headers["content-type"] == "application/json"
    job = json.loads(reply.body, strict=True)
    assert job["body"].encode() == bytes(range(1, 128)) and job["meta"]["a"] == "\"\\/ü\u2028"
