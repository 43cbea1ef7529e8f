"""The result of a push, and a delivered job."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ._binding import ffi, lib
from .errors import STATES
from .values import MEMBER_OUTCOMES, Duration, Moment, meta_of, name_of_on_dead, time_of

if TYPE_CHECKING:
    from .queue import Queue

_ENDS = {lib.TARRY_OUTCOME_ACKED: "acked", lib.TARRY_OUTCOME_CANCELLED: "cancelled", lib.TARRY_OUTCOME_EXPIRED: "expired"}
_OUTCOMES = {1: "failed", 2: "lease_ended", 3: "refused"}


class Pushed:
    """The outcome of a push. `result`: created, replaced, or existed (nothing was changed)."""

    __slots__ = ("id", "result", "due_ms")

    def __init__(self, id: str, result: str, due_ms: int) -> None:
        self.id = id
        self.result = result
        self.due_ms = due_ms

    @property
    def due_at(self) -> datetime.datetime | None:
        return time_of(self.due_ms)

    def __repr__(self) -> str:
        return f"Pushed(id={self.id!r}, result={self.result!r}, due_at={self.due_at})"


class Batch(NamedTuple):
    """The batch of a waiting job. `outcomes`: its members by outcome. `has_ended`: the wait has ended, and the numbers stay as they are."""

    waits_for: int
    on_dead: str
    is_closed: bool
    has_ended: bool
    outcomes: dict[str, int]


class Attempt(NamedTuple):
    """An attempt that ended without an ack. `outcome`: failed, lease_ended or refused."""

    number: int
    outcome: str
    started_at: datetime.datetime | None
    duration: float
    error: str


class Job:
    """
    A job as it was taken, or as it stood when it was looked at. One thread at a time.

    A taken job requires an answer before its lease ends: ack(), nack(), extend(), again() or give_back(). One that is dropped without is
    delivered again.
    """

    __slots__ = ("_job", "_queue")

    def __init__(self, job: Any, queue: Queue) -> None:
        self._job = job
        self._queue = queue

    def __del__(self) -> None:
        if lib is not None:  # else the interpreter is on its way out
            lib.tarry_job_free(self._job)

    def __repr__(self) -> str:
        return f"<Job {self.topic}/{self.id} {self.state}, attempt {self.attempt}>"

    # ---- what it is ----

    @property
    def topic(self) -> str:
        return str(ffi.string(lib.tarry_job_topic(self._job)).decode())

    @property
    def id(self) -> str:
        return str(ffi.string(lib.tarry_job_id(self._job)).decode())

    @property
    def body(self) -> bytes:
        return _text(lib.tarry_job_body, self._job)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def content_type(self) -> str:
        return str(ffi.string(lib.tarry_job_content_type(self._job)).decode()) or "application/octet-stream"

    @property
    def meta(self) -> dict[str, str]:
        return meta_of(_text(lib.tarry_job_meta, self._job))

    @property
    def state(self) -> str:
        """delayed, ready, leased, dead or finished."""
        return STATES.get(lib.tarry_job_state(self._job), "unknown")

    @property
    def attempt(self) -> int:
        """Deliveries so far, with this one."""
        return int(lib.tarry_job_attempt(self._job))

    @property
    def delivery(self) -> int:
        """A number that rises with every delivery of the job. Store it with your data to fence off late writes."""
        return int(lib.tarry_job_delivery(self._job))

    @property
    def priority(self) -> int:
        return int(lib.tarry_job_priority(self._job))

    @property
    def due_ms(self) -> int:
        return int(lib.tarry_job_due_ms(self._job))

    @property
    def due_at(self) -> datetime.datetime | None:
        return time_of(self.due_ms)

    @property
    def lease(self) -> str:
        """The lease as text; empty if the job was not taken."""
        return str(ffi.string(lib.tarry_job_lease(self._job)).decode())

    @property
    def lease_until(self) -> datetime.datetime | None:
        return time_of(lib.tarry_job_lease_until_ms(self._job))

    @property
    def last_error(self) -> str | None:
        return _text(lib.tarry_job_error, self._job).decode(errors="replace") or None

    @property
    def consumer(self) -> str | None:
        """The name of the consumer that holds the job."""
        return _text(lib.tarry_job_consumer, self._job).decode() or None

    @property
    def group(self) -> str | None:
        """The group of the job."""
        return _text(lib.tarry_job_group, self._job).decode() or None

    @property
    def cancel_requested(self) -> bool:
        return bool(lib.tarry_job_cancel_requested(self._job))

    @property
    def history(self) -> list[Attempt]:
        """The attempts that ended without an ack, oldest first, the last eight."""
        found: list[Attempt] = []
        one = ffi.new("struct tarry_attempt *", {"size": ffi.sizeof("struct tarry_attempt")})
        while lib.tarry_job_history(self._job, len(found), one) == lib.TARRY_OK:
            error = bytes(ffi.buffer(one.error, one.error_bytes)).decode(errors="replace") if one.error_bytes else ""
            found.append(Attempt(one.number, _OUTCOMES.get(one.outcome, "unknown"), time_of(one.started_ms), one.duration_ms / 1000, error))
        return found

    def _batches(self) -> Any:
        found = ffi.new("struct tarry_batch *", {"size": ffi.sizeof("struct tarry_batch")})
        return found if lib.tarry_job_batch(self._job, found) == lib.TARRY_OK else None

    @property
    def batch(self) -> tuple[str, str] | None:
        """Topic and id of the waiting job of whose batch the job is a member."""
        found = self._batches()
        return (ffi.string(found.topic).decode(), ffi.string(found.id).decode()) if found and found.topic[0] != b"\0" else None

    @property
    def own_batch(self) -> Batch | None:
        """The batch of the job itself, if it waits for members or did so."""
        found = self._batches()
        if not found or not found.has_own:
            return None
        outcomes = {name: int(getattr(found, name)) for name in MEMBER_OUTCOMES}
        return Batch(int(found.waits_for), name_of_on_dead(found.on_dead), bool(found.is_closed), bool(found.has_ended), outcomes)

    @property
    def progress(self) -> str:
        """The progress that the last extend() gave."""
        return _text(lib.tarry_job_progress, self._job).decode()

    @property
    def outcome(self) -> str | None:
        """How a kept or awaited job ended: acked, cancelled or expired. None: it has not ended, is dead, or was popped."""
        return _ENDS.get(lib.tarry_job_outcome(self._job))

    @property
    def finished_at(self) -> datetime.datetime | None:
        return time_of(lib.tarry_job_finished_ms(self._job))

    @property
    def duration(self) -> float:
        """Seconds of the last attempt of a job that ended; 0: unknown."""
        return float(lib.tarry_job_duration_ms(self._job)) / 1000

    @property
    def result(self) -> bytes:
        """The result of the ack."""
        return _text(lib.tarry_job_result, self._job)

    def result_json(self) -> Any:
        return json.loads(self.result)

    @property
    def result_type(self) -> str | None:
        return str(ffi.string(lib.tarry_job_result_type(self._job)).decode()) or None

    # ---- answers ----

    def ack(self, result: Any = None, *, content_type: str | None = None) -> None:
        """Done, perhaps with a result: bytes as they are, text as UTF-8, anything else as JSON."""
        self._queue.ack(self, result, content_type=content_type)

    def nack(self, *, delay: Duration | None = None, error: str = "", final: bool = False, result: Any = None, content_type: str | None = None) -> None:
        """Failed: it comes again after `delay`, else after its backoff; `final`: it is dead, and its `result` goes to those who wait."""
        self._queue.nack(self, delay=delay, error=error, final=final, result=result, content_type=content_type)

    def extend(self, lease: Duration | None = None, *, progress: str | None = None) -> bool:
        """Extends the lease, counted from now, perhaps with progress (256 bytes). Returns True if a cancel of the job was requested."""
        return self._queue.extend(self, lease, progress=progress)

    def give_back(self) -> None:
        """Returns the job unprocessed: it is ready again immediately, and the attempt does not count."""
        self._queue.give_back(self)

    def again(self, body: Any = None, *, delay: Duration | None = None, at: Moment | None = None) -> None:
        """Finishes the job and makes it due again with the same id, in one step; `body` None keeps the body."""
        self._queue.again(self, body, delay=delay, at=at)


def _text(read: Any, job: Any) -> bytes:
    count = ffi.new("size_t *")
    at = read(job, count)
    return bytes(ffi.buffer(at, count[0])) if count[0] else b""
