"""docs/moving/rabbitmq.md: its script empties a real queue with a TTL into tarry, and what waited comes where it was to come, never before its time."""

import time

import pika
import rabbitmq
from endpoint import write_policy
from migration import ms_of
from moving import follow, script

PAGE = "docs/moving/rabbitmq.md"
TTL_S = 1800


def test_messages_waiting_in_a_ttl_queue_continue_to_wait_in_tarry(start_server, tmp_path):
    broker = rabbitmq.shared()
    broker.queue("tarry-in"), broker.queue("moving-work")
    broker.queue("delay.30m", **{"x-message-ttl": TTL_S * 1000, "x-dead-letter-exchange": "moving-shop"})
    now = int(time.time())
    messages = {b"overdue": {"timestamp": now - TTL_S - 60}, b"soon": {"timestamp": now - TTL_S + 5, "expiration": str(TTL_S * 1000)},
                b"its own": {"expiration": "60000"}, b"not known": {}}
    with broker.channel() as channel:
        channel.exchange_declare("moving-shop", "topic", durable=True)
        channel.queue_bind("moving-work", "moving-shop", "order.*.close")
        channel.exchange_declare("moving-wait", "fanout", durable=True)
        channel.queue_bind("delay.30m", "moving-wait")
        channel.confirm_delivery()
        for body, properties in messages.items():
            channel.basic_publish("moving-wait", "order.7.close", body, pika.BasicProperties(delivery_mode=2, headers={"n": 1}, **properties), mandatory=True)
    (tmp_path / "waiting.py").write_text(script(PAGE))
    server = start_server("--sync", "always", "--shards", "1", "--deliver", write_policy(tmp_path / "policy"), "--amqp-in", f"{broker.url}?queue=tarry-in")
    began = time.time()
    follow(PAGE, tmp_path, server, {"python3 waiting.py amqp://mq.internal:5672/": f"/usr/bin/python3 waiting.py {broker.url}", "1800000 shop": "1800000 moving-shop"},
           lambda command: "waiting.py" in command)
    came = {body: (method, properties, when) for method, properties, body, when in broker.messages("moving-work", 2, 20)}
    assert set(came) == {b"overdue", b"soon"} and came[b"soon"][2] >= now + 5, "never before it was published and its TTL"
    for method, properties, _ in came.values():
        assert (method.exchange, method.routing_key, properties.expiration, properties.headers["n"]) == ("moving-shop", "order.7.close", None, 1)
    jobs = server.client().list("amqp-in", body="true")["jobs"]
    assert {job["body"]: job["state"] for job in jobs} == {"its own": "delayed", "not known": "delayed"}
    for job, seconds in zip(jobs, (60, TTL_S)):
        assert began + seconds <= ms_of(job["due_at"]) / 1000 < began + seconds + 60, "never earlier"
    with broker.channel() as channel:
        assert channel.queue_declare("delay.30m", passive=True).method.message_count == 0
