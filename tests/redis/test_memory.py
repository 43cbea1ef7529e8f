"""A Redis that may not grow (maxmemory, noeviction): pushes are refused whole, what frees memory still works."""

import pytest
import redis
from abi import ACK, CANCEL, EXTEND, NACK, OK, RETURN, Shard, job


@pytest.fixture
def full(own_redis):
    shard = Shard(own_redis.client())
    shard.hello()
    shard.push("t", *[job(f"taken{n}", b"x" * 1000) for n in range(8)])
    leases = shard.take("t")
    shard.push("t", *[job(f"ready{n}", b"x" * 1000) for n in range(20)], *[job(f"due{n}", b"x" * 1000, delay=1000) for n in range(20)],
               *[job(f"later{n}", b"x" * 1000, delay=60_000) for n in range(20)], *[job(f"dead{n}", past=(1, 1, b"")) for n in range(5)])
    shard.leases = leases
    own_redis.config("maxmemory", 1_000_000)
    yield shard
    shard.must_be_sound()


def test_a_push_is_refused_whole(full):
    before = full.dump()
    for jobs in ([job("a")], [job(f"b{n}", b"x" * 10_000, delay=5) for n in range(100)]):
        with pytest.raises(redis.exceptions.ResponseError, match="^OOM"):
            full.push("t", *jobs)
    assert full.dump() == before


def test_calls_that_end_or_move_jobs_still_work(full):
    verbs = (ACK, NACK, EXTEND, RETURN)
    assert {status for status, *_ in full.answer(*[(verbs[at % 4], found.delivery) for at, found in enumerate(full.leases)])} == {OK}
    assert full.change("t", (CANCEL, "later0"))[0][0] == 4
    full.jump(1100)
    full.advance_all()
    assert full.stats("t").ready >= 40
    assert len(full.take("t", 5)) == 5
    assert full.redrive("t")[2] == 5
    assert full.purge_all("t") > 0


def test_when_room_is_made_pushes_work_again(full):
    with pytest.raises(redis.exceptions.ResponseError, match="^OOM"):
        full.push("t", job("a"))
    full.client.config_set("maxmemory", 0)
    assert full.push("t", job("a"))[0][0] == 1


def test_the_refused_call_may_be_made_again_with_its_ticket(full):
    ticket = full.ticket()
    with pytest.raises(redis.exceptions.ResponseError, match="^OOM"):
        full.push("t", job("a"), ticket=ticket)
    full.client.config_set("maxmemory", 0)
    assert full.push("t", job("a"), ticket=ticket)[0][0] == 1
