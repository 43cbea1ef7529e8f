"""Promises of the HTTP API about topics, and about the server itself."""

import json
import re
import time

import pytest
from client import Refused
from server import slack
from test_restart import counts_of

SETTINGS = {"lease_for": "5s", "ttl": "1h", "max_attempts": 3, "backoff": "exp:2s..1m", "on_conflict": "reject", "priority": 7,
            "dedup_window": "1d", "dead_letter_expired": True}


def test_settings_are_shown_as_they_were_put(client):
    assert client.call("PUT", "/v1/topics/s", json.dumps(SETTINGS).encode()).status == 201
    assert client.topic("s")["settings"] == SETTINGS
    assert client.call("PUT", "/v1/topics/s", json.dumps(client.topic("s")["settings"]).encode()).status == 200, "they can be put back"
    client.put_topic("s", max_attempts=9)
    settings = client.topic("s")["settings"]
    assert settings["max_attempts"] == 9 and "ttl" not in settings, "replaced as a whole"


def test_jobs_fall_back_to_the_topic(client):
    client.put_topic("s", lease_for="5s", max_attempts=1, priority=7, on_conflict="keep")
    client.push("s", "a", b"first")
    assert client.push("s", "a", b"second")["result"] == "existed"
    job = client.take("s")[0]
    assert (job["priority"], job["body"]) == (7, "first")
    client.nack(job["lease"])
    assert client.get("s", "a")["state"] == "dead"


def test_counts_in_each_state(client):
    client.put_topic("c", lease_for="10m")
    for ident in ("ready", "delayed", "retrying", "leased", "dead", "acked", "cancelled", "expired", "replaced"):
        client.push("c", ident, delay="1h", max_attempts=1 if ident == "dead" else None, ttl="10ms" if ident == "expired" else None)
    client.push("c", "replaced", delay="1h")
    for ident in ("leased", "dead", "acked", "retrying"):
        client.run("c", ident)
        lease = client.take("c")[0]["lease"]
        if ident == "acked":
            client.ack(lease)
        elif ident == "dead":
            client.nack(lease)
        elif ident == "retrying":
            client.nack(lease, delay="1h")
    client.cancel("c", "cancelled")
    client.run("c", "ready")
    client.run("c", "expired")
    time.sleep(0.2)
    topic = client.topic("c")
    assert topic["counts"] == {"delayed": 2, "retrying": 1, "ready": 1, "leased": 1, "dead": 1}
    totals = topic["totals"]
    assert {name: totals[name] for name in ("pushed", "acked", "cancelled", "expired", "replaced", "died")} == {
        "pushed": 9, "acked": 1, "cancelled": 1, "expired": 1, "replaced": 1, "died": 1}
    assert (totals["delivered"], totals["nacked"]) == (4, 2)
    figures = counts_of(topic)
    assert figures["pushed"] == sum(figures[name] for name in figures if name != "pushed")
    assert [found["topic"] for found in client.topics()] == ["c"] and client.topics()[0]["counts"] == topic["counts"]


def test_topics_are_listed_by_name(client):
    for name in ("b", "a", "Z", "a.b", "a-b"):
        client.push(name, "x")
    assert [topic["topic"] for topic in client.topics()] == sorted(["b", "a", "Z", "a.b", "a-b"])


def test_pause_and_resume(client):
    client.push("p", "a")
    client.topic_verb("p", "pause")
    assert client.topic("p")["paused"] is True
    client.push("p", "b", delay="20ms")
    assert client.take("p", max=5, wait="100ms") == []
    assert client.topic("p")["counts"]["ready"] == 2, "jobs still fall due"
    client.topic_verb("p", "resume")
    assert len(client.take("p", max=5)) == 2


def test_resume_wakes_waiting_takes(server):
    client, consumer = server.client(), server.connection()
    client.push("p", "a")
    client.topic_verb("p", "pause")
    consumer.send(b"POST /v1/topics/p/take?wait=10s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    time.sleep(0.05)
    client.topic_verb("p", "resume")
    begin = time.monotonic()
    assert consumer.read().json()["jobs"][0]["id"] == "a"
    assert time.monotonic() - begin < 5 * slack()


@pytest.mark.parametrize("state, gone", [(None, {"delayed", "ready", "dead"}), ("delayed", {"delayed"}), ("ready", {"ready"}), ("dead", {"dead"})])
def test_purge(client, state, gone):
    client.push("p", "leased", max_attempts=2)
    lease = client.take("p")[0]["lease"]
    client.push("p", "dead", max_attempts=1)
    client.nack(client.take("p")[0]["lease"])
    client.push("p", "delayed", delay="1h")
    client.push("p", "ready")
    counted = client.topic_verb("p", "purge", state=state, dry_run="true")
    assert (counted["jobs"], counted["dry_run"], counted["complete"]) == (len(gone), True, True)
    assert len(client.list("p")["jobs"]) == 4, "a dry run changes nothing"
    answer = client.topic_verb("p", "purge", state=state)
    assert answer["jobs"] == len(gone)
    left = {job["id"] for job in client.list("p")["jobs"]}
    assert left == {"leased", "dead", "delayed", "ready"} - gone
    assert client.topic("p")["totals"]["cancelled"] == len(gone)
    assert client.ack(lease)[0]["result"] == "ok", "leased ones are left alone"


def test_redrive_sends_the_dead_round_again(client):
    for ident in "abc":
        client.push("r", ident, max_attempts=1)
    client.nack(*[job["lease"] for job in client.take("r", max=3)])
    assert client.topic_verb("r", "redrive", id="b")["jobs"] == 1
    job = client.take("r")[0]
    assert (job["id"], job["attempt"]) == ("b", 1), "attempts start again"
    assert client.topic_verb("r", "redrive", max=1)["jobs"] == 1
    assert client.topic_verb("r", "redrive")["jobs"] == 1
    assert {job["id"] for job in client.take("r", max=3)} == {"a", "c"}
    assert client.topic_verb("r", "redrive")["jobs"] == 0


def test_expired_jobs_become_dead_if_the_topic_is_set_so(client):
    client.put_topic("e", ttl="50ms", dead_letter_expired=True)
    client.push("e", "a")
    time.sleep(0.25)
    assert client.take("e") == []
    assert client.get("e", "a")["state"] == "dead"
    figures = counts_of(client.topic("e"))
    assert figures["dead"] == 1 and figures["pushed"] == sum(figures[name] for name in figures if name != "pushed")


def test_delete_takes_the_topic_and_all_its_jobs(client):
    client.push("d", "a", delay="1h")
    client.push("d", "b")
    lease = client.take("d")[0]["lease"]
    assert client.delete_topic("d")["jobs"] == 2
    assert client.call("GET", "/v1/topics/d").status == 404
    assert client.call("POST", f"/v1/ack?lease={lease}").code == "lease_ended"
    assert client.topics() == []
    client.push("d", "a")
    assert client.topic("d")["totals"]["pushed"] == 1, "it starts anew"


def test_as_many_topics_as_allowed(start_server):
    client = start_server("--sync", "always", "--shards", "1", "--max-topics", "3").client()
    for i in range(3):
        client.push(f"t{i}", "a")
    with pytest.raises(Refused) as refused:
        client.push("t3", "a")
    assert (refused.value.status, refused.value.code) == (409, "too_many_topics")
    client.delete_topic("t0")
    client.push("t3", "a")
    client.push("t1", "b")


# ---- the server itself ----

def test_info_names_the_promise(client):
    info = client.good("GET", "/v1/info")
    assert info["sync"] == "always" and info["store"] == "embedded" and info["durability"]
    assert info["shards"] == 1
    assert re.match(r"\d+\.\d+\.\d+", info["version"])
    text = json.dumps(info)
    assert "1048576" in text, "the limit of a body"


@pytest.mark.parametrize("sync", ["50ms", "never"])
def test_other_durability_classes_are_reported(start_server, sync):
    client = start_server("--sync", sync, "--shards", "1").client()
    assert client.good("GET", "/v1/info")["sync"] == sync
    client.push("t", "a")
    assert client.take("t")[0]["id"] == "a"


def test_health(client):
    for path in ("/healthz", "/readyz", "/"):
        assert client.call("GET", path).status == 200


def test_metrics_are_prometheus_text(client):
    client.push("m", "a")
    client.ack(client.take("m")[0]["lease"])
    reply = client.call("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    sample = re.compile(r'^[a-z_][a-z0-9_]*(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? -?[0-9.e+-]+(Inf)?$')
    typed = set()
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed, f"{name} is declared twice"
            typed.add(name)
        elif line and not line.startswith("#"):
            assert sample.match(line), line
            base = re.sub(r"(_bucket|_sum|_count)?(\{.*)? .*$", "", line)
            assert base in typed or line.split("{")[0].split(" ")[0] in typed, line
    assert any(name.startswith("tarry_") for name in typed)
    assert 'topic="m"' in reply.body.decode()


def test_openapi_is_served(client):
    reply = client.call("GET", "/openapi.yaml")
    assert reply.status == 200 and b"openapi: 3" in reply.body


def test_problems_explain_themselves(client):
    problem = client.call("GET", "/v1/topics/none/jobs/none").json()
    assert client.call("GET", problem["type"]).status == 200
    assert client.call("GET", "/problems/no-such-thing").status == 404


def test_a_topic_with_a_slash_is_named_whole(client):
    missing = client.call("GET", "/v1/topics/a%2Fb/jobs/c%2Fd").json()["detail"]
    assert missing.startswith("there is no job 'c/d' in topic 'a/b'")
    client.put_topic("a/b")
    assert client.call("DELETE", "/v1/topics/a%2Fb").json()["topic"] == "a/b"
