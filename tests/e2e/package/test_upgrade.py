"""Directories of a newer format are refused with a sentence that helps."""

import re

import pytest
from server import REPO, StartFailed

FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
REFUSAL = "data directory '{}' has format {} and this version reads up to {}; use the version that wrote it, or a newer one"


def test_rejects_a_newer_format_with_advice(start_server):
    server = start_server(*FLAGS)
    server.terminate()
    manifest = server.data / "MANIFEST"
    before = manifest.read_text()
    manifest.write_text(before.replace("format=1", "format=2"))
    with pytest.raises(StartFailed) as failed:
        server.start()
    assert REFUSAL.format(server.data, 2, 1) in str(failed.value)
    checked = server.fsck()
    assert checked.returncode == 1 and REFUSAL.format(server.data, 2, 1) in checked.stderr
    manifest.write_text(before)
    server.start()


def test_the_page_documents_the_format_that_a_server_writes(start_server):
    page = (REPO / "docs" / "operations" / "upgrade.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"This version reads and writes format (\d+)", page)
    (written,) = re.findall(r"\bformat=(\d+)", (start_server(*FLAGS).data / "MANIFEST").read_text())
    assert documented == written
