"""step.lua: what came in a step of a server: answers, what is due, takes; as one call."""

import random

import pytest
import redis
import state
from abi import (ACK, DEAD, DELAYED, EXTEND, FIXED, GROUP_DELETE, LEASE_ENDED, LEASED, NACK, NONE, OK, READY, REFUSE, RETURN, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME,
                 Shard, job, pack, settings)
from test_random import NAMES, SEEDS, STEPS, TOPICS, Actor, seeds

MOVER_MS = 50


def ids(jobs):
    return [found.id.decode() for found in jobs]


def due_jobs(shard, *names, topic="t", ms=10, **options):
    """Delayed, and due by now."""
    shard.push(topic, *[job(name, delay=ms, **options) for name in names])
    shard.jump(ms + 2)


# ---- answers and takes ----

def test_one_call_acks_a_job_and_leases_the_next_one(shard):
    due_jobs(shard, "a", "b")
    first = shard.step(takes=[("t", 1)])
    assert ids(first.jobs[0]) == ["a"] and first.jobs[0][0].attempt == 1 and first.more
    second = shard.step([(ACK, first.jobs[0][0].delivery)], [("t", 5)])
    assert second.results == [(OK, 5, 0, 0)] and second.names == [(b"t", b"a")] and ids(second.jobs[0]) == ["b"]
    assert not second.more and second.next == second.jobs[0][0].lease_until and second.next_topic == b""
    stats = shard.stats("t")
    assert (stats.leased, stats.acked, stats.delivered, stats.ready, stats.delayed) == (1, 1, 2, 0, 0)


def test_a_take_may_get_jobs_returned_in_the_same_step(shard):
    shard.push("t", job("a"), job("b"), job("c"))
    taken = shard.take("t")
    step = shard.step([(RETURN, taken[0].delivery), (NACK, taken[1].delivery, 0, b"why"), (ACK, taken[2].delivery)], [("t", 5)])
    assert [status for status, *_ in step.results] == [OK] * 3 and step.woken == []
    assert {(found.id, found.attempt, found.error) for found in step.jobs[0]} == {(b"a", 1, b""), (b"b", 2, b"why")}
    assert {found.delivery for found in step.jobs[0]}.isdisjoint({found.delivery for found in taken})
    assert [one[0] for one in shard.step([(ACK, found.delivery) for found in taken]).results] == [LEASE_ENDED] * 3


@pytest.mark.parametrize("most", [0, 1, 100])
def test_an_expired_lease_ends_in_a_step_with_due_events(shard, most):
    shard.topic(TOPIC_PUT, "t", settings(backoff=FIXED, first=1, most=1), 1)
    shard.push("t", job("a"))
    [old] = shard.take("t", lease=500)
    shard.jump(502)
    step = shard.step([(ACK, old.delivery)], [("t", 1)], most=most)
    assert step.results[0][0] == LEASE_ENDED
    assert shard.stats("t").lease_ended == (1 if most else 0) and step.jobs == [[]]
    shard.step(most=100)
    shard.jump(10)
    assert ids(shard.step(takes=[("t", 1)], most=most).jobs[0]) == ["a"]
    assert shard.stats("t").lease_ended == 1


def test_several_topics_have_their_answers_and_takes_in_one_step(shard):
    for name in ("t", "u", "v"):
        shard.push(name, job(f"{name}1"), job(f"{name}2", delay=5))
    shard.jump(10)
    taken = {name: shard.take(name, 1)[0] for name in ("t", "u")}
    step = shard.step([(ACK, taken["u"].delivery), (EXTEND, taken["t"].delivery, 9000)], [("v", 1), ("t", 5), ("none", 5), ("u", 5)], most=10)
    assert [one[0] for one in step.results] == [OK, OK] and step.names == [(b"u", b"u1"), (b"t", b"t1")]
    assert [ids(jobs) for jobs in step.jobs] == [["v1"], ["t2"], [], ["u2"]]
    assert shard.stats("v").ready == 1


def test_a_paused_topic_gives_nothing_and_its_due_jobs_become_ready(shard):
    due_jobs(shard, "a")
    shard.topic(TOPIC_PAUSE, "t")
    step = shard.step(takes=[("t", 5)], most=10)
    assert step.jobs == [[]] and step.woken == [] and shard.stats("t").ready == 1
    shard.topic(TOPIC_RESUME, "t")
    assert ids(shard.step(takes=[("t", 5)]).jobs[0]) == ["a"]


def test_nothing_at_all_is_written_by_a_step_in_vain_after_the_first(shard):
    shard.client.flushall()
    shard.hello(held=1_893_456_000_000)  # a server is noted again as the mover after some milliseconds
    shard.push("t", job("later", delay=60_000))
    shard.step(takes=[("t", 5)])
    before = shard.client.info("commandstats")["cmdstat_mset"]["calls"]
    step = shard.step(takes=[("t", 5)], most=100)
    assert step.jobs == [[]] and step.next_topic == b"t" and shard.client.info("commandstats")["cmdstat_mset"]["calls"] == before


# ---- the direct path ----

def test_due_jobs_are_leased_in_order_of_due_and_push_and_are_ready_at_no_time(shard):
    shard.push("t", *[job(f"j{n}", delay=100 - n // 3) for n in range(90)])
    shard.jump(102)
    first = shard.step(takes=[("t", 40)])
    assert ids(first.jobs[0]) == [f"j{n}" for third in range(29, -1, -1) for n in range(third * 3, third * 3 + 3)][:40]
    assert first.more and first.woken == [] and shard.stats("t").ready == 0 and shard.client.exists(f"{shard.tag}:ready:t:100") == 0
    rest = shard.step(takes=[("t", 1000)], most=1000)
    assert len(rest.jobs[0]) == 50 and not rest.more and rest.woken == [] and shard.stats("t").delayed == 0


def test_remaining_due_jobs_become_ready_up_to_the_requested_number(shard):
    due_jobs(shard, *[f"j{n}" for n in range(10)])
    step = shard.step(takes=[("t", 2)], most=3)
    assert (len(step.jobs[0]), shard.stats("t").ready, step.more, step.woken) == (2, 3, True, [b"t"])
    step = shard.step(takes=[("t", 4)], most=0)
    assert ids(step.jobs[0]) == ["j2", "j3", "j4", "j5"], "those that are ready come before those that are not yet"
    assert shard.stats("t").ready == 4, "what is due was moved for the take, which found some ready"


def test_a_topic_that_another_one_is_due_in_is_moved_in_the_same_step(shard):
    shard.push("u", job("a", delay=10), job("b", delay=10))
    due_jobs(shard, "a")
    step = shard.step(takes=[("t", 1)], most=100)
    assert ids(step.jobs[0]) == ["a"] and step.woken == [b"u"] and not step.more
    assert shard.stats("u").ready == 2


def test_packed_jobs_are_leased_directly(shard):
    shard.push("t", *[job(f"p{n:03}", delay=100_000 + n) for n in range(250)])
    shard.pack_all()
    shard.jump(100_300)
    first = shard.step(takes=[("t", 120)])
    assert ids(first.jobs[0]) == [f"p{n:03}" for n in range(120)] and shard.stats("t").ready == 0
    assert ids(shard.step(takes=[("t", 500)]).jobs[0]) == [f"p{n:03}" for n in range(120, 250)]
    assert shard.client.keys(f"{shard.tag}:leaf:*") == [] and shard.client.exists(f"{shard.tag}:index:t") == 0


def test_after_the_fresh_jobs_the_packed_ones_are_next(shard):
    shard.push("t", *[job(f"p{n}", delay=100_000) for n in range(3)])
    shard.pack_all()
    due_jobs(shard, "a", "b")
    assert ids(shard.step(takes=[("t", 1)]).jobs[0]) == ["a"]
    step = shard.step(takes=[("t", 5, 1 << 20, 500_000)])
    assert ids(step.jobs[0]) == ["b"] and step.next_topic == b"" and not step.more  # the lease of the first
    shard.step([(ACK, shard.get("t", "a").delivery), (ACK, shard.get("t", "b").delivery)])
    shard.jump(70_000)
    step = shard.step(most=10)
    assert (step.next, step.next_topic) == (shard.get("t", "p0").due, b"t")


def test_fresh_and_packed_jobs_come_in_one_order(shard):
    shard.push("t", *[job(f"p{n}", delay=100_000 + 10 * n) for n in range(5)])
    shard.pack_all()
    shard.jump(90_000)
    shard.push("t", *[job(f"f{n}", delay=10_005 + 10 * n) for n in range(5)])
    shard.jump(11_000)
    step = shard.step(takes=[("t", 10)])
    assert sorted(found.due for found in step.jobs[0]) == [found.due for found in step.jobs[0]] and len(step.jobs[0]) == 10
    assert shard.step(takes=[("t", 10)]).jobs == [[]]


def test_the_bytes_of_a_take_end_it_and_the_first_job_always_comes(shard):
    due_jobs(shard, *[f"j{n}" for n in range(6)], body=b"x" * 1000)
    assert ids(shard.step(takes=[("t", 6, 10)]).jobs[0]) == ["j0"]
    assert ids(shard.step(takes=[("t", 6, 3000)]).jobs[0]) == ["j1", "j2"]
    assert ids(shard.step(takes=[("t", 6)]).jobs[0]) == ["j3", "j4", "j5"]


def test_retrying_jobs_keep_their_history(shard):
    shard.push("t", job("a"), job("b", delay=2000))
    [lease] = shard.take("t", 1)
    shard.step([(NACK, lease.delivery, 20, b"first")])
    assert shard.stats("t").retrying == 1
    shard.jump(2100)
    step = shard.step(takes=[("t", 5)])
    assert [(found.id, found.attempt, found.error) for found in step.jobs[0]] == [(b"a", 2, b"first"), (b"b", 1, b"")]
    assert [attempt[4] for attempt in step.jobs[0][0].history] == [b"first"]
    assert (shard.stats("t").retrying, shard.stats("t").delayed, shard.stats("t").ready) == (0, 0, 0)


def test_a_job_that_was_moved_keeps_its_new_due(shard):
    shard.push("t", job("a", delay=5000))
    shard.change("t", (2, "a", {"delay": 50}))
    due = shard.get("t", "a").due
    shard.jump(60)
    [found] = shard.step(takes=[("t", 5)]).jobs[0]
    assert found.due == due and shard.client.zscore(f"{shard.tag}:held:t", shard.client.zrange(f"{shard.tag}:held:t", 0, 0)[0]) == due


@pytest.mark.parametrize("kind", ["priorities", "ttl of the topic", "policy"])
def test_jobs_with_special_fields_take_the_general_path(shard, kind):
    if kind == "ttl of the topic":
        shard.topic(TOPIC_PUT, "t", settings(ttl=1000), 1)
    own = {"lease": 7000} if kind == "policy" else None
    shard.push("t", job("a", delay=10, own=own), job("b", delay=10, priority=5 if kind == "priorities" else None), job("late", delay=1))
    shard.jump(12)
    step = shard.step(takes=[("t", 2)])
    assert ids(step.jobs[0]) == {"priorities": ["b", "late"]}.get(kind, ["late", "a"])
    if kind == "policy":
        assert [found.lease for found in step.jobs[0]] == [60_000, 7000]
    if kind == "ttl of the topic":
        shard.jump(1100)
        assert shard.step(takes=[("t", 2)], most=100).jobs == [[]] and shard.stats("t").expired == 1


def test_a_job_that_died_does_not_come(shard):
    shard.push("t", job("a", own={"attempts": 1}))
    [lease] = shard.take("t")
    step = shard.step([(REFUSE, lease.delivery, NONE, b"no")], [("t", 1)])
    assert step.results[0][:2] == (OK, DEAD) and step.jobs == [[]]


# ---- what is next ----

def test_a_step_returns_the_next_event_and_its_topic(shard):
    shard.push("t", job("a", delay=1000))
    shard.push("u", job("b", delay=500))
    step = shard.step(takes=[("t", 1), ("u", 1)])
    assert (step.next, step.next_topic) == (shard.get("u", "b").due, b"u")
    shard.jump(502)
    step = shard.step(takes=[("u", 1)])
    assert ids(step.jobs[0]) == ["b"] and (step.next, step.next_topic) == (shard.get("t", "a").due, b"t")
    shard.jump(502)
    step = shard.step([(ACK, step.jobs[0][0].delivery)], [("t", 1)])
    assert step.next == step.jobs[0][0].lease_until - 502 or step.next <= step.jobs[0][0].lease_until


def test_only_an_earlier_event_is_news(shard):
    notifications = shard.client.pubsub()
    notifications.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    notifications.parse_response()
    due_jobs(shard, "a", "b")
    step = shard.step(takes=[("t", 5, 1 << 20, 70_000)])
    shard.step([(ACK, step.jobs[0][0].delivery)])
    nacked = shard.step([(NACK, step.jobs[0][1].delivery, 5000, b"")])
    reported = []
    while (message := notifications.parse_response(block=False, timeout=0.05)) is not None:
        reported.append(message[2][9:])
    assert [one[:1] for one in reported] == [b"d", b"d"] and reported[1] == b"d%d t" % nacked.next
    notifications.close()


# ---- whether a take left some ----

def test_a_take_returns_whether_its_topic_may_have_more(shard):
    def left(wanted, *more, **options):
        return shard.step(takes=[("t", wanted, *more)], **options).leaves_some[0]

    shard.push("t", job("a", body=b"x" * 5000), job("b", body=b"x" * 5000), job("c"))
    assert left(1)
    assert left(10, 5020)  # only b: c would be too much
    assert not left(1)
    assert not left(1) and not shard.step(takes=[("nothing", 1)]).leaves_some[0]
    due_jobs(shard, "d", "e", "f")
    shard.push("t", job("later", delay=60_000))
    assert left(1)
    ticket = shard.ticket()
    assert not left(2, ticket=ticket)
    assert left(2, ticket=ticket)  # a repeated call cannot know which jobs came meanwhile


# ---- the mover ----

def other(shard):
    return Shard(shard.client, shard.tag, server="0000000b")


def test_the_server_that_takes_becomes_the_mover_and_others_are_notified(shard):
    shard.push("t", job("later", delay=60_000))
    assert not shard.step(takes=[("t", 1)]).has_other
    assert not shard.step(takes=[("t", 1)]).has_other
    assert other(shard).step(takes=[("t", 1)]).has_other
    shard.jump(MOVER_MS + 1)
    mine = other(shard)
    assert not mine.step(takes=[("t", 1)]).has_other
    assert shard.step(takes=[("t", 1)]).has_other


def test_a_server_that_takes_due_jobs_before_the_mover_replaces_it(shard):
    second = other(shard)
    shard.step(takes=[("t", 1)])
    shard.push("t", job("ready"), job("later", delay=100))
    served = second.step(takes=[("t", 1)])
    assert served.has_other and ids(served.jobs[0]) == ["ready"]
    shard.jump(102)
    shard.step(takes=[("nothing", 1)], most=0)
    assert second.step(takes=[("nothing", 1)], most=0).has_other
    quicker = second.step(takes=[("t", 1)])
    assert not quicker.has_other and ids(quicker.jobs[0]) == ["later"]
    assert shard.step(takes=[("t", 1)]).has_other


# ---- asked again ----

def test_the_same_ticket_shows_the_same_and_does_no_more(shard):
    due_jobs(shard, *[f"j{n}" for n in range(10)])
    taken = shard.take("t", 4)
    ticket = shard.ticket()
    answers = [(ACK, taken[0].delivery), (NACK, taken[1].delivery, 60_000, b"why"), (ACK, taken[0].delivery)]
    first = shard.step(answers, [("t", 2), ("u", 2), ("t", 3)], most=0, ticket=ticket)
    assert [one[0] for one in first.results] == [OK, OK, LEASE_ENDED] and [len(jobs) for jobs in first.jobs] == [2, 0, 3]
    before = shard.dump()
    again = shard.step(answers, [("t", 2), ("u", 2), ("t", 3)], most=0, ticket=ticket)
    assert (again.results, again.names, again.elements[1:]) == (first.results, first.names, first.elements[1:])
    assert shard.dump() == before
    shard.step([(ACK, first.jobs[0][1].delivery)], ticket=shard.ticket(slot=1))
    again = shard.step(answers, [("t", 2), ("u", 2), ("t", 3)], most=0, ticket=ticket)
    assert [ids(jobs) for jobs in again.jobs] == [ids(first.jobs[0][:1]), [], ids(first.jobs[2])]


def test_an_older_call_of_the_slot_is_refused(shard):
    due_jobs(shard, "a")
    shard.step(takes=[("t", 1)], ticket=shard.ticket(number=7))
    with pytest.raises(redis.exceptions.ResponseError, match="^STALE"):
        shard.step(takes=[("t", 1)], ticket=shard.ticket(number=6))


def test_without_a_core_it_is_refused(redis_server):
    redis_server.call("FLUSHALL")
    with pytest.raises(redis.exceptions.ResponseError, match="^GONE"):
        Shard(redis_server.client()).step(takes=[("t", 1)])
    assert redis_server.call("DBSIZE") == 0


@pytest.mark.parametrize("ahead", [True, False])
def test_a_clock_that_jumped_makes_nothing_early_in_a_step(shard, ahead):
    shard.push("t", job("later", delay=60_000), job("leased"))
    [lease] = shard.take("t")
    now = shard.hello().now
    window = pack(">I6I6", now - 500, now + 500)
    state.core_change(shard.client, shard.tag, adjust=3_600_000 if ahead else -3_600_000)
    before = shard.dump()
    if ahead:
        step = shard.step([(ACK, lease.delivery)], [("t", 5)], most=100, ticket=shard.ticket().encode() + window)
        assert step.results[0][0] == OK and step.jobs == [[]] and step.now > now + 1_800_000
    else:
        with pytest.raises(redis.exceptions.ResponseError, match="^CLOCK"):
            shard.step([(ACK, lease.delivery)], [("t", 5)], most=100, ticket=shard.ticket().encode() + window)
        assert shard.dump() == before
    state.core_change(shard.client, shard.tag, adjust=0)


def test_a_step_that_breaks_in_the_middle_gives_no_number_twice(shard):
    """An unreadable record stops it: its earlier work is kept, with its numbers and counts."""
    due_jobs(shard, "a")
    due_jobs(shard, "spoiled", "c", topic="u")
    record = shard.client.hget(f"{shard.tag}:job:u", "spoiled")
    shard.client.hset(f"{shard.tag}:job:u", "spoiled", b"?")
    shard.check = False
    with pytest.raises(redis.exceptions.ResponseError):
        shard.step(takes=[("t", 1), ("u", 2)])
    shard.client.hset(f"{shard.tag}:job:u", "spoiled", record)
    shard.must_be_sound()
    assert shard.stats("t").leased == 1
    numbers = [found.delivery for found in shard.step(takes=[("u", 2)]).jobs[0]] + [shard.get("t", "a").delivery]
    assert len(set(numbers)) == 3
    shard.must_be_sound()


# ---- random steps ----

class StepActor(Actor):
    """A server that answers, moves and takes only by steps."""

    def __init__(self, shard, seed):
        super().__init__(shard, seed)
        self.given = set()

    def take(self):
        self.a_step()

    answer = advance = take

    def a_step(self):
        answers = []
        for _ in range(self.random.choice((0, 0, 1, 3, 20)) if self.leases else 0):
            verb = self.random.choice((ACK, ACK, NACK, NACK, REFUSE, EXTEND, RETURN))
            ms = self.random.choice((NONE, 0, 100)) if verb == NACK else self.random.choice((0, 1000))
            answers.append((verb, self.random.choice(self.leases), ms, b"why"))
        takes = [(self.name(), self.random.choice((1, 5, 50)), self.random.choice((1, 200, 1 << 20)), self.random.choice((0, 0, 200, 4000)))
                 for _ in range(self.random.choice((0, 1, 1, 2, 4)))]
        most, chance = self.random.choice((0, 1, 5, 1000)), self.random.randrange(2**48)

        def call(ticket):
            step = self.shard.step(answers, takes, most, ticket=ticket, chance=chance)
            if answers or any(step.jobs):
                self.last = self.last or step  # as it was carried out, not as it was asked again
                shown = step.elements[1:1 + len(answers) + 3 * sum(map(len, step.jobs))]
                return step.results, step.names, [[found.id for found in jobs] for jobs in step.jobs], shown
            return None

        self.last = None
        if self.again(call) is None:
            return
        names = [(topic, found.id) for (topic, *_), jobs in zip(takes, self.last.jobs) for found in jobs]
        assert len(set(names)) == len(names), "none is given twice in a step"
        for (_, most_wanted, *_), jobs in zip(takes, self.last.jobs):
            assert len(jobs) <= most_wanted
            for found in jobs:
                assert found.due <= self.last.now + 60 and found.lease_until > self.last.now
                self.leases.append(found.delivery)
        self.leases = self.leases[-60:]

    def pack(self):
        self.shard.pack(self.random.choice((1, 1000)))

    def far(self):
        self.shard.push(self.name(), *[job(self.random.choice(NAMES), delay=60_500 + self.random.randrange(5000)) for _ in range(5)])

    def step(self):
        if self.random.random() < 0.1:
            self.random.choice((self.pack, self.far, lambda: self.shard.jump(61_000)))()
        else:
            super().step()


@pytest.mark.parametrize("seed", seeds(2 * SEEDS, 2))
def test_no_sequence_of_steps_breaks_an_invariant(shard, seed):
    actor = StepActor(shard, 7000 + seed)
    for name in TOPICS:
        shard.topic(TOPIC_PUT, name, actor.some_settings(name) if seed % 2 else settings(), 1)
    for step in range(STEPS):
        try:
            actor.step()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, step {step}: {fault}") from fault


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_each_job_ends_once_in_random_steps(shard, seed):
    actor = StepActor(shard, 8000 + seed)
    shard.check = False
    for _ in range(STEPS):
        actor.step()
    for name in shard.topics()[1]:
        shard.topic(TOPIC_RESUME, name.decode())
    for group in ("a", "b", "", "x"):
        shard.group(GROUP_DELETE, "groups", group)  # else a pause by the wall clock may outlast the rounds
    acked, held = set(), []
    for _ in range(300):
        shard.jump(700_000)
        names = [name.decode() for name in shard.topics()[1]]
        step = shard.step([(ACK, found.delivery) for _, found in held], [(name, 100, 1 << 20, 10_000_000) for name in names], most=1000)
        for status, (name, found) in zip(step.results, held):
            assert status[0] == OK and (name, found.sequence) not in acked
            acked.add((name, found.sequence))
        held = [(name, found) for name, jobs in zip(names, step.jobs) for found in jobs]
        if not held and not any(topic.delayed + topic.retrying + topic.ready + topic.leased for topic in shard.topics()[1].values()):
            break
    for topic in shard.topics()[1].values():
        assert topic.delayed + topic.retrying + topic.ready + topic.leased == 0
        assert topic.pushed == topic.dead + topic.acked + topic.cancelled + topic.expired
    shard.must_be_sound()


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_step_equals_three_successive_calls(redis_server, seed):
    """Two shards with the same jobs and steps: the same jobs come, in the same order, and the same is counted."""
    redis_server.call("FLUSHALL")
    draw = random.Random(seed)
    both = [Shard(redis_server.client(), tag) for tag in ("{tarry:0}", "{tarry:1}")]
    held = []
    for shard in both:
        shard.hello()
        shard.jump(0)
    for step in range(60):
        jobs = [job(f"{step}-{n}", delay=draw.choice((None, 100, 10_000, 10_000, 200_000)), priority=draw.choice((None, None, 1)) if seed else None) for n in range(draw.choice((1, 3)))]
        ms, most, acks = draw.choice((3000, 15_000, 100_000)), draw.choice((1, 2, 10)), draw.choice((0, 1, 3))
        for shard in both:
            shard.push("t", *jobs)
            shard.jump(ms)
        output, held = held[:acks], held[acks:]
        step = both[0].step([(ACK, mine.delivery) for mine, _ in output], [("t", most, 1 << 24, 10**9)], most=1000)
        if output:
            assert both[1].answer(*[(ACK, theirs.delivery) for _, theirs in output]) == step.results
        both[1].advance_all()
        taken = both[1].take("t", most, lease=10**9)
        assert ids(taken) == ids(step.jobs[0]), step
        held += zip(step.jobs[0], taken)
        counts = [vars(shard.stats("t")) for shard in both]
        for count in counts:
            count.pop("oldest_due")
        assert counts[0] == counts[1]
