"""Jobs that wait for the members of a batch, in Redis: several servers, kills, and what tarry fsck finds."""

import os
import subprocess

import pytest
from batch_kills import complete_while_killed
from client import Refused
from redis_servers import RedisServer
from server import BINARY

BATCHES = int(os.environ.get("TARRY_TEST_BATCHES", "40"))
KILLS = int(os.environ.get("TARRY_TEST_BATCH_KILLS", "4"))


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


def test_each_batch_completes_once_while_servers_are_killed(redis, start_server):
    servers = [start_server("--store", redis.url) for _ in range(3)]
    complete_while_killed(servers, BATCHES, 200 if BATCHES > 100 else 20, KILLS)
    servers[0].client().topic_verb("m", "purge")
    assert redis.client().keys("*:batches") == [] and redis.client().keys("*:members:*") == []


def test_several_shards_reject_batches(redis, start_server):
    client = start_server("--store", redis.url, "--shards", "2").client()
    with pytest.raises(Refused) as refused:
        client.good("PUT", "/v1/topics/t/jobs/w?waits=true", b"done")
    assert (refused.value.status, refused.value.code) == (501, "unsupported")


def test_fsck_accepts_open_batches(redis, start_server):
    client = start_server("--store", redis.url).client()
    client.good("PUT", "/v1/topics/t/jobs/w?waits=true", b"done")
    for number in range(5):
        client.good("PUT", f"/v1/topics/m/jobs/{number}?batch_topic=t&batch_id=w", b"x")
    for job in client.take("m", max=2):
        client.ack(job["lease"])
    done = subprocess.run([str(BINARY), "fsck", "--store", redis.url], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
