"""Fires of schedules, compared with four oracles: Python's zoneinfo, a search by every minute, the calendar, and croniter.

TARRY_TEST_SEED repeats a run; TARRY_TEST_ROUNDS multiplies its length (default: 1).
"""
import calendar
import datetime
import os
import pathlib
import random
import subprocess
import sys
import zoneinfo

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import oracle  # noqa: E402
import pytest

croniter = pytest.importorskip("croniter", reason="needs python3-croniter").croniter

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
FIRES = os.environ.get("TARRY_TEST_FIRES", str(TREE / "build-asan" / "tests" / "fires"))
ZONES = "/usr/share/zoneinfo"
ROUNDS = int(os.environ.get("TARRY_TEST_ROUNDS", "1"))
UTC = datetime.timezone.utc
MINUTE, DAY = 60, 86400


@pytest.fixture
def chance(request):
    seed = int(os.environ.get("TARRY_TEST_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"{request.node.name}: TARRY_TEST_SEED={seed}")
    return random.Random(seed)


def fires(lines):
    """Returns the fires of each line ZONE|EXPRESSION|AFTER|COUNT, or its error."""
    done = subprocess.run([FIRES, ZONES], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    out = [line if line.startswith("error:") else [int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(out) == len(lines)
    return out


def names():
    """Returns the zones that both sides can read: not the ones with leap seconds."""
    return sorted(name for name in zoneinfo.available_timezones() if name != "localtime" and (pathlib.Path(ZONES) / name).is_file())


def epoch(year, month=1, day=1):
    return int(datetime.datetime(year, month, day, tzinfo=UTC).timestamp())


def offset(zone, at):
    return int(datetime.datetime.fromtimestamp(at, zone).utcoffset().total_seconds())


def changes(zone, start, end):
    """Returns the moments at which the offset changes, by halving."""
    found, step = [], 6 * 3600
    for at in range(start, end, step):
        low, high = at, min(at + step, end)
        if offset(zone, low) == offset(zone, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if offset(zone, middle) == offset(zone, low):
                low = middle
            else:
                high = middle
        found.append(high)
    return found


def test_offsets_are_those_of_zoneinfo(chance):
    cases = [(name, at) for name in names() for at in (chance.randrange(epoch(1970), epoch(2100)) for _ in range(200 * ROUNDS))]
    got = fires([f"{name}|offset|{at}|1" for name, at in cases])
    wrong = [(name, at, have) for (name, at), have in zip(cases, got) if have != [offset(zoneinfo.ZoneInfo(name), at)]]
    assert len(cases) > 100_000 and not wrong, wrong[:5]


def test_offsets_change_at_the_second_of_zoneinfo():
    cases = []
    for name in names():
        for at in changes(zoneinfo.ZoneInfo(name), epoch(2025), epoch(2028)):
            cases += [(name, at - 1), (name, at)]
    got = fires([f"{name}|offset|{at}|1" for name, at in cases])
    wrong = [(name, at, have) for (name, at), have in zip(cases, got) if have != [offset(zoneinfo.ZoneInfo(name), at)]]
    assert len(cases) > 500 and not wrong, wrong[:5]


# ---- daylight saving, against a search by every minute ----


def test_daylight_saving_is_that_of_a_search_by_every_minute(chance):
    lines, expected = [], []
    for name in names():
        zone = zoneinfo.ZoneInfo(name)
        for at in changes(zone, epoch(2026), epoch(2027)):
            if at % MINUTE:
                continue
            for _ in range(ROUNDS):
                local = at + offset(zone, at - 1)
                hours = sorted({(local // 3600 + chance.randrange(-2, 3)) % 24 for _ in range(chance.randrange(1, 3))})
                minutes = sorted({chance.randrange(0, 60, 5) for _ in range(chance.randrange(1, 3))})
                is_interval = chance.random() < 0.3
                gap, fold = chance.choice(["after", "skip"]), chance.choice(["first", "last", "both"])
                if is_interval:
                    step = chance.choice([5, 10, 15, 20, 30])
                    minutes, text = list(range(0, 60, step)), f"*/{step} {','.join(map(str, hours))} * * *"
                else:
                    text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
                start, end = at - DAY, at + DAY
                lines.append(f"{name}|{text}|{start}|200|{gap}|{fold}")
                expected.append(oracle.fires(name, minutes, hours, None, is_interval, gap, fold, start, end))
    got = fires(lines)
    wrong = []
    for line, want, have in zip(lines, expected, got):
        end = int(line.split("|")[2]) + 2 * DAY
        if isinstance(have, str) or [at for at in have if at < end] != want:
            wrong.append((line, want, have))
    assert len(lines) > 200 and not wrong, wrong[:3]


# ---- expressions, against croniter ----


def element(chance, low, high, names_of=None):
    def value(at):
        return names_of[at - low] if names_of and chance.random() < 0.3 else str(at)

    kind = chance.random()
    if kind < 0.5:
        return value(chance.randint(low, high))
    first = chance.randint(low, high - 1)
    last = chance.randint(first + 1, high)
    if kind < 0.75:
        return f"{value(first)}-{value(last)}"
    return f"{first}-{last}/{chance.randint(1, max(1, last - first))}"


def field(chance, low, high, names_of=None, star=0.4, steps=True):
    if chance.random() < star:
        return "*"
    if steps and chance.random() < 0.25:
        return f"*/{chance.randint(1, high - 1)}"
    return ",".join(element(chance, low, high, names_of) for _ in range(chance.choice([1, 1, 1, 2, 3])))


MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()


def expression(chance):
    """Returns an expression of ours, and the same as croniter writes it.

    Left out because the rules differ, as docs/schedules.md documents: */n in a day field beside the other one (croniter
    counts it as restricted), `2#5` and `5L` beside a day of the month (croniter ignores that day), ranges that wrap around, W, and lists
    with a day after the 28th (croniter 1.3.5 misses 1 March for `6,31,1`).
    """
    minute, hour = field(chance, 0, 59), field(chance, 0, 23)
    day, weekday = "*", "*"
    if chance.random() < 0.4:
        day = "L" if chance.random() < 0.15 else field(chance, 1, 31, star=0, steps=False)
        if "," in day:
            day = ",".join(element(chance, 1, 28) for _ in range(2))
    if chance.random() < 0.4:
        kind = chance.random()
        if kind < 0.15 and day == "*":
            weekday = f"{chance.randint(0, 6)}#{chance.randint(1, 5)}"
        elif kind < 0.25 and day == "*":
            weekday = f"{chance.randint(0, 6)}L"
        else:
            weekday = field(chance, 0, 6, WEEKDAYS, star=0, steps=False)
    month = field(chance, 1, 12, MONTHS, star=0.6)
    five = f"{minute} {hour} {day} {month} {weekday}"
    theirs = f"{minute} {hour} {day.replace('L', 'l')} {month} {'l' + weekday[0] if weekday.endswith('L') else weekday}"
    if chance.random() < 0.3:
        second = field(chance, 0, 59, star=0.2)
        return f"{second} {five}", f"{theirs} {second}"
    return five, theirs


def test_expressions_fire_as_in_croniter(chance):
    cases = []
    while len(cases) < 4000 * ROUNDS:
        ours, theirs = expression(chance)
        start = chance.randrange(epoch(1990), epoch(2060))
        if any(part != "*" and read == ["*"] for part, read in zip(theirs.split(), croniter.expand(theirs)[0])):
            continue  # croniter replaces a list of all values by *, which changes the rule of the two days
        try:
            there = croniter(theirs, datetime.datetime.fromtimestamp(start, UTC), max_years_between_matches=5)
            want = [int(there.get_next(float)) for _ in range(4)]
        except Exception as error:  # no date within five years: not compared
            if "failed to find next date" in str(error).lower():
                continue
            raise AssertionError((theirs, error))
        cases.append((ours, start, want))
    got = fires([f"UTC|{ours}|{start}|4" for ours, start, _ in cases])
    wrong = [(ours, start, want, have) for (ours, start, want), have in zip(cases, got) if have != want]
    assert not wrong, (len(wrong), wrong[:5])


# ---- days that croniter does not know, or counts otherwise, against the calendar ----


def special_day(chance):
    """Returns a day field, and a function that returns its day in a month (None: no such day). L-n before the first and 31W in a short month do not exist."""
    kind, n = chance.choice(["L", "L-", "W", "LW"]), chance.randint(1, 30)

    def nearest_weekday(year, month, day, last):
        weekday = datetime.date(year, month, day).weekday()
        if weekday == 5:
            return day - 1 if day > 1 else day + 2
        return day if weekday < 5 else (day + 1 if day < last else day - 2)

    if kind == "L":
        return "L", lambda year, month, last: last
    if kind == "L-":
        return f"L-{n}", lambda year, month, last: last - n if n < last else None
    if kind == "W":
        return f"{n + 1}W", lambda year, month, last: nearest_weekday(year, month, n + 1, last) if n + 1 <= last else None
    return "LW", lambda year, month, last: nearest_weekday(year, month, last, last)


def special_weekday(chance):
    """Returns a weekday field, and a function that returns its day in a month."""
    weekday, n = chance.randint(0, 6), chance.randint(1, 5)

    def days(year, month, last):
        return [day for day in range(1, last + 1) if datetime.date(year, month, day).isoweekday() % 7 == weekday]

    if chance.random() < 0.5:
        return f"{weekday}L", lambda year, month, last: days(year, month, last)[-1]
    return f"{weekday}#{n}", lambda year, month, last: (days(year, month, last) + [None] * 5)[n - 1]


def test_days_near_weekdays_and_ends_of_months_are_those_of_the_calendar(chance):
    cases = []
    for _ in range(2000 * ROUNDS):
        picks = [("*", None), ("*", None)]
        if chance.random() < 0.7:
            picks[0] = special_day(chance)
        if picks[0][1] is None or chance.random() < 0.3:
            picks[1] = special_weekday(chance)
        start = datetime.datetime.fromtimestamp(chance.randrange(epoch(1990), epoch(2060)), UTC)
        want, year, month = [], start.year, start.month
        while len(want) < 6:
            last = calendar.monthrange(year, month)[1]
            days = {pick(year, month, last) for _, pick in picks if pick} - {None}
            moments = [datetime.datetime(year, month, day, 9, 30, tzinfo=UTC) for day in sorted(days)]
            want += [int(moment.timestamp()) for moment in moments if moment > start]
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        cases.append((f"30 9 {picks[0][0]} * {picks[1][0]}", int(start.timestamp()), want[:6]))
    got = fires([f"UTC|{ours}|{start}|6" for ours, start, _ in cases])
    wrong = [(ours, start, want, have) for (ours, start, want), have in zip(cases, got) if have != want]
    assert not wrong, (len(wrong), wrong[:5])


def test_both_oracles_of_the_system_test_agree(chance):
    """The search by every minute and the one by days share only the rules; the tests of servers use the quick one."""
    for zone in ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "Asia/Beirut", "Antarctica/Troll", "Asia/Kolkata"]:
        for _ in range(6 * ROUNDS):
            start = epoch(2026, chance.choice([3, 4, 9, 10]), chance.randint(1, 20)) + chance.randrange(DAY)
            start -= start % MINUTE
            weekdays = frozenset(chance.sample(range(7), 3)) if chance.random() < 0.3 else None
            arguments = (zone, frozenset(chance.sample(range(60), 3)), frozenset(chance.sample(range(24), 4)), weekdays, chance.random() < 0.4,
                         chance.choice(["after", "skip"]), chance.choice(["first", "last", "both"]), start, start + 40 * DAY)
            assert oracle.fires(*arguments) == oracle.fires_by_days(*arguments), arguments
