"""tarry serve on a PostgreSQL whose DBA has set something for the database or the role: each setting works, or is refused at the start by name."""

import contextlib
import re

import psycopg2
import pytest
from postgres import PostgresServer
from sql_serving import tarry
from sql_settings import Setting, refuses, rows, works

SETTINGS = [
    # what texts mean
    Setting("standard_conforming_strings = off"),
    Setting("backslash_quote = off", "standard_conforming_strings = off"),
    Setting("backslash_quote = on", "escape_string_warning = off"),
    Setting("bytea_output = escape"),
    Setting("client_encoding = 'LATIN1'"),
    Setting("client_encoding = 'EUC_JP'", application=False),  # the driver writes its text in it, which has no ü
    Setting("quote_all_identifiers = on"),
    Setting("array_nulls = off"),
    Setting("transform_null_equals = on"),
    Setting("xmlbinary = hex", "xmloption = document"),
    # dates and numbers
    Setting("DateStyle = 'SQL, DMY'"),
    Setting("DateStyle = 'German'"),
    Setting("DateStyle = 'Postgres, MDY'", "TimeZone = 'Asia/Kathmandu'"),
    Setting("IntervalStyle = iso_8601"),
    Setting("IntervalStyle = sql_standard"),
    Setting("IntervalStyle = postgres_verbose"),
    Setting("TimeZone = 'America/St_Johns'"),
    Setting("TimeZone = '+14'"),
    Setting("timezone_abbreviations = 'Australia'"),
    Setting("extra_float_digits = -15"),
    Setting("extra_float_digits = 3"),
    Setting("lc_monetary = 'C.UTF-8'", "lc_numeric = 'C.UTF-8'", "lc_time = 'C.UTF-8'"),
    Setting("lc_messages = 'C.UTF-8'"),
    Setting("default_text_search_config = 'pg_catalog.german'"),
    # transactions
    Setting("default_transaction_isolation = 'serializable'"),
    Setting("default_transaction_isolation = 'repeatable read'"),
    Setting("default_transaction_isolation = 'read uncommitted'"),
    Setting("default_transaction_read_only = on", refused="default_transaction_read_only is on"),
    Setting("default_transaction_deferrable = on", "default_transaction_isolation = 'serializable'"),
    Setting("synchronous_commit = off"),
    Setting("synchronous_commit = local"),
    Setting("commit_delay = 1000", "commit_siblings = 0"),
    # names, roles, triggers
    Setting("search_path = ''"),
    Setting("search_path = hostile, pg_catalog, public"),
    Setting("search_path = pg_temp, nowhere"),
    Setting("role = other"),
    Setting("session_replication_role = replica"),
    Setting("session_replication_role = local"),
    Setting("row_security = off"),
    Setting("check_function_bodies = off"),
    Setting("allow_system_table_mods = on"),
    Setting("lo_compat_privileges = on"),
    Setting("password_encryption = md5"),
    Setting("application_name = 'shop'"),
    Setting("plpgsql.variable_conflict = use_variable"),
    Setting("plpgsql.variable_conflict = use_column"),
    Setting("plpgsql.extra_errors = 'all'"),
    Setting("plpgsql.extra_warnings = 'all'", "client_min_messages = debug5"),
    Setting("plpgsql.check_asserts = off", "plpgsql.print_strict_params = on"),
    Setting("exit_on_error = on"),
    # time limits
    Setting("statement_timeout = '1ms'", application=False),
    Setting("lock_timeout = '1ms'"),
    Setting("idle_in_transaction_session_timeout = '1ms'", application=False),
    Setting("idle_session_timeout = '50ms'"),
    Setting("deadlock_timeout = '1ms'"),
    Setting("client_connection_check_interval = '1ms'"),
    Setting("tcp_user_timeout = 1", "tcp_keepalives_idle = 1", "tcp_keepalives_interval = 1", "tcp_keepalives_count = 1"),
    Setting("wal_sender_timeout = '1ms'"),
    # messages and logs
    Setting("client_min_messages = error"),
    Setting("log_statement = 'all'", "log_min_duration_statement = 0", "log_duration = on", "log_error_verbosity = verbose"),
    Setting("log_parameter_max_length_on_error = -1", "log_min_messages = debug5"),
    Setting("debug_print_plan = on", "debug_print_parse = on", "debug_print_rewritten = on", "trace_notify = on"),
    Setting("log_parser_stats = on", "log_planner_stats = on", "log_executor_stats = on", "track_functions = 'all'", "compute_query_id = on"),
    Setting("track_activities = off", "track_counts = off", "update_process_title = off"),
    Setting("stats_fetch_consistency = snapshot"),
    # memory and disk
    Setting("work_mem = '64kB'", "temp_file_limit = 0", "hash_mem_multiplier = 1"),
    Setting("max_stack_depth = '100kB'"),
    Setting("temp_buffers = 100", "maintenance_work_mem = '1MB'"),
    Setting("default_tablespace = 'pg_default'", "temp_tablespaces = 'pg_default'"),
    Setting("default_toast_compression = lz4", "wal_compression = on"),
    Setting("gin_fuzzy_search_limit = 1", "default_statistics_target = 1"),
    Setting("vacuum_cost_delay = 10", "vacuum_cost_limit = 1"),
    # plans
    Setting("jit = on", "jit_above_cost = 0", "jit_inline_above_cost = 0", "jit_optimize_above_cost = 0", "jit_expressions = off"),
    Setting("plan_cache_mode = force_custom_plan"),
    Setting("force_parallel_mode = on", "parallel_setup_cost = 0", "min_parallel_table_scan_size = 0"),
    Setting("enable_indexscan = off", "enable_indexonlyscan = off"),
    Setting("enable_nestloop = off", "enable_sort = off", "enable_material = off", "enable_memoize = off"),
    Setting("enable_hashagg = off", "enable_incremental_sort = off", "enable_tidscan = off"),
    Setting("enable_partition_pruning = off", "enable_partitionwise_join = on", "enable_partitionwise_aggregate = on", "constraint_exclusion = on"),
    Setting("geqo_threshold = 2", "geqo_effort = 10", "join_collapse_limit = 1", "from_collapse_limit = 1"),
    Setting("random_page_cost = 1000", "cpu_index_tuple_cost = 1000", "seq_page_cost = 0", "cpu_tuple_cost = 0"),
    Setting("synchronize_seqscans = off", "cursor_tuple_fraction = 1", "recursive_worktable_factor = 1000", "effective_cache_size = 1"),
]
SHORT = [setting for setting in SETTINGS
         if re.match(r"standard_conforming_strings|DateStyle = 'SQL|default_transaction_(isolation = 'ser|read_only)|search_path = hostile|exit_on_error|statement_timeout", str(setting))]

# Objects that a name without its schema would find first.
HOSTILE = """
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT '2000-01-01'::timestamptz$$;
CREATE FUNCTION hostile.octet_length(bytea) RETURNS int LANGUAGE sql AS 'SELECT 99999999';
CREATE FUNCTION hostile.wrong(bigint, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint';
CREATE OPERATOR hostile.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.wrong);
CREATE TABLE hostile.job (topic int); CREATE TABLE hostile.pg_class (relname text); CREATE TYPE hostile.bytea AS (a int);
"""


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer("fsync=off", "full_page_writes=off") as server:
        server.do("CREATE ROLE other SUPERUSER")
        yield server


class Application:
    """The application in a session of its own."""

    def __init__(self, url):
        self.url = url

    def ask(self, text, *values):
        with contextlib.closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(text, values)
            found = cursor.fetchall()
            connection.commit()
            return found

    def push(self, topic, ident, delay_ms, body):
        return self.ask("SELECT tarry.push(%s, %s, %s * interval '1 ms', %s)", topic, ident, delay_ms, body)[0][0]

    def reschedule(self, topic, ident, delay_ms):
        return self.ask("SELECT tarry.reschedule(%s, %s, %s * interval '1 ms')", topic, ident, delay_ms)[0][0]

    def cancel(self, topic, ident):
        return self.ask("SELECT tarry.cancel(%s, %s)", topic, ident)[0][0]

    def shown(self, topic):
        return self.ask("SELECT id, state, attempt FROM tarry.jobs WHERE topic = %s", topic)


@contextlib.contextmanager
def database_with(postgres, settings, scope):
    """Returns the URL of a new database that has the settings, by database or by role."""
    postgres.do("CREATE DATABASE app")
    url = postgres.url.replace("///postgres?", "///app?")
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(HOSTILE)
        connection.commit()
    try:
        for setting in settings:
            postgres.do(f"ALTER {scope} SET {setting}")
        yield url
    finally:
        postgres.do("ALTER ROLE tarry RESET ALL")
        postgres.do("DROP DATABASE app WITH (FORCE)")


def check(postgres, start_server, setting):
    scope = "DATABASE app" if SETTINGS.index(setting) % 2 and not str(setting).startswith("role") else "ROLE tarry IN DATABASE app"
    with database_with(postgres, setting.values, scope) as url:
        if setting.refused:
            refuses(setting, url)
            assert setting.refused in tarry("sql", "migrate", url).stderr
            return
        works(setting, url, start_server, lambda: Application(url))


@pytest.mark.parametrize("setting", rows(SHORT))
def test_setting_works_or_is_refused_by_name(postgres, start_server, setting):
    check(postgres, start_server, setting)
