"""tarry token, and its file: simultaneous commands lose nothing, a server follows changes, revoked tokens are rejected."""

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import threading
import time
import urllib.parse

import pytest
from client import Connection, request_bytes
from conftest import FLAGS
from pages import examples, matches
from server import BINARY, eventually, slack

FORM = re.compile(r"tarry_[0-9A-Za-z]{36}")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}


def token(*words, tokens=None, env=None):
    place = ("--tokens", str(tokens)) if tokens else ()
    return subprocess.run([str(BINARY), "token", *words, *place], capture_output=True, text=True, timeout=30, env={**ENVIRONMENT, **(env or {})})


def new(tokens, name, scope="push,consume,read", topics="*", *more):
    done = token("new", name, "--scope", scope, "--topics", topics, *more, tokens=tokens)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listed(tokens):
    return {entry["name"]: entry for entry in json.loads(token("list", "--json", tokens=tokens).stdout)["tokens"]}


def call(server, secret, method="PUT", target=None):
    target = target or f"/v1/topics/orders/jobs/{time.monotonic_ns()}"
    return server.client().call(method, target, b"x" if method == "PUT" else b"", headers={"Authorization": f"Bearer {secret}"} if secret else {})


def becomes(server, secret, status, seconds=3):
    eventually(lambda: call(server, secret).status == status, seconds)


@pytest.fixture
def tokens(tmp_path):
    return tmp_path / "tokens"


# ---- the command ----

def test_it_prints_the_secret_once_and_keeps_its_hash(tokens):
    done = token("new", "shop", "--scope", "push", "--topics", "orders-*,mail", "--expires", "90d", "--rate", "1000/s", "--max-jobs", "1M", tokens=tokens)
    secret = done.stdout.strip()
    assert FORM.fullmatch(secret) and done.stdout == secret + "\n" and secret not in done.stderr
    text = tokens.read_text()
    assert secret not in text and f"sha256={hashlib.sha256(secret.encode()).hexdigest()}" in text
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    entry = listed(tokens)["shop"]
    assert (entry["scope"], entry["topics"], entry["rate"], entry["max_jobs"], entry["state"]) == ("push", "orders-*,mail", "1000/s", 1000000, "valid")
    assert secret not in token("list", tokens=tokens).stdout


def test_tokens_are_not_alike(tokens):
    secrets = [new(tokens, f"t{i}") for i in range(20)]
    assert len(set(secrets)) == 20 and len({secret[6:14] for secret in secrets}) == 20


def test_output_goes_to_a_file_readable_only_by_its_owner(tokens, tmp_path):
    out = tmp_path / "secret"
    out.touch(0o644)
    done = token("new", "shop", "--scope", "push", "--topics", "*", "--output", str(out), tokens=tokens)
    assert done.stdout == "" and FORM.fullmatch(out.read_text().strip()) and stat.S_IMODE(out.stat().st_mode) == 0o600


def test_no_token_is_created_if_its_secret_cannot_be_written(tokens, tmp_path):
    done = token("new", "shop", "--scope", "push", "--topics", "*", "--output", str(tmp_path / "no" / "secret"), tokens=tokens)
    assert done.returncode == 1 and "nothing was changed" in done.stderr and not tokens.exists()


def test_names_are_unique_and_a_revoked_one_may_come_again(tokens):
    first = new(tokens, "shop")
    again = token("new", "shop", "--scope", "push", "--topics", "*", tokens=tokens)
    assert again.returncode == 1 and "'shop' already exists" in again.stderr
    assert token("revoke", "shop", tokens=tokens).returncode == 0
    assert listed(tokens)["shop"]["state"] == "revoked"
    assert new(tokens, "shop") != first and listed(tokens)["shop"]["state"] == "valid"
    assert token("revoke", "nobody", tokens=tokens).returncode == 4


@pytest.mark.parametrize("words, answer", [
    (["new", "a b", "--scope", "push", "--topics", "*"], "bad name 'a b'"),
    (["new", "a", "--topics", "*"], "'--scope' is missing, give one or more of push,consume,read,admin"),
    (["new", "a", "--scope", "psh", "--topics", "*"], "bad value 'psh' for '--scope'"),
    (["new", "a", "--scope", "push"], "'--topics' is missing"),
    (["new", "a", "--scope", "push", "--topics", "a*b"], "bad value 'a*b' for '--topics'"),
    (["new", "a", "--scope", "push", "--topics", "*", "--rate", "fast"], "bad value 'fast' for '--rate'"),
    (["new", "a", "--scope", "push", "--topics", "*", "--expires", "90"], "no unit in '90' for '--expires'"),
    (["new", "a", "--scope", "push", "--topics", "*", "--max-jobs", "0"], "bad value '0' for '--max-jobs'"),
    (["make", "a"], "unknown 'make', give new, list, revoke or rotate"),
    (["list", "a"], "unexpected argument 'a'"),
])
def test_wrong_commands_are_refused_and_change_nothing(tokens, words, answer):
    done = token(*words, tokens=tokens)
    assert done.returncode == 2 and answer in done.stderr and not tokens.exists()


def test_the_place_is_found_by_variable_and_configuration(tokens, tmp_path):
    config = tmp_path / "tarry.conf"
    config.write_text(f"tokens = {tokens}\n")
    assert token("new", "a", "--scope", "push", "--topics", "*", "--config", str(config)).returncode == 0
    assert token("new", "b", "--scope", "push", "--topics", "*", env={"TARRY_TOKENS": str(tokens)}).returncode == 0
    assert set(listed(tokens)) == {"a", "b"}
    done = token("list")
    assert done.returncode == 2 and "no place for tokens is configured" in done.stderr


def test_comments_and_other_lines_stay_byte_for_byte(tokens):
    new(tokens, "a"), new(tokens, "b")
    first, second = tokens.read_text().splitlines()
    tokens.write_text(f"# ours\n\n  {first}  # who: Ann\n{second}")
    assert token("revoke", "b", tokens=tokens).returncode == 0
    assert tokens.read_text().startswith(f"# ours\n\n  {first}  # who: Ann\ntoken b ")
    assert token("revoke", "a", tokens=tokens).returncode == 0
    assert tokens.read_text().splitlines()[2].endswith("# who: Ann")


def test_twenty_simultaneous_commands_lose_nothing(tokens):
    threads = [threading.Thread(target=new, args=(tokens, f"t{i}")) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(listed(tokens)) == {f"t{i}" for i in range(20)}
    assert [path.name for path in tokens.parent.iterdir() if path.name.startswith("tokens")] == ["tokens"]


def test_mode_owner_and_link_stay(tokens, tmp_path):
    new(tokens, "a")
    tokens.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(tokens)
    new(link, "b")
    assert link.is_symlink() and set(listed(tokens)) == {"a", "b"} and stat.S_IMODE(tokens.stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602])
def test_a_file_that_others_may_read_or_change_is_refused(tokens, tmp_path, mode):
    new(tokens, "a")
    tokens.chmod(mode)
    done = subprocess.run([str(BINARY), "serve", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--tokens", str(tokens)],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and f"others may read or change the tokens in '{tokens}', run: chmod 600" in done.stderr
    assert token("list", tokens=tokens).returncode == 1


def test_a_write_that_is_cut_short_leaves_the_old_text(tokens):
    new(tokens, "a")
    before = tokens.read_text()
    done = subprocess.run(["bash", "-c", f"ulimit -f 0; exec '{BINARY}' token new b --scope push --topics '*' --tokens '{tokens}'"],
                          capture_output=True, text=True, timeout=20, env=ENVIRONMENT)
    assert done.returncode != 0 and tokens.read_text() == before


# ---- the server ----

@pytest.fixture
def guarded(start_server, tokens):
    secret = new(tokens, "shop", "push,consume,read")
    return start_server(*FLAGS, "--tokens", str(tokens)), secret


def test_created_revoked_and_rotated_tokens_take_effect(guarded, tokens):
    server, secret = guarded
    assert call(server, secret).status == 201 and call(server, None).status == 401
    other = new(tokens, "other")
    becomes(server, other, 201)
    rotated = token("rotate", "shop", "--overlap", "1h", tokens=tokens).stdout.strip()
    becomes(server, rotated, 201)
    assert call(server, secret).status == 201, "the old one has its hour"
    last = token("rotate", "shop", "--overlap", "0ms", tokens=tokens).stdout.strip()
    becomes(server, secret, 401)
    assert call(server, last).status == 201 and call(server, rotated).status == 401
    token("revoke", "shop", tokens=tokens)
    becomes(server, last, 401)
    assert call(server, other).status == 201
    assert server.log().count('action="tokens changed"') >= 4
    assert not any(text in server.log() for text in (secret, other, rotated, last))


def test_the_overlap_ends_by_itself(guarded, tokens):
    server, secret = guarded
    token("rotate", "shop", "--overlap", "2s", tokens=tokens)
    assert call(server, secret).status == 201
    becomes(server, secret, 401, 4)


def test_a_waiting_take_of_an_expired_or_revoked_one_ends(start_server, tokens):
    short, long = new(tokens, "short", "consume", "*", "--expires", "2s"), new(tokens, "long", "consume")
    server = start_server(*FLAGS, "--tokens", str(tokens))
    waiting = []
    for secret in (short, long):
        connection = Connection(server.port)
        connection.send(request_bytes("POST", "/v1/topics/orders/take?wait=30s", headers={"Authorization": f"Bearer {secret}"}))
        waiting.append((connection, time.monotonic()))
    for (connection, began), limit in zip(waiting, (4, 4)):
        reply = connection.read()
        assert time.monotonic() - began < limit * slack(), "it waited on"
        assert reply.status in (200, 204, 401), reply.status
        if connection is waiting[0][0]:
            waiting[1] = (waiting[1][0], time.monotonic())
            token("revoke", "long", tokens=tokens)


def test_a_broken_file_keeps_the_old_tokens_and_is_logged_once(guarded, tokens):
    server, secret = guarded
    good = tokens.read_text()
    tokens.write_text(good + "token broken scope=push\n")
    eventually(lambda: "tokens:2: 'topics' is missing" in server.log(), 4)
    time.sleep(1.5)
    assert call(server, secret).status == 201
    assert server.log().count("'topics' is missing") == 1
    os.kill(server.proc.pid, signal.SIGHUP)
    tokens.write_text(good)
    eventually(lambda: 'reason="unknown"' in call(server, secret, "GET", "/metrics").body.decode(), 3)
    assert re.search(r"tarry_access_reload_failures_total [1-9]", call(server, secret, "GET", "/metrics").body.decode())


@pytest.mark.parametrize("harm", ["gone", "open"])
def test_a_missing_or_world_readable_file_admits_no_caller(guarded, tokens, harm):
    server, secret = guarded
    tokens.rename(tokens.with_name("kept")) if harm == "gone" else tokens.chmod(0o644)
    becomes(server, secret, 401, 5)
    tokens.with_name("kept").rename(tokens) if harm == "gone" else tokens.chmod(0o600)
    becomes(server, secret, 201, 5)


def test_metrics_count_tokens_and_rejections(guarded):
    server, secret = guarded
    for _ in range(3):
        call(server, "tarry_no")
    text = call(server, secret, "GET", "/metrics").body.decode()
    assert "tarry_access_tokens 1\n" in text and 'tarry_access_refusals_total{reason="unknown"} 3\n' in text


def test_ten_thousand_tokens_are_read_and_found(start_server, tokens):
    secret = new(tokens, "last")
    line = tokens.read_text()
    with open(tokens, "w", encoding="ascii") as file:
        file.writelines(f"token t{i} scope=push topics=orders-{i}-* sha256={hashlib.sha256(str(i).encode()).hexdigest()}\n" for i in range(9999))
        file.write(line)
    server = start_server(*FLAGS, "--tokens", str(tokens))
    assert call(server, secret).status == 201
    assert "tarry_access_tokens 10000\n" in call(server, secret, "GET", "/metrics").body.decode()


def test_a_name_in_a_path_is_not_a_token(guarded):
    server, secret = guarded
    assert call(server, None, "GET", f"/v1/topics?token={urllib.parse.quote(secret)}").status == 401


def test_every_example_of_the_page_prints_its_output(start_server, tmp_path, tokens):
    tokens.touch(0o600)
    server = start_server(*FLAGS, "--tokens", str(tokens))
    environment = {**ENVIRONMENT, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    count = 0
    for number, command, expected in examples("docs/security.md"):
        if expected is None:
            continue
        count += 1
        if "curl" in command:
            time.sleep(1.5)  # until the server has seen the file
        done = subprocess.run(["bash", "-c", command.replace("localhost:8279", f"localhost:{server.port}")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=environment, cwd=tmp_path, timeout=60, check=False)
        assert matches(expected, done.stdout), f"line {number}: {command}\n{done.stdout}"
    assert count >= 5
