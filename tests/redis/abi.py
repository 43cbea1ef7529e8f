"""The scripts as the server calls them: src/stores/redis/scripts/README.md, in Python."""

import itertools
import pathlib

import redis
from invariants import scan

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "src" / "stores" / "redis" / "scripts"
NONE = 2**48 - 1

OK, CREATED, REPLACED, EXISTED, CANCELLED = range(5)
NOT_FOUND, CONFLICT, IS_LEASED, IS_DEAD, LEASE_ENDED = range(5, 10)
BAD_OPTION, TOO_MANY_TOPICS, NO_SPACE, TOPIC_FULL, GROUP_FULL = 12, 14, 16, 23, 34
DELAYED, READY, LEASED, DEAD, FINISHED = range(1, 6)
DUE_NOW, DUE_DELAY, DUE_AT, DUE_UNCHANGED = range(1, 5)
ACK, NACK, EXTEND, RETURN, REFUSE = range(1, 6)
AGAIN, REFUSE_WITH_RESULT = 6, 7
FAILED, LEASE_OVER, REFUSED = range(1, 4)
CANCEL, RESCHEDULE, RUN = range(1, 4)
HELD_NOT, HELD_LIMIT, HELD_RATE, HELD_GROUP_LIMIT, HELD_GROUP_RATE, HELD_GROUP_PAUSED, HELD_GROUP_ORDER, HELD_HOLD = range(8)
GROUP_GET, GROUP_PUT, GROUP_DELETE = range(1, 4)
TOO_MANY_GROUPS, NOT_EMPTY = 99, 98  # these numbers are arguments
TOPIC_GET, TOPIC_PUT, TOPIC_DELETE, TOPIC_PAUSE, TOPIC_RESUME, TOPIC_PURGE, TOPIC_REDRIVE = range(1, 8)
REPLACE, KEEP, REJECT = range(1, 4)
FIXED, EXPONENTIAL = 1, 2
AT_MAX_MS = 3653 * 24 * 3600 * 1000

TOTALS = ("pushed", "acked", "cancelled", "expired", "replaced", "delivered", "nacked", "lease_ended", "died", "redriven")
COUNTS = ("delayed", "retrying", "ready", "leased", "dead", "dead_bytes")


def sizes(layout):
    """">BI2i6" as [(bytes, signed)]."""
    assert layout[0] == ">"
    out, at = [], 1
    while at < len(layout):
        letter, digits = layout[at], ""
        at += 1
        while at < len(layout) and layout[at].isdigit():
            digits, at = digits + layout[at], at + 1
        out.append((1 if letter == "B" else int(digits), letter == "i"))
    return out


def pack(layout, *numbers):
    wanted = sizes(layout)
    assert len(wanted) == len(numbers), layout
    return b"".join(number.to_bytes(size, "big", signed=signed) for number, (size, signed) in zip(numbers, wanted))


def unpack(layout, data):
    """The numbers, and what is left of `data`."""
    out = []
    for size, signed in sizes(layout):
        assert len(data) >= size, f"{layout} wants more than is there"
        out.append(int.from_bytes(data[:size], "big", signed=signed))
        data = data[size:]
    return (*out, data)


def raw(value):
    return value if isinstance(value, bytes) else str(value).encode()


PARTS = ("base", "topics", "leaves", "history", "jobs", "kept", "keeping", "events", "flow", "batches", "parts", "due", "answers", "takes", "ending", "moving")
LIBRARY = "tarry_tests"


def part(name):
    return (SCRIPTS / "common" / f"{name}.lua").read_bytes()


def source(name):
    """A script of its own. The parts that its second line names come between its first line and the rest; after the first of them the shard is reached. (A function
    of its own, since one may have no more than 200 local variables.)"""
    first, parts, rest = (SCRIPTS / f"{name}.lua").read_bytes().split(b"\n", 2)
    base, *others = parts.decode().removeprefix("-- parts:").split()
    assert base == "base"
    return b"\n".join([first, part(base) + b"reach(KEYS)", b"".join(map(part, others)) + b"return (function()\n" + rest + b"\nend)()"])


def library():
    """The functions that servers call, as one library."""
    out = [b"#!lua name=" + LIBRARY.encode(), b"".join(map(part, PARTS))]
    for path in sorted(SCRIPTS.glob("*.lua")):
        if path.stem.startswith("check"):
            continue
        first, rest = path.read_bytes().split(b"\n", 1)
        flags = b"flags={'" + first.split(b"flags=")[1] + b"'}, " if b"flags=" in first else b""
        before, mark, body = rest.rpartition(b"\n-- call\n")
        out.append(b"do\nlocal body = (function()\n%s\nreturn function(KEYS, ARGV)\n%s\nend\nend)()\nredis.register_function{function_name='%s_%s', %s"
                   b"callback=function(KEYS, ARGV) return carry_out(body, KEYS, ARGV) end}\nend" % (before + mark, body, LIBRARY.encode(), path.stem.encode(), flags))
    return b"\n".join(out)


def policy(lease=0, ttl=0, backoff=0, first=0, most=0, attempts=0):
    return pack(">I6I6BI6I6I4", lease, ttl, backoff, first, most, attempts)


def settings(lease=0, ttl=0, backoff=0, first=0, most=0, attempts=0, on_conflict=0, priority=None, dead_letter_expired=False, dedup=0, max_jobs=0, rate=(0, 0),
             keep=None, flow=None):
    """keep: (keep_finished, keep_finished_max, keep_finished_bytes, keep_body). flow: as `flow` below makes it."""
    keep = keep or ((0, 0, 0, 0) if flow else None)
    limits = pack(">I6I4B", max_jobs, *rate) if max_jobs or rate[0] or keep else b""
    limits += pack(">I6I6I6B", *keep) if keep else b""
    limits += flow or b""
    return policy(lease, ttl, backoff, first, most, attempts) + pack(">BBI2BI6", on_conflict, priority is not None, priority or 0,
                                                                     dead_letter_expired, dedup) + limits


def flow(limit=0, rate=(0, 0), burst=0, group_limit=0, group_rate=(0, 0), group_burst=0, group_jobs=0, strict=False):
    """Limits and rates of a topic. rate: count and unit (1: per second)."""
    return pack(">I4I4BI4", limit, *rate, burst) + pack(">I4I4BI4", group_limit, *group_rate, group_burst) + pack(">I6B", group_jobs, int(strict))


GO, HOLD, STOP = 1, 2, 3


def varint_text(number):
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint_text(number // 128)


NOT_ASKED = 255


def batch(of=None, waits=False, on_dead=GO, members=0, wait=3_600_000, close=60_000, parent=0, join=None):
    """The batches of a push: `of` (topic, id) of the waiting job whose member it is; `waits`: it waits for members. join: the answer of its home in another
    shard, a Join."""
    encoded = bytes([(1 if of else 0) | (2 | on_dead << 2 if waits else 0)])
    if of:
        encoded += b"".join(varint_text(len(text)) + raw(text) for text in of) + (varint_text(join.number) + bytes([join.depth + 1]) if join else b"\0\0")
    if waits:
        encoded += varint_text(members) + varint_text(wait) + varint_text(close)
    stored = raw(of[1]) if of else b""
    text = pack(">I6I4I6I6BI4I4I4I4I4", parent, members, wait, close, on_dead if waits else 0, 0, 0, 0, 0, 0)
    asked = (join.status, join.is_home, join.home, join.join, join.on_dead) if join else (NOT_ASKED, 0, 0, 0, GO)
    text += pack(">BBI2I6BB", *asked, len(stored)) + stored + encoded
    return pack(">I2", len(text)) + text


def job(ident, body=b"", delay=None, at=None, on_conflict=0, priority=None, own=None, content_type=None, meta=None, past=None, made=False, keep=None, awaits=False, group=None, batch=None, once=None):
    """The three arguments of one push. batch: as `batch` makes it. once: (name, ms). past: (dead, attempts, error). content_type: a text, or the number of a well-known one."""
    flags, tail = 0, b""
    if past:
        flags, tail = 16, pack(">BI4I2", past[0], past[1], len(past[2])) + past[2]
    if batch is not None:
        flags, tail = flags | 8, tail + batch
    if own is not None:
        flags, tail = flags | 1, tail + policy(**own)
    if keep is not None:
        flags, tail = flags | 32, tail + pack(">I6", keep)
    if group is not None:
        flags, tail = flags | 64, tail + pack(">B", len(group)) + raw(group)
    if content_type is not None:
        number = isinstance(content_type, int)
        flags, tail = flags | 2, tail + (pack(">B", content_type) if number else pack(">B", len(content_type)) + content_type)
    if meta is not None:
        flags, tail = flags | 4, tail + pack(">I2", len(meta)) + meta
    when = DUE_DELAY if delay is not None else DUE_AT if at is not None else DUE_NOW
    ms = delay if delay is not None else at if at is not None else 0
    choice = on_conflict | (4 if priority is not None else 0) | (8 if made else 0) | (32 if awaits else 0)
    remembered = pack(">I6", once[1]) + once[0] if once else b""
    return [raw(ident), pack(">BBBI2I6", choice, when, flags, priority or 0, ms) + remembered, tail + raw(body)]


def varint(data):
    """The number, and what is left of `data`."""
    number, at = 0, 0
    while data[at] >= 128:
        number, at = number | (data[at] & 127) << 7 * at, at + 1
    return number | data[at] << 7 * at, data[at + 1:]


def attempts(data):
    """A history, as job/job.h encodes it: [(attempt, started, duration, outcome, error)]."""
    out = []
    while data:
        number, data = varint(data)
        started, data = varint(data)
        duration, data = varint(data)
        outcome, data = data[0], data[1:]
        size, data = varint(data)
        assert number > 0 and outcome in (FAILED, LEASE_OVER, REFUSED) and size <= min(100, len(data))
        out.append((number, started, duration, outcome, data[:size]))
        data = data[size:]
    return out


class Job:
    """A job as take, get and list return it: id, record, try."""

    def __init__(self, ident, record, attempt, state=None):
        self.id, self.record, self.state = ident, record, state
        self.flags, self.priority, self.sequence, self.due, rest = unpack(">BI2I6I6", record)
        self.first_due, self.attempt, self.lease_until, self.delivery, self.lease, self.error = self.due, 0, 0, 0, 0, b""
        self.history = []
        if attempt and attempt[0] >= 128:
            size, rest_of = unpack(">I2", attempt[37:])
            self.history = attempts(rest_of[size:])
            attempt = bytes([attempt[0] - 128]) + attempt[1:37] + rest_of[:size]
        if attempt:
            (self.try_state, self.priority, self.attempt, self.due, self.first_due, self.lease_until, self.delivery, self.lease,
             self.error) = unpack(">BI2I4I6I6I6I6I6", attempt)
            self.consumer, self.requested = b"", False
            if self.try_state & 16:
                self.try_state, flags, size = self.try_state - 16, self.error[0], self.error[1]
                self.requested, self.consumer, self.error = flags & 1 == 1, self.error[2:2 + size], self.error[2 + size:]
                if flags & 2:
                    self.error = self.error[6:]
                if flags & 4:
                    size, self.error = unpack(">I2", self.error)
                    self.progress, self.error = self.error[:size], self.error[size:]
        self.policy = self.content_type = self.meta = None
        if self.flags & 1:
            *self.policy, rest = unpack(">I6I6BI6I6I4", rest)
        if self.flags & 32:
            self.keep, rest = unpack(">I6", rest)
        self.group = b""
        if self.flags & 64:
            size, rest = unpack(">B", rest)
            self.group, rest = rest[:size], rest[size:]
        self.batch = b""
        if self.flags & 16:
            size, rest = unpack(">I2", rest)
            self.batch, rest = rest[:size], rest[size:]
        if self.flags & 2:
            size, rest = unpack(">B", rest)
            self.content_type, rest = (size, rest) if size > 128 else (rest[:size], rest[size:])
        if self.flags & 4:
            size, rest = unpack(">I2", rest)
            self.meta, rest = rest[:size], rest[size:]
        self.body = rest


class Kept:
    """A finished job as it is stored and returned."""

    def __init__(self, ident, value):
        self.id, self.value = ident, value
        self.flags, self.outcome, self.number, self.ends, self.finished, self.attempt, self.duration, rest = unpack(">BBI6I6I6I4I4", value)
        self.meta = self.consumer = self.history = self.progress = self.result = self.batch = self.content_type = self.body = None
        for flag, layout, name in ((1, ">I2", "meta"), (2, ">B", "consumer"), (4, ">I2", "history"), (8, ">I2", "progress"), (16, ">I4", "result"), (128, ">I2", "batch")):
            if self.flags & flag:
                size, rest = unpack(layout, rest)
                setattr(self, name, rest[:size])
                rest = rest[size:]
        if self.flags & 32:
            size = rest[0] if rest[0] <= 128 else 0
            self.content_type, rest = rest[:1 + size], rest[1 + size:]
        if self.flags & 64:
            self.body, rest = rest, b""
        assert not rest


class Answer:
    def __init__(self, elements):
        self.elements = elements
        self.now, self.next, self.adjust, size, rest = unpack(">I6I6i6B", elements[0])
        self.next_topic, self.rest = rest[:size], rest[size:]
        self.more = elements[1:]

    def items(self, layout):
        out, data = [], self.rest
        while data:
            *numbers, data = unpack(layout, data)
            out.append(tuple(numbers))
        return out


def results(answer, jobs):
    """The outcome of each push: (status, state, due)."""
    if len(answer.rest) > 6:
        return [(status, state & ~64, due) for status, state, due in answer.items(">BBI6")]
    out, (now, _) = [], unpack(">I6", answer.rest)
    for _, spec, _ in jobs:
        _, when, _, _, ms, _ = unpack(">BBBI2I6", spec)
        wall = now - answer.adjust
        due = now + 1 + ms if when == DUE_DELAY and ms else ms + answer.adjust if when == DUE_AT and ms > wall else now
        out.append((CREATED, DELAYED if due > now else READY, due))
    return out


class Topic:
    def __init__(self, packed):
        self.finished, self.groups, self.held_by = None, 0, {}
        if packed[0] & 4:
            at = 7 + 6 * (18 if packed[0] & 2 else 17)
            self.groups, reasons = int.from_bytes(packed[at:at + 4], "big"), packed[at + 4]
            end = at + 5 + 7 * reasons
            self.held_by = {packed[one]: int.from_bytes(packed[one + 1:one + 7], "big") for one in range(at + 5, end, 7)}
            packed = bytes([packed[0] - 4]) + packed[1:at] + packed[end:]
        self.held = sum(self.held_by.values())
        if packed[0] & 2:
            at = 7 + 6 * 17
            self.finished, packed = int.from_bytes(packed[at:at + 6], "big"), bytes([packed[0] - 2]) + packed[1:at] + packed[at + 6:]
        self.paused, self.paused_until, *numbers, size, rest = unpack(">BI6" + "I6" * 17 + "B", packed)
        for name, number in zip(COUNTS + TOTALS, numbers):
            setattr(self, name, number)
        self.oldest_due, self.settings, self.extension = numbers[16], rest[:size], rest[size:]
        assert size in (0, 40, 51, 70, 103)


class Shard:
    """A server's view of one shard. `check`: look for broken invariants after every call that changes something."""


    def __init__(self, client, tag="{tarry:0}", server="0000000a", check=True):
        self.client, self.tag, self.server, self.check = client, tag, server, check
        self.core = tag + ":core"
        self.tickets = itertools.count(1)
        self.jumped_ms = 0

    def ticket(self, slot=0, number=None):
        return f"{self.server}{slot:x}{next(self.tickets) if number is None else number:012x}"

    def call(self, name, *arguments):
        return Answer(self.command(name, *arguments))

    def command(self, name, *arguments):
        """Its answer as it is. Loads where it is not there, as servers do."""
        words = [1, self.core, *[raw(argument) for argument in arguments]]
        if name.startswith("check"):
            return self.client.eval(source(name), *words)
        for _ in range(3):
            try:
                return self.client.execute_command("FCALL", f"{LIBRARY}_{name}", *words)
            except redis.exceptions.ResponseError as error:
                if "Function not found" not in str(error):
                    raise
                self.client.execute_command("FUNCTION", "LOAD", "REPLACE", library())
        raise AssertionError("the library does not stay loaded")

    def change_call(self, name, *arguments, ticket=None, check=True):
        answer = self.call(name, self.ticket() if ticket is None else ticket, *arguments)
        if self.check and check:
            self.must_be_sound()
        return answer

    def must_be_sound(self):
        faults = scan(self.client, self.tag)
        assert not faults, "\n".join(faults)

    # ---- the scripts ----

    def hello(self, run="run", shards=8, name="", drawn=b"0123456789abcdef", held=None, known=b"", place=0):
        answer = self.call("hello", run, shards, name, drawn, "" if held is None else held, known, place)
        answer.is_new, answer.shards, answer.sequence, rest = unpack(">BI4I6", answer.rest)
        answer.lease_key, answer.mark, answer.name = rest[:16], rest[16:24], rest[24:]
        return answer

    def jump(self, ms):
        """Advances the shard's clock by so much, as the scripts see it."""
        self.jumped_ms += ms
        return self.change_call("adjust", self.jumped_ms - ms, self.jumped_ms)

    def hold(self, ms=""):
        """Sets a held clock; or searches the next event."""
        return self.change_call("adjust", "", ms)

    def push(self, topic, *jobs, ticket=None, topics_max=1000):
        """[(status, state, due)]"""
        return results(self.push_call(topic, *jobs, ticket=ticket, topics_max=topics_max), jobs)

    def push_call(self, topic, *jobs, ticket=None, topics_max=1000):
        return self.change_call("push", topic, topics_max, *[argument for some in jobs for argument in some], ticket=ticket)

    def take(self, topic, most=1000, bytes_max=1 << 24, lease=0, ticket=None, consumer=None):
        """[Job], by a step with nothing else."""
        return self.step(takes=[(topic, most, bytes_max, lease, *([consumer] if consumer else []))], ticket=ticket).jobs[0]

    def take_call(self, topic, most=1000, bytes_max=1 << 24, lease=0, ticket=None):
        return self.step(takes=[(topic, most, bytes_max, lease)], ticket=ticket)

    def step(self, answers=(), takes=(), most=0, ticket=None, chance=12345):
        """answers as below; takes: (topic, most[, bytes_max[, lease_ms[, consumer]]]). A StepReply."""
        return StepReply(self.step_call(answers, takes, most, ticket, chance), len(answers), len(takes))

    def step_call(self, answers=(), takes=(), most=0, ticket=None, chance=12345):
        words = [pack(">I6I2I2I2", chance, most, len(answers), len(takes)), *answer_words(answers)]
        for topic, wanted, *rest in takes:
            limits = pack(">I4I4I6", wanted, rest[0] if rest else 1 << 24, rest[1] if len(rest) > 1 else 0)
            words += [topic, limits + b"\1" + raw(rest[2]) if len(rest) > 2 else limits]
        return self.change_call("step", *words, ticket=ticket)

    def answer(self, *answers, ticket=None, chance=12345):
        """answers: (verb, delivery[, ms[, error or progress[, result with its type as in a record]]]). [(status, state, due, lease_until)], by a step with nothing else."""
        return self.step(answers, ticket=ticket, chance=chance).results

    def change(self, topic, *changes, ticket=None):
        """changes: (verb, id[, {"delay" | "at" | "when", "priority"}]). [(status, state, due)]"""
        return [(status, state & ~64, due) for status, state, due in self.change_jobs_call(topic, *changes, ticket=ticket).items(">BBI6")]

    def change_jobs_call(self, topic, *changes, ticket=None):
        words = []
        for verb, ident, *rest in changes:
            options = rest[0] if rest else {}
            when = DUE_DELAY if "delay" in options else DUE_AT if "at" in options else options.get("when", DUE_UNCHANGED)
            ms = options.get("delay", options.get("at", 0))
            priority = options.get("priority")
            words += [raw(ident), pack(">BBBI2I6", verb, when, priority is not None, priority or 0, ms)]
        return self.change_call("change", topic, *words, ticket=ticket)

    def advance(self, most=1000, chance=777):
        """(step, whether there is more, topics that have something ready now)"""
        step = self.step(most=most, chance=chance)
        return step, step.more, step.woken

    def advance_all(self, most=1000):
        for _ in range(10_000):
            if not self.advance(most)[1]:
                return
        raise AssertionError("there is always more to do")

    def pack(self, most=1000):
        """(whether there is more, how many were moved)"""
        answer = self.call("pack", most)
        if self.check:
            self.must_be_sound()
        more, moved, rest = unpack(">BI4", answer.rest)
        assert not rest
        return bool(more), moved

    def pack_all(self, most=1000):
        while self.pack(most)[0]:
            pass

    def get(self, topic, ident):
        """Returns the job; None if it does not exist."""
        answer = self.call("get", topic, ident)
        status, state, rest = unpack(">BB", answer.rest)
        if status == NOT_FOUND:
            return None
        assert status == OK, status
        record, attempt = answer.more
        found = Job(raw(ident), record, attempt, state)
        found.held_by, found.held_until, rest = unpack(">BI6", rest) if rest else (0, 0, b"")
        assert not rest
        return found

    def kept(self, topic, ident):
        """Returns the kept job; None if there is none."""
        answer = self.call("get", topic, ident, 1)
        status, state, _ = unpack(">BB", answer.rest)
        return Kept(raw(ident), answer.more[0]) if status == OK and state == FINISHED else None

    def list_kept(self, topic, limit=1000, cursor=(-1, 0), body=True):
        """(more, [Kept]), newest first"""
        answer = self.call("list", topic, FINISHED, limit, *cursor, int(body))
        status, more, _ = unpack(">BB", answer.rest)
        return bool(more), [Kept(answer.more[at], answer.more[at + 2]) for at in range(0, len(answer.more), 4)] if status == OK else []

    def await_jobs(self, *names):
        """names: (topic, id). [(status, state, Kept or None)]"""
        answer = self.change_call("await", *[word for name in names for word in name])
        return [(*found, Kept(raw(names[at][1]), text) if text else None) for at, (found, text) in enumerate(zip(answer.items(">BB"), answer.more))]

    def list(self, topic, state=0, limit=1000, cursor=(-1, 0), body=True):
        """(status, more, [Job])"""
        answer = self.call("list", topic, state, limit, *cursor, int(body))
        status, more, rest = unpack(">BB", answer.rest)
        assert not rest and len(answer.more) % 4 == 0
        jobs = [Job(answer.more[at], answer.more[at + 2], answer.more[at + 3], answer.more[at + 1][0]) for at in range(0, len(answer.more), 4)]
        return status, bool(more), jobs

    def list_all(self, topic, state=0, limit=100):
        out, cursor = [], (-1, 0)
        while True:
            _, more, jobs = self.list(topic, state, limit, cursor)
            out += jobs
            if not more:
                return out
            cursor = (jobs[-1].due, jobs[-1].sequence)

    def group(self, verb, topic, name, weight=0, limit=0, rate=(0, 0), burst=0, max_jobs=0, paused=0, until=0):
        """Returns the status, and the group: (ready, leased, held by, held until, oldest due, settings)."""
        packed = pack(">BI4I4BI4I6BI6", weight, limit, *rate, burst, max_jobs, paused, until)
        words = (verb, topic, name, 1000, packed, TOO_MANY_GROUPS, NOT_EMPTY)
        answer = self.call("group", "", *words) if verb == GROUP_GET else self.change_call("group", *words)
        return answer.rest[0], unpack(">I6I6BI6I6", answer.more[0]) if answer.more else None

    def groups(self, topic, order=0, limit=100, cursor=None):
        """Returns whether there is more, and the groups in their order: (name, ready, leased, held by, held until, oldest due, settings)."""
        answer = self.call("groups", topic, order, limit, int(cursor is not None), *(cursor or (0, b"")))
        status, more, _ = unpack(">BB", answer.rest)
        assert status == OK
        return bool(more), [(answer.more[at], *unpack(">I6I6BI6I6", answer.more[at + 1])) for at in range(0, len(answer.more), 2)]

    def topic(self, verb, name, packed=b"", makes=0, topics_max=1000, ticket=None, extension=b"", pause_ms=0, pause_until=0):
        """(status, Topic or None)"""
        answer = self.topic_call(verb, name, packed, makes, topics_max, ticket, extension, pause_ms, pause_until)
        status, rest = unpack(">B", answer.rest)
        assert not rest
        return status, Topic(answer.more[0]) if answer.more and answer.more[0] else None

    def topic_call(self, verb, name, packed=b"", makes=0, topics_max=1000, ticket=None, extension=b"", pause_ms=0, pause_until=0):
        return self.change_call("topic", verb, name, topics_max, makes, packed, extension, pause_ms, pause_until, NOT_EMPTY, ticket=ticket)

    def stats(self, name):
        return self.topic(TOPIC_GET, name, ticket=b"")[1]

    def topics(self, after=b"", limit=1000):
        """(more, {name: Topic})"""
        answer = self.call("topics", after, limit)
        more, rest = unpack(">B", answer.rest)
        assert not rest
        return bool(more), {answer.more[at]: Topic(answer.more[at + 1]) for at in range(0, len(answer.more), 2)}

    def purge(self, name, state=0, verb="purge", up_to=0, most=1000, ticket=None):
        """Makes one step: (status, more, affected, sequence up to which)"""
        answer = self.change_call("purge", verb, name, state, up_to, most, ticket=ticket)
        *found, rest = unpack(">BBI6I6", answer.rest)
        assert not rest
        return tuple(found)

    def purge_all(self, name, state=0, verb="purge", most=1000):
        """Makes all steps, like a server; returns how many jobs were removed."""
        total, up_to = 0, 0
        for _ in range(100_000):
            _, more, affected, up_to = self.purge(name, state, verb, up_to, most)
            total += affected
            if not more:
                return total
        raise AssertionError("there is always more to purge")

    def redrive(self, name, ident=b"", most=1000, left=-1, ticket=None):
        """(status, more, affected, left)"""
        answer = self.change_call("redrive", name, ident, most, left, ticket=ticket)
        *found, rest = unpack(">BBI6I6", answer.rest)
        assert not rest
        return tuple(found)

    def look(self, *names):
        return self.call("look", *names).more

    def forecast(self, name, bounds, rank=0):
        """(status, whether it is estimated, rank to go on with, overdue, counts)"""
        answer = self.call("forecast", name, rank, b"".join(bound.to_bytes(6, "big") for bound in bounds))
        status, estimated, rest = unpack(">BB", answer.rest)
        if status != OK:
            return status, False, 0, 0, []
        rank, overdue, rest = unpack(">I6I6", rest)
        assert len(rest) == 6 * (len(bounds) + 1)
        return status, bool(estimated), rank, overdue, [int.from_bytes(rest[at:at + 6], "big") for at in range(0, len(rest), 6)]

    def counters(self):
        """(number of changed settings, number of deaths in topics with rules)"""
        changes, deaths, _, rest = unpack(">I6I6I6", self.call("look").rest)
        assert len(rest) == 7 and rest[:1] == b"\0"
        return changes, deaths

    # ---- another number of shards ----

    def reshard(self, verb, generation="1@1", least=0):
        """(how far it is, the generation it goes to)"""
        rest = self.change_call("reshard", verb, generation, least).rest
        return rest[0], rest[7:].decode()

    def leave(self, most=100, bytes_max=1 << 20):
        """(what, number of the page, now, kind, topic, [(id, record, try, history)])"""
        answer = self.change_call("leave", most, bytes_max, check=False)
        what, page, now, kind, rest = unpack(">BI6I6B", answer.rest)
        assert not rest
        topic, *words = answer.more or [b""]
        return what, page, now, kind, topic, [tuple(words[at:at + 4]) for at in range(0, len(words), 4)]

    def arrive(self, source, page, kind, topic, entries, shift=0):
        self.change_call("arrive", source, page, kind, topic, shift, *[word for entry in entries for word in entry])

    def drop(self, page):
        self.change_call("drop", page, check=False)

    # ---- the keys, for tests ----

    def dump(self):
        """Returns all stored keys except tickets: to see that nothing changed."""
        out = {}
        for key in self.client.scan_iter(self.tag + ":*", count=1000):
            if not key.startswith((self.tag + ":ticket:").encode()) and key != (self.tag + ":servers").encode():
                out[key] = content(self.client, key)
        return out


def content(client, key):
    kind = client.type(key)
    if kind == b"hash":
        return client.hgetall(key)
    if kind == b"string":
        return client.get(key)
    if kind == b"zset":
        return dict(client.zrange(key, 0, -1, withscores=True))
    if kind == b"set":
        return client.smembers(key)
    return client.dump(key)


def again_words(delivery, delay=None, at=None, priority=None, body=None, content_type=None):
    """content_type: a text."""
    when, ms = (DUE_DELAY, delay) if delay is not None else (DUE_AT, at) if at is not None else (DUE_NOW, 0)
    given = (1 if body is not None else 0) + (2 if content_type is not None else 0)
    kind = pack(">B", len(content_type)) + content_type if content_type is not None else b""
    return [pack(">I6BI6BBI2B", delivery, AGAIN, ms, when, priority is not None, priority or 0, given), kind + (body or b"")]


def answer_words(answers):
    words = []
    for verb, delivery, *rest in answers:
        if verb == AGAIN:
            words += again_words(delivery, **(rest[0] if rest else {}))
            continue
        hold = b""
        if isinstance(verb, tuple):
            verb, hold = verb[0], pack(">I6", verb[1])
        ms = rest[0] if rest else NONE if verb in (NACK, REFUSE) else 0
        text = rest[1] if len(rest) > 1 else b""
        if len(rest) > 2 and verb == ACK:
            words += [pack(">I6BI6B", delivery, verb, ms, 1), rest[2]]
        elif len(rest) > 2 and verb == REFUSE:
            words += [pack(">I6BI6", delivery, REFUSE_WITH_RESULT, ms), pack(">I2", len(text)) + text + rest[2]]
        else:
            words += [pack(">I6BI6", delivery, verb | (64 if hold else 0), ms) + hold, b"" if verb == ACK else text]
    return words


class StepReply:
    """The answer of step.lua: `results` per answer (status, state, due, lease_until), `names` (topic, id) or None, `jobs` and `leaves_some` per take,
    `woken` topics."""

    def __init__(self, answer, answers, takes):
        self.now, self.next, self.next_topic, self.elements = answer.now, answer.next, answer.next_topic, answer.elements
        bits, rest = unpack(">B", answer.rest)
        self.more, self.has_other = bool(bits & 1), bool(bits & 2)
        self.results, self.jobs, self.leaves_some = [], [], []
        for _ in range(answers):
            *one, rest = unpack(">BBI6I6", rest)
            self.results.append((one[0], one[1] & ~64, *one[2:]))
        counts = []
        for _ in range(takes):
            leaves_some, count, rest = unpack(">BI4", rest)
            self.leaves_some.append(bool(leaves_some))
            counts.append(count)
        assert not rest and not bits & ~3
        self.words = answer.more[answers:answers + 3 * sum(counts)]  # of the jobs: id, record, try
        self.names = [tuple(name.split(b"\0", 1)) if name else None for name in answer.more[:answers]]
        words = answer.more[answers:]
        for count in counts:
            self.jobs.append([Job(*words[at:at + 3], state=LEASED) for at in range(0, 3 * count, 3)])
            words = words[3 * count:]
        self.woken = words


def jobs_taken(answer):
    assert not answer.rest and len(answer.more) % 3 == 0
    return [Job(*answer.more[at:at + 3], state=LEASED) for at in range(0, len(answer.more), 3)]
