"""Fires by a search of every minute in Python's zoneinfo, with the rules of docs/schedules.md: shares no code with tarry."""

import functools
import zoneinfo

MINUTE, DAY = 60, 86400
GAP_MAX = 3 * 3600


@functools.cache
def walls(name, start, end):
    """Returns (moment, local time) of every minute; local times are seconds as if the wall showed UTC."""
    import datetime
    zone = zoneinfo.ZoneInfo(name)
    return [(at, at + int(datetime.datetime.fromtimestamp(at, zone).utcoffset().total_seconds())) for at in range(start, end, MINUTE)]


@functools.cache
def wall(name, start, end):
    """Returns the moments of each local time, and the gaps as (local start, local end, moment)."""
    times, gaps, before = {}, [], None
    for at, local in walls(name, start, end):
        times.setdefault(local, []).append(at)
        if before is not None and local > before + MINUTE:
            gaps.append((before + MINUTE, local, at))
        before = local
    return times, gaps


def fires(name, minutes, hours, weekdays, is_interval, gap, fold, start, end):
    """Returns the moments after start and before end. weekdays: a set of 0 (Sunday) to 6, or None."""
    first, last = start - DAY, end + DAY
    times, gaps = wall(name, first, last)

    def matches(local):
        return local // 60 % 60 in minutes and local // 3600 % 24 in hours and (weekdays is None or (local // DAY + 4) % 7 in weekdays)

    out = set()
    for local, moments in times.items():
        if matches(local):
            out.update(moments if is_interval or fold == "both" else moments[:1] if fold == "first" else moments[-1:])
    if not is_interval and gap == "after":
        for low, high, moment in gaps:
            if high - low <= GAP_MAX and any(matches(local) for local in range(low, high, MINUTE)):
                out.add(moment)
    return sorted(at for at in out if start < at < end)
