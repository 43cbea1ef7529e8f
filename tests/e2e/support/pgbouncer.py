"""A pgbouncer in front of a PostgreSQL of a test."""

import os
import shutil
import subprocess

import psycopg2
from server import eventually, free_port


class Pgbouncer:
    """Listens on a TCP port. `mode` is session or transaction."""

    def __init__(self, database, mode):
        self.database, self.port = database, free_port()
        self.config = database.directory / f"pgbouncer-{mode}.ini"
        self.config.write_text(f"""[databases]
postgres = host={database.directory} dbname=postgres user=tarry
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
server_check_delay = 0
server_login_retry = 1
ignore_startup_parameters = extra_float_digits,options
""")
        self.start()

    def start(self):
        program = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
        user = self.database.user
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        self.process = subprocess.Popen([program, str(self.config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user)
        eventually(self.connects)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    @property
    def url(self):
        return f"postgres://tarry@127.0.0.1:{self.port}/postgres"

    def connects(self):
        try:
            psycopg2.connect(self.url).close()
            return True
        except psycopg2.OperationalError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
