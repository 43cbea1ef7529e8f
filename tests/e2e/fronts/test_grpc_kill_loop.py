"""kill -9 while clients push over gRPC and workers take and ack on Work streams."""

import contextlib
import os
import queue
import threading
import time

import grpc
import pytest
from grpc_calls import MESSAGES, Stub, channel, duration
from server import eventually

pytestmark = pytest.mark.plain("the channels have no TLS")
KILLS = int(os.environ.get("TARRY_TEST_KILLS", "2"))
NAP_S = 0.02


class Traffic:
    """Pushers and workers that connect again after each failure. `pushed` were answered, `acked` were confirmed."""

    def __init__(self, port):
        self.port, self.is_over = port, threading.Event()
        self.pushed, self.acked, self.twice = set(), {}, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=work, args=(n,), daemon=True) for work, count in ((self.push, 2), (self.work, 2)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def stub(self):
        return channel(self.port, **{"grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 200})

    def push(self, number):
        at = 0
        with self.stub() as open_channel:
            stub = Stub(open_channel)
            while not self.is_over.is_set():
                ids = [f"p{number}-{at + n}" for n in range(10)]
                try:
                    results = stub.PushMany(MESSAGES.PushManyRequest(jobs=[{"topic": "mail", "id": ident, "on_conflict": "ON_CONFLICT_KEEP"} for ident in ids]), timeout=5).results
                except grpc.RpcError:
                    time.sleep(NAP_S)
                    continue  # the same ids again
                with self.lock:
                    self.pushed |= {ident for ident, result in zip(ids, results, strict=True) if result.result}
                at += 10

    def work(self, _):
        with self.stub() as open_channel:
            while not self.is_over.is_set():
                with contextlib.suppress(grpc.RpcError):
                    self.stream(Stub(open_channel))
                time.sleep(NAP_S)

    def stream(self, stub):
        out, leases = queue.Queue(), {}
        out.put(MESSAGES.WorkRequest(hello={"topics": ["mail"], "credit": 50, "confirm": True, "on_close": "ON_CLOSE_RETURN", "lease_for": duration(2)}))
        try:
            for message in stub.open("Work", iter(out.get, None), timeout=None):
                if message.WhichOneof("kind") == "job":
                    self.take(message.job, out, leases)
                elif message.WhichOneof("kind") == "answered" and message.answered.result.result:
                    with self.lock:
                        self.acked[leases.pop(message.answered.lease)] = time.monotonic()
                if self.is_over.is_set():
                    return
        finally:
            out.put(None)

    def take(self, job, out, leases):
        with self.lock:
            if job.id in self.acked:
                self.twice.append(job.id)
        leases[job.lease] = job.id
        out.put(MESSAGES.WorkRequest(answer={"verb": "VERB_ACK", "answer": {"lease": job.lease}}))
        out.put(MESSAGES.WorkRequest(credit=1))

    def stop(self):
        """Ends the pushes. The streams end with the next message, and their leases after 2 s."""
        self.is_over.set()
        for thread in self.threads[:2]:
            thread.join(20)


def test_answers_on_streams_survive_kill_9(start_server):
    server = start_server("--sync", "always")
    server.client().good("PUT", "/v1/topics/mail", b'{"dedup_window":"1h"}')
    traffic = Traffic(server.port)
    for _ in range(KILLS):
        acked = len(traffic.acked)
        eventually(lambda: len(traffic.acked) > acked + 100, 60)
        server.kill()
        server.start(server.port)
    traffic.stop()
    drain(server, traffic)
    assert not traffic.twice, f"confirmed, and delivered again: {traffic.twice[:5]}"
    lost = traffic.pushed - set(traffic.acked)
    print(f"{len(traffic.pushed)} pushed, {len(traffic.acked)} confirmed, {KILLS} kills")
    assert not lost, f"pushed, and never delivered: {sorted(lost)[:5]}"


def drain(server, traffic):
    """Takes what is left. A job whose ack was stored but not confirmed is gone, which is right."""
    client, limit = server.client(), time.monotonic() + 60
    while time.monotonic() < limit:
        for job in client.call("POST", "/v1/topics/mail/take?max=1000&wait=100ms").json()["jobs"]:
            if job["id"] in traffic.acked:
                traffic.twice.append(job["id"])
            traffic.acked[job["id"]] = 0
            client.call("POST", f"/v1/ack?lease={job['lease']}")
        if sum(client.topic("mail")["counts"][state] for state in ("ready", "leased", "delayed")) == 0:
            break
        time.sleep(NAP_S)
    else:
        pytest.fail(f"jobs are left after 60 s: {client.topic('mail')['counts']}")
    for ident in sorted(traffic.pushed - set(traffic.acked)):  # acked without a confirmation: its id is remembered
        if client.call("PUT", f"/v1/topics/mail/jobs/{ident}?on_conflict=keep", b"").json()["result"] == "existed":
            traffic.acked[ident] = 0
