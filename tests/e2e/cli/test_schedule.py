"""`tarry schedule`: set, show, list, next, run, pause, backfill, delete, apply, and import of crontabs and Kubernetes CronJobs."""

import json
import re

import pytest
from test_cli import NOTHING, OK, REFUSED, USAGE

START = "2026-03-28T00:00:00Z"


@pytest.fixture
def server(start_server):
    return start_server("--sync", "never", "--wal-file", "16MiB", f"--test-clock={START}")


@pytest.fixture
def tarry(server):
    def run(*arguments, code=OK, stdin=b""):
        ended = server.cli("schedule", *arguments, input=stdin)
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert ended.returncode == code, (arguments, ended.returncode, out, err)
        assert "Sanitizer" not in err and "runtime error" not in err, err
        return out + err

    return run


def test_a_schedule_from_set_to_delete(server, tarry):
    made = tarry("set", "nightly", "--topic", "reports", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--body", '{"kind":"daily"}', "max_attempts=5")
    assert made.startswith("created nightly, next ")
    assert tarry("set", "nightly", "--topic", "reports", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--body", '{"kind":"daily"}',
                 "max_attempts=5").startswith("existed nightly")
    shown = tarry("show", "nightly")
    for line in ("topic=reports", "cron=30 2 * * *", "zone=Europe/Berlin", "body.kind=daily", "max_attempts=5", "totals   0 fired"):
        assert line in shown, shown
    assert re.search(r"NAME +TOPIC +PLAN +NEXT", tarry("list")) and "30 2 * * * Europe/Berlin" in tarry("list", "--prefix", "night")
    assert "no schedules" in tarry("list", "--owner", "shop")
    assert "2026-03-29T03:00:00+02:00  moved to the end of the gap" in tarry("next", "nightly", "--n", "2", "--from", "2026-03-28T12:00:00Z")
    assert tarry("run", "nightly") == "fired nightly: job nightly@2026-03-28T00:00:00Z in reports\n"
    assert tarry("pause", "nightly", "--for", "1h").startswith("ok nightly, paused") and "paused until" in tarry("show", "nightly")
    assert tarry("resume", "nightly").startswith("ok nightly, next")
    assert tarry("backfill", "nightly", "--from", "2026-03-20T00:00:00Z", "--to", "2026-03-22T00:00:00Z") == "pushed 2, existed 0\n"
    assert tarry("delete", "nightly") == "deleted nightly\n"
    assert "there is no schedule 'nightly'" in tarry("show", "nightly", code=NOTHING)
    assert server.client().get("reports", "nightly@2026-03-28T00:00:00Z")["body"] == {"kind": "daily"}


def test_an_interval_and_two_expressions(tarry):
    assert tarry("set", "poll", "--topic", "poll", "--every", "15m", "overlap=skip").startswith("created poll")
    assert "every=15m" in tarry("show", "poll") and "overlap=skip" in tarry("show", "poll")
    tarry("set", "both", "--topic", "t", "--cron", "0 9 * * *", "--cron", "0 17 * * FRI")
    assert json.loads(tarry("show", "both", "--json"))["spec"]["cron"] == ["0 9 * * *", "0 17 * * FRI"]


def test_errors_name_the_member_and_the_remedy(tarry):
    assert "write 0 to 23" in tarry("set", "s", "--topic", "t", "--cron", "0 25 * * *", code=REFUSED)
    assert "unknown time zone 'Europe/Berln'" in tarry("set", "s", "--topic", "t", "--every", "1h", "--zone", "Europe/Berln", code=REFUSED)
    assert "choose one" in tarry("set", "s", "--topic", "t", "--every", "1h", "--cron", "* * * * *", code=USAGE)
    assert "name of a schedule is missing" in tarry("show", code=USAGE)
    assert "unknown 'shwo'" in tarry("shwo", "s", code=USAGE)
    assert "no unit" in tarry("set", "s", "--topic", "t", "--every", "60", code=USAGE)


@pytest.mark.parametrize(("arguments", "code", "sentence"), [
    (["set", "s", "--topic", "t"], REFUSED, "'cron' and 'every' are missing, give one of them"),
    (["set", "s", "--every", "1h"], REFUSED, "'topic' is missing"),
    (["set", "s", "--topic", "t", "--every", "1h", "foo"], USAGE, "bad setting 'foo', write NAME=VALUE"),
    (["set", "s", "--topic", "t", "--every", "1h", "foo=1"], REFUSED, "unknown member 'foo'"),
    (["set", "s", "--topic", "t", "--every", "500ms"], REFUSED, "a duration from 1s to 365d"),
    (["set", "s", "--topic", "t", "--every", "1h", "end=2020-01-01T00:00:00Z"], REFUSED, "never fires"),
    (["set", "s", "--topic", "t", "--every", "1h", "except=2026-13-45"], REFUSED, "'2026-13-45', which does not exist"),
    (["set", "s@1", "--topic", "t", "--every", "1h"], REFUSED, "bad name 's@1'"),
    (["set", "s", "--topic", "t", "--every", "1h", "--prune"], USAGE, "has no option '--prune', which is one of: apply"),
    (["list", "s"], USAGE, "unexpected argument 's', give --prefix s"),
    (["list", "--limit", "0"], REFUSED, "'limit' is '0' but must be a number from 1 to 1000"),
    (["show", "nope"], NOTHING, "`tarry schedule list` shows all"),
    (["show", "s", "--json", "--cron", "* * * * *"], USAGE, "has no option '--cron', which is one of: set"),
    (["next", "s", "--n", "x"], USAGE, "bad value 'x' for '--n', give a number"),
    (["next", "s", "--from", "tomorrow"], USAGE, "bad value 'tomorrow' for '--from'"),
    (["run", "nope"], NOTHING, "there is no schedule 'nope'"),
    (["pause", "nope"], NOTHING, "there is no schedule 'nope'"),
    (["pause", "s", "--for", "1"], USAGE, "no unit in '1' for '--for'"),
    (["resume", "s", "--for", "1h"], USAGE, "has no option '--for', which is one of: pause"),
    (["backfill", "s"], REFUSED, "'from' and 'to' are required"),
    (["delete"], USAGE, "the name of a schedule is missing"),
    (["delete", "a", "b"], USAGE, "unexpected argument 'b'"),
    (["delete", "s", "--owner", "shop"], USAGE, "has no option '--owner', which is one of: set, list, apply"),
    (["apply", "/nonexistent"], REFUSED, "cannot read '/nonexistent'"),
    (["apply", "--prune"], REFUSED, "'prune' requires 'owner'"),
    (["import"], USAGE, "too few arguments"),
    (["import", "foo"], USAGE, "unknown kind 'foo', give crontab"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_mistake_is_named_with_its_remedy_and_its_exit_code(server, tarry, arguments, code, sentence):
    if arguments[0] in ("backfill", "next"):
        tarry("set", "s", "--topic", "t", "--every", "1h")
    assert sentence in tarry(*arguments, code=code, stdin=b"[]")
    assert len(server.client().good("GET", "/v1/schedules")["schedules"]) == (arguments[0] in ("backfill", "next")), "nothing is changed"


def test_a_set_is_applied_from_a_file_and_from_standard_input(tarry, tmp_path):
    schedules = {"schedules": [{"name": "a", "topic": "t", "every": "1h"}, {"name": "b", "topic": "t", "every": "1h"}]}
    file = tmp_path / "set.json"
    file.write_text(json.dumps(schedules))
    assert tarry("apply", str(file), "--owner", "shop", "--prune") == "created   a\ncreated   b\n"
    del schedules["schedules"][1]
    assert tarry("apply", "--owner", "shop", "--prune", stdin=json.dumps(schedules).encode()) == "existed   a\ndeleted   b\n"
    schedules["schedules"] *= 2
    assert "two schedules with the name 'a'" in tarry("apply", stdin=json.dumps(schedules).encode(), code=REFUSED)


def test_a_set_takes_schedules_of_another_owner_over_only_with_the_flag(tarry):
    schedules = json.dumps({"schedules": [{"name": "a", "topic": "t", "every": "1h"}]}).encode()
    tarry("apply", "--owner", "shop", stdin=schedules)
    assert "'a' belongs to the owner 'shop', nothing was changed" in tarry("apply", "--owner", "billing", stdin=schedules, code=REFUSED)
    assert "belongs to the owner 'shop'" in tarry("set", "a", "--topic", "t", "--every", "1h", "--owner", "billing", code=REFUSED)
    assert tarry("apply", "--owner", "billing", "--take-over", stdin=schedules) == "replaced  a\n"
    assert tarry("set", "a", "--topic", "t", "--every", "1h", "--owner", "shop", "--take-over").startswith("replaced a")


CRONTAB = b"""# comment
SHELL=/bin/sh
MAILTO="ops@example.com"
CRON_TZ=Europe/Berlin

30 2 * * 1-5  /usr/bin/report --day "$(date +\\%F)"
@daily cat%first line%second line
@reboot /usr/bin/once
*/5 * * * *
"""


def test_a_crontab_becomes_a_set_that_can_be_applied(server, tarry):
    ended = server.cli("schedule", "import", "crontab", "--topic", "jobs", input=CRONTAB)
    assert ended.returncode == OK
    notes, schedules = ended.stderr.decode(), json.loads(ended.stdout)
    assert [s["name"] for s in schedules["schedules"]] == ["crontab-1", "crontab-2"]
    first, second = schedules["schedules"]
    assert (first["cron"], first["zone"], first["topic"]) == ("30 2 * * 1-5", "Europe/Berlin", "jobs")
    assert first["body"] == '/usr/bin/report --day "$(date +%F)"' and second["cron"] == "@daily"
    assert second["body"] == "cat <<'TARRY_INPUT'\nfirst line\nsecond line\nTARRY_INPUT\n"
    assert "MAILTO: output is not mailed" in notes and "line 8: @reboot has no counterpart" in notes and "line 9: not a line of a crontab" in notes
    assert tarry("apply", stdin=ended.stdout) == "created   crontab-1\ncreated   crontab-2\n"


def test_cronjobs_become_a_set(server, tarry):
    items = [{"metadata": {"name": "report", "namespace": "shop"},
              "spec": {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 600, "suspend": True,
                       "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}}},
             {"metadata": {"name": "old"}, "spec": {"schedule": "CRON_TZ=Asia/Tokyo */5 * * * *", "concurrencyPolicy": "Replace"}},
             {"metadata": {"name": "plain"}, "spec": {"schedule": "@hourly"}}, {"kind": "Pod"}]
    ended = server.cli("schedule", "import", "kubernetes", input=json.dumps({"items": items}).encode())
    assert ended.returncode == OK
    first, second, third = json.loads(ended.stdout)["schedules"]
    assert first == {"name": "shop.report", "topic": "kubernetes", "cron": "0 2 * * *", "zone": "Europe/Berlin", "overlap": "skip", "catch_up": "600s",
                     "paused": True, "gap": "skip", "fold": "both", "body": items[0]["spec"]["jobTemplate"]}
    assert (second["cron"], second["zone"]) == ("*/5 * * * *", "Asia/Tokyo") and third["cron"] == "@hourly"
    notes = ended.stderr.decode()
    assert second["overlap"] == "replace" and "plain: no timeZone" in notes and "not a CronJob" in notes
    assert tarry("apply", stdin=ended.stdout).count("created") == 3
    assert server.cli("schedule", "import", "kubernetes", input=b"no json").returncode == REFUSED
    assert server.cli("schedule", "import", "quarz", input=b"").returncode == USAGE


ROWS = {
    "quartz": (
        b"""{"name":"report","group":"shop","cron":"0 30 9 ? * 2-6","zone":"Europe/Berlin","misfire":2,"data":{"a":1}}
            {"name":"last","group":"shop","cron":"0 0 9 ? * 6L 2027","misfire":-1}
            {"name":"second","group":"shop","cron":"0 0 9 ? * 2#2,L"}
            {"name":"simple","group":"shop","repeat_interval":90000,"repeat_count":9,"start":1774656000000}
            {"name":"once","group":"shop","repeat_interval":0,"repeat_count":0,"start":1774656000000}
            {"name":"held","group":"shop","cron":"0 0 9 * * ?","zone":"UTC","paused":true,"nonconcurrent":true,"calendar":"holidays","job":"g.held","class":"Held"}
            {"group":"shop"}""",
        [{"name": "shop.report", "cron": "0 30 9 ? * 1-5", "zone": "Europe/Berlin", "gap": "skip", "fold": "last", "missed": "none", "body": {"a": 1}},
         {"name": "shop.last", "cron": "0 0 9 ? * 5L 2027", "gap": "skip", "fold": "last", "missed": "all"},
         {"name": "shop.second", "cron": "0 0 9 ? * 1#2,6", "gap": "skip", "fold": "last", "missed": "last"},
         {"name": "shop.simple", "every": "90000ms", "start": "2026-03-28T00:00:00.000Z", "missed": "last", "count": 10},
         {"name": "shop.held", "cron": "0 0 9 * * ?", "zone": "UTC", "gap": "skip", "fold": "last", "missed": "last", "overlap": "skip", "paused": True,
          "body": {"job": "g.held", "class": "Held"}}]),
    "celery": (
        b"""[{"name":"tidy up","task":"shop.tidy","args":[1],"kwargs":{},"zone":"UTC",
              "crontab":{"minute":"*/15","hour":"0","day_of_month":"13","month_of_year":"*","day_of_week":"fri"}},
             {"name":"poll","task":"shop.poll","seconds":30.0}, {"name":"dawn","task":"shop.dawn","solar":"dawn"}]""",
        [{"name": "tidy-up", "cron": "*/15 0 13 * +fri", "zone": "UTC", "body": {"task": "shop.tidy", "args": [1], "kwargs": {}}},
         {"name": "poll", "every": "30000ms", "body": {"task": "shop.poll"}}]),
    "bullmq": (
        b"""[{"key":"nightly","name":"report","pattern":"0 30 2 * * *","tz":"Europe/Berlin","template":{"data":{"a":1},"opts":{"attempts":3,"delay":5}}},
             {"key":"poll","name":"poll","every":60000,"limit":5}]""",
        [{"name": "nightly", "cron": "0 30 2 * * *", "zone": "Europe/Berlin", "max_attempts": 3, "body": {"name": "report", "data": {"a": 1}}},
         {"name": "poll", "every": "60000ms", "count": 5, "body": {"name": "poll"}}]),
    "river": (
        b"""{"name":"report","kind":"report","args":{"a":1},"cron":"0 30 2 * * *","zone":"Europe/Berlin","run_on_start":false}
            {"name":"poll","kind":"poll","args":{},"every_ms":900000,"priority":2,"max_attempts":3,"queue":"low","run_on_start":true}
            {"name":"own","kind":"own","args":{}}""",
        [{"name": "report", "cron": "0 30 2 * * *", "zone": "Europe/Berlin", "gap": "skip", "fold": "both", "missed": "none", "body": {"kind": "report", "args": {"a": 1}}},
         {"name": "poll", "every": "900000ms", "missed": "none", "max_attempts": 3, "priority": 101, "body": {"kind": "poll", "args": {}}}]),
    "sidekiq-cron": (
        b"""[{"name":"report","klass":"ReportJob","cron":"30 2 * * * Europe/Berlin","args":"[1,2]","status":"disabled","description":"nightly"},
             {"name":"poll","klass":"PollJob","cron":"*/5 * * * *","args":[],"status":"enabled","queue":"low"}]""",
        [{"name": "report", "cron": "30 2 * * *", "zone": "Europe/Berlin", "note": "nightly", "paused": True, "missed": "none", "gap": "skip", "fold": "both",
          "body": {"class": "ReportJob", "args": [1, 2]}},
         {"name": "poll", "cron": "*/5 * * * *", "missed": "none", "gap": "skip", "fold": "both", "body": {"class": "PollJob", "args": []}}]),
}


@pytest.mark.parametrize("kind", ROWS)
def test_lists_of_other_programs_become_a_set(server, tarry, kind):
    rows, expected = ROWS[kind]
    ended = server.cli("schedule", "import", kind, "--topic", "t", input=rows)
    assert ended.returncode == OK, ended.stderr
    assert json.loads(ended.stdout)["schedules"] == [{"topic": "t", **schedule} for schedule in expected]
    assert tarry("apply", stdin=ended.stdout).count("created") == len(expected)
    assert {"quartz": "left out", "celery": "dawn: not a crontab", "bullmq": "nightly: option 'delay' of its template", "river": "poll: RunOnStart", "sidekiq-cron": "poll: its queue"}[kind] in ended.stderr.decode()
    assert server.cli("schedule", "import", kind, input=b"{").returncode == REFUSED


def test_imported_times_may_be_of_any_size(server):
    rows = b"""[{"key":"poll","every":60000,"startDate":1700000000000,"endDate":1e300}]"""
    [schedule] = json.loads(server.cli("schedule", "import", "bullmq", "--topic", "t", input=rows).stdout)["schedules"]
    assert (schedule["start"], schedule["end"]) == ("2023-11-14T22:13:20.000Z", "9999-12-31T23:59:59.999Z")
