"""Loaded by schemathesis (SCHEMATHESIS_HOOKS). Most of its invented values are rejected, so half of the parameters get a value that works, and the thing that
it names exists: calls then reach jobs, leases and topics. No take waits long. TARRY_URL is the server.
"""

import json
import os
import uuid
import zlib

import requests
import schemathesis

URL = os.environ["TARRY_URL"]
WORKING = {"delay": "1s", "ttl": "1d", "lease_for": "30s", "dedup_window": "1h", "push_rate": "1000000/s", "backoff": "exp:1s..1m", "at": "2026-01-01T00:00:00Z",
           "died_after": "2026-01-01T00:00:00Z", "died_before": "2099-01-01T00:00:00Z", "topic": "orders", "id": "42", "code": "not_found", "file": "main.js"}
own = requests.Session()


def is_to_work(name, value):
    """Chooses about every other value, and always the same ones."""
    return zlib.crc32(f"{name}={value!r}".encode()) % 2 == 0


def is_text(value):
    return isinstance(value, (str, int, float, bool)) or value is None


def fresh_lease():
    # A group of its own, because a `hold` stops the group of the job.
    own.post(URL + f"/v1/topics/leased/jobs?group={uuid.uuid4()}", data=b"{}").raise_for_status()
    return own.post(URL + "/v1/topics/leased/take").json()["jobs"][0]["lease"]


@schemathesis.hook
def before_call(context, case, kwargs):
    for place in (case.path_parameters, case.query):
        for name, value in (place or {}).items():
            if name == "wait":
                place[name] = "1ms"
            elif name == "lease" and is_to_work(name, value):
                place[name] = [fresh_lease()]
            elif name in WORKING and is_text(value) and is_to_work(name, value):
                place[name] = WORKING[name]
    named = case.path_parameters or {}
    if named.get("topic") == "orders":
        own.put(URL + "/v1/topics/orders/jobs/42", params={"delay": "1h"}, data=b"{}")
        if case.operation.path.endswith("/deliver-test"):
            named["topic"] = "sent"


@schemathesis.serializer("application/x-ndjson")
def write_line(context, value):
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"


@schemathesis.deserializer("application/x-ndjson")
def read_first_line(context, response):
    return json.loads((response.content if isinstance(response.content, bytes) else response.content.encode()).split(b"\n")[0])
