"""For asyncio: the same client, its calls awaited. They run in threads of their own, so that the loop never waits for a socket."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from typing import Any, AsyncIterator, Callable, Iterable, Iterator, Mapping, ParamSpec, TypeVar

from .client import Client, Jobs, Lease, Leases, Named, Outcomes, Pushes
from .job import BatchPushed, Job, Pushed, Scheduled
from .transport import Cut

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """async with AsyncClient() as client: await client.push(...). A Worker takes its `sync` and is run by run_async()."""

    def __init__(self, url: str | None = None, *, connections: int = 16, **options: Any) -> None:
        self.sync = Client(url, **options)
        self._threads = concurrent.futures.ThreadPoolExecutor(connections, "tarry")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.sync.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(call, *args, **kwargs))

    async def push(self, topic: str, body: Any = b"", **options: Any) -> Pushed:
        return await self._call(self.sync.push, topic, body, **options)

    async def push_and_wait(self, topic: str, body: Any = b"", **options: Any) -> Job:
        return await self._call(self.sync.push_and_wait, topic, body, **options)

    async def wait(self, *jobs: Named | Iterable[Named], **options: Any) -> Jobs:
        """Each wait holds one of the client's connections."""
        return await self._call(self.sync.wait, *jobs, **options)

    async def push_many(self, items: Iterable[Mapping[str, Any]]) -> Pushes:
        return await self._call(self.sync.push_many, items)

    async def push_batch(self, job: Mapping[str, Any], members: Iterable[Mapping[str, Any]]) -> BatchPushed:
        return await self._call(self.sync.push_batch, job, members)

    async def close_batch(self, topic: str, id: str) -> None:
        await self._call(self.sync.close_batch, topic, id)

    async def cancel_batch(self, topic: str, id: str) -> bool:
        return await self._call(self.sync.cancel_batch, topic, id)

    async def members(self, topic: str, id: str, **options: Any) -> AsyncIterator[Job]:
        async for job in self._each(self.sync.members(topic, id, **options)):
            yield job

    async def cancel(self, topic: str, id: str) -> bool:
        return await self._call(self.sync.cancel, topic, id)

    async def request_cancel(self, topic: str, id: str) -> str | None:
        return await self._call(self.sync.request_cancel, topic, id)

    async def reschedule(self, topic: str, id: str, **options: Any) -> Any:
        return await self._call(self.sync.reschedule, topic, id, **options)

    async def run(self, topic: str, id: str) -> None:
        await self._call(self.sync.run, topic, id)

    async def get(self, topic: str, id: str) -> Job | None:
        return await self._call(self.sync.get, topic, id)

    async def list(self, topic: str, **options: Any) -> AsyncIterator[Job]:
        async for job in self._each(self.sync.list(topic, **options)):
            yield job

    async def _each(self, jobs: Iterator[Job]) -> AsyncIterator[Job]:
        while (job := await self._call(next, jobs, None)) is not None:
            yield job

    async def schedule(self, name: str, topic: str, body: Any = None, **options: Any) -> Scheduled:
        return await self._call(self.sync.schedule, name, topic, body, **options)

    async def unschedule(self, name: str) -> bool:
        return await self._call(self.sync.unschedule, name)

    async def take(self, *topics: str, **options: Any) -> Jobs:
        """Cancelling it cuts the request: jobs that were not handed over go back."""
        cut = Cut()
        try:
            return await self._call(self.sync.take, *topics, cut=cut, **options)
        except asyncio.CancelledError:
            cut.cut()
            raise

    async def ack(self, *jobs: Leases, **options: Any) -> Outcomes:
        return await self._call(self.sync.ack, *jobs, **options)

    async def nack(self, *jobs: Leases, **options: Any) -> Outcomes:
        return await self._call(self.sync.nack, *jobs, **options)

    async def extend(self, *jobs: Leases, **options: Any) -> Outcomes:
        return await self._call(self.sync.extend, *jobs, **options)

    async def give_back(self, *jobs: Leases) -> Outcomes:
        return await self._call(self.sync.give_back, *jobs)

    async def again(self, job: Lease, body: Any = None, **options: Any) -> bool:
        return await self._call(self.sync.again, job, body, **options)
