"""The certificate of a server: its files, and how a renewed one comes into use."""

import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess

import pytest
from certificates import Authority
from server import BINARY, REPO, eventually, free_port, meanwhile


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def files(authority):
    """(certificate, key)"""
    return authority.sign("server")


@pytest.fixture
def server(start_server, files):
    return start_server("--listen", "127.0.0.1:0,tls", "--tls-cert", files[0], "--tls-key", files[1])


def port_of(server):
    return int(re.search(r'"listening also" address=127\.0\.0\.1:(\d+)', server.log()).group(1))


def call(place, context, path="/healthz"):
    """(status, serial number of the certificate that was shown)"""
    with socket.create_connection(("127.0.0.1", place)) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: tls.recv(65536), b""))
        return int(answer.split()[1]), tls.getpeercert()["serialNumber"]


def refused(*flags):
    ended = subprocess.run([str(BINARY), "serve", "--listen", "127.0.0.1:0,tls", *map(str, flags)], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode in (1, 2), ended.stderr
    return ended.stderr


def test_invalid_files_are_reported_at_the_start(authority, files, tmp_path):
    certificate, key = files
    other = authority.sign("other")[1]
    data = ("--data", tmp_path / "data")
    assert "without a certificate, give --tls-cert FILE and --tls-key FILE" in refused(*data)
    assert "without a certificate" in refused(*data, "--tls-cert", certificate)
    assert "does not belong to the certificate" in refused(*data, "--tls-cert", certificate, "--tls-key", other)
    assert "nowhere.pem', No such file" in refused(*data, "--tls-cert", tmp_path / "nowhere.pem", "--tls-key", key)
    assert "without a certificate" in refused(*data, "--tls-client-ca", authority.file)
    assert "cannot read the certificates in" in refused(*data, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", key)
    os.chmod(key, 0o644)
    assert "others may read the key" in refused(*data, "--tls-cert", certificate, "--tls-key", key)


def test_a_renewed_certificate_is_used_without_a_restart(server, files, authority):
    context, place = authority.context(), port_of(server)
    kept = context.wrap_socket(socket.create_connection(("127.0.0.1", place)), server_hostname="localhost")
    status, before = call(place, context)
    assert status == 200
    authority.sign("server")
    eventually(lambda: call(place, context)[1] != before, 15)
    eventually(lambda: server.log().count("\"certificate read\"") >= 2, 5)
    kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert kept.recv(100).startswith(b"HTTP/1.1 200 ")
    kept.close()
    text = server.client().call("GET", "/metrics").body.decode()
    ends = int(re.search(r"^tarry_tls_certificate_expiry_timestamp_seconds (\d+)$", text, re.MULTILINE).group(1))
    output = subprocess.run(["openssl", "x509", "-in", str(files[0]), "-noout", "-enddate"], capture_output=True, text=True, check=True).stdout
    assert ssl.cert_time_to_seconds(output.strip().removeprefix("notAfter=")) == ends


def test_files_that_were_spoilt_leave_the_one_before_in_use(server, files, authority):
    context, place = authority.context(), port_of(server)
    _, before = call(place, context)
    pathlib.Path(files[0]).write_text("no certificate\n")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: "certificate not read" in server.log(), 10)
    assert call(place, context) == (200, before)
    authority.sign("server")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: server.log().count("\"certificate read\"") >= 2, 10)
    assert call(place, context)[1] != before


def test_no_request_fails_while_certificates_change(server, files, authority):
    context, place = authority.context(), port_of(server)
    shown, failed = set(), []

    def ask(ended):
        while not ended.is_set():
            try:
                status, serial = call(place, context)
                shown.add(serial)
                if status != 200:
                    failed.append(status)
            except OSError as fault:
                failed.append(fault)

    with meanwhile(ask, ask, ask):
        for _ in range(5):
            known = len(shown)
            authority.sign("server")
            server.proc.send_signal(signal.SIGHUP)
            eventually(lambda: len(shown) > known, 20)  # noqa: B023
    assert not failed and len(shown) >= 5


def test_an_ending_certificate_is_reported(start_server, authority):
    files = authority.sign("server", days=3)
    server = start_server("--listen", "127.0.0.1:0,tls", "--tls-cert", files[0], "--tls-key", files[1])
    assert re.search(r'level=warn event="certificate expires soon" .*days_left=[23]', server.log())


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_network_example_of_the_readme_works(authority, tmp_path):
    """Its commands as they stand, but for the port and the name of the machine."""
    page = (REPO / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## On a network\n.*?```text\n(.*?)```", page, re.DOTALL).group(1)
    certificate, key = authority.sign("server")
    place = tmp_path / "here"
    place.mkdir()
    for source, name in ((certificate, "tls.pem"), (key, "tls.key"), (authority.file, "ca.pem")):
        shutil.copy(source, place / name)
    port = free_port()
    lines = block.replace("0.0.0.0:8443", f"127.0.0.1:{port}").replace("queue.internal:8443", f"localhost:{port}").splitlines()
    environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}
    serving = next(line for line in lines if line.startswith("tarry serve"))
    server = None
    try:
        for line in lines:
            if line == serving:
                server = subprocess.Popen(["bash", "-c", f"exec {line} --data data"], cwd=place, env=environment, stderr=subprocess.DEVNULL)
                eventually(lambda: is_open(port), 20)
                continue
            done = subprocess.run(["bash", "-c", line], cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=30)
            assert done.returncode == 0, (line, done.stderr)
        assert done.stdout.startswith("created 1001, due ")
    finally:
        if server:
            server.terminate()
            assert server.wait(20) == 0
