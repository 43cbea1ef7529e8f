"""list.lua and get.lua: what is shown, in which order, page by page."""

import random

import pytest
from abi import DEAD, DELAYED, LEASED, NOT_FOUND, READY, job


def test_an_unknown_topic_or_job_is_not_found(shard):
    assert shard.list("t") == (NOT_FOUND, False, [])
    shard.push("t", job("a"))
    assert shard.get("t", "b") is None and shard.get("u", "a") is None


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize("state", [0, DELAYED, READY, LEASED, DEAD])
def test_pages_show_every_job_once_by_due_then_push_order(shard, state, limit):
    shard.check = False
    draw = random.Random(7)
    wall = shard.hello().now
    past = {0: None, 1: (1, 2, b"dead")}
    shard.push("t", *[job(f"l{n}", delay=draw.randrange(0, 3), priority=draw.randrange(2)) for n in range(20)])
    shard.jump(10)
    shard.take("t", 10)
    shard.push("t", *[job(f"j{n}", at=wall + draw.choice((65_000, 65_000, 66_000, 95_000 + n)), priority=draw.randrange(3), past=past.get(draw.randrange(8)))
                      for n in range(150)])
    shard.push("t", *[job(f"same{n}", at=wall + 65_000) for n in range(200)])
    shard.pack(100)
    for _ in range(2):
        whole = sorted((found for found in (shard.get("t", job_id) for job_id in list(shard.client.hgetall(shard.tag + ":job:t"))) if state in (0, found.state)),
                       key=lambda found: (found.due, found.sequence))
        seen = shard.list_all("t", state, limit)
        assert [found.id for found in seen] == [found.id for found in whole]
        assert [found.state for found in seen] == [found.state for found in whole]
        shard.jump(66_500)  # due now, and not moved yet


def test_bodies_are_returned_on_request_only(shard):
    shard.push("t", job("a", b"body", own={"lease": 500}, content_type=b"text/plain", meta=b"k\0v\0"), job("b", b"body"))
    shard.push("t", job("c", b"body", content_type=129, meta=b"m"), job("d", b"body", content_type=b"x" * 128))
    a, b, c, d = shard.list("t", body=False)[2]
    assert (c.body, c.content_type, c.meta, d.body, d.content_type) == (b"", 129, b"m", b"", b"x" * 128)
    assert (a.body, a.content_type, a.meta, a.policy[0], b.body) == (b"", b"text/plain", b"k\0v\0", 500, b"")
    assert shard.list("t")[2][0].body == b"body"


def test_a_page_ends_before_its_size_limit_and_the_next_one_continues(shard):
    body = b"x" * (1 << 20)
    for n in range(20):
        shard.push("t", job(f"j{n:02}", body))
    _, more, jobs = shard.list("t")
    assert more and 14 <= len(jobs) <= 16
    assert [found.id for found in shard.list_all("t", limit=1000)] == [b"j%02d" % n for n in range(20)]
