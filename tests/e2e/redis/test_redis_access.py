"""tarry serve on Redis: who it is let in as, and what it needs to be allowed."""

import re
import subprocess
import time

import pytest
import state
from redis_servers import Cluster, RedisServer
from redis_serving import acl_more, acl_rule, denied, info, metric, push_answer, ready, refused, works
from server import BINARY, REPO, Server, eventually

SCRIPTS = REPO / "src/stores/redis/scripts"
FOR_CHECKED_BATCHES = ("+scard", "+smembers")  # of those for fsck


def secret_file(path, text, mode=0o600):
    path.touch(0o600)
    path.write_text(text + "\n", encoding="ascii")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_password_that_others_may_read_is_refused(tmp_path, mode):
    with RedisServer() as server:
        server.config("requirepass", "sesame")
        file = secret_file(tmp_path / "password", "sesame", mode)
        output = refused("--store", server.url, "--redis-password-file", file)
        assert f"others may read the password in '{file}', run: chmod 600" in output
        conf = secret_file(tmp_path / "tarry.conf", f"store = redis://:sesame@127.0.0.1:{server.port}", mode)
        output = refused("--config", conf)
        assert "others may read the password in the configuration" in output and "chmod 600" in output and "sesame" not in output


def test_a_configuration_without_a_password_may_be_read_by_all(tmp_path, start_server):
    with RedisServer() as server:
        server.config("requirepass", "sesame")
        file = secret_file(tmp_path / "password", "sesame", 0o400)
        conf = secret_file(tmp_path / "tarry.conf", f"store = redis://127.0.0.1:{server.port}\nredis-password-file = {file}", 0o644)
        works(start_server("--config", conf))


def test_the_password_may_be_in_a_file(tmp_path, start_server):
    password = "p@ss:w/ord %41?"
    file = tmp_path / "password"
    secret_file(file, password)
    with RedisServer(aof="always") as server:
        server.config("requirepass", password)
        started = start_server("--store", server.url, "--redis-password-file", str(file), "--core-dumps")
        works(started)
        with open(f"/proc/{started.proc.pid}/cmdline", "rb") as command, open(f"/proc/{started.proc.pid}/environ", "rb") as environment:
            assert b"p@ss" not in command.read() + environment.read()
        assert "p@ss" not in started.log() and "p%40ss" not in started.log()
        assert "remove one" in refused("--store", f"redis://:x@127.0.0.1:{server.port}", "--redis-password-file", str(file))


def test_the_store_may_come_from_the_environment_and_is_logged_without_its_password(start_server):
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

def life_of_everything(server, topic):
    """Makes as many different calls as there are kinds of scripts."""
    works(server, topic)
    client = server.client()
    for number in range(3):
        client.push(topic, f"job-{number}", delay="1h", body=b"x" * 300)
    for method, target in (("GET", "jobs/job-1"), ("PATCH", "jobs/job-1?delay=2h"), ("POST", "jobs/job-2/run"), ("GET", "jobs?limit=10"),
                           ("GET", ""), ("POST", "pause"), ("POST", "resume"), ("POST", "redrive"), ("DELETE", "jobs/job-1"), ("POST", "purge")):
        answer = client.call(method, f"/v1/topics/{topic}/{target}".rstrip("/"))
        assert answer.status == 200, (method, target, answer.status, answer.body)
    client.put_topic(topic, keep_finished="1h")
    for _ in range(2):  # the second push removes the kept job
        client.push(topic, "kept", delay="1h")
        assert client.call("DELETE", f"/v1/topics/{topic}/jobs/kept").status == 200
    assert client.call("GET", f"/v1/topics/{topic}/jobs/kept").json()["outcome"] == "cancelled"
    for ends in ("ack", "cancel"):
        client.push(topic, f"after-{ends}", waits="true")
        client.push(topic, f"member-{ends}", batch_topic=topic, batch_id=f"after-{ends}")
        if ends == "ack":
            client.ack(client.take(topic)[0]["lease"])
        assert client.call("DELETE", f"/v1/topics/{topic}/jobs/after-{ends}?members=true").status == 200
    assert client.call("GET", "/v1/topics").status == 200
    assert client.call("DELETE", f"/v1/topics/{topic}").status == 200


@pytest.mark.parametrize("sees", [False, True])
def test_the_documented_acl_rule_is_sufficient(start_server, tmp_path, sees):
    file = secret_file(tmp_path / "password", "PASSWORD")
    with RedisServer(aof="always") as server:
        server.call(*acl_rule("tarry fsck", *(["reading the durability"] if sees else [])))
        server.config("requirepass", "others")
        started = start_server("--store", f"redis://tarry:@127.0.0.1:{server.port}", "--redis-password-file", file)
        assert info(started)["durability_class"] == ("always" if sees else "unknown")
        assert sees or "its configuration cannot be read" in started.log()
        life_of_everything(started, "ruled")
        server.cut_connections()
        eventually(lambda: ready(started) == 200)
        life_of_everything(started, "again")
        assert subprocess.run([str(BINARY), "fsck", "--store", f"redis://tarry:@127.0.0.1:{server.port}", "--redis-password-file", file], check=False).returncode == 0
        started.terminate()
        assert denied(server.client(password="others")) == (set() if sees else {"config|get"})


def test_a_user_by_the_rule_learns_no_password():
    with RedisServer() as server:
        server.call(*acl_rule())
        for words in (("CONFIG", "GET", "requirepass"), ("CONFIG", "GET", "masterauth"), ("ACL", "LIST"), ("MONITOR",), ("DUMP", "foreign")):
            with pytest.raises(Exception, match="NOPERM|permissions"):
                server.client(username="tarry", password="PASSWORD").execute_command(*words)


def permissions(words):
    return [word for word in words if word.startswith("+")]


def taken_away(permission):
    return "-" + permission[1:]


def test_each_permission_of_the_rule_is_needed(tmp_path):
    """Without the rule Redis denies a command within a short life of jobs."""
    needless = []
    with RedisServer() as server:
        for permission in permissions(acl_rule()):
            server.call("FLUSHALL")
            server.call("FUNCTION", "FLUSH")
            server.call(*acl_rule("reading the durability"), taken_away(permission))
            server.call("ACL", "LOG", "RESET")
            flags = ["--store", f"redis://tarry:PASSWORD@127.0.0.1:{server.port}", "--shards", "1", "--store-timeout", "1s"]
            started = Server(tmp_path / permission.replace("|", "-"), flags).launch()
            client = None
            limit, pause = time.monotonic() + 20, 0.01
            while not denied(server.client()) and time.monotonic() < limit and started.proc.poll() is None:
                time.sleep(pause)
                if client is None and "event=listening" in started.log():
                    started.wait_listening()
                    client = started.client()
                elif client:
                    for call in (("PUT", "/v1/topics/t/jobs/far?delay=1h"), ("PUT", "/v1/topics/t/jobs/after?waits=true"),
                                 ("PUT", "/v1/topics/t/jobs/a?batch_topic=t&batch_id=after"), ("DELETE", "/v1/topics/t/jobs/after?members=true"),
                                 ("PUT", "/v1/topics/k?keep_finished=1h"), ("PUT", "/v1/topics/k/jobs/kept?delay=1h"), ("DELETE", "/v1/topics/k/jobs/kept"),
                                 ("POST", "/v1/topics/t/purge"), ("DELETE", "/v1/topics/t")):
                        client.call(*call)
                    pause = min(pause * 2, 2)  # an idle server packs jobs
            if not denied(server.client()):
                needless.append(permission)
            started.kill()
    assert not needless


def test_each_permission_for_fsck_is_needed():
    with RedisServer() as server:
        server.call(*acl_rule("tarry fsck"))
        url = f"redis://tarry:PASSWORD@127.0.0.1:{server.port}"
        for permission in [None, *(one for one in acl_more("tarry fsck") if one not in FOR_CHECKED_BATCHES)]:
            server.call("FLUSHALL")
            server.call("SCRIPT", "FLUSH")
            server.client().set("{tarry}:shards", 1)
            server.client().zadd("{tarry:0}:topics", {"t": 5})
            server.client().hset("{tarry:0}:job:t", "a", "x")
            server.client().zadd("{tarry:0}:fresh:t", {b"\0\0\0\0\0\1a": 1 << 42})
            server.client().set("{tarry:0}:topic:t", state.topic_written(state.Values(dict.fromkeys([name for name, _ in state.TOPIC_NUMBERS], 0), settings=b"")))
            server.call(*acl_rule("tarry fsck"), *([taken_away(permission)] if permission else []))
            server.call("ACL", "LOG", "RESET")
            done = subprocess.run([str(BINARY), "fsck", "--store", url], capture_output=True, text=True, check=False)
            assert bool(denied(server.client())) == bool(permission), (permission, done.stdout, done.stderr)


@pytest.mark.parametrize("permission", FOR_CHECKED_BATCHES)
def test_each_permission_for_fsck_of_batches_is_needed(start_server, permission):
    with RedisServer() as server:
        started = start_server("--store", server.url, "--shards", "1")
        started.client().push("t", "after", waits="true")
        started.client().push("t", "member", batch_topic="t", batch_id="after")
        assert started.terminate() == 0
        for lacking in (None, permission):
            server.call(*acl_rule("tarry fsck"), *([taken_away(lacking)] if lacking else []))
            server.call("ACL", "LOG", "RESET")
            subprocess.run([str(BINARY), "fsck", "--store", f"redis://tarry:PASSWORD@127.0.0.1:{server.port}"], capture_output=True, check=False)
            assert denied(server.client()) == ({lacking[1:]} if lacking else set())


@pytest.mark.parametrize("what, path, flags", [("a database", "/3", ()), ("--wait-replicas", "", ("--wait-replicas", "1"))])
def test_each_permission_for_an_option_is_needed_with_it(tmp_path, what, path, flags):
    with RedisServer() as server:
        server.call(*acl_rule())
        url = f"redis://tarry:PASSWORD@127.0.0.1:{server.port}{path}"
        started = Server(tmp_path, ["--store", url, "--store-timeout", "1s", *flags]).launch()
        eventually(lambda: started.proc.poll() is not None or "event=listening" in started.log())
        if started.proc.poll() is None:
            started.wait_listening()
            eventually(lambda: ready(started) == 200)
            assert push_answer(started, "t", "a").status == 503
        assert denied(server.client()) & {word[1:] for word in acl_more(what)}
        started.kill()


def test_the_acl_rule_of_the_documents_will_do_on_a_cluster(start_server, tmp_path):
    file = secret_file(tmp_path / "password", "PASSWORD")
    with Cluster(masters=3) as servers:
        for server in servers.servers:
            server.call(*acl_rule("a cluster"))
            server.call("ACL", "LOG", "RESET")
        url = servers.url.replace("://", "://tarry:@")
        started = start_server("--store", url, "--redis-password-file", str(file))
        life_of_everything(started, "ruled")
        servers.move_slot(servers.slot_of(next(key for key in servers.servers[0].client().scan_iter("*core"))))
        eventually(lambda: ready(started) == 200 and metric(started, "tarry_redis_shards_up") == 3, 20)
        life_of_everything(started, "again")
        for server in servers.servers:
            assert denied(server.client()) <= {"config|get"}
        started.terminate()
        # The number of shards is on its way from one node to another.
        slot = servers.slot_of(b"{tarry}:shards")
        source, to = servers.begin_move(slot)
        while servers.move_keys(slot, source, to, 100):
            pass
        second = start_server("--store", url, "--redis-password-file", file, started=False).launch()
        second.wait_listening()
        second.kill()
        for server in servers.servers:
            assert denied(server.client()) <= {"config|get"}
            server.call(*acl_rule("a cluster"), "-asking")
        subprocess.run([str(BINARY), "serve", "--listen", "127.0.0.1:0", "--store", url, "--redis-password-file", file], capture_output=True, check=False,
                       timeout=30)
        assert any("asking" in denied(server.client()) for server in servers.servers)
        for server in servers.servers:
            server.call(*acl_rule("a cluster"), "-cluster|slots")
        assert "does not let this user" in refused("--store", url, "--redis-password-file", file)


def test_the_acl_rule_of_the_documents_has_each_command_of_the_scripts():
    rule, more = set(acl_rule()), set(acl_more("tarry fsck"))
    with RedisServer() as server:
        classes = {name.decode() for which in ("hash", "list", "sortedset") for name in server.call("ACL", "CAT", which)}
    for path in SCRIPTS.rglob("*.lua"):
        commands = {name.lower() for name in re.findall(r"call\('(\w+)'", path.read_text(encoding="utf-8"))}
        granted = rule | more if path.name.startswith("check") else rule | {"+sismember"}  # in batches.lua, but only for check_jobs.lua
        lacking = {name for name in commands - classes if f"+{name}" not in granted}
        assert not lacking, (path.name, lacking)


def test_the_acl_rule_of_the_documents_is_narrow():
    with RedisServer() as server:
        server.call(*acl_rule("a cluster", "tarry fsck", "a database", "--wait-replicas", "reading the durability"))
        client = server.client(username="tarry", password="PASSWORD")
        server.client().set("foreign", "x")
        for words in (("GET", "foreign"), ("SET", "foreign", "y"), ("FLUSHALL",), ("CONFIG", "SET", "appendonly", "no"), ("KEYS", "*"), ("SHUTDOWN",),
                      ("DEBUG", "SLEEP", "0"), ("ACL", "LIST"), ("PUBLISH", "foreign", "x")):
            with pytest.raises(Exception, match="NOPERM|permissions"):
                client.execute_command(*words)


def test_a_user_without_the_right_to_read_is_refused_with_the_page_to_read():
    with RedisServer() as server:
        server.call("ACL", "SETUSER", "tarry", "on", ">x", "~*", "&*", "+@all", "-info")
        output = refused("--store", f"redis://tarry:x@127.0.0.1:{server.port}")
        assert "docs/redis.md" in output and "does not let this user" in output
