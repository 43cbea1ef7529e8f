"""The identity provider of the registry of Node (tests/sign_in/provider.mjs), as a process with a log of what it granted."""

import contextlib
import json
import queue
import shutil
import subprocess
import threading

from pinned import modules
from server import free_port

NODE_LEAST = 20


def missing():
    """The reason why it cannot run here, or ""."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        return "node or npm is not installed"
    version = int(subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.lstrip("v").split(".")[0])
    return "" if version >= NODE_LEAST else f"node {version} is too old, {NODE_LEAST} is needed"


class IdentityProvider:
    def __init__(self, port, process):
        self.issuer, self.process = f"http://localhost:{port}", process
        self.events, self.lines = [], queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        assert self.lines.get(timeout=30)["listening"] == self.issuer

    def read(self):
        for line in self.process.stdout:
            heard = json.loads(line)
            (self.events.append if "event" in heard else self.lines.put)(heard)

    def tell(self, **command):
        """Changes how it answers from now on: `seconds` of a token, `forge`: members of the answers of a path."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        assert self.lines.get(timeout=10) == {"done": True}

    def count(self, event, **words):
        return sum(one["event"] == event and all(one.get(name) == value for name, value in words.items()) for one in self.events)


@contextlib.contextmanager
def providing(console, port=0):
    """An identity provider for the console at that address."""
    port = port or free_port()
    directory = modules("sign_in")
    with open(directory / "stderr", "w", encoding="utf-8") as errors, \
            subprocess.Popen(["node", "provider.mjs", str(port), console], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            yield IdentityProvider(port, process)
        finally:
            process.stdin.close()
            process.wait(10)
