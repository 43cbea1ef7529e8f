"""`tarry top` and `tarry status`: on a terminal (a pty of 80x24), and without one."""

import json
import re
import signal
import subprocess
import termios

import pytest
from conftest import FLAGS
from server import BINARY, Server, free_port
from terminal import Terminal

WELL, WARNINGS, CRITICAL, UNKNOWN = range(4)
SENTENCE = "all is well|[0-9]+ warnings?: "  # a loaded machine may be late


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("shop") / "server", FLAGS)
    server.start()
    client = server.client()
    client.push_batch([{"topic": topic, "id": str(n), "body": "x"} for topic, count in (("apples", 3), ("pears", 7)) for n in range(count)])
    client.push("plums", "a", delay="1h")
    yield server
    assert server.terminate() == 0 and not server.sanitizer_report()


def top(server, *flags, **options):
    return Terminal("top", *flags, "--url", server.url, **options)


def run(server, *arguments):
    return subprocess.run([str(BINARY), *arguments, "--url", server.url if server else f"http://127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=30, check=False)


# ---- top ----


def test_a_table_fits_80_by_24_and_is_drawn_again_each_second(shop):
    with top(shop) as terminal:
        lines = terminal.until(lambda lines: any("plums" in line for line in lines))
        assert "q: quit" in lines[0] and re.match(SENTENCE, lines[1]) and "1 delayed, 0 retrying, 10 ready" in lines[2]
        assert lines[6].split() == ["TOPIC", "DELAYED", "READY", "LEASED", "DEAD", "IN/S", "OUT/S", "OLDEST"]
        rows = {line.split()[0]: line.split()[1:5] for line in lines[7:] if line.strip()}
        assert rows["apples"] == ["0", "3", "0", "0"] and rows["pears"] == ["0", "7", "0", "0"]
        shop.client().push("plums", "b", delay="1h")
        terminal.until(lambda lines: "2 delayed" in lines[2])
        terminal.press(b"q")
        assert terminal.end() == 0
        assert terminal.raw.startswith(b"\033[?1049h\033[?25l") and terminal.raw.endswith(b"\033[?25h\033[?1049l")
        assert termios.tcgetattr(terminal.other) == terminal.before, "the terminal is as it was"


def test_keys_sort_and_move_the_list(shop):
    with top(shop) as terminal:
        names = lambda lines: [line.split()[0] for line in lines[7:] if line.strip()]  # noqa: E731
        terminal.until(lambda lines: len(names(lines)) == 3)
        assert "sort by name" in terminal.screen()[0]
        terminal.press(b"s")
        terminal.until(lambda lines: names(lines) == ["apples", "pears", "plums"] and "sort by ready" in lines[0], 3)
        terminal.press(b"s")
        terminal.until(lambda lines: names(lines) == ["pears", "apples", "plums"], 3)
        terminal.press(b"\033[B")
        terminal.until(lambda lines: names(lines) == ["apples", "plums"], 3)
        terminal.press(b"\033[A\033[A")
        terminal.until(lambda lines: names(lines) == ["pears", "apples", "plums"], 3)
        terminal.press(b"xyz q")
        assert terminal.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_the_terminal(shop, number):
    with top(shop, rows=10, columns=120) as terminal:
        terminal.until(lambda lines: any("pears" in line for line in lines))
        terminal.proc.send_signal(number)
        assert terminal.end() == 0
        assert terminal.raw.endswith(b"\033[?25h\033[?1049l") and termios.tcgetattr(terminal.other) == terminal.before


def test_it_waits_for_a_server_that_is_away(start_server):
    server = start_server(*FLAGS)
    server.client().push("apples", "a")
    with top(server) as terminal:
        terminal.until(lambda lines: "apples" in lines[7])
        port = int(server.port)
        server.terminate()
        terminal.until(lambda lines: "does not answer" in lines[1] and "apples" in lines[7])
        server.start(port)
        terminal.until(lambda lines: re.match(SENTENCE, lines[1]) and "apples" in lines[7])
        terminal.until(lambda lines: re.search(r" takes wait, 1 connection$", lines[4]))  # its own
        terminal.press(b"q")
        assert terminal.end() == 0


def test_without_a_terminal_one_table_is_printed(shop):
    for flags in ((), ("--once",)):
        ended = run(shop, "top", *flags)
        assert ended.returncode == 0 and "\033" not in ended.stdout and not ended.stderr
        assert re.search(r"^pears +0 +7 +0 +0 ", ended.stdout, re.M) and re.search(f"^(?:{SENTENCE})", ended.stdout, re.M)
    once = json.loads(run(shop, "top", "--once", "--json").stdout)
    assert once["totals"]["topics"] == 3
    with subprocess.Popen([str(BINARY), "top", "--json", "--url", shop.url], stdout=subprocess.PIPE, text=True) as proc:
        first, second = (json.loads(proc.stdout.readline()) for _ in range(2))
        assert first["at"] < second["at"]
        proc.send_signal(signal.SIGINT)
        assert proc.wait(10) == 0


def test_an_unreachable_server_is_reported_once():
    ended = run(None, "top")
    assert ended.returncode == 3 and ended.stderr.startswith("tarry: cannot reach ") and not ended.stdout


# ---- status ----


def test_status_is_a_sentence_and_an_exit_code_for_monitors(start_server):
    server = start_server(*FLAGS)
    ended = run(server, "status")
    assert (ended.returncode, ended.stdout) == (WELL, "all is well: 0 topics, 0 jobs\n")
    client = server.client()
    client.push("mourned", "a", max_attempts=1)
    client.nack(client.take("mourned")[0]["lease"])
    ended = run(server, "status")
    assert ended.returncode == WARNINGS
    lines = ended.stdout.splitlines()
    assert lines[0] == "1 warning: 'mourned' has 1 job that died" and lines[2].split(maxsplit=2)[:2] == ["warning", "dead"]
    assert lines[-1].endswith(f"  {server.url}/runbooks/dead")
    ended = run(server, "status", "--json")
    assert ended.returncode == WARNINGS and json.loads(ended.stdout)["problems"][0]["code"] == "dead"
    with Terminal("status", "--url", server.url) as terminal:
        assert terminal.end() == WARNINGS and terminal.raw.startswith(b"\033[33m1 warning: ")
    with Terminal("status", "--url", server.url, NO_COLOR="1") as terminal:
        assert terminal.end() == WARNINGS and b"\033" not in terminal.raw


def test_status_is_critical_with_a_critical_problem(start_server, tmp_path):
    server = start_server(*FLAGS)
    server.data.rename(tmp_path / "elsewhere")
    server.client().call("PUT", "/v1/topics/t/jobs/a", b"x")
    ended = run(server, "status")
    (tmp_path / "elsewhere").rename(server.data)
    assert ended.returncode == CRITICAL and ended.stdout.startswith("the data directory was moved")


def test_status_is_unknown_without_an_answer():
    ended = run(None, "status")
    assert ended.returncode == UNKNOWN and "cannot reach" in ended.stderr
    assert run(None, "status", "--nonsense").returncode == 2
