"""Pages of a list, and an export that is continued, while the wall clock is set: no job is left out."""

import time

import pytest
from conftest import FLAGS
from fake_clock import FakeClock, fake_time_library
from migration import export, lines_of, tarry
from server import eventually

JOBS = 2500
STEPS_S = (-3600, -60, 60, 3600)
pytestmark = pytest.mark.plain("the wall clock of the server is the test's")


@pytest.fixture(params=["1", "3"])
def clocked(request, start_server, tmp_path):
    """A server whose wall clock a test sets, with jobs by delay and by time in one topic."""
    clock = FakeClock(tmp_path / "clock")
    server = start_server(*FLAGS, "--shards", request.param, env=clock.env(fake_time_library(tmp_path / "library")))
    now = time.time()
    jobs = [{"topic": "t", "id": f"job-{n}", "body": "x", **({"delay": f"{7200 + n}s"} if n % 2 else {"at": int((now + 7200 + n) * 1000)})} for n in range(JOBS)]
    for at in range(0, JOBS, 500):
        server.client().push_batch(jobs[at : at + 500])
    return server, clock


def step(server, clock, seconds):
    """Sets the clock, and waits until the server has noticed."""
    first = server.client().get("t", "job-1")["due_at"]
    clock.step(seconds * 1000)
    eventually(lambda: server.client().get("t", "job-1")["due_at"] != first)


@pytest.mark.parametrize("seconds", STEPS_S)
def test_no_page_leaves_a_job_out_if_the_clock_is_set(clocked, seconds):
    server, clock = clocked
    seen, cursor, pages = set(), "", 0
    while cursor is not None:
        reply = server.client().good("GET", f"/v1/topics/t/jobs?limit=400{cursor and '&cursor=' + cursor}")
        seen |= {job["id"] for job in reply["jobs"]}
        cursor = reply.get("cursor")
        pages += 1
        if pages == 3:
            step(server, clock, seconds)
    assert len(seen) == JOBS


@pytest.mark.parametrize("seconds", STEPS_S)
@pytest.mark.parametrize("restarts", [False, True])
def test_an_export_is_continued_after_the_clock_was_set(clocked, tmp_path, seconds, restarts):
    server, clock = clocked
    whole = export(server).splitlines(keepends=True)
    cursors = [at for at, line in enumerate(whole) if b'"cursor"' in line]
    assert len(cursors) == 2
    if restarts:
        server.kill()
        clock.step(seconds * 1000)
        server.start()
    else:
        step(server, clock, seconds)
    for cut in (cursors[0] + 1, cursors[0] + 500, cursors[1] + 1, cursors[1] + 200):
        path = tmp_path / f"cut-{cut}"
        path.write_bytes(b"".join(whole[:cut]))
        tarry(server, "export", "--output", str(path), "--resume")
        assert len({line["id"] for line in lines_of(path.read_bytes()) if "id" in line}) == JOBS, cut
