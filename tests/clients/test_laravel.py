"""
The queue connection for Laravel, in a real application (tests/clients/laravel), against the server that TARRY_BIN names. Not run where neither
Debian's php-laravel-framework is installed nor TARRY_TEST_LARAVEL names the autoloader of another.
"""

import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys

import languages
import pytest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "e2e", "support")]

from server import Server  # noqa: E402

APP = pathlib.Path(__file__).resolve().parent / "laravel"
LARAVEL = os.environ.get("TARRY_TEST_LARAVEL", "/usr/share/php/Illuminate/autoload.php")

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
CONFIG = re.search(r"```php\n// config/queue.php\n(.*?)```", PAGE, re.DOTALL).group(1)

if not languages.chosen(["php"]):
    pytest.skip("another client was picked", allow_module_level=True)
if not shutil.which("php") or not os.path.exists(LARAVEL):
    pytest.skip("not run: Laravel is not installed (Debian: php-laravel-framework php-sqlite3)", allow_module_level=True)


class App:
    """The application with a database and a log of its own."""

    def __init__(self, server, directory):
        self.server, self.directory = server, directory
        (directory / "database.sqlite").touch()
        (directory / "queue.php").write_text("<?php\n" + CONFIG, encoding="utf-8")
        self.artisan("try:tables")

    def artisan(self, *command):
        env = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
        env |= {"TARRY_URL": self.server.url, "TRY_STORAGE": str(self.directory), "TRY_LINES": str(self.directory / "lines"), "TRY_LARAVEL": LARAVEL}
        env |= {"TRY_QUEUE": str(self.directory / "queue.php"), "TARRY_BLOCK_FOR": "0"}
        found = subprocess.run(["php", "artisan", *command], cwd=APP, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout.splitlines()

    def work(self, queue="default"):
        return self.artisan("queue:work", "--stop-when-empty", f"--queue={queue}")

    def lines(self):
        path = self.directory / "lines"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def counts(self, topic):
        return {state: count for state, count in self.server.client().topic(topic)["counts"].items() if count}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("laravel")).start()
    yield found
    found.terminate()


@pytest.fixture
def app(server, tmp_path):
    for topic in ("default", "far", "commits", "bulk"):
        server.client().call("DELETE", f"/v1/topics/{topic}")
    return App(server, tmp_path)


def test_processes_releases_and_keeps_failed_jobs(app):
    app.artisan("try:dispatch")
    waited_until = datetime.datetime.now() + datetime.timedelta(seconds=10)
    while len(app.lines()) < 7 and datetime.datetime.now() < waited_until:
        app.work()
    assert sorted(app.lines()) == sorted([
        "at once: attempt 1", "in a second: attempt 1", "again: attempt 1", "again: attempt 2",
        "fails: attempt 1", "fails: attempt 2", "fails: failed, the bank is down",
    ])
    (line,) = app.artisan("try:failed")
    assert line.startswith("Fails: RuntimeException: the bank is down")
    assert app.counts("default") == {}


def test_waits_for_thirty_days(app):
    app.artisan("try:dispatch")
    app.work("far")
    assert app.lines() == []
    (job,) = app.server.client().list("far")["jobs"]
    due = datetime.datetime.fromisoformat(job["due_at"].replace("Z", "+00:00"))
    days = (due - datetime.datetime.now(datetime.timezone.utc)) / datetime.timedelta(days=1)
    assert 29.99 < days <= 30


def test_after_the_commit_and_not_without_one(app):
    assert app.artisan("try:commit") == ["0 before the commit", "1 after it", "1 after one that was rolled back"]
    app.work("commits")
    assert app.lines() == ["after the commit: attempt 1"]


def test_many_each_with_its_delay(app):
    assert app.artisan("try:bulk") == ["3 2 1 0"]
    app.work("bulk")
    assert sorted(app.lines()) == ["bulk 1: attempt 1", "bulk 2: attempt 1"]
    assert app.counts("bulk") == {"delayed": 1}
