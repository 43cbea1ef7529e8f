"""Sections of docs/operations and docs/delivery.md, copied and pasted: each runs in one shell, in an empty directory, on ports of its own."""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from pages import blocks, examples, matches
from server import BINARY, REPO, free_port

SECTIONS = {"moving": "docs/operations/backup.md", "redis": "docs/operations/storage.md", "sentinel": "docs/operations/storage.md", "cluster": "docs/operations/storage.md",
            "lost": "docs/operations/recovery.md", "callback": "docs/delivery.md"}
PORT = re.compile(r"\b(6379|640\d|26379|700\d|8279|8280|8000)\b")
COMMAND_SECONDS = 90


def port_for(named):
    """A free port; a cluster's node also needs the one 10,000 above it, which must not be one for outgoing connections."""
    while True:
        port = free_port()
        if not named.startswith("700"):
            return port
        with socket.socket() as bus:
            try:
                if port < 22_000:
                    bus.bind(("127.0.0.1", port + 10_000))
                    return port
            except OSError:
                continue


def section(name):
    """[(line number, command, expected lines)] from `<!-- run: name -->` to the next heading."""
    page, begin, end = SECTIONS[name], None, None
    for number, language, lines in blocks(page):
        if language is None and lines[0].strip() == f"<!-- run: {name} -->":
            begin = number
        elif language is None and lines[0].startswith("## ") and begin and not end:
            end = number
    return [(number, command, expected or []) for number, command, expected in examples(page) if begin < number < (end or number + 1)]


class Shell:
    """A bash that runs line after line, as a user's does. Remaining processes are killed at the end."""

    def __init__(self, directory):
        self.directory, self.marks = directory, 0
        environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        environment["TARRY_CORE_DUMPS"] = "true"  # else only root may ask where a server works, see close()
        for name in ("TARRY_STORE", "TARRY_CONFIG"):
            environment.pop(name, None)
        self.proc = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=directory, env=environment,
                                     start_new_session=True)

    def run(self, command):
        self.marks += 1
        mark = f"---- {self.marks} ----"
        self.proc.stdin.write(f"{command}\necho '{mark}'\n".encode())
        self.proc.stdin.flush()
        out, limit = b"", time.monotonic() + COMMAND_SECONDS
        while not out.endswith(mark.encode() + b"\n"):
            readable, _, _ = select.select([self.proc.stdout], [], [], max(0.0, limit - time.monotonic()))
            got = os.read(self.proc.stdout.fileno(), 65536) if readable else b""
            if not got:
                raise AssertionError(f"$ {command}\ndid not end within {COMMAND_SECONDS} s:\n{out.decode()}")
            out += got
        text = re.sub(r"\x1b\[[0-9;]*m", "", out.decode()[:-len(mark) - 1])  # redis-cli paints
        # The message of bash about a killed job; a terminal shows it as well, at some time.
        return re.sub(r"bash: line \d+: +\d+ Killed[^\n]*\n", "", text)

    def close(self):
        """Ends all started processes, which work in this directory, including daemons."""
        self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                where = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            if where.startswith(str(self.directory) + "/") or where == str(self.directory):
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def shell():
    directory = tempfile.mkdtemp(prefix="tarry-docs-")
    shell = Shell(directory)
    yield shell
    shell.close()
    shutil.rmtree(directory, ignore_errors=True)


def logs(shell):
    out = []
    for root, _, names in os.walk(shell.directory):
        for name in sorted(names):
            if name.endswith(".log") and not root.endswith("/wal"):
                with open(os.path.join(root, name), encoding="utf-8", errors="replace") as log:
                    out.append(f"---- {os.path.join(root, name)} ----\n{log.read()[-3000:]}")
    return "\n".join(out)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_commands_of_the_page_print_its_output(name, shell):
    ports, steps = {}, section(name)
    assert sum(command.count("\n") + 1 for _, command, _ in steps) >= 8, steps
    for number, command, expected in steps:
        text = PORT.sub(lambda found: str(ports.setdefault(found.group(), port_for(found.group()))), command)
        answer = shell.run(text)
        for there, here in ports.items():
            answer = answer.replace(str(here), there)
        assert matches(expected, answer), f"{SECTIONS[name]}:{number}: $ {command}\nexpected:\n" + "\n".join(expected) + f"\nfound:\n{answer}\n{logs(shell)}"


def test_every_section_that_is_marked_is_run():
    marked = [(name, str(page.relative_to(REPO))) for page in (REPO / "docs").rglob("*.md") for name in re.findall(r"<!-- run: (\w+) -->", page.read_text(encoding="utf-8"))]
    assert sorted(marked) == sorted(SECTIONS.items())


def test_the_demo_starts_a_redis_of_its_own_and_leaves_nothing(tmp_path):
    done = subprocess.run([str(REPO / "scripts/demo")], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "STORE": "redis", "TARRY_BIN": str(BINARY), "TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and "every order was delivered once, not early" in done.stdout, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
