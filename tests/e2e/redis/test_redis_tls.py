"""Redis with TLS: a single server, under Sentinel, as a cluster; trusted certificates, and messages about others."""

import pathlib
import subprocess
from urllib.parse import quote

import pytest
from certificates import Authority
from redis_servers import Cluster, RedisServer, Sentinel, with_tls
from redis_serving import refused, works
from server import BINARY, eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def tarry(*words):
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, check=False, timeout=60)


def pushes(server, ident):
    return server.client().call("PUT", f"/v1/topics/pushed/jobs/{quote(ident)}").status in (200, 201)


@pytest.mark.parametrize("asks_clients", [False, True], ids=["", "clients-show-certificates"])
def test_a_queue_on_one_redis(start_server, authority, asks_clients):
    with with_tls(authority, asks_clients), RedisServer(aof="always") as redis:
        one, two = start_server("--store", redis.url), start_server("--store", redis.url)
        for server in (one, two):
            works(server)
        one.client().push("t", "large", body=b"x" * 900_000)
        taken = two.client().take("t")
        assert taken[0]["body"] == "x" * 900_000
        # A push at one server wakes a take at the other: the notification channel is encrypted as well.
        one.client().push("t", "later", delay="300ms")
        taken += two.client().take("t", wait="10s")
        assert taken[1]["id"] == "later"
        for job in taken:
            one.client().ack(job["lease"])
        redis.cut_connections()
        eventually(lambda: pushes(one, "cut"), 20)
        redis.restart("kill")
        eventually(lambda: pushes(one, "started-again"), 20)
        works(one)
        for server in (one, two):
            server.terminate()
        checked = tarry("fsck", "--store", redis.url)
        assert checked.returncode == 0 and "clean" in checked.stdout, checked.stderr
        moved = tarry("reshard", "--store", redis.url, "--shards", "2")
        assert moved.returncode == 0, moved.stderr
        works(start_server("--store", redis.url))


def test_a_queue_under_sentinel_continues_after_a_failover(start_server, authority):
    with with_tls(authority), Sentinel(replicas=1, aof="everysec") as group:
        server = start_server("--store", group.url)
        works(server)
        group.fail_over()
        group.wait_one_master()
        eventually(lambda: pushes(server, "after"), 30)
        works(server)


def test_a_queue_on_a_cluster(start_server, authority):
    with with_tls(authority), Cluster(masters=3) as cluster:
        server = start_server("--store", cluster.url)
        for number in range(30):
            server.client().push("t", f"job-{number}")
        assert len(server.client().take("t", max=30)) == 30
        works(server)


def test_untrusted_certificates_are_rejected_with_a_reason(authority, tmp_path):
    other = Authority(tmp_path / "other")
    with with_tls(authority) as tls, RedisServer() as redis:
        address = f"rediss://127.0.0.1:{redis.port}"
        assert "give the file of the CA that signed its certificate as ca in the URL" in refused("--store", address)
        assert "as ca in the URL" in refused("--store", f"{address}?ca={other.file}")
        assert "for another name" in refused("--store", f"{address}?ca={tls.ca}&tls-name=elsewhere.test")
        assert "nowhere.pem', No such file" in refused("--store", f"{address}?ca={tmp_path}/nowhere.pem")
        assert "write rediss://" in refused("--store", f"redis://127.0.0.1:{redis.port}")
        assert "'ca' is only for TLS" in refused("--store", f"redis://127.0.0.1:{redis.port}?ca={tls.ca}")
    with RedisServer() as plain:
        assert "if this port does not use TLS, write redis://" in refused("--store", f"rediss://127.0.0.1:{plain.port}?ca={authority.file}")


def test_a_missing_client_certificate_is_reported(authority):
    with with_tls(authority, asks_clients=True) as tls, RedisServer() as redis:
        assert "give cert and key in the URL" in refused("--store", f"rediss://127.0.0.1:{redis.port}?ca={tls.ca}")


def test_no_secret_and_no_file_is_in_the_log(start_server, authority):
    with with_tls(authority) as tls, RedisServer() as redis:
        redis.config("requirepass", "hidden-word")
        server = start_server("--store", redis.url.replace("://", "://:hidden-word@"))
        works(server)
        redis.client().execute_command("AUTH", "hidden-word")
        redis.config("requirepass", "")
        assert f"redis=rediss://127.0.0.1:{redis.port} " in server.log()
        assert "hidden-word" not in server.log() and pathlib.Path(tls.key).name not in server.log()
