"""HTTP to a server of this machine over one connection that is kept, as plain as measuring needs it."""

import json
import re
import socket
import time

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)


class Connection:
    def __init__(self, port, timeout_s=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def call(self, method, path, body=b""):
        """(status, body of the answer, seconds it took)."""
        request = b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (method.encode(), path.encode(), len(body), body)
        begun = time.monotonic()
        self.socket.sendall(request)
        status, answer = self._answer()
        return status, answer, time.monotonic() - begun

    def _answer(self):
        data, need, head = b"", None, 0
        while need is None or len(data) < need:
            more = self.socket.recv(1 << 20)
            if not more:
                raise OSError("the server closed the connection")
            data += more
            head = data.find(b"\r\n\r\n") + 4
            if need is None and head >= 4:
                length = LENGTH.search(data[:head])
                need = head + (int(length.group(1)) if length else 0)
        return int(data[9:12]), data[head:need]

    def topic(self, name):
        """Returns its counts by state; nothing if the topic does not exist."""
        status, answer, _ = self.call("GET", f"/v1/topics/{name}")
        return json.loads(answer)["counts"] if status == 200 else {}


def metrics(port):
    """{name: value}, summed over labels."""
    with Connection(port) as connection:
        text = connection.call("GET", "/metrics")[1].decode()
    out = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            name, value = re.split(r"[{ ]", line, maxsplit=1)[0], line.rsplit(" ", 1)[1]
            out[name] = out.get(name, 0) + float(value)
    return out
