"""The data directory of a running server is moved, covered, restored or unlocked: no answered push is lost, and no other server gets in."""

import os
import shutil
import stat
import subprocess
import threading

import pytest
from client import Lost, Refused
from server import BINARY, Server, eventually

FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
MOVED = "directory_moved"
NOBODY = 65534


def fsck(directory, *flags, **options):
    return subprocess.run([str(BINARY), "fsck", str(directory), *flags], capture_output=True, text=True, check=False, timeout=120, **options)


def expect_clean(directory):
    checked = fsck(directory)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def start_fails(data, words, **options):
    command = [str(BINARY), "serve", "--data", str(data), "--listen", "127.0.0.1:0", *FLAGS]
    started = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)
    output = started.stdout + started.stderr
    assert started.returncode == 1 and words in output, output


def ready(server):
    return server.client().call("GET", "/readyz")


def pushed(client, topic, ident):
    """Returns None, or the code of the rejection."""
    try:
        client.push(topic, ident, delay="1h")
    except Refused as refused:
        assert refused.status == 503
        return refused.code
    return None


def refuses(server, ident="refused"):
    """The server reports it in all ways, and still shows its jobs."""
    client = server.client()
    assert pushed(client, "orders", ident) == MOVED
    answer = ready(server)
    assert answer.status == 503 and b"leads" in answer.body
    for method, target in (("POST", "/v1/topics/orders/pause"), ("POST", "/v1/topics/orders/purge"), ("POST", "/v1/topics/orders/take")):
        refused = client.call(method, target)
        assert (refused.status, refused.code) == (503, MOVED), target
    assert client.topic("orders")["topic"] == "orders"
    assert client.list("orders")["jobs"]
    assert client.good("GET", "/v1/info")["accepting"] is False
    return True


def serves_again(server, ident="again"):
    client = server.client()
    eventually(lambda: pushed(client, "orders", ident) is None)
    assert ready(server).status == 200
    assert "data directory is back" in server.log()


def all_ids(client, topic="orders"):
    ids, cursor = set(), None
    while True:
        page = client.list(topic, limit=1000, cursor=cursor)
        ids.update(job["id"] for job in page["jobs"])
        cursor = page.get("cursor")
        if not cursor:
            return ids


class Pusher(threading.Thread):
    """Pushes one job after the other; knows which were answered."""

    def __init__(self, server, name):
        super().__init__()
        self.client, self.name_, self.answered, self.codes, self.over = server.client(), name, [], set(), threading.Event()

    def run(self):
        number = 0
        while not self.over.is_set():
            number += 1
            try:
                code = pushed(self.client, "orders", f"{self.name_}-{number}")
            except Lost:
                break
            if code is None:
                self.answered.append(f"{self.name_}-{number}")
            else:
                self.codes.add(code)

    def stop(self):
        self.over.set()
        self.join()
        assert self.codes <= {MOVED}
        return set(self.answered)


def pushing(server, name):
    pusher = Pusher(server, name)
    pusher.start()
    eventually(lambda: len(pusher.answered) > 50)
    return pusher


def refused(pusher):
    eventually(lambda: MOVED in pusher.codes)
    return pusher


@pytest.fixture
def first(start_server, tmp_path):
    return start_server(*FLAGS, directory=tmp_path / "home")


def test_a_directory_that_is_renamed_while_another_server_takes_its_place(first, start_server):
    aside = first.data.with_name("data.old")
    pusher = pushing(first, "first")
    first.data.rename(aside)
    refused(pusher)
    second = start_server(*FLAGS, directory=first.directory)
    other = pushing(second, "second")
    refuses(first)
    seconds = other.stop()
    assert second.terminate() == 0
    second.data.rename(second.data.with_name("data.new"))
    aside.rename(first.data)
    serves_again(first)
    firsts = pusher.stop()
    assert first.terminate() == 0
    expect_clean(first.data)
    expect_clean(first.data.with_name("data.new"))
    assert firsts <= all_ids(first.start().client())
    first.terminate()
    first.data.rename(aside)
    second.data.with_name("data.new").rename(second.data)
    assert seconds <= all_ids(second.start().client())


def test_a_readiness_check_detects_the_move(first):
    """Nothing changes meanwhile, and an idle server checks nothing by itself."""
    aside = first.data.with_name("data.old")
    first.data.rename(aside)
    assert ready(first).status == 503
    eventually(lambda: "data directory moved" in first.log())
    (line,) = [line for line in first.log().splitlines() if "data directory moved" in line]
    assert f"path={first.data}" in line
    aside.rename(first.data)
    eventually(lambda: "data directory is back" in first.log())
    assert ready(first).status == 200


def test_a_renamed_directory_lets_no_second_server_in_by_its_new_name(first):
    first.client().push("orders", "a", delay="1h")
    home = first.directory.with_name("elsewhere")
    home.mkdir()
    first.data.rename(home / "data")
    start_fails(home / "data", f"is in use by process {first.proc.pid};")
    assert fsck(home / "data").returncode == 1
    (home / "data").rename(first.data)
    client = first.client()
    eventually(lambda: pushed(client, "orders", "b") is None)  # something may have looked at it meanwhile


def test_a_server_stopped_while_its_directory_is_away_has_lost_nothing(first):
    aside = first.data.with_name("data.old")
    pusher = pushing(first, "first")
    first.data.rename(aside)
    answered = refused(pusher).stop()
    assert first.terminate() == 0
    assert not first.data.exists()
    expect_clean(aside)
    aside.rename(first.data)
    assert answered <= all_ids(first.start().client())


def mounts():
    """The command that runs a server with mounts that only it sees; None: this user may not."""
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return None


@pytest.mark.skipif(not mounts(), reason="neither root nor user namespaces")
def test_another_directory_mounted_over_it(start_server, tmp_path):
    first = start_server(*FLAGS, directory=tmp_path / "home", started=False)
    first.prefix = mounts()
    first.start()
    inside = ["nsenter", "-t", str(first.proc.pid), *(["-U", "--preserve-credentials"] if "-r" in first.prefix else []), "-m"]
    cover = tmp_path / "cover"
    cover.mkdir(mode=0o700)
    pusher = pushing(first, "first")
    subprocess.run([*inside, "mount", "--bind", str(cover), str(first.data)], check=True)
    refused(pusher)
    refuses(first)
    second = start_server(*FLAGS, directory=first.directory, started=False)
    second.prefix = inside
    other = pushing(second.start(), "second")
    refuses(first)
    seconds = other.stop()
    assert second.terminate() == 0
    subprocess.run([*inside, "umount", str(first.data)], check=True)
    serves_again(first)
    firsts = pusher.stop()
    assert first.terminate() == 0
    expect_clean(first.data)
    first.prefix = []
    assert firsts <= all_ids(first.start().client())
    expect_clean(cover)
    home = tmp_path / "other"
    home.mkdir()
    cover.rename(home / "data")
    assert seconds <= all_ids(start_server(*FLAGS, directory=home).client())


def backed_up(server):
    into = server.directory / "backup"
    assert subprocess.run([str(BINARY), "backup", str(into), "--copy", "--url", server.url], capture_output=True, check=False, timeout=60).returncode == 0
    return into


def test_a_restore_beside_a_running_server(first, start_server):
    """rm -r and cp -a, as one should not: from then on nothing is answered that the restored directory has not."""
    known = pushing(first, "first").stop()
    backup = backed_up(first)
    shutil.rmtree(first.data)
    shutil.copytree(backup, first.data)
    first.data.chmod(0o700)
    refuses(first)
    second = start_server(*FLAGS, directory=first.directory)
    other = pushing(second, "second")
    refuses(first)
    seconds = other.stop()
    assert first.terminate() == 0
    assert second.terminate() == 0
    expect_clean(second.data)
    assert known | seconds <= all_ids(second.start().client())


def test_a_restore_into_the_directory_is_detected(first):
    """The directory itself stays, and with it the lock; the first server writes nothing over what was put there."""
    known = pushing(first, "first").stop()
    backup = backed_up(first)
    for one in first.data.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(backup, first.data, dirs_exist_ok=True)
    first.data.chmod(0o700)
    refuses(first)
    start_fails(first.data, "is in use by another process;")
    assert first.terminate() == 0
    expect_clean(first.data)
    for one in (backup / "MANIFEST", *(backup / "shard-00" / "wal").iterdir()):
        assert one.read_bytes() == (first.data / one.relative_to(backup)).read_bytes(), one
    assert known <= all_ids(first.start().client())


def test_files_that_are_replaced_one_by_one(first):
    """Works like cp --remove-destination."""
    known = pushing(first, "first").stop()
    backup = backed_up(first)
    subprocess.run(["cp", "-a", "--remove-destination", f"{backup}/.", str(first.data)], check=True)
    refuses(first)
    assert first.terminate() == 0
    expect_clean(first.data)
    assert known <= all_ids(first.start().client())


def test_a_copy_that_is_written_over_the_files(tmp_path):
    """The same files with other bytes: the server writes nothing more and ends, so that what was put there can be opened."""
    first = Server(tmp_path / "home", FLAGS).start()
    try:
        known = pushing(first, "first").stop()
        backup = backed_up(first)
        client = first.client()
        client.push("orders", "later", delay="1h")
        subprocess.run(["cp", "-a", f"{backup}/.", str(first.data)], check=True)
        try:
            assert pushed(client, "orders", "refused") == "unavailable"
        except Lost:
            pass
        assert first.proc.wait(30) == 1
        assert "another process has written to the log" in first.log()
        expect_clean(first.data)
        assert all_ids(first.start().client()) == known
        assert first.terminate() == 0
    finally:
        first.kill()


def test_no_one_gets_in_by_removing_the_lock(first):
    pusher = pushing(first, "first")
    (first.data / "LOCK").unlink()
    start_fails(first.data, "is in use by another process; stop that process first")
    checked = fsck(first.data)
    assert checked.returncode == 1 and "is in use" in checked.stderr
    checked = fsck(first.data, "--repair")
    assert checked.returncode == 1 and "is in use" in checked.stderr
    answered = pusher.stop()
    assert not pusher.codes
    assert first.terminate() == 0
    expect_clean(first.data)
    assert answered <= all_ids(first.start().client())


@pytest.mark.parametrize("folder", ["shard-00", "shard-00/wal"])
def test_a_part_of_the_directory_is_moved(first, start_server, tmp_path, folder):
    aside = tmp_path / "aside"
    pusher = pushing(first, "first")
    (first.data / folder).rename(aside)
    refused(pusher)
    refuses(first)
    # A new one in its place does not belong to the server.
    (first.data / folder).mkdir(mode=0o700)
    refuses(first)
    assert not list((first.data / folder).iterdir())
    (first.data / folder).rmdir()
    if folder == "shard-00":  # nor may another server take it into its own
        other = start_server(*FLAGS, directory=tmp_path / "other")
        other.terminate()
        shutil.rmtree(other.data / folder)
        aside.rename(other.data / folder)
        start_fails(other.data, "busy")
        (other.data / folder).rename(aside)
    aside.rename(first.data / folder)
    serves_again(first)
    answered = pusher.stop()
    assert first.terminate() == 0
    expect_clean(first.data)
    assert answered <= all_ids(first.start().client())


def test_runs_that_are_moved_stop_the_next_checkpoint(first, tmp_path):
    """The log is let go only for a catalog that the next start would find."""
    client, runs, aside = first.client(), first.data / "shard-00" / "run", tmp_path / "aside"
    known = set()

    def fill():
        batch = [{"topic": "orders", "id": f"{len(known) + number}", "delay": "1h", "body": "x" * 20_000} for number in range(20)]
        results = client.push_batch(batch)
        known.update(result["id"] for result in results if result.get("result") == "created")
        return {result.get("result") or result.get("code") for result in results}

    eventually(lambda: fill() and list(runs.glob("CATALOG-*")), seconds=30)
    runs.rename(aside)

    def is_refused():
        try:
            return MOVED in fill()
        except Refused as refusal:
            return refusal.code == MOVED

    eventually(is_refused, seconds=60)
    assert ready(first).status == 503
    before = sorted(one.name for one in aside.glob("CATALOG-*"))
    aside.rename(runs)
    serves_again(first)
    eventually(lambda: sorted(one.name for one in runs.glob("CATALOG-*")) != before, seconds=30)
    assert first.terminate() == 0
    expect_clean(first.data)
    assert known <= all_ids(first.start().client())


# ---- whose it is ----


def test_a_lock_that_is_a_link_is_rejected_and_its_target_kept(start_server, tmp_path):
    data, target = tmp_path / "home" / "data", tmp_path / "target"
    data.mkdir(parents=True, mode=0o700)
    target.write_text("dear to somebody")
    (data / "LOCK").symlink_to(target)
    start_fails(data, "LOCK' is a symbolic link; remove it")
    assert fsck(data).returncode == 1
    (data / "LOCK").unlink()
    os.link(target, data / "LOCK")
    start_fails(data, "LOCK' is a hard link or not a regular file; remove it")
    assert target.read_text() == "dear to somebody"
    (data / "LOCK").unlink()
    start_server(*FLAGS, directory=tmp_path / "home")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_may_write_is_refused(start_server, tmp_path, mode):
    data = tmp_path / "home" / "data"
    data.mkdir(parents=True)
    data.chmod(mode)
    start_fails(data, f"can be written by others (mode {mode:04o}); run 'chmod go-w'")
    assert not list(data.iterdir())
    subprocess.run(["chmod", "go-w", str(data)], check=True)
    start_server(*FLAGS, directory=tmp_path / "home")


def test_a_directory_with_files_of_something_else_is_left_as_it_was(start_server, tmp_path):
    data = tmp_path / "home" / "data"
    (data / "letters").mkdir(parents=True)
    start_fails(data, "is not a data directory and not empty: it has 'letters'; give an empty directory, or the name of a new one")
    assert [one.name for one in data.iterdir()] == ["letters"]
    (data / "letters").rename(data / ".snapshot")
    (data / "lost+found").mkdir()
    server = start_server(*FLAGS, directory=tmp_path / "home")
    server.terminate()
    (data / "letters").mkdir()
    server.start()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


def everyone_may_pass(path):
    for one in (path, *path.parents):
        if one.owner() == "root" and not one.stat().st_mode & stat.S_IXOTH:
            one.chmod(one.stat().st_mode | stat.S_IXOTH)


@needs_root
def test_a_directory_of_another_user_is_rejected(tmp_path):
    everyone_may_pass(tmp_path)
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    start_fails(data, "belongs to user 0 and this process to user 65534; run it as the owner, or use your own", user=NOBODY, group=NOBODY,
                extra_groups=[])
    assert not list(data.iterdir())


@needs_root
def test_files_created_by_root_belong_to_the_owner_of_the_directory(start_server, tmp_path):
    data = tmp_path / "home" / "data"
    data.mkdir(parents=True, mode=0o700)
    os.chown(data, NOBODY, NOBODY)
    server = start_server(*FLAGS, directory=tmp_path / "home")
    client, runs = server.client(), data / "shard-00" / "run"
    eventually(lambda: client.push_batch([{"topic": "orders", "delay": "1h", "body": "x" * 20_000} for _ in range(50)]) and list(runs.glob("CATALOG-*")),
               seconds=30)
    server.terminate()

    def owners():
        return {(one.stat().st_uid, one.stat().st_gid) for one in (data, *data.rglob("*"))}

    assert owners() == {(NOBODY, NOBODY)}
    for table in runs.glob("*.keys"):
        table.unlink()
    repaired = fsck(data, "--repair")
    assert repaired.returncode == 0, repaired.stdout
    assert list(runs.glob("*.keys"))
    assert owners() == {(NOBODY, NOBODY)}


def test_a_new_directory_begins_with_a_small_log_file(start_server):
    """Fills a small log file first, so that the first start does not wait for a large one to be filled with zeros."""
    server = start_server("--wal-file", "64MiB")
    wal = server.data / "shard-00" / "wal"
    assert (wal / "00000001.log").stat().st_size == 4 << 20
    client = server.client()
    for number in range(60):
        client.push("t", str(number), body=b"x" * 100_000, delay="1h")
    assert (wal / "00000002.log").stat().st_size == 64 << 20
    assert server.restart("kill").client().topic("t")["counts"]["delayed"] == 60
