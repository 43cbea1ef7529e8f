"""A shard that is given up: its jobs leave page by page, and arrive once."""

import pytest
import redis
from abi import (ACK, CANCEL, CANCELLED, CREATED, DEAD, DELAYED, EXISTED, GROUP_PUT, LEASED, NACK, NOT_FOUND, OK, READY, REFUSE, TOPIC_GET, TOPIC_PAUSE, TOPIC_PUT,
                 Shard, flow, job, settings)

ELSEWHERE, MOVING = 21, 22
STAYS, ANNOUNCED, SEALED, LEAVING, CLOSED = range(5)
NOTHING, PAGE, BUSY, EMPTY = range(4)
JOBS, IDS, TOTALS = 1, 2, 3
HOUR = 3600_000


@pytest.fixture
def new(redis_server, shard):
    """A shard of the next generation; `shard` goes there."""
    new = Shard(redis_server.client(), tag="{tarry:1.1:0}")
    new.hello(shards=1)
    assert new.reshard("prepare") == (STAYS, "")
    return new


def go(shard, *verbs):
    for verb in verbs:
        state = shard.reshard(verb)
    return state


def move_all(shard, new, most=100):
    """Moves jobs like a server; returns how many."""
    moved = 0
    for _ in range(10_000):
        what, page, _, kind, topic, entries = shard.leave(most)
        if what != PAGE:
            return moved, what
        new.arrive("0", page, kind, topic, entries)
        shard.drop(page)
        moved += len(entries) if kind == JOBS else 0
    raise AssertionError("there is always more")


def test_each_step_is_taken_once_and_to_one_generation(shard):
    assert shard.reshard("announce", "4@1") == (ANNOUNCED, "4@1")
    assert shard.reshard("announce", "2@1") == (ANNOUNCED, "4@1")
    assert shard.reshard("seal", "2@1") == (ANNOUNCED, "4@1")
    assert shard.reshard("seal", "4@1") == (SEALED, "4@1")
    assert shard.reshard("announce", "4@1") == (SEALED, "4@1")
    rest = shard.call("look").rest[18:]
    assert rest[:1] + rest[7:] == bytes([SEALED]) + b"4@1" and int.from_bytes(rest[1:7], "big") == shard.hello().sequence


def test_the_progress_is_returned_to_ask(shard):
    state = shard.reshard("ask", "4@1")
    assert state[0] == STAYS and state[1].encode() == bytes(4)  # open batches
    for verb, step in ("announce", ANNOUNCED), ("seal", SEALED), ("leave", LEAVING):
        assert shard.reshard(verb, "4@1") == shard.reshard("ask", "4@1") == shard.reshard("ask", "2@1") == (step, "4@1")


def test_numbers_of_the_next_generation_begin_above_earlier_ones(shard, new):
    sequence = shard.hello().sequence
    assert new.hello(shards=1).sequence > sequence + (1 << 32)
    far = 1 << 46
    assert new.reshard("prepare", least=far) == (STAYS, "") and new.hello(shards=1).sequence > far + (1 << 32)
    assert new.reshard("prepare", least=9) == (STAYS, "") and new.hello(shards=1).sequence > far
    # Also where Redis is started again in between: both then go on beyond what the clock gives.
    for each in shard, new:
        each.hello(shards=1, run="another")
    shard.push("t", job("a"))
    [taken] = shard.take("t")
    shard.answer((ACK, taken.delivery))
    new.push("t", job("a"))
    [again] = new.take("t")
    assert again.delivery > taken.delivery


def test_a_sealed_shard_rejects_new_ids_and_serves_existing_ones(shard):
    shard.topic(TOPIC_PUT, "t", settings(dedup=HOUR))
    shard.push("t", job("a", delay=HOUR), job("done"))
    [taken] = shard.take("t")
    shard.answer((ACK, taken.delivery))
    go(shard, "announce")
    assert shard.push("t", job("b", delay=HOUR))[0][0] == CREATED
    go(shard, "seal", "adopt")
    assert [status for status, *_ in shard.push("t", job("c"), job("a", on_conflict=2), job("done"), job("m", made=True))] == [ELSEWHERE, EXISTED, EXISTED, ELSEWHERE]
    assert [status for status, *_ in shard.push("other", job("a"))] == [ELSEWHERE]
    assert shard.topic(TOPIC_GET, "other", ticket=b"")[0] == NOT_FOUND
    assert shard.topic(TOPIC_PUT, "other", settings())[0] == NOT_FOUND
    assert [status for status, *_ in shard.change("t", (CANCEL, "a"), (CANCEL, "c"))] == [CANCELLED, NOT_FOUND]


def test_a_server_that_has_not_noticed_is_rejected_without_changes(shard):
    shard.push("t", job("a", delay=HOUR))
    go(shard, "announce", "seal")
    before = shard.dump()
    for call in (lambda: shard.push("t", job("a")), lambda: shard.change("t", (CANCEL, "a")), lambda: shard.purge("t"), lambda: shard.redrive("t"),
                 lambda: shard.topic(TOPIC_PAUSE, "t")):
        with pytest.raises(redis.exceptions.ResponseError, match="SEALED"):
            call()
    assert shard.dump() == before
    go(shard, "adopt")
    assert shard.change("t", (CANCEL, "a"))[0][0] == CANCELLED


def test_a_page_is_shown_again_until_it_is_dropped(shard):
    shard.push("t", *[job(f"job-{number}", delay=HOUR + number) for number in range(5)])
    go(shard, "announce", "seal", "leave", "adopt")
    what, page, _, kind, topic, entries = shard.leave(3)
    assert (what, page, kind, topic) == (PAGE, 1, JOBS, b"t") and [ident for ident, *_ in entries] == [b"job-0", b"job-1", b"job-2"]
    assert shard.leave(3)[5] == entries
    shard.drop(7)
    assert shard.leave(3)[5] == entries
    assert shard.change_call("change", "t", b"job-0", b"\1\0\0\0\0\0\0\0\0\0\0", check=False).rest[0] == MOVING
    assert shard.call("get", "t", "job-0").rest[0] == MOVING
    assert shard.change_call("purge", "purge", "t", 0, 0, 0, check=False).rest[:2] == bytes([OK, 1])
    assert len(shard.list("t")[2]) == 5
    shard.drop(1)
    assert shard.call("get", "t", "job-0").rest[0] == NOT_FOUND
    _, page, *_, entries = shard.leave(3)
    assert page == 2 and [ident for ident, *_ in entries] == [b"job-3", b"job-4"]
    shard.drop(page)


def test_a_page_arrives_once(shard, new):
    shard.push("t", job("a"), job("b", delay=HOUR))
    go(shard, "announce", "seal", "leave", "adopt")
    pages = []
    for _ in range(2):
        what, page, _, kind, topic, entries = shard.leave(1)
        assert what == PAGE
        new.arrive("0", page, kind, topic, entries)
        pages.append((page, kind, topic, entries))
        shard.drop(page)
    [taken] = new.take("t")
    new.answer((ACK, taken.delivery))
    for page in pages:
        new.arrive("0", *page)
    assert new.take("t") == [] and new.stats("t").pushed == 2 and new.stats("t").delayed == 1


def test_one_server_is_enough_and_another_replaces_a_lost_one(shard, redis_server):
    other = Shard(redis_server.client(), server="0000000b")
    shard.push("t", job("a", delay=HOUR))
    go(shard, "announce", "seal", "leave", "adopt")
    _, page, *_, entries = shard.leave()
    assert other.leave()[0] == BUSY
    shard.client.hset(shard.tag + ":moving", "seen", 1)
    what, same, *_, shown = other.leave()
    assert (what, same, shown) == (PAGE, page, entries)
    other.drop(page)


def test_everything_moves_unchanged(shard, new):
    put = settings(attempts=2, backoff=1, first=HOUR, most=HOUR, dedup=HOUR)
    for one in (shard, new):
        one.topic(TOPIC_PUT, "t", put)
    shard.push("t", job("plain", b"p", delay=HOUR), job("far", b"f", delay=100 * HOUR), job("own", b"o", delay=HOUR, priority=7, own={"ttl": HOUR}))
    shard.pack_all()
    shard.push("t", *[job(name, b"x") for name in ("retry", "dead", "acked", "held", "ready")])
    taken = {taken.id.decode(): taken for taken in shard.take("t", 4)}
    shard.answer((NACK, taken["retry"].delivery, HOUR, b"no"), (REFUSE, taken["dead"].delivery, 0, b"never"), (ACK, taken["acked"].delivery))
    before = {one.id: one for one in shard.list_all("t")}
    go(shard, "announce", "seal", "leave", "adopt")
    assert move_all(shard, new, most=2) == (6, NOTHING)  # one is on lease
    assert shard.answer((ACK, taken["held"].delivery))[0][0] == OK
    assert move_all(shard, new) == (0, EMPTY)
    assert shard.reshard("adopt")[0] == CLOSED
    after = {one.id: one for one in new.list_all("t")}
    assert after.keys() == before.keys() - {b"held"}
    for ident, one in after.items():
        was = before[ident]
        assert (one.state, one.due, one.attempt, one.priority, one.body) == (was.state, was.due, was.attempt, was.priority, was.body)
    assert {one.state for one in after.values()} == {DELAYED, READY, DEAD} and before[b"held"].state == LEASED
    stats = new.stats("t")
    assert (stats.pushed, stats.acked, stats.delivered, stats.nacked, stats.died) == (8, 2, 4, 2, 1)
    assert [status for status, *_ in new.push("t", job("acked"), job("held"))] == [EXISTED, EXISTED]
    assert shard.client.exists(shard.tag + ":topics", shard.tag + ":job:t", shard.tag + ":finished:t", shard.tag + ":leaving") == 0


def test_two_jobs_with_the_same_place_are_both_listed(shard, new, redis_server):
    """Two shards have delivery numbers of their own."""
    second = Shard(redis_server.client(), tag="{tarry:1}")
    second.hello()
    at = shard.call("look").now + HOUR
    for source, one in (("0", shard), ("1", second)):
        one.push("t", job(f"job-{source}", at=at))
        go(one, "announce", "seal", "leave", "adopt")
        _, page, _, kind, topic, entries = one.leave()
        new.arrive(source, page, kind, topic, entries)
        one.drop(page)
    assert {found.id for found in new.list_all("t", limit=1)} == {b"job-0", b"job-1"}


def test_due_times_go_over_to_another_clock(shard, new):
    shard.push("t", job("a", delay=HOUR))
    due = shard.get("t", "a").due
    go(shard, "announce", "seal", "leave", "adopt")
    _, page, _, kind, topic, entries = shard.leave()
    new.arrive("0", page, kind, topic, entries, shift=1234)
    shard.drop(page)
    assert new.get("t", "a").due == due + 1234


def test_groups_move_with_their_jobs_and_settings(shard, new):
    limits = settings(flow=flow(limit=100, group_limit=2))
    for each in shard, new:
        each.topic(TOPIC_PUT, "t", limits, 1)
    shard.push("t", *[job(f"{group}{number}", group=group) for group in "ab" for number in range(4)], job("plain"), job("later", group="a", delay=HOUR))
    shard.group(GROUP_PUT, "t", "a", limit=8)  # of 8 shards: one of each
    shard.group(GROUP_PUT, "t", "quiet", weight=7)
    leased = shard.take("t", 2)
    go(shard, "announce", "seal", "leave")
    shard.must_be_sound()
    assert move_all(shard, new)[1] == NOTHING
    shard.answer(*[(ACK, found.delivery) for found in leased])
    assert move_all(shard, new)[1] == EMPTY
    assert not [key for key in shard.client.scan_iter(f"{shard.tag}:*") if key.split(b":")[2] in (b"groups", b"group", b"turns", b"wakes")]
    new.must_be_sound()
    assert [(name, ready, leased, bool(own)) for name, ready, leased, *_, own in new.groups("t")[1]] == [
        (b"", 1, 0, False), (b"a", 3, 0, True), (b"b", 3, 0, False), (b"quiet", 0, 0, True)]
    assert sorted(found.group for found in new.take("t")) == [b"", b"a", b"a", b"a", b"b", b"b"]
    assert new.get("t", "later").group == b"a"
