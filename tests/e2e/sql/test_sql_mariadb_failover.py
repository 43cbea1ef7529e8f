"""MariaDB fails over to a replica, or is read-only for a while: nothing fires early, no delivery number repeats."""

import pathlib
import shutil
import socket
import tempfile
import threading
import time

import pytest
from fake_clock import FakeClock, fake_time_library
from mariadb import MariadbServer
from server import eventually, slack
from sql_serving import migrated, tarry, transaction


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def directory():
    path = pathlib.Path(tempfile.mkdtemp(prefix="tarry-clock-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def test_a_replica_an_hour_ahead_with_a_lost_tail_fires_nothing_early(start_server, directory, ahead_s=3600):
    clock = FakeClock(directory / "clock", ahead_ms=ahead_s * 1000)
    env = {name: value for name, value in clock.env(fake_time_library(directory)).items() if name != "ASAN_OPTIONS"}
    ports = free_port(), free_port()
    network = [("skip-networking=0", "bind-address=127.0.0.1", f"port={port}", f"server-id={number}") for number, port in enumerate(ports, 1)]
    with MariadbServer(*network[0]) as primary, MariadbServer(*network[1], "read-only=1", env=env) as replica:
        assert tarry("sql", "migrate", primary.url).returncode == 0
        replica.follow(primary, ports[0])
        url = f"mysql://root@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/"
        servers = [start_server("--store", url) for _ in range(2)]
        client = servers[0].client()
        begun = time.time()
        client.push("clock", "soon", delay="4s")
        client.push("clock", "later", delay="30m")
        client.push("clock", "held")
        replica.catch_up(primary)
        replica.do("STOP SLAVE")
        [lost] = client.take("clock", wait="5s")  # the replica receives no take, nor later changes
        client.push("clock", "tail", delay="1s")
        primary.kill()
        replica.promote()
        for server in servers:
            eventually(lambda server=server: server.client().call("GET", "/readyz").status == 200, seconds=20)
        [held] = client.take("clock", wait="20s", lease_for="1h")
        assert (held["id"], held["attempt"]) == ("held", 1) and held["delivery"] > lost["delivery"]
        assert client.call("POST", f"/v1/ack?lease={lost['lease']}").status == 409
        [soon] = client.take("clock", wait="20s")
        assert soon["id"] == "soon" and 4 <= time.time() - begun < 60 * slack()
        assert client.take("clock") == [] and client.call("GET", "/v1/topics/clock/jobs/tail").status == 404
        assert client.ack(held["lease"])[0]["result"] == "ok"
        assert replica.do("SELECT ABS(adjust_ms + %s) < 2000 FROM tarry.store", ahead_s * 1000)
        log = servers[0].log() + servers[1].log()
        assert log.count("clock difference is corrected") == 1 and "the database lost its last commits" in log
        for server in servers:
            server.terminate()


@pytest.mark.parametrize("setting", ["read_only", "tx_read_only"])
def test_a_temporarily_read_only_database_is_waited_for(start_server, setting):
    with migrated(MariadbServer()) as own:
        own.do("CREATE USER tarry_server")
        own.do("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE TEMPORARY TABLES ON tarry.* TO tarry_server")
        server = start_server("--store", own.url.replace("root@", "tarry_server@"))
        client = server.client(60)
        client.push("waits", "before")
        own.do(f"SET GLOBAL {setting} = 1")
        own.cut_servers("tarry_server")
        answers = []
        pushing = threading.Thread(target=lambda: answers.append(client.push("waits", "meanwhile", on_conflict="reject")["result"]))
        pushing.start()
        eventually(lambda: "database cannot be reached" in server.log() and "read" in server.log().lower())
        assert not answers
        own.do(f"SET GLOBAL {setting} = 0")
        pushing.join()
        assert answers == ["created"] and client.topic("waits")["counts"]["ready"] == 2
        server.terminate()


def test_a_failed_transaction_loses_no_expiry_event(start_server):
    """The first one of a server reads of which topic such a job is, not yet which that is, and fails: the next one must not take the topic for gone."""
    with MariadbServer() as own:
        first = start_server("--store", own.url, "--migrate")
        client = first.client()
        client.put_topic("ttl", dead_letter_expired="true")
        client.push("other", "held")
        assert client.take("other", wait="5s", lease_for="1h")
        client.push("ttl", "a", ttl="1h")
        client.push("ttl", "b", delay="1h")  # is between: a unique key is searched up to the next one, including locked ones
        first.kill()
        own.do("UPDATE tarry.job SET expire = 1 WHERE id = 'a'")
        own.do("UPDATE tarry.job SET server = 999 WHERE id = 'held'")  # unowned: a new server adopts it
        with transaction(own, commit=False) as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SELECT state FROM tarry.job WHERE topic = %s AND id = 'held' FOR UPDATE", (own.do("SELECT topic FROM tarry.topic WHERE name = 'other'"),))
            second = start_server("--store", own.url)
            eventually(lambda: own.do("SELECT state FROM tarry.job WHERE id = 'a'") != 1, seconds=20)
        assert own.do("SELECT state FROM tarry.job WHERE id = 'a'") == 4
        second.terminate()
        assert tarry("fsck", "--store", own.url).stdout == "clean\n"


def test_the_hour_that_comes_twice_when_summer_ends_is_counted_right(directory):
    """Half past two in Berlin, twice: by the clock on its wall one of them is an hour off, and with it each delay of a user's own push."""
    at = 1792888200  # 2026-10-25 00:30 UTC
    clock = FakeClock(directory / "clock", ahead_ms=(at - time.time()) * 1000)
    env = {name: value for name, value in clock.env(fake_time_library(directory)).items() if name != "ASAN_OPTIONS"}
    with migrated(MariadbServer(env={**env, "TZ": "Europe/Berlin"})) as own:
        for hours in range(2):
            assert str(own.do("SELECT NOW()")).startswith("2026-10-25 02:3")
            assert 0 <= own.do("SELECT tarry.now_ms()") - (at + hours * 3600) * 1000 < 300000
            clock.step(3600000)
