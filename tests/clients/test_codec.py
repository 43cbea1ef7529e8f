"""Each client reads the jobs and results that each other client has encrypted and compressed, from one server, and one stores large bodies for another."""

import base64
import itertools
import json
import os
import sys

import languages
import pytest
from test_conformance import built

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "clients", "conformance")]

import adapters  # noqa: E402
import run  # noqa: E402

CLIENTS = [name for name in languages.chosen(adapters.ADAPTERS) if name != "python-asyncio" and adapters.folder(name).exists()]
BODIES = {"json": ("application/json", b'{"order":1001}'), "bytes": ("image/png", bytes(range(256))), "none": ("application/octet-stream", b""),
          "compressed": ("text/plain; charset=utf-8", "Grüße 你好 ".encode() * 300), "stored": ("text/plain", os.urandom(30_000))}  # fmt: skip


def text(data):
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """A server, and for each client its adapter with the same codec."""
    missing = [why for client in CLIENTS if (why := built(client))]
    if missing:
        pytest.skip("; ".join(missing))
    directory = tmp_path_factory.mktemp("codec")
    one = run.Play(CLIENTS[0], {}, directory)
    (directory / "bodies").mkdir()
    keys = {name: run.CODEC[name] for name in ("current", "keys", "context")}
    request = {"op": "open", "url": one.proxy.url, "codec": {**keys, "gzip": {}, "claim_check": {"directory": str(directory / "bodies"), "above": 20_000}}}
    clients = {name: one.adapter if name == CLIENTS[0] else run.Adapter(name, one.log) for name in CLIENTS}
    try:
        for adapter in clients.values():
            assert "ok" in adapter.ask(request)
        yield one, clients, directory / "bodies"
    finally:
        for name in CLIENTS[1:]:
            if name in clients:
                clients[name].stop()
        one.close()


def ask(adapter, **request):
    answer = adapter.ask(request)
    assert "ok" in answer, answer
    return answer["ok"]


@pytest.fixture(scope="module")
def pushed(play):
    """Each client pushes all bodies, and acks a job with each as its result, to the topics of its name."""
    one, clients, _ = play
    for name, adapter in clients.items():
        one._client().put_topic(f"results-{name}", keep_finished="1h")
        for id, (kind, body) in BODIES.items():
            ask(adapter, op="push", topic=f"bodies-{name}", id=id, body_base64=text(body), content_type=kind)
            ask(adapter, op="push", topic=f"results-{name}", id=id, text="x")
            (job,) = ask(adapter, op="take", topics=[f"results-{name}"], max=1, wait_ms=5000)["jobs"]
            assert ask(adapter, op="ack", leases=[job["lease"]], result={"base64": text(body), "content_type": kind}) == {"results": ["ok"]}


@pytest.mark.parametrize("reader, writer", itertools.product(CLIENTS, CLIENTS))
def test_each_client_reads_each_other(play, pushed, reader, writer):
    one, clients, _ = play
    for id, (kind, body) in BODIES.items():
        job = ask(clients[reader], op="get", topic=f"bodies-{writer}", id=id)["job"]
        assert (job["codec_error"], job["content_type"], job["body_base64"]) == (None, kind, text(body)), id
        done = ask(clients[reader], op="get", topic=f"results-{writer}", id=id)["job"]
        assert (done["codec_error"], done["result_type"], done["result_base64"]) == (None, kind, text(body)), id


@pytest.mark.parametrize("writer", CLIENTS)
def test_the_server_has_neither_text_nor_content_type(play, pushed, writer):
    one, _, bodies = play
    client = one._client()
    for id, steps in {"json": "aes-gcm", "compressed": "gzip+aes-gcm", "stored": "aes-gcm+claim-check"}.items():
        job = client.good("GET", f"/v1/topics/bodies-{writer}/jobs/{id}?body=base64")
        assert job["content_type"] == f"application/vnd.tarry.encoded; steps={steps}; key=2026-11"
        body = base64.b64decode(job.pop("body_base64"))
        assert not [word for word in ("1001", "Grüße", "你好") if word.encode() in body or word in json.dumps(job, ensure_ascii=False)]
    assert len([file for file in bodies.iterdir() if BODIES["stored"][1][:16] in file.read_bytes()]) == 0


def test_codec_json_has_the_output_of_each_client():
    assert set(run.CODEC["outputs"]) == {folder for folder, *_ in adapters.ADAPTERS.values()}
