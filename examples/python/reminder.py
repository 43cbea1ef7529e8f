#!/usr/bin/env python3
"""A reminder for a meeting that is moved: reminder.py [SECONDS], 3600 by default."""

import datetime
import sys

import tarry

delay = datetime.timedelta(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0)


def remind(job):
    print(f"reminder: {job.text}", flush=True)
    worker.stop(wait=False)  # a real worker runs until SIGTERM


with tarry.Client() as client:
    now = datetime.datetime.now(datetime.timezone.utc)
    client.push("reminders", "meeting with Ada", id="meeting-7", at=now + 24 * delay)
    print("reminder set", flush=True)
    client.reschedule("reminders", "meeting-7", at=now + delay)
    print("meeting moved, reminder moved", flush=True)
    worker = tarry.Worker(client, "reminders", remind)
    worker.run()
