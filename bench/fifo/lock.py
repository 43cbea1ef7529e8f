"""Drives procrastinate for bench/fifo/run.py, as drive.mjs does the others: lock.py URL JOBS KEYS. `lock` makes the jobs of a key run one by one."""

import asyncio
import json
import sys
import time

import procrastinate

URL, JOBS, KEYS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CONCURRENCY, BULK = 100, 500

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=12))
last, found = {}, {"done": 0, "wrong": 0, "twice": 0}


@app.task(name="call")
async def call(key, n):
    before = last.get(key, -1)
    found["wrong"] += n < before
    found["twice"] += n == before
    last[key] = n
    found["done"] += 1


async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = time.monotonic()
        for at in range(0, JOBS, BULK):
            jobs = [call.configure(lock=f"k{n % KEYS}", task_kwargs={"key": f"k{n % KEYS}", "n": n}).job for n in range(at, min(at + BULK, JOBS))]
            await app.job_manager.batch_defer_jobs_async(jobs)
        pushed = time.monotonic() - began
        began = time.monotonic()
        worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, wait=True, fetch_job_polling_interval=0.1, install_signal_handlers=False, listen_notify=False))
        while found["done"] < JOBS:
            await asyncio.sleep(0.005)
        took = time.monotonic() - began
        print(json.dumps({"jobs_per_s": round(JOBS / took), "pushes_per_s": round(JOBS / pushed), "wrong": found["wrong"], "twice": found["twice"]}), flush=True)
        worker.cancel()


try:
    asyncio.run(main())
except asyncio.CancelledError:
    pass
