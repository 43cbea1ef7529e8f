"""change.lua: cancel, reschedule, run, by id."""

import pytest
from abi import (ACK, AT_MAX_MS, BAD_OPTION, CANCEL, CANCELLED, CONFLICT, CREATED, DEAD, DELAYED, DUE_NOW, EXISTED, FINISHED, IS_DEAD, IS_LEASED, LEASED, NACK, NOT_FOUND,
                 OK, READY, RESCHEDULE, RUN, TOPIC_PUT, job, settings)

VERBS = [(CANCEL, "a"), (RESCHEDULE, "a", {"delay": 1000}), (RUN, "a")]


def test_a_cancelled_job_is_gone(shard):
    shard.push("t", job("later", delay=5000), job("ready"))
    assert [answer[:2] for answer in shard.change("t", (CANCEL, "later"), (CANCEL, "ready"), (CANCEL, "later"))] == [(CANCELLED, DELAYED), (CANCELLED, READY),
                                                                                                                 (NOT_FOUND, 0)]
    shard.jump(6000)
    assert shard.take("t") == [] and shard.stats("t").cancelled == 2


@pytest.mark.parametrize("change", VERBS)
def test_missing_jobs_are_not_found(shard, change):
    assert shard.change("nobody", change) == [(NOT_FOUND, 0, 0)]
    shard.push("t", job("b"))
    assert shard.change("t", change) == [(NOT_FOUND, 0, 0)]


@pytest.mark.parametrize("change", VERBS)
def test_a_leased_job_is_its_holders(shard, change):
    shard.push("t", job("a"))
    [lease] = shard.take("t")
    assert shard.change("t", change) == [(IS_LEASED, LEASED, lease.due)]
    assert shard.answer((ACK, lease.delivery))[0][0] == OK


def test_a_dead_job_can_only_be_cancelled(shard):
    shard.push("t", job("a", past=(1, 1, b"")))
    assert [answer[:2] for answer in shard.change("t", *VERBS[1:])] == [(IS_DEAD, DEAD)] * 2
    assert shard.change("t", (CANCEL, "a"))[0][:2] == (CANCELLED, DEAD)
    assert shard.stats("t").dead == 0


CANCEL_DEAD = 4


def test_a_dead_job_is_cancelled_only_if_it_is_the_one_meant(shard):
    shard.push("t", job("a", own={"attempts": 1}), job("b"))
    leases = {lease.id: lease for lease in shard.take("t", 2)}
    shard.answer((NACK, leases[b"a"].delivery), (NACK, leases[b"b"].delivery))
    meant = {"delay": leases[b"a"].delivery}
    assert shard.change("t", (CANCEL_DEAD, "a", {"delay": meant["delay"] + 1}))[0][:2] == (CONFLICT, DEAD)
    assert shard.change("t", (CANCEL_DEAD, "b", {"delay": leases[b"b"].delivery}))[0][0] == CONFLICT
    assert shard.change("t", (CANCEL_DEAD, "a", meant))[0][:2] == (CANCELLED, DEAD)
    assert shard.change("t", (CANCEL_DEAD, "a", meant))[0][0] == NOT_FOUND
    assert shard.stats("t").dead == 0


def test_reschedule_moves_the_due_time_in_both_directions(shard):
    shard.push("t", job("a", delay=5000))
    call = shard.change_jobs_call("t", (RESCHEDULE, "a", {"delay": 100}))
    assert call.items(">BBI6") == [(OK, DELAYED, call.now + 101)] and call.next == call.now + 101
    assert shard.change("t", (RESCHEDULE, "a", {"when": DUE_NOW}))[0][:2] == (OK, READY)
    call = shard.change_jobs_call("t", (RESCHEDULE, "a", {"delay": 9000}))
    assert call.items(">BBI6") == [(OK, DELAYED, call.now + 9001)]
    shard.jump(8000)
    assert shard.take("t") == []
    shard.jump(1002)
    assert len(shard.take("t")) == 1


def test_reschedule_to_an_instant_of_the_wall_clock(shard):
    shard.jump(-7000)
    shard.push("t", job("a", delay=5000))
    wall = shard.hello().now + 7000
    assert shard.change("t", (RESCHEDULE, "a", {"at": wall + 60_000})) == [(OK, DELAYED, wall + 53_000)]
    assert shard.change("t", (RESCHEDULE, "a", {"at": wall + AT_MAX_MS + 60_000}))[0][0] == BAD_OPTION
    assert shard.get("t", "a").due == wall + 53_000
    assert shard.change("t", (RESCHEDULE, "a", {"at": 5}))[0][:2] == (OK, READY)


@pytest.mark.parametrize("delay", [None, 5000])
def test_reschedule_without_a_due_time_changes_only_the_priority(shard, delay):
    shard.push("t", job("a", delay=delay), job("b", delay=delay))
    due = shard.get("t", "b").due
    assert shard.change("t", (RESCHEDULE, "b", {"priority": 3}))[0] == (OK, DELAYED if delay else READY, due)
    shard.jump(6000)
    assert [(found.id, found.priority) for found in shard.take("t")] == [(b"b", 3), (b"a", 100)]


def test_run_makes_it_ready_now(shard):
    shard.push("t", job("a", delay=3_600_000), job("b"))
    assert [answer[:2] for answer in shard.change("t", (RUN, "a"), (RUN, "b"), (RUN, "a"))] == [(OK, READY)] * 3
    assert len(shard.take("t")) == 2


def test_a_retry_that_is_moved_keeps_its_attempt(shard):
    shard.push("t", job("a"))
    shard.answer((NACK, shard.take("t")[0].delivery, 5000, b"why"))
    shard.change("t", (RESCHEDULE, "a", {"delay": 9000}))
    assert shard.stats("t").retrying == 1
    shard.change("t", (RUN, "a"))
    [lease] = shard.take("t")
    assert (lease.attempt, lease.error) == (2, b"why")


def test_a_cancelled_id_is_remembered_if_the_topic_is_set_so(shard):
    shard.topic(TOPIC_PUT, "t", settings(dedup=1000), 1)
    shard.push("t", job("a", delay=9))
    shard.change("t", (CANCEL, "a"))
    assert shard.push("t", job("a"))[0] == (EXISTED, FINISHED, 0)
    shard.jump(1002)
    assert shard.push("t", job("a"))[0][0] == CREATED


@pytest.mark.parametrize("change", VERBS)
def test_the_same_ticket_is_answered_the_same_and_does_nothing_more(shard, change):
    shard.push("t", job("a", delay=60_000))
    ticket = shard.ticket()
    first = shard.change("t", change, ticket=ticket)
    before = shard.dump()
    assert shard.change("t", change, ticket=ticket) == first
    assert shard.dump() == before


def test_a_job_that_is_due_but_was_not_moved_yet_is_shown_and_treated_as_ready(shard):
    shard.push("t", job("a", delay=10), job("b", delay=10), job("c", delay=10))
    shard.jump(20)
    assert shard.get("t", "a").state == READY
    assert [answer[:2] for answer in shard.change("t", (RUN, "a"), (CANCEL, "b"), (RESCHEDULE, "c", {"delay": 5000}))] == [(OK, READY), (CANCELLED, READY),
                                                                                                                      (OK, DELAYED)]
    assert [found.id for found in shard.take("t")] == [b"a"]


def test_a_moved_job_expires_by_its_new_due(shard):
    shard.push("t", job("a", own={"ttl": 1000}), job("b", delay=5000, own={"ttl": 1000}))
    shard.change("t", (RESCHEDULE, "a", {"delay": 5000}), (RUN, "b"))
    shard.jump(1500)
    shard.advance()
    assert (shard.get("t", "a").state, shard.get("t", "b")) == (DELAYED, None)
    shard.jump(5000)
    shard.advance()
    assert shard.get("t", "a") is None and shard.stats("t").expired == 2
