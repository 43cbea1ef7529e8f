"""tarry serve on Redis: who it is let in as, and what it needs to be allowed."""

import re

import pytest
from redis_servers import Cluster, RedisServer
from redis_serving import info, metric, ready, refused, works
from server import REPO, eventually


def test_the_password_may_stand_in_a_file(tmp_path, start_server):
    password = "p@ss:w/ord %41?"
    file = tmp_path / "password"
    file.write_text(password + "\n", encoding="ascii")
    with RedisServer(aof="always") as server:
        server.config("requirepass", password)
        started = start_server("--store", server.url, "--redis-password-file", str(file), "--core-dumps")
        works(started)
        with open(f"/proc/{started.proc.pid}/cmdline", "rb") as command, open(f"/proc/{started.proc.pid}/environ", "rb") as environment:
            assert b"p@ss" not in command.read() + environment.read()
        assert "p@ss" not in started.log() and "p%40ss" not in started.log()
        assert "remove one" in refused("--store", f"redis://:x@127.0.0.1:{server.port}", "--redis-password-file", str(file))


def test_the_store_may_stand_in_the_environment_and_is_logged_without_its_password(start_server):
    with RedisServer(aof="always") as server:
        server.config("requirepass", "opensesami")
        started = start_server("--max-topics", "100", env={"TARRY_STORE": f"redis://:opensesami@127.0.0.1:{server.port}/3"})
        works(started)
        assert "opensesami" not in started.log() and f"127.0.0.1:{server.port}" in started.log()
        assert server.client(db=3, password="opensesami").dbsize() > 0 and server.client(db=0, password="opensesami").dbsize() == 0


def test_a_unix_socket_will_do(start_server):
    with RedisServer(aof="always", unix=True) as server:
        for url in (server.unix_url, f"unix://{server.socket}"):
            started = start_server("--store", url)
            works(started)
            started.terminate()


# ---- what it needs to be allowed ----

def acl_lines():
    return re.findall(r"^(ACL SETUSER .*)$", (REPO / "docs/redis.md").read_text(encoding="utf-8"), re.MULTILINE)


def life_of_everything(server, topic):
    """As many different calls as there are kinds of scripts."""
    works(server, topic)
    client = server.client()
    for number in range(3):
        client.push(topic, f"job-{number}", delay="1h", body=b"x" * 300)
    for method, target in (("GET", "jobs/job-1"), ("PATCH", "jobs/job-1?delay=2h"), ("POST", "jobs/job-2/run"), ("GET", "jobs?limit=10"),
                           ("GET", ""), ("POST", "pause"), ("POST", "resume"), ("POST", "redrive"), ("DELETE", "jobs/job-1"), ("POST", "purge")):
        answer = client.call(method, f"/v1/topics/{topic}/{target}".rstrip("/"))
        assert answer.status == 200, (method, target, answer.status, answer.body)
    assert client.call("GET", "/v1/topics").status == 200
    assert client.call("DELETE", f"/v1/topics/{topic}").status == 200


def test_the_acl_rule_of_the_documents_is_enough_and_nothing_it_asks_for_is_denied(start_server, tmp_path):
    file = tmp_path / "password"
    file.write_text("PASSWORD\n", encoding="ascii")
    assert acl_lines(), "docs/redis.md has no ACL rule"
    for line in acl_lines():
        with RedisServer(aof="always") as server:
            server.call(*line.split())
            server.config("requirepass", "others")
            started = start_server("--store", f"redis://tarry:@127.0.0.1:{server.port}", "--redis-password-file", str(file))
            assert info(started)["durability_class"] == "always"
            life_of_everything(started, "ruled")
            server.cut_connections()
            eventually(lambda: ready(started) == 200)
            life_of_everything(started, "again")
            started.terminate()
            assert server.client(password="others").acl_log() == []


def test_the_acl_rule_of_the_documents_will_do_on_a_cluster(start_server, tmp_path):
    file = tmp_path / "password"
    file.write_text("PASSWORD\n", encoding="ascii")
    with Cluster(masters=3) as servers:
        for server in servers.servers:
            server.call(*acl_lines()[0].split())
            server.call("ACL", "LOG", "RESET")
        url = servers.url.replace("://", "://tarry:@")
        started = start_server("--store", url, "--redis-password-file", str(file))
        life_of_everything(started, "ruled")
        servers.move_slot(servers.slot_of(next(key for key in servers.servers[0].client().scan_iter("*core"))))
        eventually(lambda: ready(started) == 200 and metric(started, "tarry_redis_shards_up") == 8, 20)
        life_of_everything(started, "again")
        for server in servers.servers:
            assert server.client().acl_log() == []


def test_the_acl_rule_of_the_documents_is_narrow(tmp_path):
    for line in acl_lines():
        with RedisServer() as server:
            server.call(*line.split())
            client = server.client(username="tarry", password="PASSWORD")
            server.client().set("foreign", "x")
            for words in (("GET", "foreign"), ("SET", "foreign", "y"), ("FLUSHALL",), ("CONFIG", "SET", "appendonly", "no"), ("KEYS", "*"), ("SHUTDOWN",),
                          ("DEBUG", "SLEEP", "0"), ("ACL", "LIST"), ("PUBLISH", "foreign", "x")):
                with pytest.raises(Exception, match="NOPERM|permissions"):
                    client.execute_command(*words)


def test_a_user_without_the_right_to_read_is_refused_with_the_page_to_read():
    with RedisServer() as server:
        server.call("ACL", "SETUSER", "tarry", "on", ">x", "~*", "&*", "+@all", "-info")
        said = refused("--store", f"redis://tarry:x@127.0.0.1:{server.port}")
        assert "docs/redis.md" in said and "does not let this user" in said
