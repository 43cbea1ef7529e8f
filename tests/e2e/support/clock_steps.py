"""Jobs that come while the clock of a store is set: shared parts of the tests of Redis and of the databases."""

import statistics
import threading
import time

LOAD_MS = 5


class Load(threading.Thread):
    """Continuous calls on all shards; no call may fail."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client, self.ends, self.calls = server.client(), threading.Event(), 0
        self.start()

    def run(self):
        while not self.ends.wait(LOAD_MS / 1000):
            self.client.push("load", f"job-{self.calls % 50}", delay="100ms")
            for job in self.client.take("load", max=10):
                self.client.ack(job["lease"])
            self.calls += 1

    def stop(self):
        self.ends.set()
        self.join(10)
        assert self.calls > 10


class Taker(threading.Thread):
    """Takes and acks all of a topic; when each job came."""

    def __init__(self, server, topic, count):
        super().__init__(daemon=True)
        self.client, self.topic, self.count, self.came = server.client(60), topic, count, {}
        self.start()

    def run(self):
        while len(self.came) < self.count:
            for job in self.client.take(self.topic, max=1, wait="20s"):
                self.came[job["id"]] = time.monotonic()
                self.client.ack(job["lease"])


def late_ms(servers, during, delays_ms, topic="t"):
    """Jobs pushed through one server after the other, taken through the other one; `during` happens meanwhile. Sorted ms after what was asked for."""
    clients = [server.client() for server in servers]
    taker, began = Taker(servers[-1], topic, len(delays_ms)), {}
    for number, delay in enumerate(delays_ms):
        began[f"job-{number}"] = (time.monotonic(), delay)
        clients[number % len(clients)].push(topic, f"job-{number}", delay=delay)
    during()
    taker.join(30)
    assert len(taker.came) == len(delays_ms)
    return sorted((taker.came[ident] - at) * 1000 - delay for ident, (at, delay) in began.items())


def show(what, late):
    print(f"{what}: first {late[0]:.2f} ms, p50 {statistics.median(late):.2f} ms, last {late[-1]:.2f} ms")


LISTED_JOBS = 300


def push_listed(client):
    """Half of the jobs by delay, half by time, an hour apart from each other or less."""
    now_s = time.time()
    client.push_batch([{"topic": "listed", "id": f"job-{n}", "body": "x", **({"delay": f"{7200 + n}s"} if n % 2 else {"at": int((now_s + 7200 + n) * 1000)})}
                       for n in range(LISTED_JOBS)])


def list_over_a_step(client, step, state=""):
    """The ids of all pages of a list. step() sets the clock in between, and returns when servers have noticed."""
    seen, cursor, pages = set(), "", 0
    while cursor is not None:
        reply = client.good("GET", f"/v1/topics/listed/jobs?limit=40{state and '&state=' + state}{cursor and '&cursor=' + cursor}")
        seen |= {job["id"] for job in reply["jobs"]}
        cursor = reply.get("cursor")
        pages += 1
        if pages == 3:
            step()
    return seen


def finish_listed(client):
    client.put_topic("listed", keep_finished="1h")
    client.push_batch([{"topic": "listed", "id": f"job-{n}", "body": "x"} for n in range(LISTED_JOBS)])
    while jobs := client.take("listed", max=50):
        client.ack(*(job["lease"] for job in jobs))
        time.sleep(0.02)  # the ends differ
