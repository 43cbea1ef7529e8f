"""FIFO queues as the SDK for Python uses them: order within a group, deduplication, and the errors by name."""

import json
import re

import pytest
from conftest import FLAGS
from server import eventually
from test_sqs import ACCOUNT, REGION, client_of, refused

FIFO = {"FifoQueue": "true"}
BY_CONTENT = {**FIFO, "ContentBasedDeduplication": "true"}
ALL = {"MessageSystemAttributeNames": ["All"], "WaitTimeSeconds": 1}


def redis_flags(request):
    return ["--store", request.getfixturevalue("start_redis")(aof="everysec").url, "--listen", "127.0.0.1:0"]


def shards_flags(request):
    return [*redis_flags(request), "--shards", "3"]


def postgres_flags(request):
    return ["--store", request.getfixturevalue("start_postgres")().url, "--migrate"]


def mariadb_flags(request):
    return ["--store", request.getfixturevalue("start_mariadb")().url, "--migrate"]


STORES = {"embedded": lambda request: FLAGS, "redis": redis_flags, "redis-3": shards_flags, "postgres": postgres_flags, "mariadb": mariadb_flags}
THOROUGH = pytest.mark.thorough("starts a database for each test")


@pytest.fixture(params=["embedded", "redis", "redis-3", *(pytest.param(name, marks=THOROUGH) for name in ("postgres", "mariadb"))])
def start(request, start_server):
    """start(): a server with the calls of SQS, and an SDK."""
    def start(*flags, **options):
        if request.param in ("postgres", "mariadb") and any("--test-clock" in flag for flag in flags):
            pytest.skip("a database has its own clock")
        server = start_server("--sqs", f"{REGION}/{ACCOUNT}", *STORES[request.param](request), *flags, **options)
        return server, client_of(server.port)

    return start


def made(sqs, name="q.fifo", **attributes):
    return sqs.create_queue(QueueName=name, Attributes={**BY_CONTENT, **attributes})["QueueUrl"]


def received(sqs, url, most=10, **options):
    return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, **{**ALL, **options}).get("Messages", [])


def send(sqs, url, body, group="g", **options):
    return sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **options)


def delete(sqs, url, message):
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_a_group_has_one_message_in_flight_and_keeps_its_order(start):
    server, sqs = start()
    url = made(sqs)
    sent = [send(sqs, url, f"{group}{n}", group)["SequenceNumber"] for n in range(4) for group in "ab"]
    assert sent == sorted(sent) and len(set(sent)) == len(sent) and all(re.fullmatch("[0-9]{39}", number) for number in sent)
    for n in range(4):
        found = {message["Body"]: message for message in received(sqs, url)}
        assert sorted(found) == [f"a{n}", f"b{n}"]
        assert received(sqs, url, WaitTimeSeconds=0) == []
        shown = found[f"a{n}"]["Attributes"]
        assert shown["MessageGroupId"] == "a" and shown["SequenceNumber"] == sent[2 * n] and re.fullmatch("[0-9a-f]{64}", shown["MessageDeduplicationId"])
        if n == 1:
            server.restart("kill")
            sqs = client_of(server.port)
            assert received(sqs, url, WaitTimeSeconds=0) == []
        for message in found.values():
            delete(sqs, url, message)
    assert received(sqs, url) == []


def test_a_message_whose_visibility_ends_comes_again_before_the_next(start):
    server, sqs = start()
    url = made(sqs)
    for body in ("1", "2"):
        send(sqs, url, body)
    (first,) = received(sqs, url, VisibilityTimeout=1)
    assert first["Body"] == "1"
    (again,) = received(sqs, url, WaitTimeSeconds=20)
    assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("1", "2")
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = received(sqs, url, WaitTimeSeconds=20)
    assert again["Body"] == "1"
    delete(sqs, url, again)
    assert received(sqs, url)[0]["Body"] == "2"
    jobs = server.client().good("GET", "/v1/topics/q.fifo/jobs")["jobs"]
    assert [job.get("held_by") for job in jobs] == [None]


def test_the_fifo_dead_letter_queue_gets_the_message_and_the_group_continues(start):
    _, sqs = start()
    dead = made(sqs, "dead.fifo")
    plain = sqs.create_queue(QueueName="plain")["QueueUrl"]
    arn = {url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"] for url in (dead, plain)}
    policy = {url: json.dumps({"deadLetterTargetArn": arn[url], "maxReceiveCount": 1}) for url in arn}
    for name, attributes in (("q.fifo", {**FIFO, "RedrivePolicy": policy[plain]}), ("q", {"RedrivePolicy": policy[dead]})):
        code, message = refused(sqs.create_queue, QueueName=name, Attributes=attributes)
        assert code == "InvalidParameterValue" and "same type" in message
    url = made(sqs, RedrivePolicy=policy[dead], VisibilityTimeout="1")
    for body in ("1", "2"):
        send(sqs, url, body)
    assert received(sqs, url)[0]["Body"] == "1"
    (second,) = received(sqs, url, WaitTimeSeconds=20, VisibilityTimeout=60)
    assert second["Body"] == "2"
    delete(sqs, url, second)
    (moved,) = received(sqs, dead, WaitTimeSeconds=20)
    assert moved["Body"] == "1" and moved["Attributes"]["MessageGroupId"] == "g" and moved["Attributes"]["DeadLetterQueueSourceArn"].endswith(":q.fifo")


def test_a_deduplication_id_counts_for_five_minutes_also_after_the_delete(start):
    server, sqs = start("--test-clock=2030-01-01T00:00:00Z")
    url = made(sqs)
    first = send(sqs, url, "one", MessageDeduplicationId="id")
    other = send(sqs, url, "two", "h", MessageDeduplicationId="id")
    assert "SequenceNumber" in first and "SequenceNumber" not in other
    (message,) = received(sqs, url)
    assert message["Body"] == "one" and message["Attributes"]["MessageDeduplicationId"] == "id"
    delete(sqs, url, message)
    send(sqs, url, "three", MessageDeduplicationId="id")
    assert received(sqs, url, WaitTimeSeconds=0) == []
    server.client().good("POST", "/v1/clock/advance?by=301s")
    send(sqs, url, "four", MessageDeduplicationId="id")
    assert received(sqs, url)[0]["Body"] == "four"


@pytest.mark.parametrize("scope,count", [("queue", 1), ("messageGroup", 2)])
def test_the_scope_of_deduplication(start, scope, count):
    _, sqs = start()
    url = made(sqs, DeduplicationScope=scope)
    for group in ("a", "b", "a"):
        send(sqs, url, "same", group)
    assert len(received(sqs, url)) == count


def test_a_batch_keeps_its_order(start):
    _, sqs = start()
    url = made(sqs)
    output = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"{n}", "MessageGroupId": "g"} for n in range(10)])
    numbers = [one["SequenceNumber"] for one in output["Successful"]]
    assert len(numbers) == 10 and numbers == sorted(numbers)
    for n in range(10):
        (message,) = received(sqs, url, ReceiveRequestAttemptId="attempt")
        assert message["Body"] == f"{n}"
        delete(sqs, url, message)


def test_attributes_of_fifo_queues(start):
    _, sqs = start()
    url = sqs.create_queue(QueueName="q.fifo", Attributes=FIFO)["QueueUrl"]
    names = ["FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"]
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] == dict(zip(names, ["true", "false", "queue", "perQueue"], strict=True))
    assert sqs.create_queue(QueueName="q.fifo", Attributes=FIFO)["QueueUrl"] == url
    assert refused(sqs.create_queue, QueueName="q.fifo", Attributes=BY_CONTENT)[0] == "QueueAlreadyExists"
    changed = {"ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=changed)
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"].items() >= {**FIFO, **changed}.items()
    for name, value in (("FifoQueue", "false"), ("DeduplicationScope", "topic"), ("ContentBasedDeduplication", "yes"), ("DeduplicationScope", "queue")):
        assert refused(sqs.set_queue_attributes, QueueUrl=url, Attributes={name: value})[0] == "InvalidAttributeValue", (name, value)


def test_errors_of_fifo_queues(start):
    _, sqs = start()
    for name, attributes in (("q", FIFO), ("q.fifo", {}), ("a.b.fifo", FIFO), (".fifo", FIFO), ("x" * 76 + ".fifo", FIFO)):
        assert refused(sqs.create_queue, QueueName=name, Attributes=attributes)[0] == "InvalidParameterValue", name
    url = sqs.create_queue(QueueName="q.fifo", Attributes=FIFO)["QueueUrl"]
    wrong = [
        ({"MessageDeduplicationId": "d"}, "MissingParameter", "The request must contain the parameter MessageGroupId."),
        ({"MessageGroupId": "g"}, "InvalidParameterValue", "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"),
        ({"MessageGroupId": "g", "MessageDeduplicationId": "a b"}, "InvalidParameterValue", "MessageDeduplicationId can only include"),
        ({"MessageGroupId": "g", "MessageDeduplicationId": "x" * 129}, "InvalidParameterValue", "1 to 128 in length"),
        ({"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 5}, "InvalidParameterValue", "Value 5 for parameter DelaySeconds is invalid."),
    ]
    for parameters, expected, text in wrong:
        code, message = refused(sqs.send_message, QueueUrl=url, MessageBody="x", **parameters)
        assert code == expected and text in message, parameters
        entries = [{"Id": "1", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "good"}, {"Id": "2", "MessageBody": "x", **parameters}]
        if len(parameters) == 1:
            assert refused(sqs.send_message_batch, QueueUrl=url, Entries=entries)[0] == expected
    assert received(sqs, url, WaitTimeSeconds=0) == []


def test_a_fifo_queue_keeps_its_order_over_several_shards(start_server):
    server = start_server("--sqs", f"{REGION}/{ACCOUNT}", *FLAGS, "--shards", "3")
    sqs = client_of(server.port)
    url, bodies = made(sqs), [f"{number}" for number in range(12)]
    for body in bodies:
        send(sqs, url, body)
    send(sqs, url, bodies[3])  # within five minutes
    got = []
    while messages := received(sqs, url, WaitTimeSeconds=1):
        for message in messages:
            got.append(message["Body"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert got == bodies


def test_settings_of_the_topic_do_not_end_the_fifo_queue(start):
    server, sqs = start()
    url, client = made(sqs), server.client()
    before = client.good("GET", "/v1/topics/q.fifo")["settings"]
    put = client.good("PUT", "/v1/topics/q.fifo", b'{"max_attempts":5}')["settings"]
    assert put["max_attempts"] == 5 and (put["group_order"], put["sqs"]) == ("strict", before["sqs"]) and "lease_for" not in put
    for method, body in (("PUT", b'{"group_order":"free"}'), ("PUT", b'{"sqs":{"delay":5}}'), ("PATCH", b'{"group_order":"free"}'), ("PATCH", b'{"sqs":null}')):
        answer = client.call(method, "/v1/topics/q.fifo", body)
        assert (answer.status, answer.json()["code"]) == (409, "fifo_queue"), (method, body)
    for number in range(2):
        send(sqs, url, f"{number}")
    assert [message["Body"] for message in received(sqs, url)] == ["0"]
    client.good("PUT", "/v1/topics/other.fifo", b'{"max_attempts":5}')
