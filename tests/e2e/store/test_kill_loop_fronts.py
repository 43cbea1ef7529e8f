"""kill -9 with clients that come from beanstalkd and of `--sqs` beside those of HTTP, small: every change runs it. kill_loop.py --fronts runs it long."""

import subprocess
import sys

import pytest
from server import BINARY, REPO

LOOPS = {
    "embedded": ("kill_loop.py", "--kills", "6", "--pushes", "2000", "--seconds", "3"),
    "redis": ("redis_kill_loop.py", "--faults", "6", "--pushes", "1200", "--seconds", "2", "--only", "kill server,kill servers,cut,kill Redis"),
}


@pytest.mark.plain("SDKs of SQS know no token, and the beanstalk protocol no TLS")
@pytest.mark.parametrize("store", LOOPS)
def test_changes_answered_over_each_protocol_survive_kill_9(store, tmp_path):
    assert BINARY.exists(), f"no server at {BINARY}"
    script, *arguments = LOOPS[store]
    command = [sys.executable, str(REPO / "tests/e2e/support" / script), "--fronts", *arguments, "--directory", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0
