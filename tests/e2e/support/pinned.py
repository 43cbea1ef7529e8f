"""Tools from the registries of Python and Node, with the versions that a file beside the tests pins, each set in a directory of its own."""

import contextlib
import fcntl
import shutil
import subprocess

from server import REPO


@contextlib.contextmanager
def made_of(wanted, place):
    """Yields whether what the file `wanted` names still has to be installed in `place`; one process at a time."""
    place.mkdir(exist_ok=True)
    with open(place / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = place / "made-of"
        yield not made.exists() or made.read_bytes() != wanted.read_bytes()
        made.write_bytes(wanted.read_bytes())


def environment(name):
    """The directory of the virtual environment with what tests/NAME/requirements.txt names: build-NAME/venv, made once."""
    wanted, place = REPO / "tests" / name / "requirements.txt", REPO / f"build-{name}"
    with made_of(wanted, place) as is_needed:
        if is_needed:
            run = {"check": True, "timeout": 600}
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", str(place / "venv")], **run)
            subprocess.run([str(place / "venv" / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r", str(wanted)], **run)
    return place / "venv"


def modules(name):
    """A directory of Node's with what tests/NAME/package.json names, and the programs beside it: build-NAME, made once."""
    wanted, place = REPO / "tests" / name / "package.json", REPO / f"build-{name}"
    with made_of(wanted, place) as is_needed:
        if is_needed:
            shutil.copy(wanted, place)
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"], cwd=place, check=True, timeout=600)
    for program in wanted.parent.glob("*.mjs"):
        shutil.copy(program, place)
    return place
