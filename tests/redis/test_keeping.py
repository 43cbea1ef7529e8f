"""Finished jobs that are kept: their order, their time, the topic's limits, repairs; and messages about the end of awaited jobs."""

import pytest
import state
from abi import (ACK, CANCEL, CANCELLED, CREATED, DEAD, DELAYED, EXTEND, FINISHED, LEASED, NACK, NOT_FOUND, OK, READY, REFUSE, REPLACED, TOPIC_PUT, Shard, job, settings,
                 unpack)
from test_check import only, must_be_mended
from test_reshard import move_all

HOUR, DAY = 3600_000, 24 * 3600_000
LEAF_MAX = 100
ACKED, CANCELLED_END, EXPIRED, DIED, PURGED, MOVED = range(1, 7)
KEPT = 5  # kind of page of a shard that is given up


def keep(shard, topic="t", ms=HOUR, most=0, size=0, body=0, **others):
    shard.topic(TOPIC_PUT, topic, settings(keep=(ms, most, size, body), **others), 1)


def finish(shard, *idents, topic="t", result=b"\x02ttres", **options):
    shard.push(topic, *[job(ident, b"body", **options) for ident in idents])
    taken = shard.take(topic, len(idents))
    assert {status for status, *_ in shard.answer(*[(ACK, found.delivery, 0, b"", result) for found in taken])} == {OK}


def listed(shard, topic="t", limit=1000):
    out, cursor = [], (-1, 0)
    while True:
        more, jobs = shard.list_kept(topic, limit, cursor)
        out += [found.id for found in jobs]
        if not more:
            return out
        cursor = (jobs[-1].ends, jobs[-1].number)


def named(*numbers):
    return [f"{number}".encode() for number in numbers]


# ---- keeping ----

def test_a_kept_job_has_all_that_is_left_of_it(shard):
    keep(shard, body=1)
    shard.push("t", job("a", b"body", meta=b"k\0v\0", content_type=b"text/x"))
    [first] = shard.take("t", 1, consumer="one")
    shard.answer((NACK, first.delivery, 0, b"why"))
    shard.jump(10)
    [second] = shard.take("t", 1, consumer="two")
    shard.answer((EXTEND, second.delivery, HOUR, b"half"))
    shard.jump(500)
    shard.answer((ACK, second.delivery, 0, b"", b"\x01tresult"))
    kept = shard.kept("t", "a")
    assert (kept.outcome, kept.attempt, kept.consumer, kept.progress, kept.result) == (ACKED, 2, b"two", b"half", b"\x01tresult")
    assert (kept.meta, kept.content_type, kept.body) == (b"k\0v\0", b"\x06text/x", b"body")
    assert 500 <= kept.duration < 2000 and kept.ends == kept.finished + 1 + HOUR and len(kept.history) > 5
    assert shard.get("t", "a") is None and shard.stats("t").finished == 1
    assert shard.list_kept("t", body=False)[1][0].value == bytes([kept.flags & 31]) + kept.value[1:-len(b"\x06text/xbody")]


def test_a_list_runs_from_the_newest_over_many_pages(shard):
    keep(shard)
    for at in range(0, 450, 30):
        finish(shard, *range(at, at + 30))
    wanted = named(*range(449, -1, -1))
    for limit in (7, 100, 1000):
        assert listed(shard, limit=limit) == wanted
    assert shard.client.zcard(f"{shard.tag}:order:t") == 5


def test_jobs_that_end_in_one_call_keep_their_order(shard):
    keep(shard)
    finish(shard, *range(350))
    assert listed(shard, limit=33) == named(*range(349, -1, -1))
    assert max(shard.client.zcard(key) for key in shard.client.scan_iter(f"{shard.tag}:page:*")) <= LEAF_MAX


def test_shorter_times_find_their_place(shard):
    keep(shard)
    for at in range(0, 300, 10):
        finish(shard, *range(at, at + 10), keep=DAY)
        finish(shard, *range(1000 + at, 1000 + at + 10), keep=HOUR + at)
        shard.jump(5)
    assert listed(shard)[0] == b"299" and listed(shard)[-1] == b"1000" and len(listed(shard)) == 600
    assert max(shard.client.zcard(key) for key in shard.client.scan_iter(f"{shard.tag}:page:*")) <= LEAF_MAX + 10
    shard.jump(HOUR + 2000)
    shard.advance_all()
    assert listed(shard, limit=50) == named(*range(299, -1, -1))


def test_the_time_of_a_kept_job_ends_exactly_and_it_is_removed_a_second_later(shard):
    keep(shard, ms=5000)
    finish(shard, "a")
    key = f"{shard.tag}:done:t"
    shard.jump(4000)
    assert shard.kept("t", "a") and shard.stats("t").finished == 1
    shard.jump(1001)
    assert shard.kept("t", "a") is None and listed(shard) == [] and shard.stats("t").finished == 0 and shard.client.hlen(key) == 1
    shard.jump(1000)
    shard.advance_all()
    assert not shard.client.exists(key, f"{shard.tag}:order:t")


def test_a_push_removes_the_kept_job_of_its_id(shard):
    keep(shard)
    finish(shard, *range(120))
    assert shard.push("t", job("50"), job("new"))[0][0] == CREATED
    assert shard.kept("t", "50") is None and len(listed(shard)) == 119
    assert shard.push("t", job("50"))[0][0] == REPLACED


def test_cancelled_and_expired_jobs_are_kept_and_purged_ones_are_not(shard):
    keep(shard)
    shard.push("t", job("cancelled", delay=HOUR), job("expired", own={"ttl": 100}), job("purged", delay=HOUR))
    assert shard.change("t", (CANCEL, "cancelled"))[0][0] == CANCELLED
    shard.jump(200)
    shard.advance_all()
    shard.purge_all("t")
    assert {found.id: found.outcome for found in shard.list_kept("t")[1]} == {b"cancelled": CANCELLED_END, b"expired": EXPIRED}
    assert shard.purge_all("t", FINISHED) == 2 and listed(shard) == []


def test_deleting_the_topic_removes_kept_jobs_in_steps(shard):
    keep(shard)
    finish(shard, *range(250))
    shard.push("t", job("live"))
    assert shard.purge_all("t", verb="delete", most=40) == 1
    assert not [key for key in shard.client.scan_iter(shard.tag + ":*:t*")]


# ---- limits ----

def test_the_oldest_are_dropped_first_and_each_call_drops_few(shard):
    keep(shard)
    finish(shard, *range(300))
    keep(shard, most=80)  # of eight shards: ten here
    finish(shard, "new")
    assert 300 - 100 < shard.client.hlen(f"{shard.tag}:done:t") < 301
    shard.advance_all(20)
    assert listed(shard) == [b"new", *named(*range(299, 290, -1))]


def test_the_size_is_limited_as_the_number_is(shard):
    keep(shard, size=8 * 5000)
    for number in range(20):
        finish(shard, number, result=b"\0" + b"r" * 1000)
    assert listed(shard) == named(19, 18, 17, 16)
    assert sum(shard.client.hstrlen(f"{shard.tag}:done:t", ident) + len(ident) for ident in listed(shard)) <= 5000


# ---- costs ----

def commands(shard, call):
    stats = lambda: {name[8:]: found["calls"] for name, found in shard.client.info("commandstats").items()}
    before = stats()
    call()
    after = stats()
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0) and name != "info"}


@pytest.mark.parametrize("dedup", [0, HOUR])
def test_a_topic_that_keeps_nothing_runs_the_commands_that_it_ran_before(shard, dedup):
    """The figures were measured before jobs could be kept. Each call also reads one more key with its first command."""
    shard.check = False
    if dedup:
        shard.topic(TOPIC_PUT, "t", settings(dedup=dedup), 1)
    shard.push("t", job("other"), job("a"), *[job(number) for number in range(50)])
    shard.take("t", 1)
    base = {"fcall": 1, "time": 1, "mget": 1, "mset": 1}
    assert commands(shard, lambda: shard.push("t", job("new", made=True))) == {**base, "hset": 1, "zadd": 1}
    [taken] = shard.take("t", 1)
    remembers = {"zadd": 1} if dedup else {}
    shard.answer((ACK, taken.delivery))
    [taken] = shard.take("t", 1)
    assert commands(shard, lambda: shard.answer((ACK, taken.delivery))) == {**base, "hget": 1, "zrem": 2, "hdel": 3, **remembers}
    taken = shard.take("t", 50)
    assert commands(shard, lambda: shard.answer(*[(ACK, found.delivery) for found in taken])) == {**base, "hmget": 1, "zrem": 2, "hdel": 3, **remembers}


def test_a_batch_of_acks_is_kept_with_few_commands(shard):
    keep(shard)
    finish(shard, *range(200))
    shard.check = False
    shard.push("t", *[job(number) for number in range(300, 364)])
    taken = shard.take("t", 64)
    found = commands(shard, lambda: shard.answer(*[(ACK, each.delivery) for each in taken]))
    assert sum(found.values()) < 25, found
    shard.must_be_sound()


# ---- waits ----

@pytest.fixture
def messages(shard, redis_server):
    """Returns the ends that were published since the last call: (outcome, number, topic, id, Kept or None)."""
    pubsub = redis_server.client().pubsub()
    pubsub.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    pubsub.connection.read_response()

    def read():
        out = []
        while pubsub.connection.can_read(0.05):
            text = pubsub.connection.read_response()[2]
            if text[9:10] != b"w":
                continue
            outcome, number, follows, size, rest = unpack(">BI6BB", text[10:])
            topic, size, rest = rest[:size], rest[size], rest[size + 1:]
            out.append((outcome, number, topic.decode(), rest[:size].decode(), rest[size:] if follows else None))
        return out

    yield read
    pubsub.close()


def test_the_end_of_an_awaited_job_is_published_once(shard, messages):
    shard.push("t", job("a"), job("b"))
    assert [found[:2] for found in shard.await_jobs(("t", "a"), ("t", "unknown"))] == [(OK, READY), (NOT_FOUND, 0)]
    first, second = shard.take("t", 2)
    shard.answer((ACK, first.delivery, 0, b"", b"\0yes"), (ACK, second.delivery))
    [(outcome, number, topic, ident, value)] = messages()
    assert (outcome, topic, ident) == (ACKED, "t", "a") and value.endswith(b"\0yes")
    assert shard.call("look").rest[12:18] == number.to_bytes(6, "big")
    shard.push("t", job("a"))
    shard.answer((ACK, shard.take("t", 1)[0].delivery))
    assert messages() == []


def test_each_kind_of_end_is_published(shard, messages):
    shard.push("t", job("cancelled", awaits=True), job("refused", awaits=True), job("expired", own={"ttl": 50}, awaits=True), job("purged", delay=HOUR, awaits=True),
               job("replaced", delay=HOUR, awaits=True))
    shard.change("t", (CANCEL, "cancelled"))
    [taken] = shard.take("t", 1)
    shard.answer((REFUSE, taken.delivery, 0, b"why", b"\0details"))
    shard.jump(100)
    shard.advance_all()
    shard.push("t", job("replaced", delay=HOUR))
    shard.purge_all("t", DELAYED)
    found = {ident: (outcome, value) for outcome, _, _, ident, value in messages()}
    assert {ident: outcome for ident, (outcome, _) in found.items()} == {"cancelled": CANCELLED_END, "refused": DIED, "expired": EXPIRED, "purged": PURGED, "replaced": PURGED}
    assert found["refused"][1].endswith(b"\0details") and found["purged"][1] is None


def test_a_long_result_of_a_kept_job_is_not_published(shard, messages):
    keep(shard)
    for topic in ("t", "other"):
        shard.push(topic, job("a", awaits=True))
        shard.answer((ACK, shard.take(topic, 1)[0].delivery, 0, b"", b"\0" + b"r" * 9000))
    (_, first, _, _, value), (_, second, _, _, other) = messages()
    assert value is None and len(other) > 9000 and second == first + 1
    assert len(shard.kept("t", "a").result) == 9001


def test_a_note_of_a_wait_that_is_not_renewed_ends(shard, messages):
    shard.push("t", job("a", awaits=True), job("b"))
    assert shard.client.pttl(shard.tag + ":waiting") > 60_000
    shard.jump(61_000)
    shard.await_jobs(("t", "b"))
    assert shard.client.zcard(shard.tag + ":awaited") == 1
    assert [state for _, state, _ in shard.await_jobs(("t", "b"))] == [READY]


# ---- another number of shards ----

def test_kept_jobs_and_waits_move_to_another_shard(redis_server, shard, messages):
    new = Shard(redis_server.client(), tag="{tarry:1.1:0}")
    new.hello(shards=1)
    new.reshard("prepare")
    keep(shard)
    keep(new)
    finish(shard, *range(130))
    shard.push("t", job("live", delay=HOUR, awaits=True))
    before = {found.id: found.value[14:] for found in shard.list_kept("t")[1]}
    for verb in ("announce", "seal", "leave"):
        shard.reshard(verb)
    move_all(shard, new, 40)
    assert {found.id: found.value[14:] for found in new.list_kept("t")[1]} == before
    assert listed(new) == named(*range(129, -1, -1))
    assert [outcome for outcome, *_ in messages()] == [MOVED]
    new.must_be_sound()


# ---- repairs ----

def damage(kind, *words):
    return lambda shard: shard.client.execute_command(kind, *[word.replace("T", shard.tag) if isinstance(word, str) else word for word in words])


DAMAGES = {
    "the order is lost": (damage("DEL", "T:order:t"), "the order of kept jobs lacks page"),
    "a page is lost": (lambda shard: shard.client.delete(next(shard.client.scan_iter(f"{shard.tag}:page:t:*"))), "is in no page"),
    "the figures are lost": (damage("DEL", "T:kept:t"), "kept jobs of 0 bytes"),
    "a job is lost": (damage("HDEL", "T:done:t", "7"), "has an entry without a job"),
    "all jobs are lost": (damage("DEL", "T:done:t"), "has an entry without a job"),
    "the id exists": (lambda shard: [shard.client.hset(f"{shard.tag}:done:t", "live", shard.client.hget(f"{shard.tag}:done:t", "7"))], "exists and is also kept"),
    "a job is cut short": (lambda shard: shard.client.hset(f"{shard.tag}:done:t", "7", shard.client.hget(f"{shard.tag}:done:t", "7")[:-3]), "cannot be read"),
    "a page begins late": (lambda shard: shard.client.zadd(f"{shard.tag}:order:t", {shard.client.zrange(f"{shard.tag}:order:t", 0, 0)[0]: 2**40 * 3}), "begins at"),
}


@pytest.mark.parametrize("what", sorted(DAMAGES))
def test_damage_to_kept_jobs_is_named_and_mended(shard, what):
    keep(shard)
    for at in range(0, 240, 40):
        finish(shard, *range(at, at + 40))
        shard.jump(50)
    shard.push("t", job("live", delay=HOUR))
    shard.check = False
    spoil, text = DAMAGES[what]
    spoil(shard)
    assert only(must_be_mended(shard), text)
    left = 0 if what == "all jobs are lost" else 239 if what in ("a job is lost", "a job is cut short") else 240
    assert len(listed(shard, limit=60)) == left


def test_states_that_are_not_ends_are_unchanged_by_keeping(shard):
    keep(shard)
    shard.push("t", job("dead", past=(1, 1, b"")), job("delayed", delay=HOUR), job("ready"))
    shard.push("t", job("leased"))
    taken = shard.take("t", 1)
    assert len(taken) == 1 and {found.state for found in shard.list_all("t")} == {DEAD, DELAYED, READY, LEASED} and listed(shard) == []


def test_numbers_of_kept_jobs_are_below_the_counter_after_a_repair(shard):
    keep(shard)
    finish(shard, "a", "b")
    highest = max(found.number for found in shard.list_kept("t", 10, (-1, 0))[1])
    state.core_change(shard.client, shard.tag, sequence=highest - 1)
    shard.check = False
    assert only(must_be_mended(shard), "number of a kept job", "above the shard's counter 'sequence'")
    finish(shard, "c")
    assert listed(shard) == [b"c", b"b", b"a"]
