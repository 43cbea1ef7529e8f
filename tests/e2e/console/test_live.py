"""GET /v1/live: what happens, once a second, to who listens."""

import json
import re
import time

import doors
import pytest
import yaml
from certificates import Authority
from client import Connection, request_bytes
from conftest import FLAGS
from fake_clock import FakeClock, fake_time_library
from server import REPO, Server, eventually, free_port, slack
from streams import Stream
from tokens import Token, TokenFile

SCHEMAS = yaml.safe_load((REPO / "openapi.yaml").read_text(encoding="utf-8"))["components"]["schemas"]
RATES = {"pushed_per_s", "delivered_per_s", "acked_per_s", "nacked_per_s", "died_per_s", "cancelled_per_s", "expired_per_s"}


def test_an_overview_begins_with_history_and_continues_each_second(server):
    client = server.client()
    client.push("far", "a", delay="1h")
    with Stream(server.port, "/v1/live") as live:
        name, history = live.next()
        assert name == "history" and history["interval_ms"] == 5000 and isinstance(history["points"], list)
        first = live.data("snapshot")
        assert set(first) == {"at", "status", "totals", "rates", "lateness", "oldest_ready_age_ms", "waiting_takes", "connections", "topics", "topics_left_out"}
        assert first["totals"] == {"delayed": 1, "retrying": 0, "ready": 0, "leased": 0, "dead": 0, "topics": 1}
        assert set(first["rates"]) == set(first["topics"][0]["rates"]) == RATES and first["status"]["well"]
        live.data("snapshot")
        began = time.monotonic()
        for n in range(10):
            client.push("busy", f"j{n}")
        for job in client.take("busy", max=4):
            client.ack(job["lease"])
        seen = live.data("snapshot", lambda data: data["totals"]["ready"] == 6)
        busy, far = seen["topics"]
        assert busy["topic"] == "busy" and busy["counts"]["ready"] == 6 and far["topic"] == "far", "the busiest first"
        assert seen["rates"]["pushed_per_s"] > 1 and busy["oldest_ready_age_ms"] is not None
        assert time.monotonic() - began < 4 * slack()


KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict, "null": type(None)}


def check(schema, value, place="data"):
    """The value has exactly the members and types of the schema."""
    if reference := schema.get("$ref"):
        return check(SCHEMAS[reference.rsplit("/", 1)[1]], value, place)
    if choices := schema.get("oneOf"):
        return None if value is None and {"type": "null"} in choices else check(choices[0], value, place)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or any(isinstance(value, KINDS[kind]) for kind in kinds), (place, value)
    for name in schema.get("required", []) if isinstance(value, dict) else []:
        assert name in value, (place, name)
    if isinstance(value, dict) and "properties" in schema:
        unknown = set(value) - set(schema["properties"])
        assert not unknown or schema.get("additionalProperties") is not False, (place, unknown)
        for name, member in value.items():
            check(schema["properties"].get(name, {}), member, f"{place}.{name}")
    for item in value if isinstance(value, list) else []:
        check(schema["items"], item, f"{place}[]")
    return None


def test_events_have_the_schemas_of_the_description(server):
    client = server.client()
    client.push("far", "a", delay="1h")
    client.push("near", "a")
    client.take("near")
    with Stream(server.port, "/v1/live") as live:
        check({"$ref": "x/live_history"}, live.data("history"))
        check({"$ref": "x/live_overview"}, live.data("snapshot", lambda data: data["topics"]))
    for topic in ("far", "none"):
        with Stream(server.port, f"/v1/live?view=topic&topic={topic}") as live:
            check({"$ref": "x/live_topic"}, live.data("snapshot"))
    check({"$ref": "x/info"}, client.good("GET", "/v1/info"))


def test_rates_add_up_to_the_number_of_events(server):
    client = server.client()
    with Stream(server.port, "/v1/live?view=overview") as live:
        last, pushed = live.data("snapshot")["at"], 0.0
        for n in range(50):
            client.push("counted", f"j{n}", delay="1h")
        while round(pushed) < 50:
            data = live.data("snapshot")
            pushed += data["rates"]["pushed_per_s"] * (stamp(data["at"]) - stamp(last))
            last = data["at"]
        assert pushed == pytest.approx(50, abs=2)


def stamp(text):
    clock = text[11:23].split(":")
    return int(clock[0]) * 3600 + int(clock[1]) * 60 + float(clock[2])


def test_all_listeners_get_the_same(server):
    """The server takes one sample a second for any number of listeners: they get the same samples."""
    server.client().push("a", "a", delay="1h")
    streams = [Stream(server.port, "/v1/live") for _ in range(8)]
    received = []
    for stream in streams:
        stream.data("snapshot")
    for stream in streams:
        received.append([stream.data("snapshot")["at"] for _ in range(3)])
        stream.close()
    moments = set(received[0])
    for other in received[1:]:
        assert len(moments & set(other)) >= 2, received
    assert len(set().union(*received)) <= 6


@pytest.mark.shards
def test_each_thread_reports_the_whole_server(start_server):
    server = start_server("--sync", "never", "--shards", "3")
    server.client().push_batch([{"topic": f"t{n}", "id": str(i), "body": "x"} for n in range(4) for i in range(30)])
    streams = [Stream(server.port, f"/v1/live{view}") for view in ("", "?view=topic&topic=t1", "?view=server") * 4]
    for number, stream in enumerate(streams):
        seen = [stream.data("snapshot") for _ in range(2)][1]
        if number % 3 == 0:
            assert seen["totals"]["ready"] == 120 and len(seen["topics"]) == 4
        elif number % 3 == 1:
            assert seen["topic"]["counts"]["ready"] == 30
        assert server.client().good("GET", "/v1/status")["sentence"] == "all is well: 4 topics, 120 jobs"
    for stream in streams[::2]:
        stream.close()
    assert server.terminate() == 0


def test_the_view_of_a_topic_has_its_settings_or_reports_it_missing(server):
    client = server.client()
    with Stream(server.port, "/v1/live?view=topic&topic=shop") as live:
        assert live.next()[1]["topic"] is None
        client.put_topic("shop", max_attempts=3)
        client.push("shop", "a")
        seen = live.data("snapshot", lambda data: data["topic"] and data["topic"]["counts"]["ready"])
        assert seen["topic"]["topic"] == "shop" and seen["topic"]["settings"]["max_attempts"] == 3 and not seen["topic"]["paused"]
        client.good("POST", "/v1/topics/shop/pause")
        live.data("snapshot", lambda data: data["topic"]["paused"] and data["topic"]["paused_until"] is None)
        until = client.good("POST", "/v1/topics/shop/pause?for=1h")["paused_until"]
        live.data("snapshot", lambda data: data["topic"]["paused_until"] == until)
        client.good("DELETE", "/v1/topics/shop")
        live.data("snapshot", lambda data: data["topic"] is None)


def test_the_view_of_the_server_has_its_log(server):
    with Stream(server.port, "/v1/live?view=server") as live:
        name, first = live.next()
        assert name == "snapshot" and set(server.client().good("GET", "/v1/server")) < set(first)
        assert any(line["event"] == "listening" for line in first["log"])
        server.client().good("PUT", "/v1/topics/made")
        reported = live.data("snapshot", lambda data: data["log"])
        assert [line["event"] for line in reported["log"]] == ["audit"] and reported["at"] > first["at"]


@pytest.mark.parametrize("target, code", [("?view=all", "bad_option"), ("?view=topic", "option_missing"), ("?topic=a", "option_clash"), ("?view=topic&topic=.a", "bad_option"),
                                          ("?view=topic&topic=a&topic=b", "option_missing"), ("?limit=3", "unknown_option")])
def test_an_unknown_view_is_rejected(client, target, code):
    reply = client.call("GET", "/v1/live" + target)
    assert (reply.status, reply.code) == (400, code)


def test_only_the_busiest_topics_are_listed(server):
    client = server.client()
    client.push_batch([{"topic": f"t{n:03}", "id": str(i), "delay": "1h", "body": "x"} for n in range(60) for i in range(1 + n % 3)])
    client.close()
    time.sleep(0.1)
    with Stream(server.port, "/v1/live") as live:
        seen = live.data("snapshot", lambda data: data["rates"]["pushed_per_s"] == 0)
    assert len(seen["topics"]) == 50 and seen["topics_left_out"] == 10 and seen["totals"] == {"delayed": 120, "retrying": 0, "ready": 0, "leased": 0, "dead": 0, "topics": 60}
    jobs = [topic["counts"]["delayed"] for topic in seen["topics"]]
    assert jobs == sorted(jobs, reverse=True)


def test_the_history_includes_the_time_without_listeners(start_server, tmp_path):
    clock = FakeClock(tmp_path / "clock")
    server = start_server(*FLAGS, env=clock.env(fake_time_library(tmp_path)))
    client = server.client()
    for n in range(20):
        client.push("past", f"j{n}")
        clock.sleep(2)
        time.sleep(0.01)
    points = eventually(lambda: history_of(server))
    assert len(points) >= 5 and [point["ready"] for point in points] == sorted(point["ready"] for point in points)
    assert all(0.3 <= point["pushed_per_s"] <= 0.8 for point in points[1:-1]), points
    clock.sleep(700)
    assert history_of(server) == []


def history_of(server):
    with Stream(server.port, "/v1/live") as live:
        return live.data("history")["points"]


def test_a_stop_does_not_wait_for_listeners(start_server):
    server = start_server(*FLAGS, "--grace", "30s")
    streams = [Stream(server.port, "/v1/live") for _ in range(3)]
    for stream in streams:
        stream.data("snapshot")
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 5 * slack()
    for stream in streams:
        stream.end()
        assert stream.retry_ms == 1000


def test_without_listeners_no_work_is_done(server):
    server.client().push("a", "a", delay="1h")
    with Stream(server.port, "/v1/live") as live:
        live.data("snapshot")
        before = server.switches()
        live.data("snapshot")
        assert server.switches() > before
    time.sleep(1.2)
    before = server.switches()
    time.sleep(1.5)
    assert server.switches() - before <= (6 if doors.ON else 1)


def test_head_opens_no_stream(server):
    connection = server.connection()
    connection.send(b"HEAD /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    reply = connection.read("HEAD")
    assert reply.headers["content-type"] == "text/event-stream" and connection.at_end()


# ---- with tokens, over TLS ----


class House:
    def __init__(self, directory):
        self.authority = Authority(directory)
        self.authority.sign("server")
        self.every, self.own = Token("every"), Token("own", ["read"], ["orders-*"])
        self.tokens = TokenFile(directory / "tokens", self.every, self.own)
        self.tls_port = free_port()
        self.server = Server(directory / "server", [*FLAGS, "--tokens", str(self.tokens.path), "--tls-cert", str(self.authority.certificate("server")),
                                                    "--tls-key", str(self.authority.key("server")), "--listen", f"127.0.0.1:{self.tls_port},tls,require-token"])
        self.server.start()

    def connection(self):
        connection = Connection(self.tls_port)
        connection.socket = self.authority.context().wrap_socket(connection.socket, server_hostname="localhost")
        return connection

    def listen(self, token, target="/v1/live"):
        return Stream(self.connection(), target, token.headers)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    assert house.server.terminate() == 0 and not house.server.sanitizer_report(), house.server.log()[-4000:]


def test_each_caller_gets_only_its_topics_over_tls(house):
    for topic in ("orders-1", "mail"):
        house.connection().call("PUT", f"/v1/topics/{topic}/jobs/a?delay=1h", b"x", house.every.headers)
    with house.listen(house.every) as live:
        assert {topic["topic"] for topic in live.data("snapshot")["topics"]} == {"orders-1", "mail"}
    with house.listen(house.own) as live:
        assert live.data("history")["points"] == []
        for _ in range(2):
            seen = live.data("snapshot")
            assert [topic["topic"] for topic in seen["topics"]] == ["orders-1"] and seen["totals"]["topics"] == seen["totals"]["delayed"] == 1
            assert "mail" not in str(seen) and seen["lateness"] == {"p50_ms": None, "p99_ms": None, "count": 0}
    with house.listen(house.own, "/v1/live?view=topic&topic=orders-1") as live:
        assert live.data("snapshot")["topic"]["counts"]["delayed"] == 1
    for target in ("/v1/live?view=topic&topic=mail", "/v1/live?view=topic&topic=absent", "/v1/live?view=server"):
        assert house.connection().call("GET", target, b"", house.own.headers).status == 403
    assert house.connection().call("GET", "/v1/live").status == 401


def test_a_stream_ends_with_its_token(house):
    brief = Token("brief", ["read"])
    house.tokens.write(house.every, house.own, brief)
    eventually(lambda: house.connection().call("GET", "/v1/status", b"", brief.headers).ok)
    with house.listen(brief) as live, house.listen(house.every) as other:
        live.data("snapshot")
        house.tokens.write(house.every, house.own)
        began = time.monotonic()
        live.end()
        assert time.monotonic() - began < 8 * slack()
        other.data("snapshot")


def test_a_server_with_many_tokens_shows_as_many_as_fit(tmp_path, start_server):
    every = Token("every")
    many = [Token(f"of-a-long-name-{n}", ["read", "push"], ("orders-europe-*", "orders-america-*", "mail-*")) for n in range(600)]
    TokenFile(tmp_path / "tokens", every, *many)
    server = start_server("--sync", "never", "--shards", "1", "--tokens", str(tmp_path / "tokens"))
    with Stream(server.port, "/v1/live?view=server", headers=every.headers) as live:
        name, first = live.next()
        assert name == "snapshot" and first["tokens"]["count"] == 601 and 50 < len(first["tokens"]["list"]) < 601
    shown = server.client().call("GET", "/v1/server", headers=every.headers).json()["tokens"]
    assert shown["count"] == len(shown["list"]) == 601 and [token["name"] for token in shown["list"][:50]] == [token["name"] for token in first["tokens"]["list"][:50]]


def test_many_simultaneous_views_are_answered_over_several_iterations(tmp_path, start_server):
    """Each answer reads all topics: all of them together would block the loop."""
    every, some = Token("every"), Token("some", ["read"], ("t*",))
    TokenFile(tmp_path / "tokens", every, some)
    server = start_server("--sync", "never", "--shards", "1", "--tokens", str(tmp_path / "tokens"))
    client = server.client()
    for first in range(0, 5000, 50):  # short loop iterations
        items = [{"topic": f"t{n}", "id": "a", "delay": "1h"} for n in range(first, first + 50)]
        assert client.call("POST", "/v1/jobs", json.dumps(items).encode(), {**every.headers, "Content-Type": "application/json"}).json()["results"][-1]["result"] == "created"
    request = request_bytes("GET", "/v1/status", headers=some.headers)
    asking, first = [Connection(server.port, 30.0) for _ in range(20)], []
    for connection in asking:
        connection.send(request * 30)
    began = time.monotonic()
    for connection in asking:
        connection._more()
        first.append(time.monotonic() - began)
        while connection.pending.count(b"all is well: 5000 topics") < 30:
            connection._more()
        connection.close()
    took = time.monotonic() - began - first[0]
    longest = re.search(r"^tarry_loop_iteration_longest_seconds\S* (\S+)$", client.call("GET", "/metrics", headers=every.headers).body.decode(), re.MULTILINE)
    assert float(longest.group(1)) < took * 0.7, (longest.group(), took)  # in one loop iteration it would be as long as the whole
