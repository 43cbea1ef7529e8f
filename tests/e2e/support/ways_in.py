"""Every way in which a job enters a server, behind one interface; and the administrative operations of every protocol, read from its own table."""

import http.client
import json
import os
import re
import subprocess

import beanstalk
from server import BINARY, REPO

REGION, ACCOUNT = "us-east-1", "123456789012"
FRONTS = REPO / "src" / "fronts"


def flags(mykit_port, beanstalk_port):
    """Options of a server that supports all protocols."""
    return ("--sqs", f"{REGION}/{ACCOUNT}", "--mykit", f"127.0.0.1:{mykit_port}", "--mykit-clear", "--beanstalk", f"127.0.0.1:{beanstalk_port}")


class House:
    """A server with all protocols, and the token of a caller; None: all callers are anonymous."""

    def __init__(self, server, mykit_port, beanstalk_port, token=None):
        self.server, self.mykit_port, self.beanstalk_port, self.token = server, mykit_port, beanstalk_port, token

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def http(self, method, path, body=b"", headers=(), port=None):
        """The status and the JSON of the answer, if it is one."""
        connection = http.client.HTTPConnection("127.0.0.1", int(port or self.server.port), timeout=30)
        connection.request(method, path, body, {**self.headers, **dict(headers)})
        answer = connection.getresponse()
        output = answer.read()
        connection.close()
        return answer.status, json.loads(output) if output[:1] in (b"{", b"[") else {}

    def sqs(self, operation, **fields):
        return self.http("POST", "/", json.dumps(fields).encode(), {"X-Amz-Target": "AmazonSQS." + operation, "Authorization": "Bearer " + (self.token or "any")})

    def mykit(self, method, path, body=None):
        return self.http(method, path, b"" if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}, self.mykit_port)

    def beanstalk(self, *lines):
        """The answers to some commands of one connection."""
        with beanstalk.Connection(("127.0.0.1", self.beanstalk_port)) as one:
            return [one(line) for line in lines]

    def cli(self, *args, input_text=None):
        env = {**os.environ, "TARRY_URL": f"http://127.0.0.1:{self.server.port}", "TARRY_TOKEN": self.token or ""}
        if not self.token:
            del env["TARRY_TOKEN"]
        return subprocess.run([BINARY, *args], input=input_text, capture_output=True, text=True, check=False, timeout=60, env=env)


def queue_url(topic):
    return f"http://localhost/{ACCOUNT}/{topic}"


# ---- ways in: each pushes `count` jobs into a topic that is there, and returns how many were accepted ----


def push(house, topic, count):
    return sum(house.http("POST", f"/v1/topics/{topic}/jobs", b"x")[0] == 201 for _ in range(count))


def push_batch(house, topic, count):
    _, output = house.http("POST", "/v1/jobs", json.dumps([{"topic": topic, "body": "x"}] * count).encode(), {"Content-Type": "application/json"})
    return sum(result["result"] == "created" for result in output["results"])


def send_message(house, topic, count):
    return sum(house.sqs("SendMessage", QueueUrl=queue_url(topic), MessageBody="x")[0] == 200 for _ in range(count))


def send_message_batch(house, topic, count):
    status, output = house.sqs("SendMessageBatch", QueueUrl=queue_url(topic), Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(count)])
    return len(output.get("Successful", ())) if status == 200 else 0


def mykit_push(house, topic, count):
    output = [house.mykit("POST", "/push", {"topic": topic, "id": f"mykit-{n}", "body": "x", "delay": 0}) for n in range(count)]
    return sum(status == 200 and answer["success"] for status, answer in output)


def put(house, topic, count):
    with beanstalk.Connection(("127.0.0.1", house.beanstalk_port)) as one:
        one(f"use {topic}")
        return sum(one("put 0 0 60", b"x")[0] == "INSERTED" for _ in range(count))


def import_lines(house, topic, count):
    lines = "".join(json.dumps({"topic": topic, "id": f"import-{n}", "body": "x"}) + "\n" for n in range(count))
    house.cli("import", "--retry-for", "100ms", input_text=lines)  # it waits for those that a limit refuses, and gives up
    status, output = house.http("GET", f"/v1/topics/{topic}")
    return sum(output["counts"][state] for state in ("delayed", "ready", "leased", "dead")) if status == 200 else 0


WAYS = (push, push_batch, send_message, send_message_batch, mykit_push, put, import_lines)
WITHOUT_CALLERS = (put,)  # the protocol has no such call


# ---- operations ----


def sqs_operations():
    """(name, scopes, whether the audit records it) of each row."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((FRONTS / "sqs").glob("*.c")))
    rows = re.findall(r'^    \{"([A-Z]\w+)",\s+SQS_NAMES_\w+,\s+(ACCESS_[A-Z_| ]+),[^{}]*?(NULL|"[^"]*")\},$', text, re.M)
    assert len(rows) == len(re.findall(r'^    \{"[A-Z]\w+",\s+SQS_NAMES_', text, re.M)) > 20
    return [(name, scopes, audit.strip('"') if audit != "NULL" else None) for name, scopes, audit in rows]


def mykit_routes():
    """(path, scope, what the audit calls it) of each row."""
    table = (FRONTS / "mykit" / "mykit.c").read_text(encoding="utf-8").split("mykit_routes[] = {")[1]
    rows = re.findall(r'\{CALL\((\w+), "([^"]+)", \w+, ACCESS_(\w+), \w+\)(.*?)\},\n', table, re.S)
    assert len(rows) == table.count("CALL(") > 5
    return [(path, scope, (re.search(r'\.audit = "([^"]+)"', rest) or [None, None])[1]) for _, path, scope, rest in rows]


def beanstalk_verbs():
    """The first words of all commands."""
    table = (FRONTS / "beanstalk" / "command.c").read_text(encoding="utf-8").split("} rows[] = {")[1].split("};")[0]
    return [word.strip() for word in re.findall(r'\{"([^"]+)", BEANSTALK_', table)]


def cli_commands():
    """The commands of the help, in its order."""
    printed = subprocess.run([BINARY, "help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  (\w+) {2,}", printed.split("\nclients connect")[0], re.M)
