"""Clients that ask for more than they should, or go before they are answered: memory stays bounded, others are served, no job is lost to a buffer."""

import contextlib
import signal
import socket
import struct
import threading
import time

import pytest
from client import Lost, request_bytes
from server import IS_SANITIZED, eventually, freeze, slack

MIB = 1 << 20
BUDGET = 64 * MIB
LIST = request_bytes("GET", "/v1/topics/big/jobs?body=true&limit=1000")


def reset(connection):
    """Closed as by a client that died: what it has not read is thrown away on both sides."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def metric(server, name):
    text = server.client().call("GET", "/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def info(server):
    return server.client().call("GET", "/v1/info").json()


@pytest.fixture
def small(start_server):
    return start_server("--max-request-memory", "64MiB", "--shards", "1")


@pytest.fixture
def listing(start_server):
    """A server whose lists are as long as lists get: 8 MB, since one job is larger than a page."""
    server = start_server("--max-request-memory", "64MiB", "--max-body", "8MiB", "--shards", "1")
    server.client().push("big", "j", b"b" * 8_000_000, delay="1h")
    return server


@contextlib.contextmanager
def connections(server, count=1):
    made = [server.connection() for _ in range(count)]
    try:
        yield made
    finally:
        for connection in made:
            connection.close()


# ---- one connection ----

@pytest.mark.parametrize("first", [b"", request_bytes("POST", "/v1/topics/none/take?wait=500ms")], ids=["lists", "lists-behind-a-wait"])
def test_a_connection_that_requests_gigabytes_holds_one_answer(listing, first):
    before, worst = listing.resident_bytes(), 0
    with connections(listing, 2) as made:
        for connection in made:
            connection.send(first + LIST * 200)
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            worst = max(worst, listing.resident_bytes() - before)
            time.sleep(0.01)
        print(f"2 x 200 lists of 8 MiB asked for and not read: {worst / MIB:.0f} MiB more resident")
        assert worst < 100 * MIB or IS_SANITIZED
        assert listing.client().call("GET", "/healthz").status == 200


def test_all_of_them_are_answered_to_a_client_that_reads(listing):
    with connections(listing) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/none/take?wait=200ms") + LIST * 20 + request_bytes("GET", "/healthz"))
        assert connection.read().json() == {"jobs": []}
        lists = [connection.read() for _ in range(20)]
        assert {reply.status for reply in lists} == {200} and {len(job["body"]) for reply in lists for job in reply.json()["jobs"]} == {8_000_000}
        assert connection.read().body == b"ok\n"


def test_a_chunked_body_that_was_held_back_is_whole(small):
    """Its chunks are out of their wrapping by then, and the next request stands right behind it."""
    parts = [bytes([65 + i]) * 30_000 for i in range(10)]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nX-Sum: 1\r\n\r\n"
    with connections(small) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/none/take?max=100&wait=300ms") +
                        b"PUT /v1/topics/h/jobs/c?delay=1h HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" +
                        chunked + request_bytes("GET", "/healthz"))
        time.sleep(0.1)
        assert small.client().call("GET", "/v1/topics/h/jobs/c").status == 404, "it waits for the take"
        assert [connection.read().status for _ in range(3)] == [200, 201, 200]
    assert small.client().get("h", "c")["body"] == b"".join(parts).decode()


def test_lists_in_a_row_leave_others_served(listing):
    client, took = listing.client(), []
    with connections(listing) as (greedy,):
        greedy.send(LIST * 40)
        reader = threading.Thread(target=lambda: [greedy.read() for _ in range(40)])
        reader.start()
        while reader.is_alive():
            begin = time.monotonic()
            client.push("good", body=b"x", delay="1h")
            took.append((time.monotonic() - begin) * 1000)
        reader.join()
    took.sort()
    p90 = took[len(took) * 9 // 10]
    print(f"{len(took)} pushes beside 40 lists of 8 MiB: median {took[len(took) // 2]:.1f} ms, p90 {p90:.1f} ms, worst {took[-1]:.1f} ms")
    assert len(took) >= 10, "the requests alternate"


def test_calls_of_a_disconnected_client_end(listing):
    with connections(listing) as (connection,):
        connection.send(LIST * 200)
        connection.socket.recv(1000)
    time.sleep(0.2)
    done = metric(listing, 'tarry_http_requests_total{route="list"')
    time.sleep(0.3)
    assert metric(listing, 'tarry_http_requests_total{route="list"') == done <= 5


def test_jobs_are_not_read_for_clients_that_have_gone(small):
    """They would also delay a stop. A connection begins 16 gets in a loop iteration."""
    clients, begun = 40, 16
    small.client().push("gone", "a", b"b" * 1_000_000, delay="1h")
    with connections(small, clients) as opened:
        for connection in opened:
            connection.send(request_bytes("GET", "/v1/topics/gone/jobs/a") * 200)
        for connection in opened:
            reset(connection)
    reads = [-1.0, metric(small, "tarry_store_body_reads_total")]
    while reads[-1] > reads[-2]:
        time.sleep(0.3)
        reads.append(metric(small, "tarry_store_body_reads_total"))
    assert reads[-1] < clients * begun / 3, reads


# ---- takes ----

def test_pipelined_takes_are_answered_one_after_another(small):
    client = small.client()
    for i in range(128):
        client.push("heavy", f"h{i}", b"j" * (1_000_000))
    with connections(small) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/heavy/take?max=16&lease_for=1h") * 8)
        replies = [connection.read() for _ in range(8)]
    assert [reply.status for reply in replies] == [200] * 8
    assert len({job["id"] for reply in replies for job in reply.json()["jobs"]}) == 128


@pytest.mark.parametrize("ask", ["max=16", "max=16&wait=20s"])
def test_jobs_of_an_unsent_answer_return(small, ask):
    """No client has seen them, so it costs no attempt."""
    client = small.client()
    for i in range(32):
        client.push("back", f"b{i}", b"j" * (1_000_000))
    connection = small.connection()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(request_bytes("POST", f"/v1/topics/back/take?{ask}&lease_for=1h") * 32)
    eventually(lambda: client.topic("back")["counts"]["leased"] >= 16)
    time.sleep(0.3)
    reset(connection)
    # Data that the system has accepted before cannot be recalled: some MiB of socket buffers.
    eventually(lambda: client.topic("back")["counts"]["leased"] <= 9 and client.topic("back")["counts"]["ready"] >= 23)
    jobs = [job for _ in range(2) for job in client.take("back", max=16)]
    assert len(jobs) >= 23 and {job["attempt"] for job in jobs} == {1}


def test_the_only_job_of_an_unsent_answer_returns(start_server):
    """Its body is larger than what the system buffers for a connection whose client has a small buffer, so no answer is written completely."""
    server = start_server("--max-request-memory", "64MiB", "--max-body", "16MiB", "--shards", "1")
    client = server.client()
    for i in range(3):
        client.push("back", f"b{i}", b"j" * 15_000_000)
    connection = server.connection()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(request_bytes("POST", "/v1/topics/back/take?max=1&lease_for=1h") * 3)
    eventually(lambda: client.topic("back")["counts"]["leased"] == 1)
    time.sleep(0.3)
    assert client.topic("back")["counts"]["leased"] == 1, "the next take waits until the answer is written"
    reset(connection)
    eventually(lambda: client.topic("back")["counts"]["ready"] == 3)
    assert client.topic("back")["counts"]["leased"] == 0
    jobs = [job for _ in range(3) for job in client.take("back", max=1)]
    assert [job["attempt"] for job in jobs] == [1, 1, 1]


def test_jobs_of_an_answer_behind_an_unsent_one_return(small):
    client = small.client()
    with connections(small) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/none/take?wait=60s") + request_bytes("POST", "/v1/topics/some/take?wait=60s"))
        eventually(lambda: metric(small, "tarry_waiting_takes") == 1)
        client.push("some", "s", b"x")
        time.sleep(0.1)
        assert client.topic("some")["counts"]["ready"] == 1, "no lease runs for a job whose answer cannot go out yet"
        client.push("none", "n", b"x")
        assert [job["id"] for _ in range(2) for job in connection.read().json()["jobs"]] == ["n", "s"]


def test_a_client_that_is_gone_holds_no_waiting_place(start_server):
    server = start_server("--max-waiting", "100", "--shards", "1")
    client = server.client()
    with connections(server, 20) as made:
        for connection in made:
            connection.send(request_bytes("POST", "/v1/topics/w/take?wait=60s") * 256)
        eventually(lambda: metric(server, "tarry_waiting_takes") == 20)
        assert client.take("other", wait="10ms") == [], "one place for each connection"
    eventually(lambda: metric(server, "tarry_waiting_takes") == 0)
    client.push("w", "j", b"x")
    time.sleep(0.1)
    assert client.topic("w")["counts"]["ready"] == 1 and client.take("w")[0]["attempt"] == 1


# ---- half-closed ----

def test_requests_before_the_end_are_answered(server):
    """`printf … | nc`: the client sends no more, and reads."""
    server.client().push("seen", "s", b"x", delay="1h")
    with connections(server) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/none/take?wait=60s") + request_bytes("GET", "/v1/topics/seen/jobs") +
                        request_bytes("PUT", "/v1/topics/h/jobs/p", b"x") + request_bytes("GET", "/v1/topics") +
                        request_bytes("POST", "/v1/topics/none/take?wait=60s"))
        connection.socket.shutdown(socket.SHUT_WR)
        begin = time.monotonic()
        replies = [connection.read() for _ in range(5)]
        assert [reply.status for reply in replies] == [200, 200, 201, 200, 200]
        assert replies[0].json() == replies[4].json() == {"jobs": []}, "waits end"
        assert replies[1].json()["jobs"][0]["id"] == "s" and connection.at_end() and time.monotonic() - begin < 5 * slack()


def test_a_raw_take_ends_as_raw_takes_do(server):
    with connections(server) as (connection,):
        connection.send(request_bytes("POST", "/v1/topics/none/take?wait=60s", headers={"Accept": "application/octet-stream"}))
        eventually(lambda: metric(server, "tarry_waiting_takes") == 1)
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.read().status == 204 and connection.at_end()


# ---- all of them ----

def test_unfinished_bodies_stop_at_the_limit(small):
    client = small.client()
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (15 * MIB)
    before, refused = small.resident_bytes(), []
    with connections(small, 30) as made:
        for connection in made:
            connection.socket.settimeout(2)
            try:
                connection.send(head + b" " * (7 * MIB))
            except (Lost, TimeoutError):
                pass
        for connection in made:
            connection.socket.settimeout(0.05)
            with contextlib.suppress(Lost, TimeoutError):
                refused.append(connection.read())
        grown = small.resident_bytes() - before
        print(f"{len(refused)} of 30 unfinished bodies of 7 MiB refused; {grown / MIB:.0f} MiB more resident")
        assert len(refused) >= 20 and (grown < BUDGET * 1.5 or IS_SANITIZED)
        for reply in refused:
            assert (reply.status, reply.code, reply.json()["limit"], reply.headers["retry-after"]) == (503, "too_much_memory", BUDGET, "1")
        # Good clients are served meanwhile: the last quarter is not for large ones.
        assert client.push("good", "small", b"x")["result"] == "created"
        assert client.push("good", "medium", b"x" * 500_000)["result"] == "created"
        assert len(client.take("good", max=2)) == 2
        now = info(small)
        assert now["limits"]["memory_bytes"] == BUDGET and now["memory_bytes"] > BUDGET / 2
        assert metric(small, "tarry_http_memory_bytes") > BUDGET / 2 and metric(small, "tarry_http_memory_refused_total") >= 20
        assert metric(small, "tarry_http_memory_max_bytes") == BUDGET
    eventually(lambda: info(small)["memory_bytes"] < MIB)


def test_unread_answers_stop_at_the_limit_without_losing_jobs(listing):
    client = listing.client()
    for i in range(4):
        client.push("t", f"t{i}", b"t" * 900_000)
    before = listing.resident_bytes()
    with connections(listing, 30) as made:
        for connection in made:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.send(LIST * 3)
        eventually(lambda: metric(listing, "tarry_http_memory_refused_total") > 0)
        reply = client.call("POST", "/v1/topics/t/take?max=4")
        grown = listing.resident_bytes() - before
        print(f"30 clients that do not read 8 MiB: {grown / MIB:.0f} MiB more resident, a take of 3.6 MB gets {reply.status}")
        assert grown < BUDGET * 2 or IS_SANITIZED
        assert client.push("good", "small", b"x")["result"] == "created"
    eventually(lambda: info(listing)["memory_bytes"] < MIB)
    if reply.status == 503:
        assert reply.code == "too_much_memory"
        jobs = client.take("t", max=4)
        assert len(jobs) == 4 and {job["attempt"] for job in jobs} == {1}


def test_the_default_limit_is_a_quarter_of_memory(start_server):
    with open("/proc/meminfo", encoding="ascii") as lines:
        total = int(next(lines).split()[1]) * 1024
    at_most = info(start_server("--shards", "1"))["limits"]["memory_bytes"]
    assert 32 * MIB <= at_most <= total / 4


# ---- a server that stood still ----

def test_a_request_of_a_client_that_left_a_stopped_server_is_not_executed(start_server):
    server = start_server("--shards", "1")
    client = server.client()
    client.push("f", "a", b"old", delay="1h")
    kept = server.connection()
    assert kept.call("GET", "/healthz").status == 200
    freeze(server.proc.pid)
    try:
        fresh, half = server.connection(), server.connection()
        for connection, ident in ((kept, "a"), (fresh, "a"), (half, "b")):
            connection.send(request_bytes("PUT", f"/v1/topics/f/jobs/{ident}?delay=1h", b"stale"))
        kept.close()
        fresh.close()
        half.socket.shutdown(socket.SHUT_WR)
        patient = server.connection()
        patient.send(request_bytes("PUT", "/v1/topics/f/jobs/c?delay=1h", b"waited for"))
        time.sleep(1.5)
    finally:
        server.proc.send_signal(signal.SIGCONT)
    assert patient.read().status == 201, "who still waits is served"
    reply = half.read()
    assert (reply.status, reply.code) == (503, "connection_ended") and reply.headers["retry-after"] and half.at_end()
    assert client.get("f", "a")["body"] == "old"
    assert client.call("GET", "/v1/topics/f/jobs/b").status == 404
