"""The figures of loops, disk and clock change when their cause happens. One server for all tests; it is slowed down from outside."""

import os
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import FLAGS
from fake_clock import FakeClock, fake_time_library
from server import REPO, Server, eventually, freeze

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
FAR = 60 * 60 * 1000


class Disk:
    """Syncs that take longer by a time that the test sets (tests/support/slow_sync.c)."""

    def __init__(self, directory):
        self.path, self.library = directory / "slow_sync", directory / "slow_sync.so"
        self.slow(0)
        subprocess.run([os.environ.get("CC") or shutil.which("cc"), "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-o", str(self.library),
                        str(REPO / "tests/support/slow_sync.c")], check=True)

    def slow(self, ms):
        mode = "r+b" if self.path.exists() else "wb"
        with self.path.open(mode) as file:
            file.write(struct.pack("=q", ms * 1000))


class Page:
    """The current values of /metrics."""

    def __init__(self, client):
        self.samples = [match.groups() for match in map(SAMPLE.match, client.call("GET", "/metrics").body.decode().splitlines()) if match]

    def get(self, metric, **labels):
        """The sum of the samples that have these labels; there must be one."""
        found = [float(value) for name, text, value in self.samples if name == metric and all(f'{key}="{value}"' in (text or "") for key, value in labels.items())]
        assert found, f"no {metric} {labels}"
        return sum(found)

    def beyond(self, metric, bound):
        """Counts the values of a histogram that are greater than `bound`."""
        return self.get(metric + "_count") - self.get(metric + "_bucket", le=bound)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    disk, clock = Disk(directory), FakeClock(directory / "clock")
    env = clock.env(fake_time_library(directory))
    env = {**env, "LD_PRELOAD": f"{env['LD_PRELOAD']}:{disk.library}", "TARRY_TEST_SLOW_SYNC": str(disk.path)}
    server = Server(directory / "server", FLAGS, env).start()
    server.disk, server.clock = disk, clock
    yield server
    assert server.terminate() == 0
    assert not server.sanitizer_report()
    shutil.rmtree(server.data, ignore_errors=True)


def test_a_slow_disk_shows_in_syncs_and_in_larger_batches(world):
    client = world.client()
    client.push("disk")
    before = Page(client)
    world.disk.slow(120)
    try:
        client.push("disk")
    finally:
        world.disk.slow(0)
    after = Page(client)
    assert after.beyond("tarry_log_sync_duration_seconds", "0.1") > before.beyond("tarry_log_sync_duration_seconds", "0.1")
    assert after.get("tarry_log_sync_duration_seconds_sum", shard="0") >= before.get("tarry_log_sync_duration_seconds_sum", shard="0") + 0.12
    assert after.get("tarry_loop_letters_total") > before.get("tarry_loop_letters_total")  # the committer's
    client.push_batch([{"topic": "disk", "body": "x"} for _ in range(300)])
    last = Page(client)
    assert last.get("tarry_log_records_total") == after.get("tarry_log_records_total") + 300
    assert last.beyond("tarry_log_batch_records", "100.0") == after.beyond("tarry_log_batch_records", "100.0") + 1
    assert last.get("tarry_log_written_bytes_total") > after.get("tarry_log_written_bytes_total") + 300 * 30


def test_disk_space_matches_the_system(world):
    client = world.client()
    room = shutil.disk_usage(world.data)
    page = Page(client)
    assert page.get("tarry_disk_size_bytes") == room.total
    assert abs(page.get("tarry_disk_free_bytes") - room.free) < room.total / 20
    assert page.get("tarry_log_files") >= 1 and page.get("tarry_disk_used_bytes") > 0


def test_a_stopped_process_shows_lag(world):
    client = world.client()
    client.push("lag", "late", delay="100ms")
    before = Page(client)
    freeze(world.proc.pid)
    try:
        time.sleep(0.4)  # the job falls due meanwhile
    finally:
        os.kill(world.proc.pid, signal.SIGCONT)
    assert client.take("lag", wait="10s")[0]["id"] == "late"
    after = Page(client)
    assert after.beyond("tarry_loop_lag_seconds", "0.2") > before.beyond("tarry_loop_lag_seconds", "0.2")
    assert after.get("tarry_loop_iteration_duration_seconds_count", reactor="0") > before.get("tarry_loop_iteration_duration_seconds_count", reactor="0")
    assert 0 < after.get("tarry_loop_iteration_longest_seconds", reactor="0") < 60


def test_steps_of_the_clock_are_counted_with_how_far_they_went(world):
    client = world.client()
    before = Page(client).get("tarry_clock_steps_total")
    for ms in (5000, -2500):
        world.clock.step(ms)
        client.push("clock")  # a loop iteration, which notices it
    page = Page(client)
    assert page.get("tarry_clock_steps_total") == before + 2
    assert abs(page.get("tarry_clock_last_step_seconds") + 2.5) < 0.1


def test_cold_jobs_show_in_checkpoints_looks_and_reads(world):
    client, before = world.client(), Page(world.client())
    for n in range(60):
        client.push("cold", f"c{n}", body=bytes(1 << 20), content_type="application/octet-stream", delay=f"{FAR}ms")
    eventually(lambda: Page(client).get("tarry_store_checkpoints_total") > before.get("tarry_store_checkpoints_total"), 30)
    eventually(lambda: Page(client).get("tarry_store_run_jobs") > 0)
    page = Page(client)
    assert page.get("tarry_store_checkpoint_duration_seconds_count") == page.get("tarry_store_checkpoints_total")
    for n in range(10):  # the oldest ones, which are in memory no more
        client.get("cold", f"c{n}")
    after = Page(client)
    reads = [sum(seen.get("tarry_store_body_reads_total", **{"from": place}) for place in ("memory", "page_cache", "disk")) for seen in (page, after)]
    assert after.get("tarry_store_cold_lookups_total", result="found") > page.get("tarry_store_cold_lookups_total", result="found")
    assert reads[1] == reads[0] + 10
    assert after.get("tarry_store_filter_misses_total") >= after.get("tarry_store_cold_lookups_total", result="absent")


def test_the_process_is_as_the_system_sees_it(world):
    page = Page(world.client())
    assert page.get("process_threads") == len(os.listdir(f"/proc/{world.proc.pid}/task"))
    assert page.get("process_virtual_memory_bytes") > page.get("process_resident_memory_bytes") > 1 << 20
    assert page.get("process_cpu_seconds_total") > 0 and page.get("process_open_fds") > 5
    assert page.get("tarry_store_recovery_duration_seconds") >= 0
