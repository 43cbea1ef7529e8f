"""The wings of the tested program, and the wings that tests need: tests of a missing wing are skipped."""

import json
import re
import subprocess

NEEDS = {
    "redis": re.compile(r"start_redis|redis_servers|redis_serving|RedisServer"),
    "sql": re.compile(r"from postgres import|start_postgres|from mariadb import"),
    "beanstalk": re.compile(r"from beanstalk"),
    "kafka": re.compile(r"import kafka|from kafka"),
    "amqp": re.compile(r"from rabbitmq|import rabbitmq"),
    "stomp": re.compile(r"from activemq|import activemq"),
    "rocketmq": re.compile(r"import rocketmq|from rocketmq"),
    "sqs": re.compile(r"--sqs|from test_sqs"),
    "mykit": re.compile(r"--mykit"),
    "traces": re.compile(r"from collector|import collector"),
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
