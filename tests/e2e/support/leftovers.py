"""Fails a test that leaves a thread or a process behind, and kills the process. A conftest imports the three hooks.

A test that uses a fixture of a wider scope is checked when that scope has ended, because the fixture may start its servers again during the test.
"""

import os
import signal
import sys
import threading
import time
import traceback

import pytest
from child import RUN, shared_processes

GRACE_SECONDS = 20.0  # a thread that serves a closed connection may need a while to notice
os.environ[RUN] = str(os.getpid())  # also found in a process whose parent has ended
SCOPES = ["function", "class", "module", "package", "session"]

_before, _kept, _blamed, _suspects, _is_ours = set(), set(), set(), {}, {}


class Process:
    """A process, known by its number and the time of its start."""

    def __init__(self, number, start):
        self.number, self.start = number, start

    def __eq__(self, other):
        return isinstance(other, Process) and (self.number, self.start) == (other.number, other.start)

    def __hash__(self):
        return hash((self.number, self.start))

    def __str__(self):
        return f"process {self.number}, {_read(self.number, 'cmdline').replace(chr(0), ' ')[:200]}"

    def end(self):
        try:
            os.kill(self.number, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Thread:
    """A thread of this process."""

    def __init__(self, thread):
        self.thread = thread

    def __eq__(self, other):
        return isinstance(other, Thread) and self.thread is other.thread

    def __hash__(self):
        return id(self.thread)

    def __str__(self):
        frame = sys._current_frames().get(self.thread.ident)
        return f"thread '{self.thread.name}', which is at\n" + "".join(traceback.format_stack(frame)[-5:] if frame else [])

    def end(self):
        """Reads a file of a thread; a thread cannot be ended from outside."""


def _read(number, name):
    """Reads by system calls, because this runs twice for each test and each process of the machine."""
    try:
        file = os.open(f"/proc/{number}/{name}", os.O_RDONLY)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def _processes():
    """Processes that this run started, except zombies and servers that are shared by the whole run."""
    shared = shared_processes()
    mark, me = f"\0{RUN}={os.getpid()}\0", str(os.getpid())
    for name in os.listdir("/proc"):
        fields = _read(name, "stat").rpartition(")")[2].split() if name.isdigit() and name != me else None
        if not fields or fields[0] in "ZX" or int(name) in shared:
            continue
        process = Process(int(name), fields[19])
        if process not in _is_ours:
            _is_ours[process] = fields[1] == me or mark in "\0" + _read(name, "environ")
        if _is_ours[process]:
            yield process


def _things():
    return set(_processes()) | {Thread(thread) for thread in threading.enumerate() if thread is not threading.main_thread()}


def _scope(item):
    """The widest scope of the fixtures that the test uses, without those of pytest itself."""
    definitions = [one for several in item._fixtureinfo.name2fixturedefs.values() for one in several if not one.func.__module__.startswith("_pytest")]
    return max([SCOPES.index(one.scope) for one in definitions], default=0)


def _still_there(suspects):
    limit = time.monotonic() + GRACE_SECONDS
    while suspects:
        there = _things()
        suspects = {thing: test for thing, test in suspects.items() if thing in there}
        if time.monotonic() > limit:
            break
        time.sleep(0.02)
    return suspects


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    before = _things() if fixturedef.scope != "function" else None
    yield
    if before is not None:
        _kept.update(_things() - before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    _before.clear()
    _before.update(_things())


@pytest.hookimpl(trylast=True)  # everything is torn down that ends with this test
def pytest_runtest_teardown(item, nextitem):
    ended = SCOPES.index("session") if nextitem is None else SCOPES.index("module") if nextitem.path != item.path else 0
    for thing in _things() - _before - _kept - _blamed:
        _suspects[thing] = (item.nodeid, _scope(item))
    if nextitem is None:  # what wider fixtures started has to be gone as well
        _suspects.update({thing: ("a fixture", 0) for thing in _kept})
    left = _still_there({thing: test for thing, (test, scope) in _suspects.items() if scope <= ended})
    for thing, (_, scope) in list(_suspects.items()):
        if scope <= ended:
            del _suspects[thing]
    _blamed.update(left)
    if left:
        texts = [f"'{test}' left {thing}" for thing, test in left.items()]
        for thing in left:
            thing.end()
        pytest.fail("\n".join(texts), pytrace=False)
