#!/usr/bin/env python3
"""The adapter of the Python client for clients/conformance: JSON lines in, JSON lines out."""

import asyncio
import base64
import json
import sys
import threading
import time

import tarry
from tarry.errors import Reject, Retry, TarryError

LOCK = threading.Lock()


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
    options = {name: request[name] for name in ("topic", "id", "priority", "max_attempts", "backoff", "on_conflict", "once", "meta", "content_type") if name in request}
    return {"body": body, "delay": seconds(request, "delay_ms"), "at": seconds(request, "at_ms"), "ttl": seconds(request, "ttl_ms"), **options}


def job(found):
    return {"topic": found.topic, "id": found.id, "lease": found.lease, "attempt": found.attempt, "delivery": found.delivery,
            "body_base64": base64.b64encode(found.body).decode(), "content_type": found.content_type, "meta": dict(found.meta), "consumer": found.consumer,
            "cancel_requested": found.cancel_requested}


def results(found):
    return {"results": [one.code if one else "ok" for one in found]}


class Adapter:
    def __init__(self, is_async):
        self.is_async, self.client, self.workers = is_async, None, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def open(self, request):
        self.client = tarry.Client(request["url"], token=request.get("token"), retry_for=seconds(request, "retry_for_ms", 30.0), timeout=seconds(request, "timeout_ms", 10.0))
        return {}

    def push(self, request):
        found = self.client.push(**push_options(request))
        return {"id": found.id, "result": found.result, "due_at_ms": found.due_at.timestamp() * 1000 if found.due_at else None}

    def push_many(self, request):
        found = self.client.push_many([push_options(item) for item in request["items"]])
        return [{"error": problem(one)} if isinstance(one, TarryError) else {"id": one.id, "result": one.result} for one in found]

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
        return {"jobs": [job(one) for one in found]}

    def ack(self, request):
        return results(self.client.ack(*request["leases"]))

    def nack(self, request):
        return results(self.client.nack(*request["leases"], delay=seconds(request, "delay_ms"), error=request.get("error", ""), final=request.get("final", False)))

    def extend(self, request):
        return results(self.client.extend(*request["leases"], lease=seconds(request, "lease_ms")))

    def give_back(self, request):
        return results(self.client.give_back(*request["leases"]))

    def again(self, request):
        text = request.get("text")
        return {"done": self.client.again(request["leases"][0], text, delay=seconds(request, "delay_ms"), priority=request.get("priority"))}

    def schedule(self, request):
        members = request.get("members", {})
        body = base64.b64decode(request["body_base64"]) if "body_base64" in request else request["text"] if "text" in request else request.get("json")
        found = self.client.schedule(request["name"], request["topic"], body, cron=request.get("cron"), every=seconds(request, "every_ms"), zone=request.get("zone"), **members)
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
        name, plan = request["name"], request["handler"]

        def step_of(taken):
            return plan["by_attempt"][min(taken.attempt, len(plan["by_attempt"])) - 1] if "by_attempt" in plan else plan

        def begin(taken):
            show({"event": "began", "worker": name, "id": taken.id, "attempt": taken.attempt, "delivery": taken.delivery})
            return step_of(taken)

        def end(step):
            if step["do"] == "fail":
                raise RuntimeError(step["error"])
            if step["do"] == "retry":
                raise Retry(step["after_ms"] / 1000, step["error"])
            if step["do"] == "reject":
                raise Reject(step["error"])

        def notified(taken):
            show({"event": "notified", "worker": name, "id": taken.id, "cancel_requested": taken.cancel_requested})
            if taken.cancel_requested and step_of(taken).get("heeds", True):
                raise RuntimeError("it is not wanted any more")

        def handle(taken):
            step = begin(taken)
            if taken.lost.wait(step.get("sleep_ms", 0) / 1000):
                notified(taken)
                return
            end(step)

        async def handle_async(taken):
            step = begin(taken)
            try:
                await asyncio.sleep(step.get("sleep_ms", 0) / 1000)
            except asyncio.CancelledError:
                notified(taken)
                return
            end(step)

        def done(taken, outcome, _):
            show({"event": "ended", "worker": name, "id": taken.id, "attempt": taken.attempt, "outcome": outcome})

        worker = tarry.Worker(self.client, request["topics"], handle_async if self.is_async else handle, concurrency=request["concurrency"],
                              lease=request["lease_ms"] / 1000, consumer=request.get("consumer"), on_done=done, on_error=lambda fault, what: print(time.strftime("%X"), what, fault, file=sys.stderr))
        self.workers[name] = worker
        if self.is_async:
            asyncio.run_coroutine_threadsafe(worker.run_async(), self.loop)
        else:
            threading.Thread(target=worker.run, kwargs={"signals": False}, daemon=True).start()
        return {}

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
