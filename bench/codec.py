#!/usr/bin/env python3
"""The processor time of the codec in each client: codec.py [--rounds N] [CLIENT…] builds the adapters of clients/conformance, has each encode and decode a JSON body of
1,024 bytes, and prints a table of microseconds for one job: the median of the rounds, and the least and the most. Each round measures all clients in turn. Needs no server.
"""

import argparse
import base64
import json
import os
import pathlib
import statistics
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPO / "clients" / "conformance")]

import adapters  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
FOUND = json.loads((REPO / "clients" / "conformance" / "codec.json").read_text(encoding="utf-8"))
KEYS = {name: FOUND[name] for name in ("current", "keys", "context")}
CODECS = {"aes-gcm": KEYS, "gzip+aes-gcm": {**KEYS, "gzip": {}}}
RELEASE = {"rust": ["target/release/examples/conformance"]}
OPTIMISED = {"rust": ["--release"]}  # of its build
ROUND_S = 0.5  # at least: the kernel counts processor time in steps of 10 ms


def body():
    """An order with some lines, as text that compresses as JSON usually does."""
    lines, n = [], 0
    while len(text := json.dumps({"order": 1001, "lines": lines, "note": ""})) < 900:
        n += 1
        lines.append({"sku": f"A-{n * 7919 % 100000}", "count": n % 5, "price": n * 317 % 9973, "name": f"article number {n * 31}"})
    return text.replace('"note": ""', f'"note": "{"x" * (1024 - len(text))}"').encode()


DATA = base64.b64encode(body()).decode()


def used(process):
    """Seconds of all threads of the process."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Recoder:
    """The adapter of a client."""

    def __init__(self, name, is_built):
        if name in adapters.BUILD and not is_built:
            subprocess.run([*adapters.BUILD[name], *OPTIMISED.get(name, ())], cwd=adapters.folder(name), check=True)
        self.process = subprocess.Popen(RELEASE.get(name) or adapters.command(name), cwd=adapters.folder(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")
        self.times = dict.fromkeys(CODECS, 1000)
        self.found = {steps: [] for steps in CODECS}

    def _used(self, steps, times):
        before = used(self.process)
        request = {"op": "recode", "n": 1, "body_base64": DATA, "content_type": "application/json", "codec": CODECS[steps], "times": times}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["ok"]["body_base64"] == DATA, answer
        return used(self.process) - before

    def warm_up(self):
        """Doubles the repetitions until a round is long enough. By then, a virtual machine has compiled the code."""
        for steps in CODECS:
            self._used(steps, 20_000)
            while self._used(steps, self.times[steps]) < ROUND_S:
                self.times[steps] *= 2

    def measure(self):
        for steps, times in self.times.items():
            self.found[steps].append(self._used(steps, times) / times * 1e6)

    def stop(self):
        self.process.kill()
        self.process.wait()


def row(words):
    print("| " + " | ".join(words) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-build", action="store_true", help="the adapters are built")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {' '.join(adapters.ADAPTERS)}")
    options = parser.parse_args()
    if unknown := [name for name in options.clients if name not in adapters.ADAPTERS]:
        sys.exit(f"unknown client '{unknown[0]}', give some of: {' '.join(adapters.ADAPTERS)}")
    recoders = {}
    try:
        for name in options.clients or [name for name in adapters.ADAPTERS if name != "python-asyncio"]:
            recoders[name] = Recoder(name, options.no_build)
            recoders[name].warm_up()
        for _ in range(options.rounds):
            for recoder in recoders.values():
                recoder.measure()
    finally:
        for recoder in recoders.values():
            recoder.stop()
    row(["", *recoders])
    row(["---"] * (len(recoders) + 1))
    for steps in CODECS:
        found = [recoder.found[steps] for recoder in recoders.values()]
        row([steps, *(f"{statistics.median(one):.1f} ({min(one):.1f} to {max(one):.1f})" for one in found)])


main()
