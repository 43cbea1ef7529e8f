"""The configurations of docs/operations/proxies.md, as they are shown, by real proxies: REST and gRPC on one port with TLS."""

import queue
import subprocess
import threading
import time

import grpc
import pytest
from certificates import Authority
from conftest import FLAGS
from grpc_calls import MESSAGES, Stub, details, duration
from haproxy import HAProxy
from nginx import Nginx
from pages import blocks
from server import eventually

pytestmark = pytest.mark.plain("the proxies connect without TLS")
PAGE = "docs/operations/proxies.md"
NAME = "queue.example"
AROUND = """
worker_processes 1; daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    {config}
}}
"""


def shown(language):
    [block] = [lines for _, found, lines in blocks(PAGE) if found == language]
    return "\n".join(block) + "\n"


class ShownNginx(Nginx):
    def __init__(self, directory, config):
        self.config = config
        super().__init__(directory)

    def start(self):
        (self.directory / "nginx.conf").write_text(AROUND.format(dir=self.directory, config=self.config.replace("listen 443", f"listen 127.0.0.1:{self.port}")))
        return super().start()


class Behind:
    """A server behind a proxy, its stub, and curl."""

    def __init__(self, server, proxy, authority):
        self.server, self.proxy, self.authority = server, proxy, authority
        self.channel = grpc.secure_channel(f"127.0.0.1:{proxy.port}", grpc.ssl_channel_credentials(authority.file.read_bytes()),
                                           options=[("grpc.ssl_target_name_override", NAME), ("grpc.default_authority", NAME)])
        self.stub = Stub(self.channel)

    def curl(self, path, *words):
        """The protocol, the status, and the body."""
        done = subprocess.run(["curl", "-sS", "--max-time", "30", "--cacert", self.authority.file, "--resolve", f"{NAME}:{self.proxy.port}:127.0.0.1", "-w", "\n%{http_version} %{http_code}",
                               *words, f"https://{NAME}:{self.proxy.port}{path}"], capture_output=True, text=True, check=True, timeout=60)
        body, _, last = done.stdout.rpartition("\n")
        return (*last.split(), body)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.pair = authority.sign("queue", names=f"DNS:{NAME}")
    return authority


@pytest.fixture(params=["nginx", "haproxy"])
def behind(request, start_server, tmp_path, authority):
    server = start_server(*FLAGS, "--allowed-host", NAME)
    certificate, key = authority.pair
    if request.param == "nginx":
        config = shown("nginx").replace("127.0.0.1:8279", f"127.0.0.1:{server.port}").replace("/etc/nginx/queue.crt", str(certificate)).replace("/etc/nginx/queue.key", str(key))
        if marker := request.node.get_closest_marker("read_timeout"):
            config = config.replace("grpc_read_timeout 1h", f"grpc_read_timeout {marker.args[0]}")
        proxy = ShownNginx(tmp_path / "nginx", config)
    else:
        (tmp_path / "queue.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
        config = shown("haproxy").replace("127.0.0.1:8279", f"127.0.0.1:{server.port}").replace("/etc/haproxy/queue.pem", str(tmp_path / "queue.pem"))
        proxy = HAProxy(tmp_path / "haproxy", config=config.replace("{", "{{").replace("}", "}}").replace("bind :443", "bind 127.0.0.1:{port}")).start()
    one = Behind(server, proxy, authority)
    try:
        eventually(lambda: one.curl("/readyz")[1] == "200", 30)  # HAProxy checks the server first
        yield one
    finally:
        one.channel.close()
        proxy.stop()


def fails(code, call, **fields):
    with pytest.raises(grpc.RpcError) as failed:
        call(**fields)
    assert failed.value.code() == code, failed.value
    return failed.value


def test_rest_uses_both_versions_of_http(behind):
    for flag, version in (("--http1.1", "1.1"), ("--http2", "2")):
        assert behind.curl("/v1/topics/mail/jobs", flag, "-d", "x")[:2] == (version, "201")
    began = time.monotonic()
    assert behind.curl("/v1/topics/none/take?wait=1s", "-X", "POST")[1:] == ("200", '{"jobs":[]}\n') and time.monotonic() - began >= 1
    assert behind.server.client().topic("mail")["counts"]["ready"] == 2


def test_calls_of_grpc_pass_with_their_errors_and_deadlines(behind):
    stub = behind.stub
    assert Stub(behind.channel, "grpc.health.v1.Health").Check().status == 1
    stub.Push(topic="mail", id="a", body=b"\x00\xff", meta={"k": "v"})
    [job] = stub.Take(topics=["mail"]).jobs
    assert (job.id, job.body, dict(job.meta)) == ("a", b"\x00\xff", {"k": "v"})
    stub.Ack(lease=job.lease)
    error = fails(grpc.StatusCode.FAILED_PRECONDITION, stub.Ack, lease=job.lease)
    assert "lease_ended" in details(error)
    began = time.monotonic()
    assert not stub.Take(topics=["mail"], timeout=10).jobs and 5 < time.monotonic() - began < 10
    fails(grpc.StatusCode.NOT_FOUND, stub.Get, topic="mail", id="none")
    big = stub.Push(topic="mail", body=b"x" * 500_000)
    assert len(stub.Get(topic="mail", id=big.id).body) == 500_000


def test_a_take_whose_client_leaves_receives_no_job(behind):
    take = behind.stub.Take.future(topics=["mail"], timeout=60)
    eventually(lambda: "tarry_waiting_takes 1" in behind.server.client().call("GET", "/metrics").body.decode(), 20)
    take.cancel()
    eventually(lambda: "tarry_waiting_takes 0" in behind.server.client().call("GET", "/metrics").body.decode(), 20)
    behind.server.client().push("mail", "a")
    assert behind.server.client().topic("mail")["counts"]["ready"] == 1


class Worker:
    def __init__(self, stub):
        self.sent, self.received = queue.Queue(), queue.Queue()
        self.send(hello={"topics": ["mail"], "credit": 10, "confirm": True})
        self.call = stub.open("Work", iter(self.sent.get, None), timeout=None)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for message in self.call:
                self.received.put(message)
            self.received.put(None)
        except grpc.RpcError as error:
            self.received.put(error)

    def send(self, **fields):
        self.sent.put(MESSAGES.WorkRequest(**fields))

    def end(self):
        self.sent.put(None)
        assert self.received.get(timeout=20) is None

    def works(self, stub, ident):
        stub.Push(topic="mail", id=ident)
        message = self.received.get(timeout=20)
        assert message is not None and message.job.id == ident, message
        self.send(answer={"verb": "VERB_ACK", "answer": {"lease": message.job.lease}})
        self.send(credit=1)
        assert self.received.get(timeout=20).answered.result.result == 1


def test_a_stream_of_work_passes_in_both_directions(behind):
    worker = Worker(behind.stub)
    for n in range(20):
        worker.works(behind.stub, str(n))
    behind.server.proc.terminate()
    assert worker.received.get(timeout=20).WhichOneof("kind") == "drain"
    worker.end()
    assert behind.server.proc.wait(30) == 0


@pytest.mark.read_timeout("40s")
@pytest.mark.thorough("a stream is idle for 50 s")
@pytest.mark.parametrize("behind", ["nginx"], indirect=True)
def test_an_idle_stream_outlives_a_timeout_above_the_pings(behind):
    """The timeout of nginx is set to 40 s for this test, and the server sends a PING every 30 s. The timeouts of HAProxy stay at 1 h, so a run with it would prove nothing."""
    worker = Worker(behind.stub)
    worker.works(behind.stub, "a")
    time.sleep(50)
    worker.works(behind.stub, "b")
    worker.end()
