"""The library in a process that is killed, whose power is cut, and that shares a directory with a server: small, every change runs it. By hand
`kill_loop.py --library` and `power_loss.py --library` run it long."""

import os
import pathlib
import random
import subprocess
import sys

import doors
import pytest
from lib_calls import Library, Push, Refused
from power_loss import FLAGS, PowerLoss, Traced, record
from server import BINARY, IS_SANITIZED, LibraryServer, Server

SEED = int(os.environ.get("TARRY_TEST_LOOP_SEED") or random.randrange(1 << 32))
KILLS, PUSHES, SECONDS, IMAGES = 7, 2500, 7, 80
SHARED = BINARY.parent / "libtarry.so"

pytestmark = pytest.mark.skipif(not SHARED.exists() or doors.ON, reason="a build without libtarry, or behind doors, which it has none of")
in_this_process = pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer's runtime is not the first library of this process")


def test_what_the_library_answered_survives_kill_9(tmp_path):
    command = [sys.executable, str(pathlib.Path(__file__).parent / "kill_loop.py"), "--library", "--kills", str(KILLS), "--pushes", str(PUSHES),
               "--seconds", str(SECONDS), "--shards", "2", "--directory", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS * 5 + 200)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0


def test_no_power_cut_loses_what_the_library_answered(tmp_path):
    print(f"TARRY_TEST_LOOP_SEED={SEED}")
    traced = Traced(record(tmp_path, SEED, 18, kind=LibraryServer))
    assert traced.faults == []
    power = PowerLoss(traced, SEED, IMAGES)
    assert power.run() == []
    assert power.judged >= IMAGES and traced.order.checked.get("push", 0) > 100 and traced.order.checked.get("ack", 0) > 100


def test_a_library_that_answers_before_it_syncs_is_found(tmp_path):
    traced = Traced(record(tmp_path, SEED, 2, flags=("--sync", "50ms", *FLAGS[2:]), kind=LibraryServer))
    assert "answered before the sync" in {fault.split(":")[0] for fault in traced.faults}


# ---- the same directory ----

def pushes(*idents):
    return [{"topic": b"t", "id": ident.encode(), "body": b"body of " + ident.encode(), "body_bytes": 8 + len(ident)} for ident in idents]


@in_this_process
def test_a_server_and_the_library_take_turns_on_one_directory(tmp_path):
    server, library = Server(tmp_path, ("--shards", "2")), Library(SHARED)
    client = server.start().client()
    client.put_topic("t", lease_for="20s", max_attempts=5)
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
    queue.items("push", Push, pushes("from-library"))
    assert queue.close() == "ok"

    client = server.start().client()
    assert client.ack(taken["lease"])  # of before both restarts
    (job,) = client.take("t", max=1, wait="5s")
    assert (job["id"], job["body"]) == ("from-library", "body of from-library")
    assert client.get("t", "from-server")["state"] == "delayed"
    server.terminate()
    assert server.fsck().returncode == 0


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
