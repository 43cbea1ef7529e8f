"""Shared parts of the measurements of push delivery: calls to a server, its policy file, the target without a server around it."""

import http.client
import json
import os
import subprocess


def call(server, method, path, body=None):
    """The body of the answer, which is a good one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    answer = reply.read()
    connection.close()
    if reply.status >= 300:
        raise RuntimeError(f"{method} {path}: {reply.status} {answer[:300]}")
    return answer


def acked(server, topic):
    return json.loads(call(server, "GET", f"/v1/topics/{topic}"))["totals"]["acked"]


def policy_file(directory, *lines):
    """Writes a policy that allows this machine, with more lines; returns its path."""
    path = os.path.join(directory, "policy")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write("\n".join(("allow-host = 127.0.0.1", "allow-network = 127.0.0.0/8", *lines, "")))
    return path


def target_alone(bench, core, policy, setting, *numbers):
    """Runs bench_target once and returns its results."""
    program = os.path.join(os.path.dirname(bench.generator), "bench_target")
    done = subprocess.run(["taskset", "-c", core, program, policy, json.dumps(setting), *map(str, numbers)], check=True, capture_output=True, text=True,
                          timeout=600)
    return json.loads(done.stdout)
