"""Fresh servers for one round beside a peer: a Redis that writes no files, or a PostgreSQL without fsync, with tarry before it if tarry is measured."""

import glob
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from .servers import free_port

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def listens(port):
    """Waits until something listens."""
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.025)
    sys.exit(f"nothing listens on port {port}")


class Round:
    """Ends its programs when it ends. `is_embedded`: tarry keeps its jobs itself, synced before each answer."""

    def __init__(self, system, store="redis", is_embedded=False):
        self.folder, self.store_port, self.port = tempfile.mkdtemp(prefix="bench-"), free_port(), free_port()
        os.chmod(self.folder, 0o777)
        self.processes = []
        self.url = self._redis() if store == "redis" else self._postgres()
        if system == "tarry":
            self._tarry(store, is_embedded)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, *command):
        self.processes.append(subprocess.Popen([*map(str, command)], **QUIET))

    def _tarry(self, store, is_embedded):
        binary = os.environ.get("TARRY_BIN", "build/tarry")
        if store == "postgres":
            subprocess.run([binary, "sql", "migrate", self.url], check=True, stdout=subprocess.DEVNULL)
        kept = ["--data", self.folder + "/data"] if is_embedded else ["--store", self.url]
        self._start(binary, "serve", "--listen", f"127.0.0.1:{self.port}", *kept)
        listens(self.port)

    def _redis(self):
        self._start("redis-server", "--port", self.store_port, "--save", "", "--appendonly", "no", "--dir", self.folder)
        listens(self.store_port)
        return f"redis://127.0.0.1:{self.store_port}"

    def _postgres(self):
        programs = pathlib.Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        data = self.folder + "/data"
        subprocess.run([*user, programs / "initdb", "-D", data, "-U", "tarry", "-A", "trust", "--no-sync"], check=True, stdout=subprocess.DEVNULL)
        self._start(*user, programs / "postgres", "-D", data, "-p", self.store_port, "-k", self.folder, "-c", "fsync=off", "-c", "max_connections=200")
        listens(self.store_port)
        while subprocess.run([programs / "pg_isready", "-h", "127.0.0.1", "-p", str(self.store_port)], stdout=subprocess.DEVNULL).returncode:
            time.sleep(0.1)
        return f"postgres://tarry@127.0.0.1:{self.store_port}/postgres"
