"""A pause for a time: in topic.lua, and its end in a step."""

import pytest
import state
from abi import OK, TOPIC_GET, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME, job


def pauses(shard):
    return dict(shard.client.zrange(shard.tag + ":pauses", 0, -1, withscores=True))


def core_flags(shard):
    return state.core_of(shard.client, shard.tag).core_flags


def pause(shard, name, ms, **more):
    status, topic = shard.topic(TOPIC_PAUSE, name, pause_ms=ms, **more)
    assert status == OK and topic.paused
    return topic.paused_until


def test_a_timed_pause_ends_in_the_next_step_and_reports_ready_jobs(shard):
    shard.push("t", job("a"))
    now = shard.hello().now
    until = pause(shard, "t", 5000)
    assert 5000 < until - now < 6000 and pauses(shard) == {b"t": until}
    assert shard.take("t") == [] and shard.look("t") == []
    shard.jump(4000)
    shard.advance()
    assert shard.stats("t").paused and shard.take("t") == []
    shard.jump(1500)
    step, more, woken = shard.advance()
    assert woken == [b"t"] and not pauses(shard)
    topic = shard.stats("t")
    assert (topic.paused, topic.paused_until) == (0, 0)
    assert [found.id for found in shard.take("t")] == [b"a"]


def test_its_end_is_the_shards_next_event(shard):
    until = shard.topic(TOPIC_PUT, "t") and pause(shard, "t", 5000)
    answer = shard.call("look")
    assert answer.next == until
    shard.push("u", job("later", delay=60_000))
    assert shard.call("look").next == until
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    sooner = pause(shard, "t", 1000)
    assert notifications.parse_response()[2][9:] == b"d%d " % sooner
    notifications.close()


def test_a_take_in_the_same_step_gets_the_waiting_jobs(shard):
    shard.push("t", job("a"))
    pause(shard, "t", 1000)
    shard.jump(1500)
    assert [found.id for found in shard.step(takes=[("t", 10)], most=100).jobs[0]] == [b"a"]


@pytest.mark.parametrize("how", ["resume", "pause", "delete", "longer"])
def test_a_later_pause_replaces_it(shard, how):
    shard.push("t", job("a"))
    pause(shard, "t", 1000)
    if how == "resume":
        shard.topic(TOPIC_RESUME, "t")
    elif how == "pause":
        shard.topic(TOPIC_PAUSE, "t")
    elif how == "delete":
        while shard.purge("t", verb="delete")[1]:
            pass
        shard.push("t", job("a"))
    else:
        pause(shard, "t", 100_000)
    shard.jump(2000)
    shard.advance()
    assert bool(shard.stats("t").paused) == (how in ("pause", "longer"))
    assert (b"t" in pauses(shard)) == (how == "longer")


def test_until_a_moment_of_the_wall_clock(shard):
    now = shard.hello().now
    shard.jump(3_600_000)
    status, topic = shard.topic(TOPIC_PAUSE, "t", makes=1, pause_until=now + 5000)
    assert status == OK and topic.paused_until == now + 5000 + 3_600_000


def test_the_first_pause_with_an_end_is_noted_in_the_core_for_good(shard):
    shard.push("t", job("a"))
    shard.topic(TOPIC_PAUSE, "t")
    assert core_flags(shard) == 0
    pause(shard, "t", 1000)
    assert core_flags(shard) == state.PAUSES
    shard.topic(TOPIC_RESUME, "t")
    assert core_flags(shard) == state.PAUSES


def test_many_pauses_end_in_bounded_steps(shard):
    shard.check = False
    for n in range(30):
        shard.push(f"t{n}", job("a"))
        pause(shard, f"t{n}", 1000)
    shard.jump(1500)
    ended = 0
    while pauses(shard):
        _, _, woken = shard.advance(most=8)
        assert len(woken) <= 8
        ended += len(woken)
    assert ended == 30
    shard.must_be_sound()


def test_an_unended_pause_shows_its_end(shard):
    shard.topic(TOPIC_PUT, "t")
    until = pause(shard, "t", 1000)
    assert shard.topic(TOPIC_GET, "t", ticket=b"")[1].paused_until == until
    assert shard.topics()[1][b"t"].paused_until == until
