"""The index of delayed jobs: leaves split, empty, and stay small enough for Redis' compact form."""

import random
import re

import pytest
from abi import CANCEL, DELAYED, SCRIPTS, Shard, job
from test_random import seeds

COMPACT = 128  # zset-max-listpack-entries
LEAF_MAX = int(re.search(r"^local LEAF_MAX = (\d+)", (SCRIPTS / "common" / "base.lua").read_text(encoding="utf-8"), re.M).group(1))


@pytest.fixture
def quiet(shard):
    """Checks the invariants when the test has ended, not after every call."""
    shard.check = False
    return shard


def leaves(shard, topic="t"):
    """{leaf: (entries, compact or not)}"""
    keys = list(shard.client.scan_iter(f"{shard.tag}:leaf:{topic}:*", count=1000))
    return {key: (shard.client.zcard(key), shard.client.object("encoding", key) == b"listpack") for key in keys}


def push_all(shard, dues, batch):
    """Pushes jobs due at times of the wall clock; in calls of `batch`, and packs them now and then and at the end."""
    draw = random.Random(batch)
    for at in range(0, len(dues), batch):
        shard.push("t", *[job(f"j{at + n}", at=due) for n, due in enumerate(dues[at:at + batch])])
        if draw.random() < 0.2:
            shard.pack(draw.choice((1, 50, 1000)))
    shard.pack_all()


@pytest.mark.thorough("a quarter of a minute")
@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("order", ["random", "rising", "falling", "every fourth far away"])
def test_leaves_stay_compact_and_well_filled(quiet, order, batch):
    count = 8000 if batch == 1000 else 3000
    base, draw = quiet.hello().now + 100_000, random.Random(5)
    dues = [base + (draw.randrange(10_000_000) if order == "random" else n if order == "rising" else count - n if order == "falling" else
                    (10_000_000 if n % 4 else 0) + n) for n in range(count)]
    push_all(quiet, dues, batch)
    found = leaves(quiet)
    assert sum(size for size, _ in found.values()) == count
    bulky = [size for size, is_compact in found.values() if not is_compact]
    assert len(bulky) <= len(found) / 100, f"{len(bulky)} of {len(found)} leaves outgrew the compact form"
    assert count / len(found) > LEAF_MAX * 0.45, f"{len(found)} leaves for {count} jobs"


def test_a_thousand_at_one_instant_share_a_leaf_and_their_neighbours_do_not(quiet):
    base = quiet.hello().now + 100_000
    push_all(quiet, [base] * 1000 + [base + 1 + n for n in range(300)] + [base - 1 - n for n in range(300)], 100)
    sizes = sorted((size for size, _ in leaves(quiet).values()), reverse=True)
    assert 1000 <= sizes[0] <= 1000 + COMPACT and sizes[1] <= COMPACT
    quiet.must_be_sound()
    assert [found.id for found in quiet.list_all("t", DELAYED, 1000)] == sorted(
        [b"j%d" % n for n in range(1600)], key=lambda name: ([base] * 1000 + [base + 1 + n for n in range(300)] + [base - 1 - n for n in range(300)])[int(name[1:])])


@pytest.mark.parametrize("order", ["as pushed", "backwards", "random"])
def test_cancels_that_empty_leaves_remove_them(quiet, order):
    base, draw = quiet.hello().now + 100_000, random.Random(6)
    push_all(quiet, [base + draw.randrange(1_000_000) for _ in range(3000)], 1000)
    names = [f"j{n}" for n in range(3000)]
    names = names[::-1] if order == "backwards" else draw.sample(names, 3000) if order == "random" else names
    for at in range(0, 3000, 500):
        quiet.change("t", *[(CANCEL, name) for name in names[at:at + 500]])
        quiet.must_be_sound()
    assert leaves(quiet) == {} and not quiet.client.exists(f"{quiet.tag}:index:t")
    push_all(quiet, [base - 5000, base], 2)
    quiet.must_be_sound()


def test_due_jobs_leave_in_order_in_bounded_steps(quiet):
    base = quiet.hello().now + 10_000
    draw = random.Random(7)
    dues = [base + draw.randrange(1000) for _ in range(5000)]
    push_all(quiet, dues, 1000)
    quiet.jump(20_000)
    steps = 0
    more = True
    while more:
        before = quiet.stats("t").delayed
        _, more, _ = quiet.advance(300)
        moved = before - quiet.stats("t").delayed
        assert moved <= 300, "a step is bounded"
        steps += 1
        if steps == 3:
            quiet.must_be_sound()
    assert steps >= 17
    got = []
    while jobs := quiet.take("t"):
        got += [found.due for found in jobs]
    assert got == sorted(dues)


@pytest.mark.parametrize("seed", seeds(2))
def test_no_order_of_pushes_cancels_and_advances_breaks_the_index(shard, seed):
    """Few dues, many ties, leaves that split at every place."""
    shard.check = False
    draw = random.Random(seed)
    base, known, made = shard.hello().now, [], 0
    for step in range(60):
        kind = draw.random()
        if kind < 0.6:
            spread = draw.choice((1, 3, 50, 100_000))
            start = draw.randrange(200_000)
            count = draw.choice((1, 5, 130, 400))
            shard.push("t", *[job(f"j{made + n}", at=base + 65_000 + start + draw.randrange(spread)) for n in range(count)])
            known += [f"j{made + n}" for n in range(count)]
            made += count
        elif kind < 0.85:
            some = [known.pop(draw.randrange(len(known))) for _ in range(min(len(known), draw.choice((1, 50, 300))))]
            if some:
                shard.change("t", *[(CANCEL, name) for name in some])
        elif kind < 0.95:
            shard.pack(draw.choice((1, 100, 1000)))
        else:
            shard.jump(draw.randrange(40_000))
            shard.advance(draw.choice((1, 100, 1000)))
        shard.must_be_sound()


def test_a_shard_is_its_own_world(redis_server, shard):
    other = Shard(redis_server.client(), "{tarry:1}", shard.server)
    other.hello()
    shard.push("t", job("a", delay=10))
    other.push("t", job("a", b"other", delay=10))
    shard.jump(20)
    shard.advance()
    assert shard.get("t", "a").body == b"" and other.stats("t").delayed == 1
