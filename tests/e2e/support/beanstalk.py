"""beanstalkd's protocol, spoken word by word; and Debian's beanstalkd, to compare with."""

import shutil
import socket
import subprocess
import time

PROGRAM = shutil.which("beanstalkd") or "/usr/bin/beanstalkd"
WITH_BODY = ("OK", "FOUND", "RESERVED")


class Connection:
    def __init__(self, address, timeout=20):
        self.socket = socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.socket()
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def answer(self):
        """Reads one answer: its words, and its body if it has one. None: the server has closed."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            return None
        words = line[:-2].decode().split(" ")
        if words[0] not in WITH_BODY:
            return words
        body = self.file.read(int(words[-1]) + 2)
        assert body.endswith(b"\r\n"), body
        return words[:-1] + [body[:-2]]

    def __call__(self, line, body=None):
        self.send(line.encode() + b"\r\n" if body is None else f"{line} {len(body)}\r\n".encode() + body + b"\r\n")
        return self.answer()

    def put(self, body, priority=0, delay=0, ttr=60):
        words = self(f"put {priority} {delay} {ttr}", body if isinstance(body, bytes) else body.encode())
        assert words[0] == "INSERTED", words
        return int(words[1])

    def stats(self, line):
        words = self(line)
        return yaml(words[1]) if words[0] == "OK" else words

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def yaml(text):
    lines = text.decode().splitlines()
    assert lines[0] == "---", lines
    if all(line.startswith("- ") for line in lines[1:]):
        return [line[2:].strip('"') for line in lines[1:]]
    return {name: value.strip('"') for name, value in (line.split(": ", 1) for line in lines[1:])}


class Beanstalkd:
    """Debian's."""

    def __init__(self, *flags):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        self.process = subprocess.Popen([PROGRAM, "-l", "127.0.0.1", "-p", str(self.address[1]), *map(str, flags)])
        for _ in range(200):
            try:
                Connection(self.address).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise TimeoutError("beanstalkd does not start")

    @property
    def url(self):
        return "beanstalk://{}:{}".format(*self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
