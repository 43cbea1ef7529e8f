"""Addresses of IPv6 in every place that takes the address of a server: each kind of destination and store is reached at [::1]."""

import contextlib
import socket
import subprocess
import threading

import pytest
from endpoint import Endpoint, write_policy
from mariadb import MariadbServer
from postgres import PostgresServer
from redis_servers import RedisServer
from server import BINARY, eventually


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
POLICY = ("allow-host = ::1", "allow-network = ::1")


class Relay:
    """A port of [::1] that leads to one of 127.0.0.1, or to a unix socket."""

    def __init__(self, to):
        self.to, self.count = to, 0
        self.listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.port = self.listener.getsockname()[1]
        self.at = f"[::1]:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, far = self.listener.accept()[0], self._connect()
                self.count += 1
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _connect(self):
        if isinstance(self.to, int):
            return socket.create_connection(("127.0.0.1", self.to))
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.to)
        return far

    @staticmethod
    def _copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def tarry(*words):
    ended = subprocess.run([str(BINARY), *words], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.plain("an endpoint without TLS")
@pytest.mark.parametrize("host", ["[::1]", "[0:0::1]", "[::ffff:127.0.0.1]"])
def test_callbacks_reach_an_address(host, start_server, tmp_path):
    with Endpoint() as endpoint, Relay(endpoint.port) as relay:
        port = endpoint.port if "127" in host else relay.port
        server = start_server("--deliver", write_policy(tmp_path / "policy", *POLICY))
        client = server.client()
        url = f"http://{host}:{port}"
        client.put_topic("t", deliver={"to": f"{url}/{{id}}", "callback": True})
        client.push("t", "a")
        client.push("t", "b", callback=f"{url}/b")
        eventually(lambda: {call.path for call in endpoint.calls} == {"/a", "/b"})
        eventually(lambda: client.topic("t")["totals"]["acked"] == 2)
        assert "outcome       done" in tarry("deliver", "test", "t", "--url", server.url)


def test_an_address_that_the_policy_does_not_allow_is_refused(start_server, tmp_path):
    client = start_server("--deliver", write_policy(tmp_path / "policy", "allow-host = ::1")).client()
    answer = client.call("PUT", "/v1/topics/t", b'{"deliver":{"to":"http://[::1]:1/"}}')
    assert answer.status == 400 and "'::1' is not public" in answer.json()["detail"]


@pytest.mark.plain("its own listener")
def test_the_command_line_reaches_a_listener(start_server):
    server = start_server("--listen", "[::1]:0")
    port = next(line.split("address=[::1]:")[1].split()[0] for line in server.log().splitlines() if "address=[::1]:" in line)
    url = f"http://[::1]:{port}"
    tarry("push", "t", "a", "--body", "x", "--url", url)
    assert "ready" in tarry("get", "t", "a", "--url", url) and "a" in tarry("list", "t", "--url", url)
    tarry("bench", "--url", url, "--jobs", "200")


@pytest.mark.thorough("needs RabbitMQ")
def test_rabbitmq(start_server, tmp_path):
    import rabbitmq
    broker = rabbitmq.shared()
    for queue in ("six-in", "six-out"):
        broker.queue(queue)
    with Relay(broker.port) as relay:
        server = start_server("--deliver", write_policy(tmp_path / "policy", *POLICY), "--amqp-in", f"amqp://{relay.at}/?queue=six-in")
        client = server.client()
        client.put_topic("t", deliver={"to": f"amqp://{relay.at}", "routing_key": "six-out"})
        client.push("t", "a", b"from a topic")
        with broker.channel() as channel:
            channel.basic_publish("", "six-in", b"from a queue", rabbitmq.pika.BasicProperties(headers={"x-delay": 10, "x-routing-key": "six-out"}))
        assert {body for *_, body, _ in broker.messages("six-out", 2)} == {b"from a topic", b"from a queue"}
        assert relay.count >= 2


@pytest.mark.parametrize("to", [{"to": "kafka://{}"}, {"to": "rocketmq://{}"}, {"to": "nats://{}"}, {"to": "stomp://{}", "destination": "/queue/{{topic}}"}], ids=["kafka", "rocketmq", "nats", "stomp"])
def test_other_brokers_are_called(to, start_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent, Relay(silent.getsockname()[1]) as relay:
        client = start_server("--deliver", write_policy(tmp_path / "policy", *POLICY)).client()
        client.put_topic("t", deliver={name: value.format(relay.at) for name, value in to.items()})
        client.push("t", "a")
        eventually(lambda: relay.count)


def test_redis(start_server):
    with RedisServer() as redis, Relay(redis.port) as relay:
        client = start_server("--store", f"redis://{relay.at}/3?prefix=six").client()
        client.push("t", "a")
        assert client.take("t") and relay.count


def try_database(start_server, url, relay):
    tarry("sql", "migrate", url)
    client = start_server("--store", url).client()
    client.push("t", "a")
    assert client.take("t") and relay.count > 1


def test_postgresql(start_server):
    with PostgresServer() as database, Relay(f"{database.directory}/.s.PGSQL.5432") as relay:
        try_database(start_server, f"postgres://tarry@{relay.at}/postgres", relay)


@pytest.mark.thorough("needs MariaDB")
def test_mariadb(start_server):
    with MariadbServer() as database, Relay(database.socket) as relay:
        try_database(start_server, f"mysql://root@{relay.at}/", relay)
