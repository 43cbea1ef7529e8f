"""The history of a job's attempts: the entries and when they are added, their limit, when the history ends; and histories left behind by older
servers."""

import pytest
import state
from abi import (ACK, CANCEL, DEAD, DELAYED, EXTEND, FAILED, LEASE_OVER, NACK, OK, READY, REFUSE, REFUSED, RETURN, TOPIC_PUT, job, settings)
from invariants import scan


def take_one(shard, **options):
    [found] = shard.take("t", **options)
    return found


def fails(shard, times=1, error=b"why"):
    """The job of the topic, after so many nacks."""
    for _ in range(times):
        shard.answer((NACK, take_one(shard).delivery, 0, error))
    return shard.get("t", "a")


def kept(shard):
    return shard.client.hlen(f"{shard.tag}:history:t")


def wall(shard):
    answer = shard.hello()
    return answer.now - answer.adjust


def test_a_nack_adds_when_how_long_and_why(shard):
    shard.push("t", job("a"))
    before = wall(shard)
    lease = take_one(shard)
    shard.client.execute_command("DEBUG", "SLEEP", "0.02")
    shard.answer((NACK, lease.delivery, 0, b"no luck"))
    [(attempt, started, duration, outcome, error)] = shard.get("t", "a").history
    assert (attempt, outcome, error) == (1, FAILED, b"no luck")
    assert before <= started <= wall(shard) - duration and 20 <= duration < 5000


def test_the_end_of_a_lease_records_its_length_independent_of_detection(shard):
    shard.push("t", job("a"))
    lease = take_one(shard, lease=1000)
    shard.jump(30_000)
    shard.advance()
    [(attempt, started, duration, outcome, error)] = shard.get("t", "a").history
    assert (attempt, duration, outcome, error) == (1, 1001, LEASE_OVER, b"lease ended")
    assert started == lease.lease_until - 1001 - shard.jumped_ms, "on the wall clock as it is when the lease ends"


@pytest.mark.parametrize("extensions", [1, 3])
def test_an_attempt_began_when_it_was_taken_however_often_it_was_extended(shard, extensions):
    shard.push("t", job("a"), job("other"))
    began = shard.hello().now
    lease, other = shard.take("t", lease=5000)
    for _ in range(extensions):
        shard.jump(2000)
        shard.answer((EXTEND, lease.delivery, 60_000), (EXTEND, other.delivery))
    shard.answer((NACK, lease.delivery, 0, b""), (ACK, other.delivery))
    [(_, _, duration, _, _)] = shard.get("t", "a").history
    assert 0 <= duration - 2000 * extensions < 2000
    again = take_one(shard)
    shard.answer((NACK, again.delivery, 0))
    assert shard.get("t", "a").history[1][2] < 2000, "the next attempt began later"
    assert shard.hello().now - began >= 2000 and kept(shard) == 1


def test_a_final_nack_is_dead_and_counts_as_nacked_and_died(shard):
    shard.push("t", job("a"))
    assert shard.answer((REFUSE, take_one(shard).delivery, 0, b"gone"))[0][:2] == (OK, DEAD)
    found = shard.get("t", "a")
    assert (found.state, found.attempt, found.error) == (DEAD, 1, b"gone")
    assert [attempt[3:] for attempt in found.history] == [(REFUSED, b"gone")]
    topic = shard.stats("t")
    assert (topic.nacked, topic.died, topic.dead) == (1, 1, 1)


def test_the_last_eight_are_kept_however_long_their_errors_are(shard):
    shard.push("t", job("a", own={"attempts": 50}))
    fails(shard, 20, b"e" * 256)
    history = shard.get("t", "a").history
    assert [attempt[0] for attempt in history] == list(range(13, 21))
    assert {attempt[4] for attempt in history} == {b"e" * 100}
    assert shard.get("t", "a").error == b"e" * 256
    assert shard.client.hstrlen(f"{shard.tag}:history:t", "a") < 1100


@pytest.mark.parametrize("error, cut", [("x" * 98 + "ä" + "y", "x" * 98 + "ä"), ("x" * 99 + "ä", "x" * 99), ("x" * 98 + "€", "x" * 98), ("x" * 97 + "😀", "x" * 97),
                                        ("x" * 96 + "😀!", "x" * 96 + "😀"), ("", "")])
def test_a_long_error_is_cut_between_characters(shard, error, cut):
    shard.push("t", job("a"))
    assert fails(shard, 1, error.encode()).history[0][4] == cut.encode()


def test_returns_add_no_attempt(shard):
    shard.push("t", job("a"), job("past", past=(1, 3, b"then")))
    shard.answer((RETURN, take_one(shard).delivery))
    assert shard.get("t", "a").history == shard.get("t", "past").history == []
    shard.answer((ACK, take_one(shard).delivery))
    assert kept(shard) == 0


def test_a_return_with_a_delay_waits_so_long_and_the_attempt_does_not_count(shard):
    shard.push("t", job("a"))
    call = shard.step([(RETURN, take_one(shard).delivery, 5000)])
    assert call.results == [(OK, DELAYED, call.now + 5001, 0)] and call.next == call.now + 5001
    topic = shard.stats("t")
    assert (topic.delayed, topic.retrying, topic.leased) == (1, 0, 0)
    assert shard.take("t") == []
    shard.jump(5002)
    assert take_one(shard).attempt == 1


def test_get_list_and_take_show_the_same(shard):
    shard.push("t", job("a", b"body"), job("b", b"fresh"))
    for lease in shard.take("t"):
        shard.answer((NACK, lease.delivery, 0, b"why") if lease.id == b"a" else (RETURN, lease.delivery))
    got = shard.get("t", "a")
    listed = {found.id: found for found in shard.list_all("t")}
    ticket = shard.ticket()
    taken = {found.id: found for found in shard.take("t", ticket=ticket)}
    again = {found.id: found for found in shard.take("t", ticket=ticket)}
    for found in (got, listed[b"a"], taken[b"a"], again[b"a"]):
        assert (found.history, found.error, found.body) == (got.history, b"why", b"body") and len(found.history) == 1
    for found in (listed[b"b"], taken[b"b"], again[b"b"]):
        assert (found.history, found.error, found.body) == ([], b"", b"fresh")


def test_a_redrive_keeps_it_and_its_numbers_begin_again(shard):
    shard.push("t", job("a", own={"attempts": 2}))
    fails(shard, 2)
    shard.redrive("t")
    assert [attempt[0] for attempt in fails(shard).history] == [1, 2, 1]


@pytest.mark.parametrize("end", ["replaced", "cancelled", "acked", "expired", "purged", "deleted"])
def test_nothing_is_left_of_a_job_that_is_gone(shard, end):
    shard.push("t", job("a", own={"ttl": 60_000}), job("b", own={"ttl": 60_000}))
    shard.answer(*[(NACK, lease.delivery, 0, b"why") for lease in shard.take("t")])
    assert kept(shard) == 2
    if end == "replaced":
        shard.push("t", job("a"), job("b"))
    elif end == "cancelled":
        shard.change("t", (CANCEL, "a"), (CANCEL, "b"))
    elif end == "acked":
        shard.answer(*[(ACK, lease.delivery) for lease in shard.take("t")])
    elif end == "expired":
        shard.jump(60_002)
        shard.advance()
    else:
        shard.purge_all("t", verb="purge" if end == "purged" else "delete")
    assert kept(shard) == 0
    shard.push("t", job("a"))
    assert shard.get("t", "a").history == []


# ---- histories left or written by older servers ----

def forget_as_before(shard, ident):
    """An ack of a server that knew nothing of histories."""
    place = shard.client.hget(f"{shard.tag}:leased", take_one(shard).delivery)
    delivery = next(iter(shard.client.hgetall(f"{shard.tag}:leased")))
    shard.client.zrem(f"{shard.tag}:leases", delivery)
    shard.client.hdel(f"{shard.tag}:leased", delivery)
    shard.client.zrem(f"{shard.tag}:held:t", place[:6] + ident.encode())
    shard.client.hdel(f"{shard.tag}:job:t", ident)
    shard.client.hdel(f"{shard.tag}:try:t", ident)
    topic = state.topic_of(shard.client, shard.tag, "t")
    state.topic_change(shard.client, shard.tag, "t", leased=topic.leased - 1, acked=topic.acked + 1)


def test_leftovers_of_an_older_server_do_not_reach_the_next_job(shard):
    shard.check = False
    shard.push("t", job("a"))
    fails(shard)
    forget_as_before(shard, "a")
    assert scan(shard.client, shard.tag) == ["{tarry:0}: topic t: a history without a job: b'a'"]
    shard.push("t", job("a"))
    assert shard.get("t", "a").history == []
    lease = take_one(shard)
    assert lease.history == []
    shard.answer((RETURN, lease.delivery))  # it has a try now
    lease = take_one(shard)
    assert lease.history == shard.get("t", "a").history == shard.list_all("t")[0].history == []
    shard.answer((NACK, lease.delivery, 0, b"anew"))
    assert [attempt[4] for attempt in shard.get("t", "a").history] == [b"anew"]


def test_only_the_attempt_of_an_older_server_is_missing(shard):
    """Its try has no history behind, and what is there already stays."""
    shard.push("t", job("a"))
    first = fails(shard).history
    shard.jump(10)
    assert take_one(shard).history == first
    fresh = shard.client.hget(f"{shard.tag}:try:t", "a")
    assert len(fresh) == 37 + len(b"why"), "what they read has the form they know"


def test_a_try_as_it_always_was_can_be_read(shard):
    shard.push("t", job("a", past=(0, 2, b"e" * 256)))
    found = shard.get("t", "a")
    assert (found.attempt, found.error, found.history, found.state) == (2, b"e" * 256, [], READY)


def test_a_topic_with_settings_and_no_more_is_shown(shard):
    shard.topic(TOPIC_PUT, "t", settings(lease=5000), 1)
    assert shard.stats("t").extension == b"" and shard.stats("t").settings == settings(lease=5000)
