"""
A real nats-server with JetStream for tests: on a free port, in a temporary directory.

    with NatsServer() as server:              server.url, server.stream("ORDERS", ["orders"]), server.messages("ORDERS")
        server.kill(); server.start()

A small client of the test, which shares no code with the server under test, makes streams and reads them.
"""

import base64
import contextlib
import json
import shutil
import socket
import ssl

from child import Child, certificate

USER, PASSWORD, TOKEN = "tarry", 'pass"word\\x', "s3cret-token"


def is_here():
    return shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin:/bin") is not None


class NatsServer(Child):
    """`auth`: lines of its configuration. `tls`: it requires TLS, by a certificate for localhost. `more`: further lines."""

    NAME = "nats"
    HAS_HELPERS = False

    def __init__(self, auth="", tls=False, more=""):
        super().__init__()
        self.tls, self.auth, self.more = tls, auth, more
        if tls:
            certificate(self.directory, "DNS:localhost,IP:127.0.0.1")
        self.configure()

    def configure(self, more=None):
        self.more = self.more if more is None else more
        tls = f'tls {{ cert_file: "{self.directory}/cert.pem", key_file: "{self.directory}/key.pem" }}\n' if self.tls else ""
        (self.directory / "nats.conf").write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.directory}/js" }}\n{tls}{self.auth}\n{self.more}\n')

    def command(self):
        return [shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin:/bin"), "-c", self.directory / "nats.conf"]

    def is_ready(self):
        return bool(self.request("$JS.API.INFO", {}))

    @property
    def url(self):
        return f"{'natss' if self.tls else 'nats'}://127.0.0.1:{self.port}"

    # ---- talking ----

    def client(self):
        return NatsClient(self.port, self.tls)

    def request(self, subject, body):
        with contextlib.closing(self.client()) as client:
            return client.request(subject, body)

    def stream(self, name, subjects, **more):
        answer = self.request(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file", **more})
        assert "error" not in answer, answer
        return answer

    def count(self, name):
        return self.request(f"$JS.API.STREAM.INFO.{name}", {})["state"]["messages"]

    def messages(self, name):
        """All messages of a stream: [Message]."""
        with contextlib.closing(self.client()) as client:
            state = client.request(f"$JS.API.STREAM.INFO.{name}", {})["state"]
            return [Message(client.request(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": number})["message"])
                    for number in range(state["first_seq"], state["last_seq"] + 1)] if state["messages"] else []


class Message:
    def __init__(self, raw):
        self.subject, self.body = raw["subject"], base64.b64decode(raw.get("data", ""))
        lines = base64.b64decode(raw.get("hdrs", "")).decode().split("\r\n")
        self.headers = dict(line.split(": ", 1) for line in lines[1:] if line)

    @property
    def id(self):
        return self.headers.get("tarry-id")


class NatsClient:
    """The NATS protocol as far as a reader needs it. It logs in as every user of these tests."""

    def __init__(self, port, tls=False):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.pending = b""
        self.line()
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        login = json.dumps({"verbose": False, "headers": True, "user": "admin", "pass": "admin", "auth_token": TOKEN})
        self.socket.sendall(f"CONNECT {login}\r\nSUB _INBOX.test 1\r\nPING\r\n".encode())
        while (line := self.line()) != b"PONG":
            assert not line.startswith(b"-ERR"), line

    def close(self):
        self.socket.close()

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise OSError("the server closed the connection")
        self.pending += data

    def line(self):
        while b"\r\n" not in self.pending:
            self._more()
        line, self.pending = self.pending.split(b"\r\n", 1)
        return line

    def request(self, subject, body):
        payload = json.dumps(body).encode() if body else b""
        self.socket.sendall(f"PUB {subject} _INBOX.test {len(payload)}\r\n".encode() + payload + b"\r\n")
        while True:
            words = self.line().split()
            if words[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            if words[0] == b"HMSG":
                raise OSError("no responders")
            if words[0] == b"MSG":
                size = int(words[-1])
                while len(self.pending) < size + 2:
                    self._more()
                text, self.pending = self.pending[:size], self.pending[size + 2:]
                return json.loads(text)
