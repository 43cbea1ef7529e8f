"""Errors of calls: one class for each kind of rejection, with the code of tarry.h in `code`."""

from __future__ import annotations

from typing import Any

from ._binding import ffi, lib


class TarryError(Exception):
    """A refusal: `code` is stable and that of the HTTP API, `detail` names what is wrong, `state` is that of the job in the way."""

    def __init__(self, text: str, *, code: str = "", detail: str = "", state: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.detail = detail
        self.state = state


class NotFound(TarryError):
    """The job or topic does not exist, or the job has finished."""


class Conflict(TarryError):
    """The job is in a state in which this cannot be done: see `state`."""


class LeaseEnded(TarryError):
    """The lease has ended, or was answered."""


class Refused(TarryError):
    """The call is wrong, and would be wrong again."""


class Full(TarryError):
    """The topic or the queue has no room for another job."""


class Unavailable(TarryError):
    """The directory cannot be opened, is open elsewhere, or failed: what was under way may have happened or not."""


class Closed(TarryError):
    """The queue is closed, or is being closed."""


class Forked(TarryError):
    """The queue belongs to the parent process."""


class OutOfMemory(TarryError, MemoryError):
    """Memory ran out, and nothing was changed."""


_KINDS: dict[int, type[TarryError]] = {
    lib.TARRY_NOT_FOUND: NotFound,
    lib.TARRY_CONFLICT: Conflict,
    lib.TARRY_LEASED: Conflict,
    lib.TARRY_DEAD: Conflict,
    lib.TARRY_LEASE_ENDED: LeaseEnded,
    lib.TARRY_BATCH_CLOSED: Conflict,
    lib.TARRY_WAITING: Conflict,
    lib.TARRY_NO_BATCH: NotFound,
    lib.TARRY_TOO_MANY_BATCHES: Full,
    lib.TARRY_TOO_MANY_MEMBERS: Full,
    lib.TARRY_NO_SPACE: Full,
    lib.TARRY_TOPIC_FULL: Full,
    lib.TARRY_TOO_MANY_TOPICS: Full,
    lib.TARRY_NO_MEMORY: OutOfMemory,
    lib.TARRY_DIRECTORY_MOVED: Unavailable,
    lib.TARRY_UNAVAILABLE: Unavailable,
    lib.TARRY_IN_USE: Unavailable,
    lib.TARRY_STOPPING: Closed,
    lib.TARRY_FORKED: Forked,
}

STATES = {
    lib.TARRY_STATE_DELAYED: "delayed",
    lib.TARRY_STATE_READY: "ready",
    lib.TARRY_STATE_LEASED: "leased",
    lib.TARRY_STATE_DEAD: "dead",
    lib.TARRY_STATE_FINISHED: "finished",
}


def name_of(code: int) -> str:
    return str(ffi.string(lib.tarry_code_name(code)).decode())


def error_of(code: int, result: Any = None, detail: str = "") -> TarryError:
    """The meaning of the code; `result` is the item's tarry_result, if any."""
    if result is not None and result.detail != ffi.NULL:
        detail = ffi.string(result.detail).decode()
    text = ffi.string(lib.tarry_strerror(code)).decode()
    if code == lib.TARRY_BAD_OPTION and detail:
        text = f"bad value of '{detail}': tarry.h lists the allowed values"
    state = STATES.get(result.state) if result is not None else None
    return _KINDS.get(code, Refused)(detail if code == 0 else text, code=name_of(code), detail=detail, state=state)


def refused(code: int) -> bool:
    """Checks for a code that means that nothing was done; codes below are outcomes."""
    return bool(code >= lib.TARRY_NOT_FOUND and code != lib.TARRY_REQUESTED)


def check(code: int) -> None:
    """Raises the error of a code from a call without results, unless the call succeeded."""
    if code and refused(code):
        raise error_of(code)
