"""Three servers on one PostgreSQL, and on a MariaDB with a replica, and everything broken that can break: nothing that was answered is lost, early, or
done twice without a cause. `TARRY_TEST_FAULTS=160` runs it long."""

import os
import subprocess
import sys

import pytest
from server import BINARY, REPO

FAULTS = int(os.environ.get("TARRY_TEST_FAULTS", "20"))


@pytest.mark.parametrize("script, seconds, pushes", [("sql_kill_loop.py", 2, 200), ("sql_mariadb_kill_loop.py", 2.5, 120)], ids=["postgres", "mariadb"])
def test_answered_changes_survive_all_faults_of_databases_and_servers(tmp_path, script, seconds, pushes):
    assert BINARY.exists(), f"no server at {BINARY}"
    command = [sys.executable, str(REPO / "tests/e2e/support" / script), "--faults", str(FAULTS), "--pushes", str(FAULTS * pushes), "--seconds", str(FAULTS * seconds),
               "--directory", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FAULTS * seconds * 21 + 300)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0
