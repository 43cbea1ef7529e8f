"""
Clients of the kill loop that keep finished jobs: they ack with results, look finished jobs up again after each crash, and wait for the end of their own pushes.
"""

import json
import socket
import time

from client import Connection, Lost, job_path, query, request_bytes
from kill_workers import JSON_HEADERS, RETRY_SECONDS, Consumer, Pusher, answer_outcome, fingerprint, is_unknown, now, outcome_of

TOPICS = {"kept": {"lease_for": "2s", "backoff": "fixed:50ms", "keep_finished": "6h"}}
KNOWN = {"kept": {"lease_ms": 2000, "backoff_ms": [50, 50], "keep_ms": 6 * 3_600_000}}
WAIT_MS = 4000
LOOKS = 20  # look-ups after each lost connection


def fingerprint_of_result(found):
    """Returns the result of a job as the server shows it in JSON; None if it has none. All results are texts."""
    return fingerprint(found["result_type"], found["result"].encode(), "") if "result" in found else None


class Finisher(Pusher, Consumer):
    """Pushes jobs and waits for the first of them, takes them, and acks with results, one by one and in batches."""

    def __init__(self, *args):
        Pusher.__init__(self, *args)
        self.held, self.late, self.lost_acks = [], [], []
        self.other = None  # the connection that waits
        self.acked = []  # ids of jobs with an ack
        self.lost = False

    def step(self):
        if self.connect() is None:
            return
        if self.lost:
            self.lost = False
            self.look_up(self.acked[-LOOKS:] + self.random.sample(self.acked, min(LOOKS, len(self.acked))))
        jobs = [self.kept_job() for _ in range(self.random.choice((1, 2, 8, 30)))]
        begin = self.push_and_wait(jobs[0])
        self.push_pipelined(jobs[1:])
        limit = time.monotonic() + WAIT_MS / 1000
        left = {job["id"] for job in jobs}
        while left and time.monotonic() < limit and not self.stop.is_set():
            taken = self.take_from(["kept"], self.random.choice((1, 50)), 200) or []
            left -= self.finish(taken)
        if begin:
            self.read_end(jobs[0], begin)
        if self.acked:
            self.look_up([self.random.choice(self.acked)])

    def drop(self):
        super().drop()
        self.lost = True

    def kept_job(self):
        content_type, body = self.body()
        return {"topic": "kept", "id": f"{self.name}-{self.made}", "content_type": content_type, "bytes": body, "on_conflict": "keep"}

    # ---- waiting ----

    def push_and_wait(self, job):
        """Sends the push on the other connection. Returns when it was sent, or None if it was not."""
        try:
            self.other = self.other or Connection(self.random.choice(self.ports), timeout=60)
        except OSError:
            time.sleep(RETRY_SECONDS)
            return None
        begin = now()
        target = job_path("kept", job["id"]) + query({"on_conflict": "keep", "wait": f"{WAIT_MS}ms"})
        try:
            self.other.send(request_bytes("PUT", target, job["bytes"], {"Content-Type": job["content_type"]}))
        except Lost:
            self.note_lost(job, begin)
            return None
        return begin

    def note_lost(self, job, begin):
        self.other.close()
        self.other, self.lost = None, True
        self.write("push", begin=begin, end=now(), items=[self.note(job, "unknown")])

    def read_end(self, job, begin):
        """Reads the reply of the push: the job as it ended, or as it is after the wait."""
        try:
            reply = self.other.read()
        except (Lost, socket.timeout):
            self.note_lost(job, begin)
            return
        end = now()
        if is_unknown(reply):
            self.write("push", begin=begin, end=end, items=[self.note(job, "unknown")])
            return
        found = reply.json()
        shown = "meta" in found  # a job, not the result of a push
        self.write("push", begin=begin, end=end, items=[self.note(job, "created" if shown else outcome_of(found))])
        if shown:
            self.write("ended", begin=begin, end=end, topic="kept", id=job["id"], state=found["state"], result=fingerprint_of_result(found))

    # ---- finishing ----

    def finish(self, jobs):
        """Answers most jobs with a result. Returns the ids of those."""
        done = []
        for job in jobs:
            chance = self.random.random()
            if chance < 0.88:
                done.append(job)
            elif chance < 0.94:
                self.answer("nack", [job["lease"]])
            elif chance < 0.97:
                self.extend(job)
                done.append(job)
        while done:
            some, done = (done[:1], done[1:]) if self.random.random() < 0.3 else (done, [])
            self.ack_with_results(some)
            self.acked += [job["id"] for job in some]
        return {job["id"] for job in jobs}

    def extend(self, job):
        called = self.call("POST", "/v1/extend" + query({"lease": job["lease"], "progress": f"half of {job['id']}"}))
        if called:
            reply, begin, end = called
            outcome = "unknown" if reply is None else answer_outcome(reply.json()["results"][0] if "results" in reply.json() else reply.json())
            self.write("answer", verb="extend", begin=begin, end=end, items=[{"lease": job["lease"], "outcome": outcome}])

    def ack_with_results(self, jobs):
        results = [f"{job['id']}/{job['attempt']} of {self.name} {'r' * self.random.choice((0, 20, 300, 9000))}" for job in jobs]
        if len(jobs) == 1:
            called = self.call("POST", "/v1/ack" + query({"lease": jobs[0]["lease"]}), results[0].encode(), {"Content-Type": "text/plain"})
        else:
            items = [{"lease": job["lease"], "result": text, "result_type": "text/plain"} for job, text in zip(jobs, results)]
            called = self.call("POST", "/v1/ack", json.dumps({"leases": items}).encode(), JSON_HEADERS)
        if called is None:
            return
        reply, begin, end = called
        if reply is None:
            outcomes = ["unknown"] * len(jobs)
        elif reply.ok and "results" in reply.json():
            outcomes = [answer_outcome(one) for one in reply.json()["results"]]
        else:
            outcomes = [answer_outcome(reply.json())] * len(jobs)
        assert len(outcomes) == len(jobs), reply.body[:500]
        self.write("answer", verb="ack", begin=begin, end=end,
                   items=[{"lease": job["lease"], "outcome": outcome, "result": fingerprint("text/plain", text.encode(), "")}
                          for job, outcome, text in zip(jobs, outcomes, results)])

    def look_up(self, idents):
        for ident in dict.fromkeys(idents):
            called = self.call("GET", job_path("kept", ident))
            if called is None:
                return
            reply, begin, end = called
            if reply is not None:
                write_kept(self, ident, reply, begin, end)


def write_kept(writer, ident, reply, begin, end):
    if reply.status == 404:
        writer.write("kept", begin=begin, end=end, topic="kept", id=ident, state="not_found")
    elif reply.ok:
        found = reply.json()
        writer.write("kept", begin=begin, end=end, topic="kept", id=ident, state=found["state"], result=fingerprint_of_result(found))
