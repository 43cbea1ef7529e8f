"""Random schedules over days of test clock while servers are killed again and again: the set of fires is that of an oracle, and what happens to fires
that share one job is that of a model.

On the embedded store the server is killed and started again; on Redis one of three servers is killed between any two steps. On PostgreSQL
and MariaDB, whose clock is the database's, schedules fire every few seconds of real time while one of three servers is killed.

TARRY_TEST_SCHEDULES=200 runs so many schedules and more days; TARRY_TEST_DAYS=1095 three years, with rarer fires in all zones;
TARRY_TEST_SECONDS=600 the time on a database; TARRY_TEST_SEED repeats a run.
"""

import datetime
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

import pytest
from fake_clock import FakeClock, fake_time_library
from mariadb import MariadbServer
from mysql import MysqlServer
from postgres import PostgresServer
from redis_servers import RedisServer
from server import eventually

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "schedule"))
import oracle  # noqa: E402

COUNT = int(os.environ.get("TARRY_TEST_SCHEDULES", "40"))
IS_LONG = COUNT > 100
DAYS = int(os.environ.get("TARRY_TEST_DAYS", "30" if IS_LONG else "4"))
IS_YEARS = DAYS > 100
KILLS = 40 if IS_LONG else 8
SECONDS = int(os.environ.get("TARRY_TEST_SECONDS", "120" if IS_LONG else "20"))
ZONES = oracle.all_zones() if IS_YEARS else ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo", "America/Santiago", "UTC"]
STARTS = ["2026-03-27T00:00:00Z", "2026-10-24T00:00:00Z", "2026-04-02T12:00:00Z", "2026-10-02T00:00:00Z"]
STEPS = [86400, 2 * 86400, 4 * 86400] if IS_YEARS else [600, 3600, 4 * 3600, 10 * 3600]


def epoch(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def text_of(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def plan(chance):
    """Returns a specification, and the arguments of the oracle. Over years the fires are rarer, and most share their minutes, so that the clock has fewer stops."""
    zone, gap, fold = chance.choice(ZONES), chance.choice(["after", "skip"]), chance.choice(["first", "last", "both"])
    hours = sorted(chance.sample(range(24), 1 if IS_YEARS else chance.randint(1, 3)))
    weekdays = sorted(chance.sample(range(7), chance.randint(1, 2 if IS_YEARS else 5))) if IS_YEARS or chance.random() < 0.4 else None
    is_interval = chance.random() < 0.3
    if is_interval:
        step = 30 if IS_YEARS else chance.choice([10, 15, 20, 30])
        minutes, first = list(range(0, 60, step)), f"*/{step}"
    else:
        minutes = sorted(chance.sample((0, 30) if IS_YEARS and chance.random() < 0.95 else range(0, 60, 5), chance.randint(1, 2)))
        first = ",".join(map(str, minutes))
    cron = f"{first} {','.join(map(str, hours))} * * {','.join(map(str, weekdays)) if weekdays else '*'}"
    spec = {"topic": "fires", "cron": cron, "zone": zone, "gap": gap, "fold": fold, "missed": "all", "catch_up": "100d"}
    return spec, (zone, frozenset(minutes), frozenset(hours), frozenset(weekdays) if weekdays else None, is_interval, gap, fold)


def the_chance():
    seed = int(os.environ.get("TARRY_TEST_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"TARRY_TEST_SEED={seed}")
    return random.Random(seed)


def drain(client, found):
    """Takes and acks the jobs that are ready."""
    while jobs := client.good("POST", "/v1/topics/fires/take?max=1000")["jobs"]:
        found += [job["id"] for job in jobs]
        client.good("POST", "/v1/ack", json.dumps({"leases": [job["lease"] for job in jobs]}).encode())


def advance(server, target):
    return server.client(timeout=120).call("POST", f"/v1/clock/advance?to={text_of(target)}&wait=idle&timeout=60s")


def compare(client, plans, found, begin, end):
    expected = {f"{name}@{text_of(at)}" for name, arguments in plans.items() for at in oracle.fires_by_days(*arguments, begin, end)}
    early = {name for name in found if epoch(name.split("@")[1]) < end}
    twice = len(found) - len(set(found))
    assert len(expected) > len(plans) / 2 and not twice, f"{twice} fires came twice"
    assert early == expected, (len(expected), sorted(expected - early)[:5], sorted(early - expected)[:5])
    print(f"{len(plans)} schedules, {len(expected)} fires")
    totals = [client.good("GET", f"/v1/schedules/{name}")["totals"] for name in plans]
    assert sum(total["fired"] for total in totals) == len(found)
    assert all(not any(total["skipped"].values()) for total in totals)


@pytest.fixture(params=["embedded", "redis"])
def house(request, start_server, start_redis):
    """Returns a function that starts the servers of a store on a test clock."""
    def start(begin):
        if request.param == "embedded":
            return [start_server("--sync", "always", "--wal-file", "16MiB", f"--test-clock={begin}")]
        url = f"redis://127.0.0.1:{start_redis().port}/0"
        return [start_server("--store", url, "--shards", "2", f"--test-clock={begin}") for _ in range(3)]

    return start


@pytest.mark.parametrize("start", STARTS if IS_LONG and not IS_YEARS else STARTS[:1])
def test_no_fire_is_lost_or_doubled_while_servers_are_killed(house, start):
    chance = the_chance()
    servers = house(start)
    client = servers[0].client()
    begin, plans = epoch(start), {}
    for i in range(COUNT):
        spec, arguments = plan(chance)
        plans[f"s{i}"] = arguments
        client.good("PUT", f"/v1/schedules/s{i}", json.dumps(spec).encode())
    end, kills, found = begin + DAYS * oracle.DAY, 0, []
    kills_per_step = 1.2 * KILLS * sum(STEPS) / len(STEPS) / (end - begin)  # over years: spread over all of them
    now = begin
    while now < end:
        target = min(end, now + chance.choice(STEPS))
        victim = chance.choice(servers)
        mover = chance.choice([server for server in servers if server is not victim] or servers)
        is_killed = kills < KILLS and (not IS_YEARS or chance.random() < kills_per_step)
        kill = threading.Timer(chance.random() * 1.5, victim.kill) if is_killed else None
        if kill:
            kill.start()
        try:
            advance(mover, target)
        except Exception:  # the server was killed during the call
            pass
        if kill:
            kill.join()
            kills += 1
            victim.start()
        shown = mover.client().good("GET", "/v1/clock")
        now = epoch(shown["now"].split(".")[0] + "Z") if "now" in shown else target
        drain(mover.client(), found)
    advance(servers[0], end + 3600)
    drain(servers[0].client(), found)
    assert kills >= min(KILLS, 3)
    compare(servers[0].client(), plans, found, begin, end)
    print(f"{kills} kills")


# ---- overlap: a model of one job for each schedule ----

ATTEMPTS, LEASES = 3, [1, 30, 7 * 60 + 7, 3 * 3600 + 7, 20 * 3600 + 7]


class One:
    """The job of a schedule whose fires share one id: what docs/schedules.md promises, without the code of tarry."""

    def __init__(self, overlap, fires):
        self.overlap, self.fires, self.fired, self.skipped = overlap, fires, 0, 0
        self.job = self.next = self.lease = None  # the nominal times of the job and of its successor; the lease with its end
        self.attempt, self.is_dead, self.is_asked = 0, False, False

    def begin(self, fire):
        self.job, self.next, self.lease, self.attempt, self.is_dead, self.is_asked = fire, None, None, 0, False, False

    def end(self, counts=True):
        """The lease ended without success. `counts`: the attempt does."""
        self.lease = None
        if self.next:
            self.begin(self.next)
        else:
            self.is_dead = counts and self.attempt == ATTEMPTS
            self.attempt -= not counts

    def fire(self, at):
        is_free = self.job is None or self.is_dead
        if self.overlap == "skip" and not is_free:
            self.skipped += 1
            return
        self.fired += 1
        if self.lease:
            self.next = at
            self.is_asked |= self.overlap == "replace"
        else:
            self.begin(at)

    def advance(self, now):
        """Fires and ends of leases up to now, in their order."""
        while True:
            fire = self.fires[0] if self.fires and self.fires[0] <= now else None
            end = self.lease[1] if self.lease and self.lease[1] <= now else None
            if end is not None and (fire is None or end < fire):
                self.end()
            elif fire is not None:
                self.fire(self.fires.pop(0))
            else:
                return

    def is_ready(self):
        return self.job is not None and not self.is_dead and not self.lease


def act(client, chance, ones, now):
    """Takes all jobs, compares them with the model, and ends some of the leases."""
    jobs = []
    while taken := client.good("POST", "/v1/topics/fires/take?max=1000&lease_for=24h")["jobs"]:
        jobs += taken
    found = {job["id"]: (epoch(job["meta"]["tarry-scheduled-for"]), job["attempt"]) for job in jobs}
    expected = {name: (one.job, one.attempt + 1) for name, one in ones.items() if one.is_ready()}
    assert len(jobs) == len(found) and found == expected, (text_of(now), {name: (found.get(name), expected.get(name)) for name in found.keys() ^ expected.keys() or found})
    for job in jobs:
        one, seconds = ones[job["id"]], chance.choice(LEASES)
        one.attempt += 1
        one.lease = (client.good("POST", f"/v1/extend?lease={job['lease']}&lease_for={seconds}s") and job["lease"], now + seconds)
    for name, one in ones.items():
        if not one.lease:
            continue
        seen = client.good("GET", f"/v1/topics/fires/jobs/{name}")
        assert (seen["state"], "next" in seen, seen.get("cancel_requested", False)) == ("leased", one.next is not None, one.is_asked), (name, seen)
        verb = chance.choice(["ack", "nack", "return", None, None])
        if verb:
            client.answer(verb, [one.lease[0]])
            if verb == "ack" and not one.next:
                one.job = one.lease = None
            else:
                one.end(counts=verb != "return")


def test_overlap_is_that_of_the_model_while_servers_are_killed(house):
    chance = the_chance()
    servers = house(STARTS[0])
    begin, ones = epoch(STARTS[0]), {}
    days = 3 if not IS_LONG else 30
    for i in range(min(COUNT, 200) // 2):
        spec, arguments = plan(chance)
        spec |= {"overlap": ("skip", "after", "replace")[i % 3], "max_attempts": ATTEMPTS, "backoff": "none"}
        servers[0].client().good("PUT", f"/v1/schedules/o{i}", json.dumps(spec).encode())
        ones[f"o{i}"] = One(spec["overlap"], oracle.fires_by_days(*arguments, begin, begin + (days + 1) * oracle.DAY))
    now, kills = begin, 0
    while now < begin + days * oracle.DAY:
        now += chance.choice([1800, 2 * 3600, 6 * 3600])
        victim = chance.choice(servers)
        mover = chance.choice([server for server in servers if server is not victim] or servers)
        kill = threading.Timer(chance.random() * 0.3, victim.kill) if chance.random() < (0.5 if IS_LONG else 0.3) else None
        if kill:
            kill.start()
        try:
            advance(mover, now)
        except Exception:  # the server was killed during the call
            pass
        if kill:
            kill.join()
            kills += 1
            victim.start()
        now += 15  # a fire that a killed server held comes after its lease
        eventually(lambda: advance(mover, now).status == 200, 30)
        for one in ones.values():
            one.advance(now)
        act(mover.client(), chance, ones, now)
    totals = {name: servers[0].client().good("GET", f"/v1/schedules/{name}")["totals"] for name in ones}
    assert {name: (total["fired"], total["skipped"]["overlap"]) for name, total in totals.items()} == {name: (one.fired, one.skipped) for name, one in ones.items()}
    assert kills and all(any(one.fired and (one.skipped or overlap != "skip") for one in ones.values() if one.overlap == overlap) for overlap in ("skip", "after", "replace"))
    print(f"{len(ones)} schedules, {sum(one.fired for one in ones.values())} fires, {sum(one.skipped for one in ones.values())} skipped, {kills} kills")


# ---- on a database, in real time ----


@pytest.mark.thorough("needs both databases")
@pytest.mark.parametrize("kind", [PostgresServer, MysqlServer if "TARRY_TEST_MYSQL" in os.environ else MariadbServer])
def test_no_fire_is_lost_or_doubled_on_a_database_while_servers_are_killed(start_server, kind):
    chance = the_chance()
    with kind() as database:
        servers = [start_server("--store", database.url, "--migrate") for _ in range(3)]
        client, every, found = servers[0].client(), {}, []
        for i in range(COUNT):
            every[f"s{i}"] = chance.choice([1, 2, 3, 5])
            client.good("PUT", f"/v1/schedules/s{i}", json.dumps({"topic": "fires", "every": f"{every[f's{i}']}s", "missed": "all"}).encode())
        begin = time.time() + 2
        end = begin + SECONDS
        while time.time() < end:
            victim = chance.choice(servers[1:])
            time.sleep(chance.random() * 2)
            victim.kill()
            drain(client, found)
            time.sleep(chance.random())
            victim.start()
        drain(client, found)

        def expected(until):
            return {f"{name}@{text_of(at)}" for name, step in every.items() for at in range(int(begin) + 1, int(until)) if at % step == 0}

        def are_all_there():
            drain(client, found)
            return expected(end) <= set(found)

        eventually(are_all_there, 60)
        assert len(found) == len(set(found)), "a fire came twice"
        assert not {name for name in found if epoch(name.split("@")[1]) % every[name.split("@")[0]]}


def readable_directory():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-clock-", dir="/tmp"))  # the database's user reads it
    directory.chmod(0o755)
    return directory


@pytest.mark.thorough("needs both databases")
@pytest.mark.parametrize("kind", [PostgresServer, MysqlServer if "TARRY_TEST_MYSQL" in os.environ else MariadbServer])
def test_weeks_on_a_database_lose_and_double_no_fire(start_server, kind):
    """The clock of the database is set ahead by hours while no server runs, because a running server corrects such a step."""
    chance, found, plans, kills = the_chance(), [], {}, 0
    library = fake_time_library(readable_directory())
    clock = FakeClock(library.parent / "database.clock")
    with kind(env={name: value for name, value in clock.env(library).items() if name != "ASAN_OPTIONS"}) as database:
        servers = [start_server("--store", database.url, "--migrate") for _ in range(2)]
        for i in range(COUNT):
            spec, arguments = plan(chance)
            plans[f"s{i}"] = arguments
            servers[0].client().good("PUT", f"/v1/schedules/s{i}", json.dumps({**spec, "grace": "50h"}).encode())
        begin = time.time()
        end = begin + (30 if IS_LONG else 1) * oracle.DAY

        def are_handled():
            first = servers[0].client().good("GET", "/v1/schedules?limit=1")["schedules"][0]["next"]
            return datetime.datetime.fromisoformat(first.replace("Z", "+00:00")).timestamp() > now()

        def now():
            return time.time() + clock.ahead_ms() / 1000

        while now() < end:
            for server in servers:
                server.kill()
            clock.step(chance.choice([600, 3600, 4 * 3600, 9 * 3600]) * 1000)
            for server in servers:
                server.launch(0)
            if chance.random() < 0.3:
                time.sleep(chance.random() * 2)
                servers[1].kill()
                servers[1].launch(0)
                kills += 1
            for server in servers:
                server.wait_listening()
                server.wait_ready()
            eventually(are_handled, 60)
            drain(servers[0].client(), found)
        stop = now()
        assert kills or not IS_LONG
        expected = {f"{name}@{text_of(at)}" for name, arguments in plans.items() for at in oracle.fires_by_days(*arguments, int(begin) + 60, int(stop) - 60)}
        inside = {name for name in found if begin + 60 < epoch(name.split("@")[1]) < stop - 60}
        assert len(found) == len(set(found)) and len(expected) > COUNT / 2, "a fire came twice"
        assert inside == expected, (len(expected), sorted(expected - inside)[:5], sorted(inside - expected)[:5])
        print(f"{len(plans)} schedules, {len(expected)} fires, {kills} kills")


# ---- steps of the clock, and new zone files, while servers run ----


def test_steps_of_the_clock_neither_lose_nor_double_a_fire(start_server, tmp_path):
    """Fires follow the clock of the machine, which goes back and forward by up to an hour."""
    clock = FakeClock(tmp_path / "clock")
    chance, found, client = the_chance(), [], start_server("--sync", "never", env=clock.env(fake_time_library(tmp_path))).client()
    every = {f"s{step}": step for step in (2, 5, 60)}
    for name, step in every.items():
        client.good("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "fires", "every": f"{step}s", "missed": "all", "grace": "10h"}).encode())
    steps = [3600, -1800, 1800, -3600, *(chance.choice([-3600, -600, -7, 7, 600, 3600]) for _ in range(SECONDS if IS_LONG else 0))]
    highest = 0
    for step in steps:
        time.sleep(0.5 + chance.random())
        clock.step(step * 1000)
        highest = max(highest, clock.ahead_ms())
        drain(client, found)
    clock.step(highest - clock.ahead_ms())
    end = time.time() + 5 + highest / 1000

    def times(name):
        return sorted(epoch(job.split("@")[1]) for job in found if job.startswith(name + "@"))

    def are_all_there():
        drain(client, found)
        return all(times(name) and times(name)[-1] >= end - step for name, step in every.items() if step < 60)

    eventually(are_all_there, 60)
    for name, step in every.items():
        have = times(name)
        assert have == list(range(have[0], have[-1] + 1, step)), (name, steps)


@pytest.mark.thorough("waits for the check of the clock, 5 s")
@pytest.mark.parametrize("kind", [RedisServer, PostgresServer])
def test_a_schedule_continues_after_the_clock_of_its_store_was_set_back_and_forward(start_server, kind):
    """A job on a shared store keeps its delay. So a schedule that was handled while the clock was an hour behind would come an hour late."""
    library = fake_time_library(readable_directory())
    clock = FakeClock(library.parent / "store.clock")
    with kind(env={name: value for name, value in clock.env(library).items() if name != "ASAN_OPTIONS"}) as store:
        client, found = start_server("--store", store.url, *(["--migrate"] if kind is PostgresServer else [])).client(), []
        client.good("PUT", "/v1/schedules/s", json.dumps({"topic": "fires", "every": "1s", "zone": "Europe/Berlin", "missed": "all", "grace": "10h"}).encode())

        def last():
            drain(client, found)
            return max((epoch(job.split("@")[1]) for job in found), default=0)

        eventually(last, 20)
        clock.step(-3600 * 1000)
        time.sleep(3)
        clock.step(3600 * 1000)
        end = time.time()
        eventually(lambda: last() > end, 60)
        times = sorted(epoch(job.split("@")[1]) for job in found)
        assert times == list(range(times[0], times[-1] + 1))


@pytest.mark.thorough("waits for the check of the clock, 5 s")
def test_a_rare_schedule_is_in_time_after_a_step_beside_a_frequent_one(start_server):
    """The one that fires often is the next one, and is in time again a second after the step."""
    library = fake_time_library(readable_directory())
    clock = FakeClock(library.parent / "store.clock")
    with RedisServer(env={name: value for name, value in clock.env(library).items() if name != "ASAN_OPTIONS"}) as store:
        client, found = start_server("--store", store.url).client(), []
        for name, rules in {"often": {"every": "1s", "missed": "none"}, "rare": {"every": "30m", "missed": "all", "grace": "10h"}}.items():
            client.good("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "fires", "zone": "Europe/Berlin", **rules}).encode())
        assert eventually(lambda: drain(client, found) or found, 20)
        clock.step(3600 * 1000)
        assert eventually(lambda: drain(client, found) or any(job.startswith("rare@") for job in found), 60)
