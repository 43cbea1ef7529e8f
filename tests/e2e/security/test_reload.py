"""Checks of a configuration before a start, its live changes, and the time of a stop."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from client import Connection, request_bytes
from server import BINARY, eventually, slack


def check(*words, env=None):
    return subprocess.run([str(BINARY), "serve", *map(str, words)], capture_output=True, text=True, check=False, timeout=30, env={**os.environ, **(env or {})})


# ---- serve --check ----


def test_all_faults_are_reported_and_nothing_is_started(tmp_path):
    path = tmp_path / "tarry.conf"
    path.write_text("data = /nowhere\nsink = 3\nmax-body = huge\n\nno equals sign\nshards = 1\nshards = 2\n")
    answer = check("--check", "--config", path, "--grace", "soon", env={"TARRY_LOG_LEVEL": "loud"})
    assert answer.returncode == 2 and answer.stdout == ""
    for fault in ("tarry.conf:2: unknown key 'sink', did you mean sync", "tarry.conf:3: bad value 'huge' for 'max-body'", "tarry.conf:5: no '='",
                  "tarry.conf:7: 'shards' is given twice", "bad value 'soon' for '--grace'", "bad value 'loud' for 'TARRY_LOG_LEVEL'", "6 faults"):
        assert fault in answer.stderr, fault


def test_files_that_it_names_are_read(tmp_path):
    (tmp_path / "policy").write_text("allow-everything = yes\n")
    (tmp_path / "tokens").write_text("what is this\n")
    os.chmod(tmp_path / "policy", 0o600)
    os.chmod(tmp_path / "tokens", 0o600)
    answer = check("--data", tmp_path / "data", "--deliver", tmp_path / "policy", "--tokens", tmp_path / "tokens", "--check")
    assert answer.returncode == 2 and "2 faults" in answer.stderr and "policy:1" in answer.stderr and "tokens:1" in answer.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words, fault", [
    (["--amqp-in", "amqp://x/?queue=q"], "'--amqp-in' without '--deliver'"),
    (["--deliver", "{policy}", "--amqp-in", "amqp://x/"], "no queue in 'amqp://x/', add ?queue=NAME"),
    (["--kafka-in", "kafka://x?from=t"], "'--kafka-in' without '--deliver'"),
    (["--deliver", "{policy}", "--kafka-in", "kafka://x"], "no topic of Kafka in 'kafka://x', add ?from=NAME"),
    (["--sqs", "nonsense"], "bad value 'nonsense' for '--sqs'"),
    (["--log", "{here}/none/log"], "cannot write the log '{here}/none/log', No such file or directory"),
    (["--audit", "{here}/none/audit"], "cannot write the audit file '{here}/none/audit', No such file or directory"),
    (["--data", "{here}/none/deep"], "'{here}/none/deep'"),
    (["--data", "{policy}"], "'{policy}'"),
    (["--tokens", "{here}/none"], "cannot read the tokens in '{here}/none', No such file or directory, create it with 'tarry token new'"),
])
def test_check_finds_faults_that_stop_a_start(words, fault, tmp_path):
    (tmp_path / "policy").write_text("allow-host = *\n")
    names = {"here": tmp_path, "policy": tmp_path / "policy"}
    words, fault = ["--data", tmp_path / "data", "--listen", "127.0.0.1:0", *(word.format(**names) for word in words)], fault.format(**names)
    if words.count("--data") > 1:
        words = words[2:]
    checked, started = check("--check", *words), check(*words)
    assert checked.returncode == 2 and "1 fault\n" in checked.stderr and fault in checked.stderr
    assert started.returncode == (2 if words[-2] in ("--sqs", "--amqp-in", "--kafka-in") else 1) and fault in started.stderr


def test_check_names_each_missing_file_of_tls(tmp_path):
    answer = check("--check", "--listen", "127.0.0.1:0,tls", "--tls-cert", tmp_path / "no.pem", "--tls-key", tmp_path / "no.key", "--data", tmp_path / "data")
    assert answer.returncode == 2 and "2 faults" in answer.stderr
    assert f"'{tmp_path}/no.pem' of '--tls-cert'" in answer.stderr and f"'{tmp_path}/no.key' of '--tls-key'" in answer.stderr


def test_a_valid_configuration_prints_its_listeners(tmp_path):
    answer = check("--check", "--data", tmp_path / "data", "--listen", "127.0.0.1:8279", "--listen", f"unix:{tmp_path}/s,mode=0660", "--grace", "9s")
    assert answer.returncode == 0 and answer.stderr == ""
    assert "listens on 127.0.0.1:8279\n" in answer.stdout and f"listens on unix:{tmp_path}/s" in answer.stdout
    assert f"stores jobs in {tmp_path}/data\n" in answer.stdout and "a stop takes at most 9 s" in answer.stdout and "the configuration is valid" in answer.stdout
    assert not (tmp_path / "data").exists()


# ---- SIGHUP ----

READ = re.compile(r'"?event"?[=:]"configuration (?:not )?read')


@pytest.fixture
def configured(start_server, tmp_path):
    """(server, a function that rewrites its file, waits until it was read, and returns the line of the log)"""
    path = tmp_path / "tarry.conf"
    path.write_text("max-connections = 100\n")
    server = start_server("--config", path)

    def write(text):
        known = len(READ.findall(server.log()))
        path.write_text(text)
        server.proc.send_signal(signal.SIGHUP)
        eventually(lambda: len(READ.findall(server.log())) > known, 10)
        return next(line for line in reversed(server.log().splitlines()) if READ.search(line))

    return server, write


def status_of_host(server, name):
    connection = Connection(server.port)
    connection.send(f"GET /v1/info HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
    return connection.read().status


def test_live_options_change_and_the_rest_is_named(configured):
    server, write = configured
    assert status_of_host(server, "queue.internal") == 421
    kept = Connection(server.port)
    line = write("max-connections = 90\nallowed-host = queue.internal\nmax-body = 2MiB\nmax-topics = 5\n")
    assert "changed=allowed-host,max-connections " in line and "needs_restart=max-body,max-topics" in line and "level=warn" in line
    assert status_of_host(server, "queue.internal") == 200
    assert kept.call("GET", "/healthz").status == 200
    assert server.client().call("PUT", "/v1/topics/t/jobs/a", body=b"x" * (3 << 19)).status == 413
    answer = json.loads(write("log-format = json\nidle-timeout = 1s\n"))
    assert answer["changed"] == "allowed-host,log-format,max-connections,idle-timeout" and answer["needs_restart"] == ""
    assert status_of_host(server, "queue.internal") == 421
    silent = Connection(server.port)
    silent.socket.settimeout(10)
    assert silent.socket.recv(1) == b""


def test_a_broken_file_changes_nothing(configured):
    server, write = configured
    line = write("max-connections = none\nallowed-host = queue.internal\n")
    assert "tarry.conf:1" in line and "serve --check" in line
    assert status_of_host(server, "queue.internal") == 421


def test_more_connections_are_let_in_after_a_reload(configured):
    server, write = configured
    write("max-connections = 2\n")
    connections = [Connection(server.port) for _ in range(3)]
    for connection in connections:
        connection.send(request_bytes("GET", "/healthz"))
    assert sorted(connection.read().status for connection in connections) == [200, 200, 503]
    write("max-connections = 50\n")
    assert Connection(server.port).call("GET", "/healthz").status == 200


def test_each_option_is_live_or_reported_to_need_a_restart(start_server, tmp_path):
    """A new option decides: one that changes and is in neither list is a fault of its author's."""
    values = {"switch": "true", "N": "7", "SIZE": "64MiB", "TIME": "7s"}
    special = {"max-body": "2MiB", "max-result": "128KiB", "sync": "never", "listen": "127.0.0.2:0", "mykit": "127.0.0.1:0", "beanstalk": "127.0.0.1:0", "beanstalk-max-job": "1MiB", "allowed-host": "a.example", "cors-origin": "https://a.example",
               "log-level": "warn", "log-format": "json", "require-durability": None, "store": None, "config": None, "data": str(tmp_path / "other"),
               "log": str(tmp_path / "log"), "audit": str(tmp_path / "audit"), "max-memory": "900MiB", "wal-file": "32MiB", "shards": "2"}
    names = re.findall(r"^  --([a-z-]+)(?: (\S+))?", subprocess.run([str(BINARY), "serve", "--help"], capture_output=True, text=True, check=True).stdout,
                       re.MULTILINE)
    path = tmp_path / "tarry.conf"
    path.write_text("")
    server = start_server("--config", path, "--data", str(tmp_path / "data"))
    changed = [f"{name} = {value}" for name, kind in names
               if (value := special.get(name, values.get(kind or "switch"))) and name not in ("data", "check", "help", "wait-replicas", "store-timeout", "migrate")]
    path.write_text("\n".join(changed) + "\n")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: READ.search(server.log()), 10)
    line = next(line for line in server.log().splitlines() if READ.search(line))
    assert "not read" not in line, line
    reported = set(re.findall(r"[a-z][a-z-]+", re.sub(r".*changed", "", line)))
    missing = {text.split(" = ")[0] for text in changed} - reported - {"sync", "shards", "wal-file", "listen"}  # those that the flags of the fixture beat
    assert not missing, (missing, line)


# ---- systemd ----


@pytest.fixture
def manager(tmp_path):
    """The socket of systemd's notifications: its path, and what came next."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(path))
        end.settimeout(20)
        yield str(path), lambda: end.recv(4096).decode()


def test_systemd_is_notified_of_the_start_and_end_of_a_reload(start_server, manager):
    path, reported = manager
    server = start_server(env={"NOTIFY_SOCKET": path})
    assert reported() == "READY=1"
    before = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
    server.proc.send_signal(signal.SIGHUP)
    answer = reported()
    assert answer.startswith("RELOADING=1\nMONOTONIC_USEC=") and before - 1 <= int(answer.split("=")[-1]) <= before + 20e6
    assert reported() == "READY=1"


@pytest.mark.shards
def test_the_watchdog_is_notified_by_a_running_server(start_server, manager):
    path, reported = manager
    server = start_server("--shards", "3", env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
    received = [reported() for _ in range(6)]
    assert sorted(received) == ["READY=1"] + 5 * ["WATCHDOG=1"]
    server.terminate()
    while (answer := reported()) != "STOPPING=1":
        assert answer == "WATCHDOG=1"


def test_a_manager_that_reads_no_notifications_does_not_stop_the_server(start_server, manager):
    path, _ = manager
    server = start_server(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "6000"})
    client = server.client()
    for n in range(200):  # the kernel keeps some ten notifications; more are sent meanwhile
        assert client.push("t", str(n), delay="1h")["result"] == "created"
        time.sleep(0.005)
    assert server.terminate() == 0


# ---- a stop ----


def test_a_stop_ends_requests_in_progress_within_its_time(start_server):
    server = start_server("--grace", "2s")
    half = Connection(server.port)
    half.send(b"PUT /v1/topics/t/jobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf")
    waiting, answers = Connection(server.port), []
    waiting.send(request_bytes("POST", "/v1/topics/t/take?wait=60s"))
    reader = threading.Thread(target=lambda: answers.append(waiting.read()))
    reader.start()
    eventually(lambda: re.search(r"^tarry_\w*waiting\w* 1$", server.client().call("GET", "/metrics").body.decode(), re.MULTILINE), 5)
    began = time.monotonic()
    assert server.terminate() == 0
    took = time.monotonic() - began
    reader.join()
    assert answers[0].status in (200, 204) and took < 4 * slack()
    assert 'event="connections cut"' in server.log()
