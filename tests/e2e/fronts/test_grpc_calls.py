"""Calls of gRPC that carry the JSON of HTTP: schedules, batches. And results, the wait for them, and the stream of events."""

import json
import pathlib
import struct
import threading
import time

import grpc
import pytest
from conftest import FLAGS
from frames import DATA, Peer, request
from grpc_calls import MESSAGES, Stub, channel, descriptors, details, duration, fails
from server import eventually
from tokens import Token, TokenFile


@pytest.fixture
def server(start_server):
    return start_server(*FLAGS)


@pytest.fixture
def stub(server):
    with channel(server.port) as open_channel:
        yield Stub(open_channel)


def name_of(enum, number):
    return MESSAGES.pool.FindEnumTypeByName(f"tarry.v1.{enum}").values_by_number[number].name


def seconds(text):
    return int(time.mktime(time.strptime(text, "%Y-%m-%d"))) - time.timezone


# ---- results and waits ----


def test_a_result_is_read_with_its_job(stub, server):
    stub.PutTopic(topic="sums", settings={"keep_finished": duration(3600), "keep_finished_max": 9, "keep_body": True})
    settings = stub.GetTopic(topic="sums").settings
    assert (settings.keep_finished.seconds, settings.keep_finished_max, settings.keep_body) == (3600, 9, True)
    stub.Push(topic="sums", id="a", body=b"1")
    [job] = stub.Take(topics=["sums"]).jobs
    stub.Extend(lease=job.lease, progress="half")
    assert stub.Get(topic="sums", id="a").progress == "half"
    stub.Ack(lease=job.lease, result={"data": b"{}", "content_type": "application/json"})
    found = stub.Get(topic="sums", id="a")
    assert (name_of("State", found.state), found.outcome, found.result.data, found.result.content_type, found.result_bytes, found.body) == ("STATE_FINISHED", "acked", b"{}", "application/json", 2, b"1")
    assert found.HasField("finished_at") and server.client().get("sums", "a")["result"] == {}
    assert [one.id for one in stub.List(topic="sums", state="STATE_FINISHED").jobs] == ["a"]
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Nack, lease=job.lease, result={"data": b"x"})
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Ack, leases=[job.lease], result={"data": b"x"})
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Ack, lease=job.lease, progress="x")
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Ack, lease=job.lease, result={"data": b"x" * (1 << 20)})


def test_the_content_type_of_a_result_fits_into_a_header(stub, server):
    stub.Push(topic="sums", id="a")
    lease = stub.Take(topics=["sums"]).jobs[0].lease
    wrong = {"data": b"x", "content_type": "text/plain\r\nX: y"}
    assert "printable" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Ack, lease=lease, result=wrong).details()
    assert server.client().call("POST", f"/v1/ack?lease={lease}", b"x", {"Content-Type": "text/caf\u00e9"}).status == 400
    requests = [MESSAGES.WorkRequest(hello={"topics": ["sums"], "confirm": True}), MESSAGES.WorkRequest(answer={"verb": "VERB_ACK", "answer": {"lease": lease, "result": wrong}})]
    assert [one.answered.result.problem.code for one in stub.open("Work", iter(requests))] == ["bad_item"]
    assert name_of("State", stub.Get(topic="sums", id="a").state) == "STATE_LEASED"


def test_a_push_may_keep_its_job(stub):
    stub.Push(topic="sums", id="a", keep_finished=duration(60))
    stub.Ack(lease=stub.Take(topics=["sums"]).jobs[0].lease)
    assert stub.Get(topic="sums", id="a").outcome == "acked"


def test_a_result_is_sent_on_the_stream_of_a_worker(stub):
    stub.Push(topic="sums", id="a", keep_finished=duration(60))
    sent = iter([MESSAGES.WorkRequest(hello={"topics": ["sums"], "credit": 1, "confirm": True})])
    more, ready = [], threading.Event()

    def messages():
        yield from sent
        ready.wait(20)
        yield from more

    answers = stub.open("Work", messages())
    lease = next(answers).job.lease
    more.append(MESSAGES.WorkRequest(answer={"verb": "VERB_ACK", "answer": {"lease": lease, "result": {"data": b"x" * (1 << 20)}}}))
    more.append(MESSAGES.WorkRequest(answer={"verb": "VERB_ACK", "answer": {"lease": lease, "result": {"data": b"3"}}}))
    ready.set()
    assert [one.answered.result.problem.code for one in answers] == ["result_too_big", ""]
    assert stub.Get(topic="sums", id="a").result.data == b"3"


def test_a_wait_ends_with_all_or_any_of_its_jobs(stub):
    for ident in "abc":
        stub.Push(topic="sums", id=ident, keep_finished=duration(60))
    jobs = [{"topic": "sums", "id": ident} for ident in "abc"]
    waits = [stub.Wait.future(jobs=jobs, any=flag) for flag in (True, False)]
    taken = {job.id: job.lease for job in stub.Take(topics=["sums"], max=3).jobs}
    stub.Ack(lease=taken["b"], result={"data": b"2"})
    found = {job.id: job for job in waits[0].result(10).jobs}
    assert (found["b"].outcome, found["b"].result.data, name_of("State", found["a"].state)) == ("acked", b"2", "STATE_LEASED")
    assert not waits[1].done()
    stub.Ack(leases=[taken["a"], taken["c"]])
    assert {job.id: job.outcome for job in waits[1].result(10).jobs} == dict.fromkeys("abc", "acked")


def test_a_wait_returns_no_message_that_clients_reject(start_server):
    server = start_server(*FLAGS, "--max-result", "1MiB")
    sizes = {"a": 1 << 20, "b": 1 << 20, "c": 1 << 20, "d": 400 << 10, "e": 1 << 20}
    with channel(server.port) as open_channel:
        stub = Stub(open_channel)
        for ident, size in sizes.items():
            stub.Push(topic="sums", id=ident, keep_finished=duration(60))
            stub.Ack(lease=stub.Take(topics=["sums"]).jobs[0].lease, result={"data": b"x" * size})
        found = stub.Wait(jobs=[{"topic": "sums", "id": ident} for ident in sizes], wait=duration(0)).jobs
    assert {job.id: job.result_bytes for job in found} == sizes and {job.outcome for job in found} == {"acked"}
    assert sorted(len(job.result.data) for job in found) == sorted([0, *list(sizes.values())[:-1]])


def test_a_wait_ends_before_its_deadline(stub):
    stub.Push(topic="sums", id="a")
    began = time.monotonic()
    found = {job.id: name_of("State", job.state) for job in stub.Wait(jobs=[{"topic": "sums", "id": "a"}, {"topic": "sums", "id": "none"}], timeout=10).jobs}
    assert found == {"a": "STATE_READY", "none": "STATE_UNSPECIFIED"} and 5 < time.monotonic() - began < 10
    began = time.monotonic()
    assert stub.Wait(jobs=[{"topic": "sums", "id": "a"}], wait=duration(0.2)).jobs and time.monotonic() - began < 5
    for wrong in ({"jobs": []}, {"jobs": [{"topic": "sums"}]}, {"jobs": [{"topic": "a b", "id": "x"}]}, {"jobs": [{"topic": "a", "id": "x"}] * 1001}):
        fails(grpc.StatusCode.INVALID_ARGUMENT, stub.Wait, **wrong)


def test_members_are_listed_with_their_results(stub):
    stub.PushBatch(job={"topic": "sums", "id": "r"}, members=[{"job": {"topic": "rows", "id": "a", "body": b"x", "keep_finished": duration(60)}}])
    stub.Ack(lease=stub.Take(topics=["rows"]).jobs[0].lease, result={"data": b"7"})
    [member] = stub.ListMembers(topic="sums", id="r", results=True).jobs
    assert (member.id, member.outcome, member.result.data, member.body) == ("a", "acked", b"7", b"")
    [member] = stub.ListMembers(topic="sums", id="r").jobs
    assert (member.id, member.result.data) == ("a", b"")


# ---- batches ----


def test_a_batch_is_pushed_in_one_call(stub, server):
    first = {"topic": "rows", "id": "a", "body": b"\x00\xff", "meta": {"k": 'v"'}, "priority": {"value": 0}, "max_attempts": {"unlimited": True}, "delay": duration(0.5), "on_conflict": "ON_CONFLICT_REJECT"}
    members = [{"job": first}, {"job": {"topic": "rows", "id": "b"}}, {"job": {"topic": "cells", "id": "b1"}, "of": 2}, {"job": {"topic": "rows", "id": "c"}}]
    pushed = stub.PushBatch(job={"topic": "reports", "id": "r", "body": b"{}", "content_type": "application/json"}, members=members)
    assert pushed.closed and [one.id for one in pushed.results] == ["r", "a", "b", "b1", "c"]
    assert {name_of("Result", one.result) for one in pushed.results} == {"RESULT_CREATED"}
    job = server.client().get("rows", "a")
    assert (job["body_base64"], job["meta"], job["priority"], job["max_attempts"], job["batch"]) == ("AP8=", {"k": 'v"'}, 0, "none", {"topic": "reports", "id": "r"})
    assert server.client().get("cells", "b1")["batch"] == {"topic": "rows", "id": "b"}
    again = stub.PushBatch(job={"topic": "reports", "id": "r", "body": b"{}"}, members=members)
    assert name_of("Result", again.results[0].result) == "RESULT_EXISTED" and again.results[1].problem.code


def test_a_batch_reports_each_member_that_is_rejected(stub):
    stub.PutTopic(topic="rows", settings={"max_jobs": 1})
    pushed = stub.PushBatch(job={"topic": "reports", "id": "r"}, members=[{"job": {"topic": "rows", "id": ident}} for ident in "ab"])
    assert not pushed.closed and [one.problem.code for one in pushed.results] == ["", "", "topic_full"]


@pytest.mark.parametrize("members", [[{"job": {"topic": "rows", "id": "a"}, "of": 1}], [{"of": 0}], [{"job": {"topic": "rows"}}], [{"job": {"topic": "rows", "id": "a", "members": 2}}],
                                     [{"job": {"topic": "rows", "id": "a", "delay": duration(-1)}}], [{"job": {"topic": "rows", "id": "a", "on_conflict": 99}}],
                                     [{"job": {"topic": "rows", "id": str(n)}, "of": n} for n in range(17)], [{"job": {"topic": "rows", "id": str(n)}} for n in range(1000)]])
def test_a_batch_with_a_wrong_member_pushes_nothing(stub, server, members):
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PushBatch, job={"topic": "reports", "id": "r"}, members=members)
    assert not stub.ListTopics().topics


# ---- schedules ----

NIGHTLY = {"name": "nightly", "topic": "reports", "cron": ["0 2 * * *", "0 14 * * *"], "zone": "Europe/Berlin", "jitter": duration(60), "body": b"\x00\x01", "meta": {"k": "v"},
           "max_attempts": {"value": 3}, "priority": {"value": 0}, "except": ["2026-12-24"], "note": "n"}


def spec_of(fields, without=("name",)):
    made = MESSAGES.ScheduleSpec(**fields)
    for name in without:
        made.ClearField(name)
    return made


def test_a_schedule_is_set_shown_and_deleted(stub, server):
    set_ = stub.PutSchedule(**NIGHTLY)
    assert name_of("Result", set_.result) == "RESULT_CREATED" and set_.next.seconds > time.time() and not set_.paused
    assert name_of("Result", stub.PutSchedule(**NIGHTLY).result) == "RESULT_EXISTED"
    shown = stub.GetSchedule(name="nightly")
    assert (shown.name, shown.spec, shown.next.seconds) == ("nightly", spec_of(NIGHTLY), set_.next.seconds)
    assert server.client().call("GET", "/v1/schedules/nightly").json()["spec"]["body_base64"] == "AAE="
    assert stub.PauseSchedule(name="nightly", duration=duration(60)).paused
    assert stub.GetSchedule(name="nightly").paused_until.seconds > time.time()
    assert not stub.ResumeSchedule(name="nightly").paused
    fires = stub.NextFires(**{"name": "nightly", "n": 3, "from": {"seconds": seconds("2026-12-24")}})
    assert fires.zone == "Europe/Berlin" and [one.local[:13] for one in fires.fires] == ["2026-12-25T02", "2026-12-25T14", "2026-12-26T02"] and fires.more
    assert fires.fires[0].HasField("due_at")
    assert name_of("Result", stub.DeleteSchedule(name="nightly").result) == "RESULT_DELETED"
    fails(grpc.StatusCode.NOT_FOUND, stub.GetSchedule, name="nightly")
    fails(grpc.StatusCode.NOT_FOUND, stub.DeleteSchedule, name="nightly")


def test_members_of_a_schedule_are_changed_and_cleared(stub, server):
    stub.PutSchedule(**NIGHTLY)
    changed = stub.PatchSchedule(spec={"name": "nightly", "cron": ["0 3 * * *"], "meta": {"more": "m"}, "priority": {"value": 7}, "body": b"new"}, clear=["except", "jitter", "note"])
    assert name_of("Result", changed.result) == "RESULT_REPLACED"
    left = {name: value for name, value in NIGHTLY.items() if name not in ("except", "jitter", "note")}
    assert stub.GetSchedule(name="nightly").spec == spec_of(left | {"cron": ["0 3 * * *"], "meta": {"k": "v", "more": "m"}, "priority": {"value": 7}, "body": b"new"})
    assert server.client().call("PATCH", "/v1/schedules/nightly", b'{"body_base64":null,"body":{"a":1}}').ok
    stub.PatchSchedule(spec={"name": "nightly", "body": b"bytes"})
    assert stub.GetSchedule(name="nightly").spec.body == b"bytes"
    for held in ({"body": {"a": 1}}, {"body_base64": "AAE="}):
        server.client().call("PATCH", "/v1/schedules/nightly", json.dumps({"body": None, "body_base64": None} | held).encode())
        stub.PatchSchedule(spec={"name": "nightly"}, clear=["body"])
        assert stub.GetSchedule(name="nightly").spec.body == b""
    assert "more than once" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PatchSchedule, spec={"name": "nightly", "note": "n"}, clear=["note"]).details()
    for wrong in ("name", "take_over", "nonsense", "topic"):
        fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PatchSchedule, spec={"name": "nightly"}, clear=[wrong])
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PatchSchedule)
    fails(grpc.StatusCode.NOT_FOUND, stub.PatchSchedule, spec={"name": "none", "note": "n"})


def test_a_body_of_a_schedule_that_is_json_is_bytes_over_grpc(stub, server):
    server.client().call("PUT", "/v1/schedules/s", json.dumps({"topic": "reports", "cron": "0 2 * * *", "body": {"a": "\u00e9"}, "max_attempts": "none"}).encode(), {"Content-Type": "application/json"})
    spec = stub.GetSchedule(name="s").spec
    assert (json.loads(spec.body), spec.content_type, list(spec.cron), spec.max_attempts.unlimited) == ({"a": "\u00e9"}, "application/json", ["0 2 * * *"], True)


def test_a_deep_body_of_a_schedule_is_shown_and_listed(stub, server):
    body = b"[" * 63 + b"]" * 63
    stub.PutSchedule(name="flat", topic="reports", every=duration(60))
    assert server.client().call("PUT", "/v1/schedules/deep", b'{"topic":"reports","every":"1h","body":' + body + b"}").ok
    assert stub.GetSchedule(name="deep").spec.body == body
    assert {one.name for one in stub.ListSchedules().schedules} == {"deep", "flat"}


def test_a_schedule_of_another_owner_may_be_taken_over(stub):
    def put(owner, **fields):
        return name_of("Result", stub.PutSchedule(name="s", topic="reports", every=duration(60), owner=owner, **fields).result)

    def apply(owner, **fields):
        return [name_of("Result", one.result) for one in stub.ApplySchedules(owner=owner, schedules=[{"name": "s", "topic": "reports", "every": duration(60)}], **fields).results]

    assert put("a") == "RESULT_CREATED"
    for call in (put, apply):
        with pytest.raises(grpc.RpcError) as failed:
            call("b")
        assert failed.value.code() == grpc.StatusCode.FAILED_PRECONDITION and "take_over" in failed.value.details()
    assert put("b", take_over=True) == "RESULT_REPLACED" and stub.GetSchedule(name="s").spec.owner == "b"
    assert apply("c", take_over=True) == ["RESULT_REPLACED"] and not stub.GetSchedule(name="s").spec.take_over
    assert "take_over" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.ApplySchedules, owner="d", schedules=[{"name": "s", "topic": "reports", "every": duration(60), "take_over": True}]).details()


def test_a_schedule_runs_and_is_backfilled(stub):
    stub.PutSchedule(name="s", topic="reports", every=duration(86400), start={"seconds": seconds("2026-01-01")}, overlap="skip")
    assert stub.BackfillSchedule(**{"name": "s", "from": {"seconds": seconds("2026-01-01")}, "to": {"seconds": seconds("2026-01-03")}, "pace": duration(1)}).pushed == 3
    run = stub.RunSchedule(name="s")
    assert (name_of("Result", run.result), run.topic, run.job) == ("RESULT_FIRED", "reports", "s")
    assert name_of("Result", stub.RunSchedule(name="s").result) == "RESULT_OVERLAP"


def test_the_schedules_of_an_owner_are_applied_as_a_set(stub):
    stub.PutSchedule(name="old", topic="reports", every=duration(60), owner="app")
    applied = stub.ApplySchedules(owner="app", prune=True, schedules=[{"name": "a", "topic": "reports", "every": duration(60)}, {"name": "b", "topic": "other", "cron": ["@daily"]}])
    assert {one.name: name_of("Result", one.result) for one in applied.results} == {"a": "RESULT_CREATED", "b": "RESULT_CREATED", "old": "RESULT_DELETED"}
    page = stub.ListSchedules(owner="app", limit=1)
    assert [one.name for one in page.schedules] == ["a"] and page.cursor
    assert [one.name for one in stub.ListSchedules(owner="app", cursor=page.cursor).schedules] == ["b"]
    assert [one.name for one in stub.ListSchedules(topic="other").schedules] == ["b"] and not stub.ListSchedules(prefix="x").schedules
    assert len(stub.PreviewSchedule(spec={"topic": "t", "every": duration(60)}, n=4).fires) == 4


def test_a_wrong_schedule_is_rejected_with_the_reason_of_http(stub):
    assert "cron" in fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PutSchedule, name="s", topic="reports", cron=["nonsense"]).details()
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PutSchedule, name="a b", topic="reports", every=duration(60))
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PutSchedule, name="s", topic="reports", every=duration(-1))
    fails(grpc.StatusCode.INVALID_ARGUMENT, stub.PreviewSchedule)
    assert not stub.ListSchedules().schedules


# ---- Watch ----


class Watcher:
    def __init__(self, stub, **fields):
        self.call = stub.callable("Watch", "unary_stream")(MESSAGES.WatchRequest(**fields), timeout=60, metadata=stub.metadata)
        self.events = []
        self.error = None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for event in self.call:
                self.events.append(event)
        except grpc.RpcError as error:
            self.error = error

    def kinds(self):
        return [(event.kind, event.topic, event.id) for event in self.events]


def listens(stub, watcher, topic="probe"):
    """Pushes until the watcher receives an event."""

    def received():
        stub.Push(topic=topic)
        return any(event.topic == topic for event in watcher.events)

    eventually(received, 20)


def test_events_are_streamed(stub, server):
    watcher = Watcher(stub, kinds=["pushed", "delivered", "acked", "purged"], topics=["mail", "probe"])
    listens(stub, watcher)
    stub.Push(topic="mail", id="a", delay=duration(0.01))
    stub.Push(topic="other", id="b")
    stub.Ack(lease=stub.Take(topics=["mail"], wait=duration(5)).jobs[0].lease)
    stub.Purge(topic="probe")
    eventually(lambda: ("purged", "probe", "") in watcher.kinds(), 20)
    found = [event for event in watcher.events if event.topic != "probe"]
    assert sorted((event.kind, event.id) for event in found) == [("acked", "a"), ("delivered", "a"), ("pushed", "a")]
    assert all(abs(event.at.seconds - time.time()) < 60 for event in found)
    delivered = next(event for event in found if event.kind == "delivered")
    assert (delivered.attempt, delivered.HasField("lease_until")) == (1, True)
    purged = next(event for event in watcher.events if event.kind == "purged")
    assert purged.count > 0
    server.proc.terminate()
    watcher.thread.join(20)
    assert not watcher.thread.is_alive() and watcher.error is None and server.proc.wait(30) == 0


def test_a_wrong_watch_is_rejected(stub):
    for wrong in ({"kinds": ["nonsense"]}, {"topics": ["a b"]}, {"topics": ["t"] * 65}):
        watcher = Watcher(stub, **wrong)
        watcher.thread.join(20)
        assert watcher.error.code() == grpc.StatusCode.INVALID_ARGUMENT, wrong


def test_a_caller_watches_only_the_topics_that_it_may_read(start_server, tmp_path):
    reader, writer = Token("reader", scopes=("read",), topics=("mail*",)), Token("writer", scopes=("push",))
    tokens = TokenFile(tmp_path / "tokens", reader, writer)
    server = start_server(*FLAGS, "--tokens", str(tokens.path))
    with channel(server.port) as open_channel:
        read, push = (Stub(open_channel, metadata=[("authorization", f"Bearer {token.secret}")]) for token in (reader, writer))
        watchers = [Watcher(read, topics=["other"]), Watcher(push, topics=["mail"]), Watcher(Stub(open_channel))]
        for watcher in watchers:
            watcher.thread.join(20)
        assert [watcher.error.code() for watcher in watchers] == [grpc.StatusCode.PERMISSION_DENIED] * 2 + [grpc.StatusCode.UNAUTHENTICATED]
        watcher = Watcher(read)
        push.Push(topic="other")
        listens(push, watcher, "mail")
        assert {event.topic for event in watcher.events} == {"mail"}


def test_watches_count_as_streams_of_their_caller(start_server, tmp_path):
    reader, other = Token("reader", scopes=("read",)), Token("other", scopes=("read",))
    server = start_server(*FLAGS, "--tokens", str(TokenFile(tmp_path / "tokens", reader, other).path))
    with channel(server.port) as open_channel:
        stub, others = (Stub(open_channel, metadata=[("authorization", f"Bearer {token.secret}")]) for token in (reader, other))

        def streams():
            page = server.client().call("GET", "/metrics", headers=reader.headers).body.decode()
            return next(int(line.split()[1]) for line in page.splitlines() if line.startswith("tarry_http_streams "))

        watchers = [Watcher(stub) for _ in range(16)]
        eventually(lambda: streams() == 16, 20)  # calls that wait for the connection are sent in any order
        late = Watcher(stub)
        late.thread.join(20)
        refused = late.error
        assert refused.code() == grpc.StatusCode.UNAVAILABLE and "too_many_streams" in details(refused)
        assert server.client().call("GET", "/v1/events", headers=reader.headers).code == "too_many_streams"
        more = Watcher(others)  # another caller on the same connection
        eventually(lambda: streams() == 17, 20)
        [watcher.call.cancel() for watcher in watchers[:2]]
        eventually(lambda: streams() == 15, 20)
        assert not more.error


def test_the_end_of_a_burst_that_is_lost_is_reported(server):
    client = server.client()

    def metric(name):
        return next((float(line.split()[1]) for line in client.call("GET", "/metrics").body.decode().splitlines() if line.startswith(f"{name} ")), 0)

    def push():
        client.push_batch([{"topic": "t" * 100, "id": f"{pushed + n:0100}", "delay": "1h"} for n in range(1000)])
        return pushed + 1000

    with channel(server.port, **{"grpc.http2.bdp_probe": 0}) as open_channel:
        call = Stub(open_channel).callable("Watch", "unary_stream")(MESSAGES.WatchRequest(kinds=["pushed"]), timeout=40)
        eventually(lambda: metric("tarry_http_streams") == 1, 20)
        time.sleep(0.2)
        pushed = lost = before = 0
        while lost - before < 1000:  # until a whole burst is lost: a slow client may read on after the first loss
            assert pushed < 100_000, "nothing is lost"
            before, pushed = lost, push()
            lost = metric("tarry_http_stream_events_lost_total")
        seen = lost = 0
        for event in call:
            lost += event.count
            seen += event.count or 1
            if seen == pushed:
                break
        assert event.kind == "gap" and lost >= metric("tarry_http_stream_events_lost_total") >= 1000


# ---- the description ----

FIELDS = pathlib.Path(__file__).with_name("grpc_fields.txt")


def described():
    """A line for each field, value of an enum, and method: what a client that was generated earlier relies on."""
    [file] = [one for one in descriptors().file if one.name == "tarry/v1/queue.proto"]

    def fields(message, prefix):
        for field in message.field:
            yield f"{prefix}{message.name}.{field.name} = {field.number} {field.type_name.rpartition('.')[2] or field.type} {field.label}"
        for nested in message.nested_type:
            yield from fields(nested, f"{prefix}{message.name}.")

    for message in file.message_type:
        yield from fields(message, "")
    for enum in file.enum_type:
        yield from (f"{value.name} = {value.number}" for value in enum.value)
    for method in file.service[0].method:
        yield f"{method.name}({'stream ' * method.client_streaming}{method.input_type}) {'stream ' * method.server_streaming}{method.output_type}"


def test_no_field_or_method_has_changed():
    """A line may be added to the file, and none may change once it is released: clients that were generated earlier would read wrong values."""
    recorded, found = FIELDS.read_text(encoding="utf-8").splitlines(), sorted(described())
    assert not set(recorded) - set(found), "changed or removed: use a new number instead"
    assert not set(found) - set(recorded), f"add these lines to {FIELDS.name}"


# ---- several callers on one connection ----


@pytest.mark.plain("the frames are written to a plain socket")
def test_the_wait_of_a_worker_counts_for_its_own_caller(start_server, tmp_path):
    """The worker greets after a request of another caller on its connection, as behind a proxy."""
    tokens = [Token(name, ["consume", "read"], **{"max-waiting": 1}) for name in ("worker", "other")]
    TokenFile(tmp_path / "tokens", *tokens)
    server = start_server("--tokens", tmp_path / "tokens")
    worker, other = ([("authorization", "Bearer " + token.secret)] for token in tokens)
    hello, take = MESSAGES.WorkRequest(hello={"topics": ["sums"], "credit": 1}).SerializeToString(), "/v1/topics/sums/take?wait=60s"
    with Peer(server.port) as peer:
        work = peer.open(request("POST", "/tarry.v1.Queue/Work", [("content-type", "application/grpc"), ("te", "trailers"), *worker]), end=False)
        assert peer.call("GET", "/v1/topics/sums", fields=other).status == 404
        peer.send(DATA, 0, work, b"\0" + struct.pack(">I", len(hello)) + hello)
        peer.sync()
        waiting = peer.open(request("POST", take, other))
        answer = peer.call("POST", take, fields=worker)
        assert (answer.status, json.loads(answer.body)["limit"]) == (429, "waiting")
        assert not peer.answers[work].ended and not peer.answers[waiting].ended, peer.answers[waiting].body
