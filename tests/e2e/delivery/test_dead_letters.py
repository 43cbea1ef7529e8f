"""Dead jobs with `dead_letter`: forwarded, dropped beyond a limit, reported by alerts; also over crashes and several servers."""

import json
import pathlib
import re
import stat
import time

import pytest
from server import eventually, slack, together

@pytest.fixture
def server(start_delivering):
    return start_delivering()


def die(client, topic, *idents, body=b"x", error="broken", **options):
    """Pushes jobs and lets their only attempt fail."""
    for ident in idents:
        client.push(topic, ident, body, max_attempts=1, **options)
    left = len(idents)
    while left:
        jobs = client.take(topic, max=min(left, 100))
        assert jobs
        client.nack(*[job["lease"] for job in jobs], error=error)
        left -= len(jobs)


def counts(client, topic):
    try:
        return client.topic(topic)["counts"]
    except Exception as fault:
        assert getattr(fault, "status", 0) == 404, fault
        return {"dead": 0, "ready": 0, "delayed": 0}


def figure(client, name, **labels):
    page = client.call("GET", "/metrics").body.decode()
    wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
    found = re.search(rf"^{name}{{{wanted}}} (\d+)$", page, re.M)
    return int(found.group(1)) if found else 0


def alerts(endpoint):
    return [json.loads(call.body) for call in list(endpoint.calls)]


# ---- to another topic ----

def test_a_dead_job_goes_to_the_topic_that_is_named(client):
    client.put_topic("orders", dead_letter={"to": "orders.dead"})
    die(client, "orders", "o-1", body=b"\x00body\xff", meta={"kind": "gold"}, content_type="application/x-own", error="no stock")
    eventually(lambda: counts(client, "orders.dead")["ready"] == 1)
    eventually(lambda: counts(client, "orders")["dead"] == 0)
    [job] = client.take("orders.dead")
    assert job["id"] == "o-1" and job["content_type"] == "application/x-own" and job["attempt"] == 1
    assert job["body_base64"] == "AGJvZHn/"
    meta = job["meta"]
    assert meta["kind"] == "gold" and meta["dead-topic"] == "orders" and meta["dead-attempt"] == "1"
    assert meta["dead-error"] == "no stock" and meta["dead-delivery"].startswith("orders/")
    assert eventually(lambda: figure(client, "tarry_dead_forwarded_total", topic="orders")) == 1


def test_without_a_policy_file_only_outgoing_rules_are_rejected(start_server):
    client = start_server().client()
    client.put_topic("orders", dead_letter={"to": "orders.dead"})
    die(client, "orders", "o-1")
    eventually(lambda: counts(client, "orders.dead")["ready"] == 1)
    client.put_topic("few", dead_letter={"keep": {"count": 1}})
    die(client, "few", "a", "b")
    eventually(lambda: counts(client, "few")["dead"] == 1)
    for rule in ({"to": "https://a.example/"}, {"alert": {"to": "https://a.example/"}}, {"alert": {"command": "pager"}}):
        reply = client.call("PUT", "/v1/topics/out", json.dumps({"dead_letter": rule}).encode(), {"Content-Type": "application/json"})
        assert reply.status == 400, rule


def test_a_job_of_the_same_id_there_is_not_touched(client):
    client.put_topic("orders", dead_letter={"to": "parking"})
    client.push("parking", "o-1", b"was here before", delay="1h")
    die(client, "orders", "o-1", body=b"died")
    eventually(lambda: counts(client, "orders")["dead"] == 0)
    assert client.get("parking", "o-1")["body"] == "was here before"
    [job] = client.take("parking")
    assert job["id"].startswith("o-1~") and job["body"] == "died"


def test_the_same_id_dying_twice_is_two_dead_letters(client):
    client.put_topic("orders", dead_letter={"to": "parking"})
    for body in (b"first", b"second", b"third"):
        die(client, "orders", "o-1", body=body)
        eventually(lambda: counts(client, "orders")["dead"] == 0)
    assert sorted(job["body"] for job in client.take("parking", max=10)) == ["first", "second", "third"]


def test_a_job_of_the_same_id_that_has_finished_there_is_another_one(client):
    client.put_topic("parking", dedup_window="1h")
    client.put_topic("orders", dead_letter={"to": "parking"})
    client.push("parking", "o-1", b"dealt with")
    client.ack(client.take("parking")[0]["lease"])
    die(client, "orders", "o-1", body=b"died")
    eventually(lambda: counts(client, "orders")["dead"] == 0)
    [job] = client.take("parking")
    assert job["id"].startswith("o-1~") and job["body"] == "died"


def test_jobs_that_are_dead_already_follow_when_the_rule_is_set(client):
    die(client, "old", *[f"j-{n}" for n in range(40)])
    assert counts(client, "old")["dead"] == 40
    client.put_topic("old", dead_letter={"to": "old.dead"})
    eventually(lambda: counts(client, "old.dead")["ready"] == 40)
    assert counts(client, "old")["dead"] == 0


def test_a_ring_of_topics_ends(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    endpoint.answer = lambda call: 410
    for name, to in (("a", "b"), ("b", "c"), ("c", "a")):
        client.put_topic(name, deliver={"to": endpoint.url}, dead_letter={"to": to})
    for n in range(3):
        client.push("a", f"j-{n}")
    eventually(lambda: figure(client, "tarry_dead_ringed", topic="c") == 3, 60)
    assert len(endpoint.calls) == 3 * 9, "the first topic, and eight that it was forwarded to"
    assert counts(client, "c")["dead"] == 3 and client.topic("a")["counts"]["dead"] == 0
    assert re.search(r'"dead letters form a loop" topic=c jobs=[123] ', server.log())
    client.put_topic("c", deliver={"to": endpoint.url}, dead_letter={"to": "a", "keep": {"count": 1}})
    eventually(lambda: counts(client, "c")["dead"] == 1)


def test_an_oversized_dead_letter_does_not_delay_others(start_delivering):
    server = start_delivering()
    die(server.client(), "mixed", "big", body=b"x" * 100_000)
    die(server.client(), "mixed", "small")
    server.restart(flags=[*server.flags, "--max-body", "64KiB"])
    client = server.client()
    client.put_topic("mixed", dead_letter={"to": "parking"})
    eventually(lambda: counts(client, "parking")["ready"] == 1)
    eventually(lambda: [job["id"] for job in client.list("mixed", state="dead")["jobs"]] == ["big"])
    assert "dead letter stays" in server.log()


def test_expired_jobs_are_dead_lettered(client):
    client.put_topic("brief", dead_letter_expired=True, dead_letter={"to": "brief.dead"})
    client.push("brief", "late", ttl="10ms")
    eventually(lambda: counts(client, "brief.dead")["ready"] == 1)


def test_a_kill_in_the_middle_loses_nothing_and_doubles_nothing(start_delivering):
    server = start_delivering()
    client = server.client()
    die(client, "many", *[f"j-{n}" for n in range(600)])
    client.put_topic("many", dead_letter={"to": "many.dead"})
    for _ in range(3):
        eventually(lambda: counts(client, "many.dead")["ready"] > 0)
        time.sleep(0.02)
        server.restart("kill")
        client = server.client()
    eventually(lambda: counts(client, "many")["dead"] == 0, seconds=30)
    idents = []
    while jobs := client.take("many.dead", max=100):
        idents += [job["id"] for job in jobs]
        client.ack(*[job["lease"] for job in jobs])
    assert sorted(idents) == sorted(f"j-{n}" for n in range(600))


# ---- no more than is to be kept ----

def test_beyond_the_count_the_oldest_go(client):
    client.put_topic("few", dead_letter={"keep": {"count": 5}})
    for n in range(12):
        die(client, "few", f"j-{n:02}")
        time.sleep(0.003)
    eventually(lambda: counts(client, "few")["dead"] == 5)
    assert [job["id"] for job in client.list("few", state="dead")["jobs"]] == [f"j-{n:02}" for n in range(7, 12)]
    assert figure(client, "tarry_dead_dropped_total", topic="few", reason="count") == 7


def test_beyond_the_bytes_the_oldest_go(client):
    client.put_topic("big", dead_letter={"keep": {"bytes": "100KiB"}})
    for n in range(30):
        die(client, "big", f"j-{n:02}", body=b"x" * 10_000)
    eventually(lambda: client.topic("big")["dead_bytes"] <= 100 * 1024)
    time.sleep(1.2)
    left = [job["id"] for job in client.list("big", state="dead")["jobs"]]
    assert left == [f"j-{n:02}" for n in range(30 - len(left), 30)] and len(left) in (9, 10), left
    assert figure(client, "tarry_dead_dropped_total", topic="big", reason="bytes") == 30 - len(left)


def test_the_old_go_when_their_time_has_come_and_not_before(client):
    client.put_topic("old", dead_letter={"keep": {"age": "2s"}})
    died = time.monotonic()
    die(client, "old", "first")
    time.sleep(1)
    die(client, "old", "second")
    eventually(lambda: counts(client, "old")["dead"] == 1)
    assert time.monotonic() - died >= 2 and client.get("old", "second")["state"] == "dead"
    eventually(lambda: counts(client, "old")["dead"] == 0)
    assert time.monotonic() - died >= 3
    assert figure(client, "tarry_dead_dropped_total", topic="old", reason="age") == 2


def test_jobs_to_be_forwarded_are_not_dropped_by_the_limit(server):
    client = server.client()
    client.put_topic("both", max_attempts=1, dead_letter={"to": "both.dead", "keep": {"count": 1}})

    def go_on_dying(thread):
        own, until, pushed = server.client(), time.monotonic() + 4, 0
        while time.monotonic() < until:
            for n in range(pushed, pushed + 10):
                own.push("both", f"{thread}-{n}", b"x")
            pushed += 10
            if jobs := own.take("both", max=100):
                own.nack(*[job["lease"] for job in jobs])
        return pushed

    died = sum(together(*[lambda thread=thread: go_on_dying(thread) for thread in range(3)]))
    while jobs := client.take("both", max=100):
        client.nack(*[job["lease"] for job in jobs])
    eventually(lambda: counts(client, "both")["dead"] == 0)
    assert counts(client, "both.dead")["ready"] == died
    assert figure(client, "tarry_dead_dropped_total", topic="both", reason="count") == 0


# ---- alerts ----

def test_an_alert_comes_at_most_once_in_its_time_with_counts(client, endpoint):
    client.put_topic("noisy", dead_letter={"alert": {"to": endpoint.url + "/alert", "every": "2s"}})
    die(client, "noisy", "a", "b", error="http 500")
    eventually(lambda: endpoint.calls)
    die(client, "noisy", "c", "d", "e", error="no stock")
    eventually(lambda: len(endpoint.calls) == 2)
    first, second = alerts(endpoint)
    assert endpoint.calls[1].at - endpoint.calls[0].at >= 1.9
    assert (first["type"], first["topic"]) == ("tarry.dead_letters", "noisy")
    assert first["died"] + second["died"] == 5 and second["dead"] == 5 and second["since"] >= first["at"][:19]
    assert {error["error"]: error["jobs"] for error in second["errors"]} == {"http 500": 2, "no stock": 3}
    time.sleep(2.5)
    assert len(endpoint.calls) == 2, "no job died since: no second alert"
    assert figure(client, "tarry_alerts_total", topic="noisy") == 2


def test_an_alert_is_not_forgotten_nor_repeated_over_a_restart(start_delivering, endpoint):
    server = start_delivering()
    client = server.client()
    client.put_topic("noisy", dead_letter={"alert": {"to": endpoint.url, "every": "1h"}})
    endpoint.answer = lambda call: 500
    die(client, "noisy", "a")
    eventually(lambda: counts(client, "tarry.callbacks").get("retrying"))
    before = len(endpoint.calls)
    endpoint.answer = lambda call: 200
    server.restart("kill")
    eventually(lambda: len(endpoint.calls) > before)
    server.restart()
    die(server.client(), "noisy", "b")
    time.sleep(1.5)
    assert {body["died"] for body in alerts(endpoint)} == {1}, "the hour is not over"


def test_the_first_death_after_a_move_to_another_store_raises_an_alert(start_delivering, endpoint):
    """The note of the last alert moves along, the sums of the topic do not."""
    old, new = start_delivering().client(), start_delivering().client()
    old.put_topic("noisy", dead_letter={"alert": {"to": endpoint.url + "/old", "every": "1s"}})
    die(old, "noisy", "a", "b", "c")
    notes = eventually(lambda: [job for job in old.list("tarry.dead", body="true")["jobs"] if '"died":3' in json.dumps(job["body"], separators=(",", ":"))])
    new.put_topic("noisy", dead_letter={"alert": {"to": endpoint.url + "/new", "every": "1s"}})
    die(new, "noisy", "d")
    eventually(lambda: '"died": 1' in json.dumps(new.list("tarry.dead", body="true")))  # nothing is under way any more
    note = {"topic": "tarry.dead", "id": notes[0]["id"], "body": notes[0]["body"], "delay": "1000d"}
    (moved,) = new.call("POST", "/v1/jobs?restore=true", json.dumps([note]).encode(), {"Content-Type": "application/json"}).json()["results"]
    assert moved["result"] in ("created", "replaced"), moved
    die(new, "noisy", "e")
    eventually(lambda: [json.loads(call.body)["ids"] for call in list(endpoint.calls) if call.path == "/new"] == [["d"], ["d", "e"]])


def test_an_alert_may_be_a_command_of_the_policy_file(start_delivering, tmp_path):
    reported, program = tmp_path / "alerts", tmp_path / "pager"
    program.write_text(f"#!/bin/sh\ncat >{reported}.new && mv {reported}.new {reported}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    client = start_delivering(policy=[f"command = pager {program}"]).client()
    client.put_topic("noisy", dead_letter={"alert": {"command": "pager"}})
    die(client, "noisy", "a")
    eventually(reported.exists)
    assert json.loads(reported.read_text())["died"] == 1
    assert eventually(lambda: figure(client, "tarry_alerts_total", topic="noisy")) == 1


def test_a_command_that_fails_is_counted_and_tried_again(start_delivering, tmp_path):
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o700)
    server = start_delivering(policy=[f"command = pager {program}"])
    client = server.client()
    client.put_topic("noisy", dead_letter={"to": "parking", "alert": {"command": "pager"}})
    die(client, "noisy", "a")
    eventually(lambda: figure(client, "tarry_alert_failures_total", topic="noisy"))
    eventually(lambda: counts(client, "parking")["ready"] == 1, seconds=5)
    assert re.search(r'"alert failed" topic=noisy ', server.log()), "the rest of the pass goes on"
    assert re.search(r'"alert command failed" program=\S*/pager exit_code=3 ', server.log())


def test_a_command_that_fails_is_not_run_for_each_job_that_dies_meanwhile(start_delivering, tmp_path):
    program, runs = tmp_path / "pager", tmp_path / "runs"
    program.write_text(f"#!/bin/sh\necho >>{runs}\nexit 1\n")
    program.chmod(0o700)
    client = start_delivering(policy=[f"command = pager {program}"]).client()
    client.put_topic("noisy", dead_letter={"keep": {"count": 1}, "alert": {"command": "pager"}})
    for n in range(8):
        die(client, "noisy", f"j-{n}")
        time.sleep(0.4)
    eventually(lambda: counts(client, "noisy")["dead"] == 1)
    assert len(runs.read_text()) == 1


def test_hanging_commands_delay_no_other_alert(start_delivering, tmp_path):
    slow, quick, reported = tmp_path / "slow", tmp_path / "quick", tmp_path / "alerts"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    quick.write_text(f"#!/bin/sh\nexec touch {reported}\n")
    slow.chmod(0o700)
    quick.chmod(0o700)
    client = start_delivering(policy=[f"command = slow {slow}", f"command = quick {quick}"]).client()
    for n in range(30):
        client.put_topic(f"slow-{n}", dead_letter={"to": "parking", "alert": {"command": "slow"}})
        die(client, f"slow-{n}", f"s-{n}")
    began = time.monotonic()
    client.put_topic("orders", dead_letter={"to": "parking", "alert": {"command": "quick"}})
    for n in range(3):
        die(client, "orders", f"o-{n}")
    eventually(lambda: counts(client, "parking")["ready"] == 33)
    eventually(reported.exists)
    assert time.monotonic() - began < 10 * slack()


def test_alerts_without_room_wait_quietly(start_delivering, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o700)
    client = start_delivering(policy=[f"command = slow {slow}"]).client()
    for n in range(200):
        client.put_topic(f"slow-{n}", dead_letter={"alert": {"command": "slow"}})
        die(client, f"slow-{n}", "s")
    takes = lambda: client.topic("tarry.dead")["totals"]["delivered"]
    eventually(lambda: takes() >= 200)
    time.sleep(2) # each has found no room once
    before = takes()
    time.sleep(3)
    assert takes() - before < 100


def test_a_command_has_no_secret_of_the_server_in_its_environment(start_delivering, tmp_path):
    reported, program = tmp_path / "alerts", tmp_path / "pager"
    program.write_text(f"#!/bin/sh\nenv >{reported}.new && mv {reported}.new {reported}\n")
    program.chmod(0o700)
    client = start_delivering(policy=[f"command = pager {program}"], env={"TARRY_LOG_LEVEL": "debug", "REDIS_PASSWORD": "hunter2"}).client()
    client.put_topic("noisy", dead_letter={"alert": {"command": "pager", "every": "1h"}})
    die(client, "noisy", "a")
    eventually(reported.exists)
    found = dict(line.split("=", 1) for line in reported.read_text().splitlines())
    assert set(found) <= {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_", "OLDPWD", "TARRY_ALERT_TOPIC", "TARRY_ALERT_DIED", "TARRY_ALERT_DEAD"}
    assert (found["TARRY_ALERT_TOPIC"], found["TARRY_ALERT_DIED"], found["TARRY_ALERT_DEAD"]) == ("noisy", "1", "1")


def test_a_command_ends_with_its_children_and_has_no_descriptor_of_the_server(start_delivering, tmp_path, endpoint):
    program, reported = tmp_path / "pager", tmp_path / "alerts"
    program.write_text(f"#!/bin/sh\nsleep 60 &\nset -- /proc/self/fd/*\necho $! $* >{reported}.new && mv {reported}.new {reported}\nwait\n")
    program.chmod(0o700)
    server = start_delivering(policy=[f"command = pager {program}"])
    client = server.client()
    client.put_topic("web", deliver={"to": endpoint.url})
    client.push("web", "one")
    eventually(lambda: endpoint.calls)
    client.put_topic("noisy", dead_letter={"alert": {"command": "pager"}})
    die(client, "noisy", "a")
    eventually(reported.exists)
    pid, *descriptors = reported.read_text().split()
    assert pathlib.Path(f"/proc/{pid}").exists()
    server.terminate()
    eventually(lambda: not pathlib.Path(f"/proc/{pid}").exists() or "(zombie)" in pathlib.Path(f"/proc/{pid}/status").read_text())
    assert {path.rsplit("/", 1)[1] for path in descriptors} <= {"0", "1", "2", "3", "10"}, "3 and 10: the shell's own"


# ---- to a URL ----

def test_a_dead_job_may_go_to_a_url(client, endpoint):
    client.put_topic("orders", dead_letter={"to": endpoint.url + "/graves"})
    die(client, "orders", "o-1", body=b"the body", meta={"kind": "gold"}, content_type="text/x-own")
    eventually(lambda: endpoint.calls)
    headers = endpoint.calls[0].headers
    assert endpoint.calls[0].body == b"the body" and headers["content-type"] == "text/x-own" and headers["tarry-meta-kind"] == "gold"
    assert headers["tarry-meta-dead-topic"] == "orders" and headers["tarry-id"] == "o-1"
    eventually(lambda: counts(client, "orders")["dead"] == 0)


def test_the_topic_of_callbacks_is_restored_after_a_delete_or_change(client, endpoint):
    client.put_topic("orders", dead_letter={"to": endpoint.url})
    eventually(lambda: counts(client, "tarry.callbacks").get("leased") == 0)
    client.call("DELETE", "/v1/topics/tarry.callbacks")
    time.sleep(0.2)
    die(client, "orders", "o-1")
    eventually(lambda: len(endpoint.calls) == 1)
    client.put_topic("tarry.callbacks", max_attempts=3, dead_letter={"keep": {"count": 9}})
    time.sleep(0.2)
    die(client, "orders", "o-2")
    eventually(lambda: len(endpoint.calls) == 2)
    settings = client.topic("tarry.callbacks")["settings"]
    assert settings["max_attempts"] == 3 and settings["dead_letter"] == {"keep": {"count": 9}}


def test_jobs_of_two_topics_with_one_id_both_go_to_their_url(client, endpoint):
    for topic in ("orders", "mails"):
        client.put_topic(topic, dead_letter={"to": f"{endpoint.url}/{topic}"})
        die(client, topic, "42", body=topic.encode())
        eventually(lambda: any(call.body == topic.encode() for call in endpoint.calls))
        eventually(lambda: counts(client, topic)["dead"] == 0)


# ---- what cannot be ----

@pytest.mark.parametrize("rule, text", [
    ({"to": "orders"}, "itself"),
    ({"to": "tarry.dead"}, "reserved"),
    ({"to": "tarry.callbacks"}, "reserved"),
    ({"keep": {"count": 0}}, "from 1"),
    ({"alert": {"to": "http://10.0.0.1/"}}, "allow"),
    ({"alert": {"command": "unknown"}}, "command"),
    ({"to": "amqp://127.0.0.1/"}, "http"),
    ({"to": "http://127.0.0.1/" + "x" * 1100}, "1024"),
    ({"alert": {"to": "http://127.0.0.1/" + "x" * 1100}}, "1024"),
])
def test_a_rule_that_cannot_be_is_refused_with_a_reason(client, rule, text):
    reply = client.call("PUT", "/v1/topics/orders", json.dumps({"dead_letter": rule}).encode(), {"Content-Type": "application/json"})
    assert reply.status == 400 and text in reply.json()["detail"], reply.body
    assert client.call("GET", "/v1/topics/orders").status == 404


def test_the_topic_of_the_work_itself_is_not_delivered(client):
    reply = client.call("PUT", "/v1/topics/tarry.dead", json.dumps({"deliver": {"to": "http://127.0.0.1:1/"}}).encode(), {"Content-Type": "application/json"})
    assert reply.status == 400 and "this topic is reserved" in reply.json()["detail"]


# ---- several servers ----

def test_of_two_servers_one_forwards_and_one_alerts(start_redis, start_delivering, endpoint):
    redis = start_redis()
    servers = [start_delivering("--store", redis.url) for _ in range(2)]
    clients = [server.client() for server in servers]
    clients[0].put_topic("orders", dead_letter={"to": "parking", "alert": {"to": endpoint.url, "every": "1h"}})
    for n in range(60):
        die(clients[n % 2], "orders", f"j-{n}")
    eventually(lambda: counts(clients[0], "parking")["ready"] == 60, seconds=20)
    eventually(lambda: counts(clients[1], "orders")["dead"] == 0, seconds=20)
    eventually(lambda: endpoint.calls)
    time.sleep(1.2)
    assert len(endpoint.calls) == 1
    idents = [job["id"] for job in clients[0].take("parking", max=100)]
    assert sorted(idents) == sorted(f"j-{n}" for n in range(60))
