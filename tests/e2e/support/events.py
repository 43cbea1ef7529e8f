"""Reads messages by the official library of CloudEvents, in an environment of its own."""

import base64
import json
import subprocess

from pinned import environment
from server import REPO


def read_event(form, headers, body, content_type=None):
    """(attributes, data) of a message; the form is "http", "kafka" or "rabbitmq"."""
    message = {"form": form, "headers": headers, "type": content_type, "body": base64.b64encode(body).decode()}
    ended = subprocess.run([environment("events") / "bin" / "python", REPO / "tests" / "events" / "read.py"], input=json.dumps(message), capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    event = json.loads(ended.stdout)
    return event["attributes"], base64.b64decode(event["data"]) if event["is_bytes"] else event["data"]
