"""`--beanstalk` among clients that mean no good, or know no better: those beside them do not notice."""

import contextlib
import re
import resource
import socket
import threading

import pytest
from beanstalk import Connection
from server import IS_SANITIZED, eventually

MIB = 1 << 20


@pytest.fixture
def server(start_server):
    server = start_server("--beanstalk", "127.0.0.1:0", "--max-connections", "12000", "--sync", "never")
    yield server
    assert server.alive and server.terminate() == 0


def address(server):
    return "127.0.0.1", int(re.findall(r"address=127\.0\.0\.1:(\d+) protocol=beanstalk", server.log())[-1])


@contextlib.contextmanager
def raw(server):
    with socket.socket() as one:
        one.settimeout(30)
        one.connect(address(server))
        yield one


class Good:
    """Puts, reserves and deletes beside what happens, and counts rounds; no answer takes 20 s, which is Connection's limit."""

    def __init__(self, server):
        self.connection, self.rounds = Connection(address(server)), 0
        self.is_over, self.thread, self.fault = threading.Event(), threading.Thread(target=self.run), None

    def run(self):
        try:
            one = self.connection
            assert one("use good")[0] == "USING" and one("watch good")[0] == "WATCHING" and one("ignore default")[0] == "WATCHING"
            while not self.is_over.is_set():
                number = one.put(b"good")
                assert one("reserve-with-timeout 20") == ["RESERVED", str(number), b"good"] and one(f"delete {number}") == ["DELETED"]
                self.rounds += 1
        except BaseException as fault:
            self.fault = fault

    def __enter__(self):
        self.thread.start()
        eventually(lambda: self.rounds >= 1, 20)
        return self

    def __exit__(self, *why):
        before = self.rounds
        if why[0] is None:
            eventually(lambda: self.rounds > before + 1 or self.fault, 20)
        self.is_over.set()
        self.thread.join()
        self.connection.close()
        assert not self.fault, self.fault


def test_half_lines_and_half_jobs_wait_for_their_rest(server):
    with Good(server), contextlib.ExitStack() as stack:
        halves = [stack.enter_context(raw(server)) for _ in range(4)]
        for one, part in zip(halves, (b"res", b"put 0 0 60 10\r\nhalf", b"x" * 223, b"put 0 0 60 3\r\nabc\r")):
            one.sendall(part)
        halves[0].sendall(b"erve-with-timeout 0\r\n")
        assert halves[0].recv(100) == b"TIMED_OUT\r\n"
        halves[3].sendall(b"\n")
        assert halves[3].recv(100).startswith(b"INSERTED ")
        for byte in b"list-tube-used\r\n":
            halves[0].sendall(bytes([byte]))
        assert halves[0].recv(100) == b"USING default\r\n"


def test_a_line_without_end_costs_no_memory(server):
    with Good(server), raw(server) as one:
        before = server.resident_bytes()
        for _ in range(64):
            one.sendall(b"x" * MIB)
        one.sendall(b"\r\nlist-tube-used\r\n")
        assert one.makefile("rb").read(27) == b"BAD_FORMAT\r\nUSING default\r\n"
        assert IS_SANITIZED or server.resident_bytes() < before + 32 * MIB


def test_a_job_of_a_gibibyte_costs_no_memory(server):
    """The client announces all of it, sends 128 MiB, then disconnects."""
    with Good(server), raw(server) as one:
        before = server.resident_bytes()
        one.sendall(b"put 0 0 60 1073741824\r\n")
        for _ in range(128):
            one.sendall(b"\0" * MIB)
        assert IS_SANITIZED or server.resident_bytes() < before + 32 * MIB
    with raw(server) as one:
        one.sendall(b"put 0 0 60 4294967295\r\n" + b"put 0 0 60 1\r\nx\r\n" * 1000)
        one.shutdown(socket.SHUT_WR)
        assert one.recv(100) == b"", "its body is not read as commands"
    with Connection(address(server)) as one:
        assert one.stats("stats-tube default")["total-jobs"] == "0"


def test_binary_bytes_are_rejected(server):
    with Good(server), Connection(address(server)) as one:
        for line in (b"\0", b"peek 1\0", b"use a\0b", b"\xff\xfe", b"put 0 0 60 1\0", b"use " + bytes(range(128, 160)), b"\r", b"\n", b"a\nb", b"reserve\n"):
            one.send(line + b"\r\n")
            assert one.answer()[0] in ("BAD_FORMAT", "UNKNOWN_COMMAND"), line
        number = one.put(bytes(range(256)))
        assert one(f"peek {number}")[2] == bytes(range(256))


def test_a_client_that_reserves_and_never_reads_is_bounded(server):
    """Its reserved jobs return when it is cut off; its unsent answers stay bounded."""
    body = b"b" * 60_000
    with Connection(address(server)) as one:
        for _ in range(300):
            one.put(body)
        with Good(server) as good, raw(server) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(b"reserve\r\n" * 5000)
            eventually(lambda: int(one.stats("stats-tube default")["current-jobs-reserved"]) > 3, 20)
            before = good.rounds
            eventually(lambda: good.rounds > before + 400 or good.fault, 60)  # long enough for another 300 reserves
            assert int(one.stats("stats-tube default")["current-jobs-reserved"]) < 200, "unsent answers are bounded, so are jobs behind them"
        eventually(lambda: one.stats("stats-tube default")["current-jobs-ready"] == "300", 20)


def test_many_connections_that_do_nothing(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1000), hard))
    try:
        with contextlib.ExitStack() as stack, Connection(address(server)) as one:
            before = server.resident_bytes()
            idle = []
            for _ in range(count):
                idle.append(stack.enter_context(socket.socket()))
                idle[-1].connect(address(server))
            eventually(lambda: int(one.stats("stats")["current-connections"]) == count + 1, 30)
            with Good(server):
                for each in idle[:2000]:
                    each.sendall(b"list-tube-used\r\n")
                for each in idle[:2000]:
                    each.settimeout(30)
                    assert each.recv(100) == b"USING default\r\n"
                assert IS_SANITIZED or server.resident_bytes() < before + count * 12 * 1024
                before = server.resident_bytes()
                for each in idle[:2000]:
                    each.sendall(b"put 0 0 60 60000\r\n" + b"x" * 60_010 + b"\r\n")
                    assert each.recv(100).startswith(b"EXPECTED_CRLF\r\n")
                assert IS_SANITIZED or server.resident_bytes() < before + 2000 * 16 * 1024 + 32 * MIB, "what an idle connection had is given back"
        with Connection(address(server)) as one:
            eventually(lambda: one.stats("stats")["current-connections"] == "1", 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_watch_list_has_an_end(server):
    with Good(server), Connection(address(server)) as one:
        one.send("".join(f"watch tube-{i}\r\n" for i in range(10_000)))
        answers = [one.answer() for _ in range(10_000)]
        assert answers[62] == ["WATCHING", "64"] and answers[63] == answers[-1] == ["OUT_OF_MEMORY"]
        assert one("reserve-with-timeout 0") == ["TIMED_OUT"]
        one.send("".join(f"use tube-{i}\r\n" for i in range(10_000)))
        assert [one.answer()[0] for _ in range(10_000)] == ["USING"] * 10_000
        assert len(one.stats("list-tubes")) < 70, "who leaves a tube leaves nothing behind"


def test_a_million_pipelined_commands_are_bounded(server):
    count = 200_000 if IS_SANITIZED else 1_000_000
    with Good(server), raw(server) as one:
        def send():
            for _ in range(count // 10_000):
                one.sendall(b"list-tube-used\r\n" * 10_000)

        sender, seen = threading.Thread(target=send), 0
        sender.start()
        while seen < count * 15:
            seen += len(one.recv(MIB))
        sender.join()
        assert seen == count * 15


def test_a_client_with_many_jobs_does_not_slow_others(server):
    count = 3000 if IS_SANITIZED else 20_000
    with Connection(address(server)) as one:
        one.send(b"put 0 0 600 1\r\nx\r\n" * count)
        assert all(one.answer()[0] == "INSERTED" for _ in range(count))
        with Good(server):
            one.send(b"reserve\r\n" * count)
            numbers = [one.answer()[1] for _ in range(count)]
            one.send("".join(f"touch {number}\r\n" for number in numbers[:1000]))
            assert all(one.answer() == ["TOUCHED"] for _ in range(1000))
    with Connection(address(server)) as two:
        eventually(lambda: two.stats("stats-tube default")["current-jobs-ready"] == str(count), 60)
