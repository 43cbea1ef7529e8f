"""Fixtures: one real Redis for all tests of the scripts, emptied for each; a shard on it. (No __init__.py here: the folder must not pass for the module `redis`.)"""

import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "e2e" / "support")]

from abi import Shard  # noqa: E402
from leftovers import pytest_fixture_setup, pytest_runtest_setup, pytest_runtest_teardown  # noqa: E402, F401: hooks
from redis_servers import Cluster, RedisServer  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "thorough(reason): only in make test-all")


@pytest.fixture(scope="session")
def redis_server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def shard(redis_server):
    """An empty shard; what a test leaves behind must be sound."""
    redis_server.call("FLUSHALL")
    shard = Shard(redis_server.client())
    shard.hello()
    yield shard
    shard.must_be_sound()


@pytest.fixture
def own_redis():
    """A server for tests that damage it."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def cluster():
    with Cluster() as cluster:
        yield cluster
