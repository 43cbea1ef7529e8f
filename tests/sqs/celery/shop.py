"""Celery with SQS as its broker. As a module it is the application of a worker; run by itself it sends the tasks and prints their ids.

Without the class below a task with a countdown goes immediately to a worker, which holds it in memory; and kombu cuts delays down to the limit of SQS.
"""

import json
import math
import os
import time

from celery import Celery, Task
from kombu.transport import SQS

SQS.MAX_DELAY_SECONDS = 10 * 365 * 86400


class WaitsInTheQueue(Task):
    """A countdown is the delay of the message."""

    def apply_async(self, args=None, kwargs=None, countdown=None, eta=None, **options):
        if eta is not None:
            countdown = eta.timestamp() - time.time()
        if countdown is not None:
            options["DelaySeconds"] = max(0, math.ceil(countdown))
        return super().apply_async(args, kwargs, **options)


app = Celery("shop", broker=os.environ["BROKER"], task_cls=WaitsInTheQueue)
app.conf.update(task_default_queue=os.environ["QUEUE"], task_acks_late=True, task_ignore_result=True, worker_enable_remote_control=False,
                broker_transport_options={"region": "us-east-1", "is_secure": False, "wait_time_seconds": 20, "visibility_timeout": 60})


@app.task(bind=True, max_retries=2)
def note(self, text):
    if text == "fails once" and not self.request.retries:
        raise self.retry(countdown=1)
    with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


@app.task(base=Task, name="shop.note_by_the_worker")
def note_by_the_worker(text):
    note.run(text)


if __name__ == "__main__":
    import shop  # tasks are named after their module

    sent = {text: shop.note.apply_async([text], **options).id for text, options in (
        ("in a day", {"countdown": 86400}), ("in two days", {"countdown": 2 * 86400}), ("in a second", {"countdown": 1}), ("now", {}), ("fails once", {}))}
    sent["in two seconds, held by the worker"] = shop.note_by_the_worker.apply_async(["in two seconds, held by the worker"], countdown=2).id
    print(json.dumps(sent))
