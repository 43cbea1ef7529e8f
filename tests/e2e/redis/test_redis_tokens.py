"""Tokens in Redis: all servers there share them, and follow within two seconds."""

import json
import subprocess
import threading
import time

import pytest
from certificates import Authority
from redis_servers import RedisServer, with_tls
from redis_serving import acl_more, acl_rule
from server import BINARY, eventually, slack
from test_tokens import ENVIRONMENT, becomes, call, token


def stored(redis, *words):
    done = token(*words, "--store", redis.url)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def new(redis, name, *more):
    return stored(redis, "new", name, "--scope", "push,read", "--topics", "*", *more)


@pytest.fixture
def redis(start_redis):
    return start_redis(aof="always")


def test_two_servers_follow_created_and_revoked_tokens(redis, start_server):
    servers = [start_server("--store", redis.url, "--tokens", "store") for _ in range(2)]
    assert all(call(server, None).status == 401 for server in servers)
    secret = new(redis, "shop")
    began = time.monotonic()
    for server in servers:
        becomes(server, secret, 201)
    assert time.monotonic() - began < 2.5 * slack()
    stored(redis, "revoke", "shop")
    began = time.monotonic()
    for server in servers:
        becomes(server, secret, 401)
    assert time.monotonic() - began < 2.5 * slack()
    assert secret.encode() not in redis.client().hget("{tarry}:tokens", "text")


def test_a_server_without_a_token_option_reads_the_tokens_of_the_store(redis, start_server):
    assert call(start_server("--store", redis.url), None).status == 201
    secret = new(redis, "shop")
    server = start_server("--store", redis.url)
    assert call(server, None).status == 401 and call(server, secret).status == 201


def test_tokens_stay_in_force_while_redis_is_away_and_are_followed_after(redis, start_server):
    secret = new(redis, "shop")
    server = start_server("--store", redis.url, "--tokens", "store", "--store-timeout", "1s")
    assert call(server, secret).status == 201
    redis.kill()
    time.sleep(1.5)
    assert call(server, secret).status == 503 and call(server, None).status == 401
    redis.launch()
    eventually(lambda: token("revoke", "shop", "--store", redis.url).returncode == 0, 10)
    becomes(server, secret, 401, 8)


def test_simultaneous_commands_lose_no_token(redis):
    threads = [threading.Thread(target=new, args=(redis, f"t{i}")) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry["name"] for entry in json.loads(stored(redis, "list", "--json"))["tokens"]} == {f"t{i}" for i in range(12)}


def test_an_unreadable_list_keeps_the_old_tokens(redis, start_server):
    secret = new(redis, "shop")
    server = start_server("--store", redis.url, "--tokens", "store")
    redis.client().hset("{tarry}:tokens", mapping={"text": "nonsense\n", "version": "x"})
    eventually(lambda: "unknown word 'nonsense'" in server.log(), 4)
    assert call(server, secret).status == 201


def test_the_servers_user_may_read_and_not_write(redis, start_server, tmp_path):
    secret = new(redis, "shop")
    redis.client().execute_command(*[word.replace("PASSWORD", "sesame") for word in acl_rule()])
    (tmp_path / "password").touch(0o600)
    (tmp_path / "password").write_text("sesame\n")
    url = f"redis://tarry:@127.0.0.1:{redis.port}"
    flags = ("--store", url, "--redis-password-file", str(tmp_path / "password"))
    server = start_server(*flags, "--tokens", "store")
    assert call(server, secret).status == 201
    done = token("revoke", "shop", *flags)
    assert done.returncode == 1 and "does not let this user write the tokens" in done.stderr
    redis.client().execute_command("ACL", "SETUSER", "tarry", *acl_more("tarry token"))
    assert token("revoke", "shop", *flags).returncode == 0
    becomes(server, secret, 401)


def test_a_cluster_and_sentinel_keep_tokens(start_redis, start_server):
    for kind in (start_redis.cluster, start_redis.sentinel):
        redis = kind()
        secret = new(redis, "shop")
        server = start_server("--store", redis.url, "--tokens", "store")
        assert call(server, secret).status == 201
        stored(redis, "revoke", "shop")
        becomes(server, secret, 401)


def test_by_tls_as_well(start_server, tmp_path):
    with with_tls(Authority(tmp_path / "authority"), True), RedisServer(aof="always") as redis:
        secret = new(redis, "shop")
        server = start_server("--store", redis.url, "--tokens", "store")
        assert call(server, secret).status == 201
        stored(redis, "revoke", "shop")
        becomes(server, secret, 401)


def test_fsck_accepts_the_key_of_tokens(redis, start_server):
    new(redis, "shop")
    start_server("--store", redis.url).terminate()
    fsck = [str(BINARY), "fsck", "--store", redis.url]
    assert subprocess.run(fsck, capture_output=True, timeout=60, env=ENVIRONMENT).returncode == 0
    client = redis.client()
    client.delete("{tarry}:tokens")
    client.set("{tarry}:tokens", "x")
    done = subprocess.run(fsck, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == 1 and "the tokens are stored in a key of another type" in done.stdout + done.stderr


def test_store_without_redis_is_refused(tmp_path):
    done = subprocess.run([str(BINARY), "serve", "--data", str(tmp_path / "d"), "--tokens", "store"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "'--tokens store' stores tokens in a shared store, give --store" in done.stderr
