"""Links between pages lead to an existing file and heading, and every page of a folder with an index is listed there."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()]


def headings(page):
    """The anchors of a page, by the rules of the common hosts."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = set()
    for title in re.findall(r"^#+ (.*)$", text, flags=re.M):
        anchor = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        while anchor in found:
            anchor += "-1"
        found.add(anchor)
    return found


def faults(page):
    text = re.sub(r"^( *)(```|~~~).*?^ *\2", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z+]+:", target) or target.startswith("/"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"{page.relative_to(ROOT)}: there is no '{target}'"
        elif anchor and there.suffix == ".md" and anchor not in headings(there):
            yield f"{page.relative_to(ROOT)}: there is no heading '{target}'"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert list(faults(page)) == []


def test_finds_broken_links(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A title, twice\n\n[good](#a-title-twice) [bad](#other) [gone](gone.md) [far](https://example.org/x)\n")
    assert list(faults(page)) == ["page.md: there is no heading '#other'", "page.md: there is no 'gone.md'"]


def test_the_index_lists_every_decision():
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^\| \d+ \| \[.*\]\(([^#)]*)", (folder / "README.md").read_text(encoding="utf-8"), flags=re.M)
    assert list(dict.fromkeys(listed)) == sorted(path.name for path in folder.glob("[0-9]*.md"))
