"""Did the run test enough to be believed? What it lacks makes it INVALID, not passed."""

import bisect

from .rules_counts import acked_pushes

DEFAULTS = {"pushes": 1000, "kills": 3, "redeliveries": 10, "disturbances": 0}
LOOK_BACK = 2000  # calls that may be in progress together
FEW = 4  # kills, below which it is chance whether one hits a server that has clients
STATES = ("delayed", "retrying", "ready", "leased", "dead", "acked", "cancelled", "expired")


def lacks(history, least):
    """Sentences, each naming something the run did not do."""
    out = []
    pushes = acked_pushes(history)
    if pushes < least["pushes"]:
        out.append(f"only {pushes} pushes were answered ok, {least['pushes']} wanted")
    if len(history.kills) < least["kills"]:
        out.append(f"only {len(history.kills)} kills, {least['kills']} wanted")
    broken = len(history.disturbances) + len(history.failovers)
    if broken < least["disturbances"]:
        out.append(f"only {broken} disturbances, {least['disturbances']} wanted")
    if len(history.readies) < len(history.kills) and not history.failed_starts:
        out.append("a kill that no start followed")
    idle = _idle_kills(history)
    if idle * 2 > len(history.deaths) >= least.get("busy_kills", FEW):
        out.append(f"{idle} of {len(history.deaths)} kills hit a server with nothing under way")
    unlisted = sorted(topic.name for topic in history.topics.values() if not topic.listed)
    if unlisted:
        out.append("no final listing of " + ", ".join(unlisted[:5]))
    if not history.counts:
        out.append("no counts at a quiet point")
    if (history.kills or broken) and not history.fscks:
        out.append("fsck was never run")
    if (history.kills or broken) and not history.recovered:
        out.append("it was never recovered twice")
    again = sum(max(0, len(key.deliveries) - 1) for key in history.keys.values())
    if again < least["redeliveries"]:
        out.append(f"only {again} redeliveries, {least['redeliveries']} wanted")
    out += [f"no job was ever {state}" for state in STATES if state not in _visited(history)]
    return out


def _idle_kills(history):
    """Kills during which no reply was lost."""
    lost = sorted(history.in_flight)
    begins = [begin for begin, _ in lost]
    idle = 0
    for begin, at in history.deaths:
        before = lost[max(0, bisect.bisect_right(begins, at) - LOOK_BACK):bisect.bisect_right(begins, at)]
        idle += not any(end >= begin for _, end in before)
    return idle


def _visited(history):
    seen = set()
    for key in history.keys.values():
        for push in key.pushes:
            if push.applied:
                seen.add("delayed" if push.delay_ms or push.at_ms else "ready")
        if key.deliveries:
            seen.add("leased")
        if any(delivery.attempt > 1 for delivery in key.deliveries):
            seen.add("retrying")
        if any(a.verb == "ack" and a.outcome == "ok" for delivery in key.deliveries for a in delivery.answers):
            seen.add("acked")
        if any(change.verb == "cancel" and change.outcome == "ok" for change in key.changes):
            seen.add("cancelled")
        seen.update(look.state for look in key.looks if look.state)
    for _, topics in history.counts:
        for counts in topics.values():
            seen.update(state for state in STATES if counts.get(state))
    return seen
