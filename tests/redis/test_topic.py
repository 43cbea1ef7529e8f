"""topic.lua, topics.lua, purge.lua, redrive.lua: a topic as a whole."""

import pytest
from abi import (ACK, CREATED, DEAD, DELAYED, EXISTED, LEASE_ENDED, NACK, NOT_FOUND, OK, READY, REJECT, TOO_MANY_TOPICS, TOPIC_GET, TOPIC_PAUSE, TOPIC_PUT,
                 TOPIC_RESUME, CONFLICT, job, settings)


def fill(shard, name="t", count=4):
    """`count` in each state; returns the leases."""
    shard.push(name, *[job(f"leased{n}") for n in range(count)])
    leases = shard.take(name)
    shard.push(name, *[job(f"ready{n}", own={"ttl": 3_600_000} if n % 2 else None) for n in range(count)],
               *[job(f"delayed{n}", delay=60_000 + n) for n in range(count)],
               *[job(f"retrying{n}", delay=60_000 + n, past=(0, 1, b"")) for n in range(count)],
               *[job(f"dead{n}", past=(1, 3, b"gave up")) for n in range(count)])
    return leases


def counts(shard, name="t"):
    topic = shard.stats(name)
    return {state: getattr(topic, state) for state in ("delayed", "retrying", "ready", "leased", "dead")}


def test_settings_are_kept_as_given_and_replaced_as_a_whole(shard):
    one, two = settings(lease=5, priority=0, dedup=9), settings(ttl=7, on_conflict=REJECT)
    assert shard.topic(TOPIC_PUT, "t", one, 1)[0] == CREATED
    assert shard.stats("t").settings == one
    assert shard.topic(TOPIC_PUT, "t", two)[0] == OK
    assert shard.stats("t").settings == two


def test_a_missing_topic_is_not_found_and_not_created(shard):
    for verb in (TOPIC_GET, TOPIC_PAUSE, TOPIC_RESUME):
        assert shard.topic(verb, "t") == (NOT_FOUND, None)
    assert shard.topics() == (False, {})
    assert shard.purge("t")[0] == shard.redrive("t")[0] == shard.purge("t", verb="delete")[0] == NOT_FOUND


def test_a_topic_of_another_shard_is_created_on_request(shard):
    assert shard.topic(TOPIC_PAUSE, "t", makes=1)[0] == OK
    assert shard.stats("t").paused
    assert shard.topic(TOPIC_PUT, "u", settings(), 1, topics_max=1)[0] == TOO_MANY_TOPICS
    assert list(shard.topics()[1]) == [b"t"]


def test_topics_come_by_name_page_by_page(shard):
    for name in ("b", "a", "d", "c"):
        shard.push(name, job("x"))
    more, page = shard.topics(limit=3)
    assert more and list(page) == [b"a", b"b", b"c"]
    more, page = shard.topics(b"c", 3)
    assert not more and list(page) == [b"d"] and page[b"d"].ready == 1


def test_the_due_of_the_job_that_goes_next_is_shown(shard):
    assert shard.topic(TOPIC_PUT, "t", settings(), 1)[1].oldest_due == 0
    first = shard.push("t", job("a"))[0][2]
    shard.jump(1000)
    shard.push("t", job("b"))
    assert shard.stats("t").oldest_due == first
    urgent = shard.push("t", job("c", priority=1))[0][2]
    assert shard.stats("t").oldest_due == urgent


def test_resuming_a_topic_with_ready_jobs_sends_a_message_and_pausing_does_not(shard):
    shard.push("t", job("a"))
    shard.topic(TOPIC_PAUSE, "t")
    assert shard.look("t") == []
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    shard.push("t", job("b"))
    shard.topic(TOPIC_RESUME, "t")
    assert notifications.parse_response()[2][9:] == b"r--------t"
    assert shard.look("t", "nobody") == [b"t"]
    notifications.close()


@pytest.mark.parametrize("state, gone", [(DELAYED, {"delayed", "retrying"}), (READY, {"ready"}), (DEAD, {"dead"}), (0, {"delayed", "retrying", "ready", "dead"})])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_a_purge_drops_one_state_or_all_but_the_leased(shard, state, gone, most):
    leases = fill(shard)
    assert shard.purge_all("t", state, most=most) == 4 * len(gone)
    assert counts(shard) == {name: 0 if name in gone else 4 for name in ("delayed", "retrying", "ready", "leased", "dead")}
    assert shard.stats("t").cancelled == 4 * len(gone)
    assert {status for status, *_ in shard.answer(*[(ACK, lease.delivery) for lease in leases])} == {OK}


def test_a_purge_spares_later_pushes(shard):
    shard.push("t", *[job(f"j{n}") for n in range(10)])
    _, more, affected, up_to = shard.purge("t", most=5)
    assert more and affected == 5
    shard.push("t", job("new"), job("newer", delay=10))
    shard.jump(20)
    while more:
        _, more, affected, up_to = shard.purge("t", up_to=up_to, most=5)
    assert [found.id for found in shard.take("t")] == [b"new", b"newer"]


def test_a_purge_of_the_delayed_spares_the_many_that_are_due_and_were_not_moved_yet(shard):
    shard.push("t", *[job(f"due{n}", delay=10) for n in range(300)], *[job(f"later{n}", delay=60_000) for n in range(50)])
    shard.jump(20)
    assert shard.purge_all("t", DELAYED, most=20) == 50
    assert counts(shard)["ready"] == 300


def test_a_purge_of_the_ready_finds_all_that_are_due(shard):
    shard.push("t", *[job(f"due{n}", delay=10) for n in range(300)], *[job(f"later{n}", delay=60_000) for n in range(50)])
    shard.jump(20)
    assert shard.purge_all("t", READY, most=20) == 300
    assert counts(shard)["delayed"] == 50


def test_a_purged_id_is_free_immediately(shard):
    shard.topic(TOPIC_PUT, "t", settings(dedup=60_000), 1)
    shard.push("t", job("a"))
    shard.purge_all("t")
    assert shard.push("t", job("a"))[0][0] == CREATED


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_a_deleted_topic_leaves_nothing_and_its_leases_count_no_more(shard, most):
    shard.topic(TOPIC_PUT, "t", settings(dedup=60_000), 1)
    shard.push("t", job("finished"))
    shard.answer((ACK, shard.take("t")[0].delivery))
    leases = fill(shard)
    shard.push("other", job("a"))
    assert shard.purge_all("t", verb="delete", most=most) == 20
    assert shard.answer((ACK, leases[0].delivery)) == [(LEASE_ENDED, 0, 0, 0)]
    left = {key for key in shard.dump() if b":t" in key.replace(b":topic", b"").replace(b":topics", b"")}
    assert left == set() and list(shard.topics()[1]) == [b"other"]
    assert shard.push("t", job("finished"))[0][0] == CREATED


def test_a_repeated_delete_returns_the_same(shard):
    shard.push("t", job("a"))
    ticket = shard.ticket()
    first = shard.purge("t", verb="delete", ticket=ticket)
    shard.push("t", job("b"), ticket=shard.ticket(slot=1))
    assert shard.purge("t", verb="delete", ticket=ticket) == first
    assert shard.stats("t").ready == 1


def test_the_dead_go_round_again_from_the_first_attempt(shard):
    fill(shard)
    assert shard.redrive("t", most=3) == (OK, 1, 3, 1)
    assert shard.redrive("t", most=3, left=1) == (OK, 0, 1, 0)
    assert shard.redrive("t") == (OK, 0, 0, 0)
    assert counts(shard) == {"delayed": 4, "retrying": 4, "ready": 8, "leased": 4, "dead": 0}
    assert {found.attempt for found in shard.take("t")} == {1}
    assert shard.stats("t").redriven == 4


def test_a_redrive_with_nothing_left_to_do_does_nothing(shard):
    fill(shard)
    before = shard.dump()
    assert shard.redrive("t", left=0) == (OK, 0, 0, 0)
    assert shard.dump() == before


def test_one_dead_job_goes_round_by_its_id(shard):
    fill(shard)
    assert shard.redrive("t", "dead2") == (OK, 0, 1, 0)
    assert shard.redrive("t", "dead2")[0] == shard.redrive("t", "ready1")[0] == shard.redrive("t", "nobody")[0] == NOT_FOUND
    assert counts(shard)["dead"] == 3


def test_a_redriven_expired_job_gets_a_new_ttl(shard):
    shard.topic(TOPIC_PUT, "t", settings(ttl=1000, dead_letter_expired=True), 1)
    shard.push("t", job("a"))
    shard.jump(1002)
    shard.advance()
    found = shard.get("t", "a")
    assert (found.state, found.error) == (DEAD, b"expired")
    shard.redrive("t")
    assert shard.get("t", "a").state == READY
    shard.jump(1002)
    shard.advance()
    assert shard.get("t", "a").state == DEAD and shard.stats("t").died == 2


@pytest.mark.parametrize("later", [settings(), settings(ttl=600_000)])
def test_a_ttl_taken_back_or_changed_never_ends_a_lease(shard, later):
    """Entries in the expiry by the old settings must go when the job is taken."""
    shard.topic(TOPIC_PUT, "t", settings(ttl=1000), 1)
    shard.push("t", job("a"), job("b"), job("c"))
    shard.topic(TOPIC_PUT, "t", later)
    [lease] = shard.take("t", 1)
    shard.change("t", (1, "b"))
    shard.jump(1002)
    shard.advance()
    assert shard.answer((ACK, lease.delivery))[0][0] == OK


def test_a_later_ttl_counts_for_jobs_due_later(shard):
    shard.push("t", job("a", delay=100))
    shard.topic(TOPIC_PUT, "t", settings(ttl=1000))
    shard.jump(102)
    shard.advance()
    shard.jump(1002)
    shard.advance()
    assert shard.get("t", "a") is None and shard.stats("t").expired == 1


def test_a_push_without_a_priority_gets_that_of_its_topic(shard):
    shard.topic(TOPIC_PUT, "t", settings(priority=7), 1)
    shard.push("t", job("a", delay=10), job("b", delay=5, priority=100), job("c"))
    shard.jump(20)
    assert [(found.id, found.priority) for found in shard.take("t")] == [(b"c", 7), (b"a", 7), (b"b", 100)]


def test_the_default_of_the_topic_decides_between_two_pushes_of_one_id(shard):
    shard.topic(TOPIC_PUT, "t", settings(on_conflict=2), 1)
    assert [status for status, *_ in shard.push("t", job("a"), job("a"), job("a", on_conflict=REJECT))] == [CREATED, EXISTED, CONFLICT]


def test_a_last_attempt_nacked_during_a_redrive_waits_for_the_next(shard):
    shard.push("t", job("a", past=(1, 1, b"")), job("b", past=(1, 1, b"")), job("c", own={"attempts": 1}))
    [lease] = shard.take("t")
    _, more, affected, left = shard.redrive("t", most=1)
    shard.answer((NACK, lease.delivery))
    total = affected
    while more:
        _, more, affected, left = shard.redrive("t", most=1, left=left)
        total += affected
    assert total == 2 and counts(shard)["dead"] == 1
