"""
More clients of the kill loop: of the beanstalk protocol and of SQS, on one topic beside those of HTTP, each putting and taking jobs of the others.

Their files are those of kill_workers.py. Two things differ, because these protocols show less than HTTP:
- A delivery whose job has an id that they do not show is identified by its body, which is unique ("id": null).
- An ack counts as answered only if it certainly met its lease: SQS also reports an ended one as deleted, and if no other consumer has the job then it is
  cancelled, as beanstalk's `delete` of a job that is ready again does. So within the lease, over the connection that the job came by; any other is as good as lost.
"""

import base64
import json
import re
import time
import uuid

import beanstalk
from kill_workers import RETRY_SECONDS, Consumer, Pusher, Worker, fingerprint, now

TOPIC = "mixed"
MIXED = {TOPIC: {"lease_for": "4s", "max_attempts": "none", "backoff": "none"}}
FOR_EVER = 1 << 30
MIXED_KNOWN = {TOPIC: {"lease_ms": 4000, "backoff_ms": [0, 0], "max_attempts": FOR_EVER}}
CERTAIN_NS = 2_500_000_000  # every lease here is longer, also on a Redis whose clock is set forward meanwhile
MARK = re.compile(rb"([a-z]+)(\d+)#(\d+):")  # of each body: who made it
ALIAS_FIRST = 1 << 52  # beanstalk's numbers of jobs whose ids are not numbers
ACCOUNT, REGION = "123456789012", "us-east-1"
QUEUE = f"http://localhost/{ACCOUNT}/{TOPIC}"
NAMESPACE = uuid.UUID("5b1ed73a-9044-4c21-8f0d-746172727901")
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def body_mark(body):
    return fingerprint("", body, TOPIC)


def maker_of(body):
    """Returns (kind of worker, the id that it gives over HTTP) from the body; (None, None): not created here."""
    found = MARK.search(body)
    return (found[1].decode(), b"".join((found[1], found[2], b"-", found[3])).decode()) if found else (None, None)


def ulid_of(message_id):
    text, value = "", uuid.UUID(message_id).int
    for _ in range(26):
        text, value = DIGITS[value & 31] + text, value >> 5
    return text


def message_id_of(ident):
    """Returns the protocol's id of a job whose id is not a ULID."""
    return str(uuid.uuid5(NAMESPACE, f"{TOPIC}\0{ident}"))


class MixedPusher(Pusher):
    def job(self):
        job = super().job()
        if job["topic"] == "plain" and self.random.random() < 0.6:
            job["topic"] = TOPIC
            job.pop("max_attempts", None)
        return job


class MixedConsumer(Consumer):
    def take(self):
        if self.random.random() < 0.6:
            return super().take()
        return self.take_from([TOPIC], self.random.choice((1, 20, 200)), self.random.choice((0, 50, 300)))


class FrontWorker(Worker):
    """Writes down pushes and takes of jobs in the one topic."""

    def is_enough(self):
        if self.made <= self.rate * (time.monotonic() - self.began) + 200:
            return False
        time.sleep(0.01)
        return True

    def note_push(self, ident, body, begin, end, **own):
        """Records a push without an id: whether the job exists, and under which id, is unknown."""
        item = {"topic": TOPIC, "id": ident, "body": body_mark(body), **own}
        if ident is None:
            self.write("nameless", begin=begin, end=end, topic=TOPIC, item={**item, "outcome": "unknown"})
        else:
            self.write("push", begin=begin, end=end, items=[{**item, "outcome": "created"}])

    def note_take(self, begin, end, wall_end, jobs):
        """jobs: None if the reply was lost."""
        if jobs is None or jobs:
            self.write("take", begin=begin, end=end, wall_end=wall_end, topics=[TOPIC], outcome="unknown" if jobs is None else "ok", unnumbered=True,
                       jobs=[{"topic": TOPIC, **job} for job in jobs or ()])

    def note_answer(self, verb, leases, outcome, begin, end, **options):
        self.write("answer", verb=verb, begin=begin, end=end, items=[{"lease": lease, "outcome": outcome, **options} for lease in leases])


# ---- beanstalk ----

class BeanstalkWorker(FrontWorker):
    def __init__(self, *args):
        super().__init__(*args)
        self.held = {}  # number of a job: (lease, begin of its take)

    def move(self):
        """Connects; each of several servers has its share of the clients."""
        if self.connection and len(self.ports) > 1 and self.random.random() < 0.05:
            self.drop()

    def connect(self):
        while self.connection is None and not self.stop.is_set():
            try:
                self.connection = beanstalk.Connection(("127.0.0.1", self.random.choice(self.ports)), timeout=60)
                for line in (f"use {TOPIC}", f"watch {TOPIC}", "ignore default"):
                    if self.connection(line) is None:
                        self.drop()
                        break
            except OSError:
                self.connection = None
                time.sleep(RETRY_SECONDS)
        return self.connection

    def drop(self):
        """Jobs held by the connection return, at an unknown moment."""
        if self.held:
            self.note_answer("nack", [lease for lease, _ in self.held.values()], "unknown", now(), now(), delay_ms=0)
            self.held.clear()
        self.connection.close()
        self.connection = None

    def talk(self, requests):
        """Sends all together, reads the answers. [(words or None, begin, end, wall end)]; empty after the end of the run."""
        connection = self.connect()
        if connection is None or not requests:
            return []
        out, begin = [], now()
        try:
            connection.send(b"".join(requests))
            for _ in requests:
                words = connection.answer()
                if words is None:
                    raise ConnectionResetError
                out.append((None if words[0] in ("INTERNAL_ERROR", "OUT_OF_MEMORY") else words, begin, now(), time.time_ns()))
        except OSError:
            out += [(None, begin, now(), time.time_ns())] * (len(requests) - len(out))
            self.drop()
        return out


class BeanstalkPusher(BeanstalkWorker):
    def __init__(self, *args):
        super().__init__(*args)
        self.recent = []

    def step(self):
        if self.is_enough():
            return
        self.move()
        jobs = [(self.body()[1], self.random.choice((0, 0, 1, 2)), self.random.randrange(4, 6)) for _ in range(self.random.choice((1, 8, 40)))]
        priority = self.random.choice((0, 1024, 1 << 31))
        requests = [f"put {priority} {delay} {ttr} {len(body)}\r\n".encode() + body + b"\r\n" for body, delay, ttr in jobs]
        for (body, delay, ttr), (words, begin, end, _) in zip(jobs, self.talk(requests)):
            if words is None or words[0] == "INSERTED":
                ident = words and words[1]
                self.note_push(ident, body, begin, end, delay_ms=delay * 1000, lease_ms=ttr * 1000, max_attempts=FOR_EVER, backoff_ms=[0, 0])
                if ident and delay and self.random.random() < 0.1:
                    self.recent.append(ident)
        if len(self.recent) > 5:
            self.cancel()

    def cancel(self):
        idents, self.recent = self.recent, []
        for ident, (words, begin, end, _) in zip(idents, self.talk([f"delete {ident}\r\n".encode() for ident in idents])):
            outcome = "unknown" if words is None else "ok" if words[0] == "DELETED" else "refused"
            self.write("change", verb="cancel", begin=begin, end=end, topic=TOPIC, id=ident, outcome=outcome)


class BeanstalkConsumer(BeanstalkWorker):
    def __init__(self, *args):
        super().__init__(*args)
        self.taken = 0

    def step(self):
        self.move()
        self.reserve()
        done, released, touched = [], [], []
        for number in self.held:
            chance = self.random.random()
            (done if chance < 0.92 else released if chance < 0.95 else touched if chance < 0.97 else []).append(number)
        self.answer("touch", touched, "TOUCHED")
        self.answer("release", released, "RELEASED", self.random.choice((0, 1)))
        self.answer("delete", done + touched, "DELETED")
        if self.connection and self.random.random() < 0.01:
            self.drop()  # with what was left

    def reserve(self):
        most, wait = self.random.choice((1, 10, 30)), self.random.choice((0, 0, 1))
        lines = [f"reserve-with-timeout {wait}\r\n".encode()] + [b"reserve-with-timeout 0\r\n"] * (most - 1)
        taken, lost = [], None
        for words, begin, end, wall_end in self.talk(lines):
            if words is None:
                lost = lost or (begin, end, wall_end)
            elif words[0] == "RESERVED":
                taken.append((words[1], words[2], begin, end, wall_end))
        for number, *_, begin, _, _ in taken:
            self.taken += 1
            if self.connection:
                self.held[number] = f"{self.name}/{self.taken}", begin
        # A take whose attempt was not reported within its lease counts as lost: by then the attempt may be another's.
        stats = self.talk([f"stats-job {number}\r\n".encode() for number, *_ in taken]) if self.connection else []
        for (number, body, begin, end, wall_end), (words, _, reported, _) in zip(taken, stats):
            if words is None or words[0] != "OK" or number not in self.held or reported - begin > CERTAIN_NS:
                lost = lost or (begin, end, wall_end)
                self.held.pop(number, None)
                continue
            attempt = int(beanstalk.yaml(words[1])["reserves"])
            self.note_take(begin, end, wall_end, [{"id": self.id_of(number, body), "lease": self.held[number][0], "attempt": attempt, "body": body_mark(body), "lease_ms": None}])
        if taken and not stats:
            lost = taken[0][2:]
        if lost:
            self.note_take(*lost, None)

    @staticmethod
    def id_of(number, body):
        if int(number) < ALIAS_FIRST:
            return number
        kind, ident = maker_of(body)
        return ident if kind == "mixedpusher" else None

    def answer(self, command, numbers, good, delay=None):
        numbers = [number for number in numbers if number in self.held]  # a connection that was lost meanwhile holds no job
        leases = [self.held[number] for number in numbers]
        rest = "" if delay is None else f" 10 {delay}"
        verb, options = {"delete": ("ack", {"may_cancel": True}), "release": ("nack", {"delay_ms": (delay or 0) * 1000}), "touch": ("extend", {"lease_ms": None})}[command]
        for number, (lease, taken), (words, begin, end, _) in zip(numbers, leases, self.talk([f"{command} {number}{rest}\r\n".encode() for number in numbers])):
            if words is None or (words[0] == good and end - taken > CERTAIN_NS):
                outcome = "unknown"
            else:
                outcome = "ok" if words[0] == good else "lease_ended"
            self.note_answer(verb, [lease], outcome, begin, end, **options)
            if command != "touch":
                self.held.pop(number, None)


# ---- SQS ----

class SqsWorker(FrontWorker):
    def __init__(self, *args):
        super().__init__(*args)
        self.connections = 0  # so far

    def sqs(self, operation, **fields):
        """Returns (the answer, None if the outcome is unknown, or {} if it was rejected; begin; end). None after the end of the run."""
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{operation}", "Authorization": "AWS4-HMAC-SHA256 Credential=any"}
        before = self.connection
        called = self.call("POST", "/", json.dumps({"QueueUrl": QUEUE, **fields}).encode(), headers)
        self.connections += self.connection is not before
        if called is None:
            return None
        reply, begin, end = called
        if reply is None or reply.status >= 500:
            return None, begin, end
        return (json.loads(reply.body) if reply.body else {}) if reply.ok else {}, begin, end


class SqsPusher(SqsWorker):
    def step(self):
        if self.is_enough():
            return
        entries = {str(at): (self.text(), self.random.choice((0, 0, 1, 2))) for at in range(self.random.choice((1, 10, 10)))}
        called = self.sqs("SendMessageBatch", Entries=[{"Id": at, "MessageBody": body.decode(), "DelaySeconds": delay} for at, (body, delay) in entries.items()])
        if called is None:
            return
        answer, begin, end = called
        failed = entries if answer is None else [one["Id"] for one in answer.get("Failed", []) if not one["SenderFault"]]
        sent = {one["Id"]: ulid_of(one["MessageId"]) for one in (answer or {}).get("Successful", [])}
        for at, (body, delay) in entries.items():
            if at in sent or at in failed:
                self.note_push(sent.get(at), body, begin, end, delay_ms=delay * 1000)

    def text(self):
        while True:
            kind, body = self.body()
            if kind != "application/octet-stream":
                return body


class SqsConsumer(SqsWorker):
    def step(self):
        seconds = self.random.choice((None, 5))
        called = self.sqs("ReceiveMessage", MaxNumberOfMessages=self.random.choice((1, 10, 10)), WaitTimeSeconds=self.random.choice((0, 0, 1)),
                          MessageSystemAttributeNames=["ApproximateReceiveCount"], MessageAttributeNames=["All"], **({"VisibilityTimeout": seconds} if seconds else {}))
        if called is None:
            return
        answer, taken, end = called
        messages = None if answer is None else [{**self.message(one), "lease_ms": seconds and seconds * 1000} for one in answer.get("Messages", [])]
        self.note_take(taken, end, self.wall_end, messages)
        came_by, done, released, extended = self.connections, [], [], []
        for message in messages or ():
            chance = self.random.random()
            (done if chance < 0.92 else released if chance < 0.95 else extended if chance < 0.97 else []).append(message["lease"])
        self.change("extend", extended, 5, taken, came_by)
        self.change("nack", released, 0, taken, came_by)
        self.change("ack", done + extended, None, taken, came_by)

    @staticmethod
    def message(one):
        body = one["Body"].encode()
        if "tarry.encoding" in one.get("MessageAttributes", {}):
            body = base64.b64decode(one["Body"], validate=True)
        kind, ident = maker_of(body)
        if kind == "sqspusher":
            ident = ulid_of(one["MessageId"])
        elif kind != "mixedpusher":
            ident = None
        elif one["MessageId"] != message_id_of(ident):
            ident = one["MessageId"]  # which was never pushed
        return {"id": ident, "lease": one["ReceiptHandle"], "attempt": int(one["Attributes"]["ApproximateReceiveCount"]), "body": body_mark(body)}

    def change(self, verb, leases, seconds, taken, came_by):
        if not leases:
            return
        entries = [{"Id": str(at), "ReceiptHandle": lease, **({} if seconds is None else {"VisibilityTimeout": seconds})} for at, lease in enumerate(leases)]
        called = self.sqs("DeleteMessageBatch" if verb == "ack" else "ChangeMessageVisibilityBatch", Entries=entries)
        if called is None:
            return
        answer, begin, end = called
        is_certain = self.connections == came_by and end - taken <= CERTAIN_NS
        good = [int(one["Id"]) for one in (answer or {}).get("Successful", [])]
        options = {"extend": {"lease_ms": (seconds or 0) * 1000}, "nack": {"delay_ms": 0}, "ack": {"may_cancel": True}}[verb]
        for at, lease in enumerate(leases):
            if answer is None or (at in good and not is_certain):
                outcome = "unknown"
            else:
                outcome = "ok" if at in good else "lease_ended"
            self.note_answer(verb, [lease], outcome, begin, end, **options)


OVER_BEANSTALK = (BeanstalkPusher, BeanstalkConsumer)
ROLES = ((MixedPusher, 1), (MixedConsumer, 1), (BeanstalkPusher, 1), (BeanstalkConsumer, 1), (SqsPusher, 1), (SqsConsumer, 1))
