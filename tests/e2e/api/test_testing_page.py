"""docs/testing.md: its commands print its output on a server with a test clock, and its pytest files pass, and fail for wrong programs."""

import os
import subprocess
import sys

import pytest
from conftest import FLAGS
from pages import blocks
from server import BINARY, REPO
from test_docs import run_page

PAGE = "docs/testing.md"
pytestmark = pytest.mark.plain("the page shows a server on loopback, without token")


def test_the_commands_of_the_page_print_its_output(start_server, tmp_path):
    server = start_server(*FLAGS, "--test-clock=2030-01-01T00:00:00Z")
    count, wrong = run_page(PAGE, server, tmp_path)
    assert count == 6 and not wrong, "\n\n".join(wrong)


def run_pytest(directory, conftest, test):
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_orders.py").write_text(test)
    env = {**os.environ, "TARRY": str(BINARY), "PYTHONPATH": str(REPO / "clients" / "python")}
    env.pop("TARRY_URL", None)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)], cwd=directory, env=env,
                          capture_output=True, text=True, timeout=120, check=False)


def test_the_pytest_files_of_the_page_pass_and_find_wrong_programs(tmp_path):
    conftest, test = ["\n".join(lines) + "\n" for _, language, lines in blocks(PAGE) if language == "python"]
    (tmp_path / "good").mkdir()
    good = run_pytest(tmp_path / "good", conftest, test)
    assert good.returncode == 0 and "1 passed" in good.stdout, good.stdout + good.stderr
    (tmp_path / "bad").mkdir()
    bad = run_pytest(tmp_path / "bad", conftest, test.replace("delay=1800", "delay=1700"))
    assert bad.returncode == 1 and "assert [1001" in bad.stdout, bad.stdout + bad.stderr
