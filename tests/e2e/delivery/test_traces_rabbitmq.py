"""A trace goes through RabbitMQ: in by --amqp-in, out by push delivery, with spans of tarry's own between."""

import pika
import pytest
import rabbitmq
from collector import Collector
from server import eventually

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(scope="module")
def broker():
    return rabbitmq.shared()


def test_messages_go_out_with_the_span_that_sent_them(broker, start_delivering):
    broker.queue("traced-in"), broker.queue("traced-out"), broker.queue("traced-pushed")
    with Collector() as collector:
        server = start_delivering("--sync", "never", "--shards", "1", "--otlp", collector.url, "--amqp-in", f"{broker.url}?queue=traced-in")
        client = server.client()
        client.put_topic("orders", deliver={"to": broker.url, "routing_key": "traced-pushed"})
        with broker.channel() as channel:
            channel.confirm_delivery()
            headers = {"x-delay": 100, "x-routing-key": "traced-out", "traceparent": SAMPLED, "tracestate": "a=1"}
            channel.basic_publish("", "traced-in", b"x", pika.BasicProperties(delivery_mode=2, headers=headers))
        assert client.call("PUT", "/v1/topics/orders/jobs/1", b"x", {"traceparent": SAMPLED, "tracestate": "a=1"}).status == 201
        ((_, through, _, _),) = broker.messages("traced-out", 1)
        ((_, pushed, _, _),) = broker.messages("traced-pushed", 1)
        eventually(lambda: client.call("GET", "/v1/topics/orders/jobs/1").status == 404)
        eventually(lambda: client.topic("amqp-in")["totals"]["acked"] == 1)
        assert server.terminate() == 0
        spans = {(span.operation, span.attributes["messaging.destination.name"]): span for span in collector.spans()}
    assert set(spans) == {("publish", "amqp-in"), ("push", "orders"), ("wait", "orders"), ("publish", "orders")}
    assert through.headers["traceparent"] == f"00-{TRACE}-{spans['publish', 'amqp-in'].span}-01" and spans["publish", "amqp-in"].parent == SPAN
    assert pushed.headers["traceparent"] == f"00-{TRACE}-{spans['publish', 'orders'].span}-01"
    assert spans["publish", "orders"].parent == spans["push", "orders"].span and spans["publish", "orders"].kind == "PRODUCER"
    assert through.headers["tracestate"] == pushed.headers["tracestate"] == "a=1" and "tarry-pushed" not in pushed.headers
