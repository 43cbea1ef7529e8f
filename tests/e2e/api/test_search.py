"""A list that searches: by what the id begins with, by meta, by a part of the last error; on every store, whatever the texts hold."""

import contextlib
import json
import time

import pytest
from client import Connection, Refused, query, request_bytes
from redis_servers import RedisServer
from server import Server
from test_cli import OK, REFUSED
from test_dead_jobs import die

HOSTILE = ["<script>alert(1)</script>", "';DROP", '"}],"jobs":[', "%00%0a", "${x}", "{{x}}", "../../etc", "\\u0000", "&amp;", "a" * 128]


@pytest.fixture(scope="module", params=["one shard", "three shards", "redis"])
def any_server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("search")
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        store = ("--store", redis.url, "--shards", "2") if redis else ("--sync", "never", "--wal-file", "16MiB", "--shards", "3" if request.param.startswith("three") else "1")
        server = Server(directory / "server", store).start()
        yield server
        assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-4000:]


@pytest.fixture
def any_client(any_server):
    return any_server.client()


@pytest.fixture
def topic(request):
    return request.node.originalname[:100]


def search(client, topic, **options):
    """Reads all pages of a search, and counts its calls and the jobs it read."""
    found, cursor, seen, calls = [], None, 0, 0
    while True:
        page = client.list(topic, cursor=cursor, **options)
        assert len(page["jobs"]) <= options.get("limit", 100)
        found += page["jobs"]
        seen, calls, cursor = seen + page["seen"], calls + 1, page["cursor"]
        if not cursor:
            return [job["id"] for job in found], seen, calls


def test_a_search_finds_all_that_match_and_no_other(any_client, topic):
    client = any_client
    kinds = ("mail", "sms", "mail<b>", "")
    client.push_batch([{"topic": topic, "id": f"{'ab'[n % 2]}-{n:04}", "delay": f"{1000 + n}s", "meta": {"kind": kinds[n % 4], **({"late": "yes"} if n % 7 == 0 else {})}}
                       for n in range(900)])
    every = [f"{'ab'[n % 2]}-{n:04}" for n in range(900)]
    for options, wanted in (
            ({"id_prefix": "b-"}, every[1::2]), ({"id_prefix": "b-0123"}, ["b-0123"]), ({"id_prefix": "c"}, []), ({"id_prefix": "B-"}, []),
            ({"meta": "kind:mail"}, every[0::4]), ({"meta": "kind:mail<b>"}, every[2::4]), ({"meta": "late:"}, every[0::7]), ({"meta": "kind:"}, every),
            ({"meta": "kind:no"}, []), ({"meta": "no:"}, []), ({"meta": "late:yes", "id_prefix": "a-"}, every[0::14]),
            ({"meta": "late:", "state": "delayed"}, every[0::7]), ({"meta": "late:", "state": "dead"}, []), ({"error": "x"}, [])):
        for limit in (1000, 100, 33):
            found, seen, calls = search(client, topic, limit=limit, **options)
            assert found == wanted, (options, limit)
            assert seen == (0 if options.get("state") == "dead" else 900) and calls <= len(wanted) // limit + 1, (options, limit)


def test_a_page_ends_behind_its_last_job(any_client, topic):
    client = any_client
    client.push_batch([{"topic": topic, "id": f"{n:03}", "delay": f"{1000 + n}s", "meta": {"one": "1"} if n in (10, 11, 250) else {}} for n in range(300)])
    first = client.list(topic, meta="one:1", limit=2)
    assert ([job["id"] for job in first["jobs"]], first["seen"]) == (["010", "011"], 12)
    second = client.list(topic, meta="one:1", limit=2, cursor=first["cursor"])
    assert ([job["id"] for job in second["jobs"]], second["cursor"], second["seen"]) == (["250"], None, 288)
    plain = client.list(topic, cursor=first["cursor"], limit=1)
    assert plain["jobs"][0]["id"] == "012" and "seen" not in plain, "the cursor is a list's"


def test_dead_jobs_are_found_by_a_part_of_their_error(any_client, topic):
    errors = {"a": "connection refused", "b": "http 500 <img src=x onerror=alert(1)>", "c": "http 502", "d": "ünïcödé 100%"}
    die(any_client, topic, errors)
    any_client.push(topic, "e", delay="1h")
    for text, wanted in (("http", ["b", "c"]), ("<img src=x", ["b"]), ("ïcö", ["d"]), ("100%", ["d"]), ("refused", ["a"]), ("HTTP", [])):
        assert sorted(search(any_client, topic, error=text)[0]) == wanted, text
    job = any_client.list(topic, error="<img", body="true")["jobs"][0]
    assert job["last_error"] == errors["b"] and job["body"] == "" and job["history"][0]["error"] == errors["b"]


def test_hostile_ids_and_metas_are_found_unchanged(any_client, topic):
    for n, text in enumerate(HOSTILE):
        any_client.push(topic, text, json.dumps(text).encode(), "application/json", meta={"m": text}, delay=f"{n + 60}s")
    for text in HOSTILE:
        for options in ({"id_prefix": text}, {"meta": f"m:{text}"}):
            jobs = any_client.list(topic, body="true", **options)["jobs"]
            assert [(job["id"], job["meta"]["m"], job["body"]) for job in jobs] == [(text, text, text)]
    shown = any_client.list(topic, meta="m:", body="base64")["jobs"]
    assert len(shown) == len(HOSTILE) and all("body_base64" in job for job in shown)


def test_a_call_searches_ten_thousand_jobs_and_continues_at_its_cursor(any_client, topic):
    for first in range(0, 11000, 1000):
        any_client.push_batch([{"topic": topic, "id": f"x{n}", "delay": f"{100 + n}s"} for n in range(first, first + 1000)])
    any_client.push(topic, "last", delay="1d", meta={"found": "1"})
    page = any_client.list(topic, meta="found:1")
    assert (page["jobs"], page["seen"]) == ([], 10000) and page["cursor"]
    page = any_client.list(topic, meta="found:1", cursor=page["cursor"])
    assert ([job["id"] for job in page["jobs"]], page["seen"], page["cursor"]) == (["last"], 1001, None)
    # Others are not held up by searches that go on beside them.
    others = [Connection(any_client.port) for _ in range(3)]
    longest = 0
    for one in others:
        one.send(request_bytes("GET", f"/v1/topics/{topic}/jobs?meta=no:") * 3)
    for _ in range(50):
        begun = time.monotonic()
        any_client.good("GET", "/v1/info")
        longest = max(longest, time.monotonic() - begun)
    assert longest < 0.5
    others[0].close()  # its searches end with it
    for one in others[1:]:
        assert [one.read().json()["seen"] for _ in range(3)] == [10000] * 3
        one.close()
    assert any_client.list(topic, meta="found:", id_prefix="l")["seen"] == 10000


@pytest.mark.parametrize("options, code", [
    ({"meta": "kind"}, "bad_option"), ({"meta": ":x"}, "bad_option"), ({"meta": "Kind:x"}, "bad_option"), ({"meta": ""}, "bad_option"), ({"meta": "a b:x"}, "bad_option"),
    ({"meta": "a:" + "x" * 1100}, "bad_option"), ({"meta": ["a:1", "b:1"]}, "option_twice"), ({"error": ""}, "bad_option"), ({"id_prefix": ""}, "bad_option"),
    ({"id_prefix": "x" * 129}, "bad_option"), ({"id_prefix": "x", "cursor": "zz"}, "bad_cursor"), ({"id_prefix": "x", "cursor": "1" * 500}, "bad_cursor"),
    ({"id_prefix": "x", "limit": 0}, "bad_option")])
def test_invalid_searches_are_rejected(any_client, options, code):
    any_client.push("refused", "x", delay="1h")
    with pytest.raises(Refused, match=code):
        any_client.list("refused", **options)


def test_a_search_in_an_unknown_topic_is_reported(any_client):
    with pytest.raises(Refused, match="there is no topic"):
        any_client.list("nobody", meta="a:")


def test_the_command_line_searches(any_server, topic):
    any_client = any_server.client()
    any_client.push_batch([{"topic": topic, "id": f"a{n}", "delay": f"{1000 + n}s", "meta": {"kind": "mail"} if n == 7 else {}} for n in range(12)])

    def run(*arguments, code=OK):
        ended = any_server.cli("list", topic, *arguments)
        assert ended.returncode == code, ended
        return ended.stdout.decode() or ended.stderr.decode()

    lines = run("--meta", "kind:mail").splitlines()
    assert len(lines) == 2 and lines[1].startswith("a7 ")
    assert [job["id"] for job in json.loads(run("--id-prefix", "a1", "--json"))["jobs"]] == ["a1", "a10", "a11"]
    assert "a1" not in run("--error", "none")
    assert "NAME:VALUE" in run("--meta", "kind", code=REFUSED)


# ---- what dead jobs died of ----


def dead_errors(client, topic, **options):
    return client.good("GET", f"/v1/topics/{topic}/dead-errors" + query(options))


def test_dead_jobs_are_counted_by_their_error(any_client, topic):
    client = any_client
    hostile = "</script><b>&'\\\"\u202e" + "ü" * 40
    die(client, topic, {f"a{n}": "timed out" for n in range(30)} | {f"b{n}": hostile for n in range(20)} | {f"c{n}": f"http {500 + n}" for n in range(10)} | {"d": ""})
    client.push(topic, "alive", delay="1h")
    answer = dead_errors(client, topic)
    assert [(one["error"], one["count"]) for one in answer["errors"][:2]] == [("timed out", 30), (hostile, 20)]
    assert len(answer["errors"]) == 13 and (answer["seen"], answer["others"], answer["complete"]) == (61, 0, True)
    assert {one["error"] for one in answer["errors"]} >= {"", "http 509"}
    assert all(one["newest_at"] > "2020" for one in answer["errors"])
    few = dead_errors(client, topic, limit=2)
    assert (few["errors"], few["others"], few["seen"]) == (answer["errors"][:2], 11, 61)
    client.topic_verb(topic, "redrive", error="timed out")
    assert dead_errors(client, topic)["errors"][0]["error"] == hostile
    client.push("empty-" + topic, "a")
    assert dead_errors(client, "empty-" + topic) == {"errors": [], "others": 0, "seen": 0, "complete": True}
    with pytest.raises(Refused, match="not_found"):
        dead_errors(client, "nobody-died")


def test_ten_thousand_dead_jobs_are_looked_at_and_no_more(any_client, topic):
    client = any_client
    for first in range(0, 11000, 1000):  # 5,500 different errors
        client.push_batch([{"topic": topic, "id": f"d{n}", "state": "dead", "attempt": 1, "error": f"error {n // 2}"} for n in range(first, first + 1000)])
    answer = dead_errors(client, topic, limit=1000)
    assert (answer["seen"], answer["complete"], len(answer["errors"])) == (10000, False, 1000)
    assert sum(one["count"] for one in answer["errors"]) + answer["others"] == 10000 and answer["errors"][0]["newest_at"] is None
