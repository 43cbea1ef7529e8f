"""Expressions by the rules of the Open Cron Pattern Specification (OCPS), 1.0 to 1.4."""

import datetime

import pytest
from test_fires import UTC, fires


def epoch(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def text_of(at):
    return datetime.datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
