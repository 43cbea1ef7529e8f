#!/usr/bin/env python3
"""The adapter of the Python client for clients/conformance: JSON lines in, JSON lines out."""

import asyncio
import base64
import json
import sys
import threading
import time

import tarry
import tarry.aio
from tarry.errors import Reject, Retry, TarryError

LOCK = threading.Lock()
SAME = ("topic", "id", "priority", "max_attempts", "backoff", "on_conflict", "once", "group", "parent", "waits", "members", "on_dead", "meta", "content_type")
TIMES = ("delay", "at", "ttl", "keep_finished", "wait_at_most", "close_within")


def show(line):
    with LOCK:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def seconds(request, name, otherwise=None):
    return request[name] / 1000 if request.get(name) is not None else otherwise


def problem(fault):
    return {"kind": type(fault).__name__, "code": fault.code, "status": fault.status, "detail": fault.detail}


def push_options(request):
    body = base64.b64decode(request["body_base64"]) if "body_base64" in request else request["text"] if "text" in request else request.get("json")
    options = {name: request[name] for name in SAME if name in request}
    options |= {name: seconds(request, f"{name}_ms") for name in TIMES}
    if batch := request.get("batch"):
        options["batch"] = (batch["topic"], batch["id"])
    if isinstance(members := request.get("members"), list):
        options["members"] = [push_options(member) for member in members]
    return {"body": body, **options}


def pushed(one):
    return {"error": problem(one)} if isinstance(one, TarryError) else {"id": one.id, "result": one.result}


def result_of(step):
    """The result that a request or a step of a handler describes, and its content type."""
    given = step.get("result") or {}
    return base64.b64decode(given["base64"]) if "base64" in given else given.get("text", given.get("json")), given.get("content_type")


def job(found):
    return {"topic": found.topic, "id": found.id, "lease": found.lease, "attempt": found.attempt, "delivery": found.delivery,
            "body_base64": None if found.codec_error else base64.b64encode(found.body).decode(), "codec_error": found.codec_error and found.codec_error.detail, "content_type": found.content_type, "meta": dict(found.meta), "consumer": found.consumer,
            "cancel_requested": found.cancel_requested, "state": found.state, "group": found.group, "batch": found.batch and dict(zip(("topic", "id"), found.batch)), "waits_for": found.waits_for,
            "outcomes": found.outcomes, "outcome": found.outcome, "progress": found.progress, "last_error": found.last_error,
            "finished_at_ms": found.finished_at and found.finished_at.timestamp() * 1000, "duration_ms": found.duration and found.duration.total_seconds() * 1000,
            "result_base64": None if found.codec_error or found.result is None else base64.b64encode(found.result).decode(), "result_type": found.result_type}


def codec_of(given):
    """The codec that a request describes."""
    if given is None:
        return None
    check = given.get("claim_check")
    return tarry.Codec(
        gzip=tarry.Gzip(**given["gzip"]) if "gzip" in given else None,
        aes_gcm=tarry.AesGcm(given["current"], given["keys"]) if "keys" in given else None,
        claim_check=tarry.ClaimCheck(tarry.DirectoryStore(check["directory"]), check["above"]) if check else None,
        context=given.get("context", ""),
    )


async def members_of(client, *names, **options):
    return [one async for one in client.members(*names, **options)]


def results(found):
    return {"results": [one.code if one else "ok" for one in found]}


class Adapter:
    def __init__(self, is_async):
        self.is_async, self.client, self.workers, self.taken = is_async, None, {}, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def open(self, request):
        codec = codec_of(request.get("codec"))
        self.client = tarry.Client(request["url"], codec=codec, token=request.get("token"), retry_for=seconds(request, "retry_for_ms", 30.0), timeout=seconds(request, "timeout_ms", 10.0))
        self.aio = tarry.aio.AsyncClient(request["url"], codec=codec, token=request.get("token"), retry_for=seconds(request, "retry_for_ms", 30.0), timeout=seconds(request, "timeout_ms", 10.0))
        return {}

    def recode(self, request):
        """Encodes and decodes a body so many times, for bench/codec.py."""
        body, codec = base64.b64decode(request["body_base64"]), codec_of(request["codec"])
        for _ in range(request["times"]):
            found = codec.decode(*codec.encode(body, request["content_type"]))
        return {"body_base64": base64.b64encode(found[0]).decode()}

    def push(self, request):
        found = self.client.push(**push_options(request))
        return {"id": found.id, "result": found.result, "due_at_ms": found.due_at.timestamp() * 1000 if found.due_at else None}

    def push_many(self, request):
        return [pushed(one) for one in self.client.push_many([push_options(item) for item in request["items"]])]

    def push_batch(self, request):
        call = self.call(tarry.aio.AsyncClient.push_batch, self.client.push_batch)
        found = call(push_options(request["job"]), [push_options(member) for member in request["members"]])
        return {"closed": found.closed, "results": [pushed(one) for one in found.results]}

    def close_batch(self, request):
        self.call(tarry.aio.AsyncClient.close_batch, self.client.close_batch)(request["topic"], request["id"])
        return {"done": True}

    def cancel_batch(self, request):
        return {"done": self.call(tarry.aio.AsyncClient.cancel_batch, self.client.cancel_batch)(request["topic"], request["id"])}

    def members(self, request):
        options = {"outcome": request.get("outcome"), "page": request.get("page", 100)}
        return {"jobs": [job(one) for one in self.call(members_of, self.client.members)(request["topic"], request["id"], **options)]}

    def cancel(self, request):
        return {"done": self.client.cancel(request["topic"], request["id"])}

    def request_cancel(self, request):
        return {"result": self.client.request_cancel(request["topic"], request["id"])}

    def run(self, request):
        self.client.run(request["topic"], request["id"])
        return {"done": True}

    def reschedule(self, request):
        self.client.reschedule(request["topic"], request["id"], delay=seconds(request, "delay_ms"), at=seconds(request, "at_ms"), priority=request.get("priority"))
        return {"done": True}

    def get(self, request):
        found = self.client.get(request["topic"], request["id"])
        return {"job": job(found) if found else None}

    def list(self, request):
        return {"ids": [one.id for one in self.client.list(request["topic"], state=request.get("state"), page=request.get("page", 100))]}

    def take(self, request):
        found = self.client.take(*request["topics"], max=request["max"], wait=request["wait_ms"] / 1000, lease=seconds(request, "lease_ms"), consumer=request.get("consumer"))
        self.taken |= {one.lease: one for one in found}
        return {"jobs": [job(one) for one in found]}

    def given(self, request):
        """The leases as they are, or the jobs: a single one, a list, or several."""
        jobs = [self.taken[lease] for lease in request["leases"]] if "as" in request else request["leases"]
        return [jobs] if request.get("as") == "list" else jobs

    def ack(self, request):
        result, content_type = result_of(request)
        return results(self.client.ack(*self.given(request), result=result, content_type=content_type, hold=seconds(request, "hold_ms")))

    def nack(self, request):
        result, content_type = result_of(request)
        return results(self.client.nack(*self.given(request), delay=seconds(request, "delay_ms"), error=request.get("error", ""), final=request.get("final", False),
                                        result=result, content_type=content_type, hold=seconds(request, "hold_ms")))

    def extend(self, request):
        return results(self.client.extend(*self.given(request), lease=seconds(request, "lease_ms"), progress=request.get("progress", "")))

    def give_back(self, request):
        return results(self.client.give_back(*self.given(request)))

    def push_and_wait(self, request):
        call = self.call(tarry.aio.AsyncClient.push_and_wait, self.client.push_and_wait)
        return {"job": job(call(**push_options(request), wait=request["wait_ms"] / 1000))}

    def wait(self, request):
        call = self.call(tarry.aio.AsyncClient.wait, self.client.wait)
        return {"jobs": [job(one) for one in call(*[(request["topic"], id) for id in request["ids"]], any=request.get("any", False), timeout=request["timeout_ms"] / 1000)]}

    def call(self, asynchronous, otherwise):
        if not self.is_async:
            return otherwise
        return lambda *arguments, **options: asyncio.run_coroutine_threadsafe(asynchronous(self.aio, *arguments, **options), self.loop).result()

    def again(self, request):
        text = request.get("text")
        return {"done": self.client.again(request["leases"][0], text, delay=seconds(request, "delay_ms"), priority=request.get("priority"))}

    def schedule(self, request):
        members = request.get("members", {})
        body = base64.b64decode(request["body_base64"]) if "body_base64" in request else request["text"] if "text" in request else request.get("json")
        found = self.client.schedule(request["name"], request["topic"], body, cron=request.get("cron"), every=seconds(request, "every_ms"), zone=request.get("zone"),
                                     take_over=request.get("take_over", False), **members)
        return {"result": found.result, "next_ms": round(found.next.timestamp() * 1000) if found.next else None}

    def unschedule(self, request):
        return {"done": self.client.unschedule(request["name"])}

    def verify(self, request):
        try:
            tarry.verify(request["secrets"], request["headers"], base64.b64decode(request["body_base64"]), now=seconds(request, "now_ms"))
        except tarry.BadSignature:
            return {"valid": False}
        return {"valid": True}

    # ---- workers ----

    def worker(self, request):
        name = request["name"]

        def done(taken, outcome, _):
            show({"event": "ended", "worker": name, "id": taken.id, "attempt": taken.attempt, "outcome": outcome})

        if "handlers" in request:
            topics = [{topic: self.handler(name, plan) for topic, plan in request["handlers"].items()}]
        else:
            topics = [request["topics"], self.handler(name, request["handler"])]
        options = {"log": request["log"]} if "log" in request else {}
        worker = tarry.Worker(self.client, *topics, **options, concurrency=request["concurrency"],
                              lease=request["lease_ms"] / 1000, consumer=request.get("consumer"), on_done=done, on_error=lambda fault, what: print(time.strftime("%X"), what, fault, file=sys.stderr))
        self.workers[name] = worker
        if self.is_async:
            asyncio.run_coroutine_threadsafe(worker.run_async(), self.loop)
        else:
            threading.Thread(target=worker.run, kwargs={"signals": False}, daemon=True).start()
        return {}

    def handler(self, name, plan):
        def step_of(taken):
            return plan["by_attempt"][min(taken.attempt, len(plan["by_attempt"])) - 1] if "by_attempt" in plan else plan

        def begin(taken):
            show({"event": "began", "worker": name, "id": taken.id, "attempt": taken.attempt, "delivery": taken.delivery})
            step = step_of(taken)
            if "progress" in step:
                show({"event": "reported", "worker": name, "id": taken.id, "done": taken.report_progress(step["progress"])})
            return step

        def end(step):
            if step["do"] == "fail":
                raise RuntimeError(step["error"])
            if step["do"] == "retry":
                raise Retry(step["after_ms"] / 1000, step["error"])
            if step["do"] == "reject":
                raise Reject(step["error"], result=result_of(step)[0])
            return result_of(step)[0]

        def notified(taken):
            show({"event": "notified", "worker": name, "id": taken.id, "cancel_requested": taken.cancel_requested})
            if taken.cancel_requested and step_of(taken).get("heeds", True):
                raise RuntimeError("it is not wanted any more")

        def handle(taken):
            step = begin(taken)
            if taken.lost.wait(step.get("sleep_ms", 0) / 1000):
                notified(taken)
                return None
            return end(step)

        async def handle_async(taken):
            step = begin(taken)
            try:
                await asyncio.sleep(step.get("sleep_ms", 0) / 1000)
            except asyncio.CancelledError:
                notified(taken)
                return None
            return end(step)

        return handle_async if self.is_async else handle

    def stop(self, request):
        self.workers.pop(request["name"]).stop(request["grace_ms"] / 1000)
        return {}

    def answer(self, request):
        number = request.pop("n", None)
        try:
            answer = {"ok": {} if request["op"] == "quit" else getattr(self, request["op"])(request)}
        except TarryError as fault:
            answer = {"error": problem(fault)}
        show({**answer, "n": number})


def main():
    adapter = Adapter("--asyncio" in sys.argv)
    for line in sys.stdin:
        request = json.loads(line)
        adapter.answer(dict(request))
        if request["op"] == "quit":
            return


main()
