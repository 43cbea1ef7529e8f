"""Reads requests of OTLP/JSON, one a line, by the official definitions, strictly; writes their spans, one JSON object a line.

The mapping of OTLP differs from that of protobuf in one point: ids are hex, not base64.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_base64(value):
    if isinstance(value, list):
        return [with_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: base64.b64encode(bytes.fromhex(item)).decode() if name in IDS else with_base64(item) for name, item in value.items()}


def plain(attributes):
    assert len({one.key for one in attributes}) == len(attributes), "an attribute twice"
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def main():
    for line in sys.stdin:
        request = json_format.Parse(json.dumps(with_base64(json.loads(line))), ExportTraceServiceRequest(), ignore_unknown_fields=False)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
                    print(json.dumps({
                        "service": plain(resource.resource.attributes), "scope": scope.scope.name, "trace": span.trace_id.hex(), "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(), "state": span.trace_state, "flags": span.flags, "name": span.name, "kind": Span.SpanKind.Name(span.kind)[10:],
                        "start": span.start_time_unix_nano, "end": span.end_time_unix_nano, "attributes": plain(span.attributes),
                        "events": {event.name: event.time_unix_nano for event in span.events},
                        "status": Status.StatusCode.Name(span.status.code)[12:], "message": span.status.message}))


main()
