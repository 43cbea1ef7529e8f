"""Finished jobs that are kept: their order, their time, the topic's limits, repairs; and messages about the end of awaited jobs."""

import random

import pytest
import state
from abi import (ACK, CANCEL, CANCELLED, CREATED, DEAD, DELAYED, EXTEND, FINISHED, LEASED, NACK, NOT_FOUND, OK, READY, REFUSE, REPLACED, TOPIC_PUT, Shard, job, settings,
                 unpack)
from test_check import only, must_be_mended
from test_random import SEEDS, seeds
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


def must_be_found(shard, jobs):
    """Each kept job is listed and found by its id."""
    idents = listed(shard)
    assert len(idents) == jobs and [ident for ident in idents if not shard.kept("t", ident.decode())] == []
    shard.must_be_sound()


def pages(shard, topic="t"):
    """Returns the number of entries of each page."""
    return {key: shard.client.llen(key) for key in shard.client.scan_iter(f"{shard.tag}:page:{topic}:*")}


def entries(shard, topic="t"):
    """Returns each entry of each page with the key of the page."""
    return [(key, entry) for key in sorted(pages(shard, topic)) for entry in shard.client.lrange(key, 0, -1)]


def stored(shard, topic="t"):
    return dict(state.kept_read(entry) for _, entry in entries(shard, topic))


def part_of(shard, ident):
    """Returns the key of the part of the index that has the id."""
    [key] = [key for key in shard.client.scan_iter(f"{shard.tag}:done:t:*") if shard.client.hexists(key, ident)]
    return key


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
    assert max(pages(shard).values()) <= LEAF_MAX


def test_shorter_times_find_their_place(shard):
    keep(shard)
    for at in range(0, 300, 10):
        finish(shard, *range(at, at + 10), keep=DAY)
        finish(shard, *range(1000 + at, 1000 + at + 10), keep=HOUR + at)
        shard.jump(5)
    assert listed(shard)[0] == b"299" and listed(shard)[-1] == b"1000" and len(listed(shard)) == 600
    assert max(pages(shard).values()) <= LEAF_MAX and len(pages(shard)) < 14
    shard.jump(HOUR + 2000)
    shard.advance_all()
    assert listed(shard, limit=50) == named(*range(299, -1, -1))


def test_jobs_of_a_page_that_is_cut_in_the_same_call_are_found_by_id(shard):
    keep(shard)
    finish(shard, *range(95), keep=DAY)
    finish(shard, *range(1000, 1010), keep=HOUR)
    must_be_found(shard, 105)


@pytest.mark.parametrize("seed", seeds(SEEDS, short=3))
def test_kept_jobs_with_times_in_any_order_are_found_by_id(shard, seed):
    chance = random.Random(seed)
    keep(shard)
    shard.check = False
    pushed = 0
    for _ in range(12):
        count = chance.choice((1, 10, 60, 100))
        times = [chance.choice((HOUR, HOUR + 1, 2 * HOUR, DAY, DAY + chance.randrange(HOUR))) for _ in range(count)]
        shard.push("t", *[job(pushed + at, b"body", keep=ms) for at, ms in enumerate(times)])
        pushed += count
        result = b"\0" + b"r" * chance.choice((0, 20, 500))
        taken = shard.take("t", count)
        chance.shuffle(taken)
        shard.answer(*[(ACK, found.delivery, 0, b"", result) for found in taken])
        must_be_found(shard, pushed)


def test_the_time_of_a_kept_job_ends_exactly_and_it_is_removed_a_second_later(shard):
    keep(shard, ms=5000)
    finish(shard, "a")
    key = f"{shard.tag}:done:t:0"
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


# ---- how they are stored ----

def test_ids_of_each_kind_are_found_while_the_index_grows(shard):
    keep(shard)
    shard.check = False
    idents = [kind % number for number in range(500) for kind in ("order-%d", "%d-of-a-customer-with-a-long-name", "x%0127d", "\x01" + "0" * 10 + "%06d")]
    for at in range(0, len(idents), 500):
        finish(shard, *idents[at:at + 500])
        shard.must_be_sound()
    parts = [shard.client.hlen(key) for key in shard.client.scan_iter(f"{shard.tag}:done:t:*")]
    assert sum(parts) == 2000 and 2000 // 32 <= len(parts) <= 2000 // 32 + 1 and max(parts) < 110
    assert all(shard.kept("t", ident) for ident in idents[::7])
    assert len(listed(shard)) == 2000


def test_pages_of_long_jobs_are_short(shard):
    keep(shard)
    for number in range(40):
        finish(shard, number, result=b"\0" + b"r" * (1000 if number % 10 else 20_000))
    sizes = {}
    for key, entry in entries(shard):
        sizes.setdefault(key, []).append(len(entry))
    assert all(sum(found) <= 7800 or len(found) == 1 for found in sizes.values()) and len(sizes) <= 12
    assert listed(shard) == named(*range(39, -1, -1))
    assert len(shard.kept("t", "20").result) == 20_001 and len(shard.kept("t", "21").result) == 1001


def test_a_job_is_found_after_others_of_its_page_have_left(shard):
    keep(shard)
    for number in range(60):
        finish(shard, number)
        shard.jump(100)
    shard.push("t", job("40"), job("41"))
    shard.jump(HOUR - 3000)
    shard.advance_all()
    assert 5 < len(listed(shard)) < 41
    assert all(shard.kept("t", ident.decode()) for ident in listed(shard)[:-5])  # the last ones may end meanwhile


def test_jobs_that_are_kept_until_one_moment_share_pages(shard):
    """Each time ends before that of the job before."""
    keep(shard)
    for number in range(250):
        finish(shard, number, keep=HOUR - 5000 * number)
    assert len(pages(shard)) < 8 and listed(shard, limit=40) == named(*range(250))


def test_a_shorter_time_for_all_jobs_costs_no_more_pages(shard):
    keep(shard, ms=DAY)
    finish(shard, *range(150))
    keep(shard, ms=HOUR)
    for at in range(1000, 1150, 10):
        finish(shard, *range(at, at + 10))
        shard.jump(5)
    assert len(pages(shard)) == 4 and listed(shard) == named(*range(149, -1, -1), *range(1149, 999, -1))


@pytest.mark.parametrize(("ident", "result", "most"), [("generated", (), 110), ("generated", (b"\0" + b"r" * 200,), 330), ("own", (), 120)], ids=["generated", "result", "own"])
def test_a_kept_job_takes_little_memory(shard, ident, result, most):
    keep(shard, ms=DAY)
    shard.check = False
    idents = [b"\1" + n.to_bytes(6, "big") + (n * 2654435761 % 2**80).to_bytes(10, "big") if ident == "generated" else b"customer-%017d" % n for n in range(20_000)]
    for at in range(0, len(idents), 500):
        shard.push("t", *[job(each, b"body") for each in idents[at:at + 500]])
        shard.answer(*[(ACK, found.delivery, 0, b"", *result) for found in shard.take("t", 500, consumer="worker-12")])
    assert shard.stats("t").finished == len(idents)
    used = sum(shard.client.memory_usage(key, samples=0) for key in shard.client.scan_iter(f"{shard.tag}:*", count=1000))
    assert used / len(idents) < most


# ---- limits ----

def test_the_oldest_are_dropped_first_and_each_call_drops_few(shard):
    keep(shard)
    finish(shard, *range(300))
    keep(shard, most=80)  # of eight shards: ten here
    finish(shard, "new")
    assert 300 - 100 < len(stored(shard)) < 301
    shard.advance_all(20)
    assert listed(shard) == [b"new", *named(*range(299, 290, -1))]


def test_the_size_is_limited_as_the_number_is(shard):
    keep(shard, size=8 * 5000)
    for number in range(20):
        finish(shard, number, result=b"\0" + b"r" * 1000)
    assert listed(shard) == named(19, 18, 17, 16)
    assert sum(len(ident) + len(value) for ident, value in stored(shard).items()) <= 5000


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
    assert sum(found.values()) - found["hset"] < 35 and found["hset"] < 20, found
    shard.must_be_sound()


def test_long_kept_jobs_are_dropped_by_several_calls(shard):
    keep(shard)
    shard.push("t", *[job(number) for number in range(20)])
    taken = shard.take("t")
    shard.answer(*[(ACK, found.delivery, 0, b"", b"\0" + b"r" * 100_000) for found in taken])
    assert shard.purge("t", FINISHED, most=100)[:3] == (OK, 1, 3)
    keep(shard, most=8 * 14)
    shard.advance_all()
    assert len(stored(shard)) == 14
    shard.jump(HOUR + 2000)
    _, more, _ = shard.advance(1000)
    assert more and len(stored(shard)) == 11
    assert shard.purge_all("t", verb="delete") == 0 and not shard.client.exists(f"{shard.tag}:order:t") and pages(shard) == {}


def test_a_long_kept_job_is_not_read_before_its_time_ends(shard):
    keep(shard)
    finish(shard, "long", result=b"\0" + b"r" * 100_000)
    shard.push("t", job("soon", delay=1000))
    shard.jump(1500)
    shard.check = False
    reads = lambda call: {name for name in commands(shard, call) if name in ("lrange", "lindex")}
    assert reads(lambda: shard.advance(100)) == set() and shard.stats("t").ready == 1
    assert reads(lambda: shard.stats("t")) == set()


def test_ended_jobs_are_counted_by_pages(shard):
    keep(shard)
    for number in range(30):
        finish(shard, number, result=b"\0" + b"r" * 3000, keep=HOUR + 10_000 * (number > 20))
    shard.jump(HOUR)
    while listed(shard)[-1] != b"21":
        pass
    shard.check = False
    assert shard.stats("t").finished == 9 and len(stored(shard)) == 30
    assert commands(shard, lambda: shard.stats("t"))["lrange"] == 1


def test_the_time_of_a_page_is_corrected_after_its_first_job_was_removed(shard):
    keep(shard)
    finish(shard, "first")
    finish(shard, "second", keep=HOUR + 5000)
    shard.push("t", job("first", delay=DAY))
    shard.jump(HOUR + 2000)
    shard.advance_all()
    [page] = shard.client.zrange(f"{shard.tag}:order:t", 0, -1, withscores=True)
    assert page[1] == shard.kept("t", "second").ends
    shard.jump(5000)
    shard.advance_all()
    assert stored(shard) == {}


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


def entry_of(shard, ident):
    return next((key, entry) for key, entry in entries(shard) if state.kept_read(entry)[0] == ident)


def change_entry(ident, change):
    """Replaces the entry of a kept job by those that `change` returns."""
    def spoil(shard):
        key, entry = entry_of(shard, ident)
        for new in change(entry):
            shard.client.linsert(key, "before", entry, new)
        shard.client.lrem(key, 1, entry)
    return spoil


def lose_index(shard):
    for key in shard.client.scan_iter(f"{shard.tag}:done:t:*"):
        shard.client.delete(key)


def misplace(shard):
    [place] = shard.client.hmget(part_of(shard, "7"), "7")
    shard.client.hdel(part_of(shard, "7"), "7")
    wrong = next(part for part in range(8) if part != state.kept_part(b"7", 8))
    shard.client.hset(f"{shard.tag}:done:t:{wrong}", "7", place)


def swap(shard):
    key, entry = entry_of(shard, b"7")
    shard.client.lrem(key, 1, entry)
    shard.client.rpush(key, entry)


def keep_twice(shard):
    _, entry = entry_of(shard, b"7")
    shard.client.rpush(max(pages(shard)), entry[:4] + shard.client.lindex(max(pages(shard)), -1)[6:18] + entry[16:])


DAMAGES = {
    "the order is lost": (damage("DEL", "T:order:t"), "the order of kept jobs lacks page", 240),
    "a page is lost": (lambda shard: shard.client.delete(min(pages(shard))), "is in no page", 140),
    "all pages are lost": (lambda shard: shard.client.delete(*pages(shard)), "which is missing", 0),
    "the figures are lost": (damage("DEL", "T:kept:t"), "kept jobs of 0 bytes", 240),
    "a job is lost": (change_entry(b"7", lambda entry: []), "is in no page", 239),
    "an id is lost": (lambda shard: shard.client.hdel(part_of(shard, "7"), "7"), "is not in the index", 240),
    "the index is lost": (lose_index, "is not in the index", 240),
    "an id is elsewhere in the index": (misplace, "is in the wrong part of the index", 240),
    "the index names no place": (lambda shard: shard.client.hset(part_of(shard, "7"), "7", "x"), "is in no page", 240),
    "the index has a part too many": (lambda shard: shard.client.hset(f"{shard.tag}:done:t:9", "none", "100"), "has part 9, but counts 8", 240),
    "a topic that keeps nothing has a part of an index": (lambda shard: shard.client.hset(f"{shard.tag}:done:other:1", "none", "100"), "but there are no such jobs", 240),
    "the id exists": (change_entry(b"7", lambda entry: [b"\x04live" + entry[2:]]), "exists and is also kept", 239),
    "a job is cut short": (change_entry(b"7", lambda entry: [entry[:-3]]), "cannot be read", 239),
    "an entry is empty": (change_entry(b"7", lambda entry: [b""]), "cannot be read", 239),
    "a job is kept twice": (keep_twice, "is kept as finished twice", 240),
    "a job is twice in its page": (change_entry(b"7", lambda entry: [entry, entry]), "is kept as finished twice", 240),
    "a page is not in order": (swap, "is not in order", 240),
    "a page begins late": (lambda shard: shard.client.zadd(f"{shard.tag}:order:t", {shard.client.zrange(f"{shard.tag}:order:t", 0, 0)[0]: 2**40 * 3}), "begins at", 240),
}


@pytest.mark.parametrize("what", sorted(DAMAGES))
def test_damage_to_kept_jobs_is_named_and_mended(shard, what):
    keep(shard)
    for at in range(0, 240, 40):
        finish(shard, *range(at, at + 40))
        shard.jump(50)
    shard.push("t", job("live", delay=HOUR))
    shard.check = False
    spoil, text, left = DAMAGES[what]
    spoil(shard)
    assert only(must_be_mended(shard), text)
    assert len(listed(shard, limit=60)) == left == len([ident for ident in range(240) if shard.kept("t", str(ident))])
    keep(shard)
    finish(shard, "7", "new")
    assert listed(shard)[:2] == [b"new", b"7"]


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
