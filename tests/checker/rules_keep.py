"""Nothing lost, nothing made up, nothing come back: rules L, P, A, I."""

from .causes import Result, endings, pushed_again
from .history import MS


def no_loss(history):
    """L. A push answered OK is delivered at least once, or still there at the end, or cancelled. (Also: once delivered and not acked, it is still there.)"""
    result = Result("L")
    for key in history.keys.values():
        applied = [push for push in key.pushes if push.applied]
        doubted = [push for push in key.pushes if push.doubted]
        if not applied and not doubted:
            continue
        ends = endings(key, history)
        for push in doubted:
            result.note("answered around a failover")
            result.note("of these lost", 0 if _fate(history, key, push, ends) else 1)
        for push in applied:
            result.trials += 1
            fate = _fate(history, key, push, ends)
            result.note(fate or "lost")
            if not fate:
                seen = sum(1 for delivery in key.deliveries if delivery.body == push.body)
                result.blame(f"{key.name()}: pushed ({push.outcome}), delivered {seen} times, and gone without ack, cancel or expiry")
        for look in key.looks:
            if look.outcome == "not_found":
                _check_absence(key, look, applied, ends, result)
    _check_expired(history, result)
    return result


def _fate(history, key, push, ends):
    for delivery in key.deliveries:
        if delivery.body == push.body:
            for answer in delivery.answers:
                if answer.verb == "ack" and answer.outcome == "ok":
                    return "acked"
    if key.left and key.left.body in (None, push.body):
        return "still there"
    if any(what == "cancel" and span.outcome == "ok" and span.end > push.begin for span, what in ends):
        return "cancelled"
    if any(other is not push and other.may_have_happened and other.end > push.begin and other.outcome in ("replaced", "unknown")
           for other in key.pushes):
        return "replaced"
    late = [what for span, what in ends if span.end > push.begin and span.begin < history.end]
    for delivery in key.deliveries:
        if delivery.body == push.body and any(a.verb == "ack" and a.outcome == "unknown" for a in delivery.answers):
            return "acked (reply lost)"
    for what in ("cancel", "purge", "delete", "expiry"):
        if what in late:
            return {"cancel": "cancelled (reply lost)", "purge": "purged", "delete": "topic deleted", "expiry": "expired"}[what]
    return None


def _check_absence(key, look, applied, ends, result):
    """A look-up that finds nothing, of a job that must be there."""
    result.trials += 1
    before = [push for push in applied if push.end < look.begin]
    if not before:
        return
    newest = max(before, key=lambda push: push.end)
    if not any(span.end > newest.begin and span.begin < look.end for span, _ in ends):
        result.blame(f"{key.name()}: looked up after its push was answered, and not found")


def _check_expired(history, result):
    """No more jobs may be put down to expiry than the server itself counted."""
    if not history.counts:
        return
    counted = sum(topic.get("expired", 0) for topic in history.counts[-1][1].values())
    claimed = result.notes.get("expired", 0)
    if claimed > counted:
        result.blame(f"{claimed} jobs went without a trace and could have expired, but the server counts {counted} expired")


def no_phantom(history):
    """P. Each delivery matches a push attempted, to the byte."""
    result = Result("P")
    for key in history.keys.values():
        for delivery in key.deliveries:
            result.trials += 1
            _check_body(key, delivery, "delivered", result)
        for look in key.looks:
            if look.outcome == "found" and look.body is not None:
                result.trials += 1
                _check_body(key, look, "shown", result)
    for lease, _ in history.phantom_leases:
        result.blame(f"an answer to the lease {lease}, which nobody was given, was answered ok")
    return result


def _check_body(key, seen, how, result):
    if any(push.begin <= seen.end for push in key.by_body.get(seen.body, ())):
        return
    if not key.pushes:
        result.blame(f"{key.name()}: {how}, but never pushed")
    elif any(push.body == seen.body for push in key.pushes):
        result.blame(f"{key.name()}: {how} with the body of a push that was refused or had not been sent")
    else:
        result.blame(f"{key.name()}: {how} with bytes that nobody pushed under this id")


def stays_finished(history):
    """A. Acked stays acked, cancelled stays cancelled."""
    result = Result("A")
    for key in history.keys.values():
        for at, delivery in enumerate(key.deliveries):
            done = [a for a in delivery.answers if a.verb == "ack" and a.outcome == "ok"]
            if not done:
                continue
            result.trials += 1
            if any(a.begin > done[0].end for a in delivery.answers if a is not done[0] and a.outcome == "ok"):
                result.blame(f"{delivery.name()}: its lease was answered ok again after the ack")
            later = [other for other in key.deliveries[at + 1:] if other.end >= done[0].begin]  # those before: a stale ack, rule X's
            _check_after(key, done[0], later, delivery.body, "acked", result)
        for change in key.changes:
            if change.verb == "cancel" and change.outcome == "ok":
                result.trials += 1
                for body in key.by_body:
                    later = [d for d in key.deliveries if d.earliest > change.end]
                    _check_after(key, change, later, body, "cancelled", result)
    return result


def _check_after(key, ending, later, body, what, result):
    pushes = key.by_body.get(body, ())
    if pushed_again(key, body, ending) or not any(push.begin < ending.end for push in pushes):
        return
    if what == "cancelled" and any(push.end > ending.begin for push in pushes):
        return
    for delivery in later:
        if delivery.body == body:
            result.blame(f"{delivery.name()}: delivered after it was {what}")
            return
    for look in key.looks:
        if look.outcome == "found" and look.begin > ending.end and look.body == body and look.state != "finished":
            result.blame(f"{key.name()}: still shown as {look.state} after it was {what}")
            return


def one_job_per_id(history):
    """I. A push repeated with the same id makes one job, also across crashes; and within dedup_window no job once it has finished."""
    result = Result("I")
    for key in history.keys.values():
        window_ms = key.topic.settings["dedup_window_ms"]
        if len(key.pushes) < 2 and not window_ms and key.pushes[:1] and key.pushes[0].outcome in ("created", "unknown"):
            continue
        ends = endings(key, history)
        for at, push in enumerate(key.pushes):
            result.trials += 1
            earlier = [other for other in key.pushes if other is not push and other.may_have_happened]
            if push.outcome == "created":
                _check_created(key, push, earlier, ends, window_ms, result)
            elif push.outcome in ("existed", "conflict", "replaced", "leased"):
                _check_existed(key, push, earlier, ends, window_ms, result)
        _check_double_ack(key, result)
    return result


def _check_created(key, push, earlier, ends, window_ms, result):
    sure = [other for other in earlier if other.applied and other.end < push.begin]
    if sure:
        newest = max(sure, key=lambda other: other.end)
        if not any(span.end > newest.begin and span.begin < push.end for span, _ in ends):
            result.blame(f"{key.name()}: pushed twice, created twice, and nothing ended the first")
            return
    if window_ms:
        for span, what in ends:
            if span.outcome == "ok" and span.end < push.begin and push.end < span.begin + window_ms * MS:
                result.blame(f"{key.name()}: made again {(push.begin - span.end) // MS} ms after its {what}, within the dedup_window")
                return


def _check_existed(key, push, earlier, ends, window_ms, result):
    before = [other for other in earlier if other.begin < push.end]
    if not before:
        result.blame(f"{key.name()}: answered '{push.outcome}', but it had never been pushed")
        return
    if push.outcome == "existed" and window_ms:
        return
    for span, what in ends:
        gone = span.outcome == "ok" and span.end < push.begin
        if gone and not any(other.end > span.begin for other in before):
            result.blame(f"{key.name()}: answered '{push.outcome}' after its {what}, and nothing had been pushed since")
            return


def _check_double_ack(key, result):
    for body, pushes in key.by_body.items():
        acked = [d for d in key.deliveries if d.body == body and any(a.verb == "ack" and a.outcome == "ok" for a in d.answers)]
        if len(acked) > len(pushes):
            result.blame(f"{key.name()}: {len(pushes)} pushes, but {len(acked)} deliveries acked")
