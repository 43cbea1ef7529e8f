"""Batches whose members are in several shards (parts.lua), with the calls that servers carry between them: lost, repeated, late, and of servers that die."""

import os
import random
import zlib

import pytest
from abi import ACK, CANCEL, CREATED, GO, OK, REFUSE, STOP, Shard, batch, job, pack, unpack
from test_check import Check

JOIN, LEAVE, LEASE, REPORT, FOLLOW, FOLLOWED, FENCE = range(1, 8)
NOT_FOUND, LEASE_ENDED, UNAVAILABLE, CLOSED, NO_BATCH = 5, 9, 20, 36, 37
FORGET, STOP_ORDER, RENEWED = 2, 1, 8
CLOSE, WITH_MEMBERS = 7, 1
JOIN_MS = 10_000
SHARDS = 3
MAIL = 1 << 47
HOME = 0  # place of the waiting job "w"


class Join:
    """The answer of a home to a join, as a push has it."""

    def __init__(self, answer, home, place):
        self.status, self.number, self.depth, self.on_dead, self.join, _ = answer
        self.home, self.is_home, self.on_dead = home + 1, int(home == place), self.on_dead or GO


class Queue:
    """Three shards, and the calls of a server between them."""

    def __init__(self, client):
        self.shards = [Shard(client, tag=f"{{tarry:{place}}}") for place in range(SHARDS)]
        for place in range(SHARDS):
            self.greet(place)

    def greet(self, place, run="run"):
        self.shards[place].hello(run=run, shards=SHARDS, place=place)

    def keys(self, place):
        """What a shard has stored."""
        client = self.shards[place].client
        return {key: client.dump(key) for key in client.keys(self.shards[place].tag + ":*")}

    def fail_over(self, place, keys):
        """The shard gets another master, which has only these keys."""
        client = self.shards[place].client
        client.delete(*client.keys(self.shards[place].tag + ":*"))
        for key, value in keys.items():
            client.restore(key, 0, value)
        self.greet(place, run="another")

    def parts(self, place, *texts):
        """Sends calls to a shard: (status, number, depth, on_dead, version, orders) of each."""
        return [tuple(one) for one in self.shards[place].change_call("batch", *texts).items(">BI6BBI6B")]

    def join(self, place, waiting=b"t\0w", parent=0, home=HOME):
        return Join(self.parts(home, pack(">BI6I2", JOIN, parent, place) + waiting)[0], home, place)

    def push(self, place, ident, join, **options):
        """Pushes a member. Returns its status, and the version of the counts (0: none)."""
        answer = self.shards[place].push_call("m", job(ident, batch=batch(of=("t", "w"), join=join), **options))
        version = int.from_bytes(answer.rest[8:14], "big") if len(answer.rest) > 8 else 0
        return answer.rest[0], version

    def leave(self, join, version, home=HOME):
        assert self.parts(home, pack(">BI6I6", LEAVE, join.join, version))[0][0] == OK

    def add(self, place, ident):
        join = self.join(place)
        status, version = self.push(place, ident, join)
        self.leave(join, 0 if join.is_home else version)
        return status

    def letters(self, place):
        return self.shards[place].change_call("mail").more

    def carry(self, place, letter, repeats=1, confirms=True):
        """Carries one letter of a shard, as shard_mail.c does."""
        kind, rest = letter[:1], letter[1:]
        if kind == b"r":
            number, version, _, rest_of = unpack(">I6I6B", rest)
            name = rest_of[20:]
            report = pack(">BI2I6I6", REPORT, place, number, version) + rest[12:13] + rest_of[:20] + name
            for _ in range(repeats):
                answer = self.parts(HOME, report)[0]
            confirm = place, pack(">BI6I6B", FOLLOW, number, version, answer[5]) + name
        elif kind == b"o":
            number, to, orders, name = unpack(">I6I2B", rest)
            for _ in range(repeats):
                answer = self.parts(to, pack(">BI6I6B", FOLLOW, number, 0, orders) + name)[0]
            confirm = place, pack(">BI2I6BI6", FOLLOWED, to, number, orders, answer[4]) + name
        else:
            join, number, to, name = unpack(">I6I6I2", rest)
            for _ in range(repeats):
                answer = self.parts(to, pack(">BI2I6I6", FENCE, place + 1, join, number) + name)[0]
            confirm = place, pack(">BI6I6", LEAVE, join, answer[4])
        if confirms:
            self.parts(*confirm)

    def carry_all(self):
        for _ in range(100):
            mail = [(place, letter) for place in range(SHARDS) for letter in self.letters(place)]
            if not mail:
                return
            for place, letter in mail:
                self.carry(place, letter)
        raise AssertionError("there is always more mail")

    def begin(self, **options):
        self.shards[HOME].push("t", job("w", batch=batch(waits=True, **options)))

    def close(self):
        assert self.shards[HOME].change("t", (CLOSE, "w"))[0][0] == OK

    def outcome(self):
        """The outcome in the meta of the waiting job, or None while it waits."""
        taken = self.shards[HOME].take("t")
        return taken[0].meta.split(b"\0")[1].decode() if taken else None

    def take(self, place, most=1000):
        return self.shards[place].take("m", most)

    def is_empty(self):
        kinds = ("batches", "members:*", "guests", "guest:*", "parts:*", "mail", "orders", "joins", "joined", "renew", "renewal")
        return not [key for kind in kinds for key in self.shards[0].client.keys("*:" + kind)]


@pytest.fixture
def queue(redis_server):
    redis_server.call("FLUSHALL")
    queue = Queue(redis_server.client())
    yield queue
    for shard in queue.shards:
        shard.must_be_sound()
        assert Check(shard, shards=SHARDS).faults == []


def test_a_wait_ends_with_the_last_member_of_all_shards(queue):
    queue.begin()
    for place in range(SHARDS):
        assert queue.add(place, f"m{place}") == CREATED
    queue.close()
    queue.carry_all()
    for place in (1, 0, 2):
        assert queue.outcome() is None
        queue.shards[place].answer(*[(ACK, taken.delivery) for taken in queue.take(place)])
        queue.carry_all()
    assert queue.outcome() == "acked=3 dead=0 cancelled=0 expired=0 missing=0"
    assert queue.is_empty()


def test_a_wait_does_not_end_while_a_push_is_under_way(queue):
    queue.begin()
    join = queue.join(1)
    queue.close()
    assert queue.outcome() is None
    status, version = queue.push(1, "m", join)
    assert status == CREATED and version
    queue.leave(join, version)
    assert queue.outcome() is None, "the home has not seen the member"
    queue.carry_all()
    assert queue.outcome() is None, "the member is unfinished"
    queue.shards[1].answer((ACK, queue.take(1)[0].delivery))
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def test_the_join_of_a_server_that_died_is_fenced_off(queue):
    queue.begin()
    join = queue.join(1)
    queue.close()
    queue.carry_all()
    assert queue.outcome() is None
    for shard in queue.shards:
        shard.jump(JOIN_MS + 1)
    assert queue.shards[HOME].call("look").now & MAIL, "a look reports the mail that no server has carried"
    queue.carry_all()
    assert queue.outcome() == "acked=0 dead=0 cancelled=0 expired=0 missing=0"
    assert queue.push(1, "late", join) == (UNAVAILABLE, 0)
    assert queue.is_empty()


def test_a_stored_push_of_a_dead_server_is_counted(queue):
    queue.begin()
    join = queue.join(2)
    assert queue.push(2, "m", join)[0] == CREATED
    queue.close()
    queue.shards[HOME].jump(JOIN_MS + 1)
    queue.carry_all()
    assert queue.outcome() is None
    queue.shards[2].answer((ACK, queue.take(2)[0].delivery))
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def test_an_old_report_changes_nothing(queue):
    queue.begin()
    assert [queue.add(place, ident) for place, ident in ((1, "a"), (1, "b"), (2, "c"))] == [CREATED] * 3
    queue.close()
    [old] = queue.letters(1)
    queue.carry(1, old)
    queue.shards[1].answer(*[(ACK, taken.delivery) for taken in queue.take(1)])
    [new] = queue.letters(1)
    queue.carry(1, new, repeats=2)
    queue.carry(1, old, repeats=2)
    queue.shards[2].answer((ACK, queue.take(2)[0].delivery))
    queue.carry_all()
    assert queue.outcome() == "acked=3 dead=0 cancelled=0 expired=0 missing=0"
    assert queue.is_empty()


def test_the_confirmation_of_an_old_report_keeps_the_newer_one(queue):
    queue.begin()
    assert queue.add(1, "a") == CREATED
    queue.close()
    [old] = queue.letters(1)
    queue.shards[1].answer((ACK, queue.take(1)[0].delivery))
    queue.carry(1, old)
    assert queue.outcome() is None
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def test_the_lease_of_a_member_in_another_shard_adds_a_member(queue):
    queue.begin()
    queue.add(1, "parent")
    queue.close()
    [parent] = queue.take(1)
    lease = pack(">BI6", LEASE, parent.delivery)
    status, number, *_ = queue.parts(1, lease + b"t\0w")[0]
    assert status == OK
    assert queue.parts(1, lease + b"t\0other")[0][0] == LEASE_ENDED
    assert queue.join(2).status == CLOSED
    join = queue.join(2, parent=number)
    queue.leave(join, queue.push(2, "child", join)[1])
    queue.shards[1].answer((ACK, parent.delivery))
    queue.carry_all()
    assert queue.outcome() is None
    queue.shards[2].answer((ACK, queue.take(2)[0].delivery))
    queue.carry_all()
    assert queue.outcome() == "acked=2 dead=0 cancelled=0 expired=0 missing=0"


def test_a_death_stops_the_members_of_all_shards(queue):
    queue.begin(on_dead=STOP)
    for place in range(SHARDS):
        for number in range(5):
            assert queue.add(place, f"{place}-{number}") == CREATED
    queue.close()
    queue.carry_all()
    [first] = queue.take(2, 1)
    queue.shards[2].answer((REFUSE, first.delivery))
    assert queue.shards[2].client.hlen(queue.shards[2].tag + ":job:m") == 1, "its own shard at once"
    queue.carry_all()
    assert not queue.take(0) and not queue.take(1)
    assert queue.outcome() == "acked=0 dead=1 cancelled=14 expired=0 missing=0"
    assert queue.is_empty()


def test_a_cancel_with_members_reaches_a_push_under_way(queue):
    queue.begin()
    queue.add(1, "a")
    join = queue.join(2)
    queue.shards[HOME].change("t", (CANCEL, "w", {"when": WITH_MEMBERS}))
    queue.carry_all()
    assert not queue.take(1)
    status, version = queue.push(2, "b", join)
    queue.leave(join, version)
    queue.carry_all()
    assert status == CREATED and not queue.take(2)
    assert queue.is_empty()


def test_a_member_of_an_earlier_batch_of_the_same_id_is_an_ordinary_job(queue):
    queue.begin()
    queue.add(1, "old")
    queue.shards[HOME].change("t", (CANCEL, "w"))
    queue.begin()
    assert queue.add(1, "new") == UNAVAILABLE, "an order about the old members may be on its way"
    queue.carry_all()
    assert queue.add(1, "new") == CREATED
    queue.close()
    queue.carry_all()
    for taken in queue.take(1):
        queue.shards[1].answer((ACK, taken.delivery))
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def test_a_new_master_has_everything_reported_again(queue):
    """Both ends may have lost the last writes: what a part has reported, and what the home has heard."""
    queue.begin()
    queue.add(1, "a")
    queue.carry_all()
    client, home = queue.shards[0].client, queue.shards[HOME].tag
    before = {key: client.dump(key) for key in (home + ":batches", *(key.decode() for key in client.keys(home + ":parts:*")))}
    queue.shards[1].answer((ACK, queue.take(1)[0].delivery))
    queue.carry_all()
    for key, value in before.items():  # the home has another master, which lacks the report
        client.delete(key)
        client.restore(key, 0, value)
    queue.greet(HOME, run="another")
    queue.close()
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def ack_all(queue, place):
    queue.shards[place].answer(*[(ACK, taken.delivery) for taken in queue.take(place)])


def test_a_home_that_lost_a_report_and_its_join_waits_for_the_member(queue):
    queue.begin()
    before = queue.keys(HOME)
    assert queue.add(1, "m") == CREATED
    queue.carry_all()
    queue.fail_over(HOME, before)
    queue.close()
    assert queue.outcome() is None, "no shard has reported yet"
    queue.carry_all()
    assert queue.outcome() is None, "the member is unfinished"
    ack_all(queue, 1)
    queue.carry_all()
    assert queue.outcome() == "acked=1 dead=0 cancelled=0 expired=0 missing=0"
    assert queue.is_empty()


def commands_of(client, call):
    """How many commands Redis runs for a call."""
    client.config_resetstat()
    call()
    return sum(one["calls"] for one in client.info("commandstats").values())


def test_a_new_master_renews_its_batches_in_pieces(queue):
    count, client = 300, queue.shards[HOME].client
    for shard in queue.shards:
        shard.check = False
    for first in range(0, count, 100):
        queue.shards[HOME].push("t", *[job(f"w{number}", batch=batch(waits=True)) for number in range(first, first + 100)])
    assert commands_of(client, lambda: queue.greet(HOME, run="another")) < 50
    queue.shards[HOME].change("t", (CLOSE, "w7"))
    assert queue.outcome() is None, "no shard has reported yet"
    queue.parts(1, pack(">BI6I6B", FOLLOW, 0, 0, RENEWED) + b"0")  # its home has no batches
    assert commands_of(client, lambda: queue.parts(HOME, pack(">BI6I6B", FOLLOW, 0, 0, RENEWED) + b"1")) < 50
    fenced = set()
    for _ in range(count):
        most = []
        assert commands_of(client, lambda: most.extend(queue.letters(HOME))) < 2000
        for letter in most:
            if letter[:1] == b"j":
                fenced.add(letter[letter.index(b"t\0w"):])
                queue.carry(HOME, letter)
        if len(fenced) == count:
            break
    assert len(fenced) == count
    for shard in queue.shards:
        shard.client.flushall()
    queue.__init__(client)


def test_a_push_that_joins_a_new_master_is_not_fenced_off(queue):
    queue.begin()
    queue.greet(HOME, run="another")
    join = queue.join(1)
    queue.carry_all()
    assert queue.push(1, "m", join)[0] == CREATED


def test_a_push_whose_join_was_lost_is_rejected(queue):
    queue.begin()
    before = queue.keys(HOME)
    join = queue.join(1)
    queue.fail_over(HOME, before)
    queue.close()
    queue.carry_all()
    assert queue.outcome() == "acked=0 dead=0 cancelled=0 expired=0 missing=0"
    assert queue.push(1, "late", join) == (UNAVAILABLE, 0)
    assert queue.is_empty()


def test_a_batch_does_not_wait_for_members_that_were_lost(queue):
    queue.begin()
    queue.add(2, "acked")
    ack_all(queue, 2)
    queue.carry_all()
    before = queue.keys(1)
    for number in range(3):
        assert queue.add(1, f"lost{number}") == CREATED
    queue.shards[1].answer((ACK, queue.take(1, 1)[0].delivery))
    queue.carry_all()
    queue.fail_over(1, before)
    queue.close()
    assert queue.outcome() is None
    queue.carry_all()
    assert queue.outcome() == "acked=2 dead=0 cancelled=0 expired=0 missing=0", "the acked one of the lost ones was acked"
    assert queue.is_empty()


def test_a_home_rejects_a_member_that_joined_before_the_batch_was_stopped(queue):
    queue.begin(on_dead=STOP)
    queue.add(HOME, "dies")
    join, early = queue.join(HOME), queue.join(1)
    queue.leave(early, queue.push(1, "early", early)[1])
    queue.shards[HOME].answer((REFUSE, queue.take(HOME)[0].delivery))
    assert queue.push(HOME, "late", join) == (CLOSED, 0)
    queue.leave(join, 0)
    queue.carry_all()
    assert queue.outcome() == "acked=0 dead=1 cancelled=1 expired=0 missing=0"


def test_a_home_rejects_a_member_that_joined_before_the_batch_was_cancelled(queue):
    queue.begin()
    join = queue.join(HOME)
    queue.shards[HOME].change("t", (CANCEL, "w", {"when": WITH_MEMBERS}))
    assert queue.push(HOME, "late", join) == (CLOSED, 0)
    queue.leave(join, 0)
    queue.carry_all()
    assert queue.is_empty() and not queue.take(HOME)


def test_a_report_that_overtakes_a_cancel_does_not_lose_it(queue):
    queue.begin()
    queue.add(1, "a")
    queue.add(1, "b")
    queue.carry_all()
    queue.shards[1].answer((ACK, queue.take(1, 1)[0].delivery))
    queue.shards[HOME].change("t", (CANCEL, "w", {"when": WITH_MEMBERS}))
    [report] = queue.letters(1)
    queue.carry(1, report)
    queue.carry_all()
    assert not queue.take(1) and queue.is_empty()


def test_a_new_batch_of_the_same_id_does_not_lose_the_cancel_of_the_old_one(queue):
    queue.begin()
    queue.add(1, "old")
    queue.carry_all()
    queue.shards[HOME].change("t", (CANCEL, "w", {"when": WITH_MEMBERS}))
    queue.begin()
    assert queue.add(1, "new") == UNAVAILABLE
    queue.carry_all()
    assert not queue.take(1), "the old one is cancelled"
    assert queue.add(1, "new") == CREATED


def test_letters_that_cannot_be_carried_do_not_keep_back_the_others(queue):
    count, guest = 250, queue.shards[1]
    guest.check = queue.shards[HOME].check = False
    names = [f"w{number}" for number in range(count)]
    queue.shards[HOME].push("t", *[job(name, batch=batch(waits=True)) for name in names])
    joins = {name: queue.join(1, waiting=b"t\0" + name.encode()) for name in names}
    guest.push_call("m", *[job("of-" + name, batch=batch(of=("t", name), join=join)) for name, join in joins.items()])
    last = queue.join(1, waiting=b"t\0w0")
    guest.push_call("m", job("last", batch=batch(of=("t", "w0"), join=last)))

    def collected():
        found = {letter[letter.index(b"t\0w"):] for letter in queue.letters(1)}
        assert len(found) == 100 and b"t\0w0" in found, "the newest report is always among them"
        return found

    seen = set()
    for _ in range(300):
        seen |= collected()
        if len(seen) == count:
            break
    assert len(seen) == count
    for shard in queue.shards:
        shard.jump(JOIN_MS + 1)
    joined = set()
    for _ in range(300):
        joined |= {letter for letter in queue.letters(HOME) if letter[:1] == b"j"}
        if len(joined) == count + 1:
            break
    assert len(joined) == count + 1
    for name in names:
        queue.shards[HOME].change("t", (CANCEL, name))
    ordered = set()
    for _ in range(300):
        ordered |= {letter for letter in queue.letters(HOME) if letter[:1] == b"o"}
        if len(ordered) == count:
            break
    assert len(ordered) == count
    guest.check = queue.shards[HOME].check = True


class Story:
    """Random calls by servers that die between any two steps, with letters that are lost, repeated and late."""

    def __init__(self, queue, luck):
        self.queue, self.luck = queue, luck
        self.joins, self.stored, self.leases, self.kept_letters = [], {}, [], []
        self.acked, self.closed, self.next = 0, False, 0

    def place(self, ident):
        return zlib.crc32(ident.encode()) % SHARDS

    def join(self):
        ident = f"m{self.next}"
        self.next += 1
        parent = self.luck.choice(self.leases) if self.leases and self.luck.random() < 0.5 else None
        number = self.queue.parts(parent[0], pack(">BI6", LEASE, parent[1].delivery) + b"t\0w")[0][1] if parent else 0
        join = self.queue.join(self.place(ident), parent=number)
        assert join.status == OK or self.closed and not parent, "a push is rejected while its parent is unfinished"
        if join.status == OK:
            self.joins.append([ident, join, None])

    def push(self):
        waiting = [one for one in self.joins if one[2] is None]
        if waiting:
            one = self.luck.choice(waiting)
            status, version = self.queue.push(self.place(one[0]), one[0], one[1])
            assert status in (CREATED, UNAVAILABLE)
            one[2] = (status, version)
            if status == CREATED:
                self.stored[one[0]] = True

    def leave(self):
        pushed = [one for one in self.joins if one[2]]
        if pushed:
            one = self.luck.choice(pushed)
            self.joins.remove(one)
            self.queue.leave(one[1], 0 if one[1].is_home else one[2][1])

    def die(self):
        """The server of a push ends."""
        if self.joins:
            self.joins.pop(self.luck.randrange(len(self.joins)))

    def take(self):
        place = self.luck.randrange(SHARDS)
        self.leases += [(place, taken) for taken in self.queue.take(place, 1)]

    def ack(self):
        if self.leases:
            place, taken = self.leases.pop(self.luck.randrange(len(self.leases)))
            assert self.queue.shards[place].answer((ACK, taken.delivery))[0][0] == OK
            del self.stored[taken.id.decode()]
            self.acked += 1

    def close(self):
        if not self.closed and self.next > 5:
            self.closed = True
            self.queue.close()

    def mail(self):
        place = self.luck.randrange(SHARDS)
        self.kept_letters += [(place, letter) for letter in self.queue.letters(place)]

    def carry(self):
        if self.kept_letters:
            place, letter = self.luck.choice(self.kept_letters)
            if self.luck.random() < 0.5:
                self.kept_letters.remove((place, letter))
            if self.luck.random() < 0.8:
                self.queue.carry(place, letter, repeats=self.luck.randint(1, 2), confirms=self.luck.random() < 0.7)

    def jump(self):
        for shard in self.queue.shards:
            shard.jump(JOIN_MS // 3)

    def greet(self):
        self.queue.greet(self.luck.randrange(SHARDS), run=str(self.luck.random()))

    def judge(self):
        outcome = self.queue.outcome()
        if outcome:
            assert self.closed and not self.stored, f"it ended while {sorted(self.stored)} are unfinished"
            assert outcome == f"acked={self.acked} dead=0 cancelled=0 expired=0 missing=0"
        return outcome


@pytest.mark.parametrize("seed", range(int(os.environ.get("TARRY_TEST_PARTS_SEEDS", "4"))))
def test_random_calls_end_each_wait_once_and_not_early(queue, seed):
    luck = random.Random(seed)
    story = Story(queue, luck)
    queue.begin(wait=10**9, close=10**9)
    calls = {"join": 4, "push": 4, "leave": 3, "die": 1, "take": 4, "ack": 4, "close": 1, "mail": 3, "carry": 6, "jump": 0.3, "greet": 0.3}
    ended = None
    for _ in range(120):
        name = luck.choices(list(calls), list(calls.values()))[0]
        if name == "jump" and any(one[2] is None for one in story.joins):
            story.joins = [one for one in story.joins if one[2]]  # their servers are slow: the home ends their joins
        if name == "join" and ended:
            continue
        getattr(story, name)()
        ended = ended or story.judge()
        if ended:
            break
    story.joins = []
    while not ended:
        story.close()
        story.next = max(story.next, 6)
        story.jump()
        queue.carry_all()
        for place in range(SHARDS):
            story.leases += [(place, taken) for taken in queue.take(place)]
        while story.leases:
            story.ack()
        queue.carry_all()
        ended = story.judge()
    queue.carry_all()
    for shard in queue.shards:
        shard.jump(JOIN_MS + 1)
    queue.carry_all()
    assert queue.is_empty()
