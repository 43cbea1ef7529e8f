"""docs/moving/beanstalkd.md: its commands and its code, against a real beanstalkd."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from beanstalk import PROGRAM, Beanstalkd, Connection
from delivery import totals
from pages import blocks, examples, matches
from server import BINARY, REPO, eventually

PAGE = "docs/moving/beanstalkd.md"

pytestmark = pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no beanstalkd on this machine")


def test_the_page_does_what_it_says(server, tmp_path):
    with Beanstalkd() as old, Connection(old.address) as said:
        said("use mail"), said("watch mail")
        for delay in (0, 0, 0, 600, 1200, 1800):
            said.put(b"welcome 7", delay=delay)
        assert said(f"bury {said('reserve')[1]} 0") == ["BURIED"]
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "tarry").symlink_to(BINARY)
        env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TARRY_URL": server.url}
        assert len(examples(PAGE)) == 2
        for number, command, expected in examples(PAGE):
            done = subprocess.run(["bash", "-ec", command.replace("127.0.0.1:11300", old.url[len("beanstalk://"):])], env=env, cwd=tmp_path, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=60, check=True)
            assert matches(expected, done.stdout), f"{PAGE}:{number}: {done.stdout}"
    # The code of afterwards works those off that came over.
    after = ["\n".join(lines) for _, language, lines in blocks(PAGE) if language == "python"][1]
    (tmp_path / "after.py").write_text(after.replace("delay=1800", "delay=0"))
    worker = subprocess.Popen([sys.executable, "-u", tmp_path / "after.py"], env={**env, "PYTHONPATH": str(REPO / "clients" / "python")}, stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: totals(server.client(), "mail")["acked"] == 3, 20)
    finally:
        worker.send_signal(signal.SIGTERM)
        printed = worker.communicate(timeout=20)[0]
    assert (printed.count("sending"), printed.count("welcome 1001"), printed.count("welcome 7"), worker.returncode) == (3, 1, 2, 0), printed
