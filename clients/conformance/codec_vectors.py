#!/usr/bin/env python3
"""Writes codec.json, which every client reads: codec_vectors.py --make writes its vectors with the client for Python; codec_vectors.py --record CLIENT… adds the output of
clients, so that the tests of one client read the output of all others without their languages.
"""

import argparse
import base64
import gzip
import json
import pathlib
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import run  # noqa: E402
import tarry  # noqa: E402

PLACE = HERE / "codec.json"
TEXT = base64.b64encode
BODIES = [("an object", "application/json", '{"order":1001,"text":"Grüße 你好"}'.encode()), ("bytes", "image/png", bytes(range(256))), ("no bytes", "application/octet-stream", b""),
          ("a long text", "text/plain; charset=utf-8", "Grüße 你好 ".encode() * 400)]


def show(data):
    return TEXT(data).decode()


def codec(given, **more):
    return tarry.Codec(aes_gcm=tarry.AesGcm(given["current"], given["keys"]), context=given["context"], **more)


def make():
    """The vectors of fixed nonces, cases for decoders only, and errors."""
    keys = {"2026-11": show(bytes(range(32))), "2026-08": show(bytes(range(32, 64)))}
    given = {"current": "2026-11", "keys": keys, "context": "shop"}
    mine, vectors = codec(given), []
    for about, kind, body in BODIES[:3]:
        for part, is_steady in (("body", False), ("result", False), ("body", True)):
            nonce = None if is_steady else bytes([len(vectors)] * 12)
            data, outer = mine._encode(body, kind, part, is_steady, nonce)
            vectors.append({"about": f"{about} as a {part}" + (", of a schedule" if is_steady else ""), "part": part, **({"is_steady": True} if is_steady else {"nonce_base64": show(nonce)}),
                            "content_type": kind, "body_base64": show(body), "encoded_base64": show(data), "encoded_type": outer})
    old = tarry.Codec(aes_gcm=tarry.AesGcm("2026-08", keys), context="shop", gzip=tarry.Gzip(0))
    plain, ending = tarry.Codec(gzip=tarry.Gzip(0)), BODIES[3]
    name, other = "0123456789abcdef0123456789abcdef", "f" * 32
    decodes = []
    for about, one in (("an older key, compressed", old), ("compressed only", plain)):
        data, outer = one.encode(ending[2], ending[1])
        decodes.append({"about": about, "part": "body", "content_type": ending[1], "body_base64": show(ending[2]), "encoded_base64": show(data), "encoded_type": outer})
    data, outer = decodes[0]["encoded_base64"], decodes[0]["encoded_type"]
    decodes.append({**decodes[0], "about": "stored elsewhere", "encoded_base64": show(name.encode()), "encoded_type": outer.replace("; key", "+claim-check; key"), "stored": {name: data}})
    decodes.append({"about": "not encoded", "part": "body", "content_type": "text/plain", "body_base64": show(b"x"), "encoded_base64": show(b"x"), "encoded_type": "text/plain"})
    good, kind = base64.b64decode(vectors[0]["encoded_base64"]), vectors[0]["encoded_type"]
    changed = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in (0, 12, len(good) - 1)]
    bad_key = "the body cannot be decrypted with the key '2026-11': it was changed, or has another context"
    packed = gzip.compress(b"\x01x" + b"a" * 5000, mtime=0)
    zipped = "application/vnd.tarry.encoded; steps=gzip"
    stored = "application/vnd.tarry.encoded; steps=claim-check"
    errors = [
        *[{"about": f"a changed {what}", "encoded": data, "type": kind, "error": bad_key} for what, data in zip(("nonce", "text", "tag"), changed)],
        {"about": "a tag that is cut", "encoded": good[:-1], "type": kind, "error": bad_key},
        {"about": "a body as a result", "part": "result", "encoded": good, "type": kind, "error": bad_key.replace("body", "result")},
        {"about": "another list of steps", "encoded": good, "type": kind.replace("=aes", "=gzip+aes"), "error": bad_key},
        {"about": "the wrong key", "encoded": good, "type": kind.replace("-11", "-08"), "error": bad_key.replace("-11", "-08")},
        {"about": "another context", "context": "bank", "encoded": good, "type": kind, "error": bad_key},
        {"about": "an unknown key", "encoded": good, "type": kind.replace("2026-11", "2019"), "error": "the body is encrypted with the key '2019', which the codec does not have"},
        {"about": "no keys", "no_keys": True, "encoded": good, "type": kind, "error": "the body is encrypted with the key '2026-11', and the codec has no keys"},
        {"about": "too short", "encoded": good[:27], "type": kind, "error": "the body is too short to be encrypted"},
        {"about": "an unknown step", "encoded": b"x", "type": zipped + "+rot13", "error": "the body has the step 'rot13', which the codec does not have"},
        {"about": "steps in another order", "encoded": b"x", "type": kind.replace("aes-gcm", "aes-gcm+gzip"), "error": "the content type of the body is not valid"},
        {"about": "a step twice", "encoded": b"x", "type": zipped + "+gzip", "error": "the content type of the body is not valid"},
        {"about": "no key named", "encoded": b"x", "type": kind.partition("; key")[0], "error": "the content type of the body is not valid"},
        {"about": "no steps", "encoded": b"x", "type": "application/vnd.tarry.encoded", "error": "the body has the step '', which the codec does not have"},
        {"about": "a bomb", "inflated": 1000, "encoded": packed, "type": zipped, "error": "the body inflates to more than 1000 bytes"},
        {"about": "cut gzip", "encoded": packed[:-5], "type": zipped, "error": "the body is not valid gzip"},
        {"about": "changed gzip", "encoded": packed[:-8] + b"\x00\x00\x00\x00" + packed[-4:], "type": zipped, "error": "the body is not valid gzip"},
        {"about": "no gzip", "encoded": b"not gzip", "type": zipped, "error": "the body is not valid gzip"},
        {"about": "bytes after gzip", "encoded": packed + b"x", "type": zipped, "error": "the body is not valid gzip"},
        {"about": "an empty frame", "encoded": gzip.compress(b"", mtime=0), "type": zipped, "error": "the body is too short"},
        {"about": "a frame that ends in its content type", "encoded": gzip.compress(b"\x05text", mtime=0), "type": zipped, "error": "the body is too short"},
        {"about": "data that is missing", "encoded": other.encode(), "type": stored, "error": f"the body is stored elsewhere as '{other}', which the store does not have"},
        {"about": "a name that leaves the store", "encoded": b"../../../../../../../etc/passwd00", "type": stored, "error": "the body is stored elsewhere, but its name is not valid"},
        {"about": "no store", "no_store": True, "encoded": other.encode(), "type": stored, "error": "the body is stored elsewhere, and the codec has no store"},
    ]
    for one in errors:
        one["encoded_base64"], one["encoded_type"], one["part"] = show(one.pop("encoded")), one.pop("type"), one.get("part", "body")
    outputs = json.loads(PLACE.read_text(encoding="utf-8"))["outputs"] if PLACE.exists() else {}
    write({**given, "vectors": vectors, "decodes": decodes, "errors": errors, "outputs": outputs})


def record(client):
    """Stores the jobs and results of the client as the server has them."""
    found = json.loads(PLACE.read_text(encoding="utf-8"))
    outputs = []
    with tempfile.TemporaryDirectory() as directory:
        play = run.Play(client, {}, pathlib.Path(directory))
        try:
            play._client().put_topic("t", keep_finished="1h", keep_body=True)
            play._do({"op": "open", "url": play.proxy.url, "codec": {name: found[name] for name in ("current", "keys", "context")} | {"gzip": {}}}, {})
            for about, kind, body in BODIES:
                play._do({"op": "push", "topic": "t", "id": "a", "body_base64": show(body), "content_type": kind}, {})
                play._do({"op": "take", "topics": ["t"], "max": 1, "wait_ms": 5000}, {"keep_leases": "L"})
                play._do({"op": "ack", "leases": "L", "result": {"base64": show(body), "content_type": kind}}, {})
                with urllib.request.urlopen(f"http://127.0.0.1:{play.server.port}/v1/topics/t/jobs/a?body=base64") as answer:
                    job = json.load(answer)
                outputs += [{"about": f"{about} as a {part}", "part": part, "content_type": kind, "body_base64": show(body), "encoded_base64": job[f"{part}_base64"], "encoded_type": job[of]}
                            for part, of in (("body", "content_type"), ("result", "result_type"))]
        finally:
            play.close()
    write({**found, "outputs": {**found["outputs"], client: outputs}})


def write(found):
    """One line for each vector, so that a change is readable."""
    found["outputs"] = dict(sorted(found["outputs"].items()))

    def rows(name, value, indent):
        lines = ",\n".join(f"{indent}  {json.dumps(one, ensure_ascii=False)}" for one in value)
        return f"{indent}{json.dumps(name)}: [\n{lines}\n{indent}]"

    plain = [f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in ("current", "keys", "context")]
    outputs = ",\n".join(rows(name, value, "    ") for name, value in found["outputs"].items())
    lists = [rows(name, found[name], "  ") for name in ("vectors", "decodes", "errors")]
    PLACE.write_text("{\n" + ",\n".join([*plain, *lists, '  "outputs": {\n' + outputs + "\n  }"]) + "\n}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--record", nargs="+", default=[])
    options = parser.parse_args()
    if options.make:
        make()
    for client in options.record:
        record(client)


main()
