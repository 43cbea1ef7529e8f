"""The clients in a bare Debian: what each language needs from apt, then the commands of the client's README in an empty project, as an ordinary user.

The server runs on this machine; the root shares its network. Go, Node and Rust of Debian are older than the clients need: the root gets a copy of this
machine's.
"""

import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest
from root import REPO, USER, Root, lacks

sys.path[:0] = [str(REPO / "tests/clients"), str(REPO / "tests/e2e/support")]

from server import Server  # noqa: E402
from test_readme_install import NEEDS, install_and_run  # noqa: E402

PACKAGES = {"python": "python3 python3-venv", "node": "libstdc++6", "go": "", "java": "default-jdk-headless maven", "php": "php-cli composer", "ruby": "ruby", "rust": "gcc libc6-dev"}


def output(*command):
    return pathlib.Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def go_tools():
    return {output("go", "env", "GOROOT"): "opt/go"}


def node_tools():
    npm = pathlib.Path(shutil.which("npm")).resolve().parents[1]
    return {output("node", "-p", "process.execPath"): "opt/node/bin/node", npm: "opt/node/lib/node_modules/npm"}


def rust_tools():
    sysroot = output("rustc", "--print", "sysroot")
    return {sysroot / "bin": "opt/rust/bin", sysroot / "lib": "opt/rust/lib"}


TOOLS = {"go": go_tools, "node": node_tools, "rust": rust_tools}


def carry_tools(root, language):
    for source, target in TOOLS[language]().items() if language in TOOLS else ():
        place = root.directory / target
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, place, **({"symlinks": True} if source.is_dir() else {}))
    if language == "node":
        (root.directory / "opt/node/bin/npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")


class Inside:
    """An empty project in the user's home in the root."""

    tree = pathlib.Path(f"/home/{USER}/tarry")

    def __init__(self, root, name):
        self.root, self.inside = root, pathlib.Path(f"/home/{USER}/{name}")
        self.path = root.directory / f"home/{USER}/{name}"
        self.env = {"TARRY": str(self.tree), "PATH": "/opt/go/bin:/opt/node/bin:/opt/rust/bin:/usr/local/bin:/usr/bin:/bin"}
        root(f"mkdir {self.inside}")

    def run(self, *command):
        settings = " ".join(shlex.quote(f"{name}={value}") for name, value in self.env.items())
        self.root(f"cd {self.inside} && env {settings} {shlex.join(command)}")

    def write(self, name, text):
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text, encoding="utf-8")
        self.root(f"sudo chown -R {USER}: {self.inside}")


@pytest.fixture(scope="module")
def fresh():
    why = lacks()
    assert why is None, why
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-fresh-", dir="/var/tmp"))
    directory.chmod(0o755)
    root = Root(directory / "root", REPO / "build-fresh" / "packages")
    try:
        root.make()
        root("sudo apt-get update -q")
        yield root
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize("language", PACKAGES)
def test_the_readme_installs_the_client_on_a_bare_debian(fresh, language, tmp_path):
    if needed := [program for program in NEEDS[language] if language in TOOLS and not shutil.which(program)]:
        pytest.skip(f"not run: the client '{language}', {', '.join(needed)} is not installed")
    fresh(f"sudo DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends {PACKAGES[language]}")
    carry_tools(fresh, language)
    server = Server(tmp_path / "server").start()
    try:
        install_and_run(language, Inside(fresh, f"shop-{language}"), server)
    finally:
        server.terminate()
