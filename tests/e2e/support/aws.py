"""
SQS and SNS by moto, behind a gate that checks each signature with botocore (tests/aws/peer.py).

    with Aws() as aws:
        aws.ask(do="queue", name="orders"); aws.receive("orders"); aws.sqs("orders"), aws.sns("news")
"""

import json
import urllib.request

from child import Child
from pinned import environment
from server import REPO

ACCOUNT, REGION = "123456789012", "eu-west-1"
KEY, SECRET = "AKIDTEST", "the/secret+of=tests"
SESSION_KEY, SESSION_SECRET, SESSION_TOKEN = "ASIATEST", "temporary/secret", "a-session-token//+="


class Aws(Child):
    NAME = "aws"

    def command(self):
        return [environment("aws") / "bin" / "python", REPO / "tests" / "aws" / "peer.py", str(self.port)]

    def is_ready(self):
        return self.ask(do="figures") is not None

    def ask(self, **what):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_test", json.dumps(what).encode(), timeout=60) as answer:
            return json.loads(answer.read())

    def receive(self, name):
        return self.ask(do="receive", name=name)

    @property
    def origin(self):
        return f"aws://127.0.0.1:{self.port}"

    def sqs(self, queue):
        return f"{self.origin}/{ACCOUNT}/{queue}"

    def sns(self, topic):
        return f"{self.origin}/arn:aws:sns:{REGION}:{ACCOUNT}:{topic}"

    def policy(self, key=KEY, secret=SECRET):
        return [f"credential = {self.origin} {key} {secret}"]
