#!/usr/bin/env python3
"""An order is charged, then shipped, then the customer gets a mail: checkout.py [SECONDS], the mail 0 seconds after the shipment by default."""

import sys

import tarry

delay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


def step(job):
    print(f"{job.topic} {job.id}", flush=True)
    if job.topic == "mail":
        worker.stop(wait=False)  # a real worker runs until SIGTERM


with tarry.Client() as client:
    charge = {"topic": "charge", "id": "1001"}
    ship = {"topic": "ship", "id": "1001", "members": [charge]}
    client.push_batch({"topic": "mail", "id": "1001", "delay": delay}, [ship])
    print("order 1001 placed", flush=True)
    worker = tarry.Worker(client, {"charge": step, "ship": step, "mail": step})
    worker.run()
