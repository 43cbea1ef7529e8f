"""The servers that are compared: how each is started, found ready, watched and stopped.

Each runs in a directory of its own, with all its threads on one core (or placed by the system).
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass

SERVER_CORE = "0"
START_SECONDS_MAX = 600


@dataclass(frozen=True)
class Kind:
    """A server with its settings. `command` holds {dir}, {port}, {tarry}, and what Server is given besides."""

    name: str
    protocol: str
    command: str
    note: str


KINDS = {
    kind.name: kind
    for kind in (
        Kind("tarry", "http", "{tarry} serve --data {dir}/data --listen 127.0.0.1:{port}",
             "durable: every answer after fdatasync"),
        Kind("tarry-2-shards", "http", "{tarry} serve --data {dir}/data --shards 2 --listen 127.0.0.1:{port}",
             "the same with two shards, on both cores"),
        Kind("beanstalkd", "beanstalk", "beanstalkd -l 127.0.0.1 -p {port}",
             "no log: nothing survives"),
        Kind("beanstalkd-log", "beanstalk", "beanstalkd -l 127.0.0.1 -p {port} -b {dir}",
             "log, fsync every 50 ms: the last ones may be lost"),
        Kind("beanstalkd-sync", "beanstalk", "beanstalkd -l 127.0.0.1 -p {port} -b {dir} -f 0",
             "log, fsync for every job"),
        Kind("tarry-beanstalk", "beanstalk", "{tarry} serve --data {dir}/data --listen 127.0.0.1:0 --beanstalk 127.0.0.1:{port} --sync always",
             "durable: every answer after fdatasync"),
        Kind("tarry-sqs", "sqs", "{tarry} serve --data {dir}/data --listen 127.0.0.1:{port} --sqs us-east-1/000000000000 --sync always",
             "durable: every answer after fdatasync"),
        Kind("elasticmq", "sqs", "java -Xmx2g -cp {elasticmq}/* -Drest-sqs.bind-port={port} -Drest-sqs.bind-hostname=127.0.0.1 -Drest-stats.enabled=false "
             "-Dnode-address.port={port} -Dnode-address.host=127.0.0.1 org.elasticmq.server.Main", "in memory: nothing survives"),
        Kind("redis", "redis", "redis-server --port {port} --bind 127.0.0.1 --dir {dir} --save '' --appendonly no",
             "no log: nothing survives"),
        Kind("redis-always", "redis",
             "redis-server --port {port} --bind 127.0.0.1 --dir {dir} --save '' --appendonly yes --appendfsync always",
             "durable: appendfsync always"),
        Kind("redis-everysec", "redis",
             "redis-server --port {port} --bind 127.0.0.1 --dir {dir} --save '' --appendonly yes --appendfsync everysec",
             "log, fsync every second: the last ones may be lost"),
    )
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port, protocol):
    """Checks that the server works; Redis answers LOADING while it reads its log."""
    question = {"redis": b"PING\r\n", "beanstalk": b"list-tube-used\r\n", "sqs": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                "nats": b"", "http": b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}[protocol]
    good = {"redis": b"+PONG", "beanstalk": b"USING", "sqs": b"HTTP/1.1", "nats": b"INFO", "http": b"HTTP/1.1 2"}[protocol]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS_MAX) as connection:
            connection.sendall(question)
            return connection.recv(64).startswith(good)
    except OSError:
        return False


class Server:
    """A server running. Use as a context manager: leaving it stops the server and removes its directory."""

    def __init__(self, kind, tarry, base_dir, core=SERVER_CORE, **words):
        self.kind = kind
        self.pinned = ["taskset", "-c", core] if core else []
        self.words = {"tarry": tarry, **words}
        self.dir = tempfile.mkdtemp(prefix=f"tarry-bench-{kind.name}-", dir=base_dir)
        self.port = free_port()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self):
        """Starts it and waits until it answers. Returns how many seconds that took."""
        words = [word.strip("'") for word in self.kind.command.split()]
        command = [word.format(dir=self.dir, port=self.port, **self.words) for word in words]
        begun = time.monotonic()
        with open(os.path.join(self.dir, "server.log"), "ab") as log:
            self.process = subprocess.Popen([*self.pinned, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while not answers(self.port, self.kind.protocol):
            if self.process.poll() is not None:
                raise RuntimeError(f"'{self.kind.name}' did not start: {self.last_words()}")
            if time.monotonic() - begun > START_SECONDS_MAX:
                self.stop()
                raise RuntimeError(f"'{self.kind.name}' does not answer after {START_SECONDS_MAX} s")
            time.sleep(0.002)
        return time.monotonic() - begun

    def kill(self):
        """Ends it as a crash of its process would."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def last_words(self):
        with open(os.path.join(self.dir, "server.log"), errors="replace") as log:
            return log.read()[-500:].strip()

    def _status(self, task, name):
        with open(f"/proc/{task}/status") as status:
            found = re.search(rf"^{name}:\s+(\d+)", status.read(), re.M)
        return int(found.group(1)) if found else 0

    def memory_bytes(self):
        """Resident memory: all of it, and what is not backed by files."""
        pid = self.process.pid
        return self._status(pid, "VmRSS") * 1024, self._status(pid, "RssAnon") * 1024

    def memory(self):
        """Resident bytes by kind, and the most there ever was."""
        names = {"rss": "VmRSS", "anon": "RssAnon", "file": "RssFile", "most": "VmHWM"}
        return {key: self._status(self.process.pid, name) * 1024 for key, name in names.items()}

    def cpu_s(self):
        """Time on the core so far, of all threads there are."""
        tasks = f"/proc/{self.process.pid}/task"
        total_ns = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as stat:
                total_ns += int(stat.read().split()[0])
        return total_ns / 1e9

    def switches(self):
        """Context switches of all threads so far."""
        tasks = os.listdir(f"/proc/{self.process.pid}/task")
        return sum(self._status(f"{self.process.pid}/task/{task}", name)
                   for task in tasks for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))

    def disk_bytes(self):
        return sum(os.stat(os.path.join(top, name)).st_blocks * 512
                   for top, _, names in os.walk(self.dir) for name in names)
