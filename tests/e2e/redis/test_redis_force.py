"""Changed settings of Redis while servers run: an eviction policy, weaker durability after a failover, no room."""

import pytest
from redis_servers import RedisServer, Sentinel
from redis_serving import info, metric, push_answer, ready, works
from server import eventually


@pytest.fixture
def redis():
    with RedisServer(aof="always") as server:
        yield server


def test_an_eviction_policy_set_at_run_time_is_reported_and_stops_service(redis, start_server):
    server = start_server("--store", redis.url, "--shards", "2")
    redis.config("maxmemory-policy", "allkeys-random")
    eventually(lambda: ready(server) == 503, 3)
    answer = info(server)
    assert answer["durability_class"] == "none" and "may evict" in answer["durability"] and answer["accepting"] is False
    assert 'event="redis may evict jobs"' in server.log() and "policy=allkeys-random" in server.log() and "level=error" in server.log()
    assert metric(server, "tarry_store_accepting") == 0
    redis.config("maxmemory-policy", "noeviction")
    eventually(lambda: ready(server) == 200, 3)
    assert info(server)["durability_class"] == "always" and server.log().count("redis may evict jobs") == 1


def test_required_durability_is_held_against_an_eviction_policy(redis, start_server):
    server = start_server("--store", redis.url, "--shards", "2", "--require-durability", "always", "--store-timeout", "1s")
    redis.config("maxmemory-policy", "volatile-lru")
    eventually(lambda: ready(server) == 503, 4)
    assert "less than --require-durability" in server.log()
    redis.config("maxmemory-policy", "noeviction")
    eventually(lambda: ready(server) == 200, 4)
    works(server)


def test_the_durability_of_redis_is_read_again_at_each_greeting(redis, start_server):
    server = start_server("--store", redis.url, "--shards", "2")
    redis.config("appendfsync", "everysec")
    redis.cut_connections()
    eventually(lambda: info(server)["durability_class"] == "everysec")
    assert info(server)["sync"] == "everysec" and "two seconds" in info(server)["durability"]
    assert "was=always is=everysec" in server.log()
    works(server)


def test_required_durability_is_held_after_a_failover(start_server):
    with Sentinel(aof="always", replicas=1) as group:
        server = start_server("--store", group.url, "--shards", "2", "--require-durability", "always", "--store-timeout", "1s")
        replica = next(redis for redis in group.servers if redis is not group.master)
        replica.config("appendonly", "no")
        group.fail_over()
        eventually(lambda: ready(server) == 503, 20)
        assert push_answer(server, "t", "a").status == 503
        assert "it promises less than --require-durability" in server.log()
        replica.config("appendonly", "yes")
        eventually(lambda: ready(server) == 200, 20)
        works(server)


def test_a_full_redis_is_reported_before_a_push_is_rejected(redis, start_server):
    server = start_server("--store", redis.url, "--shards", "2")
    assert push_answer(server, "t", "a").status == 201
    redis.config("maxmemory", 1)
    eventually(lambda: ready(server) == 503, 3)
    assert metric(server, "tarry_store_accepting") == 0 and 'event="redis is full"' in server.log()
    late = start_server("--store", redis.url, started=False)
    late.launch().wait_listening()
    assert ready(late) == 503 and metric(late, "tarry_store_accepting") == 0, "at the start, too"
    [job] = server.client().take("t")
    assert server.client().ack(job["lease"])[0]["result"] == "ok"
    redis.config("maxmemory", 0)
    eventually(lambda: ready(server) == ready(late) == 200, 3)
    assert server.log().count("redis has room again") == 1, "of the shard that was asked"
    works(late)
