"""Whether a callback was sent by one's own server: Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Iterable, Mapping

from .job import Job

TOLERANCE = 300.0  # seconds, either way


class BadSignature(Exception):
    """The callback was not signed with one of the secrets, or not just now."""


def verify(secrets: str | Iterable[str], headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> Job:
    """
    The job of a callback. `secrets`: one or several (while they change), as in the policy file, with or without `whsec_`. `body`: the bytes as
    they came. The signature covers id, time and body; trust the other headers, and so the job's topic and id, only on https.
    """
    found = {name.lower(): value for name, value in headers.items()}
    message, stamp = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not (stamp.isascii() and stamp.isdecimal()) or abs((time.time() if now is None else now) - int(stamp)) > TOLERANCE:
        raise BadSignature("the time stamp is missing or too far away")
    signatures = [one.encode() for one in found.get("webhook-signature", "").split(" ")]
    matches = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("a secret is not base64, give it as in the policy file") from None
        digest = hmac.new(key, f"{message}.{stamp}.".encode() + body, hashlib.sha256).digest()
        expected = b"v1," + base64.b64encode(digest)
        for signature in signatures:
            matches |= hmac.compare_digest(signature, expected)
    if not matches:
        raise BadSignature("no signature is right")
    prefix = "tarry-meta-"
    return Job(
        topic=found.get("tarry-topic", ""),
        id=found.get("tarry-id", ""),
        body=body,
        content_type=found.get("content-type", "application/octet-stream"),
        meta={name[len(prefix) :]: value for name, value in found.items() if name.startswith(prefix)},
        attempt=int(found.get("tarry-attempt") or 0),
        delivery=int(found.get("tarry-delivery") or 0),
    )
