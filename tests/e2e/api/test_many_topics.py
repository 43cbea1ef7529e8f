"""Very many topics: they are shown in pages, metrics stay small, and the command line follows the pages."""

import json
import re

import pytest

TOPICS = 2500


@pytest.fixture(params=["embedded", pytest.param("three shards", marks=pytest.mark.thorough("a minute with all stores")), pytest.param("redis", marks=pytest.mark.thorough("a minute with all stores"))])
def server(request, start_server):
    more = ("--max-topics", "100000", "--metrics-topics", "10")
    if request.param == "redis":
        return start_server("--store", request.getfixturevalue("start_redis")().url, *more)
    return start_server("--sync", "never", "--shards", "3" if request.param == "three shards" else "1", *more)


def fill(client, count=TOPICS):
    """topic-N has one job, the first twelve have N more."""
    items = [{"topic": f"topic-{n}", "id": f"{i}", "delay": "1h"} for n in range(count) for i in range(1 + (n if n < 12 else 0))]
    for at in range(0, len(items), 1000):
        assert {result["result"] for result in client.push_batch(items[at:at + 1000])} == {"created"}
    return sorted(f"topic-{n}" for n in range(count)), len(items)


def pages(client, limit=None):
    cursor, found = None, []
    while True:
        options = [f"limit={limit}"] * bool(limit) + [f"cursor={cursor}"] * bool(cursor)
        page = client.good("GET", "/v1/topics" + ("?" + "&".join(options) if options else ""))
        found.append([topic["topic"] for topic in page["topics"]])
        cursor = page["cursor"]
        if not cursor:
            return found


def samples(text, name):
    return {topic: float(value) for topic, value in re.findall(rf'^{name}{{topic="([^"]*)"[^}}]*}} (\S+)$', text, re.MULTILINE)}


def test_topics_come_in_pages_and_metrics_are_of_the_largest(server):
    client = server.client()
    assert client.good("GET", "/v1/topics") == {"topics": [], "cursor": None}
    names, jobs = fill(client)
    assert pages(client) == [names[:1000], names[1000:2000], names[2000:]]  # as a client gets them that gives no parameter
    assert sum(pages(client, 700), []) == names and [len(page) for page in pages(client, 700)] == [700, 700, 700, 400]
    assert [topic["topic"] for topic in client.good("GET", "/v1/topics?limit=1")["topics"]] == names[:1]
    assert [topic["topic"] for topic in client.good("GET", "/v1/topics?cursor=topic-2498a&limit=1")["topics"]] == ["topic-2499"]
    for query, code in (("limit=0", "bad_option"), ("limit=1001", "bad_option"), ("cursor=a%20b", "bad_cursor"), ("cursor=", "bad_option"), ("state=dead", "unknown_option")):
        assert client.call("GET", f"/v1/topics?{query}").json()["code"] == code

    text = client.call("GET", "/metrics").body.decode()
    pushed = samples(text, "tarry_jobs_pushed_total")
    assert set(pushed) == {f"topic-{n}" for n in range(2, 12)} | {"(others)"}
    assert pushed["topic-11"] == 12 and sum(pushed.values()) == jobs and re.search(rf"^tarry_topics {TOPICS}$", text, re.MULTILINE)
    assert len(samples(text, "tarry_topic_paused")) == 11 and len(text) < 200_000

    shown = json.loads(server.cli("topics", "--json").stdout)
    assert [topic["topic"] for topic in shown["topics"]] == names
    assert server.cli("topics").stdout.decode().count("\n") == TOPICS + 1


def test_an_export_follows_the_pages(server, start_server):
    names, jobs = fill(server.client())
    dump = server.cli("export")
    assert dump.returncode == 0 and f"exported {jobs} jobs of {TOPICS} topics" in dump.stderr.decode()
    other = start_server("--sync", "never", "--max-topics", "100000")
    taken = other.cli("import", input=dump.stdout)
    assert taken.returncode == 0, taken.stderr
    assert sum(pages(other.client()), []) == names
