"""The audit: each administrative call is one event, in the log and in the file, with any content; the calls are those of openapi.yaml."""

import json
import os
import re
import signal
import subprocess

import doors
import pytest
from api import BODIES, CALLS
from client import request_bytes
from conftest import FLAGS
from endpoint import write_policy
from server import BINARY, eventually

ADMINISTRATIVE = [call for call in CALLS if call.scope == "admin"]


@pytest.fixture
def audited(start_server, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = start_server(*FLAGS, "--audit", str(path))
    server.audit = lambda: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    server.audit_path = path
    return server


def audit_lines(server):
    lines = [line for line in server.log().splitlines() if "event=audit" in line]
    return [dict((name, value.strip('"')) for name, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in lines]


def test_every_administrative_call_has_a_name_for_the_audit():
    assert all(call.audit for call in ADMINISTRATIVE)
    assert all(call.scope == "admin" or "/v1/schedules" in call.path for call in CALLS if call.audit)


@pytest.mark.parametrize("call", ADMINISTRATIVE, ids=repr)
def test_each_is_one_event_in_log_and_file(call, audited):
    client = audited.client()
    for n in range(3):
        client.push("orders", str(n), delay="1h")
    backup = client.call("POST", "/v1/backup").json()["id"]
    audited.audit_path.write_bytes(b"")
    before = len(audit_lines(audited))
    connection = audited.connection()
    reply = connection.call(call.method, call.target(id=backup), BODIES.get(call.name, b""))
    events, reported = audited.audit(), audit_lines(audited)[before:]
    assert len(events) == len(reported) == 1, (reply.body, events, reported)
    (event,) = events
    assert event["action"] == reported[0]["action"] == call.audit
    assert event["outcome"] == reported[0]["outcome"] == ("ok" if reply.ok else reply.code), (reply.body, event)
    assert event["peer"] == reported[0]["peer"] == "%s:%s" % connection.socket.getsockname()
    assert event.get("topic") == reported[0].get("topic") == ("orders" if "{topic}" in call.path else None)
    if call.name in ("purge", "deleteTopic"):
        assert event["jobs"] == 3 and reported[0]["jobs"] == "3"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    # So is one that is rejected because of its content.
    mark = "&" if "?" in call.target() else "?"
    assert client.call(call.method, call.target() + mark + "no_such_option=1", BODIES.get(call.name, b"")).status == 400
    assert [(event["action"], event["outcome"]) for event in audited.audit()[1:]] == [(call.audit, "unknown_option")]


def test_other_calls_and_dry_runs_are_not_audited(audited):
    client = audited.client()
    client.push("orders", "1")
    for call in CALLS:
        if not call.audit:
            client.call(call.method, call.target(), b'{"leases":["x"]}' if call.topics == "lease" else b"")
    client.call("POST", "/v1/topics/orders/redrive?id_prefix=o&dry_run=true")
    client.call("POST", "/v1/topics/orders/purge?state=dead&id_prefix=o&dry_run=true")
    assert audited.audit() == [] and audit_lines(audited) == []


@pytest.mark.parametrize("topic", ["a%0Atime=2026%20event=audit%20action=forged", "a%22%7D%0A%7B%22action%22%3A%22forged%22%7D", "orders%00x", "%E2%80%A8%1B%5B2J%FF%C2%85", "%", "x" * 300])
def test_no_text_forges_a_line(topic, audited):
    reply = audited.client().call("DELETE", f"/v1/topics/{topic}")
    assert reply.status == 400
    (event,) = audited.audit()
    assert event["action"] == "topic deleted" and event["topic"] != "orders" and len(event["topic"]) <= 200
    assert len(audit_lines(audited)) == 1
    assert not any(line.startswith(("time=2026 ", '{"action"')) for line in audited.log().splitlines())
    assert b"\x1b" not in audited.log_path.read_bytes() and b"\x1b" not in audited.audit_path.read_bytes()


def test_nothing_secret_is_in_it(audited):
    secret = "whsec_c2VjcmV0LW9mLXRoZS1ib2R5"
    client = audited.client()
    client.call("PUT", "/v1/topics/orders", json.dumps({"max_attempts": secret}).encode())
    client.call("PUT", "/v1/topics/orders", b'{"max_attempts":3}', {"Authorization": "Bearer " + secret, "Cookie": secret})
    client.call("POST", "/v1/topics/orders/deliver-test", secret.encode())
    assert len(audited.audit()) == (2 if doors.ON else 3)  # with authentication, unknown callers are only counted
    assert secret not in audited.audit_path.read_text() and secret not in audited.log()


def test_a_sweep_is_audited_with_its_count_after_a_disconnect(audited):
    client = audited.client()
    client.call("PUT", "/v1/topics/orders?max_attempts=1")
    for n in range(3):
        client.push("orders", f"o-{n}")
    for job in client.take("orders", max=3):
        client.call("POST", f"/v1/nack?lease={job['lease']}")
    connection = audited.connection()
    connection.send(request_bytes("POST", "/v1/topics/orders/redrive"))
    connection.close()
    event = eventually(lambda: len(audited.audit()) == 2 and audited.audit()[1])
    assert (event["action"], event["jobs"], event["outcome"]) == ("topic redriven", 3, "ok")


def test_a_patch_of_settings_is_audited_with_the_values_before_and_after(audited):
    client = audited.client()
    client.call("PUT", "/v1/topics/orders?max_attempts=3&ttl=1h")
    client.call("PATCH", "/v1/topics/orders", b'{"max_attempts":5,"ttl":null,"dedup_window":"10m"}', {"Content-Type": "application/merge-patch+json"})
    client.call("PATCH", "/v1/topics/orders", b'{"max_attempts":5}', {"Content-Type": "application/merge-patch+json"})
    details = [event.get("detail") for event in eventually(lambda: len(audited.audit()) == 3 and audited.audit())]
    assert details[0] is None and not details[2] and sorted(details[1].split("; ")) == ['dedup_window: unset -> "10m"', "max_attempts: 3 -> 5", 'ttl: "1h" -> unset']


def test_the_audit_of_a_target_holds_no_path_query_or_header(start_server, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = start_server(*FLAGS, "--audit", str(path), "--deliver", write_policy(tmp_path / "policy"))
    client = server.client()
    targets = (
        ("PUT", {"deliver": {"to": "http://127.0.0.1:9/first-secret?token=second-secret", "headers": {"x-api-key": "third-secret"}}}),
        ("PATCH", {"deliver": {"to": "http://localhost:7/fourth-secret", "headers": {"x-api-key": "fifth-secret"}}}),
        ("PATCH", {"deliver": {"to": "http://localhost:7/sixth-secret"}}),
        ("PATCH", {"deliver": None}),
    )
    for method, settings in targets:
        media = "application/json" if method == "PUT" else "application/merge-patch+json"
        assert client.call(method, "/v1/topics/hooks", json.dumps(settings).encode(), {"Content-Type": media}).ok
    text = path.read_text(encoding="utf-8")
    assert [sorted(json.loads(line)["detail"].split("; ")) for line in text.splitlines()] == [
        ["deliver.headers: changed", "deliver.to: unset -> http://127.0.0.1:9"],
        ["deliver.headers: changed", "deliver.to: http://127.0.0.1:9 -> http://localhost:7"],
        ["deliver.to: changed"],
        ["deliver.headers: changed", "deliver.to: http://localhost:7 -> unset"],
    ]
    assert "-secret" not in text + server.log()


def test_the_file_is_its_owners_and_is_opened_again_on_sighup(audited):
    assert audited.audit_path.stat().st_mode & 0o777 == 0o600
    client = audited.client()
    client.call("PUT", "/v1/topics/a")
    moved = audited.audit_path.rename(audited.audit_path.with_suffix(".1"))
    os.kill(audited.proc.pid, signal.SIGHUP)
    eventually(lambda: audited.audit_path.exists() and audited.audit())
    client.call("PUT", "/v1/topics/b")
    assert [event["action"] for event in audited.audit()] == ["configuration reloaded", "topic settings changed"]
    assert len(moved.read_text().splitlines()) == 1
    audited.terminate()
    assert audited.audit()[-1]["action"] == "drain begun" and audited.audit()[-1]["kind"] == "server"


def test_a_full_disk_stops_no_change_and_is_counted(start_server):
    server = start_server(*FLAGS, "--audit", "/dev/full")
    client = server.client()
    assert client.call("PUT", "/v1/topics/a").ok and client.call("PUT", "/v1/topics/b").ok
    assert b"\ntarry_audit_failures_total 2\n" in client.call("GET", "/metrics").body
    assert server.log().count("cannot write the audit file") == 1 and len(audit_lines(server)) == 2


def test_a_file_that_cannot_be_made_stops_the_start(tmp_path):
    ended = subprocess.run([BINARY, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--audit", tmp_path / "none" / "audit"],
                           capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode != 0 and "cannot write the audit file" in ended.stdout + ended.stderr


def test_a_refused_call_that_is_repeated_fills_no_log(audited):
    """Omitted events are counted, and completed changes are never omitted."""
    client = audited.client()
    for _ in range(400):
        client.call("DELETE", "/v1/topics/absent")
    client.call("PUT", "/v1/topics/there")
    eventually(lambda: any("left_out" in event for event in audited.audit()), 10)
    eventually(lambda: sum(event.get("left_out", 0) + (event["outcome"] == "not_found" if "outcome" in event else 0) for event in audited.audit()) == 400, 10)
    assert len(audited.audit()) < 200 and len(audit_lines(audited)) < 200
    assert [event["topic"] for event in audited.audit() if event.get("outcome") == "ok"] == ["there"]
