"""Fires by a search of every minute in Python's zoneinfo, with the rules of docs/schedules.md: shares no code with tarry."""

import datetime
import functools
import zoneinfo

MINUTE, DAY = 60, 86400
GAP_MAX = 3 * 3600


@functools.cache
def walls(name, start, end):
    """Returns (moment, local time) of every minute; local times are seconds as if the wall showed UTC."""
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


# ---- the same by days, for years and many zones ----

EPOCH = datetime.datetime(1970, 1, 1)


def all_zones():
    """Returns the zones of the system's tzdata that are places, without other names of them."""
    return sorted(name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith(("Etc/", "posix/", "right/", "SystemV/", "US/")))


def offsets(zone, local):
    """Returns the offsets that a local time may have; they differ in a gap and in a fold."""
    naive = EPOCH + datetime.timedelta(seconds=local)
    return [int(naive.replace(tzinfo=zone, fold=fold).utcoffset().total_seconds()) for fold in (0, 1)]


def moments_of(zone, local):
    """Returns the moments at which the clock shows this local time, in order; and, if it is in a gap, the gap's length and the moment after it."""
    before, after = offsets(zone, local)
    if before == after:
        return [local - before], None
    if before > after:  # a fold
        return [local - before, local - after], None
    low, high = local - after, local - before  # the change is between them
    while low < high:
        middle = (low + high) // 2
        if datetime.datetime.fromtimestamp(middle, zone).utcoffset().total_seconds() == before:
            low = middle + 1
        else:
            high = middle
    return [], (after - before, low)


def fires_by_days(name, minutes, hours, weekdays, is_interval, gap, fold, start, end):
    """As fires, by the days of the local calendar."""
    zone, out = zoneinfo.ZoneInfo(name), set()
    for day in range(start // DAY - 2, end // DAY + 3):
        if weekdays is not None and (day + 4) % 7 not in weekdays:
            continue
        for hour in hours:
            for minute in minutes:
                moments, missing = moments_of(zone, day * DAY + hour * 3600 + minute * 60)
                if moments:
                    out.update(moments if is_interval or fold == "both" else moments[:1] if fold == "first" else moments[-1:])
                elif missing and not is_interval and gap == "after" and missing[0] <= GAP_MAX:
                    out.add(missing[1])
    return sorted(at for at in out if start < at < end)
