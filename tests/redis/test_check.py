"""The script that checks a shard: it names each kind of damage, repairs it, and finds nothing afterwards; nor in a sound shard under load."""

import os
import random
import re

import pytest
from abi import ACK, CANCEL, DEAD, GROUP_PUT, LEASED, NACK, OK, READY, REFUSE, TOPIC_PUT, batch, flow, job, pack, settings, unpack
import state
from invariants import NUMBERS_END, PER_PART, PER_TOPIC, scan
from test_invariants import DAMAGES
from test_random import SEEDS, TOPICS, Actor, seeds

SETS = ("fresh", "leaves", "ready", "held", "dead", "expiry", "finished", "tries", "order", "done")
OF_TOPIC = ("topic", *SETS, "jobs", "successors", "histories", "counts", "split", "bytes", "kept", "groups", "event")
SCRIPT = {**dict.fromkeys((*SETS, "histories"), "check_sets"), **dict.fromkeys(("topic", "successors", "counts", "split", "bytes", "kept", "groups", "event"), "check_topic"),
          "jobs": "check_jobs"}  # else: check
TO_MEND, MENDED, BY_HAND, NOTE = range(4)
CLOSE = 7


class Finding:
    def __init__(self, words):
        self.how, (self.topic, self.id, self.what, self.repair) = words[0][0], [word.decode("latin1") for word in words[1:]]

    def __repr__(self):
        return f"{self.topic or 'shard'} {self.id}: {self.what}: {self.repair}"


class Check:
    """A check with all steps in the order of src/stores/redis/fsck.c. `between`: called after each step."""

    def __init__(self, shard, mode="check", most=200, shards=8, between=lambda: None):
        self.shard, self.mode, self.most, self.between = shard, mode, most, between
        self.findings, self.names, self.steps = [], set(), 0
        self.part("core", "", shards)
        self.keys()
        self.part("topics")
        for name in sorted(self.names):
            for part in OF_TOPIC:
                self.part(part, name)
        self.part("leases")
        self.part("leased")
        self.part("batches")
        self.part("guests")

    def keys(self):
        tag = self.shard.tag.encode()
        rest = sorted({key[len(tag) + 1:] for key in self.shard.client.scan_iter(self.shard.tag + ":*", count=100)})
        for at in range(0, len(rest), 100):
            self.part("keys", "", *rest[at:at + 100])

    def part(self, part, topic="", *more):
        cursor = b""
        for _ in range(100_000):
            cursor = self.step(part, topic, cursor, *more)
            self.between()
            if not cursor:
                return
        raise AssertionError(f"{part} does not end")

    def step(self, part, topic, cursor, *more):
        answer = self.shard.call(SCRIPT.get(part, "check"), self.mode, part, topic, cursor, self.most, *more)
        looked, _, count, rest = unpack(">I4I4I4", answer.rest)
        assert not rest and looked <= 10 * self.most + 1100  # Redis returns a compact hash whole, up to 512 entries
        self.steps += 1
        self.names.update(answer.more[1:1 + count])
        words = answer.more[1 + count:]
        self.findings += [Finding(words[at:at + 5]) for at in range(0, len(words), 5)]
        return answer.more[0]

    @property
    def faults(self):
        return [finding for finding in self.findings if finding.how != NOTE]


def fill(shard):
    """A topic with a job in every state."""
    shard.check = False
    shard.topic(TOPIC_PUT, "t", settings(dedup=5000), 1)
    shard.push("t", job("leased"), job("acked"))
    acked = next(found for found in shard.take("t") if found.id == b"acked")
    assert shard.answer((ACK, acked.delivery))[0][0] == OK
    shard.push("t", job("ready"), job("expires", own={"ttl": 60_000}), job("delayed", delay=70_000), job("retrying", delay=70_000, past=(0, 1, b"")),
               job("dead", past=(1, 1, b"")))
    shard.pack_all()
    shard.push("t", job("fresh", delay=30_000))
    assert scan(shard.client, shard.tag) == []


def records(shard):
    """Every record there is, whatever it is kept under."""
    out = []
    for kind in ("job", "next", "broken"):
        for key in shard.client.scan_iter(f"{shard.tag}:{kind}:*"):
            out += shard.client.hvals(key)
    return sorted(out)


def must_be_mended(shard, how=MENDED, most=200, may_replace=False):
    """Checks that a fault is found without a change; repairs it, and checks that nothing is left to find. Returns the findings."""
    before, kept = shard.dump(), records(shard)
    found = Check(shard, most=most).faults
    assert found and all(finding.how == TO_MEND for finding in found), found
    assert shard.dump() == before, "a check changes nothing"
    mended = Check(shard, "repair", most=most).faults
    assert mended and all(finding.how == how for finding in mended), mended
    assert may_replace or records(shard) == kept, "no record is dropped"
    assert scan(shard.client, shard.tag) == []
    assert Check(shard, most=most).faults == []
    before = shard.dump()
    assert Check(shard, "repair", most=most).faults == []
    assert shard.dump() == before
    return found


# ---- one damage at a time ----

OF_ANOTHER = {"an unknown key", "a key of another type"}


@pytest.mark.parametrize("damage", sorted(set(DAMAGES) - OF_ANOTHER))
def test_damage_is_named_and_mended_and_then_nothing_is_found(shard, damage):
    fill(shard)
    assert Check(shard).findings == []
    command, key, *words = DAMAGES[damage]
    key = f"{shard.tag}:{key}"
    words = [shard.client.zrange(key, 0, 0)[0] if word is None else word for word in words]
    shard.client.execute_command(command, key, *words)
    must_be_mended(shard)


def only(findings, *words):
    """Returns the findings that contain all of these words."""
    return [finding for finding in findings if all(word in repr(finding) for word in words)]


def hash_of(shard, ident, kind="job"):
    return shard.client.hget(f"{shard.tag}:{kind}:t", ident)


def set_hash(shard, ident, value, kind="job"):
    shard.client.hset(f"{shard.tag}:{kind}:t", ident, value)


def add(shard, **steps):
    """Changes figures of the topic."""
    topic = state.topic_of(shard.client, shard.tag, "t")
    state.topic_change(shard.client, shard.tag, "t", **{figure: topic[figure] + step for figure, step in steps.items()})


def forget_flag(shard, flag):
    state.topic_change(shard.client, shard.tag, "t", flags=state.topic_of(shard.client, shard.tag, "t").flags & ~flag)


def test_a_job_in_two_places_keeps_the_right_one(shard):
    fill(shard)
    dead = shard.client.zrange(f"{shard.tag}:dead:t", 0, 0, withscores=True)
    shard.client.zadd(f"{shard.tag}:ready:t:100", dict(dead))
    shard.client.zadd(f"{shard.tag}:held:t", dict(dead))
    found = must_be_mended(shard)
    assert only(found, "dead", "is dead, but in the set ready of priority 100") and only(found, "is dead, but in the set held")
    assert shard.get("t", "dead").try_state == DEAD


def test_a_job_that_is_ready_and_delayed_is_repaired(shard):
    fill(shard)
    [(member, due)] = [(member, due) for member, due in shard.client.zrange(f"{shard.tag}:leaf:t:1", 0, -1, withscores=True) if member[6:] == b"delayed"]
    shard.client.zadd(f"{shard.tag}:ready:t:100", {member: due})
    assert only(must_be_mended(shard), "both delayed and ready")
    assert {found.id for found in shard.take("t")} == {b"expires", b"ready"}


def test_a_job_that_is_fresh_and_packed_is_repaired(shard):
    fill(shard)
    [(member, due)] = shard.client.zrange(f"{shard.tag}:leaf:t:1", 0, 0, withscores=True)
    shard.client.zadd(f"{shard.tag}:fresh:t", {member: due})
    assert only(must_be_mended(shard), "is both fresh and packed")
    assert scan(shard.client, shard.tag) == [] and len(shard.list_all("t")) == 7


def test_a_fresh_job_by_another_due_is_hung_by_its_own(shard):
    fill(shard)
    shard.client.zincrby(f"{shard.tag}:fresh:t", 5000, shard.client.zrange(f"{shard.tag}:fresh:t", 0, 0)[0])
    assert only(must_be_mended(shard), "fresh", "delayed, but in the set fresh by")


def test_far_jobs_outside_packing_are_noted(shard):
    fill(shard)
    shard.push("t", job("far", delay=500_000))
    shard.client.delete(f"{shard.tag}:unpacked")
    assert only(must_be_mended(shard), "fresh jobs due far from now, but is not in the list of topics to pack")
    shard.pack_all()
    assert shard.client.zcard(f"{shard.tag}:fresh:t") == 1


def test_settings_are_set_as_other_shards_have_them_unless_they_changed_meanwhile(shard):
    fill(shard)
    wanted = b"1" + pack(">I2", 2) + b"{}" + settings(lease=7000)
    check = Check.__new__(Check)
    check.shard, check.most, check.findings, check.names, check.steps, check.between = shard, 200, [], set(), 0, lambda: None
    seen = b"0" + pack(">I2", 0) + settings(dedup=5000)
    for mode, name, here, there, text in (
            ("check", "t", seen, wanted, "settings differ from those"), ("repair", "t", b"0", wanted, None), ("repair", "t", seen, wanted, "settings differ from those"),
            ("repair", "t", wanted, wanted, None), ("repair", "t", wanted, b"0" + wanted[1:], "pause differs from that"), ("repair", "new", b"", wanted, "missing here"),
            ("repair", "new", wanted, b"1" + pack(">I2", 0) + wanted[5:], "settings differ from those"), ("repair", "bare", b"", b"1", "missing here")):
        check.mode, check.findings = mode, []
        check.part("settings", name, here, there)
        assert [text in finding.what for finding in check.findings] == ([True] if text else []), (mode, name)
        assert all(finding.how == (MENDED if mode == "repair" else TO_MEND) for finding in check.findings)
    shown = {name.decode(): (topic.paused, topic.settings, topic.extension) for name, topic in shard.topics()[1].items()}
    assert shown == {"t": (0, settings(lease=7000), b"{}"), "new": (1, settings(lease=7000), b""), "bare": (1, b"", b"")}
    assert shard.counters()[0] == 6, "put once, and each time that something was mended"


def test_a_job_under_another_priority_is_hung_under_its_own(shard):
    fill(shard)
    member = next(member for member in shard.client.zrange(f"{shard.tag}:ready:t:100", 0, -1) if member[6:] == b"ready")
    due = shard.client.zscore(f"{shard.tag}:ready:t:100", member)
    shard.client.zrem(f"{shard.tag}:ready:t:100", member)
    shard.client.zadd(f"{shard.tag}:ready:t:5", {member: due})
    shard.client.zadd(f"{shard.tag}:priorities:t", {"5": 5})
    assert only(must_be_mended(shard), "in the set ready of priority 5, its own is 100")


def test_one_delivery_number_of_two_jobs_stays_with_the_one_it_leads_to(shard):
    fill(shard)
    shard.take("t", most=1)
    tried = {name: hash_of(shard, name, "try") for name in (b"leased", b"ready", b"expires")}
    first, second = [name for name, try_ in tried.items() if try_ and try_[0] == LEASED]
    number = tried[first][25:31]
    old = tried[second][25:31]
    set_hash(shard, second, tried[second][:25] + number + tried[second][31:], "try")
    found = must_be_mended(shard)
    assert only(found, second.decode(), "is leased, but its")
    assert shard.get("t", first).state == LEASED and shard.get("t", second).state == READY
    assert shard.answer((ACK, int.from_bytes(number, "big")), (ACK, int.from_bytes(old, "big")))[1][0] != OK


def test_numbers_are_raised_above_every_one_given_out(shard):
    fill(shard)
    state.core_change(shard.client, shard.tag, sequence=1, leaf=0)
    found = must_be_mended(shard)
    assert only(found, "above the shard's counter 'sequence'") and only(found, "above the shard's counter 'leaf'")
    shard.push("t", job("new"))
    assert shard.get("t", "new").sequence > 1_000_000


def test_a_lost_core_is_recreated_above_every_issued_number(shard):
    fill(shard)
    shard.client.delete(shard.core)
    assert only(must_be_mended(shard), "the shard has no core")
    again = shard.hello()
    assert (again.shards, again.lease_key) == (8, b"0123456789abcdef")
    assert state.core_of(shard.client, shard.tag).sequence > 1_000_000_000_000


def test_another_number_of_shards_is_put_right(shard):
    fill(shard)
    state.core_change(shard.client, shard.tag, shards=7)
    assert only(must_be_mended(shard), "the number of shards in the core")


def test_a_lease_of_another_end_is_named_from_both_sides(shard):
    fill(shard)
    shard.client.zincrby(f"{shard.tag}:leases", 5, shard.client.zrange(f"{shard.tag}:leases", 0, 0)[0])
    found = must_be_mended(shard)
    assert only(found, "leased", "its lease ends at") and only(found, "leased", "its lease has no end or another one")


def test_leaves_that_are_missing_or_have_no_number_are_named(shard):
    fill(shard)
    state.core_change(shard.client, shard.tag, leaf=5000)
    shard.client.zadd(f"{shard.tag}:index:t", {"4711": 2**41, "x y": 2**42})
    found = must_be_mended(shard)
    assert only(found, "the index names leaf 4711, which is missing") and only(found, "the index names a leaf without a number")


def test_a_topic_that_does_not_exist_is_forgotten(shard):
    fill(shard)
    shard.client.zadd(f"{shard.tag}:topics", {"ghost": 0})
    assert only(must_be_mended(shard), "ghost", "a topic that does not exist")


def test_a_newer_version_is_not_changed(shard):
    fill(shard)
    state.core_change(shard.client, shard.tag, layout=state.LAYOUT + 1)
    with pytest.raises(Exception, match="newer tarry"):
        Check(shard, "repair")
    state.core_change(shard.client, shard.tag, layout=state.LAYOUT)


def test_every_form_of_a_record_is_readable(shard):
    shard.check = False
    forms = [{"content_type": kind, "meta": meta, "own": own} for kind in (None, b"", b"text/odd", 129, 255) for meta in (None, b"", b"m" * 300) for own in (None, {"ttl": 60_000})]
    shard.push("t", *[job(f"id{at}", b"", **form) for at, form in enumerate(forms)], *[job(f"body{at}", b"b" * 5, delay=1000, **form) for at, form in enumerate(forms)])
    assert len(shard.list_all("t")) == 2 * len(forms)
    assert Check(shard, "repair").findings == [] and not shard.client.exists(f"{shard.tag}:broken:t")


def test_an_unreadable_record_is_set_aside_and_others_are_delivered(shard):
    fill(shard)
    spoiled = hash_of(shard, "ready")[:9]
    set_hash(shard, "ready", spoiled)
    with pytest.raises(Exception):
        shard.take("t")
    assert only(must_be_mended(shard), "ready", "unreadable", "broken")
    assert shard.client.hgetall(f"{shard.tag}:broken:t") == {b"ready": spoiled}
    assert [found.id for found in shard.take("t")] == [b"expires"]
    shard.push("t", job("ready"))
    set_hash(shard, "ready", b"again")
    must_be_mended(shard)
    assert sorted(shard.client.hvals(f"{shard.tag}:broken:t")) == sorted([spoiled, b"again"]), "one does not overwrite the other"


@pytest.mark.parametrize("content_type", [b"x", b"x" * 128, 129, 131, 255])
@pytest.mark.parametrize("meta", [None, b"m" * 20])
def test_a_record_with_any_content_type_can_be_read(shard, content_type, meta):
    shard.push("t", job("ready", content_type=content_type, meta=meta), job("delayed", delay=60_000, content_type=content_type, meta=meta))
    assert not Check(shard).findings


@pytest.mark.parametrize("spoiled", [b"short", b"\x09" + bytes(40), b"\0" + bytes(40)])
def test_an_unreadable_try_is_dropped_and_the_job_restarts(shard, spoiled):
    fill(shard)
    set_hash(shard, "leased", spoiled, "try")
    assert only(must_be_mended(shard), "leased", "has an unreadable try")
    assert shard.get("t", "leased").state == READY and shard.get("t", "leased").attempt == 0


def test_a_try_that_contradicts_itself_is_put_right(shard):
    fill(shard)
    leased, dead = hash_of(shard, "leased", "try"), hash_of(shard, "dead", "try")
    set_hash(shard, "leased", leased[:3] + bytes(4) + leased[7:], "try")
    set_hash(shard, "dead", dead[:19] + pack(">I6", 5) + dead[25:], "try")
    found = must_be_mended(shard)
    assert only(found, "leased at attempt 0") and only(found, "not leased, but has the end of a lease")


def test_a_topic_without_counts_is_rebuilt_with_its_jobs(shard):
    fill(shard)
    shard.client.delete(f"{shard.tag}:topic:t")
    assert only(must_be_mended(shard), "its counts and settings were lost")
    stats = shard.stats("t")
    assert (stats.delayed, stats.retrying, stats.ready, stats.leased, stats.dead, stats.pushed) == (2, 1, 2, 1, 1, 7)
    assert {found.id for found in shard.take("t")} == {b"ready", b"expires"}


def test_unreadable_settings_are_dropped(shard):
    fill(shard)
    shard.client.append(f"{shard.tag}:topic:t", "x")
    assert only(must_be_mended(shard), "settings are unreadable")


def test_the_split_of_delayed_and_retrying_is_counted(shard):
    fill(shard)
    add(shard, delayed=1, retrying=-1)
    assert only(must_be_mended(shard), "counts 0 retrying, but there are 1")


def with_history(shard):
    """"failed" and "gone" have one."""
    fill(shard)
    shard.push("t", job("failed"), job("gone"))
    shard.answer(*[(NACK, lease.delivery, 60_000, b"why") for lease in shard.take("t") if lease.id in (b"failed", b"gone")])
    assert shard.client.hkeys(f"{shard.tag}:history:t") == [b"failed", b"gone"] and scan(shard.client, shard.tag) == []


SPOILED = {"short": lambda kept: kept[:-1], "long": lambda kept: kept + b"x", "empty": lambda kept: b"", "many": lambda kept: kept[:18] + b"\x09" + kept[19:20] * 9 + kept[20:] * 9,
           "another job's": lambda kept: bytes(6) + kept[6:]}


@pytest.mark.parametrize("how", SPOILED)
def test_an_invalid_history_is_dropped_and_the_job_stays(shard, how):
    with_history(shard)
    set_hash(shard, "failed", SPOILED[how](hash_of(shard, "failed", "history")), "history")
    wanted = "of another job" if how.startswith("another") else "unreadable"
    assert only(must_be_mended(shard), "failed", wanted)
    assert shard.get("t", "failed").history == [] and len(shard.get("t", "gone").history) == 1


def test_a_history_left_by_an_older_server_is_dropped(shard):
    with_history(shard)
    left = hash_of(shard, "gone", "history")
    shard.change("t", (CANCEL, "gone"))
    set_hash(shard, "gone", left, "history")
    assert only(must_be_mended(shard), "gone", "a history without a job")
    shard.purge_all("t", verb="delete")
    shard.client.hset(f"{shard.tag}:history:t", "gone", left)
    assert only(must_be_mended(shard), "gone", "a history without a job")
    assert shard.client.keys(f"{shard.tag}:*:t") == []


def test_unreferenced_histories_are_noted(shard):
    with_history(shard)
    shard.purge_all("t", READY)
    forget_flag(shard, state.HISTORIC)
    assert shard.get("t", "failed").history == []
    assert only(must_be_mended(shard), "histories, but lacks the flag")
    assert len(shard.get("t", "failed").history) == 1


@pytest.mark.parametrize("most", [1, 200])
def test_the_size_of_dead_jobs_is_counted(shard, most):
    fill(shard)
    shard.push("t", *[job(f"dead{n}", b"x" * n, past=(1, 1, b"")) for n in range(200)])
    right = shard.stats("t").dead_bytes
    state.topic_change(shard.client, shard.tag, "t", dead_bytes=-5)
    assert only(must_be_mended(shard, most=most), "bytes of dead jobs")
    assert shard.stats("t").dead_bytes == right > 200 * 100


def test_an_overlong_extension_is_dropped_and_reported(shard):
    fill(shard)
    shard.client.set(f"{shard.tag}:extension:t", "{" * 4097)
    before = shard.counters()[0]
    assert only(must_be_mended(shard), "extension of the settings is too long")
    assert shard.counters()[0] == before + 1 and shard.stats("t").extension == b""


def test_a_finished_id_that_is_there_is_forgotten_as_finished(shard):
    fill(shard)
    shard.client.zadd(f"{shard.tag}:finished:t", {"ready": 2**40})
    assert only(must_be_mended(shard), "remembered as finished")


def test_ready_jobs_of_an_unrecorded_priority_are_found_by_their_key(shard):
    fill(shard)
    shard.client.delete(f"{shard.tag}:priorities:t")
    found = must_be_mended(shard)
    assert only(found, "priority 100 has ready jobs but is not in the list")
    assert len(shard.take("t")) == 2


def test_a_policy_without_its_topic_flag_is_noted(shard):
    fill(shard)
    forget_flag(shard, state.SPECIAL)
    assert only(must_be_mended(shard), "its own priority or policy")


@pytest.mark.parametrize("command", [("SET", "what:t", 1), ("SET", "core:t", 1), ("HSET", "leaf:t", 1, 1), ("ZADD", "ready:t:high", 1, 1), ("SET", "job", 1),
                                     ("SET", "finished:t", 1), ("SADD", "job:u", 1)])
def test_keys_of_another_kind_are_named_and_kept(shard, command):
    fill(shard)
    name, key, *words = command
    shard.client.execute_command(name, f"{shard.tag}:{key}", *words)
    for mode in ("check", "repair"):
        check = Check.__new__(Check)
        check.shard, check.mode, check.most, check.between = shard, mode, 200, lambda: None
        check.findings, check.names, check.steps = [], set(), 0
        check.keys()
        assert [finding.how for finding in check.findings] == [BY_HAND]
        assert f"{shard.tag}:{key}" in check.findings[0].what
    assert shard.client.delete(f"{shard.tag}:{key}") == 1


# ---- many jobs, small steps ----

def fill_many(shard, jobs=3000):
    shard.check = False
    chance = random.Random(5)
    for at in range(0, jobs, 500):
        shard.push("t", *[job(f"id{n}", b"x" * 20, delay=70_000 + chance.randrange(400_000) if n % 7 else None,
                              past=(0, 1, b"") if n % 5 == 0 else None) for n in range(at, at + 500)])
    shard.push("t", *[job(f"same{n}", at=4_000_000_000_000) for n in range(900)])
    shard.pack_all()
    shard.push("t", *[job(f"fresh{n}", delay=50_000 + n % 10_000, past=(0, 1, b"") if n % 5 == 0 else None) for n in range(500)])
    assert len(shard.take("t", 100)) == 100


@pytest.mark.thorough("a quarter of a minute")
@pytest.mark.parametrize("most", [7, 200])
def test_steps_are_bounded_and_together_see_everything(shard, most):
    fill_many(shard)
    check = Check(shard, most=most)
    assert check.findings == [] and check.steps > 9000 / most / 3
    tag, client = shard.tag, shard.client
    members = client.zrange(f"{tag}:ready:t:100", 0, -1)
    client.zrem(f"{tag}:ready:t:100", *members[::3])
    leaves = client.zrange(f"{tag}:index:t", 0, -1)
    client.zrem(f"{tag}:index:t", *leaves[::4])
    client.delete(*[f"{tag}:leaf:t:{leaf.decode()}" for leaf in leaves[1::9]])
    for leaf in leaves[2::9]:
        client.zincrby(f"{tag}:index:t", 100_000, leaf)
    for leaf in leaves[3::9]:
        client.zadd(f"{tag}:leaf:t:{leaf.decode()}", {b"\0\0\0\0\0\1nobody": 5})
    client.hdel(f"{tag}:job:t", *[f"id{n}" for n in range(0, 3000, 50)])
    client.hdel(f"{tag}:try:t", *[f"id{n}" for n in range(0, 3000, 35)])
    must_be_mended(shard, most=most)


def test_a_repeatedly_overtaken_check_is_reported_without_an_alarm(shard):
    fill_many(shard, 4000)
    names = iter(range(10**9))
    check = Check.__new__(Check)
    check.shard, check.mode, check.most, check.findings, check.names, check.steps = shard, "check", 20, [], set(), 0
    check.between = lambda: shard.push("t", job(f"more{next(names)}", delay=100_000_000))
    add(shard, retrying=3, delayed=-3)
    check.part("split", "t")
    assert [finding.how for finding in check.findings] == [NOTE]
    check.between = lambda: None
    check.findings = []
    check.part("split", "t")
    assert [finding.how for finding in check.findings] == [TO_MEND]
    must_be_mended(shard)


# ---- beside servers at work ----

@pytest.mark.thorough("a quarter of a minute")
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", ["check", "repair"])
def test_nothing_is_found_while_others_work(shard, seed, mode):
    actor = Once(shard, seed)
    shard.check = False
    for name in TOPICS:
        shard.topic(TOPIC_PUT, name, actor.some_settings(name), 1)
    for _ in range(12):
        for _ in range(20):
            actor.step()
        check = Check(shard, mode, most=actor.random.choice((1, 5, 50)), between=actor.step)
        assert check.faults == []


class Once(Actor):
    """A server that does not repeat calls."""

    def again(self, call):
        return call(self.shard.ticket())


class Vandal:
    """Random damage to whatever there is."""

    def __init__(self, shard, chance):
        self.client, self.tag, self.random = shard.client, shard.tag, chance

    def strike(self):
        keys = sorted(key for key in self.client.scan_iter(self.tag + ":*", count=1000) if b":ticket:" not in key and not key.endswith((b":servers", b":extension:")))
        key = self.random.choice(keys)
        kind_of_key = self.client.type(key)
        kind = self.random.random()
        if kind < 0.07:
            self.client.delete(key)
        elif kind_of_key == b"string":
            self.spoil_string(key)
        elif kind_of_key == b"hash":
            self.spoil_hash(key, self.random.choice(sorted(self.client.hkeys(key))))
        elif kind_of_key == b"list":
            self.spoil_list(key, self.random.choice(sorted(self.client.lrange(key, 0, -1))))
        else:
            self.spoil_set(key, self.random.choice(sorted(self.client.zrange(key, 0, -1))), keys)

    def near(self, number):
        return min(max(0, number + self.random.choice((-50, -1, 1, 50))), state.NONE)

    def spoil_string(self, key):
        family, name = key.decode().split(":")[2:][0], key.decode().split(":")[-1]
        what = self.random.randrange(4)
        if family == "topic" and self.client.strlen(key) < 110:
            return
        if family == "topic" and what == 0:
            self.client.set(key, self.client.get(key)[:self.random.randrange(110)])
        elif family == "topic" and what == 1:
            state.topic_change(self.client, self.tag, name, flags=self.random.randrange(1 << 10))
        elif family == "topic":
            topic = state.topic_of(self.client, self.tag, name)
            field = self.random.choice(state.FIGURES[:7] + ("next", "listed"))
            state.topic_change(self.client, self.tag, name, **{field: self.near(topic[field])})
        elif family == "core":
            field = self.random.choice(("shards", "changes", "deaths", "sequence", "leaf", "adjust", "next", "rest"))
            state.core_change(self.client, self.tag, **{field: self.near(state.core_of(self.client, self.tag)[field])})

    def spoil_hash(self, key, field):
        value = bytearray(self.client.hget(key, field))
        what = self.random.randrange(4)
        if what == 0:
            self.client.hdel(key, field)
        elif what == 1 and value.isdigit():
            self.client.hincrby(key, field, self.random.choice((-50, -1, 1, 50)))
        elif what == 2:
            self.client.hset(key, field, bytes(value[:self.random.randrange(len(value) + 1)]))
        elif value and not value.isdigit():
            value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
            if b":job:" in key and bytes(value[3:9]) in {record[3:9] for record in self.client.hvals(key)} - {self.client.hget(key, field)[3:9]}:
                return  # the number of another job: both stay apart by their ids, so a check leaves it
            self.client.hset(key, field, bytes(value))

    def spoil_list(self, key, entry):
        value = bytearray(entry)
        what = self.random.randrange(4)
        if what == 0:
            self.client.lrem(key, 1, entry)
        elif what == 1:
            self.client.linsert(key, "before", entry, bytes(value[:self.random.randrange(len(value))]))
        elif what == 2:
            self.client.rpush(key, entry)
        elif value:
            value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
            self.client.linsert(key, "after", entry, bytes(value))
            self.client.lrem(key, 1, entry)

    def spoil_set(self, key, member, keys):
        what = self.random.randrange(4)
        if what == 0:
            self.client.zrem(key, member)
        elif what == 1:
            self.client.zincrby(key, self.random.choice((-5000, -1, 1, 5000)), member)
        elif what == 2:
            self.client.zadd(key, {bytes(self.random.randrange(256) for _ in range(9)): self.random.randrange(2**42)})
        else:
            other = self.random.choice(keys)
            if self.client.type(other) == b"zset":
                self.client.zadd(other, {member: self.client.zscore(key, member)})


def damaged(shard, seed):
    """(actor, how many records are left)"""
    actor = Once(shard, seed)
    shard.check = False
    for name in TOPICS:
        shard.topic(TOPIC_PUT, name, actor.some_settings(name), 1)
    for _ in range(150):
        actor.step()
    vandal = Vandal(shard, actor.random)
    for _ in range(actor.random.choice((1, 3, 20, 60))):
        vandal.strike()
    return actor


@pytest.mark.thorough("a quarter of a minute")
@pytest.mark.parametrize("seed", range(int(os.environ.get("TARRY_TEST_SEEDS", 12))))
def test_random_damage_is_repaired_in_one_run(shard, seed):
    actor = damaged(shard, seed)
    kept = records(shard)
    most = actor.random.choice((1, 7, 200))
    mended = Check(shard, "repair", most=most).faults
    assert records(shard) == kept, "no record is dropped"
    again = Check(shard, "repair").faults
    assert [finding for finding in again if finding.how != BY_HAND] == [], (most, mended)
    for finding in again:  # what people have to decide
        shard.client.delete(finding.what.split("'")[1].encode("latin1"))
    assert scan(shard.client, shard.tag) == []
    assert Check(shard).faults == []


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_repair_that_is_cut_short_does_no_harm(shard, seed):
    actor = damaged(shard, 500 + seed)
    kept = records(shard)

    class Cut(Exception):
        pass

    for steps in (1, 5, 12, 30, 60):
        left = iter(range(steps))

        def between():
            if next(left, None) is None:
                raise Cut

        try:
            Check(shard, "repair", most=actor.random.choice((1, 20)), between=between)
        except Cut:
            pass
        assert records(shard) == kept
    Check(shard, "repair")
    for finding in Check(shard).faults:
        assert finding.how == BY_HAND
        shard.client.delete(finding.what.split("'")[1].encode("latin1"))
    assert scan(shard.client, shard.tag) == []


# ---- the packed values ----

FAR = 2**45


def spoil_core(**fields):
    return lambda shard: state.core_change(shard.client, shard.tag, **fields)


def spoil_topic(**fields):
    return lambda shard: state.topic_change(shard.client, shard.tag, "t", **fields)


def without(flag):
    return lambda shard: state.topic_change(shard.client, shard.tag, "t", flags=state.topic_of(shard.client, shard.tag, "t").flags & ~flag)


# ---- successors ----

AFTER = 16  # on_conflict of a push


def with_successor(shard, fills=True):
    """A leased job with a successor, next to the others; returns the record of the successor."""
    if fills:
        fill(shard)
    shard.topic(TOPIC_PUT, "t", settings(), 1)
    assert shard.push("t", job("leased", b"newer", on_conflict=AFTER))[0][1] == LEASED
    assert Check(shard).findings == [] and scan(shard.client, shard.tag) == []
    return hash_of(shard, "leased", "next")


def bodies_of(shard):
    return {found.id: found.body for found in shard.take("t")}


def test_a_successor_without_its_job_becomes_the_job(shard):
    record = with_successor(shard)
    shard.client.hdel(f"{shard.tag}:job:t", "leased")
    assert only(must_be_mended(shard), "a successor without its job")
    assert hash_of(shard, "leased") == record
    assert bodies_of(shard)[b"leased"] == b"newer"


@pytest.mark.parametrize("place", ["ready", "delayed", "retrying", "dead", "fresh"])
def test_a_successor_of_a_job_that_is_not_leased_takes_its_place(shard, place):
    record = with_successor(shard)
    set_hash(shard, place, record, "next")
    assert only(must_be_mended(shard, may_replace=True), "has a successor, but is not leased")
    assert hash_of(shard, place) == record
    assert bodies_of(shard)[place.encode()] == b"newer"


def test_a_lease_learns_of_its_successor(shard):
    with_successor(shard)
    attempt = hash_of(shard, "leased", "try")
    assert attempt[37] == 2
    set_hash(shard, "leased", bytes([3]) + attempt[1:37] + attempt[45:], "try")
    assert only(must_be_mended(shard), "a successor of which its lease does not know")
    assert hash_of(shard, "leased", "try") == attempt


def test_a_lease_forgets_a_lost_successor(shard):
    with_successor(shard)
    shard.client.delete(f"{shard.tag}:next:t")
    assert only(must_be_mended(shard, may_replace=True), "waits for a successor that does not exist")
    assert hash_of(shard, "leased", "try")[0] == LEASED


def test_a_successor_that_cannot_be_read_is_kept_aside(shard):
    with_successor(shard)
    set_hash(shard, "leased", b"short", "next")
    assert only(must_be_mended(shard), "has an unreadable successor")
    assert records(shard).count(b"short") == 1


def cut(key, size):
    return lambda shard: shard.client.set(f"{shard.tag}:{key}", shard.client.get(f"{shard.tag}:{key}")[:size])


def patch(key, at, value):
    return lambda shard: shard.client.setrange(f"{shard.tag}:{key}", at, value)


def with_groups(damage):
    """The other jobs, and two ready jobs of a group, and one of a group in flight."""
    def spoil(shard):
        shard.push("t", job("a1", group="a"), job("a2", group="a"), job("b1", group="b", priority=1))
        shard.take("t", 1)
        shard.group(GROUP_PUT, "t", "a", weight=2)
        assert Check(shard).findings == [] and scan(shard.client, shard.tag) == []
        damage(shard)
    return spoil


def spoil_group(name, **fields):
    def spoil(shard):
        group = state.group_read(shard.client.hget(f"{shard.tag}:groups:t", name))
        group.update(fields)
        shard.client.hset(f"{shard.tag}:groups:t", name, state.group_written(group))
    return with_groups(spoil)


def with_delayed(shard):
    """One delayed job of the group a more, and the group has a maximum of jobs."""
    shard.group(GROUP_PUT, "t", "a", max_jobs=1000)
    shard.push("t", job("a3", delay=3_600_000, group="a"))
    assert Check(shard).findings == [] and scan(shard.client, shard.tag) == []


def spoil_delayed(**counts):
    """Sets the counts of delayed jobs of these groups; None: removes one."""
    def spoil(shard):
        with_delayed(shard)
        for name, count in counts.items():
            if count is None:
                shard.client.hdel(f"{shard.tag}:waits:t", name)
            else:
                shard.client.hset(f"{shard.tag}:waits:t", name, count)
    return with_groups(spoil)


def stop_counting(shard):
    """The topic has forgotten that it counts, as after the loss of its figures."""
    with_delayed(shard)
    spoil_topic(flow_bits=2)(shard)


def spoil_strict(**fields):
    """A group of another, strict topic, of which one tried job waits in front of a newer one."""
    def spoil(shard):
        shard.topic(TOPIC_PUT, "strict", settings(flow=flow(strict=True)), 1)
        shard.push("strict", job("1", group="a"), job("2", group="a"))
        shard.answer((NACK, shard.take("strict")[0].delivery, 0, b"no"))
        assert Check(shard).findings == [] and scan(shard.client, shard.tag) == []
        group = state.group_read(shard.client.hget(f"{shard.tag}:groups:strict", "a"))
        group.update(fields)
        shard.client.hset(f"{shard.tag}:groups:strict", "a", state.group_written(group))
    return spoil


GROUPS = {
    "a group in flight that is not": (spoil_group("a", in_flight=7), "the group 'a' counts 7 in flight"),
    "a group with too few ready jobs": (spoil_group("a", ready=1), "the group 'a' counts 0 in flight and 1 ready, but there are 0 and 2"),
    "a group without its jobs": (with_groups(lambda shard: shard.client.hdel(f"{shard.tag}:groups:t", "a")), "the group 'a' counts 0 in flight and 0 ready"),
    "a group cut short": (with_groups(lambda shard: shard.client.hset(f"{shard.tag}:groups:t", "a", b"short")), "the group 'a' counts 0 in flight and 0 ready"),
    "a group without jobs cut short": (with_groups(lambda shard: shard.client.hset(f"{shard.tag}:groups:t", "gone", b"short")), "the group 'gone' is unreadable"),
    "a group with another first job": (spoil_group("a", heads={100: (5, 5)}), "the group 'a' has another first job"),
    "a group without its turn": (with_groups(lambda shard: shard.client.delete(f"{shard.tag}:turns:t:100")), "the turns of priority 100"),
    "a turn of no group": (with_groups(lambda shard: shard.client.zadd(f"{shard.tag}:turns:t:100", {b"x" * 24 + b"a": 0})), "the turns of priority 100"),
    "turns in a priority without jobs": (with_groups(lambda shard: shard.client.zadd(f"{shard.tag}:turns:t:7", {b"x" * 24 + b"a": 0})), "in priority 7"),
    "a group that wakes for nothing": (with_groups(lambda shard: shard.client.zadd(f"{shard.tag}:wakes:t", {b"nobody": 2**45})), "names 'nobody'"),
    "unreadable settings of a group": (with_groups(lambda shard: shard.client.hset(f"{shard.tag}:group:t", "a", b"short")), "the settings of the group 'a'"),
    "a count of jobs that may be delivered": (with_groups(lambda shard: spoil_topic(flow_open=77)(shard)), "counts 77 jobs that may be delivered"),
    "a group with more delayed jobs than there are": (spoil_delayed(a=5), "the group 'a' counts 5 delayed jobs, but there are 1"),
    "a group with fewer delayed jobs than there are": (spoil_delayed(a=None), "the group 'a' counts no delayed job, but there are 1"),
    "a group without delayed jobs": (spoil_delayed(x=2), "the group 'x' counts 2 delayed jobs, but there are 0"),
    "delayed jobs that are not counted": (with_groups(stop_counting), "does not count the delayed jobs of its groups"),
    "groups without the flag": (with_groups(lambda shard: without(state.GROUPED)(shard)), "of a group, but the topic lacks the flag"),
}


@pytest.mark.parametrize("fields, finding", [
    ({"tried": 0}, "the group 'a' counts 0 tried jobs, but there are 1"),
    ({"tried": 3}, "the group 'a' counts 3 tried jobs, but there are 1"),
    ({"heads": {100: (7, 7)}}, "the group 'a' has another first job"),
])
def test_tried_jobs_of_a_strict_group_are_counted(shard, fields, finding):
    spoil_strict(**fields)(shard)
    assert only(must_be_mended(shard), finding)
    [found] = shard.take("strict")
    assert found.id == b"1" and shard.take("strict") == []


def test_a_tried_job_by_its_due_in_a_strict_group_is_put_in_front(shard):
    spoil_strict()(shard)
    [member] = shard.client.zrangebyscore(f"{shard.tag}:ready:strict:100:a", 0, 0)
    shard.client.zadd(f"{shard.tag}:ready:strict:100:a", {member: state.NONE})
    assert only(must_be_mended(shard), "instead of 0")
    assert [found.id for found in shard.take("strict")] == [b"1"]


@pytest.mark.parametrize("damage", GROUPS)
def test_what_is_kept_of_a_group_is_found_wrong_and_put_right(shard, damage):
    fill(shard)
    spoil, finding = GROUPS[damage]
    spoil(shard)
    assert only(must_be_mended(shard), finding)
    assert {found.id for found in shard.take("t")} == {b"ready", b"expires", b"a1", b"a2"}


VALUES = {
    "the next event too late": (spoil_core(next=FAR, rest=FAR), "the shard's next event is noted at"),
    "the next event too late, of another topic": (spoil_core(next=FAR, rest=FAR, next_topic=b"other"), "the shard's next event is noted at"),
    "the event after the next too late": (spoil_core(next=5, rest=FAR, next_topic=b"other"), "the shard's next event is noted at"),
    "a topic's next event too late": (spoil_topic(next=FAR), "its next event is at"),
    "a topic listed by another event": (spoil_topic(listed=FAR), "has the topic at"),
    "leaves without the flag": (without(state.PACKED), "has packed jobs, but lacks the flag"),
    "expiring jobs without the flag": (without(state.EXPIRING), "has expiring jobs, but lacks the flag"),
    "finished ids without the flag": (without(state.REMEMBERING), "has finished ids, but lacks the flag"),
    "successors without the flag": (lambda shard: (with_successor(shard, False), without(state.SUCCEEDING)(shard)), "has successors, but lacks the flag"),
    "own policies without the flag": (without(state.SPECIAL), "has its own priority or policy"),
    "tries without the flag": (without(state.TRIED), "was tried and waits, but the topic lacks the flag"),
    "a total below nothing": (spoil_topic(nacked=-5, delivered=-1), "counts -5 nacked"),
    "the dead below nothing": (spoil_topic(dead_bytes=-5), "counts -5 bytes of dead jobs"),
    "all counts gone": (spoil_topic(**dict.fromkeys(state.FIGURES, 0)), "counts 0 ready, but there are 2"),
    "a topic cut short": (cut("topic:t", 60), "its counts and settings were lost"),
    "a topic that is empty": (cut("topic:t", 0), "its counts and settings were lost"),
    "settings cut short": (cut("topic:t", 120), "the settings are unreadable"),
    "settings too long": (lambda shard: shard.client.append(f"{shard.tag}:topic:t", b"x" * 29), "the settings are unreadable"),
    "a core that is empty": (cut("core", 0), "the shard has no core"),
    "a core cut short": (cut("core", 40), "the shard has no core"),
    "a core without its end": (cut("core", 71), "the end of the core is unreadable"),
    "a core whose topic is longer than it": (patch("core", 67, b"\xff"), "the shard has no core"),
    "a ticket outside the list of servers": (lambda shard: shard.client.delete(shard.tag + ":servers"), "is not in the list of servers"),
}


@pytest.mark.parametrize("damage", VALUES)
def test_each_field_of_the_packed_values_is_found_wrong_and_put_right(shard, damage):
    fill(shard)
    shard.topic(TOPIC_PUT, "t", settings(dedup=5000), 1)
    spoil, finding = VALUES[damage]
    spoil(shard)
    assert only(must_be_mended(shard), finding)
    shard.hello()
    assert {found.id for found in shard.take("t")} == {b"ready", b"expires"}
    shard.jump(80_000)
    shard.advance_all()
    assert {found.id for found in shard.take("t")} >= {b"delayed", b"fresh", b"retrying"}


def test_too_many_delayed_jobs_to_count_them_by_group_are_noted(shard):
    fill(shard)
    with_groups(stop_counting)(shard)
    shard.check = False  # a count of jobs that do not exist
    state.topic_change(shard.client, shard.tag, "t", delayed=100_001)
    assert [found for found in Check(shard).findings if "too many delayed jobs to count those of each group" in found.what]
    must_be_mended(shard)


# ---- what is left of a topic ----

def with_all_keys(shard):
    """A topic that has a key of each kind."""
    with_successor(shard)
    shard.topic(TOPIC_PUT, "t", settings(dedup=5000, keep=(600_000, 0, 0, 0)), 1, extension=b"{}")
    shard.push("t", job("kept"), job("failed"))
    taken = {found.id: found for found in shard.take("t")}
    assert [status for status, *_ in shard.answer((ACK, taken[b"kept"].delivery), (NACK, taken[b"failed"].delivery))] == [OK, OK]
    shard.push("t", job("last", own={"ttl": 60_000}), job("grouped", group="a"), job("waits", group="b"))
    shard.group(GROUP_PUT, "t", "b", max_jobs=100, paused=1, until=2**42)
    assert Check(shard).findings == [] and scan(shard.client, shard.tag) == []
    keys = sorted(key for key in shard.client.scan_iter(f"{shard.tag}:*") if re.match(rb"[a-z]+:t(:\d+(:.+)?)?$", key[len(shard.tag) + 1:]))
    assert {key.split(b":")[2].decode() for key in keys} == KINDS
    return keys


KINDS = set(PER_TOPIC) | set(PER_PART)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_key_that_is_all_that_is_left_of_a_topic_is_repaired(shard, kind):
    for key in with_all_keys(shard):
        if key.split(b":")[2].decode() != kind:
            shard.client.delete(key)
    must_be_mended(shard)


# ---- damaged numbers ----

SIX = (2**48 - 2).to_bytes(6, "big")


def spoil_number(kind, ident, at):
    """A sequence, or a delivery number, of which the highest bits were changed."""
    def spoil(shard):
        value = hash_of(shard, ident, kind)
        set_hash(shard, ident, value[:at] + SIX + value[at + 6:], kind)
    return spoil


def spoil_kept(shard):
    """The same of the number of a kept job."""
    [key] = shard.client.scan_iter(f"{shard.tag}:page:t:*")
    [entry] = shard.client.lrange(key, 0, -1)
    shard.client.lset(key, 0, entry[:entry[0] + 3] + SIX + entry[entry[0] + 9:])


def rename_leaf(shard):
    [(leaf, low)] = shard.client.zrange(f"{shard.tag}:index:t", 0, 0, withscores=True)
    far = str(2**48 - 2)
    shard.client.rename(f"{shard.tag}:leaf:t:{leaf.decode()}", f"{shard.tag}:leaf:t:{far}")
    shard.client.zrem(f"{shard.tag}:index:t", leaf)
    shard.client.zadd(f"{shard.tag}:index:t", {far: low})


NUMBERS = {
    "the sequence of a job": spoil_number("job", "delayed", 3),
    "the delivery number of a lease": spoil_number("try", "leased", 25),
    "the number of a kept job": spoil_kept,
    "the number of a leaf": rename_leaf,
    "the counter of sequences": spoil_core(sequence=2**48 - 2),
    "the counter of leaves": spoil_core(leaf=2**48 - 2),
    "the counter of sequences at its end": spoil_core(sequence=NUMBERS_END),
}


@pytest.mark.parametrize("damage", NUMBERS)
def test_no_damaged_number_moves_a_counter_to_its_end(shard, damage):
    with_all_keys(shard)
    kept = shard.list_all("t")
    NUMBERS[damage](shard)
    before = records(shard)
    Check(shard, "repair")
    assert records(shard) == before, "no record is dropped"
    assert Check(shard).faults == [] and scan(shard.client, shard.tag) == []
    core = state.core_of(shard.client, shard.tag)
    assert max(core.sequence, core.leaf) < NUMBERS_END
    shard.hello()
    shard.push("t", *[job(f"new{n}", delay=70_000 + n) for n in range(300)])
    shard.pack_all()
    assert len(shard.list_all("t")) == len(kept) + 300


@pytest.mark.parametrize("damage", ["a core cut short", "a core whose topic is longer than it", "a core that is empty"])
def test_no_call_is_carried_out_by_a_core_that_cannot_be_read(shard, damage):
    fill(shard)
    VALUES[damage][0](shard)
    before = shard.dump()
    for call in (shard.hello, lambda: shard.take("t"), lambda: shard.push("t", job("new")), shard.advance, lambda: shard.topic(TOPIC_PUT, "t", settings(), 1)):
        with pytest.raises(Exception, match="^BROKEN .*tarry fsck"):
            call()
    assert shard.dump() == before
    must_be_mended(shard)


# ---- batches ----


def begin_batch(shard):
    shard.push("t", job("w", batch=batch(waits=True)))
    shard.push("m", *[job(f"j{number}", batch=batch(of=("t", "w"))) for number in range(5)])
    [first] = shard.take("m", 1)
    shard.answer((REFUSE, first.delivery))
    assert shard.change("t", (CLOSE, "w"))[0][0] == OK
    return first.id


def change_counts(shard, at, by):
    state_of = bytearray(shard.client.hget(shard.tag + ":batches", b"t\0w"))
    state_of[at + 3] += by
    shard.client.hset(shard.tag + ":batches", b"t\0w", bytes(state_of))


def complete_batch(shard):
    for taken in shard.take("m"):
        shard.answer((ACK, taken.delivery))
    [done] = shard.take("t")
    return done.meta


@pytest.mark.parametrize("at, by", [(9, 1), (9, -1), (17, 1)])
def test_wrong_counts_of_a_batch_are_corrected(shard, at, by):
    begin_batch(shard)
    change_counts(shard, at, by)
    [found] = must_be_mended(shard)
    assert "its batch counts" in found.what
    assert b"acked=4 dead=1" in complete_batch(shard)


def test_a_member_that_is_lost_counts_as_cancelled(shard):
    begin_batch(shard)
    shard.client.hdel(shard.tag + ":job:m", "j2")
    Check(shard, "repair")
    assert Check(shard).faults == [] and scan(shard.client, shard.tag) == []
    assert complete_batch(shard) == b"tarry-batch\0acked=3 dead=1 cancelled=1 expired=0 missing=0\0"


def test_a_member_that_the_batch_does_not_list_is_added(shard):
    begin_batch(shard)
    [number] = [int(key.rpartition(b":")[2]) for key in shard.client.keys(shard.tag + ":members:*")]
    shard.client.srem(f"{shard.tag}:members:{number}", b"m\0j3")
    must_be_mended(shard)
    assert b"acked=4 dead=1" in complete_batch(shard)
