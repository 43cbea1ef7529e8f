"""tarry serve on Redis: its shards, its durability, and its description of itself."""

import time

import pytest
from redis_servers import RedisServer
from redis_serving import info, metric, refused, works


@pytest.fixture(scope="module")
def shared():
    """A Redis for tests that change only its data."""
    with RedisServer(aof="always") as server:
        yield server


@pytest.fixture
def fresh(shared):
    shared.client().flushall()
    return shared


# ---- its shards ----

def test_another_number_of_shards_is_refused_and_both_are_named(fresh, start_server):
    started = start_server("--store", fresh.url, "--shards", "4")
    assert info(started)["shards"] == 4
    started.terminate()
    answer = refused("--store", fresh.url, "--shards", "8")
    assert "'--shards' is 8" in answer and "4 shards" in answer
    assert info(start_server("--store", fresh.url))["shards"] == 4


def test_a_lost_number_of_shards_is_read_from_the_shards(fresh, start_server):
    start_server("--store", fresh.url, "--shards", "3").terminate()
    assert fresh.client().delete("{tarry}:shards") == 1
    assert "3 shards" in refused("--store", fresh.url, "--shards", "8")


def test_another_prefix_is_another_queue(fresh, start_server):
    one, two = start_server("--store", fresh.url), start_server("--store", fresh.url + "?prefix=other", "--shards", "2")
    assert info(one)["shards"] == 1 and info(two)["shards"] == 2
    one.client().push("there", "a")
    assert two.client().call("GET", "/v1/topics/there").status == 404


NO_FIT = "the number of shards does not fit"


def test_a_new_queue_has_a_shard_for_each_master_and_an_old_one_keeps_its_own(fresh, start_server, start_redis):
    started = start_server("--store", fresh.url)
    assert info(started)["shards"] == 1 and fresh.client().get("{tarry}:shards") == b"1" and NO_FIT not in started.log()
    eight = fresh.url + "?prefix=eight"
    start_server("--store", eight, "--shards", "8").terminate()
    again = start_server("--store", eight)
    assert info(again)["shards"] == 8
    assert f'"{NO_FIT}" shards=8 masters=1' in again.log() and "tarry reshard" in again.log()
    cluster = start_redis.cluster(masters=3)
    started = start_server("--store", cluster.url)
    assert info(started)["shards"] == 3 and NO_FIT not in started.log()
    assert sorted(len(node.client().keys("*:core")) for node in cluster.servers) == [1, 1, 1]
    few = start_server("--store", cluster.url + "?prefix=few", "--shards", "2")
    assert f'"{NO_FIT}" shards=2 masters=3' in few.log()


# ---- its description of itself ----

@pytest.mark.parametrize("aof, durability, words", [
    ("always", "always", ["on the disk"]), ("everysec", "everysec", ["two seconds"]), ("no", "no", ["half minute"]), (None, "memory", ["every job"]),
])
def test_info_has_the_durability_in_force(aof, durability, words, start_server):
    with RedisServer(aof=aof) as server:
        started = start_server("--store", server.url)
        answer = info(started)
        assert answer["store"] == "redis" and answer["durability_class"] == durability and answer["wait_replicas"] == 0 and answer["shards"] == 1
        assert answer["sync"] == (aof or "none") and all(word in answer["durability"] for word in words), answer
        assert ("redis may lose jobs" in started.log()) == (aof != "always")
        listening = next(line for line in started.log().splitlines() if "event=listening" in line)
        assert "store=redis" in listening and f"durability={durability}" in listening and "shards=1" in listening
        works(started)
        assert started.terminate() == 0


def test_an_unreadable_configuration_is_reported_as_unknown(start_server):
    with RedisServer("--rename-command", "CONFIG", "", aof="always") as server:
        started = start_server("--store", server.url)
        assert info(started)["durability_class"] == "unknown" and "unknown" in info(started)["durability"]
        assert "redis may lose jobs" in started.log()
        started.terminate()
        answer = refused("--store", server.url, "--require-durability", "everysec")
        assert "it is 'unknown'" in answer
    with RedisServer("--rename-command", "CONFIG", "") as server:
        assert info(start_server("--store", server.url))["durability_class"] == "memory"


def test_metrics_count_calls_to_redis(fresh, start_server):
    started = start_server("--store", fresh.url)
    before = metric(started, "tarry_redis_items_total")
    for number in range(20):
        started.client().push("counted", f"job-{number}", delay="1h")
    assert metric(started, "tarry_redis_items_total") >= before + 20
    assert metric(started, "tarry_redis_calls_total") > 0
    assert metric(started, "tarry_redis_shards") == metric(started, "tarry_redis_shards_up") == 1
    for name in ("resent", "redirects", "failovers", "clock_disagreements", "notifications_lost"):
        assert metric(started, f"tarry_redis_{name}_total") >= 0
    assert metric(started, r'tarry_redis_reconnects_total\{shard="0"\}') == 0
    assert 20 <= metric(started, r'tarry_redis_script_duration_seconds_count\{script="push"\}') <= metric(started, r'tarry_redis_round_trip_duration_seconds_count\{shard="0"\}')
    assert metric(started, "tarry_redis_sent_bytes_total") > 20 * 50 and metric(started, "tarry_redis_received_bytes_total") > 20 * 20
    assert 'tarry_jobs{topic="counted",state="delayed"} 20' in started.client().call("GET", "/metrics").body.decode()


def test_a_list_of_many_topics_shows_the_settings_of_each(fresh, start_server):
    """Topics arrive in pages, and the dead letters of the first ones are shown with the last."""
    client = start_server("--store", fresh.url).client()
    for number in range(3):
        client.put_topic(f"a{number}", dead_letter={"keep": {"count": number + 1}})
    client.push_batch([{"topic": f"b{number:04}", "delay": "1h", "body": "x"} for number in range(900)])
    topics = {topic["topic"]: topic for topic in client.topics()}
    assert len(topics) >= 900 and [topics[f"a{number}"]["settings"]["dead_letter"] for number in range(3)] == [{"keep": {"count": n}} for n in (1, 2, 3)]


def test_jobs_outlive_the_server_and_a_second_one_sees_them(fresh, start_server):
    one, two = start_server("--store", fresh.url), start_server("--store", fresh.url)
    one.client().push("shared", "a", body=b"x", delay="300ms")
    one.kill()
    assert two.client().take("shared", wait="10s")[0]["id"] == "a"


def test_an_idle_server_on_redis_does_not_spin(fresh, start_server):
    started = start_server("--store", fresh.url)
    time.sleep(1.0)
    before = started.switches()
    time.sleep(1.0)
    assert started.switches() - before < 50


def test_servers_that_begin_one_queue_together_agree(start_redis, start_server):
    """Each server finds nothing at first, and the others' tokens a moment later."""
    redis = start_redis()
    for n in range(6):
        servers = [start_server("--store", f"{redis.url}?prefix=q{n}", started=False).launch() for _ in range(3)]
        for server in servers:
            server.wait_listening()
        assert {info(server)["shards"] for server in servers} == {1}
        for server in servers:
            server.terminate()
