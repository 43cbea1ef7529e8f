"""The sums, and the state after a crash: rules C and S."""

from .causes import Result
from .history import APPLIED

LIVE = ("delayed", "retrying", "ready", "leased", "dead")
GONE = ("acked", "cancelled", "expired")


def counts_add_up(history):
    """C. At every quiet point pushed = delayed + retrying + ready + leased + dead + acked + cancelled + expired, in each topic; and the
    server's sums lie between what was answered and what may have happened besides."""
    result = Result("C")
    for span, topics in history.counts:
        for name, counts in topics.items():
            result.trials += 1
            missing = [field for field in ("pushed",) + LIVE + GONE if not isinstance(counts.get(field), int)]
            if missing:
                result.blame(f"{name}: no figure for {', '.join(missing)}")
                continue
            total = sum(counts[field] for field in LIVE + GONE)
            if counts["pushed"] != total:
                result.blame(f"{name}: pushed {counts['pushed']}, but {total} are accounted for: "
                              + ", ".join(f"{field} {counts[field]}" for field in LIVE + GONE))
    _check_sums(history, result)
    _check_listing(history, result)
    return result


def _check_sums(history, result):
    for name, bounds in _bounds(history).items():
        for span, topics in history.counts:
            if name not in topics or any(verb == "delete" for verb, _, _ in history.topics[name].calls):
                continue
            for field, (sure, maybe) in bounds.items():
                least = _before(sure, span.begin)
                most = least + _before(maybe, span.begin)
                result.trials += 1
                figure = topics[name].get(field)
                if isinstance(figure, int) and not least <= figure <= most:
                    result.blame(f"{name}: {field} is {figure}, by the calls it lies between {least} and {most}")


def _before(marks, instant):
    return sum(weight for end, weight in marks if end < instant)


def _bounds(history):
    """topic: field: (calls answered ok, calls that may have happened) as (time, weight)."""
    out = {name: {field: ([], []) for field in ("pushed", "acked", "cancelled")} for name in history.topics}
    for key in history.keys.values():
        fields = out[key.topic.name]
        for push in key.pushes:
            # A job replaced is counted once as pushed: the new one takes the old one's place.
            if push.outcome == "created":
                _sure(fields["pushed"], push)
            elif push.outcome == "unknown":
                fields["pushed"][1].append((push.begin, 1))
        for change in key.changes:
            if change.verb == "cancel":
                _mark(fields["cancelled"], change)
        for delivery in key.deliveries:
            acks = [answer for answer in delivery.answers if answer.verb == "ack" and answer.may_have_happened]
            if acks:
                sure = [answer for answer in acks if answer.outcome == "ok"]
                _mark(fields["acked"], (sure or acks)[0])
            fields["cancelled"][1].extend((answer.begin, 1) for answer in acks if answer.may_cancel)
    for topic in history.topics.values():
        out[topic.name]["pushed"][1].extend((push.begin, 1) for push in topic.nameless.values())
        for verb, span, affected in topic.calls:
            if verb == "purge" and span.may_have_happened:
                weight = affected if span.outcome == "ok" else 1 << 40
                out[topic.name]["cancelled"][0 if span.outcome == "ok" else 1].append((span.end, weight))
    return out


def _sure(field, span):
    """Until its answer is read, the call may have happened: a client that is stopped reads it late."""
    field[0].append((span.end, 1))
    field[1].extend(((span.begin, 1), (span.end, -1)))


def _mark(field, span):
    if span.outcome == "ok":
        _sure(field, span)
    elif span.outcome == "unknown":
        field[1].append((span.begin, 1))


def _check_listing(history, result):
    """The last counts of remaining jobs match the listing."""
    if not history.counts:
        return
    span, topics = history.counts[-1]
    for name, topic in history.topics.items():
        if not topic.listed or name not in topics:
            continue
        left = [key.left for key in history.keys.values() if key.topic is topic and key.left]
        for state in ("dead", "leased"):
            result.trials += 1
            shown = sum(1 for look in left if look.state == state)
            if shown != topics[name].get(state):
                result.blame(f"{name}: {topics[name].get(state)} {state} by the counts, {shown} listed")


def state_survives(history):
    """S. After every crash the server comes back, `tarry fsck` is clean, and recovering twice gives the same state."""
    result = Result("S")
    result.trials += len(history.readies)
    for at in history.failed_starts:
        result.blame(f"the server did not come back at {at}")
    for at, code, text in history.fscks:
        result.trials += 1
        if code != 0:
            result.blame(f"fsck: exit code {code}: {text.strip()[:200]}")
    for first, second, settled in history.recovered:
        result.trials += 1
        _check_recovered(first, second, settled, result)
    return result


def _check_recovered(first, second, settled, result):
    if set(first) != set(second):
        result.blame(f"topics differ from one start to the next: {sorted(set(first) ^ set(second))}")
        return
    for name, before in first.items():
        after = second[name]
        fields = ("pushed", "acked", "cancelled") + ((LIVE + ("expired",)) if settled else ())
        changed = [f"{field} {before.get(field)} became {after.get(field)}" for field in fields if before.get(field) != after.get(field)]
        if not settled:
            sums = [sum(counts.get(field, 0) for field in LIVE + ("expired",)) for counts in (before, after)]
            if sums[0] != sums[1]:
                changed.append(f"live jobs {sums[0]} became {sums[1]}")
        if changed:
            result.blame(f"{name}: from one start to the next: " + ", ".join(changed))


def acked_pushes(history):
    return sum(1 for key in history.keys.values() for push in key.pushes if push.outcome in APPLIED)
