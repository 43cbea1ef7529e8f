"""Fresh servers for one round beside a peer: a Redis that writes no files, or a PostgreSQL without fsync, with tarry before it if tarry is measured."""

import contextlib
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
        self.system, self.store, self.is_embedded = system, store, is_embedded
        self.folder, self.url = "", ""
        self.store_port, self.port = free_port(), free_port()
        self.ends = contextlib.ExitStack()

    def __enter__(self):
        with self.ends as ends:  # if a program does not start, the others end
            self.folder = tempfile.mkdtemp(prefix="bench-")
            ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
            os.chmod(self.folder, 0o777)
            self.url = self._redis() if self.store == "redis" else self._postgres()
            if self.system == "tarry":
                self._tarry(self.store, self.is_embedded)
            self.ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self.ends.close()

    def _start(self, *command):
        process = self.ends.enter_context(subprocess.Popen([*map(str, command)], **QUIET))  # which waits for its end
        self.ends.callback(process.terminate)

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
