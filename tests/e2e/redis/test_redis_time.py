"""Several servers and one time: clocks that differ, wake-ups that never arrive, a shard full of jobs that are not due yet."""

import contextlib
import datetime
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest
from redis_servers import RedisServer
from server import REPO, eventually, slack

HOUR_MS = 3_600_000
SPACING_MS = 30
LATE_MS = 3000  # for servers that are slow under a sanitizer, on a busy machine
MANY = int(os.environ.get("TARRY_TEST_MANY", "100000"))


@pytest.fixture(scope="module")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
def fresh(redis):
    redis.client().flushall()
    return redis


@pytest.fixture(scope="session")
def ahead(tmp_path_factory):
    """ahead(ms): the environment of a program whose wall clock is ahead of the machine's by so much."""
    directory = tmp_path_factory.mktemp("clocks")
    library = directory / "fake_time.so"
    subprocess.run([os.environ.get("CC") or shutil.which("cc"), "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-o", str(library),
                    str(REPO / "tests/support/fake_time.c")], check=True)

    def environment(milliseconds):
        clock = directory / f"clock{milliseconds}"
        clock.write_bytes(struct.pack("=qq", 0, milliseconds * 1000))
        return {"LD_PRELOAD": str(library), "TARRY_TEST_FAKE_TIME": str(clock),
                "ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))}

    return environment


def wall_ms():
    return time.time_ns() // 1_000_000


# ---- clocks that differ ----

def schedule():
    """[(id, ms from the start, form of the due time)], each at its own time, in any order."""
    plan = [(f"job-{number}", 400 + number * SPACING_MS, "at" if number % 2 else "delay") for number in range(50)]
    random.Random(7).shuffle(plan)
    return plan


def push_all(clients, topic):
    """Pushes each job by another server than the previous one. Returns {id: due time on the machine's clock}."""
    dues, start = {}, wall_ms()
    for number, (ident, offset, how) in enumerate(schedule()):
        begin = wall_ms()
        due = start + offset
        clients[number % len(clients)].push(topic, ident, **({"at": due} if how == "at" else {"delay": f"{max(due - begin, 0)}ms"}))
        dues[ident] = due
    return dues


def take_all(clients, topic, dues):
    """Takes by a consumer that uses another server each time. Returns [(id, lateness in ms)]."""
    out = []
    while len(out) < len(dues):
        jobs = clients[len(out) % len(clients)].take(topic, max=1, wait="10s")
        out += [(job["id"], wall_ms() - dues[job["id"]]) for job in jobs]
        clients[(len(out) + 1) % len(clients)].ack(*[job["lease"] for job in jobs])
    return out


def test_servers_with_clocks_an_hour_apart_deliver_like_one_server(fresh, ahead, start_server):
    flags = ("--store", fresh.url, "--shards", "1")
    one = [start_server(*flags)]
    two = [start_server(*flags, env=ahead(shift)) for shift in (HOUR_MS // 2, -HOUR_MS // 2)]
    delivered = []
    for servers, topic in ((one, "one"), (two, "two")):
        clients = [server.client() for server in servers]
        delivered.append(take_all(clients, topic, push_all(clients, topic)))
    for came in delivered:
        print("ms late: first", came[0][1], "last", came[-1][1], "most", max(late for _, late in came))
        assert min(late for _, late in came) >= 0, came
        assert max(late for _, late in came) < LATE_MS, came
    in_order = [ident for ident, *_ in sorted(schedule(), key=lambda job: job[1])]
    assert [ident for ident, _ in delivered[0]] == in_order
    assert [ident for ident, _ in delivered[1]] == in_order


def test_leases_backoffs_and_expiry_do_not_go_by_the_clocks_of_servers(fresh, ahead, start_server):
    one, other = (start_server("--store", fresh.url, "--shards", "1", env=ahead(shift)).client() for shift in (HOUR_MS, -HOUR_MS))
    one.put_topic("held", lease_for="1s", backoff="fixed:300ms")
    one.push("held", "a")
    began = time.monotonic()
    assert one.take("held", wait="5s")[0]["attempt"] == 1
    taken = time.monotonic()
    job = other.take("held", wait="10s")[0]
    again = time.monotonic()
    assert job["attempt"] == 2 and again - began >= 1.24 and again - taken < 1.0 + 0.36 + LATE_MS / 1000, again - taken
    began = time.monotonic()
    other.nack(job["lease"], delay="500ms")
    job = one.take("held", wait="10s")[0]
    assert job["attempt"] == 3 and 0.5 <= time.monotonic() - began < (0.5 + LATE_MS / 1000) * slack()
    one.ack(job["lease"])
    one.push("held", "short-lived", ttl="300ms")
    other.push("held", "long-lived", ttl="1h")
    eventually(lambda: other.call("GET", "/v1/topics/held/jobs/short-lived").status == 404)
    assert other.get("held", "long-lived")["state"] == "ready"


def test_a_clock_that_is_ahead_is_ahead(fresh, ahead, start_server):
    """Without this claim the two tests above would show nothing."""
    server = start_server("--store", fresh.url, "--shards", "1", env=ahead(HOUR_MS))
    stamp = server.log().split("time=", 1)[1].split()[0].strip('"')
    answer = datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp() * 1000
    assert abs(answer - wall_ms() - HOUR_MS) < 60_000


# ---- wake-ups that never arrive ----

class Deaf(threading.Thread):
    """Forwards everything between servers and Redis; while `eats`, messages of Redis on subscribed connections are dropped silently."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.eats, self.eaten = port, False, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            both = {"client": client, "redis": socket.create_connection(("127.0.0.1", self.to)), "subscribed": False}
            for end in ("client", "redis"):
                both[end].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.hand_on, args=(both, end), daemon=True).start()

    def hand_on(self, both, end):
        other = both["redis" if end == "client" else "client"]
        try:
            while data := both[end].recv(1 << 16):
                both["subscribed"] |= end == "client" and b"SUBSCRIBE" in data.upper()
                if self.eats and both["subscribed"] and end == "redis":
                    self.eaten += 1
                else:
                    other.sendall(data)
        except OSError:
            pass
        for one in (both["client"], both["redis"]):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # the other thread may wait for it: a mere close would leave it open
            one.close()


@pytest.fixture
def deaf(fresh):
    proxy = Deaf(fresh.port)
    yield proxy
    proxy.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    proxy.listener.close()


def waiting_take(server, topic):
    """A consumer that waits; (thread, [when its job came])."""
    came = []
    client = server.client(timeout=60)
    thread = threading.Thread(target=lambda: came.append((client.take(topic, wait="30s")[0]["id"], time.monotonic())))
    thread.start()
    time.sleep(0.3)
    return thread, came


@pytest.mark.parametrize("delay", [None, "300ms"])
def test_a_wake_up_that_is_lost_without_a_trace_costs_a_second_at_most(delay, fresh, deaf, start_server):
    pusher = start_server("--store", fresh.url, "--shards", "1")
    taker = start_server("--store", f"redis://127.0.0.1:{deaf.port}", "--shards", "1")
    costs = []
    for number in range(3):
        deaf.eats = True
        thread, came = waiting_take(taker, "woken")
        pushed = time.monotonic()
        pusher.client().push("woken", f"job-{number}", delay=delay)
        thread.join()
        costs.append(came[0][1] - pushed - (0.3 if delay else 0.0))
        assert came[0][0] == f"job-{number}"
    print("seconds:", [round(cost, 3) for cost in costs], "messages lost:", deaf.eaten)
    assert deaf.eaten > 0 and 0.05 < max(costs) < 1.0 + LATE_MS / 1000


def test_a_subscription_that_is_cut_costs_a_second_at_most(fresh, start_server):
    pusher, taker = (start_server("--store", fresh.url, "--shards", "1") for _ in range(2))
    costs = []
    for number in range(3):
        eventually(lambda: len(fresh.client().client_list(_type="pubsub")) == 2)
        thread, came = waiting_take(taker, "cut")
        assert fresh.cut_connections(("pubsub",)) == 2
        pushed = time.monotonic()
        pusher.client().push("cut", f"job-{number}")
        thread.join()
        costs.append(came[0][1] - pushed)
        assert came[0][0] == f"job-{number}"
    print("seconds:", [round(cost, 3) for cost in costs])
    assert 0.05 < max(costs) < 1.0 + LATE_MS / 1000


# ---- a full shard ----

def lateness(client, topic, count=60):
    """Sorted ms from the due of jobs, one after the other, to when a consumer that waited has them."""
    dues = {}
    for number in range(count):
        begin = time.monotonic()
        client.push(topic, f"job-{number}", delay=f"{700 + 25 * number}ms")
        dues[f"job-{number}"] = begin + 0.7 + 0.025 * number
    out = []
    while len(out) < count:
        for job in client.take(topic, max=1, wait="10s"):
            out.append((time.monotonic() - dues[job["id"]]) * 1000)
            client.ack(job["lease"])
    return sorted(out)


def fill(client, topic, count):
    """Jobs that are due within a day, but for the first minutes."""
    pick = random.Random(1)
    for first in range(0, count, 1000):
        items = [{"topic": topic, "id": f"{number:07}", "body": "x" * 32, "delay": f"{600_000 + pick.randrange(24 * HOUR_MS)}ms"}
                 for number in range(first, min(first + 1000, count))]
        assert all(result["result"] == "created" for result in client.push_batch(items))


def test_a_shard_full_of_delayed_jobs_is_as_punctual_as_an_empty_one(fresh, start_server):
    client = start_server("--store", fresh.url, "--shards", "1").client(timeout=60)
    lateness(client, "warm", 10)
    found = {"an empty shard": lateness(client, "empty")}
    fill(client, "many", MANY)
    found[f"{MANY} jobs, while they are packed"] = lateness(client, "while")
    eventually(lambda: not fresh.client().keys("*:unpacked"), 300, 0.1)
    found[f"{MANY} jobs in another topic"] = lateness(client, "few")
    found[f"{MANY} jobs in the same topic"] = lateness(client, "many")
    usual = found["an empty shard"]
    for name, ms in found.items():
        print(f"{name}: p50 {ms[len(ms) // 2]:.2f} ms, p90 {ms[len(ms) * 9 // 10]:.2f} ms, most {ms[-1]:.2f} ms; "
              f"p50 is {ms[len(ms) // 2] / usual[len(usual) // 2]:.2f} times the empty one's")
        assert min(ms) >= 0 and ms[len(ms) // 2] < 10 * usual[len(usual) // 2] + 20
    assert client.topic("many")["counts"]["delayed"] == MANY


# ---- Redis' own clock is set ----

@pytest.fixture
def settable(ahead):
    """(a Redis whose clock can be set, what sets it: milliseconds ahead of the machine's)."""
    environment = ahead(0)
    clock = environment.pop("TARRY_TEST_FAKE_TIME")
    with RedisServer(preload=environment.pop("LD_PRELOAD"), env={"TARRY_TEST_FAKE_TIME": clock}) as server:
        def set_to(milliseconds):
            with open(clock, "r+b") as file:
                file.write(struct.pack("=qq", 0, milliseconds * 1000))

        set_to(0)
        yield server, set_to
        set_to(0)


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_a_redis_clock_set_during_calls_makes_no_job_early(settable, step_ms, start_server):
    redis, set_to = settable
    first, second = (start_server("--store", redis.url).client() for _ in range(2))
    for round_number in range(4):
        topic = f"t{round_number}"
        first.push(topic, "far", delay="600s")
        assert first.take(topic) == []
        set_to(step_ms * (round_number % 2 == 0))
        begin = wall_ms()
        (first if round_number < 2 else second).push(topic, "near", delay="1500ms")
        taken = second.take(topic) + first.take(topic) + first.take(topic, wait="5s")
        assert [found["id"] for found in taken] == ["near"]
        assert 1500 <= wall_ms() - begin < 1500 + LATE_MS + 1000, "not early, and late only by the time it takes to notice"
        assert first.get(topic, "far")["state"] == "delayed"
    assert first.take("t0") == []
