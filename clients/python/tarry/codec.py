"""The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere. docs/codec.md has the format."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import hmac
import os
import pathlib
import re
import tempfile
import zlib
from typing import Mapping, Protocol

from .errors import TarryError

ENCODED = "application/vnd.tarry.encoded"
GZIP, AES_GCM, CLAIM_CHECK = "gzip", "aes-gcm", "claim-check"
ORDER = (GZIP, AES_GCM, CLAIM_CHECK)
INFLATED_BYTES = 64 << 20
KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")
_NAME = re.compile(r"[0-9a-f]{32}")


class CodecError(TarryError):
    """A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="codec")


class Gzip:
    """Compresses data of at least `above` bytes, if it becomes smaller. Data that inflates to more than `inflated` bytes is an error."""

    def __init__(self, above: int = 1024, inflated: int = INFLATED_BYTES) -> None:
        self.above, self.inflated = above, inflated


class AesGcm:
    """
    Encrypts with AES-256-GCM under the key `current`, and decrypts with each of `keys`: 32 bytes, or these in base64, by their ids. Needs the package cryptography:
    pip install tarry[codec].
    """

    def __init__(self, current: str, keys: Mapping[str, bytes | str]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as fault:
            raise ImportError("AesGcm needs the package cryptography, run: pip install tarry[codec]") from fault
        if current not in keys:
            raise ValueError(f"there is no key '{current}', add it to the keys")
        self.current = current
        self._nonce_keys, self._ciphers = {}, {}
        for id, key in keys.items():
            if not _KEY_ID.fullmatch(id):
                raise ValueError(f"bad id of a key '{id}', give 1 to 32 letters, digits, dots, underscores and hyphens")
            data = base64.b64decode(key) if isinstance(key, str) else bytes(key)
            if len(data) != KEY_BYTES:
                raise ValueError(f"the key '{id}' has {len(data)} bytes, give {KEY_BYTES}")
            self._nonce_keys[id], self._ciphers[id] = hmac.digest(data, b"tarry-codec nonce", hashlib.sha256), AESGCM(data)

    def _encrypt(self, data: bytes, bound: bytes, is_steady: bool, nonce: bytes | None = None) -> bytes:
        """`is_steady`: equal data has equal bytes, so that the same schedule again changes nothing."""
        if nonce is None:
            nonce = hmac.digest(self._nonce_keys[self.current], bound + b"\n" + data, hashlib.sha256)[:NONCE_BYTES] if is_steady else os.urandom(NONCE_BYTES)
        return nonce + self._ciphers[self.current].encrypt(nonce, data, bound)

    def _decrypt(self, data: bytes, bound: bytes, key: str, part: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        if key not in self._ciphers:
            raise CodecError(f"the {part} is encrypted with the key '{key}', which the codec does not have")
        if len(data) < NONCE_BYTES + TAG_BYTES:
            raise CodecError(f"the {part} is too short to be encrypted")
        try:
            return self._ciphers[key].decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
        except InvalidTag:
            raise CodecError(f"the {part} cannot be decrypted with the key '{key}': it was changed, or has another context") from None


class Store(Protocol):
    """Where bodies are stored in place of the server. A name is 32 hexadecimal digits. Threads may call it at the same time."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """None: the store does not have it."""

    def delete(self, name: str) -> None:
        """Returns without an error if the store does not have it."""


class Stored(Protocol):
    @property
    def stored_as(self) -> str | None: ...


class DirectoryStore:
    """A directory that all producers and consumers share. The files are synced to the disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)

    def put(self, name: str, data: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self.path, prefix=".", delete=False) as file:  # readable for its user only
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(file.name, self.path / name)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def get(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.path / name).read_bytes()
        return None

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


class ClaimCheck:
    """Stores data of more than `above` bytes in `store`. The server gets its name. With `delete`, a worker deletes the data of a body after the ack of its job."""

    def __init__(self, store: Store, above: int = 64 << 10, *, delete: bool = True) -> None:
        self.store, self.above, self.delete = store, above, delete


class Codec:
    """
    Codec(gzip=Gzip(), aes_gcm=AesGcm("2026-11", {"2026-11": key}), claim_check=ClaimCheck(DirectoryStore("/srv/bodies")))

    Encodes in this order. `context`, such as the name of a service, must be the same for those that encrypt and decrypt: data of another context is rejected.
    """

    def __init__(self, *, gzip: Gzip | None = None, aes_gcm: AesGcm | None = None, claim_check: ClaimCheck | None = None, context: str = "") -> None:
        self.gzip, self.aes_gcm, self.claim_check, self.context = gzip, aes_gcm, claim_check, context

    def encode(self, data: bytes, content_type: str, part: str = "body", *, is_steady: bool = False) -> tuple[bytes, str]:
        """The bytes for the server, and their content type. `part` is "body" or "result". `is_steady`, for schedules: equal data has equal bytes and is never stored elsewhere."""
        return self._encode(data, content_type, part, is_steady)

    def _encode(self, data: bytes, content_type: str, part: str, is_steady: bool, nonce: bytes | None = None) -> tuple[bytes, str]:
        kind = content_type.encode()
        if len(kind) > 255:
            raise CodecError("the content type has more than 255 bytes")
        steps: list[str] = []
        framed = bytes([len(kind)]) + kind + data
        out, key = framed, ""
        if self.gzip and len(data) >= self.gzip.above and len(packed := gzip.compress(framed, 6, mtime=0)) < len(framed):
            out = packed
            steps.append(GZIP)
        if self.aes_gcm:
            steps.append(AES_GCM)
            key = self.aes_gcm.current
            out = self.aes_gcm._encrypt(out, self._bound(part, steps, key), is_steady, nonce)
        if self.claim_check and not is_steady and len(out) > self.claim_check.above:
            name = os.urandom(16).hex()
            self.claim_check.store.put(name, out)
            steps.append(CLAIM_CHECK)
            out = name.encode()
        if not steps:
            return data, content_type
        return out, f"{ENCODED}; steps={'+'.join(steps)}" + (f"; key={key}" if key else "")

    def decode(self, data: bytes, content_type: str, part: str = "body") -> tuple[bytes, str]:
        """The bytes and the content type as they were before encode(). Data that is not encoded stays as it is."""
        return self._decode(data, content_type, part)[:2]

    def _decode(self, data: bytes, content_type: str, part: str) -> tuple[bytes, str, str | None]:
        """Returns also the name in the store, if there is one."""
        if not is_encoded(content_type):
            return data, content_type, None
        steps, key = _steps_of(content_type, part)
        name = None
        if CLAIM_CHECK in steps:
            data, name = self._fetch(data, part)
        if AES_GCM in steps:
            if not self.aes_gcm:
                raise CodecError(f"the {part} is encrypted with the key '{key}', and the codec has no keys")
            data = self.aes_gcm._decrypt(data, self._bound(part, [one for one in steps if one != CLAIM_CHECK], key), key, part)
        if GZIP in steps:
            data = _inflate(data, self.gzip.inflated if self.gzip else INFLATED_BYTES, part)
        if not data or len(data) <= data[0]:
            raise CodecError(f"the {part} is too short")
        try:
            return data[1 + data[0] :], data[1 : 1 + data[0]].decode(), name
        except UnicodeDecodeError:
            raise CodecError(f"the {part} has a bad content type") from None

    def delete_stored(self, job: Stored) -> None:
        """Deletes the stored body of an acked job, if it has one. A worker does this itself."""
        if job.stored_as and self.claim_check and self.claim_check.delete:
            self.claim_check.store.delete(job.stored_as)

    def _bound(self, part: str, steps: list[str], key: str) -> bytes:
        """The additional data that is authenticated."""
        return f"tarry-codec 1\n{part}\n{'+'.join(steps)}\n{key}\n{self.context}".encode()

    def _fetch(self, data: bytes, part: str) -> tuple[bytes, str]:
        if not self.claim_check:
            raise CodecError(f"the {part} is stored elsewhere, and the codec has no store")
        name = data.decode("latin-1")
        if not _NAME.fullmatch(name):
            raise CodecError(f"the {part} is stored elsewhere, but its name is not valid")
        try:
            found = self.claim_check.store.get(name)
        except Exception as fault:
            raise CodecError(f"the {part} is stored elsewhere as '{name}' and cannot be read: {fault}") from fault
        if found is None:
            raise CodecError(f"the {part} is stored elsewhere as '{name}', which the store does not have")
        return found, name


def is_encoded(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip() == ENCODED


def no_codec(content_type: str, part: str) -> CodecError:
    steps, _ = _steps_of(content_type, part)
    return CodecError(f"the {part} is encoded ({', '.join(steps)}), and the client has no codec")


def _steps_of(content_type: str, part: str) -> tuple[list[str], str]:
    """The steps in the order of their application, and the id of the key."""
    members = dict(one.strip().partition("=")[::2] for one in content_type.split(";")[1:])
    steps, key = members.get("steps", "").split("+"), members.get("key", "")
    if unknown := [one for one in steps if one not in ORDER]:
        raise CodecError(f"the {part} has the step '{unknown[0]}', which the codec does not have")
    if steps != [one for one in ORDER if one in steps] or (AES_GCM in steps) != bool(_KEY_ID.fullmatch(key)):
        raise CodecError(f"the content type of the {part} is not valid")
    return steps, key


def _inflate(data: bytes, most: int, part: str) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        out = reader.decompress(data, most + 1)
    except zlib.error:
        raise CodecError(f"the {part} is not valid gzip") from None
    if len(out) > most:
        raise CodecError(f"the {part} inflates to more than {most} bytes")
    if not reader.eof or reader.unused_data:
        raise CodecError(f"the {part} is not valid gzip")
    return out
