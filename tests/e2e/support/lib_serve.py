"""
A program with the library in its process, which answers the calls of the loops' clients as a server does: so that the checks of the server, after
kill -9 (kill_loop.py) and after power cuts (power_loss.py), also check the library.

    python3 tests/e2e/support/lib_serve.py --library build/libtarry.so --data DIR --listen 127.0.0.1:0 [--sync always] [--shards 1] [--wal-file 4MiB]

It serves the part of the API that those clients use. A call that the library answers is answered to the client.
"""

import argparse
import base64
import datetime
import json
import os
import re
import signal
import socket
import sys
import threading
import urllib.parse

from lib_calls import FINAL, HAS_AT, HAS_DELAY, STATES, SYNCS, WITH_BODY, Answer, Change, Library, Push, Refused, COUNTS, TOTALS

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
CONFLICTS = {"replace": 1, "keep": 2, "reject": 3}
STATUS = {"not_found": 404, "conflict": 409, "leased": 409, "dead": 409, "lease_ended": 409, "no_space": 507, "unavailable": 503, "stopping": 503}


def ms(text):
    number, unit = re.fullmatch(r"(\d+)([a-z]*)", str(text)).groups()
    return int(number) * UNITS[unit]


def time_text(at_ms):
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def settings_of(given):
    fields = {"lease_ms": ms(given.get("lease_for", 0)), "ttl_ms": ms(given.get("ttl", 0)), "max_attempts": given.get("max_attempts", 0),
              "dedup_window_ms": ms(given.get("dedup_window", 0))}
    kind, _, waits = given.get("backoff", ":").partition(":")
    if kind:
        first, _, most = waits.partition("..")
        fields.update(backoff={"fixed": 1, "exp": 2}[kind], backoff_first_ms=ms(first), backoff_max_ms=ms(most or first))
    return fields


def shown(job):
    """Writes a job like the server's JSON."""
    reported = {name: job[name] for name in ("topic", "id", "attempt", "delivery", "state", "content_type")}
    reported["due_at"] = time_text(job["due_ms"])
    if job["lease"]:
        reported["lease"] = job["lease"]
    try:
        text = job["bytes"].decode()
        reported["body"] = json.loads(text) if job["content_type"] == "application/json" else text
    except ValueError:
        reported["body_base64"] = base64.b64encode(job["bytes"]).decode()
    return reported


def result_of(code, result):
    reported = {"result" if code in ("ok", "created", "replaced", "existed", "cancelled") else "code": code}
    if result.id:
        reported["id"] = result.id.decode()
    if result.due_ms:
        reported["due_at"] = time_text(result.due_ms)
    return reported


class Api:
    """A call each: (status, JSON)."""

    def __init__(self, queue):
        self.queue = queue

    def handle(self, method, target, headers, body):
        path, _, query = target.partition("?")
        parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
        try:
            return self._route(method, parts, urllib.parse.parse_qs(query), headers, body)
        except Refused as refused:
            return STATUS.get(refused.code, 400), {"code": refused.code, "detail": refused.detail}

    def _route(self, method, parts, query, headers, body):
        one = {name: values[0] for name, values in query.items()}
        if parts in (["readyz"], ["v1", "info"]):
            return 200, {}
        if parts == ["v1", "jobs"]:
            return self._push_batch(json.loads(body))
        if parts[1] in ("ack", "nack", "extend"):
            return self._answer(parts[1], query, body)
        if parts == ["v1", "take"]:
            return self._take(query["topic"], one)
        topic, rest = parts[2], parts[3:]
        if not rest:
            return self._topic(method, topic, body)
        if rest == ["take"]:
            return self._take([topic], one)
        if rest in (["pause"], ["resume"]):
            getattr(self.queue, rest[0])(topic)
            return 200, {}
        if rest == ["jobs"] and method == "GET":
            return self._list(topic, one)
        if method in ("PUT", "POST") and len(rest) < 3:
            return self._push(topic, rest[1] if len(rest) > 1 else None, one, headers, body)
        if method == "GET":
            return 200, shown(self.queue.get(topic, rest[1]))
        return self._change({"PATCH": "reschedule", "DELETE": "cancel", "POST": "run"}[method], topic, rest[1], one)

    @staticmethod
    def _push_fields(topic, ident, options, content_type, body):
        has_at = options.get("at") is not None
        return {"topic": topic.encode(), "id": ident and ident.encode(), "body": body, "body_bytes": len(body), "content_type": content_type.encode(),
                "flags": HAS_AT if has_at else 0, "at_ms": int(options["at"]) if has_at else 0, "delay_ms": ms(options.get("delay") or 0),
                "max_attempts": int(options.get("max_attempts") or 0), "on_conflict": CONFLICTS.get(options.get("on_conflict"), 0)}

    def _push(self, topic, ident, options, headers, body):
        item = self._push_fields(topic, ident, options, headers.get("content-type", ""), body)
        ((code, result),) = self.queue.items("push", Push, [item])
        return {"created": 201, "replaced": 201, "existed": 200}.get(code) or STATUS.get(code, 400), result_of(code, result)

    def _push_batch(self, items):
        pushes = []
        for item in items:
            kind, body = item.get("content_type", ""), item.get("body")
            if "body_base64" in item:
                data = base64.b64decode(item["body_base64"])
            elif kind == "application/json" or not isinstance(body, str):
                data = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
            else:
                data = body.encode()
            pushes.append(self._push_fields(item["topic"], item.get("id"), item, kind, data))
        return 200, {"results": [result_of(*reported) for reported in self.queue.items("push", Push, pushes)]}

    def _answer(self, verb, query, body):
        leases = query.get("lease") or json.loads(body)["leases"]
        one = {name: values[0] for name, values in query.items()}
        fields = {"flags": HAS_DELAY if "delay" in one else 0, "delay_ms": ms(one.get("delay", 0)), "lease_ms": ms(one.get("lease_for", 0))}
        if one.get("error"):
            fields["error"] = one["error"].encode()
        if one.get("final"):
            fields["flags"] |= FINAL
        reported = self.queue.items(verb, Answer, [{"lease": lease.encode(), **fields} for lease in leases])
        return 200, {"results": [result_of(*one_of) for one_of in reported]}

    def _change(self, verb, topic, ident, options):
        fields = {"flags": 0}
        if "delay" in options:
            fields = {"flags": HAS_DELAY, "delay_ms": ms(options["delay"])}
        if "at" in options:
            fields = {"flags": HAS_AT, "at_ms": int(options["at"])}
        ((code, result),) = self.queue.items(verb, Change, [{"topic": topic.encode(), "id": ident.encode(), **fields}])
        return (200 if code in ("ok", "cancelled") else STATUS.get(code, 400)), result_of(code, result)

    def _take(self, topics, options):
        jobs = self.queue.take(topics, int(options.get("max", 1)), ms(options.get("wait", 0)), ms(options.get("lease_for", 0)))
        return 200, {"jobs": [shown(job) for job in jobs]}

    def _list(self, topic, options):
        state = {name: number for number, name in STATES.items()}.get(options.get("state"), 0)
        jobs, cursor = self.queue.list(topic, state, int(options.get("limit", 100)), options.get("cursor", ""), WITH_BODY)
        return 200, {"jobs": [shown(job) for job in jobs], **({"cursor": cursor} if cursor else {})}

    def _topic(self, method, topic, body):
        if method == "PUT":
            return 200, {"result": self.queue.put_topic(topic, **settings_of(json.loads(body or b"{}")))}
        reported = self.queue.topic(topic)
        return 200, {"topic": topic, "counts": {name: getattr(reported, name) for name in COUNTS}, "totals": {name: getattr(reported, name) for name in TOTALS}}


class Connection(threading.Thread):
    def __init__(self, api, connected):
        super().__init__(daemon=True)
        self.api, self.socket, self.pending = api, connected, bytearray()

    def run(self):
        try:
            while self._one():
                pass
        except OSError:
            pass
        self.socket.close()

    def _more(self):
        got = self.socket.recv(1 << 18)
        self.pending += got
        return bool(got)

    def _one(self):
        while (end := self.pending.find(b"\r\n\r\n")) < 0:
            if not self._more():
                return False
        first, *lines = bytes(self.pending[:end]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        whole = end + 4 + int(headers.get("content-length", 0))
        while len(self.pending) < whole:
            if not self._more():
                return False
        method, target, _ = first.split(" ")
        status, reported = self.api.handle(method, target, headers, bytes(self.pending[end + 4:whole]))
        del self.pending[:whole]
        text = json.dumps(reported, separators=(",", ":")).encode()
        self.socket.sendall(f"HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--sync", default="always")
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--wal-file", default="64MiB")
    chosen = parser.parse_args()
    options = {"sync_interval_ms": ms(chosen.sync), "sync": 2} if chosen.sync not in SYNCS else {"sync": SYNCS[chosen.sync]}
    queue = Library(chosen.library).open(chosen.data, shards=chosen.shards, wal_file_bytes=int(chosen.wal_file.removesuffix("MiB")) << 20, **options)
    host, _, port = chosen.listen.rpartition(":")
    listening = socket.create_server((host, int(port)), backlog=100)

    def stop(_number, _frame):
        code = queue.close()
        sys.stderr.write(f"event=stopped code={code}\n")
        os._exit(0 if code == "ok" else 1)  # threads may be within calls, whose answers are not read

    signal.signal(signal.SIGTERM, stop)
    sys.stderr.write(f"event=listening address={host}:{listening.getsockname()[1]}\n")
    sys.stderr.flush()
    api = Api(queue)
    while True:
        connected, _ = listening.accept()
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Connection(api, connected).start()


if __name__ == "__main__":
    main()
