"""The calls of SQS through two servers of one store: what the one has done the other sees."""

import json
import threading
import time

import pytest
from delivery import counts
from server import eventually
from test_sqs import ACCOUNT, REGION, client_of, refused
from test_sqs_moves import arn, drain, ended, kill, make


@pytest.fixture(params=["redis", "postgres"])
def pair(request, start_server):
    """Two SDKs, each of another server, and the servers."""
    start = request.getfixturevalue("start_postgres" if request.param == "postgres" else "start_redis")
    store = start().url
    more = ["--migrate"] if request.param == "postgres" else []
    servers = [start_server("--sqs", f"{REGION}/{ACCOUNT}", "--listen", "127.0.0.1:0", "--store", store, *more) for _ in range(2)]
    return client_of(servers[0].port), client_of(servers[-1].port), servers


def test_two_servers_of_a_store_are_one_sqs(pair):
    one, other, servers = pair
    go_from_one_to_the_other(one, other, servers)
    move_dead_letters_back(one, other, servers)


def test_changes_through_another_server_apply_to_messages_within_a_second(pair):
    one, other, servers = pair
    url = one.create_queue(QueueName="q")["QueueUrl"]
    one.send_message(QueueUrl=url, MessageBody="x")
    eventually(lambda: other.get_queue_url(QueueName="q"))
    other.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "600"})
    time.sleep(1.5)
    one.send_message(QueueUrl=url, MessageBody="y")
    assert counts(servers[0].client(), "q")["delayed"] == 1
    other.delete_queue(QueueUrl=url)
    time.sleep(1.5)
    assert refused(one.send_message, QueueUrl=url, MessageBody="z")[0] == "AWS.SimpleQueueService.NonExistentQueue"


def go_from_one_to_the_other(one, other, servers):
    one.create_queue(QueueName="q", Attributes={"DelaySeconds": "1", "VisibilityTimeout": "30"}, tags={"a": "b"})
    url = eventually(lambda: other.get_queue_url(QueueName="q")["QueueUrl"])
    assert other.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])["Attributes"] == {"DelaySeconds": "1"} and other.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "b"}
    taken = []
    waiting = threading.Thread(target=lambda: taken.extend(other.receive_message(QueueUrl=url, WaitTimeSeconds=20, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]))
    waiting.start()
    sent = one.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"body {n}", "DelaySeconds": 0 if n else 600,
                                                          "MessageAttributes": {"k": {"DataType": "String", "StringValue": "grüße" * n or "v"}}} for n in range(3)])["Successful"]
    waiting.join(30)
    while len(taken) < 2:
        taken += other.receive_message(QueueUrl=url, WaitTimeSeconds=10, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
    assert {message["MessageId"]: message["Body"] for message in taken} == {sent[n]["MessageId"]: f"body {n}" for n in (1, 2)}
    assert {message["MessageAttributes"]["k"]["StringValue"] for message in taken} == {"grüße", "grüße" * 2}
    one.change_message_visibility(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = other.receive_message(QueueUrl=url, WaitTimeSeconds=10, VisibilityTimeout=1, AttributeNames=["All"])["Messages"]
    assert (again["MessageId"], again["Attributes"]["ApproximateReceiveCount"]) == (taken[0]["MessageId"], "2")
    one.delete_message(QueueUrl=url, ReceiptHandle=taken[1]["ReceiptHandle"])
    eventually(lambda: counts(servers[0].client(), "q")["ready"] == 1)  # its second has ended, and no other consumer has it
    one.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    answer = eventually(lambda: (lambda got: got["ApproximateNumberOfMessages"] == "0" and got)(other.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]))
    assert (answer["ApproximateNumberOfMessagesDelayed"], answer["ApproximateNumberOfMessagesNotVisible"]) == ("1", "0")
    one.purge_queue(QueueUrl=url)
    eventually(lambda: counts(servers[-1].client(), "q")["delayed"] == 0)
    other.delete_queue(QueueUrl=url)
    eventually(lambda: not one.list_queues(QueueNamePrefix="q").get("QueueUrls"))


def move_dead_letters_back(one, other, servers):
    urls = make(one, "a", "b")
    kill(one, urls["a"], "a1", "a2")
    kill(one, urls["b"], "b1")
    eventually(lambda: counts(servers[-1].client(), "dead")["ready"] == 3, 20)
    other.start_message_move_task(SourceArn=arn("dead"))
    assert (ended(one)["Status"], drain(other, urls["a"]), drain(other, urls["b"])) == ("COMPLETED", ["a1", "a2"], ["b1"])
    policy = json.loads(other.get_queue_attributes(QueueUrl=urls["a"], AttributeNames=["All"])["Attributes"]["RedrivePolicy"])
    assert policy == {"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1} and len(other.list_dead_letter_source_queues(QueueUrl=urls["dead"])["queueUrls"]) == 2
