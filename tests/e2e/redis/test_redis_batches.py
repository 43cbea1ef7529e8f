"""Jobs that wait for the members of a batch, in Redis: several servers, kills, and what tarry fsck finds."""

import os
import subprocess
import time

import pytest
from batch_kills import complete_while_killed
from redis_servers import Cluster, RedisServer
from redis_serving import metric
from server import BINARY, eventually

BATCHES = int(os.environ.get("TARRY_TEST_BATCHES", "40"))
KILLS = int(os.environ.get("TARRY_TEST_BATCH_KILLS", "4"))


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


def left_of_batches(redis):
    """Returns the keys about batches. Another server carries what one left behind, within seconds."""
    names = ("batches", "members:*", "guests", "guest:*", "parts:*", "mail", "orders", "joins", "joined")
    return [key for name in names for key in redis.client().keys("*:" + name)]


@pytest.mark.parametrize("shards", [1, 3])
def test_each_batch_completes_once_while_servers_are_killed(redis, start_server, shards):
    servers = [start_server("--store", redis.url, "--shards", str(shards)) for _ in range(3)]
    complete_while_killed(servers, BATCHES, 200 if BATCHES > 100 else 20, KILLS)
    servers[0].client().topic_verb("m", "purge")
    eventually(lambda: not left_of_batches(redis), seconds=20)


def test_fsck_accepts_open_batches(redis, start_server):
    client = start_server("--store", redis.url).client()
    client.good("PUT", "/v1/topics/t/jobs/w?waits=true", b"done")
    for number in range(5):
        client.good("PUT", f"/v1/topics/m/jobs/{number}?batch_topic=t&batch_id=w", b"x")
    for job in client.take("m", max=2):
        client.ack(job["lease"])
    done = subprocess.run([str(BINARY), "fsck", "--store", redis.url], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def homes_of(cluster, topic, count):
    """Returns, for each server, the id of one of these jobs that wait there, by its index."""
    found = {}
    for index, server in enumerate(cluster.servers):
        for key in server.client().keys("*:batches"):
            found[index] = sorted(server.client().hkeys(key))[0].partition(b"\0")[2].decode()
    assert len(found) == len(cluster.servers), f"{count} jobs of {topic} are in {sorted(found)}"
    return found


def jobs_at(server, topic):
    """Returns the ids of the topic's jobs on this server."""
    return {ident.decode() for key in server.client().keys(f"*:job:{topic}") for ident in server.client().hkeys(key)}


def test_an_unreachable_shard_does_not_hold_back_the_counts_of_others(start_server):
    with Cluster("--cluster-require-full-coverage", "no", timeout_ms=60_000) as cluster:
        server = start_server("--store", cluster.url, "--shards", "3", "--store-timeout", "4s")
        client = server.client()
        for number in range(20):
            client.good("PUT", f"/v1/topics/t/jobs/w{number}?waits=true")
        homes = homes_of(cluster, "t", 20)
        for index in (0, 1):
            for number in range(60):
                client.good("PUT", f"/v1/topics/m{index}/jobs/{number}?batch_topic=t&batch_id={homes[index]}")
        leases = [{job["id"]: job["lease"] for job in client.take(f"m{index}", max=60)} for index in (0, 1)]
        living = [[leases[index][ident] for ident in jobs_at(cluster.servers[2], f"m{index}")] for index in (0, 1)]
        assert min(map(len, living)) > 5 and client.get("t", homes[1])["waits_for"] == 60
        cluster.servers[0].kill()
        eventually(lambda: metric(server, "tarry_redis_shards_up") == 2, 20)
        took = []
        for number, (lost, counted) in enumerate(zip(living[0][:4], living[1][:4]), 1):
            began = time.monotonic()
            client.ack(lost)
            client.ack(counted)
            assert client.get("t", homes[1])["waits_for"] == 60 - number, "the count is behind an ack that was answered"
            took.append(time.monotonic() - began)
        assert min(took) < 2, "each ack waited for the unreachable shard"  # only a busy machine is slow once
