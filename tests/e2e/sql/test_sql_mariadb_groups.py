"""Groups and their limits in MariaDB: over several servers that are killed, and in a user's own transaction.

TARRY_TEST_MYSQL=8.0 (or newest, see mysql.py) runs all of it on MySQL.
"""

import contextlib
import time

import pymysql
import pytest
from sql_serving import tarry, transaction
from test_sql_groups import GROUPS, JOBS, LIMITS, groups_are_removed, keep_order_while_killed, kill_while_consuming


def push_in_group(cursor, topic, ident, group):
    cursor.execute("CALL tarry.push_in_group(%s, %s, NULL, NULL, '', NULL, NULL, NULL, %s, @result)", (topic, ident, group))


def findings(mariadb, *flags):
    return [line for line in tarry("fsck", "--store", mariadb.url, *flags).stdout.splitlines() if "leases of" in line or "groups" in line or "tried" in line]


def test_no_limit_of_a_group_is_exceeded_while_servers_are_killed(mariadb, start_server):
    servers = [start_server("--store", mariadb.url) for _ in range(3)]
    client = servers[0].client()
    client.good("PUT", "/v1/topics/limited")
    with transaction(mariadb, commit=True) as cursor:
        for g in range(GROUPS):
            for n in range(1, JOBS + 1):
                push_in_group(cursor, "limited", f"g{g}-{n}", f"g{g}")
    for g in range(GROUPS):
        client.good("PUT", f"/v1/topics/limited/groups/g{g}?limit={LIMITS[g % 3]}")
    assert kill_while_consuming(servers, lambda: mariadb.do("SELECT COUNT(*) FROM tarry.job") == 0) == {}
    assert findings(mariadb) == []


def test_strict_groups_keep_their_order_while_servers_are_killed(mariadb, start_server):
    servers = [start_server("--store", mariadb.url) for _ in range(3)]
    servers[0].client().good("PUT", "/v1/topics/ledger?group_order=strict&backoff=fixed:100ms&max_attempts=1000")
    with transaction(mariadb, commit=True) as cursor:
        for n in range(1, JOBS + 1):
            for g in range(60):
                push_in_group(cursor, "ledger", f"g{g}-{n}", f"g{g}")
    checker = keep_order_while_killed(servers, lambda: mariadb.do("SELECT COUNT(*) FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = 'ledger'") == 0)
    assert (max(checker.most.values()), checker.too_early) == (1, [])
    assert checker.retries > 20 and len(checker.acked) == 60 * JOBS
    assert findings(mariadb) == [] and mariadb.do("SELECT COUNT(*) FROM tarry.job_tried") == 0


def test_changes_by_sql_release_strict_groups(mariadb, start_server):
    """A retry that waits for an hour holds its group until a user cancels or replaces it, or makes it due."""
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/freed?group_order=strict")
    calls = {"cancel": "CALL tarry.cancel('freed', '{0}1', @result)", "run": "CALL tarry.run('freed', '{0}1', @result)",
             "replace": "CALL tarry.push_in_group('freed', '{0}1', 3600000, NULL, '', NULL, NULL, NULL, '{0}', @result)"}
    for name, call in calls.items():
        for number in ("1", "2"):
            client.good("PUT", f"/v1/topics/freed/jobs/{name}{number}?group={name}")
        [job] = take_all(client, "freed", 1)
        client.nack(job["lease"], delay="1h")
        assert client.take("freed", wait="100ms") == []
        with transaction(mariadb, commit=True) as cursor:
            cursor.execute(call.format(name))
        [job] = take_all(client, "freed", 1)
        assert job["id"] == name + ("1" if name == "run" else "2")
        client.ack(job["lease"])
        if name == "run":
            client.ack(take_all(client, "freed", 1)[0]["lease"])


def test_a_strict_group_keeps_its_order_while_others_lock_some_of_its_notes(mariadb, start_server):
    """A take or the upkeep of another server holds the note of the first job, while that of the second one can be read."""
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/halves?group_order=strict")
    for n in range(20):
        with transaction(mariadb, commit=True) as cursor:
            push_in_group(cursor, "halves", f"g{n}-1", f"g{n}")
            time.sleep(0.002)  # another due time
            push_in_group(cursor, "halves", f"g{n}-2", f"g{n}")
        note = mariadb.do("SELECT MIN(x.n) FROM tarry.grp_note x JOIN tarry.grp k USING (topic, grp) JOIN tarry.topic t USING (topic) WHERE t.name = 'halves' AND k.name = %s", f"g{n}")
        with transaction(mariadb, commit=False) as cursor:
            is_held = cursor.execute("SELECT n FROM tarry.grp_note WHERE n = %s FOR UPDATE", (note,)) == 1  # else the upkeep was faster
            if is_held:
                assert [job["id"] for job in client.take("halves", max=5, wait="5s")] == [f"g{n}-1"]
                break
    assert is_held


def test_fsck_corrects_the_entries_of_tried_jobs(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/marked?group_order=strict")
    for number in ("1", "2"):
        client.good("PUT", f"/v1/topics/marked/jobs/{number}?group=one")
    [job] = take_all(client, "marked", 1)
    client.nack(job["lease"], delay="1h")
    mariadb.do("DELETE FROM tarry.job_tried WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'marked')")
    mariadb.do("INSERT INTO tarry.job_tried SELECT topic, 2, 100, 1, 1 FROM tarry.topic WHERE name = 'marked'")
    found = "\n".join(findings(mariadb, "--repair"))
    assert "topic 'marked': jobs are not listed as tried" in found and "entries of tried jobs without a job" in found
    assert findings(mariadb) == []
    assert client.take("marked", wait="100ms") == []


def test_groups_that_were_not_used_for_a_day_are_removed(mariadb, start_server):
    def let_a_day_pass():
        mariadb.do("UPDATE tarry.grp SET idle_since = idle_since - 86400001 WHERE idle_since IS NOT NULL")

    assert groups_are_removed(mariadb, start_server("--store", mariadb.url), let_a_day_pass)


def test_a_group_is_pushed_in_a_transaction(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    with transaction(mariadb, commit=False) as cursor:
        push_in_group(cursor, "shop", "a", "undone")
    with transaction(mariadb, commit=True) as cursor:
        push_in_group(cursor, "shop", "b", "shop-7")
        push_in_group(cursor, "shop", "c", None)
    assert {job["id"]: job.get("group") for job in take_all(client, "shop", 2)} == {"b": "shop-7", "c": None}
    with pytest.raises(pymysql.err.MySQLError, match="bad group"), transaction(mariadb, commit=False) as cursor:
        push_in_group(cursor, "shop", "d", "a b")


def take_all(client, topic, count, seconds=20):
    jobs, until = [], time.monotonic() + seconds
    while len(jobs) < count and time.monotonic() < until:
        jobs += client.take(topic, max=count, wait="1s")
    return jobs


def test_changes_by_sql_keep_jobs_in_their_groups(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    for ident, group in (("moved", "one"), ("replaced", "one"), ("cancelled", "two"), ("plain", "")):
        client.good("PUT", f"/v1/topics/changed/jobs/{ident}?delay=1h" + (f"&group={group}" if group else ""))
    with transaction(mariadb, commit=True) as cursor:
        cursor.execute("CALL tarry.reschedule('changed', 'moved', 0, NULL, NULL, @result)")
        push_in_group(cursor, "changed", "replaced", "three")
        cursor.execute("CALL tarry.cancel('changed', 'cancelled', @result)")
        cursor.execute("CALL tarry.run('changed', 'plain', @result)")
    assert {job["id"]: job.get("group") for job in take_all(client, "changed", 3)} == {"moved": "one", "replaced": "three", "plain": None}
    assert findings(mariadb) == []


def test_jobs_before_the_first_group_of_a_user_are_delivered(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    for ident in ("1", "2"):
        client.push("begun", ident)
    with transaction(mariadb, commit=True) as cursor:
        push_in_group(cursor, "begun", "3", "late")
    assert sorted(job["id"] for job in take_all(client, "begun", 3)) == ["1", "2", "3"]
    assert findings(mariadb) == []


def test_an_open_transaction_of_a_user_delays_no_other_group(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/open?limit=5&group_limit=3")
    client.good("PUT", "/v1/topics/open/jobs/first?group=one")
    [job] = take_all(client, "open", 1)
    with transaction(mariadb, commit=True) as cursor:
        push_in_group(cursor, "open", "by-sql", "one")
        client.ack(job["lease"])
        client.good("PUT", "/v1/topics/open/jobs/second?group=one")
        client.good("PUT", "/v1/topics/open/jobs/third?group=two")
        assert sorted(job["id"] for job in take_all(client, "open", 2)) == ["second", "third"]
    assert [job["id"] for job in take_all(client, "open", 1)] == ["by-sql"]


def test_fsck_corrects_the_number_of_leases_of_a_group(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/counted/jobs/a?group=one")
    client.good("PUT", "/v1/topics/counted/jobs/b?group=one&delay=1h")
    assert [job["id"] for job in take_all(client, "counted", 1)] == ["a"]
    mariadb.do("UPDATE tarry.grp SET in_flight = in_flight + 2 WHERE name = 'one' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'counted')")
    mariadb.do("DELETE FROM tarry.job_grp WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'counted')")
    found = "\n".join(findings(mariadb, "--repair"))
    assert "the number of leases of group 'one' differs by -2" in found and "jobs are not listed in their groups" in found
    assert findings(mariadb) == []
    client.good("POST", "/v1/topics/counted/jobs/b/run")
    assert [job["id"] for job in take_all(client, "counted", 1)] == ["b"]


def test_a_resume_ends_the_hold_of_a_topic(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    for ident in ("1", "2"):
        client.push("stopped", ident)
    [job] = take_all(client, "stopped", 1)
    client.nack(job["lease"], hold="24h")
    assert client.take("stopped", wait="300ms") == []
    client.good("POST", "/v1/topics/stopped/resume")
    assert client.take("stopped", wait="10s")


def test_a_full_group_rejects_pushes(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    client.good("PUT", "/v1/topics/full?group_max_jobs=2")
    for ident in ("1", "2"):
        client.good("PUT", f"/v1/topics/full/jobs/{ident}?group=one")
    reply = client.call("PUT", "/v1/topics/full/jobs/3?group=one")
    assert (reply.status, reply.json()["code"]) == (507, "group_full")
    with pytest.raises(pymysql.err.MySQLError, match="the group has as many jobs"), transaction(mariadb, commit=False) as cursor:
        push_in_group(cursor, "full", "3", "one")
    client.good("PUT", "/v1/topics/full/jobs/3?group=two")
    client.good("PUT", "/v1/topics/full/jobs/1?group=one")  # replaces


def test_a_topic_without_groups_costs_no_statement(mariadb, start_server):
    """The statements of a take and of an ack, besides those of the upkeep: none of them changes or locks a table of groups."""
    client = start_server("--store", mariadb.url).client()
    client.push("plain", "1")
    mariadb.do("SET GLOBAL log_output = 'TABLE'")
    mariadb.do("SET GLOBAL general_log = 1")
    try:
        [job] = take_all(client, "plain", 1)
        client.ack(job["lease"])
    finally:
        mariadb.do("SET GLOBAL general_log = 0")
    texts = [str(row[0]) for row in mariadb.rows("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query' ORDER BY event_time")]
    assert any("DELETE FROM tarry.job " in text or "DELETE j FROM tarry.job " in text for text in texts)
    assert [text for text in texts if "job_grp" in text or "grp_note" in text] == []


def test_the_groups_that_are_held_are_found_with_few_reads(mariadb, start_server):
    """Why a group is held is a function with five reads. Only groups that may be held need it, each once."""
    client, groups = start_server("--store", mariadb.url).client(), 300
    client.good("PUT", "/v1/topics/held?group_limit=1")
    client.push_batch([{"topic": "held", "id": f"{name}{number}", "group": f"g{number}"} for name in "ab" for number in range(groups)])
    assert len(client.take("held", max=20)) == 20
    topic = mariadb.do("SELECT topic FROM tarry.topic WHERE name = 'held'")
    for text, held in ((f"SELECT tarry.server_held_jobs({topic}, tarry.now_ms())", [("0 0 20 0 0 0 0",)]), (f"CALL tarry.server_groups({topic}, NULL, 3, 101, 0, NULL)", 20)):
        with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH STATUS")
            cursor.execute(text)
            found = list(cursor.fetchall())
            assert held in (found, len(found)), found
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read_key'")
            assert int(cursor.fetchone()[1]) < 8 * groups, text
    assert client.topic("held")["held_by"] == {"group_limit": 20}
