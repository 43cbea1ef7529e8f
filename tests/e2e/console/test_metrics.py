"""/metrics: the page has exactly the metrics of a table in the program, and Prometheus accepts it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
from delivery import settle
from server import BINARY, IS_SANITIZED, eventually, slack
from wings import lacking

REPO = pathlib.Path(__file__).parents[3]
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram|info)(?:, (\w+))?(?:; by ([^|]*))? \| (.*?) \| (.*) \|$", re.M)
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}


def rows():
    """Parses the help by name: (type, labels, description); the description ends with the condition, in italics."""
    output = subprocess.run([BINARY, "help", "metrics"], capture_output=True, text=True, check=True).stdout
    found = {name: (kind, tuple(re.findall(r"`(\w+)`", labels or "")), about) for name, kind, _, labels, about, _ in ROW.findall(output)}
    assert len(found) == output.count("\n| `") > 60, "each row once, and none that cannot be read"
    return found


def page(server, **headers):
    reply = server.client().call("GET", "/metrics", headers=headers or None)
    assert reply.status == 200
    return reply.body.decode()


def samples(text):
    """Names as rows have them, with the keys of their labels but `le`."""
    found = {}
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        keys = tuple(key for key in re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels) if key != "le")
        found.setdefault(base if kinds.get(base) == "histogram" else name, set()).add(keys)
    return found


def do_everything(server, endpoint):
    client = server.client()
    settle(client, "sent", deliver={"to": endpoint.url})
    settle(client, "letters", dead_letter={"keep": {"count": 10}})
    client.push("taken", "a")
    client.push("sent", "b")
    client.ack(client.take("taken", consumer="tester")[0]["lease"])
    eventually(lambda: client.topic("sent")["totals"]["acked"] == 1)
    client.call("GET", "/v1/nothing")


@pytest.mark.plain("names of its own metrics, whatever the listeners")
@pytest.mark.parametrize("store", ["embedded", "redis", "postgres"])
def test_each_row_has_a_sample_and_each_sample_a_row(request, start_delivering, endpoint, store):
    flags = ()
    if store != "embedded":
        flags = ("--store", request.getfixturevalue(f"start_{store}")().url, *(["--migrate"] if store == "postgres" else ()))
    server = start_delivering(*flags)
    do_everything(server, endpoint)
    has_groups = server.client().call("PUT", "/v1/topics/held?limit=1").ok  # not every store has limits
    for ident in "ab":
        server.client().push("held", ident, **({"group": "shop-7"} if has_groups else {}))
    server.client().take("held")
    table, found = rows(), samples(page(server))
    assert not set(found) - set(table), "a sample without a row"
    for name, keys in found.items():
        assert keys == {table[name][1]}, f"labels of {name}"
    stores = {"embedded": "with the embedded store", "redis": "with `--store redis://…`", "postgres": "with `--store postgres://…` or `mysql://…`"}
    conditional = {"with `--amqp-in`", "with `--kafka-in`", "while the disk of the embedded store fills up", "with `--tls-certificate`", *(row for name, row in stores.items() if name != store), *(() if has_groups else ("for topics with held jobs", "for topics with groups"))}
    missing = {name: about for name, (_, _, about) in table.items() if name not in found}
    for name, about in missing.items():
        condition = re.search(r"\*Only (.*)\.\*$", about)
        assert condition and (condition[1] in conditional or condition[1].startswith("with `--otlp")), f"{name}: no sample, and the row does not say why"


@pytest.mark.thorough("needs promtool")
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
@pytest.mark.parametrize("topics", ["200", "1", "0"])
def test_promtool_finds_nothing(start_delivering, endpoint, topics):
    server = start_delivering("--metrics-topics", topics)
    do_everything(server, endpoint)
    text = page(server)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and not checked.stderr + checked.stdout, checked.stderr + checked.stdout
    named = set(re.findall(r'topic="([^"]*)"', text)) - {"tarry.dead"}  # the server's own
    assert named == {"200": {"taken", "sent", "letters"}}.get(topics, named), named
    assert ("(others)" in named) == (topics == "1") and bool(named) == (topics != "0")
    for family in ("tarry_jobs", "tarry_jobs_pushed_total", "tarry_oldest_ready_age_seconds", "tarry_deliver_in_flight"):
        series = re.findall(rf'^{family}(?:{{[^}}]*}})? ', text, re.M)
        assert len(series) == len(set(series)) > 0, "each series once"


@pytest.mark.thorough("needs prometheus_client")
def test_openmetrics_goes_through_its_own_parser(start_delivering, endpoint):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    server = start_delivering()
    do_everything(server, endpoint)
    reply = server.client().call("GET", "/metrics", headers=OPEN)
    assert reply.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name: family for family in parser.text_string_to_metric_families(reply.body.decode())}
    for name, (kind, _, _) in rows().items():
        family = families.get(re.sub(r"_total$" if kind == "counter" else r"_info$" if kind == "info" else "$", "", name))
        assert not family or (family.type == kind and family.unit == next((unit for unit in ("seconds", "bytes") if family.name.endswith("_" + unit)), "")), name
    assert families["tarry_jobs_pushed"].samples and families["tarry_build"].type == "info"
    ways = {sample.labels["way"] for sample in families["tarry_lateness_seconds"].samples}
    assert ways == {"take", "callback"}
    head = server.client().call("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=7.0.0, text/plain"})
    assert head.headers["content-type"].startswith("text/plain; version=0.0.4")


@contextlib.contextmanager
def prometheus(tmp_path, target):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": [{"job_name": "tarry", "scrape_interval": "200ms", "scrape_timeout": "200ms", "static_configs": [{"targets": [target]}]}]}))
    with open(tmp_path / "prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb", f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield lambda query: json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}", timeout=5))["data"]["result"]
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.thorough("needs Prometheus")
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus")
@pytest.mark.plain("Prometheus asks by plain HTTP, without a token")
def test_a_real_prometheus_scrapes_it(start_delivering, endpoint, tmp_path):
    server = start_delivering()
    do_everything(server, endpoint)
    with prometheus(tmp_path, f"127.0.0.1:{server.port}") as ask:
        def answer(query):
            with contextlib.suppress(OSError):
                return ask(query)
            return []
        eventually(lambda: answer("up") and answer("up")[0]["value"][1] == "1", 30)
        assert {sample["metric"]["topic"] for sample in ask("tarry_jobs_pushed_total")} >= {"taken", "sent", "letters"}
        assert float(ask("histogram_quantile(0.99, sum by (le) (tarry_lateness_seconds_bucket))")[0]["value"][1]) >= 0
        assert ask("tarry_build_info")[0]["metric"]["version"]
        scraped, kept = float(ask("scrape_samples_scraped")[0]["value"][1]), float(ask("scrape_samples_post_metric_relabeling")[0]["value"][1])
        assert scraped == kept > 100


@pytest.mark.skipif(BINARY.exists() and bool(lacking(BINARY)), reason="the page is of a build with all wings")
def test_the_page_of_the_docs_is_the_table():
    text = (REPO / "docs/metrics.md").read_text(encoding="utf-8")
    output = subprocess.run([BINARY, "help", "metrics"], capture_output=True, text=True, check=True).stdout
    assert text.partition("<!-- below: tarry help metrics -->\n\n")[2] == output, "run scripts/metrics"


def iterations(server):
    return sum(int(count) for count in re.findall(r"^tarry_loop_iteration_duration_seconds_count\{.*\} (\d+)$", page(server), re.M))


@pytest.mark.plain("durations")
def test_ten_thousand_topics_delay_no_loop_iteration(start_server, capsys):
    server = start_server("--sync", "never", "--max-topics", "100000", "--shards", "1")
    client = server.client()
    for at in range(0, 10_000, 1000):
        client.push_batch([{"topic": f"topic-{n}", "id": "a", "delay": "1h"} for n in range(at, at + 1000)])
    took = []
    for _ in range(10):
        began = time.perf_counter()
        text = page(server)
        took.append((time.perf_counter() - began) * 1000)
    assert re.search(r"^tarry_topics 10000$", text, re.M) and len(re.findall(r"^tarry_topic_paused", text, re.M)) == 201
    before = iterations(server)
    passed = iterations(server) - before
    longest = re.findall(r"^tarry_loop_iteration_longest_seconds\{.*\} (\S+)$", page(server), re.M)
    with capsys.disabled():
        print(f" 10,000 topics: best of 10 scrapes {min(took):.1f} ms, over {passed} loop iterations; the longest since the start {max(map(float, longest)) * 1000:.2f} ms")
    assert IS_SANITIZED or min(took) < 50 * slack()
    assert passed >= 40, "the topics are read over many loop iterations"

    def held():
        return int(re.search(r"^tarry_http_memory_bytes (\d+)$", client.call("GET", "/metrics").body.decode(), re.M)[1])
    held()
    before = held()
    for _ in range(50):  # the client disconnects before its answer
        gone = socket.create_connection(("127.0.0.1", server.port))
        gone.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        gone.close()
    eventually(lambda: held() <= before)
    server.last = socket.create_connection(("127.0.0.1", server.port))  # one is on its way when the server stops
    server.last.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")


def slow_activities(server):
    """Returns the activities of slow iterations with their counts."""
    return {name: int(count) for name, count in re.findall(r'^tarry_loop_slow_iterations_total\{reactor="0",activity="([^"]+)"\} (\d+)$', page(server), re.M)}


@pytest.mark.plain("activities of the loop, whatever the listeners")
def test_slow_iterations_are_counted_by_their_activity(start_server):
    server = start_server("--shards", "1")
    client = server.client()
    for first in range(0, 20_000, 1000):
        client.push_batch([{"topic": "many", "id": str(first + number)} for number in range(1000)])

    def takes_have_been_slow():
        taken = client.call("POST", "/v1/topics/many/take?max=1000")
        client.call("POST", "/v1/nack", json.dumps({"leases": [job["lease"] for job in taken.json()["jobs"]]}).encode(), {"Content-Type": "application/json"})
        return "/v1/topics/{topic}/take" in slow_activities(server)

    core = {min(os.sched_getaffinity(0))}  # shared with a busy process, so that a fast machine is slow, too
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        os.sched_setaffinity(busy.pid, core)
        os.sched_setaffinity(server.proc.pid, core)
        try:
            eventually(takes_have_been_slow, 60)
        finally:
            busy.kill()
    found = slow_activities(server)
    assert set(found) - {"several"} and "/v1/schedules" not in found
