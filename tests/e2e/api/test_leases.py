"""A lease proves the holder of a job: it cannot be forged, even by holders of other leases; and it is valid after a restart and at every server."""

import base64
import json
import time

import pytest
from fake_clock import FakeClock, fake_time_library
from server import eventually
from tokens import Token, TokenFile

JOBS = 3


@pytest.fixture(params=["embedded", pytest.param("three shards", marks=pytest.mark.thorough("contract.local_3 has several shards")), "redis"])
def server(request, start_server):
    if request.param == "redis":
        return start_server("--store", request.getfixturevalue("start_redis")().url, "--shards", "1")
    return start_server("--sync", "always", "--shards", "3" if request.param == "three shards" else "1")


def take(client, count=JOBS):
    for n in range(count):
        client.push("t", f"j{n}")
    jobs = []
    while len(jobs) < count:
        jobs += client.take("t", max=count, lease_for="1h", wait="5s")
    return {job["id"]: job["lease"] for job in jobs}


def results(client, verb, leases):
    return [one["result"] for one in client.good("POST", f"/v1/{verb}", json.dumps({"leases": list(leases)}).encode())["results"]]


def altered(lease):
    """Replaces each digit by its neighbour and by a distant one."""
    for at, digit in enumerate(lease):
        for by in (1, 7):
            yield lease[:at] + f"{(int(digit, 16) + by) % 16:x}" + lease[at + 1:]


def mixed(one, other):
    """The beginning of one with the end of the other."""
    for at in range(1, len(one)):
        if one[:at] + other[at:] not in (one, other):
            yield one[:at] + other[at:]


def test_no_lease_can_be_made_of_others(server):
    client = server.client()
    leases = take(client)
    mine, next_one, _ = leases.values()
    tried = [*altered(mine), *mixed(mine, next_one), *mixed(next_one, mine), mine.upper() if mine.upper() != mine else "0", mine + "0", mine[:-1]]
    tried += [mine[:length] for length in (14, 16, 32) if length < len(mine)]  # as they were before they had a check
    for verb in ("ack", "extend", "nack"):
        assert set(results(client, verb, tried)) == {"lease_ended"}
    assert client.topic("t")["counts"]["leased"] == JOBS
    assert results(client, "ack", leases.values()) == ["ok"] * JOBS


def test_a_lease_outlives_a_restart(server):
    leases = take(server.client())
    server.restart()
    server.restart("kill")
    assert results(server.client(), "extend", leases.values()) == ["ok"] * JOBS
    assert results(server.client(), "ack", leases.values()) == ["ok"] * JOBS


def test_a_lease_of_another_store_is_invalid(start_server):
    one, other = (start_server("--sync", "never", "--shards", "1") for _ in range(2))
    here, there = take(one.client()), take(other.client())
    assert set(results(one.client(), "ack", there.values())) == {"lease_ended"}
    assert results(one.client(), "ack", here.values()) == ["ok"] * JOBS


def test_a_lease_is_valid_at_all_servers_of_one_redis_only(start_server, start_redis):
    redis = start_redis()
    one, other = (start_server("--store", redis.url) for _ in range(2))
    assert results(other.client(), "ack", take(one.client(), 20).values()) == ["ok"] * 20
    elsewhere = start_server("--store", start_redis().url)
    held = take(elsewhere.client())
    take(one.client())
    assert set(results(one.client(), "ack", held.values())) == {"lease_ended"}


def test_a_lease_is_valid_after_a_restore(start_server, tmp_path):
    server = start_server("--sync", "always", "--shards", "1")
    leases = take(server.client())
    (tmp_path / "copy").mkdir()
    assert server.cli("backup", str(tmp_path / "copy" / "data")).returncode == 0
    server.terminate()
    restored = start_server("--sync", "always", directory=tmp_path / "copy")
    assert results(restored.client(), "ack", leases.values()) == ["ok"] * JOBS


def test_a_job_that_is_given_back_is_ready_again_and_costs_no_attempt(server):
    client = server.client()
    client.push("back", "one", b"x", max_attempts=2)
    for _ in range(5):
        (job,) = client.take("back", wait="5s")
        assert job["attempt"] == 1
        assert results(client, "return", [job["lease"]]) == ["ok"]
        assert results(client, "ack", [job["lease"]]) == ["lease_ended"]
    (job,) = client.take("back", wait="5s")
    client.nack(job["lease"], delay=0)
    (job,) = client.take("back", wait="5s")
    assert job["attempt"] == 2
    began = time.monotonic()
    client.answer("return", [job["lease"]], delay="300ms")
    (job,) = client.take("back", wait="5s")
    assert job["attempt"] == 2 and time.monotonic() - began >= 0.3
    client.nack(job["lease"])
    assert client.topic("back")["counts"]["dead"] == 1


def test_raw_bodies_are_byte_for_byte(server):
    client = server.client()
    bodies = {"json": (b'{"a" : 1.0 }', "application/json"), "text": ("Grüße".encode(), "text/plain"), "bytes": (bytes(range(256)), "image/png"), "none": (b"", "text/plain")}
    for ident, (body, kind) in bodies.items():
        client.push("exact", ident, body, kind)
    jobs = client.take("exact", max=10, body="base64")
    assert {job["id"]: (base64.b64decode(job["body_base64"]), job["content_type"]) for job in jobs} == bodies
    assert not any("body" in job for job in jobs)
    assert client.call("POST", "/v1/topics/exact/take?body=false").code == "bad_option"


def test_the_holder_of_a_job_and_the_consumers_of_a_topic_are_shown(server):
    client = server.client()
    for name in ("a", "b", "c"):
        client.push("held", name, b"x")
    taken = {job["id"] for job in client.good("POST", "/v1/topics/held/take?max=2&consumer=worker+1&lease_for=30s")["jobs"]}
    client.good("POST", "/v1/topics/held/take?lease_for=30s")
    client.good("POST", "/v1/topics/held/take?consumer=idle:7")
    jobs = {job["id"]: job for job in client.good("GET", "/v1/topics/held/jobs")["jobs"]}
    assert {name for name in jobs if jobs[name].get("consumer") == "worker 1"} == taken and len(taken) == 2
    assert all(client.good("GET", f"/v1/topics/held/jobs/{name}")["consumer"] == "worker 1" for name in taken)
    found = client.good("GET", "/v1/topics/held/consumers")
    assert [(one["consumer"], one["leased"], one["taken"]) for one in found["consumers"]] == [("worker 1", 2, 2), ("idle:7", 0, 0)]
    assert (found["unnamed"], found["complete"]) == (1, True) and all(one["seen_at"] for one in found["consumers"])
    assert 'tarry_consumers{topic="held"} 2' in client.good("GET", "/metrics").body.decode()
    shown = server.cli("consumers", "held")
    assert shown.returncode == 0 and b"worker 1" in shown.stdout and b"1 lease is held by consumers without a name" in shown.stderr
    assert (found["waiting"], found["waiting_unnamed"]) == (0, 0)
    assert client.call("GET", "/v1/topics/nobody/consumers").status == 404
    for bad in ("", "%20a", "a%20", "x" * 65, "tab%09", "%C3%BC"):
        refused = client.call("POST", f"/v1/topics/held/take?consumer={bad}")
        assert (refused.status, refused.json()["code"]) == (400, "bad_option"), bad
    client.good("POST", "/v1/topics/held/take?consumer=" + "x" * 64)


def test_takes_that_wait_are_counted_with_and_without_a_name(start_server):
    server = start_server("--shards", "3")
    client, waiting = server.client(), [server.connection() for _ in range(5)]

    def counts(topic):
        found = client.good("GET", f"/v1/topics/{topic}/consumers")
        return found["waiting"], found["waiting_unnamed"]

    for topic in ("awaited", "other"):
        client.put_topic(topic)
    for at, one in enumerate(waiting):
        query = "&consumer=worker-1" if at < 2 else "&topic=other" if at == 4 else ""
        one.send(f"POST /v1/take?topic=awaited&wait=60s{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
    eventually(lambda: (counts("awaited"), counts("other")) == ((5, 3), (1, 1)))
    shown = server.cli("consumers", "awaited")
    assert shown.returncode == 0 and b"worker-1" in shown.stdout and b"5 takes wait for jobs, 3 without a consumer's name" in shown.stderr
    waiting.pop().close()
    eventually(lambda: (counts("awaited"), counts("other")) == ((4, 2), (0, 0)))
    for _ in range(4):
        client.push("awaited")
    for one in waiting:
        assert one.read("POST").status == 200
        one.close()
    eventually(lambda: counts("awaited") == (0, 0))


def test_the_callers_that_push_to_a_topic_are_shown(start_server, tmp_path):
    tokens = [Token(name, ["push", "read"]) for name in ("checkout", "tracker")]
    TokenFile(tmp_path / "tokens", *tokens)
    server = start_server("--tokens", tmp_path / "tokens", "--max-body", "10")
    clients = [server.connection() for _ in tokens]
    items = b"\n".join(json.dumps({"topic": topic, "body": 1}).encode() for topic in ("paid", "seen", "seen"))
    for one, token, (method, target, body) in zip(clients, tokens, (("POST", "/v1/jobs", items), ("PUT", "/v1/topics/seen/jobs/1?delay=1h", b"x"))):
        one.send(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        assert one.read(method).status in (200, 201)
    for topic, names in (("paid", ["checkout"]), ("seen", ["checkout", "tracker"])):
        one, token = clients[0], tokens[0]
        one.send(f"GET /v1/topics/{topic}/consumers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token.secret}\r\n\r\n".encode())
        found = one.read("GET").json()["pushers"]
        assert sorted(pusher["caller"] for pusher in found) == names and found == sorted(found, key=lambda pusher: pusher["seen_at"], reverse=True)
    for one in clients:
        one.close()


@pytest.mark.plain("a client with a token has a name")
def test_a_pusher_without_a_name_is_shown_by_its_address(start_server):
    server = start_server()
    server.client().push("anonymous")
    server.client().good("POST", "/v1/batches", b'{"job":{"topic":"reports","id":"w"},"members":[{"topic":"parts","id":"m"}]}', {"Content-Type": "application/json"})
    for topic in ("anonymous", "reports", "parts"):
        assert [one["caller"] for one in server.client().good("GET", f"/v1/topics/{topic}/consumers")["pushers"]] == ["127.0.0.1"], topic
    shown = server.cli("consumers", "anonymous")
    assert b"no consumer takes from it" in shown.stderr and b"pushed by 127.0.0.1, " in shown.stderr


def test_consumers_are_shown_for_a_day_after_their_last_take(start_server, tmp_path):
    clock = FakeClock(tmp_path / "clock")
    client = start_server("--grace", "1s", env=clock.env(fake_time_library(tmp_path))).client()
    client.push("ended", "a", b"x", delay="40h")

    def consumers():
        return [one["consumer"] for one in client.good("GET", "/v1/topics/ended/consumers")["consumers"]]

    client.good("POST", "/v1/topics/ended/take?consumer=closer-1")
    client.close()  # the server closes idle connections
    clock.sleep(3600)
    client.good("POST", "/v1/topics/ended/take?consumer=closer-2")
    assert sorted(consumers()) == ["closer-1", "closer-2"]
    assert 'tarry_consumers{topic="ended"} 1' in client.good("GET", "/metrics").body.decode(), "only the active one is counted"
    client.close()
    clock.sleep(23.5 * 3600)
    assert consumers() == ["closer-2"]
    assert client.good("GET", "/v1/topics/ended/consumers")["pushers"] == []
    for n in range(501):  # more than half of the room of a topic
        client.good("POST", f"/v1/topics/ended/take?consumer=pod-{n}")
    client.close()
    clock.sleep(60)
    client.good("POST", "/v1/topics/ended/take?consumer=pod-1")
    assert "closer-2" not in consumers() and len(consumers()) == 501


def request(client, topic, ident, **more):
    query = "&".join(["request=true", *[f"{name}={value}" for name, value in more.items()]])
    reply = client.call("DELETE", f"/v1/topics/{topic}/jobs/{ident}?{query}")
    return reply.status, reply.json().get("result", reply.json().get("code"))


def test_a_cancel_is_requested_from_the_holder_and_an_ack_wins(server):
    client = server.client()
    client.push("unwanted", "a", b"x")
    (job,) = client.take("unwanted", wait="5s")
    assert client.call("DELETE", "/v1/topics/unwanted/jobs/a").status == 409
    assert request(client, "unwanted", "a") == (202, "requested")
    assert client.good("GET", "/v1/topics/unwanted/jobs/a")["cancel_requested"] is True
    (reported,) = client.answer("extend", [job["lease"]])
    assert reported["result"] == "ok" and reported["cancel_requested"] is True
    assert results(client, "ack", [job["lease"]]) == ["ok"]
    assert request(client, "unwanted", "a") == (404, "not_found")
    client.push("unwanted", "b", b"x")
    assert request(client, "unwanted", "b") == (200, "cancelled")
    client.push("unwanted", "c", b"x")
    (job,) = client.take("unwanted", wait="5s")
    (reported,) = client.answer("extend", [job["lease"]])
    assert "cancel_requested" not in reported


def test_a_job_that_is_not_wanted_is_cancelled_however_its_lease_ends(server):
    client = server.client()
    for verb in ("nack", "return", None):
        client.push("unwanted", "a", b"x")
        (job,) = client.take("unwanted", wait="5s", lease_for="1s" if verb is None else "60s")
        many = client.good("POST", "/v1/topics/unwanted/cancel?request=true", b'{"ids":["a","b"]}', {"Content-Type": "application/json"})["results"]
        assert [one["result"] for one in many] == ["requested", "not_found"]
        if verb:
            assert results(client, verb, [job["lease"]]) == ["cancelled"]
        limit = time.monotonic() + 10
        while client.call("GET", "/v1/topics/unwanted/jobs/a").status != 404:
            assert time.monotonic() < limit
            time.sleep(0.02)
    totals = client.topic("unwanted")["totals"]
    assert (totals["cancelled"], totals["nacked"], totals["lease_ended"], totals["acked"]) == (3, 0, 0, 0)


def test_leases_outlast_an_absence_that_was_longer_than_they_are(start_server):
    server = start_server("--sync", "always")
    leases = list(take(server.client(), 20).values())
    server.client().answer("extend", leases, lease_for="1s")
    server.kill()
    time.sleep(1.2)  # longer than they last
    server.start()
    client = server.client()
    assert results(client, "ack", leases[1:]) == ["ok"] * 19
    (job,) = client.take("t", wait="20s")  # without an answer
    assert job["attempt"] == 2
