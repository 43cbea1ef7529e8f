"""Workers: `tarry work` and those of docs/workers.md, while the server comes and goes, and while they come to their own end."""

import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
from server import BINARY, REPO, eventually, free_port, freeze

LEASE_SECONDS, AWAY_SECONDS = 2, 1.5
PAGE = (REPO / "docs/workers.md").read_text(encoding="utf-8")


def block(language, first_line):
    """The code of the page that begins with a line."""
    found = re.search(rf"^```{language}\n({re.escape(first_line)}\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no {language} that begins with {first_line} on the page"
    return found[1]


def program(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def shell(path, text):
    return program(path, "#!/bin/sh\n" + text)


class Process:
    """A worker; what it prints is collected line by line."""

    def __init__(self, server, *command, **variables):
        environment = {**os.environ, "TARRY_URL": server.url, **variables}
        self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment)
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=self.read, args=pair) for pair in ((self.proc.stdout, self.out), (self.proc.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(pipe, lines):
        for line in pipe:
            lines.append(line.rstrip("\n"))

    def end(self, number=signal.SIGTERM, seconds=30):
        self.proc.send_signal(number)
        self.proc.wait(seconds)
        for reader in self.readers:
            reader.join(seconds)
        assert not any("Sanitizer" in line for line in self.err), self.err
        return self.proc.returncode


@pytest.fixture
def start(request):
    processes = []

    def start(server, *command, **variables):
        processes.append(Process(server, *command, **variables))
        return processes[-1]

    yield start
    for process in processes:
        if process.proc.poll() is None:
            process.end(signal.SIGKILL)


@pytest.fixture
def fixed(start_server):
    """A server on a port that stays its own."""
    port, begin = free_port(), time.monotonic()
    server = start_server("--sync", "always", "--shards", "1", started=False)
    server.start(port)
    server.start_seconds = time.monotonic() - begin
    return server


def kill(server):
    """A take is answered before it is on the disk, and a take that a crash removes is rightly handed out again. So no take is in progress then: the
    answer to a pause is on the disk, and all takes before it."""
    port = server.port
    server.client().topic_verb("unpaid", "pause")
    server.kill()
    time.sleep(max(AWAY_SECONDS - server.start_seconds, 0))
    server.start(port)
    server.client().topic_verb("unpaid", "resume")


def pause(server):
    freeze(server.proc.pid)
    time.sleep(AWAY_SECONDS)
    server.proc.send_signal(signal.SIGCONT)


def start_of_the_page(server, start, directory):
    path = program(directory / "worker.py", block("python", "#!/usr/bin/env python3"))
    return [start(server, sys.executable, path, "unpaid", LEASE=str(LEASE_SECONDS)) for _ in range(8)]


def start_of_the_binary(server, start, directory):
    path = shell(directory / "do", 'echo "closing $TARRY_ID"\nsleep "$(tr -dc 0-9.)"\n')
    return [start(server, str(BINARY), "work", "unpaid", "--jobs", "16", "--lease-for", f"{LEASE_SECONDS}s", "--", path)]


@pytest.mark.parametrize("away", [kill, pytest.param(pause, marks=pytest.mark.thorough("a minute with both"))])
@pytest.mark.parametrize("workers", [start_of_the_page, start_of_the_binary])
@pytest.mark.plain("the worker of the page has no token")
def test_no_job_comes_twice_if_the_server_is_away_for_most_of_a_lease(workers, away, fixed, start, tmp_path):
    """Acks fall into the time without a server, after up to a second of work and after more than a lease of it: who extends at half the lease only has lost some
    by then."""
    seconds = [0.01 * (n * 37 % 100) for n in range(90)] + [LEASE_SECONDS + 0.1 * n for n in range(8)]
    fixed.client().push_batch([{"topic": "unpaid", "id": f"o{n}", "body": {"seconds": some}, "max_attempts": 9} for n, some in enumerate(seconds)])
    running = workers(fixed, start, tmp_path)
    time.sleep(1)
    for _ in range(2):
        away(fixed)
        time.sleep(0.7)
    eventually(lambda: fixed.client().topic("unpaid")["totals"]["acked"] == len(seconds), seconds=40, pause=0.05)
    for worker in running:
        worker.end(signal.SIGKILL if workers is start_of_the_page else signal.SIGTERM)
    seen = [line.split()[1] for worker in running for line in worker.out]
    assert sorted(seen) == sorted(f"o{n}" for n in range(len(seconds))), [ident for ident in set(seen) if seen.count(ident) > 1]


def test_the_shell_worker_of_the_page(server, start, tmp_path):
    program(tmp_path / "close-order.sh", block("sh", "#!/bin/sh"))
    command = block("sh", "tarry work unpaid --jobs 4 -- ./close-order.sh").strip()
    server.client().push("unpaid", "1001", body=b'{"order":1001}')
    worker = start(server, "/bin/sh", "-c", f"cd {tmp_path} && exec {command}", PATH=f"{BINARY.parent}:{os.environ['PATH']}")
    eventually(lambda: server.client().topic("unpaid")["totals"]["acked"] == 1)
    assert worker.end() == 0 and worker.out == ['closing order 1001: {"order":1001}']


@pytest.mark.plain("the worker of the page has no token")
def test_the_python_worker_of_the_page_nacks_with_the_exception(server, start, tmp_path):
    path = program(tmp_path / "worker.py", block("python", "#!/usr/bin/env python3"))
    server.client().push("t", "bad", body=b"[]", content_type="application/json", max_attempts=1)
    start(server, sys.executable, path, "t")
    eventually(lambda: server.client().topic("t")["counts"]["dead"] == 1)
    assert "'list' object has no attribute 'get'" in server.client().get("t", "bad")["last_error"]


# ---- away ----


def test_an_outage_and_its_end_are_reported_once(fixed, start):
    port, client = fixed.port, fixed.client()
    worker = start(fixed, str(BINARY), "work", "t", "--", "true")
    eventually(lambda: fixed.client().call("GET", "/metrics").body.count(b"tarry_waiting_takes 1") == 1)
    fixed.terminate()
    eventually(lambda: len(worker.err) > 1)
    time.sleep(1.5)
    fixed.start(port)
    eventually(lambda: len(worker.err) > 2, seconds=15)
    fixed.client().push("t", "a")
    eventually(lambda: "acked t/a" in worker.err)
    worker.end()
    client.close()
    begun, away, back, acked, *_ = worker.err
    assert begun == f"waiting for jobs of 't' at {fixed.url}, which has no such topic yet"
    assert away.startswith(f"tarry: cannot reach '{fixed.url}'") or "(stopping)" in away, worker.err
    assert re.fullmatch(rf"tarry: '{re.escape(fixed.url)}' answers again, after \d+ s", back), worker.err
    assert acked == "acked t/a", worker.err


def test_an_unreachable_server_is_tried_with_growing_pauses(start):
    """Counts connections: a socket that closes each connection immediately."""
    import socket

    class Nobody:
        url = None

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Nobody.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.settimeout(0.1)
        worker = start(Nobody, str(BINARY), "work", "t", "--", "true")
        times, end = [], time.monotonic() + 5
        while time.monotonic() < end:
            try:
                listener.accept()[0].close()
                times.append(time.monotonic())
            except TimeoutError:
                pass
        worker.end()
    assert 4 <= len(times) <= 14, len(times)
    assert times[-1] - times[-2] > 2 * (times[1] - times[0])


# ---- its commands ----


def running_children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_worker_serves_several_topics_in_order(server, start, tmp_path):
    for topic in ("mails", "orders"):
        for ident in ("a", "b"):
            server.cli("push", topic, ident, "--body", "x")
    done = tmp_path / "done"
    worker = start(server, str(BINARY), "work", "orders", "mails", "--", "sh", "-c", f'echo "$TARRY_TOPIC/$TARRY_ID" >> {done}')
    eventually(lambda: done.exists() and len(done.read_text(encoding="utf-8").splitlines()) == 4)
    assert worker.end() == 0
    assert done.read_text(encoding="utf-8").splitlines() == ["orders/a", "orders/b", "mails/a", "mails/b"]
    assert [line.split(" at ")[0] for line in worker.err[:2]] == ["waiting for jobs of 'orders'", "waiting for jobs of 'mails'"]


def test_commands_die_with_their_worker(server, start, tmp_path):
    path = program(tmp_path / "do", "#!/usr/bin/env python3\nimport signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                    f"open('{tmp_path}/up', 'w').close()\ntime.sleep(60)\n")
    server.client().push("t", "a")
    worker = start(server, str(BINARY), "work", "t", "--", path)
    eventually((tmp_path / "up").exists)
    (child,) = running_children(worker.proc.pid)
    worker.proc.kill()
    stat_file = pathlib.Path(f"/proc/{child}/stat")
    try:
        eventually(lambda: not stat_file.exists() or " Z " in stat_file.read_text())
    finally:
        if stat_file.exists():
            os.kill(child, signal.SIGKILL)


def test_the_last_words_of_a_command_are_its_error(server, start, tmp_path):
    words = {
        "plain": ("printf 'first\\nsecond\\nthird\\nthe bank is down\\n' >&2; exit 3", "exit 3: second; third; the bank is down"),
        "colour": ("printf '\\033[31mred\\033[0m  \\t text\\a\\n\\n' >&2; exit 1", "exit 1: red text?"),
        "bytes": ("printf 'gr\\303\\274n \\377 \\302\\205' >&2; kill -9 $$", "signal 9: grün ? ?"),
        "silent": ("exit 4", "exit 4"),
        "stdout": ("echo not this; exit 5", "exit 5"),
    }
    cases = "".join(f"{ident}) {text};;\n" for ident, (text, _) in words.items())
    path = shell(tmp_path / "do", f"case $TARRY_ID in\n{cases}long) yes 'ä long line of many words' | head -c 100000 >&2; printf '\\nthe end' >&2; exit 6;;\nesac\n")
    client = server.client()
    worker = start(server, str(BINARY), "work", "t", "--jobs", "3", "--", path)
    for ident in [*words, "long"]:
        client.push("t", ident, max_attempts=1)
    eventually(lambda: client.topic("t")["counts"]["dead"] == len(words) + 1)
    for ident, (_, error) in words.items():
        assert client.get("t", ident)["last_error"] == error
    long = client.get("t", "long")["last_error"]
    assert long.startswith("exit 6: ") and long.endswith("; the end") and 30 < len(long.encode()) <= 256
    worker.end()
    assert "the bank is down" in worker.err and "nacked t/plain, exit 3: second; third; the bank is down" in worker.err


def test_a_command_of_a_cancelled_job_is_notified(server, start, tmp_path):
    path = program(tmp_path / "do", "#!/usr/bin/env python3\nimport os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(int(os.environ['TARRY_ID'])))\n"
                                    f"open('{tmp_path}/up-' + os.environ['TARRY_ID'], 'w').close()\ntime.sleep(60)\n")
    client = server.client()
    for ident in ("0", "1"):  # the code that it ends with: done all the same, and given up
        client.push("t", ident)
    worker = start(server, str(BINARY), "work", "t", "--jobs", "2", "--lease-for", "2s", "--consumer", "here", "--", path)
    eventually(lambda: (tmp_path / "up-0").exists() and (tmp_path / "up-1").exists())
    assert {client.get("t", ident)["consumer"] for ident in ("0", "1")} == {"here"}
    for ident in ("0", "1"):
        assert client.call("DELETE", f"/v1/topics/t/jobs/{ident}?request=true").status == 202
    eventually(lambda: client.topic("t")["totals"]["acked"] == 1 and client.topic("t")["totals"]["cancelled"] == 1)
    worker.end()
    assert "cancelled t/1 as requested" in worker.err and "acked t/0" in worker.err
    assert sum("was requested, its command" in line for line in worker.err) == 2


def ticks(pid):
    """Processor time, in hundredths of a second."""
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().split()[13:15]))


def test_a_command_that_closes_its_standard_error_costs_nothing(server, start, tmp_path):
    path = shell(tmp_path / "do", f"exec 2>&-\ntouch {tmp_path}/up\nsleep 2\n")
    server.client().push("t", "a")
    worker = start(server, str(BINARY), "work", "t", "--", path)
    eventually((tmp_path / "up").exists)
    begin = ticks(worker.proc.pid)
    time.sleep(1)
    assert ticks(worker.proc.pid) - begin < 20
    eventually(lambda: server.client().topic("t")["totals"]["acked"] == 1)
    worker.end()


def test_a_command_inherits_only_the_standard_descriptors(server, start, tmp_path):
    path = shell(tmp_path / "do", f"ls -l /proc/$$/fd > {tmp_path}/open-$TARRY_ID.new\nmv {tmp_path}/open-$TARRY_ID.new {tmp_path}/open-$TARRY_ID\n")
    client = server.client()
    worker = start(server, str(BINARY), "work", "t", "--jobs", "2", "--", path)
    for ident in ("1", "2", "3"):  # the first take has no connection to pass on, later ones have
        client.push("t", ident)
        eventually((tmp_path / f"open-{ident}").exists)
        numbers = set(map(int, re.findall(r" (\d+) -> ", (tmp_path / f"open-{ident}").read_text(encoding="utf-8"))))
        assert numbers & set(range(10)) == {0, 1, 2}  # the shell's own begin at 10
    worker.end()


@pytest.mark.parametrize("command", ["exec sleep 4", "setsid sleep 4 > /dev/null 2>&1 < /dev/null &\nexit 0"], ids=["running", "left_in_the_background"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_worker_that_ends_takes_no_further_job(number, command, server, start, tmp_path):
    path = shell(tmp_path / "do", f"touch {tmp_path}/up\n{command}\n")
    client = server.client()
    client.push("t", "1")
    worker = start(server, str(BINARY), "work", "t", "--jobs", "2", "--lease-for", "20s", "--", path)
    eventually((tmp_path / "up").exists)
    time.sleep(0.5)  # the next take waits
    worker.proc.send_signal(number)
    time.sleep(0.7)
    client.push("t", "2", max_attempts=1)
    time.sleep(0.3)
    assert client.get("t", "2")["state"] == "ready"
    worker.end(signal.SIGKILL)
