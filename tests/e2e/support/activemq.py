"""
A real ActiveMQ for tests: on a free port, in a temporary directory, with a STOMP connector and a store that survives kill -9.

    with ActiveMQ() as broker:                    broker.url, broker.receive("orders", 3), broker.frozen()
        broker.kill(); broker.start()

A small STOMP client of the test, which shares no code with the server under test, reads the delivered messages.
"""

import contextlib
import pathlib
import shutil
import socket
import time

from child import Child

HOME = pathlib.Path("/usr/share/activemq")
USER, PASSWORD = "tarry", "se:cr\\et"

CONFIG = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
                      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="tarry" dataDirectory="{data}" useJmx="false" persistent="true"
          schedulePeriodForDestinationPurge="0">
    <persistenceAdapter><kahaDB directory="{data}/kahadb"/></persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin anonymousAccessAllowed="{anonymous}" anonymousUser="nobody" anonymousGroup="guests">
        <users><authenticationUser username="{user}" password="{password}" groups="writers"/></users>
      </simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap><authorizationEntries>
        <!-- what matches several entries has the rights of all of them -->
        <authorizationEntry queue="*" read="writers,guests" write="writers,guests" admin="writers,guests"/>
        <authorizationEntry queue="odd.*" read="writers,guests" write="writers,guests" admin="writers,guests"/>
        <authorizationEntry queue="forbidden.&gt;" read="bosses" write="bosses" admin="bosses"/>
        <authorizationEntry topic="&gt;" read="writers,guests" write="writers,guests" admin="writers,guests"/>
      </authorizationEntries></authorizationMap></map></authorizationPlugin>
    </plugins>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage limit="64 mb"/></memoryUsage><storeUsage><storeUsage limit="512 mb"/></storeUsage>
      <tempUsage><tempUsage limit="64 mb"/></tempUsage></systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:{port}?transport.maxFrameSize=4194304"/>
    </transportConnectors>
  </broker>
</beans>
"""


def is_here():
    return (HOME / "bin" / "activemq.jar").exists() and shutil.which("java") is not None


class ActiveMQ(Child):
    """`login`: it requires USER and PASSWORD. Messages in queues survive restarts."""

    NAME = "activemq"
    PAUSE_SECONDS = 0.1

    def __init__(self, login=False):
        super().__init__()
        self.login, self.config = login, self.directory / "broker.xml"
        self.config.write_text(CONFIG.format(data=self.directory / "data", port=self.port, user=USER, password=PASSWORD,
                                             anonymous="false" if login else "true"))

    def command(self):
        base = self.directory
        return ["java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", f"-Dactivemq.home={HOME}",
                f"-Dactivemq.base={base}", f"-Dactivemq.conf={base}", f"-Dactivemq.data={base}/data", f"-Djava.io.tmpdir={base}",
                "-jar", HOME / "bin" / "activemq.jar", "start", f"xbean:file:{self.config}"]

    def is_ready(self):
        self.client().close()
        return True

    # ---- talking ----

    @property
    def url(self):
        return f"stomp://127.0.0.1:{self.port}"

    def client(self):
        return StompClient(self.port, USER if self.login else None, PASSWORD)

    def receive(self, queue, count, seconds=20.0, quiet=0.3):
        """Takes messages off a queue until there are so many, and those that come in a quiet moment more: [Message]."""
        with contextlib.closing(self.client()) as client:
            return client.receive(queue, count, seconds, quiet)


class Message:
    def __init__(self, command, headers, body):
        self.command, self.headers, self.body, self.at = command, headers, body, time.time()

    @property
    def id(self):
        return self.headers.get("tarry-id")

    def __repr__(self):
        return f"{self.command} {self.headers} {len(self.body)} bytes"


class StompClient:
    """STOMP 1.2 as far as a reader needs it."""

    def __init__(self, port, user=None, password=None):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.pending = b""
        login = f"login:{user}\npasscode:{password}\n" if user else ""
        self.socket.sendall(f"CONNECT\naccept-version:1.2\nhost:test\n{login}\n\0".encode())
        frame = self.frame(5)
        if frame is None or frame.command != "CONNECTED":
            raise OSError(f"no login: {frame}")

    def close(self):
        self.socket.close()

    def frame(self, seconds):
        """The next message; None if it does not arrive in time."""
        limit = time.monotonic() + seconds
        while True:
            self.pending = self.pending.lstrip(b"\r\n")
            frame = self._parse()
            if frame:
                return frame
            left = limit - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                return None
            if not data:
                raise OSError("the broker closed the connection")
            self.pending += data

    def _parse(self):
        head, found, rest = self.pending.partition(b"\n\n")
        if not found:
            return None
        command, *lines = head.decode().replace("\r", "").split("\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(_plain(name), _plain(value))
        length = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
        if length < 0 or len(rest) <= length:
            return None
        self.pending = rest[length + 1:]
        return Message(command, headers, rest[:length])

    def receive(self, queue, count, seconds, quiet):
        self.socket.sendall(f"SUBSCRIBE\nid:0\ndestination:/queue/{_escaped(queue)}\nack:auto\n\n\0".encode())
        out, limit = [], time.monotonic() + seconds
        while len(out) < count and time.monotonic() < limit:
            out += self._message(limit - time.monotonic())
        while True:
            more = self._message(quiet)
            if not more:
                return out
            out += more

    def _message(self, seconds):
        frame = self.frame(seconds)
        assert frame is None or frame.command == "MESSAGE", frame.body
        return [frame] if frame else []


def _plain(text):
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\":
            out.append({"r": "\r", "n": "\n", "c": ":", "\\": "\\"}[text[at + 1]])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace(":", "\\c")
