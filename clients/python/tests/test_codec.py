"""The vectors that all clients share, rotation, stores, and what a client does with a job that it cannot decode."""

import base64
import json
import os
import pathlib

import pytest

pytest.importorskip("cryptography", reason="not run: the package cryptography is not installed")

import tarry  # noqa: E402
from tarry.job import job_of  # noqa: E402

FOUND = json.loads((pathlib.Path(__file__).parents[2] / "conformance" / "codec.json").read_text(encoding="utf-8"))


def about(one):
    return one["about"]


def codec(store=None, **given):
    keys = None if given.get("no_keys") else tarry.AesGcm(FOUND["current"], FOUND["keys"])
    check = None if given.get("no_store") else tarry.ClaimCheck(store or {})
    return tarry.Codec(gzip=tarry.Gzip(inflated=given.get("inflated", 1 << 26)), aes_gcm=keys, claim_check=check, context=given.get("context", FOUND["context"]))


class Store(dict):
    get = dict.get
    put = dict.__setitem__

    def delete(self, name):
        self.pop(name, None)


def stored(one):
    return Store({name: base64.b64decode(data) for name, data in one.get("stored", {}).items()})


@pytest.mark.parametrize("one", FOUND["vectors"], ids=about)
def test_encodes_as_every_client_does(one):
    mine = tarry.Codec(aes_gcm=tarry.AesGcm(FOUND["current"], FOUND["keys"]), context=FOUND["context"])
    nonce = base64.b64decode(one["nonce_base64"]) if "nonce_base64" in one else None
    data, kind = mine._encode(base64.b64decode(one["body_base64"]), one["content_type"], one["part"], one.get("is_steady", False), nonce)
    assert (base64.b64encode(data).decode(), kind) == (one["encoded_base64"], one["encoded_type"])


@pytest.mark.parametrize("one", FOUND["vectors"] + FOUND["decodes"] + [one for lists in FOUND["outputs"].values() for one in lists], ids=about)
def test_decodes_what_every_client_encodes(one):
    data, kind = codec(stored(one)).decode(base64.b64decode(one["encoded_base64"]), one["encoded_type"], one["part"])
    assert (base64.b64encode(data).decode(), kind) == (one["body_base64"], one["content_type"])


@pytest.mark.parametrize("one", FOUND["errors"], ids=about)
def test_reports_what_is_wrong(one):
    with pytest.raises(tarry.CodecError) as fault:
        codec(Store(), **one).decode(base64.b64decode(one["encoded_base64"]), one["encoded_type"], one["part"])
    assert fault.value.detail == one["error"]


def test_equal_bodies_differ_except_in_schedules():
    mine = codec()
    assert mine.encode(b"x", "text/plain") != mine.encode(b"x", "text/plain")
    assert mine.encode(b"x", "text/plain", is_steady=True) == mine.encode(b"x", "text/plain", is_steady=True)


def test_only_what_becomes_smaller_is_compressed():
    mine = tarry.Codec(gzip=tarry.Gzip(above=100))
    random = os.urandom(200)
    assert mine.encode(b"a" * 99, "text/plain") == (b"a" * 99, "text/plain") and mine.encode(random, "image/png") == (random, "image/png")
    assert mine.encode(b"a" * 100, "text/plain")[1] == "application/vnd.tarry.encoded; steps=gzip"


def test_large_bodies_are_stored_and_deleted(tmp_path):
    store = tarry.DirectoryStore(tmp_path)
    mine = tarry.Codec(claim_check=tarry.ClaimCheck(store, above=20))
    data, kind = mine.encode(b"a body that is longer", "text/plain")
    (file,) = tmp_path.iterdir()
    assert (file.name, kind, file.stat().st_mode & 0o777) == (data.decode(), "application/vnd.tarry.encoded; steps=claim-check", 0o600)
    job = job_of({"topic": "t", "id": "1", "body_base64": base64.b64encode(data).decode(), "content_type": kind}, mine)
    assert (job.body, job.content_type, job.stored_as) == (b"a body that is longer", "text/plain", file.name)
    mine.delete_stored(job)
    mine.delete_stored(job)
    assert not list(tmp_path.iterdir()) and mine.encode(b"small", "text/plain") == (b"small", "text/plain")


@pytest.mark.parametrize("mine, error", [(None, r"the body is encoded \(aes-gcm\), and the client has no codec"), (tarry.Codec(), "the codec has no keys")])
def test_a_body_that_cannot_be_decoded_is_never_read_as_it_is(mine, error):
    one = FOUND["vectors"][0]
    job = job_of({"topic": "t", "id": "1", "body_base64": one["encoded_base64"], "content_type": one["encoded_type"]}, mine)
    for read in (lambda: job.body, lambda: job.text, job.json):
        with pytest.raises(tarry.CodecError, match=error):
            read()
    assert "t" in repr(job) and job.result is None


@pytest.mark.parametrize("arguments, error", [(("a", {"b": b"k" * 32}), "there is no key 'a'"), (("a", {"a": b"k" * 16}), "has 16 bytes, give 32"), (("a b", {"a b": b"k" * 32}), "bad id of a key")])
def test_bad_keys_are_rejected(arguments, error):
    with pytest.raises(ValueError, match=error):
        tarry.AesGcm(*arguments)
