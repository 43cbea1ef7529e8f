"""Shared parts of the tests of SQL stores, for every database."""

import contextlib
import datetime
import os
import subprocess
import time

from server import BINARY, eventually


def tarry(*arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, check=False, timeout=60)


@contextlib.contextmanager
def migrated(database):
    """Starts a database with the schema."""
    with database as server:
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@contextlib.contextmanager
def transaction(database, commit):
    connection = database.connect()
    with contextlib.closing(connection), connection.cursor() as cursor:
        yield cursor
        (connection.commit if commit else connection.rollback)()


def due_s(job):
    return datetime.datetime.fromisoformat(job["due_at"].replace("Z", "+00:00")).timestamp()


def drain(client, topic, seconds=0.0):
    """Ids of all that comes, acked."""
    got, until = [], time.monotonic() + seconds
    while jobs := client.take(topic, max=100, wait=f"{max(0, int((until - time.monotonic()) * 1000))}ms"):
        got += [job["id"] for job in jobs]
        client.ack(*(job["lease"] for job in jobs))
    return got


def push_until(ended, client, topic, name, pushed):
    """Pushes NAME-0, NAME-1, … until the event, whatever breaks meanwhile; what was answered goes into `pushed`."""
    for i in range(100000):
        if ended.is_set():
            return
        with contextlib.suppress(Exception):
            client.push(topic, f"{name}-{i}")
            pushed.append(f"{name}-{i}")


def fills_up_and_goes_on(database, client, ballast, ballast_mb):
    """The disk of the database is small, and also has `ballast`: pushes are refused once it is full, no answered push is lost, and with room they
    succeed again."""
    ballast.write_bytes(bytes(ballast_mb << 20))
    answered, refusal = 0, None
    while answered < 1000 and refusal is None:
        answer = client.call("PUT", f"/v1/topics/full/jobs/{answered}?delay=1h", os.urandom(64 << 10))
        refusal, answered = (None, answered + 1) if answer.status == 201 else (answer, answered)
    assert answered and refusal.status == 507 and b"no_space" in refusal.body, (answered, refusal and (refusal.status, refusal.body))
    assert database.do("SELECT count(*) FROM tarry.job") == answered
    ballast.unlink()
    eventually(lambda: client.call("PUT", "/v1/topics/full/jobs/again?delay=1h", b"x").status == 201)
