"""Redis loses its data under servers that run: by FLUSHALL, by hand, by a replica that knew nothing."""

import shutil
import subprocess
import threading

import pytest
import state
from redis_servers import RedisServer
from redis_serving import info, metric, push_answer, ready, refused, works
from server import BINARY, eventually
from sql_serving import push_until


@pytest.fixture(scope="module")
def shared():
    with RedisServer() as server:
        yield server


@pytest.fixture
def fresh(shared):
    shared.client().flushall()
    return shared


def name_of(redis):
    [key] = redis.client().keys("{tarry:0*}:name")
    return redis.client().get(key)


def fsck(redis):
    return subprocess.run([str(BINARY), "fsck", "--store", redis.url], capture_output=True, text=True, check=False, timeout=60)


def losses_logged(server):
    return server.log().count('event="the queue is missing"')


def test_after_flushall_the_first_server_to_notice_recreates_the_queue(fresh, start_server):
    one = start_server("--store", fresh.url, "--shards", "2")
    one.client().put_topic("paused", lease_for="5s")
    assert push_answer(one, "t", "before").status == 201
    name = name_of(fresh)
    fresh.client().flushall()
    assert push_answer(one, "t", "1").status == 201
    eventually(lambda: losses_logged(one) == 2 and metric(one, "tarry_redis_losses_total") == 2)
    assert fresh.client().get("{tarry}:shards") == b"2"
    assert name_of(fresh) not in (name, None) and len(name) == 32
    other = start_server("--store", fresh.url)
    assert info(other)["shards"] == 2
    assert other.client().push("t", "1")["result"] == "replaced", "the same job, seen through both"
    assert other.client().cancel("t", "1")["result"] == "cancelled"
    assert one.client().take("t") == []
    for number in range(100):
        assert push_answer((one, other)[number % 2], "kept", f"job-{number}").status == 201
    one.terminate()
    assert len(other.client().take("kept", max=1000)) == 100
    assert fsck(fresh).returncode == 0


def test_flushall_beside_a_busy_server_leaves_one_lease_key_and_repeats_no_number(fresh, start_server):
    one, busy = (start_server("--store", fresh.url, "--shards", "1") for _ in range(2))
    one.client().push("t", "old")
    [old] = one.client().take("t", lease_for="60s")
    ends, pushed = threading.Event(), []
    pushing = threading.Thread(target=push_until, args=(ends, busy.client(), "busy", "job", pushed))
    pushing.start()
    for round in range(3):
        eventually(lambda: len(pushed) > 20)
        fresh.client().flushall()
        pushed.clear()
        eventually(lambda: len(pushed) > 20)
        one.client().push("t", "old")
        [job] = eventually(lambda: one.client().take("t", lease_for="60s"))
        assert job["delivery"] > old["delivery"], "a number was repeated"
        assert busy.client().ack(job["lease"])[0]["result"] == "ok", round
        assert one.client().call("POST", f"/v1/ack?lease={old['lease']}").status == 409
        assert losses_logged(one) == losses_logged(busy) == round + 1
        old = job
    ends.set()
    pushing.join(10)


def test_an_idle_server_notices_within_a_second_or_two(fresh, start_server):
    server = start_server("--store", fresh.url, "--shards", "2")
    fresh.client().flushall()
    eventually(lambda: losses_logged(server) == 2, 3)
    eventually(lambda: len(fresh.client().keys("*:core")) == 2 and fresh.client().get("{tarry}:shards") == b"2")
    eventually(lambda: ready(server) == 200)
    works(server)


def test_a_deleted_core_is_recreated_and_the_jobs_remain(fresh, start_server):
    server = start_server("--store", fresh.url, "--shards", "1")
    assert push_answer(server, "t", "a").status == 201
    assert fresh.client().delete("{tarry:0}:core") == 1
    assert push_answer(server, "t", "b").status == 201
    assert {job["id"] for job in server.client().take("t", max=10)} == {"a", "b"}
    assert losses_logged(server) == 1


def test_a_restart_of_redis_without_data_is_reported(start_server):
    with RedisServer() as redis:
        server = start_server("--store", redis.url, "--shards", "2")
        redis.kill()
        redis.start()
        eventually(lambda: losses_logged(server) == 2)
        assert redis.client().get("{tarry}:shards") == b"2"
        works(server)


def test_a_server_that_finds_its_queue_under_another_number_of_shards_takes_nothing(fresh, start_server):
    server = start_server("--store", fresh.url, "--shards", "2")
    with fresh.client().pipeline() as both:
        both.flushall().set("{tarry}:shards", 8)
        both.execute()
    eventually(lambda: ready(server) == 503)
    assert "another number of shards, restart this server" in server.log()
    assert not fresh.client().keys("*:core")


def test_cores_without_a_shard_number_are_reported(fresh, start_server):
    fresh.client().set("{tarry:0}:core", b"\2")
    output = refused("--store", fresh.url)
    assert "has no number of shards" in output and "--shards" in output
    done = fsck(fresh)
    assert done.returncode != 0 and "the number of shards is lost" in done.stderr + done.stdout
    fresh.client().delete("{tarry:0}:core")
    works(start_server("--store", fresh.url, "--shards", "1"))
    assert state.core_of(fresh.client(), "{tarry:0}").shards == 1


def test_all_servers_of_a_queue_have_one_name_and_an_older_queue_gets_one(fresh, start_server):
    start_server("--store", fresh.url, "--shards", "2")
    name = name_of(fresh)
    start_server("--store", fresh.url)
    assert name_of(fresh) == name and len(name) == 32
    fresh.client().delete(fresh.client().keys("{tarry:0*}:name")[0])
    start_server("--store", fresh.url)
    assert len(name_of(fresh)) == 32 and name_of(fresh) != name


def snapshot(redis, into):
    redis.call("SAVE")
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy(redis.directory / "dump.rdb", into / "dump.rdb")


def restore_by_restart(redis, backup):
    redis.kill()
    shutil.copy(backup / "dump.rdb", redis.directory / "dump.rdb")
    redis.start()


def restore_by_replica(redis, backup):
    """The server continues without a restart: on another Redis, which has loaded the backup."""
    with RedisServer(directory=backup) as other:
        redis.call("REPLICAOF", "127.0.0.1", other.port)
        eventually(lambda: redis.info("replication").get("master_link_status") == "up", 20)
        redis.call("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("restore", (restore_by_restart, restore_by_replica))
def test_a_lease_from_before_a_restored_snapshot_stays_unique(restore, start_server, tmp_path):
    with RedisServer() as redis:
        server = start_server("--store", redis.url, "--shards", "1")
        client = server.client()
        for number in range(20):
            client.push("t", f"job-{number}")
        snapshot(redis, tmp_path / "backup")
        old = [job["lease"] for job in client.take("t", max=5, lease_for="1h")]
        assert len(old) == 5
        greeted = state.core_of(redis.client(), "{tarry:0}").run
        restore(redis, tmp_path / "backup")
        eventually(lambda: state.core_of(redis.client(), "{tarry:0}").run != greeted and ready(server) == 200, 20)
        taken = {job["lease"]: job["id"] for job in client.take("t", max=20, wait="5s", lease_for="1h")}
        assert len(taken) == 20, "all of the snapshot"
        assert not set(old) & set(taken)
        assert [answer["result"] for answer in client.ack(*old)] == ["lease_ended"] * 5
        assert [answer["result"] for answer in client.ack(*taken)] == ["ok"] * 20
