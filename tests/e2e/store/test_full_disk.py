"""
A disk that becomes full, at whatever moment of the log: what is purged is reported, and pushes are accepted again without a restart.

A few sizes are tried; TARRY_TEST_DISKS=all tries twenty, from 20 MB to 1 GB.
"""

import json
import os
import re
import subprocess
import time

import pytest
from fake_clock import FakeClock, fake_time_library
from server import eventually

LOG_FILES = {4: (20, 24, 28, 33, 40, 48, 57, 68, 80, 96), 16: (100, 120, 150, 180, 220), 64: (270, 300, 420, 600, 1000)}  # MiB: disks in MB
QUICK = {24, 40, 57}
DISKS = [(disk, file) for file, disks in LOG_FILES.items() for disk in disks if os.environ.get("TARRY_TEST_DISKS") == "all" or disk in QUICK]
SECONDS = 60  # until there is space again
MANY = 1000


@pytest.fixture(name="disk")
def disk_fixture(tmp_path, request):
    """A file system of its own with so many MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tarry-test", str(place)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("only root can mount a file system of a given size")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def push_many(client, first):
    """Pushes a batch; returns how many jobs were accepted."""
    lines = (json.dumps({"topic": "full", "id": str(first + i), "delay": "2h", "body": "x" * 300}) for i in range(MANY))
    reply = client.call("POST", "/v1/jobs", "\n".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
    assert reply.status in (200, 507), reply.body
    results = reply.json()["results"] if reply.status == 200 else []
    return sum(result["result"] in ("created", "replaced") for result in results)  # replaced: accepted by an attempt before


def fill(client, first=0):
    """Pushes until the disk is full of more than a batch; returns how many jobs there are. Space comes back in steps."""
    count, limit = 0, time.monotonic() + SECONDS
    while time.monotonic() < limit:
        done = push_many(client, first + count)
        count += done
        if done < MANY and count > MANY:
            return count
        if done < MANY:
            time.sleep(0.5)
    return count


def jobs_of(client):
    counts = client.topic("full")["counts"]
    return sum(counts[state] for state in ("delayed", "retrying", "ready", "leased", "dead"))


def purge(client, count):
    """Purges until the end. The count of each call equals the missing jobs afterwards."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        reply = client.call("POST", "/v1/topics/full/purge")
        left = jobs_of(client)
        assert reply.json().get("jobs", 0) == count - left, reply.body  # without `jobs`: nothing was done
        if reply.ok:
            assert left == 0
            return
        assert (reply.status, reply.code) == (507, "no_space"), reply.body
        count = left
        time.sleep(0.5)
    pytest.fail("the purge does not come to an end")


def accepts_pushes_again(client, first):
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        if push_many(client, first) == MANY:
            return True
        time.sleep(0.5)
    return False


@pytest.mark.parametrize(("disk", "file_mib"), DISKS, indirect=["disk"])
def test_a_full_disk_has_space_again_after_a_purge(disk, file_mib, start_server):
    server = start_server("--wal-file", f"{file_mib}MiB", directory=disk)
    client = server.client(120)
    for times in range(2):
        first = 10_000_000 * times
        count = fill(client, first)
        assert count > MANY
        purge(client, jobs_of(client))
        assert accepts_pushes_again(client, first + 5_000_000), server.log()[-2000:]
        purge(client, jobs_of(client))
    assert server.terminate() == 0
    assert "clean" in server.fsck().stdout


def push_large(client, number):
    """Pushes a hundred large jobs and one that stays. Returns whether all were accepted."""
    jobs = [{"topic": "full", "id": f"{number}-{i}", "delay": "2h", "body": "x" * 5000} for i in range(100)]
    lines = [json.dumps(job) for job in (*jobs, {"topic": "stays", "id": str(number), "delay": "2h", "body": "y"})]
    reply = client.call("POST", "/v1/jobs", "\n".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
    return reply.status == 200 and all(result["result"] in ("created", "replaced") for result in reply.json()["results"])


@pytest.mark.parametrize("disk", [57], indirect=True)
def test_a_purge_of_large_jobs_makes_room_beside_jobs_that_stay(disk, start_server):
    """The records of the purge are few, so they do not fill a log file; and in each run some jobs stay."""
    server = start_server("--wal-file", "4MiB", directory=disk)
    client = server.client(120)
    number, rejections = 0, 0
    while rejections < 8:  # space comes back in steps while the log becomes runs
        if push_large(client, number):
            number += 1
        else:
            rejections += 1
            time.sleep(0.5)
    stays = client.topic("stays")["counts"]["delayed"]
    purge(client, jobs_of(client))
    eventually(lambda: push_large(client, number + 1), SECONDS)
    assert client.topic("stays")["counts"]["delayed"] == stays + 1
    assert server.terminate() == 0
    assert "clean" in server.fsck().stdout


@pytest.mark.thorough("waits for samples")
@pytest.mark.parametrize("disk", [220], indirect=True)
def test_a_disk_that_will_be_full_within_hours_is_a_warning(disk, tmp_path, start_server):
    clock = FakeClock(tmp_path / "clock")
    client = start_server("--wal-file", "4MiB", directory=disk, env=clock.env(fake_time_library(tmp_path))).client()

    def push_for_minutes(count):
        for _ in range(count):
            client.push("far", body=bytes(1 << 20), content_type="application/octet-stream", delay="9h")
            time.sleep(0.15)  # the server looks at the disk ten times a second
            clock.sleep(60)

    def forecast():
        client.push("far", delay="9h")  # activity, so a sample is taken
        problems = {one["code"]: one for one in client.good("GET", "/v1/status")["problems"]}
        metric = re.search(r"^tarry_disk_full_seconds (\S+)$", client.call("GET", "/metrics").body.decode(), re.MULTILINE)
        return problems.get("disk"), client.good("GET", "/v1/server")["disk"]["full_at"], metric and float(metric[1])

    push_for_minutes(12)
    assert forecast() == (None, None, None)  # not known yet
    push_for_minutes(12)
    problem, full_at, seconds = eventually(lambda: (found := forecast())[0] and found)
    assert (problem["severity"], problem["runbook"], problem["limit"]) == ("warning", "full", 4 * 3600 * 1000)
    assert 2 * 3600_000 < problem["value"] < 4 * 3600_000 and "the disk will be full in" in problem["sentence"]
    assert abs(seconds - problem["value"] / 1000) < 600 and full_at
    clock.sleep(3600)  # nothing is pushed
    assert eventually(lambda: forecast()[0] is None, pause=0.2)
