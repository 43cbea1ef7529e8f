"""A life of jobs at a server whose database has settings of a DBA, over HTTP and in the application's own session."""

import time

import pytest
from server import eventually
from sql_serving import due_s, tarry

TEXT = "C:\\new\\table 'ü' \"x\" \\047 $1 %s ? -- /* */ # |"


class Setting:
    """A row of a table: `values` are set together. `application`: False, if the application's own session cannot push with them, such as one that
    may only read. `refused`: the word by which the server refuses to start with them."""

    def __init__(self, *values, application=True, refused=None, only=None):
        self.values, self.application, self.refused, self.only = values, application, refused, only

    def __str__(self):
        return ", ".join(self.values)


def rows(settings):
    """Parameters of a test."""
    return [pytest.param(setting, id=str(setting)[:60]) for setting in settings]


def refuses(setting, url):
    """The server does not start, and names the setting."""
    done = tarry("serve", "--listen", "127.0.0.1:0", "--store", url)
    assert done.returncode != 0 and setting.refused in done.stderr, done


def serves(server):
    """Push, list, take, nack, reschedule, take again, ack, history."""
    client = server.client()
    client.put_topic("set", history="1d", backoff="fixed:1ms")
    began = time.time()
    assert client.push("set", "a", TEXT.encode(), content_type="text/plain; charset=utf-8", meta={"name": "it's \\ \"here\""}, delay="150ms")["result"] == "created"
    client.push("set", "later", b"{}", delay="1h", priority=7)
    assert began + 0.1 <= due_s(client.get("set", "a")) < began + 10
    assert began + 3590 < due_s(client.get("set", "later")) < began + 3620
    assert sorted(job["id"] for job in client.list("set")["jobs"]) == ["a", "later"]
    [job] = client.take("set", wait="10s")
    assert (job["id"], job["body"], job["attempt"]) == ("a", TEXT, 1) and time.time() >= began + 0.145
    assert client.nack(job["lease"], delay="1h", error=TEXT)[0]["result"] == "ok"
    waiting = client.get("set", "a")
    assert waiting["state"] == "delayed" and due_s(waiting) > began + 3500
    assert client.reschedule("set", "a", delay="50ms")["result"] == "ok"
    [job] = client.take("set", wait="10s")
    assert (job["id"], job["body"], job["attempt"]) == ("a", TEXT, 2)
    assert client.ack(job["lease"])[0]["result"] == "ok"
    assert client.call("GET", "/v1/topics/set/jobs/a").status == 404
    assert [event["event"] for event in client.good("GET", "/v1/topics/set/jobs/a/history")["history"]][-2:] == ["nacked", "acked"]
    assert client.cancel("set", "later")["result"] == "cancelled"
    assert client.topic("set")["counts"]["ready"] + client.topic("set")["counts"]["delayed"] == 0


def pushes(server, database):
    """The application pushes in a session of its own, which has the settings, too; `database` has what databases do in different ways."""
    client = server.client()
    began = time.time()
    assert database.push("set", "sql", 3_600_000, TEXT) == "created"
    job = client.get("set", "sql")
    assert job["body"] == TEXT and began + 3590 < due_s(job) < began + 3620, job
    assert database.shown("set") == [("sql", "delayed", job["attempt"])]
    assert database.reschedule("set", "sql", 0) == "ok"
    [job] = eventually(lambda: client.take("set", wait="5s"))
    assert (job["id"], job["body"]) == ("sql", TEXT)
    client.ack(job["lease"])
    assert database.push("set", "gone", 60_000, "x") == "created"
    assert database.cancel("set", "gone") == "cancelled"


def works(setting, url, start_server, application):
    """The schema is created, a server serves, the application pushes, and no fault is found. `application()` opens the application's session."""
    migrated = tarry("sql", "migrate", url)
    assert migrated.returncode == 0, migrated.stderr
    server = start_server("--store", url)
    serves(server)
    if setting.application:
        pushes(server, application())
    assert tarry("fsck", "--store", url).stdout == "clean\n"
    assert "is lost" not in server.log() and "upkeep failed" not in server.log(), server.log()
    server.terminate()
