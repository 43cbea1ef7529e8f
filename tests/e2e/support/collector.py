"""A small collector of traces: an endpoint of OTLP over HTTP. It reads spans by the official definitions of the protocol."""

import json
import subprocess

from endpoint import Endpoint
from pinned import environment
from server import REPO

TOOLS = REPO / "tests" / "otlp"


def reader():
    """The Python that knows them."""
    return environment("otlp") / "bin" / "python"


class Span(dict):
    """A span, also with its members as attributes."""

    def __getattr__(self, name):
        return self[name]

    @property
    def id(self):
        return self["attributes"].get("messaging.message.id")

    @property
    def operation(self):
        return self["attributes"]["messaging.operation.name"]


class Collector(Endpoint):
    """`answer(call)` as of any endpoint."""

    @property
    def taken(self):
        """Returns all received calls, whether they were answered with success or not."""
        with self.lock:
            return list(self.calls)

    def spans(self):
        """Parses all received spans by the official definitions."""
        lines = b"".join(call.body + b"\n" for call in self.taken)
        ended = subprocess.run([str(reader()), str(TOOLS / "read.py")], input=lines, capture_output=True, check=False, timeout=120)
        assert ended.returncode == 0, ended.stderr.decode()[-3000:]
        return [Span(json.loads(line)) for line in ended.stdout.splitlines()]
