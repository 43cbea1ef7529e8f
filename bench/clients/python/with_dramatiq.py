"""Dramatiq on Redis: the actor, and pushes of it."""

import os

import dramatiq
import jobs
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_REDIS"]))


@dramatiq.actor
def task():
    jobs.count()


def push(number):
    for _ in range(number):
        task.send()
