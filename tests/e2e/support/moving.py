"""The examples of docs/moving, run as a reader would: the script from the page, its commands in an empty directory."""

import os
import subprocess

from pages import blocks, examples, matches
from server import BINARY, REPO


def script(page, language="python", number=0):
    """The text of a block of code, as the page has it."""
    return "\n".join([lines for _, found, lines in blocks(page) if found == language][number]) + "\n"


def follow(page, directory, server, replace, only=None):
    """Runs the commands of a page in order, and compares their output with the page."""
    (directory / "bin").mkdir(exist_ok=True)
    if not (directory / "bin" / "tarry").exists():
        (directory / "bin" / "tarry").symlink_to(BINARY)
    env = {**os.environ, "PATH": f"{directory}/bin:/usr/bin:{os.environ['PATH']}", "TARRY_URL": server.url, "PYTHONDONTWRITEBYTECODE": "1"}
    done = 0
    for number, command, expected in examples(page):
        if only and not only(command):
            continue
        for old, new in replace.items():
            command = command.replace(old, new)
        ended = subprocess.run(["bash", "-ec", command], env=env, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        assert ended.returncode == 0 and (expected is None or matches(expected, ended.stdout)), f"{page}:{number}: {ended.stdout}"
        done += 1
    assert done, f"{REPO / page} shows no command"
    return env
