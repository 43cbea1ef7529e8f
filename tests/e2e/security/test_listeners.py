"""A server with several listeners: permitted clients, the reported client address, leftovers of a socket."""

import functools
import os
import re
import socket
import ssl
import stat
import subprocess
import threading

import pytest
from certificates import Authority
from client import Client, Connection, request_bytes
from haproxy import HAProxy
from server import BINARY, REPO, Server, eventually, free_port, together
from tokens import Token, TokenFile

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def listening(server, place):
    """The port of a further listener, from the log; `place` is its address."""
    return int(re.search(rf'"listening also" address={re.escape(place)}:(\d+)', server.log()).group(1))


def metric(server, name, listener):
    text = server.client().call("GET", "/metrics").body.decode()
    return int(re.search(rf'^{name}{{listener="{re.escape(listener)}"}} (\d+)$', text, re.MULTILINE).group(1))


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = authority.sign("server")
    authority.flags = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    return authority


def seal(connection, authority):
    """Starts TLS on the connection."""
    connection.socket = authority.context().wrap_socket(connection.socket, server_hostname="localhost")


def refused_start(*flags):
    ended = subprocess.run([str(BINARY), "serve", *map(str, flags)], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode in (1, 2), ended.stderr
    return ended.stderr


# ---- several listeners ----


@pytest.mark.parametrize("shards", ["1", "3"])
def test_all_listeners_serve_the_same_jobs(start_server, tmp_path, shards):
    path = tmp_path / "tarry.sock"
    server = start_server("--shards", shards, "--listen", "127.0.0.2:0", "--listen", f"unix:{path}", "--listen", "[::1]:0")
    doors = [Client(server.port), Client(("127.0.0.2", listening(server, "127.0.0.2"))), Client(path), Client(("::1", listening(server, "[::1]")))]
    for number, door in enumerate(doors):
        door.push("t", f"job-{number}", body=b"x" * 50_000)  # one page has all
    for door in doors:
        assert {job["id"] for job in door.list("t")["jobs"]} == {"job-0", "job-1", "job-2", "job-3"}
    lease = doors[2].take("t")[0]["lease"]
    assert doors[0].ack(lease)[0]["result"] == "ok"
    assert f'address=unix:{path}' in server.log()
    assert metric(server, "tarry_http_connections_accepted_total", f"unix:{path}") >= 1
    server.terminate()
    assert not path.exists()
    for place in (server.port, ("::1", listening(server, "[::1]"))):
        with pytest.raises(OSError):
            Connection(place)


def test_names_are_checked_at_each_listener(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    server = start_server("--listen", f"unix:{path}", "--listen", "0.0.0.0:0", "--insecure", "--allowed-host", "queue.internal")
    port = listening(server, "0.0.0.0")
    rows = [("localhost", 200, 200, 200), ("127.0.0.1:80", 200, 200, 200), ("queue.internal", 200, 200, 200), ("192.0.2.7", 421, 421, 200),
            ("evil.example", 421, 421, 421), ("127.0.0.1.evil.example", 421, 421, 421)]
    for host, *expected in rows:
        for place, status in zip((server.port, path, port), expected):
            connection = Connection(place)
            connection.send(f"GET /v1/info HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert connection.read().status == status, (host, place)
            connection.close()
    assert server.log().count("event=insecure") == 1 and f"event=insecure address=0.0.0.0:{port}" in server.log()


def test_connections_wait_for_a_free_descriptor(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    server = start_server("--listen", f"unix:{path}", started=False)
    server.prefix = ["prlimit", "--nofile=100:100"]
    server.start()
    connections = [Connection(place) for place in (server.port, path) for _ in range(60)]
    waiting = connections[40:60] + connections[100:]
    for connection in waiting:
        connection.send(request_bytes("GET", "/healthz"))
    for connection in connections:
        if connection not in waiting:
            connection.close()
    assert {connection.read().status for connection in waiting} == {200}


# ---- unix sockets ----


def test_only_users_permitted_by_the_mode_can_connect(start_server, open_directory):
    own, shared = open_directory / "own.sock", open_directory / "shared.sock"
    group = os.getgroups()[0] if os.getgroups() else os.getgid()
    start_server("--listen", f"unix:{own}", "--listen", f"unix:{shared},mode=0660,group={group}")
    assert stat.S_IMODE(own.stat().st_mode) == 0o600 and stat.S_IMODE(shared.stat().st_mode) == 0o660
    assert shared.stat().st_gid == group
    assert Client(own).good("GET", "/v1/info") and Client(shared).good("GET", "/v1/info")
    if os.getuid() == 0:  # then another user can try it
        dial = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        for groups, path, works in (([], own, False), ([], shared, False), ([group], own, False), ([group], shared, True)):
            ended = subprocess.run(["/usr/bin/python3", "-c", dial, path], user=65534, group=65534, extra_groups=groups, capture_output=True, check=False, timeout=30)
            assert (ended.returncode == 0) == works, (groups, path, ended.stderr)


def test_changes_over_a_unix_socket_are_audited_with_the_user(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    server = start_server("--listen", f"unix:{path}")
    Client(path).push("t", "1")
    Client(path).good("POST", "/v1/topics/t/purge")
    eventually(lambda: f"unix:uid={os.getuid()}" in server.log())


def test_a_socket_file_of_a_dead_server_is_replaced_and_no_other(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    server = start_server("--listen", f"unix:{path}")
    answer = refused_start("--data", tmp_path / "other", "--listen", f"unix:{path}")
    assert f"cannot listen on 'unix:{path}', another server listens there, stop the other server or choose another path" in answer
    assert Client(path).good("GET", "/v1/info") and not (tmp_path / "other").exists()
    server.kill()
    assert path.is_socket()
    server.start()
    assert Client(path).good("GET", "/v1/info")
    server.terminate()
    assert not path.exists()
    path.write_text("a file of somebody's")
    assert "a file that is not a socket is there, remove it or choose another path" in refused_start("--data", tmp_path / "other", "--listen", f"unix:{path}")
    assert path.read_text() == "a file of somebody's"


def test_a_file_that_replaced_the_socket_stays(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    first = start_server("--listen", f"unix:{path}")
    path.unlink()
    start_server("--listen", f"unix:{path}")
    first.terminate()
    assert Client(path).good("GET", "/v1/info")


def test_bad_words_are_refused_with_good_ones(tmp_path):
    for word, advice in (("127.0.0.1:0,tsl", "did you mean tls"), ("unix:a,mode=rw", "give the mode as chmod takes it, such as mode=0660"),
                         ("fd:web", "this process did not receive a socket"), ("unix:/none/a.sock", "create its directory first"),
                         ("127.0.0.1:0,require-token", "without a file of tokens")):
        assert advice in refused_start("--data", tmp_path / "data", "--listen", word)
    assert not (tmp_path / "data").exists()


@pytest.mark.shards
def test_connections_over_a_unix_socket_are_spread_over_all_shards(start_server, tmp_path):
    """Each of four shards may have 90 connections: 200 find room only if no shard has many more than its share."""
    path = tmp_path / "tarry.sock"
    start_server("--shards", "4", "--listen", f"unix:{path}", "--max-connections", "360")
    connections = [Connection(path) for _ in range(200)]
    assert {connection.call("GET", "/healthz").status for connection in connections} == {200}
    for connection in connections:
        connection.close()


# ---- sockets that were there before ----

HAND_OVER = 'n=3; for fd in $FDS; do eval "exec $n<&$fd"; n=$((n + 1)); done; LISTEN_PID=$$ LISTEN_FDS=$((n - 3)) exec "$@"'


def hand_over(server, sockets, names):
    """The server gets these sockets as systemd would hand them over, at each start."""
    server.pass_fds = [one.fileno() for one in sockets]
    server.env.update(FDS=" ".join(map(str, server.pass_fds)), LISTEN_FDNAMES=":".join(names))
    server.prefix = ["bash", "-c", HAND_OVER, "bash"]


@pytest.mark.parametrize("shards", ["1", "3"])
def test_a_restart_on_inherited_sockets_loses_no_connection(start_server, tmp_path, shards):
    path = tmp_path / "tarry.sock"
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen(1024)
        server = start_server("--shards", shards, "--listen", "fd:web", "--listen", "fd:4", started=False)
        hand_over(server, [tcp, unix], ["web", "local"])
        server.start()
        done, counts = threading.Event(), []

        def call(place):
            count = 0
            while not done.is_set():
                connection = Connection(place)
                assert connection.call("POST", "/v1/topics/t/jobs", b"x").status == 201
                connection.close()
                count += 1
            counts.append(count)

        def restart():
            try:
                for _ in range(3):
                    seen = int(server.client().topic("t")["counts"]["ready"]) if server.alive else 0
                    eventually(lambda: int(server.client().topic("t")["counts"]["ready"]) > seen + 50)  # noqa: B023
                    assert server.terminate() == 0
                    server.start()
            finally:
                done.set()

        server.client().push("t")
        together(restart, *[functools.partial(call, place) for place in (tcp.getsockname()[1], path) for _ in range(3)])
        assert server.client().topic("t")["counts"]["ready"] == sum(counts) + 1
        server.terminate()
        assert path.exists(), "it is not the server's to remove"


@pytest.mark.thorough("needs systemd-socket-activate")
def test_systemd_hands_a_socket_over(start_server):
    """The start is postponed until a client connects, which waits."""
    port = free_port()
    server = start_server("--listen", "fd:web", started=False)
    server.prefix = ["systemd-socket-activate", "--listen", f"127.0.0.1:{port}", "--fdname=web"]
    server.launch()
    connection = eventually(lambda: dialled(port))
    assert connection.call("GET", "/v1/info").status == 200
    assert f'"listening also" address=127.0.0.1:{port}' in server.log()
    connection.close()


def test_an_unserved_passed_socket_is_reported(start_server):
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        server = start_server("--listen", "fd:one", started=False)
        hand_over(server, [one, other], ["one", "other"])
        server.start()
        assert 'event="sockets not served" sockets=1' in server.log() and "give --listen fd:NAME" in server.log()
        ended = Server(server.directory / "late", ["--listen", f"127.0.0.1:{other.getsockname()[1]}"])
        hand_over(ended, [other], ["other"])
        assert ended.launch().proc.wait(30) == 1
        assert "the port is taken, if systemd holds it for this server, give --listen fd:NAME" in ended.log()


def dialled(port):
    try:
        return Connection(port)
    except OSError:
        return None


# ---- the end ----


@pytest.mark.parametrize("shards", ["1", "3"])
@pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])
@pytest.mark.parametrize("keeps", [False, True])
def test_connected_clients_get_answers_when_the_server_stops(start_server, tmp_path, authority, shards, kind, keeps):
    """Clients make a connection for each call, or keep theirs until an answer announces its end. No call is lost."""
    path = tmp_path / "tarry.sock"
    server = start_server("--shards", shards, "--listen", f"unix:{path}", "--listen", "127.0.0.2:0,tls", *authority.flags)
    place = {"tcp": server.port, "unix": path, "tls": ("127.0.0.2", listening(server, "127.0.0.2"))}[kind]
    server.client().push("t")
    counts = []

    def call():
        connection, count = None, 0
        while True:
            try:
                connection = connection or Connection(place)
            except OSError:  # the listener is closed
                counts.append(count)
                return
            if kind == "tls" and not isinstance(connection.socket, ssl.SSLSocket):
                seal(connection, authority)
            reply = connection.call("POST", "/v1/topics/t/jobs", b"x")
            assert reply.status == 201
            count += 1
            if reply.closes or not keeps:
                connection.close()
                connection = None

    def end():
        eventually(lambda: server.client().topic("t")["counts"]["ready"] > 100)
        assert server.terminate() == 0

    together(end, *[call] * 6)
    server.start()
    assert server.client().topic("t")["counts"]["ready"] == sum(counts) + 1


# ---- examples of the manual ----


def snippet(heading, language):
    page = (REPO / "docs" / "operations" / "listeners.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {heading}\n")[2].partition(f"```{language}\n")[2].partition("```")[0]


def test_the_listeners_of_the_manual(tmp_path, authority):
    """Its addresses are replaced by such as there are here."""
    lines = snippet("Listeners", "ini").replace("10.0.0.5:8280", "0.0.0.0:0").replace(":8279", ":0").replace(":8443", ":0").replace("/run/tarry", str(tmp_path))
    assert lines.count("listen = ") == 4
    group = os.getgroups()[0] if os.getgroups() else os.getgid()
    certificate, key = authority.flags[1], authority.flags[3]
    caller = Token("caller")
    file = TokenFile(tmp_path / "tokens", caller)
    conf = tmp_path / "tarry.conf"
    conf.write_text(lines.replace("group=tarry", f"group={group}") + f"data = {tmp_path / 'data'}\ntls-cert = {certificate}\ntls-key = {key}\ntokens = {file.path}\n",
                    encoding="utf-8")
    with open(tmp_path / "log", "wb") as log:
        proc = subprocess.Popen([str(BINARY), "serve", "--config", str(conf)], stdout=log, stderr=log)
    try:
        answer = eventually(lambda: (text := (tmp_path / "log").read_text()) and "event=listening" in text and text)
        assert "address=127.0.0.1:" in answer and "words=require-token" in answer and "words=tls,require-token" in answer and "words=proxy-protocol,require-token" in answer
        assert answer.count("event=insecure") == 1 and "can be read on the network: no TLS" in answer
        got = subprocess.run(["curl", "-sS", "--unix-socket", tmp_path / "tarry.sock", "-H", f"Authorization: Bearer {caller.secret}", "http://localhost/v1/info"],
                             capture_output=True, check=True, timeout=30)
        assert b'"shards"' in got.stdout
        reported = subprocess.run([str(BINARY), "topics", "--url", f"unix:{tmp_path / 'tarry.sock'}"], capture_output=True, text=True, check=False, timeout=30,
                              env={**os.environ, "TARRY_TOKEN": caller.secret})
        assert reported.returncode == 0, reported.stderr
    finally:
        proc.terminate()
        assert proc.wait(30) == 0


def test_the_haproxy_of_the_manual(start_server, tmp_path):
    server = start_server("--listen", f"unix:{tmp_path / 'proxy.sock'},proxy-protocol")
    server.client().push("t")
    config = snippet("Behind a proxy", "haproxy").replace("/run/tarry", str(tmp_path))
    with HAProxy(tmp_path / "haproxy", config=config.replace("0.0.0.0:8443", "127.0.0.1:{port}")) as proxy:
        connection = Connection(proxy.port, source="127.0.0.8")
        assert connection.call("POST", "/v1/topics/t/purge").status == 200
        eventually(lambda: "127.0.0.8:" in server.log())
        connection.close()


# ---- behind a proxy ----


def start_behind_proxy(start_server):
    server = start_server("--listen", "127.0.0.2:0,proxy-protocol")
    server.client().push("t")
    return server, ("127.0.0.2", listening(server, "127.0.0.2"))


def test_the_proxy_header_names_the_client(start_server):
    server, place = start_behind_proxy(start_server)
    v2 = SIGNATURE + b"\x21\x21\0\x24" + socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + b"\x30\x39\0\x50"
    for header, peer in ((b"PROXY TCP4 192.0.2.7 198.51.100.2 12345 80\r\n", "192.0.2.7:12345"), (v2, "[2001:db8::7]:12345")):
        for pieces in ([header], [header[:7], header[7:]]):
            connection = Connection(place)
            for piece in pieces:
                connection.send(piece)
            assert connection.call("POST", "/v1/topics/t/purge").status == 200
            assert connection.call("GET", "/v1/info").status == 200, "it is logged once"
            connection.close()
        eventually(lambda: server.log().count(peer) >= 2)
    for header in (b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x20\0\0\0"):
        connection = Connection(place, source="127.0.0.9")
        connection.send(header)
        assert connection.call("POST", "/v1/topics/t/purge").status == 200
        connection.close()
    eventually(lambda: server.log().count("127.0.0.9:") == 2)
    assert metric(server, "tarry_http_connections_failed_total", f"127.0.0.2:{place[1]}") == 0


def test_connections_without_a_proxy_header_are_not_served(start_server):
    server, place = start_behind_proxy(start_server)
    bad = [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PROXY TCP4 nonsense\r\n", SIGNATURE + b"\x21\x12\0\x0c" + b"\0" * 12, b"\x16\x03\x01" * 30]
    for sent in bad:
        connection = Connection(place)
        connection.send(sent)
        assert connection.at_end(), sent
        connection.close()
    Connection(place).close()
    name = f"127.0.0.2:{place[1]}"
    eventually(lambda: metric(server, "tarry_http_connections_failed_total", name) == len(bad) + 1)
    # Elsewhere the header is not a valid request.
    connection = server.connection()
    connection.send(b"PROXY TCP4 192.0.2.7 198.51.100.2 12345 80\r\n\r\n")
    assert connection.read().status == 400
    assert "192.0.2.7" not in server.log()


@pytest.mark.parametrize("words", ["send-proxy check inter 100ms", "send-proxy-v2 check inter 100ms", "send-proxy-v2 proxy-v2-options crc32c,unique-id"])
def test_haproxy_passes_clients_on(start_server, tmp_path, words):
    server, place = start_behind_proxy(start_server)
    with HAProxy(tmp_path / "haproxy", f"127.0.0.2:{place[1]}", words) as proxy:
        connection = Connection(proxy.port, source="127.0.0.5")
        port = connection.socket.getsockname()[1]
        assert connection.call("POST", "/v1/topics/t/purge").status == 200
        eventually(lambda: f"127.0.0.5:{port}" in server.log())
        body = os.urandom(200_000)
        assert connection.call("PUT", "/v1/topics/t/jobs/1", body).status == 201
        assert connection.call("POST", "/v1/topics/t/take", headers={"Accept": "application/octet-stream"}).body == body
        connection.close()


def test_the_header_comes_before_tls(start_server, tmp_path, authority):
    server = start_server("--listen", "127.0.0.2:0,tls,proxy-protocol", *authority.flags)
    port = listening(server, "127.0.0.2")
    server.client().push("t")
    connection = Connection(("127.0.0.2", port))
    connection.send(b"PROXY TCP4 192.0.2.7 198.51.100.2 12345 80\r\n")
    seal(connection, authority)
    assert connection.call("POST", "/v1/topics/t/purge").status == 200
    eventually(lambda: "192.0.2.7:12345" in server.log())
    connection.close()
    with HAProxy(tmp_path / "haproxy", f"127.0.0.2:{port}", f"send-proxy-v2 ssl ca-file {authority.file} verifyhost localhost") as proxy:
        connection = Connection(proxy.port, source="127.0.0.7")
        assert connection.call("POST", "/v1/topics/t/purge").status == 200
        eventually(lambda: "127.0.0.7:" in server.log())
        connection.close()


def test_haproxy_reaches_a_unix_socket(start_server, tmp_path):
    path = tmp_path / "tarry.sock"
    server = start_server("--listen", f"unix:{path},proxy-protocol")
    server.client().push("t")
    with HAProxy(tmp_path / "haproxy", f"unix@{path}", "send-proxy-v2") as proxy:
        connection = Connection(proxy.port, source="127.0.0.6")
        assert connection.call("POST", "/v1/topics/t/purge").status == 200
        eventually(lambda: "127.0.0.6:" in server.log())
        connection.close()
