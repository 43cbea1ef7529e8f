"""Schedules after a change of the time zone files: with the server running, between two starts, and with two servers that have different files."""

import json
import re
import subprocess
import time

import pytest
from server import eventually

OLD, NEW = ("2026a", 1), ("2026b", 2)


def write_zones(directory, version, hours, seconds=0):
    """A directory of zones with one zone, so far ahead of UTC, as the package tzdata would install it."""
    directory.mkdir(exist_ok=True)
    source = directory.parent / "zones.txt"
    source.write_text(f"Zone Test/Zone {hours}:00:{seconds:02} - TST\n")
    subprocess.run(["/usr/sbin/zic", "-d", str(directory), str(source)], check=True, timeout=60)
    made = directory / "tzdata.zi.new"
    made.write_text(f"# version {version}\n")
    made.rename(directory / "tzdata.zi")
    return directory


def put(client, name, **spec):
    return client.good("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "t", "zone": "Test/Zone", **spec}).encode())


def next_of(client, name):
    return client.good("GET", f"/v1/schedules/{name}")["next"][11:]


def fires(server):
    return int(re.search(r"^tarry_schedule_fires_total (\d+)", server.client().call("GET", "/metrics").body.decode(), re.MULTILINE)[1])


@pytest.mark.thorough("waits for the check of the files, 30 s")
def test_a_change_of_the_files_moves_the_next_fires(start_server, tmp_path):
    zones = write_zones(tmp_path / "zones", *OLD)
    client = start_server("--sync", "never", "--tzdir", zones).client()
    for n in range(120):  # more than a page
        put(client, f"noon-{n}", cron="0 12 * * *")
    put(client, "utc", cron="0 12 * * *", zone="UTC")
    assert next_of(client, "noon-0") == "11:00:00.000Z"
    before = client.good("GET", "/v1/schedules/utc")
    write_zones(zones, *NEW)
    eventually(lambda: all(next_of(client, f"noon-{n}") == "10:00:00.000Z" for n in (0, 60, 119)), 60)
    assert client.good("GET", "/v1/schedules/utc") == before and next_of(client, "utc") == "12:00:00.000Z"
    assert client.good("GET", "/v1/schedules/noon-0")["totals"]["fired"] == 0


@pytest.mark.thorough("waits for the check of the files, 30 s")
def test_a_fire_that_was_pushed_ahead_is_cancelled_if_the_new_files_do_not_have_it(start_server, tmp_path):
    zones = write_zones(tmp_path / "zones", *OLD)
    client = start_server("--sync", "never", "--tzdir", zones, "--test-clock=2026-03-28T00:00:00Z").client()
    put(client, "noon", cron="0 12 * * *")
    put(client, "each", cron="0 * * * *")  # a full hour is one by both files
    client.good("POST", "/v1/clock/advance?to=2026-03-28T10:59:59Z&wait=idle&timeout=60s")
    assert client.get("t", "noon@2026-03-28T11:00:00Z")["state"] == client.get("t", "each@2026-03-28T11:00:00Z")["state"] == "delayed"
    write_zones(zones, *NEW)
    eventually(lambda: client.good("GET", "/v1/schedules/noon")["totals"]["fired"] == 0, 60)
    client.good("POST", "/v1/clock/advance?by=1m&wait=idle&timeout=60s")
    found = [job["id"] for job in client.list("t", limit=100)["jobs"]]
    assert "noon@2026-03-28T11:00:00Z" not in found and found.count("each@2026-03-28T11:00:00Z") == 1
    assert next_of(client, "noon") == "10:00:00.000Z" and client.good("GET", "/v1/schedules/each")["totals"]["fired"] == 11


@pytest.mark.thorough("waits for the check of the files, 5 s")
def test_a_change_of_the_files_loses_and_doubles_no_fire(start_server, tmp_path):
    """The seconds of the zone move by one, so the fires of each second second do, from the moment at which the server notices the change."""
    zones, found = write_zones(tmp_path / "zones", *OLD), []
    client = start_server("--sync", "never", "--tzdir", zones).client()
    put(client, "often", cron="*/2 * * * * *", missed="all")

    def seconds():
        jobs = client.take("t", max=100)
        for job in jobs:
            client.ack(job["lease"])
        found.extend(int(job["id"].split(":")[2].rstrip("Z")) for job in jobs)
        return found

    eventually(lambda: len(seconds()) >= 2, 20)
    write_zones(zones, NEW[0], NEW[1], 1)
    eventually(lambda: len([second for second in seconds() if second % 2 == 1]) >= 2, 60)
    steps = [(after - before) % 60 for before, after in zip(found, found[1:])]
    assert sorted(steps) == [1] + [2] * (len(steps) - 1), found


def test_files_that_changed_between_two_starts_move_the_next_fires(start_server, tmp_path):
    zones = write_zones(tmp_path / "zones", *OLD)
    server = start_server("--sync", "always", "--tzdir", zones)
    put(server.client(), "noon", cron="0 12 * * *")
    server.terminate()
    write_zones(zones, *NEW)
    server.start()
    eventually(lambda: next_of(server.client(), "noon") == "10:00:00.000Z", 30)


@pytest.mark.parametrize("kind", ["redis", pytest.param("postgres", marks=pytest.mark.thorough("the same on another store"))])
def test_a_server_with_older_files_does_not_touch_schedules_of_newer_ones(request, start_server, tmp_path, kind):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    store = request.getfixturevalue(f"start_{kind}")()
    flags = ["--store", store.url, *(["--migrate"] if kind == "postgres" else [])]
    newer = start_server(*flags, "--tzdir", write_zones(tmp_path / "a" / "zones", *NEW))
    put(newer.client(), "often", cron="* * * * * *")
    put(newer.client(), "noon", cron="0 12 * * *")
    eventually(lambda: fires(newer) >= 2, 20)
    newer.terminate()
    older = start_server(*flags, "--tzdir", write_zones(tmp_path / "b" / "zones", *OLD))
    put(older.client(), "plain", every="1s", zone="UTC")
    eventually(lambda: any("schedules wait" in one["sentence"] for one in older.client().good("GET", "/v1/status")["problems"]), 30)
    eventually(lambda: older.client().good("GET", "/v1/schedules/plain")["totals"]["fired"] >= 2, 30)  # what it can handle, it handles
    stopped = older.client().good("GET", "/v1/schedules/often")["totals"]["fired"]
    time.sleep(3)
    assert older.client().good("GET", "/v1/schedules/often")["totals"]["fired"] == stopped and next_of(older.client(), "noon") == "10:00:00.000Z"
    newer.start()
    eventually(lambda: older.client().good("GET", "/v1/schedules/often")["totals"]["fired"] > stopped + 3, 30)
