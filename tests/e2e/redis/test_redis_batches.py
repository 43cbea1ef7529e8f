"""Jobs that wait for the members of a batch, in Redis: several servers, kills, and what tarry fsck finds."""

import os
import subprocess

import pytest
from batch_kills import complete_while_killed
from redis_servers import RedisServer
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
