"""Groups, limits, rates and holds over HTTP, from the push to the reason for which a job is held."""

import concurrent.futures
import contextlib
import json
import time

import pytest
from mariadb import MariadbServer
from postgres import PostgresServer
from redis_servers import RedisServer
from server import Server
from sql_serving import tarry


STORES = {"embedded": contextlib.nullcontext, "sharded": contextlib.nullcontext, "redis": RedisServer, "postgres": PostgresServer, "mariadb": MariadbServer}


@pytest.fixture(scope="module", params=STORES)
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("flow")
    with STORES[request.param]() as store:
        flags = ["--store", store.url] if store else ["--shards", "2"] if request.param == "sharded" else []
        if request.param in ("postgres", "mariadb"):
            assert tarry("sql", "migrate", store.url).returncode == 0
        server = Server(directory, flags).start()
        yield server
        assert server.terminate() == 0

GROUP = "/v1/topics/calls/groups/shop-7"


def refused(client, method, target, body=b"", headers=None):
    reply = client.call(method, target, body, headers)
    return reply.status, reply.json()["code"], reply.json()["detail"]


WRONG = [
    ("PUT", "/v1/topics/calls?limit=0", "'limit' is '0' but must be a number from 1 to 1000000"),
    ("PUT", "/v1/topics/calls?rate=fast", "'rate' is 'fast' but must be a number per second, minute or hour, such as 100/s, 90/m or 1/h"),
    ("PUT", "/v1/topics/calls?burst=3", "'burst' is given without its rate: give both or none"),
    ("PUT", "/v1/topics/calls?group_limit=1000001", "'group_limit' is '1000001' but must be a number from 1 to 1000000"),
    ("PUT", "/v1/topics/calls?group_order=fifo", "'group_order' is 'fifo' but must be free or strict"),
    ("PUT", GROUP + "?weight=101", "'weight' is '101' but must be a number from 1 to 100"),
    ("PUT", GROUP + "?paused_until=2033-01-01T00:00:00Z", "'paused_until' is given without 'paused': give both or none"),
    ("GET", "/v1/topics/calls/groups?order=size", "'order' is 'size' but must be name, ready, leased or held"),
    ("GET", "/v1/topics/calls/groups?limit=1001", "'limit' is '1001' but must be a number from 1 to 1000"),
    ("PUT", "/v1/topics/calls/jobs/1?group=a%20b", "'group' is 'a b' but must be 1 to 64 printable ASCII characters without blanks"),
    ("GET", "/v1/topics/calls/groups/" + "g" * 65, "the name of a group must be 1 to 64 printable ASCII characters without blanks"),
    ("POST", "/v1/nack?lease=x&hold=25h", "'hold' is '25h' but must be a duration from 1ms to 24h"),
]


@pytest.mark.parametrize("method,target,detail", WRONG, ids=[f"{method} {target[:40]}" for method, target, _ in WRONG])
def test_wrong_values_are_named(server, method, target, detail):
    assert refused(server.client(), method, target) == (400, "bad_option", detail)


def test_a_merge_patch_removes_a_setting_by_null(server):
    client = server.client()
    client.good("PUT", "/v1/topics/merged", json.dumps({"max_attempts": 3}).encode())
    shown = client.good("PATCH", "/v1/topics/merged", json.dumps({"limit": None, "group_rate": None}).encode())
    assert "limit" not in shown["settings"] and shown["settings"]["max_attempts"] == 3


def push(client, topic, ident, group):
    client.good("PUT", f"/v1/topics/{topic}/jobs/{ident}?delay=0" + (f"&group={group}" if group else ""))


def take(client, topic, most=1, wait="0s"):
    return client.good("POST", f"/v1/topics/{topic}/take?max={most}&wait={wait}")["jobs"]


def ready(client, topic, count):
    """Waits until all jobs are ready, since they fall due one after the other."""
    deadline = time.monotonic() + 20
    while client.topic(topic)["counts"]["ready"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def groups(client, topic, options=""):
    return client.good("GET", f"/v1/topics/{topic}/groups{options}")["groups"]


def test_a_quiet_group_is_served_beside_a_noisy_one(server):
    client = server.client()
    for n in range(40):
        push(client, "mail", f"n{n}", "noisy")
    push(client, "mail", "q0", "quiet")
    push(client, "mail", "q1", "quiet")
    ready(client, "mail", 42)
    taken = take(client, "mail", 4) + take(client, "mail", 4)  # of several shards, each take begins at another one
    assert sum(job["group"] == "quiet" for job in taken) == 2
    shown = {group["group"]: (group["ready"], group["leased"]) for group in groups(client, "mail")}
    assert shown == {"noisy": (34, 6), "quiet": (0, 2)}
    assert [group["group"] for group in groups(client, "mail", "?order=ready&limit=1")] == ["noisy"]


def test_a_limit_per_group_holds_and_shows_why(server):
    client = server.client()
    client.good("PUT", "/v1/topics/orders?group_limit=2")
    for n in range(6):
        push(client, "orders", f"a{n}", "customer-1")
    ready(client, "orders", 6)
    shards = server.client().good("GET", "/v1/info")["shards"]
    assert shards <= 2, "each shard has a share of the limit, so the sum is exact"
    first = take(client, "orders", 10)
    assert 1 <= len(first) <= 2
    assert take(client, "orders", 10) == [] or shards == 2
    held = client.topic("orders")["counts"]["held"]
    assert held == client.topic("orders")["counts"]["ready"] > 0
    [group] = groups(client, "orders", "?order=held")
    assert (group["group"], group["held_by"]) == ("customer-1", "group_limit")
    waiting = next(job for job in client.good("GET", "/v1/topics/orders/jobs?state=ready")["jobs"])
    shown = client.good("GET", f"/v1/topics/orders/jobs/{waiting['id']}")
    assert (shown["group"], shown["held_by"], shown["state"]) == ("customer-1", "group_limit", "ready")
    for job in first:
        client.ack(job["lease"])
    assert take(client, "orders", 10, "10s")


def metrics_of(server, topic):
    """The samples of the figures of flow control of a topic: {"tarry_held group_limit": 3}."""
    found = {}
    for line in server.client().call("GET", "/metrics").body.decode().splitlines():
        name, _, labels = line.partition("{")
        if name in ("tarry_held", "tarry_groups") and f'topic="{topic}"' in labels:
            by = labels.partition('by="')[2].partition('"')[0]
            found[f"{name} {by}".strip()] = int(line.rpartition(" ")[2])
    return found


def take_one_of_each(client, topic, groups):
    """Takes as many jobs as there are groups, again if they are not one of each: databases choose by the jobs in flight as last read."""
    for _ in range(5):
        jobs = take(client, topic, len(groups))
        if sorted(job["group"] for job in jobs) == groups:
            return jobs
        for job in jobs:
            assert client.call("POST", f"/v1/return?lease={job['lease']}").status == 200
    raise AssertionError(f"never one of each: {[job['group'] for job in jobs]}")


def test_held_jobs_are_counted_by_what_holds_them(server):
    client, topic = server.client(), "counted"
    if client.good("GET", "/v1/info")["shards"] > 1:
        pytest.skip("the jobs of a group may be in both shards")
    for group, count in (("limited", 4), ("paused", 3), ("held", 3), ("free", 1)):
        for n in range(count):
            push(client, topic, f"{group}{n}", group)
    ready(client, topic, 11)
    assert "held_by" not in client.topic(topic) and client.topic(topic)["groups"] == 4
    assert metrics_of(server, topic) == {"tarry_groups": 4}
    client.good("PUT", f"/v1/topics/{topic}/groups/limited?limit=1")
    client.good("POST", f"/v1/topics/{topic}/groups/paused/pause")
    jobs = take_one_of_each(client, topic, ["free", "held", "limited"])
    [held] = [job for job in jobs if job["group"] == "held"]
    assert client.call("POST", f"/v1/return?lease={held['lease']}&hold=1h").status == 200
    shown = client.topic(topic)
    assert (shown["counts"]["held"], shown["held_by"]) == (9, {"group_limit": 3, "group_paused": 3, "hold": 3})
    assert metrics_of(server, topic) == {"tarry_held group_limit": 3, "tarry_held group_paused": 3, "tarry_held hold": 3, "tarry_groups": 4}
    assert "; held 9: group_limit 3, group_paused 3, hold 3" in server.cli("topic", "show", topic).stdout.decode()
    client.good("PUT", f"/v1/topics/{topic}?limit=1")  # two are leased: the topic's reason is that of all ready jobs
    assert client.topic(topic)["held_by"] == {"limit": 9}
    client.good("PUT", f"/v1/topics/{topic}?limit=100")
    client.good("POST", f"/v1/topics/{topic}/groups/paused/resume")
    client.good("DELETE", f"/v1/topics/{topic}/groups/held")
    client.good("DELETE", f"/v1/topics/{topic}/groups/limited")
    assert "held_by" not in client.topic(topic)
    while jobs:  # a take may return fewer jobs than are ready
        for job in jobs:
            client.call("POST", f"/v1/ack?lease={job['lease']}")
        jobs = take(client, topic, 20, "3s")
    assert metrics_of(server, topic) == {}, groups(client, topic)


def raise_the_rate_of_the_topic(client, topic):
    client.good("PUT", f"/v1/topics/{topic}?rate=500/s")


def raise_the_rate_of_groups(client, topic):
    client.good("PUT", f"/v1/topics/{topic}?group_rate=500/s")


def raise_the_rate_of_one_group(client, topic):
    client.good("PUT", f"/v1/topics/{topic}/groups/a?rate=500/s")


def delete_the_rate_of_one_group(client, topic):
    client.good("DELETE", f"/v1/topics/{topic}/groups/a")


def test_a_resume_ends_the_hold_of_a_topic(server):
    client = server.client()
    for n in range(20):
        push(client, "stopped", f"a{n}", "")
    ready(client, "stopped", 20)
    while jobs := take(client, "stopped"):  # until each shard is held
        client.good("POST", f"/v1/nack?lease={jobs[0]['lease']}&hold=24h&delay=10m")
    assert client.topic("stopped")["counts"]["held"] > 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(lambda: take(server.client(), "stopped", 1, "20s"))
        time.sleep(0.2)
        client.good("POST", "/v1/topics/stopped/resume")
        assert len(waits.result()) == 1


RAISES = [("rate=2/h", "", raise_the_rate_of_the_topic), ("group_rate=2/h", "", raise_the_rate_of_groups),
          ("group_rate=2/h", "", raise_the_rate_of_one_group), ("group_rate=500/s", "rate=2/h", delete_the_rate_of_one_group)]


@pytest.mark.parametrize("slow, own, change", RAISES, ids=[change.__name__ for _, _, change in RAISES])
def test_a_raised_rate_wakes_a_waiting_take(server, slow, own, change):
    """The next delivery does not wait for the end of an interval of the old rate, here half an hour."""
    client, topic = server.client(), change.__name__
    client.good("PUT", f"/v1/topics/{topic}?{slow}")
    if own:
        client.good("PUT", f"/v1/topics/{topic}/groups/a?{own}")
    for n in range(40):
        push(client, topic, f"a{n}", "a")
    ready(client, topic, 40)
    while take(client, topic, 10):
        pass
    assert client.topic(topic)["counts"]["held"] > 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(lambda: take(server.client(), topic, 1, "20s"))
        time.sleep(0.2)
        change(client, topic)
        assert len(waits.result()) == 1


def test_a_hold_stops_one_group_until_it_ends(server):
    client = server.client()
    push(client, "calls", "a1", "a")
    ready(client, "calls", 1)
    [job] = take(client, "calls")
    push(client, "calls", "a2", "a")
    push(client, "calls", "b1", "b")
    began = time.monotonic()
    assert client.call("POST", f"/v1/return?lease={job['lease']}&hold=2s").status == 200
    ready(client, "calls", 3)
    taken = take(client, "calls", 10)
    if client.good("GET", "/v1/info")["shards"] > 1:
        return  # the shards of the other jobs are not held
    if time.monotonic() - began < 1.5:
        assert [job["id"] for job in taken] == ["b1"]
    more = take(client, "calls", 10, "20s")
    assert time.monotonic() - began >= 2 and more[0]["group"] == "a"


def test_a_paused_group_waits_and_resumes_and_keeps_its_settings(server):
    client = server.client()
    assert client.good("PUT", "/v1/topics/paused/groups/g", json.dumps({"weight": 3, "rate": "50/s"}).encode())["settings"] == {"weight": 3, "rate": "50/s"}
    paused = client.good("POST", "/v1/topics/paused/groups/g/pause?for=1h")["settings"]
    assert paused["paused"] is True and paused["weight"] == 3 and paused["paused_until"]
    push(client, "paused", "1", "g")
    ready(client, "paused", 1)
    assert take(client, "paused") == []
    assert client.good("GET", "/v1/topics/paused/jobs/1")["held_by"] == "group_paused"
    assert client.good("POST", "/v1/topics/paused/groups/g/resume")["settings"] == {"weight": 3, "rate": "50/s"}
    assert [job["id"] for job in take(client, "paused", 1, "10s")] == ["1"]
    assert client.good("DELETE", "/v1/topics/paused/groups/g")["settings"] == {}


def test_a_group_without_jobs_and_settings_is_not_found(server):
    client, topic = server.client(), "bare"
    for name in ("group", "topic"):  # of an unknown topic first
        status, code, detail = refused(client, "GET", f"/v1/topics/{topic}/groups/g")
        assert (status, code) == (404, "not_found")
        assert ("there is no topic 'bare'" in detail) == (name == "group") and ("in this group" in detail) == (name == "topic")
        shown = server.cli("group", "show", topic, "g")
        assert (shown.returncode, shown.stdout, detail in shown.stderr.decode()) == (4, b"", True)
        push(client, topic, "1", "")
    assert client.good("PUT", f"/v1/topics/{topic}/groups/g?limit=4")["settings"] == {"limit": 4}
    assert "settings.limit=4" in server.cli("group", "show", topic, "g").stdout.decode()
    assert set(server.cli("group", "set", topic, "g", "weight=2").stdout.decode().split()) >= {"settings.limit=4", "settings.weight=2"}
    client.good("DELETE", f"/v1/topics/{topic}/groups/g")
    assert server.cli("group", "set", topic, "g", "weight=2").returncode == 0, "a group that is not found has no settings so far"
    assert refused(client, "GET", f"/v1/topics/{topic}/groups/other")[:2] == (404, "not_found")
    assert server.cli("group", "resume", "nowhere", "g").returncode == 4


def test_a_rate_spaces_the_deliveries(server):
    client = server.client()
    client.good("PUT", "/v1/topics/spaced?rate=5/s")
    for n in range(20):
        push(client, "spaced", str(n), "")
    ready(client, "spaced", 20)
    began, taken = time.monotonic(), 0
    while time.monotonic() - began < 2:
        taken += len(take(client, "spaced", 10, "300ms"))
    lasted = time.monotonic() - began
    shards = client.good("GET", "/v1/info")["shards"]
    assert 3 <= taken <= 5 * (1 + shards) / 2 * lasted + 2 * shards + 1, "a share of 5/s is 3/s in each of two shards"


def test_settings_are_shown_and_survive_a_restart(server):
    client = server.client()
    given = {"limit": 100, "rate": "10/s", "burst": 4, "group_limit": 5, "group_rate": "90/m", "group_burst": 2}
    client.good("PUT", "/v1/topics/settings", json.dumps(given).encode())
    client.good("PUT", "/v1/topics/settings/groups/g?limit=7")
    push(client, "settings", "1", "g")
    server.restart("terminate")
    client = server.client()
    shown = client.topic("settings")["settings"]
    assert {name: shown.get(name) for name in given} == given
    assert client.good("GET", "/v1/topics/settings/groups/g")["settings"] == {"limit": 7}
    assert client.good("GET", "/v1/topics/settings/jobs/1")["group"] == "g"


def test_one_shard_makes_limits_exact(server):
    client = server.client()
    client.good("PUT", "/v1/topics/single?one_shard=true&limit=3&group_limit=1")
    client.good("PUT", "/v1/topics/single/groups/b?limit=1&max_jobs=4")
    for n in range(4):
        push(client, "single", f"a{n}", "a")
        push(client, "single", f"b{n}", "b")
    reply = client.call("PUT", "/v1/topics/single/jobs/b9?group=b")
    assert (reply.status, reply.json()["code"]) == (507, "group_full")
    ready(client, "single", 8)
    assert sorted(job["group"] for job in take(client, "single", 10)) == ["a", "b"]
    assert take(client, "single", 10) == []
    assert client.topic("single")["settings"]["one_shard"] is True
    if client.good("GET", "/v1/info")["shards"] > 1:
        assert refused(client, "PUT", "/v1/topics/single?limit=3")[:2] == (409, "not_empty")


def test_a_share_of_a_limit_of_a_group_is_at_least_one(server):
    client = server.client()
    client.good("PUT", "/v1/topics/shared?group_limit=4")
    reply = client.call("PUT", "/v1/topics/shared/groups/g?limit=1")
    if client.good("GET", "/v1/info")["shards"] == 1:
        assert reply.status == 200
    else:
        assert (reply.status, reply.json()["code"]) == (400, "bad_option"), reply.json()



def has_strict_order(client):
    info = client.good("GET", "/v1/info")
    return info["shards"] == 1 or info["store"] == "embedded"


def test_strict_order_is_rejected_if_groups_are_spread(server):
    client = server.client()
    reply = client.call("PUT", "/v1/topics/strict?group_order=strict")
    if has_strict_order(client):
        assert reply.status == 201 and client.good("GET", "/v1/topics/strict")["settings"]["group_order"] == "strict"
    else:
        assert reply.status == 501 and "'group_order'" in reply.json()["detail"]


def test_a_strict_group_waits_for_its_retry_and_shows_the_reason(server):
    client = server.client()
    if not has_strict_order(client):
        pytest.skip("this store has no strict order")
    client.good("PUT", "/v1/topics/ledger?group_order=strict")
    for number in ("1", "2"):
        push(client, "ledger", number, "a")
    assert refused(client, "PUT", "/v1/topics/ledger?group_order=free")[:2] == (409, "not_empty")
    (job,) = take(client, "ledger", 10)
    assert job["id"] == "1"
    client.good("POST", f"/v1/nack?lease={job['lease']}&delay=1h")
    assert take(client, "ledger", 10) == []
    assert client.good("GET", "/v1/topics/ledger/jobs/2")["held_by"] == "group_order"
    server.restart("terminate")
    client = server.client()
    assert take(client, "ledger", 10) == []
    client.good("POST", "/v1/topics/ledger/jobs/1/run")
    (job,) = take(client, "ledger", 10, "5s")
    assert job["id"] == "1"
    client.good("POST", f"/v1/ack?lease={job['lease']}")
    (job,) = take(client, "ledger", 10, "5s")
    assert job["id"] == "2"


def test_a_limit_below_the_number_of_shards_is_rejected(server):
    client = server.client()
    reply = client.call("PUT", "/v1/topics/one?group_limit=1")
    if client.good("GET", "/v1/info")["shards"] == 1:
        assert reply.status == 201 and client.good("GET", "/v1/topics/one")["settings"]["group_limit"] == 1
    else:
        assert reply.status == 400 and "lower than the number of shards" in reply.json()["detail"]


def test_export_and_import_carry_groups_and_limits(server, start_server):
    client = server.client()
    given = {"limit": 9, "rate": "10/s", "group_limit": 2}
    client.good("PUT", "/v1/topics/moved", json.dumps(given).encode())
    client.good("PUT", "/v1/topics/moved/jobs/1?delay=1h&group=shop-7")
    client.good("PUT", "/v1/topics/moved/groups/shop-7", json.dumps({"weight": 3, "rate": "50/s", "burst": 2}).encode())
    client.good("PUT", "/v1/topics/moved/groups/%22%5C%2F", json.dumps({"limit": 7}).encode())  # "\\/ in JSON, in a path and in a cursor
    client.good("POST", "/v1/topics/moved/groups/paused/pause?for=1h")
    settings = {group["group"]: group["settings"] for group in groups(client, "moved") if group["settings"]}
    assert set(settings) == {"shop-7", '"\\/', "paused"}
    exported = server.cli("export", "--topic", "moved")
    assert exported.returncode == 0, exported.stderr
    other = start_server()
    imported = other.cli("import", "-", input=exported.stdout)
    assert imported.returncode == 0, imported.stderr
    shown = other.client().topic("moved")["settings"]
    assert {name: shown.get(name) for name in given} == given
    assert other.client().good("GET", "/v1/topics/moved/jobs/1")["group"] == "shop-7"
    client.good("DELETE", "/v1/topics/moved")
    assert server.cli("import", "-", input=other.cli("export", "--topic", "moved").stdout).returncode == 0
    for one in (other.client(), client):
        assert {group["group"]: group["settings"] for group in groups(one, "moved") if group["settings"]} == settings
    again = server.cli("export", "--topic", "moved").stdout.splitlines()
    assert sorted(again)[1:] == sorted(exported.stdout.splitlines())[1:], "apart from the time in the head"
