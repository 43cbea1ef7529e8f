"""`--amqp-in`: messages with a delay go through tarry and come out of RabbitMQ when they are due, as they went in."""

import collections
import contextlib
import json
import random
import struct
import time

import pika
import pytest
import rabbitmq
from endpoint import write_policy
from redis_servers import RedisServer
from server import eventually, slack

SEED = int(time.time())


@pytest.fixture(scope="module")
def broker():
    return rabbitmq.shared()


@pytest.fixture
def start_in(broker, start_server, tmp_path):
    """start_in(queue): a server that takes from it; `more` is added to the URL."""

    def start(queue, *flags, more="", **kwargs):
        policy = write_policy(tmp_path / "policy")
        return start_server(*(flags or ("--sync", "always", "--shards", "1")), "--deliver", policy,
                            "--amqp-in", f"{broker.url}?queue={queue}{more}", **kwargs)

    return start


def publish(broker, exchange, key, *messages):
    """Publishes (body, properties) pairs; all are confirmed by the broker when it returns."""
    with broker.channel() as channel:
        channel.confirm_delivery()
        for body, properties in messages:
            channel.basic_publish(exchange, key, body, properties, mandatory=True)


def delayed(body, delay, **properties):
    headers = {"x-delay": delay, **properties.pop("headers", {})}
    return body, pika.BasicProperties(delivery_mode=2, headers=headers, **properties)


def metric(client, name):
    lines = client.call("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def in_queue(broker, queue):
    """Messages that are ready there."""
    with broker.channel() as channel:
        return channel.queue_declare(queue, passive=True).method.message_count


def test_thirty_delays_through_one_queue_come_in_order_and_on_time(broker, start_in):
    broker.queue("thirty-in"), broker.queue("thirty-out")
    start_in("thirty-in")
    delays = [100 * n for n in range(1, 31)] * 10
    random.Random(SEED).shuffle(delays)
    messages = [delayed(f"{n} {delay}".encode(), delay, headers={"x-routing-key": "thirty-out"}) for n, delay in enumerate(delays)]
    sent = {}
    with broker.channel() as channel:
        channel.confirm_delivery()
        for n, (body, properties) in enumerate(messages):
            sent[n] = time.time()
            channel.basic_publish("", "thirty-in", body, properties)
    late = []
    for _, _, body, when in broker.messages("thirty-out", 300):
        n, delay = map(int, body.split())
        late.append(when - sent.pop(n) - delay / 1000)
    assert not sent, f"seed {SEED}"
    assert min(late) >= 0, f"{-min(late) * 1000:.1f} ms early, seed {SEED}"
    assert sorted(late)[150] < 0.9, "behind each other, as in a queue with a TTL, half of them would come 1.4 s late"


def test_properties_and_headers_come_out_as_they_went_in(broker, start_in):
    broker.queue("same-in"), broker.queue("same-out")
    start_in("same-in")
    headers = {"x-routing-key": "same-out", "n": 2**40, "small": -7, "list": [1, "zwei", {"drei": True}], "nothing": None, "bytes": b"\x00\xff",
               "when": time.strftime("%Y", time.gmtime(0)), "X-Mixed-Case": "ä" * 100}
    properties = pika.BasicProperties(content_type="text/plain; charset=utf-8", content_encoding="gzip", delivery_mode=2, priority=4,
                                      correlation_id="corr 1", reply_to="amq.reply", expiration="60000", message_id="id with blanks", timestamp=1700000000,
                                      type="order.late", app_id="shop", headers={"x-delay": 50, **headers})
    publish(broker, "", "same-in", (b"\x00body\xff", properties))
    ((method, got, body, _),) = broker.messages("same-out", 1)
    assert body == b"\x00body\xff" and method.routing_key == "same-out"
    for name in ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration", "message_id", "timestamp",
                 "type", "app_id", "user_id"):
        assert getattr(got, name) == getattr(properties, name), name
    own = {name: got.headers.pop(name) for name in list(got.headers) if name.startswith("tarry-")}
    assert got.headers == {"x-delay": -50, **headers}, "x-delay as the delayed-message plugin leaves it"
    assert own["tarry-topic"] == "amqp-in" and own["tarry-attempt"] == 1


def test_every_delay_header_is_supported(broker, start_in):
    broker.queue("when-in"), broker.queue("when-out")
    start_in("when-in", more="&topic=elsewhere")
    now = time.time()
    at = now + 1.2
    rfc3339 = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"
    to = {"x-routing-key": "when-out"}
    cases = {"integer": ({"x-delay": 700}, 0.7), "text": ({"x-delay": "700"}, 0.7), "negative": ({"x-delay": -5}, 0),
             "none": ({}, 0), "milliseconds": ({"x-deliver-at": int(at * 1000)}, 1.2), "rfc3339": ({"x-deliver-at": rfc3339}, 1.1), "past": ({"x-deliver-at": 1_000_000_000_000}, 0)}
    publish(broker, "", "when-in", *((name.encode(), pika.BasicProperties(headers={**to, **headers})) for name, (headers, _) in cases.items()))
    came = {body.decode(): when - now for _, _, body, when in broker.messages("when-out", len(cases))}
    assert came.keys() == cases.keys()
    for name, (_, seconds) in cases.items():
        assert seconds - 0.001 <= came[name] < seconds + 2 * slack(), name


def test_an_exchange_named_delayed_leads_to_the_one_without(broker, start_in):
    """Replaces the delayed-message plugin: publishers keep their routing keys, consumers their bindings."""
    broker.queue("plugin-in")
    with broker.channel() as channel:
        channel.exchange_declare("shop", "topic", durable=True)
        channel.exchange_declare("shop.delayed", "fanout", durable=True)
        channel.queue_bind("plugin-in", "shop.delayed")
        channel.queue_bind(broker.queue("plugin-out"), "shop", "order.*.close")
    start_in("plugin-in")
    publish(broker, "shop.delayed", "order.7.close", delayed(b"7", 200))
    ((method, _, body, _),) = broker.messages("plugin-out", 1)
    assert (method.exchange, method.routing_key, body) == ("shop", "order.7.close", b"7")


def test_the_default_exchange_has_a_name(broker, start_in):
    broker.queue("named-dead")
    broker.queue("named-in", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "named-dead"}), broker.queue("named-out")
    client = start_in("named-in").client()
    publish(broker, "", "named-in", delayed(b"by a header", 10, headers={"x-exchange": "amq.default", "x-routing-key": "named-out"}),
            delayed(b"back to where it came from", 10, headers={"x-exchange": "amq.default", "x-routing-key": "named-in"}))
    client.put_topic("t", deliver={"to": broker.url, "exchange": "amq.default", "routing_key": "named-out"})
    client.push("t", "a", b"by a setting")
    assert {body for *_, body, _ in broker.messages("named-out", 2)} == {b"by a header", b"by a setting"}
    assert [body for *_, body, _ in broker.messages("named-dead", 1)] == [b"back to where it came from"]


def test_a_message_published_again_with_its_id_is_another_one(broker, start_in):
    """A consumer postpones a message."""
    broker.queue("again-in"), broker.queue("again-out")
    start_in("again-in")
    message = delayed(b"later", 100, message_id="m-1", headers={"x-routing-key": "again-out"})
    publish(broker, "", "again-in", message, message)
    assert len(broker.messages("again-out", 2)) == 2
    publish(broker, "", "again-in", message)
    assert len(broker.messages("again-out", 1)) == 1


def test_a_topic_that_was_deleted_is_made_again(broker, start_in):
    broker.queue("gone-in"), broker.queue("gone-out")
    client = start_in("gone-in").client()
    to = {"x-routing-key": "gone-out"}
    publish(broker, "", "gone-in", delayed(b"1", 10, headers=to))
    assert len(broker.messages("gone-out", 1)) == 1
    client.delete_topic("amqp-in")
    publish(broker, "", "gone-in", delayed(b"2", 10, headers=to))
    assert [body for _, _, body, _ in broker.messages("gone-out", 1)] == [b"2"]


def test_invalid_messages_are_dead_lettered_and_counted(broker, start_in):
    broker.queue("never-dead")
    broker.queue("never-in", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "never-dead"})
    broker.queue("never-out")
    server = start_in("never-in", "--sync", "always", "--shards", "1", "--max-body", "64KiB")
    to = {"x-routing-key": "never-out"}
    publish(broker, "", "never-in", delayed(b"soon", "soon", headers=to), delayed(b"eternity", 11 * 365 * 86400 * 1000, headers=to),
            delayed(b"home", 10), delayed(b"big", 10, headers={**to, "blob": "x" * 4000}), delayed(b"x" * 100_000, 10, headers=to),
            delayed(b"fine", 10, headers=to))
    dead = broker.messages("never-dead", 5)
    assert {body[:9] for _, _, body, _ in dead} == {b"soon", b"eternity", b"home", b"big", b"x" * 9}
    assert [body for _, _, body, _ in broker.messages("never-out", 1)] == [b"fine"]
    assert metric(server.client(), "tarry_amqp_in_rejected_total") == 5
    log = server.log()
    assert all(f"reason={reason}" in log for reason in ("bad_delay", "bad_destination", "properties_too_big", "body_too_big"))


def test_killed_again_and_again_it_loses_nothing_and_takes_no_message_twice(broker, start_in):
    broker.queue("crash-in"), broker.queue("crash-out")
    server = start_in("crash-in")
    # Deliveries in progress at the kill are repeated when their lease ends, which follows the timeout.
    deliver = server.client().topic("amqp-in")["settings"]["deliver"]
    server.client().put_topic("amqp-in", dedup_window="1m", deliver={**deliver, "timeout": "1s"})
    rand = random.Random(SEED)
    to = {"x-routing-key": "crash-out"}
    arrived = []
    for part in range(3):
        publish(broker, "", "crash-in", *(delayed(f"{part} {n}".encode(), rand.randrange(2500), message_id=f"{part}-{n}", headers=to)
                                          for n in range(150)))
        time.sleep(rand.random() * 0.3)
        server.kill()
        server.start()
    wanted = {f"{part} {n}" for part in range(3) for n in range(150)}
    eventually(lambda: arrived.extend(broker.messages("crash-out", 1, seconds=1)) or wanted <= {body.decode() for _, _, body, _ in arrived},
               seconds=30)
    totals = server.client().topic("amqp-in")["totals"]
    assert totals["pushed"] == 450, f"a message made two jobs, seed {SEED}"
    copies = collections.Counter(body for _, _, body, _ in arrived)
    assert max(copies.values()) <= 4, f"one for each life of the server at most, seed {SEED}"
    assert in_queue(broker, "crash-in") == 0


def test_messages_rejected_by_the_store_stay_at_the_broker(broker, start_in):
    broker.queue("refused-in"), broker.queue("refused-out")
    with RedisServer(aof="always") as redis:
        server = start_in("refused-in", "--store", redis.url, "--store-timeout", "1s", more="&prefetch=20")
        client = server.client()
        eventually(lambda: metric(client, "tarry_amqp_in_connected") == 1)
        redis.kill()
        publish(broker, "", "refused-in", *(delayed(b"%d" % n, 100, message_id=f"{n}", headers={"x-routing-key": "refused-out"}) for n in range(60)))
        eventually(lambda: metric(client, "tarry_amqp_in_paused") == 1)
        assert metric(client, "tarry_amqp_in_received_total") == 20 and in_queue(broker, "refused-in") == 40, "the prefetch is the bound"
        redis.start()
        got = {body for _, _, body, _ in broker.messages("refused-out", 60, seconds=30)}
    assert got == {b"%d" % n for n in range(60)}
    assert server.log().count('event="amqp-in paused"') == 1, "logged once"
    with contextlib.suppress(Exception):
        server.kill()


class Raw(pika.BasicProperties):
    """Properties of which only the headers are set: an encoded table, as no client library would write it."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def encode(self):
        return [struct.pack(">HI", 1 << 13, len(self.table)), self.table]


def nested(opening, levels):
    """A header 'n' with tables ("F") or arrays ("A") within each other."""
    field = b""
    for _ in range(levels):
        field = struct.pack(">cI", opening, len(field)) + (b"\x01k" if opening == b"F" and field else b"") + field
        if opening == b"F":
            inner = field[5:]
            field = struct.pack(">cI", b"F", len(inner)) + inner
    return b"\x01n" + field


UNREADABLE = {
    "a header without a name": b"\x00S\x00\x00\x00\x01x",
    "one in a table": b"\x01nF\x00\x00\x00\x07\x00S\x00\x00\x00\x01x",
    "one in an array": b"\x01nA\x00\x00\x00\x0cF\x00\x00\x00\x07\x00S\x00\x00\x00\x01x",
}


@pytest.mark.parametrize("table", UNREADABLE.values(), ids=UNREADABLE)
def test_a_message_that_cannot_be_decoded_is_rejected_and_holds_up_nothing(table, broker, start_in):
    broker.queue("odd-in", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "odd-dead"}), broker.queue("odd-dead"), broker.queue("odd-out")
    server = start_in("odd-in")
    client = server.client()
    publish(broker, "", "odd-in", *(delayed(b"before %d" % n, 10, headers={"x-routing-key": "odd-out"}) for n in range(20)))
    publish(broker, "", "odd-in", (b"odd", Raw(table)))
    publish(broker, "", "odd-in", *(delayed(b"after %d" % n, 10, headers={"x-routing-key": "odd-out"}) for n in range(20)), (b"odd", Raw(table)))
    got = [body for *_, body, _ in broker.messages("odd-out", 40)]
    assert sorted(got) == sorted([b"before %d" % n for n in range(20)] + [b"after %d" % n for n in range(20)])
    assert [body for *_, body, _ in broker.messages("odd-dead", 2)] == [b"odd", b"odd"]
    assert metric(client, "tarry_amqp_in_rejected_total") == 2
    assert server.log().count("amqp-in not connected") == 0 and server.log().count("amqp-in connected") == 1
    assert server.log().count("amqp-in message rejected") == 2 and in_queue(broker, "odd-in") == 0


@pytest.mark.parametrize("opening", [b"F", b"A"], ids=["tables", "arrays"])
@pytest.mark.parametrize("levels", [20, 1000, 12000])
def test_headers_within_each_other_break_nothing_however_deep(levels, opening, broker, start_in):
    broker.queue("deep-in"), broker.queue("deep-out")
    server = start_in("deep-in")
    publish(broker, "", "deep-in", (b"deep", Raw(nested(opening, levels))))
    publish(broker, "", "deep-in", delayed(b"plain", 10, headers={"x-routing-key": "deep-out"}))
    assert [body for *_, body, _ in broker.messages("deep-out", 1)] == [b"plain"]
    eventually(lambda: metric(server.client(), "tarry_amqp_in_received_total") >= 2)
    assert server.log().count("amqp-in not connected") == 0


def test_connections_that_end_before_a_message_are_one_outage_with_growing_pauses(broker, start_in):
    broker.queue("flap-in"), broker.queue("flap-out")
    server = start_in("flap-in")
    client = server.client()
    for made in range(1, 5):
        eventually(lambda: metric(client, "tarry_amqp_in_connections_total") == made and metric(client, "tarry_amqp_in_connected") == 1)
        broker.ctl("close_all_connections", "a test")
    eventually(lambda: metric(client, "tarry_amqp_in_connections_total") == 5)
    log = server.log()
    assert log.count("amqp-in not connected") == 1 and log.count("amqp-in connected") == 1
    publish(broker, "", "flap-in", delayed(b"plain", 10, headers={"x-routing-key": "flap-out"}))
    assert len(broker.messages("flap-out", 1)) == 1
    eventually(lambda: server.log().count("amqp-in connected") == 2)


def test_an_invalid_address_is_rejected(start_server, tmp_path, broker):
    policy = write_policy(tmp_path / "policy")
    server = start_server("--deliver", policy, "--amqp-in", "amqp://user:secret@127.0.0.1/?queue=a", started=False).launch()
    assert server.proc.wait(20) != 0 and "policy file" in server.log() and "secret" not in server.log()
    server.proc = None
    server = start_server("--amqp-in", f"{broker.url}?queue=a", started=False).launch()
    assert server.proc.wait(20) != 0 and "--deliver" in server.log()
    server.proc = None


@pytest.mark.parametrize("limit, at_most", [({"push_rate": "3/h"}, 3), ({"max_jobs": 3}, 3)], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_messages_beyond_a_limit_wait_at_the_broker(limit, at_most, broker, start_in):
    """Messages are neither refused nor lost: once the limit is raised, all come in."""
    (name,) = limit
    queue = f"limited-{name.replace('_', '-')}"
    broker.queue(queue, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": broker.queue(queue + "-dead")})
    client = start_in(queue, more="&prefetch=4").client()
    assert client.call("PATCH", "/v1/topics/amqp-in", json.dumps(limit).encode()).ok
    time.sleep(0.5)  # the server is notified
    publish(broker, "", queue, *(delayed(b"x", 3_600_000, headers={"x-routing-key": "elsewhere"}) for _ in range(8)))
    eventually(lambda: client.topic("amqp-in")["counts"]["delayed"] == at_most and metric(client, "tarry_amqp_in_paused") == 1)
    time.sleep(1)
    assert client.topic("amqp-in")["counts"]["delayed"] == at_most and in_queue(broker, queue) >= 1, "not all were fetched"
    assert client.call("PATCH", "/v1/topics/amqp-in", json.dumps({name: None}).encode()).ok
    eventually(lambda: client.topic("amqp-in")["counts"]["delayed"] == 8)
    assert metric(client, "tarry_amqp_in_rejected_total") == 0 and in_queue(broker, queue + "-dead") == 0


def test_messages_wait_at_the_broker_while_new_jobs_are_refused(broker, start_in):
    dead = broker.queue("drained-dead")
    broker.queue("drained-in", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    client = start_in("drained-in").client()
    assert client.call("POST", "/v1/drain").ok
    publish(broker, "", "drained-in", delayed(b"x", 3_600_000, headers={"x-routing-key": "elsewhere"}))
    eventually(lambda: metric(client, "tarry_amqp_in_paused") == 1)
    assert client.call("DELETE", "/v1/drain").ok
    eventually(lambda: client.topic("amqp-in")["counts"]["delayed"] == 1)
    assert in_queue(broker, dead) == 0
