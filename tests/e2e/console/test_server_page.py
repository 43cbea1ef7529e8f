"""The server's description of itself: GET /v1/server and GET /v1/log. Names and figures, no secrets."""

import json
import re
import socket
import time

import pytest
from client import Connection, Refused
from conftest import FLAGS
from redis_servers import RedisServer
from server import Server, eventually, slack
from tokens import Token, TokenFile

HOSTILE = "<script>alert(1)</script>\x1b[31m\"}],\u202e"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens, one of them for a few topics."""
    directory = tmp_path_factory.mktemp("guarded")
    tokens = [Token("all"), Token("some", ["read"], ["orders"]), Token("writer", ["push"])]
    file = TokenFile(directory / "tokens", *tokens)
    server = Server(directory / "server", (*FLAGS, "--tokens", str(file.path), "--log-level", "debug")).start()
    server.all, server.some, server.writer = tokens
    yield server
    assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-4000:]


def ask(server, path, token, code=200):
    reply = Connection(server.port).call("GET", path, b"", token.headers if token else {})
    assert reply.status == code, reply.body
    return reply.json()


@pytest.mark.plain("it has tokens of its own")
def test_a_server_describes_itself(guarded):
    answer = ask(guarded, "/v1/server", guarded.all)
    assert answer["store"] == "embedded" and answer["durability_class"] == "always" and answer["healthy"] and answer["accepting"] and answer["uptime_ms"] >= 0
    shard, = answer["shards"]
    assert shard["shard"] == 0 and shard["bytes_on_disk"] >= shard["log_bytes"] > 0 and shard["checkpoints_failed"] == 0 and shard["last_checkpoint_at"] is None
    assert answer["disk"]["bytes_used"] == shard["bytes_on_disk"] and answer["disk"]["bytes_free"] > 0
    assert answer["memory"]["request_max_bytes"] > answer["memory"]["request_bytes"] and answer["memory"]["spent"] is False
    listener, = answer["connections"]
    assert listener["open"] >= 1 and listener["accepted"] >= listener["open"] and listener["listener"].endswith(f":{guarded.port}")
    assert answer["waiting_takes"] == 0 and set(answer["clock"]) == {"steps", "last_step_at", "last_step_ms"}


@pytest.mark.plain("it has tokens of its own")
def test_tokens_are_names_and_rights_and_no_secrets(guarded):
    ask(guarded, "/v1/topics", guarded.some)
    reply = Connection(guarded.port).call("GET", "/v1/server", b"", guarded.all.headers)
    tokens = reply.json()["tokens"]
    assert tokens["count"] == 3 and [one["name"] for one in tokens["list"]] == ["all", "some", "writer"]
    assert [one["last_used_at"] is None for one in tokens["list"]] == [False, False, True]
    assert tokens["list"][1]["scopes"] == ["read"] and tokens["list"][1]["topics"] == ["orders"] and tokens["list"][1]["kind"] == "token"
    lines = Connection(guarded.port).call("GET", "/v1/log?limit=1000", b"", guarded.all.headers)
    for body in (reply.body.decode(), lines.body.decode()):
        for token in (guarded.all, guarded.some, guarded.writer):
            for secret in (token.headers["Authorization"].split()[1], *re.findall(r"sha256=(\w+)", (guarded.directory.parent / "tokens").read_text())):
                assert secret[8:] not in body


@pytest.mark.plain("it has tokens of its own")
def test_each_call_on_a_kept_connection_is_a_use_of_the_token(guarded):
    def used():
        return next(one["last_used_at"] for one in ask(guarded, "/v1/server", guarded.all)["tokens"]["list"] if one["name"] == "some")

    connection = Connection(guarded.port)
    assert connection.call("GET", "/v1/topics", b"", guarded.some.headers).status == 200
    first = used()
    time.sleep(2.1)
    assert used() == first
    assert connection.call("GET", "/v1/topics", b"", guarded.some.headers).status == 200
    assert used() > first


@pytest.mark.plain("it has tokens of its own")
@pytest.mark.parametrize("path", ["/v1/server", "/v1/log"])
def test_server_and_log_need_rights_to_all_topics(guarded, path):
    ask(guarded, path, guarded.some, 403)
    ask(guarded, path, guarded.writer, 403)
    ask(guarded, path, None, 401)


def test_limits_that_were_met_are_counted_by_name(start_server):
    server = start_server(*FLAGS, "--max-body", "1KiB", "--max-topics", "3")
    client = server.client()
    assert client.good("GET", "/v1/server")["limits_met"] == []
    client.put_topic("small", max_jobs=1, push_rate="1000/h")
    client.push("small", "a", delay="1h")
    for call in (lambda: client.push("small", "b"), lambda: client.push("t", "b", b"x" * 1025), lambda: client.push("t", "b", b"x" * 2048)):
        with pytest.raises(Refused):
            call()
    client.push_batch([{"topic": "small"}, {"topic": "t", "body": "x" * 2000}])
    assert client.call("POST", "/v1/topics/t/cancel", json.dumps({"ids": ["a"] * 1001}).encode()).status == 413
    assert client.call("GET", "/" + "x" * 9000).status == 414
    for n in range(4):
        client.call("PUT", f"/v1/topics/more{n}", b"{}")
    met = {one["limit"]: one["count"] for one in client.good("GET", "/v1/server")["limits_met"]}
    assert met == {"max_jobs": 2, "max-body": 3, "items": 1, "request-line": 1, "max-topics": 2}
    page = client.call("GET", "/metrics").body.decode()
    assert 'tarry_limits_met_total{limit="max-body"} 3\n' in page and 'tarry_limits_met_total{limit="streams"} 0\n' in page


def test_connections_are_counted_by_listener(start_server, tmp_path):
    path = tmp_path / "sock"
    server = start_server(*FLAGS, "--listen", f"unix:{path}")
    client = server.client()

    def open_at_unix():
        answer = client.good("GET", "/v1/server")["connections"]
        return next(one for one in answer if one["listener"] == f"unix:{path}")["open"]

    assert open_at_unix() == 0
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for one in sockets:
        one.connect(str(path))
    eventually(lambda: open_at_unix() == 3)
    for one in sockets:
        one.close()
    eventually(lambda: open_at_unix() == 0)


def test_the_log_continues_after_a_given_line(start_server):
    server = start_server(*FLAGS)
    client = server.client()
    first = client.good("GET", "/v1/log")
    assert first["lost"] == 0 and [line["event"] for line in first["lines"]][-1:] == ["listening"]
    assert client.good("GET", f"/v1/log?cursor={first['cursor']}") == {"lines": [], "lost": 0, "cursor": first["cursor"]}
    for n in range(30):
        client.put_topic(f"t{n}", max_attempts=3)
    notifications = client.good("GET", f"/v1/log?cursor={first['cursor']}&limit=7")
    assert [line["fields"]["topic"] for line in notifications["lines"]] == [f"t{n}" for n in range(7)]
    assert client.good("GET", f"/v1/log?cursor={notifications['cursor']}&limit=1")["lines"][0]["fields"]["topic"] == "t7"
    assert [line["fields"]["topic"] for line in client.good("GET", "/v1/log?limit=2")["lines"]] == ["t28", "t29"]
    for line in notifications["lines"]:
        assert line["level"] == "info" and line["event"] == "audit" and line["at"].endswith("Z") and line["fields"]["outcome"] == "ok"
    written = server.log().splitlines()
    assert len(client.good("GET", "/v1/log?limit=1000")["lines"]) == len(written), "no more and no less than in the log"
    for cursor in ("x", "-1", "1e3", "99999999999999999999"):
        with pytest.raises(Refused, match="bad_cursor"):
            client.good("GET", f"/v1/log?cursor={cursor}")


def test_an_overlong_log_reports_the_lost_lines(start_server):
    server = start_server(*FLAGS)
    client = server.client()
    cursor = client.good("GET", "/v1/log")["cursor"]
    for n in range(1100):
        client.call("PUT", f"/v1/topics/none{n}", b"{}", {"Content-Type": "application/json"})
    answer = client.good("GET", f"/v1/log?cursor={cursor}&limit=1000")
    assert answer["lost"] == 100 and len(answer["lines"]) == 1000 and answer["lines"][0]["fields"]["topic"] == "none100"


def test_hostile_texts_are_data_in_the_log(start_server):
    server = start_server(*FLAGS)
    client = server.client()
    client.call("DELETE", "/v1/topics/" + "".join(f"%{byte:02x}" for byte in HOSTILE.encode()))
    lines = client.good("GET", "/v1/log")["lines"]
    assert any(HOSTILE.split("\x1b")[0] in str(line["fields"].get("topic")) for line in lines), lines[-2:]


def test_redis_shards_are_listed(start_server, start_redis):
    redis = start_redis()
    server = start_server("--store", redis.url, "--shards", "2")
    client = server.client()
    client.push("t", "a")
    answer = client.good("GET", "/v1/server")
    assert answer["store"] == "redis" and answer["disk"] is None and [one["shard"] for one in answer["shards"]] == [0, 1]
    for shard in answer["shards"]:
        assert shard["master"] == f"127.0.0.1:{redis.port}" and shard["connected"] and shard["round_trip_us"] > 0 and shard["reconnects"] == 0
    redis.kill()
    eventually(lambda: not any(one["connected"] for one in client.good("GET", "/v1/server")["shards"]))
    assert client.good("GET", "/v1/log?limit=5")["lines"], "the page is there while Redis is not"


def test_the_disk_forecast_grows_with_writes(start_server):
    """The first samples are a minute apart: here the growth is still unknown; test_disk_growth.c tests the arithmetic."""
    client = start_server(*FLAGS).client()
    begun = time.monotonic()
    disk = client.good("GET", "/v1/server")["disk"]
    assert time.monotonic() - begun < slack() and disk["bytes_per_hour"] is None and disk["full_at"] is None
