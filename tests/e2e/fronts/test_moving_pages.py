"""docs/moving: the commands and the code of the page on beanstalkd, against a real one; lines of anything else."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from beanstalk import PROGRAM, Beanstalkd, Connection
from delivery import totals
from moving import follow, script
from server import REPO, eventually

PAGE = "docs/moving/beanstalkd.md"


@pytest.mark.plain("the page's worker knows neither the authority nor a token")
@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no beanstalkd on this machine")
def test_the_commands_of_the_page_print_its_output(server, tmp_path):
    with Beanstalkd() as old, Connection(old.address) as answer:
        answer("use mail"), answer("watch mail")
        for delay in (0, 0, 0, 600, 1200, 1800):
            answer.put(b"welcome 7", delay=delay)
        assert answer(f"bury {answer('reserve')[1]} 0") == ["BURIED"]
        env = follow(PAGE, tmp_path, server, {"127.0.0.1:11300": old.url[len("beanstalk://"):]})
    # The code of afterwards works those off that came over.
    (tmp_path / "after.py").write_text(script(PAGE, number=1).replace("delay=1800", "delay=0"))
    worker = subprocess.Popen([sys.executable, "-u", tmp_path / "after.py"], env={**env, "PYTHONPATH": str(REPO / "clients" / "python")}, stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: totals(server.client(), "mail")["acked"] == 3, 20)
    finally:
        worker.send_signal(signal.SIGTERM)
        printed = worker.communicate(timeout=20)[0]
    assert (printed.count("sending"), printed.count("welcome 1001"), printed.count("welcome 7"), worker.returncode) == (3, 1, 2, 0), printed


def test_other_lines_are_imported_as_documented(server, tmp_path):
    follow("docs/moving/README.md", tmp_path, server, {})
    first, second = (server.client().get("orders", ident) for ident in ("1001", "1002"))
    assert (first["state"], first["body"], first["due_at"]) == ("delayed", {"order": 1001}, "2033-05-18T03:33:20.000Z")
    assert (second["state"], second["attempt"], second["meta"]) == ("delayed", 2, {"from": "old"})
