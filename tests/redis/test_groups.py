"""Groups, limits, rates and holds (flow.lua)."""

from collections import Counter

import pytest
from abi import (ACK, CANCEL, CREATED, DELAYED, GROUP_DELETE, GROUP_GET, GROUP_PUT, HELD_GROUP_LIMIT, HELD_GROUP_ORDER, HELD_GROUP_PAUSED, HELD_GROUP_RATE, HELD_HOLD, HELD_LIMIT, HELD_NOT, HELD_RATE, LEASED, NACK,
                 OK, READY, RETURN, RUN, TOPIC_PUT, Shard, flow, job, settings)


@pytest.fixture
def still(redis_server):
    """An empty shard with a clock that stands still."""
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    shard.hello(held=1_000_000)
    yield shard
    shard.must_be_sound()


def push_each(shard, topic, groups, count=1):
    for name in groups:
        shard.push(topic, *[job(f"{name}{number}", group=name) for number in range(count)])


def groups_of(jobs):
    return "".join(found.group.decode() or "-" for found in jobs)


def put(shard, topic="t", **limits):
    assert shard.topic(TOPIC_PUT, topic, settings(flow=flow(**limits)), 1)[0] in (OK, CREATED)


def test_groups_take_turns(shard):
    push_each(shard, "t", "abc", 4)
    assert groups_of(shard.take("t", 7)) == "abcabca"
    assert groups_of(shard.take("t")) == "bcabc"


def test_the_group_with_the_fewest_jobs_in_flight_comes_first(shard):
    push_each(shard, "t", "a", 10)
    first = shard.take("t", 3)
    push_each(shard, "t", "b", 5)
    assert groups_of(shard.take("t", 4)) == "bbba"
    shard.answer(*[(ACK, found.delivery) for found in first])
    assert groups_of(shard.take("t", 2)) == "aa"


def test_jobs_without_a_group_are_one_group(shard):
    shard.push("t", *[job(f"x{number}") for number in range(4)])
    assert len(shard.take("t", 1)) == 1
    push_each(shard, "t", "a", 4)
    assert groups_of(shard.take("t")) == "a-a-a-a"


def test_priority_comes_before_the_turn_of_a_group(shard):
    push_each(shard, "t", "a", 3)
    shard.push("t", job("first", group="a", priority=1), job("second", group="b", priority=2))
    assert [found.id for found in shard.take("t", 3)] == [b"first", b"second", b"a0"]


def test_weights_share_in_their_proportion(shard):
    shard.check = False
    push_each(shard, "t", "ab", 300)
    shard.group(GROUP_PUT, "t", "a", weight=3)
    served, leases = Counter(), []
    for _ in range(200):
        [found] = shard.take("t", 1)
        served[found.group] += 1
        leases.append(found.delivery)
        if len(leases) > 8:
            shard.answer((ACK, leases.pop(0)))
    shard.check = True
    assert abs(served[b"a"] - 150) <= 3


def test_a_group_that_wakes_does_not_catch_up(shard):
    push_each(shard, "t", "a", 30)
    for _ in range(10):
        [found] = shard.take("t", 1)
        shard.answer((ACK, found.delivery))
    push_each(shard, "t", "b", 10)
    served = ""
    for _ in range(6):
        [found] = shard.take("t", 1)
        served += groups_of([found])
        shard.answer((ACK, found.delivery))
    assert served in ("bababa", "ababab")


@pytest.mark.parametrize("limits, groups, most, reason", [({"limit": 3}, "", 3, HELD_LIMIT), ({"limit": 3}, "ab", 3, HELD_LIMIT), ({"group_limit": 2}, "ab", 4, HELD_GROUP_LIMIT),
                                                          ({"group_limit": 2}, "", 2, HELD_GROUP_LIMIT)])
def test_a_limit_holds_until_a_slot_is_free(shard, limits, groups, most, reason):
    put(shard, **{name: 8 * limit - 7 for name, limit in limits.items()})  # of 8 shards, rounded up
    push_each(shard, "t", groups, 5) if groups else shard.push("t", *[job(f"x{number}") for number in range(9)])
    assert shard.stats("t").held == 0
    taken = shard.take("t")
    assert len(taken) == most
    assert shard.take("t") == [] and shard.stats("t").held == shard.stats("t").ready > 0
    waiting = shard.list("t", READY)[2][0]
    assert (shard.get("t", waiting.id).held_by, shard.get("t", waiting.id).held_until) == (reason, 0)
    step = shard.step([(ACK, taken[0].delivery)])
    assert step.woken == [b"t"] and len(shard.take("t")) == 1


def end_by_expiry(shard, found):
    shard.jump(61_000)
    shard.advance_all()


ENDS = {
    "ack": lambda shard, found: shard.answer((ACK, found.delivery)),
    "acks together": lambda shard, found: shard.answer((ACK, found.delivery), (ACK, 999)),
    "nack": lambda shard, found: shard.answer((NACK, found.delivery, 0, b"no")),
    "final nack": lambda shard, found: shard.answer((5, found.delivery, 0, b"no")),
    "return": lambda shard, found: shard.answer((RETURN, found.delivery, 0)),
    "again": lambda shard, found: shard.change("t", (CANCEL, found.id)) and shard.answer((NACK, found.delivery, 1000)),
    "expiry": end_by_expiry,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("limits", [{"limit": 1}, {"group_limit": 1}])
def test_every_end_of_a_lease_frees_the_slot(shard, end, limits):
    put(shard, **limits)
    shard.push("t", job("a", group="g"), job("b", group="g"), job("c", group="g"))
    [found] = shard.take("t")
    assert shard.take("t") == []
    ENDS[end](shard, found)
    assert len(shard.take("t")) == 1 and shard.take("t") == []


def test_a_deleted_topic_keeps_no_slot(shard):
    put(shard, group_limit=1)
    push_each(shard, "t", "ab", 2)
    assert len(shard.take("t")) == 2
    shard.purge_all("t", verb="delete")
    assert not [key for key in shard.client.scan_iter("*") if b":t" in key and b"topics" not in key and b"ticket" not in key]
    put(shard, group_limit=1)
    push_each(shard, "t", "ab", 2)
    assert len(shard.take("t")) == 2


def test_a_lease_by_id_counts_but_is_not_limited(shard):
    put(shard, group_limit=1)
    push_each(shard, "t", "a", 3)
    shard.take("t")
    shard.change_call("pick", b"\0\0\0\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0", "a2", "t")
    assert shard.groups("t")[1][0][2] == 2
    assert shard.take("t") == []


def test_a_rate_spaces_the_deliveries(still):
    put(still, rate=(80, 1), burst=1)  # 8 stills: 10 per second
    still.push("t", *[job(f"x{number}") for number in range(5)])
    times = []
    for _ in range(5):
        step = still.take_call("t")
        assert len(step.jobs[0]) == 1
        times.append(step.now)
        if still.stats("t").ready:
            assert still.get("t", "x4").held_by == HELD_RATE and step.next == still.get("t", "x4").held_until
            still.hold(step.next - 1)
            assert still.take("t") == []
            still.hold(step.next)
            assert still.advance()[2] == [b"t"]
    assert [later - sooner for sooner, later in zip(times, times[1:])] == [100] * 4


def test_a_rate_with_a_burst_keeps_the_bound_of_every_window(still):
    still.check = False
    put(still, group_rate=(80, 1), group_burst=3)
    still.push("t", *[job(f"x{number}", group="g") for number in range(60)])
    times = []
    for at in range(1_000_000, 1_004_000, 10):
        still.hold(at)
        times += [at] * len(still.take("t"))
    assert times[:3] == [1_000_000] * 3 and 41 <= len(times) <= 43
    assert all(sum(start <= time < start + 1000 for time in times) <= 10 + 3 - 1 for start in times)
    assert still.groups("t")[1][0][3] == HELD_GROUP_RATE


def test_retries_count_toward_the_rate(still):
    put(still, rate=(8, 1), burst=1)
    still.push("t", job("a"))
    [found] = still.take("t")
    still.answer((NACK, found.delivery, 0, b"no"))
    assert still.take("t") == []
    still.hold(1_001_000)
    assert len(still.take("t")) == 1


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("verb", [ACK, NACK, RETURN])
def test_a_hold_ends_on_time(still, group, verb):
    still.push("t", *[job(f"x{number}", group=group) for number in range(3)], job("other", group="h"))
    found = still.take("t", 1)[0]
    still.answer(((verb, 500), found.delivery, 0, b""))
    assert groups_of(still.take("t")) == ("h" if group else "")
    [shown] = [entry for entry in still.groups("t")[1] if entry[0] == (group or "").encode()]
    assert shown[3:5] == (HELD_HOLD, 1_000_501)
    still.hold(1_000_500)
    assert still.take("t") == []
    still.hold(1_000_501)
    assert still.advance()[2] == [b"t"]
    assert len(still.take("t")) >= 2


def test_the_later_end_of_two_holds_counts(still):
    still.push("t", *[job(f"x{number}", group="g") for number in range(3)])
    first, second = still.take("t", 2)
    still.answer(((ACK, 500), first.delivery), ((ACK, 200), second.delivery))
    assert still.groups("t")[1][0][4] == 1_000_501


def test_a_paused_group_waits_and_the_pause_ends(still):
    push_each(still, "t", "ab", 2)
    still.group(GROUP_PUT, "t", "a", paused=1, until=1_000_800)
    assert groups_of(still.take("t")) == "bb"
    assert still.get("t", "a0").held_by == HELD_GROUP_PAUSED and still.get("t", "a0").held_until == 1_000_800
    still.hold(1_000_800)
    assert still.advance()[2] == [b"t"]
    assert groups_of(still.take("t")) == "aa"
    assert still.group(GROUP_GET, "t", "a")[1][5][-7] == 0


def test_settings_of_a_group_come_before_those_of_its_topic(shard):
    put(shard, group_limit=8)
    push_each(shard, "t", "ab", 9)
    shard.group(GROUP_PUT, "t", "a", limit=24)
    assert Counter(groups_of(shard.take("t"))) == {"a": 3, "b": 1}
    shard.group(GROUP_DELETE, "t", "a")
    shard.topic(TOPIC_PUT, "t", settings())
    assert len(shard.take("t")) == 14


def test_groups_are_listed_in_each_order(shard):
    put(shard, group_limit=8)
    push_each(shard, "t", "a", 2)
    push_each(shard, "t", "b", 3)
    assert groups_of(shard.take("t")) == "ab"
    push_each(shard, "t", "c", 1)
    assert [(name, ready, leased, held) for name, ready, leased, held, *_ in shard.groups("t")[1]] == [
        (b"a", 1, 1, HELD_GROUP_LIMIT), (b"b", 2, 1, HELD_GROUP_LIMIT), (b"c", 1, 0, HELD_NOT)]
    assert [entry[0] for entry in shard.groups("t", 1)[1]] == [b"b", b"a", b"c"]
    assert [entry[0] for entry in shard.groups("t", 2)[1]] == [b"a", b"b", b"c"]
    assert [entry[0] for entry in shard.groups("t", 3)[1]] == [b"a", b"b"]
    more, first = shard.groups("t", 1, 1)
    assert more and [entry[0] for entry in shard.groups("t", 1, 5, (first[0][1], first[0][0]))[1]] == [b"a", b"c"]


def test_a_push_says_whether_its_jobs_can_be_delivered(shard):
    put(shard, limit=1)
    assert shard.push_call("t", job("a")).rest[6:] == b""
    shard.take("t")
    assert shard.push_call("t", job("b")).items(">BBI6")[0][:2] == (CREATED, READY | 64)


def commands(shard, call):
    shard.client.config_resetstat()
    call()
    return {name: stat["calls"] for name, stat in shard.client.info("commandstats").items() if not name.startswith(("cmdstat_config", "cmdstat_info"))}


def test_held_groups_cost_no_commands(shard):
    """A limited group leaves the turns: a take reads none of them."""
    shard.check = False
    put(shard, group_limit=1)
    for group in range(300):
        shard.push("t", job(f"a{group}", group=f"g{group}"), job(f"b{group}", group=f"g{group}"))
    while shard.take("t"):
        pass
    assert sum(commands(shard, lambda: shard.take("t")).values()) < 12
    shard.check = True


def test_a_job_that_runs_early_joins_its_group(shard):
    put(shard, group_limit=1)
    shard.push("t", job("a", group="g", delay=5000), job("b", group="g", delay=5000))
    shard.change("t", (RUN, "a"), (RUN, "b"))
    assert [found.id for found in shard.take("t")] == [b"a"]


def test_a_limit_that_is_reached_with_the_last_ready_job_leaves_no_empty_line(shard):
    shard.topic(TOPIC_PUT, "t", settings(flow=flow(group_limit=16)), 1)  # 2 for each of the 8 shards
    shard.push("t", *[job(f"{group}{number}", group=group, priority=0) for group in "ab" for number in range(2)])
    assert len(shard.take("t", 10)) == 4
    shard.must_be_sound()
    shard.push("t", job("c", group="c", priority=100))
    assert [found.id for found in shard.take("t", 10)] == [b"c"]


# ---- strict order ----

def test_a_tried_job_is_listed_by_its_due(shard):
    put(shard, strict=True)
    for number in range(4):
        shard.push("t", job(f"a{number}", group="a"), job(f"b{number}", group="b"))
        shard.jump(10)
    shard.answer(*[(NACK, found.delivery, 0, b"no") for found in shard.take("t")])
    found = shard.list_all("t", READY, limit=3)
    assert [one.id.decode() for one in found] == ["a1", "b1", "a2", "b2", "a3", "b3", "a0", "b0"]
    assert [one.id for one in shard.list_all("t", limit=2)] == [one.id for one in found]
    assert shard.groups("t")[1][0][5] == found[-2].due == shard.stats("t").oldest_due  # of the first job of its order
    shard.purge_all("t", READY)
    shard.push("t", job("last", group="a"))
    assert [one.id for one in shard.take("t")] == [b"last"]


@pytest.mark.parametrize("state", [DELAYED, READY, 0])
def test_purged_jobs_release_their_strict_group(shard, state):
    put(shard, strict=True)
    push_each(shard, "t", "ab", 2)
    shard.answer(*[(NACK, found.delivery, 0 if state == READY else 60_000, b"no") for found in shard.take("t")])
    shard.purge_all("t", state)
    push_each(shard, "t", "ab")
    assert len(shard.take("t")) == 2


def test_a_strict_group_is_kept_while_a_tried_job_waits(shard):
    put(shard, strict=True)
    push_each(shard, "t", "a")
    shard.answer((NACK, shard.take("t")[0].delivery, 60_000, b"no"))
    shard.push("t", job("a1", group="a"), job("urgent", group="a", priority=0))
    assert shard.take("t") == [] and shard.get("t", "a1").held_by == HELD_GROUP_ORDER
    assert shard.stats("t").held == shard.stats("t").ready == 2
    shard.jump(61_000)
    assert [found.id for found in shard.take("t")] == [b"a0"] and shard.take("t") == []


def test_the_first_tried_job_of_several_priorities_comes_first(shard):
    put(shard, strict=True)
    shard.push("t", job("low", group="a", priority=200), job("high", group="a", priority=1), job("middle", group="a"))
    pick = b"\0\0\0\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0"
    for name in ("middle", "low"):  # leases by id ignore the order
        shard.change_call("pick", pick, name, "t")
    leased = shard.list("t", LEASED)[2]
    shard.answer(*[(NACK, found.delivery, 0, b"no") for found in leased])
    for name in (b"low", b"middle", b"high"):
        [found] = shard.take("t")
        assert found.id == name and shard.take("t") == []
        shard.answer((ACK, found.delivery))


def test_many_groups_with_equal_loads_are_served_in_rounds(shard):
    names = [f"g{number:02}" for number in range(40)]
    push_each(shard, "t", names, 3)
    taken = [found.group.decode() for found in shard.take("t", 100)]
    assert taken == names + names + names[:20]
    left = shard.take("t")
    assert [found.group.decode() for found in left] == names[20:]
    shard.answer(*[(ACK, found.delivery) for found in left])
    assert shard.stats("t").leased == 100


def test_a_round_ends_with_the_bytes_of_its_take(shard):
    shard.push("t", *[job(f"j{number}", b"x" * 1000, group=f"g{number:02}") for number in range(40)])
    assert len(shard.take("t", 40, bytes_max=5000)) in (4, 5)
    assert len(shard.take("t")) in (35, 36)


def test_a_round_skips_a_job_whose_record_was_lost(shard):
    push_each(shard, "t", [f"g{number:02}" for number in range(20)], 2)
    shard.client.hdel(f"{shard.tag}:job:t", "g050")
    shard.check = False
    taken = shard.take("t")
    assert len(taken) == 39 and {b"g051", b"g060", b"g191"} < {found.id for found in taken}
    assert shard.group(GROUP_GET, "t", "g05")[1][:2] == (0, 1)
    assert shard.group(GROUP_GET, "t", "g06")[1][:2] == (0, 2)
    shard.client.flushall()
    shard.hello()


# ---- rounds of a strict topic ----

NAMES = [f"g{number:02}" for number in range(40)]


def strict_jobs(shard, count=2):
    put(shard, strict=True)
    for number in range(count):
        shard.push("t", *[job(f"{name}-{number}", group=name) for name in NAMES])


def ids_of(jobs):
    return [found.id.decode() for found in jobs]


def test_a_round_takes_one_job_of_each_strict_group(shard):
    strict_jobs(shard)
    assert ids_of(shard.take("t", 30)) == [f"{name}-0" for name in NAMES[:30]]
    left = shard.take("t")
    assert ids_of(left) == [f"{name}-0" for name in NAMES[30:]] and shard.take("t") == []
    assert shard.stats("t").held_by == {HELD_GROUP_ORDER: 40}
    shard.answer(*[(ACK, found.delivery) for found in left[5:]])
    assert ids_of(shard.take("t")) == [f"{name}-1" for name in NAMES[35:]]
    shard.push("t", job("late", group=NAMES[0]), job("first", group="new"))
    assert ids_of(shard.take("t")) == ["first"] and shard.stats("t").held_by == {HELD_GROUP_ORDER: 36}


def test_a_tried_job_comes_first_in_the_round_of_its_strict_group(shard):
    strict_jobs(shard)
    taken = shard.take("t")
    ends = [(NACK, 0, b"no"), (RETURN, 0, b""), (NACK, 60_000, b"no"), (RETURN, 60_000, b"")]
    shard.answer(*[(*ends[at % 5][:1], found.delivery, *ends[at % 5][1:]) if at % 5 < 4 else (ACK, found.delivery) for at, found in enumerate(taken)])
    again = shard.take("t")
    assert sorted(ids_of(again)) == sorted(f"{name}-{1 if at % 5 > 2 else 0}" for at, name in enumerate(NAMES) if at % 5 != 2)
    assert {found.due for found in again if found.id.endswith(b"-0")} >= {found.due for found in taken if found.id.endswith(b"1-0")}
    shard.answer(*[(ACK, found.delivery) for found in again])
    shard.jump(61_000)
    shard.advance_all()
    assert sorted(ids_of(shard.take("t"))) == sorted(f"{name}-{[1, 1, 0, 0][at % 5]}" for at, name in enumerate(NAMES) if at % 5 < 4)


def test_an_ack_with_a_hold_keeps_its_strict_group_back(shard):
    strict_jobs(shard)
    taken = shard.take("t")
    shard.answer(*[(ACK, found.delivery) for found in taken[1:]], ((ACK, 60_000), taken[0].delivery))
    assert len(shard.take("t")) == 39 and shard.get("t", "g00-1").held_by == HELD_HOLD


def test_priorities_of_strict_groups_come_before_their_turns(shard):
    strict_jobs(shard)
    shard.push("t", *[job(f"{name}-urgent", group=name, priority=1) for name in NAMES[::2]])
    assert ids_of(shard.take("t")) == [f"{name}-urgent" for name in NAMES[::2]] + [f"{name}-0" for name in NAMES[1::2]]


def test_a_lost_record_does_not_stop_its_strict_group(shard):
    strict_jobs(shard)
    shard.client.hdel(f"{shard.tag}:job:t", "g05-0")
    shard.check = False
    assert len(shard.take("t")) == 40
    assert shard.group(GROUP_GET, "t", "g05")[1][:2] == (0, 1)
    shard.client.flushall()
    shard.hello()


@pytest.mark.parametrize("limits", [{}, {"strict": True}, {"strict": True, "group_limit": 8}, {"group_limit": 16}, {"group_rate": (800, 1)}])
def test_jobs_for_many_groups_join_their_lines(shard, limits):
    """The groups are new, are served, wait for their only job or have other priorities; one has no name."""
    put(shard, **limits)
    for name in (*NAMES[:20], None):
        shard.push("t", job(f"{name}-0", group=name))
    taken = shard.take("t", 12)
    shard.push("t", *[job(f"{name}-p{priority}", group=name, priority=priority) for name in NAMES[:30:3] for priority in (300, 2)])
    for number in (1, 2):
        shard.push("t", *[job(f"{name}-{number}", group=name) for name in (*NAMES, None)])
    shard.answer(*[(ACK, found.delivery) for found in taken[::2]], *[(NACK, found.delivery, 0, b"no") for found in taken[1::2]])
    seen, last = [], {}
    for _ in range(1000):
        found = shard.take("t")
        for one in found:
            name, number = one.id.decode().rsplit("-", 1)
            if number.isdigit():
                assert not limits.get("strict") or last.get(name, -1) < int(number)
                last[name] = int(number)
        seen += found
        shard.answer(*[(ACK, one.delivery) for one in found])
        shard.jump(200)
        if len(seen) == 21 + 20 + 82 - 6:
            break
    assert len({found.id for found in seen}) == len(seen) == 21 + 20 + 82 - 6


def test_a_push_to_lines_that_grow_is_one_command_for_each(shard):
    shard.check = False
    strict_jobs(shard)
    found = commands(shard, lambda: shard.push("t", *[job(f"{name}-2", group=name) for name in NAMES]))
    assert found["cmdstat_zadd"] == 40 and sum(found.values()) < 55
    shard.check = True


def test_turns_that_all_move_stay_out_of_the_compact_form(shard):
    """With 100 groups, a search of the compact form from end to end costs more than the take itself."""
    shard.check = False
    shard.push("t", *[job(f"{name}-{number}", group=f"g{name}") for name in range(100) for number in range(3)])
    for _ in range(2):
        taken = shard.take("t", 100)
        assert len({found.group for found in taken}) == 100
        shard.answer(*[(ACK, found.delivery) for found in taken])
        assert shard.client.object("ENCODING", f"{shard.tag}:turns:t:100") == b"skiplist"
    shard.must_be_sound()
