"""A real nginx as an endpoint: what it answers is in its configuration, what came is in its log."""

import shutil

from child import Child, listens

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


class Nginx(Child):
    """`fields`: what is logged of a request, blanks between; empty: no log. It listens on all of 127.0.0.0/8, once it is made."""

    NAME = "nginx"
    START_SECONDS, PAUSE_SECONDS = 120.0, 0.01
    LOGS = ("output.log", "error.log")
    HAS_HELPERS = False

    def __init__(self, directory, fields="", listen="", more=""):
        super().__init__(directory)
        log = f"{self.directory}/came.log came" if fields else "off"
        config = CONFIG.format(dir=self.directory, log=log, fields=fields or "-", listen=f"0.0.0.0:{self.port} {listen}", more=more)
        (self.directory / "nginx.conf").write_text(config)
        self.start()

    def command(self):
        return [PROGRAM, "-p", self.directory, "-c", self.directory / "nginx.conf"]

    def is_ready(self):
        return listens(self.port)

    def came(self):
        """Returns a list of fields for each request so far."""
        return [line.split() for line in (self.directory / "came.log").read_text().splitlines()]
