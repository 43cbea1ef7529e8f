"""
The packaged alert rules and the dashboard, with a real Prometheus: no panel is without data on servers that have everything, and a server
that is late, stuck, full, or down raises its alert, whose runbook the server shows.
"""

import contextlib
import json
import math
import re
import shutil
import signal
import subprocess
import threading
import urllib.request

import pytest
from client import Refused
from delivery import settle
from endpoint import Endpoint, write_policy
from postgres import PostgresServer
from prometheus import RULES, Prometheus
from redis_servers import RedisServer
from server import REPO, Server, eventually, freeze

DASHBOARD = REPO / "packaging" / "grafana" / "tarry.json"
TESTS = REPO / "tests" / "alerts" / "rules.yml"
pytestmark = pytest.mark.plain("Prometheus here has no token, and shows no certificate")


class Traffic(threading.Thread):
    """Jobs that are pushed, taken, acked and nacked on a server, until stop()."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.start()

    def run(self):
        client = self.server.client()
        while not self.over.wait(0.05):
            with contextlib.suppress(Refused):  # while a test has the store full, or away
                client.push_batch([{"topic": "busy", "body": "x", "delay": delay} for delay in (0, 0, "20ms", "1h")])
                first, *rest = [job["lease"] for job in client.take("busy", max=10, wait="100ms")] or [None]
                if first:
                    client.nack(first, error="no")
                if rest:
                    client.ack(*rest)
            client.call("GET", "/v1/topics/busy/jobs?limit=0")  # refused

    def stop(self):
        self.over.set()
        self.join(20)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Servers with all that a dashboard shows, and a Prometheus that watches them."""
    directory = tmp_path_factory.mktemp("watched")
    write_policy(directory / "policy")
    with RedisServer() as redis, PostgresServer() as postgres, Endpoint() as good, Endpoint(lambda call: 500) as bad:
        here = Server(directory / "here", ["--sync", "always", "--deliver", directory / "policy"]).start()
        there = Server(directory / "there", ["--store", redis.url]).start()
        in_sql = Server(directory / "in-sql", ["--store", postgres.url, "--migrate"]).start()
        settle(here.client(), "calls", deliver={"to": good.url + "/"})
        settle(here.client(), "failures", deliver={"to": bad.url + "/"})
        traffic = [Traffic(here), Traffic(there), Traffic(in_sql)]
        watch = Prometheus([here.port, there.port, in_sql.port]).start()
        try:
            here.client().good("PUT", "/v1/topics/held?limit=1")
            for ident in ("a", "b"):
                here.client().push("held", ident, group="shop-7")
            here.client().take("held", wait="10s", lease_for="12h")
            for n in range(40):
                here.client().push("calls", f"c{n}", delay=f"{n * 200}ms")
                here.client().push("failures", f"f{n}", backoff="fixed:100ms")
            yield here, there, redis, watch, in_sql, postgres
        finally:
            watch.stop()
            for one in traffic:
                one.stop()
            for server in (here, there, in_sql):
                assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-3000:]
                shutil.rmtree(server.data, ignore_errors=True)


def expressions():
    """[(panel, expression)] of the dashboard, its variables filled in."""
    found = []
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", "6s").replace("$instance", ".*").replace("$topic", ".*")
            assert "$" not in text, text
            found.append((panel["title"], text))
    return found


def test_promtool_finds_the_rules_right():
    for command in (["promtool", "check", "rules", RULES], ["promtool", "test", "rules", TESTS]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_raised_by_series_of_the_tests():
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")))
    assert len(alerts) > 20
    assert set(re.findall(r'labels: \'\{alertname="(\w+)"', TESTS.read_text(encoding="utf-8"))) == alerts


def test_promtool_finds_the_page_right(watched):
    for server in watched[:2]:
        page = server.client().call("GET", "/metrics").body
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and not done.stderr, (done.stdout + done.stderr).decode()


def test_prometheus_reads_all_servers(watched):
    watch = watched[3]
    eventually(lambda: [value for _, value in watch.query("up")] == [1, 1, 1], 30)
    assert set(watch.targets().values()) == {""}


def test_no_panel_is_without_data(watched):
    watch, left = watched[3], expressions()
    assert len(left) > 40

    def all_have_data():
        left[:] = [one for one in left if not any(math.isfinite(value) for _, value in watch.query(one[1]))]
        return not left

    try:
        eventually(all_have_data, 40)
    except AssertionError:
        pytest.fail(f"without data: {left}")


def fires(watch, name, **labels):
    eventually(lambda: any(alert["alertname"] == name and all(alert.get(key) == value for key, value in labels.items()) for alert in watch.firing()), 40)


def test_each_metric_of_the_rules_is_on_the_page(watched):
    """A rule over a name that no server has would be silent for ever."""
    watch = watched[3]
    names = set(re.findall(r"\btarry_[a-z_]+", RULES.read_text(encoding="utf-8")))
    names.remove("tarry_tls_certificate_expiry_timestamp_seconds")  # needs TLS
    assert len(names) > 12
    assert not [name for name in names if not watch.query(name)]


def test_a_topic_without_consumers_is_stuck_and_then_late(watched):
    here, _, _, watch, *_ = watched
    client = here.client()
    client.push_batch([{"topic": "left", "body": "x"} for _ in range(300)])
    fires(watch, "TarryStuck", topic="left")
    assert not any(alert.get("topic") == "busy" for alert in watch.firing() if alert["alertname"] == "TarryStuck")
    address = watch.runbooks()["TarryStuck"]
    with urllib.request.urlopen(address, timeout=10) as page:  # the link of the alert, as an operator follows it
        assert page.read().decode() == (REPO / "docs" / "runbooks" / "stuck.md").read_text(encoding="utf-8")

    def one_more_is_taken():  # over several looks of Prometheus: what a counter has at the first one, no rate sees
        client.ack(*[job["lease"] for job in client.take("left")])
        return any(alert["alertname"] == "TarryLate" and alert["topic"] == "left" for alert in watch.firing())

    eventually(one_more_is_taken, 40, pause=0.2)
    while jobs := client.take("left", max=100):
        client.ack(*[job["lease"] for job in jobs])
    eventually(lambda: not any(alert["alertname"] == "TarryStuck" for alert in watch.firing()), 40)


def test_dead_jobs_raise_an_alert(watched):
    here, _, _, watch, *_ = watched
    client = here.client()

    def one_more_dies():
        client.push("bills", max_attempts=1)
        client.nack(client.take("bills")[0]["lease"], error="http 410")
        return any(alert["alertname"] == "TarryDeadJobs" and alert["topic"] == "bills" for alert in watch.firing())

    eventually(one_more_dies, 40, pause=0.2)


def test_a_failing_endpoint_raises_an_alert(watched):
    fires(watched[3], "TarryBreakerOpen")


def test_a_full_store_raises_an_alert(watched):
    _, there, redis, watch, *_ = watched
    redis.client().config_set("maxmemory", redis.client().info("memory")["used_memory"])
    fires(watch, "TarryFull", instance=f"127.0.0.1:{there.port}")
    redis.client().config_set("maxmemory", 0)
    eventually(lambda: not any(alert["alertname"] == "TarryFull" for alert in watch.firing()), 40)


def test_an_unreachable_redis_raises_its_own_alert(watched):
    _, there, redis, watch, *_ = watched
    redis.kill()
    fires(watch, "TarryRedisDown", instance=f"127.0.0.1:{there.port}")
    assert not any(alert["alertname"] == "TarryStoreFailed" for alert in watch.firing())
    redis.start()


def test_an_unreachable_database_raises_its_own_alert(watched):
    _, _, _, watch, in_sql, postgres = watched
    postgres.stop()
    try:
        fires(watch, "TarryDatabaseDown", instance=f"127.0.0.1:{in_sql.port}")
        assert not [alert for alert in watch.firing() if alert["alertname"] == "TarryStoreFailed" and alert["instance"].endswith(str(in_sql.port))]
    finally:
        postgres.start()


def test_a_server_that_is_down_raises_an_alert(watched):
    here, _, _, watch, *_ = watched
    freeze(here.proc.pid)
    try:
        fires(watch, "TarryDown", instance=f"127.0.0.1:{here.port}")
    finally:
        here.proc.send_signal(signal.SIGCONT)
