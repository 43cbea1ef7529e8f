"""docs/batches.md: its commands run as they stand, in their order, and do what the page promises."""

import os
import subprocess

import pytest
from pages import blocks
from server import BINARY

PAGE = "docs/batches.md"
pytestmark = pytest.mark.plain("the page shows a server on loopback, without token")


def run(server, command):
    text = command.replace("127.0.0.1:8279", f"127.0.0.1:{server.port}").replace("curl ", "curl -sS --fail --max-time 20 ")
    env = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "TARRY_URL": server.url, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-eu", "-c", text], capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, (command, done.stdout + done.stderr)
    return done.stdout


def test_the_commands_of_the_page_run(server):
    printed = [(command, run(server, command)) for command in ("\n".join(lines) for _, language, lines in blocks(PAGE) if language == "sh")]
    output_of = lambda words: next(text for command, text in printed if words in command)  # noqa: E731
    assert "2 members" in output_of("tarry get reports import-8")
    assert len(printed) == 4 and "cancelled d-2" in output_of("tarry batch -")
    client = server.client()
    ended = client.take("rows", max=10, wait="10s")
    assert sorted(job["id"] for job in ended) == ["1", "2", "3", "4"]
    client.ack(*(job["lease"] for job in ended))
    reports = {job["id"]: job["meta"]["tarry-batch"] for job in client.take("reports", max=10, wait="10s")}
    assert reports == dict.fromkeys(("import-7", "import-8"), "acked=2 dead=0 cancelled=0 expired=0 missing=0")
    for step in ("c-1", "c-2", "c-3"):
        (job,) = client.take("steps", max=10, wait="10s")
        assert job["id"] == step
        client.ack(job["lease"])
