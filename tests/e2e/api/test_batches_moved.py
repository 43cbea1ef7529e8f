"""Export and import of batches while they run: a waiting job completes in the new server with the outcome of all of its members."""

import contextlib
import json
import shutil

import pytest
from client import Client
from migration import REFUSED, export, lines_of, load
from postgres import PostgresServer
from sql_serving import tarry

NO_BATCH = "no_batch"


@pytest.fixture(params=["embedded", "redis", "postgres"])
def pair(request, start_server):
    """Returns a server with batches, and a function that starts an empty one with the same store."""

    def start():
        if request.param == "embedded":
            return start_server()
        if request.param == "redis":
            return start_server("--store", request.getfixturevalue("start_redis")().url)
        postgres = postgreses.enter_context(PostgresServer())
        assert tarry("sql", "migrate", postgres.url).returncode == 0
        return start_server("--store", postgres.url)

    with contextlib.ExitStack() as postgreses:
        yield start(), start


def push(client, topic, ident, batch=None, **options):
    query = {**options, **({"batch_topic": batch[0], "batch_id": batch[1]} if batch else {})}
    client.good("PUT", f"/v1/topics/{topic}/jobs/{ident}?" + "&".join(f"{key}={value}" for key, value in query.items()), b"x")


def end(client, topic, **verbs):
    """Takes all ready jobs of a topic and answers each: acks it, or as `verbs` has by its id."""
    for job in client.take(topic, max=50):
        if verbs.get(job["id"]) == "dead":
            client.nack(job["lease"], final="true")
        else:
            client.ack(job["lease"])


def run_half(client):
    """A tree of batches in topics whose order in the file is the wrong one: members before their waiting job, at two levels."""
    push(client, "z", "all", waits="true", on_dead="hold", delay="1s", wait_at_most="2h")
    push(client, "m", "part", ("z", "all"), waits="true", close_within="30m")
    push(client, "a", "1", ("m", "part"), priority=1)
    push(client, "a", "2", ("m", "part"), priority=2)
    push(client, "a", "3", ("m", "part"), delay="1d")
    push(client, "a", "4", ("m", "part"), delay="1d")
    push(client, "b", "side", ("z", "all"))
    push(client, "y", "open", waits="true", members=5, at=2000000000000)
    push(client, "a", "5", ("y", "open"), delay="1d")
    push(client, "x", "over", waits="true")
    push(client, "b", "last", ("x", "over"), priority=1)
    for topic, ident in (("z", "all"), ("m", "part"), ("x", "over")):
        client.good("POST", f"/v1/topics/{topic}/jobs/{ident}/close")
    end(client, "a", **{"2": "dead"})
    end(client, "b", side="dead")
    client.good("DELETE", "/v1/topics/a/jobs/4")


def shown(client, topic, ident):
    job = client.get(topic, ident)
    return {key: job.get(key) for key in ("waits_for", "closed", "outcomes", "on_dead", "wait_at_most", "close_within", "delay", "at")}


def finish(client):
    for job in client.list("a")["jobs"]:
        if job["state"] == "delayed":
            client.good("POST", f"/v1/topics/a/jobs/{job['id']}/run")
    end(client, "a")
    (part,) = client.take("m")
    client.ack(part["lease"])
    client.topic_verb("b", "redrive")
    end(client, "b")
    (done,) = client.take("z", wait="5s")
    return part["meta"]["tarry-batch"], done["meta"]["tarry-batch"]


def test_a_batch_that_runs_is_moved_with_its_outcomes(pair):
    source, start = pair
    client = source.client()
    run_half(client)
    waiting = [("z", "all"), ("m", "part"), ("y", "open")]
    before = [shown(client, *job) for job in waiting]
    assert before[0]["delay"] == "1s" and before[2]["at"] == "2033-05-18T03:33:20.000Z"
    dump = export(source)
    target = start()
    load(target, dump)
    moved = target.client()
    assert [shown(moved, *job) for job in waiting] == before
    assert "0 created, 0 replaced" in load(target, dump)
    assert [shown(moved, *job) for job in waiting] == before
    (over,) = moved.take("x")
    assert over["meta"]["tarry-batch"] == client.take("x")[0]["meta"]["tarry-batch"] == "acked=1 dead=0 cancelled=0 expired=0 missing=0"
    assert finish(moved) == finish(client) == ("acked=2 dead=1 cancelled=1 expired=0 missing=0", "acked=2 dead=0 cancelled=0 expired=0 missing=0")


@pytest.mark.parametrize("pair", ["embedded"], indirect=True)
def test_a_member_without_a_waiting_job_is_rejected_once(pair, tmp_path):
    source, start = pair
    run_half(source.client())
    lines = [line for line in export(source).splitlines(keepends=True) if not line.startswith((b'{"topic":"m","id":"part"', b'{"tarry_export'))]
    target, rejects = start(), tmp_path / "rejects"
    err = load(target, b"".join(lines), "--rejects", str(rejects), "--state", str(tmp_path / "state"), code=REFUSED)
    assert err.count(NO_BATCH) == 2 and sorted(json.loads(line)["id"] for line in rejects.read_text().splitlines()) == ["2", "3"]
    assert not (tmp_path / "state").exists() and target.client().get("z", "all")["outcomes"]["dead"] == 1


def test_an_import_that_stops_is_continued_before_the_members_that_were_set_aside(start_server, tmp_path):
    source, target, state, part = start_server(), start_server(), tmp_path / "state", tmp_path / "part"
    run_half(source.client())
    dump = export(source)
    first = next(n for n, line in enumerate(lines_of(dump)) if "batch" in line)
    text = dump.splitlines(keepends=True)
    part.write_bytes(b"".join(text[:-1]) + b'{"tarry_export":2}\n')
    load(target, part.read_bytes(), "--state", str(state), code=REFUSED)
    assert json.loads(state.read_text())["line"] == first
    load(target, dump, "--state", str(state))
    assert finish(target.client())[0] == "acked=2 dead=1 cancelled=1 expired=0 missing=0"


def test_counts_of_ended_members_are_checked(client):
    def result(**item):
        return client.push_batch([{"topic": "t", "id": "w", **item}])[0]["result"]

    assert result(waits=True, ended={"dead": 1}) == "bad_option"
    assert result(waits=True, ended={"missing": 1}) == "bad_option"
    assert result(waits=True, members=3, ended={"acked": 2, "expired": 1}) == "bad_option"
    assert result(waits=True, ended={"lost": 1}) == "bad_item"
    assert result(ended={"acked": 1}) == "bad_item"
    assert result(waits=True, members=4, ended={"acked": 2, "expired": 1}) == "created"
    client.push_batch([{"topic": "m", "id": "1", "batch": {"topic": "t", "id": "w"}}])
    assert client.get("t", "w")["closed"] and client.get("t", "w")["waits_for"] == 1
    end(client, "m")
    (job,) = client.take("t")
    assert job["meta"]["tarry-batch"] == "acked=3 dead=0 cancelled=0 expired=1 missing=0"


def test_a_copy_of_shards_at_different_moments_waits_for_the_members_that_it_has(start_server, tmp_path):
    """A backup copies one shard after another, while members are pushed and the batch is closed."""
    server = start_server("--shards", "3")
    push(Client(server.port), "t", "w", waits="true")
    push(Client(server.port), "m", "first", ("t", "w"))
    server.terminate()
    shutil.copytree(server.data, tmp_path / "early")
    server.start()
    for number in range(20):
        push(Client(server.port), "m", number, ("t", "w"))
    Client(server.port).good("POST", "/v1/topics/t/jobs/w/close")
    server.terminate()
    late = tmp_path / "late"
    shutil.copytree(server.data, late)
    completed = 0
    for shard in sorted(path.name for path in late.iterdir() if path.name.startswith("shard-")):
        shutil.rmtree(server.data)
        shutil.copytree(tmp_path / "early", server.data)
        shutil.rmtree(server.data / shard)
        shutil.copytree(late / shard, server.data / shard)
        server.start()
        client = Client(server.port)
        jobs = client.take("m", max=50)
        waiting = client.get("t", "w")
        assert jobs and waiting["waits_for"] == len(jobs)
        client.ack(*(job["lease"] for job in jobs))
        waiting = client.get("t", "w")
        assert waiting["outcomes"]["acked"] == len(jobs) and waiting["outcomes"]["unfinished"] == 0
        if not waiting["closed"]:  # the copy has the home of the batch from before the close
            client.good("POST", "/v1/topics/t/jobs/w/close")
        else:
            completed += 1
        (done,) = client.take("t", wait="5s")
        assert done["meta"]["tarry-batch"] == f"acked={len(jobs)} dead=0 cancelled=0 expired=0 missing=0"
        server.terminate()
        assert server.fsck().returncode == 0
    assert completed == 1
