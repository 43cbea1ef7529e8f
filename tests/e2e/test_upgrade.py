"""Directories of older formats open, and newer ones are refused with a sentence that helps."""

import pathlib
import subprocess
import tarfile

import pytest
from server import BINARY, StartFailed, eventually

DATA = pathlib.Path(__file__).parent / "data"
FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
# What the last binary of format 2 says to a directory of ours, with the format that it finds in MANIFEST.
REFUSAL = "data directory '{}' has format {} and this version reads up to {}; use the version that wrote it, or a newer one"


@pytest.fixture
def before(tmp_path):
    """A directory as the last version of format 2 left it; see data/format2/README.md."""
    directory = tmp_path / "server"
    directory.mkdir()
    with tarfile.open(DATA / "format2" / "format2.tar.gz") as archive:
        archive.extractall(directory)
    return directory


def format_of(directory):
    lines = dict(line.split("=", 1) for line in (directory / "data" / "MANIFEST").read_text().splitlines() if "=" in line)
    return int(lines["format"])


def fsck(data):
    return subprocess.run([str(BINARY), "fsck", str(data)], capture_output=True, text=True, check=False, timeout=120)


def jobs_of(client, topic):
    jobs, cursor = {}, None
    while True:
        page = client.list(topic, limit=1000, cursor=cursor)
        jobs.update((job["id"], job) for job in page["jobs"])
        cursor = page.get("cursor")
        if not cursor:
            return jobs


def expect_all(client):
    orders = jobs_of(client, "orders")
    assert set(orders) == {f"big-{number}" for number in range(80)} | {"by-clock", "by-delay", "retrying", "moved"}
    assert all(job["state"] == "delayed" for job in orders.values())
    assert {orders[name]["due_at"] for name in ("big-0", "big-79", "by-clock", "moved")} == {"2035-01-01T00:00:00.000Z"}
    by_clock = client.get("orders", "by-clock")
    assert by_clock["priority"] == 7 and by_clock["meta"] == {"who": "me"} and by_clock["body"] == {}
    retrying = client.get("orders", "retrying")
    assert retrying["attempt"] == 1 and retrying["last_error"] == "not yet"
    assert client.get("orders", "big-42")["body"] == "a long text that is packed well. " * 4500
    dead = client.get("mails", "dead")
    assert dead["state"] == "dead" and dead["last_error"] == "no use"
    assert client.get("mails", "leased")["attempt"] == 1
    assert jobs_of(client, "quiet")["ready"]["state"] == "ready" and client.topic("quiet")["paused"]
    assert {topic["topic"] for topic in client.topics()} - {"more"} == {"orders", "mails", "quiet", "empty"}
    totals = client.topic("orders")
    totals = {**totals, **totals.get("counts", {}), **totals.get("totals", {})}
    assert (totals["pushed"], totals["acked"], totals["cancelled"]) == (86, 1, 1)


def test_a_directory_of_format_2_opens_with_all_that_was_in_it(start_server, before):
    assert fsck(before / "data").returncode == 0
    server = start_server(*FLAGS, directory=before)
    expect_all(server.client())
    assert server.client().push("orders", "remembered")["result"] == "existed", "a finished id is remembered still"
    assert format_of(before) == 6
    server.restart("kill")
    expect_all(server.client())
    server.terminate()
    checked = server.fsck()
    assert checked.returncode == 0, checked.stdout


def test_checkpoints_happen_in_it(start_server, before):
    server = start_server(*FLAGS, directory=before)
    client = server.client()
    run = before / "data" / "shard-00" / "run"

    def fill():
        client.push_batch([{"topic": "more", "delay": "1h", "body": "x" * 40_000} for _ in range(50)])
        return list(run.glob("CATALOG-*"))

    eventually(fill, seconds=30)
    expect_all(client)
    server.restart("kill")
    expect_all(server.client())
    server.terminate()
    checked = server.fsck()
    assert checked.returncode == 0, checked.stdout
    assert "catalog" in checked.stdout


def test_the_older_version_refuses_it_afterwards(start_server, before):
    """It has no more to go by than the format in MANIFEST, and said this of a higher one."""
    start_server(*FLAGS, directory=before).terminate()
    assert format_of(before) == 6
    assert REFUSAL.format("x", 3, 2) == (DATA / "format2" / "refusal.txt").read_text().strip()


def test_a_newer_format_is_refused_with_what_to_do(start_server, tmp_path):
    server = start_server(*FLAGS)
    server.terminate()
    manifest = server.data / "MANIFEST"
    manifest.write_text(manifest.read_text().replace("format=6", "format=7"))
    with pytest.raises(StartFailed) as failed:
        server.start()
    assert REFUSAL.format(server.data, 7, 6) in str(failed.value)
    checked = server.fsck()
    assert checked.returncode == 1 and REFUSAL.format(server.data, 7, 6) in checked.stderr
    manifest.write_text(manifest.read_text().replace("format=7", "format=6"))
    server.start()
