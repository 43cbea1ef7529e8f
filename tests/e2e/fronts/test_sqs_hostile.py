"""Clients of SQS that are up to no good, beside one that is not: that one notices nothing."""

import http.client
import json
import os
import socket
import struct
import threading
import time

import pytest
from test_sqs import ACCOUNT, client_of, start  # noqa: F401

QUEUES = int(os.environ.get("TARRY_TEST_QUEUES", "4000"))  # 10,000 by hand


def head(target, length, port):
    return (f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: AWS4-HMAC-SHA256 x\r\nX-Amz-Target: AmazonSQS.{target}\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {length}\r\n\r\n").encode()


def call(target, fields, port):
    body = json.dumps(fields).encode()
    return head(target, len(body), port) + body


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30)


class GoodClient(threading.Thread):
    """Sends, receives and deletes until it is stopped."""

    def __init__(self, port):
        super().__init__()
        self.sqs, self.stopping, self.rounds, self.fault = client_of(port), False, 0, None
        self.url = self.sqs.create_queue(QueueName="good")["QueueUrl"]

    def run(self):
        try:
            while not self.stopping:
                self.sqs.send_message(QueueUrl=self.url, MessageBody=f"{self.rounds}")
                (message,) = self.sqs.receive_message(QueueUrl=self.url, WaitTimeSeconds=10)["Messages"]
                assert message["Body"] == f"{self.rounds}"
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                self.rounds += 1
        except Exception as fault:
            self.fault = fault

    def has_gone_round(self, rounds=2):
        seen = self.rounds
        while self.rounds < seen + rounds and self.is_alive():
            time.sleep(0.001)
        assert self.is_alive(), self.fault


def half_bodies(port):
    connections = [connect(port) for _ in range(100)]
    for at, connection in enumerate(connections):
        connection.sendall(call("SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 1000}, port)[:200 + at])
    return connections


def bodies_too_long(port):
    for length, sent in ((1 << 30, b""), (1 << 30, b"x" * 100_000), (10**19, b""), (99_999_999, b"{")):
        with connect(port) as connection:
            connection.sendall(head("SendMessage", length, port) + sent)
            answer = connection.recv(4096)
            assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), answer[:60]
    return []


def readers_that_never_read(port):
    """Long polls and answers of a MiB, pipelined, and nothing read."""
    sqs = client_of(port)
    url = sqs.create_queue(QueueName="big", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    for _ in range(4):
        sqs.send_message(QueueUrl=url, MessageBody="x" * 1_000_000)
    connections = [connect(port) for _ in range(8)]
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(call("ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20, "VisibilityTimeout": 0}, port) * 20)
    return connections


def bombs(port):
    deep = b"[" * 500_000
    bodies = [deep, b'{"a":' * 100_000, b'{"QueueUrl":' + deep, b'{"QueueName":"' + b"\\u0000" * 100_000 + b'"}', b'{"MaxResults":1e999999999}', b'{"MaxResults":' + b"9" * 500_000 + b"}",
              b'{"QueueUrl":"q","Entries":[' + b",".join(b'{"Id":"%d"}' % n for n in range(50_000)) + b"]}", b'{"QueueUrl":"q","Attributes":{' + b",".join(b'"a%d":""' % n for n in range(50_000)) + b"}}",
              b"{" + b",".join(b'"QueueUrl":"q"' for _ in range(50_000)) + b"}", b'{"QueueUrl":"' + b"/" * 900_000 + b'"}', b"\xff" * 1000, b'{"QueueUrl":"q","MessageBody":"' + b"\\" * 900_001 + b'"}']
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for target in ("SendMessageBatch", "SetQueueAttributes", "ListQueues", "StartMessageMoveTask"):
        for body in bodies:
            connection.request("POST", "/", body, {"Authorization": "AWS4-HMAC-SHA256 x", "X-Amz-Target": f"AmazonSQS.{target}"})
            answer = connection.getresponse()
            output = json.loads(answer.read())
            assert answer.status == 400 and output["__type"] or (target, answer.status) == ("ListQueues", 200), (target, body[:40], output)
    return [connection]


def many_queues(port):
    """Thousands of them, and who lists them all."""
    with connect(port) as connection:
        reader = connection.makefile("rb")
        for at in range(0, QUEUES, 500):
            connection.sendall(b"".join(call("CreateQueue", {"QueueName": f"queue-{n:05}"}, port) for n in range(at, at + 500)))
            for _ in range(500):
                assert b" 200 " in reader.readline()
                length = 0
                while (line := reader.readline()) != b"\r\n":
                    length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
                reader.read(length)
    sqs, found, token = client_of(port), [], {}
    while True:
        page = sqs.list_queues(QueueNamePrefix="queue-", MaxResults=1000, **token)
        found += page["QueueUrls"]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert [url.rpartition("/")[2] for url in found] == [f"queue-{n:05}" for n in range(QUEUES)] and ACCOUNT in found[0]
    return []


def test_good_clients_are_not_affected(start):
    server, _ = start("--max-topics", str(QUEUES + 100))
    good, held = GoodClient(server.port), []
    good.start()
    try:
        for hostile in (half_bodies, bodies_too_long, readers_that_never_read, bombs, many_queues):
            held += hostile(server.port)
            good.has_gone_round()
    finally:
        good.stopping = True
        good.join(60)
        for connection in held:
            connection.close()
    assert good.fault is None and good.rounds >= 10, (good.fault, good.rounds)


@pytest.mark.parametrize("shards", ["1", "3"])
def test_clients_that_leave_before_their_answer_do_no_harm(start, shards):
    """Each operation has its reply from the queue after the connection has ended."""
    server, sqs = start("--shards", shards)
    for at in range(0, 1000, 500):
        server.client().good("POST", "/v1/jobs", json.dumps([{"topic": f"queue-{at + i}", "body": "x"} for i in range(500)]).encode(), {"Content-Type": "application/json"})
    for n in range(100):
        url = f"http://localhost/{ACCOUNT}/queue-{n}"
        for target, fields in (("CreateQueue", {"QueueName": f"new-{n}"}), ("ListQueues", {}), ("GetQueueUrl", {"QueueName": f"queue-{n}"}),
                               ("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20}), ("SendMessage", {"QueueUrl": url, "MessageBody": "x"})):
            connection = connect(server.port)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(call(target, fields, server.port))
            if n % 2:
                time.sleep(0.0005)
            connection.close()
    url = sqs.create_queue(QueueName="good")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "x"
    assert server.terminate() == 0


def test_messages_that_a_client_has_read_stay_with_it_when_it_leaves(start):
    """The answer is written in several parts, since the client reads slowly."""
    server, sqs = start()
    url = sqs.create_queue(QueueName="large")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x" * 900_000)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(call("ReceiveMessage", {"QueueUrl": url, "VisibilityTimeout": 600}, server.port))
        time.sleep(0.2)
        got = b""
        while not got.endswith(b"]}"):
            part = connection.recv(1 << 20)
            assert part, f"the connection ended after {len(got)} bytes"
            got += part
    time.sleep(0.3)
    assert server.client().topic("large")["counts"]["leased"] == 1
