#!/usr/bin/env python3
"""A document that is saved again and again is indexed once, when it has been quiet for a while: debounce.py [SECONDS], 5 by default."""

import sys

import tarry

delay = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0


def save(client, version):
    """The job of the save before, if it still waits, is replaced: its body, and when it is due."""
    client.push("reindex", {"version": version}, id="doc-7", delay=delay, on_conflict="replace")
    print(f"saved version {version}", flush=True)


def index(job):
    print(f"indexing version {job.json()['version']}", flush=True)
    worker.stop(wait=False)  # a real worker runs until SIGTERM


with tarry.Client() as client:
    for version in (1, 2, 3):
        save(client, version)
    worker = tarry.Worker(client, "reindex", index)
    worker.run()
