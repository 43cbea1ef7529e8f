"""The body of a callback's 2xx answer as the result of the job, from a push to a real endpoint, on each store."""

import threading

import pytest
from conftest import FLAGS
from delivery import RESULT_LIMIT as LIMIT, answers, answers_become_results, deliver_test, finished, result_settings, settle, totals
from server import eventually


@pytest.fixture(params=["embedded", "four shards", "redis"])
def store(request):
    """The flags of a server on each store. The tests of the SQL stores call the same check."""
    if request.param == "redis":
        return ("--store", request.getfixturevalue("start_redis")().url)
    return FLAGS if request.param == "embedded" else ("--shards", "4")


def test_the_answer_becomes_the_result_on_each_store(store, start_delivering, endpoint):
    answers_become_results(start_delivering(*store).client(), endpoint)


def test_a_larger_answer_is_dropped_counted_and_logged_and_the_job_is_acked(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    settle(client, "sums", **result_settings(endpoint))
    for ident, size in (("over", LIMIT + 1), ("far", 4 * LIMIT)):
        answers(endpoint, b"x" * size)
        client.push("sums", ident)
        job = finished(client, "sums", ident)
        assert job["outcome"] == "acked" and "result" not in job and "result_base64" not in job
    assert totals(client, "sums")["acked"] == 2 and len(endpoint.calls) == 2
    assert 'tarry_deliver_results_dropped_total{topic="sums",reason="too_big"} 2' in client.call("GET", "/metrics").body.decode()
    lines = [line for line in server.log().splitlines() if "result dropped" in line]
    assert len(lines) == 1 and "topic=sums" in lines[0] and "reason=too_big" in lines[0] and f"limit_bytes={LIMIT}" in lines[0]


def test_max_result_limits_answers_too(start_delivering, endpoint):
    client = start_delivering(*FLAGS, "--max-result", "200KiB").client()
    settle(client, "sums", **result_settings(endpoint))
    answers(endpoint, b"x" * 200 * 1024, "text/plain")
    client.push("sums", "1")
    assert finished(client, "sums", "1")["result"] == "x" * 200 * 1024


def test_an_answer_that_breaks_off_is_no_result_and_the_job_is_acked(start_delivering, endpoint):
    client = start_delivering().client()

    def half(call):
        threading.Timer(0.2, endpoint.cut).start()
        return 200, {"Content-Length": "10"}, b"half"

    endpoint.answer = half
    settle(client, "sums", **result_settings(endpoint))
    client.push("sums", "1")
    job = finished(client, "sums", "1")
    assert job["outcome"] == "acked" and "result" not in job and len(endpoint.calls) == 1
    assert 'results_dropped_total{topic="sums",reason="incomplete"} 1' in client.call("GET", "/metrics").body.decode()


def test_an_answer_that_does_not_end_within_the_timeout_is_no_result(start_delivering, endpoint):
    client = start_delivering().client()
    endpoint.answer = lambda call: (200, {"Content-Length": "10"}, b"half")
    settle(client, "sums", **result_settings(endpoint, timeout="300ms"))
    client.push("sums", "1")
    job = finished(client, "sums", "1")
    assert job["outcome"] == "acked" and "result" not in job and len(endpoint.calls) == 1


def test_only_an_accepted_job_has_a_result(start_delivering, endpoint):
    client = start_delivering().client()
    settle(client, "sums", **result_settings(endpoint), backoff="fixed:10ms")
    endpoint.answer = lambda call: (500, {}, b"failure") if call.n == 1 else (201, {"Content-Type": "text/plain"}, b"done")
    client.push("sums", "1")
    job = finished(client, "sums", "1")
    assert (job["attempt"], job["result"]) == (2, "done") and [entry["error"] for entry in job["history"]] == ["http 500"]
    answers(endpoint, b"", status=204)
    client.push("sums", "empty")
    assert "result" not in finished(client, "sums", "empty")


def test_without_the_setting_the_answer_is_not_kept(start_delivering, endpoint):
    client = start_delivering().client()
    settle(client, "sums", deliver={"to": endpoint.url}, keep_finished="1h")
    answers(endpoint, b"{}")
    client.push("sums", "1")
    assert "result" not in finished(client, "sums", "1")


def test_a_jobs_own_callback_has_a_result_too(start_delivering, endpoint):
    client = start_delivering().client()
    settle(client, "sums", deliver={"callback": True, "result": True}, keep_finished="1h")
    answers(endpoint, b"[1]")
    client.push("sums", "1", callback=endpoint.url + "/own")
    assert finished(client, "sums", "1")["result"] == [1]


def test_many_large_results_all_arrive(start_delivering, endpoint):
    client = start_delivering().client()
    settle(client, "sums", **result_settings(endpoint, max_in_flight=200))
    endpoint.answer = lambda call: (200, {"Content-Type": "text/plain"}, call.id.encode() * (60_000 // len(call.id)))
    for at in range(100):
        client.push("sums", f"job-{at}", delay="1s")
    eventually(lambda: totals(client, "sums")["acked"] == 100)
    for at in range(100):
        ident = f"job-{at}"
        assert client.get("sums", ident)["result"] == ident * (60_000 // len(ident))


def test_a_sample_reports_the_size_of_the_result(start_delivering, endpoint):
    client = start_delivering().client()
    settle(client, "sums", **result_settings(endpoint))
    answers(endpoint, b"four")
    assert '"result_bytes": 4' in deliver_test(client, "sums")
    answers(endpoint, b"x" * (LIMIT + 1))
    assert '"result_dropped": "too_big"' in deliver_test(client, "sums")
