"""A shard of layout 1 becomes one of layout 2: nothing is lost, whatever comes in between, and nobody works by the wrong layout."""

import random

import pytest
import redis
from abi import (ACK, CANCEL, CREATED, DEAD, DELAYED, EXISTED, EXTEND, LEASED, NACK, NONE, OK, READY, REFUSE, RESCHEDULE, RETURN, TOPIC_PAUSE, TOPIC_PUT,
                 TOPIC_RESUME, Shard, job, settings)
from before import FUNCTIONS, LIBRARY, Before, convert, convert_all, seen
from invariants import scan
from test_random import SEEDS, seeds

DONE, MORE, AT_WORK = range(3)
TOPICS = ("plain", "ttl", "dedup", "short", "odd")
STEPS = 150


@pytest.fixture
def before(redis_server):
    """An empty shard of layout 1."""
    redis_server.call("FLUSHALL")
    redis_server.call("FUNCTION", "FLUSH")
    shard = Before(redis_server.client())
    shard.hello(name="0" * 32)
    return shard


@pytest.fixture
def after(before):
    """The same shard to a server of this layout."""
    return Shard(before.client, server="0000000b")


def furnish(shard, seed):
    """Random calls of a server of before. The numbers of leases that it gave out."""
    rand, leases = random.Random(seed), []
    pick = rand.choice
    names = [f"id{n}" for n in range(60)]
    for name in TOPICS[1:]:
        shard.topic(TOPIC_PUT, name, settings(lease=pick((0, 500_000)), ttl=pick((0, 300_000)) if name == "ttl" else 0, attempts=pick((1, 2)) if name == "short" else 0,
                                              priority=7 if name == "odd" else None, dedup=500_000 if name == "dedup" else 0,
                                              dead_letter_expired=pick((False, True))), 1, extension=pick((b"", b"{}")))
    for _ in range(STEPS):
        name = pick(TOPICS)
        kind = rand.randrange(9)
        if kind < 4:
            own = {"ttl": pick((0, 400_000)), "lease": pick((0, 700_000)), "attempts": pick((0, 3))} if rand.random() < 0.1 else None
            shard.push(name, *[job(pick(names), b"x" * rand.randrange(60), delay=pick((None, 0, 20_000, 90_000, 3_000_000)), own=own, priority=pick((None, None, 3)),
                                   past=pick((None, None, (1, 2, b"then")))) for _ in range(pick((1, 8)))])
        elif kind == 4:
            leases += [found.delivery for found in shard.take(name, most=pick((1, 6)), lease=pick((0, 400_000)))]
        elif kind == 5 and leases:
            verb = pick((ACK, NACK, NACK, REFUSE, EXTEND, RETURN))
            shard.answer((verb, leases.pop(rand.randrange(len(leases))), NONE if verb in (NACK, REFUSE) else 60_000, b"why"))
        elif kind == 6:
            shard.change(name, (pick((CANCEL, RESCHEDULE)), pick(names), {"delay": pick((0, 70_000))}))
        elif kind == 7:
            pick((lambda: shard.advance(5), lambda: shard.jump(30_000), lambda: shard.pack(20)))()
        else:
            shard.topic(pick((TOPIC_PAUSE, TOPIC_RESUME)), name)
    return leases


def drain(shard):
    """Takes and acks all there is, now and later: how many."""
    count = 0
    for name in shard.topics()[1]:
        shard.topic(TOPIC_RESUME, name.decode())
    for _ in range(20):
        shard.jump(4_000_000)
        shard.advance_all()
        for name in shard.topics()[1]:
            found = shard.take(name.decode())
            if found:
                assert all(answer[0] == OK for answer in shard.answer(*[(ACK, lease.delivery) for lease in found]))
            count += len(found)
    return count


# ---- nothing is lost ----

@pytest.mark.parametrize("seed", seeds(SEEDS + 3, 2))
def test_a_conversion_keeps_all_jobs_and_leases(before, after, seed):
    leases = furnish(before, seed)
    held = [number for number, place in before.client.hgetall(before.tag + ":leased").items()]
    was = seen(before)
    assert sum(len(jobs) for _, jobs in was.values()) > 10
    assert convert_all(after, random.Random(seed).choice((1, 3, 1000))) == (DONE, len(was))
    assert scan(after.client, after.tag) == []
    after.jumped_ms = before.jumped_ms
    greeted = after.hello(drawn=b"x" * 16, name="1" * 32)
    assert (greeted.is_new, greeted.shards, greeted.lease_key, greeted.name) == (0, 8, b"0123456789abcdef", b"0" * 32)
    assert seen(after) == was
    assert {lease for lease in leases if str(lease).encode() in held} == {lease for lease in leases if after.answer((EXTEND, lease, 500_000))[0][0] == OK}
    live = sum(topic["delayed"] + topic["retrying"] + topic["ready"] + topic["leased"] for topic, _ in seen(after).values())
    totals = after.topics()[1]
    gone = drain(after)
    assert gone <= live
    for name, topic in after.topics()[1].items():
        assert topic.pushed == topic.acked + topic.cancelled + topic.expired + topic.dead and topic.pushed >= totals[name].pushed
    assert scan(after.client, after.tag) == []


def test_what_is_remembered_goes_on(before, after):
    before.topic(TOPIC_PUT, "t", settings(dedup=500_000), 1)
    before.push("t", job("done"), job("held"), job("later", delay=60_000), job("failed"))
    taken = {found.id: found.delivery for found in before.take("t", lease=100_000)}
    before.answer((ACK, taken[b"done"]), (NACK, taken[b"failed"], 50_000, b"why"))
    before.topic(TOPIC_PAUSE, "t")
    numbers = before.hello().sequence
    assert convert_all(after) == (DONE, 1)
    after.hello()
    assert after.push("t", job("done"))[0][0] == EXISTED, "a finished id"
    assert after.stats("t").paused
    after.topic(TOPIC_RESUME, "t")
    assert after.take("t") == []
    assert after.answer((ACK, taken[b"held"]))[0][0] == OK, "a lease given out before"
    assert after.push("t", job("new"))[0][0] == CREATED and after.get("t", "new").sequence > numbers
    after.jump(70_000)
    after.advance_all()
    assert [found.id for found in after.take("t")] == [b"failed", b"later", b"new"] or {found.id for found in after.list_all("t", LEASED)} == {b"failed", b"later", b"new"}
    assert [attempt[4] for attempt in after.get("t", "failed").history] == [b"why"]


def test_the_shards_clock_its_numbers_and_what_was_told_go_on(before, after):
    before.jump(-3_600_000)
    before.topic(TOPIC_PUT, "t", settings(), 1, extension=b"{}")
    before.push("t", job("dead", past=(1, 1, b"")))
    was, counters = before.hello(), before.counters()
    assert counters == (1, 1)
    convert_all(after)
    now = after.hello()
    assert now.adjust == was.adjust == -3_600_000 and now.sequence == was.sequence and after.counters() == counters
    assert not after.client.exists(after.tag + ":tickets")


def test_a_due_job_is_due_at_once_afterwards(before, after):
    before.push("t", job("soon", delay=60_000))
    before.jump(61_000)
    convert_all(after)
    assert after.hello().next <= after.hello().now
    after.advance_all()
    assert {found.id for found in after.take("t")} == {b"soon"}


def test_a_lease_that_was_over_ends_afterwards(before, after):
    before.push("t", job("leased"))
    [lease] = before.take("t", lease=1000)
    before.jump(2000)
    convert_all(after)
    assert after.hello().next <= after.hello().now
    after.advance_all()
    assert after.stats("t").lease_ended == 1 and after.answer((ACK, lease.delivery))[0][0] != OK


# ---- what is wrong with it already ----

def test_a_count_that_was_wrong_loses_no_ready_job(before, after):
    before.push("t", *[job(f"id{n}") for n in range(5)])
    before.client.hset(before.tag + ":topic:t", mapping={"ready": -7, "dead_bytes": -3, "delayed": "many", "settings": "x"})
    convert_all(after)
    after.hello()
    after.check = False
    assert len(after.take("t")) == 5
    stats = after.stats("t")
    assert (stats.ready, stats.dead_bytes, stats.delayed, stats.settings) == (0, 0, 0, b"")


def test_a_core_that_lost_what_it_knew_is_converted_with_numbers_above_any_given_out(before, after):
    before.push("t", job("a"))
    before.client.hdel(before.core, "version", "sequence", "leaf", "adjust", "shards", "run", "lease_key")
    convert_all(after)
    found = after.hello()
    assert (found.shards, found.lease_key) == (8, b"fedcba9876543210") and found.sequence > 2**40
    assert [found.id for found in after.take("t")] == [b"a"]


def test_a_shard_of_before_whose_core_is_gone_is_converted_too(before, after):
    before.topic(TOPIC_PUT, "t", settings(lease=7000), 1)
    before.push("t", job("a"))
    before.client.delete(before.core)
    with pytest.raises(redis.exceptions.ResponseError, match="^OLDER "):
        after.hello()
    assert convert_all(after) == (DONE, 1)
    after.hello()
    assert after.stats("t").settings == settings(lease=7000) and [found.id for found in after.take("t")] == [b"a"]


def test_a_set_of_another_type_keeps_no_topic_from_being_converted(before, after):
    before.push("a", job("a"), job("later", delay=60_000))
    before.push("b", job("b"))
    before.client.set(before.tag + ":expiry:a", "x")
    before.client.delete(before.tag + ":fresh:a")
    before.client.hset(before.tag + ":fresh:a", "x", "y")
    assert convert_all(after) == (DONE, 2)
    after.hello()
    after.check = False
    assert [found.id for found in after.take("b")] == [b"b"] and after.stats("a").ready == 1


def test_an_error_in_a_step_leaves_the_shard_as_one_that_is_being_converted(before, after):
    before.push("t", job("a"))
    convert(after)
    text = before.client.get(before.core)
    before.client.delete(before.tag + ":topics")
    before.client.set(before.tag + ":topics", "x")
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        convert(after)
    assert before.client.get(before.core) == text
    before.client.delete(before.tag + ":topics")
    before.client.zadd(before.tag + ":topics", {"t": 0})
    assert convert_all(after) == (DONE, 1) and len(after.list_all("t")) == 1


# ---- step by step ----

def test_steps_may_be_cut_short_repeated_and_taken_by_several(before, after):
    for n in range(150):
        before.push(f"topic{n}", job("a", delay=60_000 + n))
    was = seen(before)
    other, cursors = Shard(before.client, server="0000000c"), {}
    assert convert(after)[0] == MORE
    for n in range(3):  # cut short, and begun again
        cursor = b"0"
        for _ in range(n + 1):
            kind, cursor, _ = convert(after, cursor, 20)
            assert kind == MORE
    left = {after, other}
    while left:
        for shard in sorted(left, key=lambda one: one.server):
            kind, cursors[shard], _ = convert(shard, cursors.get(shard, b"0"), 7)
            if kind == DONE:
                left.discard(shard)
    assert scan(after.client, after.tag) == [] and seen(after) == was
    assert convert_all(after) == (DONE, 0)
    after.hello()
    assert after.topic(TOPIC_PUT, "topic3", settings(), 1)[0] == OK


def test_a_step_is_short_however_many_topics_there_are(before, after):
    pipe = before.client.pipeline(transaction=False)
    for n in range(20_000):
        pipe.hset(f"{before.tag}:topic:t{n}", mapping={"paused": 0, "ready": 0})
        pipe.zadd(f"{before.tag}:topics", {f"t{n}": "inf"})
    pipe.execute()
    before.client.config_resetstat()
    total, cursor, steps = 0, b"0", 0
    while True:
        kind, cursor, count = convert(after, cursor, 100)
        assert count <= 300
        total, steps = total + count, steps + 1
        if kind == DONE:
            break
    assert total == 20_000 and steps >= 20_000 / 300
    used = before.client.info("commandstats")["cmdstat_fcall"]
    assert used["usec"] / used["calls"] < 50_000, "on average; Redis serves others in between"


# ---- nobody works by the wrong layout ----

ARGUMENTS = {"adjust": ["", 0, 5], "push": ["", "t", 100, *job("new")], "take": ["", "t", 10, 1000, 0], "answer": ["", 5, b"\0" * 13, b""],
             "change": ["", "t"], "advance": ["", "0000000a", 5, 100], "get": ["t", "a"], "list": ["t", 0, 10, -1, 0, 1], "topic": ["", TOPIC_PUT, "t", 100, 1, "", ""],
             "topics": ["", 10], "purge": ["", "purge", "t", 0, 0, 10], "redrive": ["", "t", "", 10, -1], "look": ["t"], "pack": [10],
             "hello": ["run", 8, "1" * 32, b"x" * 16]}


def all_of(client):
    return {key: client.dump(key) for key in client.scan_iter(count=1000)}


@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_no_call_of_before_does_anything_from_the_first_step_on(before, after, steps):
    for n in range(200):
        before.push(f"topic{n}", job("a"))
    cursor = b"0"
    for _ in range(steps):
        kind, cursor, _ = convert(after, cursor, 100)
        if kind == DONE:
            break
    was = all_of(before.client)
    assert set(ARGUMENTS) == set(FUNCTIONS)
    for name in FUNCTIONS:
        with pytest.raises(redis.exceptions.ResponseError, match="^WRONGTYPE"):
            before.call(name, *ARGUMENTS[name])
    for words in (("HSETNX", before.core, "name", "x"), ("HGET", before.core, "shards")):  # what they ask at the start
        with pytest.raises(redis.exceptions.ResponseError, match="^WRONGTYPE"):
            before.client.execute_command(*words)
    assert all_of(before.client) == was


def functions_of_now(client):
    listed = client.execute_command("FUNCTION", "LIST", "LIBRARYNAME", "tarry_tests")[0]
    fields = dict(zip(listed[::2], listed[1::2]))
    return sorted(dict(zip(one[::2], one[1::2]))[b"name"].decode().removeprefix("tarry_tests_") for one in fields[b"functions"])


@pytest.mark.parametrize("state", ["of before", "being converted", "newer"])
def test_no_call_does_anything_in_another_layout(before, after, state):
    for n in range(3):
        before.push("t", job(f"id{n}"))
    if state != "of before":
        convert(after)
    if state == "newer":
        convert_all(after)
        core = before.client.get(before.core)
        before.client.set(before.core, b"\6" + core[1:])
    with pytest.raises(redis.exceptions.ResponseError, match="VERSION|OLDER"):
        after.hello()
    was = all_of(before.client)
    names = functions_of_now(before.client)
    assert len(names) > 12
    for name in names:
        if name == "convert":
            continue
        with pytest.raises(redis.exceptions.ResponseError, match="^VERSION " if state == "newer" else "^OLDER "):
            after.call(name, *{"turn": ["", bytes(12)], **ARGUMENTS}.get(name, ["", "", 1, 1, "t", 0]))
    if state == "newer":
        with pytest.raises(redis.exceptions.ResponseError, match="^VERSION "):
            convert(after)
    assert all_of(before.client) == was


def test_it_does_not_begin_while_servers_of_before_listen(before, after):
    before.push("t", job("a"))
    was = all_of(before.client)
    listening = [before.client.connection_pool.make_connection() for _ in range(2)]
    for connection in listening:
        connection.connect()
        connection.send_command("SSUBSCRIBE", before.tag + ":news")
        connection.read_response()
    assert convert(after)[:2] == (AT_WORK, b"2") and all_of(before.client) == was
    before.push("t", job("b"))
    for connection in listening:
        connection.disconnect()
    while convert(after)[0] == AT_WORK:
        pass
    assert convert_all(after) == (DONE, 1) and len(after.list_all("t")) == 2


def test_where_the_user_may_not_ask_who_listens_it_is_said_and_nothing_is_done(before):
    client = before.client
    client.execute_command("ACL", "SETUSER", "deaf", "on", ">x", "~*", "&*", "+@all", "-spublish")
    try:
        deaf = Shard(redis.Redis("127.0.0.1", client.connection_pool.connection_kwargs["port"], username="deaf", password="x"))
        was = all_of(client)
        with pytest.raises(redis.exceptions.ResponseError, match="^DENIED .*docs/redis.md"):
            convert(deaf)
        assert all_of(client) == was
    finally:
        client.execute_command("ACL", "DELUSER", "deaf")
