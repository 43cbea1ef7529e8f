"""Missing resources of the server are not faults of an endpoint or a job: answers of name servers, descriptors, memory."""

import os
import resource
import shutil
import subprocess
import time

import pytest
from conftest import FLAGS
from endpoint import Endpoint, write_policy
from server import REPO, eventually, slack

SLOW_S = 30


@pytest.fixture(scope="session")
def slow_names(tmp_path_factory):
    """The environment of a program for which names that begin with "slow" take SLOW_S seconds; "fast…" is this machine."""
    library = tmp_path_factory.mktemp("names") / "slow_names.so"
    subprocess.run([os.environ.get("CC") or shutil.which("cc"), "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-o", str(library),
                    str(REPO / "tests/support/slow_names.c")], check=True)
    return {"LD_PRELOAD": str(library), "TARRY_TEST_SLOW_NAMES": str(SLOW_S),
            "ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))}


@pytest.fixture
def server(start_server, tmp_path, slow_names):
    return start_server(*FLAGS, "--grace", "5s", "--deliver", write_policy(tmp_path / "policy", "allow-host = *"), env=slow_names)


def push_to_slow(client, scheme, count):
    for n in range(count):
        to = f"{scheme}://slow{n}.example"
        client.put_topic(f"slow{n}", deliver={"to": to})
        client.push(f"slow{n}", "one")
    eventually(lambda: all(client.topic(f"slow{n}")["counts"]["leased"] for n in range(count)))


def test_names_that_take_long_hold_up_no_other(server):
    client, endpoint = server.client(), Endpoint().start()
    push_to_slow(client, "http", 6)
    client.put_topic("good", deliver={"to": f"http://fast.example:{endpoint.port}/"})
    client.push("good", "one")
    eventually(lambda: endpoint.calls, seconds=5)
    endpoint.stop()
    server.kill()


@pytest.mark.parametrize("scheme", ["http", "stomp"])
def test_a_look_up_in_progress_does_not_prevent_the_stop(server, scheme):
    push_to_slow(server.client(), scheme, 3)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 14 * slack(), "5 s for deliveries, 3 s for what is left"
    assert "event=stopped" in server.log()


def test_too_few_descriptors_cost_no_attempts(server):
    client, endpoint = server.client(), Endpoint(lambda call: time.sleep(0.3) or 200).start()
    client.put_topic("many", deliver={"to": f"http://127.0.0.1:{endpoint.port}/", "max_in_flight": 500}, max_attempts=1)
    resource.prlimit(server.proc.pid, resource.RLIMIT_NOFILE, (server.descriptors() + 30,) * 2)
    for n in range(60):
        client.push("many", f"j-{n}")
    eventually(lambda: client.topic("many")["totals"]["acked"] == 60, seconds=20)
    assert len(endpoint.calls) == 60
    endpoint.stop()


def test_large_bodies_in_flight_are_bounded(server):
    client, endpoint = server.client(), Endpoint(lambda call: time.sleep(1) or 200).start()
    for n in range(110):
        client.push("large", f"j-{n}", b"x" * 1_000_000)
    client.put_topic("large", deliver={"to": f"http://127.0.0.1:{endpoint.port}/", "max_in_flight": 1000})
    eventually(lambda: client.topic("large")["totals"]["acked"] == 110, seconds=30)
    assert 20 < endpoint.most_at_once <= 64 + 17, "64 MiB and a take more"
    endpoint.stop()
