"""Random schedules over days of test clock while the server is killed again and again: the set of fires is that of an oracle.

TARRY_TEST_SCHEDULES=200 runs so many schedules and more days; TARRY_TEST_SEED repeats a run.
"""

import datetime
import json
import os
import pathlib
import random
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "schedule"))
import oracle  # noqa: E402

COUNT = int(os.environ.get("TARRY_TEST_SCHEDULES", "40"))
DAYS, KILLS = (30, 40) if COUNT > 100 else (4, 8)
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo", "America/Santiago", "UTC"]
STARTS = ["2026-03-27T00:00:00Z", "2026-10-24T00:00:00Z", "2026-04-02T12:00:00Z", "2026-10-02T00:00:00Z"]


def epoch(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def text_of(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def plan(chance):
    """Returns a specification, and the arguments of the oracle."""
    zone, gap, fold = chance.choice(ZONES), chance.choice(["after", "skip"]), chance.choice(["first", "last", "both"])
    hours = sorted(chance.sample(range(24), chance.randint(1, 3)))
    weekdays = sorted(chance.sample(range(7), chance.randint(1, 5))) if chance.random() < 0.4 else None
    is_interval = chance.random() < 0.3
    if is_interval:
        step = chance.choice([10, 15, 20, 30])
        minutes, first = list(range(0, 60, step)), f"*/{step}"
    else:
        minutes = sorted(chance.sample(range(0, 60, 5), chance.randint(1, 2)))
        first = ",".join(map(str, minutes))
    cron = f"{first} {','.join(map(str, hours))} * * {','.join(map(str, weekdays)) if weekdays else '*'}"
    spec = {"topic": "fires", "cron": cron, "zone": zone, "gap": gap, "fold": fold, "missed": "all", "catch_up": "100d"}
    return spec, (zone, frozenset(minutes), frozenset(hours), frozenset(weekdays) if weekdays else None, is_interval, gap, fold)


@pytest.mark.parametrize("start", STARTS[:1] if COUNT < 100 else STARTS)
def test_no_fire_is_lost_or_doubled_while_the_server_is_killed(start_server, start):
    seed = int(os.environ.get("TARRY_TEST_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"TARRY_TEST_SEED={seed}")
    chance = random.Random(seed)
    server = start_server("--sync", "always", "--wal-file", "16MiB", f"--test-clock={start}")
    client = server.client()
    begin, plans = epoch(start), {}
    for i in range(COUNT):
        spec, arguments = plan(chance)
        plans[f"s{i}"] = arguments
        client.good("PUT", f"/v1/schedules/s{i}", json.dumps(spec).encode())
    end, kills = begin + DAYS * oracle.DAY, 0
    now = begin
    while now < end:
        target = min(end, now + chance.choice([600, 3600, 4 * 3600, 10 * 3600]))
        kill = threading.Timer(chance.random() * 1.5, server.kill) if kills < KILLS else None
        if kill:
            kill.start()
        try:
            server.client().call("POST", f"/v1/clock/advance?to={text_of(target)}&wait=idle&timeout=60s")
        except Exception:  # the server was killed during the call
            pass
        if kill:
            kill.join()
            kills += 1
            server.start()
        shown = server.client().good("GET", "/v1/clock")
        now = epoch(shown["now"].split(".")[0] + "Z") if "now" in shown else target
    server.client().good("POST", f"/v1/clock/advance?to={text_of(end + 3600)}&wait=idle&timeout=60s")
    assert kills >= min(KILLS, 3)
    client, found, cursor = server.client(), [], ""
    while cursor is not None:
        page = client.good("GET", "/v1/topics/fires/jobs?limit=1000" + (f"&cursor={cursor}" if cursor else ""))
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
    expected = {f"{name}@{text_of(at)}" for name, arguments in plans.items() for at in oracle.fires(*arguments, begin, end)}
    early = {name for name in found if epoch(name.split("@")[1]) < end}
    assert len(found) == len(set(found)) and len(expected) > COUNT
    assert early == expected, (sorted(expected - early)[:5], sorted(early - expected)[:5])
    totals = [client.good("GET", f"/v1/schedules/{name}")["totals"] for name in plans]
    assert sum(total["fired"] for total in totals) == len(found)
    assert all(not any(total["skipped"].values()) for total in totals)
