"""Buffers of connections, of each kind and at each listener: --max-request-memory bounds their memory, and a time limit ends them."""

import contextlib
import re
import select
import socket
import ssl
import struct
import time

import frames
import pytest
from certificates import Authority
from client import Client
from delivery import counts
from frames import Peer
from server import IS_SANITIZED, eventually, slack

MIB = 1 << 20
CLIENTS, BODY_BYTES = 120, 900_000
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
PROXY = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"


def serve(start_server, tmp_path, *flags):
    cert, key = Authority(tmp_path / "ca").sign("server")
    server = start_server("--max-request-memory", "32MiB", "--beanstalk", "127.0.0.1:0", "--beanstalk-max-job", "1MiB", "--mykit", "127.0.0.1:0", "--sqs", "us-east-1/000000000000",
                          "--listen", f"unix:{tmp_path}/http", "--listen", "127.0.0.1:0,tls", "--listen", "127.0.0.1:0,proxy-protocol", "--tls-cert", cert, "--tls-key", key,
                          "--sync", "never", *flags)
    also = re.findall(r'event="listening also" address=(\S+)([^\n]*)', server.log())
    of = {"unix" if address.startswith("unix") else "tls" if "=tls" in words else "proxy" if "=proxy" in words else "beanstalk" if "=beanstalk" in words else "mykit": address for address, words in also}
    server.addresses = {name: address.removeprefix("unix:") if name == "unix" else ("127.0.0.1", int(address.rpartition(":")[2])) for name, address in of.items()}
    server.addresses["http"] = ("127.0.0.1", server.port)
    return server


@pytest.fixture
def server(start_server, tmp_path):
    server = serve(start_server, tmp_path)
    yield server
    assert server.alive and server.terminate() == 0


@pytest.fixture
def hasty(start_server, tmp_path):
    server = serve(start_server, tmp_path, "--idle-timeout", "2s")
    yield server
    assert server.alive and server.terminate() == 0


def dial(server, listener):
    """A connection past what comes before requests."""
    address = server.addresses[listener]
    one = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    one.settimeout(30)
    one.connect(address)
    if listener == "proxy":
        one.sendall(PROXY)
    if listener == "tls":
        one = TLS.wrap_socket(one)
    return one


def pour(connections, data):
    """Sends it on each connection, as far as the server reads it: until no connection has accepted more for a while. No client reads."""
    left, moved = dict.fromkeys(connections, 0), time.monotonic()
    for one in connections:
        one.setblocking(False)
    while left and time.monotonic() < moved + 0.7:
        for one, at in list(left.items()):
            try:
                left[one] = at + one.send(data[at : at + 65536])
                moved = time.monotonic()
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                continue
            except OSError:  # it has been ended
                left[one] = len(data)
            if left[one] >= len(data):
                del left[one]
        time.sleep(0.002)


def readings_of(server, client):
    """The bytes of requests and of the process, again and again until the server does no more for its clients."""
    requests, resident, until = [], [], time.monotonic() + 120 * slack()
    while len(requests) < 20 or len(set(requests[-20:])) > 1:
        requests.append(client.good("GET", "/v1/server")["memory"]["request_bytes"])
        resident.append(server.resident_bytes())
        assert time.monotonic() < until, requests[-20:]
        time.sleep(0.05)
    return requests, resident


def answered(client):
    page = client.call("GET", "/metrics").body.decode()
    return sum(map(int, re.findall(r'^tarry_http_requests_total\{route="get"\S* (\d+)$', page, re.MULTILINE)))


def frees_everything(server):
    """Waits until the server has no memory of clients that are gone, and no answers to make for them."""
    client = server.client()

    def is_idle():
        before = answered(client)
        time.sleep(0.3)
        return answered(client) == before and client.good("GET", "/v1/server")["memory"]["request_bytes"] < 2 * MIB

    eventually(is_idle, 120)


def stays_within_the_budget(server, before):
    client = server.client()
    requests, resident = readings_of(server, client)
    used, grown = max(requests), max(resident) - before
    assert used < 48 * MIB, f"{used / MIB:.0f} MiB"
    assert IS_SANITIZED or grown < 64 * MIB, f"{grown / MIB:.0f} MiB"
    assert client.call("POST", "/v1/topics/good/jobs", b"small").status == 201


def request(method, target, length=0, *fields):
    return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{''.join(f + chr(13) + chr(10) for f in fields)}Content-Length: {length}\r\n\r\n".encode()


def streams(*fields, count=4):
    """A connection of HTTP/2 that allows answers of any size, with the same request on several streams."""
    settings = Peer.frame(frames.SETTINGS, 0, 0, struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, 2**31 - 1))
    block, flags = frames.literal(frames.request(*fields)), frames.END_STREAM | frames.END_HEADERS
    opened = b"".join(Peer.frame(frames.HEADERS, flags, 1 + 2 * n, block) for n in range(count))
    return frames.PREFACE + settings + Peer.frame(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 65536)) + opened


SQS = "X-Amz-Target: AmazonSQS.SendMessage", "Content-Type: application/x-amz-json-1.0"
HTTP_LISTENERS = ["http", "unix", "tls", "proxy", "mykit"]
# Requests that clients never end or whose answers they never read: by listener and kind of buffer.
BUFFERS = {
    **{(listener, "body"): request("POST", "/v1/topics/t/jobs", 1_000_000) + b"b" * 800_000 for listener in HTTP_LISTENERS},
    **{(listener, "answer"): request("GET", "/v1/topics/held/jobs/1") * 4 for listener in HTTP_LISTENERS},
    **{(listener, "answers of HTTP/2"): streams("GET", "/v1/topics/held/jobs/1") for listener in ("http", "unix", "proxy")},
    ("mykit", "push"): request("POST", "/push", 1_000_000) + b"b" * 800_000,
    ("http", "sqs"): request("POST", "/", 1_000_000, *SQS) + b"b" * 800_000,
    ("beanstalk", "body"): b"put 1 0 60 1000000\r\n" + b"b" * 800_000,
    ("beanstalk", "answer"): b"use held\r\n" + b"peek-ready\r\n" * 8,
    ("beanstalk", "pipelined puts"): b"reserve\r\n" + (b"put 1 0 60 50000\r\n" + b"b" * 50_000 + b"\r\n") * 20,
}


@pytest.mark.parametrize(("listener", "kind"), BUFFERS)
def test_buffers_stay_within_the_budget(server, listener, kind):
    server.client().good("PUT", "/v1/topics/held/jobs/1", b"b" * BODY_BYTES)
    before = server.resident_bytes()
    with contextlib.ExitStack() as stack:
        pour([stack.enter_context(dial(server, listener)) for _ in range(CLIENTS)], BUFFERS[listener, kind])
        stays_within_the_budget(server, before)
    frees_everything(server)


def pour_bodies(peers):
    """Sends as much of a body on a stream of each peer as the server allows, until it has allowed no peer more for a while. Returns the bytes."""
    sent, moved = dict.fromkeys(peers, 0), time.monotonic()
    while time.monotonic() < moved + (0.7 if sum(sent.values()) else 10):
        for peer in peers:
            while peer.bytes or select.select([peer.socket], [], [], 0)[0]:
                peer.read()
            answer = peer.answers[1]
            allowed = min(peer.rooms[0], peer.rooms[1], 16384, 800_000 - sent[peer])
            if allowed > 0 and not answer.ended and answer.reset is None:
                peer.send(frames.DATA, 0, 1, b"b" * allowed)
                sent[peer], moved = sent[peer] + allowed, time.monotonic()
    return sum(sent.values())


BODIES = {"rest": ("/v1/topics/t/jobs", "application/octet-stream"), "grpc": ("/tarry.v1.Queue/Push", "application/grpc")}


@pytest.mark.parametrize("call", BODIES)
def test_bodies_of_http2_stay_within_the_budget(server, call):
    """The clients heed the windows of the server, which grow only while there is memory."""
    path, content_type = BODIES[call]
    before = server.resident_bytes()
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(server.port)) for _ in range(CLIENTS)]
        for peer in peers:
            peer.open(frames.request("POST", path, [("content-type", content_type), ("te", "trailers")]), end=False)
        assert pour_bodies(peers) > CLIENTS * 65_535, "the windows grow"
        stays_within_the_budget(server, before)
    frees_everything(server)


def test_pushes_that_wait_give_their_memory_back(server):
    """Together they are larger than the budget."""
    client = server.client()
    for number in range(45):
        client.good("PUT", f"/v1/topics/t/jobs/{number}?delay=1h&wait=1ms", b"b" * BODY_BYTES)
    frees_everything(server)


def test_a_job_that_mykit_has_no_memory_for_goes_back(server):
    """The answer has more than 1 MiB, so it may not use the last quarter of the budget."""
    client, mykit = server.client(), Client(server.addresses["mykit"][1])
    client.good("PUT", "/v1/topics/held/jobs/1", b'"' * BODY_BYTES)
    with contextlib.ExitStack() as stack:
        pour([stack.enter_context(dial(server, "http")) for _ in range(CLIENTS)], BUFFERS["http", "body"])
        eventually(lambda: client.call("GET", "/v1/topics/held/jobs/1").status == 503)
        answer = mykit.call("GET", "/get/topic?topic=held&wait=0s")
        assert (answer.status, answer.json()["code"]) == (503, "too_much_memory"), answer.body
        eventually(lambda: counts(client, "held")["ready"] == 1)
    frees_everything(server)
    assert mykit.good("GET", "/get/topic?topic=held&wait=0s")["data"]["id"] == "1"


def test_a_beanstalk_client_that_never_reads_holds_two_answers(start_server, tmp_path):
    """The budget of all connections is far away: this is the bound of each."""
    clients, job_bytes = 60, 60_000
    server = serve(start_server, tmp_path, "--max-request-memory", "1GiB")
    client = server.client()
    client.good("PUT", "/v1/topics/held/jobs/1", b"b" * job_bytes)
    with contextlib.ExitStack() as stack:
        before = client.good("GET", "/v1/server")["memory"]["request_bytes"]
        deaf = [stack.enter_context(dial(server, "beanstalk")) for _ in range(clients)]
        for one in deaf:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        pour(deaf, b"use held\r\n" + b"peek-ready\r\n" * 5000)
        used = (readings_of(server, client)[0][-1] - before) / clients
        assert job_bytes < used < 6 * job_bytes, f"{used:.0f} bytes for each connection"


# Requests that end by themselves, with the longest time in seconds (the limits are 2 s without any bytes, and 10 s).
SILENT = {
    **{(listener, "nothing"): (b"", 2) for listener in [*HTTP_LISTENERS, "beanstalk"] if listener != "beanstalk"},
    **{(listener, "half a head"): (b"GET /healthz HTTP/1.1\r\nHos", 10) for listener in HTTP_LISTENERS},
    ("beanstalk", "half a line"): (b"list-tu", 10),
    ("beanstalk", "a line without end"): (b"x" * 5000, 10),
    ("raw tls", "nothing"): (b"", 10),
    ("raw tls", "half a handshake"): (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 10),
    ("raw proxy", "nothing"): (b"", 10),
    ("raw proxy", "half a header"): (PROXY[:20], 10),
}


def test_unfinished_requests_end_at_each_listener(hasty):
    server = hasty
    server.addresses.update({"raw tls": server.addresses["tls"], "raw proxy": server.addresses["proxy"]})
    with contextlib.ExitStack() as stack:
        waiting = {}
        for (listener, kind), (data, seconds) in SILENT.items():
            one = stack.enter_context(dial(server, listener))
            one.sendall(data)
            one.settimeout(60)
            waiting[listener, kind] = one, time.monotonic(), seconds
        for name, (one, began, seconds) in waiting.items():
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while one.recv(4096):
                    pass
            assert seconds - 1 <= time.monotonic() - began or name[0] == "raw proxy", name
            assert time.monotonic() - began < 40, name


def test_a_worker_of_beanstalk_is_waited_for(hasty):
    server = hasty
    with dial(server, "beanstalk") as one:
        one.sendall(b"reserve\r\n")
        time.sleep(12)
        with dial(server, "beanstalk") as other:
            other.sendall(b"put 0 0 60 1\r\nx\r\n")
            assert one.recv(100).startswith(b"RESERVED ")
