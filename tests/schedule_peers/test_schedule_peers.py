"""Random expressions fire at the same times in tarry and in three other libraries: cronsim (Python), croner and cron-parser (JavaScript).

TARRY_TEST_ROUNDS=25 compares 100,000 expressions with each; TARRY_TEST_SEED repeats a run. The libraries are stored in build-schedule-peers/.
"""

import datetime
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "schedule"), str(TREE / "bench")]
from figures import packages  # noqa: E402
from test_fires import ROUNDS, UTC, chance, epoch, expression, fires  # noqa: E402, F401

BUILD = TREE / "build-schedule-peers"
CRONSIM = "cronsim==2.8"


def by_cronsim(cases):
    sys.path.insert(0, str(packages.fetched(BUILD / "cronsim", CRONSIM, lambda here: packages.run(sys.executable, "-m", "pip", "install", "-q", "--target", here, CRONSIM))))
    from cronsim import CronSim

    def next_of(text, start):
        try:
            found = CronSim(text, datetime.datetime.fromtimestamp(start, UTC))
            return [int(next(found).timestamp()) for _ in range(4)]
        except Exception as error:
            return f"error: {error}"

    return [next_of(text, start) for text, start in cases]


def by_node(library, cases):
    modules = packages.npm(BUILD / "node", HERE / "package.json")
    done = subprocess.run(["node", HERE / "next.mjs", library], input="\n".join(f"{text}|{start}" for text, start in cases), capture_output=True, text=True, check=True,
                          env={**os.environ, "MODULES": str(modules)})
    return [line if line.startswith("error") else [int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("library", ["cronsim", "croner", "cron-parser"])
def test_expressions_fire_as_in_the_library(chance, library):  # noqa: F811
    cases = [(expression(chance)[0], chance.randrange(epoch(1990), epoch(2060))) for _ in range(4000 * ROUNDS)]
    theirs = by_cronsim(cases) if library == "cronsim" else by_node(library, cases)
    ours = fires([f"UTC|{text}|{start}|4" for text, start in cases])
    compared = [(case, want, have) for case, want, have in zip(cases, theirs, ours) if "duplicate values" not in str(want)]  # cron-parser rejects 1,0-3
    never = [row for row in compared if "never fires" in row[2] and (not row[1] or "error" in row[1])]  # they find nothing, or reject it too
    wrong = [row for row in compared if row[1] != row[2] and row not in never]
    print(f"{len(compared)} expressions, {len(never)} of them without a date, {len(cases) - len(compared)} not valid there")
    assert len(theirs) == len(cases) and len(compared) > len(cases) / 2 and len(never) < len(cases) / 100 and not wrong, (len(wrong), wrong[:8])
