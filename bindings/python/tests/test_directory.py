"""A queue in a directory: jobs outlive the process, and one program at a time has it."""

import asyncio
import subprocess
import sys

import libtarry
import pytest

KILLED = """
import os, signal, sys, libtarry
queue = libtarry.open(sys.argv[1])
queue.push_many({"topic": "t", "id": str(number), "body": "kept"} for number in range(100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_jobs_outlive_a_process_that_is_killed(tmp_path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "queue")], check=False, timeout=60).returncode == -9
    with libtarry.open(tmp_path / "queue") as queue:
        jobs = queue.take("t", max=1000, wait=60)
        while len(jobs) < 100:
            jobs += queue.take("t", max=1000, wait=60)
        assert sorted(int(job.id) for job in jobs) == list(range(100))
        assert {job.text for job in jobs} == {"kept"}
        assert queue.ack_many(jobs) == [None] * 100
    with libtarry.open(tmp_path / "queue") as queue:
        assert queue.take("t", wait=0) == [] and queue.topic("t").acked == 100


def test_one_at_a_time_has_it(tmp_path):
    with libtarry.open(tmp_path / "queue"):
        with pytest.raises(libtarry.Unavailable) as refused:
            libtarry.open(tmp_path / "queue")
        assert str(tmp_path) in str(refused.value)
    with pytest.raises(libtarry.Unavailable, match="/proc"):
        libtarry.open("/proc/there/is/none")
    with pytest.raises(libtarry.Refused):
        libtarry.open(tmp_path / "other", test_clock=True)
    with pytest.raises(ValueError, match="always, interval, never"):
        libtarry.open(tmp_path / "other", sync="at times")


def test_waits_are_served_awaited_and_ended(tmp_path):
    async def main():
        with libtarry.open(tmp_path / "queue", sync="interval", sync_interval=0.1) as queue:
            waiting = asyncio.create_task(queue.take_async("t"))
            await queue.push_async("t", "1", delay=0.01)
            ((job,), _) = await asyncio.gather(waiting, queue.push_many_async({"topic": "u", "id": str(number)} for number in range(10)))
            job.again("2", delay=0.01)
            (job,) = await queue.take_async("t")
            assert job.text == "2"
            job.ack()
            lost = asyncio.create_task(queue.take_async("t"))
            await asyncio.sleep(0)
            lost.cancel()
            await asyncio.wait([lost])
            ended = asyncio.create_task(queue.take_async("t"))
            await asyncio.sleep(0)
            await asyncio.to_thread(queue.close)
            with pytest.raises(libtarry.Closed):
                await ended

    asyncio.run(asyncio.wait_for(main(), 60))
