"""`tarry fsck` on directories of a real server: damage of each kind is named with its place, mended where that costs nothing, and else what can be
read is saved into another directory."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from server import BINARY, REPO, Server, StartFailed, eventually, freeze

FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
BODY = "f" * 10_000
SECONDS = 60


def fsck(data, *flags):
    return subprocess.run([str(BINARY), "fsck", str(data), *flags], capture_output=True, text=True, check=False, timeout=SECONDS)


def findings(data, *flags):
    ended = fsck(data, "--json", *flags)
    report = json.loads(ended.stdout)
    assert ended.returncode == (0 if report["finding_count"] == report["mended"] else 1), ended
    return report["findings"]


def digest(folder):
    """Returns the whole content of a directory: names, sizes, hashes."""
    return {str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "") for path in folder.rglob("*")}


def salvage(data, name="saved"):
    """Salvages readable jobs into a new directory; the old one is unchanged."""
    new, before = data.parent.parent / name / "data", digest(data)
    new.parent.mkdir()
    ended = fsck(data, "--json", "--salvage", str(new))
    report = json.loads(ended.stdout)
    assert "saved" in report and ended.returncode == (1 if report["findings"] else 0), ended
    assert digest(data) == before
    assert findings(new) == []
    return new, report["saved"]


def runs(data):
    return data / "shard-00" / "run"


def newest(data, pattern, folder="run"):
    return sorted(path for path in (data / "shard-00" / folder).glob(pattern) if path.suffix != ".2")[-1]


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x20]))


def flip_catalog(data):
    """Damages both copies of the catalog."""
    catalog = newest(data, "CATALOG-*")
    flip(catalog, 90)
    flip(catalog.with_name(f"{catalog.name}.2"), 90)
    return catalog


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory with runs, tables and a log, made once: jobs of every part, some of them finished."""
    server = Server(tmp_path_factory.mktemp("fsck"), FLAGS).start()
    client = server.client()
    client.put_topic("orders", dedup_window="1h", max_attempts=2)
    for number in range(7):
        items = [{"topic": "orders", "id": f"{number}-{i}", "delay": "0s" if i < 30 else "30d", "body": BODY} for i in range(150)]
        assert {result["result"] for result in client.push_batch(items)} == {"created"}
        jobs = client.take("orders", max=20, lease_for="1h")
        client.ack(*[job["lease"] for job in jobs[:10]])
        client.nack(*[job["lease"] for job in jobs[10:15]], delay="1h", error="no")
        client.nack(*[job["lease"] for job in jobs[15:18]], final="true", error="never")
    eventually(lambda: list(runs(server.data).glob("*.run")) and list(runs(server.data).glob("CATALOG-*")), seconds=30)
    assert server.terminate() == 0
    assert "in runs: 0 jobs" not in fsck(server.data).stdout
    return server.data


@pytest.fixture
def data(made, tmp_path):
    shutil.copytree(made, tmp_path / "server" / "data")
    return tmp_path / "server" / "data"


def serves(start_server, data, jobs=None):
    server = start_server(*FLAGS, directory=data.parent)
    counts = server.client().topic("orders")["counts"]
    there = sum(counts[name] for name in ("delayed", "retrying", "ready", "leased", "dead"))
    assert jobs is None or there == jobs, counts
    server.client().cancel("orders", "6-149")
    server.terminate()
    return there


LEFT = 7 * 150 - 7 * 10


def test_a_sound_directory(start_server, data):
    report = json.loads(fsck(data, "--json").stdout)
    shard = report["shards"][0]
    assert report["clean"] and report["notes"] == []
    assert shard["generation"] and shard["runs"] and shard["tables"] and shard["far"] > 100 and shard["dead"] == 21
    assert shard["delayed"] + shard["leased"] + shard["dead"] == LEFT
    serves(start_server, data, LEFT)


def test_damage_of_a_record_in_a_run_is_named_and_the_rest_is_saved(start_server, data):
    flip(newest(data, "*.run"), 4096 + 500)
    found = findings(data)
    assert len(found) == 1 and found[0]["slot"] == 0 and found[0]["at"] == 4096 and found[0]["cure"] == "salvage"
    assert re.search(r"^the record is damaged: an? .*(job|id).* of topic 'orders'", found[0]["text"])
    assert [one["mended"] for one in findings(data, "--repair")] == [False]
    text = fsck(data)
    assert text.returncode == 1 and "restore a backup, or save the rest with 'tarry fsck --salvage'" in text.stdout
    new, saved = salvage(data)
    assert saved["jobs"] == LEFT - 1 and [topic["topic"] for topic in saved["topics"]] == ["orders"]
    serves(start_server, new, LEFT - 1)
    assert findings(new) == []


RUN_BLOCK = 4096


def regions(run):
    """A byte in each region of a run (src/stores/store/run_private.h), and in each block of its directory: those whose first entry has a time."""
    content = run.read_bytes()
    footer = len(content) - RUN_BLOCK
    topics, blocks = footer - RUN_BLOCK, []
    for at in range(topics - RUN_BLOCK, 0, -RUN_BLOCK):
        if not 1 << 30 < int.from_bytes(content[at:at + 8], "little") < 1 << 46:
            break
        blocks.insert(0, at)
    assert b"orders" in content[topics:footer] and len(blocks) >= 2
    return {"header": 20, "first record": RUN_BLOCK + 300, "a record in the middle": blocks[0] // 2, "topics": topics + 2, "footer": footer + 20,
            "directory, first block": blocks[0] + 60, "directory, last block": blocks[-1] + 60}


def every_call_works(start_server, data):
    server = start_server(*FLAGS, directory=data.parent)
    client = server.client()
    listed, cursor = 0, ""
    for state in ("", "&state=delayed", "&state=dead", "&state=ready", "&state=leased"):
        cursor = ""
        while True:
            page = client.good("GET", f"/v1/topics/orders/jobs?limit=100{state}{cursor}")
            listed += len(page["jobs"])
            if not page["cursor"]:
                break
            cursor = f"&cursor={page['cursor']}"
    counts = client.topic("orders")["counts"]
    assert listed == 2 * sum(counts.values()), (listed, counts)
    assert client.good("POST", "/v1/topics/orders/redrive?max=3")["jobs"] == min(3, counts["dead"])
    jobs = client.take("orders", max=5)
    assert client.ack(*[job["lease"] for job in jobs]) is not None
    client.good("POST", "/v1/topics/orders/purge?state=dead")
    assert client.topic("orders")["counts"]["dead"] == 0
    client.good("POST", "/v1/topics/orders/redrive")
    client.good("POST", "/v1/topics/orders/purge")
    left = client.topic("orders")["counts"]
    assert left["delayed"] + left["retrying"] + left["ready"] + left["dead"] == 0, left
    client.good("DELETE", "/v1/topics/orders")
    assert client.call("GET", "/v1/topics/orders").status == 404
    assert server.terminate() == 0


@pytest.mark.parametrize("which", ["header", "first record", "a record in the middle", "directory, first block", "directory, last block", "topics", "footer"])
def test_every_call_works_on_a_salvaged_run(start_server, data, which):
    run = newest(data, "*.run")
    flip(run, regions(run)[which])
    new, _ = salvage(data)
    every_call_works(start_server, new)
    assert findings(new) == []


@pytest.mark.parametrize("how", ["block", "filter", "footer", "missing", "short"])
def test_a_damaged_table_of_keys_is_rewritten(start_server, data, how):
    table = newest(data, "*.keys")
    size = table.stat().st_size
    if how == "missing":
        table.unlink()
    elif how == "short":
        with open(table, "r+b") as file:
            file.truncate(size - 4096)
    else:
        flip(table, {"block": 40, "filter": size - 3 * 4096 + 20, "footer": size - 4000}[how])
    found = findings(data)
    assert found and found[0]["file"] == f"run/{table.name}" and {one["cure"] for one in found} == {"repair"}, found
    ended = fsck(data, "--repair")
    assert ended.returncode == 0 and "writes a new table of keys" in ended.stderr, ended
    assert findings(data) == []
    serves(start_server, data, LEFT)
    assert findings(data) == []


def test_a_missing_run_is_named_and_the_others_are_saved(start_server, data):
    run = newest(data, "*.run")
    run.unlink()
    found = findings(data)
    assert found[0]["file"] == f"run/{run.name}" and re.match(r"the run is missing; \d+ jobs are in it", found[0]["text"])
    assert not findings(data, "--repair")[0]["mended"]
    new, saved = salvage(data)
    assert LEFT > serves(start_server, new, saved["jobs"]) > 0
    assert findings(new) == []


def test_a_damaged_catalog_is_left_to_a_backup(start_server, data):
    catalog = flip_catalog(data)
    before = catalog.read_bytes()
    found = findings(data)
    assert found[0]["cure"] == "restore" and catalog.name in found[0]["text"]
    assert not any(one["mended"] for one in findings(data, "--repair"))
    assert catalog.read_bytes() == before
    with pytest.raises(StartFailed):
        Server(data.parent, FLAGS).start()
    assert 0 < salvage(data)[1]["jobs"] < LEFT, "those of the log"


def test_one_of_two_copies_of_the_catalog_is_enough(start_server, data):
    catalog = newest(data, "CATALOG-*")
    flip(catalog, 90)
    assert salvage(data)[1]["jobs"] == LEFT
    assert [one["cure"] for one in findings(data)] == ["repair"]
    assert [one["mended"] for one in findings(data, "--repair")] == [True]
    assert findings(data) == []
    newest(data, "CATALOG-*").unlink()
    serves(start_server, data, LEFT)


def test_a_damaged_log_is_named_with_file_and_byte(data):
    first = json.loads(fsck(data, "--json").stdout)["shards"][0]["first_file"]
    flip(data / "shard-00" / "wal" / f"{first:08}.log", 4096 + 300)
    found = findings(data)
    assert found and (found[0]["file"], found[0]["at"], found[0]["cure"]) == (f"wal/{first:08}.log", 4096, "restore"), found


def test_whole_batches_behind_damage_of_the_log_are_saved(start_server, data):
    """A job whose end was in the damaged batch comes back; only jobs that were pushed there are lost."""
    first = json.loads(fsck(data, "--json").stdout)["shards"][0]["first_file"]
    flip(data / "shard-00" / "wal" / f"{first:08}.log", 4096 + 300)
    new, saved = salvage(data)
    assert saved["jobs"] >= LEFT - 150
    serves(start_server, new, saved["jobs"])
    assert findings(new) == []


def test_a_sound_directory_is_saved_whole(start_server, data):
    new, saved = salvage(data)
    assert saved["jobs"] == LEFT and saved["remembered"] >= 70
    text = fsck(data, "--salvage", str(data.parent / "again"))
    assert text.returncode == 0 and f"saved of topic 'orders': {LEFT} jobs, " in text.stdout, text
    serves(start_server, new, LEFT)


@pytest.mark.parametrize("which", ["table", "run", "log", "catalog"])
def test_the_page_has_a_remedy_for_each_finding(data, which):
    """The advice that ends a finding is in the table of docs/operations/recovery.md."""
    first = json.loads(fsck(data, "--json").stdout)["shards"][0]["first_file"]
    if which == "catalog":
        flip_catalog(data)
    else:
        flip({"table": newest(data, "*.keys"), "run": newest(data, "*.run"), "log": data / "shard-00" / "wal" / f"{first:08}.log"}[which],
             60 if which == "table" else 4096 + 300)
    page = (REPO / "docs" / "operations" / "recovery.md").read_text(encoding="utf-8")
    answer = [line for line in fsck(data).stdout.splitlines() if "tarry fsck --" in line]
    assert answer and all(f"| `{line.rpartition('; ')[2]}" in page for line in answer), answer


def test_salvage_rejects_an_unusable_target(data, tmp_path):
    before = digest(data)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    for into, answer in ((full, "is not empty"), (data / "inside", "is inside the data directory"), (data, "is inside the data directory"),
                       (tmp_path / "no" / "parent", "No such file or directory")):
        ended = fsck(data, "--salvage", str(into))
        assert ended.returncode == 1 and answer in ended.stderr, ended
    assert digest(data) == before and [path.name for path in full.iterdir()] == ["mine"]


def test_an_incomplete_salvage_is_not_a_data_directory(start_server, data, tmp_path):
    """The disk fills up, or the process is killed: neither fsck nor a server takes what is there."""
    new = tmp_path / "small" / "data"
    new.parent.mkdir()
    ended = subprocess.run(["bash", "-c", 'ulimit -f 1024; trap "" XFSZ; exec "$0" "$@"', str(BINARY), "fsck", str(data), "--salvage", str(new)],
                           capture_output=True, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 1 and "it is not complete" in ended.stderr, ended
    checked = fsck(new)
    assert checked.returncode == 1 and "not completed" in checked.stderr, checked
    with pytest.raises(StartFailed):
        Server(new.parent, FLAGS).start()
    assert fsck(data).returncode == 0


def test_files_that_nothing_names_are_notes(data):
    (runs(data) / "CATALOG-00000000.tmp").write_bytes(b"half")
    assert fsck(data).returncode == 0
    report = json.loads(fsck(data, "--json").stdout)
    assert report["clean"] and "not in the catalog" in report["notes"][0]["text"]
    assert fsck(data, "--repair").returncode == 0
    assert not (runs(data) / "CATALOG-00000000.tmp").exists()


def test_any_flipped_bit_in_live_data_is_found_or_harmless(data, made):
    """Flips a bit; if fsck does not find it, the server reads the same as before: the flip was in dead data."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    files = [path for path in runs(data).iterdir() if path.stat().st_size]
    found = 0
    for _ in range(15):
        path = chance.choice(files)
        at = chance.randrange(path.stat().st_size)
        flip(path, at)
        found += bool(findings(data))
        flip(path, at)
    assert findings(data) == []
    assert found >= 5


def test_repair_is_not_for_a_directory_in_use(start_server):
    server = start_server(*FLAGS)
    ended = fsck(server.data, "--repair")
    assert ended.returncode == 1 and "in use by process" in ended.stderr


def test_a_path_that_is_not_a_directory_is_not_created(tmp_path):
    ended = fsck(tmp_path / "nothing", "--repair")
    assert ended.returncode == 1 and not (tmp_path / "nothing").exists()
    (tmp_path / "other").mkdir()
    ended = fsck(tmp_path / "other", "--repair")
    assert ended.returncode == 1 and not list((tmp_path / "other").iterdir())


def test_flags_that_make_no_sense(tmp_path):
    for flags in (("--accept-loss",), ("--repair", "--salvage", str(tmp_path / "x")), ("--salvage", str(tmp_path / "x"), "--store", "redis://127.0.0.1")):
        ended = subprocess.run([str(BINARY), "fsck", *([] if "--store" in flags else [str(tmp_path)]), *flags], capture_output=True, text=True, check=False)
        assert ended.returncode == 2, ended


# ---- parts that are missing, or are not of this place or time ----

SHARDS = ("--sync", "always", "--shards", "2", "--wal-file", "4MiB")


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A directory of two shards, as a kill leaves it, and its second shard as it was before."""
    server = Server(tmp_path_factory.mktemp("halves"), SHARDS).start()
    client, chance = server.client(), random.Random(1)

    def push(first, last):
        for number in range(first, last):
            client.push_batch([{"topic": "orders", "id": f"{number}-{i}", "delay": "30d", "body": chance.randbytes(10_000).hex()} for i in range(100)])

    def copy(part, name):
        """Leaves the directory like a kill."""
        freeze(server.proc.pid)
        shutil.copytree(server.data / part, server.data.parent / name)
        os.kill(server.proc.pid, signal.SIGCONT)
        return server.data.parent / name

    push(0, 8)
    before = copy("shard-01", "before")
    push(8, 12)
    time.sleep(6)  # until the marks are written
    killed = copy("", "killed")
    server.terminate()
    return killed, before


def swap(data, _before):
    (data / "shard-00").rename(data / "x")
    (data / "shard-01").rename(data / "shard-00")
    (data / "x").rename(data / "shard-01")


def empty(*shards):
    def carry_out(data, _before):
        for shard in shards:
            shutil.rmtree(data / shard)
            (data / shard).mkdir(mode=0o700)
    return carry_out


def put(path):
    """Puts a foreign shard in place of the second one."""
    def carry_out(data, before):
        shutil.rmtree(data / "shard-01")
        shutil.copytree(data / path if path else before, data / "shard-01")
    return carry_out


def drop_newest_logs(data, _before):
    for log in sorted((data / "shard-01" / "wal").glob("*.log"))[-2:]:
        log.unlink()


@pytest.mark.parametrize("how", [empty("shard-01"), empty("shard-00", "shard-01"), drop_newest_logs, put(None), put("shard-00"), swap],
                         ids=["shard emptied", "all emptied", "newest logs missing", "older shard", "copy of a shard", "shards swapped"])
def test_answered_jobs_that_are_missing_are_found_and_no_server_starts(halves, tmp_path, how):
    killed, before = halves
    data = tmp_path / "server" / "data"
    shutil.copytree(killed, data)
    assert findings(data) == []
    how(data, before)
    assert {one["cure"] for one in findings(data)} >= {"restore"}
    with pytest.raises(StartFailed) as failed:
        Server(data.parent, SHARDS).start()
    assert "nothing was changed" in str(failed.value)
    new = tmp_path / "saved"
    report = json.loads(fsck(data, "--json", "--salvage", str(new)).stdout)
    assert findings(new) == []
    assert report["saved"]["jobs"] == 1200 if how is swap else report["saved"]["jobs"] < 1200


@pytest.mark.parametrize("content", [None, b"", b"nonsense\n"], ids=["missing", "empty", "damaged"])
@pytest.mark.parametrize("name", ["MANIFEST", "MANIFEST.copy"])
def test_one_of_two_copies_of_the_manifest_is_enough(start_server, halves, tmp_path, name, content):
    data = tmp_path / "data"
    shutil.copytree(halves[0], data)

    def harm():
        (data / name).unlink()
        if content is not None:
            (data / name).write_bytes(content)

    harm()
    assert [(found["file"], found["cure"], "shard" in found) for found in findings(data)] == [(name, "repair", False)]
    assert json.loads(fsck(data, "--json", "--salvage", str(tmp_path / "saved")).stdout)["saved"]["jobs"] == 1200
    assert findings(tmp_path / "saved") == []
    assert [one["mended"] for one in findings(data, "--repair")] == [True] and findings(data) == []
    harm()
    server = start_server(*SHARDS, "--data", str(data))
    assert server.client().topic("orders")["counts"]["delayed"] == 1200
    assert ("the manifest is restored from its copy" in server.log()) == (name == "MANIFEST")
    assert (data / name).read_bytes().startswith(b"# written by tarry")


@pytest.mark.parametrize("how", ["missing", "empty", "longer", "shorter", "copy", "zeroed"])
def test_a_damaged_log_file_loses_only_its_own_jobs(halves, tmp_path, how):
    data = tmp_path / "data"
    shutil.copytree(halves[0], data)
    logs = [log for log in sorted((data / "shard-00" / "wal").glob("*.log")) if log.stat().st_size]
    first = json.loads(fsck(data, "--json").stdout)["shards"][0]["first_file"]
    counting = [log for log in logs if int(log.stem) >= first]
    log, other = counting[len(counting) // 2], counting[0]
    content = log.read_bytes()
    if how == "missing":
        log.unlink()
    else:
        log.write_bytes({"empty": b"", "longer": content + b"x", "shorter": content[:-1], "copy": other.read_bytes(),
                         "zeroed": bytes(4096) + content[4096:]}[how])
    saved = json.loads(fsck(data, "--json", "--salvage", str(tmp_path / "saved")).stdout)["saved"]
    assert findings(tmp_path / "saved") == []
    assert saved["jobs"] == 1200 if how in ("longer", "zeroed") else saved["jobs"] > 600


@pytest.mark.parametrize("how", ["in a shard", "between shards", "all of both shards", "with another number"])
def test_log_files_that_were_swapped_with_each_other_are_saved(halves, tmp_path, how):
    data = tmp_path / "data"
    shutil.copytree(halves[0], data)
    logs = {}
    for shard in (0, 1):
        first = json.loads(fsck(data, "--json").stdout)["shards"][shard]["first_file"]
        logs[shard] = [log for log in sorted((data / f"shard-{shard:02}" / "wal").glob("*.log")) if log.stat().st_size and int(log.stem) >= first]
    assert len(logs[0]) > 1 and len(logs[1]) > 1
    pairs = {"in a shard": [(logs[0][0], logs[0][-1])], "between shards": [(logs[0][0], logs[1][0])],
             "all of both shards": list(zip(logs[0], logs[1])), "with another number": [(logs[0][0], logs[1][-1])]}[how]
    for one, other in pairs:
        one.rename(data / "x")
        other.rename(one)
        (data / "x").rename(other)
    assert {found["cure"] for found in findings(data)} >= {"restore"}
    saved = json.loads(fsck(data, "--json", "--salvage", str(tmp_path / "saved")).stdout)["saved"]
    assert findings(tmp_path / "saved") == [] and saved["jobs"] == 1200
