"""
A real MariaDB for tests, reached by a socket in a temporary directory.

    with MariaDB() as database:
        database.run("CREATE TABLE …", "name of the database")
"""

import getpass
import shutil
import subprocess

from child import Child

PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")


def _find(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def missing():
    """Why there is none here; None: there is."""
    absent = [name for name in PROGRAMS if not _find(name)]
    return f"no {', '.join(absent)} on this machine" if absent else None


class MariaDB(Child):
    NAME = "mariadb"

    def __init__(self):
        super().__init__()
        self.socket = self.directory / "socket"
        done = subprocess.run([_find("mariadb-install-db"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={self.directory / 'data'}",
                               "--auth-root-authentication-method=normal", "--skip-test-db"], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def command(self):
        return [_find("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={self.directory / 'data'}", f"--socket={self.socket}", "--skip-networking",
                "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--performance-schema=off"]

    def client(self):
        """The words that a client's command begins with."""
        return [_find("mariadb"), "--no-defaults", f"--socket={self.socket}", "--user=root"]

    def is_ready(self):
        return subprocess.run([*self.client(), "-e", "SELECT 1"], capture_output=True, check=False, timeout=20).returncode == 0

    def run(self, text, name=""):
        done = subprocess.run([*self.client(), "--default-character-set=utf8mb4", *([name] if name else []), "-N", "-e", text], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout
