"""Fixtures: a server of one's own for each test that asks for one."""

import contextlib
import functools
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent
# Shared parts of tests are in support/. Some tests use helpers of a test in another folder.
sys.path[:0] = [str(HERE), *(str(path) for path in sorted(HERE.iterdir()) if path.is_dir()), str(HERE.parent), str(HERE.parent / "redis")]

pytest.register_assert_rewrite("sql_claims")

import databases  # noqa: E402
import doors  # noqa: E402
from endpoint import Endpoint, write_policy  # noqa: E402
from leftovers import pytest_fixture_setup, pytest_runtest_setup, pytest_runtest_teardown  # noqa: E402, F401: hooks
from redis_servers import Cluster, RedisServer, Sentinel  # noqa: E402
from server import BINARY, FLAGS, Server  # noqa: E402
from wings import is_left_out, lacking  # noqa: E402

HAS_FILES_OF_ITS_OWN = {"--wal-file", "--store", "--config", "--max-body"}


def with_small_files(flags, env):
    """A server writes its first log file in full, which is 64 MiB for each shard if nothing else is set."""
    if HAS_FILES_OF_ITS_OWN & set(flags) or {"TARRY_STORE", "TARRY_CONFIG", "TARRY_WAL_FILE", "TARRY_MAX_BODY"} & set(env or ()):
        return flags
    return (*flags, "--wal-file", "4MiB")


def pytest_configure(config):
    config.addinivalue_line("markers", "plain(reason): not with TARRY_TEST_DOORS=1, because of that")
    config.addinivalue_line("markers", "thorough(reason): only in make test-all, because it needs more packages than make test has, or takes long")
    config.addinivalue_line("markers", "shards: several shards at work; what the thread sanitizer runs")
    config.addinivalue_line("markers", "read_timeout(time): grpc_read_timeout of nginx in this test")


def pytest_collection_modifyitems(config, items):
    """Skips tests that cannot run with doors, with a message."""
    out = [item for item in items if doors.ON and item.get_closest_marker("plain")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@functools.cache
def _lacking():
    return lacking(BINARY) if BINARY.exists() else set()


def pytest_ignore_collect(collection_path):
    """Skips tests of a missing wing; with doors, skips tests that have their own."""
    return (collection_path.name.startswith("test_") and (is_left_out(collection_path, _lacking()) or doors.has_own(collection_path))) or None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        databases.explain(report)
    setattr(item, "report_" + call.when, report)


@pytest.fixture
def start_server(request, tmp_path, start_redis):
    """start_server(*flags, env=None, directory=…) starts another server; all are stopped and checked at the end of the test, before the Redis servers: a stop waits for a Redis that is gone."""
    if not BINARY.exists():
        pytest.fail(f"no server at {BINARY}: build it first, or set TARRY_BIN")
    servers = []

    def start(*flags, env=None, directory=None, started=True):
        directory = directory or tmp_path / f"server-{len(servers)}"
        server = Server(directory, with_small_files(flags or FLAGS, env), env)
        servers.append(server)
        return server.start() if started else server

    yield start
    faults = []
    for server in servers:
        faults += _finish(server)
    report = getattr(request.node, "report_call", None)
    if faults or (report and report.failed):
        for server in servers:
            print(f"---- log of {server.directory.name} ----\n{server.log()[-6000:]}")
    else:  # some 100 MB each
        for server in servers:
            shutil.rmtree(server.data, ignore_errors=True)
    assert not faults, "\n".join(faults)


def _finish(server):
    faults = []
    if server.proc and server.proc.poll() is None:
        try:
            code = server.terminate()
            if code != 0:
                faults.append(f"exit code {code} after SIGTERM")
        except Exception as fault:  # it hangs
            faults.append(f"it does not stop: {fault}")
            server.kill()
    elif server.proc and server.proc.returncode not in (0, -9):
        faults.append(f"the server ended by itself with {server.proc.returncode}")
    report = server.sanitizer_report()
    return faults + ([report] if report else [])


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture
def start_delivering(start_server, tmp_path):
    """start_delivering(*flags, policy=lines) is start_server with a policy file, tmp_path / "policy", that allows this machine; only=lines: just these."""

    def start(*flags, policy=(), only=None, **options):
        path = write_policy(tmp_path / "policy", *policy)
        if only is not None:
            (tmp_path / "policy").write_text("\n".join(only) + "\n", encoding="utf-8")
        return start_server(*(flags or FLAGS), "--deliver", path, **options)

    return start


@pytest.fixture
def endpoint():
    """A real endpoint for callbacks; it answers 200 by default."""
    endpoint = Endpoint().start()
    yield endpoint
    endpoint.stop()


@pytest.fixture
def start_postgres():
    """start_postgres() starts a PostgreSQL of the test's own."""
    from postgres import PostgresServer
    with contextlib.ExitStack() as stack:
        yield lambda *settings: stack.enter_context(PostgresServer(*settings))


@pytest.fixture
def start_mariadb():
    """start_mariadb() starts a MariaDB of the test's own."""
    from mariadb import MariadbServer
    with contextlib.ExitStack() as stack:
        yield lambda *settings: stack.enter_context(MariadbServer(*settings))


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL with the schema."""
    from postgres import PostgresServer
    from sql_serving import migrated
    with migrated(PostgresServer()) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb():
    """A MariaDB with the schema; with TARRY_TEST_MYSQL a MySQL (mysql.py)."""
    from mysql import DatabaseServer
    from sql_serving import migrated
    with migrated(DatabaseServer()) as server:
        yield server


@pytest.fixture
def start_redis():
    """start_redis(*flags, aof=…, …): a real Redis of the test's own. start_redis.sentinel(…) and start_redis.cluster(…) likewise."""
    with contextlib.ExitStack() as running:
        def start(*flags, kind=RedisServer, **options):
            return running.enter_context(kind(*flags, **options))

        start.sentinel = functools.partial(start, kind=Sentinel)
        start.cluster = functools.partial(start, kind=Cluster)
        yield start


@pytest.fixture
def open_directory():
    """A directory that other users may enter. It is not below pytest's own, which each start of pytest closes again."""
    with tempfile.TemporaryDirectory(prefix="tarry-open-") as name:
        path = pathlib.Path(name)
        for each in [path, *path.parents][:-1]:
            if each.stat().st_uid == os.getuid():
                each.chmod(each.stat().st_mode | 0o011)
        yield path
