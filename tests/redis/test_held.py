"""A shard whose clock is stopped, for tests of users' programs: it moves only on command, and the next event is known exactly."""

import pytest
import state
from abi import CANCEL, DELAYED, LEASED, NONE, READY, Shard, job

START = 1_893_456_000_000  # 2030
HOUR_MS = 3_600_000
HELD = -(2**47)  # mark of a head in place of an adjustment


@pytest.fixture
def held(redis_server):
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    shard.hello(held=START)
    yield shard
    shard.must_be_sound()


def core(shard):
    return state.core_of(shard.client, shard.tag)


def test_a_held_clock_shows_its_time_and_every_head_marks_it(held):
    answer = held.hello()
    assert (answer.now, answer.adjust) == (START, HELD)
    assert (core(held).core_flags, core(held).adjust) == (state.HELD, START)
    assert held.hold(START + HOUR_MS).now == START + HOUR_MS
    assert held.hello(held=START).now == START + HOUR_MS, "hello leaves a shard that is there alone"


def test_nothing_is_due_before_it_is_moved_and_then_it_is(held):
    held.push("t", job("a", delay=HOUR_MS), job("b", at=START + HOUR_MS))
    held.advance_all()
    assert held.get("t", "a").due == START + HOUR_MS + 1 and {held.get("t", name).state for name in "ab"} == {DELAYED}
    held.hold(START + HOUR_MS)
    held.advance_all()
    assert (held.get("t", "a").state, held.get("t", "b").state) == (DELAYED, READY)
    held.hold(START + HOUR_MS + 1)
    [a, b] = sorted(held.take("t", lease=60_000), key=lambda taken: taken.id)
    assert held.get("t", "a").state == LEASED
    held.hold(START + HOUR_MS + 1 + 60_001)
    held.advance_all()
    assert held.get("t", "a").state == DELAYED


def test_a_held_clock_can_go_back_and_ignores_adjustments(held):
    held.hold(START + HOUR_MS)
    assert held.hold(START).now == START
    assert held.change_call("adjust", 0, 5000).now == START and core(held).adjust == START


def test_the_next_event_is_exact_after_a_search(held):
    held.push("t", job("early", delay=1000), job("late", delay=HOUR_MS))
    held.change("t", (CANCEL, "early"))
    assert held.hello().next <= START + 1001
    assert held.hold().next == START + HOUR_MS + 1
    held.change("t", (CANCEL, "late"))
    assert held.hold().next == NONE


def test_a_shard_with_a_running_clock_is_not_held(shard):
    before = shard.hello()
    assert shard.hold(START).adjust == 0 and shard.hello().now - before.now < HOUR_MS
    assert core(shard).core_flags == 0
