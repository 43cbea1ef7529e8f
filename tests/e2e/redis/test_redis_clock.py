"""The clock of Redis' host is set or slewed: nothing comes early, no lease ends early, and all calls continue."""

import signal
import statistics
import time

import pytest
import state
from clock_steps import LISTED_JOBS, Load, finish_listed, late_ms, list_over_a_step, push_listed, show
from fake_clock import SLEW_PPM, FakeClock, fake_time_library
from redis_servers import Cluster, RedisServer
from redis_serving import metric
from server import eventually, freeze, slack

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return fake_time_library(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def world(library, tmp_path, start_server):
    """(Redis, its clock, two servers whose own clocks are an hour apart)."""
    clock = FakeClock(tmp_path / "redis.clock")
    with RedisServer(env=clock.env(library)) as redis:
        servers = [start_server("--store", redis.url, "--shards", "2", env=FakeClock(tmp_path / f"{shift_ms}.clock", shift_ms).env(library))
                   for shift_ms in (HOUR_MS, -HOUR_MS)]
        yield redis, clock, servers


@pytest.mark.parametrize("step_ms", [100, 300, 450, -450, HOUR_MS])
def test_a_step_makes_nothing_early(world, step_ms):
    _, clock, servers = world
    load = Load(servers[0])
    delays = [500 + 20 * number for number in range(24)]

    def during():
        time.sleep(0.42)
        for _ in range(5):
            clock.step(step_ms)
            time.sleep(0.1)

    late = late_ms(servers, during, delays)
    load.stop()
    show(f"five steps of {step_ms} ms", late)
    assert late[0] >= 0 and late[-1] < 1000 * slack()


@pytest.mark.parametrize("step_ms", [100, 450])
def test_a_step_ends_no_lease_early(world, step_ms):
    _, clock, servers = world
    one, other = (server.client(60) for server in servers)
    one.put_topic("held", backoff="fixed:1ms")
    for number in range(3):
        one.push("held", f"job-{number}")
        began = time.monotonic()
        [job] = one.take("held", wait="5s", lease_for="500ms")
        clock.step(step_ms)
        [again] = other.take("held", wait="5s")
        held = time.monotonic() - began
        assert again["id"] == job["id"] and 0.5 <= held < 1.5 * slack(), held
        other.ack(again["lease"])


@pytest.mark.parametrize("ppm, loaded", [(SLEW_PPM, False), (SLEW_PPM, True), (-SLEW_PPM, True), (500, False)])
def test_a_slewed_clock_makes_nothing_early(world, ppm, loaded):
    _, clock, servers = world
    clock.slew(ppm)
    time.sleep(0.3)
    load = Load(servers[0]) if loaded else None
    delays = [1000, *range(2000, 2400, 20)]
    late = late_ms(servers, lambda: None, delays)
    if load:
        load.stop()
    show(f"slewed by {ppm} ppm", late)
    # Two clocks may drift apart by 200 ppm.
    assert late[0] >= -0.5 and statistics.median(late) < 400 * slack()


def test_clock_steps_during_an_absence_make_no_job_early(world):
    _, clock, servers = world
    one, other = servers
    delays = [2000 + 10 * number for number in range(10)]

    def during():
        freeze(other.proc.pid)
        time.sleep(0.5)
        clock.step(300)
        time.sleep(0.5)
        clock.step(-200)
        other.proc.send_signal(signal.SIGCONT)

    late = late_ms(servers, during, delays)
    show("away", late)
    assert late[0] >= 0 and statistics.median(late) < 150 * slack()


def test_a_new_server_goes_by_the_clock_as_it_ran(world, start_server):
    redis, clock, servers = world
    delays = [1500 + 10 * number for number in range(20)]

    def during():
        clock.step(400)
        eventually(lambda: state.core_read(redis.client().get(redis.client().keys("{tarry:0*}:core")[0])).adjust < -300, 3)
        eventually(lambda: metric(servers[0], r'tarry_redis_clock_adjust_seconds\{shard="0"\}') < -0.3, 3)
        start_server("--store", redis.url).client().take("other")

    late = late_ms(servers, during, delays)
    show("with a new server", late)
    assert late[0] >= 0 and late[-1] < 500 * slack()


APART_MS = 10_000


@pytest.fixture
def masters(library, tmp_path, start_server):
    """(A cluster with a master whose clock is right, one ahead and one behind, and two servers)."""
    envs = [FakeClock(tmp_path / f"master{number}.clock", ahead_ms).env(library) for number, ahead_ms in enumerate((0, APART_MS, -APART_MS))]
    with Cluster(envs=envs) as cluster:
        yield cluster, [start_server("--store", cluster.url, "--shards", "6") for _ in range(2)]


def shard_slots(cluster):
    return [cluster.slot_of(key) for server in cluster.servers for key in server.client().scan_iter("*core")]


def test_masters_whose_clocks_differ_make_nothing_early(masters):
    """Not even if the shards change their masters meanwhile."""
    cluster, servers = masters
    servers[0].client().push("load", "first")

    def during():
        slots = shard_slots(cluster)
        assert len({cluster.owner(slot).port for slot in slots}) == 3, "each master has a shard"
        for slot in slots[::2]:
            cluster.move_slot(slot)

    late = late_ms(servers, during, [4000 + 20 * number for number in range(60)])
    show(f"masters {APART_MS} ms apart", late)
    assert late[0] >= 0 and statistics.median(late) < 1000 * slack()


def test_an_absolute_time_is_by_the_clock_of_the_master_of_its_shard(masters):
    _, (one, other) = masters
    at = time.time() + APART_MS / 1000 + 2  # so that no job is due when it is pushed
    results = one.client().push_batch([{"topic": "at", "id": f"job-{number}", "body": "x", "at": int(at * 1000)} for number in range(48)])
    assert all(result["result"] == "created" for result in results)
    client, late = other.client(60), []
    while len(late) < 48:
        jobs = client.take("at", max=48, wait="20s")
        late += [(time.time() - at) * 1000] * len(jobs)
        for job in jobs:
            client.ack(job["lease"])
    parts = {ahead_ms: [ms for ms in late if -1 <= ms + ahead_ms < APART_MS / 2] for ahead_ms in (-APART_MS, 0, APART_MS)}
    print(f"jobs by the clock of their master: { {ahead_ms: len(part) for ahead_ms, part in parts.items()} }")
    assert all(parts.values()) and sum(len(part) for part in parts.values()) == 48


def test_a_changed_clock_is_logged_once_and_counted(world):
    _, clock, servers = world
    clock.step(300)
    eventually(lambda: any("redis clock jumped" in server.log() for server in servers), 3)
    clock.slew(SLEW_PPM)
    time.sleep(2.5)
    assert all(server.log().count("redis clock jumped") <= 4 for server in servers), "of two shards, once in ten seconds"


@pytest.fixture(params=["1", "3"])
def listing(request, library, tmp_path, start_server):
    """A server, and a function that sets the clock of Redis and returns once all shards have noticed."""
    clock = FakeClock(tmp_path / "redis.clock")
    with RedisServer(env=clock.env(library)) as redis:
        server = start_server("--store", redis.url, "--shards", request.param)

        def step(seconds):
            clock.step(seconds * 1000)
            for shard in range(int(request.param)):
                eventually(lambda shard=shard: metric(server, f'tarry_redis_clock_adjust_seconds\\{{shard="{shard}"\\}}') * seconds < -0.9 * seconds * seconds)

        yield server.client(), step


@pytest.mark.parametrize("seconds", [-3600, -60, 60])
def test_no_page_of_a_list_leaves_a_job_out(listing, seconds):
    client, step = listing
    push_listed(client)
    assert len(list_over_a_step(client, lambda: step(seconds))) == LISTED_JOBS


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_no_page_of_finished_jobs_leaves_one_out(listing, seconds):
    client, step = listing
    finish_listed(client)
    assert len(list_over_a_step(client, lambda: step(seconds), "finished")) == LISTED_JOBS
