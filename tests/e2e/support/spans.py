"""Spans of time, such as those of leases."""


def most_at_once(spans):
    """Returns the largest number of these (begin, end) at one time. A span that begins when another one ends follows it."""
    most = now = 0
    for _, step in sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans]):
        now += step
        most = max(most, now)
    return most
