"""The databases that run for tests. If one of them has ended by itself, each test that fails afterwards shows that, and the end of the database's log."""

import re
import subprocess

LINES, BYTES = 60, 16_000
REASON = re.compile(r"initiated by|got signal|Assertion|\[ERROR\]|FATAL|PANIC|shutdown request")
_running = {}  # database: its name


def note_start(database, name):
    _running[database] = name


def note_stop(database):
    _running.pop(database, None)


def ended():
    """Returns (a line, the end of the log) for each database that has ended by itself. It has has_ended(), which is None or how it ended, and log_path."""
    found = []
    for database, name in list(_running.items()):
        how = database.has_ended()
        if how is not None:
            with open(database.log_path, "rb") as file:
                file.seek(max(0, file.seek(0, 2) - BYTES))
                lines = file.read().decode(errors="replace").splitlines()
            why = next((line for line in reversed(lines) if REASON.search(line)), lines[-1] if lines else "it has no log")
            found.append((f"Error: {name} ended by itself ({how}): {why[:120]}; {database.log_path}", "\n".join(lines[-LINES:])))
    return found


def explain(report):
    """Puts that into the report of a failed test: its first line is what a summary shows."""
    for line, log in ended():
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash:
            crash.message = f"{line}\n{crash.message}"
        processes = subprocess.run(["ps", "-eo", "pid,ppid,lstart,args"], capture_output=True, text=True, check=False, timeout=60).stdout
        report.sections.append(("a database ended", f"{line}\n{log}\n---- processes ----\n{processes}"))
