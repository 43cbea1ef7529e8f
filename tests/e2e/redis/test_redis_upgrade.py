"""A queue that servers of before left in Redis (layout 1; data/layout1/README.md): converted with all that was in it, or refused with what to do."""

import contextlib
import json
import shutil
import subprocess
import time

import pytest
import redis
from fake_clock import FakeClock, fake_time_library
from redis_servers import RedisServer
from redis_serving import metric, push_answer, ready, refused, shown, works
from server import BINARY, REPO, eventually, together

DATA = REPO / "tests/e2e/support/data/layout1"
WAS = json.loads((DATA / "layout1.json").read_text(encoding="ascii"))
for topic in WAS["topics"].values():
    topic["paused_until"] = None  # which no server of before knew
CONVERTING, LAYOUT, NEWEST = 1, 2, 5
AT_WORK = "of an older version"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return fake_time_library(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def start_before(library, tmp_path):
    """A Redis with the data of before, a minute after they were left."""
    with contextlib.ExitStack() as running:
        def start(name="redis", **options):
            directory = tmp_path / name
            directory.mkdir()
            shutil.copy(DATA / "layout1.rdb", directory / "dump.rdb")
            clock = FakeClock(tmp_path / f"{name}.clock", WAS["made_ms"] + 60_000 - int(time.time() * 1000))
            return running.enter_context(RedisServer(directory=directory, env=clock.env(library), **options))

        yield start


@pytest.fixture
def before(start_before):
    return start_before()


def layouts(server):
    """Of each shard; None: a hash."""
    out = []
    for core in cores(server):
        try:
            out.append(server.client().get(core)[0])
        except redis.exceptions.ResponseError:
            out.append(None)
    return out


def cores(server):
    return sorted(server.client().scan_iter("{tarry:*:core", count=1000))


def dump(server):
    return {key: server.client().dump(key) for key in server.client().scan_iter(count=1000)}


class Listener:
    """What another program sees of a server of before: it listens to the news of a shard."""

    def __init__(self, server, core):
        self.connection = server.client().connection_pool.make_connection()
        self.connection.connect()
        self.connection.send_command("SSUBSCRIBE", core.decode().removesuffix("core") + "news")
        self.connection.read_response()

    def end(self):
        self.connection.disconnect()


def expect_all(server):
    """But for the topic that looks after dead jobs: it is at work."""
    seen = shown(server.client())
    assert set(seen["topics"]) == set(WAS["topics"])
    for topic in set(WAS["topics"]) - {"tarry.dead"}:
        assert seen["topics"][topic] == WAS["topics"][topic]
        assert seen["jobs"][topic] == WAS["jobs"][topic]


def fsck(server):
    return subprocess.run([str(BINARY), "fsck", "--store", server.url], capture_output=True, text=True, check=False, timeout=120)


# ---- nothing is lost ----

def test_all_that_was_in_it_is_there_afterwards(before, start_server):
    server = start_server("--store", before.url)
    expect_all(server)
    assert layouts(before) == [LAYOUT] * 3 and server.log().count("a shard of before was converted") == 3
    client = server.client()
    assert client.push("orders", "remembered-7")["result"] == "existed", "a finished id is remembered still"
    assert [answer["result"] for answer in client.ack(*WAS["leases"].values())] == ["ok"] * len(WAS["leases"]), "a lease stands at the next version, too"
    assert client.push("empty", "a")["result"] == "created" and client.push("empty", "a")["result"] == "existed", "settings are in force"
    ids = [job["id"] for job in client.take("expires", max=12, wait="5s")]
    assert ids == [f"ready-{n}" for n in range(12)] or sorted(ids) == sorted(f"ready-{n}" for n in range(12))
    client.topic_verb("quiet", "resume")
    assert len(client.take("quiet", max=12, wait="5s")) == 12
    works(server)
    found = fsck(before)
    assert found.returncode == 0, found.stdout
    server.restart("kill")
    assert server.client().get("orders", "far-1") == WAS["jobs"]["orders"]["far-1"]


def test_servers_that_start_together_convert_it_together(before, start_server):
    servers = [start_server("--store", before.url, started=False).launch() for _ in range(3)]
    for server in servers:
        server.wait_listening()
        server.wait_ready()
        expect_all(server)
    assert layouts(before) == [LAYOUT] * 3
    found = fsck(before)
    assert found.returncode == 0, found.stdout


def add_topics(server, count):
    """As servers of before kept a topic in which nothing happens."""
    for core in cores(server):
        tag = core.decode().removesuffix(":core")
        pipe = server.client().pipeline(transaction=False)
        for n in range(count):
            pipe.hset(f"{tag}:topic:more-{n}", mapping={"paused": n % 2, "pushed": n, "acked": n})
            pipe.zadd(f"{tag}:topics", {f"more-{n}": "inf"})
        pipe.execute()


def test_one_that_was_killed_in_the_middle_is_gone_on_with(before, start_server):
    add_topics(before, 4_000)
    server = start_server("--store", before.url, started=False)
    for _ in range(3):
        server.launch()
        eventually(lambda: CONVERTING in layouts(before) or LAYOUT in layouts(before), 30, 0.001)
        server.kill()
    assert layouts(before) != [LAYOUT] * 3
    in_the_middle = dump(before)
    for core in cores(before):  # nobody takes it for whole
        if before.client().type(core) == b"string" and before.client().get(core)[0] == CONVERTING:
            said = fsck(before)
            assert said.returncode == 1 and "start a server of this version" in said.stdout + said.stderr
    assert dump(before) == in_the_middle
    servers = [start_server("--store", before.url, "--max-topics", "10000", started=False).launch() for _ in range(2)]
    for one in servers:
        one.wait_listening()
        one.wait_ready()
    assert layouts(before) == [LAYOUT] * 3
    client = servers[1].client()
    assert all(client.topic(name) == WAS["topics"][name] for name in set(WAS["topics"]) - {"tarry.dead"})
    for n in range(0, 4_000, 97):
        topic = client.topic(f"more-{n}")
        assert topic["totals"]["pushed"] == topic["totals"]["acked"] == 3 * n and topic["paused"] == (n % 2 == 1)
    assert all(before.client().zcard(core.replace(b":core", b":topics")) >= 4_000 for core in cores(before))
    assert not any(before.client().type(key) == b"hash" for key in before.client().scan_iter("*:topic:*", count=1000))


def test_a_server_at_work_whose_redis_went_back_to_before_converts_it_at_its_greeting(before, start_server):
    """A backup was put back."""
    server = start_server("--store", before.url)
    before.terminate()
    shutil.copy(DATA / "layout1.rdb", before.directory / "dump.rdb")
    before.start()
    eventually(lambda: ready(server) == 200 and layouts(before) == [LAYOUT] * 3, 20)
    assert metric(server, "tarry_redis_shards_up") == 3
    expect_all(server)


# ---- servers of before ----

def test_it_does_not_begin_while_servers_of_before_are_at_work(before, start_server):
    was = dump(before)
    listeners = [Listener(before, core) for core in cores(before) for _ in range(2)]
    said = refused("--store", before.url)
    assert "2 servers of an older version are at work on 'tarry'" in said and "stop them" in said and "docs/redis.md" in said
    for listener in listeners[1:]:
        listener.end()
    eventually(lambda: f"1 server {AT_WORK} is at work" in refused("--store", before.url), 20)
    assert dump(before) == was
    listeners[0].end()
    expect_all(start_server("--store", before.url))


def test_a_server_of_before_that_is_seen_at_the_greeting_is_waited_for(before, start_server):
    server = start_server("--store", before.url)
    before.terminate()
    shutil.copy(DATA / "layout1.rdb", before.directory / "dump.rdb")
    before.launch()
    listener = eventually(lambda: attempt(lambda: Listener(before, cores(before)[1])), 20, 0.001)
    if layouts(before)[1] is not None:
        pytest.fail("the server was faster than the listener")
    eventually(lambda: f"servers {AT_WORK}" in server.log(), 20)
    assert ready(server) == 200 and layouts(before)[1] is None, "the other shards go on"
    listener.end()
    eventually(lambda: layouts(before) == [LAYOUT] * 3 and metric(server, "tarry_redis_shards_up") == 3, 20)
    expect_all(server)


def attempt(function):
    try:
        return function()
    except redis.exceptions.RedisError:
        return None


def test_where_the_user_may_not_ask_for_them_it_is_said(before):
    was = dump(before)
    before.call("ACL", "SETUSER", "tarry", "on", ">x", "~*", "&*", "+@all", "-spublish")
    said = refused("--store", f"redis://tarry:x@127.0.0.1:{before.port}")
    assert "does not let this user ask whether servers of an older version are at work" in said and "docs/redis.md" in said
    assert dump(before) == was


# ---- a layout of later ----

def test_a_newer_layout_is_refused_at_the_start_and_by_servers_at_work(start_redis, start_server):
    store = start_redis()
    server = start_server("--store", store.url, "--store-timeout", "1s")
    works(server)
    client = store.client()
    core = client.get("{tarry:0}:core")
    client.set("{tarry:0}:core", bytes([NEWEST + 1]) + core[1:])
    was = dump(store)
    assert push_answer(server, "works", "b").status == 503
    assert client.get("{tarry:0}:core")[0] == NEWEST + 1
    eventually(lambda: "stored by a newer tarry" in server.log(), 10)
    said = refused("--store", store.url)
    assert "'{tarry:0}:core'" in said and f"is of layout {NEWEST + 1} and this version reads up to {NEWEST}" in said
    found = fsck(store)
    assert found.returncode == 1 and f"is of layout {NEWEST + 1}" in found.stdout + found.stderr
    assert {key: value for key, value in dump(store).items() if b":ticket" not in key} == {key: value for key, value in was.items() if b":ticket" not in key}
    client.set("{tarry:0}:core", core)
    eventually(lambda: push_answer(server, "works", "b").status in (200, 201), 20)
