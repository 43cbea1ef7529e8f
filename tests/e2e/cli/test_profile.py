"""Profiles: names for servers with their credentials."""

import json
import os
import stat
import subprocess

import pytest
from server import BINARY, Server, free_port

OK, REFUSED, USAGE, UNREACHABLE, NOTHING = range(5)


@pytest.fixture
def tarry(tmp_path):
    def run(*arguments, code=OK, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
        environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", **variables}
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
        run.stderr = done.stderr
        return done.stdout if code == OK else done.stderr

    return run


def test_a_profile_selects_the_server(tarry, server):
    tarry("profile", "add", "prod", "--url", server.url)
    tarry("push", "t", "a", "--body", "x", "--profile", "prod")
    assert tarry("topics", TARRY_PROFILE="prod").splitlines()[1].split()[0] == "t"
    away = f"http://127.0.0.1:{free_port()}"
    tarry("topics", TARRY_PROFILE="prod", TARRY_URL=away)  # a profile comes before TARRY_URL
    tarry("topics", "--url", server.url, TARRY_PROFILE="unknown")
    assert away in tarry("topics", "--url", away, TARRY_PROFILE="prod", code=UNREACHABLE)
    assert "choose one" in tarry("topics", "--url", away, "--profile", "prod", code=USAGE)


def test_a_profile_sends_its_token_and_no_other(tarry, tmp_path):
    tokens = tmp_path / "tokens"
    secret = tarry("token", "new", "ops", "--scope", "read", "--topics", "*", "--tokens", str(tokens)).strip()
    (tmp_path / "ops.token").write_text(f"{secret}\n", encoding="utf-8")
    server = Server(tmp_path / "server", ["--tokens", str(tokens)]).start()
    try:
        tarry("profile", "add", "prod", "--url", server.url, "--token-file", "ops.token")
        tarry("profile", "add", "bare", "--url", server.url)
        tarry("topics", "--profile", "prod", TARRY_TOKEN="wrong")
        refused = tarry("topics", "--profile", "bare", code=REFUSED, TARRY_TOKEN=secret)
        assert "requires a token, give --token-file FILE or set TARRY_TOKEN_FILE" in refused
        tarry("topics", "--profile", "bare", "--token-file", "ops.token")
    finally:
        server.terminate()


def test_profiles_are_listed_and_removed(tarry, tmp_path):
    assert json.loads(tarry("profile", "list", "--json")) == {}
    tarry("profile", "add", "prod", "--url", "https://shop.example:8279")
    assert "exists, add --replace" in tarry("profile", "add", "prod", "--url", "http://a:1", code=USAGE)
    tarry("profile", "add", "prod", "--url", "http://user:secret@a:1", "--replace")
    file = tmp_path / ".config/tarry/profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "secret" not in tarry("profile", "list")
    tarry("profile", "add", "test", "--url", "http://b:1", XDG_CONFIG_HOME=str(tmp_path / "other"))
    assert list(json.loads((tmp_path / "other/tarry/profiles.json").read_text(encoding="utf-8"))) == ["test"]
    tarry("profile", "remove", "prod")
    assert "no profile 'prod'" in tarry("profile", "remove", "prod", code=NOTHING)


def test_top_shows_the_profile(tarry, server):
    tarry("profile", "add", "prod", "--url", server.url)
    for options, variables in ((["--profile", "prod"], {}), ([], {"TARRY_PROFILE": "prod"})):
        assert f"{server.url} of profile 'prod'" in tarry("top", "--once", *options, **variables)
    assert "of profile" not in tarry("top", "--once", "--url", server.url, TARRY_PROFILE="prod")


@pytest.mark.parametrize("command, filters, line", [
    (["purge"], [], "purging '{}'"),
    (["topic", "delete"], [], "deleting '{}'"),
    (["cancel"], ["--id-prefix", "a"], "cancelling jobs of '{}'"),
])
def test_the_profile_is_shown_before_jobs_are_removed(tarry, server, command, filters, line):
    tarry("profile", "add", "prod", "--url", server.url)
    uses = [(["--profile", "prod"], {}, True), ([], {"TARRY_PROFILE": "prod"}, True), (["--profile", "prod", "--json"], {}, False), (["--url", server.url], {}, False)]
    for number, (options, variables, is_shown) in enumerate(uses):
        topic = f"t{number}"
        tarry("push", topic, "a", "--body", "x", *options, **variables)
        if is_shown:
            assert f"'{topic}' of profile 'prod'" in tarry(*command, topic, *filters, *options, code=USAGE, **variables)
        tarry(*command, topic, *filters, "--yes", *options, **variables)
        assert tarry.stderr == (f"{line.format(topic)} of profile 'prod'\n" if is_shown else "")


@pytest.mark.parametrize("arguments, expected", [
    (["profile", "add"], "no name, write 'tarry profile add NAME'"),
    (["profile", "add", "a b", "--url", "http://a:1"], "bad name 'a b'"),
    (["profile", "add", "a"], "no URL, write 'tarry profile add a --url URL'"),
    (["profile", "add", "a", "--url", "ftp://x"], "bad URL 'ftp://x'"),
    (["profile", "add", "a", "--url", "http://a:1", "--token-file", "absent"], "cannot find 'absent', No such file or directory"),
    (["profile", "add", "a", "--url", "http://a:1", "--key", "k"], "give both --cert FILE and --key FILE"),
    (["profile", "show", "a"], "unknown 'show', give add, list or remove"),
    (["topics", "--profile", "prdo"], "unknown profile 'prdo', did you mean prod"),
    (["topics", "--profile", "x"], "unknown profile 'x', 'tarry profile list' shows all"),
])
def test_wrong_profiles_are_rejected_with_advice(tarry, arguments, expected):
    tarry("profile", "add", "prod", "--url", "http://127.0.0.1:1")
    assert expected in tarry(*arguments, code=USAGE)


@pytest.mark.parametrize("text", ["{", "[]", '{"prod": 1}'])
def test_a_damaged_file_is_named(tarry, tmp_path, text):
    file = tmp_path / ".config/tarry/profiles.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    assert "profile" in tarry("topics", "--profile", "prod", code=USAGE)
    assert file.read_text(encoding="utf-8") == text
