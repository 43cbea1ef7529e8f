"""HTTP/2 on the port of HTTP/1.1: requests as streams, answers in any order, flow control, and the limits for hostile peers."""

import http.client
import json
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
from frames import ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, PING, PREFACE, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, Answer, Closed, Peer, literal, request
from server import eventually
from tokens import Token, TokenFile

pytestmark = pytest.mark.plain("the frames are written to a plain socket")
TAKE = "/v1/topics/orders/take"


def push(server, job, body=b"{}"):
    server.client().push("orders", job, body=body)


def job_of(server, job):
    return server.client().get("orders", job)


# ---- both protocols ----


def test_one_port_serves_both_protocols(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        assert peer.call("PUT", "/v1/topics/orders/jobs/a", b'{"total":12}').status == 201
        old = http.client.HTTPConnection("127.0.0.1", server.port)
        old.request("POST", TAKE)
        assert json.loads(old.getresponse().read())["jobs"][0]["id"] == "a"
        assert peer.call("GET", "/v1/topics/orders/jobs/a").status == 200
        assert peer.settings[MAX_CONCURRENT_STREAMS] == 256


def test_tls_offers_both_protocols(start_server, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    key.chmod(0o600)
    server = start_server("--listen", "127.0.0.1:0,tls", "--tls-cert", str(certificate), "--tls-key", str(key), started=False)
    server.launch()
    port = server.wait_listening()
    ports = {int(line.split("address=127.0.0.1:")[1].split()[0]) for line in server.log().splitlines() if "event=listening" in line or "address=127.0.0.1:" in line}
    for tls_port in ports - {port} or {port}:
        for flag, version in (("--http2", "2"), ("--http1.1", "1.1"), ("-q", "2")):
            out = subprocess.run(["curl", "-s", flag, "--cacert", str(certificate), "-o", "/dev/null", "-w", "%{http_version} %{http_code}", f"https://localhost:{tls_port}/readyz"], capture_output=True, text=True, check=False)
            assert out.stdout == f"{version} 200", out
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2"])
    with Peer(next(iter(ports - {port} or {port})), tls=context) as peer:
        assert peer.call("GET", "/readyz").status == 200


def test_a_preface_that_arrives_in_pieces_is_one(start_server):
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        for at in range(len(PREFACE)):
            raw.sendall(PREFACE[at:at + 1])
            time.sleep(0.002)
        raw.sendall(Peer.frame(SETTINGS, 0, 0))
        assert raw.recv(9)[3] == SETTINGS


@pytest.mark.parametrize("start", [b"PRI * HTTP/2.0\r\n\r\nSN", b"PRI /x HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PUT /v1/topics/orders/jobs/p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"])
def test_text_that_resembles_a_preface_is_http_1(start_server, start):
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(start)
        assert raw.recv(100).startswith(b"HTTP/1.1 ")


def test_an_upgrade_to_h2c_is_ignored(start_server):
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")


# ---- streams ----


def test_answers_leave_in_any_order(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        take = peer.open(request("POST", TAKE + "?wait=60s"))
        assert peer.call("GET", "/readyz").status == 200
        assert peer.answers[take].status is None
        assert peer.call("PUT", "/v1/topics/orders/jobs/a", b"{}").status == 201
        assert json.loads(peer.wait(take).body)["jobs"][0]["id"] == "a"


def test_two_hundred_takes_wait_on_one_connection(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        takes = [peer.open(request("POST", TAKE + "?wait=60s")) for _ in range(200)]
        peer.sync()
        for n in range(200):
            push(server, f"job-{n}")
        jobs = [json.loads(peer.wait(take).body)["jobs"] for take in takes]
        assert sorted(job["id"] for one in jobs for job in one) == sorted(f"job-{n}" for n in range(200))


def test_more_than_256_streams_end_the_connection(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        peer.sync()
        takes = [peer.open(request("POST", TAKE + "?wait=60s")) for _ in range(256)]
        peer.reset(takes[0])
        assert peer.call("GET", "/readyz").status == 200
        for _ in range(2):
            peer.open(request("POST", TAKE + "?wait=60s"))
        assert peer.read_to_end() == PROTOCOL_ERROR


def test_waiting_takes_count_to_max_waiting(start_server):
    server = start_server("--max-waiting", "2", "--shards", "1")
    with Peer(server.port) as peer:
        for _ in range(2):
            peer.open(request("POST", TAKE + "?wait=60s"))
        peer.sync()
        answer = peer.call("POST", TAKE + "?wait=60s")
        assert json.loads(answer.body)["code"] == "too_many_waiting"


def test_events_are_one_stream_among_others(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        events = peer.open(request("GET", "/v1/events"))
        peer.wait_for(lambda: peer.answers[events].status == 200)
        assert peer.call("PUT", "/v1/topics/orders/jobs/a", b"{}").status == 201
        peer.wait_for(lambda: b"event: " in peer.answers[events].body and b'"a"' in peer.answers[events].body)
        peer.reset(events)
        assert peer.call("GET", "/readyz").status == 200


def test_a_batch_that_is_read_in_pieces_is_recorded_with_its_own_caller(start_server, tmp_path):
    tokens = [Token(name, ["push", "read"]) for name in ("importer", "other")]
    TokenFile(tmp_path / "tokens", *tokens)
    server = start_server("--tokens", tmp_path / "tokens")
    importer, other = ([("authorization", "Bearer " + token.secret)] for token in tokens)
    lines = b'{"topic":"orders","body":[' + b"1," * 500 + b"1]}\n"
    with Peer(server.port) as peer:
        batch = peer.open(request("POST", "/v1/jobs", [("content-type", "application/x-ndjson"), *importer]), end=False)
        peer.send_body(batch, lines * 1000)
        assert peer.call("GET", "/v1/topics/orders", fields=other).status in (200, 404)  # while the batch is read
        assert peer.wait(batch).status in (200, 201)
        found = json.loads(peer.call("GET", "/v1/topics/orders/consumers", fields=importer).body)
        assert [one["caller"] for one in found["pushers"]] == ["importer"]


# ---- jobs that are not delivered ----


def test_a_reset_take_delivers_nothing(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        peer.reset(peer.open(request("POST", TAKE + "?wait=60s")))
        peer.sync()
        push(server, "a")
        assert job_of(server, "a")["state"] == "ready"
        assert json.loads(peer.call("POST", TAKE).body)["jobs"][0]["attempt"] == 1


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("waits", [False, True])
def test_an_unsent_job_returns_without_an_attempt(start_server, end, waits):
    """The client's window is 0, so the job is leased but its DATA frame cannot leave."""
    server = start_server()
    peer = Peer(server.port, settings=[(INITIAL_WINDOW_SIZE, 0)])
    peer.sync()
    if not waits:
        push(server, "a")
    take = peer.open(request("POST", TAKE + "?wait=60s"))
    if waits:
        peer.sync()
        push(server, "a")
    peer.wait_for(lambda: peer.answers[take].status == 200)
    assert job_of(server, "a")["state"] == "leased"
    if end == "reset":
        peer.reset(take)
        peer.sync()
    peer.socket.close()
    eventually(lambda: job_of(server, "a")["state"] == "ready", 10)
    assert server.client().take("orders")[0]["attempt"] == 1


def test_a_written_job_stays_leased_when_the_connection_ends(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        push(server, "a")
        assert json.loads(peer.call("POST", TAKE).body)["jobs"]
    time.sleep(0.3)
    assert job_of(server, "a")["state"] == "leased"


def test_a_push_whose_stream_is_reset_is_stored_or_not_but_harms_no_other(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        for n in range(50):
            peer.reset(peer.open(request("PUT", f"/v1/topics/orders/jobs/r{n}"), b"{}"))
        assert peer.call("PUT", "/v1/topics/orders/jobs/a", b"{}").status == 201


# ---- flow control ----


def test_a_large_answer_arrives_whole_through_small_windows(start_server):
    server = start_server("--shards", "1", "--max-body", "2MiB")
    body = bytes(range(256)) * 4096
    with Peer(server.port, settings=[(INITIAL_WINDOW_SIZE, 1000)]) as peer:
        peer.keeps_window = True
        assert peer.call("PUT", "/v1/topics/orders/jobs/a", body).status == 201
        take = peer.open(request("POST", TAKE, [("accept", "application/octet-stream")]))
        while not peer.answers[take].ended:
            frame = peer.read()
            if frame.type == DATA and frame.payload:
                assert len(frame.payload) <= 1000
                peer.window(take, len(frame.payload))
        assert peer.answers[take].body == body


def test_large_answers_are_sent_in_turn(start_server):
    server = start_server()
    with Peer(server.port, settings=[(INITIAL_WINDOW_SIZE, 0)]) as peer:
        pages = [peer.open(request("GET", "/openapi.yaml", [("priority", "u=0")])), peer.open(request("GET", "/openapi.yaml"))]
        while not all(peer.answers[page].status for page in pages):
            peer.read()
        peer.socket.sendall(b"".join(peer.frame(WINDOW_UPDATE, 0, stream, (1 << 20).to_bytes(4, "big")) for stream in (0, *pages)))
        order = []
        while not all(peer.answers[page].ended for page in pages):
            frame = peer.read()
            order += [frame.stream] if frame.type == DATA else []
        assert len(order) > 8 and abs(order[:8].count(pages[0]) - 4) <= 1, order


def test_a_priority_frame_of_no_stream_ends_the_connection(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        peer.send(PRIORITY, 0, 0, b"\0\0\0\0\x10")
        assert peer.read_to_end() == PROTOCOL_ERROR


def test_a_client_that_does_not_read_an_answer_loses_its_stream(start_server):
    server = start_server("--shards", "1", "--idle-timeout", "1s")
    with Peer(server.port, settings=[(INITIAL_WINDOW_SIZE, 0)]) as peer:
        take = peer.open(request("GET", "/v1/topics"))
        assert peer.wait(take).reset is not None


@pytest.mark.thorough("takes two minutes, since the time for a body cannot be set")
def test_a_body_that_does_not_arrive_ends_its_stream_only(start_server):
    server = start_server()
    with Peer(server.port, timeout=200) as peer:
        slow = peer.open(request("PUT", "/v1/topics/orders/jobs/a"), b"", end=False)
        begin = time.monotonic()
        answer = peer.wait(slow)
        assert answer.status == 408 and 119 < time.monotonic() - begin < 160
        assert peer.call("GET", "/readyz").status == 200


@pytest.mark.parametrize("with_length", [True, False])
def test_a_body_above_the_limit_is_refused_before_it_has_arrived(start_server, with_length):
    server = start_server("--shards", "1", "--max-body", "100KiB")
    with Peer(server.port) as peer:
        fields = [("content-length", "200000")] if with_length else []
        stream = peer.open(request("PUT", "/v1/topics/orders/jobs/a", fields), b"x" * (1 if with_length else 60_000), end=False)
        for _ in range(0 if with_length else 8):
            if peer.answers[stream].ended:
                break
            peer.sync()
            peer.send(DATA, 0, stream, b"x" * 10_000)
        answer = peer.wait(stream)
        assert answer.status == 413 and json.loads(answer.body)["code"] == "body_too_big"
        assert peer.call("GET", "/readyz").status == 200


# ---- header fields ----

MALFORMED = {
    "upper case": request("GET", "/readyz", [("X-Upper", "1")]),
    "connection": request("GET", "/readyz", [("connection", "close")]),
    "transfer-encoding": request("GET", "/readyz", [("transfer-encoding", "chunked")]),
    "te other than trailers": request("GET", "/readyz", [("te", "gzip")]),
    "no path": [(":method", "GET"), (":scheme", "http"), (":authority", "localhost")],
    "empty path": request("GET", ""),
    "two paths": request("GET", "/readyz", [])[:3] + [(":path", "/"), (":authority", "localhost")],
    "pseudo field after a field": [("accept", "*/*"), *request("GET", "/readyz")],
    "unknown pseudo field": [(":zebra", "1"), *request("GET", "/readyz")],
    "line feed in a value": request("GET", "/readyz", [("x-a", "b\r\nx-c: d")]),
    "line feed in a path": request("GET", "/readyz HTTP/1.1\r\nx: y"),
    "status": [(":status", "200"), *request("GET", "/readyz")],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_header_fields_reset_their_stream_only(start_server, name):
    server = start_server()
    with Peer(server.port) as peer:
        assert peer.wait(peer.open(MALFORMED[name])).reset == PROTOCOL_ERROR
        assert peer.call("GET", "/readyz").status == 200


REFUSED = {
    "bad_framing": ("GET", "/readyz", [("host", "other.example")]),
    "bad_request": ("GET", "/readyz", [("authorization", "a"), ("authorization", "b")]),
    "header_too_big": ("GET", "/readyz", [("x-a", "y" * 8000), ("x-b", "y" * 8000), ("x-c", "y" * 8000)]),
    "target_too_long": ("GET", "/" + "x" * 9000, []),
    "no_such_path": ("GET", "/nowhere", []),
    "method_not_allowed": ("PATCH", "/readyz", []),
    "coding_unknown": ("PUT", "/v1/topics/orders/jobs/a", [("content-encoding", "gzip")]),
}


@pytest.mark.parametrize("code", REFUSED)
def test_checks_are_the_same_as_for_http_1(start_server, code):
    server = start_server()
    method, path, fields = REFUSED[code]
    with Peer(server.port) as peer:
        answer = peer.call(method, path, None, fields)
        assert json.loads(answer.body)["code"] == code
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
            raw.sendall(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
            old = http.client.HTTPResponse(raw)
            old.begin()
            assert (old.status, json.loads(old.read())) == (answer.status, json.loads(answer.body))


def test_a_strange_host_is_refused(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        answer = peer.wait(peer.open(request("GET", "/v1/topics", authority="evil.example")))
        assert answer.status == 421


def test_a_wrong_content_length_stores_nothing(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        stream = peer.open(request("PUT", "/v1/topics/orders/jobs/a", [("content-length", "5")]), b"1234")
        assert peer.wait(stream).reset == PROTOCOL_ERROR
        assert peer.call("GET", "/v1/topics/orders/jobs/a").status == 404


def test_an_expected_100_continue_is_sent(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        stream = peer.open(request("PUT", "/v1/topics/orders/jobs/a", [("expect", "100-continue"), ("content-length", "2")]), end=False)
        while (frame := peer.read()).type != HEADERS:
            pass
        assert frame.stream == stream and not frame.flags & END_STREAM
        peer.send(DATA, END_STREAM, stream, b"{}")
        assert peer.wait(stream).status == 201


# ---- hostile peers ----


def many(kind, flags, stream, payload=b"", count=3000):
    return lambda _: Peer.frame(kind, flags, stream, payload) * count


def rapid_reset(peer):
    out, block = b"", literal(request("GET", "/readyz"))
    for stream in range(1, 6001, 2):
        out += peer.frame(HEADERS, END_HEADERS | END_STREAM, stream, block) + peer.frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
    return out


def compressed_bomb(peer):
    """A field of 4,000 bytes in the table of HPACK, then a thousand references to it."""
    block = literal(request("GET", "/readyz")) + b"\x40\x01a" + bytes([127]) + bytes([(3900 - 127) % 128 + 128, (3900 - 127) // 128]) + b"x" * 3900
    return peer.frame(HEADERS, END_HEADERS | END_STREAM, 1, block + b"\xbe" * 1000)


def continuation_flood(peer):
    field = literal([("x-a", "y" * 16000)])
    return peer.frame(HEADERS, END_STREAM, 1, literal(request("GET", "/readyz"))) + peer.frame(CONTINUATION, 0, 1, field) * 100


def empty_continuation_flood(peer):
    return peer.frame(HEADERS, END_STREAM, 1, literal(request("GET", "/readyz"))) + peer.frame(CONTINUATION, 0, 1) * 3000


def empty_data_flood(peer):
    head = peer.frame(HEADERS, END_HEADERS, 1, literal(request("PUT", "/v1/topics/orders/jobs/a")))
    return head + peer.frame(DATA, 0, 1) * 3000


FLOODS = {
    "rapid reset": rapid_reset,
    "PING": many(PING, 0, 0, b"12345678"),
    "SETTINGS": many(SETTINGS, 0, 0),
    "PRIORITY": many(PRIORITY, 0, 1, b"\0\0\0\0\x10"),
    "empty DATA": empty_data_flood,
    "CONTINUATION": continuation_flood,
    "empty CONTINUATION": empty_continuation_flood,
    "HPACK": compressed_bomb,
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_connection_and_no_other(start_server, name):
    server = start_server()
    with Peer(server.port) as other, Peer(server.port) as peer:
        assert other.call("GET", "/readyz").status == 200
        flood = FLOODS[name](peer)
        sender = threading.Thread(target=send_or_fail, args=(peer.socket, flood), daemon=True)
        sender.start()
        code = peer.read_to_end()
        assert code in (CALM, PROTOCOL_ERROR) if "CONTINUATION" in name else code == CALM
        sender.join(20)
        assert other.call("GET", "/readyz").status == 200


def test_resets_that_a_client_provokes_also_count(start_server):
    server = start_server()
    block = literal(request("GET", "/readyz", [("X-Upper", "1")]))
    with Peer(server.port) as peer:
        with pytest.raises(Closed):
            for batch in range(100):
                first = 1 + 200 * batch
                peer.socket.sendall(b"".join(peer.frame(HEADERS, END_HEADERS | END_STREAM, stream, block) for stream in range(first, first + 200, 2)))
                peer.sync()
        assert peer.goaways[-1][1] == CALM


def send_or_fail(to, data):
    try:
        to.sendall(data)
    except OSError:
        pass  # the server has closed, as it should


@pytest.mark.parametrize("kind", ["PING", "SETTINGS", "empty DATA"])
def test_a_few_of_such_frames_are_fine(start_server, kind):
    server = start_server()
    with Peer(server.port) as peer:
        if kind == "empty DATA":
            peer.socket.sendall(peer.frame(HEADERS, END_HEADERS, 1, literal(request("PUT", "/v1/topics/orders/jobs/a"))) + peer.frame(DATA, 0, 1) * 500 + peer.frame(DATA, END_STREAM, 1, b"{}"))
            peer.next_stream, peer.answers[1] = 3, Answer()
            assert peer.wait(1).status == 201
        else:
            peer.socket.sendall(FLOODS[kind](None)[:500 * (17 if kind == "PING" else 9)])
        assert peer.call("GET", "/readyz").status == 200


def test_resets_that_answers_make_up_for_are_fine(start_server):
    """A consumer that cancels many takes, and makes as many calls."""
    server = start_server()
    with Peer(server.port) as peer:
        for _ in range(30):
            for _ in range(100):
                peer.reset(peer.open(request("POST", TAKE + "?wait=60s")))
            calls = [peer.open(request("GET", "/readyz")) for _ in range(100)]
            assert all(peer.wait(call).status == 200 for call in calls)


def test_frames_on_an_ended_stream_end_the_connection(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        assert peer.call("GET", "/readyz").status == 200
        peer.send(HEADERS, END_HEADERS | END_STREAM, 1, literal(request("GET", "/readyz")))
        assert peer.read_to_end() == STREAM_CLOSED


def test_a_silent_connection_ends_with_goaway(start_server):
    server = start_server("--shards", "1", "--idle-timeout", "1s")
    with Peer(server.port) as peer:
        assert peer.call("GET", "/readyz").status == 200
        assert peer.read_to_end() == 0


# ---- shutdown ----


def test_goaway_loses_no_started_call(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        peer.holds_pongs = True
        take = peer.open(request("POST", TAKE + "?wait=60s"))
        peer.sync()
        server.proc.send_signal(signal.SIGTERM)
        peer.wait_for(lambda: peer.goaways)
        assert peer.goaways == [(2**31 - 1, 0)]
        late = peer.call("PUT", "/v1/topics/orders/jobs/late", b"{}")  # sent before the client knew
        assert late.status == 201
        peer.send(PING, ACK, 0, b"\0" * 8)
        assert json.loads(peer.wait(take).body) == {"jobs": []}
        assert peer.read_to_end() == 0
        assert peer.goaways[-1] == (3, 0)
    assert server.proc.wait(60) == 0
    server.start()
    assert job_of(server, "late")["state"] == "ready"


def test_a_client_that_ignores_goaway_does_not_hold_up_the_shutdown(start_server):
    server = start_server()
    with Peer(server.port) as peer:
        peer.holds_pongs = True
        assert peer.call("GET", "/readyz").status == 200
        server.proc.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        try:
            while True:
                peer.read()
        except Closed:
            pass
        assert time.monotonic() - begin < 20
    assert server.proc.wait(60) == 0
