"""A restart, clean or not, changes nothing that a client was answered."""

import datetime
import itertools
import os
import stat
import time

import pytest
from client import Lost, Refused, request_bytes
from server import StartFailed, eventually, meanwhile, slack

FLAGS = ("--sync", "always", "--shards", "1")
FIGURES = ("pushed", "delayed", "retrying", "ready", "leased", "dead", "acked", "cancelled", "expired")


def state_of(client):
    """Returns all topics with figures, and all their jobs. Due times are rounded: that of a relative delay on the wall clock may differ by a
    millisecond."""
    out = {}
    for topic in client.topics():
        name = topic["topic"]
        figures = client.topic(name)
        jobs = client.list(name, limit=1000)["jobs"]
        out[name] = (counts_of(figures), [(job["id"], job["state"], Nearly(job["due_at"]), job["attempt"], job["priority"]) for job in jobs])
    return out


class Nearly:
    """A time that equals those up to 5 ms away."""

    def __init__(self, text):
        self.at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

    def __eq__(self, other):
        return abs((self.at - other.at).total_seconds()) <= 0.005

    def __repr__(self):
        return self.at.isoformat()


def counts_of(topic):
    flat = {**topic, **topic.get("counts", {}), **topic.get("totals", {})}
    return {name: flat[name] for name in FIGURES}


def furnish(client):
    """A job in every state; no state changes by itself within a minute."""
    client.put_topic("all", max_attempts=1, lease_for="10m")
    client.put_topic("quiet", lease_for="10m")
    client.push("all", "dead")
    client.nack(client.take("all")[0]["lease"], error="no use")
    client.push("all", "leased")
    client.take("all")
    client.push("all", "delayed", delay="1h", priority=7, meta={"who": "me"})
    client.push("all", "cancelled", delay="1h")
    client.cancel("all", "cancelled")
    client.push("all", "acked")
    client.ack(client.take("all")[0]["lease"])
    client.push("quiet", "retrying")
    client.nack(client.take("quiet")[0]["lease"], delay="1h")
    client.push("quiet", "ready", b"\0\xff", content_type="application/x-bytes")


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_twice_restarted_is_the_same_state(start_server, how):
    server = start_server(*FLAGS)
    furnish(server.client())
    before = state_of(server.client())
    for _ in range(2):
        server.restart(how)
        assert state_of(server.client()) == before
    job = server.client().get("all", "delayed")
    assert job["meta"] == {"who": "me"} and job["priority"] == 7
    assert server.client().get("all", "dead")["last_error"] == "no use"
    server.terminate()
    checked = server.fsck()
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_sigterm_under_load_loses_nothing(start_server):
    server = start_server(*FLAGS)
    reported, numbers = [], itertools.count()

    def push_without_end(stop):
        number = next(numbers)
        client, at = server.client(), 0
        try:
            while not stop.is_set():
                ident = f"{number}-{at}"
                client.push("load", ident)
                reported.append(ident)
                at += 1
        except (Lost, Refused, OSError) as fault:
            if isinstance(fault, Refused):
                assert fault.status == 503

    with meanwhile(*[push_without_end] * 4):
        eventually(lambda: len(reported) > 100)
        assert server.terminate() == 0
    server.start()
    kept = set()
    while jobs := server.client().take("load", max=1000):
        kept.update(job["id"] for job in jobs)
    print(f"{len(reported)} pushes answered, {len(kept)} kept")
    assert len(reported) > 100 and kept >= set(reported)


def test_sigterm_answers_waiting_takes(start_server):
    server = start_server(*FLAGS)
    connection = server.connection()
    connection.send(request_bytes("POST", "/v1/topics/none/take?wait=4m"))
    time.sleep(0.05)
    begin = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - begin < 4 * slack()
    assert connection.read().json()["jobs"] == []


def test_time_spent_down_counts_towards_the_delay(start_server):
    """beanstalkd's issue 62: load time and down time were added to every delay."""
    server = start_server(*FLAGS)
    begin = time.monotonic()
    server.client().push("delays", "a", delay="1500ms")
    server.terminate()
    time.sleep(1)
    server.start()
    assert [job["id"] for job in server.client().take("delays", wait="5s")] == ["a"]
    took = time.monotonic() - begin
    print(f"a delay of 1.5 s with 1 s down took {took * 1000:.0f} ms")
    assert 1.5 <= took < 2.5 * slack()


def test_overdue_jobs_come_immediately(start_server):
    server = start_server(*FLAGS)
    server.client().push("overdue", "a", delay="200ms")
    server.kill()
    time.sleep(0.4)
    server.start()
    assert server.client().take("overdue", wait="1s")[0]["id"] == "a"


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_leases_survive(start_server, how):
    """Leases keep the time they had left: the restart neither ends them nor begins them again."""
    server = start_server(*FLAGS)
    client = server.client()
    client.put_topic("held", backoff="fixed:1ms")
    client.push("held", "kept")
    client.push("held", "left")
    lease_s = round(3 + slack())  # longer than a restart and what each has after a start
    kept, left = sorted(client.take("held", max=2, lease_for=f"{lease_s}s"), key=lambda job: job["id"])
    begin = time.monotonic()
    client.extend(kept["lease"], left["lease"], lease_for=f"{lease_s}s")  # answered: on the disk
    until = client.get("held", "left")["lease_until"]
    server.restart(how)
    client = server.client()
    # Shown by the wall clock, which is read again at the start: to within a millisecond or two.
    moved = datetime.datetime.fromisoformat(client.get("held", "left")["lease_until"]) - datetime.datetime.fromisoformat(until)
    assert abs(moved.total_seconds()) <= 0.002
    assert client.take("held", max=2) == []
    assert client.ack(kept["lease"])[0]["result"] == "ok"
    again = client.take("held", wait=f"{lease_s + 6}s")
    took = time.monotonic() - begin
    assert [(job["id"], job["attempt"]) for job in again] == [("left", 2)]
    assert lease_s <= took < (lease_s + 5) * slack(), took
    assert again[0]["delivery"] > left["delivery"]
    assert client.call("POST", f"/v1/ack?lease={left['lease']}").code == "lease_ended"


def test_a_paused_topic_stays_paused(start_server):
    server = start_server(*FLAGS)
    server.client().push("pausing", "a")
    server.client().topic_verb("pausing", "pause")
    server.restart("kill")
    assert server.client().take("pausing") == []
    server.client().topic_verb("pausing", "resume")
    assert server.client().take("pausing")[0]["id"] == "a"


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_the_history_of_attempts_stays(start_server, how):
    server = start_server(*FLAGS)
    client = server.client()
    client.push("h", "a", max_attempts=10)
    for error in ("no stock", "http 500"):
        client.nack(client.take("h")[0]["lease"], error=error, delay="1ms")
        eventually(lambda: client.get("h", "a")["state"] == "ready")
    before = client.get("h", "a")["history"]
    assert [(entry["attempt"], entry["outcome"], entry["error"]) for entry in before] == [(1, "failed", "no stock"), (2, "failed", "http 500")]
    client = server.restart(how).client()
    assert client.get("h", "a")["history"] == before
    client.nack(client.take("h")[0]["lease"], error="gone", final="true")
    history = client.get("h", "a")["history"]
    assert history[:2] == before and (history[2]["attempt"], history[2]["outcome"]) == (3, "refused")


def test_one_server_per_directory(start_server):
    server = start_server(*FLAGS)
    second = start_server(*FLAGS, directory=server.directory.parent / "second", started=False)
    second.data = server.data
    with pytest.raises(StartFailed) as refused:
        second.start()
    assert str(server.proc.pid) in str(refused.value), "the log says who holds it"
    second.proc.returncode = 0  # as it should be
    assert server.fsck().returncode != 0, "fsck leaves a directory in use alone"
    server.client().push("still", "works")


def test_the_directory_is_private(start_server):
    server = start_server(*FLAGS)
    assert stat.S_IMODE(os.stat(server.data).st_mode) == 0o700


def test_a_second_signal_stops_immediately(start_server):
    server = start_server(*FLAGS)
    server.client().push("a", "b")
    server.proc.terminate()
    server.proc.terminate()
    eventually(lambda: not server.alive)
    assert server.proc.returncode in (0, 1)
    server.proc.returncode = 0
    server.start()
    assert server.client().get("a", "b")["state"] == "ready"
