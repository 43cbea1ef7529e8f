"""Threads, signals and forks: waiting takes delay no other thread, and no event at a bad moment is lost or crashes."""

import contextlib
import os
import random
import signal
import threading
import time

import libtarry
import pytest

PATIENCE = 60


def in_thread(call):
    found = []

    def run():
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def ended(thread):
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_who_waits_leaves_the_interpreter_to_others():
    with libtarry.open() as queue:
        threads = [in_thread(lambda: queue.pop("t")) for _ in range(8)]
        for number in range(8):
            queue.push("t", str(number))
        for thread, _ in threads:
            ended(thread)
        assert sorted(job.text for _, ((job,),) in threads) == [str(number) for number in range(8)]


def test_closing_ends_all_waits():
    queue = libtarry.open()
    threads = [in_thread(lambda: queue.take("t")) for _ in range(8)]
    queue.close()
    for thread, (found,) in ((thread, found) for thread, found in threads if not ended(thread)):
        assert isinstance(found, libtarry.Closed)


def test_closing_between_the_calls_of_others_only_ends_them():
    for _ in range(50):
        queue = libtarry.open()

        def busy():
            while True:
                queue.push("t", b"x")
                queue.take("t", wait=0.0001)

        threads = [in_thread(busy) for _ in range(4)]
        time.sleep(random.uniform(0, 0.004))
        queue.close()
        for thread, found in threads:
            ended(thread)
            assert isinstance(found[0], libtarry.Closed)


def test_iteration_ends_with_the_queue():
    queue = libtarry.open()
    seen = []

    def consume():
        for job in queue.take_each("t", max=3):
            seen.append(job.text)
            job.ack()
            if len(seen) == 10:
                done.set()

    done = threading.Event()
    thread, _ = in_thread(consume)
    for number in range(10):
        queue.push("t", str(number))
    assert done.wait(PATIENCE)
    queue.close()
    ended(thread)
    assert seen == [str(number) for number in range(10)]


def test_iteration_ends_where_nothing_comes_for_as_long_as_it_waits():
    with libtarry.open() as queue:
        queue.push("t", "1")
        assert [job.text for job in queue.take_each("t", wait=0.01)] == ["1"]


def test_an_interrupt_from_the_keyboard_ends_a_wait(request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with libtarry.open() as queue:
        for _ in range(200):  # wherever it comes: before the wait, on the way there, in it
            delay = random.uniform(0, 0.002)
            timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                queue.take("t")
            timer.join()
        queue.push("t", "1")
        assert queue.take("t")[0].text == "1"


def test_a_signal_that_is_handled_does_not_end_a_wait():
    with libtarry.open() as queue:
        before = signal.signal(signal.SIGUSR1, lambda *_: queue.push("t", "of the handler"))
        try:
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            assert queue.take("t", wait=PATIENCE)[0].text == "of the handler"
            timer.join()
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_who_listened_for_signals_before_listens_afterwards():
    reader, writer = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(writer)
    try:
        with libtarry.open() as queue:
            queue.take("t", wait=0.001)
            assert signal.set_wakeup_fd(writer) == writer
            before = signal.signal(signal.SIGUSR1, lambda *_: queue.push("t"))
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            queue.take("t", wait=PATIENCE)
            signal.signal(signal.SIGUSR1, before)
        assert os.read(reader, 10) == bytes([signal.SIGUSR1])
    finally:
        signal.set_wakeup_fd(-1)


def test_an_interrupt_at_any_moment_leaves_the_listener_of_signals(request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: (signal.set_wakeup_fd(-1), signal.signal(signal.SIGINT, before)))
    reader, writer = os.pipe2(os.O_NONBLOCK)
    found = []
    with libtarry.open() as queue:
        for _ in range(2000):  # of 1,000 interrupts some three come while the wait ends
            signal.set_wakeup_fd(writer)
            timer = threading.Timer(random.uniform(0, 0.0005), os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                queue.take("t", wait=0.0002)
                time.sleep(PATIENCE)
            except KeyboardInterrupt:
                found.append(signal.set_wakeup_fd(writer) == writer)
            timer.join()
            with contextlib.suppress(BlockingIOError):
                os.read(reader, 10)
    assert found == [True] * 2000


def test_a_child_process_gets_an_error_and_the_parent_keeps_its_jobs():
    with libtarry.open() as queue:
        queue.push("t", "1")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                queue.push("t")
            except libtarry.Forked:
                queue.close()
                with libtarry.open() as own:
                    own.push("t", "2")
                    code = 0 if own.take("t", wait=0)[0].text == "2" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [job.text for job in queue.take("t", max=2)] == ["1"]
