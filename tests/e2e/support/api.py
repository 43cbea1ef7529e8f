"""The calls of openapi.yaml with their rights: the tests of access and audit are generated from these."""

import re

import yaml
from server import REPO

# Default values for the parts of a path.
WORDS = {"id": "1", "group": "g", "code": "not_found", "file": "main.js", "name": "late"}
# Bodies without which a call is not right.
BODIES = {"setTopic": b'{"max_attempts":3}', "patchTopic": b'{"max_attempts":4}',
          **dict.fromkeys(("cancelMany", "runMany"), b'{"ids":["1"]}'), "rescheduleMany": b'{"ids":["1"],"priority":5}'}

# Calls that name their topic in the query.
NAMES_TOPIC = {"takeAny", "load", "day", "silence", "silenceEnd"}


class Call:
    """An operation. `scope`: the word of its security; "" for any caller, None without authentication. `topics`: its x-tarry-topics."""

    def __init__(self, method, path, operation):
        self.method, self.path, self.name = method.upper(), path, operation["operationId"]
        self.scope = _scope(operation["security"])
        self.topics, self.audit = operation["x-tarry-topics"], operation.get("x-tarry-audit")
        self.statuses = set(operation["responses"])

    def __repr__(self):
        return self.name

    def target(self, topic="orders", **words):
        """`topic` is inserted as given: encoded, or on purpose not."""
        words = {**WORDS, **words, "topic": topic}
        path = re.sub(r"\{(\w+)\}", lambda found: words[found[1]], self.path)
        return path + (f"?topic={topic}" if self.name in NAMES_TOPIC else "")


def _scope(security):
    if not security:
        return None
    # The same scope by whichever way one proves oneself.
    scopes = {tuple(words) for way in security for words in way.values()}
    assert [list(way) for way in security] == [["token"], ["password"], ["certificate"]] and len(scopes) == 1, security
    words = scopes.pop()
    assert len(words) <= 1, security
    return words[0] if words else ""


def calls():
    paths = yaml.safe_load((REPO / "openapi.yaml").read_text(encoding="utf-8"))["paths"]
    return [Call(method, path, operation) for path, item in paths.items() for method, operation in item.items() if method != "parameters"]


CALLS = calls()
