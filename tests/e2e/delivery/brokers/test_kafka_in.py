"""`--kafka-in`: records with a delay go through tarry and come out of Kafka when they are due, as they went in."""

import collections
import json
import random
import signal
import time

import kafka
import pytest
from endpoint import write_policy
from redis_servers import RedisServer
from server import eventually, slack

SEED = int(time.time())
GROUP = "tarry"


@pytest.fixture(scope="module")
def broker():
    jars, why = kafka.find_jars()
    if jars is None:
        pytest.skip(f"no real Kafka ({why})")
    with kafka.Kafka() as running:
        running.launch_reader()
        yield running


@pytest.fixture
def start_in(broker, start_server, tmp_path):
    """start_in(topic): a server that reads it; `more` is added to the URL. The topic is created before, unless `is_new` is false."""

    def start(topic, *flags, more="", url=None, policy=(), is_new=True, **kwargs):
        if is_new:
            broker.create(topic, 1 << 20, 2)
        return start_server(*(flags or ("--sync", "always", "--shards", "1")), "--deliver", write_policy(tmp_path / "policy", *policy),
                            "--kafka-in", f"{url or broker.url}?from={topic}{more}", **kwargs)

    return start


def delayed(body, delay, to=None, *headers, key=None):
    return key, body, [*([("x-delay", str(delay))] if delay is not None else []), *([("x-topic", to)] if to else []), *headers]


def metric(client, name):
    lines = client.call("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def connected(server):
    eventually(lambda: metric(server.client(), "tarry_kafka_in_connected") == 1, 40)


def own_headers(record):
    return [pair for pair in record.pairs if not pair[0].startswith("tarry-")]


def test_a_record_comes_out_as_it_went_in_when_it_is_due(broker, start_in):
    headers = [("n", b"\x00\xff"), ("twice", "1"), ("twice", "2"), ("nothing", None), ("content-type", "text/x-odd; a=b"), ("tarry-id", "forged"), ("", "unnamed")]
    sent = time.time()
    broker.send("same.delayed", delayed(b"\x00body\xff", 1500, None, *headers, key=b"\x00key\xff"), (None, None, [("x-delay", "0")]), (b"", b"", []))
    server = start_in("same.delayed", is_new=False)
    came = broker.receive("same", 3, 40)
    whole = next(record for record in came if record.body == b"\x00body\xff")
    assert whole.key == b"\x00key\xff"
    assert own_headers(whole) == [(name, value.encode() if isinstance(value, str) else value) for name, value in headers if name != "tarry-id"], "without x-delay"
    assert whole.headers["tarry-topic"] == "kafka-in" and whole.headers["tarry-attempt"] == "1" and whole.id.startswith("same.delayed-")
    assert {(record.key, record.body) for record in came if record is not whole} == {(None, None), (b"", b"")}, "null and empty are not the same"
    due = whole.headers["tarry-due-at"]
    assert abs(time.mktime(time.strptime(due[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + 0.5 - (sent + 1.5)) < 2 * slack()
    assert whole.at_ms >= int(sent * 1000) + 1500 - 5, "published before it was due"  # 5 ms: tarry's clock beside that of the system
    eventually(lambda: broker.behind(GROUP, "same.delayed") == 0)
    assert metric(server.client(), "tarry_kafka_in_taken_total") == 3


def test_a_delay_counts_from_the_timestamp_of_the_record(broker, start_in):
    now = int(time.time() * 1000)
    cases = {b"old": ({"x-delay": "60000"}, now - 61000, 0), b"half": ({"x-delay": "62000"}, now - 60000, 2), b"clock ahead": ({"x-delay": "1000"}, now + 3_600_000, 1),
             b"at": ({"x-deliver-at": str(now + 1500), "x-delay": "9"}, 0, 1.5), b"past": ({"x-deliver-at": "1000000000000"}, 0, 0), b"negative": ({"x-delay": "-5"}, 0, 0),
             b"rfc3339": ({"x-deliver-at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now / 1000 + 3))}, 0, 2)}
    server = start_in("when", more="&to=when-out&topic=elsewhere&group=other", is_new=False)
    eventually(lambda: 'error="no such topic"' in server.log(), 30)
    broker.send("when", *((None, name, list(headers.items()), at) for name, (headers, at, _) in cases.items()))
    connected(server)
    client = server.client()
    eventually(lambda: client.topic("elsewhere")["totals"]["pushed"] == len(cases), 40)
    came = {record.body: record.headers["tarry-due-at"] for record in broker.receive("when-out", len(cases), 40)}
    assert came.keys() == cases.keys()
    for name, (_, _, seconds) in cases.items():
        if seconds:
            assert time.mktime(time.strptime(came[name][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone >= now / 1000 + seconds - 1, name
    eventually(lambda: broker.behind("other", "when") == 0)


def test_records_that_can_never_be_accepted_are_counted_with_their_place_and_hold_up_nothing(broker, start_in):
    server = start_in("never", "--sync", "always", "--shards", "1", "--max-body", "64KiB")
    out = "never-out"
    broker.send("never", delayed(b"soon", "soon", out), delayed(b"eternity", 11 * 365 * 86400 * 1000, out), delayed(b"home", 10, "never"), delayed(b"nowhere", 10),
                delayed(b"odd", 10, "a b"), delayed(b"big", 10, out, ("blob", "x" * 4000)), delayed(b"x" * 100_000, 10, out), delayed(b"fine", 10, out))
    assert [record.body for record in broker.receive(out, 1, 40)] == [b"fine"]
    eventually(lambda: metric(server.client(), "tarry_kafka_in_rejected_total") == 7)
    log = server.log()
    assert all(f"reason={reason}" in log for reason in ("bad_delay", "bad_destination", "properties_too_big", "body_too_big"))
    assert 'record="never partition ' in log
    eventually(lambda: broker.behind(GROUP, "never") == 0)


def test_killed_again_and_again_it_loses_nothing_and_takes_no_record_twice(broker, start_in):
    server = start_in("crash")
    connected(server)
    deliver = server.client().topic("kafka-in")["settings"]["deliver"]
    server.client().put_topic("kafka-in", dedup_window="1m", deliver={**deliver, "timeout": "1s"})
    rand = random.Random(SEED)
    for part in range(3):
        broker.send("crash", *(delayed(f"{part} {n}".encode(), rand.randrange(2500), "crash-out", key=b"%d" % n) for n in range(150)))
        time.sleep(rand.random() * 0.5)
        server.kill()
        server.start()
    wanted = {f"{part} {n}".encode() for part in range(3) for n in range(150)}
    eventually(lambda: server.client().topic("kafka-in")["totals"]["pushed"] >= 450, 60)
    eventually(lambda: broker.behind(GROUP, "crash") == 0, 30)
    came = broker.receive("crash-out", 450, 60)
    assert {record.body for record in came} == wanted, f"seed {SEED}"
    assert server.client().topic("kafka-in")["totals"]["pushed"] == 450, f"a record made two jobs, seed {SEED}"
    assert max(collections.Counter(record.body for record in came).values()) <= 4, f"one for each life of the server at most, seed {SEED}"


def test_two_servers_share_the_partitions_and_each_takes_over(broker, start_in, start_server, tmp_path):
    first, second = start_in("shared", more="&to=shared-out"), None
    connected(first)
    second = start_server("--sync", "always", "--shards", "1", "--deliver", write_policy(tmp_path / "other"), "--kafka-in", f"{broker.url}?from=shared&to=shared-out")
    connected(second)
    sent = 0

    def took(server):
        return metric(server.client(), "tarry_kafka_in_taken_total")

    def both_take():
        """Sends more records. The first server notices the second by its heartbeat."""
        nonlocal sent
        broker.send("shared", *(delayed(b"%d" % n, 10, key=b"%d" % n) for n in range(sent, sent + 20)))
        sent += 20
        return took(first) and took(second)

    eventually(both_take, 40, pause=0.5)
    eventually(lambda: took(first) + took(second) >= sent, 40)
    assert first.terminate() == 0
    broker.send("shared", *(delayed(b"more %d" % n, 10, key=b"%d" % n) for n in range(100)))
    eventually(lambda: broker.behind(GROUP, "shared") == 0, 40)
    assert len({record.body for record in broker.receive("shared-out", sent + 100, 40)}) == sent + 100


def test_records_refused_by_the_store_stay_in_kafka_and_the_server_in_its_group(broker, start_in):
    with RedisServer(aof="always") as redis:
        server = start_in("refused", "--store", redis.url, "--store-timeout", "1s", more="&to=refused-out")
        client = server.client()
        connected(server)
        redis.kill()
        broker.send("refused", *(delayed(b"%d" % n, 100) for n in range(600)))
        eventually(lambda: metric(client, "tarry_kafka_in_paused") == 1, 30)
        assert metric(client, "tarry_kafka_in_received_total") <= 256 and broker.behind(GROUP, "refused") == 600
        time.sleep(12)  # longer than the timeout of the session
        connections = metric(client, "tarry_kafka_in_connections_total")
        redis.start()
        eventually(lambda: broker.behind(GROUP, "refused") == 0, 40)
        assert {record.body for record in broker.receive("refused-out", 600, 40)} == {b"%d" % n for n in range(600)}
        assert metric(client, "tarry_kafka_in_received_total") == 600 and metric(client, "tarry_kafka_in_connections_total") == connections, "no record is read twice"
    assert server.log().count('event="kafka-in paused"') == 1, "logged once"
    server.kill()


def test_records_beyond_a_limit_wait_in_kafka(broker, start_in):
    client = start_in("limited", more="&to=elsewhere").client()
    eventually(lambda: client.call("PATCH", "/v1/topics/kafka-in", json.dumps({"max_jobs": 3}).encode()).ok)
    time.sleep(0.5)
    broker.send("limited", *(delayed(b"x", 3_600_000) for _ in range(8)))
    eventually(lambda: client.topic("kafka-in")["counts"]["delayed"] == 3 and metric(client, "tarry_kafka_in_paused") == 1, 30)
    time.sleep(1.5)
    assert client.topic("kafka-in")["counts"]["delayed"] == 3 and broker.behind(GROUP, "limited") == 8
    assert client.call("PATCH", "/v1/topics/kafka-in", b'{"max_jobs":null}').ok
    eventually(lambda: client.topic("kafka-in")["counts"]["delayed"] == 8, 30)
    assert metric(client, "tarry_kafka_in_rejected_total") == 0


def test_rejected_records_fill_a_batch_as_well(broker, start_in):
    """Else the consumer stores no offset, and cannot be stopped, while it passes over a long run of them."""
    server = start_in("rubbish", more="&to=rubbish-out", is_new=False)
    client = server.client()
    eventually(lambda: 'error="no such topic"' in server.log(), 30)
    eventually(lambda: client.call("PATCH", "/v1/topics/kafka-in", json.dumps({"max_jobs": 1}).encode()).ok)
    client.push("kafka-in", "full", delay="1h")
    broker.send("rubbish", delayed(b"good", 10, key=b"k"), *(delayed(b"bad", "soon", key=b"k") for _ in range(2000)))
    eventually(lambda: metric(client, "tarry_kafka_in_paused") == 1, 40)
    assert metric(client, "tarry_kafka_in_received_total") <= 256 and broker.behind(GROUP, "rubbish") == 2001
    assert client.call("PATCH", "/v1/topics/kafka-in", b'{"max_jobs":null}').ok
    assert [record.body for record in broker.receive("rubbish-out", 1, 40)] == [b"good"]
    eventually(lambda: broker.behind(GROUP, "rubbish") == 0, 30)
    assert metric(client, "tarry_kafka_in_rejected_total") == 2000


def test_a_broker_that_was_killed_is_read_again(broker, start_in):
    server = start_in("back", more="&to=back-out")
    connected(server)
    broker.kill()
    eventually(lambda: metric(server.client(), "tarry_kafka_in_connected") == 0, 30)
    broker.start()
    connected(server)
    broker.send("back", delayed(b"after", 10))
    assert [record.body for record in broker.receive("back-out", 1, 60)] == [b"after"]
    assert server.log().count('event="kafka-in not connected"') == 1, "logged once"


def test_login_and_password_come_from_the_policy_file(broker, start_in, tmp_path):
    wrong = f"credential = {broker.login_url} {kafka.USER} wrong"
    server = start_in("secret", url=broker.login_url, more="&to=secret-out&group=secret", policy=(wrong,))
    eventually(lambda: 'error="user or password refused"' in server.log(), 40)
    assert metric(server.client(), "tarry_kafka_in_connected") == 0
    write_policy(tmp_path / "policy", f"credential = {broker.login_url} {kafka.USER} {broker.password}")
    server.proc.send_signal(signal.SIGHUP)
    connected(server)
    broker.send("secret", delayed(b"in", 10))
    assert [record.body for record in broker.receive("secret-out", 1, 60)] == [b"in"]


def test_by_tls_records_are_read_only_from_a_broker_that_is_trusted(broker, start_in, tmp_path):
    login = f"credential = {broker.tls_url} {kafka.USER} {broker.password}"
    server = start_in("sealed", url=broker.tls_url, more="&to=sealed-out&group=sealed", policy=(login,))
    eventually(lambda: 'error="tls failed"' in server.log(), 40)
    assert metric(server.client(), "tarry_kafka_in_connected") == 0
    write_policy(tmp_path / "policy", login, f"ca-file = {broker.certificate}")
    server.proc.send_signal(signal.SIGHUP)
    connected(server)
    broker.send("sealed", delayed(b"in", 10))
    assert [record.body for record in broker.receive("sealed-out", 1, 60)] == [b"in"]


def test_a_broker_that_the_policy_forbids_is_not_read(broker, start_server, tmp_path):
    policy = tmp_path / "nothing"
    policy.write_text("allow-host = example.org\n")
    policy.chmod(0o600)
    server = start_server("--deliver", policy, "--kafka-in", f"{broker.url}?from=forbidden&to=x")
    eventually(lambda: "kafka-in not connected" in server.log(), 30)
    assert metric(server.client(), "tarry_kafka_in_connections_total") == 0


@pytest.mark.parametrize("query, error", [("", "add ?from=NAME"), ("?from=a%20b", "topic in Kafka"), ("?from=a&to=a", "would return"), ("?from=a&queue=b", "unknown parameter"),
                                          ("?from=a&topic=.x", "name of a topic"), ("?from=a&group=", "consumer group")])
def test_an_invalid_source_is_rejected(start_server, tmp_path, query, error):
    server = start_server("--deliver", write_policy(tmp_path / "policy"), "--kafka-in", f"kafka://127.0.0.1{query}", started=False).launch()
    assert server.proc.wait(20) != 0 and error in server.log(), server.log()
    server.proc = None
