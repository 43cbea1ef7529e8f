"""Rights in a MariaDB, as granted in docs/sql.md, and verification of its certificate."""

import contextlib
import re
import socket

import pymysql
import pytest
from certificates import Authority
from mariadb import MariadbServer
from redis_serving import refused, works
from server import REPO
from sql_serving import tarry


@pytest.fixture(scope="module")
def granted():
    """A MariaDB whose accounts and roles are those of the page, and no others: root has no part in it but to grant."""
    before, after = (block.replace("'…'", "''") for block in re.findall(r"```sql\n(-- before.*?)```.*?```sql\n(-- after.*?)```", (REPO / "docs/sql.md").read_text(), re.DOTALL)[0])
    with MariadbServer() as server:
        server.run(before)
        owner = server.url.replace("root@", "tarry_owner@")
        untrusted = tarry("sql", "migrate", owner)
        assert untrusted.returncode == 1 and "log_bin_trust_function_creators" in untrusted.stderr
        server.do("SET GLOBAL log_bin_trust_function_creators = 1")
        assert tarry("sql", "migrate", owner).returncode == 0
        server.do("SET GLOBAL log_bin_trust_function_creators = 0")
        server.run(after)
        yield server


@contextlib.contextmanager
def session_of(database, account):
    with contextlib.closing(database.connect(account)) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        yield cursor


def test_a_server_needs_only_its_role(granted, start_server):
    server = start_server("--store", granted.url.replace("root@", "tarry@"))
    works(server)
    client = server.client()
    client.put_topic("kept", history="1d")
    client.push("kept", "a")
    client.ack(client.take("kept", wait="5s")[0]["lease"])
    assert client.good("GET", "/v1/topics/kept/jobs/a/history")["history"][0]["event"] == "acked"
    assert granted.do("SELECT count(*) FROM information_schema.partitions WHERE table_schema = 'tarry' AND table_name = 'history'") == 4
    with session_of(granted, "tarry") as cursor, pytest.raises(pymysql.err.Error):
        cursor.execute("DROP TABLE tarry.job")
    server.terminate()


def test_an_account_may_push_to_its_topics_and_no_more(granted):
    with session_of(granted, "shop") as cursor:
        for topic in ("orders", "mail-out"):
            assert granted.call("push", topic, "a", 3600000, b"x", cursor=cursor) == "created"
        cursor.execute("INSERT INTO tarry.outbox (topic, id, body) VALUES ('mail-out', 'b', 'x')")
        assert granted.call("push_with", "orders", "c", None, None, b"x", None, None, None, cursor=cursor) == "created"
        assert granted.call("reschedule", "orders", "a", 1000, None, None, cursor=cursor) == "ok"
        assert granted.call("run", "orders", "a", cursor=cursor) == "ok"
        cursor.execute("CALL tarry.get('orders', 'a')")
        assert [row[:1] + row[2:5] for row in cursor.fetchall()] == [("ready", 0, 100, b"x")]
        assert granted.call("cancel", "orders", "a", cursor=cursor) == "cancelled"
        cursor.execute("CALL tarry.get('orders', 'a')")
        assert cursor.fetchall() == ((None,) * 9,)
        for refused_ in ("CALL tarry.push('other', 'a', 0, 'x', @r)", "CALL tarry.push('orders-too', 'a', 0, 'x', @r)", "CALL tarry.cancel('other', 'a', @r)", "CALL tarry.get('other', 'a')",
                         "CALL tarry.reschedule('other', 'a', 1, NULL, NULL, @r)", "CALL tarry.run('other', 'a', @r)",
                         "INSERT INTO tarry.outbox (topic, id, body) VALUES ('other', 'b', 'x')", "SELECT * FROM tarry.job", "SELECT * FROM tarry.jobs",
                         "SELECT * FROM tarry.store", "INSERT INTO tarry.rights VALUES ('shop', '*')", "CALL tarry.server_delete('mail-out')",
                         "CALL tarry.server_history_days()", "CALL tarry.may('other')"):
            with pytest.raises(pymysql.err.Error):
                cursor.execute(refused_)


def test_a_reader_sees_the_views_and_no_more(granted):
    with session_of(granted, "tarry_owner") as cursor:
        granted.call("push", "read", "now", 0, b"x", cursor=cursor)
    with session_of(granted, "reporter") as cursor:
        cursor.execute("SELECT id, state FROM tarry.jobs WHERE topic = 'read'")
        assert cursor.fetchall() == (("now", "ready"),)
        cursor.execute("SELECT waiting, leased, pushed, paused FROM tarry.topics WHERE topic = 'read'")
        assert cursor.fetchall() == ((1, 0, 1, 0),)
        for view in ("job_history", "mykit_delay_queue_job", "mykit_delay_queue_job_log"):
            cursor.execute(f"SELECT * FROM tarry.{view}")
        for refused_ in ("SELECT * FROM tarry.job", "SELECT * FROM tarry.history", "SELECT lease_key FROM tarry.store", "CALL tarry.push('read', 'a', 0, 'x', @r)"):
            with pytest.raises(pymysql.err.Error):
                cursor.execute(refused_)


# ---- TLS ----

def test_a_server_is_trusted_by_its_certificate_and_name(start_server, tmp_path):
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    certificate, key = ours.sign("server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with MariadbServer("skip-networking=0", "bind-address=127.0.0.1", f"port={port}", f"ssl-cert={certificate}", f"ssl-key={key}") as own:
        own.do("CREATE USER safe IDENTIFIED BY 'a b&c' REQUIRE SSL")
        own.do("GRANT ALL ON *.* TO safe")
        (tmp_path / "password").write_text("a b&c\n")
        url = f"mysql://safe@localhost:{port}/?password_file={tmp_path}/password"
        assert "cannot reach" in refused("--store", url)  # it requires TLS
        server = start_server("--store", f"{url}&tls=verify&ca={ours.file}", "--migrate")
        works(server)
        server.terminate()
        why = refused("--store", f"{url}&tls=verify&ca={others.file}")
        assert "cannot reach" in why and "certificate" in why
        assert "cannot reach" in refused("--store", f"{url}&tls=verify")  # of no authority that this machine knows
        ours.sign("server", names="DNS:elsewhere.example")
        own.do("FLUSH SSL")
        assert "cannot reach" in refused("--store", f"{url}&tls=verify&ca={ours.file}")
        works(start_server("--store", f"{url}&tls=on"))
