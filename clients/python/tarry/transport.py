"""Requests and answers: connections that are used again, what is asked again and when. docs/clients.md has the rules."""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from .errors import TarryError, Unavailable, error_of

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
AGAIN = (429, 502, 503, 504)
_BROKEN = (OSError, http.client.HTTPException)

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    retry_after: float | None

    def json(self) -> dict[str, object]:
        try:
            found = json.loads(self.body) if self.body else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds from either form of the header. A date is compared with the answer's own Date, because the local clock may be wrong."""
    text = headers.get("Retry-After")
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp() if headers.get("Date") else time.time()
        return max(0.0, then.timestamp() - now)
    except (ValueError, TypeError):
        return None


class Place:
    """A server, and how a connection to it is made."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"bad URL '{url}', give one like http://127.0.0.1:8279")
        self.tls = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port or (443 if self.tls else 8279)
        self.prefix = parts.path.rstrip("/")

    def connect(self, timeout: float, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


class Cut:
    """Cuts a request from another thread: the socket it waits on is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self.is_cut = False

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            found = self._connection
            if found is not None and found.sock is not None:
                try:
                    found.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def hold(self, connection: http.client.HTTPConnection | None) -> None:
        with self._lock:
            self._connection = connection


class Transport:
    """Requests and answers. Any number of threads may use it in parallel; a connection serves one request at a time, and is kept for the next."""

    def __init__(self, url: str, token: str | None, timeout: float, retry_for: float, context: ssl.SSLContext | None) -> None:
        self.places = [Place(one.strip()) for one in url.split(",") if one.strip()]
        if not self.places:
            raise ValueError("no URL, give one like http://127.0.0.1:8279")
        self.timeout, self.retry_for, self.context = timeout, retry_for, context
        self._headers = {"User-Agent": "tarry-python"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()
        self._at = 0
        self._process = os.getpid()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    # ---- one request ----

    def _lend(self, timeout: float) -> tuple[int, http.client.HTTPConnection]:
        with self._lock:
            if self._process != os.getpid():  # a child of fork must not speak on its parent's connections
                self._idle, self._process = [], os.getpid()
            while self._idle:
                at, connection = self._idle.pop()
                if at == self._at and connection.sock is not None:
                    connection.sock.settimeout(timeout)
                    return at, connection
                connection.close()
            at = self._at
        return at, self.places[at].connect(timeout, self.context)

    def _next_place(self, failed: int) -> None:
        with self._lock:
            if failed == self._at:
                self._at = (self._at + 1) % len(self.places)

    def once(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cut: Cut | None = None,
    ) -> Answer:
        """One try. OSError or HTTPException: there is no answer."""
        at, connection = self._lend(self.timeout if timeout is None else timeout)
        target = self.places[at].prefix + path
        if query:
            target += "?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        try:
            if cut is not None:
                cut.hold(connection)
                if cut.is_cut:
                    raise ConnectionAbortedError("cut")
            if connection.sock is None:
                connection.connect()
                assert connection.sock is not None
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request(method, target, body if body is not None else b"" if method in ("POST", "PUT") else None, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            data = response.read()
        except BaseException as fault:
            connection.close()
            if isinstance(fault, _BROKEN):
                self._next_place(at)
            raise
        finally:
            if cut is not None:
                cut.hold(None)
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append((at, connection))
        if response.status in (502, 503, 504):
            self._next_place(at)
        found = dict(response.headers.items())
        return Answer(response.status, data, retry_after_of({"Retry-After": found["Retry-After"], "Date": found.get("Date", "")} if "Retry-After" in found else {}))

    # ---- until there is an answer ----

    def call(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = True,
        timeout: float | None = None,
        retry_for: float | None = None,
        longest_pause: float = LONGEST_PAUSE,
        goes_on: Callable[[], bool] = lambda: True,
        tries: list[int] | None = None,
    ) -> dict[str, object]:
        """The answer of a call that was carried out; else the error. `tries` gets how many tries may have been carried out before the answer."""
        limit = time.monotonic() + (self.retry_for if retry_for is None else retry_for)
        pause, is_last = FIRST_PAUSE, False
        while True:
            wait: float | None = None
            fault: TarryError
            try:
                answer = self.once(method, path, query, body, headers, timeout)
                if answer.status < 300:
                    return answer.json()
                fault, wait = error_of(answer.status, answer.json(), answer.retry_after), answer.retry_after
                if answer.status not in AGAIN:
                    raise fault
                if answer.status in (502, 504) and tries is not None:
                    tries.append(answer.status)
            except _BROKEN as broken:
                fault = Unavailable(f"no answer: {broken or type(broken).__name__}", code="no_answer")
                fault.__cause__ = broken
                if tries is not None:
                    tries.append(0)
            if not again:
                raise fault
            if wait is None:
                wait = pause * random.uniform(0.5, 1)
                pause = min(2 * pause, longest_pause)
            left = limit - time.monotonic()
            if is_last or not goes_on() or (wait > left and fault.retry_after is not None):
                raise fault
            is_last = wait >= left  # the last try is at the limit, not before it
            time.sleep(max(0.0, min(wait, left)))
