"""The commands for jobs that wait for other jobs, against a real server."""

import json
import re

import pytest

OK, REFUSED, USAGE, UNREACHABLE, NOTHING = range(5)
CHAIN = {"job": {"topic": "c", "id": "2", "body": "last"}, "members": [{"topic": "c", "id": "1", "body": "first"}]}


@pytest.fixture
def tarry(server):
    def run(*arguments, code=OK, stdin=b""):
        ended = server.cli(*arguments, input=stdin)
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert ended.returncode == code, (arguments, ended.returncode, out, err)
        return out if code in (OK, NOTHING) else err

    return run


def take(tarry, topic):
    return json.loads(tarry("take", topic, "--wait", "10s", "--json"))["jobs"][0]


def line_of(shown, label):
    return re.search(rf"^{label} +(.*)$", shown, re.M).group(1)


def push_member(tarry, ident, *options, **expected):
    return tarry("push", "rows", ident, "--batch-topic", "reports", "--batch-id", "w", "--body", "x", *options, **expected)


def test_a_job_waits_for_members_that_are_pushed_and_closed(tarry):
    assert tarry("push", "reports", "w", "--waits", "--on-dead", "hold", "--wait-at-most", "2d", "--close-within", "30m", "--body", "x") == "created w, waits for its members\n"
    assert push_member(tarry, "1").startswith("created 1, due ")
    push_member(tarry, "2")
    shown = tarry("get", "reports", "w")
    assert line_of(shown, "waits for") == "2 members, and the close of its batch" and line_of(shown, "members") == "2 unfinished"
    assert (line_of(shown, "on dead"), line_of(shown, "wait at most"), line_of(shown, "close within")) == ("hold", "2d", "30m")
    assert tarry("close", "reports", "w") == "closed the batch of w\n"
    lease = take(tarry, "rows")["lease"]
    assert "(batch_closed" in push_member(tarry, "3", code=REFUSED)
    push_member(tarry, "3", "--parent", lease)
    tarry("ack", lease)
    shown = tarry("get", "reports", "w")
    assert line_of(shown, "waits for") == "2 members" and line_of(shown, "members") == "2 unfinished, 1 acked" and "close within" not in shown
    assert line_of(tarry("get", "rows", "3"), "member of") == "reports w"
    for _ in range(2):
        tarry("ack", take(tarry, "rows")["lease"])
    assert take(tarry, "reports")["meta"]["tarry-batch"] == "acked=3 dead=0 cancelled=0 expired=0 missing=0"


def test_a_batch_closes_itself_at_its_number_of_members(tarry):
    tarry("push", "reports", "w", "--waits", "--members", "1", "--body", "x")
    push_member(tarry, "1")
    assert line_of(tarry("get", "reports", "w"), "waits for") == "1 member"


def test_a_waiting_job_is_rescheduled_without_a_due_time(tarry):
    tarry("push", "reports", "w", "--waits", "--body", "x")
    assert tarry("reschedule", "reports", "w", "--delay", "1h") == "rescheduled w, waits for its members\n"
    assert "(waits" in tarry("push", "reports", "w", "--body", "y", code=REFUSED)


def test_members_are_listed_with_their_outcomes_and_results(tarry, server):
    tarry("topic", "set", "rows", "keep_finished=1h")
    tarry("push", "reports", "w", "--waits", "--body", "x")
    for ident in ("1", "2", "3"):
        push_member(tarry, ident)
    tarry("ack", take(tarry, "rows")["lease"], "--result", "42 rows")
    tarry("nack", take(tarry, "rows")["lease"], "--error", "no such file", "--final")
    rows = {line.split()[1]: line for line in tarry("members", "reports", "w").splitlines()[1:]}
    assert " acked " in rows["1"] and "7 bytes" in rows["1"] and " dead " in rows["2"] and "no such file" in rows["2"] and " ready " in rows["3"]
    assert "42 rows" in tarry("members", "reports", "w", "--results", "--outcome", "acked")
    assert [job["id"] for job in json.loads(tarry("members", "reports", "w", "--outcome", "dead", "--json"))["members"]] == ["2"]
    seen, cursor = [], []
    for _ in range(10):
        page = server.cli("members", "reports", "w", "--limit", "1", *cursor)
        seen += [line.split()[1] for line in page.stdout.decode().splitlines()[1:]]
        more = re.search("there are more: --cursor '?([^'\n]+)'?$", page.stderr.decode(), re.M)
        if not more:
            break
        cursor = ["--cursor", more.group(1)]
    assert sorted(seen) == ["1", "2", "3"]
    assert "(bad_" in tarry("members", "reports", "w", "--outcome", "lost", code=REFUSED)
    tarry("members", "reports", "none", code=NOTHING)
    tarry("close", "reports", "none", code=NOTHING)


def test_a_batch_is_pushed_from_a_file_and_can_be_repeated(tarry, tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN), encoding="utf-8")
    assert tarry("batch", str(path)) == "created c 2\ncreated c 1\n"
    assert tarry("batch", "-", stdin=path.read_bytes()) == "existed c 2\nexisted c 1\n"
    assert json.loads(tarry("batch", str(path), "--json"))["closed"] is True
    assert line_of(tarry("get", "c", "2"), "on dead") == "hold"


def test_a_rejected_job_of_a_file_is_named(tarry):
    wrong = {**CHAIN, "members": [{"topic": "b c", "id": "1"}]}
    err = tarry("batch", "-", stdin=json.dumps(wrong).encode(), code=REFUSED)
    assert "'b c 1': the topic's name is not valid" in err and "(bad_topic)" in err and "a batch is still open" in err
    assert "JSON" in tarry("batch", "-", stdin=b"{", code=USAGE)
    assert "(bad_" in tarry("batch", "-", stdin=b"[]", code=REFUSED)


def test_a_cancel_may_include_the_members(tarry):
    tarry("batch", "-", stdin=json.dumps(CHAIN).encode())
    assert tarry("cancel", "c", "2", "--members") == "cancelled 2\n"
    tarry("get", "c", "1", code=NOTHING)
