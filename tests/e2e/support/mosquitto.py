"""
A real Mosquitto for tests: on a free port, in a temporary directory; what it passes on is read by its own client.

    with Mosquitto() as broker, broker.reader("orders/#") as reader:      broker.url, reader.messages(3)
"""

import contextlib
import json
import shutil
import subprocess
import time

from child import Child, certificate, listens

USER, PASSWORD = "tarry", 'pass"word\\x'
PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/bin"


def is_here():
    return all(shutil.which(name, path=PLACES) for name in ("mosquitto", "mosquitto_sub"))


class Mosquitto(Child):
    """`login`: it requires USER and PASSWORD, who may use only allowed/#. `more`: further lines of its configuration."""

    NAME = "mosquitto"
    HAS_HELPERS = False

    def __init__(self, login=False, tls=False, more=""):
        super().__init__()
        self.login, self.tls = login, tls
        lines = [f"listener {self.port} 127.0.0.1", "user root", "persistence true", f"persistence_location {self.directory}/", "max_queued_messages 0", "log_type all", more]
        if login:
            words = self.directory / "passwords"
            subprocess.run(["mosquitto_passwd", "-c", "-b", words, USER, PASSWORD], check=True, capture_output=True, timeout=20)
            (self.directory / "acl").write_text(f"user {USER}\ntopic readwrite allowed/#\n")
            lines += [f"password_file {words}", f"acl_file {self.directory}/acl", "allow_anonymous false"]
        else:
            lines += ["allow_anonymous true"]
        if tls:
            certificate(self.directory, "DNS:localhost,IP:127.0.0.1")
            lines += [f"certfile {self.directory}/cert.pem", f"keyfile {self.directory}/key.pem"]
        (self.directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def command(self):
        return [shutil.which("mosquitto", path=PLACES), "-c", self.directory / "mosquitto.conf"]

    def is_ready(self):
        return listens(self.port)

    @property
    def url(self):
        return f"{'mqtts' if self.tls else 'mqtt'}://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def reader(self, topic, form="%j"):
        words = ["mosquitto_sub", "-V", "5", "-h", "127.0.0.1", "-p", str(self.port), "-q", "1", "-t", topic, "-F", form, "-i", f"reader-{time.monotonic_ns()}", "-c", "-x", "3600"]
        if self.login:
            words += ["-u", USER, "-P", PASSWORD]
        if self.tls:
            words += ["--cafile", str(self.directory / "cert.pem"), "--insecure"]
        before = self.log().count("Sending SUBACK")
        path = self.directory / f"read-{time.monotonic_ns()}"
        with open(path, "wb") as out, subprocess.Popen(words, stdout=out, stderr=out) as running:
            limit = time.monotonic() + 20
            while self.log().count("Sending SUBACK") == before and time.monotonic() < limit:
                time.sleep(0.02)
            try:
                yield Reader(path, form)
            finally:
                running.kill()


class Message:
    def __init__(self, line):
        raw = json.loads(line)
        self.topic, self.body, properties = raw["topic"], raw.get("payload"), raw.get("properties", {})
        self.content_type, self.expiry = properties.get("content-type"), properties.get("message-expiry-interval")
        self.headers = {}
        pairs = properties.get("user-properties", {})
        for pair in [pairs] if isinstance(pairs, dict) else pairs:
            self.headers.update(pair)

    @property
    def id(self):
        return self.headers.get("tarry-id")


class Reader:
    def __init__(self, path, form):
        self.path, self.form = path, form

    def messages(self, count, seconds=20.0):
        limit = time.monotonic() + seconds
        while len(lines := self.path.read_text().split("\n")[:-1]) < count and time.monotonic() < limit:
            time.sleep(0.05)
        assert len(lines) >= count, lines
        return [Message(line) if self.form == "%j" else line for line in lines]
