"""Three servers on one Redis that are killed again and again: at no time does a group have more leases than its limit."""

import collections
import pathlib
import random
import subprocess
import sys
import time

import pytest
from abi import GROUP_PUT, TOPIC_PUT, Shard, flow, job, settings
from invariants import scan
from spans import most_at_once

SERVERS, GROUPS, JOBS, LIMITS, TOPIC_LIMIT = 3, 200, 80, (1, 3, 50), 3000
PROGRAM = pathlib.Path(__file__).with_name("group_server.py")


def start(port, server, log, seed):
    return subprocess.Popen([sys.executable, str(PROGRAM), str(port), f"{256 + server:08x}", str(log), str(seed)], cwd=PROGRAM.parent)


def leases_of(logs):
    """{delivery: (group, begin, end)}. The end is the earliest that it can have been."""
    begins, ends = {}, {}
    for log in filter(pathlib.Path.exists, logs):
        for line in log.read_text(encoding="ascii").split("\n")[:-1]:  # the last one may be cut
            what, delivery, now, *more = line.split()
            if what == "begin":
                begins[delivery] = (more[1], int(now), int(more[0]))
            elif what == "may":
                ends.setdefault(delivery, int(now))
            elif what == "end":
                ends[delivery] = int(now)
    return {delivery: (group, begin, min(until, ends.get(delivery, until))) for delivery, (group, begin, until) in begins.items()}


def await_the_last_calls(client):
    """Waits until Redis has carried out what the killed servers had sent: a connection leaves the list after its last call."""
    until = time.monotonic() + 60
    while len(client.client_list()) > 1:
        assert time.monotonic() < until, client.client_list()
        time.sleep(0.01)


def test_the_count_of_leases_at_once_is_right():
    assert most_at_once([(0, 5), (5, 9), (2, 3)]) == 2
    assert most_at_once([(0, 6), (5, 9)]) == 2
    assert most_at_once([]) == 0


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.thorough("more kills"))])
def test_no_limit_is_exceeded_while_servers_are_killed(own_redis, tmp_path, seconds):
    shard = Shard(own_redis.client(), check=False)
    shard.hello(shards=1)
    limits = {f"g{number:03}": LIMITS[number % len(LIMITS)] for number in range(GROUPS)}
    shard.topic(TOPIC_PUT, "t", settings(flow=flow(limit=TOPIC_LIMIT, group_limit=3)), 1)
    for group, limit in limits.items():
        shard.group(GROUP_PUT, "t", group, limit=limit)
        shard.push("t", *[job(f"{group}-{number}", group=group) for number in range(JOBS)])
    pick, seed, logs = random.Random(seconds), 1, []
    servers = []

    def launch():
        nonlocal seed
        logs.append(tmp_path / f"log{seed}")
        servers.append((start(own_redis.port, seed, logs[-1], seed), logs[-1]))
        seed += 1

    for _ in range(SERVERS):
        launch()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.2)
        at = pick.randrange(SERVERS)
        if not servers[at][1].exists() or servers[at][1].stat().st_size == 0:
            continue  # it has not begun
        server, _ = servers.pop(at)
        server.kill()
        server.wait()
        launch()
    for server, _ in servers:
        server.kill()
        server.wait()

    await_the_last_calls(shard.client)
    leases = leases_of(logs)
    spans = collections.defaultdict(list)
    for group, begin, end in leases.values():
        spans[group].append((begin, end))
    most = {group: most_at_once(spans[group]) for group in limits}
    print(f"{len(leases)} leases by {len(logs)} servers, at once by limit {[max(most[group] for group in limits if limits[group] == limit) for limit in LIMITS]}")
    assert {group: at_once for group, at_once in most.items() if at_once > limits[group]} == {}
    assert most_at_once([span for all_of in spans.values() for span in all_of]) <= TOPIC_LIMIT
    assert len(leases) > GROUPS
    assert scan(shard.client, shard.tag) == []
    shard.jump(4500)  # beyond the last lease
    shard.advance_all()
    assert sum(leased for _, _, leased, *_ in shard.groups("t", limit=1000)[1]) == 0
    assert scan(shard.client, shard.tag) == []
