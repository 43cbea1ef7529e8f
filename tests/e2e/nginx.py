"""A real nginx as an endpoint: what it answers is in its configuration, what came is in its log."""

import pathlib
import shutil
import signal
import socket
import subprocess
import time

from server import free_port

PROGRAM = shutil.which("nginx") or "/usr/sbin/nginx"
CONFIG = """
worker_processes 1; daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
    log_format came '{fields}';
    access_log {log};
    keepalive_requests 10000000;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{ listen {listen}; {more} location / {{ return 204; }} }}
}}
"""


class Nginx:
    """`fields`: what is logged of a request, blanks between; empty: no log. It listens on all of 127.0.0.0/8."""

    def __init__(self, directory, fields="", listen="", more=""):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.port = free_port()
        log = f"{self.directory}/came.log came" if fields else "off"
        config = CONFIG.format(dir=self.directory, log=log, fields=fields or "-", listen=f"0.0.0.0:{self.port} {listen}", more=more)
        (self.directory / "nginx.conf").write_text(config)
        self.proc = subprocess.Popen([PROGRAM, "-p", str(self.directory), "-c", str(self.directory / "nginx.conf")],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    def _wait(self):
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.proc.poll() is None, (self.directory / "error.log").read_text()
                time.sleep(0.01)
        raise AssertionError("nginx does not listen")

    def came(self):
        """One list of fields for each request so far."""
        return [line.split() for line in (self.directory / "came.log").read_text().splitlines()]

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            self.proc.wait(10)
