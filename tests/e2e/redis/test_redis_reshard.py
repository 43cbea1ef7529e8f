"""tarry reshard: another number of shards, while servers are at work."""

import json
import subprocess
import threading
import time

import pytest
from client import Refused
from redis_servers import Cluster, RedisServer, Sentinel
from redis_serving import info, metric, works
from server import BINARY, eventually, slack


@pytest.fixture(scope="module")
def redis_server():
    with RedisServer(aof="everysec") as server:
        yield server


def url_of(server, prefix):
    return f"{server.url}?prefix={prefix}"


def command(store, shards, *flags):
    return [str(BINARY), "reshard", "--store", store, "--shards", str(shards), *flags]


def reshard(store, shards, *flags, code=0, seconds=60):
    done = subprocess.run(command(store, shards, *flags), capture_output=True, text=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def jobs_of(server, topic):
    """{id: job}, by pages."""
    client, found, cursor = server.client(), {}, None
    while True:
        page = client.call("GET", f"/v1/topics/{topic}/jobs?limit=100" + (f"&cursor={cursor}" if cursor else "")).json()
        for job in page["jobs"]:
            assert job["id"] not in found, f"{job['id']} is shown twice"
            found[job["id"]] = job
        cursor = page.get("cursor") or page.get("next_cursor")
        if not cursor:
            return found


def test_rejects_invalid_numbers(redis_server, start_server):
    store = url_of(redis_server, "refused")
    assert "no queue is stored under 'refused'" in reshard(store, 2, code=1)
    start_server("--store", store, "--shards", "2")
    assert "already has 2 shards" in reshard(store, 2, code=1)
    for number in ("0", "65", "-1", "two", ""):
        assert "give a number from 1 to 64" in reshard(store, number, code=2)
    assert "give --store" in subprocess.run([str(BINARY), "reshard"], capture_output=True, text=True, check=False).stderr
    assert "cannot" in reshard("redis://127.0.0.1:1", 2, code=3).lower()


def test_a_topic_of_one_shard_stays_on_one_shard(redis_server, start_server):
    store = url_of(redis_server, "one")
    client = start_server("--store", store, "--shards", "1").client()
    client.good("PUT", "/v1/topics/ledger?one_shard=true")
    assert client.topic("ledger")["settings"]["one_shard"] is True
    assert "'ledger' has one_shard=true, so it needs one shard, or a name that ends in .one or .fifo; nothing was changed" in reshard(store, 3, code=1)


def test_a_change_waits_for_open_batches(redis_server, start_server):
    store = url_of(redis_server, "batches")
    client = start_server("--store", store, "--shards", "3").client()
    for name in ("report", "summary"):
        client.push("jobs", name, waits="true")
        for number in range(6):
            client.push("jobs", f"{name}-{number}", batch_topic="jobs", batch_id=name, delay="1h")
    refusal = reshard(store, 2, code=1)
    assert "2 jobs have an open batch, such as '" in refusal and "' of the topic 'jobs'" in refusal and "nothing was changed" in refusal
    assert info(start_server("--store", store))["shards"] == 3
    assert client.call("DELETE", "/v1/topics/jobs/jobs/summary?members=true").status == 200
    assert "1 job has an open batch, such as 'report' of the topic 'jobs'" in reshard(store, 2, code=1)
    for number in range(6):
        client.call("DELETE", f"/v1/topics/jobs/jobs/report-{number}")
    assert client.call("POST", "/v1/topics/jobs/jobs/report/close").status == 200
    [report] = client.take("jobs", wait="10s")
    client.ack(report["lease"])
    reshard(store, 2)
    assert info(start_server("--store", store))["shards"] == 2


def test_a_rejection_names_the_remedy_of_a_dead_job(redis_server, start_server):
    store = url_of(redis_server, "dead")
    client = start_server("--store", store, "--shards", "3").client()
    client.push("jobs", "report", waits="true", close_within="1s")
    eventually(lambda: client.topic("jobs")["counts"]["dead"] == 1)
    refusal = reshard(store, 2, code=1)
    assert "1 job has an open batch, such as 'report' of the topic 'jobs'" in refusal and "if one is dead, redrive, cancel or purge it" in refusal
    assert client.call("POST", "/v1/topics/jobs/purge?state=dead").status == 200
    reshard(store, 2)
    assert info(start_server("--store", store))["shards"] == 2


def test_several_shards_lack_settings_of_one_shard(redis_server, start_server):
    server = start_server("--store", url_of(redis_server, "several"), "--shards", "3")
    client = server.client()
    for setting in ("one_shard=true", "group_order=strict"):
        reply = client.call("PUT", f"/v1/topics/whole?{setting}")
        assert (reply.status, reply.json()["code"]) == (501, "unsupported") and f"'{setting.split('=')[0]}'" in reply.json()["detail"] and "ends in .one or .fifo" in reply.json()["detail"]
    line = json.dumps({"topic": "moved", "settings": {"max_attempts": 5, "limit": 7, "one_shard": True}, "paused": False}).encode()
    whole = server.cli("import", "--all-settings", input=line)
    assert whole.returncode == 1 and b"line 1 refused" in whole.stderr and client.call("GET", "/v1/topics/moved").status == 404
    ended = server.cli("import", input=line)
    assert ended.returncode == 0 and b"line 1: 'one_shard' of the topic 'moved' is left out" in ended.stderr, ended.stderr
    shown = client.topic("moved")["settings"]
    assert (shown["max_attempts"], shown["limit"], shown.get("one_shard")) == (5, 7, None)


def drained(client, topic):
    """Takes and acks one job after the other. Returns the ids in the order of their delivery."""
    order = []
    while taken := client.take(topic, max=1):
        order.append(taken[0]["id"])
        client.ack(taken[0]["lease"])
    return order


def test_the_name_of_a_topic_keeps_it_in_one_of_several_shards(redis_server, start_server):
    store = url_of(redis_server, "named")
    clients = [start_server("--store", store, "--shards", "3").client() for _ in range(2)]
    one, other = clients
    one.good("PUT", "/v1/topics/calls.one?one_shard=true&limit=2&group_limit=1&max_jobs=30")
    for n in range(30):
        clients[n % 2].push("calls.one", f"job-{n}", group=f"g{n % 3}")
    assert refused_push(other, "calls.one", "job-30") == "topic_full"  # not each shard's share
    taken = [job for client in clients for job in client.take("calls.one", max=10)]
    assert len(taken) == 2 and len({job["group"] for job in taken}) == 2  # a shard's share would be 1 of each limit
    assert other.topic("calls.one")["counts"]["leased"] == 2 and one.call("PUT", "/v1/topics/calls.one?limit=1").status == 200
    one.ack(taken[0]["lease"])
    assert other.take("calls.one", max=10) == []
    other.ack(taken[1]["lease"])
    assert len(other.take("calls.one", max=10)) == 1
    moved = one.call("PUT", "/v1/topics/calls.one?group_order=strict")
    assert (moved.status, moved.json()["code"]) == (409, "not_empty") and other.topic("calls.one")["settings"]["limit"] == 1


def refused_push(client, topic, name):
    return client.call("PUT", f"/v1/topics/{topic}/jobs/{name}", b"x").json()["code"]


def test_a_strict_topic_keeps_its_order_over_several_shards_and_a_change_of_their_number(redis_server, start_server):
    store = url_of(redis_server, "ordered")
    clients = [start_server("--store", store, "--shards", "3").client() for _ in range(2)]
    clients[0].good("PUT", "/v1/topics/ledger.one?group_order=strict")
    wanted = [f"job-{n}" for n in range(40)]
    for n, name in enumerate(wanted):
        clients[n % 2].push("ledger.one", name, group="a")
    [first] = clients[1].take("ledger.one", max=9)
    assert first["id"] == "job-0" and clients[0].take("ledger.one", max=9) == []
    clients[0].ack(first["lease"])
    assert "pause it until this is done" in reshard(store, 2, code=1)
    clients[1].call("POST", "/v1/topics/ledger.one/pause")
    clients[0].push("other", "leased")
    [other] = clients[0].take("other", lease_for="60s")  # the change waits for its answer
    with subprocess.Popen(command(store, 2), stdout=subprocess.DEVNULL) as change:
        eventually(lambda: clients[0].call("GET", "/v1/info").json()["shards"] == 5, 20)
        clients[0].good("PUT", "/v1/topics/ledger.one?group_order=strict")
        reordered = clients[0].call("PUT", "/v1/topics/ledger.one?group_order=free")
        assert (reordered.status, reordered.json()["code"]) == (409, "not_empty")
        clients[0].ack(other["lease"])
        assert change.wait(60) == 0
    assert clients[0].topic("ledger.one")["settings"]["group_order"] == "strict"
    clients[1].call("POST", "/v1/topics/ledger.one/resume")
    assert drained(clients[0], "ledger.one") == wanted[1:]


def test_a_strict_topic_stays_on_one_shard(redis_server, start_server):
    store = url_of(redis_server, "strict")
    client = start_server("--store", store, "--shards", "1").client()
    client.call("PUT", "/v1/topics/ledger", json.dumps({"group_order": "strict"}).encode())
    client.push("ledger", "1", group="a")
    assert "'ledger' has group_order=strict, so it needs one shard, or a name that ends in .one or .fifo; nothing was changed" in reshard(store, 3, code=1)
    client.push("ledger", "2", group="a")
    [taken] = client.take("ledger", max=2)
    assert taken["id"] == "1"


@pytest.mark.parametrize(("before", "after"), [(8, 1), (1, 3), (2, 5)])
def test_moves_everything_unchanged(redis_server, start_server, before, after):
    store = url_of(redis_server, f"along{before}{after}")
    servers = [start_server("--store", store, "--shards", str(before)), start_server("--store", store)]
    client = servers[0].client()
    client.call("PUT", "/v1/topics/work", json.dumps({"max_attempts": 2, "dedup_window": "1h", "backoff": "fixed:10m"}).encode())
    for number in range(300):
        client.push("work", f"later-{number}", body=b"x" * number, delay="1h")
    for number in range(50):
        client.push("work", f"ready-{number}", body=b"r")
    leased = client.take("work", max=20, lease_for="4s")
    for job in client.take("work", max=5):
        client.nack(job["lease"], error="no")
    for job in client.take("work", max=5):
        client.nack(job["lease"], error="never", final="true")
    for job in client.take("work", max=5):
        client.ack(job["lease"])
    client.call("POST", "/v1/topics/idle/pause")
    client.push("idle", "a", body=b"i")
    client.call("POST", "/v1/topics/idle/pause")
    shown, topics = jobs_of(servers[0], "work"), client.call("GET", "/v1/topics/work").json()

    output = json.loads(reshard(store, after, "--json"))
    assert (output["from"], output["to"], output["done"], output["begun_before"]) == (before, after, True, False)

    for server in [*servers, start_server("--store", store)]:
        eventually(lambda server=server: info(server)["shards"] == after, 5)
        assert metric(server, "tarry_redis_shards") == after
        again = jobs_of(server, "work")
        assert again.keys() == shown.keys()
        for ident, job in shown.items():
            if job["state"] not in ("leased", "ready"):
                assert again[ident] == job
        counts = server.client().call("GET", "/v1/topics/work").json()
        for name in ("pushed", "acked", "delivered", "nacked", "died"):
            assert counts["totals"][name] >= topics["totals"][name]
        assert counts["settings"] == topics["settings"]
        assert server.client().take("idle", max=1) == []
    assert client.call("GET", "/v1/topics/work").json()["totals"]["pushed"] == topics["totals"]["pushed"]
    with pytest.raises(Refused) as refused:
        client.ack(leased[0]["lease"])
    assert refused.value.code == "lease_ended"
    assert client.push("work", "later-1", body=b"y", on_conflict="keep")["result"] == "existed"
    works(servers[1])
    tags = {key.split(b"}")[0] for key in redis_server.client().scan_iter(match=f"{{along{before}{after}:*") if not key.endswith((b":core", b":moving", b":aware", b":name", b":servers")) and b":ticket:" not in key}
    assert all(b":1." in tag for tag in tags), tags


@pytest.mark.parametrize("kind", [RedisServer, Cluster, Sentinel])
def test_wherever_redis_is_and_the_check_finds_nothing_amiss_afterwards(kind, start_server):
    with kind() as redis:
        servers = [start_server("--store", redis.url, "--shards", "2"), start_server("--store", redis.url)]
        client = servers[0].client()
        for number in range(400):
            client.push("far", f"far-{number}", body=b"x", delay="1h")
        for number in range(40):
            client.push("soon", f"soon-{number}", body=b"x", delay="4s")
        for shards in (4, 1):
            reshard(redis.url, shards)
            for server in servers:
                eventually(lambda server=server: info(server)["shards"] == shards, 5)
                assert len(jobs_of(server, "far")) == 400
                works(server, f"with-{shards}")
        came = set()
        while len(came) < 40:
            jobs = servers[1].client().take("soon", max=100, wait="20s")
            assert jobs and not came & {job["id"] for job in jobs}
            came |= {job["id"] for job in jobs}
        checked = subprocess.run([str(BINARY), "fsck", "--store", redis.url], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_continues_after_a_kill(redis_server, start_server):
    store = url_of(redis_server, "killed")
    servers = [start_server("--store", store, "--shards", "4") for _ in range(2)]
    client = servers[0].client()
    for number in range(2000):
        client.push("work", f"job-{number}", body=b"x", delay="1h")
    for moment in (0.05, 0.3, 3.2, 3.5):
        run = subprocess.Popen(command(store, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment)
        run.kill()
        run.wait()
        works(servers[1], f"after-{moment}")
    both = [subprocess.Popen(command(store, 2), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    output = [one.communicate(timeout=60)[0] for one in both]
    assert all(one.returncode == 0 or "already" in text for one, text in zip(both, output, strict=True)), output
    eventually(lambda: all(info(server)["shards"] == 2 for server in servers), 5)
    assert len(jobs_of(servers[0], "work")) == 2000


def test_calls_continue_meanwhile(redis_server, start_server):
    store = url_of(redis_server, "meanwhile")
    servers = [start_server("--store", store, "--shards", "3") for _ in range(2)]
    for number in range(3000):
        servers[0].client().push("still", f"job-{number}", body=b"x", delay="1h")
    ends, lock = threading.Event(), threading.Lock()
    pushed, cancelled, acked, slowest = set(), set(), [], [0.0]

    def timed(call):
        began = time.monotonic()
        result = call()
        with lock:
            slowest[0] = max(slowest[0], time.monotonic() - began)
        return result

    def push(server, name):
        client = server.client()
        for number in range(10**6):
            if ends.is_set():
                return
            ident = f"{name}-{number}"
            assert timed(lambda ident=ident: client.push("work", ident, body=b"x", delay="2s"))["result"] == "created"
            assert timed(lambda ident=ident: client.push("work", ident, body=b"x", on_conflict="keep"))["result"] == "existed"
            if number % 3 == 0:
                timed(lambda ident=ident: client.call("DELETE", f"/v1/topics/work/jobs/{ident}"))
                with lock:
                    cancelled.add(ident)
            else:
                with lock:
                    pushed.add(ident)

    def take(server):
        client = server.client()
        while not (ends.is_set() and len(acked) >= len(pushed)):
            for job in client.take("work", max=10, wait="1s"):
                assert [answer["result"] for answer in client.ack(job["lease"])] == ["ok"]
                with lock:
                    acked.append(job["id"])

    failed = []

    def guarded(work, *args):
        def run():
            try:
                work(*args)
            except BaseException as fault:
                failed.append(fault)
                raise
        return threading.Thread(target=run, daemon=True)

    threads = [guarded(push, server, f"p{at}") for at, server in enumerate(servers)] + [guarded(take, server) for server in servers]
    for thread in threads:
        thread.start()
    try:
        for shards in (1, 4):
            print(reshard(store, shards))
    finally:
        ends.set()
        for thread in threads:
            thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads), failed
    assert sorted(acked) == sorted(pushed), (len(acked), len(pushed), set(acked) & cancelled)
    assert len(jobs_of(servers[0], "still")) == 3000
    print(len(pushed), "pushed; the slowest call took", slowest[0])
    assert slowest[0] < 5 * slack()


@pytest.mark.thorough("half a minute; test_calls_continue_meanwhile is the short one")
def test_a_once_and_again_hold_while_shards_change(redis_server, start_server):
    store = url_of(redis_server, "once")
    servers = [start_server("--store", store, "--shards", "2") for _ in range(2)]
    for part in range(3):  # so that the moves take a while
        servers[0].client().push_batch([{"topic": "still", "id": f"{part}-{number}", "delay": "1h"} for number in range(1000)])
    ends, faults, named, rounds = threading.Event(), [], [], {}

    def guarded(work, server):
        try:
            work(server.client(), servers.index(server))
        except BaseException as fault:  # noqa: BLE001, shown below
            faults.append(repr(fault))

    def push(client, nth):
        number = 0
        while not ends.is_set():
            number += 1
            once = f"{nth}-{number}"
            first = client.push("onces", body=once.encode(), once=once, once_for="1h", delay="1h")["result"]
            second = client.push("onces", body=b"again", once=once, once_for="1h", delay="1h")["result"]
            assert (first, second) == ("created", "existed"), once
            named.append(once)

    def push_again(client, nth):
        topic = f"loop{nth}"
        client.push(topic, "a", body=b"0")
        rounds[topic] = 0
        while not ends.is_set():
            for job in client.take(topic, max=1, wait="1s", lease_for="2s"):
                assert int(job["body"]) == rounds[topic]
                try:
                    answer = client.good("POST", f"/v1/again?lease={job['lease']}", str(rounds[topic] + 1).encode(), {"Content-Type": "text/plain"})
                    assert answer["results"][0]["result"] == "created"
                    rounds[topic] += 1
                except Refused as refused:
                    assert refused.code == "lease_ended"  # the job was moved; it is delivered again, as it was

    threads = [threading.Thread(target=guarded, args=(work, server)) for work in (push, push_again) for server in servers]
    for thread in threads:
        thread.start()
    for shards in (5, 1, 3):
        time.sleep(0.5)
        reshard(store, shards)
    time.sleep(0.5)
    ends.set()
    for thread in threads:
        thread.join()
    assert faults == []
    client = servers[1].client()
    assert len(named) > 20 and min(rounds.values()) > 5
    for once in named:
        assert client.push("onces", body=b"late", once=once, once_for="1h", delay="1h")["result"] == "existed", once
    bodies = [job["id"] for job in jobs_of(servers[0], "onces").values()]
    assert len(bodies) == len(named)
    for topic, count in rounds.items():
        shown = client.get(topic, "a")
        assert int(shown["body"]) == count, (topic, shown)
