"""Celery on Redis: the task, and pushes of it."""

import os

import celery
import jobs

app = celery.Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True


@app.task(name="count", acks_late=True)
def task():
    jobs.count()


def push(number):
    for _ in range(number):
        task.delay()
