"""A missing core: every call is refused before anything was changed, and hello recreates it."""

import struct

import pytest
import redis
from abi import ACK, CANCEL, CREATED, OK, TOPIC_GET, TOPIC_PUT, Shard, job

CALLS = {
    "push": lambda shard: shard.push("t", job("a")),
    "take": lambda shard: shard.take("t"),
    "answer": lambda shard: shard.answer((ACK, 1)),
    "change": lambda shard: shard.change("t", (CANCEL, "a")),
    "advance": lambda shard: shard.advance(),
    "get": lambda shard: shard.get("t", "a"),
    "list": lambda shard: shard.list("t"),
    "topic": lambda shard: shard.topic(TOPIC_PUT, "t"),
    "look at a topic": lambda shard: shard.topic(TOPIC_GET, "t", ticket=b""),
    "topics": lambda shard: shard.topics(),
    "purge": lambda shard: shard.purge("t"),
    "redrive": lambda shard: shard.redrive("t"),
    "look": lambda shard: shard.look(),
    "forecast": lambda shard: shard.forecast("", [5]),
    "pack": lambda shard: shard.pack(),
    "adjust": lambda shard: shard.jump(5),
}


@pytest.mark.parametrize("name", CALLS)
def test_without_a_core_every_call_is_refused_and_leaves_nothing(redis_server, name):
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    with pytest.raises(redis.exceptions.ResponseError, match="^GONE"):
        CALLS[name](shard)
    assert redis_server.call("DBSIZE") == 0


def test_hello_recreates_a_lost_core_and_reports_it_without_repeating_numbers(shard):
    shard.push("t", job("old"))
    [old] = shard.take("t")
    shard.push("t", job("waiting"))
    shard.client.delete(shard.core)
    again = shard.hello()
    assert again.is_new == 1 and shard.hello().is_new == 0
    assert again.sequence > 10**12, "above any that was counted up"
    [waiting] = shard.take("t")
    assert waiting.id == b"waiting" and waiting.delivery > old.delivery
    assert [answer[0] for answer in shard.answer((ACK, old.delivery), (ACK, waiting.delivery))] == [OK, OK]


def test_a_call_for_a_core_that_was_created_again_is_refused(shard):
    """The ticket ends with the window and the end of the lease key that the server knows."""
    now, known = shard.hello().now, shard.hello().lease_key[-8:]
    window = struct.pack(">IHIH", (now - 60000) >> 16, (now - 60000) & 0xffff, (now + 60000) >> 16, (now + 60000) & 0xffff)
    assert shard.push("t", job("a"), ticket=shard.ticket().encode() + window + known)[0][0] == CREATED
    with pytest.raises(redis.exceptions.ResponseError, match="^GONE"):
        shard.push("t", job("b"), ticket=shard.ticket().encode() + window + b"another!")
    with pytest.raises(redis.exceptions.ResponseError, match="^GONE"):
        shard.take("t", ticket=shard.ticket().encode() + window + b"another!")


def test_numbers_continue_above_those_of_a_core_that_a_server_used_before(shard):
    shard.client.flushall()
    assert shard.hello(drawn=b"another-key-1234").sequence == 0
    shard.push("t", job("a"))
    [first] = shard.take("t")
    assert shard.hello(drawn=b"another-key-5678", known=b"abcdef01").sequence > 10**12
    shard.push("t", job("b"))
    [second] = shard.take("t")
    assert second.delivery > 10**12 > first.delivery
    shard.client.flushall()
    assert shard.hello(drawn=b"another-key-9999", known=b"abcdef01").sequence > 10**12, "of the server that creates it"
    assert shard.hello(known=b"key-9999").sequence == shard.hello(known=b"key-9999").sequence, "the same core"


def test_the_name_of_the_queue_is_chosen_once_and_kept(shard):
    assert shard.hello().name == b""
    assert shard.hello(name="a" * 32).name == b"a" * 32
    assert shard.hello(name="b" * 32).name == b"a" * 32
    assert shard.hello().name == b""
    shard.client.flushall()
    assert shard.hello(name="b" * 32).name == b"b" * 32
