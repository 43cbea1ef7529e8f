"""Tokens in a database: all servers there share them, and follow within two seconds."""

import json
import threading
import time

import pytest
from mariadb import MariadbServer
from pages import REPO
from postgres import PostgresServer
from redis_serving import refused
from server import eventually, slack
from sql_serving import tarry
from test_tokens import becomes, call, token

HASHED = {"postgres": "SELECT convert_from(text, 'UTF8') FROM tarry.tokens", "mariadb": "SELECT CONVERT(text USING utf8mb4) FROM tarry.tokens"}
SPOILED = {
    "postgres": "UPDATE tarry.tokens SET version = 'x', text = convert_to(E'nonsense\\n', 'UTF8')",
    "mariadb": "UPDATE tarry.tokens SET version = 'x', text = 'nonsense\n'",
}


@pytest.fixture(scope="module", params=["postgres", pytest.param("mariadb", marks=pytest.mark.thorough("needs MariaDB"))])
def database(request):
    with PostgresServer() if request.param == "postgres" else MariadbServer() as server:
        server.kind = request.param
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


def stored(database, *words):
    done = token(*words, "--store", database.url)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def new(database, name, *more):
    return stored(database, "new", name, "--scope", "push,read", "--topics", "*", *more)


def test_two_servers_follow_token_changes_even_after_an_outage(database, start_server):
    servers = [start_server("--store", database.url, "--tokens", "store"), start_server("--store", database.url)]
    assert call(servers[0], None).status == 401 and call(servers[1], None).status == 201, "there are none yet"
    secret = new(database, "shop")
    servers[1].terminate()
    servers[1] = start_server("--store", database.url)
    assert call(servers[1], None).status == 401, "a server without notifications reads the tokens again"
    began = time.monotonic()
    for server in servers:
        becomes(server, secret, 201)
    assert time.monotonic() - began < 2.5 * slack()
    assert secret not in database.do(HASHED[database.kind]) and "shop" in database.do(HASHED[database.kind])
    database.crash()
    assert all(call(server, None).status == 401 for server in servers)
    stored(database, "revoke", "shop")
    for server in servers:
        becomes(server, secret, 401, 8)


def test_simultaneous_commands_lose_nothing_and_an_unreadable_list_keeps_the_old_tokens(database, start_server):
    threads = [threading.Thread(target=new, args=(database, f"t{i}")) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"t{i}" for i in range(8)} <= {entry["name"] for entry in json.loads(stored(database, "list", "--json"))["tokens"]}
    secret = new(database, "stays")
    server = start_server("--store", database.url, "--tokens", "store")
    whole = database.do(HASHED[database.kind])
    database.do(SPOILED[database.kind])
    eventually(lambda: "unknown word 'nonsense'" in server.log(), 5)
    assert call(server, secret).status == 201
    database.do("UPDATE tarry.tokens SET version = 'y', text = %s", whole.encode())
    stored(database, "revoke", "stays")
    becomes(server, secret, 401)


def test_a_row_that_is_gone_opens_no_door(database):
    new(database, "shop-again")
    database.do("DELETE FROM tarry.tokens")
    assert "tarry.tokens is missing" in refused("--store", database.url)
    found = tarry("fsck", "--store", database.url, "--repair")
    assert found.returncode == 0 and "tokens is missing" in found.stdout
    assert "shop-again" not in stored(database, "list")


def test_the_servers_user_may_read_and_not_write(database, start_server):
    page = (REPO / "docs/sql.md").read_text().split("## MariaDB and MySQL")[0]
    if database.kind == "postgres":
        database.do("CREATE ROLE tarry_server LOGIN")
        for line in page.splitlines():
            if line.endswith("tarry_server;"):
                database.do(line)
        url = database.url.replace("user=tarry", "user=tarry_server")
    else:
        database.do("CREATE USER reader")
        database.do("GRANT SELECT ON tarry.* TO reader")
        url = database.url.replace("root@", "reader@")
    secret = new(database, "reads")
    if database.kind == "postgres":
        assert call(start_server("--store", url, "--tokens", "store"), secret).status == 201
    done = token("revoke", "reads", "--store", url)
    assert done.returncode == 1 and "write the tokens" in done.stderr and "does not let this" in done.stderr
    assert "reads" in token("list", "--store", url).stdout
