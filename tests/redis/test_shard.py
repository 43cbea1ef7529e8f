"""hello.lua, adjust.lua, and step.lua: the shard as a whole, its clock, what falls due."""

import concurrent.futures
import random
import time

import abi
import pytest
import redis
import state
from abi import ACK, CANCEL, CREATED, DEAD, DELAYED, EXISTED, FIXED, LEASE_ENDED, NACK, OK, READY, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME, Shard, job, settings
from redis_servers import RedisServer


def test_the_first_hello_creates_the_shard_and_later_ones_return_it(redis_server):
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    assert shard.hello("run", 4).shards == 4
    again = shard.hello("run", 8)
    assert (again.shards, again.adjust) == (4, 0)


def test_all_servers_check_leases_under_the_key_that_the_first_one_drew(redis_server):
    shard = Shard(redis_server.client(), "{tarry:9}")
    assert shard.hello("run", drawn=b"0123456789abcdef").lease_key == b"0123456789abcdef"
    assert shard.hello("another run", drawn=b"fedcba9876543210").lease_key == b"0123456789abcdef"


def test_after_another_run_of_the_master_no_number_comes_again(shard):
    shard.push("t", job("a"))
    shard.take("t")
    before = shard.hello("run").sequence
    assert shard.hello("run").sequence == before
    after = shard.hello("another run")
    assert before + 1_000_000 <= after.sequence < 2**47
    assert shard.hello("another run").sequence == after.sequence
    more = shard.hello("a third run").sequence
    assert after.sequence + 1_000_000 <= more < after.sequence + 1_000_000 + 32 * 60_000


def test_numbers_jump_above_undone_ones_and_stay_far_below_the_limit(shard):
    """An older state is put back: its clock is that of Redis, so what was given out since is below."""
    before = shard.hello("run").sequence
    given = before + 3_000_000
    state.core_change(shard.client, shard.tag, sequence=given)
    older = before
    state.core_change(shard.client, shard.tag, sequence=older)
    assert shard.hello("restored").sequence > given
    for year in (2100, 2110, 2500, 9000):
        shard.jump((year - 1970) * 31_557_600_000 - int(time.time() * 1000) - shard.jumped_ms)
        sequence = shard.hello("restored").sequence
        after = shard.hello(f"another in {year}").sequence
        assert sequence + 1_000_000 <= after < 2**47
    shard.jump(-shard.jumped_ms)


@pytest.mark.parametrize("layout", [2, 255])
def test_a_shard_of_a_newer_layout_is_rejected_by_every_call_unchanged(shard, layout):
    shard.push("t", job("a"))
    state.core_change(shard.client, shard.tag, layout=layout)
    before = shard.dump()
    for call in (shard.hello, lambda: shard.take("t"), lambda: shard.push("t", job("b")), lambda: shard.get("t", "a"), shard.advance):
        with pytest.raises(redis.exceptions.ResponseError, match="^VERSION "):
            call()
    assert shard.dump() == before
    state.core_change(shard.client, shard.tag, layout=state.LAYOUT)


def test_a_core_of_another_type_is_rejected_by_every_call_unchanged(redis_server):
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    shard.client.hset(shard.core, mapping={"version": 1, "shards": 8})
    before = shard.dump()
    for call in (shard.hello, lambda: shard.take("t"), lambda: shard.push("t", job("b"))):
        with pytest.raises(redis.exceptions.ResponseError, match="^BROKEN "):
            call()
    assert shard.dump() == before
    redis_server.call("FLUSHALL")


def test_old_tickets_are_forgotten_and_young_ones_not(shard):
    now, day = shard.hello().now, 86_400_000
    for server, used in (("aaaaaaaa0", now), ("bbbbbbbb0", now - day - 1000), ("bbbbbbbb1", 1000), ("cccccccc0", now - day + 60_000)):
        shard.push("t", job(server), ticket=server + "000000000001")
        key = f"{shard.tag}:ticket:{server}"
        kept = shard.client.get(key)
        shard.client.set(key, kept[:12] + used.to_bytes(6, "big") + kept[18:])
    assert shard.client.zcard(shard.tag + ":servers") == 4
    shard.hello()
    assert shard.client.zcard(shard.tag + ":servers") == 4, "all of them were seen today"
    shard.client.zadd(shard.tag + ":servers", {server: 1000 for server in shard.client.zrange(shard.tag + ":servers", 0, -1)})
    shard.hello()
    left = {b"aaaaaaaa0", b"cccccccc0"}
    assert set(shard.client.zrange(shard.tag + ":servers", 0, -1)) == left
    assert {key[-9:] for key in shard.client.keys(shard.tag + ":ticket:*")} == left


def test_time_is_the_clock_of_redis_plus_the_adjustment(shard):
    shard.jump(5000)
    seconds, micros = shard.client.time()
    assert 0 <= shard.hello().now - 5000 - (seconds * 1000 + micros // 1000) < 1000
    assert shard.hello().adjust == 5000


def test_of_two_servers_that_set_the_clock_right_one_does(shard):
    one = shard.change_call("adjust", 0, -3000)
    other = shard.change_call("adjust", 0, -3001)
    assert (one.adjust, other.adjust) == (-3000, -3000)


def test_a_lease_that_ends_is_a_failed_attempt(shard):
    shard.topic(TOPIC_PUT, "t", settings(backoff=FIXED, first=1000, most=1000, attempts=2), 1)
    shard.push("t", job("a"))
    shard.take("t", lease=500)
    shard.jump(502)
    answer, more, woken = shard.advance()
    found = shard.get("t", "a")
    assert (found.state, found.attempt, found.error, more, woken) == (DELAYED, 1, b"lease ended", False, [])
    assert answer.now + 800 < answer.next <= answer.now + 1202
    shard.jump(1300)
    assert shard.advance()[2] == [b"t"]
    shard.take("t", lease=500)
    shard.jump(502)
    shard.advance()
    assert shard.get("t", "a").state == DEAD
    topic = shard.stats("t")
    assert (topic.lease_ended, topic.died, topic.nacked) == (2, 1, 0)


def test_an_advance_returns_topics_that_became_ready(shard):
    shard.push("had", job("a"), job("b", delay=10))
    shard.push("had-not", job("a", delay=10))
    shard.push("paused", job("a", delay=10))
    shard.topic(TOPIC_PAUSE, "paused")
    shard.push("later", job("a", delay=5000))
    shard.jump(20)
    answer, more, woken = shard.advance()
    assert (more, woken) == (False, [b"had-not"])
    assert answer.next == shard.get("later", "a").due
    assert shard.stats("paused").ready == 1


def test_steps_are_bounded_and_the_last_one_is_marked(shard):
    shard.push("t", *[job(f"j{n}", delay=n % 50 + 1) for n in range(500)])
    shard.push("u", *[job(f"j{n}", own={"ttl": 10}) for n in range(50)])
    shard.jump(100)
    sizes, more = [], True
    while more:
        ready = shard.stats("t").ready
        _, more, _ = shard.advance(100)
        sizes.append(shard.stats("t").ready - ready)
    assert max(sizes) <= 100 and sum(sizes) == 500 and shard.stats("u").expired == 50


def test_a_topic_that_lost_its_counts_holds_up_no_other(shard):
    shard.check = False
    shard.push("lost", job("a", delay=10))
    shard.push("whole", job("b", delay=20))
    shard.client.delete(shard.tag + ":topic:lost")
    shard.jump(1000)
    shard.advance_all()
    assert shard.stats("whole").ready == 1
    shard.client.flushall()
    shard.hello()


def test_many_remembered_ids_are_forgotten_in_bounded_steps(shard):
    shard.check = False
    shard.topic(TOPIC_PUT, "t", settings(dedup=1000), 1)
    shard.push("t", *[job(f"j{n}") for n in range(1000)])
    shard.answer(*[(ACK, found.delivery) for found in shard.take("t")])
    assert shard.push("t", job("j5"))[0][0] == EXISTED
    shard.jump(1010)
    _, more, _ = shard.advance(100)
    assert more and shard.client.zcard(shard.tag + ":finished:t") == 900
    shard.advance_all(100)
    assert shard.client.zcard(shard.tag + ":finished:t") == 0


def test_expired_jobs_end_or_die_by_the_topic_setting(shard):
    shard.topic(TOPIC_PUT, "dies", settings(ttl=1000, dead_letter_expired=True), 1)
    shard.topic(TOPIC_PUT, "goes", settings(ttl=1000), 1)
    for name in ("dies", "goes"):
        shard.push(name, job("a"), job("b", delay=500))
    shard.jump(1002)
    shard.advance_all()
    assert [shard.get(name, "a") is None for name in ("dies", "goes")] == [False, True]
    assert shard.get("dies", "b").state == READY
    shard.jump(1000)
    shard.advance_all()
    assert (shard.stats("dies").dead, shard.stats("goes").expired) == (2, 2)


def test_messages_are_sent_only_for_an_earlier_event(shard):
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    first = shard.push("t", job("a", delay=60_000))[0][2]
    shard.push("t", job("b", delay=70_000))
    shard.push("u", job("c", delay=65_000))
    second = shard.push("u", job("d", delay=50_000))[0][2]
    reported = []
    while (message := notifications.parse_response(block=False, timeout=0.05)) is not None:
        reported.append(message[2][9:])
    assert reported == [b"d%d t" % first, b"d%d u" % second]
    notifications.close()


def test_a_library_redis_forgot_is_loaded_again(shard):
    shard.push("t", job("a"))
    shard.client.execute_command("FUNCTION", "FLUSH")
    assert len(shard.take("t")) == 1


def test_servers_may_advance_take_and_answer_in_parallel(shard):
    """Eight servers on one shard: every job is given and acked exactly once, and the shard is sound."""
    count, servers = 2000, 8
    shard.check = False
    shard.push("t", *[job(f"j{n}", delay=n % 300 + 1) for n in range(1000)])
    shard.push("t", *[job(f"k{n}", delay=n % 300 + 1) for n in range(1000)])

    def serve(number):
        mine = Shard(redis.Redis("127.0.0.1", shard.client.connection_pool.connection_kwargs["port"]), shard.tag, f"{number + 16:08x}", check=False)
        draw, got, idle = random.Random(number), [], 0
        while idle < 30:
            mine.advance(draw.choice((10, 100)))
            jobs = mine.take("t", draw.choice((1, 20, 100)))
            idle = 0 if jobs else idle + 1
            if jobs:
                answers = mine.answer(*[(ACK if draw.random() < 0.8 else NACK, found.delivery, 0) for found in jobs])
                assert {answer[0] for answer in answers} == {OK}
                got += [found.delivery for found in jobs]
                assert mine.answer((ACK, jobs[0].delivery))[0][0] == LEASE_ENDED
            elif mine.stats("t").acked < count:
                idle = 0
        return got

    with concurrent.futures.ThreadPoolExecutor(servers) as pool:
        deliveries = sum(pool.map(serve, range(servers)), [])
    topic = shard.stats("t")
    assert (topic.acked, topic.pushed, topic.delivered) == (count, count, len(deliveries))
    assert len(set(deliveries)) == len(deliveries)


@pytest.mark.parametrize("aof", ["always", "everysec"])
def test_changes_of_the_scripts_survive_a_restart(aof):
    with RedisServer(aof=aof) as server:
        shard = Shard(server.client())
        shard.hello()
        shard.push("t", *[job(f"j{n}", delay=n % 3 * 1000 or None) for n in range(300)])
        leases = shard.take("t", 20)
        shard.answer((ACK, leases[0].delivery), (NACK, leases[1].delivery))
        before = shard.dump()
        server.restart("kill" if aof == "always" else "terminate")
        shard = Shard(server.client())
        assert shard.dump() == before
        shard.must_be_sound()


def test_changes_without_publish_rights_are_complete(shard):
    """Redis 7 gives a new user no channel by default. Notifications are lost then; nothing is left half done."""
    shard.client.execute_command("ACL", "SETUSER", "mute", "reset", "on", ">sesame", "~*", "+@all")
    server = shard.client.connection_pool.connection_kwargs
    mute = redis.Redis(**{**server, "username": "mute", "password": "sesame"})
    other = Shard(mute, server="0000000b")
    try:
        assert other.push("t", job("a"), job("b", delay=60_000)) == other.push("t", job("a"), job("b", delay=60_000), ticket=other.ticket(0, 1))
        [taken] = other.take("t")
        other.answer((NACK, taken.delivery, 0))
        other.topic(TOPIC_PAUSE, "t")
        other.topic(TOPIC_RESUME, "t")
        other.jump(61_000)
        other.advance()
        assert other.stats("t").ready == 2
    finally:
        mute.close()
        shard.client.execute_command("ACL", "DELUSER", "mute")


def test_a_call_sees_what_another_server_wrote_since_the_last_one(shard):
    shard.push("t", job("a"))
    kept = [(key, shard.client.get(key)) for key in (shard.core, f"{shard.tag}:topic:t")]
    shard.push("t", job("b"), job("c"))
    shard.client.hdel(f"{shard.tag}:job:t", "b", "c")
    shard.client.zremrangebyrank(f"{shard.tag}:ready:t:100", 1, -1)
    for key, text in kept:
        shard.client.set(key, text)
    assert shard.stats("t").pushed == shard.stats("t").ready == 1
    shard.push("t", job("d"))
    assert [found.id for found in shard.take("t")] == [b"a", b"d"]


def test_a_call_after_a_failed_one_counts_what_was_written(shard):
    shard.push("t", job("a"), job("b", group="g"), job("c", delay=1000))
    shard.client.hset(f"{shard.tag}:try:t", "b", "x")
    shard.check = False
    shard.client.set(f"{shard.tag}:topic:t", shard.client.get(f"{shard.tag}:topic:t"))
    with pytest.raises(redis.exceptions.ResponseError):
        shard.change("t", (CANCEL, "a"), (CANCEL, "b"))
    shard.client.hdel(f"{shard.tag}:try:t", "b")
    shard.check = True
    assert shard.stats("t").cancelled == 1
    assert shard.push("t", job("d"))[0][0] == CREATED


def test_a_killed_call_changes_no_other_shard(shard):
    """A function that Redis kills leaves in Lua what it has changed. The next call may be for another shard, and may fail before it has read anything."""
    text, looks = abi.library(), b"local more = core_more()\nparts.look()"
    assert text.count(looks) == 1
    other = Shard(shard.client, "{tarry:1}")
    other.hello()
    core = shard.client.get(other.core)
    shard.client.execute_command("FUNCTION", "LOAD", "REPLACE", text.replace(looks, b"sequence, core_is_changed = 5, true\n" + looks))
    shard.client.execute_command("ACL", "SETUSER", "blind", "reset", "on", ">sesame", "~*", "&*", "+@all", "-mget")
    blind = redis.Redis(**{**shard.client.connection_pool.connection_kwargs, "username": "blind", "password": "sesame"})
    try:
        shard.call("look")
        with pytest.raises(redis.exceptions.ResponseError):
            Shard(blind, other.tag).push("t", job("a"))
        assert shard.client.get(other.core) == core
    finally:
        blind.close()
        shard.client.execute_command("ACL", "DELUSER", "blind")
        shard.client.execute_command("FUNCTION", "LOAD", "REPLACE", text)
