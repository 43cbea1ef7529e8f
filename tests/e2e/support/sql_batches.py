#!/usr/bin/python3
"""Many concurrent batches of several servers on one MariaDB or MySQL: no deadlock is ever shown, and the counts agree at the end.

    tests/e2e/support/sql_batches.py [--batches 100000] [--servers 3] [--threads 8] [--users 2] [--fresh] [--mysql]

Pushes (new ids and such that are there), takes, acks, returns and cancels of up to 20 jobs a call, through all servers, and
transactions of users that push and cancel beside them. With --fresh each id is pushed once and each job acked: what most queues see. It prints how often InnoDB found a deadlock, how often servers repeated a
transaction, and fails where a call is answered anything but what it may be, or where jobs are missing or too many.
"""

import argparse
import collections
import contextlib
import itertools
import random
import tempfile
import threading
import time

import pymysql
from mariadb import MariadbServer
from mysql import MysqlServer
from server import Server


class Story:
    """Shared data of all threads."""

    def __init__(self, batches, is_fresh):
        self.is_fresh, self.ids = is_fresh, itertools.count()
        self.left, self.lock, self.answers, self.faults, self.users_deadlocks = batches, threading.Lock(), collections.Counter(), [], 0

    def next(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0 and not self.faults

    def id(self, draw):
        return f"job-{next(self.ids) if self.is_fresh else draw.randrange(2000)}"

    def note(self, words):
        with self.lock:
            self.answers.update(words)


GOOD = {"created", "replaced", "existed", "conflict", "leased", "cancelled", "not_found", "ok", "lease_ended", "dead_state", "dead"}


def words_of(reply, story, what):
    if not reply.ok:
        story.faults.append((what, reply.status, reply.body))
        return
    words = [result.get("result") or result.get("code") for result in reply.json()["results"]]
    story.note((f"{what} {word}" for word in words))
    if not set(words) <= GOOD:
        story.faults.append((what, words))


def client_of(server, number, story):
    import json
    draw, client = random.Random(number), server.client(60)
    while story.next():
        what = draw.random()
        if what < 0.45:
            items = [{"topic": f"t{draw.randrange(3)}", "id": story.id(draw), "body": "x", "delay": f"{draw.randrange(500)}ms"} for _ in range(draw.randrange(1, 20))]
            words_of(client.call("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"}), story, "push")
        elif what < 0.9:
            jobs = client.take(f"t{draw.randrange(3)}", max=draw.randrange(1, 20))
            story.note({"take": len(jobs)})
            if jobs:
                verb = "ack" if story.is_fresh or draw.random() < 0.8 else "nack"
                words_of(client.call("POST", f"/v1/{verb}", json.dumps({"leases": [job["lease"] for job in jobs]}).encode(), {"Content-Type": "application/json"}), story, verb)
        else:
            reply = client.call("DELETE", f"/v1/topics/t{draw.randrange(3)}/jobs/job-{draw.randrange(2000)}")
            story.note([f"cancel {reply.status}"])
            if reply.status not in (200, 404, 409):
                story.faults.append(("cancel", reply.status, reply.body))


def user_of(database, number, story):
    draw = random.Random(1000 + number)
    while story.left > 0 and not story.faults:
        with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
            try:
                for _ in range(draw.randrange(1, 4)):
                    if draw.random() < 0.7:
                        database.call("push", f"t{draw.randrange(3)}", f"job-{draw.randrange(2000)}", draw.randrange(500), b"x", cursor=cursor)
                    else:
                        database.call("cancel", f"t{draw.randrange(3)}", f"job-{draw.randrange(2000)}", cursor=cursor)
                (connection.commit if draw.random() < 0.7 else connection.rollback)()
            except pymysql.err.OperationalError as error:  # a user's transaction may meet one, as with any table
                if error.args[0] not in (1213, 1205):
                    raise
                with story.lock:
                    story.users_deadlocks += 1
        time.sleep(0.02)


def run(batches, servers=3, threads=8, users=2, database_class=MariadbServer, settings=(), is_fresh=False):
    """The story after so many batches. Raises where something is wrong."""
    story = Story(batches, is_fresh)
    with database_class(*settings) as database, tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        running = []
        for number in range(servers):
            running.append(Server(f"{directory}/{number}", ["--store", database.url, "--migrate"]).start())
            stack.callback(running[-1].terminate)
        for number in range(3):
            running[0].client().push(f"t{number}", "first")
        work = [threading.Thread(target=client_of, args=(running[number % servers], number, story)) for number in range(threads)]
        work += [threading.Thread(target=user_of, args=(database, number, story)) for number in range(users)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert not story.faults, story.faults[:3]
        story.deadlocks = _deadlocks(database)
        story.repeated = sum(_metric(server, "tarry_sql_repeated_total") for server in running)
        time.sleep(2)  # the last users' counts are folded
        for number in range(3):
            counts = running[0].client().topic(f"t{number}")
            jobs = database.do("SELECT count(*) FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = %s", f"t{number}")
            totals, states = counts["totals"], counts["counts"]
            assert sum(states[name] for name in ("delayed", "retrying", "ready", "leased", "dead")) == jobs, (counts, jobs)
            assert totals["pushed"] == jobs + totals["acked"] + totals["cancelled"] + totals["expired"], (counts, jobs)
    return story


def _deadlocks(database):
    """Counts deadlocks by MariaDB's status; on MySQL by its InnoDB metrics."""
    found = database.rows("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return int(found[0][1] if found else database.do("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"))


def _metric(server, name):
    text = server.client().call("GET", "/metrics").body.decode()
    return sum(int(float(line.split()[-1])) for line in text.splitlines() if line.startswith(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("batches", 100000), ("servers", 3), ("threads", 8), ("users", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fresh", action="store_true", help="each id once, nothing is returned")
    parser.add_argument("--mysql", action="store_true", help="on the MySQL of mysql.py")
    given = parser.parse_args()
    begun = time.monotonic()
    story = run(given.batches, given.servers, given.threads, given.users, MysqlServer if given.mysql else MariadbServer, is_fresh=given.fresh)
    print(", ".join(f"{word}: {count}" for word, count in sorted(story.answers.items())))
    print(f"{given.batches} batches in {time.monotonic() - begun:.0f} s, no deadlock shown; InnoDB found {story.deadlocks}, "
          f"{story.users_deadlocks} of users' transactions met one or a lock, servers repeated {story.repeated} transactions")


if __name__ == "__main__":
    main()
