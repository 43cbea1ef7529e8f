"""A test that leaves a thread or a process behind fails, by name. Processes of a module or session fixture may live until the fixture ends.

The processes sleep for 611 seconds, a number that no other test uses."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SUPPORT = pathlib.Path(__file__).parents[1] / "e2e" / "support"
CONFTEST = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import leftovers
from leftovers import pytest_fixture_setup, pytest_runtest_setup, pytest_runtest_teardown
leftovers.GRACE_SECONDS = 0.3
"""
HEAD = """
import os, subprocess, threading, time
import pytest

def sleeper(**options):
    return subprocess.Popen(["sleep", "611"], **options)
"""


def run(tmp_path, *files):
    """Runs pytest over the files; returns the ids of the failed tests, and the output."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(HEAD + text)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", tmp_path], capture_output=True, text=True, cwd=tmp_path,
                          env={name: value for name, value in os.environ.items() if name != "TARRY_TEST_RUN"}, timeout=120, check=False)
    return re.findall(r"^(?:FAILED|ERROR) \S*?(test_\d\.py::\S+)", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.parametrize("statement, pattern", [
    ("threading.Thread(target=time.sleep, args=(2,), name='cutter').start()", "thread 'cutter', which is at"),
    ("sleeper()", r"process \d+, sleep 611"),
    ("sleeper(start_new_session=True)", r"process \d+, sleep 611"),
    ("subprocess.run(['sh', '-c', 'setsid sleep 611 >/dev/null 2>&1 &'])", r"process \d+, sleep 611"),
])
def test_names_the_test_that_left_something(tmp_path, statement, pattern):
    failed, output = run(tmp_path, f"def test_one(): pass\ndef test_two(): {statement}; time.sleep(0.2)\ndef test_three(): pass\n")
    assert failed == ["test_0.py::test_two"] and re.search(f"'test_0.py::test_two' left {pattern}", output), output
    assert "3 passed, 1 error" in output


def test_accepts_tests_that_leave_nothing_after_the_grace_time(tmp_path):
    assert run(tmp_path, "def test_one(): p = sleeper(); p.kill(); p.wait()\ndef test_two(): threading.Thread(target=time.sleep, args=(0.1,)).start()\n")[0] == []


FIXTURE = """
@pytest.fixture(scope="SCOPE")
def servers():
    running = [sleeper()]
    yield running
    for one in running:
        one.kill()
        one.wait()

def test_uses_it(servers): pass
def test_starts_it_again(servers):
    servers.append(sleeper())
"""


@pytest.mark.parametrize("scope", ["module", "session"])
def test_a_fixture_of_a_wider_scope_keeps_its_processes_until_it_ends(tmp_path, scope):
    text = FIXTURE.replace("SCOPE", scope)
    assert run(tmp_path, text, "def test_one(): pass\n")[0] == []


def test_names_a_fixture_that_leaves_a_process(tmp_path):
    text = FIXTURE.replace("SCOPE", "module")
    failed, output = run(tmp_path, text.replace("running = [sleeper()]", "running = [sleeper()]; sleeper()"), "def test_one(): pass\n")
    assert failed and "'a fixture' left process" in output, output


@pytest.mark.parametrize("scope", ["module", "session"])
def test_names_a_test_that_leaves_a_process_beside_a_fixture(tmp_path, scope):
    text = FIXTURE.replace("SCOPE", scope)
    failed, output = run(tmp_path, text + "    sleeper()\n", "def test_one(): pass\n")
    assert len(failed) == 1 and "'test_0.py::test_starts_it_again' left process" in output
