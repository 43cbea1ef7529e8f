"""forecast.lua: how many delayed jobs are due before each of some times."""

import bisect
import random

import pytest
from abi import NOT_FOUND, OK, RESCHEDULE, job

MINUTE, HOUR = 60_000, 3_600_000


def bounds_from(now):
    first = now // MINUTE * MINUTE
    return [first + MINUTE * n for n in range(1, 61)] + [(first + HOUR) // HOUR * HOUR + HOUR * n for n in range(1, 168)]


def counted(bounds, dues):
    out = [0] * (len(bounds) + 1)
    for due in dues:
        out[bisect.bisect_right(bounds, due)] += 1
    return out


def push_at(shard, topic, dues):
    for first in range(0, len(dues), 500):
        shard.push(topic, *[job(f"{topic}{n}", at=due) for n, due in enumerate(dues[first:first + 500], first)])


def test_an_unknown_topic_is_not_found_and_an_empty_shard_has_nothing(shard):
    assert shard.forecast("t", [5])[0] == NOT_FOUND
    assert shard.forecast("", [5, 6]) == (OK, False, 0, 0, [0, 0, 0])


@pytest.mark.parametrize("count", [1, 48, 49, 3000])
@pytest.mark.parametrize("packed", [False, True])
def test_fresh_and_packed_jobs_are_counted_to_the_millisecond(shard, packed, count):
    shard.check = False
    draw, wall = random.Random(count), shard.hello().now
    bounds = bounds_from(wall)
    dues = [draw.choice((draw.choice(bounds[2:]), draw.choice(bounds[2:]) - 1, wall + 70_000 + draw.randrange(9 * 24 * HOUR), wall + 90_000)) for _ in range(count)]
    push_at(shard, "t", dues)
    if packed:
        shard.pack_all()
        assert shard.client.zcard(shard.tag + ":fresh:t") == 0
    assert shard.forecast("t", bounds) == (OK, False, 0, 0, counted(bounds, dues))
    assert shard.forecast("", bounds) == (OK, False, 0, 0, counted(bounds, dues))


def test_ready_jobs_are_overdue_by_the_clock_of_the_shard(shard):
    wall = shard.hello().now
    shard.jump(5 * HOUR)
    shard.push("t", job("ready"), job("later", at=wall + HOUR))
    bounds = [wall + HOUR, wall + HOUR + 1, wall + 2 * HOUR]
    assert shard.forecast("t", bounds)[3:] == (1, [0, 1, 0, 0])


def test_many_topics_come_page_by_page_each_once(shard):
    shard.check = False
    draw, wall = random.Random(5), shard.hello().now
    bounds, all_dues = bounds_from(wall), []
    for n in range(450):
        dues = [wall + 70_000 + draw.randrange(9 * 24 * HOUR) for _ in range(draw.choice((0, 1, 3, 60)))]
        push_at(shard, f"t{n}-", dues)
        all_dues += dues
    sums, rank, pages = [0] * (len(bounds) + 1), 0, 0
    while True:
        status, estimated, rank, overdue, counts = shard.forecast("", bounds, rank)
        assert (status, estimated, overdue) == (OK, False, 0)
        sums, pages = [a + b for a, b in zip(sums, counts)], pages + 1
        if not rank:
            break
    assert sums == counted(bounds, all_dues) and pages > 4


def test_very_many_packed_jobs_are_estimated_and_the_work_of_a_call_is_bounded(shard):
    shard.check = False
    draw, wall = random.Random(6), shard.hello().now
    bounds = bounds_from(wall)
    dues = [wall + 70_000 + int(9 * 24 * HOUR * draw.random() ** 2) for _ in range(60_000)]
    push_at(shard, "t", dues)
    shard.pack_all()
    shard.client.config_resetstat()
    status, estimated, _, _, counts = shard.forecast("t", bounds)
    stats = shard.client.info("commandstats")
    assert sum(stats[name]["calls"] for name in ("cmdstat_zcount", "cmdstat_zcard", "cmdstat_zrange")) < 1200
    should = counted(bounds, dues)
    assert status == OK and estimated and sum(counts) == len(dues)
    off = max(abs(sum(counts[:n]) - sum(should[:n])) for n in range(len(counts)))
    assert off < 0.03 * len(dues), off


def test_a_moved_job_is_counted_at_its_new_time(shard):
    wall = shard.hello().now
    shard.push("t", job("a", at=wall + HOUR), job("b", at=wall + HOUR))
    shard.pack_all()
    shard.change("t", (RESCHEDULE, "a", {"at": wall + 3 * HOUR}))
    assert shard.forecast("t", [wall + 2 * HOUR])[4] == [1, 1]
