"""
The history of a run: one JSON object a line, in any order but for the first and the last.

All times are nanoseconds of one monotonic clock (`CLOCK_BOOTTIME`) unless the name contains `wall`. A call carries `begin` (taken before the first byte
is sent) and `end` (taken after the last byte of the reply came, or when the connection was seen to be dead).

    {"kind":"run","topics":{NAME:{"lease_ms","max_attempts","ttl_ms","backoff_ms":[FIRST,MAX],"dedup_window_ms","dead_letter_expired","keep_ms"}}}
    {"kind":"push","begin","end","items":[{"topic","id","body","delay_ms"|"at_ms","on_conflict","outcome", …own settings}]}
        outcome  created replaced existed conflict leased refused unknown.   body: a fingerprint of content type and bytes
    {"kind":"nameless","begin","end","topic","item":{…}}      a push without an id whose reply was lost: the job may exist under an unknown name
    {"kind":"take","begin","end","wall_end","topics":[…],"outcome":"ok"|"unknown","jobs":[{"topic","id","lease","attempt","delivery","body","lease_ms"}]}
        id  null if the protocol does not show it: the job is the one with that body.   "unnumbered":true if it shows no delivery numbers
    {"kind":"answer","verb":"ack"|"nack"|"extend","begin","end","items":[{"lease","outcome","delay_ms","lease_ms","result"}]}
        outcome  ok lease_ended refused unknown.   "may_cancel":true: an unknown ack of a protocol whose ack of an ended lease is a cancel
    {"kind":"change","verb":"cancel"|"reschedule"|"run","begin","end","topic","id","outcome","delay_ms"|"at_ms"}
        outcome  ok not_found leased dead refused unknown
    {"kind":"topic","verb":"purge"|"redrive"|"delete","begin","end","topic","outcome","affected"}
    {"kind":"look","begin","end","topic","id","outcome":"found"|"not_found","state","attempt","body"}
    {"kind":"kept","begin","end","topic","id","state","result"}     a look-up that also finds finished jobs. state  not_found or the job's
    {"kind":"ended","begin","end","topic","id","state","result"}     the reply of a wait for the end of the job: its state then
    {"kind":"kept_list","begin","end","topic","ids":[…],"count"}     all finished jobs of the topic, and the number that it reports
    {"kind":"fault","what":"kill"|"stop"|"ready"|"start_failed","at"}     at: when the process was certainly gone; "begin": when it was shot at
    {"kind":"fault","what":"disturb","name","begin","at"}     something broke that loses nothing that was answered; at: when it was whole again
        name  "kill server…" is one of several servers; others are only distinguished by people
    {"kind":"fault","what":"failover","begin","at"}     a replica took over, which may lack the last that was answered; at: when it had
    {"kind":"counts","begin","end","topics":{NAME:{"pushed","delayed",…}}}      nothing was under way
    {"kind":"listing","begin","end","topic","jobs":[{"id","state","attempt","body"}]}     all that is left, after the drain
    {"kind":"recovered","first":{NAME:{…}},"second":{NAME:{…}},"settled":bool}   counts after one start and after the next
    {"kind":"fsck","at","exit","text"}
    {"kind":"end","at"}

`unknown` means that the reply was lost: the call may have happened, or not, at some time between begin and end.

An answer just before a failover, or during it, also counts as unknown: replication is behind. How much of it was lost is reported, not checked.
"""

import bisect
import json

MS = 1_000_000
FAILOVER_LAG = 1000 * MS  # no replica is further behind than that
RECOVERY = 1500 * MS  # after a disturbance clients connect again, at the latest after a pause of 1 s
FOREVER = 1 << 62

APPLIED = ("created", "replaced")
DEFAULTS = {"lease_ms": 60_000, "max_attempts": 16, "ttl_ms": 0, "backoff_ms": [1000, 600_000], "dedup_window_ms": 0,
            "dead_letter_expired": False, "keep_ms": 0}
PUSH_OUTCOMES = {"created", "replaced", "existed", "conflict", "leased", "refused", "unknown"}
ANSWER_OUTCOMES = {"ok", "lease_ended", "refused", "unknown"}
CHANGE_OUTCOMES = {"ok", "not_found", "leased", "dead", "refused", "unknown"}


class Malformed(Exception):
    """The history cannot be checked."""


class Span:
    """Something that happened at one unknown instant between begin and end."""

    __slots__ = ("begin", "end", "outcome")

    def __init__(self, begin, end, outcome):
        if not isinstance(begin, int) or not isinstance(end, int) or end < begin:
            raise Malformed(f"a call that ends before it begins: {begin!r}..{end!r}")
        self.begin, self.end, self.outcome = begin, end, outcome

    @property
    def may_have_happened(self):
        return self.outcome in ("ok", "unknown")


class Push(Span):
    __slots__ = ("body", "delay_ms", "at_ms", "own", "doubted")

    @property
    def applied(self):
        return self.outcome in APPLIED

    @property
    def may_have_happened(self):
        return self.outcome in APPLIED or self.outcome == "unknown"


class Delivery(Span):
    __slots__ = ("key", "body", "lease", "attempt", "number", "lease_ms", "wall_end", "answers", "earliest", "waited", "is_unnumbered")

    def name(self):
        return f"{self.key.name()} attempt {self.attempt}"


class Answer(Span):
    __slots__ = ("verb", "delay_ms", "lease_ms", "may_cancel", "result")


class Change(Span):
    __slots__ = ("verb", "delay_ms", "at_ms")


class Look(Span):
    __slots__ = ("state", "attempt", "body")


class Kept(Span):
    __slots__ = ("state", "result")


class Key:
    """A record of all that happened to one id of one topic."""

    __slots__ = ("topic", "id", "pushes", "deliveries", "changes", "looks", "left", "by_body", "kept", "ended")

    def __init__(self, topic, ident):
        self.topic, self.id = topic, ident
        self.pushes, self.deliveries, self.changes, self.looks = [], [], [], []
        self.kept, self.ended = [], []  # look-ups of finished jobs, replies of waits
        self.left = None  # the job as the final listing shows it
        self.by_body = {}  # body: pushes that may have happened with it

    def name(self):
        return f"{self.topic.name}/{self.id}"


class Topic:
    __slots__ = ("name", "settings", "calls", "lost_takes", "listed", "nameless", "kept_lists")

    def __init__(self, name, settings):
        self.name, self.settings = name, settings
        self.calls = []  # (verb, Span, affected)
        self.lost_takes = []
        self.listed = False
        self.kept_lists = []  # (Span, ids, count)
        self.nameless = {}  # body: push, as long as no job was seen to be it


class History:
    def __init__(self):
        self.topics, self.keys, self.leases = {}, {}, {}
        self.kills, self.stops, self.readies, self.failed_starts = [], [], [], []
        self.deaths = []  # (begin, at) of each kill of a server
        self.disturbances = []  # (begin, at, name)
        self.failovers = []  # (begin, at): what was answered in between may have been undone
        self.counts, self.recovered, self.fscks, self.waits = [], [], [], []
        self.phantom_leases = []  # answers OK to leases that were never issued
        self.repeated_leases = []
        self.pending_answers = []
        self.unnamed = []  # (topic, delivery) without the id
        self.in_flight = []  # (begin, end) of calls whose reply was lost
        self.settings = {}
        self.begin, self.end = FOREVER, None
        self.calls = 0

    # ---- finding ----

    def topic(self, name):
        if name not in self.topics:
            self.topics[name] = Topic(name, {**DEFAULTS, **self.settings.get(name, {})})
        return self.topics[name]

    def key(self, topic, ident):
        key = self.keys.get((topic, ident))
        if key is None:
            key = self.keys[(topic, ident)] = Key(self.topic(topic), ident)
        return key

    def killed_between(self, begin, end):
        """The first kill at or after `begin`, or None if it is after `end`."""
        at = bisect.bisect_left(self.kills, begin)
        return self.kills[at] if at < len(self.kills) and self.kills[at] <= end else None

    def undoing(self, span):
        """The failover that may have undone changes answered then, or None."""
        return next((window for window in self.failovers if span.end >= window[0] and span.begin <= window[1]), None)

    def disturbances_between(self, begin, end):
        return sum(1 for start, at in self._broken if start <= end and begin <= at + RECOVERY)

    # ---- reading ----

    def read(self, lines):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if self.end is not None:
                raise Malformed(f"line {number}: something follows the end")
            try:
                record = json.loads(line)
                kind = record["kind"]
                if (kind == "run") != (number == 1):
                    raise Malformed("the first line, and only it, must be the run")
                getattr(self, "_read_" + kind)(record)
            except Malformed as fault:
                raise Malformed(f"line {number}: {fault}") from fault
            except (KeyError, TypeError, ValueError, AttributeError) as fault:
                raise Malformed(f"line {number}: {type(fault).__name__}: {fault}") from fault
        if self.end is None:
            raise Malformed("it breaks off: the last line is not the end")
        self._settle()
        return self

    def _note_call(self, record, lost):
        self.calls += 1
        self.begin = min(self.begin, record["begin"])
        if lost:
            self.in_flight.append((record["begin"], record["end"]))

    def _read_run(self, record):
        self.settings = record.get("topics", {})

    def _read_push(self, record):
        self._note_call(record, any(item["outcome"] == "unknown" for item in record["items"]))
        for item in record["items"]:
            if item["outcome"] not in PUSH_OUTCOMES:
                raise Malformed(f"no such outcome of a push: {item['outcome']}")
            self._add_push(self.key(item["topic"], item["id"]), make_push(record, item))

    def _read_nameless(self, record):
        self._note_call(record, True)
        push = make_push(record, record["item"])
        self.topic(record["topic"]).nameless[push.body] = push

    @staticmethod
    def _add_push(key, push):
        key.pushes.append(push)
        if push.may_have_happened:
            key.by_body.setdefault(push.body, []).append(push)

    def _read_take(self, record):
        self._note_call(record, record["outcome"] == "unknown")
        if record["outcome"] == "unknown":
            for name in record["topics"]:
                self.topic(name).lost_takes.append(Span(record["begin"], record["end"], "unknown"))
            return
        for item in record["jobs"]:
            delivery = Delivery(record["begin"], record["end"], "ok")
            delivery.key = self.key(item["topic"], item["id"]) if item["id"] is not None else None
            delivery.body, delivery.lease, delivery.attempt = item["body"], item["lease"], item["attempt"]
            delivery.number, delivery.lease_ms = item.get("delivery"), item.get("lease_ms")
            delivery.wall_end, delivery.answers = record["wall_end"], []
            delivery.waited, delivery.is_unnumbered = len(record["jobs"]) == 1, record.get("unnumbered", False)
            if delivery.key:
                delivery.key.deliveries.append(delivery)
            else:
                self.unnamed.append((item["topic"], delivery))
            if delivery.lease in self.leases:
                self.repeated_leases.append(delivery)
            self.leases[delivery.lease] = delivery

    def _read_answer(self, record):
        self._note_call(record, any(item["outcome"] == "unknown" for item in record["items"]))
        for item in record["items"]:
            if item["outcome"] not in ANSWER_OUTCOMES:
                raise Malformed(f"no such outcome of an answer: {item['outcome']}")
            answer = Answer(record["begin"], record["end"], item["outcome"])
            answer.verb, answer.delay_ms, answer.lease_ms = record["verb"], item.get("delay_ms"), item.get("lease_ms")
            answer.may_cancel, answer.result = item.get("may_cancel", False), item.get("result")
            self.pending_answers.append((item["lease"], answer))

    def _read_change(self, record):
        self._note_call(record, record["outcome"] == "unknown")
        if record["outcome"] not in CHANGE_OUTCOMES:
            raise Malformed(f"no such outcome of a change: {record['outcome']}")
        change = Change(record["begin"], record["end"], record["outcome"])
        change.verb, change.delay_ms, change.at_ms = record["verb"], record.get("delay_ms", 0), record.get("at_ms")
        self.key(record["topic"], record["id"]).changes.append(change)

    def _read_topic(self, record):
        self._note_call(record, record["outcome"] == "unknown")
        span = Span(record["begin"], record["end"], record["outcome"])
        self.topic(record["topic"]).calls.append((record["verb"], span, record.get("affected", 0)))

    def _read_look(self, record):
        self._note_call(record, False)
        look = Look(record["begin"], record["end"], record["outcome"])
        look.state, look.attempt, look.body = record.get("state"), record.get("attempt"), record.get("body")
        self.key(record["topic"], record["id"]).looks.append(look)

    def _kept(self, record):
        self._note_call(record, False)
        kept = Kept(record["begin"], record["end"], "ok")
        kept.state, kept.result = record["state"], record.get("result")
        return self.key(record["topic"], record["id"]), kept

    def _read_kept(self, record):
        key, kept = self._kept(record)
        key.kept.append(kept)

    def _read_ended(self, record):
        key, ended = self._kept(record)
        key.ended.append(ended)

    def _read_kept_list(self, record):
        span = Span(record["begin"], record["end"], "ok")
        self.topic(record["topic"]).kept_lists.append((span, set(record["ids"]), record["count"]))

    def _read_fault(self, record):
        if record["what"] == "disturb":
            self.disturbances.append((record["begin"], record["at"], record["name"]))
            if record["name"].startswith("kill server"):
                self.deaths.append((record["begin"], record["at"]))
            return
        if record["what"] == "failover":
            self.failovers.append((record["begin"] - FAILOVER_LAG, record["at"]))
            return
        if record["what"] == "kill":
            self.deaths.append((record.get("begin", record["at"]), record["at"]))
        {"kill": self.kills, "stop": self.stops, "ready": self.readies,
         "start_failed": self.failed_starts}[record["what"]].append(record["at"])

    def _read_counts(self, record):
        self.counts.append((Span(record["begin"], record["end"], "ok"), record["topics"]))

    def _read_listing(self, record):
        topic = self.topic(record["topic"])
        topic.listed = True
        for job in record["jobs"]:
            look = Look(record["begin"], record["end"], "found")
            look.state, look.attempt, look.body = job["state"], job["attempt"], job.get("body")
            key = self.key(topic.name, job["id"])
            key.left = look
            key.looks.append(look)

    def _read_recovered(self, record):
        self.recovered.append((record["first"], record["second"], record["settled"]))

    def _read_fsck(self, record):
        self.fscks.append((record["at"], record["exit"], record.get("text", "")))

    def _read_end(self, record):
        self.end = record["at"]

    # ---- after the last line ----

    def _settle(self):
        for times in (self.kills, self.stops, self.readies):
            times.sort()
        for lease, answer in self.pending_answers:
            delivery = self.leases.get(lease)
            if delivery:
                delivery.answers.append(answer)
            elif answer.outcome == "ok":
                self.phantom_leases.append((lease, answer))
        self.pending_answers = []
        self._broken = [(begin, at) for begin, at, _ in self.disturbances] + self.failovers
        for key in self.keys.values():
            self._name(key)
        self._name_by_body()
        for key in self.keys.values():
            self._doubt(key)
            for delivery in key.deliveries:
                delivery.answers.sort(key=lambda answer: answer.begin)
                dues = [due_of(push, delivery) for push in key.by_body.get(delivery.body, ())]
                due = delivery.begin if key.changes else min(dues, default=delivery.begin)
                delivery.earliest = min(delivery.end, max(delivery.begin, due))
            key.pushes.sort(key=lambda push: push.begin)
            key.deliveries.sort(key=lambda delivery: (delivery.end, delivery.number or 0))
            numbers = [delivery.number for delivery in key.deliveries]
            if None not in numbers and not out_of_order(key.deliveries):
                key.deliveries.sort(key=lambda delivery: delivery.number)
            elif None in numbers:
                sort_by_attempts(key.deliveries)

    def _doubt(self, key):
        """Answers that a failover may have undone count as unknown."""
        for push in key.pushes:
            if push.applied and self.undoing(push):
                push.doubted, push.outcome = push.outcome, "unknown"
        for call in key.changes + [answer for delivery in key.deliveries for answer in delivery.answers]:
            if call.outcome == "ok" and self.undoing(call):
                call.outcome = "unknown"

    def _name(self, key):
        """A job with an unchosen name is the nameless push with its body: once."""
        if key.pushes or not key.topic.nameless:
            return
        for seen in key.deliveries + key.looks:
            if seen.body in key.topic.nameless:
                self._add_push(key, key.topic.nameless.pop(seen.body))

    def _name_by_body(self):
        """Deliveries without an id belong to the job that was pushed with their body, or to one with an unknown id if its push was lost."""
        named = {(key.topic.name, body): key for key in self.keys.values() for body in key.by_body}
        for topic, delivery in self.unnamed:
            key = named.get((topic, delivery.body))
            if key is None:
                key = named[topic, delivery.body] = self.key(topic, f"of body {delivery.body}")
            delivery.key = key
            key.deliveries.append(delivery)
            self._name(key)
        self.unnamed = []


def make_push(record, item):
    push = Push(record["begin"], record["end"], item["outcome"])
    push.body, push.delay_ms, push.at_ms, push.own = item["body"], item.get("delay_ms", 0), item.get("at_ms"), item
    push.doubted = None
    return push


def due_of(setter, delivery):
    """The earliest instant, on the monotonic clock, at which what `setter` (push, reschedule) asked for may be delivered."""
    if setter.at_ms is not None:
        return setter.at_ms * MS - (delivery.wall_end - delivery.end)
    return setter.begin + setter.delay_ms * MS


def sort_by_attempts(deliveries):
    """Checks the order of two deliveries by their ends: the one with the lower attempt came first if it can have."""
    for at in range(1, len(deliveries)):
        while at and deliveries[at].attempt < deliveries[at - 1].attempt and deliveries[at].earliest < deliveries[at - 1].end:
            deliveries[at - 1], deliveries[at] = deliveries[at], deliveries[at - 1]
            at -= 1


def out_of_order(deliveries):
    """Pairs (earlier, later) in time whose delivery numbers do not rise."""
    bad = []
    numbered = [delivery for delivery in deliveries if delivery.number is not None]
    for at, later in enumerate(numbered):
        for earlier in numbered[max(0, at - 8):at]:
            certain = earlier.end < later.earliest and earlier.number >= later.number
            if certain or earlier.number == later.number:
                bad.append((earlier, later))
    return bad
