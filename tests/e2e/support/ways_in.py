"""Every way in which a job enters a server, behind one interface; and the administrative operations of every protocol, read from its own table."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import time

import beanstalk
import grpc
from grpc_calls import MESSAGES, Stub, channel
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

    @contextlib.contextmanager
    def grpc(self):
        """The calls of gRPC."""
        with channel(self.server.port) as open_channel:
            yield Stub(open_channel, metadata=[("authorization", f"Bearer {self.token}")] if self.token else ())

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


def push_by_id(house, topic, count):
    return sum(house.http("PUT", f"/v1/topics/{topic}/jobs/way-{n}", b"x")[0] == 201 for n in range(count))


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


def jobs_of(house, topic):
    """The number of jobs of a topic that are stored."""
    status, output = house.http("GET", f"/v1/topics/{topic}")
    return sum(output["counts"][state] for state in ("delayed", "ready", "leased", "dead")) if status == 200 else 0


def push_with_members(house, topic, count):
    """The job that waits and its members; a call that is rejected half-way has pushed the first of them."""
    members = [{"topic": topic, "id": f"member-{n}", "body": "x"} for n in range(count - 1)]
    before = jobs_of(house, topic)
    house.http("POST", "/v1/batches", json.dumps({"job": {"topic": topic, "id": "waits", "body": "x"}, "members": members}).encode(), {"Content-Type": "application/json"})
    return jobs_of(house, topic) - before


def set_schedule(house, topic, start):
    schedule = json.dumps({"topic": topic, "every": "1d", "start": start, "body": "x"}).encode()
    return house.http("PUT", "/v1/schedules/way", schedule, {"Content-Type": "application/json"})[0] in (200, 201)


def run_schedule(house, topic, count):
    accepted = 0
    for _ in range(count if set_schedule(house, topic, "2040-01-01T00:00:00Z") else 0):
        status, output = house.http("POST", "/v1/schedules/way/run")
        accepted += status == 200 and output["result"] == "fired"
        time.sleep(0.002)  # two runs in one millisecond are one
    return accepted


def backfill_schedule(house, topic, count):
    before = jobs_of(house, topic)
    if not set_schedule(house, topic, "2026-01-01T00:00:00Z"):
        return 0
    house.http("POST", f"/v1/schedules/way/backfill?from=2026-01-01T00:00:00Z&to=2026-01-0{count}T12:00:00Z")
    return jobs_of(house, topic) - before


def grpc_push(house, topic, count):
    accepted = 0
    with house.grpc() as stub:
        for _ in range(count):
            with contextlib.suppress(grpc.RpcError):
                accepted += bool(stub.Push(topic=topic, body=b"x").id)
    return accepted


def grpc_push_many(house, topic, count):
    with house.grpc() as stub, contextlib.suppress(grpc.RpcError):
        results = stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": topic, "body": b"x"}] * count)).results
        return sum(not result.problem.code for result in results)
    return 0


def grpc_push_batch(house, topic, count):
    """As push_with_members."""
    before = jobs_of(house, topic)
    members = [{"job": {"topic": topic, "id": f"member-{n}", "body": b"x"}} for n in range(count - 1)]
    with house.grpc() as stub, contextlib.suppress(grpc.RpcError):
        stub.PushBatch(job={"topic": topic, "id": "waits", "body": b"x"}, members=members)
    return jobs_of(house, topic) - before


def grpc_schedule(stub, topic, start):
    with contextlib.suppress(grpc.RpcError):
        return bool(stub.PutSchedule(name="way", topic=topic, every={"seconds": 86400}, start={"seconds": start}, body=b"x").result)
    return False


def grpc_run_schedule(house, topic, count):
    accepted = 0
    with house.grpc() as stub:
        for _ in range(count if grpc_schedule(stub, topic, 2208988800) else 0):
            with contextlib.suppress(grpc.RpcError):
                accepted += stub.RunSchedule(name="way").result == 8
            time.sleep(0.002)  # two runs in one millisecond are one
    return accepted


def grpc_backfill_schedule(house, topic, count):
    before, january = jobs_of(house, topic), 1767225600  # 2026-01-01
    with house.grpc() as stub, contextlib.suppress(grpc.RpcError):
        if grpc_schedule(stub, topic, january):
            stub.BackfillSchedule(**{"name": "way", "from": {"seconds": january}, "to": {"seconds": january + count * 86400 - 43200}})
    return jobs_of(house, topic) - before


def import_lines(house, topic, count):
    lines = "".join(json.dumps({"topic": topic, "id": f"import-{n}", "body": "x"}) + "\n" for n in range(count))
    house.cli("import", "--retry-for", "100ms", input_text=lines)  # it waits for those that a limit refuses, and gives up
    return jobs_of(house, topic)


WAYS = (push, push_by_id, push_batch, push_with_members, run_schedule, backfill_schedule, grpc_push, grpc_push_many, grpc_push_batch, grpc_run_schedule, grpc_backfill_schedule, send_message, send_message_batch, mykit_push, put, import_lines)
WITHOUT_CALLERS = (put,)  # the protocol has no such call


# ---- operations ----


def sqs_operations():
    """(name, scopes, whether the audit records it) of each row."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((FRONTS / "sqs").glob("*.c")))
    rows = re.findall(r'^    \{"([A-Z]\w+)",\s+SQS_NAMES_\w+,\s+(ACCESS_[A-Z_| ]+),[^{}]*?(NULL|"[^"]*")\},$', text, re.M)
    assert len(rows) == len(re.findall(r'^    \{"[A-Z]\w+",\s+SQS_NAMES_', text, re.M)) > 20
    return [(name, scopes, audit.strip('"') if audit != "NULL" else None) for name, scopes, audit in rows]


def grpc_methods():
    """(method, name of the HTTP call that it shares) of each row."""
    texts = [(FRONTS / "grpc" / f"{name}.c").read_text(encoding="utf-8") for name in ("push", "methods", "batches", "schedules")]
    table = "".join(re.split(r"struct method grpc_\w+\[\] = \{", text)[1] for text in texts)
    rows = re.findall(r'(?:\.name = |ANSWER\(|CHANGE\(|TOPIC\(|SCHEDULE\()"(\w+)",\s+(?:\.rest = )?"(\w+)"', table)
    assert [name for name, _ in rows] and {name for name, _ in rows} | {"Work", "Watch"} == set(MESSAGES.methods("tarry.v1.Queue"))
    return rows


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
