"""kill -9, small: every change runs it. `make torture` and kill_loop.py by hand run it long."""

import os
import subprocess
import sys

import pytest
from server import BINARY, REPO

KILLS = int(os.environ.get("TARRY_TEST_KILLS", 20))
PUSHES = int(os.environ.get("TARRY_TEST_PUSHES", 20_000))
SECONDS = float(os.environ.get("TARRY_TEST_SECONDS", 20))


@pytest.mark.parametrize("shards, doors", [(1, ()), pytest.param(2, ("--doors",), marks=pytest.mark.thorough("half a minute more"))], ids=["1", "2-doors"])
def test_answered_changes_survive_kill_9(shards, doors, tmp_path):
    assert BINARY.exists(), f"no server at {BINARY}"
    command = [sys.executable, str(REPO / "tests/e2e/support/kill_loop.py"), "--kills", str(KILLS), "--pushes", str(PUSHES), "--seconds",
               str(SECONDS), "--shards", str(shards), "--directory", str(tmp_path / "run"), "--quiet", *doors]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS * 21 + 300)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0
