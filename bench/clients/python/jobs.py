"""The job that every queue runs: it writes one byte, so that the benchmark counts jobs by the size of a file, regardless of the process that ran
them."""

import os

_done = os.open(os.environ["BENCH_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def count(*_):
    os.write(_done, b".")
