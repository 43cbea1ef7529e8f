"""docs/security.md: every test that it names as the proof of a measure is there, and every measure has one."""

import re

from server import REPO

PAGE = (REPO / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:clients|e2e|unit|fuzz|package|slim)/[\w/]+\.(?:py|c))(?:: (\w+))?`")


def threats():
    table = PAGE.split("## Threats, measures, tests")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    return [row for row in rows if not row[0].startswith("**")]


def test_every_threat_has_a_measure_and_a_test():
    assert len(threats()) > 30
    for row in threats():
        assert len(row) == 3 and row[1] and NAMED.search(row[2]), row


def test_every_test_that_is_named_is_there():
    named = NAMED.findall(PAGE)
    assert len(named) > 50
    for path, name in named:
        file = REPO / "tests" / path
        assert file.exists(), path
        if name:
            assert re.search(rf"^(?:(?:def|static void) {name}\(|CLAIM\({name}\))", file.read_text(encoding="utf-8"), re.MULTILINE), f"{path}: {name}"


def test_the_policy_points_to_the_page():
    policy = (REPO / "SECURITY.md").read_text(encoding="utf-8")
    assert "docs/security.md" in policy and "## Supported versions" in policy and "## Reporting" in policy
