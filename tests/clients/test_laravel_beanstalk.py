"""
Laravel's own beanstalkd queue, as Debian has it (php-laravel-framework, php-pda-pheanstalk), in the application of tests/clients/laravel,
against the server that TARRY_BIN names: what docs/beanstalk.md shows of it.
"""

import os
import pathlib
import re
import shutil
import sys
import time

import pytest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "e2e", "support")]

from server import Server, free_port  # noqa: E402
import test_laravel  # noqa: E402
from test_laravel import App, LARAVEL  # noqa: E402

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "beanstalk.md").read_text(encoding="utf-8")
CONFIG = re.search(r"```php\n// config/queue.php\n(.*?)```", PAGE, re.DOTALL).group(1)

PHEANSTALK = "/usr/share/php/Pheanstalk/autoload.php"  # Debian's Laravel looks for it elsewhere

if not shutil.which("php") or not os.path.exists(LARAVEL) or not os.path.exists(PHEANSTALK):
    pytest.skip("not run: Laravel with pheanstalk is not installed (Debian: php-laravel-framework php-pda-pheanstalk php-sqlite3)", allow_module_level=True)


@pytest.fixture
def app(tmp_path, monkeypatch):
    (tmp_path / "autoload.php").write_text(f"<?php require '{PHEANSTALK}'; require '{LARAVEL}';", encoding="utf-8")
    monkeypatch.setattr(test_laravel, "LARAVEL", str(tmp_path / "autoload.php"))
    port = free_port()
    server = Server(tmp_path / "server", ["--beanstalk", f"127.0.0.1:{port}"]).start()
    try:
        application = App(server, tmp_path)
        assert "11300" in CONFIG
        (tmp_path / "queue.php").write_text("<?php\n" + CONFIG.replace("11300", str(port)), encoding="utf-8")
        yield application
    finally:
        ended = server.terminate()
    assert ended == 0


def test_processes_delays_and_releases_jobs_and_keeps_failed_ones(app):
    app.artisan("try:dispatch")
    deadline = time.monotonic() + 20
    while len(app.lines()) < 7 and time.monotonic() < deadline:
        app.work()
    assert len(app.lines()) >= 7, f"not all lines after 20 s: {app.lines()}"
    assert sorted(app.lines()) == sorted([
        "at once: attempt 1", "in a second: attempt 1", "again: attempt 1", "again: attempt 2",
        "fails: attempt 1", "fails: attempt 2", "fails: failed, the bank is down",
    ])
    (line,) = app.artisan("try:failed")
    assert line.startswith("Fails: RuntimeException: the bank is down")
    assert app.counts("default") == {} and app.counts("far") == {"delayed": 1}, "the job due in thirty days stays delayed"
