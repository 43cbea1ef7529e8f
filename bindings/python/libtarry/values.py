"""Values as Python has them, and as tarry.h has them: durations, times, texts, meta, backoff."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any, Mapping, Sequence

from ._binding import ffi, lib

Duration = float | datetime.timedelta
"""Seconds, or a timedelta."""
Moment = datetime.datetime | float
"""A time; without a zone it is local, as everywhere in Python. A number is seconds since 1970."""

CONFLICTS = {"replace": lib.TARRY_REPLACE, "keep": lib.TARRY_KEEP, "reject": lib.TARRY_REJECT, "after": lib.TARRY_AFTER}
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"(?:\d+(?:ms|s|m|h|d))+|\d+"


def milliseconds(duration: Duration) -> int:
    """Rounded up: never early."""
    if isinstance(duration, int):
        return duration * 1000
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    return math.ceil(seconds * 1000)


def moment_ms(at: Moment) -> int:
    return math.ceil((at.timestamp() if isinstance(at, datetime.datetime) else at) * 1000)


def time_of(ms: int) -> datetime.datetime | None:
    """Converts milliseconds; 0 means no value."""
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc) if ms else None


def text_bytes(text: str, what: str) -> bytes:
    """The library reads up to a NUL, so a NUL inside is rejected."""
    if not isinstance(text, str):
        raise TypeError(f"bad {what}: give a str, not {type(text).__name__}")
    if "\0" in text:
        raise ValueError(f"bad {what}: it has a NUL inside, give a text without")
    return text.encode()


def body_of(body: Any, content_type: str | None) -> tuple[bytes, str | None]:
    """The bytes and the content type: bytes as they are, text as UTF-8, anything else as JSON."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), content_type
    if isinstance(body, str) and not (content_type or "").startswith("application/json"):
        return body.encode(), content_type or "text/plain; charset=utf-8"
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(), content_type or "application/json"


def meta_bytes(meta: Mapping[str, str]) -> bytes:
    """Name NUL value NUL, again and again."""
    return b"".join(text_bytes(text, "meta") + b"\0" for pair in meta.items() for text in pair)


def meta_of(text: bytes) -> dict[str, str]:
    parts = [part.decode() for part in text.split(b"\0")[:-1]]
    return dict(zip(parts[::2], parts[1::2]))


def _text_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return sum(int(number) * _UNITS_MS[unit] for number, unit in re.findall(r"(\d+)(ms|s|m|h|d)", text))


def backoff_of(text: str) -> tuple[int, int, int, list[int]]:
    """`fixed:10s`, `exp:1s..10m`, `list:10s,1m`: kind, first and most, and the waits of a list, in milliseconds."""
    if text == "none":
        return lib.TARRY_NO_BACKOFF, 0, 0, []
    if found := re.fullmatch(rf"fixed:({_DURATION})", text):
        return lib.TARRY_FIXED, _text_ms(found[1]), 0, []
    if found := re.fullmatch(rf"exp:({_DURATION})\.\.({_DURATION})", text):
        return lib.TARRY_EXPONENTIAL, _text_ms(found[1]), _text_ms(found[2]), []
    if re.fullmatch(rf"list:(?:{_DURATION})(?:,(?:{_DURATION})){{0,{lib.TARRY_BACKOFF_STEPS_MAX - 1}}}", text):
        steps_ms = [_text_ms(step) for step in text[len("list:") :].split(",")]
        if max(steps_ms) < 1 << 32:
            return lib.TARRY_LIST, 0, 0, steps_ms
    raise ValueError(f"bad backoff '{text}', give fixed:10s, exp:1s..10m, list:10s,1m,1h or none")


def backoff_text(kind: int, first_ms: int, most_ms: int, steps_ms: Sequence[int]) -> str | None:
    if not kind:
        return None
    if kind == lib.TARRY_NO_BACKOFF:
        return "none"
    if kind == lib.TARRY_LIST:
        return "list:" + ",".join(f"{step}ms" for step in steps_ms)
    return f"fixed:{first_ms}ms" if kind == lib.TARRY_FIXED else f"exp:{first_ms}ms..{most_ms}ms"


def conflict_of(text: str) -> int:
    if text not in CONFLICTS:
        raise ValueError(f"bad on_conflict '{text}', give replace, keep, reject or after")
    return int(CONFLICTS[text])


ON_DEAD = ("go", "hold", "stop")
MEMBER_OUTCOMES = ("unfinished", "acked", "dead", "cancelled", "expired")


def on_dead_of(text: str) -> int:
    if text not in ON_DEAD:
        raise ValueError(f"bad on_dead '{text}', give go, hold or stop")
    return ON_DEAD.index(text) + 1


def name_of_on_dead(number: int) -> str:
    return ON_DEAD[number - 1] if 1 <= number <= len(ON_DEAD) else "unknown"


def pointer(text: bytes, keep: list[Any]) -> Any:
    """Encodes a text for a field of a struct; `keep` holds it for as long as the struct is read."""
    at = ffi.from_buffer(text)
    keep.append(at)
    return at
