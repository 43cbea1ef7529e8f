"""Errors of calls. docs/clients.md lists the codes of each kind."""

from __future__ import annotations


class TarryError(Exception):
    """A rejection by the server: `code` is stable, `detail` describes what to do."""

    def __init__(
        self,
        detail: str,
        *,
        code: str = "",
        status: int = 0,
        state: str | None = None,
        limit: object = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status
        self.state = state
        self.limit = limit
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.code else self.detail


class NotFound(TarryError):
    """The job or topic does not exist, or the job has finished."""


class Conflict(TarryError):
    """The job is in a state in which this cannot be done: see `state`."""


class LeaseEnded(TarryError):
    """The lease has ended, or was answered."""


class Refused(TarryError):
    """The call is wrong, and would be wrong again."""


class Denied(TarryError):
    """The caller is unknown, or lacks the right."""


class Full(TarryError):
    """The topic, the caller, the disk or the memory has no room for another job."""


class Unavailable(TarryError):
    """The server cannot be reached, or did not answer within the retries. The outcome of the call is unknown."""


_BY_CODE: dict[str, type[TarryError]] = {
    "not_found": NotFound,
    "no_batch": NotFound,
    "conflict": Conflict,
    "leased": Conflict,
    "dead": Conflict,
    "batch_closed": Conflict,
    "waits": Conflict,
    "too_many_members": Conflict,
    "too_many_batches": Conflict,
    "lease_ended": LeaseEnded,
    "unauthorized": Denied,
    "forbidden": Denied,
    "topic_full": Full,
    "group_full": Full,
    "caller_full": Full,
    "no_space": Full,
    "memory": Full,
    "too_many_requests": Unavailable,
    "unavailable": Unavailable,
    "stopping": Unavailable,
}
_BY_STATUS: dict[int, type[TarryError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: Full,
}


def error_of(status: int, problem: dict[str, object], retry_after: float | None = None) -> TarryError:
    """The error for a refusal: `problem` as the server wrote it, or a result of a batch."""
    code = str(problem.get("code") or problem.get("result") or "")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or (Refused if 400 <= status < 500 or not status else TarryError)
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    state = problem.get("state")
    return kind(
        detail,
        code=code,
        status=status,
        state=str(state) if state is not None else None,
        limit=problem.get("limit"),
        retry_after=retry_after,
    )


class Retry(Exception):
    """A handler raises it: try the job again after `after` seconds; without it, after the job's backoff."""

    def __init__(self, after: float | None = None, error: str = "") -> None:
        super().__init__(error)
        self.after = after
        self.error = error


class Reject(Exception):
    """Raised by a handler if no further attempt can help: the job is dead immediately. `result` is sent to those that wait for the job."""

    def __init__(self, error: str = "", *, result: object = None) -> None:
        super().__init__(error)
        self.error = error
        self.result = result
