"""A file of tokens of the test's own, and what its callers may do: a second opinion that shares no code with the server."""

import hashlib
import itertools
import os
import pathlib
import urllib.parse

SCOPES = ("push", "consume", "read", "admin")


class Token:
    """`secret` is what a client sends."""

    def __init__(self, name, scopes=SCOPES, topics=("*",), **words):
        self.name, self.scopes, self.topics, self.words = name, tuple(scopes), tuple(topics), words
        self.secret = "tarry_" + hashlib.sha256(f"secret of {name}".encode()).hexdigest()[:36]

    def __repr__(self):
        return self.name

    @property
    def headers(self):
        return {"Authorization": "Bearer " + self.secret}

    def line(self):
        words = {"created": "2026-01-01T00:00:00.000Z", "sha256": sha256(self.secret), **self.words}
        return f"token {self.name} scope={','.join(self.scopes)} topics={','.join(self.topics)} " + " ".join(f"{key}={value}" for key, value in words.items())

    def as_certificate(self):
        """The line by which a client certificate of that name is the same caller."""
        words = [f"certificate {self.name}.example", f"scope={','.join(self.scopes)}", f"topics={','.join(self.topics)}", "created=2026-01-01T00:00:00.000Z"]
        return " ".join(words)

    def may_use(self, topic):
        return any(topic == pattern or (pattern.endswith("*") and topic.startswith(pattern[:-1])) for pattern in self.topics)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


class TokenFile:
    """Written as `tarry token` does it: another file is put in its place."""

    serial = itertools.count()

    def __init__(self, path, *tokens):
        self.path = pathlib.Path(path)
        self.write(*tokens)

    def write(self, *tokens):
        new = self.path.with_suffix(f".{next(self.serial)}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write("".join((token if isinstance(token, str) else token.line()) + "\n" for token in tokens))
        new.rename(self.path)


def decoded(segment):
    """A segment of a path as the server reads it; None if it is invalid."""
    rest = segment.split("%")[1:]
    if any(len(part) < 2 or not all(digit in "0123456789abcdefABCDEF" for digit in part[:2]) for part in rest):
        return None
    return urllib.parse.unquote_to_bytes(segment).decode("latin-1")
