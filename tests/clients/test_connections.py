"""Clients that open connections by themselves reach a server by TLS, with a client certificate, and by its unix socket. The others use the TLS of
their language.

TARRY_TEST_CLIENT=rust picks one, see languages.py.
"""

import pathlib
import subprocess
import sys

import languages
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support"), str(REPO / "clients" / "conformance")]

import adapters  # noqa: E402
from certificates import Authority  # noqa: E402
from run import Adapter  # noqa: E402
from server import Server, free_port  # noqa: E402
from tokens import Token, TokenFile  # noqa: E402

CLIENTS = languages.chosen(["node", "ruby", "rust"])
NO_FILES = ["node"]  # their options are the contents of files


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("connections")
    authority, other, port = Authority(directory / "ca"), Authority(directory / "other", "other"), free_port()
    authority.sign("server")
    authority.sign("client", names=None, common_name="client.example")
    tokens = TokenFile(directory / "tokens", Token("client").as_certificate())
    tls = ["--listen", f"127.0.0.1:{port},tls", "--tls-cert", str(authority.certificate("server")), "--tls-key", str(authority.key("server")), "--tls-client-ca", str(authority.file)]
    server = Server(directory / "server", ["--tokens", str(tokens.path), "--listen", f"unix:{directory}/sock,no-token", *tls]).start()
    yield {"url": f"https://localhost:{port}", "ca_file": str(authority.file), "other_ca": str(other.file), "socket": f"unix:{directory}/sock",
           "certificate": str(authority.certificate("client")), "key": str(authority.key("client")), "server": server}
    server.terminate()


@pytest.fixture(name="adapter", params=CLIENTS)
def fixture_adapter(request, tmp_path):
    if lacking := adapters.lacking(request.param):
        pytest.skip(f"not run: the client '{request.param}', {', '.join(lacking)} is not installed")
    if request.param in adapters.BUILD:
        subprocess.run(adapters.BUILD[request.param], cwd=adapters.folder(request.param), check=True, timeout=600)
    with open(tmp_path / "adapter.log", "w+", encoding="utf-8") as log:
        found = Adapter(request.param, log)
        yield found
        found.stop()


def pushes(adapter, **options):
    """The answer to a push of a client with these options."""
    opened = adapter.ask({"op": "open", "retry_for_ms": 200, **options})
    return opened if "error" in opened else adapter.ask({"op": "push", "topic": "t", "text": "x"})


def test_the_server_is_trusted_by_its_authority_alone(adapter, place):
    own = {"certificate": place["certificate"], "key": place["key"]}
    assert pushes(adapter, url=place["url"], ca_file=place["ca_file"], **own).get("ok", {}).get("result") == "created"
    for options in ({"ca_file": place["other_ca"]}, {}):
        assert pushes(adapter, url=place["url"], **options, **own)["error"]["kind"] == "Unavailable"


def test_without_its_certificate_a_client_is_denied(adapter, place):
    assert pushes(adapter, url=place["url"], ca_file=place["ca_file"])["error"]["kind"] == "Denied"


def test_a_file_that_is_missing_is_an_error(adapter, place, request):
    if request.node.callspec.params["adapter"] in NO_FILES:
        pytest.skip("the client reads no files")
    assert pushes(adapter, url=place["url"], ca_file="/nowhere/ca.pem")["error"]["kind"] == "Refused"


def test_jobs_go_through_a_unix_socket(adapter, place):
    assert pushes(adapter, url=place["socket"])["ok"]["result"] == "created"
    adapter.ask({"op": "worker", "name": "w", "topics": ["t"], "concurrency": 2, "lease_ms": 60000, "handler": {"do": "ack"}})
    adapter.wait_event({"event": "ended", "outcome": "ack"}, 20)
    adapter.ask({"op": "stop", "name": "w", "grace_ms": 1000})
    assert pushes(adapter, url=f"{place['socket']}-not-there")["error"]["kind"] == "Unavailable"
