"""Tools from the registry of Python, with the versions that a requirements.txt beside the tests pins, each set in a virtual environment of its own."""

import fcntl
import subprocess

from server import REPO


def environment(name):
    """The directory of the virtual environment with what tests/NAME/requirements.txt names: build-NAME/venv, made once."""
    wanted, place = REPO / "tests" / name / "requirements.txt", REPO / f"build-{name}"
    place.mkdir(exist_ok=True)
    with open(place / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = place / "made-of"
        if not made.exists() or made.read_bytes() != wanted.read_bytes():
            run = {"check": True, "timeout": 600}
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", str(place / "venv")], **run)
            subprocess.run([str(place / "venv" / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r", str(wanted)], **run)
            made.write_bytes(wanted.read_bytes())
    return place / "venv"
