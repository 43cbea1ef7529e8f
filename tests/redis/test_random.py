"""Random calls, one after another, on few ids and topics; the invariants after each, and each call asked again now and then."""

import os
import random

import pytest
from abi import (ACK, CANCEL, CANCELLED, DEAD, DELAYED, EXISTED, EXTEND, FINISHED, GROUP_DELETE, GROUP_FULL, GROUP_PUT, IS_LEASED, LEASED, NACK, NONE, OK, READY,
                 REFUSE, RESCHEDULE, RETURN, RUN, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME, flow, job, settings)

TOPICS = ("plain", "ttl", "dedup", "short", "kept", "groups", "limits", "strict")
STEPS = 300
SEEDS = int(os.environ.get("TARRY_TEST_SEEDS", 3))
NAMES = [f"id{n}" for n in range(40)]


def seeds(count, short=1):
    """Numbers of random runs. make test has the first `short` of them, make test-all has all."""
    return [pytest.param(seed, marks=[] if seed < short else pytest.mark.thorough("more random runs")) for seed in range(count)]


class Actor:
    def __init__(self, shard, seed):
        self.shard, self.random, self.leases = shard, random.Random(seed), []

    def name(self):
        return self.random.choice(TOPICS)

    def some_settings(self, name):
        pick = self.random.choice
        return settings(lease=pick((0, 500, 5000)), ttl=pick((0, 300, 2000)) if name == "ttl" else 0, backoff=pick((0, 1, 2)), first=pick((1, 50)), most=500,
                        attempts=pick((1, 2, 3)) if name == "short" else 0, on_conflict=pick((0, 1, 2, 3)), priority=pick((None, None, 7)),
                        dead_letter_expired=pick((False, True)), dedup=pick((1000, 5000)) if name == "dedup" else 0,
                        keep=(pick((500, 5000, 60000)), pick((0, 3, 40)), pick((0, 400)), pick((0, 1))) if name == "kept" else None,
                        flow=self.some_flow(name))

    def some_flow(self, name):
        pick = self.random.choice
        if name == "groups":
            return pick((None, flow(group_limit=pick((0, 1, 3)), group_jobs=pick((0, 0, 9)), group_rate=pick(((0, 0), (20, 1))), limit=pick((0, 5)))))
        if name == "strict":
            return flow(strict=self.random.random() < 0.9, group_jobs=pick((0, 0, 9)), limit=pick((0, 0, 5)), group_rate=pick(((0, 0), (0, 0), (20, 1))))
        return flow(limit=pick((0, 1, 7)), rate=pick(((0, 0), (10, 1))), burst=pick((0, 3))) if name == "limits" else None

    def step(self):
        kinds = (self.push,) * 5 + (self.take,) * 4 + (self.answer,) * 4 + (self.change,) * 3 + (self.advance,) * 2 + (self.jump,) * 3
        kinds += (self.put, self.pause, self.purge, self.redrive, self.group)
        self.random.choice(kinds)()

    def again(self, call):
        """`call(ticket)` twice: the same answer, and nothing more done. (A take of nothing is not remembered, and may find something by then.)"""
        ticket = self.shard.ticket()
        first = call(ticket)
        if self.random.random() < 0.3 and first:
            before = self.shard.dump()
            assert call(ticket) == first
            assert self.shard.dump() == before
        return first

    def push(self):
        pick, jobs, name = self.random.choice, [], self.name()
        for _ in range(pick((1, 1, 5, 30))):
            own = {"ttl": pick((0, 400)), "lease": pick((0, 700)), "attempts": pick((0, 1, 3))} if self.random.random() < 0.2 else None
            past = (self.random.randrange(2), self.random.randrange(4), b"then") if self.random.random() < 0.1 else None
            group = pick((None, "a", "a", "b", "c")) if name in ("groups", "strict") else None
            jobs.append(job(pick(NAMES), b"x" * self.random.randrange(50), delay=pick((None, 0, 10, 300, 3000)), on_conflict=self.random.randrange(4),
                            priority=pick((None, None, None, 0, 100, 65535)), own=own, past=past,
                            keep=pick((None, None, None, None, 0, 700, 3000)), awaits=self.random.random() < 0.1, group=group))
        for status, state, due in self.again(lambda ticket: self.shard.push(name, *jobs, ticket=ticket)):
            if status == GROUP_FULL:
                assert state == due == 0
                continue
            assert (status == IS_LEASED) == (state == LEASED and status not in (EXISTED, 6)), (status, state)
            assert state in (DELAYED, READY, LEASED, DEAD, FINISHED) and (due > 0) == (state != FINISHED)

    def take(self):
        name, most, size = self.name(), self.random.choice((1, 5, 50)), self.random.choice((1, 200, 1 << 20))
        lease = self.random.choice((0, 0, 200, 4000))

        def call(ticket):
            self.last = self.shard.take_call(name, most, size, lease, ticket=ticket)
            return self.last.words

        self.again(call)
        [jobs] = self.last.jobs
        assert len(jobs) <= most
        assert len({found.id for found in jobs}) == len(jobs)
        self.leases += [found.delivery for found in jobs]

    def answer(self):
        if not self.leases:
            return
        answers = []
        for _ in range(self.random.choice((1, 3, 20))):
            verb = self.random.choice((ACK, ACK, NACK, NACK, REFUSE, EXTEND, RETURN))
            ms = self.random.choice((NONE, 0, 100)) if verb == NACK else self.random.choice((0, 1000))
            result = (b"\x04text" + b"r" * self.random.randrange(100),) if self.random.random() < 0.3 else ()
            held = (verb, self.random.choice((1, 50, 2000))) if self.random.random() < 0.1 else verb
            answers.append((held, self.random.choice(self.leases), ms, b"why", *result))
        chance = self.random.randrange(2**48)
        self.again(lambda ticket: self.shard.answer(*answers, ticket=ticket, chance=chance))
        self.leases = self.leases[-60:]

    def change(self):
        name, changes = self.name(), []
        for _ in range(self.random.choice((1, 4))):
            verb = self.random.choice((CANCEL, RESCHEDULE, RESCHEDULE, RUN))
            options = self.random.choice(({"delay": 0}, {"delay": 500}, {"when": 1}, {"when": 4, "priority": 3}, {"delay": 5, "priority": 100}))
            changes.append((verb, self.random.choice(NAMES), options if verb == RESCHEDULE else {}))
        before = {ident: self.shard.get(name, ident) for _, ident, _ in changes[:1]}
        answers = self.again(lambda ticket: self.shard.change(name, *changes, ticket=ticket))
        verb, ident, _ = changes[0]
        job_was = before[ident]
        if job_was and job_was.state in (DELAYED, READY):
            assert answers[0][0] == (CANCELLED if verb == CANCEL else OK)

    def advance(self):
        self.shard.advance(self.random.choice((1, 5, 1000)))

    def jump(self):
        self.shard.jump(self.random.choice((1, 20, 400, 3000)))

    def put(self):
        name = self.name()
        packed, extension = self.some_settings(name), self.random.choice((b"", b"{}", b"{" * 4096))
        self.again(lambda ticket: self.shard.topic(TOPIC_PUT, name, packed, 1, ticket=ticket, extension=extension)[0])

    def pause(self):
        self.shard.topic(self.random.choice((TOPIC_PAUSE, TOPIC_RESUME, TOPIC_RESUME)), self.name())

    def purge(self):
        if self.random.random() < 0.5:
            return
        state = self.random.choice((DELAYED, READY, DEAD, FINISHED, 0))
        verb = "delete" if self.random.random() < 0.2 else "purge"
        self.shard.purge_all(self.name(), state if verb == "purge" else 0, verb, self.random.choice((1, 3, 1000)))

    def group(self):
        pick = self.random.choice
        until = pick((0, self.shard.call("look").now - self.shard.jumped_ms + 500))
        self.shard.group(pick((GROUP_PUT, GROUP_PUT, GROUP_DELETE)), "groups", pick(("a", "b", "", "x")), weight=pick((0, 1, 7, 100)), limit=pick((0, 2)), max_jobs=pick((0, 0, 9, 17)),
                         rate=pick(((0, 0), (5, 1))), burst=pick((0, 2)), paused=pick((0, 0, 1)), until=until)

    def redrive(self):
        self.shard.redrive(self.name(), most=self.random.choice((1, 1000)))


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_no_sequence_of_calls_breaks_an_invariant(shard, seed):
    actor = Actor(shard, seed)
    for name in TOPICS:
        shard.topic(TOPIC_PUT, name, actor.some_settings(name), 1)
    for step in range(STEPS):
        try:
            actor.step()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, step {step}: {fault}") from fault
    assert sum(topic.pushed for topic in shard.topics()[1].values()) > 20  # a topic that was deleted took its count with it


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_each_job_ends_once_after_random_calls(shard, seed):
    """A drain after random calls: all remaining jobs can be taken and acked, each once."""
    actor = Actor(shard, 1000 + seed)
    shard.check = False
    for _ in range(STEPS):
        actor.step()
    for name in shard.topics()[1]:
        shard.topic(TOPIC_RESUME, name.decode())
    if b"groups" in shard.topics()[1]:
        for name in ("a", "b", "", "x"):  # none stays paused
            shard.group(GROUP_DELETE, "groups", name)
    acked = set()
    for _ in range(200):
        shard.jump(700_000)
        shard.advance_all()
        for name in shard.topics()[1]:
            for found in shard.take(name.decode()):
                [(status, *_)] = shard.answer((ACK, found.delivery))
                assert status == OK and (name, found.sequence) not in acked
                acked.add((name, found.sequence))
        if not any(topic.delayed + topic.retrying + topic.ready + topic.leased for topic in shard.topics()[1].values()):
            break
    for topic in shard.topics()[1].values():
        assert topic.delayed + topic.retrying + topic.ready + topic.leased == 0
        assert topic.pushed == topic.dead + topic.acked + topic.cancelled + topic.expired
    assert acked
