"""The package of this tree, made by an ordinary user, and a Debian to install it on."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest
from machine import Machine, lacks, run, unpack_base

REPO = pathlib.Path(__file__).resolve().parents[2]


class Builder:
    """A user without rights, with a copy of this tree of its own."""

    def __init__(self, home):
        owner = REPO.stat().st_uid
        self.user = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
        self.home = home
        self.tree = home / "tarry"
        self.tree.mkdir()
        listed = run("git", "-c", "safe.directory=*", "-C", REPO, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        there = "\0".join(name for name in listed.split("\0") if name and (REPO / name).is_file())
        packed = subprocess.run(["tar", "-C", REPO, "--null", "-T", "-", "-c"], input=there.encode(), capture_output=True, check=True)
        subprocess.run(["tar", "-C", self.tree, "-x", "--no-same-owner"], input=packed.stdout, check=True)
        run("chown", "-R", f"{self.user.pw_uid}:{self.user.pw_gid}", home)

    def __call__(self, *command, check=True, **more):
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TARRY_NO_SETUP": "1", **more}
        return run(shutil.which("setpriv"), f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--inh-caps=-all",
                   *command, check=check, cwd=self.tree, env=environment, seconds=600)


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
def machine(directory, packages):
    cache = REPO / "build-package"
    if not cache.exists():
        cache.mkdir()
        os.chown(cache, REPO.stat().st_uid, REPO.stat().st_gid)
    root = directory / "root"
    unpack_base(root, packages[0], cache)
    for number, package in enumerate(packages, 1):
        shutil.copy(package, root / f"root/tarry-{number}.deb")
    machine = Machine(root)
    try:
        machine.boot()
        yield machine
    finally:
        machine.stop()
