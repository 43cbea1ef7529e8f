#!/usr/bin/env python3
"""The adapter of clients of gRPC for clients/conformance: adapter.py COMMAND. A generated client makes the calls, this program does what an
application does around it: ids, repeats, and a worker on the stream Work.

The client's program gets the address and repeats.json. Lines of its standard input are: number, method, milliseconds, message as JSON, with tabs in between.
It answers with number, status and the message as JSON, or the google.rpc.Status of an error in base64. For the method Work a line with a known number is a
further message of the stream, an empty one half-closes; each message of the server has the status -1.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import uuid

OK, DEADLINE, NOT_FOUND, EXISTS, EXHAUSTED, FAILED, UNAVAILABLE = 0, 4, 5, 6, 8, 9, 14
KINDS = {NOT_FOUND: "NotFound", EXISTS: "Conflict", FAILED: "Conflict", UNAVAILABLE: "Unavailable"}
MESSAGE = -1
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
LOCK = threading.Lock()


def show(line):
    with LOCK:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def in_json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def duration(ms):
    return f"{ms / 1000:.3f}s"


class Failure(Exception):
    def __init__(self, status, details, repeated=False):
        found = re.search(rb"\n.([a-z_]+)\x12\x05tarry", base64.b64decode(details or ""), re.DOTALL)  # ErrorInfo
        self.status, self.code, self.repeated = status, found and found[1].decode(), repeated
        self.kind = "Full" if self.code == "topic_full" else KINDS.get(status, "Refused")


class Program:
    """The generated client."""

    def __init__(self, command, address):
        repeats = pathlib.Path(__file__).with_name("repeats.json")
        self.proc = subprocess.Popen([*command, address, str(repeats)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.changed, self.number, self.found, self.streams = threading.Condition(), 0, {}, {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            number, status, rest = line.rstrip("\n").split("\t")
            if on_message := self.streams.get(int(number)):
                on_message(int(status), json.loads(rest) if status == "-1" else rest)
                continue
            with self.changed:
                self.found[int(number)] = int(status), rest
                self.changed.notify_all()
        os._exit(1)  # its standard error has the reason

    def send(self, number, method, ms, message):
        with self.changed:
            self.proc.stdin.write(f"{number}\t{method}\t{ms}\t{'' if message is None else json.dumps(message)}\n")
            self.proc.stdin.flush()

    def next(self):
        with self.changed:
            self.number += 1
            return self.number

    def once(self, method, ms, message):
        number = self.next()
        self.send(number, method, ms, message)
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.found, ms / 1000 + 30):
                raise Failure(DEADLINE, "")
            status, rest = self.found.pop(number)
        if status != OK:
            raise Failure(status, rest)
        return json.loads(rest)

    def call(self, method, ms=20000, repeats=True, **message):
        """Repeats a call that the server may not have carried out. A change that names its job may be repeated; a take may not."""
        pause, limit, repeated = FIRST_PAUSE, time.monotonic() + 30, False
        while True:
            try:
                return self.once(method, ms, message)
            except Failure as failure:
                failure.repeated = repeated
                if not repeats or failure.status not in (UNAVAILABLE, EXHAUSTED) or failure.code == "topic_full" or time.monotonic() > limit:
                    raise
                repeated = repeated or failure.status == UNAVAILABLE
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def push_of(request):
    message = {"topic": request["topic"], "id": request["id"]} if "id" in request else {"topic": request["topic"], "id": str(uuid.uuid4()), "on_conflict": "ON_CONFLICT_KEEP"}
    text = request["text"] if "text" in request else in_json(request["json"]) if "json" in request else None
    message["body"] = request.get("body_base64") or base64.b64encode((text or "").encode()).decode()
    for name in ("content_type", "group", "once", "backoff", "meta", "parent", "waits", "on_dead", "batch"):
        if name in request:
            message[name] = request[name]
    for name in ("delay", "ttl", "wait_at_most", "close_within", "keep_finished"):
        if f"{name}_ms" in request:
            message[name] = duration(request[f"{name}_ms"])
    if "priority" in request:
        message["priority"] = {"value": request["priority"]}
    if "max_attempts" in request:
        message["max_attempts"] = {"value": request["max_attempts"]}
    if "on_conflict" in request:
        message["on_conflict"] = f"ON_CONFLICT_{request['on_conflict'].upper()}"
    if isinstance(request.get("members"), int):
        message["members"] = request["members"]
    return message


def result_of(one):
    return one.get("result", "").removeprefix("RESULT_").lower()


def shown(job):
    """A job of the service as the scenarios know it."""
    result = job.get("result", {})
    return {
        **{name: job.get(name, "") for name in ("topic", "id", "lease", "content_type", "consumer", "group", "progress")}, "attempt": job.get("attempt", 0), "delivery": int(job.get("delivery", 0)),
        "body_base64": job.get("body", ""), "meta": job.get("meta", {}), "cancel_requested": job.get("cancel_requested", False), "state": job.get("state", "STATE_UNKNOWN").removeprefix("STATE_").lower(),
        "batch": job.get("batch"), "outcome": job.get("outcome"), "last_error": job.get("error"), "finished_at_ms": job.get("finished_at"), "result_base64": result.get("data"), "result_type": result.get("content_type"),
    }


class Adapter:
    def __init__(self, command):
        self.command, self.workers = command, {}

    def open(self, request):
        self.program = Program(self.command, request["url"])
        with contextlib.suppress(Failure):  # a program that is slow to start is not slow in a scenario
            self.program.call("Get", topic="t", id="none")
        return {}

    def push(self, request):
        found = self.program.call("Push", **push_of(request))
        return {"id": found["id"], "result": result_of(found)}

    def push_many(self, request):
        pushes, results = [push_of(item) for item in request["items"]], []
        for at in range(0, len(pushes), 1000):
            results += self.program.call("PushMany", jobs=pushes[at:at + 1000])["results"]
        return [{"error": {"code": one["problem"]["code"]}} if "problem" in one else {"id": one["id"], "result": result_of(one)} for one in results]

    def push_batch(self, request):
        members = []

        def add(those, of):
            for one in those:
                members.append({"job": push_of({name: value for name, value in one.items() if name != "members"}), "of": of})
                add(one.get("members", ()), len(members))

        add(request["members"], 0)
        found = self.program.call("PushBatch", job=push_of(request["job"]), members=members)
        return {"closed": found.get("closed", False), "results": [{"id": one["id"], "result": result_of(one)} for one in found["results"]]}

    def change(self, method, request, **message):
        """Whether the job was changed; a repeated call whose job is gone has changed it."""
        try:
            return self.program.call(method, topic=request["topic"], id=request["id"], **message)["results"][0]
        except Failure as failure:
            if failure.status != NOT_FOUND:
                raise
            return {"result": "RESULT_CANCELLED"} if failure.repeated and method == "Cancel" else None

    def cancel(self, request):
        return {"done": self.change("Cancel", request) is not None}

    def cancel_batch(self, request):
        return {"done": self.change("Cancel", request, members=True) is not None}

    def request_cancel(self, request):
        found = self.change("Cancel", request, request=True)
        return {"result": found and result_of(found)}

    def run(self, request):
        self.program.call("Run", topic=request["topic"], id=request["id"])
        return {"done": True}

    def get(self, request):
        try:
            return {"job": shown(self.program.call("Get", topic=request["topic"], id=request["id"]))}
        except Failure as failure:
            if failure.status != NOT_FOUND:
                raise
            return {"job": None}

    def list(self, request):
        ids, page = [], {}
        while not ids or page.get("cursor"):
            page = self.program.call("List", topic=request["topic"], limit=request.get("page", 100), cursor=page.get("cursor", ""))
            ids += [one["id"] for one in page.get("jobs", ())]
        return {"ids": ids}

    def take(self, request):
        message = {"topics": request["topics"], "max": request["max"], "wait": duration(request["wait_ms"]), "consumer": request.get("consumer", "")}
        if "lease_ms" in request:
            message["lease_for"] = duration(request["lease_ms"])
        return {"jobs": [shown(one) for one in self.program.call("Take", request["wait_ms"] + 10000, repeats=False, **message).get("jobs", ())]}

    def settle(self, method, request, **message):
        """One call for each lease; a repeated one whose lease has ended counts."""
        results = []
        for lease in request["leases"]:
            try:
                self.program.call(method, lease=lease, **message)
                results.append("ok")
            except Failure as failure:
                if failure.status != FAILED:
                    raise
                results.append("ok" if failure.repeated else failure.code)
        return {"results": results}

    def ack(self, request):
        given = request.get("result", {})
        if not given:
            return self.settle("Ack", request)
        text = given["text"] if "text" in given else in_json(given.get("json"))
        return self.settle("Ack", request, result={"data": given.get("base64") or base64.b64encode(text.encode()).decode(), "content_type": given.get("content_type", "")})

    def nack(self, request):
        message = {"error": request.get("error", ""), "final": request.get("final", False)}
        return self.settle("Nack", request, **message, **({"delay": duration(request["delay_ms"])} if "delay_ms" in request else {}))

    def extend(self, request):
        return self.settle("Extend", request, **({"lease_for": duration(request["lease_ms"])} if "lease_ms" in request else {}))

    def give_back(self, request):
        return self.settle("Return", request)

    def worker(self, request):
        self.workers[request["name"]] = Worker(self.program, request)
        return {}

    def stop(self, request):
        self.workers.pop(request["name"]).stop(request["grace_ms"] / 1000)
        return {}

    def answer(self, request):
        try:
            answer = {"ok": {} if request["op"] == "quit" else getattr(self, request["op"])(request)}
        except Failure as failure:
            answer = {"error": {"kind": failure.kind, "code": failure.code, "status": failure.status}}
        show({**answer, "n": request["n"]})


class Worker:
    """A worker on Work. A stream that broke is opened again, and the answers that were not confirmed are sent again; leases outlive the stream."""

    def __init__(self, program, request):
        self.program, self.name, self.request = program, request["name"], request
        self.changed, self.held, self.stream, self.stopping, self.returned, self.ended = threading.Condition(), {}, None, False, [], threading.Event()
        for work in (self._keep_open, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def stop(self, grace_s):
        with self.changed:
            self.stopping = True
            self.changed.wait_for(lambda: not self.held, grace_s)
            if self.stream:
                self.program.send(self.stream, "Work", 0, None)
        self.ended.wait(grace_s + 5)
        if self.returned:
            self.program.call("Return", leases=self.returned)

    def _keep_open(self):
        while not self.stopping:
            ended, number = threading.Event(), self.program.next()
            self.program.streams[number] = lambda status, message, ended=ended: ended.set() if status >= 0 else self._on_message(message)
            with self.changed:
                hello = {"topics": self.request["topics"], "lease_for": duration(self.request["lease_ms"]), "consumer": self.request.get("consumer", ""),
                         "credit": self.request["concurrency"] - len(self.held), "confirm": True}
                self.stream = number
                self.program.send(number, "Work", 3600000, {"hello": hello})
                for lease, one in self.held.items():
                    if one["answer"]:
                        one["again"] = True
                        self._send_answer(lease)
            ended.wait()
            with self.changed:
                self.stream = None
            time.sleep(0 if self.stopping else 0.1)
        self.ended.set()

    def _on_message(self, message):
        if "job" in message:
            job = message["job"]
            with self.changed:
                if self.stopping:
                    self.returned.append(job["lease"])
                    return
                self.held[job["lease"]] = {"job": job, "answer": None, "again": False}
            threading.Thread(target=self._handle, args=(job,), daemon=True).start()
        elif "answered" in message:
            self._answered(message["answered"])

    def _handle(self, job):
        step = self.request["handler"]
        step = step["by_attempt"][min(job["attempt"], len(step["by_attempt"])) - 1] if "by_attempt" in step else step
        show({"event": "began", "worker": self.name, "id": job["id"], "attempt": job["attempt"], "delivery": int(job["delivery"])})
        time.sleep(step.get("sleep_ms", 0) / 1000)
        answer = {"lease": job["lease"]}
        if step["do"] != "ack":
            answer |= {"error": step["error"], "final": step["do"] == "reject", **({"delay": duration(step["after_ms"])} if step["do"] == "retry" else {})}
        elif given := step.get("result"):
            answer["result"] = {"data": given.get("base64") or base64.b64encode((given["text"] if "text" in given else in_json(given["json"])).encode()).decode()}
        with self.changed:
            self.held[job["lease"]]["answer"] = {"verb": "VERB_ACK" if step["do"] == "ack" else "VERB_NACK", "answer": answer}
            self.held[job["lease"]]["outcome"] = {"ack": "ack", "fail": "nack"}.get(step["do"], step["do"])
            self._send_answer(job["lease"])

    def _send_answer(self, lease):
        if self.stream:
            self.program.send(self.stream, "Work", 0, {"answer": self.held[lease]["answer"]})

    def _answered(self, answered):
        with self.changed:
            one = self.held.pop(answered["lease"], None)
            if one and self.stream and not self.stopping:
                self.program.send(self.stream, "Work", 0, {"credit": 1})
            self.changed.notify_all()
        if one:
            is_done = "problem" not in answered["result"] or one["again"] and answered["result"]["problem"]["code"] == "lease_ended"
            show({"event": "ended", "worker": self.name, "id": one["job"]["id"], "attempt": one["job"]["attempt"], "outcome": one["outcome"] if is_done else "lost"})

    def _beat(self):
        """Leases of earlier streams are extended too, so not by extend_all."""
        lease_ms = self.request["lease_ms"]
        while not self.ended.wait(lease_ms / 10000):
            with self.changed:
                leases = list(self.held)
            if leases:
                try:
                    self.program.call("Extend", 2000, repeats=False, leases=leases, lease_for=duration(lease_ms))
                except Failure:
                    pass  # the next one follows soon


def main():
    adapter = Adapter(sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        adapter.answer(request)
        if request["op"] == "quit":
            return


main()
