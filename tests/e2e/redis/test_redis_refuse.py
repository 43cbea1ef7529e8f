"""tarry serve on Redis: conditions that it rejects at the start, and its messages."""

import socket
import threading
import time

import pytest
from redis_servers import RedisServer
from redis_serving import info, refused
from server import eventually, free_port, slack


def test_refuses_an_unreachable_redis_and_names_it():
    port = free_port()
    answer = refused("--store", f"redis://127.0.0.1:{port}")
    assert f"cannot reach redis at '127.0.0.1:{port}'" in answer and "Connection refused" in answer
    assert "cannot reach redis at '/nonexistent/redis.sock'" in refused("--store", "redis+unix:///nonexistent/redis.sock")


def test_gives_up_on_a_redis_that_does_not_answer():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        answer = refused("--store", f"redis://127.0.0.1:{silent.getsockname()[1]}")
        assert "does not answer" in answer and time.monotonic() - began < 20 * slack()


def test_refuses_a_wrong_password_and_never_shows_it():
    with RedisServer() as server:
        server.config("requirepass", "sesame")
        url = f"127.0.0.1:{server.port}"
        answer = refused("--store", f"redis://:opensesami@{url}")
        assert f"wrong password for redis at '{url}'" in answer and "opensesami" not in answer
        answer = refused("--store", f"redis://nobody:opensesami@{url}")
        assert f"wrong user or password for redis at '{url}'" in answer and "opensesami" not in answer and "nobody" not in answer
        answer = refused("--store", f"redis://{url}")
        assert "requires a password" in answer and "--redis-password-file" in answer


def test_rejects_a_password_that_redis_does_not_need():
    with RedisServer() as server:
        answer = refused("--store", f"redis://:needless@127.0.0.1:{server.port}")
        assert "has no password" in answer and "needless" not in answer


def test_refuses_a_database_that_does_not_exist():
    with RedisServer() as server:
        assert "select the database" in refused("--store", server.url + "/99")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_refuses_to_have_jobs_evicted(policy):
    with RedisServer("--maxmemory-policy", policy) as server:
        answer = refused("--store", server.url)
        assert policy in answer and "CONFIG SET maxmemory-policy noeviction" in answer
        server.config("maxmemory-policy", "noeviction")


def test_rejects_an_eviction_policy_known_only_from_info():
    with RedisServer("--maxmemory-policy", "allkeys-lru", "--rename-command", "CONFIG", "") as server:
        assert "allkeys-lru" in refused("--store", server.url)


@pytest.mark.parametrize("aof, required, change", [
    (None, "no", "CONFIG SET appendonly yes"), (None, "always", "CONFIG SET appendfsync always"),
    ("everysec", "always", "CONFIG SET appendfsync always"), ("no", "everysec", "CONFIG SET appendfsync everysec"),
])
def test_rejects_insufficient_durability_with_advice(aof, required, change, start_server):
    with RedisServer(aof=aof) as server:
        answer = refused("--store", server.url, "--require-durability", required)
        assert f"promises less than --require-durability {required}" in answer and f"it is '{aof or 'memory'}'" in answer and change in answer
        for name, value in (("appendonly", "yes"), ("appendfsync", required)):
            server.config(name, value)
        started = start_server("--store", server.url, "--require-durability", required)
        assert info(started)["durability_class"] == required
        assert started.terminate() == 0


@pytest.mark.parametrize("required", ["memory", "everysec", "always"])
def test_a_hidden_configuration_is_the_first_thing_to_mend(required):
    with RedisServer("--appendonly", "yes", "--rename-command", "CONFIG", "") as server:
        answer = refused("--store", server.url, "--require-durability", required)
        assert "it is 'unknown' (appendonly unknown, appendfsync unknown), let this user read its configuration (ACL: +config|get)" in answer
        assert "run:" not in answer and "CONFIG SET" not in answer


def test_refuses_a_replica_and_names_its_master():
    with RedisServer() as master, RedisServer("--replicaof", "127.0.0.1", master.port) as replica:
        eventually(lambda: replica.info("replication")["master_link_status"] == "up")
        answer = refused("--store", replica.url)
        assert f"'127.0.0.1:{replica.port}' is a replica" in answer and f"'127.0.0.1:{master.port}'" in answer


@pytest.mark.parametrize("flags, words", [
    (("--store", "floppy"), ["bad value 'floppy'", "redis-sentinel://"]),
    (("--store", "oracle://me:secret@host"), ["bad '--store'", "redis-cluster://"]),
    (("--store", "redis://host:notaport"), ["port"]),
    (("--store", "redis://host", "--sync", "always"), ["'sync' is for the embedded store"]),
    (("--store", "redis://host", "--wal-file", "16MiB"), ["'wal-file' is for the embedded store"]),
    (("--wait-replicas", "1"), ["'wait-replicas' is for jobs in Redis"]),
    (("--store", "redis://host", "--require-durability", "forever"), ["any|memory|no|everysec|always"]),
    (("--store", "redis://host", "--redis-password-file", "/nonexistent/password"), ["cannot read the password in '/nonexistent/password'"]),
])
def test_a_wrong_option_is_explained(flags, words):
    answer = refused(*flags)
    assert all(word in answer for word in words), answer
    assert "secret" not in answer


class OldRedis(threading.Thread):
    """Answers INFO as a Redis 6.2 does, which no package brings any more."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(4096)
            text = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nloading:0\r\nrole:master\r\n"
            connection.sendall(b"$%d\r\n%s\r\n" % (len(text), text))
            connection.recv(4096)


def test_rejects_an_outdated_redis():
    old = OldRedis()
    old.start()
    answer = refused("--store", f"redis://127.0.0.1:{old.port}")
    old.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    old.listener.close()
    assert "6.2.14" in answer and "7.0" in answer
