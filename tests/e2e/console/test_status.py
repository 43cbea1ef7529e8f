"""Is all well: each code of /v1/status, on a server that is made so. Minutes pass in a moment, while the machine sleeps (fake_clock.py)."""

import contextlib
import json
import re

import pytest
from certificates import Authority
from client import Client
from conftest import FLAGS
from fake_clock import FakeClock, fake_time_library
from redis_servers import RedisServer
from server import REPO, Server, eventually
from tokens import Token, TokenFile


class House:
    """A server whose machine can be put to sleep."""

    def __init__(self, directory, *flags):
        self.clock = FakeClock(directory / "clock")
        self.server = Server(directory / "server", flags or FLAGS, self.clock.env(fake_time_library(directory)))
        self.server.start()
        self.client = self.server.client()

    def status(self, client=None):
        return (client or self.client).good("GET", "/v1/status")

    def problem(self, code, topic=None):
        """The problem with this code and topic, or None."""
        found = [problem for problem in self.status()["problems"] if (problem["code"], problem["topic"]) == (code, topic)]
        assert len(found) < 2
        return found[0] if found else None


@contextlib.contextmanager
def house_of(directory, *flags):
    house = House(directory, *flags)
    try:
        yield house
        assert house.server.terminate() == 0 and not house.server.sanitizer_report(), house.server.log()[-4000:]
    finally:
        if house.server.proc.poll() is None:
            house.server.kill()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A server for all tests of single topics; each test has its own topics, and ends the problems that it makes."""
    with house_of(tmp_path_factory.mktemp("house")) as house:
        yield house


def test_all_is_well_in_one_sentence(house):
    assert house.status() == {"well": True, "sentence": "all is well: 0 topics, 0 jobs", "problems": [], "problems_left_out": 0}
    house.client.push("well", "a", delay="1h")
    assert house.status()["sentence"] == "all is well: 1 topic, 1 job"
    house.client.push("well", "b")
    assert house.status()["sentence"] == "all is well: 1 topic, 2 jobs"
    house.client.good("DELETE", "/v1/topics/well")


def test_dead_jobs_are_a_warning(house):
    for n in range(2):
        house.client.push("mourned", f"j{n}", max_attempts=1)
    for job in house.client.take("mourned", max=2):
        house.client.nack(job["lease"])
    status = house.status()
    assert status["well"] and status["sentence"] == "1 warning: 'mourned' has 2 jobs that died"
    assert status["problems"] == [{"code": "dead", "severity": "warning", "sentence": "'mourned' has 2 jobs that died", "topic": "mourned", "value": 2, "limit": None, "runbook": "dead", "silenced": None}]
    house.client.good("DELETE", "/v1/topics/mourned")
    assert house.status()["problems"] == []


def test_the_worst_of_many_topics_are_reported(house):
    for n in range(13):
        for i in range(n + 1):
            house.client.push(f"many-{n:02}", f"j{i}", max_attempts=1)
        for job in house.client.take(f"many-{n:02}", max=20):
            house.client.nack(job["lease"])
    status = house.status()
    assert [(problem["topic"], problem["value"]) for problem in status["problems"]] == [(f"many-{n:02}", n + 1) for n in range(12, 2, -1)]
    assert status["problems_left_out"] == 3 and status["sentence"].endswith("(and 12 more)")
    for n in range(13):
        house.client.good("DELETE", f"/v1/topics/many-{n:02}")


def test_jobs_without_consumers_are_stuck(house):
    house.client.push("stuck", "a")
    assert house.status()["well"]
    house.clock.sleep(45)
    assert house.problem("stuck", "stuck") is None
    house.clock.sleep(20)
    status = house.status()
    assert not status["well"] and re.fullmatch(r"no worker takes the ready jobs of 'stuck': the oldest was due 6\d s ago", status["sentence"])
    problem = house.problem("stuck", "stuck")
    assert problem["severity"] == "critical" and problem["limit"] == 60_000 and 65_000 <= problem["value"] < 80_000 and problem["runbook"] == "stuck"
    house.client.push("stuck", "b")
    house.client.ack(house.client.take("stuck")[0]["lease"])
    assert house.problem("stuck", "stuck") is None, "one was taken"
    house.client.good("DELETE", "/v1/topics/stuck")
    assert house.status()["well"]


def test_jobs_that_are_taken_too_slowly_are_late(house):
    for n in range(3):
        house.client.push("slow", f"j{n}")
    house.status()
    house.clock.sleep(30)
    assert house.problem("late", "slow")["severity"] == "warning" and house.status()["well"], "not a minute ago it was new"
    house.clock.sleep(60)
    assert house.problem("stuck", "slow") and not house.problem("late", "slow")
    house.client.ack(house.client.take("slow")[0]["lease"])
    problem = house.problem("late", "slow")
    assert problem["value"] >= 90_000 and problem["limit"] == 10_000 and not house.problem("stuck", "slow")
    house.client.good("DELETE", "/v1/topics/slow")


def test_late_deliveries_are_reported(house):
    house.clock.sleep(100)  # earlier problems are no longer reported
    house.client.push_batch([{"topic": "behind", "id": f"j{n}"} for n in range(120)])
    house.status()
    assert house.problem("late") is None
    house.clock.sleep(5)
    house.client.take("behind", max=10)
    problem = house.problem("late")
    assert problem["severity"] == "warning" and problem["limit"] == 1000 and 2000 < problem["value"] <= 10_000 and "deliveries are" in problem["sentence"]
    house.clock.sleep(200)
    house.client.take("behind", max=10)
    assert house.problem("late")["severity"] == "warning", "they are few"
    house.client.take("behind", max=100)
    assert house.problem("late")["severity"] == "critical" and not house.status()["well"]
    house.client.good("DELETE", "/v1/topics/behind")
    house.clock.sleep(100)
    assert house.problem("late") is None


def test_jobs_that_stay_held_are_reported(house):
    house.client.good("PUT", "/v1/topics/held?limit=1")
    for ident in ("a", "b"):
        house.client.push("held", ident, group="shop-7")
    [job] = house.client.take("held", lease_for="12h")
    house.status()
    house.clock.sleep(590)
    assert house.problem("held", "held") is None and house.problem("stuck", "held") is None
    house.clock.sleep(20)
    problem = house.problem("held", "held")
    assert (problem["severity"], problem["runbook"], problem["limit"]) == ("warning", "held", 600_000)
    assert problem["sentence"] == "all ready jobs of 'held' are held, and the oldest was due 10 min ago" and house.status()["well"]
    house.client.good("PUT", "/v1/topics/held?limit=5")
    assert house.problem("held", "held") is None
    house.client.good("DELETE", "/v1/topics/held")


def test_a_forgotten_group_is_reported(house):
    house.client.push("groups", "a", group="shop-7")
    house.client.good("POST", "/v1/topics/groups/groups/shop-7/pause")
    house.client.push("groups", "b", group="shop-8", delay="3690s")
    house.status()
    house.clock.sleep(3500)
    house.client.push("groups", "c", group="shop-8")
    house.client.take("groups", lease_for="12h")
    assert house.problem("held", "groups") is None, "it was paused just now"
    house.clock.sleep(200)
    house.client.take("groups", lease_for="12h")
    problem = house.problem("held", "groups")
    assert (problem["limit"], problem["sentence"]) == (3_600_000, "'groups' has ready jobs in groups that are paused or on hold, for 62 min")
    house.client.good("POST", "/v1/topics/groups/groups/shop-7/resume")
    assert house.problem("held", "groups") is None
    house.client.good("DELETE", "/v1/topics/groups")


def test_a_forgotten_pause_is_reported(house):
    house.client.push("paused", "a")
    house.client.good("POST", "/v1/topics/paused/pause")
    house.status()
    house.clock.sleep(3500)
    assert house.problem("stuck", "paused") is None, "it was paused just now"
    house.clock.sleep(200)
    problem = house.problem("stuck", "paused")
    assert problem["severity"] == "warning" and problem["sentence"] == "'paused' has ready jobs and has been paused for 62 min"
    house.client.good("POST", "/v1/topics/paused/resume")
    assert house.problem("stuck", "paused")["severity"] == "critical"
    house.client.good("DELETE", "/v1/topics/paused")


def test_a_full_topic_is_reported(house):
    house.client.put_topic("full", max_jobs=2)
    house.client.push("full", "a", delay="1h")
    assert house.problem("full", "full") is None
    house.client.push("full", "b", delay="1h")
    assert house.problem("full", "full")["sentence"] == "'full' is full with 2 jobs: pushes to it are rejected"
    house.client.good("DELETE", "/v1/topics/full")


def test_a_changed_clock_is_reported_for_ten_minutes(house):
    house.client.push("timed", "a", delay="1h")
    house.clock.step(-90_000)
    house.client.push("timed", "b", delay="1h")
    problem = house.problem("clock")
    assert problem["severity"] == "warning" and problem["sentence"] == "the clock was changed by 90 s"
    house.clock.sleep(601)
    assert house.problem("clock") is None
    house.clock.step(90_000)
    house.client.good("DELETE", "/v1/topics/timed")


def test_options_and_other_methods_are_refused(house):
    assert house.client.call("GET", "/v1/status?topic=a").status == 400
    assert house.client.call("POST", "/v1/status").status == 405
    assert house.client.call("HEAD", "/v1/status").status == 200


def test_an_ending_certificate_is_reported_to_callers_with_rights(tmp_path):
    authority = Authority(tmp_path)
    authority.sign("server", days=3)
    tokens = TokenFile(tmp_path / "tokens", every := Token("every"), own := Token("own", ["read"], ["orders-*"]))
    flags = ("--tls-cert", str(authority.certificate("server")), "--tls-key", str(authority.key("server")), "--tokens", str(tokens.path), "--listen", "127.0.0.1:0,tls")
    with house_of(tmp_path, *FLAGS, *flags) as house:
        port = house.server.port
        for topic in ("orders-1", "mail"):
            Client(port).good("PUT", f"/v1/topics/{topic}/jobs/a?max_attempts=1", b"x", every.headers)
            lease = Client(port).good("POST", f"/v1/topics/{topic}/take", b"", every.headers)["jobs"][0]["lease"]
            Client(port).good("POST", f"/v1/nack?lease={lease}", b"", every.headers)
        whole = Client(port).good("GET", "/v1/status", b"", every.headers)
        assert [(problem["code"], problem["topic"]) for problem in whole["problems"]] == [("dead", "mail"), ("dead", "orders-1"), ("certificate", None)]
        assert re.fullmatch(r"the certificate expires in [23] days", whole["problems"][2]["sentence"]) and whole["well"]
        seen = Client(port).good("GET", "/v1/status", b"", own.headers)
        assert [problem["topic"] for problem in seen["problems"]] == ["orders-1"] and "mail" not in str(seen)


def test_an_unreachable_redis_is_reported(tmp_path):
    with RedisServer() as redis, house_of(tmp_path, "--store", redis.url, "--shards", "1") as house:
        house.client.push("orders", "a")
        assert house.status()["sentence"] == "all is well: 1 topic, 1 job"
        redis.stop()
        status = eventually(lambda: not (status := house.status())["well"] and status, 20, 0.1)
        assert status["problems"][0] == {"code": "redis_away", "severity": "critical", "sentence": "Redis cannot be reached: jobs are neither accepted nor delivered",
                                         "topic": None, "value": None, "limit": None, "runbook": "redis-away", "silenced": None}


def test_each_runbook_that_is_named_is_there():
    rows = (REPO / "src" / "fronts" / "monitor" / "problem.c").read_text(encoding="utf-8")
    named = re.findall(r'=\s*\{\s*"(\w+)",\s*"([\w-]+)"', rows)
    page = (REPO / "docs" / "api.md").read_text(encoding="utf-8").split("## Status and live figures")[1]
    description = (REPO / "openapi.yaml").read_text(encoding="utf-8")
    assert len(named) >= 15
    for code, runbook in named:
        assert (REPO / "docs" / "runbooks" / f"{runbook}.md").exists(), runbook
        assert f"`{code}`" in page, code
    enum = re.search(r"enum: \[(store_failed[\w, ]+)\]", description)[1].split(", ")
    assert set(enum) == {code for code, _ in named}


def test_a_silence_is_reported_with_its_problem_and_ends(server):
    client = server.client()
    client.push("mail", "a")
    (job,) = client.take("mail")
    client.nack(job["lease"], final="true")
    client.call("PUT", "/v1/topics/t", b"{}")
    problem = lambda: client.call("GET", "/v1/status").json()["problems"][0]  # noqa: E731
    before = client.call("GET", "/v1/status").json()
    assert problem()["silenced"] is None
    put = lambda target, body=b"": client.call("PUT", f"/v1/silences/{target}", body, {"Content-Type": "application/json"})  # noqa: E731
    assert put("dead?topic=mail&topic=other&for=1s").status == 400, "a second topic is not ignored"
    silence = put("dead?topic=mail&for=1s", b'{"note":"a \\"note\\""}').json()
    assert (silence["code"], silence["topic"], silence["note"], silence["by"]) == ("dead", "mail", 'a "note"', "anonymous")
    assert problem()["silenced"] == {name: silence[name] for name in ("code", "since", "until", "note", "by")}
    assert client.call("GET", "/v1/status").json()["well"] == before["well"], "a silence changes neither health nor sentence"
    eventually(lambda: problem()["silenced"] is None, 10)
    for target, body, code in (("nonsense?for=1h", b"", "bad_option"), ("dead", b"", "bad_option"), ("dead?for=31d", b"", "bad_option"), ("dead?for=1h", b"{]", "bad_json"),
                               ("dead?for=1h", b'{"note":5}', "bad_json"), ("dead?for=1h", json.dumps({"note": "x" * 201}).encode(), "bad_option"), ("dead?for=1h&topic=.x", b"", "bad_topic")):
        assert put(target, body).code == code, target
    put("dead?topic=mail&for=1h")
    assert [one["topic"] for one in client.call("GET", "/v1/silences").json()["silences"]] == ["mail"]
    assert client.call("DELETE", "/v1/silences/dead?topic=mail").json() == {"removed": True}
    assert client.call("DELETE", "/v1/silences/dead?topic=mail").json() == {"removed": False}
