#!/usr/bin/env python3
"""A report is sent when all rows of an import have been loaded: import_report.py [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default."""

import sys

import tarry

delay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000


def load(job):
    job.json()["row"]  # your own handler writes it to a database


def report(job):
    print(f"report: {job.meta['tarry-batch']}", flush=True)
    worker.stop(wait=False)  # a real worker runs until SIGTERM


with tarry.Client() as client:
    client.push("reports", b"", id="import-7", waits=True, delay=delay)
    client.push_many({"topic": "rows", "body": {"row": row}, "batch": ("reports", "import-7")} for row in range(rows))
    client.close_batch("reports", "import-7")
    print(f"{rows} rows pushed", flush=True)
    worker = tarry.Worker(client, {"rows": load, "reports": report})
    worker.run()
