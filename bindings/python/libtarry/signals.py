"""
Signals that come while the main thread waits in the library: Python's handlers run only there, and only after the wait.

The interpreter writes a byte to a socket when a signal comes (signal.set_wakeup_fd). A thread of this module reads it and
interrupts the wait; then the handlers run, and KeyboardInterrupt comes from where it was waited. The thread is started with the
first wait of the main thread, one for the process, and sleeps but for that.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import socket
import threading
import time
from typing import Callable, TypeVar

Result = TypeVar("Result")


class _Relay:
    """The exception of a handler can come after any call. So each step below leaves a state that the next one, or the next wait, corrects."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.reader, self.writer = socket.socketpair()
        self.reader.setblocking(False)
        self.writer.setblocking(False)
        self.lock = threading.Lock()  # of what is below, and of reading
        self.listeners = [-1]  # who listened before each wait; the last one that is not this relay
        self.interrupt: Callable[[], object] | None = None
        threading.Thread(target=self._run, name="libtarry-signals", daemon=True).start()

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self.reader, select.POLLIN)
        while True:
            poller.poll()
            with self.lock:
                interrupt = self.interrupt if self._read() else None
            while interrupt is not None and self.interrupt is interrupt:  # it may not have begun to wait
                interrupt()
                time.sleep(0.001)

    def _read(self) -> bool:
        """Checks for a signal. The previous listener is notified as well."""
        try:
            data = self.reader.recv(4096)
        except BlockingIOError:
            return False
        if self.before >= 0:
            try:
                os.write(self.before, data)
            except OSError:
                pass
        return True

    @property
    def before(self) -> int:
        return next((fd for fd in reversed(self.listeners) if fd != self.writer.fileno()), -1)

    def _listen(self) -> None:
        change = functools.partial(signal.set_wakeup_fd, warn_on_full_buffer=False)
        self.listeners.extend(map(change, (self.writer.fileno(),)))  # one call: no handler runs between the change and its note
        self.listeners = [self.before]

    def _end(self) -> None:
        signal.set_wakeup_fd(self.before)
        with self.lock:
            self._read()  # nothing of this wait is left for the next

    def wait(self, call: Callable[[], Result], interrupt: Callable[[], object]) -> Result:
        self.interrupt = interrupt
        try:
            self._listen()
            return call()
        finally:
            self.interrupt = None  # before any call
            try:
                self._end()
            finally:
                self._end()  # the first one may have been interrupted


_relay: _Relay | None = None


def wait_interruptibly(call: Callable[[], Result], interrupt: Callable[[], object]) -> Result:
    """call(), which a signal ends by interrupt() where this is the main thread; elsewhere there are no signals."""
    global _relay
    if threading.current_thread() is not threading.main_thread():
        return call()
    if _relay is None or _relay.pid != os.getpid():
        _relay = _Relay()
    return _relay.wait(call, interrupt)
