"""tarry: pushes of the job, and its worker."""

import sys

import jobs
import tarry


def push(number):
    with tarry.Client() as client:
        for _ in range(number):
            client.push("bench", b"")


if __name__ == "__main__":
    with tarry.Client() as client:
        tarry.Worker(client, "bench", jobs.count, concurrency=int(sys.argv[1])).run()
