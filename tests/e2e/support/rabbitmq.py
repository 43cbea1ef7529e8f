"""
A real RabbitMQ for tests: on free ports, in a temporary directory, with an epmd of its own.

    with RabbitMQ() as broker:      broker.url, broker.channel(), broker.ctl("list_queues")
        broker.kill(); broker.start()

`shared()` is one for the whole run, started by the first caller; it also speaks TLS and refuses messages above SIZE_MAX. Its state is read with pika, which shares no code with the server under test.
"""

import contextlib
import functools
import os
import pathlib
import subprocess
import time

import pika
from child import Child, certificate, listens
from server import free_port

PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")
SIZE_MAX = 200_000


class RabbitMQ(Child):
    """Messages in durable queues survive restarts."""

    NAME = "rabbitmq"
    FAULTS = (OSError, pika.exceptions.AMQPError)
    LOGS = ("output.log", "log/*.log")

    def __init__(self, config="", with_tls=False, prefix=()):
        super().__init__()
        self.prefix = list(prefix)
        self.tls_port = free_port() if with_tls else None
        config += self._tls_config() if with_tls else ""
        self.env = {**os.environ, "HOME": str(self.directory), "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1",
                    "RABBITMQ_NODENAME": f"tarry{self.port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                    "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(free_port()), "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                    "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"), "RABBITMQ_LOG_BASE": str(self.directory / "log"),
                    "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"), "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq"),
                    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}  # an idle scheduler sleeps
        (self.directory / "plugins").write_text("[].\n")
        (self.directory / "rabbitmq.conf").write_text(config)

    def _tls_config(self):
        self.ca_file = certificate(self.directory, "DNS:localhost")
        return (f"listeners.ssl.default = {self.tls_port}\nssl_options.cacertfile = {self.ca_file}\nssl_options.certfile = {self.ca_file}\n"
                f"ssl_options.keyfile = {self.directory / 'key.pem'}\nssl_options.verify = verify_none\n")

    def command(self):
        return [*self.prefix, PROGRAMS / "rabbitmq-server"]

    def is_ready(self):
        """The port opens shortly before the broker is ready, and only an open channel proves that it is."""
        listens(self.port)
        self.connection(timeout=2).close()
        return True

    def stop(self):
        self.kill()
        subprocess.run(["epmd", "-kill"], env=self.env, capture_output=True, timeout=20, check=False)
        super().stop()

    # ---- talking ----

    @property
    def url(self):
        return f"amqp://127.0.0.1:{self.port}/"

    def ctl(self, *words):
        done = subprocess.run([PROGRAMS / "rabbitmqctl", "-q", *map(str, words)], env=self.env, cwd=self.directory, capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0, f"rabbitmqctl {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def connection(self, timeout=20):
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0, socket_timeout=timeout,
                                                                 stack_timeout=timeout, blocked_connection_timeout=timeout))

    @contextlib.contextmanager
    def channel(self):
        connection = self.connection()
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()

    def queue(self, name, **options):
        """A durable queue, empty."""
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=options or None)
            channel.queue_purge(name)
        return name

    def messages(self, queue, count, seconds=20.0):
        """Takes messages until there are so many: [(method, properties, body, when)]. It may return more if they are available."""
        out = []
        limit = time.monotonic() + seconds
        with self.channel() as channel:
            # Each is acknowledged by itself: what is on its way when this ends goes back to the queue.
            for method, properties, body in channel.consume(queue, inactivity_timeout=0.05):
                if method is not None:
                    out.append((method, properties, body, time.time()))
                    channel.basic_ack(method.delivery_tag)
                elif len(out) >= count or time.monotonic() > limit:
                    break
        return out


@functools.cache
def shared():
    broker = RabbitMQ(config=f"max_message_size = {SIZE_MAX}\n", with_tls=True)
    broker.is_shared = True
    return broker.start()
