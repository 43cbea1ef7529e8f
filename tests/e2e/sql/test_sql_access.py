"""Rights in a PostgreSQL, as granted in docs/sql.md."""

import contextlib

import psycopg2
import pytest
from postgres import PostgresServer
from redis_serving import works
from server import REPO
from sql_serving import migrated


def test_a_role_may_push_to_its_topics_and_no_more(postgres):
    postgres.do("CREATE ROLE shop LOGIN; GRANT USAGE ON SCHEMA tarry TO shop; INSERT INTO tarry.rights VALUES ('shop', 'mail-*')")
    connection = postgres.connect("shop")
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT tarry.push('mail-out', 'a')")
        assert cursor.fetchone() == ("created",)
        for refused_ in ("SELECT tarry.push('other', 'a')", "SELECT tarry.cancel('other', 'a')", "SELECT * FROM tarry.job",
                         "SELECT tarry._change(1, 'mail-out', 'a', 0, 0, -1, false, 0, false, true)"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(refused_)


@contextlib.contextmanager
def session_of(postgres, user):
    connection = postgres.connect(user)
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        yield cursor


def test_temporary_objects_of_a_caller_are_not_taken_for_postgresql_s_own(postgres):
    """Functions of an intruder would run with the rights of the schema's owner."""
    postgres.do("CREATE ROLE intruder LOGIN; GRANT USAGE ON SCHEMA tarry TO intruder")
    with session_of(postgres, "intruder") as cursor:
        cursor.execute("""
            CREATE TEMP TABLE ran (as_user text); GRANT ALL ON ran TO PUBLIC;
            CREATE FUNCTION pg_temp.evil() RETURNS oid LANGUAGE plpgsql VOLATILE AS
              $$ BEGIN INSERT INTO pg_temp.ran VALUES (current_user); RETURN (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'intruder'); END $$;
            CREATE TEMP VIEW pg_class AS SELECT 'tarry.job'::regclass::oid AS oid, pg_temp.evil() AS relowner;
            GRANT SELECT ON pg_class TO PUBLIC""")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="may not use topic"):
            cursor.execute("SELECT tarry.cancel('anything', 'x')")
        cursor.execute("SELECT count(*) FROM ran")
        assert cursor.fetchone() == (0,)
        cursor.execute("CREATE TEMP TABLE mine (due bigint, topic int)")
        for refused_ in ("CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION tarry._notify()",
                         "SELECT tarry._hello(0)", "SELECT tarry._may('x')"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(refused_)


def test_rights_follow_the_current_role(postgres):
    postgres.do("CREATE ROLE web LOGIN; CREATE ROLE web_a; CREATE ROLE web_b; GRANT web_a, web_b TO web; CREATE ROLE leaves;"
                "GRANT USAGE ON SCHEMA tarry TO web, web_a, web_b; INSERT INTO tarry.rights VALUES ('leaves', 'x'), ('web_a', 'a'), ('web_b', 'b')")
    postgres.do("DROP ROLE leaves")  # its row in tarry.rights stays
    with session_of(postgres, "web") as cursor:
        cursor.execute("SELECT tarry.push('a', 'by-member'), tarry.push('b', 'by-member')")
        cursor.execute("SET ROLE web_a; SELECT tarry.push('a', 'by-role')")
        assert cursor.fetchone() == ("created",)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="role web_a"):
            cursor.execute("SELECT tarry.push('b', 'by-role')")


def test_a_reader_needs_only_the_view(postgres):
    postgres.do("CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA tarry TO reader; GRANT SELECT ON tarry.jobs TO reader")
    postgres.do("SELECT tarry.push('read', 'now'), tarry.push('read', 'later', interval '1 h')")
    with session_of(postgres, "reader") as cursor:
        cursor.execute("SELECT id, state FROM tarry.jobs WHERE topic = 'read' ORDER BY id")
        assert cursor.fetchall() == [("later", "delayed"), ("now", "ready")]
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("SELECT * FROM tarry.job")


def test_a_server_needs_only_the_rights_that_are_documented(start_server):
    with migrated(PostgresServer()) as own:
        page = (REPO / "docs/sql.md").read_text().split("## MariaDB and MySQL")[0]
        grants = [line for line in page.splitlines() if line.endswith(" tarry_server;")]
        assert len(grants) == 5
        own.do("CREATE ROLE tarry_server LOGIN; " + " ".join(grants))
        works(start_server("--store", own.url.replace("user=tarry", "user=tarry_server")))


def test_a_server_that_may_not_flush_beside_its_transactions_commits_without_flushes(start_server):
    with migrated(PostgresServer()) as own:
        own.do("REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC")
        own.do("CREATE ROLE single LOGIN; GRANT ALL ON SCHEMA tarry TO single; GRANT ALL ON ALL TABLES IN SCHEMA tarry TO single; "
               "GRANT ALL ON ALL SEQUENCES IN SCHEMA tarry TO single; GRANT ALL ON ALL FUNCTIONS IN SCHEMA tarry TO single")
        server = start_server("--store", own.url.replace("user=tarry", "user=single"))
        works(server)
        assert own.do("SELECT count(*)::int FROM pg_stat_activity WHERE query ~ 'pg_logical_emit_message' AND usename = 'single'") == 0
