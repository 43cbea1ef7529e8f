"""Promises of the HTTP API about jobs, one test per promise, on the real server."""

import base64
import json
import re
import time

import pytest
from client import Refused
from server import slack, together

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
EVERY_BYTE = bytes(range(256)) * 3
YEAR_2034 = "2034-01-01T00:00:00.000Z"


def refusal(call, *args, **kwargs):
    with pytest.raises(Refused) as refused:
        call(*args, **kwargs)
    return refused.value


def take_one(client, topic, **options):
    jobs = client.take(topic, **options)
    assert len(jobs) == 1
    return jobs[0]


def moment(text):
    """Seconds since 1970."""
    assert TIME.match(text), text
    whole, millis = text[:-1].split(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + int(millis) / 1000


def seconds_from_now(text):
    return moment(text) - time.time()


# ---- push ----

def test_a_push_returns_its_outcome(client):
    reply = client.call("PUT", "/v1/topics/t/jobs/a?delay=30m", b"x")
    assert reply.status == 201
    output = reply.json()
    assert (output["result"], output["topic"], output["id"]) == ("created", "t", "a")
    assert 1795 < seconds_from_now(output["due_at"]) <= 1800.01


def test_without_an_id_the_server_makes_one(client):
    ids = [client.push("t")["id"] for _ in range(50)]
    assert len(set(ids)) == 50 and ids == sorted(ids), "ULIDs, in order"
    assert all(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", ident) for ident in ids)
    assert client.call("POST", "/v1/topics/t/jobs", b"x").status == 201


@pytest.mark.parametrize("body, content_type", [
    (b"", "text/plain"), (b"plain", "text/plain"), ("grün €".encode(), "text/plain; charset=utf-8"), (b"\0", "text/plain"),
    (EVERY_BYTE, "application/octet-stream"), (b"\xff\xfe\x00", "text/plain"), (b"a\0b", "application/x-own"),
    (b'{ "a" : [1, 2.50, "\\u00e4", null, true] }', "application/json"), (b"not json", "application/json"), (b"  7  ", "application/json"),
    (b'"\xed\xa0\x80"', "application/json"), (b"\xf4\x90\x80\x80", "text/plain"), (b"line\r\nline\n", "text/csv"), (b"\\ \" \x7f \x1b", "text/plain"),
    (b"x" * (1 << 20), "application/octet-stream"),
], ids=range(15))
def test_bodies_travel_untouched(client, body, content_type):
    client.push("bytes", "a", body, content_type=content_type, delay=0)
    raw = client.call("POST", "/v1/topics/bytes/take?max=1", headers={"Accept": "application/octet-stream"})
    assert raw.body == body
    assert raw.headers["content-type"] == content_type
    client.nack(raw.headers["tarry-lease"], delay=0)
    job = take_one(client, "bytes")
    assert job["content_type"] == content_type
    assert body_of(job) == body or json.loads(body) == job["body"]
    assert body_of(client.get("bytes", "a")) == body or json.loads(body) == job["body"]


def body_of(job):
    if "body_base64" in job:
        assert "body" not in job
        return base64.b64decode(job["body_base64"], validate=True)
    return job["body"].encode() if isinstance(job["body"], str) else None


def test_json_bodies_are_the_value_itself(client):
    client.push("json", "a", b'{"order": 4711}', content_type="application/json")
    reply = client.call("POST", "/v1/topics/json/take")
    assert b'{"order": 4711}' in reply.body, "as it was pushed, to the blank"
    assert reply.json()["jobs"][0]["body"] == {"order": 4711}


def test_without_a_content_type_it_is_octets(client):
    client.push("t", "a", b"x", content_type=None)
    assert take_one(client, "t")["content_type"] == "application/octet-stream"


def test_meta_is_handed_on(client):
    client.push("meta", "a", meta={"Trace-Id": "4bf9", "who": "größe", "empty": ""})
    for job in (client.get("meta", "a"), take_one(client, "meta", lease_for="1s")):
        assert job["meta"] == {"trace-id": "4bf9", "who": "größe", "empty": ""}
    client.push("meta-raw", "a", meta={"who": "me"})
    raw = client.call("POST", "/v1/topics/meta-raw/take", headers={"Accept": "application/octet-stream"})
    assert raw.headers["tarry-meta-who"] == "me"


def test_options_may_be_headers(client):
    client.good("PUT", "/v1/topics/t/jobs/a", b"x", {"Tarry-Delay": "1h", "Tarry-Priority": "3", "tarry-max-attempts": "2"})
    job = client.get("t", "a")
    assert job["state"] == "delayed" and job["priority"] == 3 and job["max_attempts"] == 2


@pytest.mark.parametrize("written, seconds", [("1500ms", 1.5), ("30s", 30), ("2h30m", 9000), ("7d", 604800), ("1.5s", 1.5), ("0", 0),
                                              ("1d2h3m4s5ms", 93784.005), ("3653d", 3653 * 86400)])
def test_delays_as_people_write_them(client, written, seconds):
    due = seconds_from_now(client.push("t", "a", delay=written)["due_at"])
    assert seconds - 2 < due <= seconds + 0.01


@pytest.mark.parametrize("at, due", [(YEAR_2034, YEAR_2034), ("2034-01-01T08:00:00+08:00", YEAR_2034), ("2019686400000", YEAR_2034),
                                     ("2034-01-01T00:00:00.0001Z", "2034-01-01T00:00:00.001Z")])
def test_absolute_times(client, at, due):
    assert client.push("t", "a", at=at)["due_at"] == due
    assert client.get("t", "a")["due_at"] == due


def test_a_time_in_the_past_is_now(client):
    client.push("t", "a", at="2001-01-01T00:00:00Z")
    assert take_one(client, "t")["id"] == "a"


def test_never_early_and_soon_after(client):
    """Never early each time; and punctual in at least one of several tries, because a busy machine is late by itself."""
    for delay in (1, 20, 300):
        late = []
        while not late or (min(late) >= 60 and len(late) < 20):
            begin = time.monotonic()
            client.push("t", "a", delay=f"{delay}ms")
            job = take_one(client, "t", wait="5s")
            late.append((time.monotonic() - begin) * 1000 - delay)
            client.ack(job["lease"])
        assert 0 <= min(late) < 60, late


# ---- pushing an id that exists ----

def test_replace_is_the_default_of_put(client):
    client.push("t", "a", b"old", delay="1h")
    reply = client.call("PUT", "/v1/topics/t/jobs/a?delay=2h", b"new")
    assert (reply.status, reply.json()["result"]) == (201, "replaced")
    job = client.get("t", "a")
    assert job["body"] == "new" or body_of(job) == b"new"
    assert seconds_from_now(job["due_at"]) > 7000


def test_replaced_attempts_start_again(client):
    client.push("t", "a")
    client.nack(take_one(client, "t")["lease"], delay="1h", error="busy")
    client.push("t", "a", b"again")
    job = take_one(client, "t")
    assert job["attempt"] == 1 and job["body"] == "again"


def test_keep_changes_nothing(client):
    client.push("t", "a", b"old", delay="1h")
    reply = client.call("PUT", "/v1/topics/t/jobs/a?on_conflict=keep", b"new", {"Content-Type": "text/plain"})
    assert (reply.status, reply.json()["result"]) == (200, "existed")
    assert client.get("t", "a")["body"] == "old"


def test_reject_is_a_conflict(client):
    client.push("t", "a", delay="1h")
    refused = refusal(client.push, "t", "a", on_conflict="reject")
    assert (refused.status, refused.code, refused.reply.json()["state"]) == (409, "conflict", "delayed")


def test_a_leased_job_cannot_be_replaced(client):
    client.push("t", "a")
    client.take("t")
    refused = refusal(client.push, "t", "a", b"new")
    assert (refused.status, refused.code, refused.reply.json()["state"]) == (409, "leased", "leased")


def test_a_dead_job_is_replaced_by_a_new_one(client):
    client.push("t", "a", max_attempts=1)
    client.nack(take_one(client, "t")["lease"])
    assert client.push("t", "a", b"new")["result"] == "replaced"
    assert take_one(client, "t")["attempt"] == 1


def test_finished_ids_are_remembered_for_the_dedup_window(client):
    client.put_topic("once", dedup_window="1h")
    client.put_topic("short", dedup_window="100ms")
    for topic in ("once", "short"):
        client.push(topic, "a")
        client.ack(take_one(client, topic)["lease"])
    assert client.push("once", "a")["result"] == "existed"
    assert client.take("once") == []
    assert refusal(client.get, "once", "a").status == 404
    time.sleep(0.25)
    assert client.push("short", "a")["result"] == "created"


def test_an_id_is_free_again_after_the_ack(client):
    client.push("t", "a")
    client.ack(take_one(client, "t")["lease"])
    assert client.push("t", "a")["result"] == "created"


# ---- batches ----

@pytest.mark.parametrize("ndjson", [False, True])
def test_a_batch_has_one_result_per_item_in_order(client, ndjson):
    results = client.push_batch([
        {"topic": "b", "id": "text", "body": "hello"},
        {"topic": "b", "id": "late", "body": "x", "delay": "1h", "priority": 5, "meta": {"k": "v"}},
        {"topic": "b", "id": "json", "body": {"n": [1, 2]}},
        {"topic": "b", "body_base64": base64.b64encode(EVERY_BYTE).decode()},
        {"topic": ".bad", "body": "x"},
        {"topic": "b", "id": "text", "body": "again", "on_conflict": "keep"},
        {"topic": "other", "id": "at", "at": YEAR_2034, "body": "x", "content_type": "text/csv"},
    ], ndjson)
    assert [result["result"] for result in results] == ["created"] * 4 + ["bad_topic", "existed", "created"]
    assert [result.get("id") for result in results[:3]] == ["text", "late", "json"]
    job = client.get("b", "late")
    assert (job["priority"], job["meta"], job["state"]) == (5, {"k": "v"}, "delayed")
    assert client.get("b", "json")["body"] == {"n": [1, 2]} and client.get("b", "json")["content_type"] == "application/json"
    assert body_of(client.get("b", results[3]["id"])) == EVERY_BYTE
    assert client.get("other", "at")["due_at"] == YEAR_2034


def test_a_large_batch(client):
    results = client.push_batch([{"topic": "b", "id": f"j{i}", "body": "x" * 1000} for i in range(1000)])
    assert [result["id"] for result in results] == [f"j{i}" for i in range(1000)]
    assert {job["id"] for job in client.take("b", max=1000)} == {f"j{i}" for i in range(1000)}


# ---- get, list, change ----

def test_a_job_shows_all_about_itself(client):
    client.push("t", "a", b"x", delay="1h", priority=3, ttl="2h", lease_for="5s", max_attempts=4, backoff="fixed:7s")
    job = client.get("t", "a")
    assert (job["topic"], job["id"], job["state"], job["attempt"], job["priority"]) == ("t", "a", "delayed", 0, 3)
    assert (job["max_attempts"], job["content_type"], job["body"]) == (4, "text/plain", "x")
    assert TIME.match(job["due_at"])


def test_reschedule_keeps_id_body_and_attempts(client):
    client.push("t", "a", b"kept")
    client.nack(take_one(client, "t")["lease"], delay="1h")
    assert client.reschedule("t", "a", delay=0)["result"] == "ok"
    job = take_one(client, "t")
    assert (job["attempt"], job["body"]) == (2, "kept")
    client.push("t", "b", delay="1h")
    client.reschedule("t", "b", at=YEAR_2034)
    client.reschedule("t", "b", priority=1)
    job = client.get("t", "b")
    assert (job["due_at"], job["priority"]) == (YEAR_2034, 1)


def test_cancel_has_a_definite_answer(client):
    client.push("t", "a", delay="1h")
    assert client.cancel("t", "a")["result"] == "cancelled"
    assert refusal(client.cancel, "t", "a").status == 404
    assert refusal(client.get, "t", "a").code == "not_found"
    client.push("t", "held")
    client.take("t")
    refused = refusal(client.cancel, "t", "held")
    assert (refused.status, refused.code, refused.reply.json()["state"]) == (409, "leased", "leased")


def test_run_makes_it_due_now(client):
    client.push("t", "a", delay="1h")
    client.run("t", "a")
    assert take_one(client, "t")["id"] == "a"
    assert refusal(client.run, "t", "a").code == "leased"


def test_a_dead_job_can_be_cancelled_but_not_moved(client):
    client.push("t", "a", max_attempts=1)
    client.nack(take_one(client, "t")["lease"])
    assert refusal(client.reschedule, "t", "a", delay="1ms").code == "dead"
    assert refusal(client.run, "t", "a").code == "dead"


def test_a_list_is_by_due_and_paged(client):
    for i in (5, 3, 9, 1, 7, 2, 8, 4, 6, 0):
        client.push("t", f"j{i}", delay=f"{i + 1}h")
    client.push("t", "ready")
    seen, cursor, pages = [], None, 0
    while pages < 20:
        page = client.list("t", state="delayed", limit=3, cursor=cursor)
        seen += [job["id"] for job in page["jobs"]]
        pages += 1
        cursor = page.get("cursor")
        if not cursor:
            break
    assert seen == [f"j{i}" for i in range(10)] and pages == 4
    assert [job["id"] for job in client.list("t", state="ready")["jobs"]] == ["ready"]
    assert len(client.list("t")["jobs"]) == 11
    assert client.list("t", state="dead")["jobs"] == []


# ---- take, ack, nack, extend ----

def test_a_taken_job_has_all_fields(client):
    client.push("t", "a", b"x", meta={"k": "v"})
    job = take_one(client, "t")
    assert set(job) >= {"topic", "id", "lease", "attempt", "delivery", "due_at", "lease_until", "priority", "content_type", "meta", "body"}
    assert (job["topic"], job["id"], job["attempt"], job["priority"]) == ("t", "a", 1, 100)
    assert 58 < seconds_from_now(job["lease_until"]) <= 60.1, "the default lease is 60 s"
    assert client.get("t", "a")["state"] == "leased"


def test_ready_jobs_come_by_priority_then_due_then_push_order(client):
    soon = time.time() + 1.5
    client.push("t", "late", priority=5, at=int(soon * 1000 + 60))
    client.push("t", "first", priority=0, at=int(soon * 1000 + 90))
    client.push("t", "older", priority=5, at=int(soon * 1000 + 20))
    client.push("t", "last")
    client.push("t", "very-last")
    assert time.time() < soon, "too slow to say anything"
    time.sleep(soon + 0.12 - time.time())
    assert [job["id"] for job in client.take("t", max=10)] == ["first", "older", "late", "last", "very-last"]


def test_several_topics_first_named_first_served(client):
    for topic in ("a", "b"):
        for i in range(2):
            client.push(topic, f"{topic}{i}")
    assert [job["id"] for job in client.take("none", "b", "a", max=3)] == ["b0", "b1", "a0"]
    waiting = together(lambda: client.take("x", "y", wait="5s"), lambda: (time.sleep(0.1), client.push("y", "woken")))[0]
    assert [job["id"] for job in waiting] == ["woken"]


def test_raw_take(client):
    client.push("raw", "a", EVERY_BYTE, content_type="image/x-own", priority=9)
    reply = client.call("POST", "/v1/topics/raw/take?max=1", headers={"Accept": "application/octet-stream"})
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, EVERY_BYTE, "image/x-own")
    fields = {name: reply.headers["tarry-" + name] for name in ("topic", "id", "attempt", "lease", "priority", "due-at", "lease-until")}
    assert (fields["topic"], fields["id"], fields["attempt"], fields["priority"]) == ("raw", "a", "1", "9")
    assert client.ack(fields["lease"])[0]["result"] == "ok"
    empty = client.call("POST", "/v1/topics/raw/take?max=1", headers={"Accept": "application/octet-stream"})
    assert (empty.status, empty.body) == (204, b"")


def test_one_result_per_lease(client):
    for ident in "abc":
        client.push("t", ident)
    leases = [job["lease"] for job in client.take("t", max=3)]
    results = client.ack(leases[0], "0" * 32, leases[1])
    assert [result["result"] for result in results] == ["ok", "lease_ended", "ok"]
    in_body = client.good("POST", "/v1/ack", json.dumps({"leases": [leases[2], leases[0]]}).encode(), {"Content-Type": "application/json"})
    assert [result["result"] for result in in_body["results"]] == ["ok", "lease_ended"]


def test_nack_waits_and_remembers_why(client):
    client.push("t", "a")
    lease = take_one(client, "t")["lease"]
    begin = time.monotonic()
    client.nack(lease, delay="200ms", error="no connection to the bank")
    job = client.get("t", "a")
    assert (job["attempt"], job["last_error"]) == (1, "no connection to the bank")
    assert job["state"] == "delayed" or time.monotonic() - begin >= 0.2  # a slow machine
    again = take_one(client, "t", wait="5s")
    assert again["attempt"] == 2 and time.monotonic() - begin >= 0.2


def test_errors_are_cut_at_256_bytes(client):
    client.push("t", "a")
    client.nack(take_one(client, "t")["lease"], delay="1h", error="e" * 300)
    assert client.get("t", "a")["last_error"] == "e" * 256


def test_nack_without_delay_backs_off(client):
    client.push("t", "a", backoff="exp:100ms..300ms")
    for attempt, wait in ((1, 100), (2, 200), (3, 300), (4, 300)):
        job = take_one(client, "t", wait="5s")
        assert job["attempt"] == attempt
        before = time.time()
        client.nack(job["lease"])
        after = time.time()
        again = client.take("t", wait="5s")[0]
        assert wait * 0.8 <= (moment(again["due_at"]) - before) * 1000 + 1 and (moment(again["due_at"]) - after) * 1000 <= wait * 1.2 + 1
        assert time.time() >= moment(again["due_at"]) - 0.001
        client.nack(again["lease"], delay=0)
        client.push("t", "a", backoff="exp:100ms..300ms")
        for _ in range(attempt):
            client.nack(take_one(client, "t", wait="5s")["lease"], delay=0)


def test_a_lease_that_ends_is_a_failed_attempt(client):
    client.put_topic("t", backoff="fixed:10ms")
    client.push("t", "a")
    begin = time.monotonic()
    first = take_one(client, "t", lease_for="1s")
    second = take_one(client, "t", wait="5s")
    assert 1.0 <= time.monotonic() - begin < 5 * slack()
    assert (second["attempt"], second["id"]) == (2, "a") and second["delivery"] > first["delivery"]
    assert refused_code(client, "ack", first["lease"]) == "lease_ended"
    assert client.ack(second["lease"])[0]["result"] == "ok"


def refused_code(client, verb, lease):
    reply = client.call("POST", f"/v1/{verb}?lease={lease}")
    assert reply.status == 409
    return reply.code


def test_extend_gives_more_time(client):
    client.push("t", "a")
    job = take_one(client, "t", lease_for="1s")
    result = client.extend(job["lease"], lease_for="1h")[0]
    assert result["result"] == "ok" and 3590 < seconds_from_now(result["lease_until"]) < 3601
    time.sleep(1.1)
    assert client.take("t") == []
    assert client.ack(job["lease"])[0]["result"] == "ok"
    assert refused_code(client, "extend", job["lease"]) == "lease_ended"


def test_dead_after_max_attempts_and_no_sooner(client):
    client.push("t", "a", max_attempts=3)
    for attempt in (1, 2, 3):
        job = take_one(client, "t", wait="2s")
        assert job["attempt"] == attempt
        client.nack(job["lease"], delay=0, error=f"failure {attempt}")
    assert client.take("t", wait="50ms") == []
    job = client.get("t", "a")
    assert (job["state"], job["attempt"], job["last_error"]) == ("dead", 3, "failure 3")


def test_a_job_expires_at_the_end_of_its_ttl(client):
    client.push("t", "a", ttl="100ms")
    client.push("t", "b", ttl="1h")
    time.sleep(0.3)
    assert [job["id"] for job in client.take("t", max=5)] == ["b"]
    assert refusal(client.get, "t", "a").status == 404


ENVELOPE = {"id": "e1", "delay": "30m", "priority": 7, "body": {"order": 5}}


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", None])
def test_an_envelope_is_taken_apart(content_type, client):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = client.call("POST", "/v1/topics/envelopes/jobs", json.dumps(ENVELOPE).encode(), {**headers, "Tarry-Meta-By": "a header"})
    assert answer.status == 201 and answer.json()["id"] == "e1" and answer.json()["state"] == "delayed"
    job = client.get("envelopes", "e1")
    assert job["body"] == {"order": 5} and job["priority"] == 7 and job["content_type"] == "application/json" and job["meta"] == {"by": "a header"}
    client.call("DELETE", "/v1/topics/envelopes/jobs/e1")
    put = client.call("PUT", "/v1/topics/envelopes/jobs/e1", json.dumps({"topic": "envelopes", "delay": "30m", "body": "text", "meta": {"a": "b"}}).encode(), headers)
    job = client.get("envelopes", "e1")
    assert put.status == 201 and job["body"] == "text" and job["content_type"] == "text/plain; charset=utf-8" and job["meta"] == {"a": "b"}


def test_an_envelope_names_the_job_of_its_path(client):
    for member, value in (("id", "other"), ("topic", "other")):
        answer = client.call("PUT", "/v1/topics/envelopes/jobs/e2", json.dumps({"body": "x", "delay": "1h", member: value}).encode(), {"Content-Type": "application/json"})
        assert (answer.status, answer.json()["code"]) == (400, "option_clash") and f"'{member}' in the body" in answer.json()["detail"]
    answer = client.call("POST", "/v1/topics/envelopes/jobs", b'{"body":"x","delay":"soon"}', {"Content-Type": "application/json"})
    assert (answer.status, answer.json()["code"]) == (400, "bad_option")


@pytest.mark.parametrize("query, body", [
    ("", {"body": "x"}), ("", {"id": "1"}), ("", {"priority": 3, "order": 5}), ("", {"topic": "a", "body": "x"}),
    ("?delay=0", ENVELOPE), ("?priority=3", ENVELOPE), ("?delay=0", {"dealy": "30m", "body": "x"}), ("?delay=0", {"delay": "30m", "order": 5})])
def test_anything_but_an_envelope_is_the_body(query, body, client):
    answer = client.call("PUT", f"/v1/topics/envelopes/jobs/plain{query}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    assert answer.status in (200, 201) and answer.json()["state"] == "ready" and client.get("envelopes", "plain")["body"] == body


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", None])
@pytest.mark.parametrize("body, code, detail", [
    ({"dealy": "30m", "body": {"a": 1}}, "unknown_option", "unknown option 'dealy' beside 'body', did you mean 'delay'; to push the object itself as the body add an option, as in ?delay=0"),
    ({"delay": "30m", "body": "x", "order": 5}, "unknown_option", "unknown option 'order' beside 'body'; to push"),
    ({"author": "bo", "body": "x"}, "unknown_option", "unknown option 'author' beside 'body'"),
    ({"delay": "30m", "order": 5}, "bad_option", "'delay' in a body without 'body': give it in the query, as in ?delay=30m"),
    ({"at": "2030-01-01T00:00:00Z"}, "bad_option", "'at' in a body without 'body'")])
def test_an_envelope_with_a_mistake_is_rejected(body, code, detail, content_type, client):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = client.call("PUT", "/v1/topics/mistakes/jobs/1", json.dumps(body).encode(), headers)
    assert (answer.status, answer.json()["code"]) == (400, code) and detail in answer.json()["detail"]
    assert client.topics() == []


@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.shop+json", "application/x-www-form-urlencoded"])
def test_malformed_json_without_an_option_is_rejected(content_type, client):
    headers = {"Content-Type": content_type}
    answer = client.call("PUT", "/v1/topics/mistakes/jobs/1", b'{"delay":"30m","body":', headers)
    assert (answer.status, answer.json()["code"]) == (400, "bad_json") and "malformed JSON at byte 22; to push the text itself add an option" in answer.json()["detail"]
    assert client.call("PUT", "/v1/topics/mistakes/jobs/1?delay=0", b'{"delay":"30m","body":', headers).status == 201
    assert client.call("PUT", "/v1/topics/mistakes/jobs/2", b"", headers).status == 201


@pytest.mark.parametrize("body, detail", [
    (b'{"topic":"u",', "malformed JSON at byte 13; the body must be a JSON array of jobs, or one object per line"),
    (b'{"topic":"u"}\n{"topic":"u",', "malformed JSON at byte 27"), (b"5", "the body must be a JSON array of jobs"), (b"", "the body is empty"), (b"\n", "the body is empty")])
def test_a_malformed_batch_is_rejected_with_its_place(body, detail, client):
    answer = client.call("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
    assert (answer.status, answer.json()["code"]) == (400, "bad_json") and detail in answer.json()["detail"] and not client.topics()


def test_a_form_is_rejected_unless_an_option_declares_it_as_the_body(client):
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    answer = client.call("POST", "/v1/topics/forms/jobs", b"delay=30m&body=x", headers)
    assert (answer.status, answer.json()["code"]) == (400, "bad_option") and "in the query, as in ?delay=30m" in answer.json()["detail"]
    assert client.call("PUT", "/v1/topics/forms/jobs/1?delay=1h", b"delay=30m&body=x", headers).status == 201
    assert client.call("PUT", "/v1/topics/forms/jobs/2", b"no form", headers).status == 201


@pytest.mark.parametrize("call", [
    ("POST", "/v1/topics/units/jobs?delay=30", b"x"), ("POST", "/v1/topics/units/jobs?lease_for=1000", b"x"), ("POST", "/v1/topics/units/take?wait=1"),
    ("POST", "/v1/jobs", b'[{"topic":"units","delay":30}]'), ("POST", "/v1/jobs", b'[{"topic":"units","delay":"30"}]'),
    ("POST", "/v1/topics/units/jobs?backoff=fixed:10", b"x"), ("POST", "/v1/topics/units/jobs?backoff=exp:1..10m", b"x"), ("PUT", "/v1/topics/units", b'{"ttl":3600}')])
def test_a_duration_needs_a_unit(call, client):
    answer = client.call(*call)
    text = answer.body.decode()
    assert "bad_option" in text and "needs a unit" in text and not client.topics()


def test_zero_needs_no_unit(client):
    assert client.call("POST", "/v1/topics/units/jobs?delay=0", b"x").status == 201
    assert client.call("POST", "/v1/jobs", b'[{"topic":"units","delay":0},{"topic":"units","delay":"0"}]').json()["results"][1]["result"] == "created"
    assert len(client.take("units", max=9, wait=0)) == 3


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "return"])
@pytest.mark.parametrize("body", [b"null", b"{}", b" { } "])
def test_an_empty_body_with_a_lease_counts_as_missing(body, verb, client):
    client.push("t", "a")
    lease = take_one(client, "t")["lease"]
    headers = {"Content-Type": "application/json"}
    assert client.call("POST", f"/v1/{verb}", body, headers).status == 400
    assert client.call("POST", f"/v1/{verb}?lease={lease}", body, headers).json()["results"][0]["result"] == "ok"
    assert client.call("POST", "/v1/topics/t/take?max=1", body, headers).status == 200


@pytest.mark.parametrize("call", [
    ("GET", "/v1/load?topic="), ("GET", "/v1/load?topic=.x"), ("POST", "/v1/topics/.x/cancel", b'{"ids":[]}'), ("POST", "/v1/topics/.x/run", b'{"ids":[]}'),
    ("POST", "/v1/topics/.x/reschedule?delay=1s", b'{"ids":[]}'), ("POST", "/v1/topics/.x/redrive", b'{"ids":[]}')])
def test_a_bad_topic_is_rejected_even_without_any_jobs(call, client):
    answer = client.call(*call)
    assert (answer.status, answer.json()["code"]) == (400, "bad_topic")


def test_an_empty_batch_has_no_results(client):
    assert client.call("POST", "/v1/jobs", b"[]", {"Content-Type": "application/json"}).json() == {"results": []}


def levels(count):
    return b"[" * count + b"]" * count


@pytest.mark.parametrize("framing", ["array", "lines"])
@pytest.mark.parametrize("depth", [65, 66, 67, 200, 100_000])
def test_an_item_that_is_nested_too_deep_is_rejected_separately(depth, framing, client):
    items = [b'{"topic":"t","id":"a","body":1}', b'{"topic":"t","id":"deep","body":%s}' % levels(depth), b'{"topic":"t","id":"b","body":%s}' % levels(64)]
    body = b"[" + b",".join(items) + b"]" if framing == "array" else b"\n".join(items)
    results = client.call("POST", "/v1/jobs", body, {"Content-Type": "application/json" if framing == "array" else "application/x-ndjson"}).json()["results"]
    assert [one["result"] for one in results] == ["created", "bad_item", "created"] and results[1]["limit"] == 64 and "nested deeper" in results[1]["detail"]
    assert client.get("t", "b")["body"] == json.loads(levels(64))


def test_push_and_get_have_the_same_nesting_limit(client):
    headers = {"Content-Type": "application/json"}
    assert client.call("PUT", "/v1/topics/t/jobs/a", levels(64), headers).status == 201 and client.get("t", "a")["body"] == json.loads(levels(64))
    answer = client.call("PUT", "/v1/topics/t/jobs/b", levels(65), headers)
    assert (answer.status, answer.json()["limit"]) == (400, 64)
    assert client.call("PUT", "/v1/topics/t/jobs/c", levels(65), {"Content-Type": "text/plain"}).status == 201
    assert client.call("PUT", "/v1/topics/t/jobs/d?delay=0", levels(65)[:-1], headers).status == 201  # no JSON: a text, whatever it is called


@pytest.mark.parametrize("depth, result", [(64, "created"), (65, "bad_item"), (100_000, "bad_item")])
def test_a_json_body_in_base64_has_the_same_limit_of_levels(depth, result, client):
    item = {"topic": "t", "id": "x", "content_type": "application/json", "body_base64": base64.b64encode(levels(depth)).decode()}
    first, second = client.call("POST", "/v1/jobs", json.dumps([item, {"topic": "t", "id": "y", "body": 1}]).encode(), {"Content-Type": "application/json"}).json()["results"]
    assert (first["result"], first.get("limit"), second["result"]) == (result, None if result == "created" else 64, "created")
