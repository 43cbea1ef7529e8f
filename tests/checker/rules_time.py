"""Never early, and how late: rules E and T."""

from .causes import Result, cause_of, crash_may_have_undone, least_backoff_ns, lease_end, lost_takes, pushed_again, redriven
from .history import MS, due_of


class _Setter:
    """Something that made the job due at `due`, at some instant between begin and end."""

    __slots__ = ("begin", "end", "due", "sure", "what")

    def __init__(self, begin, end, due, sure, what):
        self.begin, self.end, self.due, self.sure, self.what = begin, end, due, sure, what


def never_early(history):
    """E. No delivery before its due: relative delay measured from before the push (nack, reschedule) was sent; absolute time on the server's clock.
    Tolerance 0. A retry waits at least its delay or backoff (less the jitter)."""
    result = Result("E")
    for key in history.keys.values():
        before = {}
        for delivery in key.deliveries:
            previous = before.get(delivery.body)
            before[delivery.body] = delivery
            if previous and cause_of(history, key, previous, delivery) is None:
                continue  # nothing made it due: rule D's
            setters = _setters(history, key, previous, delivery)
            if not setters:
                continue  # a phantom: rule P's
            result.trials += 1
            if not any(_allows(setter, setters, delivery) for setter in setters):
                nearest = min(setters, key=lambda setter: setter.due)
                result.blame(f"{delivery.name()}: {(nearest.due - delivery.end) / MS:.3f} ms before its due ({nearest.what})")
    return result


def _allows(setter, setters, delivery):
    """Could the delivery have happened after `setter`, before anything that certainly came later and set another due?"""
    latest = delivery.end
    for other in setters:
        if other.sure and other.begin > setter.end:
            latest = min(latest, other.end)
    return max(setter.due, delivery.begin, setter.begin) <= latest


def _setters(history, key, previous, delivery):
    out = []
    is_retry = previous and delivery.attempt == previous.attempt + 1 and not crash_may_have_undone(history, previous, delivery.end)
    if is_retry:
        out = _retry_setters(key, previous)
        since = previous.begin
    if not is_retry or _may_be_of_another(key, previous, delivery):
        for push in key.by_body.get(delivery.body, ()):
            out.append(_Setter(push.begin, push.end, due_of(push, delivery), push.applied and delivery.attempt == 1, "push"))
        if not is_retry:
            since = min((setter.begin for setter in out), default=None)
    if not out:
        return out
    for change in key.changes:
        if change.verb != "cancel" and change.may_have_happened and change.end > since and change.begin < delivery.end:
            due = change.begin if change.verb == "run" else due_of(change, delivery)
            out.append(_Setter(change.begin, change.end, due, change.outcome == "ok", change.verb))
    if redriven(key, since, delivery.end):
        out.append(_Setter(delivery.begin, delivery.end, delivery.begin, False, "redrive"))
    return [setter for setter in out if setter.begin <= delivery.end]


def _may_be_of_another(key, previous, delivery):
    """The job was recreated since, and an earlier delivery of that went with a lost reply."""
    return pushed_again(key, delivery.body, previous) and lost_takes(key, previous.begin, delivery.end) > 0


def _retry_setters(key, previous):
    backoff = least_backoff_ns(key, previous.body, previous.attempt)
    nacks = [answer for answer in previous.answers if answer.verb == "nack" and answer.may_have_happened]
    out = []
    for nack in nacks:
        wait = backoff if nack.delay_ms is None else nack.delay_ms * MS
        out.append(_Setter(nack.begin, nack.end, nack.begin + wait, nack.outcome == "ok", "nack"))
    if not any(nack.outcome == "ok" for nack in nacks):
        ended = lease_end(previous)
        out.append(_Setter(previous.begin, previous.end, ended + backoff, False, "end of lease and backoff"))
    return out


def lateness(history):
    """T. How late a due job reaches a consumer that was waiting for it: from the due time (reckoned from before the push was sent) to the whole reply.
    Only first deliveries, by themselves in their reply, of jobs never moved, to a take that was already waiting when the job fell due; none around a fault."""
    result = Result("T")
    late = []
    for key in history.keys.values():
        if key.changes or len(key.pushes) != 1 or not key.pushes[0].applied:
            continue
        push = key.pushes[0]
        for delivery in key.deliveries[:1]:
            due = due_of(push, delivery)
            if delivery.attempt != 1 or not delivery.waited or delivery.body != push.body:
                continue
            undisturbed = history.killed_between(delivery.begin, delivery.end) is None and not history.disturbances_between(delivery.begin, delivery.end)
            if delivery.begin < due and push.end <= due and undisturbed:
                late.append((delivery.end - due) / MS)
    late.sort()
    result.trials = len(late)
    if late:
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
            result.notes[name + "_ms"] = round(late[min(len(late) - 1, int(share * len(late)))], 3)
    return result
