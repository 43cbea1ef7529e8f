"""
Three servers on one Redis, clients spread over them, and everything broken that can break; the checker is tests/checker.

    python3 tests/e2e/support/redis_kill_loop.py --kind single   --faults 300 --pushes 200000 --seconds 300
    python3 tests/e2e/support/redis_kill_loop.py --kind sentinel --faults 40  --flag=--wait-replicas=1
    python3 tests/e2e/support/redis_kill_loop.py --kind cluster  --faults 40 --doors

single: appendfsync always. kill -9 of servers (also while they start) and of Redis, Redis restarted, connections cut, CLIENT PAUSE, DEBUG SLEEP, FUNCTION
FLUSH, servers and Redis frozen (SIGSTOP) for longer than anybody waits, Redis' clock set by up to half a second or slewed, also while a server is
frozen: nothing that was answered may be lost. sentinel, cluster: also replicas that take over, and loaded slots that move; what a failover lost is
counted and published, all else is checked. Exit code: the checker's.
"""

import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

if "--doors" in sys.argv:
    os.environ["TARRY_TEST_DOORS"] = "1"  # before any import that reads it
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2]), str(pathlib.Path(__file__).parents[2] / "redis")]

from invariants import scan  # noqa: E402
from fake_clock import SLEW_PPM, FakeClock, fake_time_library  # noqa: E402
from kill_loop import START_KILLS, Loop, Reader, arguments_of_all, front_flags, run_and_check  # noqa: E402
from certificates import Authority  # noqa: E402
from checker.history import MS  # noqa: E402
from kill_workers import now  # noqa: E402
from redis_servers import Cluster, RedisServer, Sentinel, takeovers, wait_for, with_tls  # noqa: E402
from server import BINARY, Server, StartFailed, eventually, free_port  # noqa: E402

SERVERS = 3
PEACE_EVERY = 15  # faults between two looks in peace
PATIENCE = "5s"
CHANGES_OF_MASTER = ("kill master", "failover", "planned failover", "cluster failover")
PLANNED_PAUSE_MS = 5000
STEP_MS_MAX = 500
NOTICED_SECONDS = 0.1
FROZEN_SECONDS_MAX = 8  # a server without replies considers Redis dead after 6


@contextlib.contextmanager
def frozen(child):
    child.proc.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        child.proc.send_signal(signal.SIGCONT)


class RedisLoop(Loop):
    """`kinds`: {name of a fault: (how often among others, what does it)}."""

    def __init__(self, chosen, directory):
        super().__init__(chosen, directory)
        self.store = self.make_store()
        self.servers = [Server(self.directory / f"server{number}") for number in range(SERVERS)]
        self.probe = Server(self.directory / "probe")
        self.kinds = {"kill server": (4, self.kill_server), "kill servers": (1, self.kill_all_servers), "cut": (2, self.cut),
                      "freeze server": (2, self.freeze_server), "change shards": (3, self.change_shards), "function flush": (1, self.function_flush), **self.store_kinds()}
        if chosen.only:
            self.kinds = {name: self.kinds[name] for name in chosen.only.split(",")}
        self.plan = self.plan_faults()
        self.shards_command, self.shards_wanted = None, None  # a change of the number of shards that is under way
        self.changes_of_master = []  # (begin, end) of those made here

    def make_store(self):
        raise NotImplementedError

    def store_kinds(self):
        raise NotImplementedError

    def masters(self):
        """The Redis servers that hold jobs now."""
        raise NotImplementedError

    def restart_store(self):
        """Returns all keys, with nothing lost."""
        raise NotImplementedError

    # ---- up and down ----

    def start(self):
        self.store.__enter__()
        for server in [*self.servers, self.probe]:
            server.flags = ["--store", self.store.url, "--store-timeout", PATIENCE, *self.chosen.flag]
            if self.chosen.shards > 1:
                server.flags += ["--shards", str(self.chosen.shards)]
            server.own_port, server.beanstalk_port = free_port(), free_port()
        for server in self.servers:
            if self.chosen.fronts:
                server.flags += front_flags(server.beanstalk_port)
            self.start_server(server)
        for server in [*self.servers, self.probe]:
            server.flags = [flag for flag in server.flags if flag not in ("--shards", str(self.chosen.shards))]

    def stop(self):
        if self.shards_command:
            self.shards_command.kill()
        for server in [*self.servers, self.probe]:
            if server.proc and server.alive:
                server.kill()
        self.store.stop()

    def start_server(self, server):
        try:
            server.start(server.own_port)
        except StartFailed as fault:
            self.write("fault", what="start_failed", at=now())
            raise SystemExit(f"a server does not come back: {fault}") from fault

    def ports(self):
        return [server.port for server in self.servers]

    def beanstalk_ports(self):
        return [server.beanstalk_port for server in self.servers]

    def client(self, timeout=30):
        return self.servers[0].client(timeout, Reader)

    # ---- faults ----

    def wanted_faults(self):
        return self.chosen.faults

    def plan_faults(self):
        """Chooses each kind once, as early as may be, then by weight."""
        names = list(self.kinds)
        self.random.shuffle(names)
        yield from names
        while True:
            yield self.random.choices(list(self.kinds), [weight for weight, _ in self.kinds.values()])[0]

    def fault(self):
        name = next(self.plan)
        begin = now()
        what = self.kinds[name][1]() or "disturb"
        self.faults += 1
        if name in CHANGES_OF_MASTER:
            self.changes_of_master.append((begin, now()))
        self.write("fault", what=what, begin=begin, at=now(), name=name)
        self.show(name)
        if self.faults % PEACE_EVERY == 0:
            self.look_in_peace()

    def kill_server(self):
        server = self.random.choice(self.servers)
        server.kill()
        if self.random.random() < START_KILLS:
            server.launch(server.own_port)
            time.sleep(self.random.random() ** 2 * 0.06)
            server.kill()
        self.start_server(server)

    def kill_all_servers(self):
        for server in self.servers:
            server.kill()
        for server in self.servers:
            self.start_server(server)

    def freeze_server(self):
        """Its read calls continue when it wakes, after others have given up or repeated them."""
        with frozen(self.random.choice(self.servers)):
            time.sleep(self.random.random() ** 2 * FROZEN_SECONDS_MAX)

    def change_shards(self):
        """Changes the number of shards by the command, which is killed at any moment, and begun again by the next fault of this kind."""
        if self.shards_command is None:
            self.shards_wanted = self.random.choice([number for number in range(1, 5) if number != self.shards_wanted])
        if self.shards_command is None or self.shards_command.poll() is not None:
            self.shards_command = subprocess.Popen(self.change_command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.random() ** 2 * 4)
        if self.random.random() < 0.5:
            self.shards_command.kill()
        elif self.shards_command.poll() == 0:
            self.shards_command = None

    def change_command(self):
        return [str(BINARY), "reshard", "--store", self.store.url, "--shards", str(self.shards_wanted)]

    def end_change(self):
        """Jobs on their way to another shard have arrived."""
        if self.shards_command is None:
            return
        self.shards_command.kill()
        self.shards_command.wait()
        self.shards_command = None
        limit = time.monotonic() + 60
        while True:
            done = subprocess.run(self.change_command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
            if done.returncode == 0 or "already" in done.stderr:
                return
            if time.monotonic() > limit:
                raise SystemExit(f"the number of shards cannot be changed: {done.stderr}")

    def cut(self):
        for master in self.masters():
            master.cut_connections()

    def function_flush(self):
        for master in self.masters():
            master.function_flush()

    def pause(self):
        milliseconds = self.random.randrange(50, 900)
        self.random.choice(self.masters()).pause(milliseconds)
        time.sleep(milliseconds / 1000)

    def sleep(self):
        self.random.choice(self.masters()).sleep(self.random.uniform(0.05, 0.7))

    # ---- unintended failovers ----

    def in_order(self):
        """Waits until there is one master for every job."""

    def settle(self):
        self.in_order()
        self.end_change()
        super().settle()
        self.in_order()
        self.find_takeovers()

    def find_takeovers(self):
        """Checks the servers' logs: on a slow machine a master may be considered dead, and a replica take over."""
        wall_ahead = time.time_ns() - now()
        for begin, until in self.takeovers():
            begin, until = begin * MS - wall_ahead, (until + 1) * MS - wall_ahead
            if not any(first <= begin <= last for first, last in self.changes_of_master):
                self.write("fault", what="failover", begin=begin, at=until, name="not asked for")
                self.show(f"a failover nobody asked for, {(until - begin) / MS / 1000:.1f} s long")

    def takeovers(self):
        return []

    # ---- looking ----

    def look_in_peace(self):
        """No server runs: the invariants; then what one server counts, before and after a restart of Redis."""
        begin = now()
        self.end_change()
        for server in self.servers:
            server.kill()
        self.fsck()
        self.probe.start()
        first = self.counts(self.probe.client())
        self.restart_store()
        second = self.counts_when_back()
        self.probe.kill()
        self.write("recovered", first=first, second=second, settled=False)
        for server in self.servers:
            self.start_server(server)
        self.write("fault", what="disturb", begin=begin, at=now(), name="peace")
        self.show("looked in peace")

    def counts_when_back(self):
        client = self.probe.client()
        eventually(lambda: client.call("GET", "/readyz").status == 200, 30)
        return self.counts(client)

    def fsck(self):
        """Checks each shard's keys by the tests' own count, and by the product's."""
        faults = []
        for master in self.masters():
            for core in master.client().scan_iter("*:core", count=1000):
                faults += scan(master.client(), core.decode()[:-len(":core")])
        self.write("fsck", at=now(), exit=1 if faults else 0, text="\n".join(faults))

    def check_again(self, before):
        for server in self.servers:
            server.terminate()
        self.fsck()
        self.restart_store()
        self.probe.start()
        client = self.probe.client()
        self.write("recovered", first=before, second=self.counts(client), settled=True)
        self.list_all(client)
        self.probe.terminate()
        self.fsck()


class SingleLoop(RedisLoop):
    def make_store(self):
        # Behind: jobs for a moment of the wall clock are checked by this machine's, and come by that of Redis.
        self.clock = FakeClock(self.directory / "redis.clock", -2 * STEP_MS_MAX)
        return RedisServer(aof="always", directory=self.directory / "redis", env=self.clock.env(fake_time_library(self.directory)))

    def store_kinds(self):
        return {"kill Redis": (3, lambda: self.restart("kill")), "restart Redis": (1, lambda: self.restart("terminate")), "pause": (2, self.pause),
                "sleep": (2, self.sleep), "step clock": (5, self.step_clock), "slew clock": (3, self.slew_clock),
                "freeze Redis": (1, self.freeze_redis), "step clock unseen": (2, self.step_clock_unseen)}

    def freeze_redis(self):
        with frozen(self.store):
            time.sleep(self.random.random() ** 2 * FROZEN_SECONDS_MAX)

    def step_clock_unseen(self):
        """Freezes one server, which wakes with its old view of the clock."""
        with frozen(self.random.choice(self.servers)):
            self.step_clock()
            time.sleep(self.random.random())

    def step_clock(self):
        forward = self.clock.ahead_ms() < -2 * STEP_MS_MAX
        self.clock.step(self.random.randrange(20, STEP_MS_MAX) * (1 if forward else -1))
        # A clock step cannot be detected if all servers that knew the clock were killed at that moment.
        time.sleep(NOTICED_SECONDS)

    def slew_clock(self):
        """Steps the clock as far as chrony does at most."""
        forward = self.clock.ahead_ms() < -2 * STEP_MS_MAX
        self.clock.slew(SLEW_PPM if forward else -SLEW_PPM)
        time.sleep(self.random.uniform(0.1, 0.6))
        self.clock.slew(0)

    def masters(self):
        return [self.store]

    def restart(self, how):
        getattr(self.store, how)()
        time.sleep(self.random.random() ** 2 * 0.5)
        self.store.start()

    def restart_store(self):
        self.store.restart("kill")


class SentinelLoop(RedisLoop):
    def make_store(self):
        return Sentinel(aof="everysec", directory=self.directory / "redis")

    def store_kinds(self):
        return {"kill master": (2, self.kill_master), "failover": (1, self.fail_over), "planned failover": (1, self.plan_failover)}

    def masters(self):
        return [self.store.master]

    def plan_failover(self):
        """Fails over as docs/reliability.md advises: writers wait until they know the new master. Nothing may be lost."""
        old = self.store.master
        old.pause(PLANNED_PAUSE_MS, "WRITE")
        time.sleep(0.1)
        self.store.fail_over()
        wait_for(lambda: old.client().role()[0] == b"slave", "the old master is a replica")

    def kill_master(self):
        old, _ = self.store.kill_master()
        self.store.revive(old)
        return "failover"

    def fail_over(self):
        """Fails over by command, which does not stop the old master: its answers until the sentinels make it a replica, some 10 s later, may be
        lost."""
        old, _ = self.store.fail_over()
        wait_for(lambda: old.client().role()[0] == b"slave", "the old master is a replica")
        return "failover"

    def in_order(self):
        self.store.wait_one_master()

    def takeovers(self):
        return takeovers(self.store.servers, 30)

    def restart_store(self):
        """A restart of the master would be a failover: its clients lose their connections instead."""
        self.cut()


class ClusterLoop(RedisLoop):
    def make_store(self):
        return Cluster(masters=3, replicas=1, aof="everysec", directory=self.directory / "redis")

    def store_kinds(self):
        return {"kill master": (1, self.kill_master), "cluster failover": (2, self.fail_over), "reshard": (3, self.reshard), "sleep": (1, self.sleep)}

    def masters(self):
        return self.store.master_list()

    def slot(self):
        """Chooses a shard that has jobs."""
        cores = itertools.chain.from_iterable(master.client().scan_iter("*:core", count=1000) for master in self.masters())
        return self.store.slot_of(self.random.choice(sorted(cores)))

    def kill_master(self):
        old, _ = self.store.kill_owner(self.slot())
        old.start()
        self.store.wait_whole()
        return "failover"

    def fail_over(self):
        """Fails over by command: the replica catches up first, so nothing may be lost."""
        self.store.fail_over(self.slot())
        self.store.wait_whole()

    def reshard(self):
        self.store.move_slot(self.slot(), hold_seconds=self.random.uniform(0, 1), pause_seconds=self.random.choice((0, 0.01)))
        self.store.wait_whole()

    def in_order(self):
        self.store.wait_whole()

    def takeovers(self):
        return takeovers(self.store.servers, 3)

    def restart_store(self):
        self.cut()


KINDS = {"single": SingleLoop, "sentinel": SentinelLoop, "cluster": ClusterLoop}


def main(arguments=None):
    parser = arguments_of_all(__doc__)
    parser.add_argument("--kind", choices=KINDS, default="single")
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--only", help="kinds of faults, with commas between: 'kill server,cut'")
    chosen = parser.parse_args(arguments)
    least = {"pushes": chosen.pushes // 2, "kills": 0, "redeliveries": chosen.faults, "disturbances": chosen.faults}  # those around a failover do not count
    with contextlib.ExitStack() as stack:
        if chosen.doors:  # the connection to Redis is also encrypted
            stack.enter_context(with_tls(Authority(stack.enter_context(tempfile.TemporaryDirectory()))))
        code, report = run_and_check(KINDS[chosen.kind], chosen, least)
    if report and report["rules"]:
        notes = report["rules"]["L"]["notes"]
        if "answered around a failover" in notes:
            total = report["size"]["pushes"] + notes["answered around a failover"]
            print(f"lost in {report['size']['failovers']} failovers: {notes['of these lost']} of {total} pushes that were answered")
    return code


if __name__ == "__main__":
    sys.exit(main())
