"""Drives pgmq for bench/sql/peers, which documents the words and the lines.

    python3 drive.py URL SETTING drain JOBS
    python3 drive.py URL SETTING fill JOBS
    python3 drive.py URL SETTING late RATE SECONDS

SETTING is `default` (one consumer, 100 messages a read), `tuned` (four, 1,000 a read), or names both, as `4x1000`. Each read's messages are deleted in one call.
"""

import contextlib
import json
import random
import sys
import threading
import time

import psycopg2
from psycopg2.extras import execute_values

BODY, BULK, WARM_UP_SECONDS = "x" * 200, 5000, 9
SETTINGS = {"default": "1x100", "tuned": "4x1000"}


def connected(url):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection


def send(cursor, count, due):
    for start in range(0, count, BULK):
        dues = [due() for _ in range(min(BULK, count - start))]
        execute_values(cursor, "SELECT pgmq.send('orders', m, to_timestamp(d)) FROM (VALUES %s) v (m, d)",
                       [(json.dumps({"body": BODY, "due": at}), at) for at in dues], "(%s::jsonb, %s::float8)", BULK)


class Consumers:
    """Threads that read and delete until so many are done, or until a stop."""

    def __init__(self, url, setting, most=None):
        consumers, self.read = map(int, SETTINGS.get(setting, setting).split("x"))
        self.url, self.most = url, most
        self.done, self.late, self.ended, self.lock = 0, None, False, threading.Lock()
        self.threads = [threading.Thread(target=self.consume) for _ in range(consumers)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()

    def consume(self):
        with contextlib.closing(connected(self.url)) as connection, connection.cursor() as cursor:
            while not self.ended and (self.most is None or self.done < self.most):
                # while it waits: pgmq's own look, every 100 ms
                cursor.execute("SELECT msg_id, message FROM pgmq.read_with_poll('orders', 60, %s, 1, 100)", (self.read,))
                rows, now = cursor.fetchall(), time.time()
                if rows:
                    cursor.execute("SELECT pgmq.delete('orders', %s)", ([row[0] for row in rows],))
                with self.lock:
                    self.done += len(rows)
                    if self.late is not None:
                        self.late += [(now - row[1]["due"]) * 1000 for row in rows]


def ready():
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def report(begun, found):
    """Ends the measurement; the program ends when its input does."""
    print(json.dumps({"seconds": time.monotonic() - begun, **found}), flush=True)
    sys.stdin.readline()


def drain(cursor, url, setting, jobs):
    send(cursor, jobs, lambda: time.time() - 1)
    consumers = Consumers(url, setting, jobs)
    consumers.start()
    while consumers.done < jobs // 5:
        time.sleep(0.001)
    begun, before = ready(), consumers.done
    while consumers.done < jobs:
        time.sleep(0.001)
    report(begun, {"jobs": jobs - before})
    consumers.end()


def late(cursor, url, setting, rate, seconds):
    consumers, pushed, noted, begun = Consumers(url, setting), 0, 0, 0
    consumers.start()
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds + WARM_UP_SECONDS:
        if consumers.late is None and elapsed > WARM_UP_SECONDS:
            begun = ready()
            with consumers.lock:
                consumers.late, noted = [], consumers.done
        wanted = int(elapsed * rate) - pushed
        send(cursor, wanted, lambda: time.time() + random.uniform(2, 6))
        pushed += wanted
        time.sleep(0.02)
    deadline = time.monotonic() + 30
    while consumers.done < pushed and time.monotonic() < deadline:
        time.sleep(0.01)
    consumers.end()
    report(begun, {"jobs": pushed - noted, "late_ms": consumers.late, "missing": pushed - consumers.done})


def main():
    url, setting, mode, *numbers = sys.argv[1:]
    numbers = [int(each) for each in numbers]
    with contextlib.closing(connected(url)) as connection, connection.cursor() as cursor:
        if mode == "drain":
            drain(cursor, url, setting, *numbers)
        if mode == "fill":
            send(cursor, numbers[0], lambda: time.time() + 5 * 3600)
        if mode == "late":
            late(cursor, url, setting, *numbers)


if __name__ == "__main__":
    main()
