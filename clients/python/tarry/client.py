"""The calls of a server, one method each."""

from __future__ import annotations

import base64
import datetime
import inspect
import json
import os
import random
import ssl
import time
import urllib.parse
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from .codec import Codec
from .errors import Conflict, LeaseEnded, NotFound, TarryError, Unavailable, error_of
from .job import BatchPushed, Duration, Job, Pushed, Scheduled, body_of, job_of, milliseconds, moment, new_id, raw_job_of, time_of
from .transport import FIRST_PAUSE, LONGEST_PAUSE, Cut, Query, Transport

Outcomes = list[TarryError | None]
Pushes = list[Pushed | TarryError]
Jobs = list[Job]
Items = list[dict[str, Any]]
Tries = list[int]
Pairs = list[tuple[str, str]]

Lease = Union[str, Job]
Leases = Union[Lease, Iterable[Lease]]
Named = Union[Job, Pushed, tuple[str, str]]

BATCH = 1000
LEASES = 1000
PROGRESS = 256
ENDED = ("finished", "dead")
RESULTS_BYTES = 1 << 19  # of a request that acks; the server takes 1 MiB


def _token(token: str | None) -> str | None:
    if token is not None:
        return token
    if path := os.environ.get("TARRY_TOKEN_FILE"):
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    return os.environ.get("TARRY_TOKEN")


def _path(topic: str, *rest: str) -> str:
    return "/v1/topics/" + "/".join(urllib.parse.quote(one, safe="") for one in (topic, *rest))


def _schedule_path(name: str) -> str:
    return "/v1/schedules/" + urllib.parse.quote(name, safe="")


class Client:
    """
    A server, or several that share a store. Threads may use one client together.

        with tarry.Client() as client:
            client.push("orders", {"order": 1001}, id="1001", delay=1800)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        codec: Codec | None = None,
    ) -> None:
        url = url or os.environ.get("TARRY_URL") or "http://127.0.0.1:8279"
        self.transport = Transport(url, _token(token), timeout, retry_for, ssl_context)
        self.codec = codec

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- push ----

    def push(
        self,
        topic: str,
        body: Any = b"",
        *,
        id: str | None = None,
        delay: Duration | None = None,
        at: datetime.datetime | float | None = None,
        priority: int | None = None,
        ttl: Duration | None = None,
        lease: Duration | None = None,
        max_attempts: int | None = None,
        backoff: str | None = None,
        on_conflict: str | None = None,
        once: str | None = None,
        once_for: Duration | None = None,
        keep_finished: Duration | None = None,
        group: str | None = None,
        batch: Named | None = None,
        parent: Lease | None = None,
        waits: bool | None = None,
        members: int | None = None,
        wait_at_most: Duration | None = None,
        close_within: Duration | None = None,
        on_dead: str | None = None,
        callback: str | None = None,
        meta: Mapping[str, str] | None = None,
        content_type: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Pushed:
        """
        Pushes a job. Without an id the client generates one, so that a repeated try does not create a second job. `once`: if a push to the topic had the same text within
        `once_for` (5 minutes), nothing changes and the result is "existed", even if its job has ended; the server then generates a missing id.
        `keep_finished`: how long the server keeps the job and its result after its end, in place of the setting of the topic. `group`: groups, such as the tenants of
        a service, are served fairly and may have limits.
        Of batches: `batch`, the waiting job of which this job is a member, as (topic, id), a Pushed or a Job; `parent`, a member that runs, or its lease, which may add
        members after the close; `waits`, `members`, `wait_at_most`, `close_within` and `on_dead` of a job that waits for members: see docs/batches.md.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        (result,) = self._push_items([_item(given, self.codec)])
        if isinstance(result, TarryError):
            raise result
        return result

    def push_and_wait(self, topic: str, body: Any = b"", *, wait: Duration = 30.0, **options: Any) -> Job:
        """
        Pushes a job and waits for its end, up to 4 minutes. Returns the job with its outcome and result, or as it is after `wait`. `options`: those of push(). If the answer is
        lost, the call is repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a dedup_window.
        """
        given = {"topic": topic, "body": body, **options}
        item = _item(given, self.codec)
        if "id" not in item:
            raise TypeError("a push that waits needs an id if it has a once")
        id, data, kind, meta = item.pop("id"), base64.b64decode(item.pop("body_base64")), item.pop("content_type"), item.pop("meta", {})
        query: Query = [(name, "true" if value is True else "false" if value is False else str(value)) for name, value in item.items() if name != "topic"]
        headers = {_META.get(name, f"Tarry-Meta-{name}"): value.encode().decode("latin-1") for name, value in meta.items()}
        tries: Tries = []
        began = time.monotonic()
        try:
            answer = self._long(wait, "PUT", _path(topic, "jobs", id), [*query, ("wait", milliseconds(wait))], body=data, headers={"Content-Type": kind, **headers}, tries=tries)
        except Conflict as fault:
            if not tries or fault.code != "leased":
                raise
            answer = {}  # an earlier try has pushed it, and a worker holds it
        except NotFound:
            answer = {}  # it existed, has ended, and is not kept
        if "attempt" not in answer:
            return self.wait((topic, id), timeout=wait)[0]
        job, left = job_of(answer, self.codec), _seconds(wait) - (time.monotonic() - began)
        if job.state not in ENDED and left > 0:  # a push that is not the first with its once does not wait
            return self.wait((topic, id), timeout=left)[0]
        return job

    def _long(self, wait: Duration, *what: Any, **how: Any) -> dict[str, object]:
        """A call that the server answers after `wait` at the latest."""
        seconds = _seconds(wait)
        return self.transport.call(*what, **how, timeout=seconds + self.transport.timeout, retry_for=seconds + self.transport.retry_for)

    def push_many(self, items: Iterable[Mapping[str, Any]]) -> Pushes:
        """Pushes many jobs; each item has the arguments of push(). A refused job has an error in its place and does not affect the others."""
        wanted = [_item(item, self.codec) for item in items]
        return [result for start in range(0, len(wanted), BATCH) for result in self._push_items(wanted[start : start + BATCH])]

    def _push_items(self, items: Items) -> Pushes:
        """Retries items that the server had no room for (429, 503), like a call."""
        limit, pause = time.monotonic() + self.transport.retry_for, FIRST_PAUSE
        missing = TarryError("the answer has no result for it")
        results: Pushes = [missing] * len(items)
        left = list(range(len(items)))
        while True:
            body = json.dumps([items[at] for at in left]).encode()
            found = _results(self.transport.call("POST", "/v1/jobs", body=body, headers={"Content-Type": "application/json"}))
            for at, result in zip(left, found):
                results[at] = _pushed(result)
            left = [at for at in left if isinstance(results[at], Unavailable)]
            wait = pause * random.uniform(0.5, 1)
            if not left or time.monotonic() + wait > limit:
                return results
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    # ---- batches ----

    def push_batch(self, job: Mapping[str, Any], members: Iterable[Mapping[str, Any]]) -> BatchPushed:
        """
        Pushes a waiting job and up to 999 members in one call, and closes the batch. Each has the arguments of push(), and `members` of a member are its own members, so a
        chain is one call. A rejected job has an error in its place, and its batch stays open.
        """
        spec = {"job": _item(job, self.codec), "members": [_item(item, self.codec) for item in members]}
        answer = self.transport.call("POST", "/v1/batches", body=json.dumps(spec).encode(), headers={"Content-Type": "application/json"})
        return BatchPushed([_pushed(result) for result in _results(answer)], answer.get("closed") is True)

    def close_batch(self, topic: str, id: str) -> None:
        """Closes the batch of a waiting job: it gets no more members."""
        tries: Tries = []
        try:
            self.transport.call("POST", _path(topic, "jobs", id, "close"), tries=tries)
        except NotFound:
            if not tries:
                raise  # else an earlier try may have closed it, and the job has ended since

    def cancel_batch(self, topic: str, id: str) -> bool:
        """Cancels a waiting job and its members. Consumers that hold members are notified, as by request_cancel(). False: there is no such job."""
        tries: Tries = []
        return self._cancel(topic, id, (("members", "true"),), tries) is not None or bool(tries)  # an earlier try may have done it

    def members(self, topic: str, id: str, *, outcome: str | None = None, results: bool = False, page: int = 100) -> Iterator[Job]:
        """
        Returns the members of a batch; pages are requested while you iterate. Finished members are found if they are kept. `outcome`: only unfinished, acked, dead,
        cancelled or expired ones. `results`: with the results of finished members.
        """
        query = [("limit", str(page))]
        query += [("outcome", outcome)] if outcome else []
        query += [("results", "true")] if results else []
        return self._pages(_path(topic, "jobs", id, "members"), query, "members")

    # ---- one job ----

    def cancel(self, topic: str, id: str) -> bool:
        """False: there is no such job. A job that a consumer holds cannot be cancelled: Conflict; see request_cancel()."""
        tries: Tries = []
        return self._cancel(topic, id, (), tries) is not None or bool(tries)  # an earlier try may have done it

    def request_cancel(self, topic: str, id: str) -> str | None:
        """"cancelled"; or "requested" if a consumer holds the job: the consumer is notified, and the job is cancelled unless it is acked. None: the job does not exist or has finished."""
        return self._cancel(topic, id, (("request", "true"),), [])

    def _cancel(self, topic: str, id: str, query: Query, tries: Tries) -> str | None:
        try:
            return str(self.transport.call("DELETE", _path(topic, "jobs", id), query, tries=tries).get("result"))
        except NotFound:
            return None

    def reschedule(
        self,
        topic: str,
        id: str,
        *,
        delay: Duration | None = None,
        at: datetime.datetime | float | None = None,
        priority: int | None = None,
    ) -> datetime.datetime | None:
        """Returns the new due time."""
        query = [("delay", milliseconds(delay))] if delay is not None else []
        query += [("at", moment(at))] if at is not None else []
        query += [("priority", str(priority))] if priority is not None else []
        return time_of(self.transport.call("PATCH", _path(topic, "jobs", id), query).get("due_at"))

    def run(self, topic: str, id: str) -> None:
        """Makes the job due now."""
        self.transport.call("POST", _path(topic, "jobs", id, "run"))

    def get(self, topic: str, id: str) -> Job | None:
        try:
            return job_of(self.transport.call("GET", _path(topic, "jobs", id), [("body", "base64")]), self.codec)
        except NotFound:
            return None

    def list(self, topic: str, *, state: str | None = None, id_prefix: str | None = None, bodies: bool = False, page: int = 100) -> Iterator[Job]:
        """Returns all jobs by due time; pages are requested while you iterate."""
        query = [("limit", str(page))]
        query += [("state", state)] if state else []
        query += [("id_prefix", id_prefix)] if id_prefix else []
        query += [("body", "base64")] if bodies else []
        return self._pages(_path(topic, "jobs"), query, "jobs")

    def _pages(self, path: str, query: Pairs, name: str) -> Iterator[Job]:
        cursor: str | None = None
        while True:
            try:
                answer = self.transport.call("GET", path, [*query, ("cursor", cursor)] if cursor else query)
            except NotFound:
                return
            jobs = answer.get(name)
            yield from (job_of(job, self.codec) for job in jobs if isinstance(job, dict)) if isinstance(jobs, list) else ()
            found = answer.get("cursor")
            if not isinstance(found, str):
                return
            cursor = found

    def wait(self, *jobs: Named | Iterable[Named], any: bool = False, timeout: Duration = 30.0) -> Jobs:
        """
        Waits until all jobs have ended, or with `any` until one has, up to 4 minutes and 1,000 jobs. Returns each job as it is then, in the given order. The state is
        "finished" or "dead" if it has ended, and "unknown" for an id that the server does not know. A job that finished before the call is unknown unless its topic keeps finished jobs.
        """
        names = [_named(one) for one in _flat(jobs, (Job, Pushed, tuple))]
        spec = {"jobs": [{"topic": topic, "id": id} for topic, id in names], "for": "any" if any else "all", "wait": milliseconds(timeout)}
        answer = self._long(timeout, "POST", "/v1/wait", [("body", "base64")], body=json.dumps(spec).encode(), headers={"Content-Type": "application/json"})
        found = answer.get("jobs")
        by_name = {(job.topic, job.id): job for job in (job_of(one, self.codec) for one in found)} if isinstance(found, list) else {}
        return [by_name.get((topic, id)) or Job(topic=topic, id=id, state="unknown") for topic, id in names]

    # ---- schedules ----

    def schedule(
        self,
        name: str,
        topic: str,
        body: Any = None,
        *,
        cron: str | Sequence[str] | None = None,
        every: Duration | None = None,
        zone: str | None = None,
        content_type: str | None = None,
        take_over: bool = False,
        **members: Any,
    ) -> Scheduled:
        """
        Creates or replaces a schedule that pushes a job each time it fires. `members`: other members of the specification in docs/schedules.md, as the API has them, such
        as overlap="skip". The same call again changes nothing. `take_over`: also change a schedule of another owner.
        """
        spec = {"topic": topic, "cron": list(cron) if isinstance(cron, (list, tuple)) else cron, "zone": zone, "content_type": content_type, **members}
        spec["every"] = None if every is None else milliseconds(every)
        if body is not None and self.codec:
            encoded, spec["content_type"] = self.codec.encode(*body_of(body, content_type), is_steady=True)
            spec["body_base64"] = base64.b64encode(encoded).decode()
        elif isinstance(body, (bytes, bytearray, memoryview)):
            spec["body_base64"] = base64.b64encode(bytes(body)).decode()
        elif body is not None:
            spec["body"] = body
        data = json.dumps({member: value for member, value in spec.items() if value is not None}).encode()
        answer = self.transport.call("PUT", _schedule_path(name), [("take_over", "true")] if take_over else [], body=data, headers={"Content-Type": "application/json"})
        return Scheduled(result=str(answer.get("result")), next=time_of(answer.get("next")))

    def unschedule(self, name: str) -> bool:
        """Deletes a schedule; its jobs that are due stay. False: there is no such schedule."""
        tries: Tries = []
        try:
            self.transport.call("DELETE", _schedule_path(name), tries=tries)
        except NotFound:
            return bool(tries)  # an earlier try may have done it
        return True

    # ---- consuming ----

    def take(
        self,
        *topics: str,
        max: int = 1,
        wait: Duration = 0,
        lease: Duration | None = None,
        consumer: str | None = None,
        cut: Cut | None = None,
    ) -> Jobs:
        """Returns ready jobs, topics in the given order. `consumer` is shown as their holder. Never retried automatically: a call whose answer was lost may hold jobs until their lease ends."""
        jobs = self._take(topics, max, wait, lease, consumer, cut)
        return [job_of(job, self.codec) for job in jobs]

    def _take(self, topics: Sequence[str], max: int, wait: Duration, lease: Duration | None, consumer: str | None, cut: Cut | None) -> Items:
        """Returns jobs as the server has them."""
        query: Query = [*(("topic", topic) for topic in topics), ("max", str(max)), ("wait", milliseconds(wait)), ("body", "base64")]
        query = [*query, *([("lease_for", milliseconds(lease))] if lease is not None else []), *([("consumer", consumer)] if consumer else [])]
        timeout = _seconds(wait) + self.transport.timeout
        if cut is None:
            answer = self.transport.call("POST", "/v1/take", query, again=False, timeout=timeout)
        else:
            found = self.transport.once("POST", "/v1/take", query, timeout=timeout, cut=cut)
            if found.status >= 300:
                raise error_of(found.status, found.json(), found.retry_after)
            answer = found.json()
        jobs = answer.get("jobs")
        return jobs if isinstance(jobs, list) else []

    def ack(self, *jobs: Leases, result: Any = None, content_type: str | None = None, hold: Duration | None = None) -> Outcomes:
        """
        Acks jobs, or their leases; None for each answer that counts; otherwise the error. A lease that an earlier try may have acked counts. `result`, of one job: bytes, text,
        or what becomes JSON. A result that is too big is Refused, and the job stays leased. `hold`: how long no job of its group is
        delivered; without a group, of its topic.
        """
        return self._answers("ack", _items(jobs, _result(result, content_type, self.codec) | _hold(hold)))

    def nack(
        self,
        *jobs: Leases,
        delay: Duration | None = None,
        error: str = "",
        final: bool = False,
        result: Any = None,
        content_type: str | None = None,
        hold: Duration | None = None,
    ) -> Outcomes:
        """Reports that jobs failed. `result`, of one job, with `final`: sent to those that wait for the job. `hold` as in ack()."""
        options: dict[str, Any] = {"delay": milliseconds(delay)} if delay is not None else {}
        options |= {"error": cut_text(error)} if error else {}
        options |= {"final": True} if final else {}
        return self._answers("nack", _items(jobs, options | _result(result, content_type, self.codec) | _hold(hold)))

    def extend(self, *jobs: Leases, lease: Duration | None = None, progress: str = "") -> Outcomes:
        """Makes the leases end later. `progress`, up to 256 bytes of text, is shown with the job."""
        options = {"lease_for": milliseconds(lease)} if lease is not None else {}
        options |= {"progress": cut_text(progress, PROGRESS)} if progress else {}
        return self._answers("extend", _items(jobs, options))

    def give_back(self, *jobs: Leases) -> Outcomes:
        """Returns jobs unprocessed: they are ready again immediately, and the attempt does not count."""
        return self._answers("return", _items(jobs, {}))

    def again(
        self,
        job: Lease,
        body: Any = None,
        *,
        delay: Duration | None = None,
        at: datetime.datetime | float | None = None,
        priority: int | None = None,
        content_type: str | None = None,
    ) -> bool:
        """Acks a job and pushes it again in one step; what is not given stays the same. False: its cancel was requested, and it has ended."""
        options = {"delay": None if delay is None else milliseconds(delay), "at": None if at is None else moment(at), "priority": None if priority is None else str(priority)}
        query: Query = [("lease", _lease(job)), *((name, value) for name, value in options.items() if value is not None)]
        data, kind = _encoded(body, content_type, self.codec) if body is not None else (b"", None)
        tries: Tries = []
        try:
            answer = self.transport.call("POST", "/v1/again", query, body=data or None, headers={"Content-Type": kind} if kind else {}, tries=tries)
        except LeaseEnded:
            if tries:
                return True  # an earlier try may have done it
            raise
        return [one.get("result") for one in _results(answer)] != ["cancelled"]

    def _answers(self, verb: str, items: Sequence[Mapping[str, Any]], on_result: Callable[[int, Mapping[str, Any]], object] | None = None, **how: Any) -> Outcomes:
        out: Outcomes = []
        for batch in _batches(items):
            tries: Tries = []
            body = json.dumps({"leases": batch}).encode()
            answer = self.transport.call("POST", f"/v1/{verb}", body=body, headers={"Content-Type": "application/json"}, tries=tries, **how)
            for result in _results(answer):
                if on_result is not None:
                    on_result(len(out), result)
                counts = result.get("result") in ("ok", "cancelled") or (bool(tries) and verb != "extend" and result.get("result") == "lease_ended")
                out.append(None if counts else error_of(0, result))
        return out


def _seconds(duration: Duration) -> float:
    return duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration


def _named(job: Named) -> tuple[str, str]:
    return (job.topic, job.id) if isinstance(job, (Job, Pushed)) else job


def _lease(job: Lease) -> str:
    return job.lease if isinstance(job, Job) else job


def _flat(given: Iterable[Any], one: type | tuple[type, ...]) -> list[Any]:
    """The values that were given one by one, in lists, or both."""
    return [value for some in given for value in ([some] if isinstance(some, one) else some)]


def _items(jobs: Iterable[Leases], options: Mapping[str, Any]) -> Items:
    items = [{"lease": _lease(job), **options} for job in _flat(jobs, (str, Job))]
    if "result_base64" in options and len(items) != 1:
        raise TypeError("a result belongs to one job, so ack the others in another call")
    return items


def _encoded(body: Any, content_type: str | None, codec: Codec | None, part: str = "body") -> tuple[bytes, str]:
    data, kind = body_of(body, content_type)
    return codec.encode(data, kind, part) if codec else (data, kind)


def _result(result: Any, content_type: str | None = None, codec: Codec | None = None) -> dict[str, Any]:
    """The members of an answer with this result."""
    if result is None:
        return {}
    data, kind = _encoded(result, content_type, codec, "result")
    return {"result_base64": base64.b64encode(data).decode(), "result_type": kind}


def _hold(hold: Duration | None) -> dict[str, Any]:
    return {} if hold is None else {"hold": milliseconds(hold)}


def _batches(items: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    start = size = 0
    for at, item in enumerate(items):
        more = len(item.get("result_base64", ""))
        if at - start == LEASES or (at > start and size + more > RESULTS_BYTES):
            yield items[start:at]
            start, size = at, 0
        size += more
    if start < len(items):
        yield items[start:]


def cut_text(text: str, most: int = 200) -> str:
    """Cuts a text to so many bytes, and removes control characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line.encode()[:most].decode(errors="ignore")


def _results(answer: Mapping[str, object]) -> list[dict[str, Any]]:
    found = answer.get("results")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _pushed(result: Mapping[str, Any]) -> Pushed | TarryError:
    if result.get("result") in ("created", "replaced", "existed"):
        return Pushed(id=result["id"], result=result["result"], due_at=time_of(result.get("due_at")), topic=str(result.get("topic", "")))
    return error_of(0, dict(result))


_ARGUMENTS = frozenset(inspect.signature(Client.push).parameters) - {"self"}
_META = {"traceparent": "Traceparent", "tracestate": "Tracestate"}
_TEXTS = {"delay": milliseconds, "at": moment, "ttl": milliseconds, "lease": milliseconds, "once_for": milliseconds, "keep_finished": milliseconds, "wait_at_most": milliseconds,
          "close_within": milliseconds}  # as the API has them
_AS_THEY_ARE = ("priority", "max_attempts", "backoff", "on_conflict", "once", "group", "waits", "members", "on_dead", "callback")


def _item(given: Mapping[str, Any], codec: Codec | None = None) -> dict[str, Any]:
    """An item of a batch push, of the arguments of push()."""
    if unknown := given.keys() - _ARGUMENTS:
        raise TypeError(f"push has no argument '{min(unknown)}'")
    if "topic" not in given:
        raise TypeError("a push needs a topic")
    data, kind = _encoded(given.get("body", b""), given.get("content_type"), codec)
    traces = {name: given[name] for name in ("traceparent", "tracestate") if given.get(name)}
    item = {name: given[name] for name in _AS_THEY_ARE if given.get(name) is not None}
    item |= {"lease_for" if name == "lease" else name: text(given[name]) for name, text in _TEXTS.items() if given.get(name) is not None}
    if given.get("batch"):
        item["batch_topic"], item["batch_id"] = _named(given["batch"])
    if given.get("parent"):
        item["parent"] = _lease(given["parent"])
    if not isinstance(members := item.get("members", 0), int):
        item["members"] = [_item(member, codec) for member in members]
    item |= {"topic": given["topic"], "body_base64": base64.b64encode(data).decode(), "content_type": kind}
    if given.get("id") or not given.get("once"):  # else the server generates one that belongs to the shard of the once
        item["id"] = given.get("id") or new_id()
    if not given.get("id"):
        item.setdefault("on_conflict", "keep")
    if meta := {**traces, **(given.get("meta") or {})}:
        item["meta"] = meta
    return item
