"""The service of gRPC, with the client of grpcio: unary calls, errors, deadlines, health, reflection, and the stream Work."""

import queue
import re
import threading
import time

import grpc
import pytest
from conftest import FLAGS
from delivery import counts
from grpc_calls import MESSAGES, REPO, Stub, channel, details, duration, fails
from server import eventually
from tokens import Token, TokenFile


@pytest.fixture
def server(start_server):
    return start_server(*FLAGS)


@pytest.fixture
def stub(server):
    with channel(server.port) as open_channel:
        yield Stub(open_channel)


# ---- jobs ----


def test_pushes_takes_and_acks(stub, server):
    pushed = stub.Push(topic="mail", body=b"a\x00b", content_type="text/plain", meta={"kind": "x"}, priority={"value": 0})
    assert (pushed.topic, MESSAGES.pool.FindEnumTypeByName("tarry.v1.Result").values_by_number[pushed.result].name) == ("mail", "RESULT_CREATED")
    [job] = stub.Take(topics=["mail"]).jobs
    assert (job.id, job.body, job.content_type, dict(job.meta), job.attempt, job.priority) == (pushed.id, b"a\x00b", "text/plain", {"kind": "x"}, 1, 0)
    assert job.lease_until.seconds > time.time()
    [result] = stub.Ack(lease=job.lease).results
    assert result.result == 1 and not result.HasField("problem")
    assert fails(grpc.StatusCode.FAILED_PRECONDITION, stub.Ack, lease=job.lease).details()
    assert counts(server.client(), "mail")["ready"] == 0


def test_pushes_show_their_caller_with_the_topic(stub, server):
    def callers(topic):
        reply = server.client().call("GET", f"/v1/topics/{topic}/consumers")
        return reply.status == 200 and [one["caller"] for one in reply.json()["pushers"]]

    stub.Push(topic="by.grpc", body=b"x")
    eventually(lambda: stub.PushMany(jobs=[{"topic": "by.grpc.many", "body": b"x"}]) and callers("by.grpc.many"))  # a connection is recorded once in 100 ms
    assert callers("by.grpc") == callers("by.grpc.many") == ["127.0.0.1"]


def test_a_lease_of_grpc_is_one_of_rest(stub, server):
    stub.Push(topic="mail", body=b"1")
    [job] = stub.Take(topics=["mail"]).jobs
    assert server.client().call("POST", f"/v1/ack?lease={job.lease}").status == 200


def test_pushes_many_with_a_result_for_each(stub):
    many = MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": "a"}, {"topic": "bad topic"}, {"topic": "mail", "delay": duration(-1)}, {"topic": "mail", "id": "b", "meta": {"n": "1"}}])
    results = stub.PushMany(many).results
    assert [results[0].id, results[3].id] == ["a", "b"]
    assert [result.problem.code for result in results] == ["", "bad_topic", "bad_option", ""]


def large_jobs(count=1000):
    return [{"topic": "large", "id": f"job-{n}", "delay": duration(3600), "body": bytes([97 + n % 26]) * 15_000} for n in range(count)]


def iterations(server):
    """The processor time of all iterations of the loop, and how many there were up to each bound, in seconds."""
    page = server.client().call("GET", "/metrics").body.decode()
    name = "tarry_loop_iteration_processor_seconds"
    counts = {float(bound): int(count) for bound, count in re.findall(rf'^{name}_bucket\{{\S*le="(\S+)"\}} (\d+)$', page, re.M)}
    return float(re.search(rf"^{name}_sum\S* (\S+)$", page, re.M)[1]), counts


def longest(before, after):
    """The greatest bound that an iteration between these counts exceeded."""
    bounds = sorted(after)
    return max((bound for bound in bounds[:-1] if after[bound] - before[bound] < after[bounds[-1]] - before[bounds[-1]]), default=0)


def test_a_large_push_of_many_does_not_occupy_the_loop(stub, server):
    seconds, before = iterations(server)
    assert [result.result for result in stub.PushMany(jobs=large_jobs()).results] == [2] * 1000
    after_seconds, after = iterations(server)
    assert longest(before, after) < (after_seconds - seconds) / 5


def test_pushes_of_one_id_in_a_large_push_of_many_are_executed_in_order(stub):
    jobs = [{"topic": "large", "id": "same", "body": str(n).encode() * 900_000} for n in range(10)]
    jobs.insert(5, {"topic": "large", "id": "much", "body": b"x" * ((1 << 20) + 1)})
    jobs.insert(3, {"topic": "large", "id": "a b"})
    results = stub.PushMany(jobs=jobs).results
    assert [result.problem.code for result in results] == [""] * 3 + ["bad_id"] + [""] * 2 + ["body_too_big"] + [""] * 5
    assert stub.Get(topic="large", id="same").body == b"9" * 900_000


def test_members_may_follow_their_waiting_job_in_a_large_push_of_many(start_server):
    jobs = [{"topic": "report", "id": "all", "waits": True}, {"topic": "report", "id": "part", "waits": True, "batch": {"topic": "report", "id": "all"}}]
    jobs += [{"topic": "large", "id": f"job-{n}", "body": b"x" * 2_000, "batch": {"topic": "report", "id": "part"}} for n in range(900)]
    with channel(start_server(*FLAGS, "--shards", "3").port) as opened:
        assert [result.problem.code for result in Stub(opened).PushMany(jobs=jobs).results] == [""] * len(jobs)


def push_raw(stub, message):
    return stub.channel.unary_unary("/tarry.v1.Queue/PushMany", response_deserializer=MESSAGES.PushManyResponse.FromString)(message, timeout=20)


def test_unknown_fields_between_jobs_do_not_occupy_the_loop(stub, server):
    job = MESSAGES.PushManyRequest(jobs=[{"topic": "mail"}]).SerializeToString()
    fields = b"\x78\x01" * 7_500_000
    seconds, before = iterations(server)
    assert [result.result for result in push_raw(stub, job + fields + job).results] == [2] * 2
    after_seconds, after = iterations(server)
    assert longest(before, after) < (after_seconds - seconds) / 5


def test_a_large_push_of_many_is_stored_completely_when_its_client_leaves(server):
    with channel(server.port) as leaving:
        call = Stub(leaving).PushMany.future(jobs=large_jobs())
        eventually(lambda: server.client().call("GET", "/v1/topics/large").status == 200)
        call.cancel()
    eventually(lambda: counts(server.client(), "large")["delayed"] == 1000)


def test_a_malformed_job_is_rejected_alone_and_a_malformed_message_as_a_whole(stub):
    good = MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": "a"}]).SerializeToString()
    results = push_raw(stub, good + b"\x0a\x02\x0a\x09" + b"\x7a\x01x" + good.replace(b"\x01a", b"\x01b")).results
    assert [(result.id, result.problem.code) for result in results] == [("a", ""), ("", "bad_request"), ("b", "")]
    with pytest.raises(grpc.RpcError) as failed:
        push_raw(stub, good.replace(b"\x01a", b"\x01c") + b"\x0a\x09")
    assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    fails(grpc.StatusCode.NOT_FOUND, stub.Get, topic="mail", id="c")


def test_answers_of_several_have_a_result_for_each(stub):
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail"}] * 3))
    jobs = stub.Take(topics=["mail"], max=3).jobs
    results = stub.Nack(leases=[jobs[0].lease, "none", jobs[1].lease], delay=duration(60), error="why").results
    assert [result.problem.code for result in results] == ["", "lease_ended", ""]
    assert stub.Get(topic="mail", id=jobs[0].id).error == "why"
    assert stub.Extend(lease=jobs[2].lease, lease_for=duration(300)).results[0].lease_until.seconds > time.time() + 250
    assert stub.Return(lease=jobs[2].lease).results[0].result == 1
    [job] = stub.Take(topics=["mail"]).jobs
    assert stub.Again(lease=job.lease, body={"data": b"new"}, delay=duration(60)).results[0].result == 2
    assert stub.Get(topic="mail", id=job.id).body == b"new"


def test_changes_jobs(stub):
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": id, "delay": duration(600)} for id in "abc"]))
    assert stub.Reschedule(topic="mail", id="a", delay=duration(700)).results[0].due_at.seconds > time.time() + 650
    assert stub.Run(topic="mail", id="b").results[0].state == 2
    results = stub.Cancel(topic="mail", ids=["a", "none", "c"]).results
    assert [(result.id, result.result, result.problem.code) for result in results] == [("a", 5, ""), ("none", 0, "not_found"), ("c", 5, "")]
    assert "there is no job 'none'" in fails(grpc.StatusCode.NOT_FOUND, stub.Cancel, topic="mail", id="none").details()
    assert [job.id for job in stub.List(topic="mail").jobs] == ["b"]


def test_lists_pages(stub):
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": str(i), "body": b"x"} for i in range(5)]))
    first = stub.List(topic="mail", limit=3)
    rest = stub.List(topic="mail", limit=3, cursor=first.cursor, with_body=True)
    assert [job.id for job in (*first.jobs, *rest.jobs)] == ["0", "1", "2", "3", "4"] and not rest.cursor
    assert {job.body for job in first.jobs} == {b""} and {job.body for job in rest.jobs} == {b"x"}
    assert [job.id for job in stub.List(topic="mail", id_prefix="4").jobs] == ["4"]


def test_topics_have_settings_and_states(stub):
    settings = {"max_attempts": {"value": 3}, "backoff": "fixed:10s", "priority": {"value": 0}, "push_rate": "100/s"}
    topic = stub.PutTopic(topic="mail", settings=settings)
    assert (topic.settings.max_attempts.value, topic.settings.backoff, topic.settings.HasField("priority"), topic.settings.push_rate) == (3, "fixed:10s", True, "100/s")
    assert stub.Pause(topic="mail").paused and not stub.Resume(topic="mail").paused
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail"}] * 2))
    assert stub.GetTopic(topic="mail").counts.ready == 2
    stub.PutTopic(topic="other")
    assert [topic.topic for topic in stub.ListTopics().topics] == ["mail", "other"]
    page = stub.ListTopics(limit=1)
    assert page.cursor == "mail"
    [job] = stub.Take(topics=["mail"]).jobs
    stub.Nack(lease=job.lease, final=True)
    assert stub.Redrive(topic="mail").jobs == 1
    assert stub.Purge(topic="mail").jobs == 2
    assert fails(grpc.StatusCode.NOT_FOUND, stub.GetTopic, topic="none")


# ---- errors ----


def test_errors_have_the_codes_of_rest(stub):
    stub.Push(topic="mail", id="a")
    failed = fails(grpc.StatusCode.ALREADY_EXISTS, stub.Push, topic="mail", id="a", on_conflict="ON_CONFLICT_REJECT")
    assert "type.googleapis.com/google.rpc.ErrorInfo" in details(failed) and "conflict" in details(failed) and "tarry" in details(failed)
    assert "'priority' is '70000'" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Push, topic="mail", priority={"value": 70000}).details()
    assert "'topic' is missing" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Push).details()
    assert "'group' is 'a b'" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Push, topic="mail", group="a b").details()
    assert "'hold'" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Extend, lease="x", hold=duration(1)).details()
    assert "'delay'" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Ack, lease="x", delay=duration(1)).details()


def test_a_job_has_its_group_and_its_topic_its_limits(stub):
    settings = stub.PutTopic(topic="flow", settings={"limit": 9, "rate": "10/s", "group_limit": 1}).settings
    assert (settings.limit, settings.rate, settings.group_limit) == (9, "10/s", 1)
    for ident in "ab":
        stub.Push(topic="flow", id=ident, group="shop-7")
    [taken] = stub.Take(topics=["flow"], max=5, wait=duration(10)).jobs
    assert taken.group == "shop-7"
    waiting = stub.Get(topic="flow", id="b" if taken.id == "a" else "a")
    assert waiting.group == "shop-7"
    # For 100 ms after the take the rate of the topic holds the job too, and is shown first.
    eventually(lambda: stub.Get(topic="flow", id=waiting.id).held_by == "group_limit")
    stub.Nack(lease=taken.lease, hold=duration(600))
    assert stub.Get(topic="flow", id=waiting.id).held_by == "hold"


def test_a_job_waits_for_its_members(stub, server):
    stub.Push(topic="reports", id="r", waits=True, on_dead="hold", wait_at_most=duration(3600), close_within=duration(60))
    named = {"topic": "reports", "id": "r"}
    stub.Push(topic="rows", id="a", batch=named)
    many = MESSAGES.PushManyRequest(jobs=[{"topic": "rows", "id": "b", "batch": named, "meta": {"n": "1"}}, {"topic": "rows", "id": "c", "batch": {"topic": "reports", "id": "none"}}, {"topic": "rows", "id": "d", "batch": {"topic": "reports"}}])
    assert [result.problem.code for result in stub.PushMany(many).results] == ["", "no_batch", "bad_option"]
    assert stub.CloseBatch(topic="reports", id="r").results[0].result == 1
    assert fails(grpc.StatusCode.FAILED_PRECONDITION, stub.Push, topic="rows", id="e", batch=named).details()
    [job] = stub.Take(topics=["rows"]).jobs
    assert (job.id, job.batch.topic, job.batch.id) == ("a", "reports", "r")
    stub.Push(topic="rows", id="e", batch=named, parent=job.lease)
    stub.Nack(lease=job.lease, final=True)
    waiting = stub.Get(topic="reports", id="r")
    assert not waiting.HasField("due_at") and waiting.waiting.closed and not waiting.waiting.ended
    assert (waiting.waiting.waits_for, waiting.waiting.unfinished, waiting.waiting.dead) == (3, 2, 1)
    assert server.client().get("reports", "r")["wait_at_most"] == "1h" and server.client().get("reports", "r")["close_within"] == "1m"
    assert [one.id for one in stub.ListMembers(topic="reports", id="r", outcome="dead").jobs] == ["a"]
    first = stub.ListMembers(topic="reports", id="r", limit=2)
    assert len(first.jobs) == 2 and len(stub.ListMembers(topic="reports", id="r", cursor=first.cursor).jobs) == 1
    fails(grpc.StatusCode.NOT_FOUND, stub.ListMembers, topic="reports", id="none")
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Run, topic="reports", id="r", members=True)
    stub.Cancel(topic="rows", id="a")
    for _ in range(2):
        stub.Ack(lease=stub.Take(topics=["rows"]).jobs[0].lease)
    [job] = stub.Take(topics=["reports"]).jobs
    assert job.meta["tarry-batch"] == "acked=2 dead=0 cancelled=1 expired=0 missing=0"


def test_a_waiting_job_is_cancelled_with_its_members(stub, server):
    for ident in ("r", "s"):
        stub.Push(topic="reports", id=ident, waits=True, members=1)
        stub.Push(topic="rows", id=ident, batch={"topic": "reports", "id": ident})
    stub.Cancel(topic="reports", id="r", members=True)
    stub.Cancel(topic="reports", ids=["s"], members=True)
    assert not stub.Take(topics=["rows"], max=9).jobs and counts(server.client(), "reports")["delayed"] == 0


def test_unknown_fields_are_ignored(stub, server):
    raw = stub.channel.unary_unary("/tarry.v1.Queue/Push", request_serializer=bytes, response_deserializer=bytes)
    assert raw(MESSAGES.PushRequest(topic="mail").SerializeToString() + b"\xc2\x0c\x02hi", timeout=10)
    assert counts(server.client(), "mail")["ready"] == 1


def test_a_malformed_message_is_rejected(stub):
    raw = stub.channel.unary_unary("/tarry.v1.Queue/Push", request_serializer=bytes, response_deserializer=bytes)
    for message in (b"\x0a\x7f", b"\x07", b"\x0a\x01"):
        with pytest.raises(grpc.RpcError) as failed:
            raw(message, timeout=10)
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_compressed_messages_are_rejected(stub):
    with pytest.raises(grpc.RpcError) as failed:
        stub.callable("Push")(MESSAGES.PushRequest(topic="mail", body=b"x" * 1000), timeout=10, compression=grpc.Compression.Gzip)
    assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED


def code_of_unknown(stub, metadata=()):
    with pytest.raises(grpc.RpcError) as failed:
        stub.channel.unary_unary("/tarry.v1.Queue/None", request_serializer=bytes, response_deserializer=bytes)(b"", timeout=10, metadata=metadata)
    return failed.value.code()


@pytest.fixture
def guarded(start_server, tmp_path):
    """A server with tokens: its channel, and the metadata of each token."""
    tokens = Token("app", ("push", "consume"), ("mail",)), Token("reader", ("read",), ("mail",))
    file = TokenFile(tmp_path / "tokens", *tokens)
    server = start_server(*FLAGS, "--tokens", str(file.path))
    with channel(server.port) as open_channel:
        yield open_channel, {token.name: [("authorization", f"Bearer {token.secret}")] for token in tokens}


def test_an_unknown_method_requires_a_token_first(guarded):
    open_channel, metadata = guarded
    stub = Stub(open_channel)
    assert code_of_unknown(stub) == grpc.StatusCode.UNAUTHENTICATED
    assert code_of_unknown(stub, metadata["app"]) == grpc.StatusCode.UNIMPLEMENTED


def test_calls_need_the_rights_of_rest(guarded):
    open_channel, metadata = guarded
    fails(grpc.StatusCode.UNAUTHENTICATED, Stub(open_channel).Push, topic="mail")
    app, reader = Stub(open_channel, metadata=metadata["app"]), Stub(open_channel, metadata=metadata["reader"])
    assert app.Push(topic="mail").id
    fails(grpc.StatusCode.PERMISSION_DENIED, app.Push, topic="other")
    fails(grpc.StatusCode.PERMISSION_DENIED, reader.Push, topic="mail")
    fails(grpc.StatusCode.PERMISSION_DENIED, reader.Take, topics=["mail"])
    fails(grpc.StatusCode.PERMISSION_DENIED, app.Take, topics=["mail", "other"])
    fails(grpc.StatusCode.PERMISSION_DENIED, app.Pause, topic="mail")
    results = app.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail"}, {"topic": "other"}])).results
    assert [result.problem.code for result in results] == ["", "forbidden"]
    assert reader.GetTopic(topic="mail").counts.ready == 2
    fails(grpc.StatusCode.PERMISSION_DENIED, reader.GetTopic, topic="other")
    worker = Worker(app, topics=["mail", "other"])
    assert worker.next() is None and worker.error.code() == grpc.StatusCode.PERMISSION_DENIED
    worker.half_close()
    assert Stub(open_channel, "grpc.health.v1.Health").Check().status == 1


def test_rest_and_grpc_share_a_port(stub, server):
    stub.Push(topic="mail", body=b"1")
    assert server.client().call("POST", "/v1/topics/mail/take").json()["jobs"][0]["attempt"] == 1
    served = server.client().call("GET", "/tarry.proto")
    assert served.body == (REPO / "proto/tarry/v1/queue.proto").read_bytes()


# ---- waiting and deadlines ----


def test_a_wait_ends_before_its_deadline(stub):
    begun = time.monotonic()
    assert not stub.Take(topics=["mail"], timeout=3.0).jobs
    assert 2.6 <= time.monotonic() - begun < 3.0


def test_a_take_without_a_wait_returns_immediately(stub):
    begun = time.monotonic()
    assert not stub.Take(topics=["mail"], wait=duration(0), timeout=10).jobs
    assert time.monotonic() - begun < 3


def test_a_waiting_take_receives_a_job(stub):
    waiting = [stub.Take.future(topics=["mail"], timeout=20) for _ in range(3)]
    time.sleep(0.3)
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail"}] * 3))
    assert [len(each.result().jobs) for each in waiting] == [1, 1, 1]


def test_a_reset_take_delivers_nothing(stub, server):
    waiting = stub.Take.future(topics=["mail"], timeout=20)
    time.sleep(0.3)
    waiting.cancel()
    time.sleep(0.3)
    stub.Push(topic="mail")
    [job] = stub.Take(topics=["mail"]).jobs
    assert job.attempt == 1


# ---- health and reflection ----


def test_reports_its_health(stub, server):
    health = Stub(stub.channel, "grpc.health.v1.Health")
    assert health.Check().status == 1
    assert health.Check(service="tarry.v1.Queue").status == 1
    fails(grpc.StatusCode.NOT_FOUND, health.Check, service="other")
    watch = health.callable("Watch", "unary_stream")(MESSAGES.of("grpc.health.v1.HealthCheckRequest")(), timeout=20)
    assert next(watch).status == 1
    server.proc.terminate()
    assert next(watch).status == 2
    assert server.proc.wait(30) == 0


def test_describes_itself(stub):
    request = MESSAGES.of("grpc.reflection.v1alpha.ServerReflectionRequest")
    asked = [request(list_services=""), request(file_containing_symbol="tarry.v1.Queue.Push"), request(file_by_filename="google/protobuf/duration.proto"), request(file_containing_symbol="none.None")]
    answers = list(Stub(stub.channel, "grpc.reflection.v1alpha.ServerReflection").open("ServerReflectionInfo", iter(asked)))
    assert "tarry.v1.Queue" in [service.name for service in answers[0].list_services_response.service]
    assert len(answers[1].file_descriptor_response.file_descriptor_proto) == 3
    assert len(answers[2].file_descriptor_response.file_descriptor_proto) == 1
    assert answers[3].error_response.error_code == 5


# ---- Work ----


class Worker:
    """A stream of Work with a queue of messages to send."""

    def __init__(self, stub, **hello):
        self.sent = queue.Queue()
        hello.setdefault("topics", ["mail"])
        self.send(hello=hello)
        self.call = stub.open("Work", iter(self.sent.get, None))
        self.received = queue.Queue()
        self.error = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for message in self.call:
                self.received.put(message)
        except grpc.RpcError as error:
            self.error = error
        self.received.put(None)

    def send(self, **fields):
        self.sent.put(MESSAGES.WorkRequest(**fields))

    def answer(self, verb, lease, tag=0, **fields):
        self.send(answer={"verb": f"VERB_{verb}", "answer": {"lease": lease, **fields}, "tag": tag})

    def next(self, seconds=10):
        return self.received.get(timeout=seconds)

    def jobs(self, count):
        return [self.next().job for _ in range(count)]

    def is_quiet(self, seconds=0.5):
        try:
            return self.received.get(timeout=seconds) and False
        except queue.Empty:
            return True

    def half_close(self):
        self.sent.put(None)


@pytest.fixture
def work(stub):
    workers = []

    def work(**hello):
        workers.append(Worker(stub, **hello))
        return workers[-1]

    yield work
    for worker in workers:
        worker.half_close()
        worker.call.cancel()
        worker.reader.join(10)


def push(stub, count):
    stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": str(i)} for i in range(count)]))


def test_no_job_without_credit(stub, work):
    push(stub, 5)
    worker = work(credit=2)
    assert [job.id for job in worker.jobs(2)] == ["0", "1"]
    assert worker.is_quiet()
    worker.send(credit=1)
    assert worker.jobs(1)[0].id == "2"
    assert worker.is_quiet()


def test_a_stream_receives_jobs_as_they_become_ready(stub, work):
    worker = work(credit=3, consumer="w1")
    for i in range(3):
        stub.Push(topic="mail", id=str(i), delay=duration(0.1))
        assert worker.jobs(1)[0].id == str(i)
    assert stub.Get(topic="mail", id="0").consumer == "w1"


def test_answers_are_confirmed_after_the_sync(stub, server, work):
    push(stub, 3)
    worker = work(credit=3, confirm=True)
    jobs = worker.jobs(3)
    worker.answer("ACK", jobs[0].lease, tag=7)
    answered = worker.next().answered
    assert (answered.tag, answered.lease, answered.result.result) == (7, jobs[0].lease, 1)
    server.kill()
    server.start(server.port)
    assert counts(server.client(), "mail")["leased"] + counts(server.client(), "mail")["ready"] == 2


def test_only_failed_answers_are_reported_unless_confirmed(stub, work):
    push(stub, 2)
    worker = work(credit=2)
    first, second = worker.jobs(2)
    worker.answer("ACK", first.lease)
    worker.answer("ACK", first.lease, tag=1)
    worker.answer("NACK", second.lease, tag=2, lease_for=duration(1))
    failed = [worker.next().answered for _ in range(2)]
    assert sorted((each.tag, each.result.problem.code) for each in failed) == [(1, "lease_ended"), (2, "unknown_option")]


def test_answers_of_all_verbs(stub, work):
    push(stub, 4)
    worker = work(credit=4, confirm=True)
    jobs = worker.jobs(4)
    worker.answer("NACK", jobs[0].lease, delay=duration(60), error="why")
    worker.answer("RETURN", jobs[1].lease, delay=duration(60))
    worker.answer("EXTEND", jobs[2].lease, lease_for=duration(300))
    worker.answer("AGAIN", jobs[3].lease, body={"data": b"new"}, delay=duration(60))
    results = {message.answered.lease: message.answered.result for message in (worker.next() for _ in range(4))}
    assert [results[job.lease].problem.code for job in jobs] == ["", "", "", ""]
    assert stub.Get(topic="mail", id="0").error == "why" and stub.Get(topic="mail", id="3").body == b"new"
    assert results[jobs[2].lease].lease_until.seconds > time.time() + 250


def test_extend_all_renews_the_leases_of_the_stream(stub, work):
    push(stub, 3)
    worker = work(credit=3, lease_for=duration(30))
    jobs = worker.jobs(3)
    stub.Cancel(topic="mail", id="2", request=True)
    worker.answer("ACK", jobs[0].lease)  # it may arrive together with the next message
    worker.send(extend_all={"lease_for": duration(600)})
    requested = worker.next().cancel_requested
    assert requested.lease == jobs[2].lease
    assert stub.Get(topic="mail", id="1").lease_until.seconds > time.time() + 500


def test_a_half_closed_stream_ends_with_its_results(stub, work):
    push(stub, 2)
    worker = work(credit=2, confirm=True)
    for job in worker.jobs(2):
        worker.answer("ACK", job.lease)
    worker.half_close()
    assert [worker.next().answered.result.result for _ in range(2)] == [1, 1]
    assert worker.next() is None and worker.error is None


@pytest.mark.parametrize(("on_close", "attempts"), [("KEEP", None), ("FAIL", 2), ("RETURN", 1)])
def test_a_broken_stream_keeps_fails_or_returns_its_jobs(stub, server, work, on_close, attempts):
    stub.PutTopic(topic="mail", settings={"backoff": "none"})
    push(stub, 3)
    worker = work(credit=3, on_close=f"ON_CLOSE_{on_close}", lease_for=duration(300))
    worker.jobs(3)
    worker.call.cancel()
    if attempts is None:
        time.sleep(0.5)
        assert counts(server.client(), "mail")["leased"] == 3
    else:
        eventually(lambda: counts(server.client(), "mail")["ready"] == 3)
        assert {job.attempt for job in stub.Take(topics=["mail"], max=3).jobs} == {attempts}


def test_a_stream_is_drained_before_the_server_ends(stub, server, work):
    push(stub, 1)
    worker = work(credit=2, confirm=True)
    [job] = worker.jobs(1)
    server.proc.terminate()
    assert worker.next().WhichOneof("kind") == "drain"
    worker.answer("ACK", job.lease)
    assert worker.next().answered.result.result == 1
    worker.half_close()
    assert worker.next() is None and worker.error is None
    assert server.proc.wait(30) == 0


def test_a_stream_begins_with_hello(stub, work):
    worker = work(topics=[])
    assert worker.next() is None and worker.error.code() == grpc.StatusCode.INVALID_ARGUMENT
    call = stub.open("Work", iter([MESSAGES.WorkRequest(credit=1)]))
    with pytest.raises(grpc.RpcError) as failed:
        next(call)
    assert "'hello' is missing" in failed.value.details()


def test_messages_of_a_stream_are_not_requests_of_its_caller(start_server, tmp_path):
    """With three requests an hour a caller works on twenty jobs of one stream, but makes only two calls more."""
    app = Token("app", requests="3/h")
    server = start_server("--shards", "1", "--tokens", str(TokenFile(tmp_path / "tokens", app, Token("admin")).path))
    with channel(server.port) as one, channel(server.port) as other:
        push(Stub(other, metadata=[("authorization", f"Bearer {Token('admin').secret}")]), 20)
        worker = Worker(Stub(one, metadata=[("authorization", f"Bearer {app.secret}")]), credit=20, confirm=True)
        jobs = worker.jobs(20)
        for job in jobs:
            worker.send(extend_all={})
            worker.answer("ACK", job.lease)
        assert all(not worker.next().answered.result.HasField("problem") for _ in jobs)
        stub = Stub(one, metadata=[("authorization", f"Bearer {app.secret}")])
        assert [stub.GetTopic(topic="mail").totals.acked for _ in range(2)] == [20, 20]
        fails(grpc.StatusCode.RESOURCE_EXHAUSTED, stub.GetTopic, topic="mail")
        worker.half_close()
