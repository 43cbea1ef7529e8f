"""
A real RocketMQ for tests: a name server and one broker, from their jars, on free ports, in a temporary directory.

    with RocketMQ("5.3.2") as mq:                 mq.url, mq.receive("orders", 3), mq.broker.frozen()
        mq.broker.kill(); mq.broker.start()

The jars come from Maven, once for each generation, into the user's cache. If they cannot be fetched within a minute and a half, find_jars() returns the reason: then
tests/targets/rig_rocketmq.c is the only test. Received messages are read with RocketMQ's own client, in Java.
"""

import base64
import functools
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile

import maven
from child import Child, Entered, NotStarted, certificate, listens
from server import free_port

OLD, NEW = "4.9.7", "5.3.2"
NAME_SERVERS = {OLD: OLD, NEW: "5.1.4"}  # later ones are not published
ACCESS_KEY, SECRET_KEY = "tarry-key", "secret-of-rocketmq"
READER = pathlib.Path(__file__).with_name("RocketmqReader.java")
SMALL = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
         *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")),
         *(f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in ("sun.nio.ch", "jdk.internal.ref")))

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>tarry</groupId><artifactId>rocketmq-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-broker</artifactId><version>{broker}</version></dependency>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-namesrv</artifactId><version>{names}</version></dependency>
  </dependencies>
</project>
"""

BROKER = """brokerClusterName=test
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
listenPort={port}
haListenPort={ha_port}
namesrvAddr=127.0.0.1:{names_port}
storePathRootDir={data}
storePathCommitLog={data}/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=600000
maxMessageSize=2097152
messageIndexEnable=false
timerWheelEnable=false
enableControllerMode=false
autoCreateTopicEnable=true
defaultTopicQueueNums=4
registerNameServerPeriod=10000
diskMaxUsedSpaceRatio=95
{access}
"""

# Before 5.3 the list is a file in ROCKETMQ_HOME/conf; since then users are made by the broker itself.
OLD_ACCESS = "aclEnable=true"
NEW_ACCESS = f"""authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={{"username":"{ACCESS_KEY}","password":"{SECRET_KEY}"}}
innerClientAuthenticationCredentials={{"accessKey":"{ACCESS_KEY}","secretKey":"{SECRET_KEY}"}}"""
OLD_LIST = f"""accounts:
- accessKey: {ACCESS_KEY}
  secretKey: {SECRET_KEY}
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms:
  - forbidden=DENY
"""
LOGBACK = "<configuration/>\n"


@functools.cache
def find_jars(version):
    """Returns (the directory of the jars, "") or (None, the reason)."""
    return maven.find_jars(f"rocketmq-{version}", "rocketmq-broker-*.jar", POM.format(broker=version, names=NAME_SERVERS[version]))


def is_registered(names_port):
    """Does the name server know a broker that makes topics? A moment after that listens."""
    header = json.dumps({"code": 105, "flag": 0, "language": "OTHER", "opaque": 1, "serializeTypeCurrentRPC": "JSON", "version": 407,
                         "extFields": {"topic": "TBW102"}}).encode()
    with socket.create_connection(("127.0.0.1", names_port), 5) as peer:
        peer.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
        answer = b""
        while len(answer) < 8 or len(answer) < 8 + struct.unpack(">I", answer[4:8])[0]:
            data = peer.recv(1 << 16)
            if not data:
                return False
            answer += data
        return json.loads(answer[8:8 + struct.unpack(">I", answer[4:8])[0]])["code"] == 0


class Process(Child):
    """A name server, or a broker that registers there."""

    def __init__(self, name, main, jars, directory, settings, options=(), names=None):
        self.NAME = name
        super().__init__(directory=directory)
        self.words = ["java", *SMALL, *options, f"-Duser.home={directory}", "-cp", f"{jars}/*", main, "-c", directory / f"{name}.conf"]
        (directory / f"{name}.conf").write_text(settings(self.port))
        self.env["ROCKETMQ_HOME"], self.names = str(directory), names

    def command(self):
        return self.words

    def is_ready(self):
        return listens(self.port) and (self.names is None or is_registered(self.names.port))


class Message:
    def __init__(self, tags, keys, body, properties):
        self.tags, self.keys, self.body, self.headers = tags, keys, body, properties

    @property
    def id(self):
        return self.headers.get("tarry-id")


class RocketMQ(Entered):
    """A broker that requires ACCESS_KEY and SECRET_KEY. Ports and messages survive restarts."""

    def __init__(self, version):
        self.jars, why = find_jars(version)
        if self.jars is None:
            raise NotStarted(why)
        self.reader = None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="rocketmq-"))
        (self.directory / "conf").mkdir()
        for name in ("namesrv", "broker"):
            (self.directory / "conf" / f"logback_{name}.xml").write_text(LOGBACK)
        (self.directory / "conf" / "plain_acl.yml").write_text(OLD_LIST)
        self.certificate = certificate(self.directory, "IP:127.0.0.1")
        tls = ("-Dtls.server.mode=permissive", "-Dtls.test.mode.enable=false", f"-Dtls.server.certPath={self.certificate}",
               f"-Dtls.server.keyPath={self.directory / 'key.pem'}")
        self.names = Process("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", self.jars, self.directory, lambda port: f"listenPort={port}\n", tls)
        rules = OLD_ACCESS if version == OLD else NEW_ACCESS
        self.broker = Process("broker", "org.apache.rocketmq.broker.BrokerStartup", self.jars, self.directory,
                              lambda port: BROKER.format(port=port, ha_port=free_port(), names_port=self.names.port, data=self.directory / "store", access=rules), tls,
                              names=self.names)

    def launch(self):
        self.names.start()
        self.broker.launch()
        return self

    def wait_ready(self):
        self.broker.wait_ready()
        return self

    def stop(self):
        if self.reader:
            self.reader.kill()
            self.reader.communicate()
        self.broker.stop()
        self.names.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self):
        return self.launch().wait_ready()

    # ---- talking ----

    @property
    def url(self):
        return f"rocketmq://127.0.0.1:{self.names.port}"

    @property
    def tls_url(self):
        return f"rocketmqs://127.0.0.1:{self.names.port}"

    def launch_reader(self):
        """Its compiler takes a moment: beside something else."""
        if self.reader is None:
            words = ["java", *SMALL, f"-Duser.home={self.directory}", "-cp", f"{self.jars}/*", READER, f"127.0.0.1:{self.names.port}", ACCESS_KEY, SECRET_KEY]
            self.reader = self.names.spawn(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.is_reading = False
        return self

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
                raise NotStarted("the reader ended:\n" + self.names.log()[-3000:])
            if line.startswith(("+", "-")):
                lines.append(line.split())
        return lines

    def receive(self, topic, count, seconds=20.0):
        """Returns all messages of a topic, once there are so many: [Message]."""
        out = []
        for words in self.ask("read", topic, count, seconds):
            tags, keys, body, *pairs = (None if word == "-" else base64.b64decode(word[1:]) for word in words)
            properties = {name.decode(): value.decode() for name, value in zip(pairs[::2], pairs[1::2])}
            out.append(Message(tags and tags.decode(), keys and keys.decode(), body, properties))
        return out
