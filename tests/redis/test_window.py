"""A caller's knowledge of the time: a step of the shard's clock makes nothing early in the time before a server noticed it."""

import pytest
import redis
import state
from abi import ACK, DELAYED, OK, READY, RUN, job, pack

HOUR_MS = 3_600_000


@pytest.fixture
def stepped(shard):
    """(the shard, the window of a caller that knows nothing of it): a job is due in a minute, one is leased."""
    shard.push("t", job("leased"))
    [shard.leased] = shard.take("t", lease=60_000)
    shard.push("t", job("later", delay=60_000))
    shard.window = window(shard.hello().now)
    return shard


def window(now):
    return pack(">I6I6", now - 500, now + 500)


def ticket(shard):
    return shard.ticket().encode() + shard.window


def step(shard, ms):
    state.core_change(shard.client, shard.tag, adjust=state.core_of(shard.client, shard.tag).adjust + ms)


def test_a_clock_that_jumped_makes_nothing_ready_and_ends_no_lease(stepped):
    step(stepped, HOUR_MS)
    latest = int.from_bytes(stepped.window[6:], "big")
    assert stepped.take("t", ticket=ticket(stepped)) == []
    assert stepped.step(most=100, ticket=ticket(stepped)).now > latest + HOUR_MS // 2, "the clock is shown as it is, so that the caller notices"
    assert stepped.get("t", "leased").attempt == 1
    topic = stepped.stats("t")
    assert (topic.delayed, topic.ready, topic.leased, topic.lease_ended) == (1, 0, 1, 0)
    assert stepped.answer((ACK, stepped.leased.delivery), ticket=ticket(stepped))[0][0] == OK
    step(stepped, -HOUR_MS)


def test_a_push_after_a_clock_jump_has_the_right_due_time(stepped):
    step(stepped, HOUR_MS)
    latest = int.from_bytes(stepped.window[6:], "big")
    stepped.push("t", job("soon", delay=1000), ticket=ticket(stepped))
    stepped.push("t", job("at", at=latest + 5000), ticket=ticket(stepped))
    assert stepped.get("t", "soon").due == latest + 1001
    assert stepped.get("t", "at").flags & 8
    step(stepped, -HOUR_MS)
    assert {stepped.get("t", name).state for name in ("soon", "later")} == {DELAYED}


@pytest.mark.parametrize("call", ["push", "take", "answer", "change", "advance"])
def test_a_clock_that_went_back_changes_nothing(stepped, call):
    step(stepped, -HOUR_MS)
    before = stepped.dump()
    with pytest.raises(redis.exceptions.ResponseError, match="^CLOCK"):
        if call == "push":
            stepped.push("t", job("a", delay=1000), ticket=ticket(stepped))
        elif call == "take":
            stepped.take("t", ticket=ticket(stepped))
        elif call == "answer":
            stepped.answer((ACK, stepped.leased.delivery), ticket=ticket(stepped))
        elif call == "change":
            stepped.change("t", (RUN, "later"), ticket=ticket(stepped))
        else:
            stepped.step(most=100, ticket=ticket(stepped))
    assert stepped.dump() == before
    step(stepped, HOUR_MS)


@pytest.mark.parametrize("behind", [1, 0])
def test_a_clock_that_is_slightly_behind_makes_no_later_job_early(shard, behind):
    """The earliest time of a window is a millisecond before that of a clock that keeps its rate. A due time by such a clock would come early once it is corrected."""
    state.core_change(shard.client, shard.tag, core_flags=state.HELD, adjust=1000_000)
    earliest = 1000_000 - 1 + behind
    shard.push("t", job("a", delay=500), ticket=shard.ticket().encode() + pack(">I6I6", earliest, earliest + 10))
    assert shard.get("t", "a").due == 1000_000 + behind + 1 + 500


def test_a_call_within_its_window_goes_by_the_shards_clock(stepped):
    stepped.window = pack(">I6I6", stepped.hello().now - 5000, stepped.hello().now + 5000)
    stepped.push("t", job("a"), ticket=ticket(stepped))
    assert stepped.get("t", "a").state == READY and abs(stepped.get("t", "a").due - stepped.hello().now) < 2000
    assert [found.id for found in stepped.take("t", ticket=ticket(stepped))] == [b"a"]
