"""step.lua, takes: order, limits, leases."""

import pytest
from abi import ACK, DELAYED, LEASED, NACK, READY, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME, job, settings


def ids(jobs):
    return [found.id.decode() for found in jobs]


def test_jobs_come_by_priority_then_due_then_push_order(shard):
    shard.push("t", job("low", priority=200), job("late", delay=20, priority=100), job("soon", delay=10), job("same", delay=10), job("high", priority=5))
    shard.jump(100)
    assert ids(shard.take("t")) == ["high", "soon", "same", "late", "low"]


def test_a_take_or_purge_reads_only_necessary_priorities(shard):
    shard.check = False
    shard.push("t", *[job(f"j{number:03}", priority=number) for number in range(500)], job("last", priority=65535, delay=1))
    shard.jump(10)
    shard.advance_all()

    def commands(call, *arguments, **options):
        shard.client.config_resetstat()
        call(*arguments, **options)
        return sum(stat["calls"] for stat in shard.client.info("commandstats").values())

    assert commands(shard.take, "t", most=1) < 60
    assert commands(shard.purge, "t", READY, most=1) < 60
    assert ids(shard.take("t", most=1000)) == [f"j{number:03}" for number in range(2, 500)] + ["last"]
    assert shard.take("t") == []
    shard.check = True


def test_a_lease_shows_the_job_its_attempt_and_a_number_of_its_own(shard):
    shard.push("t", job("a", b"body"), job("b"))
    call = shard.take_call("t")
    first, second = shard.list("t")[2]
    assert {first.state, second.state} == {LEASED} and first.attempt == second.attempt == 1
    assert first.delivery != second.delivery and min(first.delivery, second.delivery) > 0
    assert first.lease_until == call.now + 60_001 and first.lease == 60_000 and call.next == call.now + 60_001


@pytest.mark.parametrize("asked, own, topic, until", [(700, 0, 0, 700), (0, 800, 900, 800), (0, 0, 900, 900), (0, 0, 0, 60_000)])
def test_the_lease_length_comes_from_call_job_or_topic(shard, asked, own, topic, until):
    shard.topic(TOPIC_PUT, "t", settings(lease=topic), 1)
    shard.push("t", job("a", own={"lease": own} if own else None))
    call = shard.take_call("t", lease=asked)
    assert shard.get("t", "a").lease_until == call.now + 1 + until


def test_at_most_so_many(shard):
    shard.push("t", *[job(f"j{n:03}") for n in range(300)])
    assert ids(shard.take("t", 1)) == ["j000"]
    assert ids(shard.take("t", 250)) == [f"j{n:03}" for n in range(1, 251)]
    assert len(shard.take("t")) == 49
    assert shard.take("t") == []


@pytest.mark.parametrize("fits", range(1, 21))
def test_at_most_so_many_bytes_but_always_one(shard, fits):
    shard.push("t", *[job(f"j{n:02}", b"x" * 1000) for n in range(20)])
    size = len(shard.get("t", "j00").record)
    assert ids(shard.take("t", bytes_max=size * fits + 1)) == [f"j{n:02}" for n in range(fits)]
    assert len(shard.take("t", bytes_max=1)) == (1 if fits < 20 else 0)
    assert shard.stats("t").ready == max(0, 20 - fits - 1)


def test_a_big_job_behind_small_ones_waits_for_its_turn(shard):
    shard.push("t", *[job(f"a{n}") for n in range(8)], job("big", b"x" * 5000), *[job(f"b{n}") for n in range(8)])
    assert ids(shard.take("t", bytes_max=1000)) == [f"a{n}" for n in range(8)]
    assert ids(shard.take("t", bytes_max=1000)) == ["big"]
    assert len(shard.take("t", bytes_max=1000)) == 8


def test_the_bytes_hold_over_priorities(shard):
    shard.push("t", *[job(f"p{n:02}", b"x" * 500, priority=n) for n in range(10)])
    assert ids(shard.take("t", bytes_max=1200)) == ["p00", "p01"]
    assert len(shard.take("t")) == 8


def test_an_unknown_or_paused_topic_has_no_jobs_to_take(shard):
    assert shard.take("nobody") == []
    shard.push("t", job("a"))
    shard.topic(TOPIC_PAUSE, "t")
    assert shard.take("t") == []
    shard.topic(TOPIC_RESUME, "t")
    assert ids(shard.take("t")) == ["a"]


def test_due_jobs_are_found_without_an_advance(shard):
    shard.push("t", job("a", delay=1000))
    assert shard.take("t") == []
    shard.jump(1002)
    assert ids(shard.take("t")) == ["a"]


def test_a_job_comes_not_one_millisecond_early(shard):
    [(_, _, due)] = shard.push("t", job("a", delay=3_600_000))
    shard.jump(due - shard.hello().now - 30)
    while True:
        call = shard.take_call("t")
        if call.words:
            assert call.now >= due
            return
        assert call.now < due, "late: it was due and was not given"


def test_jobs_made_ready_by_a_fast_clock_are_not_delivered_early(shard):
    shard.push("t", job("now"), job("later", delay=600_000))
    shard.jump(3_600_000)
    shard.advance_all()
    shard.jump(-3_600_000)
    assert ids(shard.take("t")) == ["now"]
    assert shard.take("t") == []
    shard.jump(600_002)
    assert ids(shard.take("t")) == ["later"]


def test_an_expired_job_is_not_given(shard):
    shard.push("t", job("a", own={"ttl": 1000}), job("b"))
    shard.jump(1002)
    assert ids(shard.take("t")) == ["b"]
    assert shard.stats("t").expired == 1


def test_expired_jobs_beyond_the_limit_of_a_call_are_not_delivered(shard):
    for first in range(0, 400, 100):
        shard.push("t", *[job(f"old-{number}", delay=1000, own={"ttl": 1000 + number % 7}) for number in range(first, first + 100)])
    shard.push("t", job("young", delay=1000, own={"ttl": 1_000_000}))
    shard.jump(10_000)
    given = [one for _ in range(100) for one in ids(shard.take("t", most=3))]
    assert given == ["young"]
    assert (shard.stats("t").expired, shard.stats("t").ready) == (400, 0)


def test_the_same_ticket_shows_the_same_leases_and_takes_no_more(shard):
    shard.push("t", *[job(f"j{n:02}", b"x" * n) for n in range(40)])
    ticket = shard.ticket()
    first = shard.take_call("t", 30, ticket=ticket)
    before = shard.dump()
    again = shard.take_call("t", 30, ticket=ticket)
    assert again.words == first.words and len(first.words) == 90
    assert shard.dump() == before


def test_a_repeated_take_returns_only_current_leases(shard):
    shard.push("t", job("a"), job("b"), job("c"))
    ticket = shard.ticket()
    first, second, _ = shard.take("t", ticket=ticket)
    shard.answer((ACK, first.delivery), (NACK, second.delivery, 0), ticket=shard.ticket(slot=1))
    again = shard.take_call("t", ticket=ticket)
    assert again.words[::3] == [b"c"]


def test_a_repeated_empty_take_takes_at_most_once(shard):
    """A take that left no trace the first time may be carried out now; then its ticket counts."""
    ticket = shard.ticket()
    assert shard.take("t", ticket=ticket) == []
    shard.push("t", job("a"), job("b"), ticket=shard.ticket(slot=1))
    assert ids(shard.take("t", 1, ticket=ticket)) == ["a"]
    assert ids(shard.take("t", 1, ticket=ticket)) == ["a"]
    assert shard.stats("t").leased == 1


def test_news_of_a_lease_that_ends_before_anything_else(shard):
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    shard.push("t", job("a"), job("b"))
    assert notifications.parse_response()[2][9:] == b"r" + shard.server.encode() + b"t"
    call = shard.take_call("t", 1, lease=5000)
    assert notifications.parse_response()[2][9:] == b"d%d " % (call.now + 5001)
    shard.take_call("t", 1, lease=9000)
    assert notifications.parse_response(block=False, timeout=0.05) is None, "a later end is not announced"
    notifications.close()


def test_jobs_made_ready_by_a_take_or_purge_are_reported_to_the_caller(shard):
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    for name, call in (("t", lambda: shard.take_call("t", 1)), ("u", lambda: shard.purge("u", DELAYED))):
        shard.push(name, job("more urgent", delay=100, priority=1))  # not in order of due: so they become ready first
        shard.push(name, job("a", delay=100), job("b", delay=100))
        shard.jump(102)
        step = call()
        reported = []
        while (message := notifications.parse_response(block=False, timeout=0.05)) is not None:
            reported.append(message[2][9:])
        assert step.woken == [b"t"] if name == "t" else b"r--------u" in reported
        shard.advance_all()
    notifications.close()


def test_keys_that_change_with_every_job_are_never_scanned(shard):
    shard.push("t", *[job(f"j{number}") for number in range(50)])
    shard.take("t", 20)
    kinds = {name: shard.client.object("encoding", f"{shard.tag}:{name}") for name in ("try:t", "leased", "leases", "held:t")}
    assert kinds == {"try:t": b"hashtable", "leased": b"hashtable", "leases": b"skiplist", "held:t": b"skiplist"}
    assert shard.client.hlen(shard.tag + ":try:t") == shard.client.zcard(shard.tag + ":held:t") == 20


@pytest.mark.parametrize("groups, kinds", [(40, (b"hashtable", b"skiplist")), (4, (b"listpack", b"listpack"))])
def test_many_groups_are_never_scanned(shard, groups, kinds):
    shard.push("t", *[job(f"j{number}", group=f"g{number % groups}") for number in range(120)])
    shard.take("t", 20)
    assert (shard.client.object("encoding", shard.tag + ":groups:t"), shard.client.object("encoding", shard.tag + ":turns:t:100")) == kinds
    assert shard.client.hlen(shard.tag + ":groups:t") == shard.client.zcard(shard.tag + ":turns:t:100") == groups
