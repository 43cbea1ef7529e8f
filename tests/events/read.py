"""Reads one message per line, {"form", "headers", "type", "body" in base64}, with the official library; prints each event as a line of JSON."""

import base64
import json
import sys

from cloudevents.core.bindings import http, kafka, rabbitmq


def read(message):
    headers, body = message["headers"], base64.b64decode(message["body"])
    if message["form"] == "http":
        return http.from_http_event(http.HTTPMessage(headers=headers, body=body))
    if message["form"] == "rabbitmq":
        return rabbitmq.from_rabbitmq_event(rabbitmq.RabbitMQMessage(headers=headers, content_type=message["type"], body=body))
    return kafka.from_kafka_event(kafka.KafkaMessage(headers={name: value.encode() for name, value in headers.items()}, key=None, value=body))


for line in sys.stdin:
    event = read(json.loads(line))
    data = event.get_data()
    print(json.dumps({"attributes": {name: str(value) for name, value in event.get_attributes().items()},
                      "data": base64.b64encode(data).decode() if isinstance(data, bytes) else data, "is_bytes": isinstance(data, bytes)}))
