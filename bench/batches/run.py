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
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODULES = os.environ.get("MODULES", str(HERE))
CELERY = os.environ.get("CELERY")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.025)
    sys.exit(f"nothing listens on port {port}")


class Round:
    """A fresh Redis, with tarry before it if it is measured."""

    def __init__(self, system, is_embedded):
        self.folder, self.redis, self.port = tempfile.mkdtemp(prefix="bench-"), free_port(), free_port()
        self.processes = [subprocess.Popen(["redis-server", "--port", str(self.redis), "--save", "", "--appendonly", "no", "--dir", self.folder], stdout=subprocess.DEVNULL)]
        listens(self.redis)
        if system == "tarry":
            store = ["--data", self.folder + "/data"] if is_embedded else ["--store", f"redis://127.0.0.1:{self.redis}"]
            command = [os.environ.get("TARRY_BIN", "build/tarry"), "serve", "--listen", f"127.0.0.1:{self.port}", *store]
            self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            listens(self.port)

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def drive(system, words, is_embedded):
    one = Round(system, is_embedded)
    try:
        command = [CELERY, str(HERE / "chords.py"), str(one.redis)] if system == "celery" else ["node", str(HERE / "drive.mjs"), system, str(one.port if system == "tarry" else one.redis)]
        done = subprocess.run([*command, *map(str, words)], stdout=subprocess.PIPE, text=True, env={**os.environ, "MODULES": MODULES}, timeout=900, check=True)
        return json.loads(done.stdout)
    finally:
        one.close()


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
