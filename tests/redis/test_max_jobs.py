"""The max_jobs of a topic and of its groups: the share of one shard of eight, rounded up."""

import abi
import state
from abi import ACK, CREATED, GROUP_FULL, GROUP_PUT, NOT_EMPTY, OK, REPLACED, TOPIC_FULL, TOPIC_PUT, batch, flow, job, settings


CLOSE = 7


def statuses(answers):
    return [answer[0] for answer in answers]


def test_a_batch_is_let_in_up_to_the_limit(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=17), 1)
    assert statuses(shard.push("t", *(job(f"j{i}") for i in range(5)))) == [CREATED] * 3 + [TOPIC_FULL] * 2
    assert statuses(shard.push("t", job("j0"), job("new"), job("made", made=True))) == [REPLACED, TOPIC_FULL, TOPIC_FULL]


def test_a_repeated_id_in_a_batch_counts_once(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=16), 1)
    assert statuses(shard.push("t", job("a"), job("a"), job("b"), job("c"))) == [CREATED, REPLACED, CREATED, TOPIC_FULL]


def test_delayed_and_leased_ones_count_and_purged_ones_do_not(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=16), 1)
    shard.push("t", job("a"), job("b", delay=60000))
    shard.take("t")
    assert statuses(shard.push("t", job("c"))) == [TOPIC_FULL]
    shard.purge_all("t")
    assert statuses(shard.push("t", job("c"), job("d"))) == [CREATED, TOPIC_FULL]
    shard.topic(TOPIC_PUT, "t", settings(), 1)
    assert statuses(shard.push("t", job("d"))) == [CREATED]


def test_dead_ones_count(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=8), 1)
    assert statuses(shard.push("t", job("dead", past=(1, 3, b"gave up")))) == [CREATED]
    assert statuses(shard.push("t", job("new"))) == [TOPIC_FULL]


def put_group_jobs(shard, most):
    return shard.topic(TOPIC_PUT, "t", settings(flow=flow(group_jobs=most)), 1)[0]


def test_a_group_has_its_own_maximum(shard):
    put_group_jobs(shard, 16)
    assert statuses(shard.push("t", *(job(f"{group}{i}", group=group, delay=i * 60000) for i in range(3) for group in "ab"))) == [CREATED] * 4 + [GROUP_FULL] * 2
    shard.group(GROUP_PUT, "t", "a", max_jobs=24)
    assert statuses(shard.push("t", job("a3", group="a"), job("a4", group="a"), job("b3", group="b"))) == [CREATED, GROUP_FULL, GROUP_FULL]


def test_a_job_that_changes_its_group_makes_room_for_the_next_of_the_same_call(shard):
    put_group_jobs(shard, 8)
    assert statuses(shard.push("t", job("1", group="a"), job("1", group="b"), job("2", group="a"), job("3", group="b"))) == [CREATED, REPLACED, CREATED, GROUP_FULL]


def test_jobs_from_before_are_counted(shard):
    shard.push("t", *(job(f"{i}", group="a" if i % 3 else None, delay=i * 6000) for i in range(300)))
    assert put_group_jobs(shard, 2400) == OK
    assert shard.client.hgetall(f"{shard.tag}:waits:t") == {b"": b"99", b"a": b"200"}  # one is due at once
    assert statuses(shard.push("t", *(job(f"new{i}", group="a") for i in range(101)))) == [CREATED] * 100 + [GROUP_FULL]


def test_more_jobs_than_one_call_may_count_are_not_counted(shard):
    shard.push("t", job("delayed", group="a", delay=3_600_000))
    shard.check = False  # a count of jobs that do not exist
    state.topic_change(shard.client, shard.tag, "t", delayed=100_001)
    assert put_group_jobs(shard, 8) == NOT_EMPTY
    assert shard.group(GROUP_PUT, "t", "a", max_jobs=8)[0] == NOT_EMPTY
    assert shard.group(GROUP_PUT, "t", "a", weight=2)[0] == OK
    state.topic_change(shard.client, shard.tag, "t", delayed=1)


def waiting(shard):
    return shard.client.hgetall(f"{shard.tag}:waits:t")


def test_a_job_that_waits_for_members_counts_once(shard):
    """It is looked at when its batch must be closed, and again at the end of its wait."""
    put_group_jobs(shard, 8)
    shard.push("t", job("w", group="a", batch=batch(waits=True, close=1000, wait=5000)), job("dies", group="b", batch=batch(waits=True, close=1000, wait=5000)))
    shard.push("m", job("member", batch=batch(of=("t", "w"))))
    assert waiting(shard) == {b"a": b"1", b"b": b"1"}
    shard.change("t", (CLOSE, "w"))
    shard.jump(1001)
    shard.advance_all()
    assert waiting(shard) == {b"a": b"1"}
    assert statuses(shard.push("t", job("more", group="a", delay=1000), job("free", group="b", delay=1000))) == [GROUP_FULL, CREATED]
    shard.jump(4001)
    shard.advance_all()
    assert waiting(shard) == {}
    assert {taken.id for taken in shard.take("t")} == {b"w", b"free"}
    assert statuses(shard.push("t", job("more", group="a", delay=1000))) == [GROUP_FULL], "the leased job counts"
    [member] = shard.take("m")
    shard.answer((ACK, member.delivery))


def test_more_bytes_than_one_call_may_read_are_not_counted(shard):
    shard.push("t", *(job(f"{i}", b"x" * 1000, group="a", delay=3_600_000) for i in range(200)))
    text = abi.library()
    assert text.count(b"256 * 2 ^ 20") == 1
    shard.client.execute_command("FUNCTION", "LOAD", "REPLACE", text.replace(b"256 * 2 ^ 20", b"150000"))
    try:
        assert put_group_jobs(shard, 8) == NOT_EMPTY
        assert shard.group(GROUP_PUT, "t", "a", max_jobs=8)[0] == NOT_EMPTY
        shard.purge("t", state=1, most=100)
        assert put_group_jobs(shard, 8) == OK
    finally:
        shard.client.execute_command("FUNCTION", "LOAD", "REPLACE", text)
