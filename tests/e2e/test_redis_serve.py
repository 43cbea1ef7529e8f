"""tarry serve on Redis: what it refuses to start on and how it says so, what it promises, and a Redis that goes and comes back."""

import re
import socket
import subprocess
import threading
import time

import pytest
from client import job_path, request_bytes
from redis_servers import Cluster, RedisServer, Sentinel
from server import BINARY, REPO, eventually, free_port, together


@pytest.fixture(scope="module")
def shared():
    """One Redis for what changes nothing of it but its data."""
    with RedisServer(aof="always") as server:
        yield server


@pytest.fixture(scope="module")
def cluster():
    with Cluster(masters=3, replicas=1, aof="everysec") as servers:
        yield servers


@pytest.fixture(scope="module")
def sentinel():
    with Sentinel(replicas=2, aof="always") as group:
        yield group


@pytest.fixture
def fresh(shared):
    shared.client().flushall()
    return shared


def refused(*flags, env=None, seconds=60):
    """Starts a server that must not come up; what it said."""
    done = subprocess.run([str(BINARY), "serve", "--listen", "127.0.0.1:0", *flags], capture_output=True, text=True, check=False, timeout=seconds,
                          stdin=subprocess.DEVNULL, env=env)
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2) and "event=listening" not in said, said
    return said


def info(server):
    return server.client().call("GET", "/v1/info").json()


def metric(server, name):
    page = server.client().call("GET", "/metrics").body.decode()
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    assert found, f"{name} is not in\n{page}"
    return float(found.group(1))


def ready(server):
    return server.client().call("GET", "/readyz").status


def works(server, topic="works"):
    """A whole life of a job; what it came with."""
    client = server.client()
    assert client.push(topic, "a", body=b"hello", delay="50ms")["result"] == "created"
    job = client.take(topic, wait="10s")[0]
    assert job["id"] == "a" and job["body"] == "hello"
    assert [answer["result"] for answer in client.ack(job["lease"])] == ["ok"]
    return job


def push_answer(server, topic, ident, timeout=60.0):
    """The reply as it is, also where it is a problem."""
    return server.client(timeout).call("PUT", job_path(topic, ident), b"x")


# ---- what it refuses ----

def test_refuses_an_unreachable_redis_and_names_it():
    port = free_port()
    said = refused("--store", f"redis://127.0.0.1:{port}")
    assert f"cannot reach redis at '127.0.0.1:{port}'" in said and "Connection refused" in said
    assert "cannot reach redis at '/nonexistent/redis.sock'" in refused("--store", "redis+unix:///nonexistent/redis.sock")


def test_gives_up_on_a_redis_that_does_not_answer():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        said = refused("--store", f"redis://127.0.0.1:{silent.getsockname()[1]}")
        assert "does not answer" in said and time.monotonic() - began < 20


def test_refuses_a_wrong_password_and_never_shows_it():
    with RedisServer() as server:
        server.config("requirepass", "sesame")
        url = f"127.0.0.1:{server.port}"
        said = refused("--store", f"redis://:opensesami@{url}")
        assert f"wrong password for redis at '{url}'" in said and "opensesami" not in said
        said = refused("--store", f"redis://nobody:opensesami@{url}")
        assert f"wrong user or password for redis at '{url}'" in said and "opensesami" not in said and "nobody" not in said
        said = refused("--store", f"redis://{url}")
        assert "wants a password" in said and "--redis-password-file" in said


def test_refuses_a_password_where_there_is_none(fresh):
    said = refused("--store", f"redis://:needless@127.0.0.1:{fresh.port}")
    assert "has no password" in said and "needless" not in said


def test_refuses_a_database_that_does_not_exist(fresh):
    assert "select the database" in refused("--store", fresh.url + "/99")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_refuses_to_have_jobs_evicted(policy):
    with RedisServer("--maxmemory-policy", policy) as server:
        said = refused("--store", server.url)
        assert policy in said and "CONFIG SET maxmemory-policy noeviction" in said
        server.config("maxmemory-policy", "noeviction")


def test_refuses_to_have_jobs_evicted_where_only_info_tells():
    with RedisServer("--maxmemory-policy", "allkeys-lru", "--rename-command", "CONFIG", "") as server:
        assert "allkeys-lru" in refused("--store", server.url)


@pytest.mark.parametrize("aof, required, change", [
    (None, "no", "CONFIG SET appendonly yes"), (None, "always", "CONFIG SET appendfsync always"),
    ("everysec", "always", "CONFIG SET appendfsync always"), ("no", "everysec", "CONFIG SET appendfsync everysec"),
])
def test_refuses_less_durability_than_required_and_says_what_to_change(aof, required, change, start_server):
    with RedisServer(aof=aof) as server:
        said = refused("--store", server.url, "--require-durability", required)
        assert f"promises less than --require-durability {required}" in said and f"it is '{aof or 'memory'}'" in said and change in said
        for name, value in (("appendonly", "yes"), ("appendfsync", required)):
            server.config(name, value)
        started = start_server("--store", server.url, "--require-durability", required)
        assert info(started)["durability_class"] == required
        assert started.terminate() == 0


def test_refuses_a_replica_and_names_its_master():
    with RedisServer() as master, RedisServer("--replicaof", "127.0.0.1", master.port) as replica:
        eventually(lambda: replica.info("replication")["master_link_status"] == "up")
        said = refused("--store", replica.url)
        assert f"'127.0.0.1:{replica.port}' is a replica" in said and f"'127.0.0.1:{master.port}'" in said


def test_refuses_what_is_not_what_the_url_says(fresh, cluster, sentinel):
    node = cluster.servers[0]
    said = refused("--store", f"redis-cluster://127.0.0.1:{fresh.port}")
    assert f"'127.0.0.1:{fresh.port}' is not a cluster" in said
    assert "redis-cluster://" in refused("--store", node.url)
    assert "database" in refused("--store", cluster.url + "?db=2")
    watcher = sentinel.sentinels[0]
    assert "redis-sentinel://" in refused("--store", watcher.url)
    assert "is no sentinel" in refused("--store", f"redis-sentinel://127.0.0.1:{fresh.port}/tarry")
    said = refused("--store", f"redis-sentinel://127.0.0.1:{watcher.port}/tarri")
    assert "knows no master 'tarri'" in said and "'tarry'" in said


def test_refuses_a_cluster_of_which_a_part_is_missing():
    with Cluster(masters=3) as servers:
        owner = servers.owner(16000)
        owner.call("CLUSTER", "DELSLOTS", 16000)
        said = refused("--store", f"redis-cluster://127.0.0.1:{owner.port}")
        assert "nobody serves slot 16000" in said and "redis-cli --cluster check" in said


def test_another_number_of_shards_is_refused_and_both_are_named(fresh, start_server):
    started = start_server("--store", fresh.url, "--shards", "4")
    assert info(started)["shards"] == 4
    started.terminate()
    said = refused("--store", fresh.url, "--shards", "8")
    assert "--shards 8" in said and "4 shards" in said
    assert info(start_server("--store", fresh.url))["shards"] == 4


def test_the_number_of_shards_is_known_from_the_shards_where_its_key_is_lost(fresh, start_server):
    start_server("--store", fresh.url, "--shards", "3").terminate()
    assert fresh.client().delete("{tarry}:shards") == 1
    assert "3 shards" in refused("--store", fresh.url, "--shards", "8")


def test_another_prefix_is_another_queue(fresh, start_server):
    one, two = start_server("--store", fresh.url), start_server("--store", fresh.url + "?prefix=other", "--shards", "2")
    assert info(one)["shards"] == 8 and info(two)["shards"] == 2
    one.client().push("there", "a")
    assert two.client().call("GET", "/v1/topics/there").status == 404


@pytest.mark.parametrize("flags, words", [
    (("--store", "floppy"), ["bad value 'floppy'", "redis-sentinel://"]),
    (("--store", "mysql://me:secret@host"), ["bad --store", "redis-cluster://"]),
    (("--store", "redis://host:notaport"), ["port"]),
    (("--store", "redis://host", "--sync", "always"), ["'sync' is for the embedded store"]),
    (("--store", "redis://host", "--wal-file", "16MiB"), ["'wal-file' is for the embedded store"]),
    (("--wait-replicas", "1"), ["'wait-replicas' is for jobs in Redis"]),
    (("--store", "redis://host", "--require-durability", "forever"), ["any|memory|no|everysec|always"]),
    (("--store", "redis://host", "--redis-password-file", "/nonexistent/password"), ["cannot read the password in '/nonexistent/password'"]),
])
def test_a_wrong_option_is_explained(flags, words):
    said = refused(*flags)
    assert all(word in said for word in words), said
    assert "secret" not in said


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


def test_refuses_a_redis_that_is_too_old():
    old = OldRedis()
    old.start()
    said = refused("--store", f"redis://127.0.0.1:{old.port}")
    old.listener.close()
    assert "6.2.14" in said and "7.0" in said


# ---- what it says of itself ----

@pytest.mark.parametrize("aof, durability, words", [
    ("always", "always", ["on the disk"]), ("everysec", "everysec", ["two seconds"]), ("no", "no", ["half minute"]), (None, "memory", ["every job"]),
])
def test_info_tells_the_durability_in_force(aof, durability, words, start_server):
    with RedisServer(aof=aof) as server:
        started = start_server("--store", server.url)
        said = info(started)
        assert said["store"] == "redis" and said["durability_class"] == durability and said["wait_replicas"] == 0 and said["shards"] == 8
        assert said["sync"] == (aof or "none") and all(word in said["durability"] for word in words), said
        assert ("redis may lose jobs" in started.log()) == (aof != "always")
        listening = next(line for line in started.log().splitlines() if "event=listening" in line)
        assert "store=redis" in listening and f"durability={durability}" in listening and "shards=8" in listening
        works(started)
        assert started.terminate() == 0


def test_a_configuration_that_cannot_be_read_is_unknown_and_said_so(start_server):
    with RedisServer("--rename-command", "CONFIG", "", aof="always") as server:
        started = start_server("--store", server.url)
        assert info(started)["durability_class"] == "unknown" and "unknown" in info(started)["durability"]
        assert "redis may lose jobs" in started.log()
        started.terminate()
        said = refused("--store", server.url, "--require-durability", "everysec")
        assert "it is 'unknown'" in said
    with RedisServer("--rename-command", "CONFIG", "") as server:
        assert info(start_server("--store", server.url))["durability_class"] == "memory"


def test_metrics_count_what_goes_to_redis(fresh, start_server):
    started = start_server("--store", fresh.url)
    before = metric(started, "tarry_redis_jobs_total")
    for number in range(20):
        started.client().push("counted", f"job-{number}", delay="1h")
    assert metric(started, "tarry_redis_jobs_total") >= before + 20
    assert metric(started, "tarry_redis_calls_total") > 0
    assert metric(started, "tarry_redis_shards") == metric(started, "tarry_redis_shards_up") == 8
    for name in ("resent", "reconnects", "redirects", "failovers", "clock_disagreements", "news_lost"):
        assert metric(started, f"tarry_redis_{name}_total") >= 0
    assert 'tarry_jobs{topic="counted",state="delayed"} 20' in started.client().call("GET", "/metrics").body.decode()


def test_jobs_outlive_the_server_and_a_second_one_sees_them(fresh, start_server):
    one, two = start_server("--store", fresh.url), start_server("--store", fresh.url)
    one.client().push("shared", "a", body=b"x", delay="300ms")
    one.kill()
    assert two.client().take("shared", wait="10s")[0]["id"] == "a"


def test_an_idle_server_on_redis_does_not_spin(fresh, start_server):
    started = start_server("--store", fresh.url)
    time.sleep(1.0)
    before = started.switches()
    time.sleep(3.0)
    assert started.switches() - before < 150


# ---- who it is let in as ----

def test_the_password_may_stand_in_a_file(tmp_path, start_server):
    password = "p@ss:w/ord %41?"
    file = tmp_path / "password"
    file.write_text(password + "\n", encoding="ascii")
    with RedisServer(aof="always") as server:
        server.config("requirepass", password)
        started = start_server("--store", server.url, "--redis-password-file", str(file))
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


# ---- a Redis that goes and comes back ----

def test_a_redis_out_of_reach_is_503_after_the_patience_and_heals_by_itself(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--redis-patience", "1s")
        works(started)
        started.client().push("kept", "a", body=b"x", delay="1s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        answer = push_answer(started, "kept", "b")
        took = time.monotonic() - began
        assert answer.status == 503 and answer.code == "unavailable" and 0.5 < took < 5, (answer.status, answer.body, took)
        assert metric(started, "tarry_redis_shards_up") == 0 and metric(started, "tarry_store_healthy") == 0
        assert started.client().call("GET", "/healthz").status == 200
        assert info(started)["healthy"] is False
        server.start()
        eventually(lambda: ready(started) == 200, 20)
        assert started.client().take("kept", wait="10s")[0]["id"] == "a"
        works(started)
        assert metric(started, "tarry_redis_reconnects_total") >= 1 and info(started)["healthy"] is True
        assert started.terminate() == 0


def test_a_call_that_waits_for_redis_is_answered_once_it_is_back(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--redis-patience", "30s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        threading.Timer(1.0, server.start).start()
        assert push_answer(started, "patient", "a").status == 201


def test_takes_that_travel_together_hold_up_redis_for_no_more_than_two_thousand_jobs(start_server):
    with RedisServer("--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000") as server:
        started = start_server("--store", server.url, "--shards", "1")
        client = started.client()
        client.push_batch([{"topic": "many", "body": "x"} for _ in range(900)])
        server.call("CLIENT", "PAUSE", 500, "ALL")
        clients = [started.client() for _ in range(20)]
        taken = together(*[lambda one=one: len(one.take("many", max=1000)) for one in clients])
        assert sum(taken) == 900
        calls = [words.split(b" ") for words in (entry["command"] for entry in server.client().slowlog_get(10000)) if words.startswith(b"FCALL tarry_")]
        wanted = [int(words[-3]) for words in calls if words[1].endswith(b"_take") and words[-4] == b"many"]
        assert sum(wanted) == 20 * 1000 and max(wanted) < 2000, wanted


def test_a_take_does_not_wait_for_each_shard_of_a_redis_that_is_gone(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--redis-patience", "5s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        answer = started.client().call("POST", "/v1/topics/gone/take")
        assert (answer.status, answer.code) == (503, "unavailable") and time.monotonic() - began < 4


def test_a_server_whose_redis_is_gone_still_stops_in_good_order(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--redis-patience", "2s")
        server.kill()
        eventually(lambda: ready(started) == 503)
        began = time.monotonic()
        assert started.terminate() == 0 and time.monotonic() - began < 10


def test_a_stop_does_not_take_as_long_as_the_patience_with_a_redis_that_is_gone(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--redis-patience", "60s")
        works(started)
        server.kill()
        pushing = started.connection()
        pushing.send(request_bytes("PUT", job_path("patient", "a"), b"x"))
        assert ready(started) in (200, 503)  # so it has read the push, too
        began = time.monotonic()
        assert started.terminate() == 0 and time.monotonic() - began < 15
        pushing.close()


def test_a_full_redis_refuses_pushes_and_lets_acks_and_cancels_through(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url)
        client = started.client()
        client.push("full", "held", body=b"x")
        lease = client.take("full", wait="5s")[0]["lease"]
        for number in range(20):
            client.push("full", f"waits-{number}", body=b"x" * 5000, delay="1h")
        server.config("maxmemory", "1mb")
        answer = push_answer(started, "full", "one-more")
        assert (answer.status, answer.code) == (507, "no_space")
        assert ready(started) == 503
        assert [one["result"] for one in client.ack(lease)] == ["ok"] and client.cancel("full", "waits-3")["result"] == "cancelled"
        server.config("maxmemory", "0")
        eventually(lambda: ready(started) == 200)  # though nobody pushes, since it was not ready
        assert push_answer(started, "full", "one-more").status == 201


# ---- sentinel, cluster, replicas ----

def test_an_old_master_that_lives_is_left_when_sentinel_says_so(sentinel, start_server):
    """It says it is master for some 10 s more, and what it takes meanwhile is thrown away."""
    started = start_server("--store", sentinel.url)
    works(started, "before")
    old, _ = sentinel.fail_over()
    eventually(lambda: metric(started, "tarry_redis_failovers_total") >= metric(started, "tarry_redis_shards"), 4)
    still_master = old.client().role()[0] == b"master"
    for number in range(20):
        assert push_answer(started, "left", f"job-{number}").status == 201
    sentinel.wait_one_master()
    print("the old one said all the time that it was master:", still_master)
    assert sorted(job["id"] for job in started.client().take("left", max=100)) == sorted(f"job-{number}" for number in range(20))


def test_sentinel_leads_to_the_master_and_to_the_next_one(sentinel, start_server):
    started = start_server("--store", sentinel.url, "--wait-replicas", "1")
    assert info(started)["wait_replicas"] == 1 and "1 replica" in info(started)["durability"]
    works(started)
    started.client().push("later", "a", body=b"x", delay="2s")
    sentinel.fail_over()
    assert started.client(timeout=60).take("later", wait="30s")[0]["id"] == "a"
    eventually(lambda: metric(started, "tarry_redis_failovers_total") >= 1, 20)
    works(started, "after")
    assert started.terminate() == 0


def test_a_sentinel_that_is_gone_does_not_stop_a_start(sentinel, start_server):
    url = f"redis-sentinel://127.0.0.1:{free_port()}," + sentinel.url.removeprefix("redis-sentinel://")
    works(start_server("--store", url))


def test_too_few_replicas_are_told_and_changes_are_refused(start_server):
    with RedisServer(aof="always") as server:
        started = start_server("--store", server.url, "--wait-replicas", "1", "--redis-patience", "1s")
        assert "too few replicas" in started.log()
        assert push_answer(started, "alone", "a").status == 503
        client = started.client()
        assert client.call("POST", "/v1/topics/alone/take").status == 503  # it took a job, and nobody else knows
        assert client.take("alone", wait="3s") == []  # it took none: nothing can be lost


def test_a_cluster_carries_the_queue_and_the_weakest_master_counts(cluster, start_server):
    started = start_server("--store", cluster.url)
    assert info(started)["durability_class"] == "everysec"
    works(started)
    for number in range(40):
        assert push_answer(started, "spread", f"job-{number}").status == 201
    used = sum(1 for server in cluster.master_list() if server.client().dbsize() > 0)
    assert used == 3
    assert sorted(job["id"] for job in started.client().take("spread", max=100)) == sorted(f"job-{number}" for number in range(40))
    started.terminate()
    weak = cluster.master_list()[1]
    weak.config("appendonly", "no")
    try:
        assert info(start_server("--store", cluster.url))["durability_class"] == "memory"
        said = refused("--store", cluster.url, "--require-durability", "everysec")
        assert f"'127.0.0.1:{weak.port}'" in said
    finally:
        weak.config("appendonly", "yes")


def test_starts_while_the_slot_that_holds_the_number_of_shards_moves(cluster, start_server):
    start_server("--store", cluster.url).terminate()
    slot = cluster.slot_of("{tarry}:shards")
    source, to = cluster.begin_move(slot)
    try:
        works(start_server("--store", cluster.url), "moving")
        assert cluster.move_keys(slot, source, to) >= 1
        works(start_server("--store", cluster.url), "moved")
        assert "8 shards" in refused("--store", cluster.url, "--shards", "5")
    finally:
        cluster.move_keys(slot, source, to)
        cluster.end_move(slot, to)


def test_a_node_of_the_cluster_that_is_gone_does_not_stop_a_start(cluster, start_server):
    url = f"redis-cluster://127.0.0.1:{free_port()}," + cluster.url.removeprefix("redis-cluster://")
    works(start_server("--store", url), "one-gone")


def test_the_shards_of_other_masters_go_on_where_one_is_lost(start_server):
    with Cluster("--cluster-require-full-coverage", "no", masters=3, aof="always") as servers:
        started = start_server("--store", servers.url, "--redis-patience", "2s")
        client = started.client()
        servers.servers[1].kill()
        eventually(lambda: 0 < metric(started, "tarry_redis_shards_up") < 8, 20)
        time.sleep(1.5)  # longer than a connection takes to be made anew
        assert ready(started) == 200 and info(started)["healthy"] is True
        began = time.monotonic()
        assert client.take("others", wait="3s") == [] and time.monotonic() - began > 2.5, "it waits for the shards there are"
        answers = {ident: push_answer(started, "others", ident).status for ident in map(str, range(12))}
        made = [ident for ident, status in answers.items() if status == 201]
        assert 0 < len(made) < 12 and set(answers.values()) == {201, 503}
        assert sorted(job["id"] for job in client.take("others", max=12)) == sorted(made)
