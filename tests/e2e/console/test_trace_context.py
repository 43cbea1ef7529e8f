"""The context of a trace goes with the job: from the headers of a push to consumers and targets. No span is made for that."""

import json
import os
import subprocess

import pytest
from delivery import settle
from server import BINARY, eventually

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def server(start_delivering):
    return start_delivering()


def pushed(client, job_id, headers, meta=None):
    """The meta that the job then has."""
    more = {"Tarry-Meta-" + name: value for name, value in (meta or {}).items()}
    assert client.call("PUT", f"/v1/topics/traced/jobs/{job_id}?delay=1h", b"x", {**headers, **more}).status == 201
    return client.get("traced", job_id)["meta"]


def test_the_headers_of_a_push_are_kept_as_meta(server):
    client = server.client()
    cases = (
        ("both", {"traceparent": PARENT, "tracestate": STATE}, {"traceparent": PARENT, "tracestate": STATE}),
        ("any-letters", {"TraceParent": PARENT, "TRACESTATE": " a=1 ,, b=2"}, {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ("later", {"traceparent": f"cc-{TRACE}-{SPAN}-09-more"}, {"traceparent": PARENT}),
        ("malformed", {"traceparent": PARENT.upper(), "tracestate": STATE}, {}),
        ("bad-state", {"traceparent": PARENT, "tracestate": "a=1,a=2"}, {"traceparent": PARENT}),
        ("long-state", {"traceparent": PARENT, "tracestate": "a=" + "x" * 511}, {"traceparent": PARENT}),
        ("state-alone", {"tracestate": STATE}, {}),
        ("unsampled", {"traceparent": f"00-{TRACE}-{SPAN}-00"}, {"traceparent": f"00-{TRACE}-{SPAN}-00"}),
    )
    for job_id, headers, expected in cases:
        assert pushed(client, job_id, headers) == expected, job_id


def test_headers_twice_are_one_list_or_nothing(server):
    client = server.client()
    request = "PUT /v1/topics/traced/jobs/{}?delay=1h HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n{}\r\nx"
    for job_id, lines, expected in (
        ("states", f"traceparent: {PARENT}\r\ntracestate: a=1\r\ntracestate: b=2\r\n", {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ("parents", f"traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\n", {}),
    ):
        connection = server.connection()
        connection.send(request.format(job_id, lines).encode())
        assert connection.read("PUT").status == 201
        connection.close()
        assert client.get("traced", job_id)["meta"] == expected


def test_the_context_of_the_job_wins(server):
    """A push whose meta is full is also accepted with a trace."""
    client = server.client()
    headers = {"traceparent": PARENT, "tracestate": STATE}
    own = f"00-{TRACE[::-1]}-{SPAN}-00"
    assert pushed(client, "own", headers, {"traceparent": own}) == {"traceparent": own}
    assert pushed(client, "state", headers, {"tracestate": "x=1"}) == {"tracestate": "x=1"}
    full = {f"m{n}": "x" * 1015 for n in range(4)}
    assert pushed(client, "full", headers, full) == full


def test_items_of_a_batch_have_their_own_or_the_requests(server):
    client = server.client()
    own = f"00-{TRACE[::-1]}-{SPAN}-00"
    items = [{"topic": "traced", "id": str(n), "delay": "1h", **({"meta": {"traceparent": own}} if n == 3 else {"meta": {"k": "v"}} if n == 4 else {})} for n in range(1000)]
    reply = client.call("POST", "/v1/jobs", json.dumps(items).encode(), {**JSON, "traceparent": PARENT, "tracestate": "a=" + "x" * 250 + ",b=" + "y" * 250})
    assert reply.status == 200 and {result["result"] for result in reply.json()["results"]} == {"created"}
    state = "a=" + "x" * 250 + ",b=" + "y" * 250
    assert client.get("traced", "3")["meta"] == {"traceparent": own}
    assert client.get("traced", "4")["meta"] == {"k": "v", "traceparent": PARENT, "tracestate": state}
    assert client.get("traced", "999")["meta"] == {"traceparent": PARENT, "tracestate": state}


def test_consumers_and_endpoints_get_it(server, endpoint):
    client = server.client()
    headers = {"traceparent": PARENT, "tracestate": STATE}
    settle(client, "out", deliver={"to": endpoint.url})
    for topic in ("taken", "raw", "out"):
        assert client.call("PUT", f"/v1/topics/{topic}/jobs/1", b"x", headers).status == 201
    assert client.call("PUT", "/v1/topics/out/jobs/2", b"x", {"Tarry-Meta-traceparent": "no context"}).status == 201
    assert client.take("taken", wait="5s")[0]["meta"] == {"traceparent": PARENT, "tracestate": STATE}
    raw = client.call("POST", "/v1/topics/raw/take?wait=5s", headers={"Accept": "application/octet-stream"})
    assert raw.headers["tarry-meta-traceparent"] == PARENT and "traceparent" not in raw.headers
    eventually(lambda: len(endpoint.calls) == 2)
    (first,), (second,) = endpoint.of("1"), endpoint.of("2")
    assert first.headers["traceparent"] == PARENT and first.headers["tracestate"] == STATE
    assert first.headers["tarry-meta-traceparent"] == PARENT
    assert "traceparent" not in second.headers and second.headers["tarry-meta-traceparent"] == "no context"


def test_a_command_of_work_has_it_in_its_environment(server, tmp_path):
    client = server.client()
    assert client.call("PUT", "/v1/topics/worked/jobs/1", b"x", {"traceparent": PARENT, "tracestate": STATE}).status == 201
    client.push("worked", "2")
    script = 'echo "$TARRY_ID:$TRACEPARENT:${TRACESTATE-none}" >>"$0"; test "$TARRY_ID" = 1 || kill -TERM $PPID'
    environment = {**os.environ, "TARRY_URL": server.url, "TRACEPARENT": "the worker's own"}
    subprocess.run([BINARY, "work", "worked", "--", "sh", "-c", script, tmp_path / "output"], env=environment, timeout=30, check=False, capture_output=True)
    assert (tmp_path / "output").read_text(encoding="ascii").splitlines() == [f"1:{PARENT}:{STATE}", "2::none"]
