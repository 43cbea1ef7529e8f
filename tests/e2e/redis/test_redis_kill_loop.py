"""Three servers on one Redis, everything broken that can break, small: every change runs it. `make torture` and redis_kill_loop.py by hand run it long."""

import os
import subprocess
import sys

import pytest
from server import BINARY, REPO

LOOPS = {
    "single": ("--faults", "30", "--pushes", "5000", "--seconds", "6"),
    "sentinel": ("--faults", "5", "--pushes", "1500", "--seconds", "4", "--only", "kill master,kill server,cut", "--doors"),
    "cluster": ("--faults", "6", "--pushes", "1500", "--seconds", "4", "--only", "reshard,cluster failover,kill server,kill master"),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_answered_changes_survive_crashes_of_servers_and_redis(kind, tmp_path):
    """single: all of it. sentinel, cluster: but for what a replica lacked that took over, which is counted."""
    assert BINARY.exists(), f"no server at {BINARY}"
    seed = ("--seed", os.environ["TARRY_TEST_LOOP_SEED"]) if "TARRY_TEST_LOOP_SEED" in os.environ else ()
    command = [sys.executable, str(REPO / "tests/e2e/support/redis_kill_loop.py"), "--kind", kind, *LOOPS[kind], *seed, "--directory",
               str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0
