"""The queue under asyncio: calls are submitted, and the loop dispatches their answers when the queue's descriptor is readable."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any, Callable

from ._binding import ffi, lib
from .errors import Closed, check, error_of

_numbers = itertools.count(1)
_waiting: dict[int, "Call"] = {}
"""Calls of all queues that have no answer yet, by the number that goes with them as owner."""


class Call:
    """A submitted call. `read` converts the reply to a result during the callback; `undo` gets it if no task waits for it."""

    def __init__(self, future: asyncio.Future[Any], read: Callable[[Any], Any], undo: Callable[[Any], None] | None) -> None:
        self.future = future
        self.read = read
        self.undo = undo


@ffi.def_extern()  # type: ignore[misc]
def on_done(owner: Any, reply: Any) -> None:
    """Runs in dispatch, on the loop's thread; what the future's callbacks do comes later."""
    call = _waiting.pop(int(ffi.cast("uintptr_t", owner)))
    try:
        result = call.read(reply)
    except BaseException as error:
        if not call.future.done():
            call.future.set_exception(error)
        return
    if not call.future.done():
        call.future.set_result(result)
    elif call.undo:
        call.undo(result)


class LoopCalls:
    """The calls of a queue that one event loop waits for."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.closed = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.fd = -1
        self.numbers: set[int] = set()

    def _attach(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self.loop is loop:
            return loop
        if self.loop is not None and not self.loop.is_closed() and self.numbers:
            raise RuntimeError("another event loop waits for this queue, use one loop for a queue at a time")
        self.detach()
        self.fd = lib.binding_fd(self.handle)
        if self.fd < 0:
            check(lib.TARRY_STOPPING if self.closed else lib.TARRY_NO_MEMORY)
        loop.add_reader(self.fd, lib.binding_dispatch, self.handle)
        self.loop = loop
        return loop

    def detach(self) -> None:
        """Removes the descriptor from the loop before it is closed. If the loop runs on another thread, waits for that."""
        loop, self.loop = self.loop, None
        if loop is None or loop.is_closed():
            return
        if not loop.is_running() or loop is asyncio._get_running_loop():
            loop.remove_reader(self.fd)
            return
        removed = threading.Event()
        loop.call_soon_threadsafe(_remove_reader, loop, self.fd, removed)
        removed.wait(10)

    async def submit(self, call: Any, read: Callable[[Any], Any], undo: Callable[[Any], None] | None = None, tag: int = 0) -> Any:
        """Returns the result once it arrives. If the task is cancelled, interrupts a take with this tag and undoes a result that arrives anyway."""
        loop = self._attach()
        number = next(_numbers)
        future: asyncio.Future[Any] = loop.create_future()
        _waiting[number] = Call(future, read, undo)
        code = lib.binding_submit(self.handle, call, lib.on_done, ffi.cast("void *", number))
        if code:
            del _waiting[number]
            raise error_of(code)
        self.numbers.add(number)
        try:
            return await future
        except asyncio.CancelledError:
            if undo and future.done() and not future.cancelled() and future.exception() is None:
                undo(future.result())  # it came in the same iteration of the loop
            if tag:
                lib.binding_interrupt_submitted(self.handle, tag)
            raise
        finally:
            self.numbers.discard(number)

    def close(self) -> None:
        """Closes the loop before the queue, so that no task waits for answers that will not arrive."""
        self.closed = True
        for number in tuple(self.numbers):
            if (call := _waiting.pop(number, None)) and not call.future.done():
                loop = call.future.get_loop()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_fail, call.future)
        self.detach()


def _remove_reader(loop: asyncio.AbstractEventLoop, fd: int, removed: threading.Event) -> None:
    loop.remove_reader(fd)
    removed.set()


def _fail(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(Closed("the queue was closed", code="stopping"))
