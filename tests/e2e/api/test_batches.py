"""Jobs that wait for other jobs, over HTTP: options, views, members, and a whole batch in one call."""

import json
import time

import pytest

from client import Client, Refused

ONE = "acked=1 dead=0 cancelled=0 expired=0 missing=0"


def push_batch(client, job, *members):
    return client.good("POST", "/v1/batches", json.dumps({"job": job, "members": members}).encode(), {"Content-Type": "application/json"})


def refusal(client, *call):
    with pytest.raises(Refused) as refused:
        client.good(*call)
    return refused.value.status, refused.value.code


def ack_next(client, topic, ident):
    (job,) = client.take(topic)
    assert job["id"] == ident
    client.ack(job["lease"])
    return job["meta"].get("tarry-batch")


def test_a_waiting_job_is_due_after_its_members(client):
    client.good("PUT", "/v1/topics/t/jobs/w?waits=true&on_dead=hold", b"done")
    client.good("PUT", "/v1/topics/m/jobs/a?batch_topic=t&batch_id=w", b"x")
    client.push_batch([{"topic": "m", "id": "b", "batch": {"topic": "t", "id": "w"}}])
    job = client.get("t", "w")
    assert job["state"] == "delayed" and job["waits"] and job["on_dead"] == "hold" and job["waits_for"] == 2 and "due_at" not in job
    assert job["closed"] is False and job["outcomes"] == {"unfinished": 2, "acked": 0, "dead": 0, "cancelled": 0, "expired": 0}
    assert client.get("m", "a")["batch"] == {"topic": "t", "id": "w"}
    assert client.good("POST", "/v1/topics/t/jobs/w/close")["result"] == "ok"
    assert refusal(client, "PUT", "/v1/topics/m/jobs/c?batch_topic=t&batch_id=w") == (409, "batch_closed")
    assert "parent=LEASE" in client.call("PUT", "/v1/topics/m/jobs/c?batch_topic=t&batch_id=w").json()["detail"]
    assert refusal(client, "PUT", "/v1/topics/t/jobs/w") == (409, "waits")
    (job,) = client.take("m")
    lease = job["lease"]
    client.good("PUT", f"/v1/topics/m/jobs/c?batch_topic=t&batch_id=w&parent={lease}", b"x")
    client.ack(lease)
    for _ in range(2):
        client.nack(client.take("m")[0]["lease"], final="true")
    assert client.get("t", "w")["outcomes"]["dead"] == 2 and not client.take("t")
    client.topic_verb("m", "redrive")
    for _ in range(2):
        client.ack(client.take("m")[0]["lease"])
    assert ack_next(client, "t", "w") == "acked=3 dead=0 cancelled=0 expired=0 missing=0"


def test_options_are_checked(client):
    assert refusal(client, "PUT", "/v1/topics/m/jobs/a?batch_topic=t&batch_id=w") == (404, "no_batch")
    assert refusal(client, "PUT", "/v1/topics/m/jobs/a?batch_topic=t") == (400, "bad_option")
    assert refusal(client, "PUT", "/v1/topics/m/jobs/a?on_dead=go") == (400, "bad_option")
    assert refusal(client, "PUT", "/v1/topics/m/jobs/a?waits=true&members=0") == (400, "bad_option")
    assert refusal(client, "POST", "/v1/topics/m/jobs/a/close") == (404, "not_found")
    assert refusal(client, "POST", "/v1/batches", b"[]", {"Content-Type": "application/json"})[0] == 400
    assert refusal(client, "POST", "/v1/batches", b'{"job":{"topic":"t"},"members":[]}', {"Content-Type": "application/json"})[0] == 400


def test_a_batch_in_one_call_can_be_repeated(client):
    job, members = {"topic": "t", "id": "w", "body": "all"}, [{"topic": "m", "id": str(i), "body": i} for i in range(20)]
    first = push_batch(client, job, *members)
    assert first["closed"] and [result["result"] for result in first["results"]] == ["created"] * 21
    client.ack(client.take("m")[0]["lease"])
    again = push_batch(client, job, *members)
    assert again["closed"] and [result["result"] for result in again["results"]] == ["existed"] * 21
    assert client.get("t", "w")["waits_for"] == 19 and client.get("t", "w")["outcomes"]["acked"] == 1
    client.ack(*(job["lease"] for job in client.take("m", max=50)))
    assert ack_next(client, "t", "w") == "acked=20 dead=0 cancelled=0 expired=0 missing=0"


def results_of(answer):
    return [result["result"] for result in answer["results"]]


def test_a_new_member_after_the_close_is_rejected(client):
    job, (a, b, c) = {"topic": "t", "id": "w"}, [{"topic": "m", "id": ident} for ident in "abc"]
    push_batch(client, job, a, b)
    answer = push_batch(client, job, a, b, c)
    assert results_of(answer) == ["existed", "existed", "existed", "batch_closed"] and answer["closed"]
    assert "parent" in answer["results"][3]["detail"] and client.call("GET", "/v1/topics/m/jobs/c").status == 404
    assert results_of(push_batch(client, job, a, c)) == ["existed", "existed", "batch_closed"]
    assert ack_next(client, "m", "a") is None
    assert results_of(push_batch(client, job, a, b)) == ["existed"] * 3
    assert results_of(push_batch(client, job, a, b, c))[3] == "batch_closed"
    assert ack_next(client, "m", "b") is None
    assert results_of(push_batch(client, job, a, b)) == ["existed"] * 3
    assert ack_next(client, "t", "w") == "acked=2 dead=0 cancelled=0 expired=0 missing=0" and not client.take("m")


def test_another_member_in_place_of_one_that_has_ended_is_rejected(client):
    job, (a, b, c) = {"topic": "t", "id": "w"}, [{"topic": "m", "id": ident} for ident in "abc"]
    push_batch(client, job, a, b)
    assert ack_next(client, "m", "a") is None
    answer = push_batch(client, job, c, b)
    assert results_of(answer) == ["existed", "batch_closed", "existed"] and answer["results"][1]["id"] == "c"
    assert results_of(push_batch(client, job, b, a)) == ["existed"] * 3
    assert ack_next(client, "m", "b") is None
    assert results_of(push_batch(client, job, c, b)) == ["existed", "batch_closed", "batch_closed"]
    assert client.get("t", "w")["meta"] == {} and ack_next(client, "t", "w") == "acked=2 dead=0 cancelled=0 expired=0 missing=0"


def test_another_member_of_a_member_that_has_ended_is_rejected(client):
    job, step, (a, b) = {"topic": "t", "id": "w"}, {"topic": "s", "id": "step"}, [{"topic": "m", "id": ident} for ident in "ab"]
    push_batch(client, job, {**step, "members": [a]})
    assert ack_next(client, "m", "a") is None
    assert ack_next(client, "s", "step") == ONE
    assert results_of(push_batch(client, job, {**step, "members": [a]})) == ["existed"] * 3
    assert results_of(push_batch(client, job, {**step, "members": [b]})) == ["existed", "batch_closed", "no_batch"]
    assert ack_next(client, "t", "w") == ONE


def test_other_members_do_not_join_an_open_batch(client):
    client.good("PUT", "/v1/topics/full", b'{"max_jobs":1}', {"Content-Type": "application/json"})
    job, (a, b), full = {"topic": "t", "id": "w"}, [{"topic": "m", "id": ident} for ident in "ab"], [{"topic": "full", "id": ident} for ident in "xy"]
    assert results_of(push_batch(client, job, a, *full)) == ["created", "created", "created", "topic_full"]
    answer = push_batch(client, job, a, b)
    assert results_of(answer) == ["conflict"] * 3 and not answer["closed"] and "other members" in answer["results"][0]["detail"]
    assert client.call("GET", "/v1/topics/m/jobs/b").status == 404 and not client.get("t", "w")["closed"]
    assert ack_next(client, "full", "x") is None
    assert results_of(push_batch(client, job, a, full[1])) == ["conflict"] * 3
    client.push_batch([{**full[1], "batch": {"topic": "t", "id": "w"}}])
    client.good("POST", "/v1/topics/t/jobs/w/close")
    client.good("PUT", "/v1/topics/full", b"{}", {"Content-Type": "application/json"})
    assert results_of(push_batch(client, job, a, *full)) == ["existed"] * 4


def test_a_chain_can_be_repeated_when_its_first_steps_have_ended(client):
    chain = {"topic": "c", "id": "3"}, {"topic": "c", "id": "2", "members": [{"topic": "c", "id": "1"}]}
    push_batch(client, *chain)
    assert ack_next(client, "c", "1") is None
    assert results_of(push_batch(client, *chain)) == ["existed"] * 3
    assert ack_next(client, "c", "2") == ONE
    answer = push_batch(client, *chain)
    assert results_of(answer) == ["existed"] * 3 and answer["closed"]
    assert ack_next(client, "c", "3") == ONE and not client.take("c")


def test_a_chain_stops_at_a_dead_job_and_continues_after_a_redrive(client):
    push_batch(client, {"topic": "c", "id": "3"}, {"topic": "c", "id": "2", "members": [{"topic": "c", "id": "1"}]})
    assert client.get("c", "3")["on_dead"] == "hold"
    client.nack(client.take("c")[0]["lease"], final="true")
    assert not client.take("c")
    client.topic_verb("c", "redrive")
    assert ack_next(client, "c", "1") is None
    assert ack_next(client, "c", "2") == ONE
    assert ack_next(client, "c", "3") == ONE


def test_a_member_of_another_batch_leaves_the_batch_open(client):
    push_batch(client, {"topic": "t", "id": "v"}, {"topic": "m", "id": "a"})
    answer = push_batch(client, {"topic": "t", "id": "w"}, {"topic": "m", "id": "a"}, {"topic": "t", "id": "w"})
    assert not answer["closed"] and [result["result"] for result in answer["results"]] == ["created", "conflict", "conflict"]
    assert not client.take("t")


def test_a_rejected_member_leaves_the_batch_open(client):
    client.put_topic("full", max_jobs=1)
    answer = push_batch(client, {"topic": "t", "id": "w"}, {"topic": "full", "id": "a"}, {"topic": "full", "id": "b"})
    assert not answer["closed"] and [result["result"] for result in answer["results"]] == ["created", "created", "topic_full"]
    client.put_topic("full", max_jobs=9)
    answer = push_batch(client, {"topic": "t", "id": "w"}, {"topic": "full", "id": "a"}, {"topic": "full", "id": "b"})
    assert answer["closed"] and client.get("t", "w")["waits_for"] == 2


def members_of(client, query=""):
    found, cursor = [], None
    for _ in range(100):
        page = client.good("GET", f"/v1/topics/t/jobs/w/members?limit=3{query}" + (f"&cursor={cursor.replace(' ', '%20')}" if cursor else ""))
        assert len(page["members"]) <= 3
        found += page["members"]
        cursor = page["cursor"]
        if not cursor:
            return found
    raise AssertionError("the list does not end")


def test_members_are_listed_by_outcome(client):
    client.put_topic("kept", keep_finished="1h")
    client.good("PUT", "/v1/topics/t/jobs/w?waits=true", b"x")
    for i in range(10):
        client.push("kept" if i % 2 else "m", str(i), batch_topic="t", batch_id="w")
        client.push("kept", f"other-{i}")
    taken = {job["id"]: job["lease"] for job in client.take("kept", max=20)}
    client.ack(*(lease for ident, lease in taken.items() if ident in "13"), *(lease for ident, lease in taken.items() if "other" in ident))
    client.nack(taken["5"], final="true")
    assert sorted(job["id"] for job in members_of(client)) == [str(i) for i in range(10)]
    assert sorted(job["id"] for job in members_of(client, "&outcome=acked")) == ["1", "3"]
    assert sorted(job["id"] for job in members_of(client, "&outcome=dead")) == ["5"]
    assert sorted(job["id"] for job in members_of(client, "&outcome=unfinished")) == ["0", "2", "4", "6", "7", "8", "9"]


def test_a_list_of_members_continues_after_a_page_that_ends_with_a_topic(client):
    client.put_topic("kept", keep_finished="1h")
    client.good("PUT", "/v1/topics/t/jobs/w?waits=true", b"x")
    for i in range(3):
        client.push("kept", str(i), batch_topic="t", batch_id="w")
    client.ack(*(job["lease"] for job in client.take("kept", max=20)))
    client.push("z", "3", batch_topic="t", batch_id="w")
    assert sorted(job["id"] for job in members_of(client)) == ["0", "1", "2", "3"]
    assert sorted(job["id"] for job in members_of(client, "&outcome=acked")) == ["0", "1", "2"]


def test_a_list_of_members_needs_a_job_or_a_member(client):
    where = "/v1/topics/t/jobs/w/members"
    assert refusal(client, "GET", where) == (404, "not_found")
    client.push("t", "w", waits="true")
    assert members_of(client) == []
    client.push("m", "a", batch_topic="t", batch_id="w")
    client.good("POST", "/v1/topics/t/jobs/w/run")
    client.ack(client.take("t")[0]["lease"])
    assert [job["id"] for job in members_of(client)] == ["a"]
    client.ack(client.take("m")[0]["lease"])
    assert refusal(client, "GET", where) == (404, "not_found")


def test_cancel_may_include_the_members(client):
    push_batch(client, {"topic": "t", "id": "w"}, {"topic": "m", "id": "a"}, {"topic": "m", "id": "b"})
    client.good("DELETE", "/v1/topics/t/jobs/w?members=true")
    assert not client.take("m") and client.topic("m")["counts"]["ready"] == 0


def take_all(client, topic):
    jobs = []
    while more := client.take(topic, max=100):
        jobs += more
    return jobs


def test_a_batch_has_members_in_several_shards(start_server):
    client = Client(start_server("--shards", "3").port)
    waiting = {"topic": "t", "id": "w", "waits": True}
    members = [{"topic": "m", "id": str(i), "batch": {"topic": "t", "id": "w"}} for i in range(40)]
    client.push_batch([waiting, *members])
    assert client.get("t", "w")["waits_for"] == 40
    client.good("POST", "/v1/topics/t/jobs/w/close")
    assert refusal(client, "PUT", "/v1/topics/m/jobs/late?batch_topic=t&batch_id=w") == (409, "batch_closed")
    assert refusal(client, "PUT", "/v1/topics/m/jobs/other?batch_topic=t&batch_id=none") == (404, "no_batch")
    first, *others = take_all(client, "m")
    client.ack(*(job["lease"] for job in others))
    for i in range(5):
        client.good("PUT", f"/v1/topics/m/jobs/child-{i}?batch_topic=t&batch_id=w&parent={first['lease']}")
    client.ack(first["lease"])
    assert client.get("t", "w")["waits_for"] == 5 and not client.take("t")
    client.ack(*(job["lease"] for job in take_all(client, "m")))
    (job,) = client.take("t")
    assert job["meta"]["tarry-batch"] == "acked=45 dead=0 cancelled=0 expired=0 missing=0"


def test_a_stop_reaches_all_shards(start_server):
    client = Client(start_server("--shards", "3").port)
    push_batch(client, {"topic": "t", "id": "w", "on_dead": "stop"}, *({"topic": "m", "id": str(i)} for i in range(40)))
    client.answer("nack", [client.take("m")[0]["lease"]], final="true")
    until = time.monotonic() + 10
    while not (jobs := client.take("t")) and time.monotonic() < until:
        time.sleep(0.02)
    assert jobs[0]["meta"]["tarry-batch"] == "acked=0 dead=1 cancelled=39 expired=0 missing=0"
    assert not client.take("m")


def test_a_cancel_includes_members_in_all_shards(start_server):
    client = Client(start_server("--shards", "3").port)
    push_batch(client, {"topic": "t", "id": "w"}, *({"topic": "m", "id": str(i)} for i in range(40)))
    client.good("DELETE", "/v1/topics/t/jobs/w?members=true")
    assert not client.take("m")
