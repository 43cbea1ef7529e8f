"""The library in a process that is killed, whose power is cut, and that shares a directory with a server: small, every change runs it. By hand
`kill_loop.py --library` and `power_loss.py --library` run it long."""

import base64
import json
import os
import random
import subprocess
import sys

import doors
import pytest
from endpoint import write_policy
from lib_calls import Library, Push, Refused
from power_loss import FLAGS, PowerLoss, Traced, record
from server import BINARY, IS_SANITIZED, REPO, LibraryServer, Server

SEED = int(os.environ.get("TARRY_TEST_LOOP_SEED") or random.randrange(1 << 32))
KILLS, PUSHES, SECONDS, IMAGES = 7, 2500, 7, 80
SHARED = BINARY.parent / "libtarry.so"

pytestmark = pytest.mark.skipif(not SHARED.exists() or doors.ON, reason="a build without libtarry, or behind doors, which it has none of")
in_this_process = pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer's runtime is not the first library of this process")


@pytest.mark.thorough("some ten seconds")
def test_changes_answered_by_the_library_survive_kill_9(tmp_path):
    command = [sys.executable, str(REPO / "tests/e2e/support/kill_loop.py"), "--library", "--kills", str(KILLS), "--pushes", str(PUSHES),
               "--seconds", str(SECONDS), "--shards", "2", "--directory", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS * 21 + 300)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0


@pytest.mark.thorough("some ten seconds")
def test_no_power_cut_loses_changes_answered_by_the_library(tmp_path):
    print(f"TARRY_TEST_LOOP_SEED={SEED}")
    traced = Traced(record(tmp_path, SEED, 18, kind=LibraryServer))
    assert traced.faults == []
    power = PowerLoss(traced, SEED, IMAGES)
    assert power.run() == []
    assert power.checked >= IMAGES and traced.order.checked.get("push", 0) > 100 and traced.order.checked.get("ack", 0) > 100


def test_a_library_that_answers_before_it_syncs_is_found(tmp_path):
    traced = Traced(record(tmp_path, SEED, 2, flags=("--sync", "50ms", *FLAGS[2:]), kind=LibraryServer))
    assert "answered before the sync" in {fault.split(":")[0] for fault in traced.faults}


# ---- the same directory ----

def pushes(*idents):
    return [{"topic": b"t", "id": ident.encode(), "body": b"body of " + ident.encode(), "body_bytes": 8 + len(ident)} for ident in idents]


@in_this_process
def test_a_server_and_the_library_take_turns_on_one_directory(tmp_path):
    server, library = Server(tmp_path, ("--shards", "2", "--deliver", write_policy(tmp_path / "policy"))), Library(SHARED)
    client = server.start().client()
    client.put_topic("t", lease_for="20s", max_attempts=5)
    client.put_topic("delivers", deliver={"to": "http://127.0.0.1:9/hook"}, push_rate="5/s")
    client.push("t", "from-server", b"body", delay="1h")
    client.push("t", "ready", b"body")
    (taken,) = client.take("t", max=1, wait="5s")
    with pytest.raises(Refused, match=f"in_use data directory '.*' is in use by process {server.proc.pid}; stop that process first"):
        library.open(server.data)
    server.terminate()

    queue = library.open(server.data)
    refused = subprocess.run([str(BINARY), "serve", "--data", str(server.data), "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False,
                             timeout=60)
    assert refused.returncode != 0
    assert f"is in use by process {os.getpid()}; stop that process first" in refused.stderr
    assert queue.get("t", "from-server")["state"] == "delayed"
    assert queue.get("t", "ready")["state"] == "leased"
    assert queue.topic("t").leased == 1
    assert queue.put_topic("delivers", max_attempts=7) == "ok"
    queue.items("push", Push, pushes("from-library"))
    assert queue.close() == "ok"

    client = server.start().client()
    assert client.ack(taken["lease"])  # from before both restarts
    (job,) = client.take("t", max=1, wait="5s")
    assert (job["id"], job["body"]) == ("from-library", "body of from-library")
    assert client.get("t", "from-server")["state"] == "delayed"
    settings = client.topic("delivers")["settings"]
    assert (settings["max_attempts"], settings["push_rate"]) == (7, "5/s")
    assert settings["deliver"]["to"] == "http://127.0.0.1:9/hook"
    server.terminate()
    assert server.fsck().returncode == 0


# ---- export and import ----

def lines_of(path):
    """Reads an export: its topics, and its jobs by topic and id, without the time of the export."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert "tarry_export" in lines[0] and "tarry_export_end" in lines[-1]
    found = {}
    for line in lines[1:-1]:
        if "body" in line:  # the library writes only base64
            body = line.pop("body")
            is_text = isinstance(body, str) and "json" not in line["content_type"]
            data = body if is_text else json.dumps(body, separators=(",", ":"), ensure_ascii=False)
            line["body_base64"] = base64.b64encode(data.encode()).decode()
        if line.get("state") == "dead":
            del line["at"]  # long past: it is when it was imported
        if "cursor" not in line:
            found[line["topic"], line.get("id")] = line
    return found


@in_this_process
def test_exports_go_round_from_a_server_by_both_kinds_of_queue_to_a_server(tmp_path):
    server = Server(tmp_path / "one", ("--shards", "2"))
    client = server.start().client()
    client.put_topic("t", lease_for="20s", ttl="1h", max_attempts=5, backoff="exp:1s..10m", priority=7, on_conflict="keep", dedup_window="1m",
                     max_jobs=9000, dead_letter_expired=True, push_rate="100000/s")
    client.put_topic("paused", backoff="list:10s,1m30s,30d")
    client.topic_verb("paused", "pause")
    client.push("paused", "p", b"", delay="1h")
    client.push("t", "text", 'hällo\n"there"'.encode(), meta={"x": "y", "empty": ""}, delay="1h", lease_for="5s", ttl="9s", backoff="fixed:3s",
                max_attempts=3, priority=4)
    client.push("t", "json", b'{"a":[1,"\\n"]}', "application/json", at="2030-01-01T00:00:00Z")
    client.push("t", "json-string", b'"a"', "application/json", delay="1h")
    client.push("t", "for-ever", b"x", delay="1h", max_attempts="none", backoff="list:5ms,1h")
    client.push("t", "bytes", bytes(range(256)) * 40, "image/png", delay="1h")
    for kind, count in (("n", 1000), ("m", 700)):
        client.push_batch([{"topic": "many", "id": f"{kind}{i}", "delay": "1h", "body": f"body {i}"} for i in range(count)])
    client.push("t", "dead", b"x", max_attempts=1)
    (job,) = client.take("t", max=1, wait="5s")
    client.nack(job["lease"], error="bad ä thing")
    first = tmp_path / "first"
    assert server.cli("export", "--output", str(first)).returncode == 0
    server.terminate()
    wanted = lines_of(first)
    assert len(wanted) == 3 + 1707

    library = Library(SHARED)
    copies = [first]
    for place in (None, tmp_path / "data"):
        queue = library.open(place)
        code, reported = queue.transfer("import", copies[-1])
        assert (code, reported.topics, reported.jobs) == ("ok", 3, 1707)
        copies.append(tmp_path / f"copy{len(copies)}")
        code, reported = queue.transfer("export", copies[-1])
        assert (code, reported.topics, reported.jobs) == ("ok", 3, 1707)
        assert lines_of(copies[-1]) == wanted
        assert queue.transfer("import", first)[0] == "ok"  # what is there stays
        assert queue.topic("many").delayed == 1700
        assert queue.close() == "ok"

    other = Server(tmp_path / "two")
    other.start()
    done = other.cli("import", str(copies[-1]))
    assert done.returncode == 0, done.stderr
    last = tmp_path / "last"
    assert other.cli("export", "--output", str(last)).returncode == 0
    assert lines_of(last) == wanted
    other.terminate()


HEAD, JOB, END = '{"tarry_export":1,"topics":["t"],"jobs":1}', '{"topic":"t","id":"a","at":1900000000000,"body":"x"}', '{"tarry_export_end":1}'
SETTING = '{"topic":"t","settings":{"max_attempts":3},"paused":false}'
REFUSALS = [
    (0, "io_failed", []),
    (1, "bad_option", ["no JSON"]),
    (1, "bad_option", [JOB]),
    (2, "io_failed", [HEAD, JOB]),
    (2, "bad_option", [HEAD, JOB[:-1] + ',"colour":"red"}', END]),
    (2, "bad_topic", [HEAD, '{"topic":"no topic","id":"a"}', END]),
    (3, "bad_id", [HEAD, JOB, '{"topic":"t","id":"a b"}', JOB, END]),
    (2, "bad_id", [HEAD, '{"topic":"t"}', END]),
    (2, "bad_option", [HEAD, '{"topic":"t","settings":{"max_attempts":"3"}}', END]),
    (4, "bad_option", [HEAD, SETTING, END, JOB]),
    (2, "bad_option", [HEAD, '{"topic":"t","id":"a","meta":{"tarry-x":"y"}}', END]),
    (3, "ok", [HEAD, JOB, END]),
    (4, "ok", [HEAD, SETTING, JOB, END]),
]


@in_this_process
@pytest.mark.parametrize("directory", [None, "data"])
def test_an_import_names_the_rejected_line(directory, tmp_path):
    queue, path = Library(SHARED).open(directory and tmp_path / directory), tmp_path / "lines"
    for line, code, lines in REFUSALS:
        path.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
        got, reported = queue.transfer("import", path)
        assert (got, reported.line) == (code, line), lines
    path.write_text("\n".join((HEAD, JOB, END)), encoding="utf-8")
    assert queue.transfer("import", path)[0] == "io_failed"  # its last line is cut short
    assert queue.transfer("export", "/dev/full")[0] == "io_failed"
    assert queue.close() == "ok"


# ---- a disk that is full ----

@pytest.fixture(name="small_disk")
def small_disk_fixture(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tarry-test", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@in_this_process
def test_a_full_disk_is_an_answer_and_no_end(small_disk):
    queue = Library(SHARED).open(small_disk / "data", wal_file_bytes=4 << 20)
    body, codes, made = b"x" * 60_000, [], 0
    for made in range(2000):
        ((code, _),) = queue.items("push", Push, [{"topic": b"t", "id": str(made).encode(), "body": body, "body_bytes": len(body), "delay_ms": 3_600_000}])
        codes.append(code)
        if code != "created":
            break
    assert codes[-1] == "no_space" and made > 20
    assert queue.topic("t").delayed == made
    assert queue.close() == "ok"
    queue = Library(SHARED).open(small_disk / "data", wal_file_bytes=4 << 20)
    assert queue.topic("t").delayed == made
    assert queue.close() == "ok"
