"""The clock of a database is set or slewed, under two servers whose own clocks are an hour apart: claims for each kind of database, in short and thorough."""

import datetime
import pathlib
import shutil
import statistics
import tempfile
import time

import pytest
from clock_steps import LISTED_JOBS, Load, finish_listed, late_ms, list_over_a_step, push_listed, show
from fake_clock import SLEW_PPM, FakeClock, fake_time_library
from redis_serving import metric
from server import eventually
from sql_serving import due_s, tarry

HOUR_MS = 3_600_000


def adjust_ms(database):
    return database.do("SELECT adjust_ms FROM tarry.store")


class Clocks:
    """`database_class` is the kind of database."""

    database_class = None

    @pytest.fixture(scope="class")
    def library(self):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-clock-", dir="/tmp"))  # the database's user reads it
        directory.chmod(0o755)
        yield fake_time_library(directory)
        shutil.rmtree(directory)

    @pytest.fixture
    def world(self, library, tmp_path, start_server):
        """(database, its clock, two servers)."""
        clock = FakeClock(library.parent / "database.clock")
        env = {name: value for name, value in clock.env(library).items() if name != "ASAN_OPTIONS"}
        with self.database_class(env=env) as database:
            assert tarry("sql", "migrate", database.url).returncode == 0
            servers = [start_server("--store", database.url, env=FakeClock(tmp_path / f"{shift_ms}.clock", shift_ms).env(library))
                       for shift_ms in (HOUR_MS, -HOUR_MS)]
            yield database, clock, servers

    def step(self, world, step_ms):
        _, clock, servers = world
        load = Load(servers[0])
        delays = [500 + 20 * number for number in range(24)]

        def during():
            time.sleep(0.42)
            for _ in range(3):
                clock.step(step_ms)
                time.sleep(0.2)

        late = late_ms(servers, during, delays)
        load.stop()
        show(f"three steps of {step_ms} ms", late)
        assert late[0] >= 0 and late[-1] < 2500


class ClockClaims(Clocks):
    @pytest.mark.parametrize("step_ms", [5000, -5000])
    def test_a_step_makes_nothing_early(self, world, step_ms):
        self.step(world, step_ms)

    def test_a_step_of_an_idle_database_is_logged_counted_and_corrected_within_two_seconds(self, world):
        database, clock, servers = world
        clock.step(HOUR_MS)
        eventually(lambda: -HOUR_MS - 100 <= adjust_ms(database) <= -HOUR_MS + 100, 3)
        assert any("the clock of the database was set" in server.log() for server in servers)
        assert sum(metric(server, "tarry_sql_clock_steps_total") for server in servers) >= 1
        assert sum(metric(server, "tarry_sql_clock_corrections_total") for server in servers) >= 1
        eventually(lambda: all(metric(server, "tarry_sql_clock_adjust_seconds") < -3599 for server in servers), 3)

    def test_times_of_the_wall_clock_are_right_after_a_step(self, world):
        """The clock had been an hour behind, and is right since the step."""
        database, clock, servers = world
        client = servers[0].client()
        client.push("at", "before", delay="30m")
        before = due_s(client.get("at", "before"))
        clock.step(HOUR_MS)
        eventually(lambda: adjust_ms(database) < -HOUR_MS + 100, 3)
        # A server reads the correction with its next transaction, each second at the latest.
        eventually(lambda: all(metric(server, "tarry_sql_clock_adjust_seconds") < -3599 for server in servers), 3)
        assert abs(due_s(client.get("at", "before")) - before - 3600) < 1  # as far ahead as it was
        wall_s = time.time() + clock.ahead_ms() / 1000
        pushed = client.push("at", "http", at=int((wall_s + 60) * 1000))
        assert abs(due_s(client.get("at", "http")) - wall_s - 60) < 1 and abs(due_s(pushed) - wall_s - 60) < 1
        client.push("again", "again")
        (job,) = client.take("again", max=1)
        client.good("POST", f"/v1/again?lease={job['lease']}&at={int((wall_s + 60) * 1000)}")
        assert abs(due_s(client.get("again", "again")) - wall_s - 60) < 1
        database.call("push_with", "at", "sql", None, int((wall_s + 60) * 1000), b"x", None, None, None)
        assert abs(due_s(client.get("at", "sql")) - wall_s - 60) < 1
        shown = database.do("SELECT due FROM tarry.jobs WHERE id = 'http'")
        assert abs(shown.timestamp() - wall_s - 60) < 1
        soon_s = time.time() + clock.ahead_ms() / 1000 + 1
        client.push("at", "soon", at=int(soon_s * 1000))
        assert [job["id"] for job in client.take("at", wait="5s")] == ["soon"]
        late_s = time.time() + clock.ahead_ms() / 1000 - soon_s
        assert -0.002 < late_s < 3, late_s

    @pytest.mark.parametrize("state", ["", "finished"])
    def test_no_page_of_a_list_leaves_a_job_out(self, world, state):
        """The clock is set back and forth between its pages."""
        database, clock, servers = world
        client = servers[0].client()
        (finish_listed if state else push_listed)(client)
        for seconds in (-3600, 3600):
            before = adjust_ms(database)

            def step():
                clock.step(seconds * 1000)
                eventually(lambda: (before - adjust_ms(database)) * seconds > 0.9 * seconds * seconds * 1000)
                eventually(lambda: all(abs(metric(server, "tarry_sql_clock_adjust_seconds") * 1000 - adjust_ms(database)) < 100 for server in servers))

            assert len(list_over_a_step(client, step, state)) == LISTED_JOBS


    def test_schedules_follow_the_clock_of_the_database(self, world):
        """Each server decides by it, also if its own clock is an hour behind."""
        _, clock, servers = world
        servers[1].client().good("PUT", "/v1/schedules/s", b'{"topic":"fires","every":"1s"}')

        def last():
            fires = servers[1].client().good("GET", "/v1/schedules/s")["last"]
            return fires and time.time() + clock.ahead_ms() / 1000 - datetime.datetime.fromisoformat(fires[0]["at"].replace("Z", "+00:00")).timestamp()

        eventually(lambda: last() and abs(last()) < 5, 20)
        assert sum(metric(server, "tarry_schedule_rounds_total") for server in servers) < 60


class ThoroughClockClaims(Clocks):
    @pytest.mark.parametrize("step_ms", [300, -300, 5000, -5000, HOUR_MS, -HOUR_MS])
    def test_steps_make_nothing_early(self, world, step_ms):
        self.step(world, step_ms)

    @pytest.mark.parametrize("step_ms", [300, 5000])
    def test_a_step_ends_no_lease_early(self, world, step_ms):
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
            assert again["id"] == job["id"] and 0.5 <= held < 2.5, held
            other.ack(again["lease"])

    @pytest.mark.parametrize("ppm, loaded", [(SLEW_PPM, False), (SLEW_PPM, True), (-SLEW_PPM, True), (500, False)])
    def test_a_slewed_clock_makes_nothing_early(self, world, ppm, loaded):
        _, clock, servers = world
        clock.slew(ppm)
        time.sleep(0.3)
        load = Load(servers[0]) if loaded else None
        late = late_ms(servers, lambda: None, [1000, *range(2000, 2400, 20)])
        if load:
            load.stop()
        show(f"slewed by {ppm} ppm", late)
        # Two clocks may drift apart by 200 ppm, and a statement that a busy machine delays by 100 ms has read the slewed clock before.
        assert late[0] >= -0.5 - 100 * abs(ppm) / 1e6 and statistics.median(late) < 2000

    def test_a_new_server_uses_the_clock_as_it_ran(self, world, start_server):
        database, clock, servers = world

        def during():
            clock.step(4000)
            eventually(lambda: adjust_ms(database) < -3900, 3)
            start_server("--store", database.url).client().take("other")

        late = late_ms(servers, during, [1500 + 10 * number for number in range(20)])
        show("with a new server", late)
        assert late[0] >= 0 and late[-1] < 1500
