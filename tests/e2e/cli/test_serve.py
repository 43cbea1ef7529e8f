"""The server as a process: configuration, start, stop, signals, and its messages if it cannot start."""

import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from client import request_bytes
from server import BINARY, eventually, free_port, slack


def serve(*flags, env=None, timeout=20, cwd=None):
    """A start that is expected to end by itself."""
    return subprocess.run([str(BINARY), "serve", *flags], capture_output=True, text=True, check=False, timeout=timeout,
                          env={**os.environ, **(env or {})}, cwd=cwd)


# ---- configuration ----


@pytest.mark.parametrize(
    "flags, env, says",
    [
        (["--dta", "x"], {}, "unknown option '--dta', did you mean --data"),
        (["--sync", "sometimes"], {}, "bad value 'sometimes' for '--sync'"),
        (["--shards"], {}, "option '--shards' needs a value"),
        (["stray"], {}, "unexpected argument 'stray'"),
        (["--listen", "0.0.0.0:0"], {}, "refusing to listen on '0.0.0.0:0'"),
        (["--config", "/nonexistent"], {}, "cannot read the configuration '/nonexistent'"),
        ([], {"TARRY_MAX_BODY": "huge"}, "bad value 'huge' for 'TARRY_MAX_BODY'"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(tmp_path, flags, env, says):
    ended = serve(*flags, env=env, cwd=tmp_path)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert ended.stderr.startswith("tarry: ") and ended.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir()), "nothing was made"


def test_a_fault_in_the_file_names_file_and_line(tmp_path):
    file = tmp_path / "tarry.conf"
    file.write_text("# mine\nshards = 1\nsinc = never\n")
    ended = serve("--config", str(file))
    assert ended.returncode == 2
    assert f"{file}:3: unknown key 'sinc', did you mean sync" in ended.stderr


def test_flag_beats_environment_beats_file(start_server, tmp_path):
    file = tmp_path / "tarry.conf"
    file.write_text("sync = never\nmax-body = 100\nlog-format = json\nmax-topics = 5\n")
    server = start_server("--sync", "20ms", env={"TARRY_CONFIG": str(file), "TARRY_SYNC": "always", "TARRY_MAX_BODY": "200",
                                                 "TARRY_LOG_FORMAT": "text"})
    client = server.client()
    assert "sync=20ms" in server.log()
    assert client.push("t", "fits", body=b"x" * 200)
    assert client.call("PUT", "/v1/topics/t/jobs/big", b"x" * 201).status == 413


def test_help_lists_every_option():
    shown = subprocess.run([str(BINARY), "help", "serve"], capture_output=True, text=True, check=True).stdout
    for name in ("data", "listen", "store", "sync", "shards", "config", "log", "log-level", "log-format", "insecure", "allowed-host", "max-body",
                 "max-connections", "max-waiting", "max-topics", "idle-timeout", "wal-file", "core-dumps", "metrics-topics", "max-memory"):
        assert f"  --{name}" in shown


# ---- start ----


def test_the_start_line_has_address_and_recovered_jobs(start_server):
    server = start_server("--sync", "always", "--shards", "1")
    client = server.client()
    for n in range(5):
        client.push("orders", f"o{n}", delay="1h")
    server.restart()
    line = [line for line in server.log().splitlines() if "event=listening" in line][-1]
    assert f"address=127.0.0.1:{server.port}" in line
    assert "jobs=5" in line and "topics=1" in line and "shards=1" in line and "sync=always" in line and "recovered_ms=" in line


def test_a_second_server_on_the_directory_is_refused(start_server):
    server = start_server()
    ended = serve("--data", str(server.data), "--listen", "127.0.0.1:0")
    assert ended.returncode == 1
    assert str(server.proc.pid) in ended.stderr
    assert server.client().good("GET", "/v1/info")


@pytest.mark.parametrize("shards", ["1", "2"])
def test_a_taken_port_is_refused(start_server, tmp_path, shards):
    server = start_server("--shards", shards)
    ended = serve("--data", str(tmp_path / "other"), "--listen", f"127.0.0.1:{server.port}", "--shards", shards)
    assert ended.returncode == 1
    assert "cannot listen on" in ended.stderr and "port is taken" in ended.stderr
    assert not (tmp_path / "other").exists()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "data").write_text("I am a file")
    ended = serve("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert ended.returncode == 1
    assert str(tmp_path / "data") in ended.stderr
    assert (tmp_path / "data").read_text() == "I am a file"


def test_a_log_that_cannot_be_written_is_refused(tmp_path):
    ended = serve("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--log", str(tmp_path / "no" / "log"))
    assert ended.returncode == 1
    assert "cannot write the log" in ended.stderr


def test_another_number_of_shards_is_refused(start_server):
    server = start_server("--shards", "2")
    server.terminate()
    ended = serve("--data", str(server.data), "--listen", "127.0.0.1:0", "--shards", "3")
    assert ended.returncode == 1
    assert "2" in ended.stderr and "shards" in ended.stderr


def test_insecure_is_logged_at_every_start(start_server):
    server = start_server("--insecure", "--listen", "0.0.0.0:0", started=False)
    server.launch()
    eventually(lambda: "event=listening" in server.log())
    assert "event=insecure" in server.log() and "level=warn" in server.log()


def test_listens_on_version_6(start_server):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    server = start_server("--listen", "[::1]:0", started=False)
    server.launch()
    eventually(lambda: "address=[::1]:" in server.log())


def test_systemd_is_notified(start_server, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(20)
        server = start_server(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert notified.recv(100) == b"READY=1"
        server.terminate()
        assert notified.recv(100) == b"STOPPING=1"


# ---- stop ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("shards", ["1", "2"])
def test_a_signal_stops_it_in_good_order(start_server, number, shards):
    server = start_server("--shards", shards)
    client = server.client()
    for n in range(20):
        client.push("t", f"j{n}", delay="1h")
    started = time.monotonic()
    server.proc.send_signal(number)
    assert server.proc.wait(20) == 0
    assert time.monotonic() - started < 10 * slack()
    assert "event=stopped" in server.log()
    server.start()
    assert server.client().topic("t")["counts"]["delayed"] == 20


@pytest.mark.parametrize("shards", ["1", "2"])
def test_waiting_takes_are_answered_empty(start_server, shards):
    server = start_server("--shards", shards)
    jobs = []
    takers = [threading.Thread(target=lambda: jobs.append(server.client().take("t", wait="60s"))) for _ in range(4)]
    for taker in takers:
        taker.start()
    time.sleep(0.5)
    assert server.terminate(20) == 0
    for taker in takers:
        taker.join(10)
    assert jobs == [[], [], [], []]


# Whether the kernel lets this user attach a filter that passes every packet to a socket.
TRY_FILTER = """
import ctypes, socket, struct
passes = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0xffffffff))
with socket.socket() as listener:
    listener.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxP", 1, ctypes.addressof(passes)))
"""


@pytest.mark.parametrize("user", ["same", pytest.param("other", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"))])
def test_logs_once_that_new_connections_cannot_be_refused(open_directory, start_server, user):
    server = start_server("--shards", "2", started=False, directory=open_directory / "server")
    if user == "other":
        server.prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        server.directory.chmod(0o777)
    server.start()
    refuses = subprocess.run([*server.prefix, "/usr/bin/python3", "-c", TRY_FILTER], capture_output=True, check=False).returncode == 0
    server.client().push("t", "a")
    assert server.terminate() == 0
    assert server.log().count('event="cannot stop accepting connections"') == (0 if refuses else 1)


def test_an_idle_connection_delays_the_stop_only_for_its_grace(start_server):
    server = start_server("--grace", "4s")
    idle = server.connection()
    idle.call("GET", "/healthz")
    started = time.monotonic()
    assert server.terminate(20) == 0
    assert time.monotonic() - started < 4 * slack()
    idle.close()


def stuck_connection(server):
    """A client that requests more than fits the buffers of two sockets, and reads nothing of it."""
    server.client().push("t", "big", body=b"x" * 1_000_000, delay="1h")
    stuck = server.connection()
    stuck.send(b"GET /v1/topics/t/jobs/big HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
    time.sleep(0.5)
    return stuck


def test_a_half_sent_request_delays_the_stop_only_for_its_grace(start_server):
    server = start_server("--grace", "4s")
    slow = server.connection()
    slow.send(b"PUT /v1/topics/t/jobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    time.sleep(0.2)
    started = time.monotonic()
    assert server.terminate(20) == 0
    assert time.monotonic() - started < 6 * slack()
    slow.close()


def test_a_client_that_does_not_read_delays_the_stop_only_for_its_grace(start_server):
    server = start_server("--grace", "4s")
    slow = stuck_connection(server)
    started = time.monotonic()
    assert server.terminate(20) == 0
    assert time.monotonic() - started < 6 * slack()
    slow.close()


def test_the_second_signal_stops_it_immediately(start_server):
    server = start_server(started=False)
    server.start()
    slow = stuck_connection(server)
    server.proc.send_signal(signal.SIGTERM)
    eventually(lambda: "event=stopping" in server.log())
    server.proc.send_signal(signal.SIGTERM)
    assert server.proc.wait(3) == 1
    slow.close()
    server.start()  # and it recovers; the fixture requires a clean end


def test_it_listens_on_the_same_port_again(start_server):
    server = start_server()
    server.client().good("GET", "/v1/info")
    server.terminate()
    port = free_port()
    server.start(port)
    server.client().good("GET", "/v1/info")
    server.terminate()
    server.start(port)
    assert server.port == port


# ---- the log ----


def test_the_log_is_opened_again_on_sighup(start_server, tmp_path):
    log = tmp_path / "tarry.log"
    server = start_server("--log", str(log), "--listen", f"127.0.0.1:{free_port()}", started=False)
    server.launch()
    eventually(lambda: log.exists() and "event=listening" in log.read_text())
    log.rename(tmp_path / "old.log")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: log.exists() and "log reopened" in log.read_text())
    assert server.terminate() == 0
    assert "event=stopped" in log.read_text()


def test_json_logs_are_one_object_a_line(start_server, tmp_path):
    import json

    log = tmp_path / "tarry.log"
    server = start_server("--log", str(log), "--log-format", "json", started=False)
    server.launch()
    lines = eventually(lambda: log.exists() and "listening" in log.read_text() and log.read_text().splitlines())
    events = {json.loads(line)["event"] for line in lines}
    assert "listening" in events
    server.terminate()


# ---- log ----


def changes(server):
    """The audit events in the log of changes by operators: each as a dict of its fields."""
    found = []
    for line in server.log().splitlines():
        fields = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
        if fields.get("event") == "audit":
            found.append({name: value.strip('"') for name, value in fields.items()})
    return found


def change_a_topic(server):
    client = server.client()
    for n in range(5):
        client.push("orders", f"o{n}", delay="1h" if n else "0")
    client.call("PUT", "/v1/topics/orders?max_attempts=1")
    client.call("PATCH", "/v1/topics/orders", b'{"ttl":"1d"}')
    client.call("POST", "/v1/topics/orders/pause")
    client.call("POST", "/v1/topics/orders/resume")
    (job,) = client.take("orders")
    client.call("POST", f"/v1/nack?lease={job['lease']}")
    client.call("POST", "/v1/topics/orders/redrive?id_prefix=o&dry_run=true")
    client.call("POST", "/v1/topics/orders/redrive?id_prefix=o")
    client.call("POST", "/v1/topics/orders/redrive")
    client.call("POST", "/v1/topics/orders/purge?state=delayed")
    client.call("PUT", "/v1/topics/orders", b'{"ttl":"soon"}')
    client.call("POST", "/v1/topics/none/purge")
    client.call("DELETE", "/v1/topics/orders")
    return client


AUDITED = [("topic settings changed", "ok", None), ("topic settings changed", "ok", None), ("topic paused", "ok", None), ("topic resumed", "ok", None),
                ("topic redriven", "ok", "1"), ("topic redriven", "ok", "0"), ("topic purged", "ok", "4"), ("topic settings changed", "bad_option", None),
                ("topic purged", "not_found", "0"), ("topic deleted", "ok", "1")]


def test_changes_by_operators_are_logged(start_server):
    server = start_server()
    change_a_topic(server)
    reported = changes(server)
    assert [(line["action"], line["outcome"], line.get("jobs")) for line in reported] == AUDITED, reported
    assert all(line["level"] == ("info" if line["outcome"] == "ok" else "warn") and re.fullmatch(r"127\.0\.0\.1:\d+", line["peer"]) for line in reported)
    assert {line["topic"] for line in reported} == {"orders", "none"}


def test_and_so_it_is_on_redis(start_server, start_redis):
    server = start_server("--store", start_redis().url, "--shards", "1")
    change_a_topic(server)
    assert [(line["action"], line["outcome"], line.get("jobs")) for line in changes(server)] == AUDITED


def test_changes_by_disconnected_clients_are_logged(start_server):
    server = start_server()
    server.client().push("orders", "o", delay="1h")
    connection = server.connection()
    peer = "%s:%s" % connection.socket.getsockname()
    connection.send(request_bytes("POST", "/v1/topics/orders/purge"))
    connection.close()
    (line,) = eventually(lambda: changes(server))
    assert line["action"] == "topic purged" and line["jobs"] == "1" and line["peer"] == peer


def test_the_journal_gets_priorities_and_no_second_time(start_server):
    server = start_server(started=False)
    server.log_path.touch()
    seen = server.log_path.stat()
    server.env["JOURNAL_STREAM"] = f"{seen.st_dev}:{seen.st_ino}"
    server.start()
    server.client().call("PUT", "/v1/topics/t")
    lines = server.log().splitlines()
    assert lines and all(re.match(r"<[3467]>level=\w+ event=", line) for line in lines), lines
    assert any(line.startswith('<6>level=info event=audit action="topic settings changed"') for line in lines)


# ---- memory ----


def thread_local_bytes(program):
    """The size of the thread-local variables of a program, by its ELF header. Each thread gets memory for all of them, and the C library fills it with zeros."""
    data = pathlib.Path(program).read_bytes()
    headers, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    for at in range(headers, headers + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == 7:  # PT_TLS
            return struct.unpack_from("<Q", data, at + 40)[0]
    return 0


def test_threads_have_little_memory_of_their_own():
    assert 0 < thread_local_bytes(BINARY) < 8192
