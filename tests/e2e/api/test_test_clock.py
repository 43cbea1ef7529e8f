"""The test clock: time stands still until a command moves it, and then each event happens at its moment."""

import contextlib
import json
import subprocess
import threading
import time

import pytest
from conftest import FLAGS
from delivery import settle, totals
from endpoint import Endpoint, write_policy
from redis_servers import RedisServer
from server import BINARY, Server, StartFailed, eventually
from test_load import seconds

START = "2030-01-01T00:00:00.000Z"
CLOCK = f"--test-clock={START}"
KINDS = {"embedded": lambda _: FLAGS, "sharded": lambda _: [*FLAGS, "--shards", "3"], "redis": lambda redis: ["--store", redis.url, "--shards", "2"]}


@pytest.fixture(scope="module", params=KINDS)
def place(request, tmp_path_factory):
    """The server, its endpoint for callbacks, and its flags, which another server on the same store takes as well."""
    directory = tmp_path_factory.mktemp("clock")
    redis = RedisServer() if request.param == "redis" else contextlib.nullcontext()
    with redis as found, Endpoint() as endpoint:
        flags = [*KINDS[request.param](found), CLOCK]
        server = Server(directory, [*flags, "--deliver", write_policy(directory / "policy")]).start()
        yield server, endpoint, flags
        assert server.terminate() == 0
        assert not server.sanitizer_report()


@pytest.fixture
def server(place):
    server, endpoint, _ = place
    reset(server.client())
    endpoint.calls.clear()
    endpoint.answer = lambda call: 200
    return server


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture
def endpoint(place):
    return place[1]


def reset(client):
    return client.good("POST", "/v1/reset")


def advance(client, **options):
    return client.good("POST", "/v1/clock/advance?" + "&".join(f"{name}={value}" for name, value in options.items()))


def now(client):
    return client.good("GET", "/v1/clock")["now"]


# ---- moving ----


def test_time_stands_still_and_a_delay_ends_when_the_clock_has_moved_by_it(client):
    assert now(client) == START
    assert client.push("a", "1", delay="30m")["due_at"] == "2030-01-01T00:30:00.001Z"
    assert advance(client, by="29m59s")["happened"] == 0
    assert client.take("a") == []
    assert advance(client, by="1s")["happened"] == 1
    (job,) = client.take("a")
    assert job["due_at"] == "2030-01-01T00:30:00.001Z"
    client.ack(job["lease"])


def test_every_answer_and_the_info_mark_the_test_clock(client):
    reply = client.call("GET", "/v1/topics/none")
    assert reply.status == 404 and reply.headers["tarry-test-clock"] == START
    info = client.good("GET", "/v1/info")
    assert info["test_clock"] == {"now": START, "start": START, "auto": False} and info["now"] == START


def test_a_job_with_a_time_is_due_at_it(client):
    client.push("a", "1", at="2031-07-01T12:00:00Z")
    advance(client, to="2031-07-01T11:59:59.999Z")
    assert client.take("a") == []
    advance(client, to="2031-07-01T12:00:00Z")
    assert [job["id"] for job in client.take("a")] == ["1"]


def test_to_next_stops_at_the_next_event_and_stays_without_one(client):
    client.push("a", "far", delay="300d")
    client.push("a", "near", delay="10s")
    assert advance(client, to="next")["now"] == "2030-01-01T00:00:10.001Z"
    assert advance(client, to="next")["now"] == "2030-10-28T00:00:00.001Z"
    stays = advance(client, to="next")
    assert (stays["now"], stays["happened"]) == ("2030-10-28T00:00:00.001Z", 0)
    assert {job["id"] for job in client.take("a", max=10)} == {"far", "near"}


def test_leases_retries_ttl_dedup_and_pauses_follow_it(client):
    client.put_topic("a", lease_for="1m", backoff="fixed:10m", max_attempts=2, dedup_window="1h")
    client.push("a", "1")
    (first,) = client.take("a")
    assert first["lease_until"] == "2030-01-01T00:01:00.001Z"
    advance(client, by="1m")
    job = client.get("a", "1")
    assert (job["state"], job["last_error"]) == ("delayed", "lease ended")
    assert advance(client, to="next")["now"] == job["due_at"]
    (second,) = client.take("a")
    assert second["attempt"] == 2 and client.ack(second["lease"])[0]["result"] == "ok"
    assert client.push("a", "1")["result"] == "existed"
    advance(client, by="1h")
    assert client.push("a", "1", ttl="5m")["result"] == "created"
    advance(client, by="5m")
    assert client.topic("a")["totals"]["expired"] == 1
    client.push("a", "2")
    client.call("POST", "/v1/topics/a/pause?for=1h")
    assert client.take("a") == []
    advance(client, by="1h")
    assert [job["id"] for job in client.take("a")] == ["2"]


def test_each_thing_happens_at_its_moment_on_a_long_way(client):
    """A job without answers: a waiting take sees its deliveries at the times of the backoff."""
    client.put_topic("a", lease_for="1m", backoff="fixed:1h", max_attempts=3)
    client.push("a", "1")
    seen = []

    def consume():
        while len(seen) < 3:
            seen.extend(job["attempt"] for job in client.take("a", wait="20s"))

    taker = threading.Thread(target=consume)
    taker.start()
    eventually(lambda: len(seen) == 1)
    while len(seen) < 3:
        advance(client, to="next")
        time.sleep(0.01)
    taker.join(20)
    assert seen == [1, 2, 3]
    advance(client, by="2h")
    assert client.get("a", "1")["state"] == "dead"
    at = [seconds(attempt["at"]) for attempt in client.get("a", "1")["history"]]
    waits = [later - earlier - 60 for earlier, later in zip(at, at[1:])]  # behind the lease; a backoff is spread by a fifth
    assert len(at) == 3 and at[0] == seconds(START) and all(0.8 * 3600 <= wait <= 1.2 * 3600 + 1 for wait in waits)


def test_a_reset_drops_all_and_puts_the_clock_back(client):
    for topic in ("a", "b", "c"):
        client.put_topic(topic, max_attempts=1)
        client.push_batch([{"topic": topic, "id": str(i), "delay": "1h", "body": i} for i in range(20)])
    client.push("a", "now")
    (job,) = client.take("a")
    advance(client, by="30m")
    shown = reset(client)
    assert shown["now"] == START and client.topics() == []
    assert client.call("POST", f"/v1/ack?lease={job['lease']}").json()["code"] == "lease_ended"
    client.push("a", "0", delay="10m")
    assert client.topic("a")["totals"]["pushed"] == 1
    advance(client, by="10m")
    assert [job["id"] for job in client.take("a", max=10)] == ["0"]
    assert now(client) == "2030-01-01T00:10:00.001Z"


def test_invalid_clock_commands_are_rejected_with_a_message(client):
    def refusal(target):
        reply = client.call("POST", target)
        return reply.status, reply.json()["code"]

    advance(client, by="1h")
    assert refusal(f"/v1/clock/advance?to={START}") == (400, "bad_option")
    assert refusal("/v1/clock/advance") == (400, "option_missing")
    assert refusal("/v1/clock/advance?by=1s&to=next") == (400, "option_clash")
    assert refusal("/v1/clock/advance?to=tomorrow") == (400, "bad_option")
    assert refusal("/v1/clock/advance?by=1s&wait=5s") == (400, "bad_option")
    assert refusal("/v1/topics/a/take?wait=idle") == (400, "bad_option")
    assert now(client) == "2030-01-01T01:00:00.001Z"


# ---- waiting for what it brings about ----


def wait_for_taker(client, name):
    eventually(lambda: name in [one["consumer"] for one in client.good("GET", "/v1/topics/a/consumers")["consumers"]])


def test_wait_idle_ends_deliveries_at_their_start_time(client, endpoint):
    """Four failures with an hour between them: each comes at its hour, though the endpoint takes its time."""
    clocks = {"1": [], "2": []}

    def answer(call):
        time.sleep(0.03)
        clocks[call.id].append(seconds(now(client)))
        return 500 if call.attempt < 5 else 200

    endpoint.answer = answer
    settle(client, "orders", deliver={"to": endpoint.url + "/{id}"}, backoff="fixed:1h", max_attempts=9)
    client.push("orders", "1", delay="1d")
    client.push("orders", "2", delay="1d")
    moved = advance(client, by="2d", wait="idle")
    assert moved["now"] == "2030-01-03T00:00:00.001Z"
    assert totals(client, "orders")["acked"] == 2 and len(endpoint.calls) == 10
    for at in clocks.values():
        waits = [later - earlier for earlier, later in zip(at, at[1:])]
        assert at[0] - seconds(START) < 86401 and all(0.8 * 3600 <= wait < 1.25 * 3600 for wait in waits), waits


def test_wait_idle_waits_for_a_delivery_in_progress(client, endpoint):
    endpoint.answer = lambda call: time.sleep(0.3) or 200
    settle(client, "orders", deliver={"to": endpoint.url + "/{id}"})
    client.push("orders", "1")
    eventually(lambda: client.topic("orders")["counts"]["leased"] == 1)
    advance(client, by="1d", wait="idle")
    assert totals(client, "orders")["acked"] == 1 and totals(client, "orders")["lease_ended"] == 0 and len(endpoint.calls) == 1


def test_wait_idle_waits_for_new_leases_but_not_for_older_ones(client):
    client.push("a", "old")
    (old,) = client.take("a")
    client.push("a", "new", delay="10s")
    done = []

    def work():
        (job,) = client.take("a", wait="20s", consumer="worker")
        time.sleep(0.2)
        done.append(job["id"])
        client.ack(job["lease"])

    worker = threading.Thread(target=work)
    worker.start()
    wait_for_taker(client, "worker")
    advance(client, by="20s", wait="idle")
    assert done == ["new"]
    worker.join(10)
    client.ack(old["lease"])


def test_wait_idle_gives_up_in_words(client):
    client.push("a", "1", delay="10s")
    worker = threading.Thread(target=lambda: client.take("a", wait="20s", consumer="sleeper"))
    worker.start()
    wait_for_taker(client, "sleeper")
    reply = client.call("POST", "/v1/clock/advance?by=1h&wait=idle&timeout=300ms")
    assert (reply.status, reply.json()["code"]) == (409, "not_idle") and "1 leased job was not" in reply.json()["detail"]
    worker.join(10)
    assert now(client) == "2030-01-01T00:00:10.001Z"


def test_auto_moves_the_clock_until_a_consumer_works(client):
    assert advance(client, auto="true")["auto"]
    client.push("a", "1", delay="3h")
    (job,) = client.take("a", wait="20s")
    assert now(client) == "2030-01-01T03:00:00.001Z"
    client.push("a", "2", delay="1s")
    time.sleep(0.1)  # the lease holds it back, not the time that goes by
    assert now(client) == "2030-01-01T03:00:00.001Z"
    client.ack(job["lease"])
    assert [job["id"] for job in client.take("a", wait="20s")] == ["2"]
    assert not advance(client, auto="false")["auto"]


# ---- the server ----


def test_the_clock_continues_after_a_restart(place):
    server, _, flags = place
    client = server.client()
    reset(client)
    client.push("kept", "1", delay="2h")
    advance(client, by="1h")
    server.restart("kill")
    client = server.client()
    assert now(client) == "2030-01-01T01:00:00.001Z"
    advance(client, by="1h")
    server.restart("terminate")
    client = server.client()
    assert now(client) == "2030-01-01T02:00:00.002Z"
    assert [job["id"] for job in client.take("kept")] == ["1"]


def test_a_real_server_refuses_its_store_and_it_refuses_a_real_one(place, tmp_path):
    server, _, flags = place
    is_redis = "--store" in flags
    real = [flag for flag in flags if flag != CLOCK]
    server.terminate()
    other = Server(tmp_path / "other", real)
    if not is_redis:
        other.data = server.data
    with pytest.raises(StartFailed):
        other.start()
    assert "test clock" in other.log()
    fresh = Server(tmp_path / "fresh", real if not is_redis else [*real[:1], real[1] + "/1", *real[2:]]).start()
    assert fresh.client().call("GET", "/v1/clock").json()["code"] == "no_test_clock"
    assert fresh.client().call("POST", "/v1/reset").status == 501
    assert "tarry-test-clock" not in fresh.client().call("GET", "/v1/info").headers
    assert fresh.terminate() == 0
    with pytest.raises(StartFailed):
        Server(tmp_path / "fresh", [*fresh.flags, CLOCK]).start()
    assert "is not for a test clock" in (tmp_path / "fresh" / "server.log").read_text()
    server.start()


@pytest.fixture
def two(place, tmp_path):
    """A second server on the same Redis."""
    server, _, flags = place
    if "--store" not in flags:
        pytest.skip("one server to a directory")
    reset(server.client())
    other = Server(tmp_path / "two", flags).start()
    yield server.client(), other.client()
    assert other.terminate() == 0


def test_servers_on_one_redis_go_by_one_clock(two):
    a, b = two
    a.push("a", "1", delay="30m")
    got = []
    taker = threading.Thread(target=lambda: got.extend(b.take("a", wait="20s", consumer="of-b")))
    taker.start()
    wait_for_taker(b, "of-b")
    advance(a, by="30m")
    taker.join(20)
    assert [job["id"] for job in got] == ["1"]
    eventually(lambda: now(b) == "2030-01-01T00:30:00.001Z")
    assert now(a) == "2030-01-01T00:30:00.001Z"
    b.ack(got[0]["lease"])
    b.push("a", "2", delay="1h")
    advance(b, to="next")
    assert [job["id"] for job in a.take("a")] == ["2"]
    reset(b)
    eventually(lambda: now(a) == START)
    assert a.topics() == []


def test_moving_it_takes_the_admin_scope(tmp_path):
    tokens = tmp_path / "tokens"
    made = {}
    for scope in ("push,consume,read", "admin"):
        out = subprocess.run([BINARY, "token", "new", scope.split(",")[0], "--tokens", tokens, "--scope", scope, "--topics", "*"], capture_output=True, text=True, check=True)
        made[scope] = out.stdout.split()[-1]
    server = Server(tmp_path / "server", [*FLAGS, CLOCK, "--tokens", str(tokens)]).start()
    client = server.client()

    def status(method, target, scope):
        return client.call(method, target, headers={"Authorization": f"Bearer {made[scope]}"}).status

    assert status("GET", "/v1/clock", "push,consume,read") == 200 and client.call("GET", "/v1/clock").status == 401
    for target in ("/v1/clock/advance?by=1s", "/v1/reset"):
        assert status("POST", target, "push,consume,read") == 403 and status("POST", target, "admin") == 200
    assert server.terminate() == 0


def test_the_status_shows_the_test_clock(client):
    """The age of a ready job follows the test clock, also for jobs that became due in a distant year."""
    client.push("a", "1")
    advance(client, by="10s")
    assert client.good("GET", "/v1/status")["well"] is True
    page = client.call("GET", "/metrics").body.decode()
    (age,) = [float(line.split()[-1]) for line in page.splitlines() if line.startswith('tarry_oldest_ready_age_seconds{topic="a"')]
    assert 9.9 < age < 10.2


def test_the_command_line_moves_it(server):
    server.client().push("a", "1", delay="30m")
    shown = server.cli("clock", "advance", "--by", "30m", text=True)
    assert shown.returncode == 0 and shown.stdout == f"2030-01-01T00:30:00.001Z, began at {START}\n1 event on the way\n"
    assert json.loads(server.cli("clock", "--json", text=True).stdout)["now"] == "2030-01-01T00:30:00.001Z"
    assert server.cli("clock", "advance", "--to", "next", "--wait", "idle", text=True).returncode == 0
    assert server.cli("clock", "reset", text=True).returncode == 0
    assert server.client().topics() == [] and now(server.client()) == START
    assert server.cli("clock", "turn", text=True).returncode == 2
    assert server.cli("clock", "advance", text=True).returncode == 1
