"""A small HTTP client for the tests: one connection per thread, kept alive; nothing clever, nothing shared with the server."""

import json
import os
import socket
import threading
import urllib.parse

import doors

READ_BYTES = 256 * 1024


class Lost(Exception):
    """The connection died before the whole reply was there: the call may have happened, or not."""


class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, reply):
        self.reply, self.status, self.code = reply, reply.status, reply.code
        super().__init__(f"{reply.status} {reply.body[:300]!r}")


class Reply:
    __slots__ = ("status", "headers", "body", "version")

    def __init__(self, version, status, headers, body):
        self.version, self.status, self.headers, self.body = version, status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def ok(self):
        return 200 <= self.status < 300

    @property
    def code(self):
        """The stable code of a problem; None if the reply is not a problem."""
        if "json" not in self.headers.get("content-type", ""):
            return None
        return self.json().get("code")

    @property
    def is_stream(self):
        """Returns true for a stream, which stays open: streams.py reads those."""
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def closes(self):
        if self.is_stream:
            return True
        connection = self.headers.get("connection", "").lower()
        return connection == "close" or (self.version == "HTTP/1.0" and connection != "keep-alive")


def request_bytes(method, target, body=b"", headers=None, host="localhost"):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    if body or method in ("PUT", "POST", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    headers = dict(headers or {})
    if doors.ON and "authorization" not in map(str.lower, headers):
        headers.update(doors.token().headers)
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + body


def dial(place, timeout, source=None, shows_certificate=True):
    """A socket to a port of 127.0.0.1 (with TLS where it is a Door), to ("::1", port), or to the path of a unix socket."""
    if isinstance(place, (str, os.PathLike)):
        unix = socket.socket(socket.AF_UNIX)
        unix.settimeout(timeout)
        try:
            unix.connect(os.fspath(place))
        except OSError:
            unix.close()
            raise
        return unix
    address = place if isinstance(place, tuple) else ("127.0.0.1", int(place))
    tcp = socket.create_connection(address, timeout=timeout, source_address=(source, 0) if source else None)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not isinstance(place, doors.Door):
        return tcp
    try:
        return doors.wrap(tcp, shows_certificate)
    except OSError as fault:  # one that is cut off is a connection that was not made
        tcp.close()
        raise ConnectionResetError(str(fault)) from fault


class Connection:
    """A socket, connected by `dial`. Requests may be pipelined: send several, then read as many replies."""

    def __init__(self, place, timeout=30.0, source=None, shows_certificate=True):
        self.socket = dial(place, timeout, source, shows_certificate)
        self.pending = bytearray()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as fault:
            raise Lost(str(fault)) from fault

    def _more(self):
        try:
            got = self.socket.recv(READ_BYTES)
        except TimeoutError:
            raise
        except OSError as fault:
            raise Lost(str(fault)) from fault
        if not got:
            raise Lost("closed by the server")
        self.pending += got

    def _head(self):
        while (end := self.pending.find(b"\r\n\r\n")) < 0:
            self._more()
        head = bytes(self.pending[:end]).decode("latin-1")
        del self.pending[:end + 4]
        first, *rest = head.split("\r\n")
        version, status, *_ = first.split(" ", 2)
        headers = {}
        for line in rest:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return version, int(status), headers

    def read(self, method="GET"):
        """The next final reply; 100 Continue is passed over."""
        version, status, headers = self._head()
        while status == 100:
            version, status, headers = self._head()
        body = b""
        if method != "HEAD" and status not in (204, 304) and headers.get("content-type") != "text/event-stream":
            if "content-length" not in headers:
                raise AssertionError(f"a reply without Content-Length: {status} {headers}")
            length = int(headers["content-length"])
            while len(self.pending) < length:
                self._more()
            body = bytes(self.pending[:length])
            del self.pending[:length]
        return Reply(version, status, headers, body)

    def call(self, method, target, body=b"", headers=None):
        self.send(request_bytes(method, target, body, headers))
        return self.read(method)

    def at_end(self, timeout=5.0):
        """True where the server has closed its side, and nothing else came."""
        self.socket.settimeout(timeout)
        try:
            return not self.pending and self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


DURATIONS = {"delay", "ttl", "wait", "lease_for", "for", "dedup_window"}


def query(options):
    """Builds `?a=1&b=2`; leaves out None, gives the name of a list several times, and writes a duration that is a number in milliseconds."""
    pairs = []
    for name, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                pairs.append((name, f"{one}ms" if name in DURATIONS and isinstance(one, int) else str(one)))
    return "?" + urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote) if pairs else ""


def segment(text):
    return urllib.parse.quote(text, safe="")


class Client:
    """Verbs of the API. Each thread gets a connection of its own. `call` gives the reply as it is; the verbs raise Refused unless it is a 2xx."""

    def __init__(self, port, timeout=30.0):
        self.port, self.timeout = port, timeout
        self.local = threading.local()

    def call(self, method, target, body=b"", headers=None):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = Connection(self.port, self.timeout, shows_certificate=False)
        try:
            reply = connection.call(method, target, body, headers)
        except BaseException:
            self.close()
            raise
        if reply.closes:
            self.close()
        return reply

    def close(self):
        connection = getattr(self.local, "connection", None)
        if connection:
            connection.close()
            self.local.connection = None

    def good(self, method, target, body=b"", headers=None):
        reply = self.call(method, target, body, headers)
        if not reply.ok:
            raise Refused(reply)
        return reply.json() if reply.body and "json" in reply.headers.get("content-type", "") else reply

    # ---- jobs ----

    def push(self, topic, ident=None, body=b"x", content_type="text/plain", meta=None, **options):
        headers = {"Content-Type": content_type} if content_type else {}
        headers.update({"Tarry-Meta-" + name: value for name, value in (meta or {}).items()})
        target = f"/v1/topics/{segment(topic)}/jobs" + (f"/{segment(ident)}" if ident is not None else "")
        return self.good("PUT" if ident is not None else "POST", target + query(options), body, headers)

    def push_batch(self, items, ndjson=False):
        if ndjson:
            body = b"".join(json.dumps(item).encode() + b"\n" for item in items)
            return self.good("POST", "/v1/jobs", body, {"Content-Type": "application/x-ndjson"})["results"]
        return self.good("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"})["results"]

    def get(self, topic, ident):
        return self.good("GET", job_path(topic, ident))

    def reschedule(self, topic, ident, **options):
        return self.good("PATCH", job_path(topic, ident) + query(options))

    def cancel(self, topic, ident):
        return self.good("DELETE", job_path(topic, ident))

    def run(self, topic, ident):
        return self.good("POST", job_path(topic, ident) + "/run")

    def list(self, topic, **options):
        return self.good("GET", f"/v1/topics/{segment(topic)}/jobs" + query(options))

    # ---- consumers ----

    def take(self, *topics, **options):
        if len(topics) == 1:
            return self.good("POST", f"/v1/topics/{segment(topics[0])}/take" + query(options))["jobs"]
        return self.good("POST", "/v1/take" + query({"topic": topics, **options}))["jobs"]

    def answer(self, verb, leases, **options):
        leases = [leases] if isinstance(leases, str) else leases
        return self.good("POST", f"/v1/{verb}" + query({"lease": leases, **options}))["results"]

    def ack(self, *leases):
        return self.answer("ack", list(leases))

    def nack(self, *leases, **options):
        return self.answer("nack", list(leases), **options)

    def extend(self, *leases, **options):
        return self.answer("extend", list(leases), **options)

    # ---- topics ----

    def topic(self, name):
        return self.good("GET", f"/v1/topics/{segment(name)}")

    def topics(self):
        return self.good("GET", "/v1/topics")["topics"]

    def put_topic(self, name, **settings):
        return self.good("PUT", f"/v1/topics/{segment(name)}", json.dumps(settings).encode(), {"Content-Type": "application/json"})

    def topic_verb(self, name, verb, **options):
        return self.good("POST", f"/v1/topics/{segment(name)}/{verb}" + query(options))

    def delete_topic(self, name):
        return self.good("DELETE", f"/v1/topics/{segment(name)}")


def job_path(topic, ident):
    return f"/v1/topics/{segment(topic)}/jobs/{segment(ident)}"
