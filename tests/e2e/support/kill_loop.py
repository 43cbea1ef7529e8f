"""
The kill -9 loop: a real server, real clients, and a history of every call for the checker (tests/checker).

    python3 tests/e2e/support/kill_loop.py --kills 40 --pushes 100000 --seed 1 --shards 2

The server is killed at random moments while calls are in progress, sometimes while it starts, and started again immediately on the same directory. In
between it is examined while idle: `tarry fsck`, its counts after one start and after the next. At the end everything is taken and acked until
only the dead jobs are left. Exit code: the checker's (0 PASS, 1 FAIL, 3 INVALID); the history is kept unless it passed.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

if "--doors" in sys.argv:
    os.environ["TARRY_TEST_DOORS"] = "1"  # before any import that reads it
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2])]

from checker.report import EXIT, check, render  # noqa: E402
from client import Client, Lost, Refused, job_path, request_bytes  # noqa: E402
import finish_workers  # noqa: E402
import front_workers  # noqa: E402
from kill_workers import KNOWN, TOPICS, Churner, Consumer, Punctual, Pusher, fingerprint_of_job, now  # noqa: E402
from server import LibraryServer, Server, StartFailed, free_port  # noqa: E402

KEPT_LOOKS = 500  # look-ups of finished jobs at the end
READS = 4  # tries of a read
PEACE_EVERY = 5  # kills between two looks in peace
# The loop continues until all faults have happened and all pushes were answered. On a machine that many programs share this takes long.
GRACE_SECONDS, SLOWNESS = 60, 20
START_KILLS = 0.2  # share of kills that hit the server while it starts
ROLES = ((Pusher, 2), (Consumer, 2), (Punctual, 1), (finish_workers.Finisher, 2))
ROLES_WITH_FRONTS = (*front_workers.ROLES, (Punctual, 1), (finish_workers.Finisher, 1))
FIGURES = ("pushed", "delayed", "retrying", "ready", "leased", "dead", "acked", "cancelled", "expired")


class Reader(Client):
    """Repeats a read whose connection was closed: a server that stood still for long, as under qemu on a busy machine, closes idle connections whose clients have just sent a request."""

    def call(self, method, target, body=b"", headers=None):
        for _ in range(READS - 1 if method == "GET" else 0):
            with contextlib.suppress(Lost, ConnectionResetError):
                return super().call(method, target, body, headers)
        return super().call(method, target, body, headers)


class Loop:
    """Traffic, faults, a drain, and the history of all. Subclasses define the servers and the faults."""

    others = ()  # roles of whom the history has nothing

    def __init__(self, chosen, directory):
        self.chosen, self.directory = chosen, pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.topics = {**TOPICS, **finish_workers.TOPICS, **(front_workers.MIXED if chosen.fronts else {})}
        self.random = random.Random(chosen.seed)
        self.lines = []
        self.faults = 0
        self.began = time.monotonic()
        self.pushed = 0

    # ---- for subclasses ----

    def start(self):
        """Starts everything at the places that the clients use."""
        raise NotImplementedError

    def stop(self):
        """Stops everything, whatever happened."""
        raise NotImplementedError

    def ports(self):
        raise NotImplementedError

    def beanstalk_ports(self):
        raise NotImplementedError

    def client(self, timeout=30):
        """Returns the place of a running server."""
        raise NotImplementedError

    def fault(self):
        """Breaks something, mends it, and writes down what."""
        raise NotImplementedError

    def check_again(self, before):
        """Checks the stored data after the drain, and that it is the same after one more start."""
        raise NotImplementedError

    # ---- the history ----

    def write(self, kind, **fields):
        self.lines.append(json.dumps({"kind": kind, **fields}))

    def counts(self, client):
        begin = now()
        found = {name: figures(client.topic(name)) for name in self.topics}
        self.write("counts", begin=begin, end=now(), topics=found)
        return found

    def list_all(self, client):
        for name in self.topics:
            begin = now()
            jobs = [{"id": job["id"], "state": job["state"], "attempt": job["attempt"]} for job in pages(client, name)]
            for job in jobs[:200]:
                job["body"] = fingerprint_of_job(client.get(name, job["id"]))
            self.write("listing", begin=begin, end=now(), topic=name, jobs=jobs)
        for name in finish_workers.TOPICS if "kept" in self.topics else ():
            self.list_kept(client, name)

    def list_kept(self, client, name):
        """Lists the finished jobs, and looks many of them up."""
        begin = now()
        idents = [job["id"] for job in pages(client, name, "finished")]
        self.write("kept_list", begin=begin, end=now(), topic=name, ids=idents, count=client.topic(name)["counts"]["finished"])
        for ident in self.random.sample(idents, min(KEPT_LOOKS, len(idents))):
            begin = now()
            finish_workers.write_kept(self, ident, client.call("GET", job_path(name, ident)), begin, now())

    def history(self):
        path = self.directory / "history.ndjson"
        with open(path, "w", encoding="utf-8") as out:
            out.write(json.dumps({"kind": "run", "seed": self.chosen.seed, "topics": {**KNOWN, **finish_workers.KNOWN, **front_workers.MIXED_KNOWN}}) + "\n")
            for part in sorted(self.directory.glob("*.ndjson")):
                if part != path:
                    out.write(part.read_text(encoding="utf-8"))
            out.write("\n".join(self.lines) + "\n")
        return path

    def fronts_lack(self):
        """Calls that the clients of each front made too rarely for a valid run: a sentence each."""
        roles = [role.__name__.lower() for role, _ in front_workers.ROLES] if self.chosen.fronts else []
        least = self.chosen.pushes // 50
        for name in roles:
            text = (self.directory / f"{name}0.ndjson").read_text(encoding="utf-8")
            mark = '"outcome":"created"' if name.endswith("pusher") else '"verb":"ack"'
            did = sum(line.count('"outcome":"ok"') if mark == '"verb":"ack"' else line.count(mark) for line in text.splitlines() if mark in line)
            if did < least:
                yield f"{name} had only {did} calls answered ok, {least} wanted"

    def show(self, text):
        if not self.chosen.quiet:
            print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    # ---- the run ----

    def run(self):
        self.start()
        client = self.client()
        for name, settings in self.topics.items():
            client.put_topic(name, **settings)
        workers, stop = self.hire()
        try:
            self.break_again_and_again(workers)
        finally:
            stop.set()
            for worker in workers:
                worker.join(30)
        crashed = [worker.name for worker in workers if worker.exitcode != 0]
        if crashed:
            raise SystemExit(f"clients that failed: {', '.join(crashed)}")
        self.show("draining")
        self.settle()
        self.show("drained")
        self.write("end", at=now())
        return self.history()

    def hire(self):
        stop, workers = multiprocessing.Event(), []
        roles = [*(ROLES_WITH_FRONTS if self.chosen.fronts else ROLES), *self.others]
        if "kept" not in self.topics:
            roles = [(role, count) for role, count in roles if role is not finish_workers.Finisher]
        pushers = sum(count for role, count in roles if role.__name__.endswith("Pusher"))
        rate = 1.4 * self.chosen.pushes / self.chosen.seconds / pushers
        for role, count in roles:
            ports = self.beanstalk_ports() if role in front_workers.OVER_BEANSTALK else self.ports()
            for number in range(count):
                name = f"{role.__name__.lower()}{number}"
                worker = role(name, self.chosen.seed, ports, self.directory / f"{name}.ndjson", stop, rate)
                workers.append(multiprocessing.Process(target=worker.main, name=name))
        for worker in workers:
            worker.start()
        return workers, stop

    def break_again_and_again(self, workers):
        begin = time.monotonic()
        pace = self.chosen.seconds / self.wanted_faults()
        while self.faults < self.wanted_faults() or self.pushed < self.chosen.pushes:
            time.sleep(pace * (0.2 + 1.6 * self.random.random()))
            if any(worker.exitcode is not None for worker in workers):
                return
            self.fault()
            with contextlib.suppress(Lost, Refused):  # a server that stood still for long cuts off who waited; one whose store is away answers 503
                self.pushed = sum(figures(self.client().topic(name))["pushed"] for name in self.topics)
            if time.monotonic() - begin > self.chosen.seconds * SLOWNESS + GRACE_SECONDS:
                return  # too slow a machine: the checker will report INVALID
            self.show(f"{self.faults} faults, {self.pushed} pushed")

    def wanted_faults(self):
        raise NotImplementedError

    # ---- the end ----

    def settle(self):
        """Takes all that is left; then lists it, and compares two starts once more."""
        writer = Consumer("drain", 0, self.ports(), self.directory / "drain.ndjson", NeverStop())
        client = self.client(timeout=60)
        with open(writer.path, "w", encoding="utf-8") as writer.file:
            self.cancel_far(writer, [job["id"] for job in pages(client, "far", "delayed")])
            limit = time.monotonic() + 60
            while time.monotonic() < limit:
                jobs = writer.take_from([name for name in self.topics if name != "ttl"], 1000, 200)
                jobs = (jobs or []) + (writer.take_from(["ttl"], 1000, 0) or [])
                writer.answer("ack", [job["lease"] for job in jobs][:1000])
                writer.answer("ack", [job["lease"] for job in jobs][1000:])
                if not jobs and not any(left(client.topic(name)) for name in self.topics):
                    break
        before = self.counts(client)
        self.list_all(client)
        self.check_again(before)

    @staticmethod
    def cancel_far(writer, idents):
        for at in range(0, len(idents), 200):
            some = idents[at:at + 200]
            for ident, (reply, begin, end) in zip(some, writer.pipeline([request_bytes("DELETE", job_path("far", ident)) for ident in some])):
                outcome = "unknown" if reply is None else "ok" if reply.ok else reply.code
                writer.write("change", verb="cancel", begin=begin, end=end, topic="far", id=ident, outcome=outcome)


class KillLoop(Loop):
    """A server with the store built in, killed at random moments, sometimes while it starts."""

    others = ((Churner, 2),)

    def __init__(self, chosen, directory):
        super().__init__(chosen, directory)
        self.port, self.beanstalk_port = free_port(), free_port()
        self.flags = ["--sync", "always", "--shards", str(chosen.shards), *chosen.flag]
        self.server = (LibraryServer if chosen.library else Server)(self.directory)
        if chosen.library:  # it has fewer calls
            self.others = ()
            self.topics.pop("kept")

    def wanted_faults(self):
        return self.chosen.kills

    def ports(self):
        return [self.server.port]

    def beanstalk_ports(self):
        return [self.beanstalk_port]

    def client(self, timeout=30):
        return self.server.client(timeout, Reader)

    def start(self):
        self.start_on(self.port)

    def stop(self):
        if self.server.proc and self.server.alive:
            self.server.kill()

    def launch_flags(self, port):
        """The fronts are at the addresses of the clients only if HTTP is."""
        is_open = self.chosen.fronts and port == self.port
        return self.flags + (front_flags(self.beanstalk_port) if is_open else [])

    def start_on(self, port):
        self.server.flags = self.launch_flags(port)
        try:
            self.server.start(port)
        except StartFailed as fault:
            self.write("fault", what="start_failed", at=now())
            raise SystemExit(f"the server does not come back: {fault}") from fault
        self.write("fault", what="ready", at=now())

    def fault(self):
        self.kill()
        if self.random.random() < START_KILLS:
            self.kill_while_starting()
        if self.faults % PEACE_EVERY == 0:
            self.look_in_peace()
        self.start()

    def kill(self):
        begin = now()
        self.server.kill()
        self.faults += 1
        self.write("fault", what="kill", begin=begin, at=now())

    def kill_while_starting(self):
        """Dies at some moment of its recovery."""
        self.server.launch(self.port)
        time.sleep(self.random.random() ** 2 * 0.06)
        self.kill()

    def look_in_peace(self):
        """No client can reach it: fsck, then two starts that must find the same."""
        self.fsck()
        seen = []
        for how in (self.server.terminate, self.server.kill):
            self.start_on(0)  # a port the clients do not know
            seen.append(self.counts(self.client()))
            how()
            self.write("fault", what="stop", at=now())
        self.write("recovered", first=seen[0], second=seen[1], settled=False)

    def fsck(self):
        checked = self.server.fsck()
        self.write("fsck", at=now(), exit=checked.returncode, text=checked.stdout + checked.stderr)

    def check_again(self, before):
        self.server.terminate()
        self.write("fault", what="stop", at=now())
        self.fsck()
        self.start_on(0)
        after = self.counts(self.client())
        self.write("recovered", first=before, second=after, settled=True)
        self.list_all(self.client())
        self.server.terminate()
        self.fsck()


def front_flags(beanstalk_port):
    return ["--sqs", f"{front_workers.REGION}/{front_workers.ACCOUNT}", "--beanstalk", f"127.0.0.1:{beanstalk_port}"]


class NeverStop:
    @staticmethod
    def is_set():
        return False


def figures(topic):
    """The figures of GET /v1/topics/{topic}, at any depth."""
    flat = {**topic, **topic.get("counts", {}), **topic.get("totals", {})}
    return {name: flat.get(name) for name in FIGURES}


def left(topic):
    found = figures(topic)
    return found["delayed"] + found["retrying"] + found["ready"] + found["leased"]


def pages(client, topic, state=None):
    cursor = None
    while True:
        page = client.list(topic, state=state, limit=1000, cursor=cursor)
        yield from page["jobs"]
        cursor = page.get("cursor")
        if not cursor:
            return


def arguments_of_all(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60, help="how long the traffic should last")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--directory", help="default: a temporary one, removed after a PASS")
    parser.add_argument("--flag", action="append", default=[], help="one more argument for the server")
    parser.add_argument("--doors", action="store_true", help="TLS, and a token for each client")
    parser.add_argument("--fronts", action="store_true", help="clients of SQS and of the beanstalk protocol as well, on one topic with those of HTTP")
    parser.add_argument("--quiet", action="store_true")
    return parser


def run_and_check(make, chosen, least):
    """Runs make(chosen, directory) and checks its history. (exit code, report or None)"""
    directory = chosen.directory or tempfile.mkdtemp(prefix="kill-loop-")
    print(f"seed {chosen.seed}, {chosen.shards} shards, {directory}", flush=True)
    loop = make(chosen, directory)
    try:
        path = loop.run()
    except (Lost, OSError) as fault:
        logs = [f"---- {log} ----\n{log.read_text(errors='replace')[-3000:]}" for log in sorted(pathlib.Path(directory).rglob("server.log"))]
        print(f"{type(fault).__name__}: {fault}", *logs, sep="\n")
        return EXIT["FAIL"], None
    finally:
        loop.stop()
    began = time.monotonic()
    with open(path, encoding="utf-8") as lines:
        report = check(lines, least)
    print(render(report))
    print(f"checked in {time.monotonic() - began:.1f} s")
    lacks = list(loop.fronts_lack())
    if lacks and report["result"] == "PASS":
        print("INVALID:", *lacks, sep="\n  ")
        return EXIT["INVALID"], report
    if report["result"] == "PASS" and not chosen.directory:
        shutil.rmtree(directory)
    return EXIT[report["result"]], report


def main(arguments=None):
    parser = arguments_of_all(__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--library", action="store_true", help="a program with the library in its process in place of the server")
    chosen = parser.parse_args(arguments)
    return run_and_check(KillLoop, chosen, {"pushes": chosen.pushes, "kills": chosen.kills, "redeliveries": chosen.kills})[0]


if __name__ == "__main__":
    sys.exit(main())
