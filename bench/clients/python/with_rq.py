"""RQ: pushes of the job."""

import os

import jobs
import redis
import rq


def push(number):
    queue = rq.Queue(connection=redis.Redis.from_url(os.environ["BENCH_REDIS"]))
    for _ in range(number):
        queue.enqueue(jobs.count, result_ttl=0)
