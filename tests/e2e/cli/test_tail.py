"""`tarry tail`: a line per event, over a restart of the server, until it is stopped."""

import itertools
import json
import os
import pty
import re
import select
import signal
import subprocess

import pytest
from conftest import FLAGS
from server import BINARY, free_port

OK, REFUSED, USAGE, UNREACHABLE, NOTHING = range(5)
NUMBERS = itertools.count()


class Tail:
    """A running `tarry tail`; `lines` are read as they come."""

    def __init__(self, server, *arguments, **options):
        self.proc = subprocess.Popen([str(BINARY), "tail", *arguments, "--url", server.url], stdin=subprocess.DEVNULL, text=True,
                                     **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        for pipe in (self.proc.stdout, self.proc.stderr):
            if pipe:
                pipe.close()

    def line(self):
        return self.proc.stdout.readline().rstrip("\n")

    def end(self, number=None):
        if number:
            self.proc.send_signal(number)
        return self.proc.wait(20)


def listening(server, tail, topic):
    """Waits until events arrive: from then on no event is missed."""
    client, came = server.client(), False
    while not came:
        ident = f"first-{next(NUMBERS)}"
        client.push(topic, ident, delay="1h")
        came = bool(select.select([tail.proc.stdout], [], [], 0.05)[0])
    while ident not in tail.line():
        pass


@pytest.fixture
def server(start_server):
    return start_server(*FLAGS)


def test_a_line_for_each_event(server):
    client = server.client()
    with Tail(server, "mail") as tail:
        listening(server, tail, "mail")
        client.push("mail", "a")
        client.push("other", "b")
        client.nack(client.take("mail")[0]["lease"], error="no\x1b[31m luck", final="true")
        lines = [tail.line() for _ in range(4)]
        assert [re.split(r"  +", line)[1:4] for line in lines] == [["pushed", "mail", "a"], ["delivered", "mail", "a"], ["nacked", "mail", "a"], ["dead", "mail", "a"]]
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)  ", line) for line in lines)
        assert "attempt 1, by take, due " in lines[1] and lines[3].endswith("attempt 1, error: no?[31m luck")
        assert tail.end(signal.SIGINT) == OK and tail.proc.stderr.read() == ""


def test_json_kinds_and_a_number_of_them(server):
    client = server.client()
    with Tail(server, "--event", "cancelled,run", "--count", "2", "--json") as tail:
        while tail.proc.poll() is None:
            client.push("mail", "a", delay="1h")
            client.run("mail", "a")
            client.cancel("mail", "a")
        events = [json.loads(line) for line in tail.proc.stdout]
        assert len(events) == 2 and {event["event"] for event in events} == {"cancelled", "run"} and all(event["id"] == "a" and event["at"] for event in events)
        assert tail.end() == OK


def test_tail_continues_after_a_restart_and_reports_a_gap(start_server):
    server = start_server(*FLAGS, started=False)
    port = free_port()
    server.start(port)
    with Tail(server, "mail") as tail, Tail(server, "mail", "--json") as other:
        listening(server, tail, "mail")
        listening(server, other, "mail")
        server.terminate()
        server.start(port)
        line = tail.line()
        while "gap" not in line:
            line = tail.line()
        assert line == "gap: the server was away, events of that time are missing"
        line = json.loads(other.line())
        while line != {"event": "gap"}:
            line = json.loads(other.line())
        server.client().push("mail", "after", delay="1h")
        assert tail.line().split()[3:5] == ["mail", "after"] and json.loads(other.line())["id"] == "after"
        assert tail.end(signal.SIGTERM) == OK


def test_colours_are_only_for_terminals(server):
    seen = {}
    for name, environment in (("colours", {"TERM": "xterm"}), ("none", {"TERM": "xterm", "NO_COLOR": "1"})):
        leader, follower = pty.openpty()
        environment = {**{key: value for key, value in os.environ.items() if key != "NO_COLOR"}, **environment}
        with Tail(server, "mail", "--event", "dead", "--count", "1", stdout=follower, env=environment) as tail:
            client = server.client()
            client.good("PUT", "/v1/topics/mail?max_attempts=1")
            while tail.proc.poll() is None:
                client.push("mail", "a")
                client.nack(client.take("mail")[0]["lease"])
            os.close(follower)
            seen[name] = os.read(leader, 4096)
            os.close(leader)
    assert b"\x1b[1;31mdead" in seen["colours"] and b"\x1b" not in seen["none"]


def test_errors_are_reported(server):
    for arguments, code, shown in ((["mail", "--event", "sneezed"], REFUSED, "'event' is 'sneezed' but must be kinds of events"),
                                  (["no topic"], REFUSED, "bad_topic"), (["--count", "many"], USAGE, "bad value 'many' for '--count'")):
        with Tail(server, *arguments) as tail:
            assert tail.end() == code and shown in tail.proc.stderr.read()
    ended = subprocess.run([str(BINARY), "tail", "--url", f"http://127.0.0.1:{free_port()}"], capture_output=True, check=False, timeout=20)
    assert ended.returncode == UNREACHABLE
