"""The queue: every call of tarry.h, as a method."""

from __future__ import annotations

import builtins
import math
import os
import time
import uuid
from typing import Any, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

from ._binding import ffi, lib
from .errors import Closed, Forked, TarryError, check, error_of, name_of, refused
from .job import Job, Pushed
from .loop import LoopCalls
from .signals import wait_interruptibly
from .structs import BATCH, answer_struct, await_push_struct, await_struct, call_struct, push_structs, result_fields, take_struct
from .topic import Settings, Topic, settings_of, settings_struct, topic_of
from .values import MEMBER_OUTCOMES, Duration, Moment, body_of, milliseconds, moment_ms, pointer, text_bytes

_STATE_NUMBERS = {"delayed": lib.TARRY_STATE_DELAYED, "ready": lib.TARRY_STATE_READY, "leased": lib.TARRY_STATE_LEASED, "dead": lib.TARRY_STATE_DEAD, "finished": lib.TARRY_STATE_FINISHED}
_SYNCS = {"always": lib.TARRY_SYNC_ALWAYS, "interval": lib.TARRY_SYNC_INTERVAL, "never": lib.TARRY_SYNC_NEVER}
_PUSHED = {code: name_of(code) for code in (lib.TARRY_CREATED, lib.TARRY_REPLACED, lib.TARRY_EXISTED)}
_NULL = ffi.NULL
_push_one = lib.binding_push_one
_string = ffi.string


def open(
    dir: str | os.PathLike[str] | None = None,
    *,
    sync: str = "always",
    sync_interval: Duration = 0,
    shards: int = 0,
    memory_max: int = 0,
    body_max: int = 0,
    topics_max: int = 0,
    test_clock: bool | Moment = False,
) -> Queue:
    """
    A queue in the memory of this process; with `dir` in a directory, where jobs outlive it.

    sync, of a directory: always (a push is on the disk when it returns), interval (with `sync_interval`), never. shards: threads that share its jobs.
    memory_max: bytes of jobs, about; body_max: bytes of a body (1 MiB); topics_max (10,000). 0: the default.
    test_clock: the clock stands until Queue.advance(); True begins now, a time begins there.
    """
    return Queue(dir, sync=sync, sync_interval=sync_interval, shards=shards, memory_max=memory_max, body_max=body_max, topics_max=topics_max, test_clock=test_clock)


class Queue:
    """
    Opened by open(). Any method on any thread; one event loop at a time awaits the methods that end in `_async`.

        with libtarry.open() as queue:
            queue.push("orders", {"order": 1001}, id="1001", delay=1800)
            job, = queue.take("orders")
            job.ack()
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] | None = None,
        *,
        sync: str = "always",
        sync_interval: Duration = 0,
        shards: int = 0,
        memory_max: int = 0,
        body_max: int = 0,
        topics_max: int = 0,
        test_clock: bool | Moment = False,
    ) -> None:
        self._handle: Any = _NULL
        self._results: list[Any] = []  # tarry_result structs that are not in use
        keep: list[Any] = []
        options = ffi.new("struct tarry_options *", {"size": ffi.sizeof("struct tarry_options")})
        options.memory_max, options.body_max, options.topics_max = memory_max, body_max, topics_max
        if dir is not None:
            if sync not in _SYNCS:
                raise ValueError(f"bad sync '{sync}', give one of: {', '.join(_SYNCS)}")
            options.dir = pointer(text_bytes(os.fspath(dir), "dir"), keep)
            options.sync, options.sync_interval_ms, options.shards = _SYNCS[sync], milliseconds(sync_interval), shards
        if test_clock is not False:
            options.flags |= lib.TARRY_TEST_CLOCK
            options.test_clock_ms = 0 if test_clock is True else moment_ms(test_clock)
        error, handle = ffi.new("char[]", 400), ffi.new("struct handle **")
        if code := lib.binding_open(options, handle, error, 400):
            raise error_of(code) if not error[0] else type(error_of(code))(_string(error).decode(), code=name_of(code))
        self._handle = handle[0]
        self._loop_calls = LoopCalls(self._handle)
        self.closed = False

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all waits, with Closed, and returns once every other call has. In memory the jobs are gone. Again: nothing."""
        if self.closed:
            return
        self.closed = True
        self._loop_calls.close()
        lib.binding_close(self._handle)

    def __del__(self) -> None:
        if lib is not None and self._handle:
            self._loop_calls.detach()
            lib.binding_free(self._handle)

    # ---- push ----

    def push(
        self,
        topic: str,
        body: Any = b"",
        *,
        id: str | None = None,
        delay: Duration = 0,
        at: Moment | None = None,
        priority: int | None = None,
        ttl: Duration | None = None,
        lease: Duration | None = None,
        max_attempts: int | None = None,
        backoff: str | None = None,
        on_conflict: str | None = None,
        once: str | None = None,
        once_for: Duration | None = None,
        meta: Mapping[str, str] | None = None,
        content_type: str | None = None,
        keep_finished: Duration | None = None,
        group: str | None = None,
        batch: tuple[str, str] | None = None,
        parent: Job | str | None = None,
        waits: bool | None = None,
        members: int | None = None,
        on_dead: str | None = None,
        wait_at_most: Duration | None = None,
        close_within: Duration | None = None,
    ) -> Pushed:
        """
        Hands over a job, due after `delay` or at `at`; without an id it gets one.

        body: bytes as they are, text as UTF-8, anything else as JSON. on_conflict, where the id exists: replace (the default), keep,
        reject. once: if a push to the topic had the same text within `once_for` (5 minutes), nothing changes and the result is "existed",
        even if its job has ended. keep_finished: how long to keep the job once it has finished. group: a tenant, a customer, an
        endpoint; groups of a topic share its consumers fairly. Missing options have the topic's setting, otherwise the default.

        waits: the job becomes due when its batch is closed and all members have ended; its options are `members`, `on_dead` (go, hold, stop), `wait_at_most` and `close_within`.
        batch: topic and id of the waiting job of whose batch this job is a member; parent: a member in hand, which adds one after the close.
        """
        if not (at is priority is ttl is lease is max_attempts is backoff is on_conflict is once is once_for is meta is keep_finished is group is batch is parent is waits is members is on_dead is wait_at_most is close_within is None):  # type: ignore[comparison-overlap]
            given = {name: value for name, value in locals().items() if name != "self"}
            (pushed,) = self._push_items([given])
            if isinstance(pushed, TarryError):
                raise pushed
            return pushed
        if body.__class__ is not bytes or content_type is not None:
            body, content_type = body_of(body, content_type)
        topic_text = topic.encode()
        try:
            result = self._results.pop()
        except IndexError:
            result = ffi.new("struct tarry_result *")
        delay_ms = delay * 1000 if delay.__class__ is int else milliseconds(delay)
        if id is None:
            id_text, id_size = _NULL, 0
        else:
            id_text = id.encode()
            id_size = len(id_text)
        kind = _NULL if content_type is None else text_bytes(content_type, "content_type")
        code = _push_one(self._handle, topic_text, len(topic_text), id_text, id_size, body, len(body), kind, delay_ms, result)
        if code:
            raise error_of(code, result if result.code == code else None)
        pushed = Pushed(_string(result.id).decode() if id is None else id, _PUSHED[result.code], result.due_ms)
        self._results.append(result)
        return pushed

    def push_many(self, items: Iterable[Mapping[str, Any]]) -> builtins.list[Pushed | TarryError]:
        """Pushes many jobs; each item has the arguments of push(). A refused item is an error in its place and does not affect the others."""
        wanted = builtins.list(items)
        return [one for start in range(0, len(wanted), BATCH) for one in self._push_items(wanted[start : start + BATCH])]

    def _push_items(self, items: Sequence[Mapping[str, Any]]) -> builtins.list[Pushed | TarryError]:
        keep: builtins.list[Any] = []
        structs = push_structs(items, keep)
        out: builtins.list[Pushed | TarryError] = _run(lib.binding_push, self._handle, structs, len(items), _pushed)
        return out

    async def push_async(self, topic: str, body: Any = b"", **options: Any) -> Pushed:
        """Pushes as push() does, without blocking the event loop: useful if the queue is in a directory."""
        (pushed,) = await self.push_many_async([{"topic": topic, "body": body, **options}])
        if isinstance(pushed, TarryError):
            raise pushed
        return pushed

    async def push_many_async(self, items: Iterable[Mapping[str, Any]]) -> builtins.list[Pushed | TarryError]:
        wanted, out = builtins.list(items), []
        for start in range(0, len(wanted), BATCH):
            keep: builtins.list[Any] = []
            part = wanted[start : start + BATCH]
            structs = push_structs(part, keep)
            call = call_struct(lib.TARRY_CALL_PUSH, structs, len(part))
            out += await self._loop_calls.submit(call, lambda reply: _outcomes(reply.code, reply.results, reply.result_count, _pushed))
        return out

    # ---- one job ----

    def cancel(self, topic: str, id: str) -> bool:
        """False: there is no such job. One that a consumer holds cannot be cancelled: Conflict; see request_cancel()."""
        return self._change(lib.binding_cancel, topic, id, missing_is_none=True) is not None

    def request_cancel(self, topic: str, id: str) -> str | None:
        """"cancelled"; or "requested" if a consumer holds the job: its extend() reports the request, and every end of its lease except an ack cancels the job. None: the job does not exist."""
        found = self._change(lib.binding_cancel, topic, id, missing_is_none=True, flags=lib.TARRY_REQUEST)
        return None if found is None else name_of(found.code)

    def cancel_batch(self, topic: str, id: str) -> bool:
        """Cancels a waiting job and its members; consumers that hold members get a request, as by request_cancel(). False: there is no such job."""
        return self._change(lib.binding_cancel, topic, id, missing_is_none=True, flags=lib.TARRY_WITH_MEMBERS) is not None

    def close_batch(self, topic: str, id: str) -> None:
        """Closes the batch of a waiting job: it gets no more members."""
        self._change(lib.binding_close_batch, topic, id)

    def cancel_many(self, topic: str, ids: Iterable[str]) -> builtins.list[TarryError | None]:
        """Cancels many jobs; returns None for each cancelled job, otherwise the error."""
        wanted = builtins.list(ids)
        keep: builtins.list[Any] = []
        out: builtins.list[TarryError | None] = []
        topic_text = pointer(text_bytes(topic, "topic"), keep)
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            structs = ffi.new("struct tarry_change[]", len(part))
            for struct, id in zip(structs, part):
                struct.size, struct.topic = ffi.sizeof("struct tarry_change"), topic_text
                struct.id = pointer(text_bytes(id, "id"), keep)
            out += _run(lib.binding_cancel, self._handle, structs, len(part), lambda result: None)
        return out

    def reschedule(self, topic: str, id: str, *, delay: Duration | None = None, at: Moment | None = None, priority: int | None = None) -> int:
        """Another due, another priority; id, body and attempts stay. The new due, in milliseconds since 1970."""
        more: dict[str, Any] = {"flags": 0}
        if delay is not None:
            more |= {"flags": more["flags"] | lib.TARRY_HAS_DELAY, "delay_ms": milliseconds(delay)}
        if at is not None:
            more |= {"flags": more["flags"] | lib.TARRY_HAS_AT, "at_ms": moment_ms(at)}
        if priority is not None:
            more |= {"flags": more["flags"] | lib.TARRY_HAS_PRIORITY, "priority": priority}
        return int(self._change(lib.binding_reschedule, topic, id, **more).due_ms)

    def run(self, topic: str, id: str) -> None:
        """Makes the job due now."""
        self._change(lib.binding_run, topic, id)

    def _change(self, call: Callable[..., int], topic: str, id: str, missing_is_none: bool = False, **fields: Any) -> Any:
        topic_text, id_text = ffi.from_buffer(text_bytes(topic, "topic")), ffi.from_buffer(text_bytes(id, "id"))
        item = ffi.new("struct tarry_change *", {"size": ffi.sizeof("struct tarry_change"), "topic": topic_text, "id": id_text, **fields})
        result = ffi.new("struct tarry_result *", {"size": ffi.sizeof("struct tarry_result")})
        code = call(self._handle, item, 1, result)
        if code == lib.TARRY_NOT_FOUND and missing_is_none:
            return None
        if code and refused(code):
            raise error_of(code, result if result.code == code else None)
        return result

    def get(self, topic: str, id: str) -> Job | None:
        """The current job, or the kept one that has finished; None if neither exists."""
        out = ffi.new("tarry_job **")
        code = lib.binding_get(self._handle, text_bytes(topic, "topic"), text_bytes(id, "id"), out)
        if code == lib.TARRY_NOT_FOUND:
            return None
        check(code)
        return Job(out[0], self)

    def list(self, topic: str, *, state: str | None = None, bodies: bool = False, page: int = 100) -> Iterator[Job]:
        """Lists the jobs of a topic by due time, read page by page during the iteration; state "finished": the kept jobs, newest first."""
        if state is not None and state not in _STATE_NUMBERS:
            raise ValueError(f"bad state '{state}', give one of: {', '.join(_STATE_NUMBERS)}")
        topic_text = ffi.from_buffer(text_bytes(topic, "topic"))
        page = min(max(page, 1), BATCH)
        where = ffi.new("struct tarry_list *", {"size": ffi.sizeof("struct tarry_list"), "topic": topic_text, "limit": page})
        where.flags = lib.TARRY_WITH_BODY if bodies else 0
        where.state = _STATE_NUMBERS[state] if state else 0
        out, count = ffi.new("tarry_job *[]", page), ffi.new("size_t *")
        while True:
            code = lib.binding_list(self._handle, where, out, count)
            if code == lib.TARRY_NOT_FOUND:
                return
            check(code)
            yield from [Job(out[index], self) for index in range(count[0])]
            if where.cursor[0] == b"\0":
                return

    def members(self, topic: str, id: str, *, outcome: str | None = None, bodies: bool = False, page: int = 100) -> Iterator[Job]:
        """
        Lists the members of a batch, read page by page during the iteration. `outcome`: only unfinished, acked, dead, cancelled or expired ones. Members that have ended are
        found if they are kept. `bodies`: with bodies and results.
        """
        if outcome is not None and outcome not in MEMBER_OUTCOMES:
            raise ValueError(f"bad outcome '{outcome}', give one of: {', '.join(MEMBER_OUTCOMES)}")
        topic_text, id_text = ffi.from_buffer(text_bytes(topic, "topic")), ffi.from_buffer(text_bytes(id, "id"))
        page = min(max(page, 1), BATCH)
        where = ffi.new("struct tarry_members *", {"size": ffi.sizeof("struct tarry_members"), "topic": topic_text, "id": id_text, "limit": page})
        where.flags = lib.TARRY_WITH_BODY if bodies else 0
        where.outcome = MEMBER_OUTCOMES.index(outcome) + 1 if outcome else 0
        out, count = ffi.new("tarry_job *[]", page), ffi.new("size_t *")
        while True:
            check(lib.binding_list_members(self._handle, where, out, count))
            yield from [Job(out[index], self) for index in range(count[0])]
            if where.cursor[0] == b"\0":
                return

    # ---- waiting for an end ----

    def wait(self, topic: str, id: str, *, wait: Duration | None = None) -> Job | None:
        """
        Waits until the job has ended, and returns it: finished, or dead. None: the job does not exist, or ended before and is not kept.

        wait None: without end. After the wait: the job as it is. A signal is handled at once, as in take().
        """
        keep: builtins.list[Any] = []
        return self._await(await_struct(topic, id, keep), wait)

    def push_and_wait(self, topic: str, body: Any = b"", *, wait: Duration | None = None, **options: Any) -> Job | None:
        """
        Pushes as push() does and waits for the end of the job, which it finds also if the topic keeps no finished jobs. If a signal comes
        meanwhile and its handler returns, it continues as wait().
        """
        keep: builtins.list[Any] = []
        push = {"topic": topic, "body": body, **options, "id": options.get("id") or uuid.uuid4().hex}
        return self._await(await_push_struct(push, keep), wait, await_struct(topic, push["id"], keep))

    def _await(self, item: Any, wait: Duration | None, after: Any = None) -> Job | None:
        """Waits by `item`; by `after`, if given, when a signal has interrupted that."""
        out = ffi.new("tarry_job **")
        wait_ms = -1 if wait is None else milliseconds(wait)
        end = time.monotonic() + wait_ms / 1000
        while True:
            code = wait_interruptibly(
                lambda: int(lib.binding_await(self._handle, item, wait_ms, out)),
                lambda: lib.binding_interrupt(self._handle, item.tag),
            )
            if code != lib.TARRY_INTERRUPTED:
                break
            item = after or item
            if wait_ms > 0:
                wait_ms = builtins.max(0, math.ceil((end - time.monotonic()) * 1000))
        if code == lib.TARRY_NOT_FOUND:
            return None
        check(code)
        return Job(out[0], self)

    async def wait_async(self, topic: str, id: str, *, wait: Duration | None = None) -> Job | None:
        """Awaits wait()."""
        keep: builtins.list[Any] = []
        return await self._await_async(await_struct(topic, id, keep), wait)

    async def push_and_wait_async(self, topic: str, body: Any = b"", *, wait: Duration | None = None, **options: Any) -> Job | None:
        """Awaits push_and_wait()."""
        keep: builtins.list[Any] = []
        return await self._await_async(await_push_struct({"topic": topic, "body": body, **options}, keep), wait)

    async def _await_async(self, item: Any, wait: Duration | None) -> Job | None:
        call = call_struct(lib.TARRY_CALL_AWAIT, item, 1)
        call.wait_ms = -1 if wait is None else milliseconds(wait)
        jobs: builtins.list[Job] = await self._loop_calls.submit(call, self._awaited, lambda jobs: None, int(item.tag))
        return jobs[0] if jobs else None

    def _awaited(self, reply: Any) -> builtins.list[Job]:
        if reply.code == lib.TARRY_NOT_FOUND:
            return []
        return self._jobs_of(reply)

    # ---- consuming ----

    def take(
        self, *topics: str, max: int = 1, wait: Duration | None = None, lease: Duration | None = None, consumer: str | None = None
    ) -> builtins.list[Job]:
        """
        Up to `max` jobs under a lease, as soon as one is ready, of the first named topic first. Each requires an answer.

        wait None: without end; 0: no wait. After the wait: an empty list. Other threads continue meanwhile; a signal is handled at
        once, and Ctrl-C ends the wait with KeyboardInterrupt.
        """
        return self._take(False, topics, max, wait, lease, consumer)

    def pop(self, *topics: str, max: int = 1, wait: Duration | None = None) -> builtins.list[Job]:
        """Takes and acks in one step: the jobs leave the queue, and require no answer. At most once."""
        return self._take(True, topics, max, wait, None, None)

    def _take(
        self, pops: bool, topics: Sequence[str], most: int, wait: Duration | None, lease: Duration | None, consumer: str | None
    ) -> builtins.list[Job]:
        keep: builtins.list[Any] = []
        take, out, count = take_struct(topics, most, lease, consumer, keep), ffi.new("tarry_job *[]", most), ffi.new("size_t *")
        wait_ms = -1 if wait is None else milliseconds(wait)
        code = lib.binding_take(self._handle, take, 0, pops, out, count)
        if not code and not count[0] and wait_ms:
            end = time.monotonic() + wait_ms / 1000
            while True:  # again where a signal came whose handler did not raise
                code = wait_interruptibly(
                    lambda: int(lib.binding_take(self._handle, take, wait_ms, pops, out, count)),
                    lambda: lib.binding_interrupt(self._handle, take.tag),
                )
                if code != lib.TARRY_INTERRUPTED:
                    break
                if wait_ms > 0:
                    wait_ms = builtins.max(0, math.ceil((end - time.monotonic()) * 1000))
        check(code)
        return [Job(out[index], self) for index in range(count[0])]

    def take_each(
        self, *topics: str, max: int = 1, wait: Duration | None = None, lease: Duration | None = None, consumer: str | None = None
    ) -> Iterator[Job]:
        """Jobs one by one, for ever, taken `max` at a time. It ends when the queue is closed, or nothing came for as long as `wait`."""
        while True:
            try:
                jobs = self.take(*topics, max=max, wait=wait, lease=lease, consumer=consumer)
            except Closed:
                return
            if not jobs:
                return
            yield from _each(jobs)

    async def take_async(
        self, *topics: str, max: int = 1, wait: Duration | None = None, lease: Duration | None = None, consumer: str | None = None
    ) -> builtins.list[Job]:
        """Like take(), awaited. If the task is cancelled, no job is lost: jobs that had arrived return, and the attempt does not count."""
        keep: builtins.list[Any] = []
        take = take_struct(topics, max, lease, consumer, keep)
        call = call_struct(lib.TARRY_CALL_TAKE, take, 1)
        call.wait_ms = -1 if wait is None else milliseconds(wait)
        jobs: builtins.list[Job] = await self._loop_calls.submit(call, self._jobs_of, self._give_all_back, int(take.tag))
        return jobs

    async def pop_async(self, *topics: str, max: int = 1, wait: Duration | None = None) -> builtins.list[Job]:
        """Awaits pop(). A job whose task is cancelled before it receives the job goes back."""
        jobs = await self.take_async(*topics, max=max, wait=wait)
        outcomes = self.ack_many(jobs)
        return [job for job, failed in zip(jobs, outcomes) if failed is None]

    async def take_each_async(
        self, *topics: str, max: int = 1, wait: Duration | None = None, lease: Duration | None = None, consumer: str | None = None
    ) -> AsyncIterator[Job]:
        """As take_each(), for `async for`."""
        while True:
            try:
                jobs = await self.take_async(*topics, max=max, wait=wait, lease=lease, consumer=consumer)
            except Closed:
                return
            if not jobs:
                return
            for job in _each(jobs):
                yield job

    def _jobs_of(self, reply: Any) -> builtins.list[Job]:
        jobs = [Job(reply.jobs[index], self) for index in range(reply.job_count)]
        check(reply.code)
        return jobs

    def _give_all_back(self, jobs: builtins.list[Job]) -> None:
        self._answers(lib.binding_return, jobs)

    # ---- answers ----

    def ack(self, job: Job | str, result: Any = None, *, content_type: str | None = None, hold: Duration = 0) -> None:
        """
        Done. A job, or its lease's text; `result`: bytes as they are, text as UTF-8, anything else as JSON. `hold`: no job of its group is
        delivered for so long; without a group, no job of its topic.
        """
        if result is not None or hold:
            keep: builtins.list[Any] = []
            self._answer(lib.binding_ack, job, hold_ms=milliseconds(hold), **result_fields(result, content_type, keep))
        elif isinstance(job, Job):
            if code := lib.binding_ack_one(self._handle, job._job):
                raise error_of(code)
        else:
            self._answer(lib.binding_ack, job)

    def ack_many(self, jobs: Iterable[Job | str]) -> builtins.list[TarryError | None]:
        """Acks many jobs; returns None for each answer that counts, otherwise the error."""
        return self._answers(lib.binding_ack, jobs)

    def nack(
        self,
        job: Job | str,
        *,
        delay: Duration | None = None,
        error: str = "",
        final: bool = False,
        result: Any = None,
        content_type: str | None = None,
        hold: Duration = 0,
    ) -> None:
        """
        Failed: it comes again after `delay`, else after its backoff; `final`: it is dead, and its `result` goes to those who wait. `hold`: as of `ack`.
        """
        fields: dict[str, Any] = {"flags": lib.TARRY_FINAL if final else 0, "hold_ms": milliseconds(hold)}
        if delay is not None:
            fields |= {"flags": fields["flags"] | lib.TARRY_HAS_DELAY, "delay_ms": milliseconds(delay)}
        keep: builtins.list[Any] = []
        if error:
            text = error.encode()[:256]
            fields |= {"error": pointer(text, keep), "error_bytes": len(text)}
        self._answer(lib.binding_nack, job, **fields, **result_fields(result, content_type, keep))

    def extend(self, job: Job | str, lease: Duration | None = None, *, progress: str | None = None) -> bool:
        """Extends the lease, counted from now, perhaps with progress (256 bytes). Returns True if a cancel of the job was requested."""
        keep: builtins.list[Any] = []
        fields: dict[str, Any] = {} if progress is None else {"progress": pointer(text_bytes(progress, "progress"), keep)}
        return bool(self._answer(lib.binding_extend, job, lease_ms=0 if lease is None else milliseconds(lease), **fields).cancel_requested)

    def give_back(self, job: Job | str, *, hold: Duration = 0) -> None:
        """Returns the job unprocessed: it is ready again immediately, and the attempt does not count. `hold`: as of `ack`."""
        self._answer(lib.binding_return, job, hold_ms=milliseconds(hold))

    def again(self, job: Job, body: Any = None, *, delay: Duration | None = None, at: Moment | None = None) -> None:
        """Finishes the job and makes it due again with the same id, in one step; `body` None keeps the body."""
        keep: builtins.list[Any] = []
        item = ffi.new("struct tarry_again *", {"size": ffi.sizeof("struct tarry_again"), "job": job._job})
        if body is not None:
            data, _ = body_of(body, None)
            item.body, item.body_bytes = pointer(data, keep), len(data)
        if at is not None:
            item.flags, item.at_ms = lib.TARRY_HAS_AT, moment_ms(at)
        elif delay is not None:
            item.delay_ms = milliseconds(delay)
        (failed,) = _run(lib.binding_again, self._handle, item, 1, lambda result: None)
        if failed is not None:
            raise failed

    def _answer(self, call: Callable[..., int], job: Job | str, **fields: Any) -> Any:
        keep: builtins.list[Any] = []
        item, result = answer_struct(job, keep), ffi.new("struct tarry_result *", {"size": ffi.sizeof("struct tarry_result")})
        for name, value in fields.items():
            setattr(item, name, value)
        code = call(self._handle, item, 1, result)
        if code and refused(code):
            raise error_of(code, result if result.code == code else None)
        return result

    def _answers(self, call: Callable[..., int], jobs: Iterable[Job | str]) -> builtins.list[TarryError | None]:
        wanted, out = builtins.list(jobs), []
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            keep: builtins.list[Any] = []
            structs = ffi.new("struct tarry_answer[]", len(part))
            for index, job in enumerate(part):
                structs[index] = answer_struct(job, keep)[0]
            out += _run(call, self._handle, structs, len(part), lambda result: None)
        return out

    # ---- topics ----

    def put_topic(self, topic: str, settings: Settings | None = None) -> None:
        """Replaces its settings as a whole; the topic is made where it is new."""
        check(lib.binding_topic_put(self._handle, text_bytes(topic, "topic"), settings_struct(settings or Settings())))

    def topic(self, topic: str) -> Topic:
        """Its figures."""
        data = ffi.new("struct tarry_topic *", {"size": ffi.sizeof("struct tarry_topic")})
        check(lib.binding_topic_get(self._handle, text_bytes(topic, "topic"), data))
        return topic_of(data)

    def topics(self) -> Iterator[Topic]:
        """Lists all topics by name."""
        data, count, after = ffi.new("struct tarry_topic[]", 100), ffi.new("size_t *"), _NULL
        while True:
            data[0].size, count[0] = ffi.sizeof("struct tarry_topic"), 100
            check(lib.binding_topics(self._handle, after, data, count))
            if not count[0]:
                return
            yield from [topic_of(data[index]) for index in range(count[0])]
            after = ffi.new("char[]", _string(data[count[0] - 1].name))

    def settings(self, topic: str) -> Settings:
        data = ffi.new("struct tarry_settings *", {"size": ffi.sizeof("struct tarry_settings")})
        check(lib.binding_topic_settings(self._handle, text_bytes(topic, "topic"), data))
        return settings_of(data)

    def finished_dropped(self) -> int:
        """How many kept jobs were dropped before their time, since the queue was opened."""
        return int(lib.binding_finished_dropped(self._handle))

    def delete_topic(self, topic: str) -> int:
        """Deletes the topic with all its jobs, including leased ones. Returns their number."""
        return self._affected(lib.binding_topic_delete, topic)

    def pause(self, topic: str, duration: Duration = 0) -> None:
        """Stops handing out jobs of the topic for this time; 0: until it is resumed."""
        check(lib.binding_topic_pause(self._handle, text_bytes(topic, "topic"), milliseconds(duration)))

    def resume(self, topic: str) -> None:
        check(lib.binding_topic_resume(self._handle, text_bytes(topic, "topic")))

    def purge(self, topic: str, state: str | None = None) -> int:
        """Drops its jobs of this state, else all but leased and kept ones; how many those were."""
        if state is not None and state not in _STATE_NUMBERS:
            raise ValueError(f"bad state '{state}', give one of: {', '.join(_STATE_NUMBERS)}")
        return self._affected(lib.binding_topic_purge, topic, _STATE_NUMBERS[state] if state else 0)

    def redrive(self, topic: str, id: str | None = None, *, max: int = 0) -> int:
        """Dead jobs go round again: this one; or at most so many, 0: all. How many those were."""
        return self._affected(lib.binding_topic_redrive, topic, _NULL if id is None else text_bytes(id, "id"), max)

    def _affected(self, call: Callable[..., int], topic: str, *arguments: Any) -> int:
        affected = ffi.new("uint64_t *")
        check(call(self._handle, text_bytes(topic, "topic"), *arguments, affected))
        return int(affected[0])

    # ---- time ----

    def now(self) -> float:
        """The queue's clock, in seconds since 1970."""
        now_ms = lib.binding_now_ms(self._handle)
        if now_ms < 0:
            raise error_of(lib.TARRY_STOPPING)
        return int(now_ms) / 1000

    def advance(self, duration: Duration) -> None:
        """Moves the test clock, from event to event. A delay of D ms ends when D + 1 ms have passed, as on every clock."""
        check(lib.binding_advance(self._handle, milliseconds(duration)))


# ---- results ----


def _run(call: Callable[..., int], handle: Any, items: Any, count: int, read: Callable[[Any], Any]) -> Any:
    """Returns one outcome for each item: the value that `read` makes of its result, or the error."""
    results = ffi.new("struct tarry_result[]", count + 1)
    results[0].size = ffi.sizeof("struct tarry_result")
    return _outcomes(call(handle, items, count, results), results, count, read)


def _outcomes(code: int, results: Any, count: int, read: Callable[[Any], Any]) -> list[Any]:
    if code and not any(results[index].code for index in range(count)):
        raise error_of(code)  # no item was looked at
    return [error_of(results[index].code, results[index]) if refused(results[index].code) else read(results[index]) for index in range(count)]


def _pushed(result: Any) -> Pushed:
    return Pushed(_string(result.id).decode(), _PUSHED[result.code], result.due_ms)


def _each(jobs: list[Job]) -> Iterator[Job]:
    """Yields the jobs one by one, without keeping a reference."""
    jobs.reverse()
    while jobs:
        yield jobs.pop()
