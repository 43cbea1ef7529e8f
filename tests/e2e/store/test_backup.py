"""`tarry backup`: a copy of a running server is a whole state of one moment, whatever happens meanwhile."""

import json
import os
import pathlib
import resource
import signal
import stat
import subprocess
import threading
import time

import pytest
from client import Lost, Refused
from server import BINARY, StartFailed, eventually, freeze

# Files as small as can be: checkpoints happen all the time.
FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
BODY = "b" * 10_000
TOPIC = "load"
SECONDS = 60
TRIES = 20


def backup(server, into, *flags, **options):
    return subprocess.run([str(BINARY), "backup", str(into), "--url", server.url, *flags], capture_output=True, text=True, check=False, timeout=SECONDS,
                          **options)


def fsck(directory):
    return subprocess.run([str(BINARY), "fsck", str(directory)], capture_output=True, text=True, check=False, timeout=SECONDS)


def expect_clean(directory):
    checked = fsck(directory)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return checked.stdout


def push_many(client, topic, count):
    results = client.push_batch([{"topic": topic, "delay": "1h", "body": BODY} for _ in range(count)])
    assert {result["result"] for result in results} == {"created"}, results[0]


def all_ids(client, topic=TOPIC):
    ids, cursor = set(), None
    while True:
        page = client.list(topic, limit=1000, cursor=cursor)
        ids.update(job["id"] for job in page["jobs"])
        cursor = page.get("cursor")
        if not cursor:
            return ids


def restore(start_server, directory, target):
    """A server on the copy, as its data/."""
    home = target / "restored"
    home.mkdir()
    directory.rename(home / "data")
    return start_server(*FLAGS, directory=home)


class Load:
    """Pushes, takes and acks without end; knows what was asked and what was answered."""

    def __init__(self, server):
        self.server, self.stop = server, threading.Event()
        self.asked, self.pushed, self.acking, self.acked = set(), set(), set(), set()
        self.threads = [threading.Thread(target=self.run, args=(work,)) for work in (self.push, self.take)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self, work):
        client, round_ = self.server.client(), 0
        try:
            while not self.stop.is_set():
                work(client, round_)
                round_ += 1
        except (Lost, Refused, OSError):
            pass  # the server was killed

    def push(self, client, round_):
        delays = ("0s", "1s", "1h", "30d")
        items = [{"topic": TOPIC, "id": f"{round_}-{i}", "delay": delays[i % 4], "body": BODY} for i in range(40)]
        self.asked.update(item["id"] for item in items)
        client.push_batch(items)
        self.pushed.update(item["id"] for item in items)

    def take(self, client, _):
        jobs = client.take(TOPIC, max=20, wait="50ms", lease_for="10m")
        ids = {job["id"] for job in jobs}
        self.acking.update(ids)
        if jobs:
            client.ack(*[job["lease"] for job in jobs])
        self.acked.update(ids)

    def moment(self):
        return set(self.asked), set(self.pushed), set(self.acking), set(self.acked)


def checkpointed(server):
    return eventually(lambda: list((server.data / "shard-00" / "run").glob("CATALOG-*")), seconds=30)


@pytest.mark.parametrize("flags", [(), ("--copy",)])
def test_under_load_it_is_the_state_of_a_moment(start_server, tmp_path, flags):
    server = start_server(*FLAGS)
    reported = []
    with Load(server) as load:
        checkpointed(server)
        for number in range(2):
            _, pushed, _, acked = load.moment()
            made = backup(server, tmp_path / f"copy-{number}", *flags)
            asked, _, acking, _ = load.moment()
            assert made.returncode == 0, made.stderr
            reported.append((pushed, acked, asked, acking))
            time.sleep(0.2)
    for number, (pushed, acked, asked, acking) in enumerate(reported):
        copy = tmp_path / f"copy-{number}"
        assert stat.S_IMODE(copy.stat().st_mode) == 0o700
        assert "in runs: 0 jobs" not in expect_clean(copy), "no job was in a run: too little happened"
        target = tmp_path / f"target-{number}"
        target.mkdir()
        restored = restore(start_server, copy, target)
        there = all_ids(restored.client())
        assert there >= pushed - acking, "jobs are lost"
        assert there <= asked - acked, "finished jobs came back, or there are some that nobody pushed"
        assert len(pushed - acking) > 100
        taken = restored.client().take(TOPIC, max=10, wait="5s")
        assert taken and all(job["body"] == BODY for job in taken)
        restored.client().ack(*[job["lease"] for job in taken])
        restored.terminate()
        expect_clean(restored.data)
    server.terminate()
    expect_clean(server.data)


def test_shared_files_stay_unchanged_while_the_server_continues(start_server, tmp_path):
    """Space of finished jobs is given back in the server's own files, not in the backup's."""
    server = start_server(*FLAGS)
    with Load(server) as load:
        checkpointed(server)
        _, pushed, _, _ = load.moment()
        assert backup(server, tmp_path / "copy").returncode == 0
        _, _, acking, _ = load.moment()
        expected = pushed - acking
    client = server.client()
    client.topic_verb(TOPIC, "purge")
    for _ in range(20):
        push_many(client, "more", 150)
    server.terminate()
    expect_clean(server.data)
    expect_clean(tmp_path / "copy")
    restored = restore(start_server, tmp_path / "copy", tmp_path)
    assert all_ids(restored.client()) >= expected


@pytest.mark.shards
def test_of_several_shards(start_server, tmp_path):
    flags = (*FLAGS[:3], "2", *FLAGS[4:])
    server = start_server(*flags)
    with Load(server) as load:
        time.sleep(1)
        _, pushed, _, acked = load.moment()
        made = backup(server, tmp_path / "copy", "--json")
        asked, _, acking, _ = load.moment()
    assert made.returncode == 0 and json.loads(made.stdout)["shards"] == 2
    expect_clean(tmp_path / "copy")
    home = tmp_path / "restored"
    home.mkdir()
    (tmp_path / "copy").rename(home / "data")
    there = all_ids(start_server(*flags, directory=home).client())
    assert asked - acked >= there >= pushed - acking


def test_of_a_server_that_has_hardly_begun(start_server, tmp_path):
    server = start_server(*FLAGS)
    server.client().push("a", "1", delay="1h")
    assert backup(server, tmp_path / "copy").returncode == 0
    expect_clean(tmp_path / "copy")
    restored = restore(start_server, tmp_path / "copy", tmp_path)
    assert restored.client().get("a", "1")["state"] == "delayed"


# ---- what goes wrong ----

def refused_to_open(directory):
    """Neither fsck nor a server takes it."""
    checked = fsck(directory)
    assert checked.returncode == 1 and "was not completed" in checked.stderr, checked.stderr
    started = subprocess.run([str(BINARY), "serve", "--data", str(directory), "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False,
                             timeout=SECONDS)
    assert started.returncode == 1 and "was not completed" in started.stderr + started.stdout
    return True


def test_it_goes_nowhere_but_into_an_empty_directory(start_server, tmp_path):
    server = start_server(*FLAGS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    made = backup(server, tmp_path / "full")
    assert made.returncode == 1 and "not an empty directory" in made.stderr
    assert (tmp_path / "full" / "file").read_text() == "mine" and len(list((tmp_path / "full").iterdir())) == 1
    (tmp_path / "empty").mkdir(mode=0o755)
    assert backup(server, tmp_path / "empty").returncode == 0
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


def hit_while_copying(server, tmp_path, hit, again=lambda: None):
    """A backup that failed, because hit(process) came while it was copying: (where, exit code, output). A backup that was faster is repeated."""
    for number in range(TRIES):
        copy = tmp_path / f"copy-{number}"
        process = subprocess.Popen([str(BINARY), "backup", str(copy), "--copy", "--url", server.url], stderr=subprocess.PIPE)
        eventually(lambda: (copy / "INCOMPLETE").exists() or process.poll() is not None, pause=0.0005)
        freeze(process.pid)  # however long the hit takes
        hit(process)
        process.send_signal(signal.SIGCONT)
        _, error = process.communicate(timeout=SECONDS)
        if process.returncode != 0:
            return copy, process.returncode, error
        expect_clean(copy)
        again()
    return pytest.fail(f"all of {TRIES} backups were faster")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_backup_is_rejected_and_the_server_continues(start_server, tmp_path, number):
    server = start_server(*FLAGS)
    with Load(server):
        checkpointed(server)
        copy, _, _ = hit_while_copying(server, tmp_path, lambda process: process.send_signal(number))
        assert refused_to_open(copy)
        assert backup(server, tmp_path / "another").returncode == 0
    expect_clean(tmp_path / "another")


def test_a_server_that_dies_meanwhile_leaves_no_backup(start_server, tmp_path):
    server = start_server(*FLAGS)
    with Load(server):
        checkpointed(server)
        copy, code, error = hit_while_copying(server, tmp_path, lambda _: server.kill(), again=server.start)
    assert code == 3 and b"is not complete" in error, error
    assert refused_to_open(copy)
    server.start()
    server.terminate()
    expect_clean(server.data)


def test_a_full_target_is_reported(start_server, tmp_path):
    server = start_server(*FLAGS)
    push_many(server.client(), "a", 150)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    made = backup(server, tmp_path / "copy", preexec_fn=small_files)
    assert made.returncode == 1 and "cannot write" in made.stderr and "is not complete" in made.stderr, made.stderr
    assert refused_to_open(tmp_path / "copy")
    assert len(all_ids(server.client(), "a")) == 150


def test_the_directory_must_be_here(start_server, tmp_path):
    server = start_server(*FLAGS)
    (server.data / "LOCK").write_text("1\n")
    made = backup(server, tmp_path / "copy")
    assert made.returncode == 1 and "is not on this machine" in made.stderr and not (tmp_path / "copy").exists()


def test_without_a_server_no_backup_is_made(tmp_path):
    made = subprocess.run([str(BINARY), "backup", str(tmp_path / "copy"), "--url", "http://127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert made.returncode == 3 and not (tmp_path / "copy").exists()


# ---- the calls ----

def test_the_calls_list_the_files_to_copy(server):
    client = server.client()
    begun = client.good("POST", "/v1/backup")
    assert pathlib.Path(begun["data"]) == server.data.resolve() and begun["pid"] == server.proc.pid
    assert [shard["shard"] for shard in begun["shards"]] == [0]
    client.push("a", "1")
    again = client.good("PUT", "/v1/backup/" + begun["id"])
    assert again["id"] == begun["id"] and again["shards"][0]["log"][-1]["bytes"] > begun["shards"][0]["log"][-1]["bytes"]
    assert client.good("DELETE", "/v1/backup/" + begun["id"]) == {"id": begun["id"]}
    for method in ("PUT", "DELETE"):
        for ident in (begun["id"], "0000000000000000", "nonsense", "ffffffffffffffff"):
            with pytest.raises(Refused) as refused:
                client.good(method, "/v1/backup/" + ident)
            assert (refused.value.status, refused.value.code) == (404, "not_found")


def test_four_backups_at_a_time(server):
    client = server.client()
    ids = [client.good("POST", "/v1/backup")["id"] for _ in range(4)]
    with pytest.raises(Refused) as refused:
        client.good("POST", "/v1/backup")
    assert (refused.value.status, refused.value.code) == (503, "too_many_backups")
    client.good("DELETE", "/v1/backup/" + ids[2])
    ids[2] = client.good("POST", "/v1/backup")["id"]
    assert len(set(ids)) == 4


def test_files_are_held_until_the_end(start_server):
    server = start_server(*FLAGS)
    client = server.client()
    begun = client.good("POST", "/v1/backup")
    wal = server.data / "shard-00" / "wal"

    def files():
        return sorted(os.listdir(wal))

    while len(list(wal.glob("*.log"))) < 8:
        push_many(client, "a", 150)
    checkpointed(server)
    held = files()
    assert "00000001.log" in held
    client.good("DELETE", "/v1/backup/" + begun["id"])

    def is_gone():
        client.push("a", delay="1h")
        return len(files()) < len(held) - 2  # one waits to be used again

    eventually(is_gone, seconds=20, pause=0.05)


def test_space_is_freed_at_the_end_even_on_an_idle_server(start_server):
    server = start_server(*FLAGS)
    client = server.client()
    run = server.data / "shard-00" / "run"

    def runs():
        return {file.name for file in run.glob("*.run") if file.stat().st_size}

    def push_until_checkpointed(topic):
        known = set(run.glob("CATALOG-*"))
        for _ in range(40):
            if set(run.glob("CATALOG-*")) - known:
                return
            push_many(client, topic, 150)
        eventually(lambda: set(run.glob("CATALOG-*")) - known, seconds=20)

    push_until_checkpointed("a")
    begun = client.good("POST", "/v1/backup")
    client.good("DELETE", "/v1/topics/a")
    push_until_checkpointed("b")
    push_until_checkpointed("b")
    eventually(lambda: time.sleep(0.5) or not list(run.glob("*.tmp")), seconds=20)
    held = runs()
    assert "00000001.run" in held
    client.good("DELETE", "/v1/backup/" + begun["id"])
    eventually(lambda: "00000001.run" not in runs(), seconds=10)


def test_redis_is_backed_up_by_other_means(start_server, start_redis, tmp_path):
    redis = start_redis()
    server = start_server("--store", redis.url)
    made = backup(server, tmp_path / "copy")
    assert made.returncode == 1 and "in Redis" in made.stderr and not (tmp_path / "copy").exists()
