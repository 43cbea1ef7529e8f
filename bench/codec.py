#!/usr/bin/env python3
"""The processor time of the codec in each client: codec.py [CLIENT…] encodes and decodes a JSON body of 1,024 bytes, and prints microseconds for one job, the least of five
rounds. It needs the compiled adapters of clients/conformance, and no server.
"""

import base64
import json
import os
import pathlib
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


def body():
    """An order with some lines, as text that compresses as JSON usually does."""
    lines, n = [], 0
    while len(text := json.dumps({"order": 1001, "lines": lines, "note": ""})) < 900:
        n += 1
        lines.append({"sku": f"A-{n * 7919 % 100000}", "count": n % 5, "price": n * 317 % 9973, "name": f"article number {n * 31}"})
    return text.replace('"note": ""', f'"note": "{"x" * (1024 - len(text))}"').encode()


def used(process):
    """Seconds of all threads of the process."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cost(name, codec, data):
    """Doubles the repetitions until a round takes half a second."""
    process = subprocess.Popen(RELEASE.get(name) or adapters.command(name), cwd=adapters.folder(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def measure(times):
        before = used(process)
        request = {"op": "recode", "n": 1, "body_base64": data, "content_type": "application/json", "codec": codec, "times": times}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["ok"]["body_base64"] == data, answer
        return used(process) - before

    try:
        measure(20_000)  # until a virtual machine has compiled the code
        times = 1000
        while measure(times) < 0.5:
            times *= 2
        return min(measure(times) for _ in range(5)) / times * 1e6
    finally:
        process.kill()
        process.wait()


def main():
    if unknown := [name for name in sys.argv[1:] if name not in adapters.ADAPTERS]:
        sys.exit(f"unknown client '{unknown[0]}', give some of: {' '.join(adapters.ADAPTERS)}")
    data = base64.b64encode(body()).decode()
    for name in sys.argv[1:] or [name for name in adapters.ADAPTERS if name != "python-asyncio"]:
        print(f"{name:8}" + "".join(f"  {steps} {cost(name, codec, data):6.1f} us" for steps, codec in CODECS.items()), flush=True)


main()
