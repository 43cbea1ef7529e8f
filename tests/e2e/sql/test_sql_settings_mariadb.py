"""tarry serve on a MariaDB and a MySQL whose DBA has set something for new sessions: each setting works, or is refused at the start by name.

The settings come by init_connect, which has no effect for an account with SUPER: the server and the application use accounts without it. `GLOBAL`
settings are those that only the server has, or that a session may not change.
"""

import contextlib
import warnings

import pymysql
import pytest
from mariadb import MariadbServer
from mysql import MysqlServer, find_server
from sql_serving import tarry
from sql_settings import Setting, refuses, rows, works

MARIADB, MYSQL = "MariaDB", "MySQL"
SETTINGS = [
    # what texts mean
    *(Setting(f"sql_mode = '{mode}'") for mode in (
        "", "ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES", "IGNORE_SPACE", "PAD_CHAR_TO_FULL_LENGTH", "HIGH_NOT_PRECEDENCE", "NO_UNSIGNED_SUBTRACTION",
        "ONLY_FULL_GROUP_BY", "NO_AUTO_VALUE_ON_ZERO", "REAL_AS_FLOAT", "ERROR_FOR_DIVISION_BY_ZERO", "TRADITIONAL", "ANSI", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE",
        "ALLOW_INVALID_DATES", "NO_ENGINE_SUBSTITUTION")),
    *(Setting(f"sql_mode = '{mode}'", only=MARIADB) for mode in (
        "ORACLE", "MSSQL", "DB2", "POSTGRESQL", "MAXDB", "MYSQL323", "MYSQL40", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT", "TIME_ROUND_FRACTIONAL",
        "IGNORE_BAD_TABLE_OPTIONS", "NO_DIR_IN_CREATE")),
    Setting("sql_mode = 'TIME_TRUNCATE_FRACTIONAL'", only=MYSQL),
    Setting("character_set_client = latin1", "character_set_connection = latin1", "character_set_results = latin1"),
    Setting("character_set_client = cp1251", "character_set_results = koi8r", application=False),  # the texts of the test are not in them
    Setting("collation_connection = utf8mb4_unicode_ci"),
    Setting("collation_connection = utf8mb4_general_ci"),
    Setting("collation_connection = latin1_german2_ci", application=False),
    Setting("GLOBAL character_set_filesystem = utf8"),
    Setting("GLOBAL character_set_server = ucs2"),
    Setting("GLOBAL collation_server = utf8mb4_general_ci"),
    Setting("old_mode = ''", only=MARIADB),
    Setting("old_mode = 'NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST'", only=MARIADB),
    Setting("default_regex_flags = 'DOTALL,EXTENDED,UNGREEDY'", only=MARIADB),
    Setting("lc_time_names = 'de_DE'", only=MARIADB),
    Setting("lc_messages = 'de_DE'", only=MARIADB),
    # dates and numbers
    Setting("time_zone = '+05:45'"),
    Setting("time_zone = '-12:00'"),
    Setting("GLOBAL time_zone = '+13:00'"),
    Setting("timestamp = 1"),
    Setting("timestamp = 2000000000"),
    Setting("default_week_format = 7"),
    Setting("div_precision_increment = 0"),
    Setting("div_precision_increment = 30"),
    Setting("explicit_defaults_for_timestamp = 0", only=MARIADB),
    Setting("GLOBAL auto_increment_increment = 10", "GLOBAL auto_increment_offset = 3"),
    Setting("insert_id = 7", application=False),
    Setting("last_insert_id = 7"),
    Setting("rand_seed1 = 1", "rand_seed2 = 1"),
    Setting("sql_auto_is_null = 1"),
    # transactions
    Setting("autocommit = 0"),
    Setting("completion_type = CHAIN"),
    Setting("GLOBAL completion_type = 'RELEASE'", application=False),  # the application's own commit ends its connection
    Setting("tx_isolation = 'SERIALIZABLE'", only=MARIADB),
    Setting("tx_isolation = 'READ-UNCOMMITTED'", only=MARIADB),
    Setting("tx_isolation = 'REPEATABLE-READ'", only=MARIADB),
    Setting("tx_read_only = 1", only=MARIADB, refused="tx_read_only"),
    Setting("GLOBAL tx_read_only = 1", only=MARIADB, refused="tx_read_only"),
    Setting("transaction_isolation = 'SERIALIZABLE'", only=MYSQL),
    Setting("transaction_isolation = 'READ-UNCOMMITTED'", only=MYSQL),
    Setting("transaction_read_only = 1", only=MYSQL, refused="transaction_read_only"),
    Setting("innodb_snapshot_isolation = 1", only=MARIADB),
    Setting("GLOBAL innodb_flush_log_at_trx_commit = 2"),
    Setting("GLOBAL sync_binlog = 0"),
    Setting("GLOBAL binlog_format = STATEMENT", refused="STATEMENT"),
    Setting("GLOBAL binlog_format = MIXED"),
    Setting("GLOBAL binlog_row_image = NOBLOB"),
    Setting("unique_checks = 0", "foreign_key_checks = 0"),
    Setting("check_constraint_checks = 0", only=MARIADB),
    Setting("low_priority_updates = 1"),
    # safe modes and limits
    Setting("sql_safe_updates = 1"),
    Setting("sql_select_limit = 1"),
    Setting("sql_select_limit = 0", application=False),  # the application reads no row itself
    Setting("sql_big_selects = 0", "max_join_size = 1", application=False),
    Setting("sql_buffer_result = 1"),
    Setting("sql_if_exists = 1", only=MARIADB),
    Setting("sql_notes = 0", "sql_warnings = 1"),
    Setting("sql_quote_show_create = 0"),
    Setting("group_concat_max_len = 4"),
    Setting("max_error_count = 0"),
    Setting("max_sort_length = 64", only=MARIADB),
    Setting("max_length_for_sort_data = 8"),
    Setting("max_sp_recursion_depth = 0"),
    Setting("max_recursive_iterations = 1", only=MARIADB),
    Setting("max_seeks_for_key = 1"),
    Setting("max_heap_table_size = 16384", "tmp_table_size = 1024"),
    Setting("join_buffer_size = 128", "sort_buffer_size = 32768", "read_buffer_size = 8192"),
    Setting("updatable_views_with_limit = 0"),
    Setting("standard_compliant_cte = 0", only=MARIADB),
    Setting("cte_max_recursion_depth = 0", only=MYSQL),
    Setting("windowing_use_high_precision = 0", only=MYSQL),
    Setting("GLOBAL sql_require_primary_key = 1", only=MYSQL),
    Setting("GLOBAL log_bin_trust_function_creators = 1"),
    # time limits
    Setting("max_statement_time = 0.001", only=MARIADB, application=False),
    Setting("max_execution_time = 1", only=MYSQL, application=False),
    Setting("innodb_lock_wait_timeout = 1"),
    Setting("lock_wait_timeout = 1"),
    Setting("idle_transaction_timeout = 1", "idle_write_transaction_timeout = 1", "idle_readonly_transaction_timeout = 1", only=MARIADB),
    Setting("wait_timeout = 1", "interactive_timeout = 1"),
    Setting("net_read_timeout = 1", "net_write_timeout = 1", "net_retry_count = 1"),
    # engines and tables
    Setting("default_storage_engine = MyISAM"),
    Setting("default_storage_engine = MEMORY", "default_tmp_storage_engine = MEMORY"),
    Setting("innodb_strict_mode = 0"),
    Setting("innodb_table_locks = 0"),
    Setting("GLOBAL innodb_default_row_format = compact"),
    Setting("alter_algorithm = COPY", only=MARIADB),
    Setting("old_alter_table = 1"),
    Setting("system_versioning_alter_history = KEEP", only=MARIADB),
    Setting("big_tables = 1"),
    # plans
    Setting("optimizer_switch = 'index_condition_pushdown=off,mrr=on,materialization=off,semijoin=off,derived_merge=off'"),
    Setting("optimizer_switch = 'rowid_filter=off,split_materialized=off,condition_pushdown_for_derived=off,optimize_join_buffer_size=off'", only=MARIADB),
    Setting("optimizer_search_depth = 1", "optimizer_prune_level = 0"),
    Setting("optimizer_use_condition_selectivity = 1", "use_stat_tables = NEVER", only=MARIADB),
    Setting("in_predicate_conversion_threshold = 2", only=MARIADB),
    Setting("join_cache_level = 8", only=MARIADB),
    Setting("eq_range_index_dive_limit = 0"),
    Setting("internal_tmp_mem_storage_engine = MEMORY", only=MYSQL),
    # logs, caches, session states
    Setting("GLOBAL general_log = 1", "GLOBAL log_output = 'TABLE'"),
    Setting("long_query_time = 0"),
    Setting("profiling = 1"),
    Setting("session_track_schema = 1", "session_track_state_change = 1", "session_track_system_variables = '*'"),
    Setting("session_track_transaction_info = 'CHARACTERISTICS'", only=MARIADB),
    Setting("session_track_gtids = 'ALL_GTIDS'", only=MYSQL),
    Setting("GLOBAL max_allowed_packet = 262144"),
    Setting("GLOBAL max_allowed_packet = 65536", refused="packet"),
    Setting("GLOBAL read_only = 1", refused="read-only"),
    Setting("GLOBAL event_scheduler = 0"),
    Setting("GLOBAL local_infile = 0"),
]


class Application:
    """The application in a session of its own, by the account of the server."""

    def __init__(self, database):
        self.database = database

    def run(self, text, *values):
        with contextlib.closing(self.database.connect("app")) as connection, connection.cursor() as cursor, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cursor.execute(text, values)
            if not text.startswith("CALL"):
                return cursor.fetchall()
            cursor.execute("SELECT @result")
            found = cursor.fetchone()[0]
            connection.commit()
            return found.decode() if isinstance(found, bytes) else found

    def push(self, topic, ident, delay_ms, body):
        return self.run("CALL tarry.push(%s, %s, %s, %s, @result)", topic, ident, delay_ms, body)

    def reschedule(self, topic, ident, delay_ms):
        return self.run("CALL tarry.reschedule(%s, %s, %s, NULL, NULL, @result)", topic, ident, delay_ms)

    def cancel(self, topic, ident):
        return self.run("CALL tarry.cancel(%s, %s, @result)", topic, ident)

    def shown(self, topic):
        return [tuple(column.decode() if isinstance(column, bytes) else column for column in row)
                for row in self.run("SELECT id, state, attempt FROM tarry.jobs WHERE topic = %s", topic)]


class SettingClaims:
    """`product` is the name of the database; `make` starts one."""

    product = None

    @pytest.fixture(scope="class")
    def database(self):
        with self.make() as server:
            server.do("SET GLOBAL log_bin_trust_function_creators = 1")
            server.do("CREATE USER app@localhost")
            server.do("GRANT ALL ON tarry.* TO app@localhost")
            server.do("GRANT PROCESS ON *.* TO app@localhost")
            yield server

    @contextlib.contextmanager
    def with_settings(self, database, settings):
        """The global ones are set back to what they were."""
        names = [setting.removeprefix("GLOBAL ").split(" = ")[0] for setting in settings if setting.startswith("GLOBAL")]
        before = {name: database.do(f"SELECT @@GLOBAL.{name}") for name in names}
        try:
            for setting in settings:
                if setting.startswith("GLOBAL"):
                    database.do(f"SET {setting}")
            database.do("SET GLOBAL init_connect = %s", "; ".join(f"SET SESSION {setting}" for setting in settings if not setting.startswith("GLOBAL")))
            yield
        finally:
            database.do("SET GLOBAL init_connect = ''")
            for name, value in before.items():
                database.do(f"SET GLOBAL {name} = %s", value)

    def settle(self, setting, database, start_server):
        database.do("DROP DATABASE IF EXISTS tarry")
        url = database.url.replace("root@", "app@")
        if setting.refused:
            assert tarry("sql", "migrate", url).returncode == 0
        with self.with_settings(database, setting.values):
            if setting.refused:
                refuses(setting, url)
                return
            works(setting, url, start_server, lambda: Application(database))


class TestMariadb(SettingClaims):
    make = MariadbServer

    @pytest.mark.parametrize("setting", rows([setting for setting in SETTINGS if setting.only in (None, MARIADB)]))
    def test_setting_works_or_is_refused_by_name(self, database, start_server, setting):
        self.settle(setting, database, start_server)


@pytest.mark.skipif(not find_server()[0], reason=find_server()[1])
class TestMysql(SettingClaims):
    make = MysqlServer

    @pytest.mark.parametrize("setting", rows([setting for setting in SETTINGS if setting.only in (None, MYSQL)]))
    def test_setting_works_or_is_refused_by_name(self, database, start_server, setting):
        self.settle(setting, database, start_server)
