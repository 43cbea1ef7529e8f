"""The package of this tree, made by an ordinary user, and a Debian to install it on."""

import functools
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest
from machine import Machine, lacks, run, unpack_base

REPO = pathlib.Path(__file__).resolve().parents[2]


EPOCH = "1700000000"  # the time of all that is in a package, in every build here
PREVIOUS = ""  # the commit of the last release; there is no release yet


class Builder:
    """A user without rights, with a copy of this tree of its own; or of an older commit."""

    def __init__(self, home, user=None, name="tarry", commit=None, umask="022"):
        owner = REPO.stat().st_uid
        self.user = user or (pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody"))
        self.home = home
        self.umask = umask
        self.tree = home / name
        self.tree.mkdir(parents=True)
        packed = self.archive(commit) if commit else self.now()
        subprocess.run(["tar", "-C", self.tree, "-x", "--no-same-owner"], input=packed, check=True)
        run("chown", "-R", f"{self.user.pw_uid}:{self.user.pw_gid}", home)

    @staticmethod
    def archive(commit):
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", REPO, "archive", commit], capture_output=True, check=True).stdout

    @staticmethod
    @functools.cache
    def now():
        """Copies the tree as it is at the first call: every builder has the same, even if the tree changes meanwhile."""
        listed = run("git", "-c", "safe.directory=*", "-C", REPO, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        there = "\0".join(name for name in listed.split("\0") if name and (REPO / name).is_file())
        return subprocess.run(["tar", "-C", REPO, "--null", "-T", "-", "-c"], input=there.encode(), capture_output=True, check=True).stdout

    def __call__(self, *command, check=True, **more):
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TARRY_NO_SETUP": "1",
                       "SOURCE_DATE_EPOCH": EPOCH, **more}
        return run(shutil.which("setpriv"), f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--inh-caps=-all",
                   "bash", "-c", f'umask {self.umask}; exec "$@"', "bash", *command, check=check, cwd=self.tree, env=environment, seconds=600)


@pytest.fixture(scope="session")
def directory():
    why = lacks()
    assert why is None, why
    path = pathlib.Path(tempfile.mkdtemp(prefix="tarry-package-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def builder(directory):
    home = directory / "home"
    home.mkdir()
    return Builder(home)


@pytest.fixture(scope="session")
def packages(builder):
    """The .deb of two releases of one version."""
    for release in (1, 2):
        builder("make", "package", f"RELEASE={release}")
    return sorted((builder.tree / "build-package").glob("tarry_*.deb"))


@pytest.fixture(scope="session")
def libraries(builder, packages):
    """The .deb of the library and of its development files, of both releases: libtarry-dev 1 and 2, libtarry1 1 and 2."""
    return sorted((builder.tree / "build-package").glob("libtarry*.deb"))


@pytest.fixture(scope="session")
def previous(directory):
    """Returns the .deb of the last version; None in a shallow clone, which does not have it."""
    if not PREVIOUS or run("git", "-c", "safe.directory=*", "-C", REPO, "cat-file", "-e", f"{PREVIOUS}^{{commit}}", check=False).returncode:
        return None
    builder = Builder(directory / "before", commit=PREVIOUS)
    builder("make", "package")
    [package] = (builder.tree / "build-package").glob("tarry_*.deb")
    return package


@pytest.fixture
def needs_previous(previous):
    if not previous:
        pytest.skip(f"commit {PREVIOUS}, the last release, is not in this clone, run: git fetch --unshallow" if PREVIOUS else "no version was released yet")


@pytest.fixture(scope="session")
def tools():
    """The checkers of manifests and of the list of parts, from tests/package/requirements.txt"""
    place, wanted = REPO / "build-package" / "venv", REPO / "tests" / "package" / "requirements.txt"
    stamp = place / "requirements.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted.read_text(encoding="utf-8"):
        run("/usr/bin/python3", "-m", "venv", "--clear", place)
        run(place / "bin/pip", "install", "-q", "--disable-pip-version-check", "-r", wanted)
        shutil.copy(wanted, stamp)
    return place / "bin"


@pytest.fixture(scope="session")
def machine(directory, packages, previous):
    cache = REPO / "build-package"
    if not cache.exists():
        cache.mkdir()
        os.chown(cache, REPO.stat().st_uid, REPO.stat().st_gid)
    root = directory / "root"
    unpack_base(root, packages[0], cache)
    for number, package in enumerate(packages, 1):
        shutil.copy(package, root / f"root/tarry-{number}.deb")
    if previous:
        shutil.copy(previous, root / "root/tarry-previous.deb")
    machine = Machine(root)
    try:
        machine.boot()
        yield machine
    finally:
        machine.stop()
