"""Output for people and for programs: JSON from each command, progress and colours only on a terminal."""

import contextlib
import http.server
import json
import re
import subprocess
import threading

import pytest
from server import BINARY
from terminal import Terminal
from ways_in import cli_commands

NO_ANSWER = {
    "serve": "its log is what it says, and --log-format json has that",
    "help": "it is for people",
    "sql": "it prints SQL, or one line",
}


def test_each_command_with_output_supports_json():
    names = cli_commands()
    assert len(names) > 25
    for name in names:
        page = subprocess.run([BINARY, "help", name], capture_output=True, text=True, timeout=30, check=True).stdout
        assert ("\n  --json " in page) == (name not in NO_ANSWER), name


def test_tokens_are_listed_as_json(tmp_path):
    def token(*arguments):
        done = subprocess.run([BINARY, "token", *arguments, "--tokens", tmp_path / "tokens", "--json"], capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    made = token("new", "shop", "--scope", "push", "--topics", "orders-*,mail", "--max-jobs", "5")
    assert made["token"].startswith("tarry_") and (made["name"], made["scope"], made["topics"], made["max_jobs"], made["state"]) == ("shop", "push", "orders-*,mail", 5, "valid")
    again = token("rotate", "shop", "--output", str(tmp_path / "secret"))
    assert "token" not in again and again["state"] == "rotating" and again["topics"] == "orders-*,mail"
    assert (tmp_path / "secret").read_text().strip() not in ("", made["token"])
    revoked = token("revoke", "shop")
    assert "token" not in revoked and revoked["state"] == "revoked" and revoked["revoked_at"]
    listed = token("list")["tokens"]
    assert listed == [{**revoked}]


# ---- progress ----


class Slow(http.server.BaseHTTPRequestHandler):
    """A server that is long at a purge: it answers when its counts have been looked at some times."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.looks += 1
        left = max(0, 5000 - 1000 * (self.server.looks - 1))
        if self.server.looks == 4:
            self.server.over.set()
        self.answer({"topic": "t", "counts": {"delayed": 0, "retrying": 0, "ready": left, "leased": 3, "dead": 0}})

    def do_POST(self):
        assert self.server.over.wait(self.server.limit) or not self.server.limit
        self.answer({"jobs": 5000, "complete": True, "dry_run": False})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def slow():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.looks, server.over, server.limit = 0, threading.Event(), 20
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield server
        server.shutdown()


def test_a_long_purge_shows_its_progress(slow):
    with Terminal("purge", "t", "--yes", "--url", slow.url) as terminal:
        assert terminal.end() == 0
        assert re.search(rb"\r\x1b\[Kpurged [1-4]000 of 5000 jobs, \d+/s, \d0 %", terminal.raw), terminal.raw
        assert terminal.raw.endswith(b"\r\x1b[Kpurged 5000\r\n")


@pytest.mark.parametrize("terminal", ["dumb", None])
def test_without_a_terminal_no_line_is_overwritten(slow, terminal):
    slow.limit = 0
    slow.over.set()
    arguments = ("purge", "t", "--yes", "--url", slow.url)
    if terminal:
        with Terminal(*arguments, TERM=terminal) as shown:
            assert shown.end() == 0 and shown.raw == b"purged 5000\r\n"
    else:
        done = subprocess.run([BINARY, *arguments], capture_output=True, timeout=30, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"purged 5000\n", b"")
    assert slow.looks == 0, "nobody asked"


@pytest.mark.plain("the terminal shows one server, whatever is in front of it")
def test_no_command_uses_colours_without_a_terminal(server, tmp_path):
    client = server.client()
    client.push_batch([{"topic": "t", "id": str(n), "body": "x"} for n in range(20)])
    client.push("dying", "a", max_attempts=1)
    client.nack(client.take("dying")[0]["lease"])
    commands = [("status",), ("topics",), ("list", "t"), ("get", "t", "1"), ("top", "--once"), ("export", "--output"), ("bench", "--jobs", "50", "--delay", "0..1s"), ("tail", "--count", "1")]
    for number, environment in enumerate(({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"})):
        for name, *rest in commands:
            more = [str(tmp_path / f"dump{number}")] if name == "export" else []
            with Terminal(name, *rest, *more, "--url", server.url, **environment) as terminal:
                if name == "tail":
                    while terminal.proc.poll() is None:
                        client.push("t", "0", on_conflict="replace")
                        terminal.read(0.1)
                assert terminal.end() in (0, 1), name
                colours = re.findall(rb"\x1b\[[\d;]*m", terminal.raw)
                assert not colours, (name, environment, terminal.raw)
                assert environment["TERM"] != "dumb" or b"\x1b" not in terminal.raw, (name, terminal.raw)
    for name, *rest in commands[:-2]:
        done = server.cli(name, *rest, *([str(tmp_path / "last")] if name == "export" else []))
        assert done.returncode in (0, 1) and b"\x1b" not in done.stdout + done.stderr, name
