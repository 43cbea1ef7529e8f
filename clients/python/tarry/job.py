"""A pushed job, and a delivered one."""

from __future__ import annotations

import base64
import datetime
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any, Mapping

from .codec import Codec, CodecError, is_encoded, no_codec
from .errors import TarryError

Duration = float | datetime.timedelta
"""Seconds, or a timedelta."""

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """A ULID: 48 bits of milliseconds and 80 random ones."""
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5))


def milliseconds(duration: Duration) -> str:
    """Writes a duration for the API, rounded up: never early."""
    if isinstance(duration, bool) or not isinstance(duration, (int, float, datetime.timedelta)):
        raise TypeError(f"a duration is a number of seconds or a timedelta, not {duration!r}")
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    return f"{-int(-seconds * 1000 // 1)}ms"


def moment(at: datetime.datetime | float) -> str:
    """Writes a time for the API. A time without zone is local, as everywhere in Python; a number is seconds since 1970."""
    if isinstance(at, bool) or not isinstance(at, (int, float, datetime.datetime)):
        raise TypeError(f"a time is a datetime or a number of seconds since 1970, not {at!r}")
    seconds = at.timestamp() if isinstance(at, datetime.datetime) else at
    return str(-int(-seconds * 1000 // 1))


def body_of(body: Any, content_type: str | None = None) -> tuple[bytes, str]:
    """The bytes and the content type: bytes as they are, text as UTF-8, anything else as JSON."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), content_type or "application/octet-stream"
    if isinstance(body, str) and not (content_type or "").startswith("application/json"):
        return body.encode(), content_type or "text/plain; charset=utf-8"
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(), content_type or "application/json"


def time_of(text: object) -> datetime.datetime | None:
    if not isinstance(text, str):
        return None
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(frozen=True)
class Pushed:
    """The outcome of a push. `result`: created, replaced, or existed (nothing was changed)."""

    id: str
    result: str
    due_at: datetime.datetime | None = None
    topic: str = ""


@dataclass(frozen=True)
class BatchPushed:
    """The outcome of push_batch(). `results`: a Pushed or an error for each job, each waiting job before its members. `closed`: whether all batches are closed."""

    results: list[Pushed | TarryError]
    closed: bool


@dataclass(frozen=True)
class Scheduled:
    """The outcome of schedule(). `result`: created, replaced, or existed (nothing was changed). `next`: the next fire, None if the job has no result."""

    result: str
    next: datetime.datetime | None = None


@dataclass(frozen=True)
class Job:
    """A job as it was taken, or as it stands. `body` is to the byte what was pushed."""

    topic: str
    id: str
    body: bytes = field(default_factory=bytes, repr=False)
    content_type: str = "application/octet-stream"
    meta: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    delivery: int = 0
    """A number that rises with every delivery of the job. Store it with your data to fence off late writes."""
    priority: int = 100
    state: str = "leased"
    due_at: datetime.datetime | None = None
    lease: str = ""
    lease_until: datetime.datetime | None = None
    last_error: str | None = None
    consumer: str | None = None
    """The name of the consumer that holds the job."""
    cancel_requested: bool = False
    """Whether a cancel was requested while the job was leased: unless it is acked, it is cancelled when the lease ends."""
    group: str | None = None
    batch: tuple[str, str] | None = None
    """Topic and id of the waiting job of which the job is a member."""
    waits_for: int | None = None
    """The number of members that have not ended, while the job waits for them."""
    outcomes: Mapping[str, int] | None = None
    """The members of a waiting job by their outcome: unfinished, acked, dead, cancelled, expired."""
    outcome: str | None = None
    """How a finished job ended: acked, cancelled or expired."""
    finished_at: datetime.datetime | None = None
    duration: datetime.timedelta | None = None
    """The duration of the last attempt of a finished job."""
    progress: str | None = None
    """The last progress that the worker reported."""
    result: bytes | None = field(default_factory=lambda: None, repr=False)
    """The result that the worker returned; see also result_text and result_json()."""
    result_type: str | None = None
    """The content type of the result."""
    codec_error: CodecError | None = None
    """Why the body or the result cannot be decoded. To read it then raises this error."""
    stored_as: str | None = None
    """The name of the body in the store of a ClaimCheck."""

    def __getattr__(self, name: str) -> Any:
        """Reached only by a body or a result that cannot be decoded."""
        fault = self.__dict__.get("codec_error")
        raise fault if fault and name in ("body", "result") else AttributeError(name)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result_text(self) -> str:
        """The result as text; "" if the job has no result."""
        return (self.result or b"").decode()

    def result_json(self) -> Any:
        """The result read as JSON; None if the job has no result."""
        return json.loads(self.result) if self.result else None

    @property
    def traceparent(self) -> str | None:
        return self.meta.get("traceparent")


def _result_of(data: Mapping[str, Any]) -> bytes | None:
    """The bytes of a result, which an answer has in base64, as text, or as JSON."""
    if "result_base64" in data:
        return base64.b64decode(data["result_base64"])
    found = data.get("result")
    if found is None:
        return None
    return body_of(found, data.get("result_type"))[0]


def decode_job(job: Job, codec: Codec | None) -> None:
    """Decodes body and result. One that cannot be decoded is removed."""
    for part, type_of in (("body", "content_type"), ("result", "result_type")):
        found, kind = job.__dict__.get(part), job.__dict__[type_of]
        if not found or not is_encoded(kind):
            continue
        try:
            if codec is None:
                raise no_codec(kind, part)
            job.__dict__[part], job.__dict__[type_of], name = codec._decode(found, kind, part)
            if part == "body":
                job.__dict__["stored_as"] = name
        except CodecError as fault:
            del job.__dict__[part]
            job.__dict__["codec_error"] = fault


def job_of(data: Mapping[str, Any], codec: Codec | None = None) -> Job:
    """A job of an answer that was asked for with body=base64, decoded."""
    job = raw_job_of(data)
    decode_job(job, codec)
    return job


def raw_job_of(data: Mapping[str, Any]) -> Job:
    return Job(
        topic=data["topic"],
        id=data["id"],
        body=base64.b64decode(data.get("body_base64", "")),
        content_type=data.get("content_type", "application/octet-stream"),
        meta=data.get("meta") or {},
        attempt=data.get("attempt", 0),
        delivery=data.get("delivery", 0),
        priority=data.get("priority", 100),
        state=data.get("state", "leased"),
        due_at=time_of(data.get("due_at")),
        lease=data.get("lease", ""),
        lease_until=time_of(data.get("lease_until")),
        last_error=data.get("last_error"),
        consumer=data.get("consumer"),
        cancel_requested=data.get("cancel_requested", False),
        group=data.get("group"),
        batch=(data["batch"]["topic"], data["batch"]["id"]) if data.get("batch") else None,
        waits_for=data.get("waits_for"),
        outcomes=data.get("outcomes"),
        outcome=data.get("outcome"),
        finished_at=time_of(data.get("finished_at")),
        duration=datetime.timedelta(milliseconds=data["duration_ms"]) if data.get("duration_ms") is not None else None,
        progress=data.get("progress"),
        result=_result_of(data),
        result_type=data.get("result_type"),
    )
