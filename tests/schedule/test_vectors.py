"""Expressions of other programs' test suites: Cronos and robfig/cron by their rows (vectors.txt), and the rules of OCPS 1.0 to 1.4."""

import collections
import datetime
import pathlib

import pytest
from test_fires import UTC, fires

ROWS = pathlib.Path(__file__).resolve().parent / "vectors.txt"


def epoch(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def text_of(at):
    return datetime.datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def requiring_both(expression):
    """Returns an expression of Cronos, in which a date must match both day fields, as tarry writes it."""
    fields = expression.split()
    if len(fields) not in (5, 6) or fields[-1].startswith(("*", "?")) or fields[-3] in ("*", "?"):
        return expression
    return " ".join([*fields[:-1], "+" + fields[-1]])


@pytest.fixture(scope="module")
def rows():
    """Returns the rows by their kind: (zone, after, fire, expression, other)."""
    found, section = collections.defaultdict(list), ""
    for line in ROWS.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            kind, zone, after, fire, *texts = line.replace("\\t", "\t").split("|")
            if section == "Cronos":
                texts = [requiring_both(text) for text in texts]
            found[kind].append((zone or "UTC", after, fire, *texts))
    return found


def first_fires(rows, policy=""):
    return [found if isinstance(found, str) else text_of(found[0]) for found in fires([f"{zone}|{text}|{epoch(after)}|1{policy}" for zone, after, _, text in rows])]


@pytest.mark.parametrize(("kind", "count", "policy"), [("next", 980, ""), ("skips", 50, "|skip|both")])
def test_next_fires_are_those_of_the_rows(rows, kind, count, policy):
    wrong = [(row, found) for row, found in zip(rows[kind], first_fires(rows[kind], policy)) if found != row[2]]
    assert len(rows[kind]) > count and not wrong, wrong[:5]


@pytest.mark.parametrize("kind", ["not_then", "end_of_gap", "open_step"])
def test_fires_that_differ_by_a_rule_are_not_those_of_the_rows(rows, kind):
    same = [row for row, found in zip(rows[kind], first_fires(rows[kind])) if found == row[2]]
    late = [row for row, found in zip(rows[kind], first_fires(rows[kind])) if found < row[2]]
    assert rows[kind] and not same and not late, (same, late)


def test_a_search_that_starts_at_the_end_of_a_gap_finds_the_fire_there(rows):
    assert rows["at_from"]
    assert first_fires(rows["at_from"]) == [text_of(epoch(after) + 1) for _, after, _, _ in rows["at_from"]]


@pytest.mark.parametrize(("kind", "count"), [("invalid", 300), ("never", 70), ("unsupported", 5)])
def test_expressions_that_are_not_valid_are_rejected(rows, kind, count):
    found = fires([f"UTC|{row[3]}|0|1" for row in rows[kind]])
    accepted = [row[3] for row, have in zip(rows[kind], found) if not isinstance(have, str)]
    named = [have for have in found if kind == "never" and "never fires" not in have]
    assert len(found) > count and not accepted and not named, (accepted, named)


def test_expressions_that_only_tarry_accepts_are_accepted(rows):
    assert rows["accepted"] and not [have for have in fires([f"UTC|{row[3]}|0|1" for row in rows["accepted"]]) if isinstance(have, str)]


@pytest.mark.parametrize(("kind", "is_same"), [("same", True), ("unlike", False)])
def test_normal_forms_fire_at_the_same_times(rows, kind, is_same):
    texts = [text for row in rows[kind] for text in row[3:]]
    found = fires([f"UTC|{text}|1500000000|{2000 if is_same else 5000}" for text in texts])
    wrong = [pair for pair in zip(texts[::2], texts[1::2], found[::2], found[1::2]) if (pair[2] == pair[3]) != is_same]
    assert texts and not [have for have in found if isinstance(have, str) and "never fires" not in have] and not wrong, [pair[:2] for pair in wrong]


# ---- the rules of the Open Cron Pattern Specification ----

ALWAYS = "2023-01-01T00:00:00Z"
OCPS_NEXT = [  # expression, the fires after the start of 2023 (a Sunday)
    ("1.0 blanks at the ends, several blanks, tabs", "  0  0\t*   * \t* ", ["2023-01-02T00:00:00Z"]),
    ("1.0 lists", "0,15,30,45 * * * *", ["2023-01-01T00:15:00Z", "2023-01-01T00:30:00Z", "2023-01-01T00:45:00Z", "2023-01-01T01:00:00Z"]),
    ("1.0 ranges", "0 9-17 * * *", ["2023-01-01T09:00:00Z", "2023-01-01T10:00:00Z"]),
    ("1.0 a step in a range starts at its first value", "0 1-20/5 * * *", [f"2023-01-01T{hour:02}:00:00Z" for hour in (1, 6, 11, 16)]),
    ("1.0 a range in a list", "0 1-3,10-12 * * *", [f"2023-01-01T{hour:02}:00:00Z" for hour in (1, 2, 3, 10, 11, 12)]),
    ("1.0 months by name in any case", "0 0 1 jan,DEC *", ["2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z"]),
    ("1.0 weekdays by name in any case", "0 0 * * sun,SAT", ["2023-01-07T00:00:00Z", "2023-01-08T00:00:00Z"]),
    ("1.0 0 and 7 are Sunday", "0 0 * * 7", ["2023-01-08T00:00:00Z"]),
    ("1.0 either day field", "0 12 3 * MON", ["2023-01-02T12:00:00Z", "2023-01-03T12:00:00Z", "2023-01-09T12:00:00Z"]),
    ("1.1 @yearly", " @Yearly ", ["2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"]),
    ("1.1 @monthly", "@monthly", ["2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z"]),
    ("1.1 @weekly", "@weekly", ["2023-01-08T00:00:00Z", "2023-01-15T00:00:00Z"]),
    ("1.1 @hourly", "@HOURLY", ["2023-01-01T01:00:00Z", "2023-01-01T02:00:00Z"]),
    ("1.2 seconds first", "30 0 0 * * *", ["2023-01-01T00:00:30Z"]),
    ("1.2 ranges, lists and steps of seconds", "0-1,58/1 * * * * *", ["2023-01-01T00:00:01Z", "2023-01-01T00:00:58Z", "2023-01-01T00:00:59Z"]),
    ("1.2 a year", "0 0 0 1 1 * 2031", ["2031-01-01T00:00:00Z"]),
    ("1.2 steps of years", "0 0 0 1 1 * 2025-2031/2", [f"{year}-01-01T00:00:00Z" for year in (2025, 2027, 2029, 2031)]),
    ("1.2 lists of years", "0 0 0 1 1 * 2025,2027", ["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
    ("1.2 any year", "0 0 0 2 1 * *", ["2023-01-02T00:00:00Z", "2024-01-02T00:00:00Z"]),
    ("1.3 L", "0 0 L 2 *", ["2023-02-28T00:00:00Z", "2024-02-29T00:00:00Z"]),
    ("1.3 #L", "0 0 * * FRI#L", ["2023-01-27T00:00:00Z", "2023-02-24T00:00:00Z"]),
    ("1.3 #", "0 0 * * TUE#2", ["2023-01-10T00:00:00Z", "2023-02-14T00:00:00Z"]),
    ("1.3 a fifth", "0 0 * * MON#5", ["2023-01-30T00:00:00Z", "2023-05-29T00:00:00Z"]),
    ("1.3 W on a Saturday", "0 12 18W 3 *", ["2023-03-17T12:00:00Z"]),
    ("1.3 W stays in its month", "0 12 1W 4,10 *", ["2023-04-03T12:00:00Z", "2023-10-02T12:00:00Z"]),
    ("1.3 W at the end of a month", "0 12 31W 12 *", ["2023-12-29T12:00:00Z"]),
    ("1.3 L in both day fields", "0 0 L 2 FRI#L", ["2023-02-24T00:00:00Z", "2023-02-28T00:00:00Z"]),
    ("1.4 + requires both", "0 12 1 * +MON", ["2023-05-01T12:00:00Z", "2024-01-01T12:00:00Z"]),
    ("1.4 + with a range", "0 12 1 * +MON-FRI", ["2023-02-01T12:00:00Z", "2023-03-01T12:00:00Z", "2023-05-01T12:00:00Z"]),
    ("1.4 + with #", "0 12 1 * +MON#1", ["2023-05-01T12:00:00Z", "2024-01-01T12:00:00Z"]),
    ("1.4 + with a year", "0 0 12 15 * +FRI 2024", ["2024-03-15T12:00:00Z", "2024-11-15T12:00:00Z"]),
]
OCPS_INVALID = ["60 * * * *", "0 24 * * *", "0 0 32 * *", "0 0 1 13 *", "0 0 * * 8", "0 */0 * * *", "/30 * * * *", "0 0 * *", "0 0 * * $", "@reboot", "@unknown", "@hourly 0 * * *",
                "0 12 10-15W * *", "0 +12 * * *", "0 12 1 * +", "0 12 +1 * MON", "0 0 0 1 1 * 0", "0 0 0 1 1 * 10000"]
# Where tarry leaves the specification, as docs/schedules.md documents.
OCPS_DIFFERS = [
    ("1.0 a range may wrap around", "0 22-2 * * *", True),
    ("1.0 a step may follow a value", "5/20 * * * *", True),
    ("1.0 a date that does not exist is rejected, not silent", "0 0 31 2 *", False),
    ("1.2 years outside of 1970 to 2399", "0 0 0 1 1 * 9999", False),
]


@pytest.mark.parametrize(("rule", "expression", "expected"), OCPS_NEXT, ids=[row[0] for row in OCPS_NEXT])
def test_rules_of_ocps_hold(rule, expression, expected):
    assert [text_of(at) for at in fires([f"UTC|{expression}|{epoch(ALWAYS)}|{len(expected)}"])[0]] == expected, rule


def test_daylight_saving_of_ocps_is_a_choice_of_gap_and_fold():
    gap = f"America/New_York|0 30 2 12 3 *|{epoch('2023-03-01T00:00:00Z')}|1|skip"
    fold = f"America/New_York|0 30 1 5 11 *|{epoch('2023-11-01T00:00:00Z')}|2"
    assert [text_of(found[0]) for found in fires([gap, fold])] == ["2024-03-12T06:30:00Z", "2023-11-05T05:30:00Z"]
    assert text_of(fires([fold])[0][1]) == "2024-11-05T06:30:00Z"


def test_expressions_outside_of_ocps_are_rejected():
    assert not [text for text, have in zip(OCPS_INVALID, fires([f"UTC|{text}|0|1" for text in OCPS_INVALID])) if not isinstance(have, str)]


@pytest.mark.parametrize(("rule", "expression", "is_valid"), OCPS_DIFFERS, ids=[row[0] for row in OCPS_DIFFERS])
def test_differences_from_ocps_are_those_of_the_page(rule, expression, is_valid):
    assert isinstance(fires([f"UTC|{expression}|{epoch(ALWAYS)}|1"])[0], list) == is_valid, rule
