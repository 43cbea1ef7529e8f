"""Spans of pushes, waits and deliveries, sent to a collector by OTLP over HTTP, and a collector that rejects them."""

import json
import pathlib
import re
import ssl
import subprocess
import threading
import time
import uuid

import pytest
from certificates import Authority
from collector import Collector
from delivery import settle
from server import BINARY, eventually, free_port, slack

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def collector():
    with Collector() as running:
        yield running


@pytest.fixture
def start_traced(start_delivering, collector):
    """start_traced(*flags): a server that sends its spans to the collector."""

    def start(*flags, store=("--sync", "never", "--shards", "1"), url=None, **options):
        return start_delivering(*store, "--otlp", url or collector.url, *flags, **options)

    return start


def push(client, topic, ident, headers=None, query="", body=b"x"):
    reply = client.call("PUT", f"/v1/topics/{topic}/jobs/{ident}{query}", body, headers or {})
    assert reply.status in (200, 201), reply.json()


def counted(client, name, outcome=None):
    label = "" if outcome is None else r'\{outcome="%s"\}' % outcome
    return int(re.search(rf"^{name}{label} (\d+)$", client.call("GET", "/metrics").body.decode(), re.MULTILINE).group(1))


def spans_of(client, outcome):
    return counted(client, "tarry_trace_spans_total", outcome)


def only(spans, operation, ident):
    (span,) = [span for span in spans if span.operation == operation and span.id == ident]
    return span


# ---- what a trace shows ----


def test_a_jobs_way_is_one_trace(start_traced, collector):
    server = start_traced()
    client = server.client()
    began = time.time_ns()
    push(client, "orders", "1", {"traceparent": SAMPLED, "tracestate": "rojo=1"}, "?delay=400ms", b"12345")
    kept = client.get("orders", "1")["meta"]
    (job,) = client.take("orders", wait="5s")
    assert job["meta"] == kept and set(kept) == {"traceparent", "tracestate"}
    client.ack(job["lease"])
    assert server.terminate() == 0
    spans = collector.spans()
    pushed, waited, taken = (only(spans, operation, "1") for operation in ("push", "wait", "take"))
    assert len(spans) == 3 and {span.trace for span in spans} == {TRACE}
    assert pushed.parent == SPAN and {waited.parent, taken.parent} == {pushed.span} and kept["traceparent"] == f"00-{TRACE}-{pushed.span}-01"
    assert {span.state for span in spans} == {"rojo=1"} and {span.status for span in spans} == {"UNSET"}
    assert [span.kind for span in (pushed, waited, taken)] == ["PRODUCER", "INTERNAL", "CONSUMER"]
    assert [span.name for span in (pushed, waited, taken)] == ["push orders", "wait orders", "take orders"]
    assert began <= pushed.start <= waited.start <= pushed.end <= waited.events["due"] <= waited.end == taken.start <= taken.end <= time.time_ns()
    assert waited.end - waited.start >= 399_000_000
    assert pushed.service["service.name"] == "tarry" and uuid.UUID(pushed.service["service.instance.id"]).version == 4 and pushed.scope == "tarry"
    assert {**taken.attributes, "messaging.system": "tarry"} == taken.attributes
    assert {name: value for name, value in taken.attributes.items() if name != "messaging.system"} == {
        "messaging.operation.name": "take", "messaging.operation.type": "process", "messaging.destination.name": "orders", "messaging.message.id": "1",
        "messaging.message.body.size": 5, "tarry.attempt": 1, "tarry.outcome": "acked"}
    assert pushed.attributes["tarry.outcome"] == "created" and pushed.attributes["messaging.operation.type"] == "send"
    (call,) = collector.taken
    assert call.path == "/v1/traces" and call.headers["content-type"] == "application/json"


def test_a_callback_gets_the_span_of_its_delivery(start_traced, collector, endpoint):
    endpoint.answer = lambda call: 500 if call.n == 1 else 200
    server = start_traced("--service-name", "queue \"7\"")
    client = server.client()
    settle(client, "out", deliver={"to": endpoint.url + "/x"}, backoff="fixed:100ms")
    push(client, "out", "1", {"traceparent": SAMPLED})
    eventually(lambda: client.call("GET", "/v1/topics/out/jobs/1").status == 404)
    assert server.terminate() == 0
    first, second = endpoint.of("1")
    spans = collector.spans()
    pushed = only(spans, "push", "1")
    failed, done = sorted((span for span in spans if span.operation == "callback"), key=lambda span: span.start)
    waits = sorted((span for span in spans if span.operation == "wait"), key=lambda span: span.start)
    assert first.headers["traceparent"] == f"00-{TRACE}-{failed.span}-01" == first.headers["tarry-meta-traceparent"]
    assert second.headers["traceparent"] == f"00-{TRACE}-{done.span}-01"
    assert {span.parent for span in (failed, done, *waits)} == {pushed.span} and {span.kind for span in (failed, done)} == {"CLIENT"}
    assert failed.status == "ERROR" and failed.message == "http 500" and failed.attributes["error.type"] == "nacked"
    assert failed.attributes["http.response.status_code"] == 500 and failed.attributes["server.port"] == endpoint.port and failed.attributes["server.address"] == "127.0.0.1"
    assert done.status == "UNSET" and done.attributes["tarry.attempt"] == 2 and done.attributes["tarry.outcome"] == "acked"
    assert len(waits) == 2 and waits[0].end == failed.start and waits[1].end == done.start  # the second: since the first attempt
    assert failed.end - 2_000_000 <= waits[1].start and waits[1].end - waits[1].start >= 50_000_000
    assert pushed.service["service.name"] == 'queue "7"'


def test_the_origin_of_a_trace_decides_sampling(start_traced, collector):
    """A given context decides for itself; a context in the job's own meta is not changed."""
    server = start_traced("--trace-sample", "1")
    client = server.client()
    own = f"00-{TRACE[::-1]}-{SPAN}-01"
    push(client, "t", "unsampled", {"traceparent": UNSAMPLED})
    push(client, "t", "root")
    push(client, "t", "own", {"traceparent": UNSAMPLED, "Tarry-Meta-traceparent": own})
    push(client, "t", "own-unsampled", {"traceparent": SAMPLED, "Tarry-Meta-traceparent": UNSAMPLED})
    items = [{"topic": "t", "id": "b1"}, {"topic": "t", "id": "b2", "meta": {"traceparent": own}}, {"topic": "t", "id": "b3"}, {"topic": ".bad"}]
    assert client.call("POST", "/v1/jobs", json.dumps(items).encode(), {**JSON, "traceparent": SAMPLED}).status == 200
    assert client.call("POST", "/v1/jobs", json.dumps(items[1:2]).encode(), {**JSON, "traceparent": SAMPLED}).status == 200
    assert client.call("PUT", '/v1/topics/%22bad%22/jobs/1', b"x", {"traceparent": SAMPLED}).status == 400
    jobs = {job["id"]: job for job in client.take("t", max=10, wait="1s")}
    assert len(jobs) == 7
    client.ack(*(job["lease"] for job in jobs.values()))
    assert server.terminate() == 0
    spans = collector.spans()
    assert not [span for span in spans if span.id in ("unsampled", "own-unsampled")]
    root = only(spans, "push", "root")
    assert root.parent == "" and only(spans, "take", "root").parent == root.span and only(spans, "wait", "root").trace == root.trace
    assert jobs["unsampled"]["meta"]["traceparent"] == UNSAMPLED and jobs["own"]["meta"] == {"traceparent": own}
    for ident in ("own", "b2"):  # the caller's span is the parent of all
        assert only(spans, "take", ident).parent == SPAN and only(spans, "wait", ident).trace == TRACE[::-1]
    assert only(spans, "push", "own").parent == SPAN
    (batch,) = [span for span in spans if span.attributes.get("messaging.batch.message_count")]
    assert batch.name == "push" and batch.attributes["messaging.batch.message_count"] == 4 and batch.parent == SPAN
    assert batch.status == "ERROR" and batch.attributes["tarry.outcome"] == "bad_topic"
    assert {only(spans, "take", ident).parent for ident in ("b1", "b3")} == {batch.span}
    (bad,) = [span for span in spans if span.name == 'push "bad"']
    assert bad.status == "ERROR" and bad.attributes["error.type"] == "bad_topic"


def test_a_span_contains_no_body_meta_or_path(start_traced, collector, endpoint):
    server = start_traced()
    client = server.client()
    settle(client, "out", deliver={"to": endpoint.url + "/hush-path?hush-query", "callback": True})
    headers = {"traceparent": SAMPLED, "Tarry-Meta-Hush-Name": "hush-value", "Authorization": "Bearer hush-token"}
    push(client, "out", "1", headers, body=b"hush-body")
    push(client, "out", "2", headers, f"?callback={endpoint.url}/hush-callback", b"hush-body")
    eventually(lambda: len(endpoint.calls) == 2)
    assert server.terminate() == 0
    assert {span.id for span in collector.spans() if span.operation == "callback"} == {"1", "2"}
    assert not [call for call in collector.taken if b"hush" in call.body]


def test_how_a_delivery_ends(start_traced, collector):
    server = start_traced()
    client = server.client()
    for ident in ("nacked", "dead", "ended", "extended", "late"):
        push(client, "t", ident, {"traceparent": SAMPLED})
    leases = {job["id"]: job["lease"] for job in client.take("t", max=10, wait="1s", lease_for="1s")}
    assert client.call("POST", f"/v1/extend?lease={leases['extended']}&lease_for=1h").status == 200
    assert client.call("POST", f"/v1/nack?lease={leases['nacked']}&delay=1h&error=the%20bank%20is%20%C3%BCber").status == 200
    assert client.call("POST", f"/v1/nack?lease={leases['dead']}&final=true").status == 200
    eventually(lambda: client.get("t", "late")["state"] == "ready")
    assert client.call("POST", f"/v1/ack?lease={leases['late']}").status == 409
    eventually(lambda: collector.taken or None, 20)  # after five seconds a batch leaves by itself
    client.ack(leases["extended"])
    assert server.terminate() == 0
    taken = {span.id: span for span in collector.spans() if span.operation == "take"}
    assert {ident: span.attributes["tarry.outcome"] for ident, span in taken.items()} == {
        "nacked": "nacked", "dead": "nacked", "ended": "lease_ended", "extended": "acked", "late": "lease_ended"}
    assert taken["nacked"].message == "the bank is über" and taken["nacked"].status == "ERROR" and taken["ended"].status == "ERROR"
    assert taken["extended"].status == "UNSET"
    assert 980_000_000 <= taken["ended"].end - taken["ended"].start < 1_500_000_000  # from the moment of the loop iteration that took it


def test_a_ratio_of_the_traces_that_begin_here(start_traced, collector):
    server = start_traced("--trace-sample", "0.2")
    client = server.client()
    for n in range(500):
        push(client, "t", n)
    sampled = sum("traceparent" in job["meta"] for job in client.take("t", max=1000))
    assert 50 < sampled < 160  # 100 give or take 9: a wrong one once in a million runs
    assert server.terminate() == 0
    assert len([span for span in collector.spans() if span.operation == "push"]) == sampled


def test_two_servers_on_one_redis_make_one_trace(start_traced, start_redis, collector):
    redis = start_redis()
    one, other = (start_traced(store=("--store", redis.url)) for _ in range(2))
    push(one.client(), "t", "1", {"traceparent": SAMPLED})
    push(one.client(), "t", "2", {"traceparent": SAMPLED})
    jobs = other.client().take("t", max=2, wait="5s", lease_for="1s")
    one.client().ack(jobs[0]["lease"])  # if it was not accepted
    client = other.client()
    eventually(lambda: client.get("t", jobs[1]["id"])["state"] == "ready")
    assert one.terminate() == 0
    eventually(lambda: len(collector.taken) >= 2, 20)
    assert other.terminate() == 0
    spans = collector.spans()
    assert len({span.service["service.instance.id"] for span in spans}) == 2
    for ident in ("1", "2"):
        pushed, waited, taken = (only(spans, operation, ident) for operation in ("push", "wait", "take"))
        assert pushed.parent == SPAN and waited.parent == taken.parent == pushed.span and waited.end == taken.start
        assert taken.attributes["tarry.outcome"] == "unanswered" and taken.status == "UNSET"  # the other one may have received it


# ---- a collector that rejects them ----


def test_an_unreachable_collector_does_not_disturb_requests(start_traced):
    server = start_traced(url=f"http://127.0.0.1:{free_port()}")
    client = server.client()
    for n in range(6000):
        push(client, "t", n, {"traceparent": SAMPLED})
    assert spans_of(client, "dropped") >= 6000 - 4096 - 512
    assert counted(client, "tarry_trace_export_failures_total") >= 1 and spans_of(client, "sent") == 0
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 5 * slack()
    assert server.log().count("traces not exported") == 1


def test_a_collector_that_hangs_does_not_hold_up_the_end(start_traced, collector):
    over = threading.Event()
    collector.answer = lambda call: over.wait(30) and 200
    server = start_traced("--grace", "4s")
    client = server.client()
    for n in range(600):
        push(client, "t", n, {"traceparent": SAMPLED})
    eventually(lambda: collector.taken)
    slowest = 0
    for n in range(100):
        began = time.monotonic()
        push(client, "u", n, {"traceparent": SAMPLED})
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 5 * slack()
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 4 * slack()
    over.set()


def test_a_busy_collector_is_retried_and_a_rejecting_one_is_not(start_traced, collector):
    answers = iter([(503, {"Retry-After": "1"}), 200, 400, 200])
    collector.answer = lambda call: next(answers, 200)
    server = start_traced()
    client = server.client()
    for n in range(512):
        push(client, "t", n, {"traceparent": SAMPLED})
    eventually(lambda: spans_of(client, "sent") == 512)
    first, again = collector.taken
    assert again.body == first.body and again.at - first.at >= 0.99
    for n in range(512):
        push(client, "u", n, {"traceparent": SAMPLED})
    eventually(lambda: spans_of(client, "failed") == 512)
    assert counted(client, "tarry_trace_export_failures_total") == 2
    assert len(collector.taken) == 3 and len(collector.spans()) == 3 * 512


def exporter_switches(server):
    """Counts how often the exporter's thread went to sleep."""
    for task in pathlib.Path(f"/proc/{server.proc.pid}/task").iterdir():
        if (task / "comm").read_text(encoding="ascii").strip() == "traces":
            return int(re.search(r"^voluntary_ctxt_switches:\t(\d+)$", (task / "status").read_text(encoding="ascii"), re.MULTILINE).group(1))
    raise AssertionError("there is no such thread")


def test_without_spans_no_thread_wakes_up(start_traced, collector):
    server = start_traced()
    client = server.client()
    for n in range(512):
        push(client, "t", n, {"traceparent": SAMPLED})
    eventually(lambda: spans_of(client, "sent") == 512)
    (job,) = client.take("t", lease_for="1s")  # its lease is a reason to wake up once, when it would have ended
    client.ack(job["lease"])
    for n in range(510):
        push(client, "u", n, {"traceparent": SAMPLED})
    eventually(lambda: spans_of(client, "sent") == 1024)
    before = exporter_switches(server)
    time.sleep(1.5)
    assert exporter_switches(server) - before <= 1


# ---- the way there ----


def test_headers_come_from_a_file_and_certificates_are_verified(start_traced, collector, tmp_path):
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.sign("collector")
    headers = tmp_path / "headers"
    headers.write_text("# of the collector\nAuthorization: Bearer s3cret\nX-Tenant: shop\n", encoding="ascii")
    headers.chmod(0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    collector.server.socket = context.wrap_socket(collector.server.socket, server_side=True)
    url = f"https://127.0.0.1:{collector.port}/base/"
    trusting = start_traced("--otlp-headers-file", str(headers), "--otlp-ca", str(authority.file), url=url)
    push(trusting.client(), "t", "1", {"traceparent": SAMPLED})
    assert trusting.terminate() == 0
    (call,) = collector.taken
    assert call.path == "/base/v1/traces" and call.headers["authorization"] == "Bearer s3cret" and call.headers["x-tenant"] == "shop"
    doubting = start_traced(url=url)
    push(doubting.client(), "t", "1", {"traceparent": SAMPLED})
    assert doubting.terminate() == 0
    assert len(collector.taken) == 1 and "traces not exported" in doubting.log() and "s3cret" not in trusting.log() + doubting.log()


@pytest.mark.parametrize("flags, output", [
    (("--otlp", "collector:4318"), "bad '--otlp'"),
    (("--otlp", "ftp://collector"), "bad '--otlp', give a URL of http or https"),
    (("--otlp", "http://me:secret@collector:4318"), "--otlp-headers-file"),
    (("--otlp", "http://collector:4318?x=1"), "give one host and no query"),
    (("--trace-sample", "0.5"), "give --otlp"),
    (("--otlp", "http://c", "--trace-sample", "1.5"), "give a number from 0 to 1"),
    (("--otlp", "http://c", "--trace-sample", "5%"), "give a number from 0 to 1"),
    (("--otlp", "http://c", "--otlp-headers-file", "/nowhere"), "cannot read the headers in '/nowhere'"),
])
def test_invalid_options_are_rejected(flags, output, tmp_path):
    ended = subprocess.run([BINARY, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode in (1, 2) and output in ended.stderr + ended.stdout and "secret@" not in ended.stderr


def test_a_file_of_headers_is_a_secret(tmp_path):
    headers = tmp_path / "headers"
    for text, mode, output in (("A: b\n", 0o644, "run: chmod 600"), ("A: b\nno header\n", 0o600, "line 2, write: Name: value"), ("A: b\n" * 17, 0o600, "at most 16")):
        headers.write_text(text, encoding="ascii")
        headers.chmod(mode)
        ended = subprocess.run([BINARY, "serve", "--check", "--data", tmp_path / "data", "--otlp", "http://c", "--otlp-headers-file", headers],
                               capture_output=True, text=True, timeout=20, check=False)
        assert ended.returncode == 2 and output in ended.stderr + ended.stdout, ended.stderr
