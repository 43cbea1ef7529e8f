"""The checker of invariants finds each kind of damage."""

import pytest
from abi import TOPIC_PUT, job, settings
from invariants import scan

DAMAGES = {
    "a job gone": ("HDEL", "job:t", "ready"),
    "a try gone": ("HDEL", "try:t", "leased"),
    "a try left over": ("HSET", "try:t", "nobody", b"\0" * 37),
    "a record cut short": ("HSET", "job:t", "ready", b"abc"),
    "a count too high": ("SETRANGE", "topic:t", 2, bytes(5) + b"\x63"),
    "a sum too low": ("SETRANGE", "topic:t", 2 + 6 * 6, bytes(5) + b"\1"),
    "a topic that looks too late": ("SETRANGE", "topic:t", 2 + 16 * 6, b"\x7f"),
    "a shard that looks too late": ("SETRANGE", "core", 41, b"\x7f" + bytes(5) + b"\x7f"),
    "flags forgotten": ("SETRANGE", "topic:t", 0, bytes(2)),
    "a topic cut short": ("SET", "topic:t", b"short"),
    "a ready job dropped": ("ZREMRANGEBYRANK", "ready:t:100", 0, 0),
    "a ready job of another due": ("ZINCRBY", "ready:t:100", 1, None),
    "a priority forgotten": ("ZREM", "priorities:t", "100"),
    "a priority too many": ("ZADD", "priorities:t", 5, "5"),
    "a fresh job forgotten": ("ZREMRANGEBYRANK", "fresh:t", 0, 0),
    "a leaf forgotten": ("ZREMRANGEBYRANK", "index:t", 0, 0),
    "a leaf too many": ("ZADD", "index:t", 7, "4711"),
    "a leaf that begins too late": ("ZADD", "index:t", "XX", 2**47, "1"),
    "a lease forgotten": ("ZREMRANGEBYRANK", "leases", 0, 0),
    "a lease of another end": ("ZINCRBY", "leases", 5, None),
    "a place forgotten": ("DEL", "leased"),
    "a holder forgotten": ("DEL", "held:t"),
    "the dead forgotten": ("DEL", "dead:t"),
    "a stranger among the dead": ("ZADD", "dead:t", 5, b"\0\0\0\0\0\1nobody"),
    "an expiry forgotten": ("DEL", "expiry:t"),
    "an expiry of nobody": ("ZADD", "expiry:t", 5, b"\0\0\0\0\0\1nobody"),
    "an event slept through": ("ZADD", "topics", "+inf", "t"),
    "a topic forgotten": ("ZREM", "topics", "t"),
    "a topic's counts gone": ("DEL", "topic:t"),
    "the core gone": ("DEL", "core"),
    "an unknown key": ("SET", "what:t", 1),
    "a key of another type": ("SET", "finished:t", 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(redis_server, shard, damage):
    shard.check = False
    shard.topic(TOPIC_PUT, "t", settings(dedup=5000), 1)
    shard.push("t", job("leased"))
    shard.take("t")
    shard.push("t", job("ready"), job("expires", own={"ttl": 60_000}), job("delayed", delay=70_000), job("retrying", delay=70_000, past=(0, 1, b"")),
               job("dead", past=(1, 1, b"")))
    shard.pack_all()
    shard.push("t", job("fresh", delay=1000))
    assert scan(shard.client, shard.tag) == []
    command, key, *words = DAMAGES[damage]
    key = f"{shard.tag}:{key}"
    words = [shard.client.zrange(key, 0, 0)[0] if word is None else word for word in words]
    shard.client.execute_command(command, key, *words)
    assert scan(shard.client, shard.tag) != []
    redis_server.call("FLUSHALL")
    shard.hello()
