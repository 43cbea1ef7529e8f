"""A real HAProxy in front of a server: TCP is passed on unchanged, with a header that names the client."""

import shutil

from child import Child, listens

PROGRAM = shutil.which("haproxy") or "/usr/sbin/haproxy"
CONFIG = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend clients
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    server tarry {server} {words}
"""


class HAProxy(Child):
    """A HAProxy. `server` is 127.0.0.1:PORT, or unix@PATH; `words` are the options of the connection to it: send-proxy, send-proxy-v2, check … Or
    `config` is all of it."""

    NAME = "haproxy"
    START_SECONDS, PAUSE_SECONDS = 120.0, 0.01
    HAS_HELPERS = False

    def __init__(self, directory, server="", words="", config=CONFIG):
        super().__init__(directory)
        (self.directory / "haproxy.cfg").write_text(config.format(port=self.port, server=server, words=words))

    def command(self):
        return [PROGRAM, "-db", "-f", self.directory / "haproxy.cfg"]

    def is_ready(self):
        return listens(self.port)
