#!/usr/bin/env python3
"""Push and wait, and batches, next to BullMQ and Celery on one Redis that writes no files: rounds in turn, medians, ratios.

    bench/batches/run.py [--rounds 5] [--waits 300] [--batches 100] [--members 100] [--chords 10] [--only wait|waits|batches]

Needs a release build of tarry (TARRY_BIN), the client for Node (npm run build), node_modules of package.json (MODULES: their folder), and a Python with Celery
(CELERY: its python3; without it Celery is left out). With --embedded tarry keeps its jobs itself, synced before each answer.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from figures.beside import Round  # noqa: E402

MODULES = os.environ.get("MODULES", str(HERE))
CELERY = os.environ.get("CELERY")


def drive(system, words, is_embedded):
    with Round(system, is_embedded=is_embedded) as one:
        command = [CELERY, HERE / "chords.py"] if system == "celery" else ["node", HERE / "drive.mjs", system]
        words = [*command, one.port if system == "tarry" else one.store_port, *words]
        done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True, env={**os.environ, "MODULES": MODULES}, timeout=900, check=True)
    return json.loads(done.stdout)


def compare(title, figure, words, rounds, is_embedded, is_time):
    systems = ["tarry", "bullmq"] + (["celery"] if CELERY else [])
    found = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            found[system].append(drive(system, words[system], is_embedded))
    print(f"{title}:")
    for system in systems:
        values = [one[figure] for one in found[system]]
        ratios = [own[figure] / other[figure] for own, other in zip(found["tarry"], found[system])]
        print(f"  {system:7} {figure} median {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}); "
              f"tarry {'takes' if is_time else 'makes'} {statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f}); {system}: {json.dumps(found[system][-1])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("rounds", 5), ("waits", 300), ("batches", 100), ("members", 100), ("chords", 10)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--only", choices=("wait", "waits", "batches"))
    parser.add_argument("--embedded", action="store_true")
    given = parser.parse_args()
    both = ("tarry", "bullmq", "celery")
    if given.only in (None, "wait"):
        compare("push and wait, one at a time", "p50_ms", dict.fromkeys(both, ["wait", given.waits, 1]), given.rounds, given.embedded, True)
    if given.only in (None, "waits"):
        compare("push and wait, 100 clients", "per_s", dict.fromkeys(both, ["wait", 10 * given.waits, 100]), given.rounds, given.embedded, False)
    if given.only in (None, "batches"):
        words = {**dict.fromkeys(both, ["batches", given.batches, given.members]), "celery": ["chords", given.chords, given.members]}
        compare("batches", "members_per_s", words, given.rounds, given.embedded, False)


main()
