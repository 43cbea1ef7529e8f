"""Calls about other jobs while a user's transaction that changes one job stays open on MariaDB. test_sql_mysql.py runs these on MySQL too."""

import itertools
import re
import time

import pytest
from sql_serving import transaction
from test_sql_mariadb import database, pair  # pylint: disable=unused-import

CHANGES = {
    "push": ("push", 7200000, b"y"),
    "reschedule": ("reschedule", 7200000, None, None),
    "run": ("run",),
}
numbers = itertools.count()  # of topics: each test has its own


def _promptly(call, *args, **options):
    begun = time.monotonic()
    answer = call(*args, **options)
    assert time.monotonic() - begun < 5, "the call waits for the user's transaction"
    return answer


@pytest.fixture(params=CHANGES)
def around(request, pair, mariadb):
    """An open transaction that changes the first job of a topic, beside a client, the topic before it, and a lease of the next job."""
    client = pair[0].client()
    number = next(numbers)
    before, topic = f"before-{number}", f"held-{number}"
    client.push(before, "5000", delay="1h")
    for ident in ("1001", "1003"):
        client.push(topic, ident, delay="1h")
    client.push(topic, "1002")
    [held] = client.take(topic, wait="10s")
    with transaction(mariadb, False) as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        name, *values = CHANGES[request.param]
        assert mariadb.call(name, topic, "1001", *values, cursor=cursor) in ("replaced", "ok")
        yield client, before, topic, held["lease"]


def test_an_open_change_of_one_job_delays_no_call_about_others(around):
    client, before, topic, lease = around
    for place, ident in ((topic, "1000"), (topic, "1001a"), (topic, "1004"), (before, "5001"), ("after-" + topic, "1")):
        assert _promptly(client.push, place, ident, delay="1h")["result"] == "created", ident
    assert _promptly(client.call, "POST", f"/v1/ack?lease={lease}").status == 200
    assert _promptly(client.push, topic, "1002")["result"] == "created"
    assert _promptly(client.push, topic, "1002", body=b"again")["result"] == "replaced"
    assert [job["id"] for job in _promptly(client.take, topic, max=9, wait="3s")] == ["1002"]
    assert _promptly(client.call, "DELETE", f"/v1/topics/{topic}/jobs/1003").status == 200
    assert _promptly(client.call, "POST", f"/v1/topics/{topic}/jobs/1004/run").status == 200


def test_an_open_change_of_one_job_delays_calls_about_that_job_and_the_log_names_it(around, pair):
    client, _, topic, _ = around
    assert client.call("PUT", f"/v1/topics/{topic}/jobs/1001?delay=1h", b"x").status == 503
    assert re.search(f"level=warn event=.*topic={topic} id=1001 jobs=1", pair[0].log())


def test_an_id_that_two_transactions_create_is_created_once(pair, mariadb):
    client = pair[0].client()
    client.push("once-each", "other", delay="1h")
    with transaction(mariadb, True) as cursor:
        assert mariadb.call("push", "once-each", "same", 3600000, b"x", cursor=cursor) == "created"
        assert client.call("PUT", "/v1/topics/once-each/jobs/same?delay=1h", b"y").status == 503
    assert client.push("once-each", "same", delay="1h")["result"] == "replaced"
    assert mariadb.do("SELECT COUNT(*) FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = 'once-each' AND j.id = 'same'") == 1
