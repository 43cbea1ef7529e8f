"""step.lua, jobs that are pushed again; push.lua, ids that are remembered for a time: many in one call are the same as one by one."""

from abi import ACK, AGAIN, AT_MAX_MS, BAD_OPTION, CREATED, DELAYED, EXISTED, EXTEND, FINISHED, FIXED, LEASE_ENDED, NACK, OK, READY, TOPIC_PUT, Shard, job, settings

START = 1_893_456_000_000  # 2030

KINDS = [
    {"body": b"plain"},
    {"body": b"own", "own": {"lease": 5000, "backoff": FIXED, "first": 1, "most": 1}},
    {"body": b"own ttl", "own": {"ttl": 50_000}},
    {"body": b"typed", "content_type": b"text/plain", "meta": b"x=1"},
    {"body": b"numbered", "content_type": 129},
    {"body": b"first", "priority": 5},
    {"body": b"kept", "keep": 60_000},
]
AGAINS = [{"delay": 60_000}, {"delay": 1, "body": b"other"}, {"delay": 7000, "priority": 3, "body": bytes(100_000)}, {"delay": 120_000, "body": b"{}", "content_type": b"application/json"}, {"at": START + 90_000}, {}]


def jobs():
    return [job(f"j{n:03}", **KINDS[n % len(KINDS)]) for n in range(80)]


def stored(shard, topic):
    """Everything about the jobs of a topic; of their sequences only the order."""
    found = [shard.get(topic, f"j{n:03}") for n in range(80)]
    order = sorted(one.sequence for one in found)
    counts = vars(shard.stats(topic))
    return [(one.id, one.flags, one.priority, order.index(one.sequence), one.state, one.attempt, one.policy, one.content_type, one.meta, one.body, one.error, one.due)
            for one in found], {name: counts[name] for name in counts if name != "oldest_due"}


def test_jobs_pushed_again_in_one_call_are_as_if_pushed_again_one_by_one(redis_server):
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    shard.hello(held=START)
    for topic in ("alone", "together"):
        shard.push(topic, *jobs())
        shard.push(topic, job("j000", b"after a nack"))
    results = {}
    for topic in ("alone", "together"):
        leases = {one.id: one.delivery for one in shard.take(topic)}
        answers = [(AGAIN, leases[b"j%03d" % n], AGAINS[n % len(AGAINS)]) for n in range(80)]
        results[topic] = shard.answer(*answers) if topic == "together" else [shard.answer(one)[0] for one in answers]
    assert results["together"] == results["alone"]
    assert [status for status, *_ in results["together"]] == [CREATED] * 80
    assert stored(shard, "together") == stored(shard, "alone")
    assert shard.stats("together").leased == 0 and shard.stats("together").acked == 80


def test_an_ended_lease_and_a_late_due_do_not_push_again_beside_others(shard):
    shard.push("t", *[job(f"j{n}", b"x") for n in range(5)])
    shard.push("u", job("j0", b"y"))
    a, b, c, d, e = [one.delivery for one in shard.take("t")]
    [other] = [one.delivery for one in shard.take("u")]
    found = shard.step([(AGAIN, a, {"delay": 1000, "body": b"2"}), (AGAIN, a, {"delay": 2000}), (ACK, b), (AGAIN, other, {"delay": 1000}), (AGAIN, c, {"at": AT_MAX_MS * 20}),
                        (NACK, d, 3000), (AGAIN, e, {"delay": 1000}), (AGAIN, b, {"delay": 1}), (EXTEND, e), (AGAIN, 4711, {"delay": 1})])
    assert [status for status, *_ in found.results] == [CREATED, LEASE_ENDED, OK, CREATED, BAD_OPTION, OK, CREATED, LEASE_ENDED, LEASE_ENDED, LEASE_ENDED]
    assert [name and name[1] for name in found.names] == [b"j0", None, b"j1", b"j0", b"j2", b"j3", b"j4", None, None, None]
    t, u = shard.stats("t"), shard.stats("u")
    assert (t.delayed, t.retrying, t.leased, t.acked, t.pushed, u.delayed, u.pushed) == (2, 1, 1, 3, 7, 1, 2)
    assert (shard.get("t", "j0").body, shard.get("t", "j0").due) == (b"2", found.now + 1001)


def test_a_job_with_a_consumer_or_attempts_is_pushed_again_beside_others(shard):
    shard.push("t", *[job(f"j{n}", b"x") for n in range(4)])
    shard.answer(*[(NACK, one.delivery, 0, b"boom") for one in shard.take("t")])
    leases = [one.delivery for one in shard.take("t", most=2)] + [one.delivery for one in shard.take("t", consumer=b"me")]
    shard.answer((EXTEND, leases[1], 90_000, b"half"))
    assert [status for status, *_ in shard.answer(*[(AGAIN, lease, {"delay": 1000}) for lease in leases])] == [CREATED] * 4
    for n in range(4):
        found = shard.get("t", f"j{n}")
        assert (found.state, found.attempt, found.error, found.history) == (DELAYED, 0, b"", [])
    assert not shard.client.exists(f"{shard.tag}:try:t", f"{shard.tag}:history:t")


def test_jobs_of_a_topic_with_priorities_that_fall_due_together_become_ready_by_priority(shard):
    shard.push("t", *[job(f"j{n:03}", b"x", delay=50_000 if n > 5 else None, priority=n % 3) for n in range(90)])
    shard.answer(*[(NACK, one.delivery, 40_000) for one in shard.take("t")])
    assert (shard.stats("t").retrying, shard.stats("t").delayed) == (6, 84)
    shard.jump(50_010)
    shard.advance()
    assert (shard.stats("t").ready, shard.stats("t").retrying, shard.stats("t").delayed) == (90, 0, 0)
    assert [one.id for one in shard.take("t")] == [b"j%03d" % n for first in range(3) for n in range(first, 90, 3)]


def test_one_once_pushes_one_job_whether_in_one_call_or_later(shard):
    first, more = (b"fire 1", 60_000), (b"fire 2", 60_000)
    assert [one[:2] for one in shard.push("t", job("a", once=first), job("b", once=first), job("c", once=more))] == [(CREATED, READY), (EXISTED, FINISHED), (CREATED, READY)]
    pushes = [job("d", once=more), job("e", once=(b"fire 3", 60_000)), job("f", once=(b"fire 3", 1)), job("g", once=first)]
    assert [one[:2] for one in shard.push("t", *pushes)] == [(EXISTED, FINISHED), (CREATED, READY), (EXISTED, FINISHED), (EXISTED, FINISHED)]
    shard.jump(60_002)
    assert [status for status, *_ in shard.push("t", job("h", once=first), job("i", once=first), job("k", once=more))] == [CREATED, EXISTED, CREATED]
    assert shard.client.zcard(f"{shard.tag}:finished:t") == 3


def test_a_once_of_many_calls_is_remembered_beside_remembered_ids(shard):
    shard.topic(TOPIC_PUT, "t", settings(dedup=60_000))
    shard.push("t", job("a"))
    shard.answer(*[(ACK, one.delivery) for one in shard.take("t")])
    onces = [job(f"n{n}", once=(b"%d" % (n % 50), 60_000)) for n in range(100)]
    assert [status for status, *_ in shard.push("t", job("a", once=(b"new", 60_000)), *onces)] == [EXISTED] + [CREATED] * 50 + [EXISTED] * 50
    assert shard.push("t", job("b", once=(b"new", 60_000)))[0][0] == CREATED, "a push that made no job remembers nothing"
