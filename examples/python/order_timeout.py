#!/usr/bin/env python3
"""An order that is not paid in time is closed: order_timeout.py [SECONDS], 1800 by default."""

import sys

import tarry

delay = float(sys.argv[1]) if len(sys.argv) > 1 else 1800.0


def place(client, order):
    """The job has the order's own number, so any code with the order can cancel it."""
    client.push("orders", {"order": order}, id=order, delay=delay)
    print(f"order {order} placed", flush=True)


def pay(client, order):
    if client.cancel("orders", order):
        print(f"order {order} paid, nothing to close", flush=True)


def close(job):
    print(f"order {job.json()['order']} closed: not paid in time", flush=True)
    worker.stop(wait=False)  # a real worker runs until SIGTERM


with tarry.Client() as client:
    place(client, "1001")
    place(client, "1002")
    pay(client, "1001")
    worker = tarry.Worker(client, "orders", close)
    worker.run()
