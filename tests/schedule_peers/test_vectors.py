"""The test rows of other libraries hold in tarry, but for the differences that docs/schedules.md names: robfig/cron (Go) and croner (Rust), read from
their packages, and Cronos (C#) and croner (JavaScript), whose packages have no tests: TARRY_TEST_CRONOS names the file CronExpressionFacts.cs,
TARRY_TEST_OCPS the folder `test` of croner, with the suites of OCPS 1.0 to 1.4.

No row is stored here. The packages are stored in build-schedule-peers/.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import zoneinfo

import pytest
from test_schedule_peers import BUILD, HERE, UTC, fires, packages
from test_fires import FIRES

ROBFIG, CRONER = "github.com/robfig/cron/v3@v3.0.1", "4.0.3"


def seconds(moment):
    return int(moment.timestamp())


def with_both(text):
    """A library that requires both day fields: tarry does so after a plus."""
    fields = text.split()
    if len(fields) in (5, 6) and not (fields[-3][0] in "*?" or fields[-1][0] in "*?+"):
        fields[-1] = "+" + fields[-1]
    return " ".join(fields)


def compare(rows, explain):
    """Compares rows (zone, expression, start, expected or None, further options) with tarry. Each difference must have an explanation. Returns the number of those by explanation."""
    have = fires([f"{zone}|{text}|{start}|1|{more}" for zone, text, start, _, more in rows])
    wrong, explained = [], {}
    for row, found in zip(rows, have):
        first = None if isinstance(found, str) or not found else found[0]
        if first == row[3]:
            continue
        reason = explain(row, first, found)
        if reason:
            explained[reason] = explained.get(reason, 0) + 1
        else:
            wrong.append((row, found, row[3] and datetime.datetime.fromtimestamp(row[3], UTC).isoformat()))
    assert not wrong, (len(wrong), wrong[:20])
    return explained


def gap_end(zone, at):
    """Returns whether a gap of daylight saving ends at this moment."""
    offset = lambda moment: datetime.datetime.fromtimestamp(moment, zoneinfo.ZoneInfo(zone)).utcoffset()
    return offset(at) > offset(at - 1)


# ---- robfig/cron ----


def robfig_text():
    folder = packages.fetched(BUILD / "robfig", ROBFIG, lambda here: packages.run("go", "mod", "init", "rows", cwd=here))
    done = subprocess.run(["go", "mod", "download", "-json", ROBFIG], cwd=folder, capture_output=True, text=True, check=True)
    return (pathlib.Path(json.loads(done.stdout)["Dir"]) / "spec_test.go").read_text()


def moment_of(text):
    """Returns a time of the rows, and its zone if it names one."""
    zone, match = "UTC", re.match(r"TZ=(\S+) (.*)", text)
    if match:
        zone, text = match.groups()
    for layout in ("%a %b %d %H:%M %Y", "%a %b %d %H:%M:%S %Y"):
        try:
            return seconds(datetime.datetime.strptime(text, layout).replace(tzinfo=UTC)), zone
        except ValueError:
            pass
    return seconds(datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")), zone


def test_rows_of_robfig_hold():
    text = robfig_text()
    rows = []
    for start, expression, expected in re.findall(r'\{"([^"]+)", "([^"]+)", "([^"]*)"\}', text):
        (at, zone), match = moment_of(start), re.match(r"(?:CRON_)?TZ=(\S+) (.*)", expression)
        if match:
            zone, expression = match.groups()
        elif zone == "UTC" and re.search(r"[+-]\d{4}$", start):
            zone = f"Etc/GMT{-int(start[-5:-2]):+d}" if start.endswith("00") else "Asia/Kolkata"
        rows.append((zone, expression, at, moment_of(expected)[0] if expected else None, "skip|both"))
    does_not_restrict = lambda text: re.search(r"\*/\d+ \S+ [A-Z]", text)  # a step from *
    explained = compare(rows, lambda row, first, found: "a step from * does not restrict a day" if does_not_restrict(row[1]) else None)
    points = [(moment_of(at)[0], expression, is_it == "true") for at, expression, is_it in re.findall(r'\{"([^"]+)", "([^"]+)", (true|false)\}', text)]
    different = [point for point, have in zip(points, fires([f"UTC|{expression}|{at - 1}|1" for at, expression, _ in points])) if (have == [point[0]]) != point[2]]
    wrong = [point for point in different if not does_not_restrict(point[1])]
    assert explained == {"a step from * does not restrict a day": 1}, explained  # 0 0 0 */5 Apr,Aug,Oct Mon
    assert [point[1] for point in different if does_not_restrict(point[1])] == ["* * */10 * Sun"], different
    errors = re.findall(r'"([^"]+)"', text.partition("invalidSpecs := ")[2].partition("}")[0])
    accepted = [text for text, have in zip(errors, fires([f"UTC|{text}|0|1" for text in errors])) if isinstance(have, list)]
    print(f"{len(rows)} next fires, {len(points)} points, {len(errors)} errors; different: {explained}")
    assert len(rows) > 60 and len(points) > 25 and len(errors) > 3 and not wrong and not accepted, (wrong, accepted)


# ---- croner ----


def croner_text():
    def fetch(here):
        packages.run("cargo", "init", "-q", "--name", "rows", "--vcs", "none", cwd=here)
        packages.run("cargo", "add", "-q", f"croner@={CRONER}", cwd=here)
        packages.run("cargo", "vendor", "-q", "vendor", cwd=here)

    return (packages.fetched(BUILD / "croner", CRONER, fetch) / "vendor/croner/tests/ocps.rs").read_text()


def test_rows_of_croner_for_ocps_hold():
    points, valid, invalid = [], set(), set()
    for body in re.split(r"#\[test\]", croner_text())[1:]:
        if "sloppy" in body.partition("(")[0] or "reboot" in body:
            continue  # a setting of croner; not offered
        times = {name: [int(part) for part in numbers.split(",")] for name, numbers in re.findall(r"let (\w+) = Local\s*\.with_ymd_and_hms\(([^)]+)\)", body)}
        crons = list(re.finditer(r'(?:from_str|parse)\("([^"]+)"(?:, (true|false))?\)', body))
        for match in re.finditer(r"(!?)\s*cron\.is_time_matching\(&(\w+)\)", body):
            before = [one for one in crons if one.start() < match.start()]
            if before and match[2] in times:
                expression, needs_both = before[-1][1], before[-1][2] == "true"
                at = seconds(datetime.datetime(*times[match[2]], tzinfo=UTC))
                points.append((at, with_both(expression) if needs_both else expression, not match[1]))
        valid |= set(re.findall(r'from_str\("([^"]+)"\)\s*\.(?:is_ok|unwrap|expect)', body))
        invalid |= set(re.findall(r'let result = \w+\("([^"]+)"', body)) | set(re.findall(r'let result = Cron::from_str\("([^"]+)"', body))
    wrong = [point for point, have in zip(points, fires([f"UTC|{text}|{at - 1}|1" for at, text, _ in points])) if (have == [point[0]]) != point[2]]
    rejected = [text for text, have in zip(sorted(valid), fires([f"UTC|{text}|0|1" for text in sorted(valid)])) if isinstance(have, str)]
    accepted = [text for text, have in zip(sorted(invalid), fires([f"UTC|{text}|0|1" for text in sorted(invalid)])) if isinstance(have, list)]
    steps = [text for text in accepted if re.search(r"(?:^| )\d+/\d+", text)]  # a step may follow a single value
    print(f"{len(points)} points, {len(valid)} valid, {len(invalid)} invalid; different: {len(steps)} with a step after a value")
    assert len(points) > 20 and len(valid) > 5 and len(invalid) > 5 and not wrong and not rejected and accepted == steps, (wrong, rejected, accepted)


# ---- the suites of croner (JavaScript) ----

OCPS = os.environ.get("TARRY_TEST_OCPS")
OCPS_DIFFERS = {  # by the rule of docs/schedules.md
    "ranges may wrap around": ["1.0: Should reject invalid range (start > end)"],
    "a date that does not exist is rejected": ["1.0: Should accept impossible date combinations without parsing error", "1.4: Pattern that never matches should return null"],
    "years are 1970 to 2399": ["1.2: Year field boundary - year 1 should be supported", "1.2: Year field boundary - year 9999 should be supported", "1.2: Very distant future year should work",
                               "1.4: Years 1-9999 should be supported", "1.4: Year search should not infinite loop"],
    "a fixed time in a gap fires after it, or not at all; croner adds the hour": ["1.4: DST Gap (Spring Forward) - job should be skipped"],
}


@pytest.mark.skipif(not OCPS, reason="TARRY_TEST_OCPS names no folder")
def test_suites_of_croner_for_ocps_hold():
    done = subprocess.run(["node", HERE / "ocps.mjs", OCPS, FIRES, "/usr/share/zoneinfo"], capture_output=True, text=True, check=True, timeout=300, env={**os.environ, "TZ": "UTC"})
    cases = [line.split("\t") for line in done.stdout.splitlines()]
    failed = {name.removeprefix("OCPS "): error for name, error in cases if error}
    print(f"{len(cases)} cases; different: {sorted(failed)}")
    assert len(cases) >= 82 and failed.keys() == {name for names in OCPS_DIFFERS.values() for name in names}, failed


# ---- Cronos ----

CRONOS = os.environ.get("TARRY_TEST_CRONOS")
ZONES = {"EasternTimeZone": "America/New_York", "JordanTimeZone": "Asia/Amman", "LordHoweTimeZone": "Australia/Lord_Howe", "PacificTimeZone": "America/Santiago", "TimeZoneInfo.Utc": "UTC"}


def cronos_moment(text, zone):
    """Returns a time in seconds, rounded up, and whether it is a whole second."""
    text = text.strip()
    match = re.fullmatch(r"(?:(\d{4}-\d\d-\d\d) ?)?(\d\d:\d\d)?(:\d\d)?(\.\d+)? ?([+-]\d\d:\d\d)?", text)
    day, minute, second, fraction, offset = match.groups()
    local = datetime.datetime.fromisoformat(f"{day or '2016-12-09'}T{minute or '00:00'}{second or ':00'}{offset or ''}")
    at = seconds(local if offset else standard(local, zone))
    return (at, True) if not fraction or not int(fraction[1:]) else (at + 1, False)


def standard(local, zone):
    """Returns a local time; of two the one in standard time, as .NET does."""
    return min((local.replace(tzinfo=zoneinfo.ZoneInfo(zone), fold=fold) for fold in (0, 1)), key=lambda moment: moment.utcoffset())


def cronos_rows(text):
    """Returns the rows of next fires."""
    rows, arguments = [], []
    for part in re.split(r"^        \[(?:Theory|Fact)\]", text, flags=re.M):
        head, is_there, body = part.partition("public void GetNextOccurrence")
        if not is_there:
            continue
        zone = next((ZONES[word] for word in ZONES if word in body), "UTC")
        for arguments in re.findall(r"^\s*\[InlineData\((.*)\)\]", head, re.M):
            strings, words = re.findall(r'"([^"]*)"', arguments), re.sub(r'"[^"]*"', "", arguments)
            if re.search(r"\d", words) or not strings or re.search(r"(?<![T])H(?!OUR)", strings[0]):
                continue  # a hash
            if len(strings) == 3:
                start, is_whole = cronos_moment(strings[1], zone)
                includes = "true" in words if "," in words.strip(", ") or "e" in words else "inclusive: true" in body
                rows.append((zone, cronos_expression(strings[0]), start - (1 if includes or not is_whole else 0), cronos_moment(strings[2], zone)[0], "|"))
            elif len(strings) == 2 and body.startswith("_ReturnsNull"):
                rows.append((zone, cronos_expression(strings[0]), cronos_moment(strings[1], zone)[0], None, "|"))
    return rows


def cronos_expression(text):
    text = text.strip()
    return text if text.startswith("@") else with_both(text)


def explain_cronos(row, first, found):
    """Returns the rule of docs/schedules.md by which a row differs."""
    zone, text, start, expected, _ = row
    if isinstance(found, str):
        return "words of Cronos" if text.lower().startswith("@every") else "? only in day fields" if text.startswith("?") else None
    if expected and gap_end(zone, expected) and re.search(r"[*/-]", " ".join(text.split()[:-3])) and (first is None or first > expected):
        return "an interval does not fire at the end of a gap"
    return "the start is the fire that a gap moved" if first == start + 1 and gap_end(zone, first) else None


@pytest.mark.skipif(not CRONOS, reason="TARRY_TEST_CRONOS names no file")
def test_rows_of_cronos_hold():
    text = pathlib.Path(CRONOS).read_text(encoding="utf-8-sig")
    rows = [row for row in cronos_rows(text) if row[2] >= 0]  # after 1970
    explained = compare(rows, explain_cronos)
    table = text.partition("WhenAbleToParse")[0].partition("Second field is invalid")[2].partition("public void Parse_ThrowsCronFormatException")[0]
    invalid = [(one.strip(), form) for one, form in re.findall(r'^\s*\[InlineData\("([^"]*)"\s*, CronFormat\.(\w+)', table, re.M)]
    offered = lambda one: len(one.split()) == 7 or re.search(r"\d,\d+W", one, re.I)  # years; W in a list
    accepted = [one for (one, _), have in zip(invalid, fires([f"UTC|{one}|0|1" for one, _ in invalid])) if isinstance(have, list) and not offered(one)]
    print(f"{len(rows)} next fires, {len(invalid)} invalid; different: {explained}")
    assert len(rows) > 1100 and len(invalid) > 320 and not accepted, accepted
