"""Export and import again, and in pieces: what was cut short can be gone on with."""

import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import pytest
from client import Refused
from migration import (OK, REFUSED, UNREACHABLE, Gate, any_target, assert_same, assert_sums_add_up, begin, everything, export, fill,
                       jobs_in, lines_of, load, push_many, pushed, settled, source, take_by_id, target, tarry)  # noqa: F401, F811: fixtures
from server import BINARY, eventually


def test_importing_twice_changes_nothing(source, any_target):
    target = any_target
    fill(source)
    dump = export(source)
    load(target, dump)
    before = everything(target)
    count = len(jobs_in(dump))
    assert f"0 created, 0 replaced, {count} existed; 0 refused" in load(target, dump)
    assert everything(target) == before
    assert_sums_add_up(target)


def test_replace_brings_the_exported_job_back(source, any_target):
    target = any_target
    source.client().push("t", "j", b"exported", delay="1h")
    dump = export(source)
    target.client().push("t", "j", b"other", delay="2h")
    assert "1 existed" in load(target, dump)
    assert target.client().get("t", "j")["body"] == "other"
    assert "1 replaced" in load(target, dump, "--on-conflict", "replace")
    assert target.client().get("t", "j")["body"] == "exported"
    target.client().run("t", "j")
    take_by_id(target.client(), "t", "j")
    assert "1 existed" in load(target, dump)
    assert "line 3 refused: leased" in load(target, dump, "--on-conflict", "replace", code=REFUSED)


@pytest.mark.parametrize("spread_ms", [0, 20])  # all due together; over 100 s
def test_an_export_cut_short_is_continued(source, target, tmp_path, spread_ms):
    push_many(source, 3300, spread_ms)
    path = tmp_path / "dump"
    export(source, "--output", str(path))
    whole = path.read_bytes()
    want = sorted((job["topic"], job["id"]) for job in jobs_in(whole))
    assert len(want) == 3300
    newline = whole.index(b"\n") + 1
    for length in (newline, newline + 7, len(whole) // 3, len(whole) // 2, len(whole) - 40, len(whole)):
        path.write_bytes(whole[:length])
        export(source, "--output", str(path), "--resume")
        again = path.read_bytes()
        assert sorted((job["topic"], job["id"]) for job in jobs_in(again)) == want, length
        assert lines_of(again)[-1] == {"tarry_export_end": 1, "topics": 3, "jobs": 3300}
        assert [line["topic"] for line in lines_of(again) if "settings" in line] == ["t0", "t1", "t2"]
    assert "3300 created" in load(target, path.read_bytes())


def test_a_continued_export_drops_removed_jobs(source, tmp_path):
    push_many(source, 5000, spread_ms=20)
    path = tmp_path / "dump"
    export(source, "--output", str(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    for topic in ("t0", "t1", "t2"):
        source.client().topic_verb(topic, "purge")
    export(source, "--output", str(path), "--resume")
    again = path.read_bytes()
    assert len(again) < len(whole) and lines_of(again)[-1]["jobs"] == len(jobs_in(again)) < 5000


def test_an_export_is_continued_after_a_crash_of_the_server(source, tmp_path):
    push_many(source, 5000, spread_ms=50, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), "--retry-for", "0")
        gate.wait(running)
        source.kill()
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == UNREACHABLE and "continue it with --resume" in err, err
    source.start()
    export(source, "--output", str(path), "--resume")
    dump = path.read_bytes()
    assert {job["id"] for job in jobs_in(dump)} == {f"job-{i}" for i in range(5000)}
    assert len(jobs_in(dump)) == lines_of(dump)[-1]["jobs"] < 6000  # a few may be there twice, but no job is missing


def test_nothing_is_written_over(source, tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(b"mine\n")
    assert "exists" in tarry(source, "export", "--output", str(path), code=REFUSED)[1]
    assert "not the beginning of an export" in tarry(source, "export", "--output", str(path), "--resume", code=REFUSED)[1]
    assert path.read_bytes() == b"mine\n"


def test_an_incomplete_export_is_not_taken_for_a_whole_one(source, target):
    push_many(source, 10)
    for letter in "abcdef":
        source.client().put_topic(letter * 150)
    dump = export(source)
    cut = b"".join(dump.splitlines(keepends=True)[:-1])
    assert "is an interrupted export" in load(target, cut, code=REFUSED)
    assert "is an interrupted export" in load(target, cut, "--skip", "5", code=REFUSED)
    load(target, dump)
    load(target, dump, "--skip", "5")
    torn = load(target, dump[:len(dump) // 2], code=REFUSED)  # in the middle of a line
    assert "is an interrupted export" in torn and "refused: bad_json, the line is not a JSON object" in torn


def test_an_import_cut_short_is_continued_with_skip(source, target, tmp_path):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path), "--retry-for", "500ms")
        gate.wait(running).cut()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == UNREACHABLE, err
    skip = err.split("--skip ")[1].split()[0]
    assert 0 < int(skip) < 8000
    err = load(target, path.read_bytes(), "--skip", skip)
    assert "0 refused" in err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_an_interrupted_import_prints_its_position(source, target, tmp_path):
    push_many(source, 3000)
    lines = export(source).splitlines(keepends=True)
    running = subprocess.Popen([str(BINARY), "import", "--url", target.url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdin.write(b"".join(lines[:2500]))
    running.stdin.flush()
    eventually(lambda: sum(topic["totals"]["pushed"] for topic in target.client().topics()) >= 2000)
    running.send_signal(signal.SIGINT)
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED
    skip = int(err.split("--skip ")[1].split()[0])
    assert sum(topic["totals"]["pushed"] for topic in target.client().topics()) == len(jobs_in(b"".join(lines[:skip])))
    load(target, b"".join(lines), "--skip", str(skip))
    assert_same(everything(source), everything(target))


def test_lines_from_a_pipe_go_in_as_they_come(target):
    running = subprocess.Popen([str(BINARY), "import", "--url", target.url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for i in range(3):
        running.stdin.write(b'{"topic":"t","id":"%d"}\n{"topic":"t"' % i)
        running.stdin.flush()
        eventually(lambda: target.client().topics() and target.client().topic("t")["totals"]["pushed"] == 2 * i + 1)
        running.stdin.write(b',"delay":"1h"}\n')
        running.stdin.flush()
        eventually(lambda: target.client().topic("t")["totals"]["pushed"] == 2 * i + 2)
    assert b"6 created" in running.communicate(timeout=60)[1]
    assert running.returncode == OK


def test_a_server_that_restarts_during_an_import_costs_only_time(source, target, tmp_path):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path))
        gate.wait(running)
        target.kill()
        gate.open()
        target.start()
        err = running.communicate(timeout=120)[1].decode()
    assert running.returncode == OK and "imported 8000 jobs" in err, err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_a_redis_that_restarts_during_an_import_costs_only_time(source, start_server, start_redis, tmp_path):
    redis = start_redis(aof="always")
    target = start_server("--store", redis.url)
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    with Gate(target, up=600_000) as gate:
        running = begin(gate, "import", str(path))
        gate.wait(running)
        redis.kill()
        gate.open()
        time.sleep(0.3)
        redis.start()
        err = running.communicate(timeout=120)[1].decode()
    assert running.returncode == OK and "imported 8000 jobs" in err, err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_an_export_survives_a_server_restart_without_duplicates(source, tmp_path):
    push_many(source, 5000, spread_ms=50, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), "--progress")
        gate.wait(running)
        source.kill()
        gate.open()
        time.sleep(0.3)
        source.start()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == OK and "jobs, waiting for the server\n" in err, err
    dump = path.read_bytes()
    assert {job["id"] for job in jobs_in(dump)} == {f"job-{i}" for i in range(5000)}
    assert len(jobs_in(dump)) == lines_of(dump)[-1]["jobs"] == 5000


def test_an_export_to_standard_output_ends_with_the_server(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    with Gate(source, down=2_500_000) as gate, open(tmp_path / "out", "wb") as out:
        running = begin(gate, "export", stdout=out)
        gate.wait(running).cut()
        err = running.communicate(timeout=60)[1]
    assert running.returncode == UNREACHABLE and b"cannot reach" in err
    assert jobs_in((tmp_path / "out").read_bytes()) and b"tarry_export_end" not in (tmp_path / "out").read_bytes()


def test_an_interrupted_export_is_continued(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    path = tmp_path / "dump"
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path))
        gate.wait(running)
        running.send_signal(signal.SIGINT)
        gate.open()
        err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED and "interrupted" in err and "continue it with --resume" in err, err
    assert b"tarry_export_end" not in path.read_bytes()
    export(source, "--output", str(path), "--resume")
    assert len({job["id"] for job in jobs_in(path.read_bytes())}) == lines_of(path.read_bytes())[-1]["jobs"] == 5000


def test_an_export_reports_a_full_disk_and_continues_later(source, tmp_path):
    push_many(source, 5000)
    path = tmp_path / "dump"

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    running = begin(source, "export", "--output", str(path), preexec_fn=small_disk)
    err = running.communicate(timeout=60)[1].decode()
    assert running.returncode == REFUSED and "cannot write" in err and "continue it with --resume" in err, err
    assert path.stat().st_size == 400_000
    export(source, "--output", str(path), "--resume")
    assert len({job["id"] for job in jobs_in(path.read_bytes())}) == lines_of(path.read_bytes())[-1]["jobs"] == 5000
    source.client().push("little", "j", delay="1h")
    for more in ([], ["--topic", "little"]):
        with open("/dev/full", "wb") as full:
            running = begin(source, "export", *more, stdout=full)
            assert b"cannot write 'standard output'" in running.communicate(timeout=60)[1] and running.returncode == REFUSED


@pytest.mark.parametrize("with_state", [False, True])
def test_an_import_that_is_killed_and_started_again_brings_each_job_once(source, any_target, tmp_path, with_state):
    push_many(source, 8000)
    path = tmp_path / "dump"
    path.write_bytes(export(source))
    arguments = ["import", str(path)] + (["--state", str(tmp_path / "state")] if with_state else [])
    with Gate(any_target, up=600_000) as gate:
        running = begin(gate, *arguments)
        gate.wait(running)
        eventually(lambda: pushed(any_target) >= 2000, 60)
        if with_state:
            eventually(lambda: (tmp_path / "state").exists(), 60)
        running.kill()
        running.communicate()
    in_already = settled(any_target)
    assert 2000 <= in_already < 8000
    if with_state:
        state = json.loads((tmp_path / "state").read_text())
        (tmp_path / "state").write_text(json.dumps({**state, "url": any_target.url}))  # it was that of the gate
    err = tarry(any_target, *arguments)[1]
    existed = int(re.search(r"(\d+) existed; 0 refused", err)[1])
    assert existed <= in_already if with_state else existed == in_already
    assert_same(everything(source), everything(any_target))
    assert_sums_add_up(any_target)
    assert pushed(any_target) == 8000 and not (tmp_path / "state").exists()


def test_with_a_state_jobs_finished_meanwhile_do_not_return(source, target, tmp_path):
    push_many(source, 3000)
    lines, state = export(source).splitlines(keepends=True), tmp_path / "state"
    running = begin(target, "import", "--state", str(state), stdin=subprocess.PIPE)
    running.stdin.write(b"".join(lines[:2500]))
    running.stdin.flush()
    eventually(lambda: state.exists() and json.loads(state.read_text())["line"] > 1000, 60)
    running.kill()
    running.communicate()
    done = json.loads(state.read_text())["line"]
    (first,) = jobs_in(b"".join(lines[:done]))[:1]
    target.client().cancel(first["topic"], first["id"])
    other = b"".join(lines).replace(first["id"].encode(), b"other")
    assert "another import" in load(target, other, "--state", str(state), code=REFUSED)
    assert "into" in load(source, b"".join(lines), "--state", str(state), code=REFUSED)
    assert "ends before line" in load(target, b"".join(lines[:500]), "--state", str(state), code=REFUSED)
    load(target, b"".join(lines), "--state", str(state))
    assert not state.exists() and pushed(target) == 3000
    with pytest.raises(Refused):
        target.client().get(first["topic"], first["id"])


def test_a_state_does_not_run_ahead_of_the_server(source, target, tmp_path):
    push_many(source, 3000)
    lines, state = export(source).splitlines(keepends=True), tmp_path / "state"
    with Gate(target, up=150_000) as gate:
        running = begin(gate, "import", "--state", str(state), stdin=subprocess.PIPE)
        running.stdin.write(b"".join(lines[:-1]))
        running.stdin.flush()
        gate.wait(running)
        time.sleep(1.3)  # longer than it waits before it writes again
        running.kill()
        running.communicate()
    done = jobs_in(b"".join(lines[:json.loads(state.read_text())["line"]]))
    there = everything(target)
    assert all(job["id"] in there[job["topic"]]["jobs"] for job in done)


def sleeps(process):
    """Returns true if the process waits in each of several looks."""
    def look():
        time.sleep(0.02)
        return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    return all(look() for _ in range(5))


def test_progress_is_shown_only_on_a_terminal(source, tmp_path):
    push_many(source, 5000, meta={"pad": "x" * 900})
    path, (near, far) = tmp_path / "dump", os.openpty()
    with Gate(source, down=2_500_000) as gate:
        running = begin(gate, "export", "--output", str(path), stderr=far)
        os.close(far)
        gate.wait(running)
        eventually(lambda: sleeps(running))  # it has counted all that came
        time.sleep(1.1)
        gate.open()
        shown = os.read(near, 65536)
        assert running.wait() == OK
    with contextlib.suppress(OSError):  # the other side is closed
        while more := os.read(near, 65536):
            shown += more
    os.close(near)
    assert re.search(rb"\r\x1b\[Kexported \d+ of 5000 jobs, \d+/s, \d+ %, [\dms]+ left", shown), shown
    assert shown.endswith(b"\r\x1b[Kexported 5000 jobs of 3 topics\r\n"), shown
    quiet = begin(source, "export", "--output", str(tmp_path / "other"))
    assert quiet.communicate(timeout=60)[1] == b"exported 5000 jobs of 3 topics\n"
