"""Groups and their limits in PostgreSQL: over several servers that are killed, and in a user's own transaction."""

import json
import random
import threading
import time

import pytest
from client import Lost, Refused
from server import eventually
from sql_serving import transaction

LIMITS = (1, 3, 50)
GROUPS, JOBS, LEASE_S = 200, 6, 3


class Checker:
    """Counts leases that consumers hold at the same time. A lease counts from its arrival until its answer is sent, or until it may have ended."""

    def __init__(self):
        self.lock, self.held, self.most, self.acked = threading.Lock(), {}, {}, set()

    def begin(self, lease, group, until):
        with self.lock:
            now = time.monotonic()
            held = self.held.setdefault(group, {})
            for old in [old for old, ends in held.items() if ends <= now]:
                del held[old]
            held[lease] = until
            self.most[group] = max(self.most.get(group, 0), len(held))

    def end(self, lease, group):
        with self.lock:
            self.held[group].pop(lease, None)


def consume(servers, checker, stop, seed):
    luck = random.Random(seed)
    while not stop.is_set():
        try:
            client, asked = luck.choice(servers).client(timeout=5), time.monotonic()
            jobs = client.take("limited", max=luck.choice((1, 20, 60)), wait="200ms", lease_for=f"{LEASE_S}s")
            for job in jobs:
                checker.begin(job["lease"], job["id"].split("-")[0], asked + LEASE_S)
            time.sleep(luck.random() * 0.05)
            for job in jobs:
                checker.end(job["lease"], job["id"].split("-")[0])
                client.ack(job["lease"])
                with checker.lock:
                    checker.acked.add(job["id"])
        except (OSError, Lost, Refused):  # the server was killed: its leases end by themselves
            time.sleep(0.05)


def consume_while_killed(servers, checker, work, is_done):
    """Kills servers while six consumers `work`, until all is done."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(servers, checker, stop, n)) for n in range(6)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            time.sleep(1.5)
            server = random.choice(servers)
            server.kill()
            server.start()
        eventually(is_done, seconds=90)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return checker


def kill_while_consuming(servers, is_empty):
    """Kills servers while jobs are taken and acked. Returns the groups that had more leases at once than their limit, with that number."""
    checker = Checker()
    consume_while_killed(servers, checker, consume, lambda: len(checker.acked) == GROUPS * JOBS or is_empty())
    return {group: most for group, most in checker.most.items() if most > LIMITS[int(group[1:]) % 3]}


def test_no_limit_of_a_group_is_exceeded_while_servers_are_killed(postgres, start_server):
    servers = [start_server("--store", postgres.url) for _ in range(3)]
    postgres.do(f"SELECT count(tarry.push('limited', 'g' || g || '-' || n, \"group\" => 'g' || g)) FROM generate_series(0, {GROUPS - 1}) g, "
                f"generate_series(1, {JOBS}) n")
    postgres.do(f"SELECT count(tarry._group_put('limited', 'g' || g, ARRAY[0, (ARRAY{list(LIMITS)})[g % 3 + 1], 0, 0, 0, 0, 0, 0], 0)) "
                f"FROM generate_series(0, {GROUPS - 1}) g")
    assert kill_while_consuming(servers, lambda: postgres.rows("SELECT count(*) FROM tarry.job") == [(0,)]) == {}
    assert postgres.rows("SELECT finding FROM tarry._fsck(false) WHERE finding NOT LIKE 'leases ended%'") == []


class OrderChecker(Checker):
    """Also checks that no job is delivered before all those in front of it have been acked."""

    def __init__(self):
        super().__init__()
        self.too_early, self.retries = [], 0

    def begin(self, job, until):
        group, number = job["id"].split("-")
        super().begin(job["lease"], group, until)
        with self.lock:
            self.retries += job["attempt"] > 1
            self.too_early += [(job["id"], n) for n in range(1, int(number)) if f"{group}-{n}" not in self.acked]


def consume_in_order(servers, checker, stop, seed):
    luck = random.Random(seed)
    while not stop.is_set():
        try:
            client, asked = luck.choice(servers).client(timeout=5), time.monotonic()
            for job in client.take("ledger", max=luck.choice((1, 20, 60)), wait="200ms", lease_for=f"{LEASE_S}s"):
                checker.begin(job, asked + LEASE_S)
                time.sleep(luck.random() * 0.01)
                checker.end(job["lease"], job["id"].split("-")[0])
                verb = luck.choice(("ack", "ack", "ack", "nack", "return"))
                if verb == "ack":
                    with checker.lock:
                        checker.acked.add(job["id"])  # the reply may be lost
                client.answer(verb, job["lease"], **({"delay": f"{luck.choice((0, 50, 400))}ms"} if verb == "nack" else {}))
        except (OSError, Lost, Refused):
            time.sleep(0.05)


def keep_order_while_killed(servers, is_empty):
    """Kills servers while jobs of strict groups are taken, acked, nacked and returned. Returns the checker."""
    return consume_while_killed(servers, OrderChecker(), consume_in_order, is_empty)


def test_strict_groups_keep_their_order_while_servers_are_killed(postgres, start_server):
    servers = [start_server("--store", postgres.url) for _ in range(3)]
    servers[0].client().good("PUT", "/v1/topics/ledger?group_order=strict&backoff=fixed:100ms&max_attempts=1000")
    postgres.do(f"SELECT count(tarry.push('ledger', 'g' || g || '-' || n, \"group\" => 'g' || g)) FROM generate_series(1, {JOBS}) n, generate_series(0, 59) g")
    checker = keep_order_while_killed(servers, lambda: postgres.rows("SELECT count(*) FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = 'ledger'") == [(0,)])
    assert (max(checker.most.values()), checker.too_early) == (1, [])
    assert checker.retries > 20 and len(checker.acked) == 60 * JOBS
    assert postgres.rows("SELECT finding FROM tarry._fsck(false) WHERE finding NOT LIKE 'leases ended%'") == []


def test_changes_by_sql_release_strict_groups(postgres, start_server):
    """A retry that waits for an hour holds its group until a user cancels or replaces it, or makes it due."""
    client = start_server("--store", postgres.url).client()
    client.good("PUT", "/v1/topics/freed?group_order=strict")
    calls = {"cancel": "tarry.cancel('freed', '{0}1')", "run": "tarry.run('freed', '{0}1')", "replace": "tarry.push('freed', '{0}1', interval '1 hour', \"group\" => '{0}')"}
    for name, call in calls.items():
        for number in ("1", "2"):
            client.good("PUT", f"/v1/topics/freed/jobs/{name}{number}?group={name}")
        [job] = client.take("freed", wait="5s")
        client.nack(job["lease"], delay="1h")
        assert client.take("freed", wait="100ms") == []
        with transaction(postgres, commit=True) as cursor:
            cursor.execute(f"SELECT {call.format(name)}")
        [job] = client.take("freed", max=5, wait="10s")
        assert job["id"] == name + ("1" if name == "run" else "2")
        client.ack(job["lease"])
        if name == "run":
            client.ack(client.take("freed", wait="5s")[0]["lease"])


def test_fsck_corrects_the_mark_of_tried_jobs(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    client.good("PUT", "/v1/topics/marked?group_order=strict")
    for number in ("1", "2"):
        client.good("PUT", f"/v1/topics/marked/jobs/{number}?group=one")
    [job] = client.take("marked", wait="5s")
    client.nack(job["lease"], delay="1h")
    postgres.do("UPDATE tarry.job SET tried = NOT tried WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'marked')")
    assert postgres.do("SELECT jobs FROM tarry._fsck(true) WHERE finding LIKE '%marked as tried%'") == 2
    assert client.take("marked", wait="100ms") == []
    client.good("POST", "/v1/topics/marked/jobs/1/run")
    assert [job["id"] for job in client.take("marked", max=5, wait="5s")] == ["1"]


def groups_are_removed(database, server, meanwhile=lambda: None):
    """Returns whether groups without jobs are deleted. `meanwhile` is called again and again."""
    client = server.client()
    for number in range(3):
        client.push("passing", f"j-{number}", group=f"g-{number}")
    for job in client.take("passing", max=3):
        client.ack(job["lease"])
    count = "SELECT COUNT(*) FROM tarry.grp g JOIN tarry.topic t ON t.topic = g.topic WHERE t.name = 'passing' AND g.name LIKE 'g-%'"
    return eventually(lambda: meanwhile() or database.do(count) == 0, 60)


def test_groups_without_jobs_are_removed(postgres, start_server):
    assert groups_are_removed(postgres, start_server("--store", postgres.url))


def test_jobs_before_the_first_group_of_a_user_are_delivered(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    client.push("mixed", "first")  # so that none of its rows is new
    client.ack(client.take("mixed")[0]["lease"])
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('mixed', 'early', body => 'x')")
        client.push("mixed", "grouped", group="a")
    found = []
    assert eventually(lambda: found.extend(job["id"] for job in client.take("mixed", max=9, wait="1s")) or len(found) == 2, 60) and sorted(found) == ["early", "grouped"]


def test_a_group_is_pushed_in_a_transaction(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('shop', 'a', \"group\" => 'undone')")
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('shop', 'b', \"group\" => 'shop-7'), tarry.push('shop', 'c')")
    assert sorted(job["id"] for job in client.take("shop", max=5, wait="5s")) == ["b", "c"]
    assert postgres.rows("SELECT g.name FROM tarry.grp g JOIN tarry.topic t ON t.topic = g.topic WHERE t.name = 'shop' AND g.grp >= 0 ORDER BY 1") == [("",), ("shop-7",)]
    with pytest.raises(Exception, match="bad group 'a b'"), transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('shop', 'd', \"group\" => 'a b')")


def test_fsck_corrects_the_number_of_leases_of_a_group(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('counted', 'a', \"group\" => 'one')")
    assert [job["id"] for job in client.take("counted", wait="5s")] == ["a"]
    postgres.do("UPDATE tarry.grp SET in_flight = in_flight + 2 WHERE name = 'one'")
    assert postgres.do("SELECT finding FROM tarry._fsck(true)") == "topic 'counted': the number of leases of group 'one' differs by -2"
    assert postgres.rows("SELECT finding FROM tarry._fsck(false)") == []


def test_a_resume_ends_the_hold_of_a_topic(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    for ident in ("1", "2"):
        client.push("stopped", ident)
    [job] = client.take("stopped", wait="10s")
    client.nack(job["lease"], hold="24h")
    assert client.take("stopped", wait="300ms") == []
    client.good("POST", "/v1/topics/stopped/resume")
    assert client.take("stopped", wait="10s")


def test_a_take_searches_the_jobs_of_a_group_once(postgres, start_server):
    """A take finds one job more of each group, which is the next one, instead of a second search for each of them."""
    client = start_server("--store", postgres.url).client()
    groups, takes = 50, 8
    client.push_batch([{"topic": "searched", "id": f"{number}", "body": "x", "group": f"g{number % groups}"} for number in range(groups * (takes + 2))])
    assert len(client.take("searched", max=groups)) == groups

    def searches():
        return postgres.do("SELECT idx_scan FROM pg_stat_user_indexes WHERE schemaname = 'tarry' AND indexrelname = 'job_grp'")

    time.sleep(2)  # the database counts with a delay
    before = searches()
    for _ in range(takes):
        jobs = client.take("searched", max=groups)
        assert len(jobs) == groups
        client.good("POST", "/v1/ack", json.dumps({"leases": [job["lease"] for job in jobs]}).encode(), {"Content-Type": "application/json"})
    assert eventually(lambda: searches() - before >= groups * takes)
    time.sleep(1.5)
    assert searches() - before < 1.3 * groups * takes


@pytest.mark.parametrize("priorities", [1, 3])
def test_each_take_stores_the_next_job_of_its_groups(postgres, start_server, priorities):
    """The row of a group has the due time and the number of its first waiting job, whatever a take leaves."""
    client, topic, rng = start_server("--store", postgres.url).client(), f"next-{priorities}", random.Random(1)
    client.push_batch([{"topic": topic, "id": f"{number}", "body": "x", "group": f"g{number % 7}", "priority": rng.randrange(priorities),
                        "delay": rng.choice(["0s", "0s", "0s", "1h"])} for number in range(300)])
    while jobs := client.take(topic, max=rng.randrange(1, 12)):
        wrong = postgres.rows(f"""SELECT k.name, k.next_due, k.next_seq, f.first FROM tarry.topic t JOIN tarry.grp k ON k.topic = t.topic AND k.grp > 0,
            LATERAL (SELECT min(ARRAY[j.due, j.seq]) AS first FROM tarry.job j WHERE j.topic = k.topic AND j.grp = k.grp AND j.state = 1) f
            WHERE t.name = '{topic}' AND NOT EXISTS (SELECT FROM tarry.grp_note n WHERE n.topic = k.topic AND n.grp = k.grp AND n.due IS NOT NULL)
              AND (k.next_due, k.next_seq) > (coalesce(f.first[1], 9223372036854775807), coalesce(f.first[2], 9223372036854775807))""")
        assert wrong == []
        for job in jobs[::2]:
            client.ack(job["lease"])
    assert client.topic(topic)["counts"]["delayed"] == len(postgres.rows(f"SELECT FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = '{topic}' AND j.state = 1"))
