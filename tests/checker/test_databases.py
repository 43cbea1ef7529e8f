"""tests/e2e/support/databases.py: a failed test shows how a database ended, and the end of its log."""

import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e" / "support"))
import databases  # noqa: E402

NAME = "MariadbServer"


class Database:
    def __init__(self, path, how):
        self.log_path, self.how = path, how

    def has_ended(self):
        return self.how


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(how, log):
        path = tmp_path / f"log-{len(running)}"
        path.write_text(log)
        running.append(Database(path, how))
        databases.note_start(running[-1], NAME)
        return running[-1]

    yield begin
    for one in running:
        databases.note_stop(one)


def explained():
    report = types.SimpleNamespace(longrepr=types.SimpleNamespace(reprcrash=types.SimpleNamespace(message="it cannot connect")), sections=[])
    databases.explain(report)
    return report.longrepr.reprcrash.message.splitlines(), [text for _, text in report.sections]


@pytest.mark.parametrize("line", [
    "2026-11-29  6:30:22 0 [Note] /usr/sbin/mariadbd (initiated by: unknown): Normal shutdown", "261129  6:30:22 [ERROR] mysqld got signal 6 ;",
    "2026-11-29 06:30:22.172 UTC [19759] PANIC:  could not write to file"])
def test_the_first_line_has_the_reason_and_the_log_follows(start, line):
    start("exit code 0", "begin\n" * 5000 + f"{line}\n" + "rest\n" * 30)
    (first, last), [section] = explained()
    assert first.startswith(f"Error: {NAME} ended by itself (exit code 0): {line}; ") and last == "it cannot connect"
    assert section.count("rest\n") == 30 and section.count("begin\n") < 60 and "---- processes ----" in section


def test_a_database_that_runs_or_was_stopped_is_not_shown(start):
    start(None, "x")
    databases.note_stop(start("exit code 0", "y"))
    assert explained() == (["it cannot connect"], [])


def test_a_report_without_a_place_and_a_log_without_lines_are_accepted(start):
    start("exit code 0", "")
    report = types.SimpleNamespace(longrepr="skipped", sections=[])
    databases.explain(report)
    assert "it has no log" in report.sections[0][1]
