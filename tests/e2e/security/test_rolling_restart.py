"""Two servers on one Redis are restarted one after the other under load: no request of a client that tries another server where it cannot connect fails."""

import random
import threading
import time

import pytest
from client import Connection
from redis_servers import RedisServer
from server import free_port

ROUNDS, CLIENTS = 6, 5


class Clients:
    """A client that keeps its connection until it receives `Connection: close`. Then, or if it cannot connect, it uses any server."""

    def __init__(self, ports):
        self.ports, self.ended, self.failed, self.answered = ports, threading.Event(), [], 0
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _connect(self, chance):
        while not self.ended.is_set():
            try:
                return Connection(chance.choice(self.ports))
            except ConnectionRefusedError:
                time.sleep(0.01)
        return None

    def _run(self, number):
        chance, connection, count = random.Random(number), None, 0
        while not self.ended.is_set():
            connection = connection or self._connect(chance)
            if not connection:
                return
            count += 1
            try:
                if count % 7 == 0:
                    answer = connection.call("POST", "/v1/topics/t/take?max=10&wait=200ms")
                else:
                    answer = connection.call("PUT", f"/v1/topics/t/jobs/{number}-{count}?delay=1h", body=b"x")
            except Exception as fault:  # whatever it is
                self.failed.append((number, count, repr(fault)))
                connection = None
                continue
            self.answered += 1
            if answer.status not in (200, 201, 204):
                self.failed.append((number, count, answer.status, answer.body[:200]))
            if (answer.headers.get("connection") or "").lower() == "close":
                connection.close()
                connection = None

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture(scope="module")
def redis():
    with RedisServer(aof="everysec") as server:
        yield server


def test_no_request_fails_while_servers_are_restarted_in_turn(start_server, redis):
    servers = [start_server("--store", redis.url, started=False) for _ in range(2)]
    ports = [free_port(), free_port()]
    for server, port in zip(servers, ports):
        server.start(port)
    clients = Clients(ports)
    for number in range(ROUNDS):
        server, port = servers[number % 2], ports[number % 2]
        time.sleep(0.3)
        before = clients.answered
        assert server.terminate() == 0
        server.start(port)
        assert clients.answered > before
    clients.end()
    assert clients.failed == [] and clients.answered > 500
