"""An import reports whether the export was complete; and only its owner can read an export."""

import os
import stat
import subprocess

import pytest
from migration import OK, REFUSED, export, load, push_many, source, target, tarry  # noqa: F401, F811: fixtures
from server import BINARY

JOBS = 500


@pytest.fixture
def dump(source):
    push_many(source, JOBS)
    return export(source).splitlines(keepends=True)


def jobs_at(dump):
    return [at for at, line in enumerate(dump) if b'"id"' in line]


def test_a_whole_export_is_taken_also_after_another_one(dump, target):
    load(target, b"".join(dump))
    load(target, b"".join(dump) + b"\n" + b"".join(dump))


def test_missing_jobs_are_counted(dump, target):
    gone = set(jobs_at(dump)[100:289])
    answer = load(target, b"".join(line for at, line in enumerate(dump) if at not in gone), code=REFUSED)
    assert "is not a complete export" in answer and f"its end line has {JOBS} jobs of" in answer and f"the file has {JOBS - 189} of" in answer
    assert f"imported {JOBS - 189} jobs" in answer  # what is there is in


def test_a_missing_topic_is_counted(dump, target):
    topic = next(at for at, line in enumerate(dump) if b'"settings"' in line)
    assert "is not a complete export" in load(target, b"".join(dump[:topic] + dump[topic + 1:]), code=REFUSED)


@pytest.mark.parametrize("skip", [0, 5, 300])
def test_jobs_missing_before_the_continuation_are_counted(dump, target, skip):
    first = jobs_at(dump)[0]
    answer = load(target, b"".join(dump[:first] + dump[first + 1:]), "--skip", str(skip), code=REFUSED)
    assert f"the file has {JOBS - 1} of" in answer


def test_an_end_line_in_the_middle_is_rejected(dump, target):
    at = jobs_at(dump)[200]
    answer = load(target, b"".join(dump[:at] + dump[-1:] + dump[at:-1]), code=REFUSED)
    assert "is not a complete export" in answer
    moved = load(target, b"".join(dump) + dump[jobs_at(dump)[3]], code=REFUSED)
    assert "its end line is not the last line" in moved and f"line {len(dump) + 1} follows it" in moved


def test_an_export_without_its_first_line_is_reported(dump, target):
    assert "not the first line of an export" in load(target, b"".join(dump[1:]), code=REFUSED)


def test_an_export_truncated_by_another_is_reported(dump, target):
    half = dump[:len(dump) // 2]
    assert f"another one begins at line {len(half) + 1}" in load(target, b"".join(half + dump), code=REFUSED)


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\n"])
def test_an_empty_file_is_rejected(target, tmp_path, content):
    path = tmp_path / "nothing"
    path.write_bytes(content)
    assert f"'{path}' is empty" in tarry(target, "import", str(path), code=REFUSED)[1]
    assert "is empty" in load(target, content, code=REFUSED)


# ---- who may read it ----


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_an_export_is_readable_only_by_its_owner_with_any_umask(source, tmp_path, umask):
    push_many(source, 3)
    path = tmp_path / "dump"
    ended = subprocess.run([str(BINARY), "export", "--url", source.url, "--output", str(path)], umask=umask, capture_output=True, check=False)
    assert ended.returncode == OK, ended.stderr
    assert mode_of(path) == 0o600


def test_rejected_lines_and_the_state_are_readable_only_by_their_owner(target, tmp_path):
    rejects = tmp_path / "rejects"
    load(target, b'{"topic":"t","id":"a b"}\n', "--rejects", str(rejects), code=REFUSED)
    assert mode_of(rejects) == 0o600 and rejects.read_bytes()


def test_a_continued_export_becomes_readable_only_by_its_owner(source, tmp_path, dump):
    path = tmp_path / "dump"
    path.write_bytes(b"".join(dump[:-1]))
    path.chmod(0o644)
    tarry(source, "export", "--output", str(path), "--resume")
    assert mode_of(path) == 0o600


def test_no_export_goes_through_a_link(source, tmp_path, dump):
    precious, link = tmp_path / "precious", tmp_path / "link"
    link.symlink_to(precious)
    assert "exists" in tarry(source, "export", "--output", str(link), code=REFUSED)[1]
    assert not precious.exists()
    precious.write_bytes(b"".join(dump[:-1]))
    assert "is a symbolic link" in tarry(source, "export", "--output", str(link), "--resume", code=REFUSED)[1]
    assert precious.read_bytes() == b"".join(dump[:-1])
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "does not belong to this user" in tarry(source, "export", "--output", str(fifo), "--resume", code=REFUSED)[1]
