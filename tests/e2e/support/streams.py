"""Reads streams of server-sent events."""

import json
import time

from client import Connection, Refused, Reply, request_bytes
from server import time_limit


class Ended(Exception):
    """The server ended the stream."""


class Stream:
    """A call that stays open, over a connection of its own or a given one. `next` waits for the next event; comments are skipped."""

    def __init__(self, place, target, headers=None, timeout=30.0):
        self.connection = place if isinstance(place, Connection) else Connection(place, timeout)
        self.connection.send(request_bytes("GET", target, headers=headers))
        version, status, self.headers = self.connection._head()
        self.text, self.retry_ms = bytearray(), None
        if status != 200:
            length = int(self.headers["content-length"])
            while len(self.connection.pending) < length:
                self.connection._more()
            self.close()
            raise Refused(Reply(version, status, self.headers, bytes(self.connection.pending[:length])))
        assert self.headers["content-type"] == "text/event-stream" and self.headers["cache-control"] == "no-store", self.headers

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _chunk(self):
        """The next one of the body's."""
        pending = self.connection.pending
        while (end := pending.find(b"\r\n")) < 0:
            self.connection._more()
        length = int(pending[:end], 16)
        while len(pending) < end + 2 + length + 2:
            self.connection._more()
        self.text += pending[end + 2:end + 2 + length]
        del pending[:end + 2 + length + 2]
        if not length:
            raise Ended

    def next(self, timeout=10.0):
        """(event, data). Comments do not make it wait for longer."""
        limit = time.monotonic() + time_limit(timeout)
        while True:
            while (end := self.text.find(b"\n\n")) < 0:
                self.connection.socket.settimeout(max(limit - time.monotonic(), 0.01))
                self._chunk()
            block = bytes(self.text[:end]).decode()
            del self.text[:end + 2]
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "retry" in fields:
                self.retry_ms = int(fields["retry"])
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])

    def data(self, event, holds=lambda data: True, timeout=20.0):
        """The data of the next event of this name for which `holds`."""
        return self.until(lambda name, data: name == event and holds(data), timeout)[-1][1]

    def until(self, wanted, timeout=20.0):
        """Reads all events up to the first for which `wanted(event, data)`."""
        found, limit = [], time.monotonic() + timeout
        while not found or not wanted(*found[-1]):
            found.append(self.next(max(limit - time.monotonic(), 0.01)))
        return found

    def end(self, timeout=20.0):
        """Reads the rest until the server ends it."""
        found = []
        try:
            while True:
                found.append(self.next(timeout))
        except Ended:
            return found
