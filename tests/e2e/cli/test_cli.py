"""The command line against a real server: what it prints, and its exit codes."""

import json
import os
import re
import signal
import stat
import subprocess
import time

import pytest
from server import BINARY, REPO, eventually, free_port
from ways_in import cli_commands

OK, REFUSED, USAGE, UNREACHABLE, NOTHING = range(5)


@pytest.fixture
def tarry(server):
    def run(*arguments, code=OK, stdin=b""):
        ended = server.cli(*arguments, input=stdin)
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert ended.returncode == code, (arguments, ended.returncode, out, err)
        assert "Sanitizer" not in err and "runtime error" not in err, err
        if code in (REFUSED, USAGE, UNREACHABLE):
            assert err.startswith("tarry: ") and not err.rstrip("\n").endswith("."), err
        return out

    run.server = server
    return run


def local(*arguments, env=None):
    ended = subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, check=False, timeout=30,
                           stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    return ended.returncode, ended.stdout, ended.stderr


def take_one(tarry, topic):
    return json.loads(tarry("take", topic, "--wait", "10s", "--json"))["jobs"][0]


# ---- without a server ----


def test_help_lists_every_command_and_the_exit_codes():
    code, out, _ = local("help")
    assert code == OK
    for command in ("serve", "push", "take", "ack", "nack", "extend", "cancel", "get", "list", "topics", "topic", "tail", "deliver", "pause", "resume", "redrive",
                    "purge", "run", "batch", "close", "members", "work", "export", "import", "bench", "fsck", "version", "help"):
        assert f"\n  {command} " in out
    sections = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", out, re.M))
    assert list(sections) == ["Jobs", "Schedules", "Topics", "Server", "Stored data", "Help", "exit codes"]
    assert "  push " in sections["Jobs"] and "  fsck " in sections["Stored data"]
    for command in ("push", "take", "work", "purge", "topic", "deliver", "export", "import", "fsck", "serve"):
        code, out, err = local("help", command)
        assert code == OK and out.startswith(f"usage: tarry {command}") and not err
        assert local(command, "--help")[1] == out


def test_version():
    code, out, _ = local("version")
    assert code == OK and out.startswith("tarry ")
    assert local("--version")[1] == out
    assert json.loads(local("version", "--json")[1]) == {"name": "tarry", "version": out.split()[1]}


def test_features_are_printed_as_text_and_json():
    code, out, _ = local("version", "--features")
    assert code == OK
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines()[1:]}
    features = json.loads(local("version", "--features", "--json")[1])["features"]
    assert {"redis", "delivery", "amqp", "beanstalk", "kafka", "stomp", "rocketmq"} <= set(features)
    assert {name: {True: "yes", False: "no"}[is_built] for name, is_built in features.items()} == rows


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["psuh"], "unknown command 'psuh', did you mean 'tarry push'"),
        (["frobnicate"], "unknown command 'frobnicate', see 'tarry help'"),
        (["ls"], "unknown command 'ls', use 'tarry topics' or 'tarry list TOPIC'"),
        (["rm", "t"], "unknown command 'rm', use 'tarry cancel TOPIC ID' or 'tarry topic delete TOPIC'"),
        (["unpause"], "unknown command 'unpause', use 'tarry resume'"),
        (["consume", "t"], "unknown command 'consume', use 'tarry take TOPIC' or 'tarry work TOPIC'"),
        (["help", "dlq"], "unknown command 'dlq', use 'tarry list TOPIC --state dead'"),
        (["help", "psuh"], "unknown command 'psuh'"),
        (["push"], "too few arguments"),
        (["push", "t", "a", "b"], "unexpected argument 'b'"),
        (["push", "t", "--dely", "5s"], "unknown option '--dely', did you mean --delay"),
        (["push", "t", "--delay", "5s", "--at", "0"], "choose one"),
        (["push", "t", "--meta", "x", "--body", "b"], "write NAME=VALUE"),
        (["take", "t", "--max", "many"], "bad value 'many' for '--max'"),
        (["take", "t", "--wait", "soon"], "bad value 'soon' for '--wait'"),
        (["take", "t", "--wait", "30"], "no unit in '30' for '--wait', write it as in 30s"),
        (["push", "t", "--delay=90"], "no unit in '90' for '--delay', write it as in 30m"),
        (["push", "t", "--backoff", "exp:1..10m"], "no unit in 'exp:1..10m' for '--backoff', write it as in exp:1s..10m"),
        (["extend", "lease", "--lease-for", "60"], "no unit in '60' for '--lease-for'"),
        (["work", "t", "--lease-for", "60", "--", "true"], "no unit in '60' for '--lease-for'"),
        (["bench", "--delay", "0..10"], "no unit in '0..10' for '--delay'"),
        (["topic", "set", "t", "--max-attempts", "5"], "unknown option '--max-attempts', write a setting as max_attempts=VALUE"),
        (["topic", "set", "t", "keep_finished=3600"], "no unit in 'keep_finished=3600', write it as in 30s"),
        (["topic", "set", "t", "ttl=3600"], "no unit in 'ttl=3600', write it as in 30s"),
        (["topic", "set", "t", "dead_letter.keep.age=30"], "no unit in 'dead_letter.keep.age=30'"),
        (["push", "t", "--at", "2026-11-20"], "no time of day in '2026-11-20' for '--at', write it as in '2026-11-20 09:00'"),
        (["redrive", "t", "--died-after=2026-11-20"], "no time of day in '2026-11-20' for '--died-after'"),
        (["purge", "t"], "add --yes"),
        (["work", "t"], "no command after '--'"),
        (["work", "t", "--jobs", "0", "--", "true"], "bad value '0' for '--jobs', give a number from 1 to "),
        (["reschedule", "t", "a"], "nothing to change"),
        (["push", "t", "--waits"], "'--waits' needs an ID, which the members name: write 'tarry push t ID --waits'"),
        (["push", "t", "a", "--on-dead", "hold"], "'--on-dead' is for a job that waits, add --waits"),
        (["push", "t", "a", "--close-within", "1h"], "'--close-within' is for a job that waits, add --waits"),
        (["push", "t", "a", "--waits", "--wait-at-most", "60"], "no unit in '60' for '--wait-at-most', write it as in 7d"),
        (["push", "t", "a", "--waits", "--members", "many"], "bad value 'many' for '--members'"),
        (["push", "t", "a", "--batch-id", "w"], "give both '--batch-topic' and '--batch-id'"),
        (["push", "t", "a", "--parent", "lease"], "'--parent' is for a member of a batch, add '--batch-topic' and '--batch-id'"),
        (["cancel", "t", "a", "b", "--members"], "'--members' is for one waiting job and its members: give its ID"),
        (["cancel", "t", "--id-prefix", "a", "--members", "--yes"], "'--members' is for one waiting job and its members: give its ID"),
        (["close", "t"], "too few arguments"),
        (["push", "t", "1", "--delay", "30min", "--body", "x"], "bad value '30min' for '--delay'"),
        (["push", "t", "1", "--delay=-5s", "--body", "x"], "bad value '-5s' for '--delay'"),
        (["take", "t", "--wait", "1month"], "bad value '1month' for '--wait'"),
        (["redrive", "t", "1", "--dry-run"], "'--dry-run' counts the jobs of a filter, leave it or the ID out"),
        (["redrive", "t", "1", "--error", "x"], "both an ID and a filter are given"),
        (["cancel", "t", "1", "--dry-run"], "both an ID and a filter, '--max' or '--dry-run' are given, choose one"),
        (["reschedule", "t", "a", "--delay", "1s", "--at", "2030-01-01 09:00"], "both '--delay' and '--at' are given, choose one"),
        (["topic", "delete", "t"], "deletes 't' with all its jobs and cannot be undone, add --yes"),
        (["purge", "t"], "removes jobs of 't' and cannot be undone, add --yes"),
        (["token", "new", "--tokens", "/nowhere"], "no name, write 'tarry token new NAME'"),
        (["fsck"], "or --store URL: redis://…, postgres://… or mysql://…"),
        (["fsck", "--store", "foo"], "not a URL: 'foo', write redis://…, postgres://… or mysql://…"),
        (["topics", "--url", "ftp://x"], "bad URL 'ftp://x'"),
        (["get", "t", "x", "--url", "http://127.0.0.1:8279#x"], "bad URL 'http://127.0.0.1:8279#x'"),
        (["list", "t", "--url", "http://127.0.0.1:8279/?x"], "bad URL 'http://127.0.0.1:8279/?x'"),
        (["get", "t", "x", "--url", "http://"], "bad URL 'http://'"),
    ],
)
def test_a_wrong_command_line_is_refused_with_advice(arguments, expected):
    code, _, err = local(*arguments)
    assert code == USAGE, err
    assert err.startswith("tarry: ") and expected in err


def test_hints_for_wrong_words_name_commands():
    table = re.findall(r'^    {"(\w+)", "(tarry .*)"},$', (REPO / "src/program/cli/help.c").read_text(encoding="utf-8"), re.M)
    commands = cli_commands()
    assert len(table) > 40 and not {word for word, _ in table} & set(commands), "a command is never an unknown word"
    for command, verb in {match for _, instead in table for match in re.findall(r"tarry ([a-z]+)(?: ([a-z]+))?", instead)}:
        assert command in commands and re.search(rf"^usage: tarry {command}\b.*\b{verb}", local("help", command)[1]), (command, verb)


def test_the_demo_names_the_stores_that_it_starts():
    done = subprocess.run([REPO / "scripts/demo"], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "STORE": "mariadb", "TARRY_BIN": str(BINARY)})
    assert done.returncode == 2 and done.stderr == "demo: unknown store 'mariadb', give STORE=redis, postgres or mysql, or a URL\n"


def test_make_run_is_replaced_by_the_server():
    done = subprocess.run(["make", "--no-print-directory", "-n", "run"], cwd=REPO, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1].startswith("exec build/tarry serve --data"), "a signal for make reaches the server"


def test_no_arguments_show_the_help():
    code, _, err = local()
    assert code == USAGE and "usage: tarry COMMAND" in err


def test_an_unreachable_server_is_reported():
    code, _, err = local("topics", "--url", f"http://127.0.0.1:{free_port()}")
    assert code == UNREACHABLE and "cannot reach 'http://127.0.0.1:" in err and err.endswith("start it with 'tarry serve' or correct --url\n")


@pytest.mark.parametrize("url, advice", [
    ("http://nohost.invalid:8279", "check the name in --url"),
    ("http://127.0.0.1", "give the port in --url, as in http://127.0.0.1:8279"),
    ("http://[::1]/", "give the port in --url, as in http://127.0.0.1:8279"),
])
def test_advice_names_the_fault_of_the_url(url, advice):
    code, _, err = local("topics", "--url", url)
    assert code == UNREACHABLE and err.endswith(f", {advice}\n"), err


def test_a_new_topic_is_set_without_a_failure_in_the_audit(tarry):
    tarry("topic", "set", "fresh", "max_attempts=3")
    tarry("topic", "set", "fresh", "max_attempts=4")
    settings = [line for line in tarry.server.log().splitlines() if 'action="topic settings changed"' in line and "topic=fresh" in line]
    assert len(settings) == 2 and all("outcome=ok" in line for line in settings)


def test_a_patch_of_a_missing_topic_names_the_remedy(tarry):
    answer = tarry.server.client().call("PATCH", "/v1/topics/none", b'{"max_attempts":5}', {"Content-Type": "application/merge-patch+json"})
    assert (answer.status, answer.json()["detail"]) == (404, "there is no such topic; a PUT of its settings creates it")


@pytest.mark.parametrize("command", [["topics"], ["serve", "--listen", "127.0.0.1:x"], ["work", "t", "--", "true"], ["fsck", "/nowhere"]])
@pytest.mark.parametrize("name, advice", [("TARRY_MAX_BDOY", "did you mean TARRY_MAX_BODY"), ("TARRY_ULR", "did you mean TARRY_URL"), ("TARRY_", "unset it"),
                                          ("TARRY_FROBNICATE", "unset it; 'tarry help serve' names the options"), ("TARRY_max_body", "unset it")])
def test_an_unknown_variable_is_refused_like_an_unknown_option(command, name, advice):
    code, _, err = local(*command, env={name: "1"})
    assert code == USAGE and err.startswith(f"tarry: unknown variable '{name}', {advice}"), err


def test_valid_and_empty_variables_are_accepted(server):
    known = {name: "1" for name in ("TARRY_MAX_BODY", "TARRY_TOPIC", "TARRY_LEASE", "TARRY_ALERT_DEAD", "TARRY_TEST_ANYTHING", "TARRYING", "tarry_x")}
    assert local("topics", env={**known, "TARRY_URL": server.url, "TARRY_FROBNICATE": ""})[0] == OK
    assert local("help", env={"TARRY_FROBNICATE": "1"})[0] == OK and local("version", env={"TARRY_FROBNICATE": "1"})[0] == OK


SECRET = "s3cr3t"


@pytest.mark.parametrize("url", [
    f"http://user:{SECRET}@127.0.0.1:1", f"http://user:p/{SECRET}@127.0.0.1:1", f"http://user:p@{SECRET}@127.0.0.1:1/a@b", f"http//user:{SECRET}@127.0.0.1",
    f"user:{SECRET}@127.0.0.1:1", f"http://user:{SECRET}", f"http://user:{SECRET}@", f"ftp://user:{SECRET}@127.0.0.1", f"http://user:p {SECRET}@127.0.0.1:1",
    f"http://user:p'{SECRET}@127.0.0.1:1", f"http:///user:{SECRET}@127.0.0.1:1", f"http://{SECRET}@127.0.0.1:1", f"http://user:{SECRET}@[::1]:x"])
def test_a_password_is_never_shown(url, tmp_path):
    output = []
    for ended in [local("topics", env={"TARRY_URL": url}), local("topics", url, url), local("topics", f"--ulr={url}"),
                  *(local(*arguments, "--url", url) for arguments in (["bench", "--jobs", "1"], ["export"], ["import", os.devnull], ["backup", str(tmp_path / "b")]))]:
        assert ended[0] != OK and ended[2]
        output.append(ended[1] + ended[2])
    output += ["".join(local(*arguments, env={"TARRY_URL": url})[1:]) for arguments in (["help"], ["help", "topics"])]
    output += ["".join(local("serve", *arguments)[1:]) for arguments in ([url], ["--store", url], ["--listen", url], ["--amqp-in", url, "--data", str(tmp_path / "d")], ["--kafka-in", url, "--data", str(tmp_path / "d")])]
    output += ["".join(local("fsck", "--store", url)[1:])]
    assert not [text for text in output if SECRET in text]


def test_work_shows_no_password(tmp_path):
    worker = subprocess.Popen([str(BINARY), "work", "t", "--url", f"http://user:{SECRET}@127.0.0.1:{free_port()}", "--", "true"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = worker.stderr.readline()
    worker.terminate()
    assert "cannot reach 'http://…@127.0.0.1:" in line and SECRET not in line + worker.communicate(timeout=30)[1]


# ---- jobs ----


def test_a_job_from_push_to_ack(tarry):
    out = tarry("push", "orders", "o-1", "--body", '{"order":1}', "--meta", "trace=abc", "--meta", "dead-delivery=7")
    assert "meta trace    abc\n" in tarry("get", "orders", "o-1") and "meta dead-delivery 7\n" in tarry("get", "orders", "o-1")
    assert out.startswith("created o-1, due ")
    job = take_one(tarry, "orders")
    assert job["id"] == "o-1" and job["body"] == {"order": 1} and job["meta"] == {"trace": "abc", "dead-delivery": "7"}
    assert job["content_type"] == "application/json"
    assert tarry("ack", job["lease"]) == "acked 1\n"
    tarry("get", "orders", "o-1", code=NOTHING)
    tarry("ack", job["lease"], code=REFUSED)


def test_numbers_of_a_body_are_shown_as_they_were_written(tarry):
    for ident, body in (("short", '{"total":595.33,"count":9007199254740993}'), ("long", '{"exact":0.12345678901234568}')):
        tarry("push", "orders", ident, "--body", body)
        assert f"{body}\n" in tarry("get", "orders", ident)


def test_a_dry_run_of_a_purge_counts_the_jobs_of_each_state(tarry):
    tarry("push", "bills", "1", "--delay", "1h")
    tarry("push", "bills", "2")
    assert tarry("purge", "bills", "--dry-run") == "2 jobs would be purged\n"
    assert tarry("purge", "bills", "--state", "delayed", "--dry-run") == "1 job would be purged\n"
    assert tarry("purge", "bills", "--yes") == "purged 2\n"


def test_the_server_makes_an_id(tarry):
    job = json.loads(tarry("push", "t", "--json", "--delay", "1h", "--body", "x"))
    assert len(job["id"]) == 26
    assert job["id"] in tarry("list", "t")


def test_a_body_comes_from_standard_input_or_a_file_byte_for_byte(tarry, tmp_path):
    body = bytes(range(256)) * 100
    (tmp_path / "body").write_bytes(body)
    tarry("push", "t", "input", stdin=body)
    tarry("push", "t", "file", "--file", str(tmp_path / "body"))
    for ident in ("input", "file"):
        reply = tarry.server.client().call("POST", "/v1/topics/t/take?max=1", headers={"Accept": "application/octet-stream"})
        assert reply.body == body
        assert reply.headers["tarry-id"] == ident
        assert reply.headers["content-type"] == "application/octet-stream"
    tarry("push", "t", "none", "--file", str(tmp_path / "missing"), code=REFUSED)


def test_a_body_that_claims_to_be_json_must_be_json_unless_forced(tarry):
    cut = '{"order": 5,'
    refused = tarry.server.cli("push", "t", "a", "--content-type", "application/json", "--body", cut)
    assert refused.returncode == USAGE and b"malformed JSON at byte 12 of a body of type 'application/json'" in refused.stderr and b"--force" in refused.stderr
    tarry("get", "t", "a", code=NOTHING)
    tarry("push", "t", "a", "--content-type", "application/vnd.x+json; v=1", "--body", cut, code=USAGE)
    assert tarry("push", "t", "a", "--content-type", "application/json", "--body", cut, "--force").startswith("created a")
    assert tarry("push", "t", "plain", "--body", cut).startswith("created plain")
    lease = next(job for job in json.loads(tarry("take", "t", "--max", "9", "--json"))["jobs"] if job["id"] == "a")["lease"]
    tarry("again", lease, "--content-type", "application/json", "--body", cut, code=USAGE)
    tarry("again", lease, "--content-type", "application/json", "--body", '{"order": 5}')
    job = take_one(tarry, "t")
    tarry("nack", job["lease"], "--final")
    tarry("redrive", "t", "a", "--body", cut, code=USAGE)
    tarry("redrive", "t", "a", "--body", cut, "--force")
    assert take_one(tarry, "t")["body"] == cut


def test_ids_with_signs_travel(tarry):
    ident = "a/b?c#d%e+f&g=h"
    tarry("push", "t", ident, "--delay", "1h", "--body", "x")
    assert f"id            {ident}\n" in tarry("get", "t", ident)
    tarry("run", "t", ident)
    tarry("reschedule", "t", ident, "--delay", "2h")
    assert tarry("cancel", "t", ident) == f"cancelled {ident}\n"


def test_get_shows_state_and_last_error(tarry):
    tarry("push", "t", "a", "--body", "hello")
    assert tarry("nack", take_one(tarry, "t")["lease"], "--delay", "1h", "--error", "bank is down") == "nacked 1\n"
    out = tarry("get", "t", "a")
    for line in ("state         delayed", "attempt       1", "last error    bank is down", "body          hello"):
        assert line + "\n" in out
    assert "(in " in out


def test_get_shows_the_outcome_and_the_result_of_a_finished_job(start_server):
    server = start_server()
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    client.push("t", "a")
    client.good("POST", f"/v1/ack?lease={client.take('t')[0]['lease']}", b'{"sum":3}', {"Content-Type": "application/json"})
    out = server.cli("get", "t", "a").stdout.decode()
    for line in ("state         finished", "outcome       acked", 'result        {"sum":3}'):
        assert line + "\n" in out
    assert "waits for" not in out, "a finished job waits for nothing"


def test_nothing_taken_is_exit_code_4(tarry):
    tarry("take", "empty", code=NOTHING)
    assert json.loads(tarry("take", "empty", "--json", code=NOTHING))["jobs"] == []


def test_takes_from_several_topics_first_named_first(tarry):
    tarry("push", "low", "l", "--body", "x")
    tarry("push", "high", "h", "--body", "x")
    out = tarry("take", "high", "low", "--max", "2")
    assert out.index("high") < out.index("low")


def test_a_lease_is_extended(tarry):
    tarry("push", "t", "a", "--body", "x")
    job = json.loads(tarry("take", "t", "--lease-for", "1s", "--json"))["jobs"][0]
    assert tarry("extend", job["lease"], "--lease-for", "60s") == "extended 1\n"
    time.sleep(1.1)
    assert tarry("ack", job["lease"]) == "acked 1\n"


def test_cancel_distinguishes_leased_and_unknown_jobs(tarry):
    tarry("push", "t", "a", "--body", "x")
    take_one(tarry, "t")
    tarry("cancel", "t", "a", code=REFUSED)
    tarry("cancel", "t", "nobody", code=NOTHING)
    tarry("push", "t", "b", "--body", "x", "--delay", "1h")
    assert "cancelled b" in tarry("cancel", "t", "nobody", "b", code=NOTHING)


def test_a_cancel_is_requested_from_the_holder(tarry, server):
    for ident in ("a", "b", "c"):
        tarry("push", "t", ident, "--body", "x")
    tarry("take", "t", "--max", "2", "--consumer", "worker 1", "--lease-for", "1h")
    assert tarry("cancel", "t", "a", "--request") == "cancel requested from the consumer of a\n"
    shown = tarry("get", "t", "a")
    assert re.search(r"^consumer +worker 1$", shown, re.M) and re.search(r"^cancel requested +true$", shown, re.M), shown
    assert "worker 1" in tarry("list", "t")
    assert tarry("cancel", "t", "b", "c", "--request") == "cancel requested from the consumer of b\ncancelled c\n"
    many = server.cli("cancel", "t", "-", "--request", input=b"a\nb\n")
    assert many.stdout == b"cancelled 0\nrequested of their consumers: 2\n" and many.returncode == OK


def test_a_body_is_printed_unchanged(server):
    for n, body in enumerate((bytes(range(256)) * 9, b"", b'{ "x" :1.50}', "grüß\n".encode())):
        server.client().push("t", f"b{n}", body=body, content_type="application/json", delay="1h")
        ended = server.cli("get", "t", f"b{n}", "--raw")
        assert (ended.returncode, ended.stdout, ended.stderr) == (OK, body, b"")
    assert server.cli("get", "t", "b0", "--raw", "--json").returncode == USAGE
    assert server.cli("get", "t", "nobody", "--raw").returncode == NOTHING


def test_a_list_shows_when_leases_end(tarry):
    tarry("push", "t", "taken", "--body", "x")
    tarry("push", "t", "later", "--delay", "1h", "--body", "x")
    tarry("take", "t", "--lease-for", "10m")
    heads, *rows = tarry("list", "t").splitlines()
    column = heads.index("LEASE UNTIL")
    rows = {row.split()[0]: row[column:].strip() for row in rows}
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d \(in (10m|9m 5\ds)\)", rows["taken"]), rows
    assert not re.match(r"\d{4}-", rows["later"]), rows


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/St_Johns"])
def test_printed_times_are_accepted_as_input(server, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    client = server.client()
    client.push("t", "a", delay="100d")
    due = client.get("t", "a")["due_at"]
    shown = re.search(r"due (.*)\n", server.cli("reschedule", "t", "a", "--priority", "3").stdout.decode())[1]
    plain = shown.split(" (")[0]
    for text in (shown, plain):
        assert server.cli("push", "t", "b", "--at", text, "--body", "x").returncode == OK
        assert client.get("t", "b")["due_at"] == due
        assert server.cli("reschedule", "t", "a", "--at", text).returncode == OK
        assert client.get("t", "a")["due_at"] == due
    assert server.cli("reschedule", "t", "a", "--at", plain[:16]).returncode == OK
    assert client.get("t", "a")["due_at"][17:] == "00.000Z"
    for wrong, code in ((plain + " tomorrow", USAGE), (plain[:5] + "02-30 10:00", USAGE), ("soon", USAGE)):
        assert server.cli("reschedule", "t", "a", "--at", wrong).returncode == code, wrong
    assert server.cli("redrive", "t", "--died-before", shown).returncode == OK


GAPS = [("Europe/Berlin", "2027-03-28 02:30"), ("America/New_York", "2027-03-14 02:59:59.999"), ("Australia/Lord_Howe", "2027-10-03 02:15"),
        ("Pacific/Apia", "2011-12-30 12:00")]
TWICE = [("Europe/Berlin", "2027-10-31 02:30", "2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z"),
         ("America/New_York", "2027-11-07 01:00", "2027-11-07T05:00:00.000Z", "2027-11-07T06:00:00.000Z"),
         ("Australia/Lord_Howe", "2027-04-04 01:45", "2027-04-03T14:45:00.000Z", "2027-04-03T15:15:00.000Z")]


@pytest.mark.parametrize("zone, text", GAPS)
def test_a_local_time_that_does_not_exist_is_refused(zone, text, server, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    done = server.cli("push", "t", "a", "--at", text, "--body", "x")
    assert done.returncode == USAGE and b"this local time does not exist" in done.stderr


@pytest.mark.parametrize("zone, text, first, second", TWICE)
def test_a_local_time_that_comes_twice_is_refused_and_each_of_both_is_printed_so_that_it_can_be_given(zone, text, first, second, server, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    client = server.client()
    done = server.cli("push", "t", "a", "--at", text, "--body", "x")
    assert done.returncode == USAGE and f"give {first} or {second}" in done.stderr.decode()
    for due in (first, second):
        shown = re.search(r"due (.*)\n", server.cli("push", "t", "a", "--at", due, "--body", "x").stdout.decode())[1]
        assert server.cli("push", "t", "b", "--at", shown, "--body", "x").returncode == OK
        assert client.get("t", "b")["due_at"] == due


@pytest.mark.parametrize("zone, is_known", [("Garbage/Nowhere", False), ("Europe/Berlin", True), ("UTC", True), ("", True), ("EST5EDT", True), ("<+03>-3", True), (":Asia/Tokyo", True)])
def test_an_unknown_time_zone_is_warned_of(zone, is_known, server, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    done = server.cli("push", "t", "x", "--at", "2027-07-01 12:00", "--body", "x")
    assert done.returncode == OK and (done.stderr.count(b"unknown time zone") == 0) == is_known


def test_conflicts_are_refused(tarry):
    tarry("push", "t", "a", "--body", "1", "--delay", "1h")
    tarry("push", "t", "a", "--body", "2", "--delay", "1h", "--on-conflict", "reject", code=REFUSED)
    assert tarry("push", "t", "a", "--body", "2", "--delay", "1h", "--on-conflict", "keep").startswith("existed a")
    assert tarry("push", "t", "a", "--body", "2", "--delay", "1h").startswith("replaced a")


# ---- topics ----


def test_topics_in_columns(tarry):
    for n in range(3):
        tarry("push", "orders", f"o{n}", "--delay", "1h", "--body", "x")
    tarry("push", "mails", "m", "--body", "x")
    lines = tarry("topics").splitlines()
    assert lines[0].split()[:6] == ["TOPIC", "DELAYED", "RETRYING", "READY", "LEASED", "DEAD"]
    rows = {line.split()[0]: line.split()[1:6] for line in lines[1:]}
    assert rows["orders"] == ["3", "0", "0", "0", "0"]
    assert rows["mails"] == ["0", "0", "1", "0", "0"]
    assert len({line.index(word) for line, word in zip(lines[:1], ["TOPIC"])}) == 1
    assert tarry("topics", "orders").splitlines()[1].split()[0] == "orders"
    assert len(json.loads(tarry("topics", "--json"))["topics"]) == 2
    tarry("topics", "nobody", code=NOTHING)


def test_topics_are_chosen_by_a_pattern_and_sorted(tarry):
    for topic, jobs in (("orders-a", 1), ("orders-b", 3), ("mails", 2)):
        for n in range(jobs):
            tarry("push", topic, f"{n}", "--body", "x")
            time.sleep(0.005)

    def names(*arguments):
        return [line.split()[0] for line in tarry("topics", *arguments).splitlines()[1:]]

    assert names("orders-*") == ["orders-a", "orders-b"]
    assert names("--sort", "ready") == ["orders-b", "mails", "orders-a"]
    assert names("--sort", "oldest") == ["orders-a", "orders-b", "mails"]
    assert names("--sort", "dead") == names("--sort", "name") == names() == ["mails", "orders-a", "orders-b"]
    assert [topic["topic"] for topic in json.loads(tarry("topics", "[mo]*", "--sort", "ready", "--json"))["topics"]] == ["orders-b", "mails", "orders-a"]
    tarry("topics", "nobody-*", code=NOTHING)
    assert local("topics", "--sort", "size")[0] == USAGE


def test_settings_of_topics_are_applied_from_a_file(tarry, tmp_path):
    file = tmp_path / "topics.json"
    tarry("topic", "set", "orders", "max_attempts=3", "ttl=1h")
    tarry("topic", "set", "mails", "lease_for=60s")
    tarry("push", "other", "a", "--body", "x")
    before = json.loads(tarry("topics", "--settings"))
    file.write_text(json.dumps({"orders": {"max_attempts": 5}, "mails": {"lease_for": "1m"}, "new": {"priority": 7}}), encoding="utf-8")
    planned = tarry("topic", "apply", str(file), "--dry-run").splitlines()
    assert sorted(re.split(", |: ", planned[0])) == ["max_attempts 3 -> 5", "ttl 1h -> unset", "would be changed orders"]
    assert planned[1:] == ["would be created new: priority unset -> 7", "1 unchanged"]
    assert json.loads(tarry("topics", "--settings")) == before
    tarry("topic", "apply", str(file))
    after = json.loads(tarry("topics", "--settings"))
    assert after["orders"]["max_attempts"] == 5 and "ttl" not in after["orders"] and after["new"]["priority"] == 7 and after["other"] == before["other"]
    assert tarry("topic", "apply", str(file)).splitlines() == ["3 unchanged"]
    file.write_text(tarry("topics", "--settings"), encoding="utf-8")
    assert tarry("topic", "apply", str(file)).splitlines() == ["4 unchanged"]
    assert [one["change"] for one in json.loads(tarry("topic", "apply", str(file), "--json"))["topics"]] == ["unchanged"] * 4
    assert list(json.loads(tarry("topics", "orders", "--settings"))) == ["orders"]


@pytest.mark.parametrize("text, expected", [("{", "is not valid JSON, line 1"), ("[]", "is no JSON object of settings by topic"), ('{"a": 1}', "bad settings of 'a'")])
def test_a_wrong_file_of_settings_changes_nothing(tarry, tmp_path, text, expected):
    file = tmp_path / "topics.json"
    file.write_text(text, encoding="utf-8")
    code, _, err = local("topic", "apply", str(file), "--url", tarry.server.url)
    assert code == USAGE and expected in err
    assert json.loads(tarry("topics", "--json"))["topics"] == []


def test_a_rejected_topic_of_a_file_is_named(tarry, tmp_path):
    file = tmp_path / "topics.json"
    file.write_text('{"a": {"max_attempts": 5}, "b": {"max_attempts": "many"}}', encoding="utf-8")
    code, _, err = local("topic", "apply", str(file), "--url", tarry.server.url)
    assert code == REFUSED and "'b' was not applied, 1 of 2 topics were" in err
    assert [topic["topic"] for topic in json.loads(tarry("topics", "--json"))["topics"]] == ["a"]


def test_locate_mentions_jobs_that_it_does_not_show(tarry):
    for topic in "abc":
        tarry("push", topic, "same", "--body", "x")
    shown = tarry.server.cli("locate", "same", "--limit", "2")
    assert [line.split()[0] for line in shown.stdout.decode().splitlines()[1:]] == ["a", "b"]
    assert "there may be more: give a higher --limit than 2" in shown.stderr.decode()
    assert not tarry.server.cli("locate", "same").stderr


def test_a_list_of_finished_jobs_shows_how_when_and_how_long(start_server):
    server = start_server()
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    for ident, result in (("a", b'{"sum":3}'), ("b", b"")):
        client.push("t", ident)
        job = client.take("t", consumer="worker 7")[0]
        time.sleep(0.05)
        assert client.call("POST", f"/v1/ack?lease={job['lease']}", result, {"Content-Type": "application/json"} if result else {}).status == 200
    client.push("t", "c", delay="1h")
    client.cancel("t", "c")
    lines = server.cli("list", "t", "--state", "finished").stdout.decode().splitlines()
    assert lines[0].split() == ["ID", "OUTCOME", "FINISHED", "DURATION", "ATTEMPT", "CONSUMER", "RESULT"]
    when = r"20\d\d-\d\d-\d\d [\d:.]+[+-]\d\d:\d\d \((now|\ds ago)\)"
    assert re.fullmatch(rf"c   cancelled  {when} +0 +", lines[1]), lines[1]
    assert re.fullmatch(rf"b   acked +{when} +\d+ms +1  worker 7  ", lines[2]), lines[2]
    assert re.fullmatch(rf"a   acked +{when} +\d+ms +1  worker 7  9 bytes, application/json", lines[3]), lines[3]
    assert re.search(r"^duration +\d+ms$", server.cli("get", "t", "a").stdout.decode(), re.M)


def test_get_shows_text_as_text_and_bytes_as_their_size(start_server):
    server = start_server()
    client = server.client()
    client.put_topic("t", keep_finished="1h")
    results = {
        "text": (b"one\ntwo \x1b[31mred\n", "text/plain"), "bytes": (b"\xff" * 700, "image/png"), "long": (b"x" * 5000, "text/plain"), "wide": ("\u20ac".encode() * 2000, "text/plain"),
    }
    for ident, (result, content_type) in results.items():
        client.push("t", ident)
        lease = client.take("t")[0]["lease"]
        assert client.call("POST", f"/v1/ack?lease={lease}", result, {"Content-Type": content_type}).status == 200
    shown = {ident: server.cli("get", "t", ident).stdout.decode() for ident in results}
    assert "result type   text/plain\nresult        one\n              two ?[31mred\n" in shown["text"]
    assert "result        700 bytes, image/png\n" in shown["bytes"] and "result type" not in shown["bytes"]
    assert f"result        {'x' * 4096}\n              (904 more bytes, --json shows all)\n" in shown["long"]
    assert f"result        {chr(0x20ac) * 1365}\n" in shown["wide"]
    assert json.loads(server.cli("get", "t", "long", "--json").stdout)["result"] == "x" * 5000


def test_results_and_waits(tarry):
    tarry("topic", "set", "sums", "keep_finished=1d")
    with subprocess.Popen([BINARY, "push", "sums", "1", "--body", "x", "--wait", "30s", "--url", tarry.server.url], stdout=subprocess.PIPE, text=True) as pushing:
        lease = json.loads(tarry("take", "sums", "--wait", "10s", "--json"))["jobs"][0]["lease"]
        tarry("extend", lease, "--progress", "half of it")
        assert "half of it" in tarry("get", "sums", "1")
        tarry("ack", lease, "--result", '{"sum":3}')
        out = pushing.communicate(timeout=30)[0]
    assert pushing.returncode == OK and re.fullmatch(r'acked 1, 20.*, result \{"sum":3\}\n', out), out
    shown = tarry("get", "sums", "1")
    assert re.search(r"^outcome +acked$", shown, re.M) and re.search(r'^result +\{"sum":3\}$', shown, re.M), shown
    ago = lambda text: re.sub(r" \((?:now|\d+s ago|in \d+ms)\)", "", text)  # noqa: E731
    assert ago(tarry("wait", "sums", "1")) == ago(out)
    assert tarry("wait", "sums", "1", "2", "--wait", "1ms", code=NOTHING).splitlines()[1] == "unknown 2"
    assert ago(tarry("wait", "sums", "2", "1", "--any")) == ago(out) + "unknown 2\n"
    tarry("push", "sums", "3", "--body", "x", "--delay", "1h")
    assert tarry("wait", "sums", "3", "--wait", "1ms", code=NOTHING) == "delayed 3\n"
    tarry("cancel", "sums", "3")
    assert tarry.server.cli("wait", "sums", "3").returncode == REFUSED
    assert json.loads(tarry("wait", "sums", "1", "--json"))["jobs"][0]["result"] == {"sum": 3}
    assert [line.split()[0] for line in tarry("list", "sums", "--state", "finished").splitlines()[1:]] == ["3", "1"]


def test_a_result_may_come_from_a_file(tarry, tmp_path):
    tarry("topic", "set", "sums", "keep_finished=1d")
    file = tmp_path / "result"
    file.write_bytes(b"\x00\xff")
    tarry("push", "sums", "1", "--body", "x")
    tarry("ack", json.loads(tarry("take", "sums", "--json"))["jobs"][0]["lease"], "--result-file", str(file))
    assert "result of 2 bytes" in tarry("wait", "sums", "1")


@pytest.mark.parametrize("arguments, expected", [
    (["ack", "a", "b", "--result", "x"], "a result belongs to one job, give one LEASE"),
    (["ack", "a", "--content-type", "text/plain"], "add '--result' or '--result-file'"),
    (["push", "t", "--body", "x", "--wait", "30s"], "'--wait' needs an ID, write 'tarry push t ID --wait 30s'"),
    (["wait", "t", "a", "--wait", "1h"], "bad value '1h' for '--wait', give a time up to 4m"),
])
def test_wrong_waits_and_results_are_rejected_with_advice(arguments, expected):
    code, _, err = local(*arguments)
    assert code == USAGE and expected in err, err


def test_topics_are_watched(server):
    server.cli("push", "t", "a", "--body", "x")
    with subprocess.Popen([BINARY, "topics", "--watch", "100ms", "--json", "--url", server.url], stdout=subprocess.PIPE, text=True) as watching:
        counts = [json.loads(watching.stdout.readline())["topics"][0]["counts"]["ready"]]
        server.cli("push", "t", "b", "--body", "x")
        while counts[-1] == 1:
            counts.append(json.loads(watching.stdout.readline())["topics"][0]["counts"]["ready"])
        watching.kill()
    assert counts[-1] == 2


def test_errors_are_json_on_request(server):
    code, out, err = local("get", "t", "a", "--json", "--url", server.url)
    assert (code, out) == (NOTHING, "")
    problem = json.loads(err)
    assert (problem["code"], problem["status"]) == ("not_found", 404) and problem["error"].startswith("there is no job 'a' in topic 't'")
    code, out, err = local("push", "--json")
    assert (code, out) == (USAGE, "") and json.loads(err)["error"].startswith("too few arguments")
    code, out, err = local("psuh", "--json")
    assert (code, out) == (USAGE, "") and json.loads(err)["error"] == "unknown command 'psuh', did you mean 'tarry push'"
    code, out, err = local("topics", "list", "--json", "--url", server.url)
    assert (code, out) == (NOTHING, "") and json.loads(err)["code"] == "not_found"
    code, out, err = local("topics", "--json", "--url", f"http://127.0.0.1:{free_port()}")
    assert code == UNREACHABLE and json.loads(err)["error"].startswith("cannot reach 'http://127.0.0.1:")


def test_topics_list_is_answered_with_advice(server):
    code, out, err = local("topics", "list", "--url", server.url)
    assert (code, out) == (NOTHING, "") and err.endswith("tarry: 'tarry topics' lists all topics\n")


def test_pause_and_resume(tarry):
    tarry("push", "t", "a", "--body", "x")
    tarry("pause", "t")
    assert "paused" in tarry("topics", "t")
    tarry("take", "t", code=NOTHING)
    tarry("resume", "t")
    take_one(tarry, "t")


def test_dead_jobs_go_round_again(tarry):
    for n in range(3):
        tarry("push", "t", f"d{n}", "--body", "x", "--max-attempts", "1")
        tarry("nack", take_one(tarry, "t")["lease"], "--error", "no")
    assert tarry("list", "t", "--state", "dead").count("dead") == 3
    assert tarry("redrive", "t", "d1") == "redriven 1\n"
    assert tarry("redrive", "t") == "redriven 2\n"
    assert tarry("list", "t", "--state", "ready").count("ready") == 3


def test_a_redrive_rejects_a_new_body_that_is_nested_too_deep(tarry):
    tarry("push", "t", "a", "--body", "[1]", "--max-attempts", "1")
    tarry("nack", take_one(tarry, "t")["lease"], "--error", "no")
    refused = tarry.server.cli("redrive", "t", "a", "--body", "[" * 65 + "]" * 65)
    assert refused.returncode == REFUSED and b"nested deeper than 64 levels" in refused.stderr
    assert "dead" in tarry("list", "t")
    assert "redriven a" in tarry("redrive", "t", "a", "--body", "[" * 64 + "]" * 64)


def test_purge_by_state_and_whole(tarry):
    tarry("push", "t", "later", "--delay", "1h", "--body", "x")
    tarry("push", "t", "now", "--body", "x")
    assert tarry("purge", "t", "--state", "delayed", "--yes") == "purged 1\n"
    assert tarry("purge", "t", "--yes") == "purged 1\n"


def test_a_topic_is_deleted_with_its_jobs(tarry):
    tarry("push", "t", "a", "--body", "x")
    tarry("push", "t", "b", "--delay", "1h", "--body", "x")
    tarry("take", "t")
    tarry("topic", "delete", "t", code=USAGE)
    tarry("topic", "delete", "t", "u", "--yes", code=USAGE)
    assert tarry("topic", "delete", "t", "--yes") == "deleted t with 2 jobs\n"
    tarry("topic", "show", "t", code=NOTHING)
    tarry("topic", "delete", "t", "--yes", code=NOTHING)


def test_missing_jobs_and_topics_are_named(tarry):
    tarry("push", "t", "a", "--delay", "1h", "--body", "x")
    for arguments, subject in [(("get", "t", "nobody"), "no job 'nobody' in topic 't'"), (("cancel", "t", "n/a"), "no job 'n/a' in topic 't'"),
                               (("run", "u", "a"), "no job 'a' in topic 'u'"), (("reschedule", "t", "b", "--delay", "1s"), "no job 'b' in topic 't'"),
                               (("list", "u"), "no topic 'u'"), (("topics", "u"), "no topic 'u'"), (("topic", "show", "u"), "no topic 'u'"),
                               (("pause", "u"), "no topic 'u'"), (("resume", "u"), "no topic 'u'"), (("purge", "u", "--yes"), "no topic 'u'"),
                               (("redrive", "u"), "no topic 'u'"), (("redrive", "t", "a"), "no dead job 'a' in topic 't'"), (("topic", "delete", "u", "--yes"), "no topic 'u'"),
                               (("purge", "u", "--error", "x", "--yes"), "no topic 'u'")]:
        ended = tarry.server.cli(*arguments)
        assert ended.returncode == NOTHING and ended.stderr.decode().startswith(f"tarry: there is {subject}"), (arguments, ended)


def test_lists_continue_at_a_cursor(tarry):
    for n in range(5):
        tarry("push", "t", f"j{n}", "--delay", f"{n + 1}h", "--body", "x")
    first = json.loads(tarry("list", "t", "--limit", "3", "--json"))
    assert [job["id"] for job in first["jobs"]] == ["j0", "j1", "j2"]
    rest = json.loads(tarry("list", "t", "--cursor", first["cursor"], "--json"))
    assert [job["id"] for job in rest["jobs"]] == ["j3", "j4"]


# ---- work ----


class Worker:
    def __init__(self, server, *arguments):
        self.proc = subprocess.Popen([str(BINARY), "work", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, env={**os.environ, "TARRY_URL": server.url})

    def stop(self, code=OK, number=signal.SIGTERM):
        if self.proc.poll() is None:
            self.proc.send_signal(number)
        out, err = self.proc.communicate(timeout=30)
        assert self.proc.returncode == code, err
        assert "Sanitizer" not in err, err
        return out, err


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_work_runs_the_command_with_body_and_environment(server, tmp_path):
    client = server.client()
    command = script(tmp_path / "do", f'cat > {tmp_path}/$TARRY_ID.body\necho "$TARRY_TOPIC $TARRY_ID $TARRY_ATTEMPT $1" '
                                      f'> {tmp_path}/$TARRY_ID.env\nmv {tmp_path}/$TARRY_ID.env {tmp_path}/$TARRY_ID.done\n')
    bodies = {"json": (b'{ "x" :1.50}', "application/json"), "bytes": (bytes(range(256)), "application/octet-stream"),
              "text": ("grüß\n".encode(), "text/plain"), "empty": (b"", "text/plain"), "big": (b"y" * 500_000, "text/plain"),
              "notjson": (b"not json", "application/json"), "string": (b'"s"', "application/json")}
    worker = Worker(server, "t", "--jobs", "3", "--", command, "argument")
    for ident, (body, kind) in bodies.items():
        client.push("t", ident, body=body, content_type=kind, delay=0)
    for ident, (body, _) in bodies.items():
        eventually((tmp_path / f"{ident}.done").exists)
        assert (tmp_path / f"{ident}.body").read_bytes() == body, ident
        assert (tmp_path / f"{ident}.done").read_text() == f"t {ident} 1 argument\n"
    eventually(lambda: client.topic("t")["totals"]["acked"] == len(bodies))
    _, err = worker.stop()
    assert err.count("acked t/") == len(bodies)


def test_work_nacks_with_the_exit_code_or_the_signal(server, tmp_path):
    client = server.client()
    command = script(tmp_path / "do", 'case $TARRY_ID in three) exit 3;; killed) kill -9 $$;; esac\n')
    worker = Worker(server, "t", "--", command)
    for ident in ("three", "killed"):
        client.push("t", ident, max_attempts=1)
    eventually(lambda: client.topic("t")["counts"]["dead"] == 2)
    assert client.get("t", "three")["last_error"] == "exit 3"
    assert client.get("t", "killed")["last_error"] == "signal 9"
    worker.stop()


def test_work_extends_the_lease_while_the_command_runs(server):
    client = server.client()
    client.push("t", "slow")
    worker = Worker(server, "t", "--lease-for", "1s", "--", "sleep", "3")
    eventually(lambda: client.topic("t")["totals"]["acked"] == 1)
    assert client.topic("t")["totals"]["delivered"] == 1
    worker.stop()


def test_work_lets_running_commands_finish(server, tmp_path):
    client = server.client()
    command = script(tmp_path / "do", f"touch {tmp_path}/started\nsleep 1\n")
    client.push("t", "slow")
    worker = Worker(server, "t", "--", command)
    eventually((tmp_path / "started").exists)
    client.push("t", "next")
    worker.stop()
    assert client.topic("t")["totals"]["acked"] == 1
    eventually(lambda: client.topic("t")["counts"]["ready"] == 1)


def test_work_runs_in_parallel(server, tmp_path):
    """Each command waits for the other three: one after the other they would never end."""
    client = server.client()
    for n in range(4):
        client.push("t", f"j{n}")
    command = script(tmp_path / "do", f"mktemp {tmp_path}/started-XXXXXX\nuntil [ $(ls -d {tmp_path}/started-* | wc -l) = 4 ]; do sleep 0.05; done\n")
    worker = Worker(server, "t", "--jobs", "4", "--", command)
    eventually(lambda: client.topic("t")["totals"]["acked"] == 4)
    worker.stop()


def test_work_survives_a_restart_of_the_server(start_server, tmp_path):
    port = free_port()
    server = start_server("--sync", "always", started=False)
    server.start(port)
    server.client().push("t", "a")
    command = script(tmp_path / "do", f"touch {tmp_path}/$TARRY_ID\nsleep 1\n")
    worker = Worker(server, "t", "--", command)
    eventually((tmp_path / "a").exists)
    server.terminate()
    time.sleep(1.5)
    server.start(port)
    client = server.client()
    client.push("t", "b")
    eventually(lambda: client.topic("t")["totals"]["acked"] == 2, seconds=20)
    worker.stop()


def test_work_reports_a_command_that_cannot_run(server):
    server.client().push("t", "a")
    worker = Worker(server, "t", "--", "/nonexistent/command")
    worker.proc.wait(20)
    _, err = worker.stop(code=REFUSED)
    assert "cannot run '/nonexistent/command', No such file or directory" in err


# ---- fsck ----


def test_fsck_of_a_clean_directory(start_server):
    server = start_server()
    for n in range(10):
        server.client().push("t", f"j{n}", delay="1h")
    assert server.fsck().returncode == REFUSED, "a server is using it"
    server.terminate()
    ended = server.fsck()
    assert ended.returncode == OK, ended.stderr


def test_fsck_rejects_a_path_that_is_not_a_directory(tmp_path):
    code, _, err = local("fsck", str(tmp_path / "nothing"))
    assert code == REFUSED and err.startswith("tarry: ")


def test_an_invalid_time_is_rejected_with_the_accepted_forms(start_server):
    server = start_server()
    for wrong, part in (("tomorrow", "write it as in '2026-11-20 09:00' (local time), 2026-11-20T09:00:00Z (from 1970 on), or in milliseconds since 1970"),
                        ("09:00", "write it as in '2026-11-20 09:00'"), ("1969-01-01T00:00:00Z", "from 1970 on"),
                        ("2030-01-01T09:00:00", "no time zone in '2030-01-01T09:00:00' for '--at', add Z or an offset such as +01:00, or write a blank"),
                        ("2030-01-01T09:00", "no time zone in")):
        ended = server.cli("push", "t", "b", "--at", wrong, "--body", "x")
        assert ended.returncode == USAGE and part in ended.stderr.decode(), ended
    problem = server.client().call("PUT", "/v1/topics/t/jobs/b?at=2030-01-01T09:00:00", b"x").json()
    assert problem["detail"] == "'at' is '2030-01-01T09:00:00' but a time needs a time zone: add Z or an offset such as +01:00"


def test_get_shows_the_event_that_a_job_waits_for(start_server):
    server = start_server()
    client = server.client()

    def reason(topic, ident):
        shown = server.cli("get", topic, ident).stdout.decode().splitlines()
        (line,) = [line for line in shown if line.startswith("waits for")]
        return line.removeprefix("waits for").strip()

    client.push("plain", "later", delay="1h")
    assert reason("plain", "later") == "its due time"
    client.push("plain", "now")
    assert reason("plain", "now") == "a consumer that takes from the topic"
    (job,) = client.take("plain", consumer="me")
    assert reason("plain", "now").startswith("the answer of me, until 20")
    client.nack(job["lease"], delay="1h", error="no paper")
    assert reason("plain", "now") == "its next attempt"
    client.call("POST", "/v1/topics/plain/pause?for=1h")
    assert reason("plain", "now").startswith("its topic, which is paused until 20")
    client.push("dead", "one", max_attempts="1")
    client.nack(client.take("dead")[0]["lease"], error="no paper")
    assert reason("dead", "one") == "a redrive: it is dead after 1 attempt: no paper"


def test_work_prints_the_awaited_topic_at_its_start(start_server):
    server = start_server()
    server.client().push("known", "a", delay="1h")
    for topic, line in (("known", f"waiting for jobs of 'known' at {server.url}"), ("unknown", f"waiting for jobs of 'unknown' at {server.url}, which has no such topic yet")):
        with subprocess.Popen([str(BINARY), "work", topic, "--url", server.url, "--", "true"], stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stderr.readline() == line + "\n"
            worker.terminate()


def test_groups_are_pushed_shown_changed_and_paused(tarry):
    tarry("topic", "set", "flow", "rate=50/s", "group_limit=2")
    for n in range(3):
        tarry("push", "flow", str(n), "--group", "shop-7", "--body", "x")
    assert "shop-7" in tarry("groups", "flow", "--order", "ready")
    assert re.search(r"^group +shop-7$", tarry("get", "flow", "0"), re.M)
    out = tarry("group", "set", "flow", "shop-7", "weight=5", "limit=1")
    assert "settings.weight" in out and "settings.limit" in out
    out = tarry("group", "set", "flow", "shop-7", "limit=")
    assert "settings.weight" in out and "settings.limit" not in out, "the others stay"
    assert "group_paused" in tarry("group", "pause", "flow", "shop-7", "--for", "1h")
    assert "its group, which is paused" in tarry("get", "flow", "0")
    assert "paused" not in tarry("group", "resume", "flow", "shop-7")
    taken = json.loads(tarry("take", "flow", "--wait", "10s", "--json"))["jobs"][0]
    tarry("nack", taken["lease"], "--hold", "1h")
    assert "hold" in tarry("groups", "flow", "--order", "held")
    assert "settings.weight" not in tarry("group", "reset", "flow", "shop-7")
    tarry("group", "show", "flow", "shop-7", "more", code=USAGE)
    tarry("group", "set", "flow", "shop-7", code=USAGE)
