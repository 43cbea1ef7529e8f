"""The holder of a job, the causes of repetitions, and its numbers: rules X, D, N, F."""

from .causes import Result, cause_of, certainly_recreated, crash_may_have_undone, held_until, lost_takes, most_attempts, pushed_again, redriven, setting
from .history import MS, out_of_order


def one_holder(history):
    """X. No two overlapping leases of a job without nack, ack, end of lease or restart between; and no answer accepted from a holder who was replaced."""
    result = Result("X")
    for key in history.keys.values():
        deliveries = key.deliveries
        for at, later in enumerate(deliveries[1:], 1):
            result.trials += 1
            for earlier in deliveries[max(0, at - 8):at]:
                if later.end < held_until(history, earlier) and (earlier.end < later.earliest or _numbers_rise(earlier, later)):
                    result.blame(f"{later.name()}: delivered {(held_until(history, earlier) - later.end) // MS} ms before "
                                  f"the lease of attempt {earlier.attempt} was up")
                    break
        for at, earlier in enumerate(deliveries[:-1]):
            _check_stale(history, earlier, deliveries[at + 1:], result)
    return result


def _numbers_rise(earlier, later):
    return earlier.number is not None and later.number is not None and earlier.number < later.number


def _check_stale(history, earlier, rest, result):
    for answer in earlier.answers:
        if answer.outcome != "ok":
            continue
        for later in rest:
            if later.end < answer.begin and history.killed_between(later.begin, answer.end) is None and not history.undoing(later):
                result.blame(f"{earlier.name()}: its {answer.verb} was answered ok though attempt {later.attempt} had been handed out")
                return


def named_causes(history):
    """D. Every redelivery has a cause: lease ended, nack, lost reply, crash after delivery (or a redrive, or a push repeated). Unexplained = 0."""
    result = Result("D")
    for key in history.keys.values():
        before = {}
        for delivery in key.deliveries:
            previous = before.get(delivery.body)
            before[delivery.body] = delivery
            if previous is None:
                continue
            result.trials += 1
            cause = cause_of(history, key, previous, delivery)
            result.note(cause or "unexplained")
            if cause is None:
                result.blame(f"{delivery.name()}: delivered again after attempt {previous.attempt} for no reason that can be named")
    return result


def attempts_count(history):
    """N. Attempts rise by exactly one; dead after max_attempts, once, never before. After a crash that may have undone the last take, the
    number may come once more; takes whose reply was lost count as unseen deliveries, and so may one in each disturbance (the lease ended before
    the server could ask its store again). All are counted separately."""
    result = Result("N")
    for key in history.keys.values():
        before = {}
        for delivery in key.deliveries:
            result.trials += 1
            previous = before.get(delivery.body)
            before[delivery.body] = delivery
            limit = most_attempts(key, delivery.body)
            if delivery.body in key.by_body and delivery.attempt > limit:
                result.blame(f"{delivery.name()}: above its max_attempts of {limit}")
                continue
            fault = _attempt_fault(history, key, previous, delivery, result)
            if fault:
                result.blame(f"{delivery.name()}: {fault}")
        _check_dead(key, before, result)
    return result


def _attempt_fault(history, key, previous, delivery, result):
    pushes = key.by_body.get(delivery.body, ())
    if not pushes:
        return None  # a phantom: rule P's
    expected = previous.attempt + 1 if previous else 1
    since = previous.begin if previous else pushes[0].begin
    if delivery.attempt == expected:
        return None
    anew = previous and (redriven(key, since, delivery.end) or pushed_again(key, delivery.body, previous))
    if anew and delivery.attempt == 1:
        result.note("starting again after a redrive or push")
        return None
    if previous and delivery.attempt == previous.attempt and crash_may_have_undone(history, previous, delivery.end):
        result.note("repeated after a crash")
        return None
    if previous and delivery.attempt <= previous.attempt and history.undoing(previous):
        result.note("several attempts undone by a failover")
        return None
    lost = lost_takes(key, since, delivery.end)
    # A redrive or a repeated push may have recreated the job or not, so its attempts may begin again or continue.
    bases = {1} if previous and certainly_recreated(key, previous, delivery.end) else {1, expected} if anew else {expected}
    unseen = [delivery.attempt - base for base in bases]
    if any(0 < count <= lost for count in unseen):
        result.note("passed over with a lost reply")
        return None
    if any(0 < count <= lost + history.disturbances_between(since, delivery.end) for count in unseen):
        result.note("passed over in a disturbance")
        return None
    return f"expected {expected}" + (f" after attempt {previous.attempt}" if previous else " first")


def _check_dead(key, last, result):
    for look in key.looks:
        if look.state != "dead":
            continue
        result.trials += 1
        bodies = [look.body] if look.body is not None else list(key.by_body)
        limits = [most_attempts(key, body) for body in bodies] or [most_attempts(key, None)]
        if key.topic.settings["dead_letter_expired"] and any(setting(key, body, "ttl_ms") for body in bodies):
            continue
        if look.attempt not in limits:
            result.blame(f"{key.name()}: dead at attempt {look.attempt}, max_attempts is {limits[0]}")
        if any(d.begin > look.end and d.body in bodies for d in key.deliveries) and not redriven(key, look.begin, key.deliveries[-1].end):
            if not any(push.end > look.begin for body in bodies for push in key.by_body.get(body, ())):
                result.blame(f"{key.name()}: delivered after it was seen dead")
    for body, delivery in last.items():
        given_up = [a for a in delivery.answers if a.verb == "nack" and a.outcome == "ok"]
        if given_up and delivery.attempt >= most_attempts(key, body):
            result.trials += 1
            result.note("dead")
            for look in key.looks:
                seen_alive = look.begin > given_up[0].end and look.body == body and look.state not in ("dead", None)
                if seen_alive and not redriven(key, given_up[0].begin, look.end) and not pushed_again(key, body, given_up[0]):
                    result.blame(f"{key.name()}: {look.state} after its last attempt failed; it should be dead")


def numbers_fence(history):
    """F. Each delivery carries a per-job number that rises with every delivery, crashes or not; no lease is handed out twice. Until an old master
    that lives is notified of the new one, it may hand out jobs that the new one has: with a lower number, which fences them off. Counted separately."""
    result = Result("F")
    for key in history.keys.values():
        for delivery in key.deliveries:
            if delivery.number is None and not delivery.is_unnumbered:
                result.blame(f"{delivery.name()}: without a delivery number")
        result.trials += max(0, len(key.deliveries) - 1)
        by_time = sorted(key.deliveries, key=lambda delivery: delivery.end)
        for earlier, later in out_of_order(by_time):
            if later.number < earlier.number and history.undoing(later):
                result.note("by a master of before")
                continue
            result.blame(f"{later.name()}: delivery number {later.number} after {earlier.number}")
    for delivery in history.repeated_leases:
        result.blame(f"{delivery.name()}: its lease had been handed out before")
    return result
