#!/usr/bin/env python3
"""FIFO per key: tarry next to groupmq on one Redis that writes no files, and next to graphile-worker and procrastinate on one PostgreSQL. Rounds in turn, medians, ratios.

    bench/fifo/run.py [--rounds 3] [--jobs 10000] [--keys 1000] [--only redis|postgres]

Needs a release build of tarry (TARRY_BIN), the client for Node (npm run build), node_modules of package.json (MODULES: their folder), and a Python with
procrastinate and psycopg (LOCK: its python3; without it procrastinate is left out). PostgreSQL runs with fsync off, for all. jobs_per_s is
the work alone; cpu_us_per_job is the processor time of all programs, pushes included, which other load on the machine disturbs less.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from figures.beside import Round  # noqa: E402

MODULES = os.environ.get("MODULES", str(HERE))
LOCK = os.environ.get("LOCK")
PEERS = {"redis": ["groupmq"], "postgres": ["graphile"] + (["procrastinate"] if LOCK else [])}


def processor_s():
    """Returns the processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def drive(store, system, jobs, keys):
    with Round(system, store) as one:
        before = processor_s()
        address = one.port if system == "tarry" else one.store_port if store == "redis" else one.url
        command = [LOCK, HERE / "lock.py"] if system == "procrastinate" else ["node", HERE / "drive.mjs", system]
        done = subprocess.run([*map(str, [*command, address, jobs, keys])], stdout=subprocess.PIPE, text=True, env={**os.environ, "MODULES": MODULES}, timeout=900, check=True)
    found = json.loads(done.stdout)
    if found["wrong"] or found["twice"]:
        print(f"  {system}: {found['wrong']} jobs out of order, {found['twice']} twice", flush=True)
    return {**found, "cpu_us_per_job": round((processor_s() - before) * 1e6 / jobs)}


def compare(store, rounds, jobs, keys):
    systems = ["tarry", *PEERS[store]]
    found = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            found[system].append(drive(store, system, jobs, keys))
    print(f"{jobs} jobs of {keys} keys on {store}:")
    for system in systems:
        for figure, is_cost in (("jobs_per_s", False), ("cpu_us_per_job", True)):
            values = [one[figure] for one in found[system]]
            ratios = [other[figure] / own[figure] if is_cost else own[figure] / other[figure] for own, other in zip(found["tarry"], found[system])]
            print(f"  {system:13} {figure:14} median {statistics.median(values)} ({min(values)} to {max(values)}); tarry is {statistics.median(ratios):.2f} x better ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("rounds", 3), ("jobs", 10000), ("keys", 1000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--only", choices=tuple(PEERS))
    given = parser.parse_args()
    for store in PEERS:
        if given.only in (None, store):
            compare(store, given.rounds, given.jobs, given.keys)


main()
