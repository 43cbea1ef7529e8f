"""TLS: admitted clients, broken handshakes, and that unfinished handshakes delay no client."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from certificates import Authority
from client import READ_BYTES, Client, Connection, dial, request_bytes
from server import BINARY, IS_SANITIZED, eventually, slack

IGNORE_UNEXPECTED_EOF = 0x80  # of OpenSSL: Python sets it, and then an end without close_notify is as good as one with it
HELLO_BEGUN = bytes.fromhex("160301020001")  # a record of 512 bytes, of which one is sent


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.sign("server")
    return made


class Sealed(Connection):
    """A TLS connection, with the certificate `client` if one is named."""

    def __init__(self, port, authority, client=None, version=None, session=None, timeout=30.0):
        super().__init__(port, timeout)
        context = authority.context(client, version)
        context.options &= ~IGNORE_UNEXPECTED_EOF
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost", session=session, suppress_ragged_eofs=False)


class Bare:
    """The same without a socket of its own: what is sealed can be sent in pieces, cut and changed."""

    def __init__(self, port, authority):
        self.ours, self.theirs, self.wire = ssl.MemoryBIO(), ssl.MemoryBIO(), dial(port, 30.0)
        self.session = authority.context().wrap_bio(self.theirs, self.ours, server_hostname="localhost")

    def step(self, action, send=None):
        """Runs the handshake to its end; `send` sends the sealed bytes meanwhile."""
        while True:
            try:
                return action()
            except ssl.SSLWantReadError:
                (send or self.wire.sendall)(self.ours.read())
                if not (more := self.wire.recv(READ_BYTES)):
                    self.theirs.write_eof()
                self.theirs.write(more)

    def seal(self, data):
        self.session.write(data)
        return bytearray(self.ours.read())

    def read(self):
        return self.step(lambda: self.session.read(READ_BYTES))


def start(start_server, authority, *flags, words="tls"):
    """A server with a plain listener and one with TLS, whose port is `tls_port`."""
    server = start_server("--sync", "always", "--shards", "1", "--listen", f"127.0.0.1:0,{words}", "--tls-cert", str(authority.certificate("server")),
                          "--tls-key", str(authority.key("server")), *flags)
    server.tls_port = int(re.search(r'"listening also" address=127\.0\.0\.1:(\d+)', server.log()).group(1))
    return server


def metric(server, name):
    """Reads the figure by a connection that is closed immediately: a connection that stays would be counted itself."""
    with contextlib.closing(server.client()) as client:
        text = client.call("GET", "/metrics").body.decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE).group(1))


# ---- served ----


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_jobs_of_all_sizes_go_through(start_server, authority, version):
    server = start(start_server, authority)
    connection = Sealed(server.tls_port, authority, version=version)
    for size in (1, 100, 16 * 1024 - 1, 16 * 1024, 70_000, 1_000_000):
        body = os.urandom(size)
        assert connection.call("PUT", f"/v1/topics/t/jobs/{size}", body).status == 201
        connection.send(request_bytes("POST", "/v1/topics/t/take", headers={"Accept": "application/octet-stream"}))
        reply = connection.read()
        assert reply.status == 200 and reply.body == body
        assert connection.call("POST", "/v1/ack?lease=" + reply.headers["tarry-lease"]).status == 200
    assert connection.socket.version() == version.name.replace("_", ".")
    connection.close()


def test_many_pipelined_requests_are_answered_in_order(start_server, authority):
    server = start(start_server, authority)
    connection = Sealed(server.tls_port, authority)
    connection.send(b"".join(request_bytes("PUT", f"/v1/topics/t/jobs/{i}", b"x" * 2000) for i in range(500)))
    for i in range(500):
        assert connection.read().json()["id"] == str(i)


def test_bytes_one_by_one_are_as_good(start_server, authority):
    server = start(start_server, authority)
    bare = Bare(server.tls_port, authority)

    def send_slowly(data):
        for byte in data:
            bare.wire.send(bytes([byte]))

    bare.step(bare.session.do_handshake, send_slowly)
    send_slowly(bare.seal(request_bytes("PUT", "/v1/topics/t/jobs/1", b"body")))
    assert bare.read().startswith(b"HTTP/1.1 201 ")
    bare.wire.close()


def test_the_server_sends_close_notify(start_server, authority):
    server = start(start_server, authority, "--idle-timeout", "1s")
    connection = Sealed(server.tls_port, authority)
    assert connection.call("GET", "/healthz").status == 200
    assert connection.socket.recv(1) == b""  # close_notify: a cut would raise
    refused = Sealed(server.tls_port, authority)
    refused.send(b"nonsense\r\n\r\n")
    assert refused.read().status == 400
    assert refused.socket.recv(1) == b""


def test_a_client_that_ends_is_answered_first(start_server, authority):
    server = start(start_server, authority)
    bare = Bare(server.tls_port, authority)
    bare.step(bare.session.do_handshake)
    bare.session.write(request_bytes("POST", "/v1/topics/t/take?wait=30s"))
    began = time.monotonic()
    with pytest.raises(ssl.SSLWantReadError):
        bare.session.unwrap()  # announces the end
    bare.wire.sendall(bare.ours.read())
    assert b'{"jobs":[]}' in bare.read()
    assert time.monotonic() - began < 10 * slack()
    bare.wire.close()


def test_a_session_ticket_resumes(start_server, authority):
    server = start(start_server, authority)
    context = authority.context()
    sessions = []
    for session in (None, "last"):
        wire = context.wrap_socket(dial(server.tls_port, 30.0), server_hostname="localhost", session=sessions[-1] if session else None)
        wire.sendall(request_bytes("GET", "/healthz"))
        assert wire.recv(READ_BYTES).startswith(b"HTTP/1.1 200 ")
        sessions.append(wire.session)
        assert wire.session_reused == bool(session)
        wire.close()


def test_a_late_reader_gets_everything(start_server, authority):
    """More answers than the socket holds: what is sealed waits, and nothing is read meanwhile."""
    server = start(start_server, authority)
    connection = Sealed(server.tls_port, authority)
    bodies = [os.urandom(200_000).hex().encode() for _ in range(3)]
    for i, body in enumerate(bodies):
        assert connection.call("PUT", f"/v1/topics/t/jobs/{i}", body).status == 201
    connection.send(b"".join(request_bytes("GET", f"/v1/topics/t/jobs/{i % 3}") for i in range(120)))
    time.sleep(0.5)
    for i in range(120):
        assert connection.read().json()["body"].encode() == bodies[i % 3]


def test_unread_jobs_return(start_server, authority):
    """The client is gone while jobs are on their way to it: those that it cannot have read cost no attempt."""
    server = start(start_server, authority)
    for i in range(60):
        server.client().push("t", str(i), body=b"x" * 500_000)
    connection = Sealed(server.tls_port, authority)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    connection.send(b"".join(request_bytes("POST", "/v1/topics/t/take?max=10") for _ in range(6)))
    eventually(lambda: server.client().topic("t")["counts"]["leased"] > 0)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()  # a reset
    eventually(lambda: server.client().topic("t")["counts"]["ready"] >= 40)
    assert {job["attempt"] for job in server.client().take("t", max=10)} == {1}


@pytest.mark.parametrize("shards", ["1", "3"])
def test_a_proxy_header_precedes_tls(start_server, authority, shards):
    server = start(start_server, authority, "--shards", shards, words="tls,proxy-protocol")
    wire = dial(server.tls_port, 30.0)
    for byte in b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n":
        wire.send(bytes([byte]))
    connection = Connection.__new__(Connection)
    connection.socket, connection.pending = authority.context().wrap_socket(wire, server_hostname="localhost"), bytearray()
    assert connection.call("PUT", "/v1/topics/t/jobs/1", b"x" * 100_000).status == 201
    bare = dial(server.tls_port, 30.0)  # the header and the handshake in one piece
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = authority.context().wrap_bio(theirs, ours, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    bare.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n" + ours.read())
    theirs.write(bare.recv(READ_BYTES))
    session.do_handshake()
    bare.close()


# ---- who does not speak it ----


def test_plain_http_at_a_tls_port_gets_an_explanation(start_server, authority):
    server = start(start_server, authority)
    connection = Connection(server.tls_port)
    reply = connection.call("GET", "/v1/info")
    assert reply.status == 400 and reply.code == "bad_request" and "https://" in reply.json()["detail"]
    assert connection.at_end()


def test_tls_at_a_plain_port_gets_an_explanation(start_server, authority):
    server = start(start_server, authority)
    with pytest.raises(ssl.SSLError):
        Sealed(server.port, authority)
    connection = Connection(server.port)
    connection.send(HELLO_BEGUN)
    reply = connection.read()
    assert reply.status == 400 and "http://" in reply.json()["detail"]


@pytest.mark.parametrize("sent", [b"\0", b"\x16\x03\x01", HELLO_BEGUN, os.urandom(300), b"\x15\x03\x01\x00\x02\x02\x28", b"\x17\x03\x03\x40\x00" + b"a" * 16384,
                                  b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"])
def test_an_invalid_handshake_ends_without_harm(start_server, authority, sent):
    server = start(start_server, authority)
    wire = dial(server.tls_port, 30.0)
    wire.sendall(sent)
    wire.shutdown(socket.SHUT_WR)
    while wire.recv(READ_BYTES):
        pass
    assert Sealed(server.tls_port, authority).call("GET", "/healthz").status == 200


def test_damaged_and_cut_off_records_end_it(start_server, authority):
    """A record that lacks its end, one with a changed byte, and a request cut off in the middle change nothing."""
    server = start(start_server, authority)
    for damage in ("cut", "byte", "half request"):
        bare = Bare(server.tls_port, authority)
        bare.step(bare.session.do_handshake)
        request = request_bytes("PUT", "/v1/topics/t/jobs/1", b"x" * 1000)
        sealed = bare.seal(request[:-500] if damage == "half request" else request)
        if damage == "byte":
            sealed[-40] ^= 1
        bare.wire.sendall(sealed[:-20] if damage == "cut" else sealed)
        bare.wire.shutdown(socket.SHUT_WR)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            while bare.read():
                pass
        bare.wire.close()
    assert server.client().call("GET", "/v1/topics/t/jobs/1").status == 404


def test_renegotiation_is_rejected(start_server, authority):
    server = start(start_server, authority)
    client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.tls_port}", "-tls1_2", "-CAfile", str(authority.file)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    client.stdin.write(b"R\n")
    client.stdin.flush()
    time.sleep(0.3)
    answer = client.communicate(b"", timeout=30)[0].decode(errors="replace")
    assert "RENEGOTIATING" in answer and "no renegotiation" in answer, answer[-2000:]
    assert Sealed(server.tls_port, authority).call("GET", "/healthz").status == 200


# ---- those who never finish ----


def test_half_handshakes_do_not_starve_clients(start_server, authority):
    """Opens 10,000 connections that send the beginning of a handshake, or nothing: a prompt client still connects, and is served."""
    count = 1_000 if IS_SANITIZED else 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 20_000)), hard))
    server = start(start_server, authority)
    good = Sealed(server.tls_port, authority)
    waits, halves = [], []
    try:
        for i in range(count):
            half = dial(server.tls_port, 30.0)
            if i % 4:
                half.send(HELLO_BEGUN)
            halves.append(half)
            if i % 100 == 0:
                began = time.monotonic()
                assert good.call("PUT", f"/v1/topics/t/jobs/{i}", b"x").status == 201
                waits.append(time.monotonic() - began)
            if i % 1000 == 0:
                assert Sealed(server.tls_port, authority).call("GET", "/healthz").status == 200
        assert metric(server, "tarry_http_connections") <= 2100
        assert sorted(waits)[len(waits) * 9 // 10] < 1.0
        assert metric(server, "tarry_http_memory_bytes") < 256 << 20
    finally:
        for half in halves:
            half.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: metric(server, "tarry_http_connections") <= 10)


def test_each_slow_step_of_a_handshake_has_an_iteration_of_its_own(start_server, tmp_path):
    """A signature with a long RSA key takes milliseconds. Two in one iteration of the loop would delay the other clients twice as long."""
    count, authority = 30, Authority(tmp_path)
    authority.sign("server", kind=("rsa:4096",))
    server = start(start_server, authority)

    def long_iterations():
        name = "tarry_loop_iteration_processor_seconds"
        return metric(server, f'{name}_count{{reactor="0"}}') - metric(server, f'{name}_bucket{{reactor="0",le="0.001"}}')

    before = long_iterations()
    server.proc.send_signal(signal.SIGSTOP)  # the handshakes arrive together
    halves = [Bare(server.tls_port, authority) for _ in range(count)]
    for half in halves:
        with contextlib.suppress(ssl.SSLWantReadError):
            half.session.do_handshake()
        half.wire.sendall(half.ours.read())
    server.proc.send_signal(signal.SIGCONT)
    assert all(half.wire.recv(1) for half in halves)
    assert long_iterations() - before >= count * 3 // 4


# ---- certificates of clients ----


def tokens_for(tmp_path, *names):
    path = tmp_path / "tokens"
    for name in names:
        made = subprocess.run([str(BINARY), "token", "new", name, "--certificate", "--scope", "push,read", "--topics", "orders-*", "--tokens", str(path)],
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
    return path


def test_a_certificate_identifies_the_caller(start_server, authority, tmp_path):
    authority.sign("billing", names="DNS:billing.internal,DNS:other.internal")
    authority.sign("unknown", names="DNS:unknown.internal")
    server = start(start_server, authority, "--tls-client-ca", str(authority.file), "--tls-client-auth", "request",
                   "--tokens", str(tokens_for(tmp_path, "billing.internal")))
    billing = Sealed(server.tls_port, authority, client="billing")
    assert billing.call("PUT", "/v1/topics/orders-1/jobs/1", b"x").status == 201
    assert billing.call("PUT", "/v1/topics/mail/jobs/1", b"x").status == 403
    for client in ("unknown", None):
        assert Sealed(server.tls_port, authority, client=client).call("GET", "/v1/topics").status == 401


def test_a_certificate_may_be_required(start_server, authority, tmp_path):
    authority.sign("billing", names=None, common_name="billing")
    stranger = Authority(tmp_path / "stranger", "stranger")
    stranger.sign("billing", names=None, common_name="billing")
    server = start(start_server, authority, "--tls-client-ca", str(authority.file), "--tls-client-auth", "require", "--log-level", "debug")
    assert Sealed(server.tls_port, authority, client="billing").call("GET", "/v1/topics").status == 200
    for arguments in (["profile", "add", "prod", "--url", f"https://localhost:{server.tls_port}", "--ca", authority.file, "--cert", authority.certificate("billing"),
                       "--key", authority.key("billing")], ["topics", "--profile", "prod"]):
        called = subprocess.run([BINARY, *arguments], env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
        assert called.returncode == 0, called.stderr
    for context in (authority.context(), stranger.context("billing")):
        context.load_verify_locations(authority.file)
        with pytest.raises((ssl.SSLError, ConnectionError)):  # TLS 1.3: the client learns of it with the first answer
            wire = context.wrap_socket(dial(server.tls_port, 30.0), server_hostname="localhost")
            wire.sendall(request_bytes("GET", "/healthz"))
            assert wire.recv(1) != b""
            raise AssertionError("served without a certificate")
    eventually(lambda: server.log().count("handshake failed") == 2)
    assert "peer did not return a certificate" in server.log()


# ---- the command line ----


def test_the_command_line_speaks_it(start_server, authority, tmp_path):
    authority.sign("admin", names="DNS:admin.internal")
    server = start(start_server, authority, "--tls-client-ca", str(authority.file), "--listen", f"unix:{tmp_path}/tarry.sock")
    url = f"https://localhost:{server.tls_port}"
    called = server.cli("push", "t", "1", "--body", "x", "--url", url, "--ca", str(authority.file), text=True)
    assert called.returncode == 0, called.stderr
    environment = {**os.environ, "TARRY_URL": url, "TARRY_CA": str(authority.file), "TARRY_CERT": str(authority.certificate("admin")),
                   "TARRY_KEY": str(authority.key("admin"))}
    called = subprocess.run([str(BINARY), "topics", "--json"], env=environment, capture_output=True, check=False)
    assert [topic["topic"] for topic in json.loads(called.stdout)["topics"]] == ["t"]
    assert server.cli("topics", "--url", f"unix:{tmp_path}/tarry.sock").returncode == 0
    called = server.cli("topics", "--url", url, text=True)
    assert called.returncode == 3 and "--ca FILE" in called.stderr
    called = server.cli("topics", "--url", url, "--ca", str(authority.file), "--cert", "x", text=True)
    assert called.returncode == 2 and "--key FILE" in called.stderr


def test_the_command_line_speaks_http_1_1(authority):
    """libcurl 7.88 with several calls on one connection of HTTP/2 can wait for ever for an answer that it has received."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate("server"), authority.key("server"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://localhost:{listener.getsockname()[1]}"
        listener.settimeout(60)
        running = subprocess.Popen([str(BINARY), "topics", "--url", url, "--ca", str(authority.file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        accepted = listener.accept()[0]
        with context.wrap_socket(accepted, server_side=True) as wire:
            assert wire.selected_alpn_protocol() == "http/1.1"
        assert running.wait(60) == 3


def test_the_command_line_sends_a_token(start_server, authority, tmp_path):
    made = subprocess.run([str(BINARY), "token", "new", "ci", "--scope", "read,push", "--topics", "*", "--tokens", str(tmp_path / "tokens")], capture_output=True, text=True,
                          check=True)
    token = re.search(r"tarry_\w+", made.stdout).group(0)
    (tmp_path / "token").write_text(token + "\n")
    server = start(start_server, authority, "--tokens", str(tmp_path / "tokens"))
    secured = ("--url", f"https://localhost:{server.tls_port}", "--ca", str(authority.file))
    assert server.cli("topics", *secured).returncode == 1
    assert server.cli("topics", *secured, "--token-file", str(tmp_path / "token")).returncode == 0
    called = subprocess.run([str(BINARY), "topics", *secured], env={**os.environ, "TARRY_TOKEN": token}, capture_output=True, check=False)
    assert called.returncode == 0
    called = subprocess.run([str(BINARY), "topics", *secured], env={**os.environ, "TARRY_TOKEN": token[:-1] + "\n"}, capture_output=True, check=False)
    assert called.returncode == 2 and token[:-1].encode() not in called.stderr


def test_the_load_generator_speaks_it(start_server, authority):
    server = start(start_server, authority)
    called = server.cli("bench", "--url", f"https://localhost:{server.tls_port}", "--ca", str(authority.file), "--jobs", "5000", "--delay", "1ms..50ms", "--json")
    assert called.returncode == 0, called.stderr
    result = json.loads(called.stdout)
    assert result["pushed"] == result["delivered"] == result["acked"] == 5000


# ---- checked by others ----


@pytest.mark.thorough("needs testssl.sh, takes a minute")
def test_testssl_finds_nothing_above_low(start_server, authority, tmp_path):
    """Versions, ciphers, forward secrecy, the certificate and known attacks; not which browsers can connect, nor each cipher by itself."""
    server = start(start_server, authority)
    found = tmp_path / "found.json"
    checked = subprocess.run([shutil.which("testssl") or "testssl.sh", "--quiet", "--color", "0", "--warnings", "batch", "--ip", "127.0.0.1", "-n", "none",
                             "--add-ca", str(authority.file), "--jsonfile", str(found), "-p", "-s", "-f", "-S", "-h", "-U",
                             f"https://localhost:{server.tls_port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
    findings = json.loads(found.read_text())
    by_name = {finding["id"]: finding["finding"] for finding in findings}
    assert "offered" in by_name["TLS1_3"] and "not offered" in by_name["TLS1"], checked.stdout[-3000:]
    assert len(findings) > 60
    assert [finding for finding in findings if finding["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL")] == []
