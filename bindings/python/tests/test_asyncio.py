"""The queue under asyncio: no thread, the loop runs while a call waits, and cancelled tasks lose nothing."""

import asyncio
import threading

import libtarry
import pytest

PATIENCE = 60


def run(main):
    async def bounded():
        return await asyncio.wait_for(main, PATIENCE)

    return asyncio.run(bounded())


def test_the_loop_runs_while_a_take_waits():
    async def main():
        with libtarry.open() as queue:
            waiting = asyncio.create_task(queue.take_async("t"))
            iterations = 0
            while iterations < 10:
                await asyncio.sleep(0)
                iterations += 1
            assert not waiting.done()
            queue.push("t", "1", delay=0.02)
            (job,) = await waiting
            job.ack()
            return job.text

    before = threading.active_count()
    assert run(main()) == "1"
    assert threading.active_count() == before


def test_a_wait_ends_with_nothing():
    async def main():
        with libtarry.open() as queue:
            assert await queue.take_async("t", wait=0.01) == []
            assert await queue.take_async("t", wait=0) == []
            with pytest.raises(libtarry.Refused):
                await queue.take_async(".t")

    run(main())


def test_many_takes_are_served_in_the_order_they_came():
    async def main():
        with libtarry.open() as queue:
            tasks = [asyncio.create_task(queue.take_async("t")) for _ in range(100)]
            await asyncio.sleep(0)
            await queue.push_many_async({"topic": "t", "body": str(number)} for number in range(100))
            return [job.text for (job,) in await asyncio.gather(*tasks)]

    assert run(main()) == [str(number) for number in range(100)]


@pytest.mark.parametrize("iterations", [0, 1, 2, 3])
def test_a_task_that_is_cancelled_loses_no_job(iterations):
    async def main():
        with libtarry.open() as queue:
            for _ in range(100):
                task = asyncio.create_task(queue.take_async("t"))
                await asyncio.sleep(0)
                queue.push("t", "1", id="a")
                for _ in range(iterations):
                    await asyncio.sleep(0)
                got = task.done() and task.result()
                task.cancel()
                await asyncio.wait([task])
                if not got:
                    got = await queue.take_async("t")
                assert (got[0].text, got[0].attempt) == ("1", 1)
                got[0].ack()
            assert queue.topic("t").leased == queue.topic("t").ready == 0

    run(main())


def test_pushes_and_pops_are_awaited():
    async def main():
        with libtarry.open() as queue:
            pushed = await queue.push_async("t", {"a": 1}, id="x", delay=0.001)
            assert (pushed.id, pushed.result) == ("x", "created")
            with pytest.raises(libtarry.Refused):
                await queue.push_async(".t")
            assert (await queue.pop_async("t"))[0].json() == {"a": 1}
            assert queue.get("t", "x") is None
            results = await queue.push_many_async([{"topic": "t"}, {"topic": ".t"}])
            assert isinstance(results[1], libtarry.Refused) and results[0].result == "created"

    run(main())


def test_iteration_ends_with_the_queue():
    async def main():
        queue = libtarry.open()
        seen = []

        async def consume():
            async for job in queue.take_each_async("t", max=2):
                seen.append(job.text)
                job.ack()
                if len(seen) == 4:
                    done.set()

        done = asyncio.Event()
        task = asyncio.create_task(consume())
        for number in range(4):
            queue.push("t", str(number))
        await done.wait()
        queue.close()
        await task
        assert seen == ["0", "1", "2", "3"]

    run(main())


def test_closing_ends_all_waits():
    async def main():
        queue = libtarry.open()
        tasks = [asyncio.create_task(queue.take_async("t")) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.to_thread(queue.close)  # also on another thread
        for task in tasks:
            with pytest.raises(libtarry.Closed):
                await task
        with pytest.raises(libtarry.Closed):
            await queue.take_async("t")

    run(main())


def test_one_loop_after_the_other_uses_a_queue():
    with libtarry.open() as queue:
        for number in range(3):
            queue.push("t", str(number))

            async def main():
                return (await queue.take_async("t"))[0].text

            assert run(main()) == str(number)


def test_two_loops_at_once_are_refused():
    with libtarry.open() as queue:

        async def other():
            with pytest.raises(RuntimeError, match="one loop"):
                await queue.take_async("t")

        async def main():
            waiting = asyncio.create_task(queue.take_async("t"))
            await asyncio.sleep(0)
            await asyncio.to_thread(lambda: asyncio.run(other()))
            queue.push("t", "1")
            await waiting

        run(main())


def test_the_test_clock_serves_tasks_that_wait():
    async def main():
        with libtarry.open(test_clock=True) as queue:
            queue.push("orders", id="1001", delay=1800)
            waiting = asyncio.create_task(queue.take_async("orders"))
            await asyncio.sleep(0)
            queue.advance(1800.001)
            (job,) = await waiting
            return job.id

    assert run(main()) == "1001"
