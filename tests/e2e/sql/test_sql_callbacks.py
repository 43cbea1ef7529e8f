"""A row of a database can name a callback that passed no door: each rule of callbacks also holds where the callback is used."""

import pytest
from callback_rules import BAD
from delivery import settle
from endpoint import Endpoint
from mariadb import MariadbServer
from postgres import PostgresServer
from server import eventually
from sql_serving import migrated

TOPIC = "t"


@pytest.fixture(scope="module", params=["postgres", pytest.param("mariadb", marks=pytest.mark.thorough("needs MariaDB"))])
def database(request):
    with migrated(PostgresServer() if request.param == "postgres" else MariadbServer()) as server:
        yield server


def push(database, ident, url):
    """Pushes by SQL, whose functions have no callback, and writes one into the row, as a user with all rights can."""
    assert database.call("push", TOPIC, ident, 0, b"x") == "created"
    database.do("UPDATE tarry.job SET meta = %s WHERE id = %s", f"tarry-callback\0{url}\0".encode(), ident)


def test_callbacks_in_rows_are_checked_when_jobs_are_sent(database, start_delivering, endpoint):
    elsewhere = Endpoint().start()
    try:
        server = start_delivering("--store", database.url, only=["allow-host = 127.0.0.1", "allow-network = 127.0.0.0/8"])
        client = server.client()
        bad = {**BAD, "a name that the policy does not allow": f"http://localhost:{elsewhere.port}/x",
               "a password of a host that it allows": f"http://a:b@127.0.0.1:{elsewhere.port}/x"}
        settle(client, TOPIC, deliver={"callback": True}, max_attempts=2, backoff="none")
        client.good("POST", f"/v1/topics/{TOPIC}/pause")
        for n, url in enumerate(bad.values()):
            push(database, f"bad-{n}", url)
        push(database, "good", endpoint.url + "/x")
        client.good("POST", f"/v1/topics/{TOPIC}/resume")
        eventually(lambda: client.topic(TOPIC)["totals"]["acked"] == 1)
        eventually(lambda: client.topic(TOPIC)["counts"]["dead"] == len(bad), 20)
        errors = {rule: client.get(TOPIC, f"bad-{n}")["last_error"] for n, rule in enumerate(bad)}
        assert all("callback" in error or "policy file" in error or "percent-encoded" in error for error in errors.values()), errors
        assert [call.id for call in endpoint.calls] == ["good"] and not elsewhere.calls
    finally:
        elsewhere.stop()
