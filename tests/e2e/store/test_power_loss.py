"""Power cuts, small: every change runs it. power_loss.py by hand, or `make torture`, runs it long."""

import os
import random
import re

import io_trace
import pytest
from io_order import Order
from power_loss import FLAGS, PowerLoss, Traced, record, report, too_little
from server import BINARY, Server

SEED = int(os.environ.get("TARRY_TEST_LOOP_SEED") or random.randrange(1 << 32))
IMAGES = int(os.environ.get("TARRY_TEST_IMAGES", 200))  # and 24 of power cuts within a recovery
MIB = 28


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    assert BINARY.exists(), f"no server at {BINARY}"
    print(f"TARRY_TEST_LOOP_SEED={SEED}")
    path = record(tmp_path_factory.mktemp("traced"), SEED, MIB)
    yield Traced(path)
    path.unlink()


def test_every_answer_comes_after_the_sync_that_covers_it(traced):
    assert traced.faults == []


def test_no_power_cut_loses_answered_changes(traced):
    power = PowerLoss(traced, SEED, IMAGES)
    assert power.run() == []
    print(report(traced, power))
    assert too_little(traced, power, IMAGES) == []


def syncs_of_start(server, trace):
    """Starts and kills a server. Returns what it synced, except in the directory of the log, which a thread changes meanwhile."""
    server.start()
    server.kill()
    names, synced = {}, []
    for one in io_trace.records(trace):
        if one.kind == io_trace.OPENED:
            names[one.id] = one.text
        elif one.kind == io_trace.SYNCING and names[one.id] in ("", "shard-00", "shard-00/run", "MANIFEST.tmp", "MARKS"):
            synced.append(names[one.id])
    return synced


def test_a_start_syncs_each_change_of_names_once(tmp_path):
    library = io_trace.build_library(tmp_path)
    first, second = (Server(tmp_path, FLAGS, io_trace.environment(library, tmp_path / trace, tmp_path / "data")) for trace in ("first", "second"))
    state = ["MANIFEST.tmp", "MANIFEST.tmp", "", "MARKS"]
    assert syncs_of_start(first, tmp_path / "first") == ["", "MANIFEST.tmp", "", "shard-00", *state]
    assert syncs_of_start(second, tmp_path / "second") == ["", "shard-00", "shard-00/run", *state]


# ---- the proofs find what they should ----

@pytest.mark.parametrize("forgets", [r"\.run", r"\.keys", r"CATALOG", r"shard-00/run$", r"wal/(0|next)"])
def test_a_disk_that_forgets_syncs_is_found(traced, forgets):
    assert PowerLoss(traced, SEED, 100, forgets=re.compile(forgets)).run()


def small(directory, **options):
    return Traced(record(directory, SEED, 3, **options))


def kinds(faults):
    return {fault.split(":")[0] for fault in faults}


def test_a_server_that_answers_before_it_syncs_is_found(tmp_path):
    traced = small(tmp_path, flags=("--sync", "200ms", *FLAGS[2:]))
    assert "answered before the sync" in kinds(traced.faults)
    assert {"push", "existed", "ack", "cancel", "nack", "reschedule"} <= {fault.split(": ", 1)[1].split(" ")[0] for fault in traced.faults}


def test_a_sync_that_did_not_happen_is_found(tmp_path):
    traced = small(tmp_path, drop=5)
    assert "answered before the sync" in kinds(traced.faults)
    found = "\n".join(PowerLoss(traced, SEED, 60).run())
    assert "L: lost" in found or "first ended with 1" in found  # a log is rejected if later batches record that the lost one was synced


def test_an_answer_to_an_unwritten_change_is_found(tmp_path, monkeypatch):
    """A log without its acks."""
    jobs = Order._batch

    def forgetful(self, one):
        jobs(self, one)
        self.keys.clear()

    monkeypatch.setattr(Order, "_batch", forgetful)
    assert "the log does not say it" in kinds(small(tmp_path).faults)
