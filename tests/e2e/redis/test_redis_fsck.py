"""tarry fsck --store: a sound queue, one that is at work, one that was spoiled in each way, and one whose shards were lost with their master."""

import json
import os
import subprocess
import threading
import time

import pytest
import state
from redis_servers import Cluster, RedisServer
from redis_serving import acl_rule
from server import BINARY, eventually, free_port, meanwhile

CLEAN, FOUND, USAGE, UNREACHABLE = 0, 1, 2, 3
SHARDS = 8
LATER = "1h"


@pytest.fixture(scope="module")
def shared():
    with RedisServer() as server:
        yield server


@pytest.fixture
def queue(shared, start_server):
    """(redis, server): eight shards with jobs in all states, forty of them to be delivered: 20 of `now`, 20 of `later`."""
    shared.client().flushall()
    server = start_server("--store", shared.url, "--shards", str(SHARDS))
    fill(server)
    return shared, server


def fill(server):
    client = server.client()
    client.put_topic("now", lease_for="10m")
    client.push_batch([{"topic": "leased", "id": f"leased{n}", "body": "x"} for n in range(8)])
    taken = 0
    while taken < 8:
        taken += len(client.take("leased", max=8, wait="5s"))
    client.push_batch([{"topic": "now", "id": f"now{n}", "body": f"body {n}", "priority": n % 3} for n in range(20)])
    client.push_batch([{"topic": "later", "id": f"later{n}", "body": f"body {n}", "delay": LATER} for n in range(20)])
    client.push_batch([{"topic": "dead", "id": f"dead{n}", "body": "x", "state": "dead", "attempt": 3, "error": "no"} for n in range(8)])


def push_many(server, topic, thousands):
    for at in range(thousands):
        server.client().push_batch([{"topic": topic, "id": f"more{at}-{n}", "delay": LATER} for n in range(1000)])


def fsck(url, *flags, env=None):
    """(exit code, what is on standard output, read; standard error)"""
    done = subprocess.run([str(BINARY), "fsck", "--store", url, "--json", *flags], capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    assert "Sanitizer" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def text(url, *flags):
    done = subprocess.run([str(BINARY), "fsck", "--store", url, *flags], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout


def must_be_clean(url):
    code, report, _ = fsck(url)
    assert (code, report["clean"], report["findings"]) == (CLEAN, True, []), report
    return report


def deliver(server, topics, count):
    """Takes and acks so many jobs of the topics; their ids."""
    client, found = server.client(), []
    limit = time.monotonic() + 15
    while len(found) < count and time.monotonic() < limit:
        for topic in topics:
            jobs = client.take(topic, max=100, wait="200ms")
            if jobs:
                assert all(answer["result"] == "ok" for answer in client.ack(*[job["lease"] for job in jobs]))
            found += [job["id"] for job in jobs]
    return found


def dump(client):
    return {key: client.dump(key) for key in client.scan_iter(count=1000) if not key.endswith(b":tickets")}


def tags(client):
    return sorted(key.removesuffix(b":core").decode() for key in client.scan_iter("{tarry:*:core"))


# ---- sound ----

def test_a_sound_queue_is_clean_and_nothing_is_changed(queue):
    redis, server = queue
    server.terminate()
    before = dump(redis.client())
    report = must_be_clean(redis.url)
    assert [shard["shard"] for shard in report["shards"]] == list(range(SHARDS))
    assert sum(shard["jobs"] for shard in report["shards"]) == 56
    code, out = text(redis.url, "--repair")
    assert code == CLEAN and out.endswith("clean\n") and out.count("\nshard ") == SHARDS - 1
    assert dump(redis.client()) == before


def test_nothing_is_found_while_servers_are_at_work_also_by_a_repair(queue, start_server):
    redis, server = queue
    over = threading.Event()
    done = []

    def work(number):
        client = (server if number % 2 else other).client()
        for round_ in range(10**9):
            if over.wait(0.01):
                return
            client.push_batch([{"topic": "busy", "id": f"{number}-{round_}-{n}", "delay": f"{n * 3}ms", "priority": n % 4} for n in range(50)])
            jobs = client.take("busy", max=100)  # more than are pushed, so that the look has an end
            if jobs:
                client.nack(jobs[0]["lease"], delay="20ms")
                done.extend(client.ack(*[job["lease"] for job in jobs[1:]]) if jobs[1:] else [])

    other = start_server("--store", redis.url)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for flags in (("--repair",), ()):
            code, report, _ = fsck(redis.url, *flags)
            assert (code, report["finding_count"]) == (CLEAN, 0), report["findings"]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(done) > 100
    must_be_clean(redis.url)


def test_cut_connections_and_a_stopped_redis_are_waited_out(queue):
    redis, server = queue
    push_many(server, "later", 3)
    server.terminate()
    over, cuts = threading.Event(), []

    def disturb():
        """Waits until it has begun: fsck does not wait for a Redis that was never reached."""
        eventually(lambda: over.is_set() or any(client["cmd"] == "evalsha" for client in redis.client().client_list()), 30, 0.001)
        redis.pause(300)
        while not over.wait(0.05):
            cuts.append(redis.cut_connections(("normal",)))

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        assert must_be_clean(redis.url)["shards"][0]["jobs"] > 300
    finally:
        over.set()
        thread.join()
    assert sum(cuts) >= 3


# ---- spoiled ----

def spoil(client, tag, loses_fresh):
    """Makes each kind of damage directly in Redis."""
    client.zadd(f"{tag}:topics", {"later": "+inf"})  # it would sleep through every due
    state.topic_change(client, tag, "now", delayed=state.topic_of(client, tag, "now").delayed + 7)
    client.delete(f"{tag}:priorities:now", f"{tag}:held:leased", f"{tag}:dead:dead")
    if loses_fresh:
        client.delete(f"{tag}:fresh:later", f"{tag}:index:later")
    client.zadd(f"{tag}:leases", {"123456789": 1})
    client.zadd(f"{tag}:held:now", {b"\0\0\0\0\0\1nobody": 5})
    client.hset(f"{tag}:try:now", "nobody", b"\0" * 37)


def test_every_damage_is_named_and_mended_and_all_jobs_are_delivered(queue):
    redis, server = queue
    server.terminate()
    client = redis.client()
    for at, tag in enumerate(tags(client)):
        spoil(client, tag, at % 2 == 0)
    before = dump(client)
    code, report, _ = fsck(redis.url)
    assert code == FOUND and not report["clean"] and dump(client) == before
    assert all(finding["state"] == "to_mend" for finding in report["findings"])
    output = {(finding.get("topic"), finding.get("id"), finding["text"]) for finding in report["findings"]}
    hungless = {ident for topic, ident, what in output if topic == "later" and "in no set" in what}
    assert hungless and hungless < {f"later{n}" for n in range(20)}
    for words in ("has ready jobs but is not in the list of priorities", "leased, but not in the set of held jobs", "dead, but not in the set of dead jobs", "lease '123456789' belongs to no job", "held has an entry without a job",
                  "has a try without a job", "counts 7 delayed", "next event is at"):
        assert any(words in what for _, _, what in output), words
    code, out = text(redis.url)
    assert code == FOUND and "shard 03, topic 'now'" in out and "(to repair: " in out and f"{report['finding_count']} findings\n" in out

    code, report, _ = fsck(redis.url, "--repair")
    assert code == CLEAN and report["finding_count"] == report["mended"] > 50
    must_be_clean(redis.url)
    server.start()
    ids = {f"later{n}" for n in range(20)}
    for ident in ids:
        server.client().run("later", ident)
    assert set(deliver(server, ["later", "now"], 40)) == ids | {f"now{n}" for n in range(20)}
    server.client().topic_verb("dead", "redrive")
    assert len(deliver(server, ["dead"], 8)) == 8
    must_be_clean(redis.url)


def test_running_servers_deliver_repaired_jobs(queue):
    """The servers are notified; no restart is needed."""
    redis, server = queue
    client = redis.client()
    deliver(server, ["now"], 20)
    server.client().push("now", "soon", body=b"soon", delay="2s")
    [tag] = [tag for tag in tags(client) if client.zcard(f"{tag}:fresh:now")]
    client.delete(f"{tag}:fresh:now")
    client.zadd(f"{tag}:topics", {"now": "+inf"})
    assert fsck(redis.url, "--repair")[1]["mended"] >= 1
    assert [job["id"] for job in server.client().take("now", wait="10s")] == ["soon"]


def test_damage_that_needs_a_decision_is_reported_and_kept(queue):
    redis, server = queue
    server.terminate()
    client = redis.client()
    client.set("{tarry:77}:core", "x")
    client.set(tags(client)[0] + ":what:t", "x")
    before = dump(client)
    for flags in ((), ("--repair",)):
        code, report, _ = fsck(redis.url, *flags)
        assert code == FOUND and [finding["state"] for finding in report["findings"]] == ["manual", "manual"]
        assert {True} == {any(words in finding["text"] for finding in report["findings"]) for words in ("'{tarry:77}'", ":what:t'")}
    assert dump(client) == before


def test_a_key_of_another_type_keeps_nothing_else_from_being_mended(queue):
    redis, server = queue
    server.terminate()
    client = redis.client()
    tag = tags(client)[0]
    client.set(f"{tag}:finished:now", "x")
    spoil(client, tag, False)
    code, report, _ = fsck(redis.url, "--repair")
    left = [finding for finding in report["findings"] if finding["state"] == "manual"]
    assert code == FOUND and "error" not in report and report["mended"] == report["finding_count"] - len(left) >= 4 and len(left) >= 2
    assert f"'{tag}:finished:now' is a string instead of a zset" in left[0]["text"] and all("another type" in finding["text"] for finding in left[1:])
    client.delete(f"{tag}:finished:now")
    assert fsck(redis.url, "--repair")[0] == CLEAN
    must_be_clean(redis.url)


# ---- how many shards there are ----

@pytest.mark.parametrize("damage, value", [(lambda client: client.delete("{tarry}:shards"), "is missing, and the cores have 8"),
                                          (lambda client: client.set("{tarry}:shards", 5), "has 5, and the cores have 8"),
                                          (lambda client: client.set("{tarry}:shards", "many"), "is not a number of shards")])
def test_the_number_of_shards_is_read_from_the_cores(queue, damage, value):
    redis, server = queue
    server.terminate()
    client = redis.client()
    damage(client)
    client.delete(tags(client)[0] + ":core")
    code, report, _ = fsck(redis.url)
    assert code == FOUND and value in report["findings"][0]["text"] and "shard" not in report["findings"][0]
    assert "the shard has no core" in report["findings"][1]["text"]
    assert fsck(redis.url, "--repair")[0] == CLEAN and client.get("{tarry}:shards") == b"8"
    must_be_clean(redis.url)
    server.start()
    assert len(deliver(server, ["now"], 20)) == 20


# ---- what cannot be checked ----

def test_command_line_errors_are_named(shared, tmp_path):
    shared.client().flushall()
    port = free_port()
    for store, code, words in ((f"redis://127.0.0.1:{port}", UNREACHABLE, f"cannot reach redis at '127.0.0.1:{port}'"), ("redi://x", USAGE, "did you mean 'redis://'"),
                               (shared.url, FOUND, "no queue found"), (shared.url.replace("redis://", "redis-cluster://"), FOUND, "is not a cluster"),
                               (shared.url.replace("redis://", "redis://:geheim@"), FOUND, "has no password")):
        found, report, output = fsck(store)
        assert found == code and words in output and "geheim" not in output, (store, output)
        assert report["error"] == json.loads(output)["error"] and not report["clean"]
    for arguments, words in (([], "give a data directory, or --store"), ([str(tmp_path), "--store", shared.url], "not both")):
        done = subprocess.run([str(BINARY), "fsck", *arguments], capture_output=True, text=True, check=False, timeout=20)
        assert done.returncode == USAGE and words in done.stderr
    assert shared.client().dbsize() == 0


def test_a_password_comes_from_a_file(shared, tmp_path):
    client = shared.client()
    client.flushall()
    client.set("{tarry}:shards", 1)
    client.execute_command("ACL", "SETUSER", "checker", "on", ">sesame", "~*", "+@all")
    (tmp_path / "password").write_text("sesame\n", encoding="ascii")
    (tmp_path / "password").chmod(0o600)
    url = shared.url.replace("redis://", "redis://checker:@")
    assert fsck(url, "--repair", "--redis-password-file", str(tmp_path / "password"))[1]["mended"] == 1
    code, _, output = fsck(shared.url.replace("redis://", "redis://checker:wrong@"))
    assert code == FOUND and "wrong user or password" in output


def test_the_acl_rule_of_the_documents_for_it_is_enough(queue):
    redis, server = queue
    server.terminate()
    client = redis.client()
    client.execute_command(*acl_rule("tarry fsck"))
    client.execute_command("ACL", "LOG", "RESET")
    for at, tag in enumerate(tags(client)):
        spoil(client, tag, at % 2 == 0)
    client.delete("{tarry}:shards")
    url = redis.url.replace("redis://", "redis://tarry:PASSWORD@")
    assert fsck(url, "--repair")[0] == CLEAN and client.acl_log() == []
    must_be_clean(url)


# ---- a cluster ----

@pytest.fixture(scope="module")
def cluster():
    with Cluster(masters=3, replicas=1) as servers:
        yield servers


def masters(cluster):
    return [server for server in cluster.servers if server.client().role()[0] == b"master"]


def ids_in(node, topic):
    return [ident.decode() for tag in tags(node.client()) for ident in node.client().hkeys(f"{tag}:job:{topic}")]


def test_a_lost_master_leaves_shards_that_are_found_and_mended_and_the_others_deliver(cluster, start_server):
    for node in masters(cluster):
        node.client().flushall()
    server = start_server("--store", cluster.url, "--shards", str(SHARDS))
    fill(server)
    lost = next(node for node in masters(cluster) if node.client().exists("{tarry}:shards"))
    others = [node for node in masters(cluster) if node is not lost]
    shards, left = len(tags(lost.client())), {ident for node in others for ident in ids_in(node, "now")}
    assert shards >= 2 and left
    must_be_clean(cluster.url)
    server.terminate()
    lost.client().flushall()

    code, report, _ = fsck(cluster.url)
    texts = [finding["text"] for finding in report["findings"]]
    assert code == FOUND and sum("the shard has no core" in what for what in texts) == shards
    assert sum("the topic is missing here" in what for what in texts) == shards
    assert texts[0] == "'{tarry}:shards' is missing, and the cores have 8"
    code, report, _ = fsck(cluster.url, "--repair")
    assert code == CLEAN and report["mended"] == report["finding_count"] == len(texts)
    must_be_clean(cluster.url)
    kept = {state.topic_of(node.client(), tag, "now").settings for node in masters(cluster) for tag in tags(node.client())}
    assert len(kept) == 1 and kept != {b""}, "the settings are the same in all shards again"

    server.start()
    assert set(deliver(server, ["now"], len(left))) == left
    server.client().push_batch([{"topic": "now", "id": f"new{n}"} for n in range(20)])
    assert set(deliver(server, ["now"], 20)) == {f"new{n}" for n in range(20)}
    must_be_clean(cluster.url)


def test_failovers_in_the_middle_are_waited_out(cluster, start_server):
    server = start_server("--store", cluster.url)
    push_many(server, "many", 4)
    server.terminate()
    found = []

    def check(over):
        while not over.is_set():
            found.append(fsck(cluster.url))

    with meanwhile(check):
        eventually(lambda: found, 30)
        old, new = cluster.fail_over(0)
        cluster.wait_whole()
        assert cluster.fail_over(0) == (new, old)
    assert len(found) >= 2
    for code, report, output in found:
        assert code == CLEAN and sum(shard["jobs"] for shard in report["shards"]) >= 4000, (report, output)


def test_delivery_settings_of_a_topic_are_equal_in_all_shards(queue):
    shared, _ = queue
    client, extension = shared.client(), '{"dead_letter":{"keep":{"count":10}}}'
    at = tags(client)
    assert len(at) == SHARDS
    for number, tag in enumerate(at):
        if number == 3:
            state.extend(client, tag, "now", '{"of":"before"}')
        elif number != 5:
            state.extend(client, tag, "now", extension)
    code, found, _ = fsck(shared.url)
    assert code == FOUND and [finding["text"] for finding in found["findings"]] == ["the settings differ from those of the other shards"] * 2, found
    fsck(shared.url, "--repair")
    assert {client.get(f"{tag}:extension:now") for tag in at} == {extension.encode()}
    assert [state.core_of(client, tag).changes for tag in (at[3], at[5])] == [2] * 2, "servers that follow the settings notice it"
    assert fsck(shared.url)[0] == CLEAN
