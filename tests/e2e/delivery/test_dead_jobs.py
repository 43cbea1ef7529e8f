"""Dead jobs: how they came there, which of them go round again or are dropped, and with which body."""

import json
import os
import re
import subprocess
import threading
import time

import pytest
from client import Lost, Refused
from server import BINARY, eventually, meanwhile
from test_cli import NOTHING, OK, REFUSED, USAGE, Worker, script, tarry  # noqa: F401


@pytest.fixture(params=["one shard", pytest.param("three shards", marks=pytest.mark.thorough("contract.local_3 has several shards")), "redis"])
def any_client(request, start_server, start_redis):
    if request.param == "redis":
        return start_server("--store", f"redis://127.0.0.1:{start_redis().port}/0", "--shards", "2").client()
    return start_server("--sync", "never", "--wal-file", "16MiB", "--shards", "3" if request.param.startswith("three") else "1").client()


def die(client, topic, errors):
    """Jobs by id that are dead with this last error."""
    client.push_batch([{"topic": topic, "id": ident} for ident in errors])
    taken = []
    while len(taken) < len(errors):
        taken += client.take(topic, max=1000, wait="5s")
    leases = [{"lease": job["lease"], "error": errors[job["id"]], "final": True} for job in taken]
    answered = client.good("POST", "/v1/nack", json.dumps({"leases": leases}).encode())["results"]
    assert {one["state"] for one in answered} == {"dead"}


def states(client, topic):
    found, cursor = {}, None
    while True:
        page = client.list(topic, limit=1000, cursor=cursor)
        found.update({job["id"]: job["state"] for job in page["jobs"]})
        cursor = page["cursor"]
        if not cursor:
            return found


# ---- how they came there ----


def test_history_has_the_outcome_of_each_attempt(any_client):
    client = any_client
    client.push("t", "a", backoff="fixed:1ms")
    client.nack(client.take("t", wait="5s")[0]["lease"], error="first é", delay="1ms")
    client.take("t", wait="5s", lease_for="100ms")
    lease = client.take("t", wait="5s")[0]["lease"]
    time.sleep(0.03)
    client.nack(lease, error="x" * 300, final="true")
    job = client.get("t", "a")
    assert job["state"] == "dead" and job["attempt"] == 3
    assert [(one["attempt"], one["outcome"], one.get("error", "")[:10]) for one in job["history"]] == [
        (1, "failed", "first é"), (2, "lease_ended", job["history"][1].get("error", "")[:10]), (3, "refused", "x" * 10)]
    assert len(job["history"][2]["error"]) == 100 and len(job["last_error"]) == 256
    assert job["history"][1]["duration_ms"] >= 100 and 20 <= job["history"][2]["duration_ms"] < 10_000
    assert [one["at"] for one in job["history"]] == sorted(one["at"] for one in job["history"])
    assert client.list("t", state="dead")["jobs"][0]["history"] == job["history"]


def test_a_final_failure_leaves_no_attempt(client):
    client.put_topic("t", max_attempts=9)
    client.push("t", "a")
    assert client.nack(client.take("t")[0]["lease"], final="true", error="no use")[0]["state"] == "dead"
    job = client.get("t", "a")
    assert (job["state"], job["attempt"], job["last_error"]) == ("dead", 1, "no use")
    topic = client.topic("t")
    assert topic["totals"]["died"] == 1 and topic["dead_bytes"] > 0
    assert re.search(r'^tarry_dead_bytes\{topic="t"\} [1-9]', client.call("GET", "/metrics").body.decode(), re.M)
    client.topic_verb("t", "purge", state="dead")
    assert client.topic("t")["dead_bytes"] == 0


# ---- by a filter ----


def test_a_filter_picks_on_every_store(any_client):
    client = any_client
    errors = {f"{'odd' if n % 2 else 'even'}-{n}": "timed out after 10s" if n % 3 == 0 else f"http {500 + n % 3}" for n in range(700)}
    die(client, "t", errors)
    timeouts = {ident for ident, error in errors.items() if "timed out" in error}

    answer = client.topic_verb("t", "redrive", error="timed out", dry_run="true")
    assert (answer["jobs"], answer["seen"], answer["complete"], answer["dry_run"]) == (len(timeouts), 700, True, True)
    assert client.topic("t")["counts"]["dead"] == 700, "nothing changed"

    answer = client.topic_verb("t", "redrive", error="timed out", id_prefix="odd-")
    wanted = {ident for ident in timeouts if ident.startswith("odd")}
    assert (answer["jobs"], answer["complete"]) == (len(wanted), True)
    assert {ident for ident, state in states(client, "t").items() if state == "ready"} == wanted

    answer = client.topic_verb("t", "purge", state="dead", error="http 501", max=50)
    assert (answer["jobs"], answer["complete"]) == (50, False)
    answer = client.topic_verb("t", "purge", state="dead", error="http 501")
    gone = {ident for ident, error in errors.items() if error == "http 501"}
    assert answer["jobs"] == len(gone) - 50
    assert set(states(client, "t")) == set(errors) - gone
    assert client.topic("t")["counts"]["ready"] == len(wanted), "what is not dead stays"
    assert client.topic_verb("t", "redrive", error="no such thing")["jobs"] == 0
    with pytest.raises(Refused, match="not_found"):
        client.topic_verb("nobody", "redrive", error="x")


def test_a_filter_goes_by_the_time_of_death(client):
    die(client, "t", {"early": "x"})
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    die(client, "t", {"late": "x"})
    client.push_batch([{"topic": "t", "id": "imported", "state": "dead", "attempt": 3, "error": "x"}])
    for options, jobs in (({"died_before": between}, 1), ({"died_after": between}, 1), ({"died_after": "1980-01-01T00:00:00Z"}, 2)):
        assert client.topic_verb("t", "redrive", dry_run="true", **options)["jobs"] == jobs, options
    client.topic_verb("t", "redrive", died_before=between)
    assert states(client, "t") == {"early": "ready", "late": "dead", "imported": "dead"}


def test_jobs_that_die_again_are_not_redriven_twice(server):
    client, consumer = server.client(), server.client()
    client.put_topic("t", max_attempts=1)
    die(client, "t", {f"j{n}": "again" for n in range(1000)})

    def fail_at_once(over):
        while not over.is_set():
            jobs = consumer.take("t", max=1000, wait="20ms")
            if jobs:
                consumer.good("POST", "/v1/nack", json.dumps({"leases": [job["lease"] for job in jobs], "error": "again"}).encode())

    with meanwhile(fail_at_once):
        answer = client.topic_verb("t", "redrive", error="again")
    assert answer["jobs"] == 1000 and client.topic("t")["totals"]["redriven"] == 1000


def test_a_sweep_ends_with_its_client(server):
    client = server.client()
    client.push_batch([{"topic": "t", "id": f"j{n}", "state": "dead", "error": "x"} for n in range(1000)])
    for batch in range(1, 20):
        client.push_batch([{"topic": "t", "id": f"j{batch}-{n}", "state": "dead", "error": "x"} for n in range(1000)])
    hasty = server.client(timeout=0.02)
    with pytest.raises((TimeoutError, Lost)):
        hasty.topic_verb("t", "redrive", error="x")
    redriven = eventually(lambda: client.topic("t")["totals"]["redriven"])
    eventually(lambda: still(client))
    redriven = client.topic("t")["totals"]["redriven"]
    assert redriven < 20_000
    answer = client.topic_verb("t", "redrive", error="x")
    assert answer["jobs"] == 20_000 - redriven and answer["complete"]


def test_a_stopping_server_ends_a_sweep_with_its_count(server):
    client, answer = server.client(), []
    for batch in range(20):
        client.push_batch([{"topic": "t", "id": f"j{batch}-{n}", "state": "dead", "error": "x"} for n in range(1000)])
    asking = threading.Thread(target=lambda: answer.append(server.client().topic_verb("t", "redrive", error="x")))
    asking.start()
    eventually(lambda: client.topic("t")["totals"]["redriven"])
    server.terminate()
    asking.join()
    assert answer[0]["complete"] is False and 0 < answer[0]["jobs"] < 20_000
    assert server.start().client().topic("t")["totals"]["redriven"] == answer[0]["jobs"]


def still(client):
    before = client.topic("t")["totals"]["redriven"]
    time.sleep(0.1)
    return before == client.topic("t")["totals"]["redriven"]


# ---- another body ----


def test_a_push_under_its_id_takes_the_place_of_a_dead_job(any_client):
    client = any_client
    die(client, "t", {"a": "bad body"})
    assert client.push("t", "a", b"better")["result"] == "replaced"
    job = client.take("t", wait="5s")[0]
    assert (job["attempt"], job["body"]) == (1, "better")
    assert "history" not in client.get("t", "a")


def test_a_body_is_had_byte_for_byte(client):
    client.push("t", "a", b'{ "n": 1.0 }', "application/json")
    assert client.good("GET", "/v1/topics/t/jobs/a?body=base64")["body_base64"] == "eyAibiI6IDEuMCB9"
    found = client.good("GET", "/v1/topics/t/jobs/a?body=false")
    assert "body" not in found and "body_base64" not in found
    assert client.get("t", "a")["body"] == {"n": 1}


# ---- from the command line ----


def test_redrive_with_another_body(tarry, tmp_path):  # noqa: F811
    client = tarry.server.client()
    client.push("t", "a", b'{ "total": 1.0 }', "application/vnd.a+json", meta={"who": "mé"}, priority=7, lease_for="3m", max_attempts=1, ttl="1h")
    client.push("t", "live", delay="1h")
    client.nack(client.take("t")[0]["lease"], error="total is wrong")
    before = client.get("t", "a")
    editor = script(tmp_path / "editor", 'grep -q "1.0" "$2" && sed -i "s/1.0/2.0/" "$2" && test "$1" = --wait\n')
    environment = {"EDITOR": f"{editor} --wait", "TMPDIR": str(tmp_path)}
    out = with_editor(tarry, environment, "redrive", "t", "a", "--edit")
    assert out == (OK, "redriven a with another body\n", "")
    assert client.good("GET", "/v1/topics/t/jobs/a?body=base64")["body_base64"] == "eyAidG90YWwiOiAyLjAgfQ=="
    after = client.get("t", "a")
    assert (after["state"], after["attempt"]) == ("ready", 0)
    for kept in ("content_type", "meta", "priority", "lease_for", "max_attempts", "ttl"):
        assert after[kept] == before[kept], kept
    assert not [name for name in tmp_path.iterdir() if name.name.startswith("tarry-")], "nothing is left lying about"

    client.nack(client.take("t")[0]["lease"])
    code, _, err = with_editor(tarry, {"EDITOR": "true", "TMPDIR": str(tmp_path)}, "redrive", "t", "a", "--edit")
    assert code == REFUSED and "the body was not changed" in err
    code, _, err = with_editor(tarry, {"EDITOR": "false", "TMPDIR": str(tmp_path)}, "redrive", "t", "a", "--edit")
    assert code == REFUSED and "the editor 'false' failed" in err
    assert client.get("t", "a")["state"] == "dead"
    assert tarry("redrive", "t", "a", "--file", "-", "--force", stdin=b"\x00\xff") == "redriven a with another body\n"
    assert client.get("t", "a")["body_base64"] == "AP8="

    tarry("redrive", "t", "live", "--body", "x", code=REFUSED)
    tarry("redrive", "t", "nobody", "--body", "x", code=NOTHING)
    tarry("redrive", "t", "--body", "x", code=USAGE)
    tarry("redrive", "t", "a", "--body", "x", "--edit", code=USAGE)
    tarry("redrive", "t", "a", "--error", "x", code=USAGE)


def with_editor(tarry, environment, *arguments):  # noqa: F811
    ended = subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, check=False, timeout=30, stdin=subprocess.DEVNULL,
                           env={**{name: value for name, value in os.environ.items() if name != "VISUAL"}, "TARRY_URL": tarry.server.url, **environment})
    assert "Sanitizer" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


def test_the_editor_inherits_only_the_standard_descriptors(tarry, tmp_path):  # noqa: F811
    die(tarry.server.client(), "t", {"a": "refused"})
    editor = script(tmp_path / "editor", f'ls -l /proc/$$/fd > {tmp_path}/open; echo changed > "$1"\n')
    with_editor(tarry, {"EDITOR": str(editor), "TMPDIR": str(tmp_path)}, "redrive", "t", "a", "--edit")
    assert "socket:" not in (tmp_path / "open").read_text(encoding="utf-8")


def test_redrive_and_purge_by_a_filter_from_the_command_line(tarry):  # noqa: F811
    client = tarry.server.client()
    die(client, "t", {"a": "http 500", "b": "http 502", "c": "timed out"})
    assert tarry("redrive", "t", "--error", "http", "--dry-run") == "2 jobs would be redriven\n"
    assert tarry("redrive", "t", "--error", "http 500") == "redriven 1\n"
    tarry("purge", "t", "--error", "timed", code=USAGE)
    assert tarry("purge", "t", "--error", "timed", "--dry-run") == "1 job would be purged\n"
    assert tarry("purge", "t", "--id-prefix", "c", "--yes") == "purged 1\n"
    assert states(client, "t") == {"a": "ready", "b": "dead"}
    assert json.loads(tarry("purge", "t", "--error", "x", "--yes", "--json")) == {
        "topic": "t", "result": "ok", "jobs": 0, "seen": 1, "complete": True}
    client.push("t", "live", delay="1h")
    assert tarry("purge", "t", "--dry-run") == "3 jobs would be purged\n"
    tarry("purge", "t", "--max", "1", "--yes", code=REFUSED)
    assert tarry("purge", "t", "--state", "dead", "--dry-run") == "1 job would be purged\n"
    assert tarry("redrive", "t") == "redriven 1\n"


def test_get_shows_the_history(tarry):  # noqa: F811
    client = tarry.server.client()
    client.push("t", "a")
    client.nack(client.take("t")[0]["lease"], error="http 500", delay="0")
    lease = json.loads(tarry("take", "t", "--wait", "5s", "--json"))["jobs"][0]["lease"]
    assert tarry("nack", lease, "--final", "--error", "gone\x1b[31m") == "nacked 1\n"
    out = tarry("get", "t", "a")
    assert re.search(r"^history       attempt 1, \S+ \S+, failed after \d+ms: http 500$", out, re.M), out
    assert re.search(r"^              attempt 2, \S+ \S+, refused after \S+: gone\?\[31m$", out, re.M), out
    tarry("nack", lease, "--final", "--delay", "1s", code=REFUSED)


def test_work_makes_a_job_dead_if_the_command_requests_it(server, tmp_path):
    client = server.client()
    command = script(tmp_path / "do", "exit 65\n")
    worker = Worker(server, "t", "--", command)
    client.push("t", "a")
    eventually(lambda: client.topic("t")["counts"]["dead"] == 1)
    job = client.get("t", "a")
    assert (job["attempt"], job["last_error"], job["history"][0]["outcome"]) == (1, "exit 65", "refused")
    _, err = worker.stop()
    assert "nacked t/a, exit 65, now dead" in err
