"""A push onto a job that a consumer holds (`on_conflict=after`): the successor of the job."""

import pytest
from mariadb import MariadbServer


@pytest.fixture(params=["embedded", "redis", "postgres", pytest.param("mariadb", marks=pytest.mark.thorough("needs MariaDB"))])
def client(request, start_server):
    if request.param == "mariadb":
        with MariadbServer() as database:
            yield start_server("--store", database.url, "--migrate").client()
    elif request.param == "postgres":
        yield start_server("--store", request.getfixturevalue("start_postgres")().url, "--migrate").client()
    elif request.param == "redis":
        yield start_server("--store", request.getfixturevalue("start_redis")().url, "--shards", "3").client()
    else:
        yield start_server("--sync", "never", "--shards", "3").client()


JOB = "/v1/topics/t/jobs/a"


def take_one(client):
    (job,) = client.take("t", max=1, wait="5s")
    return job


def push_after(client, body, query=""):
    answer = client.call("PUT", f"{JOB}?on_conflict=after{query}", body)
    return answer.status, answer.json()["result"], answer.json()["state"]


def test_a_successor_is_shown_while_the_job_runs_and_starts_when_the_lease_ends(client):
    client.push("t", "a", b"old", max_attempts=9)
    lease = take_one(client)["lease"]
    assert push_after(client, b"first", "&delay=1h") == (201, "created", "leased")
    assert push_after(client, b"second") == (201, "replaced", "leased")
    job = client.good("GET", JOB)
    assert (job["state"], job["body"]) == ("leased", "old") and set(job["next"]) == {"due_at"}
    assert "next" in client.good("GET", "/v1/topics/t/jobs")["jobs"][0]
    counts = client.good("GET", "/v1/topics/t")["counts"]
    assert (counts["leased"], counts["ready"], counts["delayed"]) == (1, 0, 0)
    client.answer("nack", [lease], delay="1h")
    job = take_one(client)
    assert (job["id"], job["body"], job["attempt"]) == ("a", "second", 1)
    assert "next" not in client.good("GET", JOB)


def test_without_a_holder_after_replaces_the_job(client):
    assert push_after(client, b"new") == (201, "created", "ready")
    assert push_after(client, b"newer", "&delay=1h") == (201, "replaced", "delayed")


def test_a_cancel_removes_the_successor(client):
    client.push("t", "a", b"old")
    lease = take_one(client)["lease"]
    push_after(client, b"next")
    refused = client.call("DELETE", JOB)
    assert (refused.status, refused.json()["code"]) == (409, "leased")
    assert "next" not in client.good("GET", JOB)
    push_after(client, b"next")
    assert client.call("DELETE", f"{JOB}?request=true").status == 202
    job = client.good("GET", JOB)
    assert job["cancel_requested"] is True and "next" not in job
    client.answer("return", [lease])
    assert client.call("GET", JOB).status == 404


@pytest.mark.parametrize("ndjson", [False, True])
def test_items_of_a_batch_may_be_successors(client, ndjson):
    client.push("t", "a", b"old")
    lease = take_one(client)["lease"]
    items = [{"topic": "t", "id": "a", "on_conflict": "after", "body": text} for text in ("first", "second")]
    assert [one["result"] for one in client.push_batch(items, ndjson)] == ["created", "replaced"]
    assert client.answer("ack", [lease])[0]["result"] == "ok"
    assert client.good("GET", JOB)["body"] == "second"


def test_no_topic_has_after_as_its_setting(client):
    answer = client.call("PUT", "/v1/topics/t?on_conflict=after")
    assert (answer.status, answer.json()["code"]) == (400, "bad_option")


def test_the_command_line_pushes_a_successor_and_shows_it(server):
    server.client().push("t", "a", b"old")
    take_one(server.client())
    pushed = server.cli("push", "t", "a", "--body", "new", "--on-conflict", "after", "--delay", "1h")
    assert pushed.returncode == 0, pushed.stderr
    assert b"successor due" in server.cli("get", "t", "a").stdout
