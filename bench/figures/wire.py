"""Redis' protocol, as little of it as measuring needs: requests rendered ahead, answers framed, INFO read."""

import re
import socket

WINDOW_BYTES = 1 << 18


class Refused(RuntimeError):
    """An answer that was an error."""


def render(*words):
    """Encodes a request."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        if not isinstance(word, bytes):
            word = str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


def read(data, at):
    """Returns the value at `at` and the beginning of the next; None while the value is incomplete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, text, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind == b"-":
        return Refused(text.decode(errors="replace")), at
    if kind == b"+":
        return bytes(text), at
    number = int(text)
    if kind == b":":
        return number, at
    if number < 0:
        return (None, at)
    if kind == b"$":
        return (bytes(data[at:at + number]), at + number + 2) if len(data) >= at + number + 2 else None
    values = []
    for _ in range(number):
        found = read(data, at)
        if found is None:
            return None
        value, at = found
        values.append(value)
    return values, at


class Connection:
    """Connects to a Unix socket (a path) or a port of this machine."""

    def __init__(self, where):
        if isinstance(where, int):
            self.socket = socket.create_connection(("127.0.0.1", where))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(where)
        self.data = bytearray()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self, count):
        """The next `count` answers; an error among them is raised."""
        answers, at = [], 0
        while len(answers) < count:
            found = read(self.data, at)
            if found is None:
                del self.data[:at]
                at = 0
                more = self.socket.recv(1 << 20)
                if not more:
                    raise Refused("the server closed the connection")
                self.data += more
                continue
            value, at = found
            if isinstance(value, Refused):
                raise value
            answers.append(value)
        del self.data[:at]
        return answers

    def ask(self, *words):
        self.socket.sendall(render(*words))
        return self.receive(1)[0]

    def pipeline(self, requests):
        """Sends them in windows, one ahead of the answers, so that the server always has some to do."""
        answers, waiting = [], 0
        window, size = [], 0
        for request in requests:
            window.append(request)
            size += len(request)
            if size >= WINDOW_BYTES:
                self.socket.sendall(b"".join(window))
                answers += self.receive(waiting)
                waiting, window, size = len(window), [], 0
        self.socket.sendall(b"".join(window))
        return answers + self.receive(waiting + len(window))

    def info(self, section):
        text = self.ask("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def used_memory(self):
        return int(self.info("memory")["used_memory"])

    def commands(self):
        """{command: (calls, microseconds)} since the last CONFIG RESETSTAT. A script's time holds that of what it calls."""
        return {name[len("cmdstat_"):]: (int(found[1]), int(found[2]))
                for name, text in self.info("commandstats").items()
                for found in [re.match(r"calls=(\d+),usec=(\d+)", text)]}
