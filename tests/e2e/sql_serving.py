"""What tests of the stores in SQL do, whichever database it is."""

import contextlib
import datetime
import subprocess
import time

from server import BINARY


def tarry(*arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, check=False, timeout=60)


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
