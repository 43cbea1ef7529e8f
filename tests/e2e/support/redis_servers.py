"""
Real Redis servers for tests: one alone, a master with Sentinels, a cluster. Each is a context manager that owns a temporary directory and stops
what it started, also when the test fails or the program ends early.

    with with_tls(authority):                     all of these, begun within it, speak TLS and nothing else
    with RedisServer(aof="always") as redis:      redis.url, redis.client()
    with Sentinel() as group:                     group.url, group.master, group.kill_master()
    with Cluster(replicas=1) as cluster:          cluster.url, cluster.fail_over(slot), cluster.move_slot(slot)
"""

import contextlib
import datetime
import itertools
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import redis
from child import Child, Entered, NotStarted
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import free_port, time_limit

START_SECONDS = 120.0
FAULTS = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, redis.exceptions.BusyLoadingError)
SLOTS = 16384


class Tls:
    """Certificates of servers with TLS, and the CAs that they and their clients trust (certificates.py)."""

    def __init__(self, authority, asks_clients=False):
        self.ca = authority.file
        self.certificate, self.key = authority.sign("redis")
        self.asks_clients = asks_clients

    def flags(self, port):
        """Arguments of redis-server. Servers also use TLS among themselves."""
        return ["--port", "0", "--tls-port", str(port), "--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key), "--tls-ca-cert-file",
                str(self.ca), "--tls-auth-clients", "yes" if self.asks_clients else "no", "--tls-replication", "yes", "--tls-cluster", "yes"]

    def lines(self, port):
        """Lines of a configuration file."""
        words = self.flags(port)
        return [f"{name[2:]} {value}" for name, value in zip(words[::2], words[1::2])]

    def options(self):
        """Options of a client in Python."""
        return {"ssl": True, "ssl_ca_certs": str(self.ca), "ssl_certfile": str(self.certificate), "ssl_keyfile": str(self.key)}


_tls = None


@contextlib.contextmanager
def with_tls(authority, asks_clients=False):
    global _tls
    _tls = Tls(authority, asks_clients)
    try:
        yield _tls
    finally:
        _tls = None


def _scheme(name, tls):
    return name.replace("redis", "rediss", 1) if tls else name


def _query(tls):
    return f"?ca={tls.ca}" + (f"&cert={tls.certificate}&key={tls.key}" if tls.asks_clients else "") if tls else ""


def wait_for(check, what, seconds=START_SECONDS, pause=0.01):
    """Waits until `check()` gives something true, and returns it; a server that cannot be asked has not given it."""
    limit = time.monotonic() + time_limit(seconds)
    while True:
        try:
            found = check()
        except redis.exceptions.RedisError:
            found = None
        if found:
            return found
        if time.monotonic() > limit:
            raise NotStarted(f"not within {seconds} s: {what}")
        time.sleep(pause)


class RedisServer(Child):
    """
    `aof`: None (memory only), "always", "everysec", "no". `flags`: more arguments of redis-server. `preload`: a library for LD_PRELOAD.
    `unix`: also listens on a socket.
    """

    NAME = "redis"
    START_SECONDS, PAUSE_SECONDS = START_SECONDS, 0.01
    FAULTS = (redis.exceptions.RedisError,)
    LOGS = ("output.log", "redis.log")
    HAS_HELPERS = False

    def __init__(self, *flags, aof=None, preload=None, env=None, unix=False, directory=None, port=None, program="redis-server"):
        super().__init__(directory, port, {**(env or {}), **({"LD_PRELOAD": str(preload)} if preload else {})})
        self.socket = self.directory / "socket" if unix else None
        self.program, self.flags, self.aof = program, [str(flag) for flag in flags], aof
        self.tls = _tls
        self._client = None

    # ---- life ----

    def command(self):
        out = [self.program, *(self.tls.flags(self.port) if self.tls else ["--port", str(self.port)]), "--bind", "127.0.0.1", "--dir", str(self.directory), "--save", "", "--daemonize", "no",
               "--enable-debug-command", "yes", "--logfile", str(self.directory / "redis.log"), "--repl-diskless-sync-delay", "0"]
        out += ["--appendonly", "yes", "--appendfsync", self.aof, "--aof-load-truncated", "no"] if self.aof else ["--appendonly", "no"]
        if self.socket:
            out += ["--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        return out + self.flags

    def launch(self):
        """Starts the process; does not wait. Its log is repaired first, as docs/redis.md describes."""
        for manifest in self.directory.glob("appendonlydir/*.manifest"):
            done = subprocess.run(["redis-check-aof", "--fix", str(manifest)], input="y\ny\n", capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise NotStarted(f"its log cannot be mended: {done.stdout[-500:]}{done.stderr[-500:]}")
        return super().launch()

    def is_ready(self):
        return self.client().ping()

    def kill(self):
        self._forget()
        super().kill()

    def terminate(self, timeout=20):
        self._forget()
        super().terminate(timeout)

    def _forget(self):
        if self._client:
            self._client.close()
        self._client = None

    # ---- talking ----

    @property
    def url(self):
        return f"{_scheme('redis', self.tls)}://127.0.0.1:{self.port}{_query(self.tls)}"

    @property
    def unix_url(self):
        return f"redis+unix://{self.socket}"

    def client(self, **options):
        """Returns the pool of connections kept for this server, which recovers after a cut; with options a new one. Replies are bytes."""
        tls = self.tls.options() if self.tls else {}
        if options:
            return redis.Redis("127.0.0.1", self.port, **tls, **options)
        if self._client is None:
            self._client = redis.Redis("127.0.0.1", self.port, socket_timeout=30, retry=Retry(NoBackoff(), 1),
                                       retry_on_error=[redis.exceptions.ConnectionError], **tls)
        return self._client

    def call(self, *words):
        return self.client().execute_command(*words)

    def config(self, name, value):
        self.client().config_set(name, value)

    def info(self, section):
        return self.client().info(section)

    def events(self):
        """Its log, in order: [(wall clock in ms, role: "M", "S", or "C" without a role, text)]."""
        return [(int(datetime.datetime.strptime(when, "%d %b %Y %H:%M:%S.%f").timestamp() * 1000), role, text)
                for role, when, text in re.findall(r"^\d+:(\w) (\d+ \w+ \d+ [\d:.]+) . (.*)$", self.log(), re.MULTILINE)]

    # ---- faults ----

    def pause(self, milliseconds, what="ALL"):
        """Commands of clients wait so long (replication continues)."""
        self.call("CLIENT", "PAUSE", int(milliseconds), what)

    def sleep(self, seconds, wait=True):
        """The whole server stands still so long."""
        if wait:
            self.call("DEBUG", "SLEEP", seconds)
            return
        thread = threading.Thread(target=lambda: self.client(socket_timeout=60, single_connection_client=True).execute_command("DEBUG", "SLEEP", seconds))
        thread.start()

    def function_flush(self):
        self.call("FUNCTION", "FLUSH")

    def cut_connections(self, kinds=("normal", "pubsub")):
        """Cuts clients off; returns how many."""
        return sum(self.call("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes") for kind in kinds)


def takeovers(servers, seconds):
    """
    Returns each time a replica was made master, for any reason, by the servers' logs: [(from, until)] in ms of the wall clock. Until: when a previous master
    that lived had become a replica, if it did within `seconds` (in a cluster other masters stay masters).
    """
    logs = [server.events() for server in servers]
    promotions = [at for at, _, text in itertools.chain.from_iterable(logs) if text.startswith("Setting secondary replication ID")]
    return [(at, max(_abdicated(events, at, seconds) for events in logs)) for at in sorted(promotions)]


def _abdicated(events, at, seconds):
    before = [role for when, role, _ in events if when < at and role in "MS"]
    if before[-1:] != ["M"]:
        return at
    return next((when for when, role, _ in events if at < when < at + seconds * 1000 and role == "S"), at)


class _SentinelProcess(RedisServer):
    """Keeps its configuration in a file that it rewrites itself."""

    def __init__(self, name, lines, **options):
        super().__init__(program="redis-sentinel", **options)
        self.file = self.directory / "sentinel.conf"
        head = [*(self.tls.lines(self.port) if self.tls else [f"port {self.port}"]), "bind 127.0.0.1", f"dir {self.directory}", f"logfile {self.directory / 'redis.log'}"]
        self.file.write_text("\n".join(head + [line.replace("NAME", name) for line in lines]) + "\n", encoding="ascii")

    def command(self):
        return [self.program, str(self.file)]


class Sentinel(Entered):
    """
    A master, replicas, and three sentinels that agree within about three seconds that it is gone. With less they fail over for nothing: they ping once a
    second, and after a failover may need 1.5 s to reach the new master, which they take for dead until then.
    """

    def __init__(self, *flags, replicas=2, aof=None, name="tarry", down_after_ms=2000, failover_ms=6000, directory=None):
        self.own = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="redis-sentinel-"))
        self.name, self.flags, self.aof = name, flags, aof
        self.servers = [self._server(number) for number in range(replicas + 1)]
        first = self.servers[0].port
        lines = [f"sentinel monitor NAME 127.0.0.1 {first} 2", f"sentinel down-after-milliseconds NAME {down_after_ms}",
                 f"sentinel failover-timeout NAME {failover_ms}", "sentinel parallel-syncs NAME 2"]
        self.sentinels = [_SentinelProcess(name, lines, directory=self.directory / f"sentinel{number}") for number in range(3)]

    def _server(self, number):
        return RedisServer("--min-replicas-to-write", 0, *self.flags, aof=self.aof, directory=self.directory / f"server{number}")

    def start(self):
        first, *others = self.servers
        first.start()
        for server in others:
            server.flags += ["--replicaof", "127.0.0.1", str(first.port)]
            server.start()
        for sentinel in self.sentinels:
            sentinel.launch()
        for sentinel in self.sentinels:
            sentinel.wait_ready()
        self.wait_whole()
        return self

    def wait_whole(self):
        """Waits until all sentinels know each other and all replicas, and the replicas are in step."""
        def knows(sentinel):
            state = _pairs(sentinel.call("SENTINEL", "MASTER", self.name))
            return int(state["num-other-sentinels"]) == 2 and int(state["num-slaves"]) >= len(self.servers) - 1 and state["flags"] == "master"

        for sentinel in self.sentinels:
            wait_for(lambda sentinel=sentinel: knows(sentinel), "the sentinels know all")
        wait_for(lambda: self._online() == len(self.servers) - 1, "the replicas are in step")

    def _online(self):
        info = self.master.info("replication")
        return sum(1 for number in range(info["connected_slaves"]) if info[f"slave{number}"]["state"] == "online")

    def stop(self):
        for server in self.sentinels + self.servers:
            server.stop()
        if self.own:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"{_scheme('redis-sentinel', self.sentinels[0].tls)}://{hosts}/{self.name}{_query(self.sentinels[0].tls)}"

    def client(self):
        return self.master.client()

    @property
    def master(self):
        """Returns the answer of the first sentinel that responds."""
        for sentinel in self.sentinels:
            try:
                port = int(sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1])
                return next(server for server in self.servers if server.port == port)
            except FAULTS:
                continue
        raise NotStarted("no sentinel answers")

    def wait_master(self, other_than):
        """The server that is master and reports that role itself."""
        def found():
            server = self.master
            return server if server is not other_than and server.alive and server.client().role()[0] == b"master" else None

        return wait_for(found, "a new master", 60)

    def kill_master(self):
        """Kills with -9; returns (the dead, the new master) once a replica took over. Changes that the replica did not have yet are lost."""
        old = self.master
        old.kill()
        return old, self.wait_master(old)

    def revive(self, old):
        """
        Starts a dead one as replica of the present master (the sentinels do so by themselves within some 12 s), and waits until all replicas
        are in step: otherwise the next failover may promote one that never received data of this master.
        """
        master = self.master
        at = old.flags.index("--replicaof") if "--replicaof" in old.flags else len(old.flags)
        old.flags[at:at + 3] = ["--replicaof", "127.0.0.1", str(master.port)]
        old.start()
        wait_for(lambda: self._online() == len(self.servers) - 1, "all replicas are in step")

    def fail_over(self):
        """Fails over by command: the sentinels promote a replica without agreement; the old master is made a replica."""
        old = self.master
        wait_for(lambda: self.sentinels[0].call("SENTINEL", "FAILOVER", self.name), "a failover begun")
        return old, self.wait_master(old)

    def wait_one_master(self):
        """Waits until all others are its replicas, in step. An old master that lives is made one some 10 s after a failover."""
        def found():
            roles = [server.client().role() for server in self.servers if server.alive]
            return sum(role[0] == b"master" for role in roles) == 1 and all(role[3] == b"connected" for role in roles if role[0] != b"master")

        wait_for(found, "one master, all others its replicas")


class Cluster(Entered):
    """Masters with even parts of the slots, each with `replicas`. `envs` are the environments of the servers, in turn."""

    def __init__(self, *flags, masters=3, replicas=0, aof=None, timeout_ms=1000, directory=None, envs=(None,)):
        self.own = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="redis-cluster-"))
        self.masters, self.replicas = masters, replicas
        self.servers = []
        for number in range(masters * (replicas + 1)):
            more = ["--cluster-enabled", "yes", "--cluster-node-timeout", timeout_ms, "--cluster-port", free_port(),
                    "--cluster-replica-validity-factor", 0, *flags]
            self.servers.append(RedisServer(*more, aof=aof, directory=self.directory / f"node{number}", env=envs[number % len(envs)]))

    def start(self):
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()
        nodes = [f"127.0.0.1:{server.port}" for server in self.servers]
        tls = self.servers[0].tls
        talk = ["--tls", "--cacert", str(tls.ca), "--cert", str(tls.certificate), "--key", str(tls.key)] if tls else []
        done = subprocess.run(["redis-cli", *talk, "--cluster", "create", *nodes, "--cluster-replicas", str(self.replicas), "--cluster-yes"],
                              capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise NotStarted("redis-cli --cluster create: " + done.stdout[-2000:] + done.stderr[-1000:])
        self.wait_whole()
        return self

    def wait_whole(self):
        """Every living node sees the same cluster, whole; replicas are in step."""
        for server in self.servers:
            if server.alive:
                wait_for(lambda server=server: self._sees_all(server), "the cluster is whole")

    def _sees_all(self, server):
        state = dict(line.split(":", 1) for line in _text(server.call("CLUSTER", "INFO")).split() if ":" in line)
        if state["cluster_state"] != "ok" or int(state["cluster_known_nodes"]) != len(self.servers) or int(state["cluster_slots_ok"]) != SLOTS:
            return False
        info = server.info("replication")
        return info["role"] == "master" or info["master_link_status"] == "up"

    def stop(self):
        for server in self.servers:
            server.stop()
        if self.own:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        tls = self.servers[0].tls
        return f"{_scheme('redis-cluster', tls)}://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:3]) + _query(tls)

    # ---- who is who ----

    def living(self):
        return next(server for server in self.servers if server.alive)

    def by_port(self, port):
        return next(server for server in self.servers if server.port == port)

    def nodes(self, asked=None):
        """[(id, server, flags, master's id or None)] as one living node sees it."""
        out = []
        for line in _text((asked or self.living()).call("CLUSTER", "NODES")).splitlines():
            ident, address, flags, master = line.split()[:4]
            if address.startswith(":"):
                continue
            out.append((ident, self.by_port(int(address.split("@")[0].rsplit(":", 1)[1])), flags.split(","), None if master == "-" else master))
        return out

    def id_of(self, server):
        return _text(server.call("CLUSTER", "MYID"))

    def wait_epochs(self):
        """
        Waits until all nodes know the same configuration epoch of each master. A node that takes a slot while it does not know the epoch of the last owner may choose
        the same one. Then the cluster gives the slot back to the last owner, which has given it up, and no node serves it any more.
        """
        def known(server):
            lines = [line.split() for line in _text(server.call("CLUSTER", "NODES")).splitlines()]
            return frozenset((ident, epoch) for ident, _, flags, _, _, _, epoch, *_ in lines if "master" in flags.split(","))

        def agreed():
            views = {known(server) for server in self.servers if server.alive}
            return len(views) == 1 and len({epoch for _, epoch in next(iter(views))}) == len(next(iter(views)))

        wait_for(agreed, "all nodes know the same epochs")

    def owner(self, slot):
        """Returns the owner by the answers of all living nodes, once they and the owner itself agree; waits for that."""
        def agreed():
            answer = {self._owner_seen_by(server, slot) for server in self.servers if server.alive}
            return answer.pop() if len(answer) == 1 else None

        return self.by_port(wait_for(agreed, "all agree who has the slot"))

    @staticmethod
    def _owner_seen_by(server, slot):
        """A port, or None."""
        return next((nodes[0][1] for first, last, *nodes in server.call("CLUSTER", "SLOTS") if first <= slot <= last), None)

    def slot_of(self, key):
        return self.living().call("CLUSTER", "KEYSLOT", key)

    def master_list(self):
        return [server for _, server, flags, _ in self.nodes() if "master" in flags and "fail" not in flags and server.alive]

    def replica_of(self, server):
        """Returns a replica that lives and is in step."""
        ident = self.id_of(server)

        def found():
            those = [other for _, other, _, master in self.nodes(server) if master == ident and other.alive]
            return next((other for other in those if other.info("replication").get("master_link_status") == "up"), None)

        return wait_for(found, "a replica in step")

    # ---- faults ----

    def fail_over(self, slot):
        """Fails over by command, with nothing lost: the owner's replica takes over. Returns (old, new)."""
        old = self.owner(slot)
        new = self.replica_of(old)
        new.call("CLUSTER", "FAILOVER")
        wait_for(lambda: self.owner(slot) is new, "the replica took over")
        return old, new

    def kill_owner(self, slot):
        """kill -9 of the slot's master; returns (the dead, the new owner) once its replica took over."""
        old = self.owner(slot)
        new = self.replica_of(old)
        old.kill()
        wait_for(lambda: self.owner(slot) is new, "the replica took over")
        return old, new

    def begin_move(self, slot, to=None):
        """The slot is migrating from now on, its keys still where they were. (from, to)"""
        self.wait_epochs()
        source = self.owner(slot)
        to = to or next(server for server in self.master_list() if server is not source)
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        return source, to

    @staticmethod
    def move_keys(slot, source, to, most=1 << 30):
        """Moves up to so many keys; how many."""
        moved = 0
        while moved < most:
            keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, min(100, most - moved))
            if not keys:
                break
            source.call("MIGRATE", "127.0.0.1", to.port, "", 0, 30_000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end_move(self, slot, to):
        """Notifies all nodes; first the new owner, so that the slot always has one."""
        ident = self.id_of(to)
        for server in [to] + [server for server in self.master_list() if server is not to]:
            server.call("CLUSTER", "SETSLOT", slot, "NODE", ident)

    def move_slot(self, slot, to=None, hold_seconds=0.0, pause_seconds=0.0):
        """A whole reshard of one slot under load: it stays migrating for `hold_seconds`, and keys go one by one with a pause between them."""
        source, to = self.begin_move(slot, to)
        time.sleep(hold_seconds / 2)
        while self.move_keys(slot, source, to, 1 if pause_seconds else 1 << 30):
            time.sleep(pause_seconds)
        time.sleep(hold_seconds / 2)
        self.end_move(slot, to)
        return source, to


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _pairs(reply):
    """A flat list of names and values, or what the client library made of it."""
    if isinstance(reply, dict):
        return {_text(name): _text(value) for name, value in reply.items()}
    return {_text(reply[at]): _text(reply[at + 1]) for at in range(0, len(reply), 2)}
