"""CloudEvents: what targets receive is read by the official library."""

import datetime
import json

import nats
import pytest
from delivery import acked, settle
from endpoint import Endpoint
from events import read_event
from nats import NatsServer
from server import eventually


def read_call(call):
    return read_event("http", call.headers, call.body)


@pytest.fixture
def endpoint():
    with Endpoint() as running:
        yield running


@pytest.fixture
def client(start_delivering):
    return start_delivering().client()


def delivered(client, endpoint, count=1):
    eventually(lambda: len(endpoint.calls) >= count)
    return endpoint.calls


EVENT = {"source": "https://shop.example/tarry/{topic}/{meta.who}", "type": "shop.{meta.kind}"}


def test_a_callback_is_an_event_in_binary_mode(client, endpoint):
    settle(client, "orders", deliver={"to": endpoint.url, "cloudevents": EVENT})
    client.push("orders", "42", b'{"total": 12}', content_type="application/json", meta={"kind": "grüße \"100%\"", "who": "a/b ü"})
    (call,) = delivered(client, endpoint)
    attributes, data = read_call(call)
    assert data == {"total": 12}
    assert attributes["specversion"] == "1.0" and attributes["datacontenttype"] == "application/json"
    assert attributes["type"] == 'shop.grüße "100%"'
    assert attributes["source"] == "https://shop.example/tarry/orders/a%2Fb%20%C3%BC"
    assert attributes["subject"] == "42"
    assert attributes["id"] == call.headers["webhook-id"]
    assert abs(datetime.datetime.fromisoformat(attributes["time"]).timestamp() - call.at) < 30
    assert call.body == b'{"total": 12}'


def test_defaults_are_the_topic(client, endpoint):
    settle(client, "orders", deliver={"to": endpoint.url, "cloudevents": {}})
    client.push("orders", "1", b"\xff\x00", content_type="application/octet-stream")
    attributes, data = read_call(delivered(client, endpoint)[0])
    assert (attributes["source"], attributes["type"], attributes["datacontenttype"]) == ("/topics/orders", "orders", "application/octet-stream")
    assert data == b"\xff\x00"


def test_id_and_time_are_the_same_for_all_attempts_and_differ_for_another_push(client, endpoint):
    endpoint.answer = lambda call: 500 if call.n % 3 else 200
    settle(client, "again", deliver={"to": endpoint.url, "cloudevents": EVENT}, backoff="fixed:50ms")
    client.push("again", "1", b"1", meta={"kind": "k"})
    acked(client, "again", 1)
    client.push("again", "1", b"2", meta={"kind": "k"})
    acked(client, "again", 2)
    events = [read_call(call)[0] for call in endpoint.calls]
    assert len(events) == 6 and len({event["id"] for event in events[:3]}) == len({event["id"] for event in events[3:]}) == 1
    assert len({event["time"] for event in events[:3]}) == 1
    assert events[0]["id"] != events[3]["id"]


@pytest.mark.parametrize("content_type, body, wanted", [
    ("application/json", b'{"a": [1, "\xc3\xbc"]}', {"a": [1, "ü"]}),
    ("application/json", b"{broken", b"{broken"),
    ("text/plain; charset=utf-8", "grüße\n".encode(), "grüße\n"),
    ("image/x", bytes(range(256)), bytes(range(256))),
    (None, b"\xff", b"\xff"),
], ids=["json", "malformed", "text", "bytes", "untyped"])
def test_structured_mode_is_one_json_object(client, endpoint, content_type, body, wanted):
    settle(client, "whole", deliver={"to": endpoint.url, "cloudevents": {**EVENT, "mode": "structured"}})
    client.push("whole", "1", body, content_type=content_type, meta={"kind": "k"}, delay="0s")
    (call,) = delivered(client, endpoint)
    assert call.headers["content-type"] == "application/cloudevents+json"
    assert not [name for name in call.headers if name.startswith("ce-")]
    attributes, data = read_call(call)
    assert data == wanted
    assert attributes["type"] == "shop.k" and attributes["id"] == call.headers["webhook-id"]
    assert attributes["datacontenttype"] == (content_type or "application/octet-stream")


def test_the_whole_job_can_be_the_data(client, endpoint):
    settle(client, "both", deliver={"to": endpoint.url, "body": "job", "cloudevents": EVENT})
    client.push("both", "1", b'{"x":1}', content_type="application/json", meta={"kind": "k"})
    attributes, data = read_call(delivered(client, endpoint)[0])
    assert attributes["datacontenttype"] == "application/json"
    assert (data["id"], data["body"], data["meta"]) == ("1", {"x": 1}, {"kind": "k"})


def test_a_job_that_cannot_be_an_event_is_refused(client, endpoint):
    settle(client, "none", deliver={"to": endpoint.url, "cloudevents": {"type": "{meta.kind}", "source": "/x/{meta.path}"}})
    bad = {"empty": {}, "long": {"kind": "x" * 1024, "path": "x" * 1024}, "up": {"kind": "k", "path": ".."}}
    for ident, meta in bad.items():
        client.push("none", ident, b"x", meta=meta)
    client.push("none", "good", b"x", meta={"kind": "k"})
    acked(client, "none", 1)
    eventually(lambda: client.topic("none")["counts"]["dead"] == len(bad))
    assert "the type of its event is empty" in client.get("none", "empty")["last_error"]
    assert "the source of its event" in client.get("none", "up")["last_error"]
    assert len(endpoint.calls) == 1


@pytest.mark.parametrize("event, error", [
    ("binary", "it is an object"), ({"mode": "batch"}, "\"binary\" or \"structured\""), ({"kind": "x"}, "'mode', 'source' and 'type'"), ({"type": ""}, "'type' is empty"),
    ({"source": "a b"}, "must be a URI"), ({"source": ""}, "'source' is empty"), ({"type": "{nothing}"}, "bad 'cloudevents'"),
])
def test_settings_that_cannot_be_are_rejected(client, endpoint, event, error):
    reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": {"to": endpoint.url, "cloudevents": event}}).encode())
    assert reply.status == 400 and error in reply.json()["detail"], reply.body


def test_what_excludes_each_other_is_rejected(client, endpoint):
    both = {"to": endpoint.url, "cloudevents": {}, "headers": {"CE-Id": "{id}"}}
    reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": both}).encode())
    assert reply.status == 400 and "'CE-Id' is set by 'cloudevents'" in reply.json()["detail"]
    for scheme in ("stomp", "rocketmq"):
        reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": {"to": f"{scheme}://127.0.0.1", "cloudevents": {}}}).encode())
        assert reply.status == 400 and "no binary mode" in reply.json()["detail"], reply.body
        settle(client, "t", deliver={"to": f"{scheme}://127.0.0.1", "cloudevents": {"mode": "structured"}})


@pytest.mark.skipif(not nats.is_here(), reason="no nats-server on this machine")
def test_a_message_to_nats_is_an_event(client):
    with NatsServer() as server:
        server.stream("EVENTS", ["events"])
        settle(client, "events", deliver={"to": server.url, "cloudevents": EVENT})
        client.push("events", "1", b'{"a":1}', content_type="application/json", meta={"kind": "grüße", "ce-id": "forged"})
        acked(client, "events", 1)
        (message,) = server.messages("EVENTS")
    attributes, data = read_event("http", message.headers, message.body)  # the binding of NATS has the headers of HTTP
    assert (attributes["type"], attributes["id"], data) == ("shop.grüße", message.headers["Nats-Msg-Id"], {"a": 1})
    assert message.headers["meta-ce-id"] == "forged"
