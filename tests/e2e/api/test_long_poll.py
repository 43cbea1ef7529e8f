"""Thousands of consumers that wait: cheap while they do, and each job goes to one of them."""

import resource
import select
import selectors
import time

import doors
import pytest
from client import Connection, request_bytes
from server import eventually, slack

POLLS = 3000


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = POLLS + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))



def read_all(connections, seconds=30):
    """The jobs of all replies, as they come."""
    selector, jobs, replies = selectors.DefaultSelector(), [], 0
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    limit = time.monotonic() + seconds
    while replies < len(connections):
        assert time.monotonic() < limit, f"only {replies} of {len(connections)} answered"
        for key, _ in selector.select(timeout=1):
            selector.unregister(key.fileobj)
            jobs.append(key.data.read().json()["jobs"])
            replies += 1
    selector.close()
    return jobs


def test_three_thousand_wait_and_each_gets_one_job(start_server, many_descriptors):
    server = start_server("--sync", "always", "--shards", "1", "--max-connections", "4000", "--max-waiting", "4000", "--idle-timeout", "10m")  # with TLS, the last of so many connects long after the first
    client = server.client()
    client.push("warm", body=b"up")
    resident, descriptors = server.resident_bytes(), server.descriptors()
    connections = [Connection(server.port, timeout=60) for _ in range(POLLS)]
    try:
        for connection in connections:
            connection.send(request_bytes("POST", "/v1/topics/crowd/take?max=1&wait=60s"))
        eventually(lambda: server.descriptors() >= POLLS + descriptors - 2, 60)  # the log opened files of its own when they were counted
        time.sleep(0.3)
        per_poll = (server.resident_bytes() - resident) / POLLS
        print(f"{POLLS} idle long polls: {per_poll:.0f} bytes of resident memory each")
        assert per_poll < (48 if doors.ON else 16) * 1024

        begin = time.monotonic()
        for at in range(0, POLLS, 1000):
            client.push_batch([{"topic": "crowd", "id": f"j{at + i}", "body": f"b{at + i}"} for i in range(1000)])
        jobs = read_all(connections)
        print(f"{POLLS} jobs pushed and handed out in {time.monotonic() - begin:.2f} s")
        assert all(len(found) == 1 for found in jobs)
        assert len({found[0]["id"] for found in jobs}) == POLLS
        assert client.take("crowd", max=1000) == []
    finally:
        for connection in connections:
            connection.close()
    eventually(lambda: server.descriptors() <= descriptors + 2)


def test_a_waiting_take_wakes_within_milliseconds(server):
    consumer, client = server.connection(), server.client()
    late = []
    for i in range(20):
        consumer.send(request_bytes("POST", "/v1/topics/wake/take?wait=10s"))
        time.sleep(0.02)
        client.push("wake", body=b"%d" % i)
        pushed = time.monotonic()
        assert consumer.read().json()["jobs"][0]["body"] == str(i)
        late.append((time.monotonic() - pushed) * 1000)
    late.sort()
    print(f"from the push's answer to the take's: median {late[10]:.2f} ms, longest {late[-1]:.2f} ms")
    assert late[10] < 20


def test_first_come_first_served(server):
    connections = [server.connection() for _ in range(5)]
    for connection in connections:
        connection.send(request_bytes("POST", "/v1/topics/order/take?wait=10s"))
        time.sleep(0.02)
    for i in range(5):
        server.client().push("order", f"j{i}")
    assert [connection.read().json()["jobs"][0]["id"] for connection in connections] == [f"j{i}" for i in range(5)]


def test_a_wait_ends_with_an_empty_answer_at_its_time(server):
    begin = time.monotonic()
    assert server.client().take("nothing", wait="300ms") == []
    assert 0.3 <= time.monotonic() - begin < 10 * slack()


def test_the_longest_wait_is_shorter_than_client_timeouts(client):
    """Many clients give up after 300 s: a later job would reach no client."""
    assert client.good("GET", "/v1/info")["limits"]["wait_ms"] == 240_000
    client.push("t", "a")
    assert len(client.take("t", wait="240s")) == 1
    reply = client.call("POST", "/v1/topics/t/take?wait=240001ms")
    assert (reply.status, reply.code) == (400, "bad_option") and "up to 4m" in reply.json()["detail"]


def test_a_consumer_that_went_away_takes_nothing_with_it(server):
    """Its attempt does not count, because it never saw the job."""
    client = server.client()
    for _ in range(10):
        connection = server.connection()
        connection.send(request_bytes("POST", "/v1/topics/gone/take?wait=30s"))
        time.sleep(0.01)
        connection.close()
    time.sleep(0.05)
    client.push("gone", "a")
    jobs = client.take("gone", wait="5s")
    assert [job["id"] for job in jobs] == ["a"] and jobs[0]["attempt"] == 1


def test_more_waiting_than_allowed_are_refused_loudly(start_server):
    server = start_server("--sync", "always", "--shards", "1", "--max-waiting", "3")
    connections = [server.connection() for _ in range(3)]
    for connection in connections:
        assert connection.call("GET", "/healthz").status == 200  # what comes next comes alone, and so in this order
    for connection in connections:
        connection.send(request_bytes("POST", "/v1/topics/full/take?wait=30s"))
    time.sleep(0.1)
    reply = server.client().call("POST", "/v1/topics/full/take?wait=30s")
    assert (reply.status, reply.code, reply.json()["limit"]) == (503, "too_many_waiting", 3)
    assert "retry-after" in reply.headers
    server.client().push("full")
    answered, _, _ = select.select([connection.socket for connection in connections], [], [], 20)
    first = next(connection for connection in connections if connection.socket in answered)
    assert len(answered) == 1 and first.read().json()["jobs"], "those who wait go on waiting"


def test_an_idle_server_makes_no_wake_ups(server):
    client = server.client()
    client.push_batch([{"topic": "far", "id": f"j{i}", "delay": f"{1 + i}h", "body": "x"} for i in range(200)])
    waiting_consumer = server.connection()
    waiting_consumer.send(request_bytes("POST", "/v1/topics/far/take?wait=4m"))
    client.close()
    time.sleep(1.5)  # until what the pushes set off has come to rest
    before = server.switches()
    time.sleep(3)
    woken = server.switches() - before
    print(f"wake-ups of an idle server in 3 s: {woken}")
    assert woken <= (12 if doors.ON else 3)  # the files of tokens and certificates are looked at each second
