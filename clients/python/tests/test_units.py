"""Parts that need no server: ids, times, bodies, Retry-After, signatures."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.server
import threading
import time

import pytest
import tarry
from tarry.client import _batches, _item, _items, _result, _token, cut_text
from tarry.errors import error_of
from tarry.job import body_of, job_of, milliseconds, moment
from tarry.transport import Cut, Place, retry_after_of
from tarry.worker import Worker, _Held, consumer_name

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


@pytest.mark.parametrize("name", ["delay", "at", "ttl", "lease"])
def test_a_text_is_not_a_duration_and_not_a_time(name):
    with pytest.raises(TypeError, match="number of seconds.*, not '30m'"):
        _item({"topic": "a", name: "30m"})


def test_ids_are_ulids_that_rise():
    ids = [tarry.new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000 and all(len(one) == 26 and set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for one in ids)
    first = tarry.new_id()
    time.sleep(0.003)
    assert first < tarry.new_id()


@pytest.mark.parametrize("duration, text", [(0, "0ms"), (1, "1000ms"), (0.0001, "1ms"), (1.5, "1500ms"), (datetime.timedelta(minutes=30), "1800000ms")])
def test_durations_are_never_shortened(duration, text):
    assert milliseconds(duration) == text


def test_times():
    assert moment(datetime.datetime(2026, 11, 20, 9, tzinfo=datetime.timezone.utc)) == "1795165200000" and moment(1.0001) == "1001"


@pytest.mark.parametrize("body, kind, data, content_type", [
    (b"\x00\xff", None, b"\x00\xff", "application/octet-stream"), ("é", None, "é".encode(), "text/plain; charset=utf-8"), ({"a": "é"}, None, '{"a":"é"}'.encode(), "application/json"),
    (None, None, b"null", "application/json"), ("x", "text/csv", b"x", "text/csv"), ("x", "application/json", b'"x"', "application/json"), (b"x", "image/png", b"x", "image/png")])
def test_bodies(body, kind, data, content_type):
    assert body_of(body, kind) == (data, content_type)


@pytest.mark.parametrize("headers, seconds", [
    ({}, None), ({"Retry-After": "7"}, 7), ({"Retry-After": "soon"}, None), ({"Retry-After": "Mon, 23 Nov 2026 10:00:09 GMT", "Date": "Mon, 23 Nov 2026 10:00:05 GMT"}, 4),
    ({"Retry-After": "Mon, 23 Nov 2026 10:00:00 GMT", "Date": "Mon, 23 Nov 2026 10:00:05 GMT"}, 0)])
def test_retry_after_goes_by_the_clock_of_the_answer(headers, seconds):
    assert retry_after_of(headers) == seconds


@pytest.mark.parametrize("status, problem, kind", [
    (404, {"code": "not_found"}, tarry.NotFound), (409, {"code": "leased", "state": "leased"}, tarry.Conflict), (409, {"code": "lease_ended"}, tarry.LeaseEnded), (0, {"result": "no_batch"}, tarry.NotFound), (0, {"result": "batch_closed"}, tarry.Conflict), (400, {"code": "bad_topic"}, tarry.Refused),
    (401, {}, tarry.Denied), (403, {"code": "forbidden"}, tarry.Denied), (507, {"code": "topic_full"}, tarry.Full), (503, {}, tarry.Unavailable), (0, {"result": "bad_topic"}, tarry.Refused), (0, {"result": "too_many_requests"}, tarry.Unavailable), (500, {}, tarry.TarryError)])
def test_each_refusal_has_its_kind(status, problem, kind):
    fault = error_of(status, problem)
    assert type(fault) is kind and fault.status == status


@contextlib.contextmanager
def answering(*statuses):
    """A client of a server that answers so, one after the other."""
    left = list(statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_any(self):
            self.send_response_only(left.pop(0))
            self.send_header("Content-Length", "2")
            self.send_header("Location", "/login")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_DELETE = do_any

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with tarry.Client(f"http://127.0.0.1:{server.server_address[1]}", retry_for=2) as client:
            yield client
        server.shutdown()


def test_an_answer_that_leads_elsewhere_is_no_success():
    with answering(302, 307, 307) as client:
        for call in (lambda: client.cancel("t", "1"), lambda: client.take("t"), lambda: client.take("t", cut=Cut())):
            with pytest.raises(tarry.TarryError) as fault:
                call()
            assert fault.value.status in (302, 307)


def test_a_job_that_a_second_try_does_not_find_may_have_been_cancelled_but_may_be_done_where_its_holder_was_asked():
    with answering(504, 404, 504, 404, 404) as client:
        assert client.cancel("t", "1") is True
        assert client.request_cancel("t", "1") is None
        assert client.cancel("t", "1") is False


def test_the_token_in_a_file_comes_before_that_in_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("of the file\n")
    monkeypatch.setenv("TARRY_TOKEN", "of the environment")
    assert _token("given") == "given" and _token(None) == "of the environment"
    monkeypatch.setenv("TARRY_TOKEN_FILE", str(file))
    assert _token(None) == "of the file"
    monkeypatch.setenv("TARRY_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        _token(None)


def test_urls():
    assert (Place("localhost:1").host, Place("localhost:1").port, Place("https://a/x/").prefix, Place("https://a").port) == ("localhost", 1, "/x", 443)
    with pytest.raises(ValueError, match="bad URL 'ftp://a'"):
        Place("ftp://a")


def test_errors_are_cut_where_a_character_ends():
    assert cut_text("a\nb\x00") == "a b " and cut_text("é" * 200) == "é" * 100


def sign(body, at, secret=SECRET):
    digest = hmac.new(base64.b64decode(secret[6:]), f"m.{at}.".encode() + body, hashlib.sha256).digest()
    return {"Webhook-Id": "m", "Webhook-Timestamp": str(at), "Webhook-Signature": "v1," + base64.b64encode(digest).decode(), "Tarry-Topic": "t", "Tarry-Id": "1", "Tarry-Attempt": "2", "Tarry-Meta-k": "v"}


def test_a_signature_gives_the_job():
    job = tarry.verify([SECRET], sign(b"x", 1000), b"x", now=1100)
    assert (job.topic, job.id, job.attempt, job.meta, job.body) == ("t", "1", 2, {"k": "v"}, b"x")


@pytest.mark.parametrize("change", [{"body": b"y"}, {"now": 1301}, {"now": 699}, {"secrets": "whsec_" + base64.b64encode(b"other").decode()}, {"headers": {}}])
def test_anything_else_does_not(change):
    words = {"secrets": SECRET, "headers": sign(b"x", 1000), "body": b"x", "now": 1000, **change}
    with pytest.raises(tarry.BadSignature):
        tarry.verify(words["secrets"], words["headers"], words["body"], now=words["now"])


def test_the_heartbeat_goes_on_after_a_lease_that_ended_before_its_ack_was_answered():
    client = tarry.Client("http://127.0.0.1:9")
    worker = Worker(client, "t", lambda job: None, lease=1.0)
    held = _Held(tarry.Job(topic="t", id="a", lease="l"), 1.0)
    held.next_beat, held.verb = float("inf"), "ack"
    worker._held.add(held)
    beating = threading.Thread(target=worker._beat, daemon=True)
    beating.start()
    beating.join(0.1)
    assert beating.is_alive()
    with worker._changed:
        worker._over = True
        worker._changed.notify_all()
    beating.join(2)
    assert not beating.is_alive()


def test_quick_jobs_wake_one_idle_thread_at_a_time():
    """A hundred that wake for nothing cost more than the jobs."""
    worker = Worker(tarry.Client("http://127.0.0.1:1"), "t", lambda job: None, concurrency=100, log=False)
    wakes = []
    worker._begins.notify = lambda: wakes.append(1)
    worker._idle = 99  # this one is not asleep
    worker._begin([tarry.Job("t", str(n)) for n in range(100)])
    assert {worker._next().job.id for _ in range(100)} == {str(n) for n in range(100)}
    assert len(wakes) == 1, "the first one is on its way"


def test_a_thread_that_wakes_wakes_the_next_one_if_jobs_wait():
    worker = Worker(tarry.Client("http://127.0.0.1:1"), "t", lambda job: None, concurrency=20, log=False)
    begun = []
    threads = [threading.Thread(target=lambda: begun.append(worker._next().job.id)) for _ in range(20)]
    for thread in threads:
        thread.start()
    while worker._idle < 20:
        time.sleep(0.001)
    worker._begin([tarry.Job("t", str(n)) for n in range(20)])
    for thread in threads:
        thread.join(60)
    assert sorted(begun, key=int) == [str(n) for n in range(20)]


@pytest.mark.parametrize("host, name", [("shop-1", "shop-1:77"), ("sh op\né", "shop:77"), ("h" * 80, "h" * 61 + ":77"), ("", ":77")])
def test_a_consumer_is_host_and_process_in_64_characters(host, name):
    assert consumer_name(host, 77) == name and len(name) <= 64


def test_an_item_is_what_was_given_and_no_more():
    given = {"topic": "t", "body": "x", "lease": 2, "at": 1.5, "priority": 0, "meta": {"a": "1"}, "traceparent": "00", "callback": None}
    item = _item(given)
    assert len(item.pop("id")) == 26
    assert item == {"topic": "t", "body_base64": "eA==", "content_type": "text/plain; charset=utf-8", "lease_for": "2000ms", "at": "1500", "priority": 0,
                    "meta": {"traceparent": "00", "a": "1"}, "on_conflict": "keep"}
    assert _item({"topic": "t", "id": "1"}) == {"topic": "t", "id": "1", "body_base64": "", "content_type": "application/octet-stream"}
    with pytest.raises(TypeError, match="push has no argument 'dealy'"):
        _item({"topic": "t", "dealy": 1})
    with pytest.raises(TypeError):
        _item({"body": "x"})


def test_a_member_of_a_chain_has_members_of_its_own():
    item = _item({"topic": "t", "id": "2", "parent": tarry.Job(topic="t", id="0", lease="L"), "members": [{"topic": "t", "id": "1", "batch": tarry.Pushed("7", "created", topic="r")}]})
    assert item["parent"] == "L"
    assert [(one["id"], one["batch_topic"], one["batch_id"]) for one in item["members"]] == [("1", "r", "7")]


def test_a_batch_that_a_second_try_does_not_find_may_have_been_closed():
    with answering(504, 404, 404) as client:
        client.close_batch("t", "1")
        with pytest.raises(tarry.NotFound):
            client.close_batch("t", "1")


def test_leases_are_given_one_by_one_in_lists_or_as_jobs():
    job = tarry.Job(topic="t", id="1", lease="c")
    assert [item["lease"] for item in _items(("a", ["b", job], job), {})] == ["a", "b", "c", "c"]
    assert _items((), {}) == []


def test_a_result_belongs_to_one_job():
    assert _items(("a",), _result({"sum": 3})) == [{"lease": "a", "result_base64": "eyJzdW0iOjN9", "result_type": "application/json"}]
    assert _result(None) == {}
    for jobs in (("a", "b"), ()):
        with pytest.raises(TypeError, match="a result belongs to one job"):
            _items(jobs, _result("x"))


def test_a_request_has_at_most_a_thousand_leases_and_half_a_megabyte_of_results():
    assert [len(batch) for batch in _batches([{"lease": "l"}] * 2500)] == [1000, 1000, 500]
    assert [len(batch) for batch in _batches([{"result_base64": "x" * (1 << 17)}] * 9)] == [4, 4, 1]
    assert list(_batches([])) == []


@pytest.mark.parametrize("members, result, text", [
    ({}, None, ""), ({"result": {"a": "é"}, "result_type": "application/json"}, '{"a":"é"}'.encode(), '{"a":"é"}'), ({"result": "é", "result_type": "text/plain"}, "é".encode(), "é"),
    ({"result": "x", "result_type": "application/json"}, b'"x"', '"x"'), ({"result_base64": "eA=="}, b"x", "x"), ({"result": "x"}, b"x", "x")])
def test_a_result_is_bytes_however_the_answer_has_it(members, result, text):
    job = job_of({"topic": "t", "id": "1", "state": "finished", "duration_ms": 1500, "finished_at": "2026-11-20T09:00:00.000Z", **members})
    assert (job.result, job.result_text, job.duration) == (result, text, datetime.timedelta(seconds=1.5))
    assert job.finished_at == datetime.datetime(2026, 11, 20, 9, tzinfo=datetime.timezone.utc)


def test_a_push_that_waits_needs_an_id_if_it_has_a_once():
    with pytest.raises(TypeError, match="needs an id"):
        tarry.Client("http://127.0.0.1:9").push_and_wait("t", once="order-1")


def test_a_worker_has_one_handler_or_one_for_each_topic():
    client = tarry.Client("http://127.0.0.1:9")
    worker = Worker(client, {"a": print, "b": repr})
    assert worker.topics == ["a", "b"] and worker.handlers["b"] is repr
    for arguments in (("a",), ({"a": print}, print)):
        with pytest.raises(TypeError, match="give topics and a handler"):
            Worker(client, *arguments)


def test_a_kind_of_call_that_fails_is_logged_once_in_ten_seconds_and_reported_each_time(caplog):
    seen = []
    client = tarry.Client("http://127.0.0.1:9")
    worker = Worker(client, "t", print, on_error=lambda fault, what: seen.append(what))
    for what in ("take", "take", "extend"):
        worker._report_error(OSError("no route"), what)
    assert seen == ["take", "take", "extend"] and [one.message for one in caplog.records] == ["take failed: no route", "extend failed: no route"]
    Worker(client, "t", print, log=False)._report_error(OSError("no route"), "ack")
    assert len(caplog.records) == 2
