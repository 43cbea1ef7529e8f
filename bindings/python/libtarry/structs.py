"""The structs of tarry.h that calls take, filled from what Python gives. `keep` holds what they point at, for as long as they are read."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Mapping, Sequence

from ._binding import ffi, lib
from .errors import error_of
from .job import Job
from .values import Duration, Moment, backoff_of, body_of, conflict_of, meta_bytes, milliseconds, moment_ms, on_dead_of, pointer, text_bytes

BATCH = int(lib.TARRY_BATCH_MAX)
_PUSH_SIZE = ffi.sizeof("struct tarry_push")
_TAKE_SIZE = ffi.sizeof("struct tarry_take")
_tags = itertools.count(1)


def push_structs(items: Sequence[Mapping[str, Any]], keep: list[Any]) -> Any:
    structs = ffi.new("struct tarry_push[]", len(items))
    topics: dict[str, Any] = {}
    for push, item in zip(structs, items):
        try:
            topic = item["topic"]
        except KeyError:
            raise TypeError("a push needs a topic") from None
        at = topics.get(topic)
        if at is None:
            at = topics[topic] = pointer(text_bytes(topic, "topic"), keep)
        push.size, push.topic = _PUSH_SIZE, at
        body, content_type = item.get("body", b""), item.get("content_type")
        if body.__class__ is not bytes or content_type is not None:
            body, content_type = body_of(body, content_type)
            if content_type:
                push.content_type = pointer(text_bytes(content_type, "content_type"), keep)
        push.body, push.body_bytes = pointer(body, keep), len(body)
        for name, value in item.items():
            try:
                set_field = _PUSH_FIELDS[name]
            except KeyError:
                raise TypeError(f"push has no argument '{name}'") from None
            if value is not None and set_field is not None:
                set_field(push, value, keep)
    return structs


def _set_id(push: Any, id: str, keep: list[Any]) -> None:
    if not id:
        raise error_of(lib.TARRY_BAD_ID)
    push.id = pointer(text_bytes(id, "id"), keep)


def _set_delay(push: Any, delay: Duration, keep: list[Any]) -> None:
    push.delay_ms = milliseconds(delay)


def _set_at(push: Any, at: Moment, keep: list[Any]) -> None:
    push.flags |= lib.TARRY_HAS_AT
    push.at_ms = moment_ms(at)


def _set_priority(push: Any, priority: int, keep: list[Any]) -> None:
    push.flags |= lib.TARRY_HAS_PRIORITY
    push.priority = priority


def _set_ttl(push: Any, ttl: Duration, keep: list[Any]) -> None:
    push.ttl_ms = milliseconds(ttl)


def _set_lease(push: Any, lease: Duration, keep: list[Any]) -> None:
    push.lease_ms = milliseconds(lease)


def _set_max_attempts(push: Any, count: int, keep: list[Any]) -> None:
    push.max_attempts = count


def _set_backoff(push: Any, backoff: str, keep: list[Any]) -> None:
    push.backoff, push.backoff_first_ms, push.backoff_max_ms, steps_ms = backoff_of(backoff)
    if steps_ms:
        steps = ffi.new("uint32_t[]", steps_ms)
        keep.append(steps)
        push.backoff_steps_ms, push.backoff_step_count = steps, len(steps_ms)


def _set_on_conflict(push: Any, on_conflict: str, keep: list[Any]) -> None:
    push.on_conflict = conflict_of(on_conflict)


def _set_once(push: Any, once: str, keep: list[Any]) -> None:
    push.once = pointer(text_bytes(once, "once"), keep)


def _set_once_for(push: Any, once_for: Duration, keep: list[Any]) -> None:
    push.once_for_ms = milliseconds(once_for)


def _set_meta(push: Any, meta: Mapping[str, str], keep: list[Any]) -> None:
    if meta:
        text = meta_bytes(meta)
        push.meta, push.meta_bytes = pointer(text, keep), len(text)


def _set_keep_finished(push: Any, keep_finished: Duration, keep: list[Any]) -> None:
    push.flags |= lib.TARRY_HAS_KEEP_FINISHED
    push.keep_finished_ms = milliseconds(keep_finished)


def _set_group(push: Any, group: str, keep: list[Any]) -> None:
    push.group = pointer(text_bytes(group, "group"), keep)


def _set_batch(push: Any, batch: tuple[str, str], keep: list[Any]) -> None:
    topic, id = batch
    push.batch_topic, push.batch_id = pointer(text_bytes(topic, "batch"), keep), pointer(text_bytes(id, "batch"), keep)


def _set_parent(push: Any, parent: Job | str, keep: list[Any]) -> None:
    push.parent = pointer(text_bytes(parent.lease if isinstance(parent, Job) else parent, "parent"), keep)


def _set_waits(push: Any, waits: bool, keep: list[Any]) -> None:
    push.flags |= lib.TARRY_WAITS if waits else 0


def _set_members(push: Any, members: int, keep: list[Any]) -> None:
    push.members = members


def _set_on_dead(push: Any, on_dead: str, keep: list[Any]) -> None:
    push.on_dead = on_dead_of(on_dead)


def _set_wait_at_most(push: Any, wait_at_most: Duration, keep: list[Any]) -> None:
    push.wait_at_most_ms = milliseconds(wait_at_most)


def _set_close_within(push: Any, close_within: Duration, keep: list[Any]) -> None:
    push.close_within_ms = milliseconds(close_within)


_PUSH_FIELDS: dict[str, Callable[[Any, Any, list[Any]], None] | None] = {
    "topic": None,
    "body": None,
    "content_type": None,
    "id": _set_id,
    "delay": _set_delay,
    "at": _set_at,
    "priority": _set_priority,
    "ttl": _set_ttl,
    "lease": _set_lease,
    "max_attempts": _set_max_attempts,
    "backoff": _set_backoff,
    "on_conflict": _set_on_conflict,
    "once": _set_once,
    "once_for": _set_once_for,
    "meta": _set_meta,
    "keep_finished": _set_keep_finished,
    "group": _set_group,
    "batch": _set_batch,
    "parent": _set_parent,
    "waits": _set_waits,
    "members": _set_members,
    "on_dead": _set_on_dead,
    "wait_at_most": _set_wait_at_most,
    "close_within": _set_close_within,
}


def take_struct(topics: Sequence[str], most: int, lease: Duration | None, consumer: str | None, keep: list[Any]) -> Any:
    if not topics:
        raise TypeError("a take needs a topic, name one or several")
    if not 1 <= most <= BATCH:
        raise ValueError(f"bad max {most}, give 1 to {BATCH}")
    names = ffi.new("char *[]", [pointer(text_bytes(topic, "topic"), keep) for topic in topics])
    keep.append(names)
    take = ffi.new("struct tarry_take *")
    take.size, take.max, take.topics, take.topic_count, take.tag = _TAKE_SIZE, most, ffi.cast("const char *const *", names), len(topics), next(_tags)
    if lease is not None:
        take.lease_ms = milliseconds(lease)
    if consumer is not None:
        take.consumer = pointer(text_bytes(consumer, "consumer"), keep)
    return take


def await_struct(topic: str, id: str, keep: list[Any]) -> Any:
    wait = ffi.new("struct tarry_await *", {"size": ffi.sizeof("struct tarry_await"), "tag": next(_tags)})
    wait.topic, wait.id = pointer(text_bytes(topic, "topic"), keep), pointer(text_bytes(id, "id"), keep)
    return wait


def await_push_struct(push: Mapping[str, Any], keep: list[Any]) -> Any:
    wait = ffi.new("struct tarry_await *", {"size": ffi.sizeof("struct tarry_await"), "tag": next(_tags)})
    structs = push_structs([push], keep)
    keep.append(structs)
    wait.push = structs
    return wait


def result_fields(result: Any, content_type: str | None, keep: list[Any]) -> dict[str, Any]:
    """The fields of an answer with a result: bytes as they are, text as UTF-8, anything else as JSON."""
    if result is None:
        return {}
    data, content_type = body_of(result, content_type)
    fields = {"result": pointer(data, keep), "result_bytes": len(data)}
    return fields | {"result_type": pointer(text_bytes(content_type, "content_type"), keep)} if content_type else fields


def answer_struct(job: Job | str, keep: list[Any]) -> Any:
    item = ffi.new("struct tarry_answer *", {"size": ffi.sizeof("struct tarry_answer")})
    keep.append(job)
    if isinstance(job, Job):
        item.job = job._job
    else:
        item.lease = pointer(text_bytes(job, "lease"), keep)
    return item


def call_struct(kind: int, items: Any, count: int) -> Any:
    """Points at the items: they have to live until it is submitted."""
    return ffi.new("struct tarry_call *", {"size": ffi.sizeof("struct tarry_call"), "kind": kind, "items": items, "n": count})
