"""One change to many jobs by their ids: cancel, run, reschedule, redrive; on every store, and from the command line."""

import contextlib
import json
import threading

import pytest
from client import Refused, query, request_bytes, segment
from redis_servers import RedisServer
from server import Server, eventually
from test_cli import NOTHING, OK, REFUSED, USAGE
from test_dead_jobs import die

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=["one shard", "three shards", "redis"])
def any_server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bulk")
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        store = ("--store", redis.url, "--shards", "2") if redis else ("--sync", "never", "--wal-file", "16MiB", "--shards", "3" if request.param.startswith("three") else "1")
        server = Server(directory / "server", (*store, "--audit", str(directory / "audit"))).start()
        server.audit = directory / "audit"
        yield server
        assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-4000:]


@pytest.fixture
def any_client(any_server):
    return any_server.client()


@pytest.fixture
def topic(request):
    return request.node.originalname[:100]


def bulk(client, topic, verb, ids, **options):
    return client.good("POST", f"/v1/topics/{segment(topic)}/{verb}" + query(options), json.dumps({"ids": ids}).encode(), JSON)["results"]


def push(client, topic, ids, **options):
    client.push_batch([{"topic": topic, "id": ident, "delay": "1h", **options} for ident in ids])


def test_results_have_the_order_of_the_ids(any_client, topic):
    client = any_client
    push(client, topic, ["a", "b", "c", "d"])
    die(client, topic, {"gone": "x"})
    client.push(topic, "held")
    assert client.take(topic, wait="5s")[0]["id"] == "held"
    ids = ["d", "nobody", "gone", "held", "a", "", "b c", "a", "<script>"]
    answer = bulk(client, topic, "run", ids)
    assert [one["id"] for one in answer] == ids and {one["topic"] for one in answer} == {topic}
    assert [one["result"] for one in answer] == ["ok", "not_found", "dead", "leased", "ok", "bad_id", "bad_id", "ok", "not_found"]
    assert [one.get("state") for one in answer[:5]] == ["ready", None, "dead", "leased", "ready"]
    assert all(("detail" in one) == (one["result"] != "ok") and ("due_at" in one) >= (one["result"] == "ok") for one in answer)
    answer = bulk(client, topic, "cancel", ["b", "b", "gone", "held", "nobody"])
    assert [one["result"] for one in answer] == ["cancelled", "not_found", "cancelled", "leased", "not_found"]
    assert answer[0] == {"topic": topic, "id": "b", "result": "cancelled"}
    counts = client.topic(topic)["counts"]
    assert counts == {"delayed": 1, "retrying": 0, "ready": 2, "leased": 1, "dead": 0}


def test_a_thousand_jobs_are_moved_in_one_call(any_client, topic):
    ids = [f"{n:04}" for n in range(1000)]
    push(any_client, topic, ids)
    answer = bulk(any_client, topic, "reschedule", ids, at="2030-01-01T00:00:00Z", priority=7)
    assert [(one["id"], one["result"], one["due_at"]) for one in answer] == [(ident, "ok", "2030-01-01T00:00:00.000Z") for ident in ids]
    body = json.dumps({"ids": ids[:2], "delay": "2h", "priority": 3}).encode()
    any_client.good("POST", f"/v1/topics/{topic}/reschedule", body, JSON)
    assert [any_client.get(topic, ident)["priority"] for ident in ("0000", "0001", "0002")] == [3, 3, 7]
    assert {one["result"] for one in bulk(any_client, topic, "cancel", ids)} == {"cancelled"}
    assert any_client.topic(topic)["totals"]["cancelled"] == 1000


def test_dead_ones_that_are_named_go_round_again(any_server, topic):
    client = any_server.client()
    ids = [f"d{n}" for n in range(450)]
    die(client, topic, dict.fromkeys(ids, "x"))
    push(client, topic, ["alive"])
    answer = bulk(client, topic, "redrive", ["alive", *ids[:-1], "d0", "nobody"])
    assert [one["result"] for one in answer] == ["not_found"] + ["ok"] * 449 + ["not_found"] * 2
    assert answer[1] == {"topic": topic, "id": "d0", "result": "ok", "state": "ready"} and "detail" in answer[-1]
    assert client.topic(topic)["counts"]["dead"] == 1
    reported = [json.loads(line) if line.startswith("{") else line for line in any_server.audit.read_text().splitlines()]
    assert any(topic in str(line) and "449" in str(line) for line in reported), reported[-3:]


@pytest.mark.parametrize("body, code", [
    (b"", "option_missing"), (b"{}", "option_missing"), (b"[]", "bad_json"), (b'{"ids":"a"}', "bad_json"), (b'{"ids":[1]}', "bad_item"), (b'{"ids":[["a"]]}', "bad_item"),
    (b'{"ids":["a"]', "bad_json"), (b'{"ids":["a"],"ids":["b"]}', "unknown_option"), (b'{"ids":["a"],"id":"b"}', "unknown_option"),
    (json.dumps({"ids": ["a"] * 1001}).encode(), "too_many_items")])
def test_a_body_that_names_no_jobs_changes_nothing(any_client, body, code):
    client = any_client
    client.push("bad", "a", delay="1h")
    for verb in ("cancel", "run", "reschedule?delay=2h"):
        with pytest.raises(Refused, match=code):
            client.good("POST", f"/v1/topics/bad/{verb}", body, JSON)
    assert client.get("bad", "a")["state"] == "delayed" and client.topic("bad")["totals"]["cancelled"] == 0


def test_a_redrive_with_a_wrong_body_redrives_no_job(any_client, topic):
    client = any_client
    die(client, topic, {"a": "x", "b": "y"})
    for body, code in ((b'{"id":["a"]}', "unknown_option"), (b'{"error":"x"}', "unknown_option"), (b'["a"]', "bad_request"), (b'{"ids":[""]}', "bad_item"), (b'{"ids":"a"}', "bad_json"),
                       (b'{"ids":["a"],"error":"x"}', "option_clash")):
        with pytest.raises(Refused, match=code):
            client.good("POST", f"/v1/topics/{topic}/redrive", body, JSON)
    with pytest.raises(Refused, match="option_clash"):
        bulk(client, topic, "redrive", ["a"], dry_run="true")
    assert bulk(client, topic, "redrive", []) == [] and client.topic(topic)["counts"]["dead"] == 2
    assert client.good("POST", f"/v1/topics/{topic}/redrive", b"{}", JSON)["jobs"] == 2, "{} says nothing"


def test_there_is_something_to_change(any_client, topic):
    any_client.push(topic, "a", delay="1h")
    with pytest.raises(Refused, match="nothing to change"):
        bulk(any_client, topic, "reschedule", ["a"])
    with pytest.raises(Refused, match="option_clash"):
        bulk(any_client, topic, "reschedule", ["a"], delay="1s", at="2030-01-01T00:00:00Z")
    assert bulk(any_client, topic, "cancel", []) == []
    assert [one["result"] for one in bulk(any_client, "never-" + topic, "cancel", ["a"])] == ["not_found"]


# ---- by a filter ----


def sweep(client, topic, verb, **options):
    """Returns how many jobs the change by a filter concerned, and whether it went to the end."""
    answer = client.topic_verb(topic, verb, **options)
    assert (answer["topic"], answer["result"], answer.get("dry_run", False)) == (topic, "ok", options.get("dry_run") == "true") and answer["seen"] >= answer["jobs"]
    return answer["jobs"], answer["complete"]


def fill(client, topic):
    """600 waiting jobs in three states of readiness, and one each that a filter never touches."""
    die(client, topic, {"odd-dead": "x"})
    client.push(topic, "odd-held", meta={"kind": "k1"})
    assert client.take(topic, wait="5s", lease_for="1h")[0]["id"] == "odd-held"
    jobs = [{"topic": topic, "id": f"{'odd' if n % 2 else 'even'}-{n}", "meta": {"kind": f"k{n % 3}"}, **({"at": f"20{30 + n % 2}-01-01T00:00:00Z"} if n % 5 else {})} for n in range(600)]
    client.push_batch(jobs)
    return {job["id"]: {**job, "n": n} for n, job in enumerate(jobs)}


def test_a_filter_cancels_waiting_jobs(any_client, topic):
    client, jobs = any_client, fill(any_client, topic)
    assert sweep(client, topic, "cancel", id_prefix="odd-", dry_run="true") == (300, True)
    assert sweep(client, topic, "cancel", meta="kind:k1", dry_run="true") == (200, True)
    assert sweep(client, topic, "cancel", meta="kind:", state="ready", dry_run="true") == (120, True)
    assert sweep(client, topic, "cancel", due_before="2030-06-01T00:00:00Z", due_after="2029-01-01T00:00:00Z", dry_run="true") == (240, True)
    assert sweep(client, topic, "cancel", due_after="2030-06-01T00:00:00Z", dry_run="true") == (240, True)
    assert sweep(client, topic, "cancel", due_before="2029-01-01T00:00:00Z", dry_run="true") == (120, True)
    assert client.topic(topic)["totals"]["cancelled"] == 0
    assert sweep(client, topic, "cancel", id_prefix="odd-", meta="kind:k1", max=7) == (7, False)
    gone = {ident for ident, job in jobs.items() if job["n"] % 2 and job["n"] % 3 == 1}
    assert sweep(client, topic, "cancel", id_prefix="odd-", meta="kind:k1") == (len(gone) - 7, True)
    assert sweep(client, topic, "cancel", id_prefix="odd-", meta="kind:k1") == (0, True)
    left = {job["id"] for job in client.list(topic, limit=1000)["jobs"]}
    assert left == set(jobs) - gone | {"odd-dead", "odd-held"}


def test_a_filter_reschedules_each_waiting_job_once(any_client, topic):
    client, jobs = any_client, fill(any_client, topic)
    assert sweep(client, topic, "reschedule", id_prefix="odd-", delay="80000h", priority=3) == (300, True)
    assert sweep(client, topic, "reschedule", state="ready", at="2031-05-05T00:00:00Z") == (60, True)
    for job in client.list(topic, limit=1000)["jobs"]:
        if job["id"] in ("odd-dead", "odd-held"):
            assert job["priority"] != 3
            continue
        n = jobs[job["id"]]["n"]
        assert (job["priority"] == 3, job["due_at"] > "2035") == (n % 2 == 1, n % 2 == 1), job
        assert (job["due_at"] == "2031-05-05T00:00:00.000Z") == (n % 10 == 0)


def test_a_filter_makes_delayed_jobs_due_now(any_client, topic):
    client = any_client
    fill(client, topic)
    assert sweep(client, topic, "run", meta="kind:k1", due_before="2030-06-01T00:00:00Z") == (80, True)
    assert client.topic(topic)["counts"]["ready"] == 120 + 80
    assert sweep(client, topic, "run", state="delayed") == (400, True)
    assert client.topic(topic)["counts"] == {"delayed": 0, "retrying": 0, "ready": 600, "leased": 1, "dead": 1}


@pytest.mark.parametrize("call, code, field", [
    ("cancel?dry_run=true", "option_missing", "id_prefix"), ("cancel?max=3", "option_missing", "id_prefix"), ("cancel?state=dead", "bad_option", "purge"),
    ("cancel?state=leased", "bad_option", "state"), ("run?state=ready", "bad_option", "state"), ("reschedule?id_prefix=a", "option_missing", "delay"),
    ("cancel?due_before=soon", "bad_option", "due_before"), ("cancel?id_prefix=a&due_after=1", "bad_option", "due_after"), ("cancel?meta=kind", "bad_option", "meta"),
    ("cancel?id_prefix=a&max=0", "bad_option", "max"), ("cancel?id_prefix=", "bad_option", "id_prefix"), ("cancel?id_prefix=a&request=true", "option_clash", "request"),
    ("run?id_prefix=a&delay=1s", "unknown_option", "delay"), ("cancel?id_prefix=a&error=x", "unknown_option", "error")])
def test_a_bad_filter_changes_nothing_and_names_its_field(any_client, call, code, field):
    client = any_client
    client.push("bad_filter", "a", delay="1h")
    with pytest.raises(Refused, match=code) as refused:
        client.good("POST", f"/v1/topics/bad_filter/{call}")
    assert field in str(refused.value)
    assert client.topic("bad_filter")["totals"]["cancelled"] == 0 and client.get("bad_filter", "a")["state"] == "delayed"


def test_ids_and_a_filter_exclude_each_other(any_client, topic):
    client = any_client
    push(client, topic, ["a", "b"])
    with pytest.raises(Refused, match="option_clash"):
        bulk(client, topic, "cancel", ["a"], id_prefix="b")
    for body, code in ((b'{"ids":["a"],"id_prefix":"b"}', "option_clash"), (b'{"id_prefix":"b"}', "option_missing"), (b'["a"]', "bad_json")):
        with pytest.raises(Refused, match=code):
            client.good("POST", f"/v1/topics/{topic}/cancel", body, JSON)
    with pytest.raises(Refused, match="unknown_option"):
        client.good("POST", f"/v1/topics/{topic}/cancel?id_prefix=a", b'{"state":"ready"}', JSON)
    with pytest.raises(Refused, match="not_found"):
        client.topic_verb("never-" + topic, "cancel", id_prefix="a")
    assert client.topic(topic)["counts"]["delayed"] == 2


def test_a_change_by_a_filter_is_recorded_with_its_count(any_server, topic):
    client = any_server.client()
    push(client, topic, ["a", "b", "c"])
    sweep(client, topic, "run", id_prefix="a")
    sweep(client, topic, "reschedule", state="delayed", delay="2h")
    sweep(client, topic, "cancel", state="delayed", dry_run="true")
    sweep(client, topic, "cancel", state="delayed")
    bulk(client, topic, "cancel", ["a"])
    lines = [line for line in any_server.audit.read_text().splitlines() if topic in line]
    assert [next(action for action in ("jobs run", "jobs rescheduled", "jobs cancelled") if action in line) for line in lines] == ["jobs run", "jobs rescheduled", "jobs cancelled"]
    assert all(f'"jobs":{n}' in line for line, n in zip(lines, (1, 2, 2), strict=True)), lines


def test_a_stopping_server_ends_a_filter_with_its_count(server):
    client, answer = server.client(), []
    for batch in range(20):
        push(client, "t", [f"j{batch}-{n}" for n in range(1000)])
    calling = threading.Thread(target=lambda: answer.append(server.client().topic_verb("t", "cancel", id_prefix="j")))
    calling.start()
    eventually(lambda: client.topic("t")["totals"]["cancelled"])
    server.terminate()
    calling.join()
    assert answer[0]["complete"] is False and 0 < answer[0]["jobs"] < 20_000
    assert server.start().client().topic("t")["totals"]["cancelled"] == answer[0]["jobs"]


# ---- from the command line ----


def test_the_command_line_changes_many(any_server, topic):
    client = any_server.client()
    many = [f"m{n}" for n in range(2500)]
    for first in range(0, 2500, 500):
        push(client, topic, many[first:first + 500])
    push(client, topic, ["a", "b", "c"])

    def run(*arguments, code=OK, stdin=""):
        ended = any_server.cli(*arguments, input=stdin.encode())
        assert ended.returncode == code, ended
        return ended.stdout.decode(), ended.stderr.decode()

    assert run("reschedule", topic, "a", "b", "--delay", "2h")[0] == "rescheduled a\nrescheduled b\n"
    assert run("run", topic, "a", "b")[0] == "due now a\ndue now b\n"
    out, err = run("cancel", topic, "nobody", "c", "x y", code=REFUSED)
    assert out == "cancelled c\n" and err.count("tarry: ") == 2 and "'nobody': there is no such job" in err and "(bad_id)" in err
    out, err = run("cancel", topic, "-", stdin="\n".join([*many, "", "nobody"]), code=NOTHING)
    assert out == "cancelled 2500\n" and err.count("\n") == 1
    assert run("cancel", topic, "-", stdin="a\r\nb\r\n")[0] == "cancelled 2\n"
    push(client, topic, ["a", "b"])
    assert [json.loads(line)["result"] for line in run("cancel", topic, "a", "b", "--json")[0].splitlines()] == ["cancelled", "cancelled"]
    die(client, topic, {"d": "x", "e": "x", "f": "x"})
    assert run("redrive", topic, "d", "e")[0] == "redriven d\nredriven e\n"
    assert run("redrive", topic, "-", stdin="f\n")[0] == "redriven 1\n"
    run("redrive", topic, "d", "e", "--max", "1", code=USAGE)
    run("redrive", topic, "d", "e", "--body", "x", code=USAGE)


def test_the_command_line_changes_by_a_filter(any_server, topic):
    client = any_server.client()
    push(client, topic, ["a-1", "a-2", "b-1"], meta={"customer": "c-17"})

    def run(*arguments, code=OK):
        ended = any_server.cli(*arguments)
        assert ended.returncode == code, ended
        return ended.stdout.decode() + ended.stderr.decode()

    assert run("run", topic, "--id-prefix", "a-", "--dry-run") == "2 jobs would be due now\n"
    assert run("reschedule", topic, "--meta", "customer:c-17", "--state", "delayed", "--delay", "2h", "--max", "2") == "rescheduled 2\ntarry: there may be more\n"
    assert run("run", topic, "--id-prefix", "a-") == "due now 2\n"
    assert run("cancel", topic, "--due-before", "2020-01-01T00:00:00Z", "--yes") == "cancelled 0\n"
    assert "add --yes" in run("cancel", topic, "--id-prefix", "a-", code=USAGE)
    assert json.loads(run("cancel", topic, "--id-prefix", "a-", "--yes", "--json")) == {"topic": topic, "result": "ok", "jobs": 2, "seen": 3, "complete": True}
    for arguments, part in ((("cancel", topic), "no jobs are selected"), (("cancel", topic, "b-1", "--id-prefix", "b"), "choose one"), (("run", topic, "--max", "3"), "no jobs are selected"),
                            (("cancel", topic, "--state", "ready", "--request", "--yes"), "'--request'"), (("reschedule", topic, "--state", "ready"), "nothing to change")):
        assert part in run(*arguments, code=USAGE)
    assert "'state'" in run("cancel", topic, "--state", "dead", "--yes", code=REFUSED)
    assert client.topic(topic)["counts"]["delayed"] == 1


def test_changes_of_a_thousand_ids_are_answered_in_order_and_not_overtaken(any_server, topic):
    """The queue gets the ids in groups; a request behind them on the connection waits for all of them."""
    ids = [f"job-{n}" for n in range(1000)]
    any_server.client().push_batch([{"topic": topic, "id": one, "delay": "1h", "body": "x"} for one in ids if one != "job-500"])
    body = json.dumps({"ids": ids}).encode()
    with contextlib.closing(any_server.connection()) as connection:
        connection.send(request_bytes("POST", f"/v1/topics/{topic}/cancel", body, {"Content-Type": "application/json"}) +
                        request_bytes("PUT", f"/v1/topics/{topic}/jobs/job-999", b"again"))
        results = connection.read().json()["results"]
        assert [(result.get("id"), result["result"]) for result in results] == [(one, "not_found" if one == "job-500" else "cancelled") for one in ids]
        assert connection.read("PUT").json()["result"] == "created"
