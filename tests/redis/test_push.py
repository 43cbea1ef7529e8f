"""push.lua: every status, tickets, who meets whom."""

import redis
import pytest
import state
from abi import (AT_MAX_MS, BAD_OPTION, CONFLICT, CREATED, DEAD, DELAYED, EXISTED, FINISHED, IS_LEASED, KEEP, LEASED, NACK, READY, REJECT, REPLACE,
                 REPLACED, TOO_MANY_TOPICS, TOPIC_PUT, job, results, settings)


def test_a_job_without_delay_is_ready_with_its_pushed_fields(shard):
    [(status, state, due)] = shard.push("t", job("a", b"body\0\xff", content_type=b"text/plain", meta=b"k\0v\0"))
    assert (status, state) == (CREATED, READY)
    found = shard.get("t", "a")
    assert (found.body, found.content_type, found.meta, found.due, found.state, found.priority) == (b"body\0\xff", b"text/plain", b"k\0v\0", due, READY, 100)


def test_a_delay_counts_from_the_shards_clock_and_is_rounded_up(shard):
    jobs = [job("a", delay=5000)]
    call = shard.push_call("t", *jobs)
    [(status, state, due)] = results(call, jobs)
    assert (status, state, due) == (CREATED, DELAYED, call.now + 5001)
    assert call.next == due == shard.get("t", "a").due


def test_an_absolute_due_in_the_past_means_now_and_in_the_future_waits_for_the_wall_clock(shard):
    shard.jump(3_600_000)
    jobs = [job("past", at=1), job("next", at=shard.hello().now - shard.jumped_ms + 9000)]
    call = shard.push_call("t", *jobs)
    past, later = results(call, jobs)
    assert past == (CREATED, READY, call.now)
    assert later[:2] == (CREATED, DELAYED) and 8000 < later[2] - call.now <= 9000, "the wall's due is put on the shard's clock"
    assert shard.get("t", "next").flags & 8
    assert (shard.get("t", "past").due, shard.get("t", "next").due) == (past[2], later[2])


def test_plain_creations_have_a_short_answer_even_when_repeated(shard):
    ticket, jobs = shard.ticket(1), [job("a"), job("b", delay=7000), job("c", delay=0)]
    call = shard.push_call("t", *jobs, ticket=ticket)
    assert len(call.rest) == 6
    made = results(call, jobs)
    assert [answer[:2] for answer in made] == [(CREATED, READY), (CREATED, DELAYED), (CREATED, READY)]
    assert [shard.get("t", name).due for name in ("a", "b", "c")] == [due for _, _, due in made]
    shard.jump(60_000)
    assert results(shard.push_call("t", *jobs, ticket=ticket), jobs) == made, "as it was then, not as it would be now"


@pytest.mark.parametrize("where", [0, 3, 40, 99])
def test_one_special_push_makes_all_answers_explicit(shard, where):
    shard.push("t", job("old", delay=5000))
    jobs = [job(f"j{number}", delay=number * 1000) for number in range(100)]
    jobs[where] = job("old", on_conflict=KEEP)
    answers = shard.push("t", *jobs)
    assert [status for status, _, _ in answers] == [EXISTED if number == where else CREATED for number in range(100)]
    for number, (status, state, due) in enumerate(answers):
        found = shard.get("t", "old" if number == where else f"j{number}")
        assert (found.due, found.state) == (due, state)


def test_an_id_made_for_its_push_is_not_looked_for_and_is_met_by_others(shard):
    assert [answer[0] for answer in shard.push("t", job("a", made=True), job("b"), job("b", on_conflict=KEEP))] == [CREATED, CREATED, EXISTED]
    assert [answer[0] for answer in shard.push("t", job("a", on_conflict=KEEP), job("c", made=True))] == [EXISTED, CREATED]


def test_a_due_more_than_ten_years_away_is_refused_and_the_rest_is_done(shard):
    wall = shard.hello().now
    answers = shard.push("t", job("a", at=wall + AT_MAX_MS + 60_000), job("b", at=wall + AT_MAX_MS - 60_000))
    assert [status for status, _, _ in answers] == [BAD_OPTION, CREATED]
    assert shard.get("t", "a") is None


@pytest.mark.parametrize("delay", [None, 50_000])
@pytest.mark.parametrize("together", [True, False])
def test_an_id_that_is_there_is_replaced_kept_or_refused(shard, delay, together):
    first = job("a", b"1", delay=delay)
    others = [job("a", b"2", on_conflict=KEEP), job("a", b"3", on_conflict=REJECT), job("a", b"4", delay=70_000, on_conflict=REPLACE)]
    answers = shard.push("t", first, *others) if together else [shard.push("t", some)[0] for some in [first, *others]]
    was = DELAYED if delay else READY
    assert [answer[:2] for answer in answers] == [(CREATED, was), (EXISTED, was), (CONFLICT, was), (REPLACED, DELAYED)]
    assert answers[1][2] == answers[2][2] == answers[0][2], "it shows the due of the one that is there"
    assert shard.get("t", "a").body == b"4"
    topic = shard.stats("t")
    assert (topic.pushed, topic.replaced, topic.delayed, topic.ready) == (1, 1, 1, 0)


def test_the_topic_setting_is_the_default_on_conflict(shard):
    shard.topic(TOPIC_PUT, "t", settings(on_conflict=REJECT), 1)
    assert [status for status, _, _ in shard.push("t", job("a"), job("a"), job("a", on_conflict=KEEP))] == [CREATED, CONFLICT, EXISTED]


def test_a_leased_job_is_not_replaced_and_a_dead_one_is(shard):
    shard.push("t", job("a", own={"attempts": 1}))
    [taken] = shard.take("t")
    assert shard.push("t", job("a", on_conflict=REPLACE))[0][:2] == (IS_LEASED, LEASED)
    shard.answer((NACK, taken.delivery))
    assert shard.get("t", "a").state == DEAD
    assert shard.push("t", job("a", b"new", on_conflict=REPLACE))[0][:2] == (REPLACED, READY)
    found = shard.get("t", "a")
    assert (found.attempt, found.body, found.error) == (0, b"new", b"")


def test_a_finished_id_is_remembered_for_the_dedup_window_and_not_longer(shard):
    shard.topic(TOPIC_PUT, "t", settings(dedup=10_000), 1)
    shard.push("t", job("a"))
    [taken] = shard.take("t")
    shard.answer((1, taken.delivery))
    assert shard.push("t", job("a"), job("a", on_conflict=REPLACE))[0] == (EXISTED, FINISHED, 0)
    shard.jump(10_002)
    assert shard.push("t", job("a"))[0][0] == CREATED


def test_a_topic_beyond_the_limit_is_rejected_without_changes(shard):
    shard.push("t", job("a"), topics_max=1)
    before = shard.dump()
    assert shard.push("u", job("a"), job("b"), topics_max=1) == [(TOO_MANY_TOPICS, 0, 0)] * 2
    after = shard.dump()
    for some in (before, after):
        core = state.core_read(some[b"{tarry:0}:core"])
        core.sequence = 0
        some[b"{tarry:0}:core"] = core
    assert after == before
    assert shard.push("t", job("b"), topics_max=1)[0][0] == CREATED


def test_a_job_comes_with_its_past(shard):
    shard.push("t", job("tried", past=(0, 3, b"why")), job("later", delay=9000, past=(0, 2, b"")), job("dead", past=(1, 5, b"gave up")),
               job("fresh", past=(0, 0, b"")))
    shown = {ident: (found.state, found.attempt, found.error) for ident in ("tried", "later", "dead", "fresh") for found in [shard.get("t", ident)]}
    assert shown == {"tried": (READY, 3, b"why"), "later": (DELAYED, 2, b""), "dead": (DEAD, 5, b"gave up"), "fresh": (READY, 0, b"")}
    topic = shard.stats("t")
    assert (topic.ready, topic.retrying, topic.dead, topic.delayed) == (2, 1, 1, 0)
    assert sorted(found.attempt for found in shard.take("t")) == [1, 4]


def test_the_same_ticket_is_answered_the_same_and_does_nothing_more(shard):
    ticket = shard.ticket()
    jobs = [job("a", b"1"), job("a", b"2", on_conflict=REPLACE), job("b", delay=60_000)]
    first = shard.push("t", *jobs, ticket=ticket)
    before = shard.dump()
    assert shard.push("t", *jobs, ticket=ticket) == first
    assert shard.dump() == before


def test_a_ticket_belongs_to_its_slot_and_server(shard):
    first = shard.push("t", job("a"), ticket=shard.ticket(slot=0, number=5))
    shard.push("t", job("b"), ticket=shard.ticket(slot=1, number=5))
    shard.server = "0000000b"
    assert shard.push("t", job("c"), ticket=shard.ticket(slot=0, number=5))[0][0] == CREATED
    shard.server = "0000000a"
    assert shard.push("t", job("a"), ticket=shard.ticket(slot=0, number=5)) == first
    assert shard.stats("t").pushed == 3


def test_a_ticket_older_than_the_slots_last_is_refused(shard):
    shard.push("t", job("a"), ticket=shard.ticket(number=0x10))
    before = shard.dump()
    with pytest.raises(redis.exceptions.ResponseError, match="^STALE"):
        shard.push("t", job("b"), ticket=shard.ticket(number=0xf))
    assert shard.dump() == before


def test_jobs_of_one_due_are_in_push_order(shard):
    shard.push("t", *[job(f"{name}", delay=1000) for name in "zyxwv"])
    shard.jump(2000)
    assert [found.id for found in shard.take("t")] == [b"z", b"y", b"x", b"w", b"v"]


def test_limits_of_ids_and_bodies_are_stored_whole(shard):
    body = bytes(range(256)) * 4096
    ident = "!" * 128
    shard.push("t" * 200, job(ident, body, delay=10), job("~" * 127, b""))
    assert shard.get("t" * 200, ident).body == body


def test_a_batch_of_a_thousand_is_one_call(shard):
    answers = shard.push("t", *[job(f"j{n}", delay=n % 7 * 1000 or None, priority=n % 5) for n in range(1000)])
    assert {status for status, _, _ in answers} == {CREATED}
    assert shard.hello().sequence >= 1000
