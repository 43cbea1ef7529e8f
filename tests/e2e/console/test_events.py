"""Events of jobs and topics: each kind once with its members, the rights to them, lost events, and that they delay no caller."""

import concurrent.futures
import contextlib
import datetime
import pathlib
import threading
import time

import pytest
from client import Refused
from conftest import FLAGS
from delivery import settle
from endpoint import Endpoint, write_policy
from mariadb import MariadbServer
from postgres import PostgresServer
from redis_servers import RedisServer
from server import Server, eventually
from streams import Stream
from tokens import Token, TokenFile

READER, FOREIGN, ALL = Token("reader", ["read"], ("orders", "orders-*")), Token("pusher", ["push"]), Token("all")


@pytest.fixture(scope="module", params=["one shard", "two shards", "redis, two shards", "postgres", pytest.param("mariadb", marks=pytest.mark.thorough("needs MariaDB"))])
def house(request, tmp_path_factory):
    """A server that delivers, for all tests of this file."""
    directory = tmp_path_factory.mktemp("events")
    kind = request.param.split(",")[0]
    with {"redis": RedisServer, "postgres": lambda: PostgresServer("fsync=off"), "mariadb": MariadbServer}.get(kind, contextlib.nullcontext)() as shared:
        shards = ["--shards", "1" if "one" in kind else "2"]
        database = lambda: ["--store", shared.url, "--migrate"]
        store = {"redis": lambda: ["--store", shared.url, *shards], "postgres": database, "mariadb": database}.get(
            kind, lambda: [*FLAGS[:2], "--wal-file", "16MiB", *shards])()
        server = Server(directory / "server", [*store, "--deliver", write_policy(directory / "policy")])
        server.reports_due = kind not in ("postgres", "mariadb")
        server.start()
        yield server
        assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-4000:]


def listen(server, *topics, event=None, **options):
    query = [f"topic={topic}" for topic in topics] + ([f"event={event}"] if event else [])
    return Stream(server.port, "/v1/events?" + "&".join(query), **options)


def kinds(events):
    return [event for event, _ in events]


def with_due(house, expected):
    """Returns the expected events; a database reports no event when a job falls due."""
    return [kind for kind in expected if house.reports_due or kind != "due"]


def of(events, kind):
    return next(data for event, data in events if event == kind)


def by_job(events):
    """The events of each job come in their order; those of several shards in any."""
    answer = {}
    for event, data in events:
        answer.setdefault((data["topic"], data["id"]), []).append(event)
    return answer


def test_a_job_from_push_to_ack(house):
    client = house.client()
    with listen(house, "ack") as stream:
        pushed = client.push("ack", "a", delay="1h")
        client.push("ack", "a", delay="60ms")
        job = client.take("ack", wait="10s")[0]
        client.extend(job["lease"], lease_for="5m")
        client.ack(job["lease"])
        events = stream.until(lambda event, _: event == "acked")
    assert kinds(events) == with_due(house, ["pushed", "replaced", "due", "delivered", "extended", "acked"])
    assert all((data["topic"], data["id"]) == ("ack", "a") for _, data in events)
    assert of(events, "pushed")["due_at"] == pushed["due_at"] and "attempt" not in of(events, "pushed")
    assert of(events, "delivered") == {**of(events, "delivered"), "attempt": 1, "way": "take", "lease_until": job["lease_until"]}
    assert of(events, "extended")["lease_until"] > job["lease_until"] and of(events, "acked")["attempt"] == 1
    if house.reports_due:
        assert of(events, "due")["due_at"] <= of(events, "due")["at"] <= of(events, "delivered")["at"]
    assert of(events, "delivered")["due_at"] <= of(events, "delivered")["at"] <= of(events, "acked")["at"]


def test_a_job_that_fails(house):
    client = house.client()
    client.good("PUT", "/v1/topics/fail?max_attempts=2&backoff=fixed:10ms&lease_for=100ms")
    with listen(house, "fail") as stream:
        client.push("fail", "a")
        client.nack(client.take("fail", wait="10s", lease_for="1h")[0]["lease"], error="no luck")
        client.take("fail", wait="10s")
        stream_events = stream.until(lambda event, _: event == "dead")
        client.good("POST", "/v1/topics/fail/redrive?id=a")
        client.cancel("fail", "a")
        stream_events += stream.until(lambda event, _: event == "cancelled")
    stream_events = [(event, data) for event, data in stream_events if event != "settings"]  # its message may still have been on its way
    assert kinds(stream_events) == with_due(house, ["pushed", "delivered", "nacked", "due", "delivered", "lease_ended", "dead", "redriven", "cancelled"])
    assert all((data["topic"], data["id"]) == ("fail", "a") for _, data in stream_events)
    assert (of(stream_events, "nacked")["error"], of(stream_events, "nacked")["attempt"]) == ("no luck", 1)
    assert (of(stream_events, "lease_ended")["attempt"], of(stream_events, "dead")["attempt"], of(stream_events, "dead")["error"]) == (2, 2, "lease ended")


def test_the_start_of_a_successor_is_reported(house):
    client = house.client()
    with listen(house, "next") as stream:
        client.push("next", "a")
        for end in ("ack", "nack", "return", None):
            (job,) = client.take("next", max=1, wait="5s", lease_for="1s" if not end else "1h")
            client.call("PUT", "/v1/topics/next/jobs/a?on_conflict=after", b"newer")
            if end:
                client.answer(end, [job["lease"]])
            last = {"ack": "pushed", None: "replaced"}.get(end, "replaced")
            events = [(event, data) for event, data in stream.until(lambda event, _: event == last) if event not in ("settings", "due")]
            if end == "ack":
                events += [(event, data) for event, data in stream.until(lambda event, _: event == "pushed") if event not in ("settings", "due")]
            ended = {"ack": "acked", "nack": "nacked", "return": "returned", None: "lease_ended"}[end]
            first = ["pushed"] if end == "ack" else []
            assert kinds(events) == [*first, "delivered", ended, last], end
            assert events[-2][1]["attempt"] == 1 and "attempt" not in events[-1][1] and events[-1][1]["due_at"]
            assert end == "return" or "due_at" not in events[-2][1]


def test_changes_and_expiry(house):
    client = house.client()
    with listen(house, "change") as stream:
        client.push("change", "a", delay="1h")
        client.reschedule("change", "a", delay="2h")
        client.run("change", "a")
        events = stream.until(lambda event, _: event == "run")
        client.push("change", "b", ttl="50ms")
        events += stream.until(lambda event, _: event == "expired")
    assert [(event, data["id"]) for event, data in events] == [("pushed", "a"), ("rescheduled", "a"), ("run", "a"), ("pushed", "b"), ("expired", "b")]
    assert of(events, "run")["due_at"] < of(events, "rescheduled")["due_at"]


def test_topics(house):
    client = house.client()
    with listen(house, "whole", event="settings,paused,resumed,redriven,purged,deleted") as stream:
        client.good("PUT", "/v1/topics/whole?max_attempts=1")
        for n in range(4):
            client.push("whole", str(n))
        for job in client.take("whole", max=4):
            client.nack(job["lease"])
        client.good("POST", "/v1/topics/whole/pause")
        client.good("POST", "/v1/topics/whole/resume")
        client.good("POST", "/v1/topics/whole/redrive")
        client.good("POST", "/v1/topics/whole/purge")
        client.good("DELETE", "/v1/topics/whole")
        answer, jobs = {}, {"redriven": 0, "purged": 0}
        while "deleted" not in answer or set(jobs.values()) != {4}:  # each shard reports its own jobs
            event, data = stream.next()
            answer[event] = answer.get(event, 0) + 1
            if event in jobs:
                jobs[event] += data["count"]
            assert data["topic"] == "whole" and "id" not in data, (event, data)
    assert [answer[kind] for kind in ("settings", "paused", "resumed", "deleted")] == [1, 1, 1, 1], answer


def test_deliveries_have_their_way(house):
    client = house.client()
    endpoint = Endpoint().start()
    try:
        settle(client, "sent", deliver={"to": endpoint.url})
        with listen(house, "sent") as stream:
            client.push("sent", "a")
            events = stream.until(lambda event, _: event == "acked")
        seen = [kind for kind in kinds(events) if kind != "settings"]  # that of another shard may come late
        assert seen == ["pushed", "delivered", "acked"] and of(events, "delivered")["way"] == "callback"
    finally:
        endpoint.stop()


def test_unrequested_events_do_not_arrive(house):
    client = house.client()
    with listen(house, "one", "two", event="dead,cancelled") as some, listen(house) as every:
        for topic in ("one", "three", "two"):
            client.push(topic, "a", delay="1h")
            client.cancel(topic, "a")
        assert by_job(some.next() for _ in range(2)) == {("one", "a"): ["cancelled"], ("two", "a"): ["cancelled"]}
        assert by_job(every.next() for _ in range(6)) == {(topic, "a"): ["pushed", "cancelled"] for topic in ("one", "two", "three")}


@pytest.mark.parametrize("query, code", [("event=pushed,sneezed", "bad_option"), ("event=", "bad_option"), ("topic=a%00", "bad_topic"), ("topics=a", "unknown_option"),
                                         ("&".join(f"topic=t{n}" for n in range(65)), "too_many_items")])
def test_invalid_requests_are_rejected(house, query, code):
    with pytest.raises(Refused) as refused:
        Stream(house.port, "/v1/events?" + query)
    assert refused.value.code == code


def test_events_beyond_the_buffer_are_reported_as_a_gap(house):
    """A burst: sent and lost events add up to all events, and later ones are sent again."""
    client = house.client()
    with listen(house, "burst", event="pushed") as stream:
        pushed = 0
        for _ in range(30):
            pushed += len(client.push_batch([{"topic": "burst", "body": "x", "delay": "1h"}] * 1000))
        reported = lost = 0
        limit = time.monotonic() + 20
        while reported + lost < pushed and time.monotonic() < limit:
            event, data = stream.next()
            reported, lost = reported + (event == "pushed"), lost + (data["lost"] if event == "gap" else 0)
        assert reported + lost == pushed and reported > 0, (reported, lost)
        client.push("burst", "last", delay="1h")
        assert stream.until(lambda event, data: data.get("id") == "last")
    client.good("DELETE", "/v1/topics/burst")


def test_a_stream_that_goes_is_forgotten(house):
    client = house.client()
    for _ in range(80):  # more than may be open at a time
        eventually(lambda: listen(house, "gone").close() or True, 10)
    client.push("gone", "a")


def test_events_need_rights_to_their_topic(tmp_path, start_server):
    tokens = TokenFile(tmp_path / "tokens", READER, FOREIGN, ALL)
    server = start_server(*FLAGS, "--tokens", str(tokens.path))
    call = server.connection().call
    for token, query in ((READER, "topic=mail"), (READER, "topic=orders&topic=mail"), (FOREIGN, "topic=orders"), (FOREIGN, "")):
        with pytest.raises(Refused) as refused:
            Stream(server.port, "/v1/events?" + query, token.headers)
        assert refused.value.status == 403
    with pytest.raises(Refused) as refused:
        Stream(server.port, "/v1/events")
    assert refused.value.status == 401
    with Stream(server.port, "/v1/events", READER.headers) as own, Stream(server.port, "/v1/events", ALL.headers) as every:
        for topic in ("mail", "orders", "orders-x", "ordersx"):
            assert call("PUT", f"/v1/topics/{topic}/jobs/a?delay=1h", b"x", ALL.headers).ok
        assert [data["topic"] for _, data in own.until(lambda _, data: data["topic"] == "orders-x")] == ["orders", "orders-x"]
        assert [data["topic"] for _, data in every.until(lambda _, data: data["topic"] == "ordersx")] == ["mail", "orders", "orders-x", "ordersx"]
        tokens.write(FOREIGN, ALL)
        server.proc.send_signal(1)
        assert own.end() == []


def test_a_drain_ends_it(start_server):
    server = start_server()
    with listen(server, "t") as stream:
        server.client().push("t", "a")
        assert stream.next()[0] == "pushed"
        assert server.terminate() == 0
        assert stream.end() == [] and stream.retry_ms == 1000


def test_events_of_cold_jobs_have_their_ids(start_server):
    """Jobs that were only in runs: the id is read from there."""
    server = start_server("--sync", "never", "--shards", "1", "--wal-file", "4MiB")
    client = server.client()
    client.push("cold", "first", b"x" * 1000, delay="1h")
    while int(metric(client, "tarry_store_checkpoints_total", 0)) < 2:
        client.push_batch([{"topic": "filler", "body": "y" * 2000, "delay": "1h"}] * 200)
    with listen(server, "cold") as stream:
        client.run("cold", "first")
        job = client.take("cold", wait="10s")[0]
        client.ack(job["lease"])
        events = stream.until(lambda event, _: event == "acked")
    assert [(event, data["id"]) for event, data in events] == [("run", "first"), ("delivered", "first"), ("acked", "first")]


def test_on_redis_events_of_other_servers_arrive(start_server):
    with RedisServer() as redis:
        here, other = (start_server("--store", redis.url, "--shards", "2") for _ in range(2))
        client = other.client()
        with listen(here, "shared") as stream:
            eventually(lambda: len(redis.client().keys("*:listened")) == 2, 20)  # both shards have the listener
            client.push("shared", "a", delay="50ms")
            client.ack(client.take("shared", wait="10s")[0]["lease"])
            events = stream.until(lambda event, _: event == "acked")
            assert kinds(events) == ["pushed", "due", "delivered", "acked"] and of(events, "delivered")["way"] == "take"
            redis.client().client_kill_filter(_type="pubsub", skipme=False)
            events = stream.until(lambda event, _: event == "gap")
            eventually(lambda: client.push("shared", "b", delay="1h") and stream.next(1)[1].get("id") == "b", 20)
        # The last listener has gone: soon no event is sent.
        eventually(lambda: not redis.client().keys("*:listened"), 20)


def cpu_seconds(server):
    """Returns the CPU time of the server, all threads."""
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in pathlib.Path(f"/proc/{server.proc.pid}/task").glob("*/schedstat")) / 1e9


def lateness_of(server, ends):
    """Milliseconds by which jobs come late to a take that waits, one after the other: the least. For a thread of its own."""
    client, late = server.client(), []
    while not ends.is_set() or not late:
        client.push("late", "a", delay="30ms")
        job = client.take("late", wait="10s")[0]
        due = datetime.datetime.fromisoformat(job["due_at"].replace("Z", "+00:00"))
        late.append((datetime.datetime.now(datetime.timezone.utc) - due).total_seconds() * 1000)
        client.ack(job["lease"])
    return min(late)


def load_of(server, client, topic, pushes):
    """The cost of pushes: seconds of processor for all of them, and by the clock; and the lateness of jobs meanwhile."""
    ends = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as beside:
        late = beside.submit(lateness_of, server, ends)
        used, began = cpu_seconds(server), time.monotonic()
        for _ in range(pushes // 500):
            client.push_batch([{"topic": topic, "body": "x", "delay": "1h"}] * 500)
        used, took = cpu_seconds(server) - used, time.monotonic() - began
        ends.set()
        return used, took, late.result()


def test_streams_that_never_read_do_not_slow_the_queue(start_server):
    """Alternates between 64 listeners and none. They cost a small part of a processor, however many events there are; jobs come as punctually, and memory
    comes back. Measured by the processor's time, because other programs may run on this machine."""
    server = start_server("--sync", "never", "--shards", "1")
    client = server.client()
    load_of(server, client, "warm", 10_000)
    used, took, late = {0: [], 64: []}, {0: [], 64: []}, {0: [], 64: []}
    for round_ in range(3):
        for count in (0, 64) if round_ % 2 else (64, 0):
            streams = [listen(server) for _ in range(count)]
            for into, what in zip((used, took, late), load_of(server, client, f"t{round_}", 60_000)):
                into[count].append(what)
            for stream in streams:
                stream.close()
    share = (min(used[64]) - min(used[0])) / took[64][used[64].index(min(used[64]))]
    print(f"{min(used[0]):.2f} s of processor for 60,000 pushes, with 64 streams {min(used[64]):.2f}: {share:.1%} of one; late {min(late[0]):.1f} ms and {min(late[64]):.1f} ms")
    assert share < 0.3, (used, took)
    assert min(late[64]) < min(late[0]) + 10, late
    assert client.good("GET", "/v1/info")["memory_bytes"] < 1 << 20


def metric(client, name, otherwise):
    for line in client.call("GET", "/metrics").body.decode().splitlines():
        if line.split("{")[0].split(" ")[0] == name:
            return line.rsplit(" ", 1)[1]
    return otherwise
