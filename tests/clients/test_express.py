"""The code for Express of docs/frameworks.md, on the real Express and Knex: installed from npm into build-express/ where they are not there yet."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import languages
import pytest
from test_frameworks import SECRET, call, callbacks_are_verified, ends_well

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from server import Server, eventually, free_port  # noqa: E402

PLACE = REPO / "build-express"
PACKAGES = ["express@5.3.0", "knex@3.3.0", "better-sqlite3@12.11.1"]

if not languages.chosen(["node"]):
    pytest.skip("another client was picked", allow_module_level=True)
if not shutil.which("npm"):
    pytest.skip("not run: npm is not installed", allow_module_level=True)


def run(*command, cwd):
    subprocess.run(command, cwd=cwd, check=True, timeout=600)


@pytest.fixture(scope="module", autouse=True)
def packages():
    """Builds the example; without a binary of better-sqlite3 it is compiled, which takes a minute."""
    client = REPO / "clients" / "node"
    run("npm", "install", "--silent", "--no-audit", "--no-fund", cwd=client)
    run("npm", "run", "--silent", "build", cwd=client)
    if not (PLACE / "node_modules" / "better-sqlite3").exists():
        PLACE.mkdir(exist_ok=True)
        (PLACE / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
        run("npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES, str(client), cwd=PLACE)


@pytest.fixture
def server(tmp_path):
    found = Server(tmp_path / "server").start()
    yield found
    found.terminate()


def test_express(server, tmp_path):
    page = (REPO / "docs" / "frameworks.md").read_text(encoding="utf-8")
    (tmp_path / "app.mjs").write_text(re.search(r"```js\n// app.mjs\n(.*?)```", page, re.DOTALL).group(1), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(PLACE / "node_modules")
    port, log = free_port(), tmp_path / "log"
    env = {**os.environ, "TARRY_URL": server.url, "TARRY_SECRET": SECRET, "PORT": str(port)}
    with log.open("w", encoding="utf-8") as out, subprocess.Popen(["node", "app.mjs"], cwd=tmp_path, env=env, stdout=out, stderr=subprocess.STDOUT) as app:
        try:
            callbacks_are_verified(port)
            assert call(port, "/orders/7?delay=300ms")[0] == 201
            eventually(lambda: "closing 7" in log.read_text(encoding="utf-8"), 10)
            assert call(port, "/orders/7?delay=300ms")[0] == 500, "the row is there: the transaction is rolled back"
            assert call(port, "/orders/8?delay=1h")[0] == 201
            ends_well(app, log)
            assert app.returncode == 0
        finally:
            app.kill()
    topic = server.client().topic("orders")
    assert (topic["totals"]["pushed"], topic["counts"]["delayed"], topic["counts"]["leased"]) == (2, 1, 0), "nothing is pushed where there was no commit"
