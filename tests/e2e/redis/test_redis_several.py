"""tarry serve on more than one Redis: behind Sentinel, as a cluster, with replicas."""

import time

import pytest
from redis_servers import Cluster, RedisServer, Sentinel
from redis_serving import info, metric, push_answer, ready, refused, works
from server import eventually, free_port
from streams import Stream


@pytest.fixture(scope="module")
def cluster():
    with Cluster(masters=3, replicas=1, aof="everysec") as servers:
        yield servers


@pytest.fixture(scope="module")
def sentinel():
    with Sentinel(replicas=2, aof="always") as group:
        yield group


def test_rejects_a_server_that_differs_from_the_url(cluster, sentinel):
    with RedisServer() as server:
        node = cluster.servers[0]
        answer = refused("--store", f"redis-cluster://127.0.0.1:{server.port}")
        assert f"'127.0.0.1:{server.port}' is not a cluster" in answer
        assert "redis-cluster://" in refused("--store", node.url)
        assert "database" in refused("--store", cluster.url + "?db=2")
        watcher = sentinel.sentinels[0]
        assert "redis-sentinel://" in refused("--store", watcher.url)
        assert "is not a sentinel" in refused("--store", f"redis-sentinel://127.0.0.1:{server.port}/tarry")
        answer = refused("--store", f"redis-sentinel://127.0.0.1:{watcher.port}/tarri")
        assert "has no master 'tarri'" in answer and "'tarry'" in answer


# ---- sentinel, replicas ----

def test_a_live_old_master_is_left_after_a_failover_of_sentinel(sentinel, start_server):
    """The old master claims to be master for some 10 s more, and its changes meanwhile are discarded."""
    started = start_server("--store", sentinel.url)
    works(started, "before")
    old, _ = sentinel.fail_over()
    eventually(lambda: metric(started, "tarry_redis_failovers_total") >= metric(started, "tarry_redis_shards"), 4)
    still_master = old.client().role()[0] == b"master"
    for number in range(20):
        assert push_answer(started, "left", f"job-{number}").status == 201
    sentinel.wait_one_master()
    print("the old master reported itself as master all the time:", still_master)
    assert sorted(job["id"] for job in started.client().take("left", max=100)) == sorted(f"job-{number}" for number in range(20))


def test_sentinel_leads_to_the_master_and_to_the_next_one(sentinel, start_server):
    started = start_server("--store", sentinel.url, "--wait-replicas", "1")
    assert info(started)["wait_replicas"] == 1 and "1 replica" in info(started)["durability"]
    works(started)
    started.client().push("later", "a", body=b"x", delay="2s")
    sentinel.fail_over()
    assert started.client(timeout=60).take("later", wait="30s")[0]["id"] == "a"
    eventually(lambda: metric(started, "tarry_redis_failovers_total") >= 1, 20)
    works(started, "after")
    assert started.terminate() == 0


def test_a_sentinel_that_is_gone_does_not_stop_a_start(sentinel, start_server):
    url = f"redis-sentinel://127.0.0.1:{free_port()}," + sentinel.url.removeprefix("redis-sentinel://")
    works(start_server("--store", url))


def test_too_few_replicas_are_reported_and_changes_rejected(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--wait-replicas", "1", "--store-timeout", "1s")
        assert "too few replicas" in started.log()
        assert push_answer(started, "alone", "a").status == 503
        client = started.client()
        assert client.call("POST", "/v1/topics/alone/take").status == 503  # it took a job, and no other server knows
        assert client.take("alone", wait="3s") == []  # it took no job: nothing can be lost


# ---- a cluster ----

def test_rejects_an_incomplete_cluster():
    with Cluster(masters=3) as servers:
        owner = servers.owner(16000)
        owner.call("CLUSTER", "DELSLOTS", 16000)
        answer = refused("--store", f"redis-cluster://127.0.0.1:{owner.port}")
        assert "no node serves slot 16000" in answer and "redis-cli --cluster check" in answer


def test_a_cluster_carries_the_queue_and_the_weakest_master_counts(cluster, start_server):
    started = start_server("--store", cluster.url)
    assert info(started)["durability_class"] == "everysec"
    works(started)
    for number in range(40):
        assert push_answer(started, "spread", f"job-{number}").status == 201
    used = sum(1 for server in cluster.master_list() if server.client().dbsize() > 0)
    assert used == 3
    assert sorted(job["id"] for job in started.client().take("spread", max=100)) == sorted(f"job-{number}" for number in range(40))
    started.terminate()
    weak = cluster.master_list()[1]
    weak.config("appendonly", "no")
    try:
        assert info(start_server("--store", cluster.url))["durability_class"] == "memory"
        answer = refused("--store", cluster.url, "--require-durability", "everysec")
        assert f"'127.0.0.1:{weak.port}'" in answer
    finally:
        weak.config("appendonly", "yes")


def test_starts_while_the_slot_that_holds_the_number_of_shards_moves(cluster, start_server):
    start_server("--store", cluster.url).terminate()
    slot = cluster.slot_of("{tarry}:shards")
    source, to = cluster.begin_move(slot)
    try:
        works(start_server("--store", cluster.url), "moving")
        assert cluster.move_keys(slot, source, to) >= 1
        works(start_server("--store", cluster.url), "moved")
        assert "3 shards" in refused("--store", cluster.url, "--shards", "5")
    finally:
        cluster.move_keys(slot, source, to)
        cluster.end_move(slot, to)


def test_a_node_of_the_cluster_that_is_gone_does_not_stop_a_start(cluster, start_server):
    url = f"redis-cluster://127.0.0.1:{free_port()}," + cluster.url.removeprefix("redis-cluster://")
    works(start_server("--store", url), "one-gone")


def test_the_shards_of_other_masters_continue_if_one_is_lost(start_server):
    with Cluster("--cluster-require-full-coverage", "no", masters=3, aof="always") as servers:
        started = start_server("--store", servers.url, "--store-timeout", "2s")
        client = started.client()
        servers.servers[1].kill()
        eventually(lambda: 0 < metric(started, "tarry_redis_shards_up") < 3, 20)
        time.sleep(1.5)  # longer than a reconnection takes
        assert ready(started) == 200 and info(started)["healthy"] is True
        began = time.monotonic()
        assert client.take("others", wait="3s") == [] and time.monotonic() - began > 2.5, "it waits for the shards there are"
        answers = {ident: push_answer(started, "others", ident).status for ident in map(str, range(12))}
        made = [ident for ident, status in answers.items() if status == 201]
        assert 0 < len(made) < 12 and set(answers.values()) == {201, 503}
        assert sorted(job["id"] for job in client.take("others", max=12)) == sorted(made)


def test_databases_of_one_redis_are_independent(start_server):
    with RedisServer() as redis:
        first, second = (start_server("--store", f"redis://127.0.0.1:{redis.port}/{number}") for number in range(2))
        with Stream(first.port, "/v1/events") as ours, Stream(second.port, "/v1/events") as theirs:
            for at in range(3):
                first.client().push("secret", f"s{at}")
                first.client().take("secret")
            first.client().put_topic("secret", max_attempts=1)
            assert ours.data("pushed")["topic"] == "secret"
            time.sleep(0.5)
            second.client().push("plain", "p", delay="300ms")  # what comes first to the other one is its own
            assert theirs.next()[1]["topic"] == "plain"
            assert second.client().take("plain", wait="10s") and theirs.data("delivered")["topic"] == "plain"
