"""One rule for every way in: each limit holds for every protocol by which a job enters, and each administrative operation of every protocol is one audit event. The
operations are read from the tables of the protocols, so a new one fails here until it is covered."""

import json
import re
import subprocess
import time

import beanstalk
import grpc
import pytest
from api import CALLS
from conftest import FLAGS
from server import BINARY, IS_SANITIZED, eventually, free_port
from tokens import Token, TokenFile
from ways_in import (WAYS, WITHOUT_CALLERS, House, beanstalk_verbs, cli_commands, flags, grpc_methods, import_lines, mykit_routes, put, queue_url, sqs_operations)

pytestmark = pytest.mark.plain("the protocols have ports and callers of their own")

ALLOWED = 3


@pytest.fixture
def start(start_server, tmp_path):
    """start(*flags, limits=, scopes=): a server that speaks all protocols; with `limits` or `scopes` its caller has a token."""

    def start(*more, limits=None, scopes="push,consume,read,admin", topics="*"):
        ports = free_port(), free_port()
        token = None
        if limits is not None:
            made = subprocess.run([BINARY, "token", "new", "limited", "--scope", scopes, "--topics", topics, "--tokens", tmp_path / "tokens", *limits],
                                  capture_output=True, text=True, check=True)
            token = re.search(r"tarry_[0-9A-Za-z]{36}", made.stdout)[0]
            more += ("--tokens", str(tmp_path / "tokens"))
        return House(start_server(*FLAGS, *flags(*ports), *more), *ports, token)

    return start


def with_topic(house, **settings):
    status, _ = house.http("PUT", "/v1/topics/orders", json.dumps(settings).encode(), {"Content-Type": "application/json"})
    assert status in (200, 201)
    return house


def spent(house):
    eventually(lambda: house.http("GET", "/v1/info")[1]["accepting"] is False)
    return house


# ---- every limit, by every way in ----

# How a server gets the limit, and how many of six jobs it accepts.
LIMITS = {
    "max-memory": (lambda start: spent(with_topic(start("--max-memory", "1MiB"))), 0),
    "topic max_jobs": (lambda start: with_topic(start(), max_jobs=ALLOWED), ALLOWED),
    "topic push_rate": (lambda start: with_topic(start(), push_rate=f"{ALLOWED}/h"), ALLOWED),
    "drain": (lambda start: with_topic(start("--drain")), 0),
}
# The same, of a caller.
LIMITS_OF_CALLERS = {
    "rate": (lambda start: with_topic(start(limits=("--rate", f"{ALLOWED}/h"))), ALLOWED),
    "max-jobs": (lambda start: with_topic(start(limits=("--max-jobs", str(ALLOWED)))), ALLOWED),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_holds_for_every_way_in(limit, way, start):
    begin, accepted = LIMITS[limit]
    house = begin(start)
    if limit == "topic push_rate":
        time.sleep(0.3)  # the servers are notified
    assert way(house, "orders", 6) == accepted


@pytest.mark.parametrize("way", [way for way in WAYS if way not in WITHOUT_CALLERS], ids=lambda way: way.__name__)
@pytest.mark.parametrize("limit", LIMITS_OF_CALLERS)
def test_a_limit_of_a_caller_holds_for_every_way_in(limit, way, start):
    begin, accepted = LIMITS_OF_CALLERS[limit]
    assert way(begin(start), "orders", 6) == accepted


@pytest.mark.parametrize("way", [way for way in WAYS if way is not import_lines], ids=lambda way: way.__name__)
@pytest.mark.parametrize("topic", ["tarry.moves", "tarry.dead", "tarry-beanstalk-numbers"])
def test_no_way_in_leads_to_a_topic_of_tarrys_own(topic, way, start):
    house = start()
    put(house, "orders", 1)  # then there is a topic of numbers
    before = house.http("GET", f"/v1/topics/{topic}")[1].get("counts")
    house.http("PUT", f"/v1/topics/{topic}", b"{}", {"Content-Type": "application/json"})
    assert way(house, topic, 2) == 0
    assert before is None or house.http("GET", f"/v1/topics/{topic}")[1]["counts"] == before


@pytest.mark.parametrize("way", [way for way in WAYS if way not in WITHOUT_CALLERS], ids=lambda way: way.__name__)
def test_no_way_in_leads_beyond_the_topics_of_a_caller(way, start):
    house = start(limits=(), topics="orders-*")
    assert way(house, "orders", 2) == 0 and way(house, "orders-1", 2) in (0, 2)


# By which way each operation of scope push is tested, from the tables of all protocols; None: it pushes no job.
HTTP_PUSHES = {"push": "push_by_id", "pushNew": "push", "pushBatch": "push_batch", "pushWithMembers": "push_with_members", "runSchedule": "run_schedule",
               "backfillSchedule": "backfill_schedule"}
HTTP_OTHERS = {"reschedule", "cancel", "run", "closeBatch", "cancelMany", "runMany", "rescheduleMany", "applySchedules", "setSchedule", "patchSchedule",
               "deleteSchedule", "pauseSchedule", "resumeSchedule"}
SQS_PUSHES = {"SendMessage": "send_message", "SendMessageBatch": "send_message_batch"}
MYKIT_PUSHES, MYKIT_OTHERS = {"/push": "mykit_push"}, {"/delete", "/finish", "/reStore"}
GRPC_PUSHES = {"Push": "grpc_push", "PushMany": "grpc_push_many", "PushBatch": "grpc_push_batch", "RunSchedule": "grpc_run_schedule",
               "BackfillSchedule": "grpc_backfill_schedule"}
GRPC_OTHERS = {"Take", "Ack", "Nack", "Extend", "Return", "Again", "Get", "List", "Cancel", "Reschedule", "Run", "CloseBatch", "ListMembers", "GetTopic", "ListTopics", "Wait", "PutSchedule",
               "PatchSchedule", "ApplySchedules", "DeleteSchedule", "PauseSchedule", "ResumeSchedule", "GetSchedule", "ListSchedules", "NextFires", "PreviewSchedule"}


def test_every_operation_that_pushes_jobs_is_a_way_in():
    """The commands of beanstalkd and of the command line are listed below. A message of RabbitMQ or Kafka has tests of its own (delivery/test_amqp_in.py, delivery/brokers/test_kafka_in.py)."""
    assert {call.name for call in CALLS if call.scope == "push"} == HTTP_OTHERS | set(HTTP_PUSHES)
    assert {name for name, scopes, _ in sqs_operations() if scopes == "ACCESS_PUSH"} == set(SQS_PUSHES)
    assert {path for path, scope, _ in mykit_routes() if scope == "PUSH"} == MYKIT_OTHERS | set(MYKIT_PUSHES)
    assert {name for name, _ in grpc_methods()} == GRPC_OTHERS | set(GRPC_PUSHES) | set(GRPC_RECORDED)
    named = {*HTTP_PUSHES.values(), *SQS_PUSHES.values(), *MYKIT_PUSHES.values(), *GRPC_PUSHES.values(), "put", "import_lines"}
    assert named == {way.__name__ for way in WAYS}


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer keeps freed memory")
def test_memory_is_looked_at_while_only_beanstalk_clients_are_at_work(start):
    """No byte comes over HTTP meanwhile."""
    house = start("--max-memory", "40MiB", "--sync", "never")
    batch = b"put 0 3600 60 100\r\n" + b"x" * 100 + b"\r\n"
    with beanstalk.Connection(("127.0.0.1", house.beanstalk_port)) as one:
        for _ in range(3000):
            one.send(batch * 100)
            if any(one.answer()[0] == "OUT_OF_MEMORY" for _ in range(100)):
                break
        else:
            pytest.fail("300,000 jobs were let in")
    assert "memory is almost used up" in house.server.log()


# ---- every administrative operation is one event ----

OPERATOR, WORKER = Token("operator"), Token("worker", scopes=("push", "consume", "read"))


@pytest.fixture
def audited(start_server, tmp_path):
    """A server with the tokens of an operator and of a worker, who lacks the scope admin."""
    ports, path = (free_port(), free_port()), tmp_path / "audit.jsonl"
    tokens = TokenFile(tmp_path / "tokens", OPERATOR, WORKER)
    house = House(start_server(*FLAGS, *flags(*ports), "--tokens", str(tokens.path), "--audit", str(path)), *ports, OPERATOR.secret)

    def events():
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        path.write_bytes(b"")
        return found

    house.events = events
    return house


def fill(house, topic="dead", jobs=2):
    """A topic with some dead jobs."""
    house.http("PUT", f"/v1/topics/{topic}", b'{"max_attempts":1}', {"Content-Type": "application/json"})
    for n in range(jobs):
        house.http("PUT", f"/v1/topics/{topic}/jobs/{n + 1}", b"x")
    for job in house.http("POST", f"/v1/topics/{topic}/take?max={jobs}")[1]["jobs"]:
        house.http("POST", f"/v1/nack?lease={job['lease']}")
    house.events()


# The call of each audited operation, and the topic and the number of jobs of its event.
SQS_CALLS = {
    "CreateQueue": ({"QueueName": "fresh"}, "fresh", None),
    "SetQueueAttributes": ({"QueueUrl": queue_url("dead"), "Attributes": {"DelaySeconds": "1"}}, "dead", None),
    "DeleteQueue": ({"QueueUrl": queue_url("dead")}, "dead", 2),
    "PurgeQueue": ({"QueueUrl": queue_url("dead")}, "dead", 2),
    "TagQueue": ({"QueueUrl": queue_url("dead"), "Tags": {"a": "b"}}, "dead", None),
    "UntagQueue": ({"QueueUrl": queue_url("dead"), "TagKeys": ["a"]}, "dead", None),
    "StartMessageMoveTask": ({"SourceArn": f"arn:aws:sqs:us-east-1:123456789012:dead"}, "dead", None),
    "CancelMessageMoveTask": ({"TaskHandle": "bW92ZQ=="}, None, None),
    "AddPermission": ({"QueueUrl": queue_url("dead")}, None, None),
    "RemovePermission": ({"QueueUrl": queue_url("dead")}, None, None),
}
RECORDED = [(name, action) for name, _, action in sqs_operations() if action]


def test_each_operation_of_scope_admin_has_a_name_for_the_audit():
    assert all(action for _, scopes, action in sqs_operations() if "ACCESS_ADMIN" in scopes)
    assert all(action for _, scope, action in mykit_routes() if scope == "ADMIN")
    assert all(call.audit for call in CALLS if call.scope == "admin")


@pytest.mark.parametrize("name, action", RECORDED, ids=[name for name, _ in RECORDED])
def test_an_operation_of_sqs_is_one_event(name, action, audited):
    fields, topic, jobs = SQS_CALLS[name]
    fill(audited)
    status, output = audited.sqs(name, **fields)
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["kind"], event.get("topic")) == (action, "operator", "token", topic), output
    assert (event["outcome"] == "ok") == (status == 200), output
    assert jobs is None or event["jobs"] == jobs
    assert event["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize("name, action", RECORDED, ids=[name for name, _ in RECORDED])
def test_a_refused_operation_of_sqs_is_one_event(name, action, audited):
    fill(audited)
    audited.token = WORKER.secret
    status, output = audited.sqs(name, **SQS_CALLS[name][0])
    (event,) = audited.events()
    assert status != 200 and (event["action"], event["caller"]) == (action, "worker"), output
    if name.endswith("Queue") or name == "SetQueueAttributes":
        assert event["outcome"] == "AccessDeniedException"


MYKIT_CALLS = {"/reStoreJob": ("/reStoreJob?jobId=1", "dead", "1", 1), "/reStore/{id}": ("/reStore/1", "dead", "1", 1), "/clearAll": ("/clearAll", "dead", None, 2)}


@pytest.mark.parametrize("path, action", [(path, action) for path, _, action in mykit_routes() if action])
def test_an_operation_of_mykit_is_one_event_and_so_is_a_refused_one(path, action, audited):
    target, topic, job, jobs = MYKIT_CALLS[path]
    fill(audited)
    status, output = audited.mykit("GET", target)
    assert status == 200 and output["success"], output
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["outcome"]) == (action, "operator", "ok")
    assert (event.get("topic"), event.get("job"), event["jobs"]) == (topic, job, jobs)
    audited.token = WORKER.secret
    assert audited.mykit("GET", target)[0] == 403
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["outcome"]) == (action, "worker", "forbidden")


# The fields of each method of gRPC that takes the scope admin, and the action, topic and number of jobs of its event.
GRPC_RECORDED = {
    "PutTopic": ({"topic": "dead", "settings": {"max_attempts": {"value": 2}}}, "topic settings changed", None),
    "Pause": ({"topic": "dead"}, "topic paused", None),
    "Resume": ({"topic": "dead"}, "topic resumed", None),
    "Purge": ({"topic": "dead"}, "topic purged", 2),
    "Redrive": ({"topic": "dead"}, "topic redriven", 2),
}


@pytest.mark.parametrize("method", GRPC_RECORDED)
def test_a_method_of_grpc_is_one_event_and_so_is_a_refused_one(method, audited):
    fields, action, jobs = GRPC_RECORDED[method]
    fill(audited)
    with audited.grpc() as stub:
        getattr(stub, method)(**fields)
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["kind"], event["outcome"], event["topic"]) == (action, "operator", "token", "ok", "dead")
    assert jobs is None or event["jobs"] == jobs
    audited.token = WORKER.secret
    with audited.grpc() as stub, pytest.raises(grpc.RpcError):
        getattr(stub, method)(**fields)
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["outcome"]) == (action, "worker", "forbidden")


# All commands of beanstalkd: those that take the scope admin over HTTP, with what their events hold, and all others.
BEANSTALK_RECORDED = {
    "kick": ("kick 1", "topic redriven", "dead", None, 1),
    "kick-job": ("kick-job 1", "topic redriven", "dead", "1", 1),
    "pause-tube": ("pause-tube dead 1", "topic paused", "dead", None, None),
}
BEANSTALK_OTHERS = {"put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve", "reserve-with-timeout", "reserve-job", "delete", "release", "bury", "touch",
                    "stats", "stats-job", "stats-tube", "use", "watch", "ignore", "list-tubes", "list-tube-used", "list-tubes-watched", "quit"}


def test_every_command_of_beanstalkd_is_audited_or_exempt():
    assert set(beanstalk_verbs()) == BEANSTALK_OTHERS | set(BEANSTALK_RECORDED)


@pytest.mark.parametrize("verb", BEANSTALK_RECORDED)
def test_a_command_of_beanstalkd_is_one_event(verb, audited):
    line, action, topic, job, jobs = BEANSTALK_RECORDED[verb]
    fill(audited)
    audited.beanstalk("use dead", line, "stats")
    (event,) = audited.events()
    assert (event["action"], event["caller"], event["kind"], event["outcome"]) == (action, "anonymous", "anonymous", "ok")
    assert (event["topic"], event.get("job"), event.get("jobs")) == (topic, job, jobs)
    assert event["peer"].startswith("127.0.0.1:")
    # So is one that finds nothing, and one of a tube that only its client knows.
    audited.beanstalk("use fresh", {"kick": "kick 1", "kick-job": "kick-job 99", "pause-tube": "pause-tube fresh 1"}[verb], "stats")
    assert len(audited.events()) == 1
    audited.beanstalk("kick-job 99")
    assert [event["outcome"] for event in audited.events()] == ["not_found"]


# All commands of the command line: each administrative command is one event, all others are not audited.
CLI_RECORDED = {
    "topic": ("topic", "set", "dead", "max_attempts=2"),
    "pause": ("pause", "dead"),
    "resume": ("resume", "dead"),
    "redrive": ("redrive", "dead"),
    "purge": ("purge", "dead", "--yes"),
    "drain": ("drain",),
}
CLI_ADMIN_ELSEWHERE = {"deliver", "backup", "clock", "import", "schedule", "group"}  # of servers with more options, or of several calls; tests of their own
CLI_OTHERS = {"serve", "push", "take", "ack", "again", "nack", "extend", "work", "get", "history", "locate", "list", "wait", "cancel", "close", "members", "batch", "reschedule", "run", "consumers", "topics", "groups", "status",
              "top", "tail", "export", "bench", "fsck", "reshard", "sql", "profile", "token", "version", "help"}


def test_every_command_of_the_command_line_is_audited_or_exempt():
    assert set(cli_commands()) == CLI_OTHERS | CLI_ADMIN_ELSEWHERE | set(CLI_RECORDED)


@pytest.mark.parametrize("name", CLI_RECORDED)
def test_a_command_that_administers_is_one_event(name, audited):
    fill(audited)
    done = audited.cli(*CLI_RECORDED[name])
    (event,) = audited.events()
    assert done.returncode == 0 and (event["caller"], event["outcome"]) == ("operator", "ok"), done.stderr
    audited.token = WORKER.secret
    assert audited.cli(*CLI_RECORDED[name]).returncode == 1
    assert [(event["caller"], event["outcome"]) for event in audited.events()] == [("worker", "forbidden")]


# ---- what a backup or a move brings back ----


@pytest.mark.parametrize("scopes, accepted", [("push,consume,read", 0), ("push,consume,read,admin", 2)])
def test_only_an_operator_imports_jobs_of_tarrys_own_topics(scopes, accepted, start):
    """A move to another store takes along what is still to be done once."""
    house = start(limits=(), scopes=scopes)
    assert import_lines(house, "tarry.dead", 2) == accepted
