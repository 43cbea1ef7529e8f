"""A pause for a time: it ends by itself, never early, over restarts and whichever server is asked."""

import contextlib
import threading
import time

import pytest
from redis_servers import RedisServer
from server import Server, slack
from test_load import seconds


@pytest.fixture(scope="module", params=["embedded", "sharded", "redis"])
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pause")
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        flags = {"redis": lambda: ["--store", redis.url, "--shards", "2"], "sharded": lambda: ["--shards", "3"], "embedded": lambda: []}[request.param]()
        server = Server(directory, flags).start()
        yield server
        assert server.terminate() == 0


def pause(client, topic, lasts):
    reply = client.call("POST", f"/v1/topics/{topic}/pause?for={lasts}")
    assert reply.status == 200, reply.body
    return reply.json()


def test_a_take_that_waits_gets_the_job_when_the_pause_ends_and_not_before(server):
    client = server.client()
    client.push("waited", "a")
    begin = time.monotonic()
    shown = pause(client, "waited", "1500ms")
    assert shown["paused"] is True and 0 < seconds(shown["paused_until"]) - time.time() < 2
    taken = {}

    def wait():
        taken["jobs"] = server.client().call("POST", "/v1/topics/waited/take?wait=20s").json()["jobs"]
        taken["after"] = time.monotonic() - begin

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(20)
    assert [job["id"] for job in taken["jobs"]] == ["a"] and 1.5 <= taken["after"] < 3 * slack()
    shown = client.topic("waited")
    assert (shown["paused"], shown["paused_until"]) == (False, None)


def test_it_is_kept_over_a_restart(server):
    client = server.client()
    client.push("kept", "a")
    until = pause(client, "kept", "1h")["paused_until"]
    server.restart("kill")
    client = server.client()
    shown = client.topic("kept")
    assert shown["paused"] and abs(seconds(shown["paused_until"]) - seconds(until)) < 0.01
    assert client.call("POST", "/v1/topics/kept/take").json()["jobs"] == []
    pause(client, "kept", "1s")
    server.restart("terminate")
    client = server.client()
    deadline = time.monotonic() + 20
    while client.topic("kept")["paused"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [job["id"] for job in client.call("POST", "/v1/topics/kept/take").json()["jobs"]] == ["a"]


def test_invalid_values_are_rejected(server):
    client = server.client()
    client.push("wrong", "a")
    for lasts in ("0", "999ms", "11000d", "soon"):
        reply = client.call("POST", f"/v1/topics/wrong/pause?for={lasts}")
        assert (reply.status, reply.code) == (400, "bad_option"), lasts
    assert not client.topic("wrong")["paused"]
    assert client.call("POST", "/v1/topics/wrong/resume?for=1s").code == "unknown_option"


def test_the_command_line_sets_it_and_a_dump_keeps_it(server):
    client = server.client()
    client.push("paused-once", "a", delay="1d")
    ended = server.cli("pause", "paused-once", "--for", "30m")
    assert ended.returncode == 0 and ended.stdout == b"paused paused-once for 30m\n"
    assert b"paused until " in server.cli("topics").stdout
    assert b"paused until " in server.cli("topic", "show", "paused-once").stdout
    until = client.topic("paused-once")["paused_until"]
    dump = server.cli("export", "--topic", "paused-once").stdout
    client.delete_topic("paused-once")
    assert server.cli("import", input=dump).returncode == 0
    shown = client.topic("paused-once")
    assert shown["paused"] and abs(seconds(shown["paused_until"]) - seconds(until)) < 5
    over = dump.replace(b'"paused_until":', b'"paused_until":1000000000000,"was":')
    client.delete_topic("paused-once")
    assert over != dump and server.cli("import", input=over).returncode == 0
    assert not client.topic("paused-once")["paused"]
