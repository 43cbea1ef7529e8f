"""Promises about finished jobs, one test per promise, on the real server: kept jobs, results, progress."""

import base64
import json
import re
import threading
import time

import pytest
from client import Refused
from redis_serving import metric
from server import eventually

EVERY_BYTE = bytes(range(256)) * 3


def finish(client, topic, ident, result=b"", content_type="application/octet-stream", **push):
    """Pushes a job and acks it with a result."""
    client.push(topic, ident, **push)
    job = client.take(topic)[0]
    assert job["id"] == ident
    reply = client.call("POST", f"/v1/ack?lease={job['lease']}", result, {"Content-Type": content_type})
    assert reply.status == 200, reply.body
    return job


def kept(client, topic):
    return [job["id"] for job in client.list(topic, state="finished")["jobs"]]


def test_a_finished_job_is_visible_with_its_result(client):
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "a", b'{"sum": 7}', "application/json", meta={"order": "1001"})
    job = client.get("t", "a")
    assert (job["state"], job["outcome"], job["attempt"]) == ("finished", "acked", 1)
    assert job["result"] == {"sum": 7} and job["result_type"] == "application/json"
    assert job["meta"] == {"order": "1001"} and "body" not in job and "due_at" not in job
    assert client.list("t", state="finished")["jobs"][0]["outcome"] == "acked"
    assert client.list("t")["jobs"] == []
    counts = client.topic("t")["counts"]
    assert counts["finished"] == 1 and sum(counts.values()) == 1


def test_a_finished_job_is_not_found_if_its_topic_keeps_none(client):
    finish(client, "t", "a", b"result")
    with pytest.raises(Refused) as refused:
        client.get("t", "a")
    assert refused.value.reply.status == 404
    assert client.list("t", state="finished")["jobs"] == []


def test_every_byte_of_a_result_is_returned(client):
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "a", EVERY_BYTE)
    assert base64.b64decode(client.get("t", "a")["result_base64"]) == EVERY_BYTE


def test_several_acks_have_their_own_results(client):
    client.put_topic("t", keep_finished="1h")
    for ident in "abc":
        client.push("t", ident)
    leases = {job["id"]: job["lease"] for job in client.take("t", max=3)}
    items = [{"lease": leases["a"], "result": {"n": 1}}, {"lease": leases["b"], "result_base64": "AAE="}, leases["c"]]
    client.good("POST", "/v1/ack", json.dumps({"leases": items}).encode())
    assert client.get("t", "a")["result"] == {"n": 1}
    assert client.get("t", "b")["result"] == "\0\x01"
    assert "result" not in client.get("t", "c")


def test_an_item_of_an_ack_may_name_the_type_of_its_result(client):
    client.put_topic("t", keep_finished="1h")
    client.push("t", "a")
    client.push("t", "b")
    leases = {job["id"]: job["lease"] for job in client.take("t", max=2)}
    items = [{"result_type": "text/csv", "lease": leases["a"], "result": "x;y"}, {"lease": leases["b"], "result_base64": "e30=", "result_type": "application/json"}]
    client.good("POST", "/v1/ack", json.dumps({"leases": items}).encode())
    assert (client.get("t", "a")["result_type"], client.get("t", "a")["result"]) == ("text/csv", "x;y")
    assert client.get("t", "b")["result"] == {}


@pytest.mark.parametrize("kind", [7, "caf\u00e9", "x" * 300])
def test_a_bad_type_of_a_result_is_rejected(client, kind):
    client.push("t", "a")
    lease = client.take("t")[0]["lease"]
    reply = client.call("POST", "/v1/ack", json.dumps({"leases": [{"lease": lease, "result": "x", "result_type": kind}]}).encode())
    assert reply.status == 400 and client.get("t", "a")["state"] == "leased"


def test_a_result_that_is_too_big_leaves_the_job_leased(client):
    client.put_topic("t", keep_finished="1h")
    client.push("t", "a")
    lease = client.take("t")[0]["lease"]
    reply = client.call("POST", f"/v1/ack?lease={lease}", b"x" * (64 * 1024 + 1))
    assert (reply.status, reply.code) == (413, "result_too_big")
    assert client.get("t", "a")["state"] == "leased"
    assert client.call("POST", f"/v1/ack?lease={lease}", b"x" * 64 * 1024).status == 200


def test_the_server_may_allow_larger_results(start_server):
    client = start_server("--max-result", "200KiB").client()
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "a", b"x" * 200_000)
    assert client.get("t", "a")["result_bytes"] == 200_000


@pytest.mark.parametrize("memory", ["32MiB", "1GiB"])
def test_results_that_a_wait_keeps_count_as_memory_of_requests(start_server, memory):
    size, count, answers = 1_000_000, 20, []
    server = start_server("--max-result", "1MiB", "--max-body", "1MiB", "--max-request-memory", memory)
    client, idents = server.client(), [str(number) for number in range(count)]
    client.put_topic("t", keep_finished="1h")
    for ident in [*idents, "last"]:
        client.push("t", ident, delay="1h" if ident == "last" else "0s")
    body = json.dumps({"jobs": [{"topic": "t", "id": ident} for ident in [*idents, "last"]], "wait": "60s"}).encode()
    thread = threading.Thread(target=lambda: answers.append(server.client(timeout=90).good("POST", "/v1/wait", body, {"Content-Type": "application/json"})))
    thread.start()
    eventually(lambda: metric(server, "tarry_http_memory_bytes") > count * 512)  # the wait has begun
    for job in client.take("t", max=count):
        client.good("POST", f"/v1/ack?lease={job['lease']}", b"r" * size)
    least, most = (10 * size, 20 * size) if memory == "32MiB" else (count * size, (count + 10) * size)
    eventually(lambda: least < metric(server, "tarry_http_memory_bytes") < most)
    client.good("DELETE", "/v1/topics/t/jobs/last")
    thread.join()
    assert all(job["result_bytes"] == size for job in answers[0]["jobs"] if job["id"] != "last")
    eventually(lambda: metric(server, "tarry_http_memory_bytes") < size)


def test_a_kept_job_does_not_block_its_id(client):
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "a", b"first")
    assert client.push("t", "a")["result"] == "created"
    assert client.get("t", "a")["state"] == "ready" and kept(client, "t") == []


def test_a_remembered_id_is_kept_and_refuses_a_second_job(client):
    client.put_topic("t", keep_finished="1h", dedup_window="1h")
    finish(client, "t", "a", b"first")
    assert client.push("t", "a")["result"] == "existed"
    assert client.get("t", "a")["result"] == "first"


def test_finished_jobs_are_listed_newest_first_and_in_pages(client):
    client.put_topic("t", keep_finished="1h")
    names = [f"job-{n:02}" for n in range(25)]
    for name in names:
        finish(client, "t", name)
        time.sleep(0.002)
    found, cursor = [], None
    while True:
        page = client.list("t", state="finished", limit=7, **({"cursor": cursor} if cursor else {}))
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert found == names[::-1]


def test_finished_jobs_are_searched(client):
    client.put_topic("t", keep_finished="1h")
    for n in range(4):
        finish(client, "t", f"{'even' if n % 2 == 0 else 'odd'}-{n}", meta={"order": str(n)})
    assert sorted(job["id"] for job in client.list("t", state="finished", id_prefix="odd-")["jobs"]) == ["odd-1", "odd-3"]
    assert [job["id"] for job in client.list("t", state="finished", meta="order:2")["jobs"]] == ["even-2"]


def test_the_oldest_are_dropped_first(client):
    client.put_topic("t", keep_finished="1h", keep_finished_max=3)
    for name in "abcde":
        finish(client, "t", name)
        time.sleep(0.002)
    assert kept(client, "t") == ["e", "d", "c"]
    assert client.topic("t")["counts"]["finished"] == 3


def test_a_limit_of_bytes_drops_the_oldest(client):
    client.put_topic("t", keep_finished="1h", keep_finished_bytes=30_000)
    for name in "abcde":
        finish(client, "t", name, b"x" * 10_000)
        time.sleep(0.002)
    assert kept(client, "t") == ["e", "d"]


def test_dropped_jobs_are_counted_by_reason(client):
    client.put_topic("few", keep_finished="1h", keep_finished_max=1)
    client.put_topic("small", keep_finished="1h", keep_finished_bytes=15_000)
    for name in "abc":
        finish(client, "few", name)
        finish(client, "small", name, b"x" * 10_000)
    page = client.call("GET", "/metrics").body.decode()
    dropped = dict(re.findall(r'^tarry_finished_dropped_total\{reason="(\w+)"\} (\d+)$', page, re.M))
    assert dropped == {"number": "2", "bytes": "2", "unreadable": "0"}


def test_a_push_decides_how_long_its_job_is_kept(client):
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "no", keep_finished=0)
    finish(client, "other", "yes", b"r", keep_finished="1h")
    assert kept(client, "t") == []
    assert kept(client, "other") == ["yes"]
    finish(client, "other", "no", b"r")
    assert kept(client, "other") == ["yes"]


def test_a_finished_job_expires(client):
    client.put_topic("t", keep_finished="200ms")
    finish(client, "t", "a")
    assert kept(client, "t") == ["a"]
    eventually(lambda: kept(client, "t") == [])
    assert client.topic("t")["counts"]["finished"] == 0


def test_cancelled_and_expired_jobs_are_kept_and_purged_ones_are_not(client):
    client.put_topic("t", keep_finished="1h")
    client.push("t", "cancelled", delay="1h")
    client.cancel("t", "cancelled")
    client.push("t", "purged", delay="1h")
    client.topic_verb("t", "purge", state="delayed")
    client.push("t", "expired", ttl="50ms")
    eventually(lambda: client.topic("t")["counts"]["finished"] == 2)
    assert {job["id"]: job["outcome"] for job in client.list("t", state="finished")["jobs"]} == \
        {"cancelled": "cancelled", "expired": "expired"}


def test_finished_jobs_are_purged(client):
    client.put_topic("t", keep_finished="1h")
    finish(client, "t", "a")
    client.push("t", "waits", delay="1h")
    assert client.topic_verb("t", "purge", state="finished")["jobs"] == 1
    assert kept(client, "t") == [] and client.get("t", "waits")["state"] == "delayed"


def test_a_body_is_kept_if_the_topic_keeps_bodies(client):
    client.put_topic("t", keep_finished="1h", keep_body=True)
    finish(client, "t", "a", b"r", body=b"the body")
    assert client.get("t", "a")["body"] == "the body"


def test_progress_is_shown_until_the_end(client):
    client.put_topic("t", keep_finished="1h")
    client.push("t", "a")
    lease = client.take("t")[0]["lease"]
    client.extend(lease, progress="40 of 100 rows")
    assert client.get("t", "a")["progress"] == "40 of 100 rows"
    client.extend(lease)
    assert client.get("t", "a")["progress"] == "40 of 100 rows"
    client.extend(lease, progress="90 of 100 rows")
    client.ack(lease)
    assert client.get("t", "a")["progress"] == "90 of 100 rows"


def test_finished_jobs_survive_a_restart_and_checkpoints(start_server):
    server = start_server("--wal-file", "4MiB", "--shards", "1")
    client = server.client()
    client.put_topic("t", keep_finished="1h", dedup_window="30m")
    results = {f"job-{n}": bytes([n % 256]) * 2000 for n in range(200)}
    for name, result in results.items():
        finish(client, "t", name, result)
    for n in range(3000):  # several log files, so that the first jobs move to runs
        client.push("fill", f"f-{n}", b"y" * 4000, delay="1h")
    for _ in range(2):
        server.restart()
        client = server.client()
        assert client.topic("t")["counts"]["finished"] == len(results)
        for name, result in results.items():
            found = client.get("t", name)
            shown = found.get("result")
            got = base64.b64decode(found["result_base64"]) if shown is None else shown.encode()
            assert got == result, name
        assert client.push("t", "job-7")["result"] == "existed"
    listed, cursor = [], None
    while True:
        page = client.list("t", state="finished", limit=90, **({"cursor": cursor} if cursor else {}))
        listed += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert len(listed) == len(set(listed)) == len(results)
    assert client.topic_verb("t", "purge", state="finished")["jobs"] == len(results)
    assert client.topic("t")["counts"]["finished"] == 0
