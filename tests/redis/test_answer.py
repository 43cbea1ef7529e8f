"""step.lua, answers: ack, nack, extend, return; what ended; who may answer."""

import pytest
from abi import (ACK, CREATED, DEAD, DELAYED, EXISTED, EXPONENTIAL, EXTEND, FINISHED, FIXED, LEASE_ENDED, LEASED, NACK, NONE, OK, READY, RETURN,
                 TOPIC_PUT, job, settings)


def taken(shard, topic="t", lease=0, **options):
    shard.push(topic, job("a", **options))
    return shard.take(topic, lease=lease)[0]


def test_an_ack_ends_the_job_and_names_it(shard):
    lease = taken(shard)
    call = shard.step([(ACK, lease.delivery)])
    assert call.results == [(OK, FINISHED, 0, 0)] and call.names == [(b"t", b"a")]
    assert shard.get("t", "a") is None
    topic = shard.stats("t")
    assert (topic.acked, topic.leased, topic.pushed, topic.delivered) == (1, 0, 1, 1)


def test_a_lease_counts_once(shard):
    lease = taken(shard)
    assert [status for status, *_ in shard.answer((ACK, lease.delivery), (ACK, lease.delivery), (EXTEND, lease.delivery))] == [OK, LEASE_ENDED, LEASE_ENDED]
    assert shard.answer((NACK, lease.delivery)) == [(LEASE_ENDED, 0, 0, 0)]
    assert shard.answer((ACK, 0), (ACK, NONE), (RETURN, 4711)) == [(LEASE_ENDED, 0, 0, 0)] * 3


def test_an_answer_after_the_lease_end_is_rejected_before_the_job_moves(shard):
    lease = taken(shard, lease=1000)
    shard.jump(1002)
    for verb in (ACK, NACK, EXTEND, RETURN):
        assert shard.answer((verb, lease.delivery)) == [(LEASE_ENDED, 0, 0, 0)]
    assert shard.get("t", "a").state == LEASED, "as long as nobody let the lease end"
    shard.advance()
    assert shard.get("t", "a").attempt == 1


def test_a_stale_holder_cannot_touch_the_next_delivery(shard):
    old = taken(shard, lease=1000, own={"backoff": FIXED, "first": 1, "most": 1})
    shard.jump(1002)
    shard.advance()
    shard.jump(10)
    [new] = shard.take("t")
    assert new.delivery > old.delivery and new.attempt == 2
    assert shard.answer((ACK, old.delivery), (NACK, old.delivery)) == [(LEASE_ENDED, 0, 0, 0)] * 2
    assert shard.answer((ACK, new.delivery))[0][0] == OK


def test_a_nack_with_a_delay_waits_so_long(shard):
    lease = taken(shard)
    call = shard.step([(NACK, lease.delivery, 5000, b"no luck")])
    assert call.results == [(OK, DELAYED, call.now + 5001, 0)] and call.names == [(b"t", b"a")] and call.next == call.now + 5001
    found = shard.get("t", "a")
    assert (found.attempt, found.error, found.state) == (1, b"no luck", DELAYED)
    topic = shard.stats("t")
    assert (topic.retrying, topic.delayed, topic.nacked) == (1, 0, 1)


def test_a_nack_without_delay_makes_the_job_ready_immediately(shard):
    lease = taken(shard)
    assert shard.answer((NACK, lease.delivery, 0))[0][:2] == (OK, READY)
    assert shard.take("t")[0].attempt == 2


@pytest.mark.parametrize("kind, attempt, nominal", [(FIXED, 1, 1000), (FIXED, 3, 1000), (EXPONENTIAL, 1, 1000), (EXPONENTIAL, 3, 4000), (EXPONENTIAL, 6, 8000),
                                                    (EXPONENTIAL, 70, 8000)])
def test_backoff_follows_the_policy_within_its_jitter(shard, kind, attempt, nominal):
    shard.push("t", *[job(f"j{n}", own={"backoff": kind, "first": 1000, "most": 8000, "attempts": 1000}, past=(0, attempt - 1, b"")) for n in range(100)])
    call = shard.step([(NACK, lease.delivery) for lease in shard.take("t")], chance=2**48 - 5)
    waits = [due - call.now - 1 for _, _, due, _ in call.results]
    assert len(waits) == 100 and 0.8 * nominal <= min(waits) < 0.85 * nominal and 1.15 * nominal < max(waits) <= 1.2 * nominal


def test_the_last_attempt_kills(shard):
    shard.topic(TOPIC_PUT, "t", settings(attempts=2), 1)
    lease = taken(shard)
    assert shard.answer((NACK, lease.delivery, 0))[0][1] == READY
    [lease] = shard.take("t")
    assert shard.answer((NACK, lease.delivery, 0, b"last words"))[0][1] == DEAD
    found = shard.get("t", "a")
    assert (found.state, found.attempt, found.error) == (DEAD, 2, b"last words")
    assert shard.take("t") == [] and shard.stats("t").died == 1


def test_extend_moves_the_end_and_the_job_stays_with_its_holder(shard):
    lease = taken(shard, lease=1000)
    call = shard.step([(EXTEND, lease.delivery, 7000)])
    assert call.results == [(OK, LEASED, lease.due, call.now + 7001)]
    shard.jump(6000)
    shard.advance()
    again = shard.step([(EXTEND, lease.delivery, 0)])
    assert again.results[0][3] == again.now + 1001, "without a length: what it was taken with"
    assert shard.answer((ACK, lease.delivery))[0][0] == OK


def test_a_lease_extended_to_less_ends_earlier(shard):
    lease = taken(shard, lease=60_000)
    shard.answer((EXTEND, lease.delivery, 500))
    shard.jump(502)
    shard.advance()
    assert shard.answer((ACK, lease.delivery))[0][0] == LEASE_ENDED


def test_a_returned_job_keeps_its_place_and_the_attempt_does_not_count(shard):
    shard.push("t", job("a"), job("b", own={"ttl": 5000}))
    first, second = shard.take("t")
    answers = shard.answer((RETURN, second.delivery), (RETURN, first.delivery))
    assert [answer[:2] for answer in answers] == [(OK, READY)] * 2
    assert [(found.id, found.attempt) for found in shard.take("t")] == [(b"a", 1), (b"b", 1)]
    assert shard.stats("t").nacked == 0


def test_answers_to_jobs_of_many_topics_travel_together(shard):
    shard.topic(TOPIC_PUT, "remembers", settings(dedup=60_000), 1)
    leases = [taken(shard, name) for name in ("remembers", "u", "v")]
    call = shard.step([(ACK, lease.delivery) for lease in leases])
    assert call.names == [(b"remembers", b"a"), (b"u", b"a"), (b"v", b"a")]
    assert [shard.push(name, job("a"))[0][0] for name in ("remembers", "u")] == [EXISTED, CREATED]


@pytest.mark.parametrize("verb", [ACK, NACK, RETURN, EXTEND])
def test_the_same_ticket_is_answered_the_same_and_does_nothing_more(shard, verb):
    lease = taken(shard)
    ticket = shard.ticket()
    first = shard.step([(verb, lease.delivery)], ticket=ticket, chance=1)
    before = shard.dump()
    again = shard.step([(verb, lease.delivery)], ticket=ticket, chance=99)
    assert (again.results, again.names) == (first.results, first.names)
    assert shard.dump() == before


def test_a_thousand_answers_are_one_call(shard):
    shard.push("t", *[job(f"j{n}") for n in range(1000)])
    leases = shard.take("t")
    assert len(leases) == 1000
    verbs = (ACK, NACK, EXTEND, RETURN)
    assert {status for status, *_ in shard.answer(*[(verbs[at % 4], lease.delivery) for at, lease in enumerate(leases)])} == {OK}
    topic = shard.stats("t")
    assert (topic.acked, topic.retrying, topic.leased, topic.ready) == (250, 250, 250, 250)


def test_lost_data_ends_one_lease_and_other_answers_are_executed(shard):
    shard.check = False
    shard.push("t", job("good"), job("bad"))
    shard.push("u", job("gone"))
    leases = {found.id: found.delivery for found in shard.take("t") + shard.take("u")}
    shard.client.hdel(shard.tag + ":job:t", "bad")
    shard.client.delete(shard.tag + ":topic:u")
    answers = shard.answer((EXTEND, leases[b"bad"], 5000), (NACK, leases[b"bad"]), (ACK, leases[b"gone"]), (ACK, leases[b"good"]))
    assert [answer[0] for answer in answers] == [LEASE_ENDED, LEASE_ENDED, LEASE_ENDED, OK]
    assert shard.get("t", "good") is None
    shard.client.flushall()
    shard.hello()
