"""Attacks on authentication, in addition to the tests of each kind: stolen and forged credentials, look-alike names, leaked secrets."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest
from certificates import Authority, openssl
from client import Connection, request_bytes
from conftest import FLAGS
from server import BINARY, eventually
from tokens import SCOPES, Token, TokenFile

ALL = Token("operator")
MINE = Token("mine", SCOPES, ["mine", "mine-*"])
FOREIGN, WORD = "theirs-gEhEiM", "gEhEiM"


@pytest.fixture
def house(start_server, tmp_path):
    """TLS with client certificates, tokens, the audit, and the most detailed log."""
    authority = Authority(tmp_path / "authority")
    authority.sign("server")
    tokens = TokenFile(tmp_path / "tokens", ALL, MINE)
    with open(tokens.path, "a", encoding="ascii") as file:
        file.write("certificate billing scope=push topics=mine created=2026-01-01T00:00:00.000Z\n")
    server = start_server(*FLAGS, "--tokens", tokens.path, "--audit", tmp_path / "audit", "--log-level", "debug", "--listen", "127.0.0.1:0,tls",
                          "--tls-cert", authority.certificate("server"), "--tls-key", authority.key("server"), "--tls-client-ca", authority.file)
    server.authority, server.tokens, server.audit = authority, tokens, tmp_path / "audit"
    server.tls_port = int(re.search(r'"listening also" address=127\.0\.0\.1:(\d+)', server.log()).group(1))
    return server


def call(server, token, method, target, body=b"", headers=None):
    connection = server.connection()
    try:
        return connection.call(method, target, body, {**(token.headers if token else {}), **(headers or {})})
    finally:
        connection.close()


def status_with(server, name):
    """The answer to a request with this certificate and no token; None: no handshake."""
    context = server.authority.context(client=name)
    try:
        with socket.create_connection(("127.0.0.1", server.tls_port), 10) as tcp, context.wrap_socket(tcp, server_hostname="localhost") as tls:
            tls.sendall(request_bytes("PUT", "/v1/topics/mine/jobs/1?delay=1h", b"x", {"Connection": "close"}))
            answer = b"".join(iter(lambda: tls.recv(65536), b""))
            return int(answer.split()[1]) if answer else None
    except (ssl.SSLError, ConnectionError):
        return None


def test_a_certificate_is_not_a_token_and_needs_its_authority(house, tmp_path):
    sign = house.authority.sign
    sign("billing", names="DNS:billing")
    assert status_with(house, "billing") in (200, 201)
    sign("operator", names="DNS:operator")  # the name of a token
    assert status_with(house, "operator") == 401
    for names in ("DNS:billing.example", "DNS:other,DNS:billing", "DNS:*.billing", "DNS:BILLING\x01"):
        with contextlib.suppress(subprocess.CalledProcessError):  # openssl itself refuses some
            sign("near", names=names, common_name="near")
            assert status_with(house, "near") == 401, names
    stranger = Authority(tmp_path / "stranger")
    certificate, key = stranger.sign("forged", names="DNS:billing")
    for path, name in ((certificate, house.authority.certificate("forged")), (key, house.authority.key("forged"))):
        name.write_bytes(path.read_bytes())
    assert status_with(house, "forged") is None


def test_the_certificate_of_another_server_is_not_accepted_as_client(house):
    """A key stolen from another server does not admit its thief."""
    directory = house.authority.directory
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", "/CN=billing", "-addext", "extendedKeyUsage=serverAuth",
            "-addext", "basicConstraints=critical,CA:FALSE", "-CA", house.authority.file, "-CAkey", house.authority.key(house.authority.name),
            "-keyout", directory / "stolen.key", "-out", directory / "stolen.pem")
    assert status_with(house, "stolen") is None


def test_all_unknown_callers_get_the_same_answer(house):
    """An answer does not show whether a token is expired, revoked, misspelt or was never there."""
    revoked, expired = Token("revoked", revoked="2026-01-02T00:00:00.000Z"), Token("expired", expires="2026-01-02T00:00:00.000Z")
    house.tokens.write(ALL, MINE, revoked, expired)
    eventually(lambda: call(house, ALL, "GET", "/metrics").ok)
    never = Token("never")
    answers = set()
    for secret in (revoked.secret, expired.secret, never.secret, never.secret[:-1] + "0", "tarry_", "x" * 1000):
        for header in ("Bearer " + secret, "Basic " + base64.b64encode(f"u:{secret}".encode()).decode()):
            reply = call(house, None, "GET", "/v1/topics/mine", headers={"Authorization": header})
            assert reply.status == 401
            answers.add((header[:6], reply.body, json.dumps({name: value for name, value in reply.headers.items() if name != "date"})))
    assert len(answers) == 2, answers  # one by each scheme


@pytest.mark.parametrize("first, second", [(FOREIGN, "mine"), ("mine", FOREIGN)])
def test_an_item_with_two_topics_reaches_no_foreign_topic(house, first, second):
    assert call(house, ALL, "PUT", f"/v1/topics/{FOREIGN}", b"").ok
    for body in (f'[{{"topic":"{first}","topic":"{second}","id":"a","body":"x"}}]', f'[{{"topic":"{first}","t\\u006fpic":"{second}","id":"b","body":"x"}}]'):
        call(house, MINE, "POST", "/v1/jobs", body.encode(), {"Content-Type": "application/json"})
    for path in (f"/v1/topics/mine/jobs?topic={FOREIGN}", f"/v1/topics/mine/jobs/c?topic={FOREIGN}", f"/v1/topics/mine/take?topic={FOREIGN}"):
        call(house, MINE, "POST" if "take" in path else "PUT", path, b"x")
    assert call(house, MINE, "POST", f"/v1/take?topic=mine&topic={FOREIGN}").status == 403
    assert json.loads(call(house, ALL, "GET", f"/v1/topics/{FOREIGN}/jobs").body)["jobs"] == []


def test_a_list_and_its_cursor_reveal_no_foreign_topics(house):
    for at in range(40):
        assert call(house, ALL, "PUT", f"/v1/topics/{'mine-' if at % 8 == 0 else WORD}{at:02}", b"").ok
    seen, cursor = [], ""
    while True:
        reply = call(house, MINE, "GET", "/v1/topics?limit=1" + (f"&cursor={cursor}" if cursor else ""))
        output = json.loads(reply.body)
        seen += [topic["topic"] for topic in output["topics"]]
        cursor = output.get("cursor")
        if not cursor:
            break
        hidden = cursor.encode()
        for spelt in (hidden, bytes.fromhex(cursor) if re.fullmatch("(?:[0-9a-f]{2})+", cursor) else b"", base64.urlsafe_b64decode(hidden + b"=" * (-len(hidden) % 4))):
            assert WORD.encode() not in spelt, spelt
    assert seen == [f"mine-{at:02}" for at in range(0, 40, 8)]


def test_client_headers_set_neither_identity_nor_address(house):
    """Headers of other proxies are ignored: only --proxy-protocol on a separate listener names the client."""
    claims = {"X-Forwarded-For": "9.9.9.9", "Forwarded": "for=9.9.9.9", "X-Real-IP": "9.9.9.9", "X-Client-Cert": "billing", "X-SSL-Client-S-DN": "CN=billing",
              "X-Forwarded-User": "operator", "X-Remote-User": "operator", "Remote-User": "operator", "X-Forwarded-Client-Cert": "Subject=\"CN=billing\"",
              "Proxy-Authorization": ALL.headers["Authorization"], "Cookie": "token=" + ALL.secret, "X-Api-Key": ALL.secret, "X-HTTP-Method-Override": "GET"}
    assert call(house, ALL, "PUT", "/v1/topics/mine", b"").ok
    assert call(house, None, "POST", "/v1/topics/mine/pause", headers=claims).status == 401
    assert call(house, ALL, "POST", "/v1/topics/mine/pause", headers=claims).ok
    line = eventually(lambda: [json.loads(line) for line in house.audit.read_text().splitlines() if "topic paused" in line])[-1]
    assert line["peer"].startswith("127.0.0.1:") and line["caller"] == "operator" and "9.9.9.9" not in json.dumps(line)


def test_a_connection_keeps_no_identity_for_the_next_request(house):
    """Sends one header after another on one connection: of the same length, with one different byte, missing."""
    connection = house.connection()
    near = ALL.secret[:-1] + ("a" if ALL.secret[-1] != "a" else "b")
    try:
        for header, status in ((ALL.secret, 200), (near, 401), (ALL.secret, 200), (ALL.secret + "a", 401), (ALL.secret[:-1], 401), (None, 401), (ALL.secret, 200)):
            reply = connection.call("GET", "/v1/topics", b"", {"Authorization": "Bearer " + header} if header else {})
            assert reply.status == status, header
            if reply.closes:
                connection.close()
                connection = house.connection()
    finally:
        connection.close()


def test_no_secret_leaves_the_server_by_log_audit_or_arguments(house):
    """The secret appears nowhere, even if a client puts it into the wrong place. Cores: test_core_dumps.py."""
    secret = ALL.secret
    wrong = secret[:-4] + "0000"
    for one in (secret, wrong):
        for target in (f"/v1/topics?token={one}", f"/v1/topics/{one}", f"/{one}", f"/v1/topics/mine/jobs/{one}"):
            call(house, None, "GET", target)
            call(house, ALL, "GET", target)
        call(house, None, "POST", "/v1/jobs", f'[{{"topic":"mine","token":"{one}"}}]'.encode(), {"Content-Type": "application/json"})
        for header in (f"Bearer{one}", f"Bearer  {one}", f"Token {one}", one, f"Basic {one}", "Basic " + base64.b64encode(f"{one}:".encode()).decode()):
            call(house, None, "DELETE", "/v1/topics/mine", headers={"Authorization": header})
        raw = house.connection()
        raw.send(f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one}\r\n Bearer {one}\r\n\r\n".encode())
        with contextlib.suppress(Exception):
            raw.read()
        raw.close()
    call(house, ALL, "POST", "/v1/topics/mine/purge?state=dead")
    house.proc.send_signal(signal.SIGHUP)
    eventually(lambda: "tokens read again" in house.log())
    output = house.log() + house.audit.read_text()
    for name in ("cmdline", "comm"):
        output += pathlib.Path(f"/proc/{house.proc.pid}/{name}").read_text(errors="replace")
    for one in (secret, wrong, secret[6:30]):
        assert one not in output, output[max(0, output.find(one) - 300):][:600]


# ---- the file of tokens ----


def tarry(*words, **options):
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, check=False, timeout=30, **options)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes processes of another user")
def test_a_stranger_holds_up_no_revocation(tmp_path):
    """A user who may read a directory may lock it."""
    directory = tmp_path / "etc"
    directory.mkdir(mode=0o755)
    for parent in [directory, *directory.parents]:
        with contextlib.suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o055)
    path = directory / "tokens"
    assert tarry("token", "new", "a", "--scope", "read", "--topics", "*", "--tokens", path).returncode == 0
    nobody = pwd.getpwnam("nobody").pw_uid
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(nobody)
        for place in (directory, path):
            with contextlib.suppress(OSError):
                fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX)
        os.write(done, b"x")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(ready, 1)
        ended = subprocess.run([str(BINARY), "token", "revoke", "a", "--tokens", str(path)], capture_output=True, text=True, check=False, timeout=10)
        assert ended.returncode == 0, ended.stderr
        assert "revoked=" in path.read_text()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_simultaneous_token_changes_lose_nothing(tmp_path):
    path = tmp_path / "tokens"
    running = [subprocess.Popen([str(BINARY), "token", "new", f"t{at}", "--scope", "read", "--topics", "*", "--tokens", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for at in range(20)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out.startswith(b"tarry_"), err
    names = re.findall(r"^token (\w+) ", path.read_text(), re.MULTILINE)
    assert sorted(names) == sorted(f"t{at}" for at in range(20))
    assert [entry.name for entry in tmp_path.iterdir()] == ["tokens"] and path.stat().st_mode & 0o777 == 0o600


def test_a_name_writes_no_second_line(tmp_path):
    """Input that an operator's script passes on from a form."""
    path = tmp_path / "tokens"
    for name in ("a\ntoken b scope=admin topics=* sha256=" + "0" * 64, "a b", "a\tb", "", "ä", "a" * 500, "a=b,c", "-x", "a\x7f", "*"):
        ended = tarry("token", "new", "--scope", "read", "--topics", "*", "--tokens", path, "--", name) if name.startswith("-") else tarry("token", "new", name, "--scope", "read", "--topics", "*", "--tokens", path)
        text = path.read_text() if path.exists() else ""
        assert "scope=admin" not in text and len(re.findall(r"^(?!#)\S", text, re.MULTILINE)) == text.count("\n") - text.count("#"), (name, ended.stderr, text)
    for topics in ("a b", "a\nb", "a,*,\n", "a*b", ""):
        before = path.read_text() if path.exists() else ""
        ended = tarry("token", "new", "t", "--scope", "read", "--topics", topics, "--tokens", path)
        assert ended.returncode == 2, (topics, ended.stderr)
        assert (path.read_text() if path.exists() else "") == before


def test_a_file_that_others_may_read_is_used_no_more(house):
    assert call(house, ALL, "GET", "/v1/topics").ok
    house.tokens.path.chmod(0o644)
    eventually(lambda: call(house, ALL, "GET", "/v1/topics").status == 401)
    assert "others may read" in house.log()
    house.tokens.path.chmod(0o600)
    eventually(lambda: call(house, ALL, "GET", "/v1/topics").ok)
