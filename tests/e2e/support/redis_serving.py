"""A server on Redis: a start that must fail, its description of itself, a job's whole life in it."""

import contextlib
import re
import subprocess

from client import job_path
from server import BINARY, REPO


def refused(*flags, env=None, seconds=60):
    """Starts a server whose start must fail; returns its message."""
    done = subprocess.run([str(BINARY), "serve", "--listen", "127.0.0.1:0", *flags], capture_output=True, text=True, check=False, timeout=seconds,
                          stdin=subprocess.DEVNULL, env=env)
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2) and "event=listening" not in output, output
    return output


def info(server):
    return server.client().call("GET", "/v1/info").json()


def metric(server, name, otherwise=None):
    """The value of a metric without labels; `otherwise`: of one that the server does not show."""
    with contextlib.closing(server.client()) as client:
        page = client.call("GET", "/metrics").body.decode()
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    if not found and otherwise is not None:
        return otherwise
    assert found, f"{name} is not in\n{page}"
    return float(found.group(1))


def ready(server):
    return server.client().call("GET", "/readyz").status


def works(server, topic="works"):
    """A whole life of a job; what it came with."""
    client = server.client()
    assert client.push(topic, "a", body=b"hello", delay="50ms")["result"] == "created"
    job = client.take(topic, wait="10s")[0]
    assert job["id"] == "a" and job["body"] == "hello"
    assert [answer["result"] for answer in client.ack(job["lease"])] == ["ok"]
    return job


def push_answer(server, topic, ident, timeout=60.0):
    """The reply as it is, also where it is a problem."""
    return server.client(timeout).call("PUT", job_path(topic, ident), b"x")


def shown(client):
    """Returns all that the API shows: topics, and each job with its history (except those of tarry's own topics, which change)."""
    out = {"topics": {topic["topic"]: topic for topic in client.topics()}, "jobs": {}}
    for name in out["topics"]:
        if name.startswith("tarry."):
            continue
        ids, cursor = [], None
        while True:
            page = client.list(name, limit=1000, cursor=cursor)
            ids += [job["id"] for job in page["jobs"]]
            cursor = page.get("cursor")
            if not cursor:
                break
        out["jobs"][name] = {ident: client.get(name, ident) for ident in ids}
    return out


# ---- the ACL rule of the documents ----

PAGE = (REPO / "docs/redis.md").read_text(encoding="utf-8")

def acl_rule(*more):
    """The rule of the documents, with what it adds for these: ["ACL", "SETUSER", …]."""
    [line] = re.findall(r"^(ACL SETUSER .*)$", PAGE, re.MULTILINE)
    return line.split() + [word for what in more for word in acl_more(what)]


def acl_more(what):
    [row] = re.findall(rf"^\| `?{re.escape(what)}[^|]*\| `(.*)` \|$", PAGE, re.MULTILINE)
    return row.replace("\\|", "|").split()


def denied(client):
    return {entry["object"].decode() if isinstance(entry["object"], bytes) else entry["object"] for entry in client.acl_log()}
