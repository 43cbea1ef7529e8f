"""Calls of the generated client of grpcio, as adapter.py describes."""

import base64
import json
import queue
import sys
import threading

import grpc
from google.protobuf import json_format
from tarry.v1 import queue_pb2 as tarry
from tarry.v1 import queue_pb2_grpc

LOCK, STREAMS = threading.Lock(), {}


def show(number, status, rest=""):
    with LOCK:
        print(number, status, rest, sep="\t", flush=True)


def text(message):
    return json.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))


def perform(stub, number, method, timeout, line):
    try:
        if method == "Work":
            for message in stub.Work(iter(STREAMS[number].get, None), timeout=timeout):
                show(number, -1, text(message))
            return show(number, 0)
        request = getattr(tarry, tarry.DESCRIPTOR.services_by_name["Queue"].methods_by_name[method].input_type.name)()
        return show(number, 0, text(getattr(stub, method)(json_format.Parse(line, request), timeout=timeout)))
    except grpc.RpcError as error:
        return show(number, error.code().value[0], base64.b64encode(dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")).decode())


with open(sys.argv[2], encoding="utf-8") as repeats:
    options = [("grpc.service_config", repeats.read()), ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500), ("grpc.keepalive_time_ms", 1000),
               ("grpc.http2.ping_timeout_ms", 2000), ("grpc.http2.max_pings_without_data", 0)]
with grpc.insecure_channel(sys.argv[1], options=options) as channel:
    calls = queue_pb2_grpc.QueueStub(channel)
    for given in sys.stdin:
        n, name, ms, body = given.rstrip("\n").split("\t")
        is_new = n not in STREAMS
        if name == "Work":
            STREAMS.setdefault(n, queue.Queue()).put(json_format.Parse(body, tarry.WorkRequest()) if body else None)
        if is_new:
            threading.Thread(target=perform, args=(calls, n, name, int(ms) / 1000, body), daemon=True).start()
