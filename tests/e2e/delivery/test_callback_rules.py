"""Every way in which a job with a callback of its own could enter, against each rule of callbacks."""

import contextlib
import json
import urllib.parse

import grpc
import pytest
from callback_rules import BAD
from conftest import FLAGS
from grpc_calls import MESSAGES, Stub, channel
from server import free_port
from ways_in import House, flags, queue_url

JSON = {"Content-Type": "application/json"}
TOPIC = "t"

# ---- ways in: each tries to give a job the callback, and returns whether the job was accepted ----


def query(house, url):
    return house.http("POST", f"/v1/topics/{TOPIC}/jobs?delay=1h&callback={urllib.parse.quote(url, safe='')}", b"x")[0] == 201


def put(house, url):
    return house.http("PUT", f"/v1/topics/{TOPIC}/jobs/put?delay=1h&callback={urllib.parse.quote(url, safe='')}", b"x")[0] == 201


def header(house, url):
    return house.http("POST", f"/v1/topics/{TOPIC}/jobs?delay=1h", b"x", {"tarry-callback": url})[0] == 201


def envelope(house, url):
    return house.http("POST", f"/v1/topics/{TOPIC}/jobs", json.dumps({"body": "x", "delay": "1h", "callback": url}).encode(), JSON)[0] == 201


def batch(house, url, content_type="application/json", wrap="[%s]"):
    status, answer = house.http("POST", "/v1/jobs", (wrap % json.dumps({"topic": TOPIC, "body": "x", "delay": "1h", "callback": url})).encode(), {"Content-Type": content_type})
    return status == 200 and answer["results"][0]["result"] == "created"


def lines(house, url):
    return batch(house, url, "application/x-ndjson", "%s\n")


def by_grpc(house, **job):
    with channel(house.server.port) as open_channel, contextlib.suppress(grpc.RpcError):
        return bool(Stub(open_channel).Push(topic=TOPIC, body=b"x", delay={"seconds": 3600}, **job).id)
    return False


def grpc_push(house, url):
    return by_grpc(house, callback=url)


def grpc_push_many(house, url):
    with channel(house.server.port) as open_channel:
        [result] = Stub(open_channel).PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": TOPIC, "body": b"x", "delay": {"seconds": 3600}, "callback": url}])).results
    return not result.problem.code


def command_line(house, url):
    return house.cli("push", TOPIC, "--delay", "1h", "--callback", url, "--body", "x").returncode == 0


def imported(house, url):
    line = json.dumps({"topic": TOPIC, "id": "imported", "body": "x", "delay": "1h", "callback": url})
    return house.cli("import", "--retry-for", "100ms", input_text=line + "\n").returncode == 0


def schedule(house, url):
    body = json.dumps({"topic": TOPIC, "every": "1d", "start": "2040-01-01T00:00:00Z", "body": "x", "callback": url}).encode()
    return house.http("PUT", "/v1/schedules/daily", body, JSON)[0] in (200, 201) and house.http("POST", "/v1/schedules/daily/run", b"")[0] in (200, 201)


WAYS = (query, put, header, envelope, batch, lines, grpc_push, grpc_push_many, command_line, imported, schedule)

# ---- ways by which a job can have no callback, whatever its client sends ----


def meta_header(house, url):
    return house.http("POST", f"/v1/topics/{TOPIC}/jobs?delay=1h", b"x", {"tarry-meta-tarry-callback": url})[0] == 201


def meta_of_batch(house, url):
    body = json.dumps([{"topic": TOPIC, "body": "x", "delay": "1h", "meta": {"tarry-callback": url}}]).encode()
    return house.http("POST", "/v1/jobs", body, JSON)[1]["results"][0]["result"] == "created"


def meta_of_grpc(house, url):
    return by_grpc(house, meta={"tarry-callback": url})


def attribute_of_sqs(house, url):
    return house.sqs("SendMessage", QueueUrl=queue_url(TOPIC), MessageBody="x", DelaySeconds=900,
                     MessageAttributes={name: {"DataType": "String", "StringValue": url} for name in ("callback", "tarry-callback")})[0] == 200


def member_of_mykit(house, url):
    return house.mykit("POST", "/push", {"topic": TOPIC, "id": "mykit", "body": "x", "delay": 3_600_000, "callback": url, "tarry-callback": url})[1].get("success")


NO_WAYS = (meta_header, meta_of_batch, meta_of_grpc, attribute_of_sqs, member_of_mykit)


def callbacks(house):
    """The callbacks of all stored jobs."""
    return [job.get("callback") for job in house.server.client().list(TOPIC)["jobs"]]


def house_of(start):
    ports = free_port(), free_port()
    house = House(start(*FLAGS, *flags(*ports)), *ports)
    assert house.http("PUT", f"/v1/topics/{TOPIC}")[0] in (200, 201)
    return house


@pytest.fixture
def house(start_delivering):
    return house_of(start_delivering)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_in_enforces_each_rule(house, way, endpoint):
    refused = {rule: way(house, url) for rule, url in BAD.items()}
    assert not any(refused.values()), refused
    assert callbacks(house) == []
    assert way(house, endpoint.url + "/x"), "an allowed one is accepted"
    assert callbacks(house) == [endpoint.url + "/x"]


@pytest.mark.parametrize("way", NO_WAYS, ids=lambda way: way.__name__)
def test_no_other_way_sets_a_callback(house, way, endpoint):
    way(house, endpoint.url + "/x")
    assert not any(callbacks(house))


def test_a_server_that_delivers_nothing_accepts_no_callback(start_server, endpoint):
    house = house_of(start_server)
    accepted = {way.__name__: way(house, endpoint.url + "/x") for way in WAYS}
    assert not any(accepted.values()), accepted
    assert callbacks(house) == []
