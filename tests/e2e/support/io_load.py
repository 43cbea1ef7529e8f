"""Traffic for a traced server: everything that changes a job, on many connections, until the log has gone through several checkpoints."""

import random
import threading
import time

from client import Client, Refused

ROUNDS = 20
FAR_MS = 40 * 86_400_000
SIZES = (20, 200, 2_000, 6_000, 20_000)


class Load:
    """`mib`: of bodies pushed before it ends. Each id is changed by one client only, one call after the other; those of topic `now` are pushed by one and
    answered by another."""

    def __init__(self, port, seed, mib):
        self.client, self.seed, self.left = Client(port), seed, mib << 20
        self.lock, self.serial, self.failures = threading.Lock(), 0, []

    def run(self):
        self.client.put_topic("now", lease_for="1h")
        for number in range(ROUNDS):
            self._each(number)
        pushers = [self._start(role, number) for number, role in enumerate((self._far, self._far, self._again, self._now, self._topics))]
        workers = [self._start(self._work, 100 + number) for number in range(2)]
        for thread in pushers:
            thread.join()
        self.left = -1
        for thread in workers:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _each(self, number):
        """Each change of a job once: what the threads do depends on which of them gets ahead."""
        acked, nacked, far = (f"each-{number}-{end}" for end in ("acked", "nacked", "far"))
        self.client.push_batch([{"topic": "now", "id": ident, "body": f"{ident}."} for ident in (acked, nacked)])
        leases = {}
        while len(leases) < 2:
            leases |= {job["id"]: job["lease"] for job in self.client.take("now", max=2, wait="60s")}
        self.client.ack(leases[acked])
        self.client.nack(leases[nacked], error=f"failed {nacked} 1", delay="2h")
        self.client.push("far", far, f"{far}.".encode(), delay="9d")
        self.client.push("far", far, f"{far}.".encode(), delay="9d", on_conflict="keep")
        self.client.reschedule("far", far, at=_far_at(random.Random(f"{self.seed}/each/{number}")))
        self.client.cancel("far", far)

    def _start(self, role, number):
        def main():
            try:
                role(random.Random(f"{self.seed}/{number}"), number)
            except BaseException as fault:  # set by run
                self.failures.append(fault)
                self.left = -1

        thread = threading.Thread(target=main)
        thread.start()
        return thread

    def _body(self, chance):
        """An id that was not pushed yet."""
        with self.lock:
            self.serial += 1
            serial = self.serial
        size = chance.choice(SIZES)
        body = f"{serial}.".encode() + chance.randbytes(size // 2).hex().encode()
        self.left -= len(body)
        return body

    def _going_on(self):
        return self.left > 0

    # ---- roles ----

    def _far(self, chance, number):
        """Pushes for days ahead, cancels most of them again, moves some."""
        mine, count = [], 0
        while self._going_on():
            fresh = [f"{number}-{count + i}" for i in range(chance.choice((1, 1, 10, 40)))]
            count += len(fresh)
            self._push(chance, "far", fresh)
            mine += fresh
            chance.shuffle(mine)
            for _ in range(min(len(mine), chance.choice((0, 1, 5, 40)))):
                if chance.random() < 0.8:
                    self.client.cancel("far", mine.pop())
                else:
                    self.client.reschedule("far", chance.choice(mine), at=_far_at(chance))
            if mine and chance.random() < 0.3:
                self.client.push("far", chance.choice(mine), self._body(chance), delay="30d", on_conflict="keep")

    def _push(self, chance, topic, idents):
        if len(idents) == 1:
            options = {"at": _far_at(chance)} if chance.random() < 0.5 else {"delay": f"{chance.randrange(1, 30)}d"}
            self.client.push(topic, idents[0], self._body(chance), **options)
            return
        self.client.push_batch([{"topic": topic, "id": ident, "body": self._body(chance).decode(),
                                 **({"at": _far_at(chance)} if chance.random() < 0.5 else {"delay": "9d"})} for ident in idents])

    def _again(self, chance, _):
        """The same few ids over and over: replaced, cancelled, pushed again."""
        while self._going_on():
            ident = f"same-{chance.randrange(30)}"
            if chance.random() < 0.3:
                try:
                    self.client.cancel("again", ident)
                except Refused as refused:
                    assert refused.status == 404, refused
            else:
                self.client.push("again", ident, self._body(chance), delay="20d", on_conflict="replace")

    def _now(self, chance, _):
        count = 0
        while self._going_on():
            some = [f"n{count + i}" for i in range(chance.choice((1, 20, 50)))]
            count += len(some)
            self.client.push_batch([{"topic": "now", "id": ident, "body": self._body(chance).decode()} for ident in some])

    def _work(self, chance, _):
        """Most are acked, some fail, a few are never answered."""
        while self._going_on():
            jobs = self.client.take("now", max=chance.choice((1, 30, 100)), wait="50ms")
            acked = [job["lease"] for job in jobs if chance.random() < 0.85]
            if acked:
                self.client.ack(*acked)
            for job in jobs:
                if job["lease"] not in acked and chance.random() < 0.5:
                    self.client.nack(job["lease"], error=f"failed {job['id']} {job['attempt']}", delay="2h")

    def _topics(self, chance, _):
        count = 0
        while self._going_on():
            name = f"topic-{count % 20}"
            self.client.put_topic(name, max_attempts=count + 1)
            self.client.topic_verb(name, chance.choice(("pause", "resume")))
            count += 1
            time.sleep(0.05)


def _far_at(chance):
    """A millisecond that no other job is due in, nearly."""
    return int(time.time() * 1000) + 86_400_000 + chance.randrange(FAR_MS)
