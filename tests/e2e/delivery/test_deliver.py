"""Push delivery, from a push to a real endpoint: what is answered decides what becomes of the job."""

import base64
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
from conftest import FLAGS
from delivery import counts, deliver_test, settle, totals
from endpoint import Endpoint, write_policy
from server import BINARY, REPO, eventually, freeze, slack

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def server(start_delivering):
    return start_delivering()


def push(client, topic, job_id, delay="0", body=b'{"total":12}', **options):
    query = "".join(f"&{name}={value}" for name, value in options.items())
    return client.good("PUT", f"/v1/topics/{topic}/jobs/{job_id}?delay={delay}{query}", body)


def job(client, topic, job_id):
    reply = client.call("GET", f"/v1/topics/{topic}/jobs/{job_id}")
    return reply.json() if reply.status == 200 else None


def metric(client, name, **labels):
    """The sum of the samples that have these labels."""
    found, output = 0.0, client.call("GET", "/metrics").body.decode()
    for line in output.splitlines():
        match = re.match(re.escape(name) + r"(?:\{(.*)\})? (\S+)$", line)
        if match and all(f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()):
            found += float(match[2])
    return found


# ---- outcomes ----


def test_a_due_job_is_delivered_once_and_gone(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url + "/close/{id}"})
    began = time.time()
    push(client, "orders", "42", delay="300ms", body=b'{"total": 12}')
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    (call,) = endpoint.calls
    assert call.path == "/close/42" and call.body == b'{"total": 12}'
    assert call.headers["tarry-topic"] == "orders" and call.id == "42" and call.attempt == 1
    assert call.at - began >= 0.299
    assert job(client, "orders", "42") is None


@pytest.mark.parametrize("listening, named", [("::1", "[::1]"), ("127.0.0.1", "[::ffff:127.0.0.1]")], ids=["loopback", "mapped"])
def test_a_callback_reaches_an_address_of_version_6(start_delivering, listening, named):
    """By a test of the target, and by a job."""
    client = start_delivering(policy=("allow-host = ::1", "allow-host = ::ffff:127.0.0.1", "allow-network = ::1/128")).client()
    with Endpoint(host=listening) as endpoint:
        settle(client, "six", deliver={"to": f"http://{named}:{endpoint.port}/ok"})
        assert "done after" in deliver_test(client, "six")
        push(client, "six", "1")
        eventually(lambda: totals(client, "six")["acked"] == 1)
        assert endpoint.of("1")[0].path == "/ok"


def test_the_whole_job_goes_to_the_target_of_its_topic(server, endpoint):
    """The body is signed and counted as it goes out; many of them go together."""
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url + "/whole", "body": "job"})
    client.good("POST", "/v1/topics/orders/pause")
    bodies = {"json": (b'{"total": 12}', "application/json"), "text": ("grü\"ße".encode(), "text/plain"), "bytes": (b"\xff\0", "image/x"), "empty": (b"", "text/plain")}
    for ident, (body, content_type) in bodies.items():
        client.push("orders", ident, body, content_type=content_type, meta={"kind": "a\"b"}, priority=7)
    for at in range(100):
        client.push("orders", str(at), b"x" * 1000)
    client.good("POST", "/v1/topics/orders/resume")
    eventually(lambda: totals(client, "orders")["acked"] == 104)
    output = {call.id: (call.headers["content-type"], json.loads(call.body)) for call in endpoint.calls}
    assert {content_type for content_type, _ in output.values()} == {"application/json"}
    whole = {ident: body for ident, (_, body) in output.items()}
    assert re.fullmatch(r"20..-..-..T..:..:..\....Z", whole["json"].pop("due_at"))
    assert whole["json"] == {"topic": "orders", "id": "json", "attempt": 1, "priority": 7, "content_type": "application/json", "meta": {"kind": 'a"b'}, "body": {"total": 12}}
    assert whole["text"]["body"] == 'grü"ße' and whole["empty"]["body"] == "" and base64.b64decode(whole["bytes"]["body_base64"]) == b"\xff\0"
    assert all(whole[str(at)]["body"] == "x" * 1000 for at in range(100))


def test_a_failed_delivery_comes_again_by_backoff(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: 500 if call.n < 3 else 200
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:200ms")
    push(client, "orders", "1")
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    assert [call.attempt for call in endpoint.calls] == [1, 2, 3]
    assert all(later.at - earlier.at >= 0.09 for earlier, later in zip(endpoint.calls, endpoint.calls[1:]))
    assert totals(client, "orders")["nacked"] == 2


def test_a_rejected_job_is_dead_immediately_with_its_error(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: 410
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1")
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    found = job(client, "orders", "1")
    assert found["state"] == "dead" and "410" in found["last_error"] and found["attempt"] == 1
    assert [call.attempt for call in endpoint.calls] == [1]


def test_it_is_dead_after_its_last_attempt_with_its_history(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: 500
    settle(client, "orders", deliver={"to": endpoint.url}, max_attempts=3, backoff="fixed:10ms")
    push(client, "orders", "1")
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    assert [call.attempt for call in endpoint.calls] == [1, 2, 3]
    history = job(client, "orders", "1")["history"]
    assert [(entry["attempt"], entry["outcome"]) for entry in history] == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert all("500" in entry["error"] for entry in history)


def test_a_retry_after_in_the_past_does_not_use_up_the_attempts(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    endpoint.answer = lambda call: (503, {"Retry-After": "0" if call.n == 1 else "Sun, 06 Nov 1994 08:49:37 GMT"})
    push(client, "orders", "42")
    eventually(lambda: endpoint.calls)
    time.sleep(0.6)
    assert len(endpoint.calls) == 1 and job(client, "orders", "42")["state"] == "delayed"


def test_retry_after_is_obeyed_for_the_job_and_the_endpoint(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: (503, {"Retry-After": 1}) if call.id == "first" and call.n == 1 else 200
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:10ms")
    push(client, "orders", "first")
    eventually(lambda: totals(client, "orders")["nacked"] == 1)
    push(client, "orders", "second")
    eventually(lambda: totals(client, "orders")["acked"] == 2)
    begun = endpoint.calls[0].at
    assert all(call.at - begun >= 0.95 for call in endpoint.calls[1:])


def test_a_429_delays_its_own_url_and_no_other_one_of_the_host(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: (429, {"Retry-After": 30}) if call.path == "/limited" else 200
    settle(client, "limited", deliver={"to": endpoint.url + "/limited"}, backoff="fixed:10ms")
    settle(client, "free", deliver={"to": endpoint.url + "/free"})
    push(client, "limited", "first")
    eventually(lambda: totals(client, "limited")["nacked"] == 1)
    push(client, "limited", "second")
    for n in range(5):
        push(client, "free", str(n))
    eventually(lambda: totals(client, "free")["acked"] == 5)
    assert [call.id for call in endpoint.calls if call.path == "/limited"] == ["first"]


def test_a_retry_after_holds_the_group_and_no_other_one(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: (429, {"Retry-After": 30}) if call.path in ("/a", "/alone") else 200
    settle(client, "calls", deliver={"callback": True})
    push(client, "calls", "a1", callback=endpoint.url + "/a", group="a")
    push(client, "calls", "alone", callback=endpoint.url + "/alone")  # one callback does not stand for the topic
    eventually(lambda: totals(client, "calls")["nacked"] == 2)
    push(client, "calls", "a2", callback=endpoint.url + "/other", group="a")
    for n in range(3):
        push(client, "calls", f"b{n}", callback=endpoint.url + "/b", group="b")
        push(client, "calls", f"c{n}", callback=endpoint.url + "/c")
    eventually(lambda: totals(client, "calls")["acked"] == 6)
    assert job(client, "calls", "a2")["held_by"] == "hold" and [call.id for call in endpoint.calls if call.path == "/other"] == []
    group = client.good("GET", "/v1/topics/calls/groups/a")
    assert group["held_by"] == "hold" and group["ready"] == 1


def test_a_retry_after_of_the_target_of_the_topic_holds_the_topic(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: (503, {"Retry-After": 3600})
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1")
    eventually(lambda: totals(client, "orders")["nacked"] == 1)
    push(client, "orders", "2")
    eventually(lambda: job(client, "orders", "2").get("held_by") == "hold")
    client.call("POST", "/v1/topics/orders/resume")
    assert "held_by" not in job(client, "orders", "2")


def test_repeated_429s_without_a_time_open_only_the_breaker_of_the_url(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: 429 if call.path == "/limited" else 200
    settle(client, "limited", deliver={"to": endpoint.url + "/limited", "max_in_flight": 1}, backoff="fixed:1h")
    settle(client, "free", deliver={"to": endpoint.url + "/free"})
    for n in range(30):
        push(client, "limited", str(n))
    eventually(lambda: totals(client, "limited")["nacked"] >= 5)
    push(client, "free", "1")
    eventually(lambda: totals(client, "free")["acked"] == 1)
    assert len([call for call in endpoint.calls if call.path == "/limited"]) < 10


def test_a_silent_endpoint_costs_an_attempt_after_the_timeout(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: time.sleep(1.0) if call.n == 1 else 200
    settle(client, "orders", deliver={"to": endpoint.url, "timeout": "300ms"}, backoff="fixed:10ms")
    push(client, "orders", "1")
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    assert [call.attempt for call in endpoint.calls] == [1, 2]


# ---- headers ----


def test_a_topic_may_add_headers_such_as_those_of_a_cloud_event(server, endpoint):
    client = server.client()
    headers = {"ce-specversion": "1.0", "ce-id": "{topic}/{id}", "ce-source": "https://shop.example/tarry", "ce-type": "{meta.kind}", "x-empty": "{meta.none}", "x-tenant": "{group}"}
    settle(client, "orders", deliver={"to": endpoint.url, "headers": headers})
    client.push("orders", "1", b"x", meta={"kind": "order.closed"}, group="acme")
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    (one,) = endpoint.calls
    assert {name: one.headers[name] for name in headers} == {
        "ce-specversion": "1.0", "ce-id": "orders/1", "ce-source": "https://shop.example/tarry", "ce-type": "order.closed", "x-empty": "", "x-tenant": "acme"}


# ---- destinations ----


def test_a_jobs_own_callback_is_used_if_the_topic_allows_it(server, endpoint):
    client = server.client()
    other = Endpoint().start()
    try:
        settle(client, "orders", deliver={"to": endpoint.url + "/topic", "callback": True})
        push(client, "orders", "own", callback=other.url + "/own")
        push(client, "orders", "plain")
        eventually(lambda: totals(client, "orders")["acked"] == 2)
        assert [(call.id, call.path) for call in other.calls] == [("own", "/own")]
        assert [(call.id, call.path) for call in endpoint.calls] == [("plain", "/topic")]
    finally:
        other.stop()


def test_a_callback_that_the_topic_does_not_allow_ends_the_job(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1", callback=endpoint.url + "/own")
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    assert job(client, "orders", "1")["last_error"] == "this topic does not allow callbacks of its jobs"
    assert endpoint.calls == []


def test_a_job_without_a_destination_is_dead_with_a_reason(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"callback": True})
    push(client, "orders", "1")
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    assert job(client, "orders", "1")["last_error"].startswith("no destination")


def test_a_host_missing_from_the_policy_is_rejected_when_set(server):
    client = server.client()
    reply = client.call("PUT", "/v1/topics/orders", json.dumps({"deliver": {"to": "https://example.com/x"}}).encode(), JSON)
    assert reply.status == 400 and "example.com" in reply.json()["detail"] and "allow-host" in reply.json()["detail"]


# ---- windows ----


def test_max_in_flight_holds_and_is_changed_at_run_time(server, endpoint):
    client = server.client()
    endpoint.answer = lambda call: time.sleep(0.05) or 200
    settle(client, "orders", deliver={"to": endpoint.url, "max_in_flight": 2})
    for i in range(12):
        push(client, "orders", i)
    eventually(lambda: totals(client, "orders")["acked"] == 12)
    assert endpoint.most_at_once == 2
    settle(client, "orders", deliver={"to": endpoint.url, "max_in_flight": 6})
    for i in range(60):
        push(client, "orders", i, delay="300ms")
    eventually(lambda: totals(client, "orders")["acked"] == 72)
    assert 3 <= endpoint.most_at_once <= 6
    assert sorted(endpoint.ids()) == sorted([str(i) for i in range(12)] + [str(i) for i in range(60)])


def test_rate_holds(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url, "rate": "40/s"})
    for i in range(40):
        push(client, "orders", i, delay="200ms")
    eventually(lambda: totals(client, "orders")["acked"] == 40)
    took = endpoint.calls[-1].at - endpoint.calls[0].at
    assert 0.7 <= took <= 8.0 * slack()  # 39 of them at 40/s; the first may be seen late


def test_a_paused_topic_is_not_delivered_until_it_is_resumed(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    client.good("POST", "/v1/topics/orders/pause")
    push(client, "orders", "1")
    time.sleep(0.3)
    assert endpoint.calls == []
    client.good("POST", "/v1/topics/orders/resume")
    eventually(lambda: totals(client, "orders")["acked"] == 1)


def test_a_slow_endpoint_does_not_delay_others(server, endpoint):
    client = server.client()
    may_answer = threading.Event()
    slow = Endpoint(lambda call: 200 if may_answer.wait(120) else 500).start()
    try:
        settle(client, "orders", deliver={"callback": True, "max_in_flight": 8, "timeout": "2m"})
        jobs = [f"slow-{i}" for i in range(20)] + [f"fast-{i}" for i in range(30)]
        for name in jobs:
            push(client, "orders", name, delay="500ms", callback=(slow if name[0] == "s" else endpoint).url)
        eventually(lambda: len(endpoint.calls) == 30)
        assert len(slow.calls) <= 4
        may_answer.set()
        eventually(lambda: totals(client, "orders")["acked"] == 50)
        assert slow.most_at_once <= 4
        assert sorted(slow.ids() + endpoint.ids()) == sorted(jobs)
        # Jobs that found the window full came back about once per sent job, not in a circle.
        returned = metric(client, "tarry_deliver_returned_total", topic="orders", reason="endpoint_full")
        print(f"{returned:.0f} returns for 20 jobs through a window of 4")
        assert returned <= 80
    finally:
        slow.stop()


# ---- the breaker ----


def test_an_endpoint_that_is_down_is_left_in_peace_and_found_again(start_delivering):
    server, endpoint = start_delivering(), Endpoint().start()
    client = server.client()
    endpoint.stop()
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:10ms")
    for i in range(100):
        push(client, "orders", i)
    eventually(lambda: metric(client, "tarry_deliver_endpoints", state="resting") == 1)
    assert "endpoint paused" in server.log()
    eventually(lambda: metric(client, "tarry_deliver_in_flight", topic="orders") == 0)  # those sent before the breaker opened
    attempts = metric(client, "tarry_deliver_attempts_total", topic="orders")
    time.sleep(0.5)
    assert metric(client, "tarry_deliver_attempts_total", topic="orders") <= attempts + 1
    assert metric(client, "tarry_endpoint_breaker_open", endpoint=endpoint.url) == 1
    sent = metric(client, "tarry_endpoint_duration_seconds_count", endpoint=endpoint.url)
    assert sent == sum(metric(client, "tarry_endpoint_outcomes_total", endpoint=endpoint.url, outcome=outcome) for outcome in ("failed", "unsent")) >= 5
    endpoint.start()
    eventually(lambda: totals(client, "orders")["acked"] == 100, seconds=15)
    assert "endpoint works again" in server.log()
    assert sorted(endpoint.ids(), key=int) == [str(i) for i in range(100)]
    assert metric(client, "tarry_endpoint_breaker_open", endpoint=endpoint.url) == 0
    assert metric(client, "tarry_endpoint_outcomes_total", endpoint=endpoint.url, outcome="done") == 100
    assert metric(client, "tarry_endpoint_in_flight", endpoint=endpoint.url) == 0
    endpoint.stop()


# ---- settings ----


def test_without_a_policy_file_nothing_is_delivered(start_delivering, endpoint, tmp_path):
    server = start_delivering()
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    server.terminate()
    server.flags = list(FLAGS)
    client = server.start().client()
    push(client, "orders", "1")
    time.sleep(0.3)
    assert endpoint.calls == [] and counts(client, "orders")["ready"] == 1
    assert server.log().count('event="delivery off" topic=orders') == 1


def test_another_target_takes_over_and_removing_it_ends_delivery(server, endpoint):
    client = server.client()
    other = Endpoint().start()
    try:
        settle(client, "orders", deliver={"to": endpoint.url})
        push(client, "orders", "1")
        eventually(lambda: totals(client, "orders")["acked"] == 1)
        settle(client, "orders", deliver={"to": other.url})
        push(client, "orders", "2", delay="100ms")
        eventually(lambda: totals(client, "orders")["acked"] == 2)
        settle(client, "orders")
        push(client, "orders", "3", delay="100ms")
        time.sleep(0.4)
        assert endpoint.ids() == ["1"] and other.ids() == ["2"]
        assert counts(client, "orders")["ready"] == 1
    finally:
        other.stop()


def test_the_policy_is_read_again_on_sighup_and_a_bad_one_is_not(server, endpoint, tmp_path):
    client = server.client()
    asked = json.dumps({"deliver": {"to": "https://later.example/x"}}).encode()
    assert client.call("PUT", "/v1/topics/orders", asked, JSON).status == 400
    write_policy(tmp_path / "policy", "nonsense")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: "policy not reloaded" in server.log())
    settle(client, "still", deliver={"to": endpoint.url})
    write_policy(tmp_path / "policy", "allow-host = later.example")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: "policy reloaded" in server.log())
    assert client.call("PUT", "/v1/topics/orders", asked, JSON).ok


def test_a_topic_forbidden_by_a_new_policy_is_reported_and_waits(start_delivering, endpoint, tmp_path):
    server = start_delivering()
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url, "sign": "default"})
    settle(client, "other", deliver={"to": "null:"})
    for lines, says in (("allow-host = 127.0.0.1\nallow-network = 127.0.0.0/8\n", "no key 'default' to sign with"),
                        ("allow-host = shop.example\n", "add 'allow-host = 127.0.0.1' to the policy file")):
        with open(tmp_path / "policy", "w", encoding="utf-8") as policy:
            policy.write(lines)
        server.proc.send_signal(signal.SIGHUP)
        eventually(lambda: says in server.log())
        push(client, "orders", len(says))
    client = server.restart().client()
    reported = re.findall(r'event="policy forbids delivery" topic=(\w+)', server.log())
    assert reported == ["orders"] * 3
    time.sleep(0.3)
    assert counts(client, "orders")["ready"] == 2 and not endpoint.calls, "another server may deliver them, or this one later"
    write_policy(tmp_path / "policy")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: totals(client, "orders")["acked"] == 2)
    assert {call.attempt for call in endpoint.calls} == {1} and "policy allows delivery again" in server.log()
    assert server.log().count(f'event="policy read" file={tmp_path}/policy') == 2


def test_a_bad_policy_file_refuses_the_start(start_server, tmp_path):
    server = start_server("--deliver", write_policy(tmp_path / "policy", "nonsense"), started=False)
    server.launch()
    assert server.proc.wait(20) == 1
    assert "start failed" in server.log() and "policy" in server.log()
    server.proc = None


def test_a_sample_explains_itself(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url + "/x"})
    output = client.good("POST", "/v1/topics/orders/deliver-test")
    assert output["outcome"] == "done" and output["allowed"] and output["signed_with"] == "default" and output["code"] == 200
    endpoint.answer = lambda call: 404
    output = client.good("POST", "/v1/topics/orders/deliver-test")
    assert output["outcome"] == "failed" and "to" in output["hint"] and "404" in output["error"]
    assert len(endpoint.calls) == 2 and endpoint.calls[0].headers["webhook-signature"].startswith("v1,")
    assert client.call("POST", "/v1/topics/nothing/deliver-test").status == 404
    assert totals(client, "orders")["pushed"] == 0


# ---- crashes ----


def test_a_kill_loses_nothing_and_duplicates_have_their_cause(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    endpoint.answer = lambda call: time.sleep(0.01) or 200
    settle(client, "orders", deliver={"to": endpoint.url, "max_in_flight": 8, "timeout": "500ms"})
    jobs = [str(i) for i in range(200)]
    for name in jobs:
        push(client, "orders", name, delay="300ms")
    eventually(lambda: len(endpoint.calls) >= 40)
    server.kill()
    before = len(endpoint.calls)
    client = server.start().client()
    # Deliveries in progress at the crash stay leased until their time ends: they come last, after timeout and margin.
    eventually(lambda: counts(client, "orders")["leased"] + totals(client, "orders")["acked"] == 200, seconds=20)
    eventually(lambda: counts(client, "orders")["leased"] <= 24)
    assert len(set(endpoint.ids())) >= 200 - counts(client, "orders")["leased"]
    again = [name for name in jobs if len(endpoint.of(name)) > 1]
    assert len(again) <= 2 * 8, "only what was under way, or whose ack was not yet kept, may come twice"
    assert before < 200


def test_a_stop_returns_jobs_in_delivery(start_delivering, endpoint):
    server = start_delivering(*FLAGS, "--grace", "5s")
    client = server.client()
    endpoint.answer = lambda call: time.sleep(8.0 if call.n == 1 else 0) or 200
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1")
    eventually(lambda: endpoint.calls)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 7 * slack()
    client = server.start().client()
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    assert [call.attempt for call in endpoint.calls] == [1, 1]  # what was given up does not count


def test_a_stop_waits_for_deliveries_in_progress(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    endpoint.answer = lambda call: time.sleep(0.5) or 200
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1")
    eventually(lambda: endpoint.calls)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 3 * slack()
    client = server.start().client()
    time.sleep(0.3)
    assert len(endpoint.calls) == 1 and totals(client, "orders")["acked"] == 1


@pytest.mark.shards
def test_several_shards_deliver_all(start_delivering, endpoint):
    server = start_delivering(*FLAGS, "--shards", "3")
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    for i in range(100):
        push(client, "orders", i, delay="100ms")
    for _ in range(6):  # tests come in on any shard's reactor
        assert server.client().good("POST", "/v1/topics/orders/deliver-test")["outcome"] == "done"
    eventually(lambda: totals(client, "orders")["acked"] == 100)
    assert len([name for name in endpoint.ids() if not name.startswith("test-")]) == 100


def test_two_servers_on_one_redis_deliver_each_job_once(start_redis, start_delivering, endpoint):
    redis = start_redis()
    servers = [start_delivering("--store", redis.url) for _ in range(2)]
    clients = [server.client() for server in servers]
    settle(clients[0], "orders", deliver={"to": endpoint.url, "max_in_flight": 4})
    endpoint.answer = lambda call: time.sleep(0.005) or 200
    eventually(lambda: "delivery started" in servers[1].log())
    for i in range(200):
        push(clients[i % 2], "orders", i, delay="200ms")
    eventually(lambda: totals(clients[0], "orders")["acked"] == 200, seconds=20)
    assert sorted(endpoint.ids(), key=int) == [str(i) for i in range(200)]
    assert all(metric(client, "tarry_deliver_attempts_total", topic="orders", outcome="done") > 0 for client in clients)


def test_an_answer_that_redis_could_not_take_is_given_again(start_redis, start_delivering, endpoint):
    redis = start_redis()
    server = start_delivering("--store", redis.url, "--store-timeout", "1s")
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    endpoint.answer = lambda call: time.sleep(0.3) or 200
    push(client, "orders", "1")
    eventually(lambda: endpoint.calls)
    freeze(redis.proc.pid)
    time.sleep(2.5)  # the outcome is known after 0.3 s, the call given up after 1 s
    redis.proc.send_signal(signal.SIGCONT)
    eventually(lambda: server.client().call("GET", "/readyz").status == 200)
    eventually(lambda: totals(client, "orders")["acked"] == 1)
    assert len(endpoint.calls) == 1
    assert metric(client, "tarry_deliver_lease_ended_total", topic="orders") == 0


def test_a_job_cancelled_during_delivery_is_not_retried(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    asked = threading.Event()
    endpoint.answer = lambda call: asked.wait(20) and 500
    push(client, "orders", "1")
    eventually(lambda: endpoint.calls)
    assert client.call("DELETE", "/v1/topics/orders/jobs/1?request=true").status == 202
    asked.set()
    eventually(lambda: totals(client, "orders")["cancelled"] == 1)
    assert len(endpoint.calls) == 1 and totals(client, "orders")["nacked"] == 0
    assert metric(client, "tarry_deliver_lease_ended_total", topic="orders") == 0
    assert "answer refused" not in server.log()


def test_one_of_two_servers_dies_and_the_other_delivers_all(start_redis, start_delivering, endpoint):
    redis = start_redis()
    servers = [start_delivering("--store", redis.url) for _ in range(2)]
    client = servers[1].client()
    endpoint.answer = lambda call: time.sleep(0.01) or 200
    settle(client, "orders", deliver={"to": endpoint.url, "max_in_flight": 4, "timeout": "2s"})
    eventually(lambda: all("delivery started" in server.log() for server in servers))
    for i in range(200):
        push(client, "orders", i, delay="200ms")
    eventually(lambda: len(endpoint.calls) >= 40)
    servers[0].kill()
    # Jobs that the crashed server had taken, or whose end it had not reported, come again when their lease ends; all else continues.
    eventually(lambda: counts(client, "orders")["leased"] <= 16 and counts(client, "orders")["ready"] == 0)
    eventually(lambda: counts(client, "orders")["leased"] + totals(client, "orders")["acked"] == 200)
    left = counts(client, "orders")["leased"]
    assert 200 - left <= len(set(endpoint.ids())) <= 200
    assert len(endpoint.calls) <= 200  # no job came twice yet


# ---- rest ----


def test_an_idle_delivering_topic_wakes_no_thread(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url})
    push(client, "orders", "1")
    eventually(lambda: totals(client, "orders")["acked"] == 1)

    def is_idle():
        before = server.switches()
        time.sleep(1.5)
        return server.switches() - before <= 3
    eventually(is_idle)  # a new server still fills its next log file


def test_the_demo_prints_its_documented_output():
    done = subprocess.run([REPO / "scripts/demo", "1"], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "TARGET": "http", "TARRY_BIN": str(BINARY)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not early, and signed" in done.stdout and "is dead: http 410" in done.stdout


# ---- what names a message ----


def first_message(client, endpoint, body):
    """Pushes orders/1001 as the first job of a store; its webhook-id."""
    before = len(endpoint.calls)
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:10ms")
    push(client, "orders", "1001", body=body)
    eventually(lambda: len(endpoint.calls) > before)
    return endpoint.calls[before].headers["webhook-id"]


def test_a_message_has_one_id_over_attempts_and_restarts_and_another_in_another_store(start_delivering, endpoint, start_redis):
    server = start_delivering()
    endpoint.answer = lambda call: 500 if call.n < 3 else 200
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:2s")
    push(client, "orders", "1001", body=b"a")
    eventually(lambda: totals(client, "orders")["nacked"] == 1)
    server.restart("kill")
    eventually(lambda: len(endpoint.calls) == 3)
    assert len({call.headers["webhook-id"] for call in endpoint.calls}) == 1
    ids = {endpoint.calls[0].headers["webhook-id"], first_message(start_delivering().client(), endpoint, b"b")}
    for body in (b"c", b"d"):
        ids.add(first_message(start_delivering("--store", start_redis().url).client(), endpoint, body))
    assert len(ids) == 4


# ---- credentials of the policy file ----


def test_a_credential_goes_only_to_its_origin(start_delivering, endpoint, tmp_path):
    token = f"credential = {endpoint.url} tok-4711-en"
    server = start_delivering(policy=[token])
    client = server.client()
    with Endpoint() as other:
        settle(client, "orders", deliver={"to": endpoint.url})
        settle(client, "others", deliver={"to": other.url})
        settle(client, "localhost", deliver={"to": f"http://localhost:{endpoint.port}"})
        for topic in ("orders", "others", "localhost"):
            push(client, topic, topic)
        eventually(lambda: len(endpoint.calls) == 2 and len(other.calls) == 1)
        assert endpoint.of("orders")[0].headers["authorization"] == "Bearer tok-4711-en"
        assert "authorization" not in endpoint.of("localhost")[0].headers and "authorization" not in other.calls[0].headers
        shown = deliver_test(client, "orders")
        assert "Authorization: (from the policy file)" in shown and "tok-4711" not in shown
        write_policy(tmp_path / "policy", f"credential = {endpoint.url} bob hunter%202")
        server.proc.send_signal(signal.SIGHUP)
        eventually(lambda: "policy reloaded" in server.log())
        push(client, "orders", "again")
        eventually(lambda: endpoint.of("again"))
        assert endpoint.of("again")[0].headers["authorization"] == "Basic " + base64.b64encode(b"bob:hunter 2").decode()
        push(client, "others", "again")
        eventually(lambda: len(other.calls) == 2)
        assert "authorization" not in other.calls[1].headers
    assert "tok-4711" not in server.log() and "hunter" not in server.log()


# ---- one attempt, one request ----


def warm_up(client, endpoint, connections):
    """Leaves so many kept connections behind."""
    endpoint.answer = lambda call: time.sleep(0.3) or 200
    client.push_batch([{"topic": "orders", "id": f"warm-{n}"} for n in range(connections)])
    eventually(lambda: totals(client, "orders")["acked"] == connections)
    endpoint.answer = lambda call: 200


def test_a_request_that_was_read_and_never_answered_is_not_sent_again_within_its_attempt(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url}, max_attempts=1)
    warm_up(client, endpoint, 10)
    endpoint.answer = lambda call: None
    push(client, "orders", "pay-4711")
    eventually(lambda: counts(client, "orders")["dead"] == 1)
    assert len(endpoint.of("pay-4711")) == 1
    assert job(client, "orders", "pay-4711")["last_error"] == "closed without an answer"


def test_each_request_that_was_read_is_an_attempt(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url}, backoff="fixed:10ms")
    warm_up(client, endpoint, 6)
    endpoint.answer = lambda call: None if call.n < 3 else 200
    push(client, "orders", "pay-4711", body=b"x" * 300_000)
    eventually(lambda: totals(client, "orders")["acked"] == 7)
    assert [call.attempt for call in endpoint.of("pay-4711")] == [1, 2, 3]


def test_a_kept_connection_that_the_endpoint_closed_costs_no_attempt(server, endpoint):
    client = server.client()
    settle(client, "orders", deliver={"to": endpoint.url}, max_attempts=1)
    warm_up(client, endpoint, 5)
    endpoint.cut()
    push(client, "orders", "pay-4711")
    eventually(lambda: totals(client, "orders")["acked"] == 6)
    assert [call.attempt for call in endpoint.of("pay-4711")] == [1]
