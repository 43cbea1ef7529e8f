"""Message move tasks of SQS: what is in a dead-letter queue goes back, or elsewhere; nothing is lost or doubled, also where the server dies meanwhile."""

import json
import os
import time

import pytest
from conftest import FLAGS
from delivery import counts
from server import eventually
from test_sqs import ACCOUNT, REGION, client_of, refused, start  # noqa: F401
from tokens import Token, TokenFile


def arn(name):
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def make(sqs, *names, dead="dead", **attributes):
    """Queues whose dead letters go to `dead`; the URLs by name."""
    urls = {dead: sqs.create_queue(QueueName=dead, Attributes=attributes)["QueueUrl"]}
    policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
    return urls | {name: sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"] for name in names}


def kill(sqs, url, *bodies):
    """Messages that are received once, and dead then."""
    for body in bodies:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes={"k": {"DataType": "String", "StringValue": body}})
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)


def fill(sqs, url, count):
    for at in range(0, count, 10):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"{at + n}"} for n in range(min(10, count - at))])


def ready(server, topic):
    return counts(server.client(), topic)["ready"]


def tasks(sqs, source="dead", most=10):
    return sqs.list_message_move_tasks(SourceArn=arn(source), MaxResults=most)["Results"]


def ended(sqs, source="dead", seconds=20):
    return eventually(lambda: (lambda found: found and found[0]["Status"] != "RUNNING" and found[0])(tasks(sqs, source)), seconds)


def drain(sqs, url):
    """Takes and acks all ready jobs; returns their bodies."""
    found = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
        sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)])
    return sorted(found)


def test_messages_go_back_to_the_queue_that_they_died_in(start):
    server, sqs = start()
    urls = make(sqs, "a", "b")
    kill(sqs, urls["a"], "a1", "a2")
    kill(sqs, urls["b"], "b1")
    eventually(lambda: ready(server, "dead") == 3)
    handle = sqs.start_message_move_task(SourceArn=arn("dead"))["TaskHandle"]
    task = ended(sqs)
    assert (task["Status"], task["SourceArn"], task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == ("COMPLETED", arn("dead"), 3, 3)
    assert "TaskHandle" not in task and "DestinationArn" not in task and abs(task["StartedTimestamp"] / 1000 - time.time()) < 60
    (message,) = sqs.receive_message(QueueUrl=urls["b"], AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
    assert (message["Body"], message["MessageAttributes"]["k"]["StringValue"], message["Attributes"]["ApproximateReceiveCount"]) == ("b1", "b1", "1")
    assert drain(sqs, urls["a"]) == ["a1", "a2"] and ready(server, "dead") == 0
    assert refused(sqs.cancel_message_move_task, TaskHandle=handle)[0] == "ResourceNotFoundException"
    assert eventually(lambda: counts(server.client(), "tarry.moves")["leased"] == 0)


def test_messages_go_to_a_queue_that_is_named_at_a_rate_until_it_is_cancelled(start):
    server, sqs = start()
    urls = make(sqs, "a")
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    fill(sqs, urls["dead"], 30)
    handle = sqs.start_message_move_task(SourceArn=arn("dead"), DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=5)["TaskHandle"]
    began = time.monotonic()
    code, answer = refused(sqs.start_message_move_task, SourceArn=arn("dead"))
    assert code == "AWS.SimpleQueueService.UnsupportedOperation" and "already a task" in answer
    eventually(lambda: ready(server, "other") >= 3)
    assert ready(server, "other") <= 5 * (time.monotonic() - began) + 2  # never faster than asked for
    (task,) = tasks(sqs)
    assert (task["Status"], task["TaskHandle"], task["MaxNumberOfMessagesPerSecond"], task["DestinationArn"]) == ("RUNNING", handle, 5, arn("other"))
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] >= 1
    task = ended(sqs)
    moved = task["ApproximateNumberOfMessagesMoved"]
    assert task["Status"] == "CANCELLED" and 3 <= moved < 30
    assert (len(drain(sqs, other)), len(drain(sqs, urls["dead"]))) == (moved, 30 - moved)
    fill(sqs, urls["dead"], 5)
    sqs.start_message_move_task(SourceArn=arn("dead"), DestinationArn=arn("other"))
    assert eventually(lambda: [task["Status"] for task in tasks(sqs)] == ["COMPLETED", "CANCELLED"])
    assert len(tasks(sqs, most=1)) == 1 and drain(sqs, other) == [str(n) for n in range(5)]


def test_unmovable_messages_are_reported(start):
    server, sqs = start()
    urls = make(sqs, "a", "b")
    for fields, code in (({"SourceArn": arn("a")}, "InvalidParameterValue"), ({"SourceArn": arn("nowhere")}, "ResourceNotFoundException"), ({"SourceArn": "dead"}, "InvalidParameterValue"),
                         ({"SourceArn": arn("dead"), "DestinationArn": arn("nowhere")}, "ResourceNotFoundException"), ({"SourceArn": arn("dead"), "DestinationArn": arn("dead")}, "InvalidParameterValue"),
                         ({"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": 501}, "InvalidParameterValue")):
        assert refused(sqs.start_message_move_task, **fields)[0] == code, fields
    assert refused(sqs.list_message_move_tasks, SourceArn=arn("nowhere"))[0] == "ResourceNotFoundException" and tasks(sqs) == []
    for handle, code in (("nonsense", "InvalidParameterValue"), ("move/0123456789abcdef/dead", "ResourceNotFoundException")):
        assert refused(sqs.cancel_message_move_task, TaskHandle=handle)[0] == code
    sqs.send_message(QueueUrl=urls["dead"], MessageBody="of nowhere")  # neither a's nor b's
    kill(sqs, urls["a"], "a1")
    eventually(lambda: ready(server, "dead") == 2)
    sqs.start_message_move_task(SourceArn=arn("dead"))
    task = ended(sqs)
    assert (task["Status"], task["FailureReason"], task["ApproximateNumberOfMessagesMoved"]) == ("FAILED", "CouldNotDetermineMessageSource", 1)
    assert drain(sqs, urls["a"]) == ["a1"] and drain(sqs, urls["dead"]) == ["of nowhere"]
    # A job of the same id where it goes: the copy has an id of its own.
    client = server.client()
    client.push("dead", "same", b"moved")
    client.push("a", "same", b"was there")
    sqs.start_message_move_task(SourceArn=arn("dead"), DestinationArn=arn("a"))
    assert ended(sqs)["Status"] == "COMPLETED" and drain(sqs, urls["a"]) == ["moved", "was there"]


def test_a_destination_that_is_full_takes_no_more_and_the_rest_stays(start):
    server, sqs = start()
    urls = make(sqs, "a")
    client = server.client()
    client.put_topic("small", max_jobs=4)
    fill(sqs, urls["dead"], 10)
    eventually(lambda: ready(server, "dead") == 10)
    sqs.start_message_move_task(SourceArn=arn("dead"), DestinationArn=arn("small"))
    task = ended(sqs)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotSendToDestination")
    small = sqs.get_queue_url(QueueName="small")["QueueUrl"]
    eventually(lambda: counts(client, "dead")["leased"] == 0)
    moved, left = drain(sqs, small), drain(sqs, urls["dead"])
    assert task["ApproximateNumberOfMessagesMoved"] == len(moved) == 4 and sorted(moved + left) == [str(n) for n in range(10)]


def test_a_move_needs_push_rights_to_the_destination(start_server, tmp_path):
    """A message contains the topic in which it died; that counts only if the topic's dead letters are forwarded here."""
    tokens = TokenFile(tmp_path / "tokens", "access-key all scope=push,consume,read,admin topics=* secret=secret-of-all-there-is", Token("api"),
                       "access-key few scope=push,consume,read topics=dead,a secret=secret-of-a-few-topics")
    server = start_server("--sqs", f"{REGION}/{ACCOUNT}", "--tokens", str(tokens.path), *FLAGS)
    every, few = (client_of(server.port, aws_access_key_id=name, aws_secret_access_key=secret) for name, secret in (("all", "secret-of-all-there-is"), ("few", "secret-of-a-few-topics")))
    make(every, "a")
    every.create_queue(QueueName="b")
    client = server.client()
    reply = client.call("PUT", "/v1/topics/dead/jobs/1", b"x", {**Token("api").headers, "Tarry-Meta-dead-topic": "b"})
    assert reply.status == 201
    assert refused(few.start_message_move_task, SourceArn=arn("dead"), DestinationArn=arn("b"))[0] == "AccessDeniedException"
    assert refused(few.list_message_move_tasks, SourceArn=arn("b"))[0] == "AccessDeniedException"
    few.start_message_move_task(SourceArn=arn("dead"))
    assert ended(few)["ApproximateNumberOfMessagesMoved"] == 1
    assert every.receive_message(QueueUrl=every.get_queue_url(QueueName="a")["QueueUrl"])["Messages"][0]["Body"] == "x"
    policy = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
    every.set_queue_attributes(QueueUrl=every.get_queue_url(QueueName="b")["QueueUrl"], Attributes={"RedrivePolicy": policy})  # now b's go there too, and few may not push to b
    assert refused(few.start_message_move_task, SourceArn=arn("dead"))[0] == "AccessDeniedException"


@pytest.mark.parametrize("round_", range(int(os.environ.get("TARRY_TEST_MOVE_KILLS", "1"))))
def test_a_move_continues_after_a_crash_without_loss_or_duplicates(start, round_):
    server, sqs = start()
    urls = make(sqs, "a")
    fill(sqs, urls["dead"], 300)
    sqs.start_message_move_task(SourceArn=arn("dead"))
    eventually(lambda: ready(server, "a") >= 20 + 7 * round_, pause=0.001)
    server.restart("kill")
    sqs = client_of(server.port)
    task = ended(sqs, seconds=30)
    client = server.client()
    assert task["Status"] == "COMPLETED" and counts(client, "a")["delayed"] == 0, "no copy is hidden"
    there, left = drain(sqs, urls["a"]), drain(sqs, urls["dead"])
    assert sorted(there + left) == sorted(str(n) for n in range(300)) and len(left) <= 10


def test_a_foreign_job_in_the_topic_of_tasks_moves_nothing(start):
    """A caller that may push there must not move others' messages."""
    server, sqs = start()
    urls = make(sqs, "a")
    fill(sqs, urls["dead"], 3)
    client = server.client()
    task = {"handle": "move/0123456789abcdef/dead", "status": "RUNNING", "source": "dead", "to": "a", "rate": 0, "started": 1, "total": 3, "moved": 0, "reason": "",
            "sources": ["a"]}
    assert client.call("PUT", "/v1/topics/tarry.moves/jobs/run:dead", json.dumps(task).encode()).code == "reserved_topic"
    (restored,) = client.call("POST", "/v1/jobs?restore=true", json.dumps([{"topic": "tarry.moves", "id": "run:dead", "body": task}]).encode(),
                              {"Content-Type": "application/json"}).json()["results"]
    assert restored["result"] == "created"
    eventually(lambda: client.call("GET", "/v1/topics/tarry.moves/jobs/run:dead").status == 404)
    assert ready(server, "dead") == 3 and ready(server, "a") == 0
    sqs.start_message_move_task(SourceArn=arn("dead"))
    assert ended(sqs)["ApproximateNumberOfMessagesMoved"] == 3
