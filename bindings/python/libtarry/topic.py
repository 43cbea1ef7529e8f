"""Topics: their figures and their settings."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from ._binding import ffi, lib
from .values import Duration, backoff_of, backoff_text, conflict_of, milliseconds, time_of


@dataclass(frozen=True)
class Topic:
    """Jobs in each state now, and what happened since the topic was made."""

    name: str
    is_paused: bool
    paused_until: datetime.datetime | None
    """None: not paused, or paused until it is resumed."""
    delayed: int
    retrying: int
    ready: int
    leased: int
    dead: int
    pushed: int
    replaced: int
    delivered: int
    acked: int
    nacked: int
    lease_ended: int
    cancelled: int
    expired: int
    died: int
    redriven: int
    finished: int
    """Kept jobs, which are in no other count."""
    oldest_ready_due: datetime.datetime | None


_COUNTS = (
    *("delayed", "retrying", "ready", "leased", "dead", "pushed", "replaced", "delivered", "acked", "nacked", "lease_ended"),
    *("cancelled", "expired", "died", "redriven", "finished"),
)


def topic_of(data: Any) -> Topic:
    return Topic(
        name=ffi.string(data.name).decode(),
        is_paused=bool(data.is_paused),
        paused_until=time_of(data.paused_until_ms),
        oldest_ready_due=time_of(data.oldest_ready_due_ms),
        **{name: getattr(data, name) for name in _COUNTS},
    )


@dataclass(frozen=True)
class Settings:
    """Defaults for the jobs of a topic. None: the general default."""

    lease: Duration | None = None
    ttl: Duration | None = None
    max_attempts: int | None = None
    backoff: str | None = None
    """`fixed:10s`, `list:10s,1m,1h`, or `exp:1s..10m`, which is the default."""
    priority: int | None = None
    on_conflict: str | None = None
    """replace, keep or reject."""
    dedup_window: Duration | None = None
    """For how long finished ids are remembered."""
    max_jobs: int | None = None
    dead_letter_expired: bool = False
    keep_finished: Duration | None = None
    """For how long finished jobs are kept."""
    keep_finished_max: int | None = None
    keep_finished_bytes: int | None = None
    keep_body: bool = False
    """Kept jobs keep their body and content type."""
    limit: int | None = None
    """Leased jobs at a time."""
    rate: str | None = None
    """Deliveries: `10/s`, `90/m`, `1/h`."""
    burst: int | None = None
    group_limit: int | None = None
    """As limit, rate and burst, of each group."""
    group_rate: str | None = None
    group_burst: int | None = None
    group_order: str | None = None
    """`strict`: no job of a group is delivered before the one in front of it has ended."""
    group_max_jobs: int | None = None
    """New jobs of a group are rejected while it has this many."""
    one_shard: bool = False
    """In a directory, all jobs of the topic are in one shard."""


_UNITS = {"s": lib.TARRY_PER_SECOND, "m": lib.TARRY_PER_MINUTE, "h": lib.TARRY_PER_HOUR}


def _limits_set(data: Any, limit: int | None, rate: str | None, burst: int | None) -> None:
    data.limit, data.burst = limit or 0, burst or 0
    if rate is not None:
        count, _, unit = rate.partition("/")
        if unit not in _UNITS or not count.isdecimal():
            raise ValueError(f"bad rate '{rate}', give a number per second, minute or hour such as 10/s, 90/m or 1/h")
        data.rate, data.rate_unit = int(count), _UNITS[unit]


def _rate_text(data: Any) -> str | None:
    return next((f"{data.rate}/{unit}" for unit, number in _UNITS.items() if data.rate and number == data.rate_unit), None)


def settings_struct(settings: Settings) -> Any:
    data = ffi.new("struct tarry_settings *", {"size": ffi.sizeof("struct tarry_settings")})
    for name in ("lease", "ttl", "dedup_window", "keep_finished"):
        if (duration := getattr(settings, name)) is not None:
            setattr(data, f"{name}_ms", milliseconds(duration))
    data.max_attempts = settings.max_attempts or 0
    data.max_jobs = settings.max_jobs or 0
    data.keep_finished_max = settings.keep_finished_max or 0
    data.keep_finished_bytes = settings.keep_finished_bytes or 0
    _limits_set(data.limits, settings.limit, settings.rate, settings.burst)
    _limits_set(data.group_limits, settings.group_limit, settings.group_rate, settings.group_burst)
    if settings.group_order not in (None, "free", "strict"):
        raise ValueError(f"bad group_order '{settings.group_order}', give free or strict")
    data.group_order = lib.TARRY_STRICT if settings.group_order == "strict" else lib.TARRY_FREE
    data.group_max_jobs = settings.group_max_jobs or 0
    if settings.one_shard:
        data.flags |= lib.TARRY_ONE_SHARD
    if settings.keep_body:
        data.flags |= lib.TARRY_KEEP_BODY
    if settings.backoff is not None:
        data.backoff, data.backoff_first_ms, data.backoff_max_ms, steps_ms = backoff_of(settings.backoff)
        data.backoff_step_count, data.backoff_steps_ms[0 : len(steps_ms)] = len(steps_ms), steps_ms
    if settings.on_conflict is not None:
        data.on_conflict = conflict_of(settings.on_conflict)
    if settings.priority is not None:
        data.flags |= lib.TARRY_HAS_PRIORITY
        data.priority = settings.priority
    if settings.dead_letter_expired:
        data.flags |= lib.TARRY_DEAD_LETTER_EXPIRED
    return data


def settings_of(data: Any) -> Settings:
    names = {lib.TARRY_REPLACE: "replace", lib.TARRY_KEEP: "keep", lib.TARRY_REJECT: "reject"}
    return Settings(
        lease=data.lease_ms / 1000 if data.lease_ms else None,
        ttl=data.ttl_ms / 1000 if data.ttl_ms else None,
        max_attempts=data.max_attempts or None,
        backoff=backoff_text(data.backoff, data.backoff_first_ms, data.backoff_max_ms, data.backoff_steps_ms[0 : data.backoff_step_count]),
        priority=data.priority if data.flags & lib.TARRY_HAS_PRIORITY else None,
        on_conflict=names.get(data.on_conflict),
        dedup_window=data.dedup_window_ms / 1000 if data.dedup_window_ms else None,
        max_jobs=data.max_jobs or None,
        dead_letter_expired=bool(data.flags & lib.TARRY_DEAD_LETTER_EXPIRED),
        keep_finished=data.keep_finished_ms / 1000 if data.keep_finished_ms else None,
        keep_finished_max=data.keep_finished_max or None,
        keep_finished_bytes=data.keep_finished_bytes or None,
        keep_body=bool(data.flags & lib.TARRY_KEEP_BODY),
        limit=data.limits.limit or None,
        rate=_rate_text(data.limits),
        burst=data.limits.burst or None,
        group_limit=data.group_limits.limit or None,
        group_rate=_rate_text(data.group_limits),
        group_burst=data.group_limits.burst or None,
        group_order="strict" if data.group_order == lib.TARRY_STRICT else None,
        group_max_jobs=data.group_max_jobs or None,
        one_shard=bool(data.flags & lib.TARRY_ONE_SHARD),
    )
