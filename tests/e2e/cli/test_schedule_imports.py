"""`tarry schedule import` with data that Quartz, Celery with redbeat, BullMQ, River, kubectl and sidekiq-cron made: what is imported fires when the program itself would fire it."""

import datetime
import json
import socket
import subprocess
import sys
import types
import zipfile

import pytest
from moving import follow, script
from pages import blocks
from postgres import PostgresServer
from redis_servers import RedisServer
from server import REPO

sys.path.append(str(REPO / "bench"))
from figures import packages  # noqa: E402

HERE = REPO / "tests" / "imports"
BUILD = REPO / "build-imports"
# A plain week; a week with the hour that Berlin skips, 28 March; one with the hour that occurs twice, 31 October.
MOMENTS = [round(datetime.datetime(2027, *day, tzinfo=datetime.timezone.utc).timestamp() * 1000) for day in ((6, 1, 12), (3, 26, 12), (10, 29, 12))]
QUARTZ_TABLES = "org/quartz/impl/jdbcjobstore/tables_postgres.sql"

pytestmark = pytest.mark.plain("the commands of the pages have neither an authority nor a token")


def run(*command, **more):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False, **more)
    assert ended.returncode == 0, (command, ended.stderr[-3000:])
    return ended.stdout


def imported(server, kind, rows):
    """Imports rows and applies the set. Returns the schedules by name, and the notes."""
    ended = server.cli("schedule", "import", kind, "--topic", "t", input=rows.encode())
    assert ended.returncode == 0, ended.stderr
    applied = server.cli("schedule", "apply", input=ended.stdout)
    assert applied.returncode == 0, applied.stderr
    return {one["name"]: one for one in json.loads(ended.stdout)["schedules"]}, ended.stderr.decode()


def fires_of(server, name, moment, count=12):
    at = datetime.datetime.fromtimestamp(moment / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = server.client().call("GET", f"/v1/schedules/{name}/next?n={count}&from={at}").json()["fires"]
    return [round(datetime.datetime.fromisoformat(one["at"].replace("Z", "+00:00")).timestamp() * 1000) for one in found]


def compare(server, fires, known=()):
    """`fires`: by name, the next fires after each moment. `known`: (name, moment) of those that differ, as documented."""
    different = {}
    for name, lists in fires.items():
        for nth, expected in enumerate(lists):
            found = fires_of(server, name, MOMENTS[nth])
            if found[: len(expected)] != expected and (name, nth) not in known:
                shown = [datetime.datetime.fromtimestamp(one / 1000, datetime.timezone.utc).isoformat() for one in sorted(set(found) ^ set(expected))]
                different[f"{name} {nth}"] = shown
    assert not different, json.dumps(different, indent=1)
    assert len(fires) > 3


# ---- Quartz ----


@pytest.fixture(scope="module")
def quartz():
    jars = packages.maven(BUILD / "quartz", HERE / "quartz" / "pom.xml")
    classes = packages.fetched(BUILD / "quartz-classes", (HERE / "quartz" / "Fill.java").read_text(),
                               lambda here: packages.run("javac", "-cp", f"{jars}/*", "-d", here, HERE / "quartz" / "Fill.java"))
    port = free_port()  # Java has no unix sockets; libpq reads PGPORT
    with pytest.MonkeyPatch.context() as patch, PostgresServer("listen_addresses=127.0.0.1", f"port={port}") as database:
        patch.setenv("PGPORT", str(port))
        tables = zipped(next(jars.glob("quartz-2*.jar")), QUARTZ_TABLES)

        def fill(which):
            database.do("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            for statement in tables.split(";"):
                if statement.strip() and not statement.strip().upper().startswith(("COMMIT", "DROP")):
                    database.do(statement)
            return run("java", "-cp", f"{classes}:{jars}/*", "Fill", f"jdbc:postgresql://127.0.0.1:{port}/postgres", which, *MOMENTS)

        yield types.SimpleNamespace(fill=fill, environment=f"PGHOST=127.0.0.1 PGPORT={port} PGUSER=tarry PGDATABASE=postgres")


def zipped(path, name):
    """The text of a file in a jar, without comments."""
    with zipfile.ZipFile(path) as file:
        return "\n".join(line for line in file.read(name).decode().splitlines() if not line.startswith("--"))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def query():
    return "\n".join(next(lines for _, language, lines in blocks("docs/moving/quartz.md") if language == "sql")) + "\n"


def test_triggers_of_quartz_fire_as_they_did(start_server, quartz, tmp_path):
    server = start_server("--sync", "never")
    lines = quartz.fill("all").splitlines()
    fires = {name: [[int(one) for one in part.split()] for part in rest.split("|")[:-1]] for name, _, rest in (line.partition(" ") for line in lines)}
    (tmp_path / "quartz.sql").write_text(query())
    rows = run("bash", "-c", f"{quartz.environment} psql -At -f {tmp_path}/quartz.sql")
    schedules, notes = imported(server, "quartz", rows)
    assert schedules["reports.nightly"] == {"name": "reports.nightly", "topic": "t", "cron": "0 30 2 ? * 1-5", "zone": "Europe/Berlin", "missed": "last", "gap": "skip", "fold": "last",
                                            "start": schedules["reports.nightly"]["start"], "body": {"job": "jobs.nightly", "class": "Fill$Report"}}
    poll, ten = schedules["reports.poll"], schedules["reports.ten"]
    assert (poll["every"], poll["overlap"], poll["missed"]) == ("900000ms", "skip", "none")
    assert (ten["every"], ten["count"], ten["start"], ten["missed"]) == ("90000ms", 10, "2033-05-18T03:33:20.000Z", "none")
    assert (schedules["reports.ignore"]["missed"], schedules["reports.nothing"]["missed"], schedules["reports.held"]["paused"]) == ("all", "none", True)
    assert "reports.daily: neither a cron trigger nor a simple one" in notes and "reports.newyear: fires once" in notes
    compare(server, {name: lists for name, lists in fires.items() if name in schedules and "cron" in schedules[name]})


def test_the_page_on_quartz_is_followed(start_server, quartz, tmp_path):
    server = start_server("--sync", "never")
    quartz.fill("page")
    (tmp_path / "quartz.sql").write_text(query())
    follow("docs/moving/quartz.md", tmp_path, server, {"psql ": f"{quartz.environment} psql "})
    job = server.client().get("reports", "reports.newyear")
    assert (job["due_at"], job["body"]) == ("2033-05-18T03:33:20.000Z", {"job": "jobs.newyear", "class": "Fill$Report"})


# ---- Celery, BullMQ, River ----


def python_of(name):
    """A Python with the packages of tests/imports/NAME/requirements.txt."""
    wanted = HERE / name / "requirements.txt"

    def fetch(here):
        packages.run("/usr/bin/python3", "-m", "venv", here / "venv")
        packages.run(here / "venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", wanted)

    return packages.fetched(BUILD / name, wanted.read_text(), fetch) / "venv" / "bin" / "python"


def test_schedules_of_celery_and_redbeat_fire_as_they_did(start_server, tmp_path):
    server = start_server("--sync", "never")
    (tmp_path / "export.py").write_text(script("docs/schedules.md"))
    redis = RedisServer().start()
    try:
        rows, fires = run(python_of("celery"), HERE / "celery" / "shop.py", f"redis://127.0.0.1:{redis.port}", tmp_path / "export.py", *MOMENTS).splitlines()
    finally:
        redis.terminate()
    schedules, notes = imported(server, "celery", rows)
    assert schedules["nightly-report"] == {"name": "nightly-report", "topic": "t", "cron": "30 2 * * *", "zone": "Europe/Berlin",
                                           "body": {"task": "shop.report", "args": [1, "a"], "kwargs": {"kind": "daily"}}}
    assert (schedules["lists"]["cron"], schedules["both-days"]["cron"]) == ("0,30 1,13 * * mon-fri", "*/15 8-10 1-7,15 * +sun")
    assert (schedules["poll"]["every"], schedules["delta"]["every"], schedules["stored"]["body"]["args"]) == ("30000ms", "120000ms", [7])
    assert "monthly: not a crontab" in notes and "monthly" not in schedules
    # Celery moves a time that does not exist by an hour; tarry fires at the end of the gap.
    compare(server, json.loads(fires), known={("nightly-report", 1)})


def test_job_schedulers_of_bullmq_fire_as_they_did(start_server):
    server = start_server("--sync", "never")
    modules = packages.npm(BUILD / "bullmq", HERE / "bullmq" / "package.json")
    redis = RedisServer().start()
    try:
        found = json.loads(run("node", HERE / "bullmq" / "fill.mjs", modules, redis.port, *MOMENTS))
    finally:
        redis.terminate()
    schedules, notes = imported(server, "bullmq", json.dumps(found["rows"]))
    assert schedules["limited"] == {"name": "limited", "topic": "t", "cron": "0 30 2 * * *", "zone": "Europe/Berlin", "count": 5, "max_attempts": 3, "priority": 107,
                                    "backoff": "fixed:1000ms", "body": {"name": "report", "data": {"a": 1}}}
    assert (schedules["poll"]["every"], schedules["shifted"]["phase"], schedules["poll"]["body"]["data"]) == ("60000ms", "5000ms", [1])
    assert "limited: option 'removeOnComplete' of its template is not imported" in notes
    # BullMQ moves a time that does not exist by an hour; tarry fires at the end of the gap.
    compare(server, found["fires"], known={(name, 1) for name in ("limited", "cron-0", "cron-6")})


def test_periodic_jobs_of_river_fire_as_they_did(start_server):
    server = start_server("--sync", "never")
    code = script("docs/schedules.md", "go")

    def fetch(here):
        for name in ("go.mod", "main.go"):
            (here / name).write_text((HERE / "river" / name).read_text())
        (here / "export.go").write_text(code)
        packages.run("go", "mod", "tidy", cwd=here)
        packages.run("go", "build", "-o", "fill", ".", cwd=here)

    here = packages.fetched(BUILD / "river", code + "".join((HERE / "river" / name).read_text() for name in ("go.mod", "main.go")), fetch)
    *rows, fires = run(here / "fill", *MOMENTS).splitlines()
    schedules, notes = imported(server, "river", "\n".join(rows))
    assert schedules["cron-0"] == {"name": "cron-0", "topic": "t", "cron": "0 30 2 * * *", "zone": "Europe/Berlin", "gap": "skip", "fold": "both", "missed": "none",
                                   "body": {"kind": "report", "args": {"day": "today"}}}
    assert schedules["poll"] == {"name": "poll", "topic": "t", "every": "900000ms", "missed": "none", "max_attempts": 3, "priority": 101, "body": {"kind": "report", "args": {"day": ""}}}
    assert "poll: its queue" in notes and "poll: RunOnStart" in notes and "own: its schedule is a function of yours" in notes
    compare(server, json.loads(fires))


# ---- Kubernetes, sidekiq-cron ----

CRONJOBS = {  # name: the expression, and the members of the spec besides
    "report": ("30 2 * * *", {"timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 600}),
    "workdays": ("0 9 * * 1-5", {"timeZone": "America/New_York", "suspend": True}),
    "often": ("*/5 * * * *", {"concurrencyPolicy": "Replace"}),
    "both-days": ("15 10 1,15 * 5", {"concurrencyPolicy": "Allow", "timeZone": "Etc/UTC"}),
    "half-hours": ("0,30 1-3 * * *", {"timeZone": "Europe/Berlin"}),
    "daily": ("@daily", {"timeZone": "Asia/Tokyo"}),
    "sundays": ("0 12 * * sun", {}),
    "steps": ("7-59/13 */6 * * *", {}),
}


def kubectl_list(kubectl):
    """CronJobs as kubectl makes them, without a cluster, in a list as `kubectl get cronjobs -A -o json` prints it."""
    items = []
    for name, (cron, spec) in CRONJOBS.items():
        made = run(kubectl, "create", "cronjob", name, "--image=busybox", f"--schedule={cron}", "--dry-run=client", "-o", "json", "--", "sh", "-c", "date")
        patch = json.dumps({"metadata": {"namespace": "shop"}, "spec": spec})
        items.append(json.loads(run(kubectl, "patch", "--local", "-f", "-", "--type=merge", "-p", patch, "-o", "json", input=made)))
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})


def test_cronjobs_of_kubectl_fire_as_they_did(start_server):
    server = start_server("--sync", "never")
    kubectl = next(python_of("kubernetes").parent.glob("kubectl*"))

    def fetch(here):
        for name in ("go.mod", "main.go"):
            (here / name).write_text((HERE / "kubernetes" / name).read_text())
        packages.run("go", "mod", "tidy", cwd=here)
        packages.run("go", "build", "-o", "fires", ".", cwd=here)

    here = packages.fetched(BUILD / "kubernetes-fires", "".join((HERE / "kubernetes" / name).read_text() for name in ("go.mod", "main.go")), fetch)
    rows = kubectl_list(kubectl)
    schedules, notes = imported(server, "kubernetes", rows)
    assert len(schedules) == len(CRONJOBS)
    report = schedules["shop.report"]
    assert report["body"]["spec"]["template"]["spec"]["containers"][0]["command"] == ["sh", "-c", "date"]
    assert {name: value for name, value in report.items() if name != "body"} == {
        "name": "shop.report", "topic": "t", "cron": "30 2 * * *", "zone": "Europe/Berlin", "overlap": "skip", "catch_up": "600s", "gap": "skip", "fold": "both"}
    assert (schedules["shop.workdays"]["paused"], schedules["shop.often"]["overlap"]) == (True, "replace")
    assert "shop.often: no timeZone" in notes
    compare(server, json.loads(run(here / "fires", *MOMENTS, input=rows)))


def test_jobs_of_sidekiq_cron_fire_as_they_did(start_server):
    server = start_server("--sync", "never")
    (line,) = [row.split("`")[3] for row in (REPO / "docs" / "schedules.md").read_text().splitlines() if row.startswith("| `sidekiq-cron`")]
    redis = RedisServer().start()
    try:
        *_, rows, fires = run("ruby", HERE / "sidekiq-cron" / "fill.rb", f"redis://127.0.0.1:{redis.port}", line, *MOMENTS,
                          env={"PATH": "/usr/bin:/bin", "TZ": "UTC"}).splitlines()
    finally:
        redis.terminate()
    schedules, notes = imported(server, "sidekiq-cron", rows)
    assert schedules["nightly-report"] == {"name": "nightly-report", "topic": "t", "cron": "30 2 * * *", "zone": "Europe/Berlin", "note": "a report",
                                           "missed": "none", "gap": "skip", "fold": "both", "body": {"class": "Report", "args": [1, "a"]}}
    assert schedules["off"]["paused"]
    assert "off: its queue" in notes and "often: no zone" in notes
    compare(server, {name.replace(" ", "-"): lists for name, lists in json.loads(fires).items()})
