"""The calls of SQS as the SDK for Python makes them, which checks every digest by itself; and what no SDK would send."""

import functools
import hashlib
import http.client
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

import pytest
from conftest import FLAGS
from delivery import counts, settle, totals
from server import BINARY, REPO, eventually, slack

VERSION = "1.40.0"  # of boto3; Debian's is older than the JSON protocol
ACCOUNT, REGION = "123456789012", "us-east-1"


@functools.cache
def sdk():
    """boto3, installed once into the user's cache; or the reason why it is missing."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tarry-tests" / f"boto3-{VERSION}"
    if not cache.is_dir():
        fresh = cache.with_name(f"{cache.name}-{os.getpid()}")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", fresh / "lib", f"boto3=={VERSION}"],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            return None, f"pip could not bring boto3: {done.stderr[-300:]}"
        try:
            (fresh / "lib").rename(cache)
        except OSError:
            pass  # another process was faster
    sys.path.insert(0, str(cache))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("boto3", "botocore", "s3transfer", "jmespath")]:
        del sys.modules[name]
    return importlib.import_module("boto3"), ""


@pytest.fixture
def start(start_server):
    def start(*flags, **options):
        server = start_server("--sqs", f"{REGION}/{ACCOUNT}", *FLAGS, *flags, **options)
        return server, client_of(server.port)

    return start


def client_of(port, **options):
    boto3, why = sdk()
    if boto3 is None:
        pytest.skip(why)
    from botocore.config import Config
    options = {"region_name": REGION, "aws_access_key_id": "a", "aws_secret_access_key": "b", **options}
    return boto3.client("sqs", endpoint_url=f"http://127.0.0.1:{port}", config=Config(retries={"max_attempts": 0}, read_timeout=30), **options)


def refused(call, **fields):
    """The code and the message of the error, as the SDK has them."""
    from botocore.exceptions import ClientError
    with pytest.raises(ClientError) as error:
        call(**fields)
    return error.value.response["Error"]["Code"], error.value.response["Error"]["Message"]


def test_a_message_goes_and_comes_with_its_attributes_and_is_gone_once_deleted(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert url == f"http://127.0.0.1:{server.port}/{ACCOUNT}/orders"
    attributes = {"Kind.Of-it_": {"DataType": "String", "StringValue": "grüße \"1\""}, "b": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
                  "n": {"DataType": "Number.float", "StringValue": "1.5"}, "long": {"DataType": "String.x", "StringValue": "ä" * 200}}
    began = int(time.time() * 1000)
    sent = sqs.send_message(QueueUrl=url, MessageBody="hällo\n", MessageAttributes=attributes,
                            MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}})
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
    assert (message["MessageId"], message["Body"], message["MessageAttributes"]) == (sent["MessageId"], "hällo\n", attributes)
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert str(uuid.UUID(message["MessageId"])) == message["MessageId"]
    system = message["Attributes"]
    assert system["ApproximateReceiveCount"] == "1" and began <= int(system["SentTimestamp"]) <= time.time() * 1000
    assert system["AWSTraceHeader"].startswith("Root=") and system["SenderId"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert totals(server.client(), "orders")["acked"] == 1


def test_only_requested_attributes_are_returned(start):
    _, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={name: {"DataType": "String", "StringValue": name} for name in ("a.x", "a.y", "b")})
    handles = []
    for names, found in (([], None), (["b"], {"b"}), (["a.*"], {"a.x", "a.y"}), (["none"], None), (["All"], {"a.x", "a.y", "b"}), (["*"], {"a.x", "a.y", "b"})):
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MessageAttributeNames=names, AttributeNames=["ApproximateReceiveCount"])["Messages"]
        assert (set(message["MessageAttributes"]) if "MessageAttributes" in message else None) == found and ("MD5OfMessageAttributes" in message) == bool(found)
        assert set(message["Attributes"]) == {"ApproximateReceiveCount"}
        handles.append(message["ReceiptHandle"])
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handles[-1], VisibilityTimeout=0)
    assert len(set(handles)) == 6


def test_delays_of_a_message_and_of_its_queue_go_to_years(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "2592000"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a month, by the queue")
    sqs.send_message(QueueUrl=url, MessageBody="nine years", DelaySeconds=9 * 365 * 86400)
    sqs.send_message(QueueUrl=url, MessageBody="a second", DelaySeconds=1)
    jobs = server.client().good("GET", "/v1/topics/q/jobs?body=true")["jobs"]
    assert [job["body"] for job in jobs] == ["a second", "a month, by the queue", "nine years"]
    assert counts(server.client(), "q")["delayed"] == 3
    began = time.time()
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]  # it falls due while it is waited for
    assert message["Body"] == "a second" and time.time() - began < 8 * slack()
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=11 * 366 * 86400)[0] == "InvalidParameterValue"


def test_a_long_poll_returns_new_messages_or_an_empty_answer_at_its_end(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q", Attributes={"ReceiveMessageWaitTimeSeconds": "20"})["QueueUrl"]
    began = time.time()
    threading.Thread(target=lambda: eventually(lambda: server.client().good("GET", "/v1/topics/q")) and time.sleep(0.3) or client_of(server.port).send_message(QueueUrl=url, MessageBody="x")).start()
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "x" and time.time() - began < 15 * slack()
    began = time.time()
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1) and time.time() - began >= 0.95


def test_batches_have_a_result_for_each_entry(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    output = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(at), "MessageBody": "\x01" if at == 3 else f"body {at}", "DelaySeconds": 60 if at == 4 else 0} for at in range(10)])
    assert [one["Id"] for one in output["Successful"]] == [str(at) for at in range(10) if at != 3]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in output["Failed"]] == [("3", "InvalidMessageContents", True)]
    messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == [f"body {at}" for at in range(10) if at not in (3, 4)]
    entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 100} for entry in entries[:2]] + [{"Id": "bad", "ReceiptHandle": "?", "VisibilityTimeout": 1}])
    assert [one["Id"] for one in changed["Successful"]] == ["0", "1"] and changed["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"
    gone = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert len(gone["Successful"]) == 8 and totals(server.client(), "q")["acked"] == 8
    code, _ = refused(sqs.send_message_batch, QueueUrl=url, Entries=[])
    assert code == "AWS.SimpleQueueService.EmptyBatchRequest"
    assert refused(sqs.delete_message_batch, QueueUrl=url, Entries=entries[:1] * 2)[0] == "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
    assert refused(sqs.send_message_batch, QueueUrl=url, Entries=[{"Id": str(at), "MessageBody": "x"} for at in range(11)])[0] == "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"


def test_visibility_is_a_lease_and_without_a_redrive_policy_nothing_ever_dies(start):
    _, sqs = start()
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    for at in range(1, 21):
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, AttributeNames=["All"])["Messages"]
        assert message["Attributes"]["ApproximateReceiveCount"] == str(at)
        if at > 1:
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert refused(sqs.change_message_visibility, QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=5)[0] == "AWS.SimpleQueueService.MessageNotInflight"
    assert refused(sqs.change_message_visibility, QueueUrl=url, ReceiptHandle="nonsense", VisibilityTimeout=5)[0] == "ReceiptHandleIsInvalid"
    assert refused(sqs.change_message_visibility, QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=43201)[0] == "InvalidParameterValue"


def test_an_expired_handle_deletes_unless_another_consumer_has_the_message(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    client = server.client()
    for id in ("a", 'b"~\\', "c~d"):
        client.push("q", urllib.parse.quote(id, safe=""), b"x")
    messages = sqs.receive_message(QueueUrl=url, VisibilityTimeout=1, MaxNumberOfMessages=10)["Messages"]
    eventually(lambda: counts(client, "q")["ready"] == 3)
    entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)]
    assert len(sqs.delete_message_batch(QueueUrl=url, Entries=[*entries, {"Id": "bad", "ReceiptHandle": "?~?"}])["Successful"]) == 3
    assert counts(client, "q")["ready"] == 0 and totals(client, "q")["cancelled"] == 3
    sqs.send_message(QueueUrl=url, MessageBody="y")
    (old,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    (new,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]  # immediately: no time was requested
    assert (new["MessageId"], new["Attributes"]["ApproximateReceiveCount"]) == (old["MessageId"], "2") and old["ReceiptHandle"] != new["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old["ReceiptHandle"])
    assert counts(client, "q")["leased"] == 1  # another consumer works on it
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=new["ReceiptHandle"], VisibilityTimeout=0)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=old["ReceiptHandle"])
    assert counts(client, "q")["ready"] == 1  # it was received since
    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=new["ReceiptHandle"])
    assert counts(client, "q")["ready"] == 0


def test_a_redrive_policy_moves_messages_received_too_often(start):
    server, sqs = start()
    dead = sqs.create_queue(QueueName="q-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    assert arn == f"arn:aws:sqs:{REGION}:{ACCOUNT}:q-dead"
    url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "2"})})["QueueUrl"]
    assert json.loads(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]["RedrivePolicy"]) == {"deadLetterTargetArn": arn, "maxReceiveCount": 2}
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={"k": {"DataType": "String", "StringValue": "v"}})
    for _ in range(2):
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (message,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, MessageAttributeNames=["All"])["Messages"]
    assert (message["MessageId"], message["Body"], message["MessageAttributes"]["k"]["StringValue"]) == (sent["MessageId"], "x", "v")
    eventually(lambda: counts(server.client(), "q")["dead"] == 0)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def test_a_dead_letter_names_its_source_and_continues_its_receive_count(start):
    server, sqs = start()
    dead = sqs.create_queue(QueueName="dlq")["QueueUrl"]
    source = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
    url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq", "maxReceiveCount": 2})})["QueueUrl"]
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="tenant-1")["MessageId"]
    for count in ("1", "2"):
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, AttributeNames=["All"])["Messages"]
        assert message["Attributes"]["ApproximateReceiveCount"] == count and "DeadLetterQueueSourceArn" not in message["Attributes"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (message,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, MessageSystemAttributeNames=["All"])["Messages"]
    shown = message["Attributes"]
    assert (message["MessageId"], shown["DeadLetterQueueSourceArn"], shown["ApproximateReceiveCount"], shown["MessageGroupId"]) == (sent, source, "3", "tenant-1")
    assert shown["ApproximateFirstReceiveTimestamp"] == shown["SentTimestamp"]
    sqs.change_message_visibility(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    sqs.start_message_move_task(SourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MessageSystemAttributeNames=["All"])["Messages"]  # it is no longer a dead letter
    assert message["Attributes"]["ApproximateReceiveCount"] == "1" and "DeadLetterQueueSourceArn" not in message["Attributes"]


def test_a_dead_letter_queue_must_exist_and_be_another_one(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]

    def policy(name):
        return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}", "maxReceiveCount": 1})}

    for name, expected in (("q", "InvalidParameterValue"), ("none", "InvalidParameterValue"), ("tarry.dead", "InvalidAttributeValue")):
        code, message = refused(sqs.set_queue_attributes, QueueUrl=url, Attributes=policy(name))
        assert code == expected and ("RedrivePolicy" in message or "deadLetterTargetArn" in message), (name, code, message)
        new = "new" if name != "q" else "self"
        assert refused(sqs.create_queue, QueueName=new, Attributes=policy(new if name == "q" else name))[0] == expected
    assert "RedrivePolicy" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert sqs.list_queues()["QueueUrls"] == [url] and server.client().call("GET", "/v1/topics/none").status == 404


def test_a_standard_queue_keeps_message_groups_and_rejects_fifo_parameters(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    groups = ["tenant-1", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "x" * 128]
    sqs.send_message(QueueUrl=url, MessageBody="0", MessageGroupId=groups[0])
    output = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "1", "MessageGroupId": groups[1]}, {"Id": "2", "MessageBody": "2", "MessageGroupId": groups[2]},
                                                         {"Id": "3", "MessageBody": "3"}, {"Id": "4", "MessageBody": "4", "MessageGroupId": "a b"}])
    assert [one["Id"] for one in output["Successful"]] == ["1", "2", "3"] and [(one["Id"], one["Code"]) for one in output["Failed"]] == [("4", "InvalidParameterValue")]
    shown = {job["body"]: job.get("group") for job in server.client().good("GET", f"/v1/topics/{url.rsplit('/', 1)[1]}/jobs?body=true")["jobs"]}
    assert shown["0"] == groups[0] and shown["3"] is None, "the group of a message is the group of its job"
    assert re.fullmatch("x{47}~[0-9a-f]{16}", shown["2"]), "a longer name becomes its beginning and a hash"
    found = {message["Body"]: message["Attributes"] for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId", "SenderId"])["Messages"]}
    assert {body: shown.get("MessageGroupId") for body, shown in found.items()} == {"0": groups[0], "1": groups[1], "2": groups[2], "3": None}
    for group in ("", "x" * 129, "a b", "grüße", "a\n"):
        code, message = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId=group)
        assert code == "InvalidParameterValue" and "MessageGroupId" in message
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")[0] == "InvalidParameterValue"
    for name, value in (("FifoQueue", "true"), ("FifoQueue", "false"), ("ContentBasedDeduplication", "false"), ("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")):
        code, message = refused(sqs.set_queue_attributes, QueueUrl=url, Attributes={name: value})
        assert (code, message) == ("InvalidAttributeName", f"Unknown Attribute {name}."), (name, value)
        assert refused(sqs.create_queue, QueueName="new", Attributes={name: value})[0] == ("InvalidParameterValue" if value == "true" else "InvalidAttributeName")


def test_the_trace_header_comes_with_the_message_and_its_digest_with_the_answer(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    trace, other = "Root=1-5759e988-bd862e3fe1be46a994272793", "Root=1-00000000-000000000000000000000000"
    attribute = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes=attribute, MessageAttributes={"k": {"DataType": "String", "StringValue": "v"}})
    plain = sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={"k": {"DataType": "String", "StringValue": "v"}})
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (b"AWSTraceHeader", b"String")) + b"\x01" + len(trace).to_bytes(4, "big") + trace.encode()
    assert sent["MD5OfMessageSystemAttributes"] == hashlib.md5(parts).hexdigest() and "MD5OfMessageSystemAttributes" not in plain
    assert sent["MD5OfMessageAttributes"] == plain["MD5OfMessageAttributes"]
    batch = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "x", "MessageSystemAttributes": attribute}, {"Id": "2", "MessageBody": "x"}])["Successful"]
    assert [one.get("MD5OfMessageSystemAttributes") for one in batch] == [sent["MD5OfMessageSystemAttributes"], None]
    for wrong in ({"Other": attribute["AWSTraceHeader"]}, {"AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}}):
        assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageSystemAttributes=wrong)[0] == "InvalidParameterValue"
    sqs.purge_queue(QueueUrl=url)
    headers = {"Authorization": "AWS4-HMAC-SHA256 x", "X_Amz_Target": "AmazonSQS.SendMessage", "X_Amzn_Trace_Id": trace}
    assert raw(server.port, json.dumps({"QueueUrl": url, "MessageBody": "by the header"}).encode(), **headers)[0].status == 200
    assert raw(server.port, json.dumps({"QueueUrl": url, "MessageBody": "by itself", "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": other}}}).encode(), **headers)[0].status == 200
    assert raw(server.port, json.dumps({"QueueUrl": url, "MessageBody": "too long"}).encode(), **{**headers, "X_Amzn_Trace_Id": "x" * 5000})[0].status == 200
    assert raw(server.port, json.dumps({"QueueUrl": url, "Entries": [{"Id": "1", "MessageBody": "in a batch"}]}).encode(), **{**headers, "X_Amz_Target": "AmazonSQS.SendMessageBatch"})[0].status == 200
    found = {message["Body"]: message["Attributes"].get("AWSTraceHeader") for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]}
    assert found == {"by the header": trace, "by itself": other, "too long": None, "in a batch": trace}


def test_a_purge_also_ends_messages_in_flight(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    fill = [{"Id": str(at), "MessageBody": f"{at}"} for at in range(10)]
    for _ in range(25):
        sqs.send_message_batch(QueueUrl=url, Entries=fill)
    taken = 0
    while taken < 240:
        taken += len(sqs.receive_message(QueueUrl=url, VisibilityTimeout=2, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"])
    (last,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=600, WaitTimeSeconds=5)["Messages"]
    sqs.purge_queue(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="after")
    eventually(lambda: counts(server.client(), "q")["leased"] <= 1)
    assert [message["Body"] for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=60)["Messages"]] == ["after"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=last["ReceiptHandle"], VisibilityTimeout=0)
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)


def test_attributes_are_settings_of_the_topic_and_outlive_a_restart(start):
    server, sqs = start()
    made = {"VisibilityTimeout": "45", "MessageRetentionPeriod": "86400", "DelaySeconds": "3", "ReceiveMessageWaitTimeSeconds": "7", "MaximumMessageSize": "2048"}
    url = sqs.create_queue(QueueName="q", Attributes=made, tags={"team": "shop", "ä": "ö"})["QueueUrl"]
    assert sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "3"})["QueueUrl"] == url
    assert refused(sqs.create_queue, QueueName="q", Attributes={"DelaySeconds": "4"})[0] == "QueueAlreadyExists"
    settings = server.client().topic("q")["settings"]
    assert (settings["lease_for"], settings["ttl"], settings["max_attempts"], settings["backoff"]) == ("45s", "1d", "none", "none")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
    sqs.tag_queue(QueueUrl=url, Tags={"team": "ops", "new": "1"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["ä"])
    server.restart()
    sqs = client_of(server.port)
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    output = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert {name: output[name] for name in made} == {**made, "DelaySeconds": "0"}
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "ops", "new": "1"}
    assert abs(int(output["CreatedTimestamp"]) - time.time()) < 120
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x" * 2049)[0] == "InvalidParameterValue"
    for attributes, code in (({"VisibilityTimeout": "-1"}, "InvalidAttributeValue"), ({"MaximumMessageSize": "1"}, "InvalidAttributeValue"), ({"Nonsense": "1"}, "InvalidAttributeName"),
                             ({"Policy": "{}"}, "InvalidAttributeValue"), ({"KmsMasterKeyId": "x"}, "InvalidAttributeValue"), ({"RedrivePolicy": "{"}, "InvalidAttributeValue")):
        assert refused(sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes)[0] == code, attributes
    assert refused(sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["Nonsense"])[0] == "InvalidAttributeName"


def test_settings_by_the_api_keep_sqs_attributes(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "77"}, tags={"a": "b"})["QueueUrl"]
    server.client().good("PATCH", "/v1/topics/q", b'{"lease_for":"90s"}')
    output = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds", "VisibilityTimeout"])["Attributes"]
    assert output == {"DelaySeconds": "77", "VisibilityTimeout": "90"}
    settle(server.client(), "plain", lease_for="5s", max_attempts=3)
    plain = sqs.get_queue_url(QueueName="plain")["QueueUrl"]
    assert sqs.get_queue_attributes(QueueUrl=plain, AttributeNames=["VisibilityTimeout"])["Attributes"] == {"VisibilityTimeout": "5"}
    settle(server.client(), "plain", lease_for="2500ms", max_attempts=3, backoff="fixed:1s", dead_letter={"keep": {"count": 5}})
    sqs.set_queue_attributes(QueueUrl=plain, Attributes={"DelaySeconds": "7"})
    settings = server.client().topic("plain")["settings"]
    assert (settings["lease_for"], settings["max_attempts"], settings["backoff"], settings["dead_letter"], settings["sqs"]["delay"]) == ("2500ms", 3, "fixed:1s", {"keep": {"count": 5}}, 7)


def test_jobs_and_messages_are_the_same(start):
    """Pushed here, received there; cancelled by its own id."""
    server, sqs = start()
    client = server.client()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    client.push("q", "o-1", b"by HTTP")
    client.push("q", "bytes", b"\xff\x00")
    messages = {message["Body"]: message for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10)["Messages"]}
    assert set(messages) == {"by HTTP", "/wA="} and messages["/wA="]["MessageAttributes"]["tarry.encoding"]["StringValue"] == "base64"
    assert uuid.UUID(messages["by HTTP"]["MessageId"]).version == 5
    sqs.send_message(QueueUrl=url, MessageBody="by SQS", DelaySeconds=3600)
    (job,) = client.good("GET", "/v1/topics/q/jobs?state=delayed&body=true")["jobs"]
    assert job["body"] == "by SQS"
    client.good("DELETE", f"/v1/topics/q/jobs/{job['id']}")
    assert counts(client, "q")["delayed"] == 0


def test_queues_are_listed_purged_and_deleted(start):
    server, sqs = start()
    urls = [sqs.create_queue(QueueName=f"{name}-{at}")["QueueUrl"] for name in ("a", "b") for at in range(3)]
    assert sqs.list_queues()["QueueUrls"] == urls and sqs.list_queues(QueueNamePrefix="b-")["QueueUrls"] == urls[3:]
    page = sqs.list_queues(MaxResults=4)
    assert page["QueueUrls"] == urls[:4] and sqs.list_queues(MaxResults=4, NextToken=page["NextToken"])["QueueUrls"] == urls[4:]
    for at in range(5):
        sqs.send_message(QueueUrl=urls[0], MessageBody="x", DelaySeconds=0 if at else 60)
    output = sqs.get_queue_attributes(QueueUrl=urls[0], AttributeNames=["All"])["Attributes"]
    assert (output["ApproximateNumberOfMessages"], output["ApproximateNumberOfMessagesDelayed"], output["ApproximateNumberOfMessagesNotVisible"]) == ("4", "1", "0")
    sqs.purge_queue(QueueUrl=urls[0])
    assert counts(server.client(), "a-0")["ready"] == 0
    sqs.delete_queue(QueueUrl=urls[0])
    for call, fields in ((sqs.delete_queue, {}), (sqs.send_message, {"MessageBody": "x"}), (sqs.receive_message, {}), (sqs.purge_queue, {}), (sqs.delete_message, {"ReceiptHandle": "x"}), (sqs.list_queue_tags, {})):
        assert refused(call, QueueUrl=urls[0], **fields)[0] == "AWS.SimpleQueueService.NonExistentQueue"
    assert refused(sqs.get_queue_url, QueueName="a-0")[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_lists_of_many_queues_come_page_by_page(start):
    server, sqs = start("--shards", "2")
    client = server.client()
    names = sorted([f"a-{at:03}" for at in range(300)] + [f"b-{at:03}" for at in range(300)])
    client.good("POST", "/v1/jobs", json.dumps([{"topic": name, "delay": "1h"} for name in names]).encode(), {"Content-Type": "application/json"})
    settle(client, "b-000", dead_letter={"to": "a-000"})
    settle(client, "b-299", dead_letter={"to": "a-000"})

    def listed(member="QueueUrls", call=sqs.list_queues, **fields):
        found, token, pages = [], {}, 0
        while True:
            page = call(**fields, **token)
            found += [url.rpartition("/")[2] for url in page.get(member, [])]
            pages += 1
            if "NextToken" not in page:
                return found, pages
            token = {"NextToken": page["NextToken"]}

    assert listed() == (names, 1) and listed(MaxResults=600) == (names, 1) and listed(MaxResults=599) == (names, 2)
    assert listed(MaxResults=70) == (names, 9) and listed(MaxResults=1000, QueueNamePrefix="b-") == (names[300:], 1)
    assert listed(MaxResults=100, QueueNamePrefix="b-") == (names[300:], 3) and listed(QueueNamePrefix="c") == ([], 1) and listed(MaxResults=1, QueueNamePrefix="b-29") == (names[590:], 10)
    assert listed("queueUrls", sqs.list_dead_letter_source_queues, QueueUrl="a-000", MaxResults=1) == (["b-000", "b-299"], 2)
    assert refused(sqs.list_queues, MaxResults=5, NextToken="x" * 2000)[0] == "InvalidParameterValue"


def test_missing_queues_are_rejected_with_the_sqs_error(start):
    _, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert refused(sqs.add_permission, QueueUrl=url, Label="x", AWSAccountIds=["1"], Actions=["*"])[0] == "AWS.SimpleQueueService.UnsupportedOperation"
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes={"a b": {"DataType": "String", "StringValue": "x"}})[0] == "InvalidParameterValue"
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes={"a": {"DataType": "String", "StringValue": "x" * 4000}})[0] == "InvalidParameterValue"


def raw(port, body, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/", body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer, answer.read()


def test_calls_that_no_sdk_makes_get_clear_errors(start):
    server, _ = start()
    signed = {"Authorization": "AWS4-HMAC-SHA256 x", "X_Amz_Target": "AmazonSQS.ListQueues"}
    for body, headers, status, part in (
            (b"{}", {"X_Amz_Target": "AmazonSQS.ListQueues"}, 403, "MissingAuthenticationToken"), (b"{}", {**signed, "X_Amz_Target": "AmazonSQS.Nonsense"}, 400, "UnknownOperation"),
            (b"{", signed, 400, "InvalidParameterValue"), (b"[]", signed, 400, "InvalidParameterValue"), (b"", signed, 400, "InvalidParameterValue"),
            (b'{"QueueUrl":7}', {**signed, "X_Amz_Target": "AmazonSQS.SendMessage"}, 400, "MissingParameter"), (b'{"MaxResults":"many"}', signed, 400, "InvalidParameterValue")):
        answer, output = raw(server.port, body, **headers)
        assert answer.status == status and part in output.decode() + answer.headers["x-amzn-query-error"], (body, output)
        assert answer.headers["Content-Type"] == "application/x-amz-json-1.0" and json.loads(output)["message"]
    answer, output = raw(server.port, b"Action=ListQueues&Version=2012-11-05", Content_Type="application/x-www-form-urlencoded", Authorization="x")
    assert answer.status == 400 and answer.headers["Content-Type"] == "text/xml" and b"<Code>AWS.SimpleQueueService.UnsupportedOperation</Code>" in output
    assert raw(server.port, b"{}", **signed, Origin="https://evil.example")[0].status == 403
    assert raw(server.port, b"{}", **signed)[0].status == 200


def test_an_error_before_the_route_has_the_form_of_sqs(start):
    server, _ = start("--allowed-host", "queue.internal")
    headers = {"Authorization": "AWS4-HMAC-SHA256 x", "X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}
    for method, path, more, part in (("POST", "/", {"Host": "tarry:8279"}, "--allowed-host tarry"), ("POST", f"/{ACCOUNT}/q", {"Host": "evil.example"}, "--allowed-host evil.example"), ("POST", "/", {"Host": "a b"}, "Host"),
                                     ("GET", f"/{ACCOUNT}/q", {}, "has only"), ("DELETE", "/", {}, "has only"), ("POST", "/a/b/c/d", {}, "unknown path"),
                                     ("POST", "/", {"Content-Length": "999999999"}, "bytes"), ("POST", "/", {"Sec-Fetch-Site": "cross-site"}, "page")):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request(method, path, b"{}", {**headers, **more})
        answer = connection.getresponse()
        output = json.loads(answer.read())
        assert answer.status in (400, 403) and output["__type"].partition("#")[2] and part in output["message"], (method, path, more, output)
        assert answer.headers["Content-Type"] == "application/x-amz-json-1.0" and answer.headers["x-amzn-query-error"], (method, path, more)
        del headers["X-Amz-Target"]  # others are answered as ever
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("DELETE", "/a/b/c/d", b"{}", headers)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json") and answer.read()
        headers["X-Amz-Target"] = "AmazonSQS.ListQueues"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("POST", "/", b"{}", {**headers, "Host": "queue.internal:8279"})
    assert connection.getresponse().status == 200


def test_a_dead_letter_arrives_immediately(start):
    """A take once waited up to a second for the settings of each new queue."""
    server, sqs = start()
    dead = sqs.create_queue(QueueName="dlq")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq", "maxReceiveCount": 1})
    took = []
    for at in range(5):
        url = sqs.create_queue(QueueName=f"q-{at}", Attributes={"RedrivePolicy": policy})["QueueUrl"]
        for _ in range(2):
            sqs.send_message(QueueUrl=url, MessageBody="x")
            (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
            began = time.monotonic()
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
            (message,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20)["Messages"]
            took.append(time.monotonic() - began)
            sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
    assert sorted(took)[len(took) // 2] < 0.5, took


def test_a_kill_loses_no_message(start):
    server, sqs = start()
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    for at in range(20):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"{at}-{n}"} for n in range(10)])
    server.restart("kill")
    sqs = client_of(server.port)
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    found = set()
    while len(found) < 200:
        messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10)["Messages"]
        found |= {message["Body"] for message in messages}
        sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)])
    assert found == {f"{at}-{n}" for at in range(20) for n in range(10)} and totals(server.client(), "q")["acked"] == 200


def test_on_redis_it_is_the_same(start_redis, start_server):
    sqs = client_of(start_server("--sqs", f"{REGION}/{ACCOUNT}", "--listen", "127.0.0.1:0", "--store", start_redis().url).port)
    url = sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "1"}, tags={"a": "b"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes={"k": {"DataType": "String", "StringValue": "v"}})
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])["Messages"]
    assert message["MessageAttributes"]["k"]["StringValue"] == "v"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"])["Attributes"]["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_message_is_one_call_of_the_store(start_redis, start_server):
    redis = start_redis()
    sqs = client_of(start_server("--sqs", f"{REGION}/{ACCOUNT}", "--listen", "127.0.0.1:0", "--store", redis.url).port)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="the first one reads the topic")
    before = redis.info("commandstats")["cmdstat_fcall"]["calls"]
    for n in range(100):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    assert 100 <= redis.info("commandstats")["cmdstat_fcall"]["calls"] - before < 150  # with the checks that every server makes once a second


def test_changes_by_the_api_apply_to_messages_within_a_second(start):
    server, sqs = start("--shards", "2")
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "600"})
    sqs.send_message(QueueUrl=url, MessageBody="delayed, immediately after a change by SQS")
    assert counts(server.client(), "q")["delayed"] == 1
    server.client().good("DELETE", "/v1/topics/q")
    time.sleep(1)
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x")[0] == "AWS.SimpleQueueService.NonExistentQueue"
    assert refused(sqs.receive_message, QueueUrl=url)[0] == "AWS.SimpleQueueService.NonExistentQueue"
    sqs.create_queue(QueueName="q")
    sqs.send_message(QueueUrl=url, MessageBody="y")
    sqs.delete_queue(QueueUrl=url)
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="immediately after a change by SQS")[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_server_without_it_has_no_such_calls(start_server):
    server = start_server()
    assert raw(server.port, b"{}", Authorization="x", X_Amz_Target="AmazonSQS.ListQueues")[0].status in (404, 405)


def test_the_program_of_the_page_prints_its_output(start):
    server, _ = start()
    program = re.search(r"```python\n(import boto3.*?)```", (REPO / "docs" / "moving" / "sqs.md").read_text(encoding="utf-8"), re.S).group(1)
    done = subprocess.run([sys.executable, "-c", program.replace("127.0.0.1:8279", f"127.0.0.1:{server.port}")], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": str(pathlib.Path(sdk()[0].__file__).parents[1])})
    assert (done.stdout, done.returncode) == ("now\n", 0), done.stderr
    assert counts(server.client(), "reminders") == {**counts(server.client(), "reminders"), "delayed": 1, "leased": 0}


def test_the_page_shows_the_tested_celery_program():
    (snippet,) = re.findall(r"```python\n(import math.*?)```", (REPO / "docs/moving/sqs.md").read_text(encoding="utf-8"), re.S)
    tried = (REPO / "tests/sqs/celery/shop.py").read_text(encoding="utf-8")
    shown = snippet[snippet.index("from celery"):snippet.index("app = Celery")]
    assert shown in tried


def test_a_bad_option_is_reported(tmp_path):
    for value in ("us-east-1", "/1", "us east/1", "x/" + "1" * 40):
        ended = subprocess.run([BINARY, "serve", "--data", tmp_path / "d", "--listen", "127.0.0.1:0", "--sqs", value], capture_output=True, text=True, timeout=20, check=False)
        assert ended.returncode != 0 and "us-east-1/000000000000" in ended.stdout + ended.stderr, ended


def test_with_a_test_clock_a_month_passes_immediately(start):
    """Delays, visibility, retention and the times that are shown go by it; the 20 s of a receive are the client's own."""
    server, sqs = start("--test-clock=2030-01-01T00:00:00.000Z")
    client = server.client()
    begin = 1_893_456_000
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "3600", "MessageRetentionPeriod": "86400"})["QueueUrl"]
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]["CreatedTimestamp"] == str(begin)
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=30 * 86400)
    taken = []
    waiting = threading.Thread(target=lambda: taken.extend(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, AttributeNames=["All"])["Messages"]))
    waiting.start()
    eventually(lambda: re.search(r"tarry_waiting_takes [1-9]", client.call("GET", "/metrics").body.decode()))
    client.good("POST", "/v1/clock/advance?by=30d")
    waiting.join(20)
    shown = taken[0]["Attributes"]
    assert (shown["SentTimestamp"], int(shown["ApproximateFirstReceiveTimestamp"]) // 1000) == (f"{begin}000", begin + 30 * 86400)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    client.good("POST", "/v1/clock/advance?by=1h")
    assert sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"][0]["Attributes"]["ApproximateReceiveCount"] == "2"
    client.good("POST", "/v1/clock/advance?by=2d")
    assert "Messages" not in sqs.receive_message(QueueUrl=url) and counts(client, "q")["leased"] == 0
