"""tarry serve on a real MySQL: the short form. mysql.py documents its source; without it these are skipped.

All claims of MariaDB run on it by `TARRY_TEST_MYSQL=8.0 pytest tests/e2e/sql/test_sql_mariadb.py`, and the contract of all stores by
`TARRY_TEST_MYSQL_SERVER=$(tests/e2e/support/mysql.py) build-dev/tests/contract/contract mysql`.
"""

import pytest
import sql_batches
from mysql import MysqlServer, find_server
from redis_serving import refused, works
from server import free_port
from sql_serving import migrated, tarry
from test_sql_mariadb import (  # pylint: disable=unused-import
    database, pair, test_a_call_about_one_job_reads_no_others, test_an_immediate_take_gets_jobs_committed_behind_the_bound, test_answers_are_the_api_s_words, test_bad_input_is_refused_and_changes_nothing,
    test_a_push_by_sql_may_be_the_successor_of_a_leased_job, test_no_take_skips_a_job_while_leases_are_adopted, test_the_caller_s_last_id_stays, test_the_upkeep_waits_for_no_transaction_of_a_user,
    test_two_servers_are_one_queue, test_only_committed_jobs_are_delivered)
from test_sql_mariadb_locks import (  # pylint: disable=unused-import
    around, test_an_id_that_two_transactions_create_is_created_once, test_an_open_change_of_one_job_delays_no_call_about_others)

pytestmark = pytest.mark.skipif(not find_server()[0], reason=find_server()[1])


@pytest.fixture(scope="module")
def mariadb():
    """Its name is the one that the claims of MariaDB ask for."""
    MysqlServer.port = free_port()
    with migrated(MysqlServer(listens=True)) as server:
        yield server


def test_no_deadlock_is_shown_and_the_counts_agree():
    assert sql_batches.run(100, servers=2, threads=4, database_class=MysqlServer).answers["push created"] > 50


@pytest.mark.parametrize("way", ["socket", "plain", "tls"])
def test_a_password_is_proven_over_each_way_to_the_server(mariadb, start_server, way):
    """caching_sha2_password, which no server forgets within a run: so each way has a user of its own, whose password it never saw."""
    mariadb.do(f"CREATE USER by_{way} IDENTIFIED BY 'a b&c'")
    mariadb.do(f"GRANT ALL ON tarry.* TO by_{way}")
    places = {"socket": f"localhost/?socket={mariadb.socket}", "plain": f"127.0.0.1:{mariadb.port}/", "tls": f"127.0.0.1:{mariadb.port}/?tls=on"}
    assert "Access denied" in refused("--store", f"mysql://by_{way}:wrong@{places[way]}")
    works(start_server("--store", f"mysql://by_{way}:a%20b%26c@{places[way]}"))


def test_missing_rights_to_create_functions_are_reported_with_advice():
    """MySQL has a binary log by default, and with it only SUPER may create functions."""
    with MysqlServer() as empty:
        empty.do("CREATE USER maker")
        empty.do("GRANT ALL ON tarry.* TO maker")
        made = tarry("sql", "migrate", empty.url.replace("root@", "maker@"))
        assert made.returncode == 1 and "log_bin_trust_function_creators" in made.stderr
        empty.do("SET GLOBAL log_bin_trust_function_creators = 1")
        assert tarry("sql", "migrate", empty.url.replace("root@", "maker@")).returncode == 0
