"""A worker: takes jobs, runs a handler for each, extends their leases, and reports the results. docs/clients.md has the rules by number.

Three threads in addition to the handlers': the one that called run() takes, the heartbeat extends, the answerer acks and nacks. Their shared state is
under one lock.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import os
import random
import signal
import socket
import threading
import time
from typing import Any, Awaitable, Callable, Iterator, Mapping, Sequence, cast

from .client import LEASES, Client, _batches, _result, cut_text
from .codec import Codec, is_encoded
from .errors import Denied, LeaseEnded, NotFound, Refused, Reject, Retry, TarryError
from .job import Duration, Job, decode_job, raw_job_of
from .transport import FIRST_PAUSE, LONGEST_PAUSE, Cut

WAIT = 30.0  # of a take
MOMENT = 0.5  # that a take has when the worker stops: jobs that are on their way with a proxy would wait for the end of their lease
LINGER = 0.005  # for answers that come together
SLOTS_LINGER = 0.001  # for slots that get free together, where a take has filled all
BEATS = 10  # in the time of a lease: nine tenths are left whenever the server goes
GRACE = 2.0  # that leases have once a server is back
PAUSE = 0.25  # at most, before an extend or an answer that failed is made again: soon enough for that grace
LOG_PAUSE = 10.0  # between lines about the same kind of call that fails
LOGGER = logging.getLogger("tarry")
GIVE_BACK, ACK, NACK = "return", "ack", "nack"

Handler = Callable[["Taken"], object]
AsyncHandler = Callable[["Taken"], Awaitable[object]]


class Taken(Job):
    """
    A job under its lease. `lost` is set once the lease is lost: another worker may process the job from then on. It is also set
    when a user requests a cancel: then `cancel_requested` is true, and the result of the handler still counts.
    """

    lost: threading.Event
    _extend: Callable[[str], bool]

    def report_progress(self, text: str) -> bool:
        """Stores the progress of the job, which is shown with it: up to 256 bytes of text. False: the lease is lost."""
        return self._extend(text)


class _Held:
    """A job from take to answer."""

    def __init__(self, job: Job, lease: float, client: Client | None = None) -> None:
        self.job = Taken.__new__(Taken)
        self.job.__dict__.update(job.__dict__, lost=threading.Event())
        if client is not None:
            self.job.__dict__["_extend"] = lambda text: client.extend(job, lease=lease, progress=text) == [None]
        now = time.monotonic()
        self.taken_at = now
        self.lives_until, self.next_beat = now + lease, now + lease / BEATS
        self.is_begun = self.is_answered = self.is_ended = False
        self.answer: dict[str, Any] = {}
        self.verb = ""
        self.cancel: Callable[[], object] = lambda: None


def _milliseconds(seconds: float) -> str:
    return f"{-int(-seconds * 1000 // 1)}ms"


def consumer_name(host: str, pid: int) -> str:
    """HOST:PID, of 64 printable ASCII characters at most."""
    end = f":{pid}"
    return "".join(char for char in host if "!" <= char <= "~")[: 64 - len(end)] + end


class Worker:
    """
    Worker(client, "orders", handle, concurrency=10, lease=60).run()
    Worker(client, {"orders": close_order, "mails": send_mail}).run()

    The handler is a function, or a coroutine function if the worker is run by run_async(). What it returns is the result of the job, unless that is None. `log`: whether
    failures go to the logger "tarry".
    """

    def __init__(
        self,
        client: Client,
        topics: str | Sequence[str] | Mapping[str, Handler | AsyncHandler],
        handler: Handler | AsyncHandler | None = None,
        *,
        concurrency: int = 10,
        lease: Duration = 60.0,
        consumer: str | None = None,
        on_taken: Callable[[Taken], object] | None = None,
        on_done: Callable[[Taken, str, float], object] | None = None,
        on_error: Callable[[Exception, str], object] | None = None,
        log: bool = True,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be 1 at least")
        if isinstance(topics, Mapping) == (handler is not None):
            raise TypeError("give topics and a handler, or a handler for each topic as in {'orders': close_order}")
        self.client, self.concurrency = client, concurrency
        self.topics = [topics] if isinstance(topics, str) else list(topics)
        self.handlers: Mapping[str, Handler | AsyncHandler] = topics if isinstance(topics, Mapping) else {topic: cast(Handler, handler) for topic in self.topics}
        self.log = log
        self._logged_at: dict[str, float] = {}
        self.lease = lease if isinstance(lease, (int, float)) else lease.total_seconds()
        self.consumer = consumer or consumer_name(socket.gethostname(), os.getpid())
        self._on_taken, self._on_done, self._on_error = on_taken, on_done, on_error
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # slots and the worker's state, for taking and stopping
        self._begins = threading.Condition(lock)  # for idle handlers
        self._answerable = threading.Condition(lock)
        self._beating = threading.Condition(lock)
        self._held: set[_Held] = set()
        self._waiting: collections.deque[_Held] = collections.deque()  # taken, not begun
        self._answers: list[_Held] = []
        self._running = self._idle = 0
        self._stopping = self._over = self._taking = self._waking = False
        self._grace = 30.0
        self._cut = Cut()
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- life ----

    def run(self, *, signals: bool = True) -> None:
        """Works until stop(), from whichever thread, or SIGTERM or SIGINT where `signals` and this is the main thread."""
        for number in range(self.concurrency):
            threading.Thread(target=self._work, name=f"tarry-handler-{number}", daemon=True).start()
        with self._signals(signals and threading.current_thread() is threading.main_thread()):
            self._take_until_stopped()

    async def run_async(self) -> None:
        """The same for a handler that is a coroutine function; handlers run as tasks of this loop. A task is cancelled once its lease is lost."""
        self._loop = asyncio.get_running_loop()
        taking = asyncio.ensure_future(asyncio.to_thread(self._take_until_stopped))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            self.stop(wait=False)
            await taking
            raise

    def stop(self, grace: float = 30.0, *, wait: bool = True) -> None:
        """Takes no further job, gives back those that were not begun, and waits for handlers under way, `grace` seconds at most."""
        with self._changed:
            self._grace, self._stopping = grace, True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._taking, MOMENT)
        self._cut.cut()
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: self._over)

    @contextlib.contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return
        before = {number: signal.signal(number, lambda *_: threading.Thread(target=self.stop, kwargs={"wait": False}).start()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # ---- taking ----

    def _take_until_stopped(self) -> None:
        helpers = [threading.Thread(target=one, name=f"tarry-{name}", daemon=True) for name, one in (("heartbeat", self._beat), ("answers", self._answer))]
        for helper in helpers:
            helper.start()
        try:
            pause = FIRST_PAUSE
            while free := self._free_slots():
                try:
                    self._taking = True
                    jobs = [raw_job_of(one) for one in self.client._take(self.topics, free, WAIT, self.lease, self.consumer, self._cut)]
                except Exception as fault:
                    if self._stopping:
                        break
                    if isinstance(fault, (Denied, NotFound, Refused)):
                        self._failure = fault
                        break
                    if not isinstance(fault, (TarryError, OSError)) and type(fault).__module__ != "http.client":
                        raise
                    self._report_error(fault, "take")
                    after = fault.retry_after if isinstance(fault, TarryError) else None
                    self._pause(after if after is not None else pause * random.uniform(0.5, 1))
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                finally:
                    with self._changed:
                        self._taking = False
                        self._changed.notify_all()
                pause = FIRST_PAUSE
                self._begin(jobs)
        finally:
            self._wind_up()
            for helper in helpers:
                helper.join()
            with self._changed:
                self._over = True
                self._changed.notify_all()
        if self._failure:
            raise self._failure

    def _free_slots(self) -> int:
        """Waits for one; 0 once the worker stops."""
        with self._changed:
            if not self._stopping and self._free() <= 0:
                self._changed.wait_for(lambda: self._stopping or self._free() > 0)
                # slots become free together; otherwise a take would be sent for the first one only
                self._changed.wait_for(lambda: self._stopping or 2 * self._free() >= self.concurrency, SLOTS_LINGER)
            return 0 if self._stopping else self._free()

    def _free(self) -> int:
        return self.concurrency - self._running - len(self._waiting)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    def _begin(self, jobs: Sequence[Job]) -> None:
        held = [_Held(job, self.lease, self.client) for job in jobs]
        with self._changed:
            self._held.update(held)
            self._waiting.extend(held)
        for one in held:
            if self._on_taken:
                self._on_taken(one.job)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._begin_task, one)
        if self._loop is None:
            with self._changed:
                self._wake_one()

    def _wind_up(self) -> None:
        """No take any more: gives back what was not begun, waits for handlers and for answers."""
        with self._changed:
            self._stopping = True
            for one in self._waiting:
                self._settle(one, GIVE_BACK)
            self._waiting.clear()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._running == 0, self._grace):
                for one in [one for one in self._held if one.is_begun and not one.is_ended]:
                    self._lose(one)
                    self._settle(one, GIVE_BACK)
            self._changed.wait_for(lambda: not self._held)
            self._over = True
            for waits in (self._changed, self._begins, self._answerable, self._beating):
                waits.notify_all()

    # ---- handling ----

    def _next(self) -> _Held | None:
        with self._changed:
            while not self._waiting and not self._over:
                self._idle += 1
                self._begins.wait()
                self._idle -= 1
                self._waking = False
            if not self._waiting:
                return None
            one = self._waiting.popleft()
            one.is_begun = True
            self._running += 1
            self._wake_one()
            return one

    def _wake_one(self) -> None:
        """Wakes an idle thread if a job waits. One at a time, which wakes the next if there is still a job: quick threads take the jobs of several, and the
        others would wake for nothing and delay those that work."""
        if not self._waking and self._idle and self._waiting:
            self._waking = True
            self._begins.notify()

    def _work(self) -> None:
        while one := self._next():
            try:
                self._decode(one.job)
                result = self.handlers[one.job.topic](one.job)
            except BaseException as fault:
                self._ended(one, fault)
            else:
                self._ended(one, None, result)

    def _begin_task(self, one: _Held) -> None:
        with self._changed:
            if one not in self._waiting:
                return  # given back
            self._waiting.remove(one)
            one.is_begun = True
            self._running += 1
        assert self._loop is not None
        loop, task = self._loop, self._loop.create_task(self._run_task(one))
        one.cancel = lambda: loop.call_soon_threadsafe(task.cancel)

    async def _run_task(self, one: _Held) -> None:
        try:
            if is_encoded(one.job.content_type):
                await asyncio.to_thread(self._decode, one.job)
            result = await self.handlers[one.job.topic](one.job)  # type: ignore[misc]
        except asyncio.CancelledError as fault:
            self._ended(one, fault)
        except Exception as fault:
            self._ended(one, fault)
        else:
            self._ended(one, None, result)

    def _decode(self, job: Job) -> None:
        """A job that cannot be decoded fails like its handler: the error is its last error, and another attempt may succeed."""
        decode_job(job, self.client.codec)
        if job.codec_error:
            raise job.codec_error

    def _members(self, result: Any) -> dict[str, Any]:
        try:
            return _result(result, codec=self.client.codec)
        except Exception as fault:  # it is not JSON, or cannot be stored: the work is done, so the job is acked without it
            self._report_error(fault, "result")
            return {}

    def _ended(self, one: _Held, fault: BaseException | None, result: Any = None) -> None:
        """The handler has ended."""
        options: dict[str, Any] = {}
        if isinstance(fault, Retry):
            verb, options = NACK, {"error": fault.error} | ({"delay": _milliseconds(fault.after)} if fault.after is not None else {})
        elif isinstance(fault, Reject):
            verb, options = NACK, {"error": fault.error, "final": True, **self._members(fault.result)}
        elif fault is not None:
            verb, options = NACK, {"error": str(fault) or type(fault).__name__}
        else:
            verb, options = ACK, self._members(result)
        if fault is not None and not one.job.lost.is_set():
            self._log("job %s/%s failed in attempt %d: %s", one.job.topic, one.job.id, one.job.attempt, options["error"] or type(fault).__name__,
                      exc_info=None if isinstance(fault, (Retry, Reject)) else fault)  # fmt: skip
        if "error" in options:
            options["error"] = cut_text(options["error"])
        with self._changed:
            one.is_ended = True
            self._running -= 1
            self._settle(one, verb, **{name: value for name, value in options.items() if value != ""})
            self._changed.notify_all()
            if not self._running:
                self._answerable.notify()

    def _lose(self, one: _Held) -> None:
        one.job.lost.set()
        one.cancel()

    # ---- heartbeat ----

    def _beat(self) -> None:
        while True:
            with self._changed:
                if self._over:
                    return
                now = time.monotonic()
                due = [one for one in self._held if one.next_beat <= now and not one.is_answered]
                if not due:
                    soonest = min((one.next_beat for one in self._held if not one.is_answered), default=now + self.lease / BEATS)
                    self._beating.wait(min(max(0.001, soonest - now), self.lease / BEATS))  # one whose lease has ended has no next beat
                    continue
            for start in range(0, len(due), LEASES):
                self._extend(due[start : start + LEASES])

    def _extend(self, due: list[_Held]) -> None:
        sent = time.monotonic()
        items = [{"lease": one.job.lease, "lease_for": _milliseconds(self.lease)} for one in due]
        results: list[TarryError | None] | None = None
        unwanted: list[_Held] = []
        try:
            results = self.client._answers("extend", items, lambda at, result: unwanted.append(due[at]) if result.get("cancel_requested") else None, again=False, timeout=min(max(self.lease / 4, 0.5), 1.5))
        except Exception as fault:
            self._report_error(fault, "extend")
        with self._changed:
            for one in unwanted:
                if not one.verb and not one.job.cancel_requested:
                    object.__setattr__(one.job, "cancel_requested", True)
                    self._lose(one)  # its lease continues, and the result of the handler counts
            for at, one in enumerate(due):
                result = results[at] if results and at < len(results) else None
                if results and result is None:
                    one.lives_until, one.next_beat = sent + self.lease, sent + self.lease / BEATS
                elif isinstance(result, LeaseEnded):
                    one.next_beat = float("inf")
                    if not one.verb:
                        self._drop(one)
                else:
                    one.next_beat = time.monotonic() + min(self.lease / 20, PAUSE)
                    if time.monotonic() > one.lives_until + GRACE and not one.verb:
                        self._drop(one)

    def _drop(self, one: _Held) -> None:
        """Its lease is lost: notifies the handler, and discards its result."""
        self._log("the lease of job %s/%s is lost; another worker may process it", one.job.topic, one.job.id)
        self._lose(one)
        self._finish(one, "lost")

    # ---- answers ----

    def _settle(self, one: _Held, verb: str, **options: Any) -> None:
        """Marks its answer to be sent, once. The caller holds the lock."""
        if one.verb or one.is_answered:
            return
        one.verb, one.answer = verb, {"lease": one.job.lease, **options}
        self._answers.append(one)
        if len(self._answers) == 1 or len(self._answers) >= LEASES:
            self._answerable.notify()

    def _finish(self, one: _Held, outcome: str) -> None:
        one.is_answered = True
        self._held.discard(one)
        self._changed.notify_all()
        if self._on_done:
            self._on_done(one.job, outcome, time.monotonic() - one.taken_at)

    def _answer(self) -> None:
        while True:
            with self._changed:
                self._answerable.wait_for(lambda: self._answers or self._over)
                if not self._answers:
                    return
                if self._running:
                    self._answerable.wait_for(lambda: not self._running or len(self._answers) >= LEASES, LINGER)
                batch, self._answers = self._answers[:LEASES], self._answers[LEASES:]
            for verb in (ACK, NACK, GIVE_BACK):
                if those := [one for one in batch if one.verb == verb]:
                    self._send(verb, those)

    def _send(self, verb: str, those: list[_Held]) -> None:
        """Sends each part of the size of a request by itself: if one is rejected, the others count."""
        start = 0
        for part in _batches([one.answer for one in those]):
            self._send_part(verb, those[start : start + len(part)])
            start += len(part)

    def _send_part(self, verb: str, those: list[_Held]) -> None:
        results: list[TarryError | None] = []
        acked: list[Job] = []
        try:
            results = self.client._answers(
                verb, [one.answer for one in those], lambda at, found: acked.append(those[at].job) if verb == ACK and found.get("result") == "ok" and those[at].job.stored_as else None, retry_for=float("inf"), timeout=min(max(self.lease / 3, 0.5), self.client.transport.timeout),
                longest_pause=PAUSE, goes_on=lambda: any(time.monotonic() < one.lives_until + GRACE for one in those),
            )  # fmt: skip
        except Exception as fault:
            if isinstance(fault, TarryError) and fault.code in ("result_too_big", "body_too_big"):
                return self._send_apart(verb, those, fault)
            self._report_error(fault, verb)
            results = [fault if isinstance(fault, TarryError) else TarryError(str(fault))] * len(those)
        with self._changed:
            for at, one in enumerate(those):
                result = results[at] if at < len(results) else TarryError("the answer has no result for it")
                if one.is_answered:
                    continue
                outcome = {GIVE_BACK: "given_back", NACK: "reject" if one.answer.get("final") else "nack"}.get(verb, verb)
                self._finish(one, outcome if result is None else "lost")
        if acked and self.client.codec:
            threading.Thread(target=self._delete_stored, args=[self.client.codec, acked], name="tarry-delete").start()

    def _delete_stored(self, codec: Codec, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                codec.delete_stored(job)
            except Exception as fault:
                self._report_error(fault, "delete")

    def _send_apart(self, verb: str, those: list[_Held], fault: TarryError) -> None:
        """One result is too big, so the server has rejected the request. Its job is done, so it is answered without the result."""
        if len(those) > 1:
            half = len(those) // 2
            self._send(verb, those[:half])
            return self._send(verb, those[half:])
        self._report_error(fault, "result")
        those[0].answer = {name: value for name, value in those[0].answer.items() if not name.startswith("result")}
        self._send(verb, those)

    def _log(self, text: str, *values: object, exc_info: BaseException | None = None) -> None:
        if self.log:
            LOGGER.warning(text, *values, exc_info=exc_info)

    def _report_error(self, fault: Exception, what: str) -> None:
        now = time.monotonic()
        if now - self._logged_at.get(what, -LOG_PAUSE) >= LOG_PAUSE:
            self._logged_at[what] = now
            self._log("%s failed: %s", what, fault)
        if self._on_error:
            self._on_error(fault, what)
