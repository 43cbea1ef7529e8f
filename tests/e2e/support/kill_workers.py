"""
The clients of the kill loop: processes that push, take and answer as fast as they can, and write down every call and reply.

Each has one connection, a seed and a file of its own. A call whose reply is lost is written down as unknown, and so is one that the server answers
"unavailable": its store may have carried it out or not. The worker connects again, to any of several servers, and continues.
Form of the file: tests/checker/history.py.
"""

import base64
import hashlib
import json
import random
import socket
import time

from client import Connection, Lost, job_path, query, request_bytes

CLOCK = time.CLOCK_BOOTTIME
RETRY_SECONDS = 0.004
JSON_HEADERS = {"Content-Type": "application/json"}
HAS_ABSOLUTE = True  # False: no due is a moment of the wall clock, because the store's is set by more than the checker allows

# The purpose of each topic, and its settings.
TOPICS = {
    "plain": {"lease_for": "6s", "backoff": "exp:100ms..1s"},
    "short": {"lease_for": "1s", "backoff": "fixed:100ms", "max_attempts": 3},
    "ttl": {"lease_for": "2s", "ttl": "400ms", "backoff": "fixed:50ms"},
    "dedup": {"lease_for": "3s", "dedup_window": "10m", "backoff": "fixed:200ms"},
    "clash": {"lease_for": "1s", "backoff": "fixed:50ms"},
    "far": {"lease_for": "3s", "backoff": "fixed:200ms"},
    "punctual": {"lease_for": "6s"},
}
KNOWN = {
    "plain": {"lease_ms": 6000, "backoff_ms": [100, 1000]},
    "short": {"lease_ms": 1000, "backoff_ms": [100, 100], "max_attempts": 3},
    "ttl": {"lease_ms": 2000, "ttl_ms": 400, "backoff_ms": [50, 50]},
    "dedup": {"lease_ms": 3000, "dedup_window_ms": 600_000, "backoff_ms": [200, 200]},
    "clash": {"lease_ms": 1000, "backoff_ms": [50, 50]},
    "far": {"lease_ms": 3000, "backoff_ms": [200, 200]},
    "punctual": {"lease_ms": 6000},
}
CLASH_IDS = 150
# Topics of protocols without content types: there a body is only its bytes.
BYTES_ALONE = {"mixed"}


def now():
    return time.clock_gettime_ns(CLOCK)


def fingerprint(content_type, body, topic):
    kind = b"" if topic in BYTES_ALONE else content_type.encode()
    return hashlib.blake2b(kind + b"\0" + body, digest_size=9).hexdigest()


def fingerprint_of_job(job):
    """Returns the body of a job as the server shows it in JSON. JSON bodies are pushed in the form that this returns."""
    if "body_base64" in job:
        body = base64.b64decode(job["body_base64"], validate=True)
    elif job["content_type"] == "application/json":
        body = json.dumps(job["body"], separators=(",", ":"), ensure_ascii=False).encode()
    else:
        body = job["body"].encode()
    return fingerprint(job["content_type"], body, job["topic"])


def delivery_number(job):
    return job["delivery"]


class Worker:
    def __init__(self, name, seed, ports, path, stop, rate=0):
        self.name, self.ports, self.stop = name, list(ports), stop
        self.rate, self.began = rate, time.monotonic()  # pushes a second that are enough
        self.random = random.Random(f"{seed}/{name}")
        self.path = path
        self.connection = None
        self.made = 0
        self.wall_end = 0

    def main(self):
        with open(self.path, "w", encoding="utf-8") as self.file:
            while not self.stop.is_set():
                self.step()
            if self.connection:
                self.drop()

    def write(self, kind, **fields):
        self.file.write(json.dumps({"kind": kind, **fields}, separators=(",", ":")) + "\n")

    # ---- calling ----

    def connect(self):
        """Connects; None if the run ends before the server is back. Each of several servers has its share of the clients, including a returned one."""
        if self.connection and len(self.ports) > 1 and self.random.random() < 0.05:
            self.drop()
        while self.connection is None and not self.stop.is_set():
            try:
                self.connection = Connection(self.random.choice(self.ports), timeout=60)
            except (ConnectionError, socket.timeout):
                time.sleep(RETRY_SECONDS)
        return self.connection

    def drop(self):
        self.connection.close()
        self.connection = None

    def call(self, method, target, body=b"", headers=None):
        """Returns (reply or None if it was lost, begin, end); None after the end of the run."""
        connection = self.connect()
        if connection is None:
            return None
        begin = now()
        try:
            reply = connection.call(method, target, body, headers)
        except Lost:
            reply = None
        end, self.wall_end = now(), time.time_ns()
        if reply is None or reply.closes:
            self.drop()
        return None if is_unknown(reply) else reply, begin, end

    def pipeline(self, requests):
        """Sends all together, reads the replies. [(reply or None, begin, end)]"""
        connection = self.connect()
        if connection is None:
            return None
        out, begin = [], now()
        try:
            connection.send(b"".join(requests))
            for _ in requests:
                reply = connection.read()
                out.append((None if is_unknown(reply) else reply, begin, now()))
        except Lost:
            out += [(None, begin, now())] * (len(requests) - len(out))
            self.drop()
        return out

    # ---- making jobs ----

    def body(self):
        """(content type, bytes): no two alike in the whole run."""
        self.made += 1
        mark = f"{self.name}#{self.made}:"
        kind = self.random.random()
        if kind < 0.5:
            return "text/plain", (mark + "x" * self.random.randrange(0, 200)).encode()
        if kind < 0.75:
            return "application/json", json.dumps({"n": mark, "list": [1, None, "ä"]}, separators=(",", ":"), ensure_ascii=False).encode()
        return "application/octet-stream", mark.encode() + b"\0\xff\xfe" + self.random.randbytes(self.random.randrange(0, 200))


# Answers after which the outcome of the change is unknown.
UNKNOWN = ("unavailable", "stopping")


def is_unknown(reply):
    return reply is None or (reply.status == 503 and reply.code in UNKNOWN)


class Pusher(Worker):
    """Pushes in batches and one by one, repeats ids, cancels, moves, runs, looks up."""

    def __init__(self, *args):
        super().__init__(*args)
        self.again = []  # pushes whose reply was lost, to be repeated
        self.finished = []  # (when, push): by then most likely acked, and to be repeated where the topic remembers ids
        self.recent = []  # (topic, id) to cancel or move

    def step(self):
        if self.made > self.rate * (time.monotonic() - self.began) + 500:
            time.sleep(0.01)
            self.push_pipelined([self.job()])
            return
        choice = self.random.random()
        if self.finished and self.finished[0][0] < time.monotonic():
            self.push_pipelined([self.finished.pop(0)[1]])
        elif self.again and choice < 0.5:
            self.push_pipelined([self.again.pop() for _ in range(min(20, len(self.again)))])
        elif choice < 0.62:
            self.push_batch([self.job() for _ in range(self.random.choice((1, 20, 150, 250)))])
        elif choice < 0.75:
            self.push_pipelined([self.job() for _ in range(self.random.choice((1, 1, 8, 30)))])
        elif choice < 0.80:
            self.push_nameless()
        else:
            self.change_some()

    def job(self):
        topic = self.random.choices(("plain", "short", "ttl", "dedup", "clash", "far"), (53, 12, 8, 18, 5, 4))[0]
        content_type, body = self.body()
        job = {"topic": topic, "id": f"{self.name}-{self.made}", "content_type": content_type, "bytes": body, "on_conflict": "keep"}
        if topic == "clash":
            job["id"] = f"same-{self.random.randrange(CLASH_IDS)}"
            job["on_conflict"] = self.random.choice(("replace", "keep", "reject"))
        if topic == "far":
            job["delay_ms"] = self.random.randrange(3_600_000, 7_200_000)
        elif self.random.random() < 0.1 and HAS_ABSOLUTE:
            job["at_ms"] = time.time_ns() // 1_000_000 + self.random.randrange(-200, 2500)
        elif self.random.random() < 0.7:
            job["delay_ms"] = int(3000 * self.random.random() ** 2)
        if topic == "plain" and self.random.random() < 0.05:
            job["max_attempts"] = self.random.randrange(1, 4)
        return job

    def note(self, job, outcome):
        item = {"topic": job["topic"], "id": job["id"], "body": fingerprint(job["content_type"], job["bytes"], job["topic"]), "outcome": outcome}
        item.update({name: job[name] for name in ("delay_ms", "at_ms", "max_attempts", "on_conflict") if name in job})
        if outcome == "unknown" and self.random.random() < 0.8:
            self.again.append(job)
        if outcome == "created" and job["topic"] == "dedup" and self.random.random() < 0.03:
            self.finished.append((time.monotonic() + 5, job))
        if outcome == "created" and (job["topic"] == "far" or self.random.random() < 0.03):
            self.recent.append((job["topic"], job["id"]))
        return item

    def push_batch(self, jobs):
        items = []
        for job in jobs:
            item = {"topic": job["topic"], "id": job["id"], "content_type": job["content_type"], "on_conflict": job["on_conflict"]}
            if job["content_type"] == "application/octet-stream":
                item["body_base64"] = base64.b64encode(job["bytes"]).decode()
            else:
                item["body"] = json.loads(job["bytes"]) if job["content_type"] == "application/json" else job["bytes"].decode()
            if "delay_ms" in job:
                item["delay"] = job["delay_ms"]
            if "at_ms" in job:
                item["at"] = job["at_ms"]
            if "max_attempts" in job:
                item["max_attempts"] = job["max_attempts"]
            items.append(item)
        called = self.call("POST", "/v1/jobs", json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode(), JSON_HEADERS)
        if called is None:
            return
        reply, begin, end = called
        if reply is None:
            outcomes = ["unknown"] * len(jobs)
        elif reply.ok:
            outcomes = [outcome_of(result) for result in reply.json()["results"]]
        else:
            outcomes = ["refused"] * len(jobs)
        assert len(outcomes) == len(jobs), reply.body[:500]
        self.write("push", begin=begin, end=end, items=[self.note(*pair) for pair in zip(jobs, outcomes)])

    def push_pipelined(self, jobs):
        requests = [self.put_bytes(job) for job in jobs]
        for job, (reply, begin, end) in zip(jobs, self.pipeline(requests) or ()):
            outcome = "unknown" if reply is None else outcome_of(reply.json())
            self.write("push", begin=begin, end=end, items=[self.note(job, outcome)])

    def put_bytes(self, job):
        options = {"on_conflict": job["on_conflict"], "delay": job.get("delay_ms"), "at": job.get("at_ms"),
                   "max_attempts": job.get("max_attempts")}
        return request_bytes("PUT", job_path(job["topic"], job["id"]) + query(options), job["bytes"], {"Content-Type": job["content_type"]})

    def push_nameless(self):
        job = self.job()
        job["topic"] = "plain"
        job["delay_ms"] = self.random.randrange(0, 1000)
        job.pop("at_ms", None)
        options = {"delay": job["delay_ms"], "max_attempts": job.get("max_attempts")}
        called = self.call("POST", "/v1/topics/plain/jobs" + query(options), job["bytes"], {"Content-Type": job["content_type"]})
        # Lost: its id is also unknown, so the job may appear under any name. The history can identify it only by its body.
        if called and called[0] is None:
            self.write("nameless", begin=called[1], end=called[2], topic="plain", item=dict(self.note(job, "refused"), outcome="unknown"))
        elif called:
            job["id"] = called[0].json().get("id", job["id"])
            self.write("push", begin=called[1], end=called[2], items=[self.note(job, outcome_of(called[0].json()))])

    def change_some(self):
        if not self.recent:
            return
        for _ in range(min(10, len(self.recent))):
            topic, ident = self.recent.pop(self.random.randrange(len(self.recent)))
            verb = self.random.choice(("cancel", "cancel", "reschedule", "run", "look"))
            fields = {}
            if verb == "reschedule":
                fields = {"delay_ms": self.random.randrange(0, 1500)}
                called = self.call("PATCH", job_path(topic, ident) + query({"delay": f"{fields['delay_ms']}ms"}))
            elif verb == "cancel":
                called = self.call("DELETE", job_path(topic, ident))
            elif verb == "run":
                called = self.call("POST", job_path(topic, ident) + "/run")
            else:
                called = self.call("GET", job_path(topic, ident))
            if called is None:
                return
            reply, begin, end = called
            if verb == "look":
                if reply is not None:
                    self.look(topic, ident, reply, begin, end)
                self.recent.append((topic, ident))
                continue
            outcome = "unknown" if reply is None else "ok" if reply.ok else reply.code
            if outcome not in ("ok", "unknown", "not_found", "leased", "dead"):
                outcome = "refused"
            self.write("change", verb=verb, begin=begin, end=end, topic=topic, id=ident, outcome=outcome, **fields)
            if outcome == "unknown" and self.random.random() < 0.5 or (verb == "reschedule" and outcome == "ok" and self.random.random() < 0.5):
                self.recent.append((topic, ident))

    def look(self, topic, ident, reply, begin, end):
        if reply.ok:
            job = reply.json()
            self.write("look", begin=begin, end=end, topic=topic, id=ident, outcome="found", state=job["state"], attempt=job["attempt"],
                       body=fingerprint_of_job(job))
        elif reply.status == 404:
            self.write("look", begin=begin, end=end, topic=topic, id=ident, outcome="not_found")


def outcome_of(result):
    """Reads the result of a push: the item of a batch's answer, or the answer to one push."""
    found = result.get("result") or result.get("code")
    if found in UNKNOWN:
        return "unknown"
    return found if found in ("created", "replaced", "existed", "conflict", "leased") else "refused"


class Consumer(Worker):
    """Takes, and answers as consumers do: mostly well, sometimes late, sometimes never."""

    def __init__(self, *args):
        super().__init__(*args)
        self.held = []  # extended leases to be acked later
        self.late = []  # (when, lease): left to end, then answered all the same
        self.lost_acks = []

    def step(self):
        jobs = self.take()
        if jobs is None:
            return
        ack, nack, plain_nack, extend = [], [], [], []
        for job in jobs:
            chance = self.random.random()
            wild = job["topic"] in ("short", "clash")
            if chance < (0.55 if wild else 0.90):
                ack.append(job["lease"])
            elif chance < (0.75 if wild else 0.94):
                nack.append(job["lease"])
            elif chance < (0.90 if wild else 0.96):
                plain_nack.append(job["lease"])
            elif chance < 0.98:
                extend.append(job["lease"])
            else:
                self.late.append((time.monotonic() + self.random.uniform(1, 4), job["lease"]))
        self.answer_late()
        if self.random.random() < 0.05:
            time.sleep(self.random.random() * 0.3)
        self.answer("nack", nack, delay_ms=self.random.randrange(0, 500))
        self.answer("nack", plain_nack)
        self.answer("extend", extend, lease_ms=self.random.choice((1000, 2000, 5000)))
        ready = self.held if self.random.random() < 0.3 else []
        if ready:
            self.held = []
        self.held += extend
        if self.lost_acks and self.random.random() < 0.5:
            ready, self.lost_acks = ready + self.lost_acks[:500], self.lost_acks[500:]
        self.answer("ack", (ack + ready)[:1000])

    def answer_late(self):
        """Answers late: by now another consumer may hold the job, so these answers may not count."""
        due = [lease for when, lease in self.late if when < time.monotonic()]
        if due:
            self.late = [(when, lease) for when, lease in self.late if lease not in due]
            self.answer(self.random.choice(("ack", "nack", "extend")), due[:1000])

    def take(self):
        topics = self.random.choice((["plain"], ["plain"], ["short", "ttl"], ["dedup", "plain"], ["clash"], ["far", "dedup", "short", "clash"]))
        most = self.random.choice((1, 50, 400, 400))
        wait_ms = self.random.choice((0, 50, 300))
        lease_ms = self.random.choice((None, None, None, 1000, 2000))
        return self.take_from(topics, most, wait_ms, lease_ms)

    def take_from(self, topics, most, wait_ms, lease_ms=None):
        options = {"max": most, "wait": f"{wait_ms}ms", "lease_for": lease_ms and f"{lease_ms}ms"}
        if len(topics) == 1:
            target = f"/v1/topics/{topics[0]}/take" + query(options)
        else:
            target = "/v1/take" + query({"topic": topics, **options})
        called = self.call("POST", target)
        if called is None:
            return None
        return self.note_take(topics, lease_ms, *called)

    def note_take(self, topics, lease_ms, reply, begin, end):
        if reply is None:
            self.write("take", begin=begin, end=end, wall_end=self.wall_end, topics=topics, outcome="unknown", jobs=[])
            return None
        if not reply.ok:
            return None
        jobs = reply.json()["jobs"]
        items = [{"topic": job["topic"], "id": job["id"], "lease": job["lease"], "attempt": job["attempt"], "delivery": delivery_number(job),
                  "body": fingerprint_of_job(job), "lease_ms": lease_ms} for job in jobs]
        if items:
            self.write("take", begin=begin, end=end, wall_end=self.wall_end, topics=topics, outcome="ok", jobs=items)
        return jobs

    def answer(self, verb, leases, **options):
        if not leases:
            return
        named = {"delay": options.get("delay_ms"), "lease_for": options.get("lease_ms")}
        if len(leases) <= 3:
            called = self.call("POST", f"/v1/{verb}" + query({"lease": leases, **named}))
        else:
            body = json.dumps({"leases": leases}).encode()
            called = self.call("POST", f"/v1/{verb}" + query(named), body, JSON_HEADERS)
        if called is None:
            return
        reply, begin, end = called
        if reply is None:
            outcomes = ["unknown"] * len(leases)
            if verb == "ack" and self.random.random() < 0.6:
                self.lost_acks += leases
        elif reply.ok:
            outcomes = [answer_outcome(result) for result in reply.json()["results"]]
        else:
            outcomes = [answer_outcome(reply.json())] * len(leases)  # of one lease, or of the call as a whole
        assert len(outcomes) == len(leases), reply.body[:500]
        self.write("answer", verb=verb, begin=begin, end=end,
                   items=[{"lease": lease, "outcome": outcome, **options} for lease, outcome in zip(leases, outcomes)])


def answer_outcome(result):
    found = result.get("result") or result.get("code")
    if found in UNKNOWN:
        return "unknown"
    return found if found in ("ok", "lease_ended") else "refused"


class Punctual(Pusher, Consumer):
    """Waits for one job of its own at a time, on an idle topic: how late is it?"""

    def __init__(self, *args):
        Pusher.__init__(self, *args)
        self.held, self.lost_acks, self.late, self.other = [], [], [], None

    def step(self):
        content_type, body = self.body()
        job = {"topic": "punctual", "id": f"{self.name}-{self.made}", "content_type": content_type, "bytes": body, "on_conflict": "keep",
               "delay_ms": self.random.randrange(30, 150)}
        waiting = self.connect()
        if waiting is None:
            return
        try:
            self.other = self.other or Connection(self.random.choice(self.ports), timeout=60)
        except OSError:
            time.sleep(RETRY_SECONDS)
            return
        begin, reply = now(), None
        try:
            waiting.send(request_bytes("POST", "/v1/topics/punctual/take?max=1&wait=2s"))
            self.push_on_the_other(job)
            reply = waiting.read()
            reply = None if is_unknown(reply) else reply
        except Lost:
            self.drop()
        end, self.wall_end = now(), time.time_ns()
        jobs = self.note_take(["punctual"], None, reply, begin, end)
        self.answer("ack", [job["lease"] for job in jobs or ()])

    def push_on_the_other(self, job):
        begin, outcome = now(), "unknown"
        try:
            self.other.send(self.put_bytes(job))
            outcome = outcome_of(self.other.read().json())
        except Lost:
            self.other.close()
            self.other = None
        self.write("push", begin=begin, end=now(), items=[self.note(job, outcome)])
        self.again, self.recent, self.finished = [], [], []


class Churner(Worker):
    """Pushes, takes, cancels, configures, purges and deletes a topic of its own all the time: whatever the server does meanwhile, it must go on."""

    def step(self):
        topic, job = f"/v1/topics/{self.name}", f"/v1/topics/{self.name}/jobs/churn-{self.random.randrange(40)}"  # no number: beanstalk's commands look for those in all topics
        delay = self.random.choice((0, 50, 1500, 3_600_000))
        target = self.random.choices((
            ("PUT", f"{job}?delay={delay}"), ("POST", f"{topic}/take?max=3&lease=1s"), ("DELETE", job), ("PUT", f"{topic}?dedup_window=1h"), ("PUT", topic),
            ("POST", f"{topic}/purge"), ("POST", f"{topic}/purge?state=delayed"), ("DELETE", topic)), (50, 15, 10, 5, 5, 4, 4, 4))[0]
        done = self.call(*target, b"b" * self.random.choice((10, 200, 3000)) if target[1].startswith(f"{job}?") else b"")
        assert not done or not done[0] or done[0].status < 500, done[0].body
