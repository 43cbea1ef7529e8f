"""Possible causes between two events of one job: settings in force, the certain length of a lease, possible ends of a job."""

from .history import DEFAULTS, FOREVER, MS

JITTER = 0.8  # the shortest wait is this much of the nominal one


def setting(key, body, name):
    """The least that may be in force for a job with this body: the job's own, the topic's, the default."""
    values = []
    for push in key.by_body.get(body, ()):
        own = push.own.get(name)
        values.append(key.topic.settings.get(name, DEFAULTS[name]) if own is None else own)
    if not values:
        return key.topic.settings.get(name, DEFAULTS[name])
    return min(values)


def most_attempts(key, body):
    values = [push.own.get("max_attempts") or key.topic.settings["max_attempts"] for push in key.by_body.get(body, ())]
    return max(values, default=key.topic.settings["max_attempts"])


def least_backoff_ns(key, body, attempt):
    first, most = setting(key, body, "backoff_ms")
    return int(min(first * 2 ** min(attempt - 1, 40), most) * JITTER) * MS


def lease_end(delivery):
    """The lease cannot have run out before this."""
    own = delivery.lease_ms if delivery.lease_ms else setting(delivery.key, delivery.body, "lease_ms")
    least = delivery.earliest + own * MS
    for answer in delivery.answers:
        if answer.verb == "extend" and answer.may_have_happened:
            extended = answer.begin + (answer.lease_ms or own) * MS
            least = extended if answer.outcome == "ok" else min(least, extended)
    return least


def crash_may_have_undone(history, delivery, end):
    """A kill before `end` that may have undone the take: it was not yet on disk, and no later answered change of the lease proves that it was."""
    if history.undoing(delivery):
        return True
    kill = history.killed_between(delivery.begin, end)
    if kill is None:
        return False
    durable = [a.end for a in delivery.answers if a.verb == "extend" and a.outcome == "ok"]
    return not (durable and min(durable) < kill)


def held_until(history, delivery):
    """The consumer certainly holds the lease from the reply to this instant (not counting what ends the job as a whole)."""
    until = lease_end(delivery)
    for answer in delivery.answers:
        if answer.verb != "extend" and answer.may_have_happened:
            until = min(until, answer.begin)
    if history.undoing(delivery):
        return delivery.begin
    if crash_may_have_undone(history, delivery, until):
        until = min(until, history.killed_between(delivery.begin, until))
    for verb, span, _ in delivery.key.topic.calls:
        if verb == "delete" and span.may_have_happened and span.end > delivery.begin:
            until = min(until, span.begin)
    return until


def endings(key, history):
    """Returns everything that may have ended a job under this key: (Span, what). Certain ones have the outcome "ok"."""
    out = []
    for delivery in key.deliveries:
        for answer in delivery.answers:
            if answer.verb == "ack" and answer.may_have_happened:
                out.append((answer, "ack"))
    for change in key.changes:
        if change.verb == "cancel" and change.may_have_happened:
            out.append((change, "cancel"))
    for verb, span, _ in key.topic.calls:
        if verb in ("purge", "delete") and span.may_have_happened:
            out.append((_Maybe(span.begin, span.end), verb))
    for body, pushes in key.by_body.items():
        ttl_ms = setting(key, body, "ttl_ms")
        if ttl_ms:
            out += [(_Maybe(expiry(push, ttl_ms, history), FOREVER), "expiry") for push in pushes]
    return out


def expiry(push, ttl_ms, history):
    """No earlier than this can the job have expired. With an absolute due, leave it open: `at` is on another clock."""
    if push.at_ms is not None:
        return push.begin
    return push.begin + (push.delay_ms + ttl_ms) * MS


class _Maybe:
    """An ending that may have hit this very job, or not."""

    __slots__ = ("begin", "end", "outcome")

    def __init__(self, begin, end):
        self.begin, self.end, self.outcome = begin, end, "unknown"


def pushed_again(key, body, span):
    """A second push with the same body (a retry) that may have recreated the job after `span`."""
    pushes = key.by_body.get(body, ())
    return len(pushes) > 1 and any(push.end > span.begin for push in pushes[1:])


def certainly_recreated(key, previous, end):
    """The job of `previous` ended with an answered ack, and a push created another one before `end`."""
    acked = [answer.end for answer in previous.answers if answer.verb == "ack" and answer.outcome == "ok"]
    pushes = key.by_body.get(previous.body, ())
    return bool(acked) and any(push.outcome == "created" and min(acked) < push.begin < end for push in pushes)


def redriven(key, begin, end):
    """A redrive that may have changed a job. One that reported no job did not."""
    return any(verb == "redrive" and span.may_have_happened and not (span.outcome == "ok" and affected == 0) and span.begin < end and span.end > begin
               for verb, span, affected in key.topic.calls)


def lost_takes(key, begin, end):
    """Takes of this topic with a lost reply: deliveries that no client saw."""
    return sum(1 for span in key.topic.lost_takes if span.begin < end and span.end > begin)


def cause_of(history, key, previous, delivery):
    """The reason for another delivery of a job after `previous`; None: no known reason."""
    for answer in previous.answers:
        if answer.begin < delivery.end:
            if answer.verb == "nack" and answer.outcome == "ok":
                return "nack"
            if answer.verb == "nack" and answer.outcome == "unknown":
                return "nack, reply lost"
            if answer.verb == "ack" and answer.outcome == "ok" and not pushed_again(key, delivery.body, answer):
                return None
    if pushed_again(key, delivery.body, previous):
        return "pushed again"
    if redriven(key, previous.begin, delivery.end):
        return "redrive"
    if delivery.end >= lease_end(previous):
        return "lease ended"
    if crash_may_have_undone(history, previous, delivery.end):
        return "crash after delivery"
    return None


class Result:
    """The findings of a rule: the number of checks, each violation in a sentence, and notes."""

    def __init__(self, rule):
        self.rule, self.trials, self.violations, self.notes = rule, 0, [], {}

    def blame(self, sentence):
        self.violations.append(sentence)

    def note(self, what, by=1):
        self.notes[what] = self.notes.get(what, 0) + by
