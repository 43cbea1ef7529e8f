"""The wings of the tested program, and the wings that tests need: tests of a missing wing are skipped."""

import json
import pathlib
import re
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[3]


def kinds_of_targets():
    """{kind: (title, plain scheme)} of the kinds that a build may lack, from the table of targets."""
    table = (REPO / "src/delivery/targets.txt").read_text(encoding="utf-8")
    return {kind: (title, scheme) for kind, title, scheme in re.findall(r"^([a-z]+) (\w+): ([a-z]+)", table, re.M) if kind != "http"}


PEERS = {"amqp": "rabbitmq", "stomp": "activemq", "mqtt": "mosquitto"}  # modules of this folder that have another name than the kind
NEEDS = {kind: re.compile(rf"from {PEERS.get(kind, kind)} import|import {PEERS.get(kind, kind)}\b") for kind in kinds_of_targets()} | {
    "redis": re.compile(r"start_redis|redis_servers|redis_serving|RedisServer"),
    "sql": re.compile(r"from postgres import|start_postgres|from mariadb import"),
    "beanstalk": re.compile(r"from beanstalk"),
    "schedules": re.compile(r"/v1/schedules|cli\(\"schedule\""),
    "sqs": re.compile(r"--sqs|from test_sqs"),
    "grpc": re.compile(r"from grpc_calls"),
    "mykit": re.compile(r"--mykit"),
    "traces": re.compile(r"from collector|import collector"),
    "http2": re.compile(r"from frames import|H2SPEC"),
    "jwt": re.compile(r"from issuer|import issuer"),
    "console": re.compile(r"/console/"),
    "delivery": re.compile(r"start_delivering|write_policy|\"--deliver\""),
}


def lacking(binary):
    """The names of what this build is without."""
    ended = subprocess.run([str(binary), "version", "--features", "--json"], capture_output=True, text=True, check=False, timeout=60)
    if ended.returncode != 0:  # an older one, which had all
        return set()
    return {name for name, is_built in json.loads(ended.stdout)["features"].items() if not is_built}


def is_left_out(path, lacks):
    """Does this file of tests need something of what the build lacks?"""
    text = path.read_text(encoding="utf-8") if lacks else ""
    return any(NEEDS[name].search(text) for name in lacks if name in NEEDS)
