"""Hand-written histories for the checker's own tests. Times are milliseconds from the start; a call takes one."""

import json

from .history import MS

WALL = 1_700_000_000_000  # what the wall clock shows at 0


class Story:
    def __init__(self, **settings):
        self.lines = [{"kind": "run", "topics": {"t": settings}}]
        self.pushed_body = {}
        self.last = 0

    def add(self, kind, at, took=1, **fields):
        self.last = max(self.last, at + took)
        self.lines.append({"kind": kind, "begin": at * MS, "end": (at + took) * MS, **fields})
        return self

    def push(self, at, ident="a", outcome="created", body=None, took=1, topic="t", **own):
        body = body or f"body of {ident}"
        return self.add("push", at, took, items=[{"topic": topic, "id": ident, "body": body, "outcome": outcome, **own}])

    def nameless(self, at, body, took=1):
        return self.add("nameless", at, took, topic="t", item={"topic": "t", "body": body, "outcome": "unknown"})

    def take(self, at, ident="a", attempt=1, number=None, lease=None, body=None, took=1, lease_ms=1000, topic="t", outcome="ok"):
        if outcome == "unknown":
            return self.add("take", at, took, wall_end=None, topics=[topic], outcome="unknown", jobs=[])
        number = attempt if number is None else number
        job = {"topic": topic, "id": ident, "lease": lease or f"{ident}-{number}", "attempt": attempt, "delivery": number,
               "body": body or f"body of {ident}", "lease_ms": lease_ms}
        return self.add("take", at, took, wall_end=(WALL + at + took) * MS, topics=[topic], outcome="ok", jobs=[job])

    def unnamed(self, at, body="body of a", attempt=1, lease=None, took=1, lease_ms=1000):
        """A take by a protocol without id and number."""
        job = {"topic": "t", "id": None, "lease": lease or f"{body}-{attempt}", "attempt": attempt, "body": body, "lease_ms": lease_ms}
        return self.add("take", at, took, wall_end=(WALL + at + took) * MS, topics=["t"], outcome="ok", unnumbered=True, jobs=[job])

    def answer(self, verb, at, lease="a-1", outcome="ok", took=1, **own):
        return self.add("answer", at, took, verb=verb, items=[{"lease": lease, "outcome": outcome, **own}])

    def ack(self, at, lease="a-1", **own):
        return self.answer("ack", at, lease, **own)

    def nack(self, at, lease="a-1", delay_ms=0, **own):
        return self.answer("nack", at, lease, delay_ms=delay_ms, **own)

    def extend(self, at, lease="a-1", lease_ms=1000, **own):
        return self.answer("extend", at, lease, lease_ms=lease_ms, **own)

    def change(self, verb, at, ident="a", outcome="ok", **own):
        return self.add("change", at, verb=verb, topic="t", id=ident, outcome=outcome, **own)

    def topic(self, verb, at, outcome="ok", affected=0):
        return self.add("topic", at, verb=verb, topic="t", outcome=outcome, affected=affected)

    def look(self, at, ident="a", outcome="found", state="ready", attempt=0, body=None):
        found = {"state": state, "attempt": attempt, "body": body or f"body of {ident}"} if outcome == "found" else {}
        return self.add("look", at, topic="t", id=ident, outcome=outcome, **found)

    def kept(self, at, ident="a", state="finished", result=None):
        return self.add("kept", at, topic="t", id=ident, state=state, result=result)

    def ended(self, at, ident="a", state="finished", result=None, took=1):
        return self.add("ended", at, took, topic="t", id=ident, state=state, result=result)

    def kept_list(self, at, *idents, count=None):
        return self.add("kept_list", at, topic="t", ids=idents, count=len(idents) if count is None else count)

    def kill(self, at, back=None):
        self.lines.append({"kind": "fault", "what": "kill", "at": at * MS})
        self.lines.append({"kind": "fault", "what": "ready", "at": (back or at + 10) * MS})
        return self

    def fault(self, what, at):
        self.lines.append({"kind": "fault", "what": what, "at": at * MS})
        return self

    def disturb(self, begin, at, name="cut"):
        self.lines.append({"kind": "fault", "what": "disturb", "name": name, "begin": begin * MS, "at": at * MS})
        return self

    def failover(self, begin, at):
        self.lines.append({"kind": "fault", "what": "failover", "begin": begin * MS, "at": at * MS})
        return self

    def counts(self, at, topic="t", **figures):
        return self.add("counts", at, topics={topic: totals(**figures)})

    def recovered(self, first, second, settled=True):
        self.lines.append({"kind": "recovered", "first": {"t": totals(**first)}, "second": {"t": totals(**second)}, "settled": settled})
        return self

    def fsck(self, code=0, text="clean"):
        self.lines.append({"kind": "fsck", "at": self.last * MS, "exit": code, "text": text})
        return self

    def listing(self, at, *jobs, topic="t"):
        return self.add("listing", at, topic=topic, jobs=[dict(zip(("id", "state", "attempt"), job)) for job in jobs])

    def raw(self, **line):
        self.lines.append(line)
        return self

    def text(self, ended=True):
        lines = self.lines + ([{"kind": "end", "at": (self.last + 100_000) * MS}] if ended else [])
        return [json.dumps(line) for line in lines]


def totals(**figures):
    fields = ("pushed", "delayed", "retrying", "ready", "leased", "dead", "acked", "cancelled", "expired")
    return {field: figures.get(field, 0) for field in fields}
