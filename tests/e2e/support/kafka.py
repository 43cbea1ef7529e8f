"""
A real Kafka for tests: one broker in KRaft mode, from its jars, on free ports, in a temporary directory.

    with Kafka() as broker:                       broker.url, broker.receive("orders", 3), broker.frozen()
        broker.kill(); broker.start()

The jars come from Maven, once, into the user's cache. If they cannot be fetched within a minute, or TARRY_TEST_KAFKA=mock, find_jars() returns the reason: then
tests/unit/targets/test_target_kafka.c, which runs librdkafka's mock cluster, is the only test. Received records are read with Kafka's own client, in Java.
"""

import base64
import functools
import os
import pathlib
import subprocess

import maven
from child import Child, NotStarted, certificate, listens
from server import free_port

VERSION = "3.9.1"
FORMAT_SECONDS = 90.0
USER, PASSWORD = "tarry", "secret-of-kafka"
READER = pathlib.Path(__file__).with_name("KafkaReader.java")
SMALL = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>tarry</groupId><artifactId>kafka-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency></dependencies>
</project>
"""

# PLAIN needs no login and allows everything; LOGIN requires a user, who has the granted rights; SECURE requires TLS and the same user.
SETTINGS = """process.roles=broker,controller
node.id=1
listeners=PLAIN://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port},SECURE://127.0.0.1:{tls_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAIN://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port},SECURE://127.0.0.1:{tls_port}
listener.security.protocol.map=PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
log.dirs={data}
num.partitions=2
log.flush.interval.messages=1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@functools.cache
def find_jars():
    """Returns (the directory of the jars, "") or (None, the reason)."""
    if os.environ.get("TARRY_TEST_KAFKA") == "mock":
        return None, "TARRY_TEST_KAFKA=mock"
    return maven.find_jars(f"kafka-{VERSION}", "kafka_*.jar", POM)


def _word(value):
    return "-" if value is None else "+" + base64.b64encode(value).decode()


class Record:
    """`at_ms`: the time at which its producer sent it. `pairs`: all headers in order, with bytes or None as values. `headers`: those that are text, by name."""

    def __init__(self, at_ms, key, body, pairs):
        self.at_ms, self.key, self.body, self.pairs = at_ms, key, body, pairs
        self.headers = {name: value.decode(errors="replace") for name, value in pairs if value is not None}

    @property
    def id(self):
        return self.headers.get("tarry-id")


class Kafka(Child):
    """The other ports stay the same over restarts too, and so does what topics hold."""

    NAME = "kafka"

    def __init__(self):
        self.jars, why = find_jars()
        if self.jars is None:
            raise NotStarted(why)
        super().__init__()
        self.login_port, self.tls_port, controller_port = (free_port() for _ in range(3))
        self.reader = None
        self.settings = self.directory / "server.properties"
        self.certificate = certificate(self.directory, "IP:127.0.0.1")
        (self.directory / "keystore.pem").write_text((self.directory / "key.pem").read_text() + self.certificate.read_text())
        self.password = PASSWORD
        self.settings.write_text(SETTINGS.format(port=self.port, login_port=self.login_port, tls_port=self.tls_port,
                                                 keystore=self.directory / "keystore.pem", controller_port=controller_port,
                                                 user=USER, password=PASSWORD, data=self.directory / "data"))
        self._java("kafka.tools.StorageTool", "format", "-t", "dGFycnktdGFycnktdGFycg", "-c", self.settings).communicate(timeout=FORMAT_SECONDS)

    def _java(self, *words, **options):
        return self.spawn(*self._words(*words), **options)

    def _words(self, *words):
        return ["java", *SMALL, "-cp", f"{self.jars}/*", *words]

    def command(self):
        return self._words("kafka.Kafka", self.settings)

    def is_ready(self):
        return listens(self.port) and listens(self.login_port)

    def stop(self):
        if self.reader:
            self.reader.kill()
            self.reader.communicate()
        super().stop()

    # ---- talking ----

    @property
    def url(self):
        return f"kafka://127.0.0.1:{self.port}"

    @property
    def login_url(self):
        return f"kafka://127.0.0.1:{self.login_port}"

    @property
    def tls_url(self):
        return f"kafkas://127.0.0.1:{self.tls_port}"

    def set_password(self, password):
        """Changes the password, from its next start on."""
        self.settings.write_text(self.settings.read_text().replace(self.password, password))
        self.password = password

    def launch_reader(self):
        """Its compiler takes a moment: beside something else."""
        if self.reader is None:
            self.reader = self._java(READER, f"127.0.0.1:{self.port}", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.is_reading = False

    def ask(self, *words):
        self.launch_reader()
        if not self.is_reading:
            self._answer()
            self.is_reading = True
        self.reader.stdin.write(" ".join(map(str, words)) + "\n")
        self.reader.stdin.flush()
        return self._answer()

    def _answer(self):
        lines = []
        while (line := self.reader.stdout.readline()) != ".\n":
            if not line:
                raise NotStarted("the reader ended:\n" + self.log()[-3000:])
            lines.append(line.split())
        return lines

    def receive(self, topic, count, seconds=20.0):
        """Returns all records of a topic, once there are so many: [Record]."""
        out = []
        for at_ms, *words in self.ask("read", topic, count, seconds):
            key, body, *pairs = (None if word == "-" else base64.b64decode(word[1:]) for word in words)
            out.append(Record(int(at_ms), key, body, [(name.decode(), value) for name, value in zip(pairs[::2], pairs[1::2])]))
        return out

    def send(self, topic, *records):
        """Sends (key, body, [(name, value)…]) or with a timestamp in milliseconds at the end; all are stored when it returns."""
        path = self.directory / "sent"
        with open(path, "w", encoding="ascii") as file:
            for key, body, headers, *at in records:
                words = [_word(key), _word(body), *(_word(part.encode() if isinstance(part, str) else part) for pair in headers for part in pair)]
                file.write(" ".join([str(at[0] if at else 0), *words]) + "\n")
        self.ask("send", topic, path)

    def behind(self, group, topic):
        """Returns how many records of the topic the group has not committed."""
        return int(self.ask("group", group, topic)[0][0])

    def create(self, topic, bytes_max, partitions=1):
        self.ask("create", topic, bytes_max, partitions)

    def deny(self, topic, user):
        self.ask("deny", topic, user)
