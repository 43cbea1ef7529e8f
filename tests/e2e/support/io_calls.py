"""The HTTP calls in a trace of a server: the times of each request and of the start of its answer, and the content of both."""

import datetime
import json
import urllib.parse

from io_trace import RECEIVED, SENDING, WRITTEN


class Call:
    __slots__ = ("asked", "answered", "method", "path", "query", "headers", "body", "status", "answer")

    def __init__(self, asked, head, body):
        first, *rest = head.decode("latin-1").split("\r\n")
        self.method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        self.path = [urllib.parse.unquote(part) for part in path.split("/")[2:]]  # behind /v1
        self.query = urllib.parse.parse_qs(query)
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        self.asked, self.body = asked, body
        self.answered = self.status = self.answer = None

    @property
    def ok(self):
        return self.answered is not None and 200 <= self.status < 300

    def json(self):
        return json.loads(self.answer) if self.answer else {}


class _Stream:
    """Bytes with the time of each: the begins of messages, and the messages one after the other."""

    def __init__(self):
        self.pending, self.moments, self.start = bytearray(), [], 0  # moments: (offset in the stream, moment)

    def add(self, moment, data):
        self.moments.append((self.start + len(self.pending), moment))
        self.pending += data

    def cut_last(self, count):
        """The last so many bytes were not sent after all."""
        if count:
            del self.pending[-count:]

    def messages(self):
        """Yields (moment of the first byte, head, body) of whole messages, and takes them out."""
        while (end := self.pending.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.pending[:end])
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            if len(self.pending) < end + 4 + length:
                return
            yield self._moment(), head, bytes(self.pending[end + 4:end + 4 + length])
            del self.pending[:end + 4 + length]
            self.start += end + 4 + length

    def _moment(self):
        while len(self.moments) > 1 and self.moments[1][0] <= self.start:
            self.moments.pop(0)
        return self.moments[0][1]


class Calls:
    """Give it the records one by one; `all` is every call in the order asked."""

    def __init__(self):
        self.all, self._in, self._out, self._open, self._sent = [], {}, {}, {}, {}

    def follow(self, record):
        if record.kind == RECEIVED:
            stream = self._in.setdefault(record.id, _Stream())
            stream.add(record.at, record.data)
            for moment, head, body in stream.messages():
                call = Call(moment, head, body)
                self.all.append(call)
                self._open.setdefault(record.id, []).append(call)
        elif record.kind == SENDING:
            self._out.setdefault(record.id, _Stream()).add(record.at, record.data)
            self._sent[record.id] = len(record.data)
        elif record.kind == WRITTEN and record.id in self._sent:
            self._out[record.id].cut_last(self._sent.pop(record.id) - max(record.b, 0))
            self._answers(record.id)

    def _answers(self, connection):
        for moment, head, body in self._out[connection].messages():
            status = int(head.split(b" ", 2)[1])
            if status == 100:
                continue
            call = self._open[connection].pop(0)
            call.answered, call.status, call.answer = moment, status, body


DONE = ("created", "replaced", "ok")


class Change:
    """The effect of one call on one job, or on a topic: `what` is push, existed, ack, nack, cancel, reschedule, topic. `due`: by the wall clock, as requested;
    `shown`: as answered; `paused`: the requested state of a topic, None: neither."""

    __slots__ = ("what", "topic", "id", "asked", "answered", "body", "due", "shown", "lease", "error", "paused")

    def __init__(self, what, call, topic, ident=None, result=None, **more):
        self.what, self.topic, self.id, self.asked, self.answered = what, topic, ident, call.asked, call.answered
        self.body, self.due, self.lease, self.error = more.get("body"), more.get("due"), more.get("lease"), more.get("error")
        self.paused = more.get("paused")
        self.shown = _moment(result["due_at"]) if result and "due_at" in result else None

    def __repr__(self):
        return f"{self.what} of {self.topic}/{self.id} asked at {self.asked}, answered at {self.answered}"


class Changes:
    """Converts calls to changes. A call without an answer counts as one that may have been carried out (answered None)."""

    def __init__(self, calls):
        self.leases, self.all = {}, []  # lease -> (topic, id)
        calls = [call for call in calls if call.path]
        for call in sorted(calls, key=lambda call: call.answered or call.asked):
            if call.path[-1] == "take" and call.ok:
                for job in call.json()["jobs"]:
                    self.leases[job["lease"]] = (job["topic"], job["id"])
        for call in calls:
            self.all += self._of(call)

    def _of(self, call):
        if call.answered is not None and not call.ok:
            return []
        kind, verb = call.path[0], call.path[-1]
        if call.method in ("GET", "HEAD") or verb == "take":
            return []
        if kind in ("ack", "nack"):
            return self._answers(call, kind)
        if kind == "jobs":
            return self._batch(call)
        if kind == "topics" and len(call.path) == 2 or verb in ("pause", "resume"):
            return [Change("topic", call, call.path[1], paused={"pause": True, "resume": False}.get(verb))]
        if kind == "topics" and len(call.path) == 4:
            return [self._one(call)]
        raise AssertionError(f"a call that is not followed: {call.method} {call.path}")

    @staticmethod
    def _one(call):
        topic, ident = call.path[1], call.path[3]
        if call.method == "PUT":
            existed = call.answered is not None and call.json()["result"] == "existed"
            return Change("existed" if existed else "push", call, topic, ident, call.json(), body=call.body, due=_at(call.query))
        if call.method == "PATCH":
            return Change("reschedule", call, topic, ident, call.json(), due=_at(call.query))
        assert call.method == "DELETE", call.method
        return Change("cancel", call, topic, ident)

    @staticmethod
    def _batch(call):
        items = json.loads(call.body)
        results = call.json()["results"] if call.ok else [None] * len(items)
        return [Change("push", call, item["topic"], item["id"], result, body=item["body"].encode(), due=item.get("at"))
                for item, result in zip(items, results, strict=True) if result is None or result["result"] in DONE]

    def _answers(self, call, kind):
        results = call.json()["results"] if call.ok else [None] * len(call.query["lease"])
        error = call.query.get("error", [None])[0]
        return [Change(kind, call, *self.leases[lease], result, lease=lease, error=error)
                for lease, result in zip(call.query["lease"], results, strict=True) if result is None or result["result"] in DONE]


def _moment(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def _at(query):
    return int(query["at"][0]) if "at" in query else None
