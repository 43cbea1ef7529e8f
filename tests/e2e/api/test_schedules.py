"""Schedules by the API: set, show, next, run, pause, backfill, apply, delete, bad input, on each store."""

import datetime
import json
import threading
import time

import pytest
from client import Refused
from mariadb import MariadbServer
from mysql import MysqlServer, find_server
from redis_servers import RedisServer
from server import eventually
from streams import Stream
from tokens import Token, TokenFile

START = "2026-03-28T00:00:00Z"


def at(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def put(client, name, **spec):
    return client.good("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "mail", **spec}).encode())


def show(client, name):
    return client.good("GET", f"/v1/schedules/{name}")


def advance(client, by):
    client.good("POST", f"/v1/clock/advance?by={by}&wait=idle&timeout=60s")


def jobs(client, topic="mail"):
    """Returns the ids of the topic's jobs."""
    found, cursor = [], ""
    while cursor is not None:
        reply = client.call("GET", f"/v1/topics/{topic}/jobs?limit=1000" + (f"&cursor={cursor}" if cursor else ""))
        if reply.code == "not_found":
            return []
        page = reply.json()
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
    return sorted(found)


def refused(client, method, path, spec=None):
    with pytest.raises(Refused) as caught:
        client.good(method, path, json.dumps(spec).encode() if spec is not None else b"")
    return caught.value.status, caught.value.code, caught.value.reply.json()["detail"]


@pytest.fixture
def clocked(start_server):
    """A server whose clock is moved by the test."""
    return start_server("--sync", "never", "--wal-file", "16MiB", f"--test-clock={START}").client()


# ---- fires, on each store ----


DATABASES = {"mariadb": MariadbServer, "mysql": MysqlServer}


@pytest.fixture(params=["embedded", "redis", "postgres", *(pytest.param(kind, marks=pytest.mark.thorough(f"needs {kind}")) for kind in DATABASES)])
def store(request, start_server):
    """Starts servers that share one store, if it can be shared."""
    if request.param == "embedded":
        yield start_server
    elif request.param in DATABASES:
        if request.param == "mysql" and (why := find_server()[1]):
            pytest.skip(why)
        with DATABASES[request.param]() as database:
            yield lambda *flags: start_server("--store", database.url, "--migrate", *flags)
    else:
        database = request.getfixturevalue(f"start_{request.param}")()
        migrate = ("--migrate",) if request.param == "postgres" else ()
        yield lambda *flags: start_server("--store", database.url, *migrate, *flags)


def test_a_schedule_fires_punctually_and_shows_it(store):
    server = store()
    client = server.client()
    made = put(client, "tick", every="1s", body={"n": 1}, meta={"k": "v"}, priority=7)
    assert made["result"] == "created" and not made["paused"]
    assert put(client, "tick", every="1s", body={"n": 1}, meta={"k": "v"}, priority=7)["result"] == "existed"
    taken = []
    deadline = time.monotonic() + 30
    while len(taken) < 3 and time.monotonic() < deadline:
        for job in client.take("mail", max=1, wait="2s"):
            taken.append(job)
            client.ack(job["lease"])
    assert len(taken) == 3
    for job in taken:
        due = at(job["meta"]["tarry-scheduled-for"])
        assert job["id"] == f"tick@{job['meta']['tarry-scheduled-for']}" and job["meta"]["tarry-schedule"] == "tick"
        assert job["body"] == {"n": 1} and job["meta"]["k"] == "v" and due <= at(job["due_at"]) < due + datetime.timedelta(seconds=5)
    assert [int(job["meta"]["tarry-fire"]) for job in taken] == sorted(int(job["meta"]["tarry-fire"]) for job in taken)
    seen = show(client, "tick")
    assert seen["totals"]["fired"] >= 3 and seen["last"][0]["result"] == "fired" and at(seen["next"]) > at(seen["last"][0]["at"])
    assert client.good("GET", "/v1/schedules")["schedules"][0]["name"] == "tick"
    assert client.good("DELETE", "/v1/schedules/tick") == {"name": "tick", "result": "deleted"}
    assert refused(client, "GET", "/v1/schedules/tick")[:2] == (404, "not_found")


@pytest.mark.parametrize(("overlap", "end"), [("after", "ack"), ("replace", "nack")])
def test_a_fire_waits_for_the_holder_of_the_job_before(store, overlap, end):
    client = store().client()
    put(client, "s", every="1s", overlap=overlap)
    (first,) = client.take("mail", max=1, wait="20s", lease_for="1h")
    eventually(lambda: "next" in client.get("mail", "s"), 20)
    assert client.get("mail", "s").get("cancel_requested", False) is (overlap == "replace")
    client.answer(end, [first["lease"]])
    (second,) = client.take("mail", max=1, wait="20s", lease_for="1h")
    assert second["id"] == "s" and second["attempt"] == 1
    assert at(second["meta"]["tarry-scheduled-for"]) > at(first["meta"]["tarry-scheduled-for"])


def test_a_server_that_is_killed_neither_loses_nor_doubles_a_fire(store):
    server = store()
    client = server.client()
    began = at(put(client, "tick", every="1s", missed="all", body="x")["next"])
    for _ in range(3):
        time.sleep(1.3)
        server.kill()
        server.start()
    client = server.client()
    eventually(lambda: at(show(client, "tick")["last"][0]["at"]) > began + datetime.timedelta(seconds=6), 30)
    client.good("POST", "/v1/schedules/tick/pause")
    end = max(at(one["at"]) for one in show(client, "tick")["last"] if one["result"] == "fired")  # the pause skips later ones
    count = int((end - began).total_seconds()) + 1
    expected = [f"tick@{(began + datetime.timedelta(seconds=i)).strftime('%Y-%m-%dT%H:%M:%SZ')}" for i in range(count)]
    eventually(lambda: len(jobs(client)) >= count, 20)
    found = jobs(client)
    assert [job for job in found if job <= expected[-1]] == expected


# ---- time, on a server whose clock is moved ----


def test_a_day_of_fires_follows_the_zone_and_daylight_saving(clocked):
    put(clocked, "night", cron="30 2 * * *", zone="Europe/Berlin")
    put(clocked, "half", cron="*/30 * * * *", zone="Europe/Berlin", topic="half")
    for _ in range(48):
        advance(clocked, "1h")
    assert jobs(clocked) == ["night@2026-03-28T01:30:00Z", "night@2026-03-29T01:00:00Z"]
    assert len(jobs(clocked, "half")) == 96
    seen = show(clocked, "night")
    assert seen["next"] == "2026-03-30T00:30:00.000Z" and seen["totals"]["fired"] == 2
    assert [fire["job"] for fire in seen["last"]] == ["night@2026-03-29T01:00:00Z", "night@2026-03-28T01:30:00Z"]


def test_jobs_of_a_schedule_belong_to_its_group(clocked):
    put(clocked, "s", every="1h", group="tenant-7")
    advance(clocked, "1h")
    (job,) = clocked.take("mail", max=1)
    assert job["group"] == "tenant-7" and show(clocked, "s")["spec"]["group"] == "tenant-7"
    assert put(clocked, "s", every="1h", group="tenant-8")["result"] == "replaced"
    assert "'group'" in refused(clocked, "PUT", "/v1/schedules/s", {"topic": "mail", "every": "1h", "group": "a b"})[2]


def test_an_advance_stops_at_each_fire(clocked):
    put(clocked, "hourly", every="1h")
    advance(clocked, "24h")
    assert len(jobs(clocked)) == 24
    assert show(clocked, "hourly")["totals"]["skipped"] == {"missed": 0, "paused": 0, "overlap": 0, "refused": 0, "ended": 0}


def test_next_shows_local_times_and_the_effect_of_daylight_saving(clocked):
    put(clocked, "night", cron="30 2 * * *", zone="Europe/Berlin", jitter="5m")
    fires = clocked.good("GET", "/v1/schedules/night/next?n=2&from=2026-03-28T12:00:00Z")["fires"]
    assert [fire["local"] for fire in fires] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert "does not exist" in fires[0]["remark"] and "remark" not in fires[1]
    assert all(at(fire["at"]) <= at(fire["due_at"]) <= at(fire["at"]) + datetime.timedelta(minutes=5) for fire in fires)
    preview = clocked.good("POST", "/v1/schedules/next?n=2&from=2026-10-24T12:00:00Z",
                           json.dumps({"cron": "30 2 * * *", "zone": "Europe/Berlin", "fold": "both"}).encode())
    assert [fire["at"] for fire in preview["fires"]] == ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]
    assert clocked.good("GET", "/v1/schedules")["schedules"][0]["name"] == "night", "a preview saves nothing"


def test_count_and_end_stop_a_schedule(clocked):
    put(clocked, "twice", every="1h", count=2)
    put(clocked, "until", every="1h", end="2026-03-28T03:00:00Z", topic="until")
    advance(clocked, "10h")
    assert len(jobs(clocked)) == 2 and len(jobs(clocked, "until")) == 3
    for name in ("twice", "until"):
        seen = show(clocked, name)
        assert seen["next"] is None and seen["totals"]["skipped"]["ended"] == 1, "only the first fire after the end is counted"
        assert seen["last"][0]["result"] == "skipped" and seen["last"][0]["reason"] == "ended"
    assert show(clocked, "twice")["last"][0]["at"] == "2026-03-28T03:00:00.000Z"
    assert show(clocked, "until")["last"][0]["at"] == "2026-03-28T04:00:00.000Z"


def pause_and_shorten(client):
    """The second pause ends before the fire, which the first one has skipped already."""
    client.good("POST", "/v1/schedules/s/pause")
    advance(client, "200ms")
    client.good("POST", "/v1/schedules/s/pause?for=1s")


SECOND_BEFORE = {  # the change, the state of the fire's job, the totals afterwards, the jobs after the minute and after the hour
    "pause": (lambda client: client.good("POST", "/v1/schedules/s/pause"), {"fired": 0, "paused": 1}, [], []),
    "delete": (lambda client: client.good("DELETE", "/v1/schedules/s"), None, [], []),
    "other time": (lambda client: put(client, "s", cron="30 * * * *"), {"fired": 0}, [], ["s@2026-03-28T01:30:00Z"]),
    "other topic": (lambda client: put(client, "s", every="1h", topic="other"), {"fired": 1}, [], []),
    "same time": (lambda client: client.good("PATCH", "/v1/schedules/s", b'{"note":"n"}'), {"fired": 1}, ["s@2026-03-28T01:00:00Z"], ["s@2026-03-28T01:00:00Z"]),
    "a fault": (lambda client: refused(client, "PATCH", "/v1/schedules/s", {"cron": "x"}), {"fired": 1}, ["s@2026-03-28T01:00:00Z"], ["s@2026-03-28T01:00:00Z"]),
    "delete, set": (lambda client: client.good("DELETE", "/v1/schedules/s") and put(client, "s", every="1h", body="new"), {"fired": 1}, ["s@2026-03-28T01:00:00Z"], ["s@2026-03-28T01:00:00Z"]),
    "pause, resume": (
        lambda client: client.good("POST", "/v1/schedules/s/pause") and client.good("POST", "/v1/schedules/s/resume"),
        {"fired": 1, "paused": 0},
        ["s@2026-03-28T01:00:00Z"],
        ["s@2026-03-28T01:00:00Z"],
    ),
    "pause, resume, twice at one moment": (
        lambda client: [client.good("POST", f"/v1/schedules/s/{verb}") for verb in ("pause", "resume", "pause", "resume")],
        {"fired": 1, "paused": 0},
        ["s@2026-03-28T01:00:00Z"],
        ["s@2026-03-28T01:00:00Z"],
    ),
    "pause, pause for a time": (pause_and_shorten, {"fired": 1, "paused": 0}, ["s@2026-03-28T01:00:00Z"], ["s@2026-03-28T01:00:00Z"]),
}


@pytest.mark.parametrize(("change", "totals", "at_once", "later"), SECOND_BEFORE.values(), ids=SECOND_BEFORE)
def test_a_change_a_second_before_a_fire_counts(clocked, change, totals, at_once, later):
    """The job of the fire exists already, because it is pushed two seconds ahead."""
    put(clocked, "s", every="1h")
    advance(clocked, "3598500ms")
    assert clocked.get("mail", "s@2026-03-28T01:00:00Z")["state"] == "delayed"
    change(clocked)
    advance(clocked, "1m")
    assert jobs(clocked) == at_once
    if totals is not None:
        seen = show(clocked, "s")["totals"]
        assert {name: ({"fired": seen["fired"]} | seen["skipped"])[name] for name in totals} == totals
    advance(clocked, "40m")
    assert jobs(clocked) == later
    assert jobs(clocked, "other") == (["s@2026-03-28T01:00:00Z"] if totals and change is SECOND_BEFORE["other topic"][0] else [])


def test_a_changed_plan_continues_from_now_and_keeps_the_totals(clocked):
    put(clocked, "s", every="1h")
    advance(clocked, "3h")
    assert put(clocked, "s", every="1h", note="n")["result"] == "replaced"
    assert clocked.good("PATCH", "/v1/schedules/s", b'{"every":"2h","note":null}')["next"] == "2026-03-28T04:00:00.000Z"
    advance(clocked, "3h")
    seen = show(clocked, "s")
    assert seen["spec"] == {"topic": "mail", "every": "2h"} and seen["totals"]["fired"] == 5
    assert len(jobs(clocked)) == 5


def test_a_pause_skips_fires_and_is_never_caught_up(clocked):
    put(clocked, "s", every="1h", missed="all")
    assert clocked.good("POST", "/v1/schedules/s/pause")["paused"]
    advance(clocked, "5h")
    assert show(clocked, "s")["paused"] and jobs(clocked) == []
    assert not clocked.good("POST", "/v1/schedules/s/resume")["paused"]
    advance(clocked, "1h")
    assert jobs(clocked) == ["s@2026-03-28T06:00:00Z"] and show(clocked, "s")["totals"]["skipped"]["paused"] == 5
    clocked.good("POST", "/v1/schedules/s/pause?for=2h30m")
    advance(clocked, "4h")
    assert jobs(clocked) == ["s@2026-03-28T06:00:00Z", "s@2026-03-28T09:00:00Z", "s@2026-03-28T10:00:00Z"]
    assert not show(clocked, "s")["paused"]


def test_overlap_skip_waits_for_the_job_before(clocked):
    put(clocked, "s", every="1h", overlap="skip", max_attempts=1)
    advance(clocked, "1h")
    (job,) = clocked.take("mail", max=1, lease_for="20h")
    assert job["id"] == "s" and job["meta"]["tarry-scheduled-for"] == "2026-03-28T01:00:00Z"
    clocked.good("POST", "/v1/clock/advance?by=2h")
    eventually(lambda: show(clocked, "s")["totals"]["skipped"]["overlap"] >= 1, 20)
    assert show(clocked, "s")["last"][0] == {"at": show(clocked, "s")["last"][0]["at"], "result": "skipped", "reason": "overlap"}
    clocked.answer("nack", [job["lease"]])
    assert clocked.get("mail", "s")["state"] == "dead"
    advance(clocked, "1h")
    eventually(lambda: clocked.get("mail", "s")["state"] != "dead", 20)


def hold_and_let_fire(clocked, overlap):
    """Holds the job of the first fire while the next one comes. Returns its lease."""
    put(clocked, "s", every="1h", overlap=overlap)
    advance(clocked, "1h")
    (job,) = clocked.take("mail", max=1, lease_for="20h")
    clocked.good("POST", "/v1/clock/advance?by=1h")
    eventually(lambda: "next" in clocked.get("mail", "s"), 20)
    return job["lease"]


def test_overlap_after_runs_the_fire_after_the_job_before(clocked):
    lease = hold_and_let_fire(clocked, "after")
    clocked.answer("ack", [lease])
    (job,) = clocked.take("mail", max=1)
    assert job["id"] == "s" and job["meta"]["tarry-scheduled-for"] == "2026-03-28T02:00:00Z" and job["attempt"] == 1
    assert show(clocked, "s")["totals"]["skipped"]["overlap"] == 0


def test_overlap_replace_asks_the_holder_of_the_job_before_to_end(clocked):
    lease = hold_and_let_fire(clocked, "replace")
    assert clocked.get("mail", "s")["cancel_requested"] is True
    clocked.answer("nack", [lease])
    (job,) = clocked.take("mail", max=1)
    assert job["meta"]["tarry-scheduled-for"] == "2026-03-28T02:00:00Z"


def test_run_and_backfill_push_besides_the_plan(clocked):
    put(clocked, "s", cron="0 12 * * *")
    assert clocked.good("POST", "/v1/schedules/s/run")["result"] == "fired"
    assert jobs(clocked) == ["s@2026-03-28T00:00:00Z"]
    span = "/v1/schedules/s/backfill?from=2026-03-01T00:00:00Z&to=2026-03-05T00:00:00Z&pace=1m"
    assert clocked.good("POST", span) == {"result": "ok", "pushed": 4, "existed": 0}
    assert clocked.good("POST", span) == {"result": "ok", "pushed": 0, "existed": 4}
    assert clocked.get("mail", "s@2026-03-02T12:00:00Z")["due_at"] == "2026-03-28T00:01:00.000Z"
    assert show(clocked, "s")["next"] == "2026-03-28T12:00:00.000Z" and show(clocked, "s")["totals"]["fired"] == 0
    status, code, detail = refused(clocked, "POST", "/v1/schedules/s/backfill?from=2020-01-01T00:00:00Z&to=2026-03-05T00:00:00Z")
    assert status == 413 and "1000" in detail
    assert refused(clocked, "POST", "/v1/schedules/s/backfill?from=2026-03-01T00:00:00Z")[1] == "option_missing"


# ---- sets ----


def apply(client, *specs, options="?owner=shop&prune=true"):
    return client.good("PUT", f"/v1/schedules{options}", json.dumps({"schedules": specs}).encode())


def test_a_set_is_applied_and_pruned(clocked):
    put(clocked, "other", every="1h")
    a, b = {"name": "a", "topic": "mail", "every": "1h"}, {"name": "b", "topic": "mail", "every": "1h"}
    assert apply(clocked, a, b)["results"] == [{"name": "a", "result": "created"}, {"name": "b", "result": "created"}]
    assert apply(clocked, a, b)["results"] == [{"name": "a", "result": "existed"}, {"name": "b", "result": "existed"}]
    changed = apply(clocked, {**a, "every": "2h"})
    assert changed == {"results": [{"name": "a", "result": "replaced"}, {"name": "b", "result": "deleted"}], "failed": 0}
    assert sorted(s["name"] for s in clocked.good("GET", "/v1/schedules")["schedules"]) == ["a", "other"]
    assert [s["name"] for s in clocked.good("GET", "/v1/schedules?owner=shop")["schedules"]] == ["a"]
    assert [s["name"] for s in clocked.good("GET", "/v1/schedules?prefix=oth")["schedules"]] == ["other"]
    assert clocked.good("GET", "/v1/schedules?topic=none")["schedules"] == []


def test_a_schedule_keeps_its_owner_unless_it_is_taken_over(store):
    clocked = store().client()
    mine, new = {"name": "a", "topic": "mail", "every": "1h"}, {"name": "b", "topic": "mail", "every": "1h"}
    apply(clocked, mine)
    for method, path, body in (("PUT", "/v1/schedules?owner=billing", {"schedules": [new, {**mine, "every": "2h"}]}), ("PUT", "/v1/schedules?owner=billing&prune=true", {"schedules": [new, mine]}),
                               ("PUT", "/v1/schedules", {"schedules": [new, mine]}), ("PUT", "/v1/schedules/a", {"topic": "mail", "every": "2h", "owner": "billing"}),
                               ("PUT", "/v1/schedules/a", {"topic": "mail", "every": "2h"}), ("PATCH", "/v1/schedules/a", {"owner": "billing"})):
        status, code, detail = refused(clocked, method, path, body)
        assert (status, code) == (409, "other_owner") and "'a' belongs to the owner 'shop'" in detail and "take_over" in detail, (path, body)
    shown = clocked.good("GET", "/v1/schedules")["schedules"]
    assert [(one["name"], one["spec"]["owner"], one["spec"]["every"]) for one in shown] == [("a", "shop", "1h")]
    assert clocked.good("PATCH", "/v1/schedules/a", b'{"note":"n"}')["result"] == "replaced" and show(clocked, "a")["spec"]["owner"] == "shop"
    assert [one["result"] for one in apply(clocked, new, mine, options="?owner=billing&take_over=true")["results"]] == ["created", "replaced"]
    assert apply(clocked, options="?owner=shop&prune=true")["results"] == [] and show(clocked, "a")["spec"]["owner"] == "billing"
    assert clocked.good("PUT", "/v1/schedules/a?take_over=true", json.dumps({"topic": "mail", "every": "1h"}).encode())["result"] == "replaced"
    assert [one["result"] for one in apply(clocked, mine)["results"]] == ["replaced"] and show(clocked, "a")["spec"]["owner"] == "shop"  # it had no owner


def test_a_set_whose_schedules_cannot_be_looked_up_changes_nothing(start_server):
    with RedisServer(aof="always") as redis:
        client = start_server("--store", redis.url, "--store-timeout", "1s").client()
        mine = {"name": "a", "topic": "mail", "every": "1h"}
        apply(client, mine)
        redis.kill()
        status, code, _ = refused(client, "PUT", "/v1/schedules?owner=billing", {"schedules": [{**mine, "name": "b"}, mine]})
        assert (status, code) == (503, "unavailable")


@pytest.mark.parametrize("levels", [62, 63])
def test_a_schedule_with_a_deep_body_can_be_used(clocked, levels):
    body = "[" * levels + "]" * levels
    spec = f'{{"topic":"mail","every":"1h","body":{body}}}'.encode()
    assert clocked.good("PUT", "/v1/schedules/deep", spec)["result"] == "created"
    assert clocked.good("PUT", "/v1/schedules/deep", spec)["result"] == "existed"
    assert clocked.good("PATCH", "/v1/schedules/deep", b'{"note":"n"}')["result"] == "replaced"
    assert show(clocked, "deep")["spec"]["body"] == json.loads(body) == clocked.good("GET", "/v1/schedules")["schedules"][0]["spec"]["body"]
    advance(clocked, "1h")
    assert clocked.take("mail")[0]["body"] == json.loads(body)
    assert clocked.good("DELETE", "/v1/schedules/deep")["result"] == "deleted"
    assert refused(clocked, "PUT", "/v1/schedules/deep", {"topic": "mail", "every": "1h", "body": json.loads("[" * 64 + "]" * 64)})[0] == 400


def test_a_set_with_a_fault_changes_nothing(clocked):
    good = {"name": "a", "topic": "mail", "every": "1h"}
    for second, word in (({**good, "every": "2h"}, "two schedules with the name 'a'"), ({"name": "b", "topic": "mail", "every": "1ms"}, "'every'"),
                         ({"topic": "mail", "every": "1h"}, "'name'"), ({**good, "name": "b", "owner": "them"}, "'owner'")):
        status, _, detail = refused(clocked, "PUT", "/v1/schedules?owner=shop&prune=true", {"schedules": [good, second]})
        assert status == 400 and word in detail
    assert clocked.good("GET", "/v1/schedules")["schedules"] == []
    assert refused(clocked, "PUT", "/v1/schedules?prune=true", {"schedules": [good]})[1] == "option_missing"


def test_a_large_set_is_answered_in_its_order(server):
    client = server.client()
    first = [{"name": f"s{i}", "topic": "reports", "every": "1h"} for i in range(150)]
    assert [one["name"] for one in apply(client, *first)["results"]] == [spec["name"] for spec in first]
    second = [{**spec, "every": "2h"} if i % 3 == 0 else spec for i, spec in enumerate(first[:100])]
    answer = apply(client, *second)
    results = [(one["name"], one["result"]) for one in answer["results"]]
    assert results[:100] == [(f"s{i}", "existed" if i % 3 else "replaced") for i in range(100)]
    assert sorted(results[100:]) == sorted((f"s{i}", "deleted") for i in range(100, 150)) and answer["failed"] == 0
    shown = client.good("GET", "/v1/schedules?limit=200")["schedules"]
    assert {one["name"]: one["spec"]["every"] for one in shown} == {f"s{i}": "1h" if i % 3 else "2h" for i in range(100)}


def test_three_instances_that_apply_the_same_set_make_each_schedule_once(server):
    specs = [{"name": f"s{i}", "topic": "mail", "every": "1h"} for i in range(20)]
    answers = []

    def instance():
        answers.append(apply(server.client(), *specs))

    threads = [threading.Thread(target=instance) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results = [row["result"] for answer in answers for row in answer["results"]]
    assert results.count("created") == 20 and set(results) == {"created", "existed"}


# ---- bad input ----


def test_bad_input_names_the_member_and_the_remedy(clocked):
    rows = [
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"cron": "0 25 * * *"}, "write 0 to 23"),
        ({"cron": "0 9 * * *", "zone": "Europe/Berln"}, "unknown time zone 'Europe/Berln'"),
        ({"every": "500ms"}, "from 1s to 365d"),
        ({"every": "1h", "crn": "x"}, "did you mean 'cron'"),
        ({"every": "1h", "except": ["2026-02-30"]}, "does not exist"),
        ({"every": "1h", "end": "2025-01-01T00:00:00Z"}, "never fires"),
        ({"every": "1h", "topic": "tarry.dead"}, "'topic'"),
        ({"every": "1h", "priority": 70000}, "'priority'"),
        ({"every": "1h", "delay": "1m"}, "unknown member 'delay'"),
        ({"every": "1h", "body": "x" * 20000}, "14 KiB"),
        ({"every": "1h", "jitter": "2h"}, "'jitter'"),
        ({}, "'cron' and 'every' are missing"),
    ]
    for spec, words in rows:
        status, code, detail = refused(clocked, "PUT", "/v1/schedules/s", {"topic": "mail", **spec})
        assert status == 400 and words in detail, (spec, code, detail)
    assert refused(clocked, "PUT", "/v1/schedules/a@b", {"topic": "mail", "every": "1h"})[:2] == (400, "bad_schedule")
    assert clocked.good("GET", "/v1/schedules")["schedules"] == []
    put(clocked, "s", every="1h")
    before = show(clocked, "s")
    assert refused(clocked, "PATCH", "/v1/schedules/s", {"every": "1ms"})[0] == 400
    assert show(clocked, "s") == before, "a rejected change changes nothing"
    for method, path in (("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run"), ("GET", "/next"), ("PATCH", "")):
        assert refused(clocked, method, f"/v1/schedules/none{path}", {} if method == "PATCH" else None)[:2] == (404, "not_found"), path


BAD = [  # what a user may mistype, the member that the error names, the remedy
    ({"every": "1h", "except": ["2026-02-30"]}, "'except'", "does not exist"),
    ({"every": "1h", "start": "2026-02-30T00:00:00Z"}, "'start'", "time"),
    ({"cron": "0 0 30 2 *"}, "'cron'", "never fires"),
    ({"cron": "0 9 * * *", "zone": "Europe/Berln"}, "'zone'", "Europe/Berlin"),
    ({"every": "500ms"}, "'every'", "from 1s to 365d"),
    ({"every": "0"}, "'every'", "from 1s to 365d"),
]


@pytest.mark.parametrize("spec, member, remedy", BAD, ids=[f"{list(spec.values())[-1]}" for spec, _, _ in BAD])
def test_a_mistake_is_named_with_its_remedy_by_each_call_and_changes_nothing(clocked, spec, member, remedy):
    put(clocked, "s", every="2h", note="kept")
    before = clocked.good("GET", "/v1/schedules")
    bad, good = {"topic": "mail", **spec}, {"name": "new", "topic": "mail", "every": "1h"}
    change = {"every": None, "cron": None, **spec}
    for method, path, text in (("PUT", "/v1/schedules/s", bad), ("PUT", "/v1/schedules/other", bad), ("PATCH", "/v1/schedules/s", change), ("POST", "/v1/schedules/next", bad),
                               ("PUT", "/v1/schedules", {"schedules": [good, {"name": "bad", **bad}]})):
        status, code, detail = refused(clocked, method, path, text)
        assert status == 400 and member in detail and remedy in detail, (method, path, code, detail)
    assert clocked.good("GET", "/v1/schedules") == before


def test_two_schedules_of_one_name_are_refused_as_a_set(clocked):
    one = {"name": "a", "topic": "mail", "every": "1h"}
    status, _, detail = refused(clocked, "PUT", "/v1/schedules", {"schedules": [one, {**one, "name": "b"}, {**one, "every": "2h"}]})
    assert status == 400 and "two schedules with the name 'a'" in detail and "give each" in detail
    assert clocked.good("GET", "/v1/schedules")["schedules"] == []


def test_the_topic_of_the_schedules_rejects_a_dedup_window(server):
    client = server.client()
    put(client, "s", every="1h")
    for method, path, body in (("PATCH", "/v1/topics/tarry.schedules", b'{"dedup_window":"1h"}'), ("PUT", "/v1/topics/tarry.schedules?dedup_window=1h", b""),
                               ("PUT", "/v1/topics/tarry.schedules", b'{"dedup_window":"1h"}')):
        reply = client.call(method, path, body)
        assert reply.status == 400 and "'dedup_window'" in reply.json()["detail"] and "leave the option out" in reply.json()["detail"], reply.body
    assert "dedup_window" not in client.topic("tarry.schedules")["settings"]
    client.good("DELETE", "/v1/schedules/s")
    assert put(client, "s", every="1h")["result"] == "created"


def test_skipped_fires_are_events(store):
    server = store()
    client = server.client()
    put(client, "held", every="1s", paused=True)
    with Stream(server.port, "/v1/events?topic=mail&event=fire_skipped") as stream:
        ((event, data),) = stream.until(lambda event, _: event == "fire_skipped")
        assert event == "fire_skipped" and data == {"at": data["at"], "topic": "mail", "due_at": data["due_at"], "schedule": "held", "reason": "paused", "fires": data["fires"]}
        assert data["fires"] >= 1 and data["due_at"].endswith(".000Z")
    put(client, "busy", every="1s", overlap="skip", topic="busy")
    with Stream(server.port, "/v1/events?topic=busy") as stream:
        events = stream.until(lambda event, _: event == "fire_skipped")
    assert events[-1][1]["reason"] == "overlap" and events[-1][1]["schedule"] == "busy"
    line = server.cli("tail", "busy", "--event", "fire_skipped", "--count", "1").stdout.decode()
    assert "fire_skipped" in line and "busy, reason: overlap, fires: 1" in line, line


def test_a_fire_that_is_refused_is_tried_again_and_then_skipped(clocked):
    clocked.put_topic("mail", max_jobs=1)
    clocked.push("mail", "blocks", delay="100h")
    put(clocked, "s", every="1h", grace="5s")
    advance(clocked, "1h")
    advance(clocked, "1m")
    seen = show(clocked, "s")
    assert seen["totals"]["skipped"]["refused"] == 1 and seen["last"][0]["reason"] == "refused"
    clocked.cancel("mail", "blocks")
    advance(clocked, "1h")
    assert jobs(clocked) == ["s@2026-03-28T02:00:00Z"]


def test_the_path_of_the_preview_lists_only_its_own_method(server):
    reply = server.client().call("OPTIONS", "/v1/schedules/next")
    assert reply.status == 405 and reply.headers["allow"] == "POST"
    assert reply.json()["detail"] == "'/v1/schedules/next' has only POST"


# ---- rights ----


def test_schedules_of_topics_of_others_are_hidden(start_server, tmp_path):
    everything, own, reader = Token("all"), Token("own", ["push", "read"], ["mail"]), Token("reader", ["read"], ["mail"])
    tokens = TokenFile(tmp_path / "tokens", everything, own, reader)
    client = start_server("--sync", "never", "--wal-file", "16MiB", "--tokens", str(tokens.path)).client()

    def call(token, method, path, spec=None):
        reply = client.call(method, f"/v1/schedules{path}", json.dumps(spec).encode() if spec is not None else b"", token.headers)
        return reply.status, reply.body.decode()

    assert call(everything, "PUT", "/theirs", {"topic": "secret", "every": "1h"})[0] == 201
    assert call(own, "PUT", "/mine", {"topic": "mail", "every": "1h"})[0] == 201
    assert call(own, "PUT", "/new", {"topic": "secret", "every": "1h"})[0] == 403
    assert call(reader, "PUT", "/new", {"topic": "mail", "every": "1h"})[0] == 403
    assert call(reader, "GET", "/mine")[0] == 200
    for method, path, spec in (("GET", "", None), ("GET", "/next", None), ("DELETE", "", None), ("PATCH", "", {"every": "2h"}), ("POST", "/pause", None),
                               ("POST", "/resume", None), ("POST", "/run", None), ("POST", "/backfill?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", None)):
        theirs, missing = call(own, method, f"/theirs{path}", spec), call(own, method, f"/absent{path}", spec)
        assert theirs[0] == missing[0] == 404 and theirs[1].replace("theirs", "N") == missing[1].replace("absent", "N"), (method, path, theirs)
    status, text = call(own, "PUT", "/theirs", {"topic": "mail", "every": "1h"})
    assert status == 403 and "secret" not in text
    assert [s["name"] for s in json.loads(call(own, "GET", "")[1])["schedules"]] == ["mine"]
    assert len(json.loads(call(everything, "GET", "")[1])["schedules"]) == 2
    assert json.loads(call(everything, "GET", "/theirs")[1])["spec"] == {"topic": "secret", "every": "1h"}, "it is unchanged"
    status, text = call(own, "PUT", "?owner=shop&prune=true", {"schedules": [{"name": "s", "topic": "secret", "every": "1h"}]})
    assert status == 403
